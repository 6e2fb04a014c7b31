"""Keeps docs/checks.md: of each check that is not run by every test its last outcome. usage: record_check.py COMMAND OUTCOME

A row is replaced by the command's next run; git keeps the history.
"""

import datetime
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "checks.md"
HEAD = """# Checks beside the tests

Written by `scripts/sanitize`, `scripts/fuzz` and `scripts/lint` whenever they have run: the last outcome of each.

| Command | Outcome | Commit | Date |
| --- | --- | --- | --- |
"""


def commit():
    """The commit that was checked, and whether the files differed from it."""
    def git(*command):
        return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{PAGE.relative_to(ROOT)}")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def record(command, outcome):
    rows = {}
    if PAGE.exists():
        for line in PAGE.read_text().splitlines():
            if line.startswith("| `"):
                rows[line.split("`")[1]] = line
    rows[command] = f"| `{command}` | {outcome} | {commit()} | {datetime.date.today().isoformat()} |"
    PAGE.write_text(HEAD + "".join(f"{rows[key]}\n" for key in sorted(rows)))


if __name__ == "__main__":
    record(*sys.argv[1:])
