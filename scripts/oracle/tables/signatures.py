"""NumPy's signature of every function, array method and ufunc method that docs/functions.md lists and NumPy has, for
tests/unit/apps/language/signature_test.cpp to compare with the function tables. What differs by decision is in
tests/oracle/signature_differences.txt.

A row is a name (of an array's method ".name") and its parameters: KIND NAME DEFAULT, where KIND is p (positional only),
a (positional or keyword), v (*args), k (keyword only) or w (**kwargs), and DEFAULT as Python writes it, - for none and ?
for NumPy's "<no value>". `self` and `like` are left out. What is missing here altogether has the parameter "missing".
"""
import inspect
import pathlib
import re

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[3]
KINDS = {"POSITIONAL_ONLY": "p", "POSITIONAL_OR_KEYWORD": "a", "VAR_POSITIONAL": "v", "KEYWORD_ONLY": "k", "VAR_KEYWORD": "w"}


def default(value):
    if value is inspect.Parameter.empty:
        return "-"
    if value is np._NoValue:
        return "?"
    if isinstance(value, np.bool):  # ma.nomask
        return repr(bool(value))
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
    return found, name.startswith(("random.Generator.", "ma.MaskedArray."))


def row(name):
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
    return [name, *texts]


def rows():
    page = (ROOT / "docs" / "functions.md").read_text()
    names = re.findall(r"^- `([\w.]+)\(", page, re.MULTILINE)
    names = [name[1:] if name.startswith("x.") else name for name in names]
    # random.gamma draws from the session's generator, with its parameters; NumPy's has those of RandomState.
    draws = {name.replace("Generator.", "") for name in names if name.startswith("random.Generator.")}
    yield from filter(None, map(row, sorted(set(names) - draws)))
    # NumPy's own that are missing here altogether.
    have = {name[1:] for name in names if name.startswith(".")}
    for method in sorted(n for n in dir(np.ndarray) if not n.startswith("_") and callable(getattr(np.ndarray, n)) and n not in have):
        yield [f".{method}", "missing"]
