"""Every C++ example of README.md, docs/ and the comments of headers compiles. usage: documents.py BUILD

An example is a ```cpp block of a page, or a paragraph of a header's comment whose lines begin with three spaces. One
whose text occurs in a source file of apps/ or tests/ is compiled there. Every other one is a fragment: it is compiled
inside a function, in the namespace of its header if it is a header's, after prelude.h, which declares the names (x, y,
n ...) that fragments take for granted. #include lines of a fragment go in front.
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
LAYERS = ("local", "comm", "io", "scheduler", "chunked")


def found(*patterns):
    return [str(path.relative_to(SOURCE)) for pattern in patterns for path in sorted(SOURCE.glob(pattern))]


def of_page(name):
    """(line, text) of every ```cpp block."""
    text = (SOURCE / name).read_text()
    for block in re.finditer(r"^```cpp\n(.*?)^```$", text, re.M | re.S):
        yield text.count("\n", 0, block.start(1)) + 1, block[1]


def of_header(name):
    """(line, text) of every paragraph of a comment whose lines all begin with three spaces."""
    lines = (SOURCE / name).read_text().splitlines()
    block, begin = [], 0
    for number, line in enumerate([*lines, ""], 1):
        code = re.fullmatch(r"\s*//   (\S.*| +\S.*)", line)
        if code:
            begin = begin or number
            block.append(code[1])
            continue
        ends_paragraph = re.fullmatch(r"\s*//", line) or not re.match(r"\s*//", line)
        if block and ends_paragraph and re.fullmatch(r"\s*//", lines[begin - 2]):
            yield begin, "\n".join(block) + "\n"
        block, begin = [], 0


def squeezed(text):
    return re.sub(r"\s+", "", text)


def namespace_of(header):
    """The first namespace that the header opens for more than declarations of internals."""
    opened = re.findall(r"^namespace ([\w:]+) \{", (SOURCE / header).read_text(), re.M)
    public = [name for name in opened if not name.endswith("detail")]
    return (public or [name.removesuffix("::detail") for name in opened] or ["quarry"])[0]


def program(fragments):
    """One source file of all fragments: (name, line, text, namespace)."""
    includes, functions = ['#include "tests/examples/prelude.h"'], []
    for number, (name, line, text, namespace) in enumerate(fragments):
        includes += re.findall(r"^#include .*", text, re.M)
        body = re.sub(r"^#include .*", "", text, flags=re.M)
        functions.append(
            f"namespace {namespace} {{\nvoid example_{number}(examples::Names& names) {{\n  QUARRY_EXAMPLE_NAMES\n  {{\n"
            f'#line {line} "{name}"\n{body}  }}\n}}\n}}\n'
        )
    return "\n".join([*dict.fromkeys(includes), *functions])


def command_of(build):
    """The command that compiles an example of apps/examples, up to its source."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if entry["file"].endswith("apps/examples/covariance.cpp"):
            words = shlex.split(entry["command"])
            return [word for word in words[: words.index("-o")] if word != "-O3"], entry["directory"]
    sys.exit("documents: apps/examples/covariance.cpp is not built here")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    compiled = {name: squeezed((SOURCE / name).read_text()) for name in found("apps/**/*.cpp", "tests/**/*.cpp")}
    fragments, quoted = [], 0
    for name in found("README.md", "docs/**/*.md"):
        for line, text in of_page(name):
            if any(squeezed(text) in source for source in compiled.values()):
                quoted += 1
            else:
                fragments.append((name, line, text, "pages"))
    for name in found(*(f"{layer}/**/*.h" for layer in LAYERS)):
        fragments += [(name, line, text, namespace_of(name)) for line, text in of_header(name)]
    command, directory = command_of(build)
    with tempfile.TemporaryDirectory(prefix="quarry_documents_") as folder:
        source = pathlib.Path(folder) / "documents.cpp"
        source.write_text(program(fragments))
        # Fragments leave results unused and shadow names of the prelude.
        done = subprocess.run([*command, f"-I{SOURCE}", "-Wno-unused", "-fsyntax-only", str(source)], cwd=directory, check=False)
    places = [f"{name}:{line}" for name, line, _, _ in fragments]
    print(f"documents: {len(fragments)} fragments {'compile' if done.returncode == 0 else 'do not all compile'}, {quoted} are quoted from sources", flush=True)
    print("  " + "\n  ".join(places))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
