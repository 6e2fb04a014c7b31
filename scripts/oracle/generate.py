#!/usr/bin/env python3
"""Writes the oracle: tests/oracle/CHAPTER.h5, what NumPy 2 and SciPy answer. format.py says what is in a file.

An answer that is stored stays as long as this machine's is the same but for rounding, and a file is written only when
its cases change. So the files depend neither on the processor nor on when they are made.

Needs Python 3.11 or later with h5py, ml_dtypes and the versions of NumPy and SciPy below; others may give other answers,
and --any-version takes them.
"""
import argparse
import importlib
import pathlib
import sys
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
VERSIONS = {"numpy": "2.4.6", "scipy": "1.17.1"}
try:
    import numpy as np

    import calls
    import expressions
    import format as files
except ImportError as error:
    sys.exit(f"{error}: pip install numpy=={VERSIONS['numpy']} scipy=={VERSIONS['scipy']} h5py ml_dtypes mpmath")
# Sections that are tables: chapter, section, module in tables/ (with the function that gives the rows, unless rows()).
TABLES = [
    ("inference", "inference", "inference"),
    ("language", "scalars", "python_scalars"),
    ("one_liners", "local", "one_liners"),
    ("one_liners", "chunked", "one_liners:chunked_rows"),
    ("printing", "printed", "printed_arrays"),
    ("signatures", "signatures", "signatures"),
    ("sparse", "sparse", "sparse"),
    ("ufuncs", "types", "ufunc_types"),
]


def chapters():
    """{chapter: {section: a function that makes its records}}."""
    found = {}
    for chapter in expressions.chapters():
        found.setdefault(chapter, {})["expressions"] = lambda chapter=chapter: expressions.records(chapter)
    for chapter in set(calls.CHAPTERS.values()):
        found.setdefault(chapter, {})["calls"] = lambda chapter=chapter: calls.records()[chapter]
    for chapter, section, module in TABLES:
        found.setdefault(chapter, {})[section] = lambda module=module: table(module)
    return dict(sorted(found.items()))


def table(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, _, function = module.partition(":")
        return [files.Row(row) for row in getattr(importlib.import_module(f"tables.{module}"), function or "rows")()]


def make(path, sections):
    """The sections' bytes, whether they are those of the file, and a line on it."""
    stored, _ = files.load(path)
    result, notes = {}, []
    for section, records in sorted(sections.items()):
        fresh = records()
        old = files.decode(section, stored[section]) if section in stored else []
        kept, rounded, new, gone = files.kept(fresh, old)
        result[section] = (files.encode if section in ("calls", "expressions") else files.encode_rows)(kept)
        changes = [f"{count} {what}" for count, what in [(new, "new"), (gone, "gone"), (rounded, "round otherwise here")] if count]
        notes.append(f"{len(kept)} {section}" + (f" ({', '.join(changes)})" if changes else ""))
    return result, result == stored, ", ".join(notes)


def show(path):
    """The file as text, to be read or compared."""
    sections, versions = files.load(path)
    print(f"{path}: {versions}")
    for section, data in sections.items():
        records = files.decode(section, data)
        print(f"{section}: {len(records)}")
        for record in records:
            if isinstance(record, files.Row):
                print("  " + "\t".join(record))
            else:
                print("  " + " ".join(repr(item) if type(item) is bytes else described(item) for item in record.items))


def described(array):
    dtype = files.dtype_of(files.DTYPES[array[0]])
    shape = tuple(np.frombuffer(array, "<i8", array[1], 2).tolist())
    values = np.frombuffer(array, dtype, offset=files.header_size(array))
    return f"[{dtype}{shape}: {' '.join(map(str, values.tolist()))}]"


def main():
    sections = chapters()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="chapters: " + " ".join(sections))
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="all by default")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not what would be written")
    parser.add_argument("--show", action="store_true", help="print the stored chapters as text")
    parser.add_argument("--any-version", action="store_true", help=f"with other libraries than {VERSIONS}")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE.parents[1] / "tests" / "oracle", help="a folder; tests/oracle by default")
    options = parser.parse_args()
    unknown = set(options.chapters) - set(sections)
    if unknown:
        parser.error(f"no such chapter: {' '.join(sorted(unknown))}; there are {' '.join(sections)}")
    wanted = options.chapters or list(sections)
    if options.show:
        for chapter in wanted:
            show(options.output / f"{chapter}.h5")
        return 0
    have = {"numpy": np.__version__}
    if "sparse" in wanted:
        have["scipy"] = importlib.import_module("scipy").__version__
    wrong = [f"{name} {version}, not {VERSIONS[name]}" for name, version in have.items() if version != VERSIONS[name]]
    if wrong and not options.any_version:
        print(f"the answers are those of other versions: here is {', '.join(wrong)} (--any-version takes it)", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    changed = 0
    for chapter in wanted:
        path = options.output / f"{chapter}.h5"
        data, same, note = make(path, sections[chapter])
        changed += not same
        if not same and not options.check:
            files.save(path, data, {name: have[name] for name in ["numpy", *(["scipy"] if chapter == "sparse" else [])]})
        print(f"{chapter}: {note}: {'as stored' if same else 'DIFFERS' if options.check else 'written'}")
    if not options.chapters and options.output.exists():
        for path in sorted(options.output.glob("*.h5")):
            if path.stem not in sections:
                changed += 1
                print(f"{path}: no such chapter")
    return 1 if changed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
