#!/usr/bin/env python3
"""What a program sees after including the headers of quarry is public, and nothing else. usage: public_names.py BUILD

Every name that stands directly in a namespace of quarry must be a function of docs/functions.md, occur on
docs/numpy.md, or stand in public_names.txt beside this file, with a reason. Names of the engine are in namespaces
called detail, which programs do not use (docs/adr/0024-internals-in-detail.md), or in headers that are not installed.
Every macro of an installed header begins with QUARRY_. A name of public_names.txt that is gone is an error too.

Names are those of clang's syntax tree. Exits with 77 where there is no clang++.
"""

import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path(__file__).with_name("public_names.txt")
OPENER = "local/base/detail.h"
INCLUDES = "#include <quarry/quarry.h>\n#include <quarry/local.h>\n"
# Their contents are not for programs.
CLOSED = {
    "detail",  # internals
    "ops",     # the functions of the expression language, which the public ones call: ADR 5 and ADR 18
}


def compiler():
    """clang++, by the name that the system gives it."""
    versions = sorted(pathlib.Path("/usr/bin").glob("clang++-[0-9]*"), reverse=True)
    return shutil.which("clang++") or next((str(path) for path in versions), None)


def run(command):
    done = subprocess.run(command, input=INCLUDES, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"public_names: {' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def declared(tree):
    """The qualified names, without quarry::, that stand directly in a namespace."""
    names = {line for line in tree.splitlines() if re.fullmatch(r'quarry(::[A-Za-z_]\w*)*(::operator""\w+)?', line)}
    text = "\n".join(path.read_text() for path in headers())
    namespaces = {"quarry"}
    for opened in re.findall(r"^ *(?:inline )?namespace ([\w:]+) \{", text, re.M):
        parts = opened.split("::")
        namespaces |= {"::".join(parts[: i + 1]) for i in range(len(parts))}
    # A header opens quarry::local at once and linalg inside of it: what is a namespace is known by its last name.
    last = {namespace.split("::")[-1] for namespace in namespaces}
    result = set()
    for name in names:
        *outer, own = name.split("::")
        is_parameter = re.fullmatch("[A-Z]", own)  # of a template
        if outer and set(outer) <= last and not CLOSED & set(outer) and not is_parameter:
            result.add("::".join([*outer, own]).removeprefix("quarry::"))
    return {name for name in result if name.split("::")[-1] not in CLOSED}


def headers():
    """The headers that the two of INCLUDES reach."""
    listed = run([CLANG, *FLAGS, "-M", "-"]).replace("\\\n", " ").split()
    return [path for path in map(pathlib.Path, listed) if "quarry" in path.parts and INCLUDE in path.parents]


def documented():
    """Names of functions, and of all that docs/numpy.md uses; without the namespace local."""
    functions = re.findall(r"^- `([\w.]+)\(", (SOURCE / "docs/functions.md").read_text(), re.M)
    known = {name.replace(".", "::") for name in functions}
    known |= {f"{namespace}::{name}" for name in known for namespace in ("ufunc", "ma")}
    for name in re.findall(r"\bq[ly]::([\w:]+)", (SOURCE / "docs/numpy.md").read_text()):
        parts = name.split("::")
        known |= {"::".join(parts[: i + 1]) for i in range(len(parts))}
    return known


def listed():
    """The names of public_names.txt: "NAMESPACE: NAME NAME ..." below a line "# reason"."""
    names, reason = set(), False
    for line in LIST.read_text().splitlines():
        if line.startswith("#"):
            reason = True
        elif line.strip():
            if not reason:
                sys.exit(f"public_names: {LIST.name}: no reason stands above '{line}'")
            namespace, _, own = line.rpartition(": ")
            prefix = namespace.removeprefix("quarry").removeprefix("::")
            names |= {f"{prefix}::{name}".removeprefix("::") for name in own.split()}
        else:
            reason = False
    return names


def main():
    seen, public = declared(run([CLANG, *FLAGS, "-fsyntax-only", "-Xclang", "-ast-list", "-"])), listed()
    known = documented()
    unknown = {name for name in seen if name.removeprefix("local::").removesuffix("_") not in known
               and name.removeprefix("local::") not in known}
    macros = {(path.name, macro) for path in headers() for macro in re.findall(r"^ *# *define (\w+)", path.read_text(), re.M)}
    problems = [f"{name}: is not documented. A name for users stands in docs/functions.md, docs/numpy.md or {LIST.name};"
                " another one belongs into a namespace detail" for name in sorted(unknown - public)]
    problems += [f"{name}: stands in {LIST.name} and is no name of quarry" for name in sorted(public - seen)]
    problems += [f"{name}: stands in {LIST.name} and is documented anyway" for name in sorted(public & (seen - unknown))]
    problems += [f"{header}: the macro {macro} does not begin with QUARRY_" for header, macro in sorted(macros)
                 if not macro.startswith("QUARRY_")]
    problems += [f"{OPENER} opens namespaces detail to every program: a header that is installed includes it"
                 for path in headers() if str(path).endswith(OPENER)]
    print("\n".join(problems) or f"public_names: {len(seen)} names, {len(public)} of them listed")
    return 1 if problems else 0


if __name__ == "__main__":
    CLANG = compiler()
    if CLANG is None:
        print("public_names: skipped, there is no clang++")
        sys.exit(77)
    INCLUDE = pathlib.Path(sys.argv[1]).resolve() / "include"
    FLAGS = ["-std=c++20", "-x", "c++", f"-I{INCLUDE}"]
    sys.exit(main())
