"""The table of scripts/bench/chunked for data in the memory of GPUs, in that of the host, and in files in the page cache."""

import pathlib
import subprocess
import sys
import time

import chunked_gpu_rows
import programs
import record
from chunked_gpu_rows import digest, made
from chunked_sides import HERE, Failed, Quarry, Side, difference, results_of

CALLS = 7  # after one that compiles and takes memory
MEMORY = "45%"  # of a GPU for quarry: the peer has arrays of its own


def median_of(seconds):
    return sorted(seconds[1:])[(len(seconds) - 1) // 2]


class GpuTable:
    def __init__(self, options, recorder, scratch):
        self.options, self.recorder, self.scratch = options, recorder, pathlib.Path(scratch)
        self.elements = chunked_gpu_rows.ELEMENTS[options.size]
        self.peer = Side([sys.executable, HERE / "chunked_cupy.py", options.device], programs.environment())
        self.cuda = options.device == "cuda"
        self.wrong = []
        self.rates = {}

    def quarry(self, ranks=1, **settings):
        return Quarry(self.options.build, {"QUARRY_DEVICE": self.options.device, "QUARRY_MEMORY": MEMORY if self.cuda else "512MiB"} | settings, ranks=ranks)

    def ours(self, side, row):
        """Median seconds of the row."""
        limit = self.options.row_limit
        side.ask("clear")
        for name, (recipe, shape) in row.arrays(self.elements).items():
            side.ask("keep", name, made(recipe, shape), limit=limit)
        for name, expression in row.setup:
            side.ask("set", name, expression)
        request = ("persist", row.expression, CALLS) if row.kept else ("value", row.expression, CALLS, "")
        return median_of(side.ask(*request, limit=limit)["seconds"])

    def check(self, side, row, request, what):
        """Raises Failed where the peer's values are others than those that quarry wrote."""
        path = self.scratch / "theirs.npz"
        self.peer.ask(request, row.name, path, limit=self.options.row_limit)
        if problem := difference(results_of(self.scratch / "ours.h5"), results_of(path), row.tolerance):
            raise Failed(f"{what}: {problem}")

    def write_values(self, side, row):
        path = self.scratch / "ours.h5"
        path.unlink(missing_ok=True)
        expression = row.expression
        if row.kept:
            digests = [digest(row, result) for result in row.results()]
            expression = f"({', '.join(digests)})" if len(digests) > 1 else digests[0]
        side.ask("value", expression, 1, path, limit=self.options.row_limit)

    def theirs(self, side, row):
        """Seconds by CuPy and by hand, None where there are none. Raises Failed where values differ."""
        limit = self.options.row_limit
        self.peer.ask("arrays", row.name, self.elements, limit=limit)
        self.write_values(side, row)
        found = {"eager": None, "hand": None}
        for way, wanted in (("eager", True), ("hand", row.by_hand and self.cuda)):
            if not wanted:
                continue
            try:
                self.check(side, row, "values" if way == "eager" else "hand-values", "CuPy" if way == "eager" else "by hand")
                if self.cuda:
                    found[way] = median_of(self.peer.ask(way, row.name, CALLS, limit=limit)["seconds"])
            except Failed as error:
                if "differs" in str(error) or "shape" in str(error) or "NaN" in str(error):
                    raise
                print(f"{row.name}: {way}: {error}", file=sys.stderr)
        return found["eager"], found["hand"]

    def measure(self, side, row):
        moved = row.moved_bytes(self.elements)
        try:
            ours = self.ours(side, row)
            eager, hand = self.theirs(side, row)
        except Failed as error:
            self.wrong.append(f"{row.name}: {error}")
            print(f"{row.name:56} failed: {error}", flush=True)
            return
        ceiling, what = None, ""
        if row.ceiling == "passes" and self.cuda:
            ceiling, what = record.reference("passes at the copy rate", moved / self.rates["copy"]), f"{row.passes:g} passes at the copy rate"
        elif hand:
            ceiling, what = record.reference("kernels by hand", hand), "kernels by hand"
        goal = record.goal(f"{record.percent(row.least)} of {what}", row.least, "ceiling") if ceiling else record.goal("not slower than CuPy", 1, "peer")
        self.add(row.name, ours, size=record.quantity(moved, "B") if moved else None, peer=record.reference("CuPy", eager), ceiling=ceiling, goal=goal)
        if row.faster and eager:
            goal = record.goal(f"{row.faster:g} times CuPy", row.faster, "peer")
            self.add(f"{row.name}, beside CuPy", ours, peer=record.reference("CuPy", eager), goal=goal)

    def add(self, name, seconds, **columns):
        record.show(self.recorder.add(name, seconds, "s", "lower", **columns))
        self.recorder.write()

    def one_gpu(self, rows, over):
        side = self.quarry()
        for row in rows:
            if over():
                print(f"{row.name:56} left out: --limit")
            else:
                self.measure(side, row)
        side.close()

    def several(self, rows, over):
        """The same rows on one and on several GPUs."""
        ranks, alone = self.options.ranks, {entry["name"]: entry["value"] for entry in self.recorder.record["rows"]}
        side = self.quarry(ranks)
        for row in rows:
            if over() or row.name not in alone:
                continue
            try:
                seconds = self.ours(side, row)
            except Failed as error:
                self.wrong.append(f"{ranks} GPUs: {row.name}: {error}")
                continue
            goal = record.goal(f"{0.9 * ranks:g} times one GPU", 0.9 * ranks, "peer")
            self.add(f"{ranks} GPUs: {row.name}", seconds, peer=record.reference("one GPU", alone[row.name]), goal=goal)
        side.close()

    def from_host(self):
        """What lies in the memory of the host, and in a file in the page cache."""
        count = self.elements
        budget = 8 * count // 8
        recipe = made(chunked_gpu_rows.FRACTIONS, (count,))
        side = self.quarry(QUARRY_MEMORY=f"{max(budget, 64 << 20)}", QUARRY_HOST_MEMORY=f"{10 * count + (256 << 20)}")
        side.ask("keep", "x", recipe, limit=self.options.row_limit)
        seconds = median_of(side.ask("value", "sum(x * 2 + 1)", CALLS, "", limit=self.options.row_limit)["seconds"])
        goal = record.goal("85 % of the wire", 0.85, "ceiling")
        wire = self.rates.get("to_device")
        self.add("sum(x * 2 + 1) from host memory", seconds, size=record.quantity(8 * count, "B"),
                 ceiling=record.reference("pinned memory to the device", (8 * count - budget) / wire if wire else None), goal=goal)  # fmt: skip
        side.close()
        side = self.quarry()
        path = self.scratch / "x.h5"
        side.ask("store", made(chunked_gpu_rows.FRACTIONS, (count // 2,)), 1, path, "", limit=self.options.row_limit)
        side.ask("open", "x", path, "/result")
        seconds = median_of(side.ask("value", "sum(x * 2 + 1)", CALLS, "", limit=self.options.row_limit)["seconds"])
        pread = max(float(subprocess.check_output([f"{self.options.build}/bin/bench_pread", path, str(threads), str(1 << 22)])) for threads in (4, 8))
        self.add("sum(x * 2 + 1) from a file in the page cache", seconds, size=record.quantity(4 * count, "B"),
                 ceiling=record.reference("the slower of pread and the wire", 4 * count / min(pread, wire or pread)), goal=goal)  # fmt: skip
        side.close()


def gpu_table(options, recorder, scratch):
    table = GpuTable(options, recorder, scratch)
    begin = time.monotonic()

    def over():
        return time.monotonic() - begin > options.limit

    recorder.record["versions"] |= table.peer.ask("versions", limit=120)
    if table.cuda:
        table.rates = table.peer.ask("rates", 8 << 30)
        record.show(recorder.add("ceiling: copy on the device, read and written", table.rates["copy"], "B/s", "higher"))
        record.show(recorder.add("ceiling: pinned memory to the device", table.rates["to_device"], "B/s", "higher"))
    rows = [row for row in chunked_gpu_rows.ROWS if options.only in row.name]
    table.one_gpu(rows, over)
    if options.ranks > 1:
        table.several(rows, over)
    table.peer.close()
    if not over() and options.only in "sum(x * 2 + 1) from host memory":
        try:
            table.from_host()
        except (Failed, OSError, subprocess.SubprocessError) as error:
            table.wrong.append(f"from the host: {error}")
    return table.wrong
