"""Lists the cases of a test program for ctest: a GoogleTest program, or a unittest program in Python.

usage: discover.py PROGRAM NAME OUTPUT [options] [-- LAUNCHER...]

OUTPUT is a file that ctest includes. Starting a process for each of thousands of small cases would cost more than the
cases do, so ctest gets one entry for each suite and kind of device, NAME.SUITE or NAME.SUITE.DEVICE. Cases that take
long are not among them: each pattern of --slow-cases that matches some makes an entry of these. With --whole the
program is one entry, NAME. `ctest -C cases` knows every case by itself, by its full name.

Every entry has the label cpu, gpu or mpi (--label; cases on CUDA devices are gpu) and the label fast or slow.
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys

TIMEOUTS = {"fast": 300, "slow": 900}  # seconds, on a machine that does other work as well


def googletest_cases(program):
    """[(suite, case)] by their full names."""
    listed = subprocess.run([program, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout
    suite, found = "", []
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if re.fullmatch(r"\S+\.", name):
            suite = name[:-1]
        elif re.fullmatch(r"  \S+", name):
            found.append((suite, name.strip()))
    return found


def unittest_cases(program):
    suite, found = "", []
    for kind, name in re.findall(r"^(class|    def) (\w+)", pathlib.Path(program).read_text(), re.MULTILINE):
        if kind == "class":
            suite = name
        elif name.startswith("test"):
            found.append((suite, name))
    return found


def device_of(suite, case):
    words = re.split(r"[/_]", case.partition("/")[2])
    if re.search(r"Cuda|OnAGpu", f"{suite}.{case}"):
        words.append("cuda")
    return next((device for device in ("cuda", "emulated", "cpu") if device in words), "")


def plain(suite):
    """PREFIX/SUITE of a parameter and SUITE/NUMBER of a type without the rest."""
    return next((part for part in reversed(suite.split("/")) if not part.isdigit()), suite)


def named_by(pattern):
    """Of a pattern PREFIX/SUITE.CASE/PARAMETER the words that it names."""
    suite, _, case = pattern.partition(".")
    number = [part for part in suite.split("/") if part.isdigit()]
    return [word.strip("*_") for word in [plain(suite), *number, *case.split("/")] if word.strip("*_")]


def grouped(cases, name, slow, by_device):
    """{(entry, device, speed): full names of its cases}."""
    groups = {}
    for suite, case in cases:
        full = f"{suite}.{case}"
        pattern = next((pattern for pattern in slow if fnmatch.fnmatchcase(full, pattern)), None)
        device = device_of(suite, case) if by_device else ""
        parts = named_by(pattern) if pattern else [plain(suite)]
        if device and not any(device in part.split("_") for part in parts):
            parts.append(device)
        groups.setdefault((".".join([name, *parts]), device, "slow" if pattern else "fast"), []).append(full)
    fast = {entry for entry, _, speed in groups if speed == "fast"}
    return {(f"{entry}.slow" if speed == "slow" and entry in fast else entry, device, speed): full
            for (entry, device, speed), full in groups.items()}


def quoted(text):
    return f"[==[{text}]==]"


class Entries:
    """CMake's text of entries."""

    def __init__(self, options):
        self.options = options
        self.python = options.program.endswith(".py")

    def entry(self, name, cases, device, speed):
        """`cases`: None for all of the program."""
        options = self.options
        environment = list(options.environment)
        if self.python:
            command = [*options.launcher, options.program, *(cases or [])]
        else:
            report = pathlib.Path(options.results) / (re.sub(r"[^\w.-]", "_", name) + ".xml")
            environment.append(f"GTEST_OUTPUT=xml:{report}")
            command = [*options.launcher, options.program, *(["--gtest_filter=" + ":".join(cases)] if cases else [])]
        properties = {
            "LABELS": f"{'gpu' if device == 'cuda' and options.label == 'cpu' else options.label};{speed}",
            "TIMEOUT": options.timeout or TIMEOUTS[speed],
            "COST": 100 if speed == "slow" else 1,  # those that take long begin first
            "ENVIRONMENT": ";".join(environment),
            "PROCESSORS": options.processors,
            "SKIP_RETURN_CODE": options.skip_return_code,
        }
        pairs = " ".join(f"{key} {quoted(value)}" for key, value in properties.items() if value)
        return f"add_test({quoted(name)} {' '.join(map(quoted, command))})\nset_tests_properties({quoted(name)} PROPERTIES {pairs})\n"

    def text(self):
        options = self.options
        cases = (unittest_cases if self.python else googletest_cases)(options.program)
        slow = []
        if options.slow_cases:
            lines = (line.split("#")[0].strip() for line in pathlib.Path(options.slow_cases).read_text().splitlines())
            slow = [line for line in lines if line]
        groups = grouped(cases, options.name, slow, by_device=options.label == "cpu")
        if options.whole:
            entries = self.entry(options.name, None, "", options.whole)
        else:
            entries = "".join(self.entry(entry, full, device, speed) for (entry, device, speed), full in groups.items())
        single = "".join(self.entry(f"{options.name}.{full}", [full], device, options.whole or speed)
                         for (_, device, speed), names in groups.items() for full in names)
        return f'if(CTEST_CONFIGURATION_TYPE STREQUAL "cases")\n{single}else()\n{entries}endif()\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for positional in ["program", "name", "output"]:
        parser.add_argument(positional)
    parser.add_argument("--label", default="cpu", choices=["cpu", "gpu", "mpi"])
    parser.add_argument("--whole", choices=["fast", "slow"], help="one entry for the program, with this label")
    parser.add_argument("--slow-cases", help="a file of patterns")
    parser.add_argument("--results", help="a folder for GoogleTest's reports")
    parser.add_argument("--environment", nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--timeout", type=int, help=f"seconds; by default {TIMEOUTS}")
    parser.add_argument("--processors", type=int)
    parser.add_argument("--skip-return-code", type=int)
    divider = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:divider])
    options.launcher = sys.argv[divider + 1:]
    pathlib.Path(options.output).write_text(Entries(options).text())


if __name__ == "__main__":
    main()
