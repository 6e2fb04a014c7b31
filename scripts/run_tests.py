"""Runs ctest and sums up: every GoogleTest case and every other test once, skips with their reasons.

Fails on a failing test and on a skip that tests/allowed_skips.txt does not list. Where few tests fail, each is run once
more with nothing beside it: one that passes then counts as passed, and is named with what it said when it failed. Many
tests start several processes and wait for them; on a loaded machine one can be late.
usage: run_tests.py BUILD_DIR [--list] [ctest options]     scripts/test --help says more
"""

import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

EACH_CASE = ["-C", "cases"]  # tests/discover.py


def allowed_skips(path):
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def failures_in(output):
    """Of a failed test's output what is about its failures: all of it but GoogleTest's cases that passed or were skipped."""
    kept, case = [], []
    for line in output.splitlines():
        case.append(line)
        if re.match(r"\[ +(OK|SKIPPED) +\]", line):
            case = []
        elif re.match(r"\[ +FAILED +\]", line):
            kept += case
            case = []
        elif re.match(r"\[[-=]+\]", line):
            case = []
    kept += case
    return "\n".join(kept[-400:])


def known(build, options):
    """What ctest knows: name and labels of each test."""
    shown = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1", *options], check=True, capture_output=True, text=True).stdout
    for test in json.loads(shown[shown.index("{"):])["tests"]:
        labels = next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
        yield test["name"], labels


MOST_AGAIN = 3  # failing tests that may be the machine's doing


def run(build, junit, environment, options):
    command = ["ctest", "--test-dir", str(build), "--timeout", "900", "--no-tests=error", "--output-junit", str(junit), *options]
    return subprocess.run(command, env=environment).returncode


def failing(junit):
    """The tests of a run that failed, and of each what its output says about that."""
    for case in xml.parse(junit).getroot().iter("testcase"):
        if case.get("status") == "fail":
            yield case.get("name"), failures_in(case.findtext("system-out") or "")


def reports_of(results):
    """The stem and the cases of each GoogleTest report."""
    for file in sorted(results.glob("*.xml")):
        yield file.stem, list(xml.parse(file).getroot().iter("testcase"))


def main():
    build, options = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    if "--list" in options:
        options.remove("--list")
        for name, labels in known(build, [*options, *EACH_CASE]):
            print(f"{name}  {' '.join(labels)}")
        return 0
    if options and not any(known(build, options)) and any(known(build, [*options, *EACH_CASE])):
        options += EACH_CASE

    source = pathlib.Path(__file__).resolve().parent.parent
    results = build / "test-results"
    results.mkdir(exist_ok=True)
    for old in results.glob("*.xml"):
        old.unlink()
    environment = dict(os.environ)
    environment.setdefault("QUARRY_TEST_DATA", str(source.parent / "shared" / "data"))
    junit = results / "ctest.junit"
    status = run(build, junit, environment, ["--parallel", str(os.cpu_count()), *options])
    outputs = list(failing(junit))
    unsteady = []
    if 0 < len(outputs) <= MOST_AGAIN:
        again = results / "again.junit"
        exactly = "|".join(re.escape(name) for name, _ in outputs)
        configuration = [part for i, part in enumerate(options) if part == "-C" or options[i - 1 : i] == ["-C"]]
        print("\nonce more, one at a time:", flush=True)
        status = run(build, again, environment, [*configuration, "-R", f"^({exactly})$"])
        still = {name for name, _ in failing(again)}
        unsteady = [name for name, _ in outputs if name not in still]

    passed, failed, skipped = 0, [], []
    reported = set()
    for stem, cases in reports_of(results):
        reported.add(stem)
        for case in cases:
            name = f"{case.get('classname')}.{case.get('name')}"
            if case.get("result") == "skipped" or case.find("skipped") is not None:
                message = case.find("skipped")
                skipped.append((name, (message.get("message", "") if message is not None else "").strip().split("\n")[-1]))
            elif case.find("failure") is not None:
                failed.append(name)
            elif case.get("status") == "run":
                passed += 1
    for case in xml.parse(junit).getroot().iter("testcase"):
        if case.get("status") == "fail" and case.get("name") not in unsteady:
            failed.append(f"ctest {case.get('name')}")
        elif case.get("status") in ("notrun", "disabled") or case.find("skipped") is not None:
            skipped.append((f"ctest {case.get('name')}", "not run"))
        elif re.sub(r"[^\w.-]", "_", case.get("name")) not in reported:
            passed += 1

    allowed = allowed_skips(source / "tests" / "allowed_skips.txt")
    unexpected = [name for name, _ in skipped if not any(fnmatch.fnmatch(name, pattern) for pattern in allowed)]
    print()
    for name, reason in skipped:
        print(f"skipped: {name}: {reason}")
    for name, output in outputs:
        print(f"--- output of {name}\n{output}")
    for name in unsteady:
        print(f"failed, then passed alone: {name}")
    for name in failed:
        print(f"failed: {name}")
    for name in unexpected:
        print(f"skipped but not listed in tests/allowed_skips.txt: {name}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if status or failed or unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
