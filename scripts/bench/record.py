"""The one form in which benchmarks write what they measured, and how a row is judged.

    {"subject": "local", "machine": {"name", "cpu", "cores", "memory_gib", "gpu", "gpus"},
     "versions": {"quarry": commit, "compiler": ..., ...}, "command": ..., "date": "2026-11-22",
     "rows": [{"name", "size", "value", "unit", "better", "peer", "ceiling", "goal"}, ...]}

A value is in its base unit: s, B, B/s, FLOP/s, 1/s, or a noun for counts. `better` is "higher" or "lower". `peer` and `ceiling` are
{"name", "value"} in the row's unit, or null. `goal` is {"text", "value", "of"} or null: `of` says what the number bounds:
"value" (the default), "peer" or "ceiling", the times that quarry is as fast as it. `size` is a text or null. A row may have a
"commit" where it is of another one than the file, and a "note". Names are unique; what precedes ": " in a name is its group.
The pages of docs/performance are made of these files (scripts/performance_pages).
"""

import datetime
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = ("s", "B", "B/s", "FLOP/s", "1/s")
SLOWER = 0.97  # of the peer's speed: what counts as noise


def output_of(*command):
    """What a command prints, or nothing where it is not installed or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def machine(device="cpu"):
    """Of this machine, for the head of a table."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text(errors="replace")
    model = re.search(r"^(?:model name|CPU part)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    found = {
        "cpu": model[1] if model else os.uname().machine,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory[1]) / 2**20) if memory else None,
        "gpu": None,
        "gpus": 0,
    }
    if device == "cuda":
        gpus = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
        found |= {"gpu": gpus[0] if gpus else "unknown", "gpus": len(gpus)}
    return found


def commit_of(build):
    """The commit of the sources around a build folder; scripts/gpu --pack leaves it in a file of that name."""
    carried = pathlib.Path(build) / "commit"
    if carried.exists():
        return carried.read_text().strip()
    for folder in (build, ROOT):
        if found := output_of("git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"):
            return found
    return "unknown"


def compiler_of(build):
    """GCC's and clang's own words in the program: true of a build that was carried here too."""
    program = pathlib.Path(build) / "bin" / "quarry"
    found = re.search(rb"(GCC: \([^)\n]*\) [\d.]+|clang version [\d.]+)", program.read_bytes()) if program.exists() else None
    return found[1].decode() if found else None


def versions(build, device="cpu", **others):
    """Of quarry and what it was compared with; those that are not known are left out."""
    found = {"quarry": commit_of(build), "compiler": compiler_of(build)}
    if device == "cuda":
        release = re.search(r"release ([\d.]+)", output_of("nvcc", "--version") or output_of("/usr/local/cuda/bin/nvcc", "--version"))
        driver = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()
        found |= {"CUDA": release[1] if release else None, "driver": driver[0] if driver else None}
    return {name: text for name, text in (found | others).items() if text}


def rounded(value):
    """Five digits: more than any of these figures has."""
    return float(f"{value:.5g}")


def reference(name, value):
    """A peer or a ceiling; null where nothing was measured."""
    return None if value is None or not math.isfinite(value) or value <= 0 else {"name": name, "value": rounded(value)}


def goal(text, value, of="value"):
    return {"text": text, "value": rounded(value), "of": of}


def row(name, value, unit, better, *, size=None, peer=None, ceiling=None, goal=None, **others):
    return {"name": name, "size": size, "value": rounded(value), "unit": unit, "better": better, "peer": peer, "ceiling": ceiling, "goal": goal, **others}


def times_as_good(row, what):
    """How many times as fast (small, large) quarry is as the row's "peer" or "ceiling"; None without one."""
    other = row[what]
    if not other or not row["value"]:
        return None
    return other["value"] / row["value"] if row["better"] == "lower" else row["value"] / other["value"]


def is_met(row):
    """Whether the row meets its goal; None without a goal or what it compares with."""
    if not row["goal"]:
        return None
    bound, of = row["goal"]["value"], row["goal"].get("of", "value")
    if of == "value":
        return row["value"] <= bound if row["better"] == "lower" else row["value"] >= bound
    share = times_as_good(row, of)
    return None if share is None else share >= bound


def percent(share):
    return f"{share * 100:.0f} %"


