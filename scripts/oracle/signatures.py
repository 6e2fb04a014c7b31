#!/usr/bin/env python3
"""Writes tests/oracle/signatures.txt: NumPy's signature of every function, array method and ufunc method that
docs/functions.md lists and NumPy has, for tests/unit/apps/expression/signature_test.cpp to compare with the function
tables. What differs by decision is in tests/oracle/signature_differences.txt.

Needs NumPy >= 2.4. usage: scripts/oracle/signatures.py

A line is a name (of an array's method ".name") and, behind tabs, its parameters: KIND NAME DEFAULT, where KIND is p
(positional only), a (positional or keyword), v (*args), k (keyword only) or w (**kwargs), and DEFAULT as Python writes
it, - for none and ? for NumPy's "<no value>". `self` and `like` are left out.
"""
import inspect
import pathlib
import re
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = {"POSITIONAL_ONLY": "p", "POSITIONAL_OR_KEYWORD": "a", "VAR_POSITIONAL": "v", "KEYWORD_ONLY": "k", "VAR_KEYWORD": "w"}


def default(value):
    if value is inspect.Parameter.empty:
        return "-"
    if value is np._NoValue:
        return "?"
    if isinstance(value, type):
        return f"dtype('{np.dtype(value).name}')"
    return repr(value)


def find(name):
    """The object that NumPy has by the name, and whether its first parameter is `self`."""
    if name.startswith("."):
        return getattr(np.ndarray, name[1:], None), True
    found = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found, name.startswith("random.Generator.")


def line(name):
    if name in ("dtype", "str", "repr"):  # Python's
        return None
    found, method = find(name)
    if found is None or not callable(found):
        return None
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except ValueError:  # built in, without a signature
        return None
    texts = []
    for parameter in parameters[1:] if method else parameters:
        if parameter.name != "like":
            texts.append(f"{KINDS[parameter.kind.name]} {parameter.name} {default(parameter.default)}")
    return "\t".join([name, *texts])


def main():
    page = (ROOT / "docs" / "functions.md").read_text()
    names = re.findall(r"^- `([\w.]+)\(", page, re.MULTILINE)
    names = [name[1:] if name.startswith("x.") else name for name in names]
    lines = [text for text in map(line, sorted(set(names))) if text]
    # NumPy's own that are missing here altogether.
    have = {name[1:] for name in names if name.startswith(".")}
    for method in sorted(n for n in dir(np.ndarray) if not n.startswith("_") and callable(getattr(np.ndarray, n)) and n not in have):
        lines.append(f".{method}\tmissing")
    path = ROOT / "tests" / "oracle" / "signatures.txt"
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: {len(lines)} signatures of NumPy {np.__version__}")


if __name__ == "__main__":
    sys.exit(main())
