"""What a rank's memory budget bounds: the resident size of every command, what is spilled, what waits."""

import json
import os
import pathlib
import re
import subprocess
import sys

import h5py
import numpy as np
from support import QUARRY, TIMEOUT, CliTest, main

MIB = 1 << 20
# What a process has beside the budget: programs and libraries, threads' stacks, the graph, HDF5's caches.
BESIDE = 100 * MIB
# Runs a command and writes its peak resident KiB and its status to a file: a program begins with the peak of the process
# that starts it, and this one is small.
MEASURE = "import os,sys; p=os.spawnvp(os.P_NOWAIT,sys.argv[2],sys.argv[2:]); _,s,u=os.wait4(p,0); open(sys.argv[1],'w').write(f'{u.ru_maxrss} {os.waitstatus_to_exitcode(s)}')"


class Budget(CliTest):
    def setUp(self):
        super().setUp()
        self.env = dict(os.environ, QUARRY_SPILL_DIR=str(self.dir))

    def peak(self, *arguments, status=0):
        """Peak resident bytes of the command, which must end with the status, and its error messages."""
        command = [QUARRY, *map(str, arguments)]
        found = self.path("peak")
        done = subprocess.run(
            [sys.executable, "-S", "-E", "-c", MEASURE, found, *command],
            cwd=self.dir,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        peak, ended = map(int, pathlib.Path(found).read_text().split())
        self.assertEqual(ended, status, f"{arguments}\n{done.stdout}{done.stderr}")
        return peak * 1024, done.stderr

    def data(self, name, rows, columns, chunks=None, dtype="f8", **options):
        """A file of random numbers, written in pieces."""
        random = np.random.default_rng(len(name))
        with h5py.File(self.path(name), "w") as file:
            x = file.create_dataset("x", (rows, columns), dtype, chunks=chunks, **options)
            step = max(1, (8 * MIB) // (columns * x.dtype.itemsize))
            for row in range(0, rows, step):
                x[row : row + step] = random.random((min(step, rows - row), columns)).astype(dtype)


class ResidentSize(Budget):
    """Resident size at most budget + 100 MiB, over commands of each kind on 128 MiB of data. The budget is 64 MiB, or
    about the least of a command that needs more."""

    def test_of_every_command(self):
        self.data("x.h5", 16384, 1024)  # 128 MiB
        self.data("z.h5", 16384, 1024, (1024, 64), compression="gzip", compression_opts=1, shuffle=True)
        self.data("f.h5", 131072, 64, (16, 64), "f4")  # 8192 chunks in the file
        self.data("a.h5", 1024, 1024)
        self.data("b.h5", 1024, 8)
        self.data("t.h5", 4096, 512)
        self.ok("eval", "a @ a.T + 1024 * eye(1024)", "-i", "a=a.h5:/x", "-o", "s.h5:/x", "--device", "cpu", env=self.env)
        x, z, f = "x=x.h5:/x", "z=z.h5:/x", "f=f.h5:/x"
        store = ["-o", "o.h5", "--overwrite"]
        evaluated = [
            (x, "x.sum()"),
            (x, "x.mean(axis=0).max()"),
            (x, "x.std(axis=1).max()"),
            (x, "(x - x.mean(0)).var()"),
            (x, "sum(x.T @ x)"),
            (x, "median(x)", 192),
            (x, "quantile(x, 0.3, axis=0).sum()", 128),
            (x, "sort(x, axis=0).max()", 176),
            (x, "unique(floor(x * 100)).size", 192),
            (x, "cumsum(x, axis=0).max()", 72),
            (x, "argmax(x)"),
            (x, "x[x > 0.999].sum()", 192),
            (x, "histogram(x, 64)[0].sum()", 128),
            (x, "corrcoef(x[:, :256], rowvar=False).sum()"),
            (x, "linalg.norm(x)"),
            (x, "fft.rfft(x, axis=1).real.sum()"),
            (z, "z.sum()"),
            (z, "z.mean(axis=0).max()"),
            (z, "(z.T + 1).sum()"),
            (z, "sum(z.T @ z)"),
            (f, "f.sum()"),
            (f, "f.mean(axis=0).max()"),
            ("", "random.default_rng(1).random((16384, 1024)).sum()"),
            ("", "sum(random.default_rng(1).random((512, 65536)), axis=0).max()"),
        ]
        stored = [
            (x, "x + 1", []),
            (x, "x.T", []),
            (x, "x.T + 1", ["--out-filter", "deflate:1"]),
            (x, "x * 2", ["--out-filter", "shuffle,deflate:1,fletcher32"]),
            (x, "x * 2", ["--out-filter", "shuffle,deflate:1", "--out-chunks", "1024,1024"]),
            (x, "x.reshape(1024, 16384)", []),
            (x, "sort(x, axis=0)", [], 176),
            (x, "x[::-1, ::2]", []),
            (x, "concatenate([x, x], axis=1)", []),
            (z, "z.T + 1", []),
            (z, "z", ["--out-chunks", "64,1024"]),
            (f, "f.astype(float64)", ["--out-filter", "deflate:1", "--out-chunks", "16,64"]),
        ]
        commands = [(["eval", expression, *(["-i", data] if data else [])], *budget) for data, expression, *budget in evaluated]
        commands += [(["eval", expression, "-i", data, *store, *options], *budget) for data, expression, options, *budget in stored]
        commands += [
            (command,)
            for command in [
                ["pca", "x.h5:/x", "--components", "3", "-o", "p.h5", "--overwrite"],
                ["generate", "market", "-o", "m.h5:/x", "--rows", "16384", "--cols", "1024", "--factors", "3"],
                ["eval", "f.sum()", "-i", f, "--chunks", "16,64", "--trace", "t.json", "--report", "r.html"],
                ["eval", "x.sum()", "-i", x, "--chunks", "16,64", "--trace", "t.json", "--report", "r.html"],
                ["report", "t.json", "-o", "again.html"],
                ["info", "f.h5"],
                ["verify", "z.h5"],
                ["convert", "x.h5:/x", "-o", "c.npy"],
                ["convert", "z.h5:/x", "-o", "c.zarr"],
                ["convert", "z.h5", "-o", "c.h5"],
                ["diff", "z.h5:/x", "z.h5:/x"],
                ["solve", "s.h5:/x", "b.h5:/x", "-o", "solve.h5"],
                ["lstsq", "t.h5:/x", "t.h5:/x", "-o", "lstsq.h5"],
                ["inv", "s.h5:/x", "-o", "inv.h5"],
                ["cholesky", "s.h5:/x", "-o", "cholesky.h5"],
                ["eigh", "s.h5:/x", "-o", "eigh.h5"],
                ["matmul", "x.h5:/x", "a.h5:/x", "-o", "matmul.h5"],
            ]
        ]
        commands += [
            (["sort", "x.h5:/x", "-o", "sort.h5"], 176),
            (["lu", "s.h5:/x", "-o", "lu.h5"], 80),
            (["qr", "t.h5:/x", "-o", "qr.h5"], 104),
            (["svd", "t.h5:/x", "-o", "svd.h5"], 104),
        ]
        self.assertGreaterEqual(len(commands), 40)
        over = []
        for command, *chosen in commands:
            budget = chosen[0] if chosen else 64
            limited = ["--memory", f"{budget}MiB", "--device", "cpu", "--threads", "2"] if command[0] not in ("report", "info", "verify") else []
            try:
                size, _ = self.peak(*command, *limited)
            except AssertionError as error:
                over.append(str(error))
                continue
            if os.environ.get("SHOW_SIZES"):
                print(f"{size / MIB:6.0f} MiB  {' '.join(command)}", flush=True)
            if size > budget * MIB + BESIDE:
                over.append(f"{size / MIB:.0f} MiB of {budget} MiB: {' '.join(command)}")
        self.assertEqual(len(over), 0, "\n".join(over) + f"\nmore than the budget and {BESIDE // MIB} MiB")


class Spilling(Budget):
    # What limits the size of a file limits the spill file.
    LIMIT = 8 * MIB

    def limited(self, *arguments):
        command = ["prlimit", f"--fsize={self.LIMIT}", QUARRY, *map(str, arguments), "--device", "cpu", "--threads", "2"]
        return subprocess.run(command, cwd=self.dir, env=self.env, capture_output=True, text=True, timeout=TIMEOUT)

    def test_products_and_correlations_keep_few_partial_results(self):
        """64 partial results of 512 columns are 128 MiB."""
        self.data("x.h5", 65536, 512)
        for memory in ("24MiB", "64MiB"):
            for command in (
                ["eval", "sum(x.T @ x)", "-i", "x=x.h5:/x"],
                ["pca", "x.h5:/x", "--components", "2", "-o", "p.h5", "--overwrite"],
            ):
                done = self.limited(*command, "--memory", memory)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_large_result_is_not_spilled_again_and_again(self):
        self.data("w.h5", 32768, 1024)  # 256 MiB; the result has 8
        self.ok("eval", "sum(w.T @ w)", "-i", "w=w.h5:/x", "--memory", "80MiB", "--device", "cpu", "--threads", "2", "--stats", "s.json", env=self.env)
        self.assertEqual(self.stats()["spilled_bytes"], 0)

    def test_partial_results_of_a_large_product_are_not_spilled(self):
        self.data("a.h5", 2048, 2048)  # 32 MiB, as is the result
        arguments = ["eval", "a @ a", "-i", "a=a.h5:/x", "-o", "p.h5", "--chunks", "256,256"]
        self.ok(*arguments, "--memory", "28MiB", "--device", "cpu", "--threads", "1", "--stats", "s.json", env=self.env)
        self.assertLess(self.stats()["spilled_bytes"], 120 << 20)  # as their operands come, and written at the end: 202 MiB

    def test_a_spill_folder_that_fills_is_an_error_and_leaves_no_output(self):
        self.data("x.h5", 16384, 1024)
        done = self.limited("eval", "x.T.rechunk((64, -1)) + 1", "-i", "x=x.h5:/x", "-o", "o.h5", "--memory", "24MiB")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "File too large|no space left")
        self.assertEqual([path.name for path in self.dir.iterdir() if path.name.startswith("o.h5")], [])


class Outputs(Budget):
    def test_filtered_chunks_are_in_the_budget(self):
        """Chunks of the file of 32 MiB: a thread that encodes one has two more of them."""
        values = "random.default_rng(1).random((4096, 4096), dtype='float32')"
        store = ["-o", "o.h5", "--overwrite", "--out-filter", "shuffle,deflate:1", "--out-chunks", "4096,2048", "--device", "cpu", "--threads", "4"]
        for memory in (104, 160):
            size, _ = self.peak("eval", values, *store, "--memory", f"{memory}MiB")
            self.assertLess(size, (memory + 50) * MIB)
        _, error = self.peak("eval", values, *store, "--memory", "64MiB", status=2)
        self.assertRegex(error, "does not fit a memory budget of 67108864 bytes per rank; the least that works .* for write")
        with h5py.File(self.path("o.h5")) as file:
            stored = file["result"][:]
        self.ok("eval", values, "-o", "plain.h5", "--device", "cpu", env=self.env)
        np.testing.assert_array_equal(stored, self.read("plain.h5"))

    def test_chunks_halved_for_the_budget_hold_whole_chunks_of_the_file(self):
        self.data("x.h5", 4096, 1024)
        for chunks in ("1024,1024", "1000,300", "4096,1024"):
            self.ok("eval", "x * 2", "-i", "x=x.h5:/x", "-o", "o.h5", "--overwrite", "--out-filter", "deflate:1", "--out-chunks", chunks, "--memory", "112MiB", "--device", "cpu", env=self.env)
            np.testing.assert_array_equal(self.read("o.h5"), 2 * self.read("x.h5", "x"))

    def test_traces_and_reports_of_many_tasks(self):
        """131072 tasks: 1.1 KiB each would be 144 MiB beside the budget."""
        command = ["eval", "sum(random.default_rng(1).random((1048576, 8), dtype='float32'))", "--chunks", "8,8", "--memory", "64MiB", "--device", "cpu"]
        plain, _ = self.peak(*command)
        size, _ = self.peak(*command, "--trace", "t.json", "--report", "r.html")
        self.assertLess(size, plain + 50 * MIB)
        with open(self.path("t.json")) as file:
            events = [event["args"] for event in json.load(file)["traceEvents"] if event["ph"] == "X" and event.get("cat") == "compute"]
        self.assertGreater(sum(event.get("tasks", 1) for event in events), 131072)
        self.assertLess(len(events), 65536)


class HostBudget(Budget):
    """Of a device's ranks, on the emulated device."""

    def run_on_device(self, host, *arguments, status=0):
        return self.peak(*arguments, "--device", "emulated", "--memory", "64MiB", "--host-memory", host, "--threads", "2", status=status)[1]

    def test_has_a_least_value_that_works(self):
        self.data("x.h5", 4096, 512, (1024, 512), compression="gzip", compression_opts=1)
        cases = [
            ["eval", "x.sum()", "-i", "x=x.h5:/x"],
            ["eval", "x + 1", "-i", "x=x.h5:/x", "-o", "o.h5", "--overwrite"],
            ["eval", "x + 1", "-i", "x=x.h5:/x", "-o", "o.h5", "--overwrite", "--out-filter", "deflate:1", "--out-chunks", "2048,512"],
        ]
        for command in cases:
            error = self.run_on_device("512KiB", *command, status=2)
            found = re.search(r"does not fit a host budget \(--host-memory\) of 524288 bytes of rank 0; the least that works is (\d+) bytes, for (read|write) ", error)
            self.assertTrue(found, error)
            self.run_on_device(f"{found[1]}B", *command)
            # No more than a few percent less.
            self.run_on_device(f"{int(int(found[1]) * 0.9)}B", *command, status=2)


if __name__ == "__main__":
    main()