def quantity(value, unit):
    """A value for people: 4 digits at most, a prefix where the unit takes one."""
    if unit == "s":
        scale, name = next((s for s in ((1, "s"), (1e-3, "ms")) if value >= s[0]), (1e-6, "us"))
        if value >= 600:
            return f"{int(value) // 60} min {int(value) % 60} s"
    elif unit == "B":
        scale, name = next((s for s in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")) if value >= s[0]), (1, "B"))
    elif unit in ("B/s", "FLOP/s", "1/s"):
        scale, prefix = next((s for s in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if value >= s[0]), (1, ""))
        name = prefix + unit if unit != "1/s" else f"{ {'T': 'trillion', 'G': 'billion', 'M': 'million'}.get(prefix, '')} per second".strip()
    else:
        scale, name = 1, unit
    number = value / scale
    digits = f"{number:.0f}" if number >= 1000 else f"{number:.4g}"
    return f"{digits} {name}"


def problems_of(record):
    """What is not of the form above, as sentences."""
    found = [f"no {key}" for key in ("subject", "machine", "versions", "command", "date", "rows") if not record.get(key)]
    if found:
        return found
    if "quarry" not in record["versions"]:
        found.append("versions name no commit of quarry")
    names = set()
    for entry in record["rows"]:
        name = entry.get("name")
        missing = [key for key in ("name", "size", "value", "unit", "better", "peer", "ceiling", "goal") if key not in entry]
        if missing:
            found.append(f"row {name}: no {', '.join(missing)}")
            continue
        if name in names:
            found.append(f"row {name} stands twice")
        names.add(name)
        if not isinstance(entry["value"], (int, float)) or not math.isfinite(entry["value"]):
            found.append(f"row {name}: {entry['value']} is no number")
        if entry["better"] not in ("higher", "lower"):
            found.append(f"row {name}: better is {entry['better']}, not higher or lower")
        for key in ("peer", "ceiling"):
            if entry[key] is not None and not (entry[key].get("name") and entry[key].get("value", 0) > 0):
                found.append(f"row {name}: its {key} has no name or no positive value")
        aim = entry["goal"]
        if aim is not None and ("text" not in aim or "value" not in aim or aim.get("of", "value") not in ("value", "peer", "ceiling")):
            found.append(f"row {name}: its goal has no text, no value or an unknown `of`")
    return found


def text_of(record):
    """JSON with a row a line: differences are read in git."""
    head = {key: value for key, value in record.items() if key != "rows"}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = ",\n".join("  " + json.dumps(entry) for entry in record["rows"])
    return "{\n" + "\n".join(lines) + '\n "rows": [\n' + rows + "\n ]\n}\n"


def merged(old, new):
    """`new` in which rows that only `old` has stay, in their order, with the commit that they are of."""
    if (old["subject"], old["machine"]) != (new["subject"], new["machine"]):
        raise SystemExit(f"--merge: the file is of {old['subject']} on {old['machine']}, not of {new['subject']} on {new['machine']}")
    fresh = {entry["name"]: entry for entry in new["rows"]}
    kept = {"commit": old["versions"]["quarry"]} if old["versions"]["quarry"] != new["versions"]["quarry"] else {}
    rows = [fresh.pop(entry["name"]) if entry["name"] in fresh else kept | entry for entry in old["rows"]]
    return new | {"rows": rows + list(fresh.values())}


class Recorder:
    """Collects the rows of one run and writes them, as often as asked: a run that is cut short leaves what it has."""

    def __init__(self, subject, options, device="cpu", **peers):
        """`options` are the parsed arguments with those of add_arguments() and `build`; `peers` names the versions compared with."""
        self.path, self.merge = options.json, options.merge
        self.record = {
            "subject": subject,
            "machine": machine(device),
            "versions": versions(options.build, device, **peers),
            "command": shlex.join([os.path.relpath(os.path.abspath(sys.argv[0]), ROOT), *command_words(sys.argv[1:])]),
            "date": datetime.date.today().isoformat(),
            "rows": [],
        }
        self.old = json.loads(pathlib.Path(self.path).read_text()) if self.path and self.merge and os.path.exists(self.path) else None

    def add(self, *arguments, **named):
        self.record["rows"].append(row(*arguments, **named))
        return self.record["rows"][-1]

    def write(self):
        if not self.path or not self.record["rows"]:
            return
        whole = merged(self.old, self.record) if self.old else self.record
        if problems := problems_of(whole):
            raise SystemExit("\n".join(problems))
        partial = pathlib.Path(f"{self.path}.writing")
        partial.write_text(text_of(whole))
        partial.rename(self.path)


PLACES = ("--json", "--build", "--data", "--peer-path")


def command_words(words):
    """A command's arguments without the paths of this machine: where the build and the peer lie and where the record goes."""
    kept, skip = [], False
    for word in words:
        if skip or word == "--merge":
            skip = False
        elif word in PLACES:
            skip = True
        elif not word.startswith(tuple(f"{place}=" for place in PLACES)):
            kept.append(os.path.basename(word) if word.startswith("/") else word)
    return kept


def add_arguments(parser, build=str(ROOT / "build")):
    """The arguments that every benchmark has."""
    parser.add_argument("--build", default=build, help="folder of the build")
    parser.add_argument("--json", metavar="FILE", help="write the rows to this file (scripts/bench/record.py says how)")
    parser.add_argument("--merge", action="store_true", help="keep the rows that FILE has and this run does not measure")


def note_of(entry):
    """Peer, ceiling and goal of a row for the terminal."""
    parts = []
    for what in ("peer", "ceiling"):
        if share := times_as_good(entry, what):
            text = f"{share:.2f} times" if what == "peer" else f"{percent(share)} of"
            parts.append(f"{text} {entry[what]['name']} ({quantity(entry[what]['value'], entry['unit'])})")
    met = is_met(entry)
    if entry["goal"]:
        parts.append(f"goal {entry['goal']['text']}" + ("" if met is None else ": met" if met else ": missed"))
    return "; ".join(parts + ([entry["note"]] if entry.get("note") else []))


def show(entry, width=56):
    size = f", {entry['size']}" if entry["size"] else ""
    print(f"{entry['name'] + size:{width}} {quantity(entry['value'], entry['unit']):>16}  {note_of(entry)}", flush=True)
