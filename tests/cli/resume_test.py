"""A run that ends too early leaves an output that the same command goes on with, on any number of ranks."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import h5py

from support import QUARRY, TIMEOUT, CliTest, main, np

FAULTY_WRITES = pathlib.Path(QUARRY).parent.parent / "lib" / "libquarry_faulty_writes.so"
KILLS = int(os.environ.get("KILLS", "2"))  # per case
COLUMNS = 512
# Generated numbers and what is read, each row beside the means of all: results of reductions go to all ranks.
EXPRESSION = "(random.normal(size=(12000, 512)) * x - mean(x, axis=0)) / (1 + std(x * x, axis=0))"
LONG = "exp(random.normal(size=(400000, 2000)))"  # 6 GiB, never completed
COMMON = ["--resume", "--progress", "off", "--memory", "64MiB"]
LAYOUTS = {
    "contiguous": [],
    "chunked": ["--out-chunks", "100,200"],
    "deflate": ["--out-filter", "shuffle,deflate:1", "--out-chunks", "250,128"],
}
# Output and layout.
OUTPUTS = {
    **{name: ("o.h5", layout) for name, layout in LAYOUTS.items()},
    "zarr": ("o.zarr", ["--out-chunks", "100,256"]),
    "zarr_deflate": ("o.zarr", ["--out-zarr", "3", "--out-filter", "deflate:1", "--out-chunks", "250,128"]),
    "npy": ("o.npy", []),
}


class Resumed(CliTest):
    def setUp(self):
        super().setUp()
        self.write("in.h5", x=np.random.default_rng(3).normal(size=(12000, COLUMNS)))
        self.random = random.Random(time.time_ns())

    def command(self, *more, expression=EXPRESSION, output="o.h5", chunks="500,512", device="cpu"):
        return ["eval", expression, "-i", "x=in.h5:/x", "-o", output, *COMMON, "--chunks", chunks, "--device", device, *more]

    def leftovers(self):
        return sorted(p.name for p in self.dir.iterdir() if p.name.startswith("o.") and ".partial" in p.name)

    def journals(self):
        return {name for name in self.leftovers() if ".partial.job." in name}

    def remove(self, name):
        path = self.dir / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def writing(self, arguments, ranks=0):
        """A run that has begun to write: its ranks have journals beside those of runs before it. No rank is killed earlier: Open MPI's
        launcher sometimes waits for ever (in PMIx_server_finalize) when one dies within MPI_Init."""
        before = self.journals()
        process = self.start(*arguments, ranks=ranks)
        end = time.time() + TIMEOUT
        while len(self.journals() - before) < max(ranks, 1) and process.poll() is None:
            self.assertLess(time.time(), end, "it did not begin to write")
            time.sleep(0.005)
        return process

    def killed(self, arguments, ranks, seconds):
        """Starts a run and kills one of its processes so many seconds after it has begun to write. Whether it was killed."""
        process = self.writing(arguments, ranks)
        time.sleep(seconds)
        victims = [int(p) for p in os.popen(f"pgrep -P {process.pid}").read().split()] if ranks else [process.pid]
        if process.poll() is not None or not victims:
            self.output_of(process)
            return False
        try:
            os.kill(self.random.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.output_of(process)
        return process.returncode != 0

    def stopped(self, arguments, ranks=0):
        """A run that reading fails in the middle of; what was written until then is on the device."""
        self.fails(1, "a fault of the test", *arguments, ranks=ranks, env={"QUARRY_FAULT_READ_BYTES": str((24 << 20) // max(ranks, 1))})
        self.assertIn(arguments[arguments.index("-o") + 1].split(":")[0] + ".partial.job", self.leftovers())

    def kill_and_resume(self, layout):
        output, options = OUTPUTS[layout]
        arguments = self.command(*options, output=output)
        process = self.writing([*arguments, "--stats", "whole.json"])
        begin = time.time()
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 0, err)
        seconds = time.time() - begin
        expected, tasks = self.contents_of(output), self.stats("whole.json")["tasks"]
        self.remove(output)
        kills = fewer = 0
        for turn in range(KILLS):
            ranks = self.random.choice([0, 1, 2, 3])
            killed = self.killed(arguments, ranks, self.random.uniform(0, seconds))
            if killed and not (self.dir / output).exists() and self.random.random() < 0.3:
                killed = self.killed(arguments, self.random.choice([1, 2]), self.random.uniform(0, seconds))
            complete = (self.dir / output).exists()
            if complete:  # and killed after that, or not at all
                np.testing.assert_array_equal(self.contents_of(output), expected)
            if not killed:
                self.assertEqual(self.leftovers(), [])
            result = self.run_quarry(*arguments, *(["--overwrite"] if complete else []), "--stats", "s.json", ranks=self.random.choice([0, 1, 2, 3]))
            self.assertEqual(result.status, 0, f"turn {turn}\n{result.err}")
            kills += killed
            fewer += self.stats()["tasks"] < tasks
            np.testing.assert_array_equal(self.contents_of(output), expected)
            self.assertEqual(self.leftovers(), [])
            self.remove(output)
        print(f"{layout}: {kills} of {KILLS} were killed in time, {fewer} were resumed with fewer tasks", flush=True)

    def test_a_run_that_goes_on_is_seen_writing(self):
        """And not what the run before it left."""
        arguments = self.command()
        self.stopped(arguments)
        process = self.writing(arguments, ranks=2)
        journals = self.journals()
        process.send_signal(signal.SIGTERM)
        self.output_of(process)
        self.assertEqual({name.split(".")[-2] for name in journals}, {"0", "1"})

    def contents_of(self, name):
        """The bytes of the numbers: NaN equals itself."""
        if name.endswith(".npy"):
            return np.load(self.path(name)).view(np.uint64)
        if name.endswith(".zarr"):
            self.ok("convert", name, "-o", "read.h5", "--overwrite")
            name = "read.h5"
        return self.read(name).view(np.uint64)

    def test_killed_contiguous(self):
        self.kill_and_resume("contiguous")

    def test_killed_chunked(self):
        self.kill_and_resume("chunked")

    def test_killed_deflate(self):
        self.kill_and_resume("deflate")

    def test_killed_zarr(self):
        self.kill_and_resume("zarr")

    def test_killed_zarr_deflate(self):
        self.kill_and_resume("zarr_deflate")

    def test_killed_npy(self):
        self.kill_and_resume("npy")

    def test_sorts(self):
        expected = np.sort(self.read("in.h5", "x"), 0)
        arguments = ["sort", "in.h5:/x", "--axis", "0", "-o", "o.h5:/y", *COMMON]
        for ranks, others in [(0, 2), (2, 0), (3, 1)]:
            self.killed(arguments, ranks, self.random.uniform(0, 0.3))
            if (self.dir / "o.h5").exists():  # it was killed too late
                self.remove("o.h5")
            self.ok(*arguments, ranks=others)
            np.testing.assert_array_equal(self.read("o.h5", "y"), expected)
            self.assertEqual(self.leftovers(), [])
            self.remove("o.h5")

    def test_only_what_is_missing_is_done(self):
        """Half of the chunks are there when the run ends: those are not made again."""
        for layout, ranks in [("contiguous", 0), ("deflate", 2), ("zarr", 0), ("zarr_deflate", 2), ("npy", 2)]:
            output, options = OUTPUTS[layout]
            arguments = self.command(*options, output=output, expression="exp(random.normal(size=(12000, 512)) * x)")
            self.ok(*arguments, "--stats", "whole.json")
            expected, whole = self.contents_of(output), self.stats("whole.json")
            self.remove(output)
            shares = []
            while min(shares, default=1) >= 0.8:  # on a busy machine chunks that were read may not have been written
                self.assertLess(len(shares), 4, f"{layout}, {ranks} ranks: {shares}")
                self.stopped(arguments, ranks)
                self.ok(*arguments, "--stats", "s.json", ranks=2 - ranks)
                now = self.stats()
                shares.append(max(now[what] / whole[what] for what in ["read_bytes", "written_bytes"]))
                np.testing.assert_array_equal(self.contents_of(output), expected)
                self.assertEqual(self.leftovers(), [])
                self.remove(output)

    def interrupted(self, *more, ranks=0, number=signal.SIGTERM, output="o.h5"):
        process = self.start(*self.command(*more, expression=LONG, output=output), ranks=ranks)
        self.wait_until_computing(process, output)
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, err

    def test_sigterm_saves(self):
        for ranks in [0, 2]:
            status, err = self.interrupted(ranks=ranks)
            self.assertEqual(status, 75 if ranks == 0 else status, err)
            self.assertNotEqual(status, 0)
            if ranks == 0:
                self.assertIn("the same command goes on", err)
            left = self.leftovers()
            self.assertIn("o.h5.partial", left, f"{ranks} {status} {err}")
            self.assertGreater(sum((self.dir / name).stat().st_size for name in left if name.startswith("o.h5.partial.job.")), 0)
            self.assertFalse((self.dir / "o.h5").exists())
            # No program takes it for a whole file.
            self.assertFalse(h5py.is_hdf5(self.path("o.h5.partial")))
            os.rename(self.path("o.h5.partial"), self.path("copy.h5"))
            for arguments in [["info", "copy.h5"], ["eval", "sum(x)", "-i", "x=copy.h5:/result"]]:
                self.fails(2, "unfinished output", *arguments)
            os.remove(self.path("copy.h5"))

    def test_sigterm_saves_other_formats(self):
        for output in ["o.zarr", "o.npy"]:
            status, err = self.interrupted(output=output)
            self.assertEqual(status, 75, err)
            self.assertIn("the same command goes on", err)
            unfinished, copy = output + ".partial", output.replace("o", "copy", 1)
            self.assertIn(unfinished, self.leftovers())
            self.assertFalse((self.dir / output).exists())
            for name, pattern in [(unfinished, "unfinished output"), (copy, "unfinished output" if output == "o.zarr" else "damaged: it does not begin as a NumPy file")]:
                if name == copy:
                    os.rename(self.path(unfinished), self.path(copy))
                for arguments in [["info", name], ["verify", name], ["diff", name, "in.h5"], ["convert", name, "-o", "c.h5"], ["eval", "sum(x)", "-i", f"x={name}:/result"]]:
                    result = self.run_quarry(*arguments)
                    self.assertNotEqual(result.status, 0, arguments)
                    self.assertRegex(result.err, pattern)
            if output == "o.npy":
                self.assertRaises(ValueError, np.load, self.path(copy))
            self.remove(copy)
            for name in self.leftovers():
                self.remove(name)

    def test_generated_data_go_on(self):
        arguments = ["generate", "market", "--rows", 40000, "--cols", 1000, "--factors", 3, "--filter", "deflate:1", *COMMON]
        self.ok(*arguments, "-o", "whole.h5", "--stats", "whole.json")
        process = self.start(*arguments, "-o", "o.h5")
        self.wait_until_computing(process)
        while sum((self.dir / name).stat().st_size for name in self.journals()) == 0 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 75)
        self.fails(1, "of another run: the expression of /returns", *arguments, "-o", "o.h5", "--seed", 5)
        self.ok(*arguments, "-o", "o.h5", "--stats", "s.json", ranks=2)
        self.assertLess(self.stats()["written_bytes"], self.stats("whole.json")["written_bytes"])
        self.ok("diff", "o.h5", "whole.h5")
        self.assertEqual(self.leftovers(), [])

    def test_a_file_that_is_there_stays_until_the_end(self):
        self.write("o.h5", old=np.arange(1000.0))
        before = self.contents("o.h5")
        arguments = self.command(*LAYOUTS["deflate"], output="o.h5:/group/new")
        self.stopped(arguments, 2)
        self.assertEqual(self.contents("o.h5"), before)
        self.ok(*arguments, ranks=0)
        np.testing.assert_array_equal(self.read("o.h5", "old"), np.arange(1000.0))
        self.assertEqual(self.read("o.h5", "group/new").shape, (12000, COLUMNS))
        self.assertEqual(self.leftovers(), [])
        # One that changed since is not replaced.
        arguments = self.command(output="o.h5:/another")
        self.stopped(arguments)
        self.write("o.h5", more=np.arange(3))
        self.fails(2, "cannot be resumed: it was changed since", *arguments)

    def test_other_runs_are_refused_by_name(self):
        layout = LAYOUTS["deflate"]
        self.stopped(self.command(*layout))
        left = self.leftovers()
        cases = [
            ("the expression of /result", self.command(*layout, expression=EXPRESSION + " + 1")),
            ("the expression of /result", self.command(*layout, "--seed", "5")),
            ("the chunks of /result", self.command(*layout, chunks="1000,512")),
            ("the chunks in the file of /result", self.command("--out-filter", "shuffle,deflate:1", "--out-chunks", "125,128")),
            ("the filter of /result is", self.command("--out-filter", "deflate:1", "--out-chunks", "250,128")),
            ("the shape of /other is .* and was not there", self.command(*layout, output="o.h5:/other")),
            ("the shape of /result", self.command(*layout, expression=f"({EXPRESSION})[1:]")),
            ("the dtype of /result", self.command(*layout, expression="float32(" + EXPRESSION + ")")),
            ("the kind of device is emulated and was cpu", self.command(*layout, device="emulated")),
        ]
        for pattern, arguments in cases:
            self.fails(2, "unfinished output 'o.h5' is of another run: .*" + pattern, *arguments)
        os.utime(self.path("in.h5"), ns=(1, 1))
        self.fails(2, "input in.h5:/x is .* bytes changed at", *self.command(*layout))
        self.assertEqual(self.leftovers(), left)
        # Without --resume a run begins anew and takes away what is left.
        self.ok(*[word for word in self.command(*layout) if word != "--resume"])
        self.assertEqual(self.leftovers(), [])

    def test_damaged_chunks_are_made_again(self):
        arguments = self.command(*LAYOUTS["deflate"], expression="exp(random.normal(size=(12000, 512)) * x)")
        self.ok(*arguments)
        expected = self.contents_of("o.h5")
        os.remove(self.path("o.h5"))
        self.stopped(arguments)
        with open(self.path("o.h5.partial"), "r+b") as file:  # in the middle of the encoded chunks
            file.seek(os.path.getsize(self.path("o.h5.partial")) // 2)
            file.write(b"damaged" * 100)
        for name in self.leftovers():  # and a journal that ends in the middle of a record
            if name.startswith("o.h5.partial.job."):
                os.truncate(self.path(name), max(0, os.path.getsize(self.path(name)) - 3))
        self.ok(*arguments, ranks=2)
        np.testing.assert_array_equal(self.contents_of("o.h5"), expected)

    def test_other_runs_of_other_formats_are_refused_by_name(self):
        for layout, cases in {
            "zarr": [
                ("the chunks in the file of /result", ["--out-chunks", "100,128"], "o.zarr"),
                ("the filter of /result is", [*OUTPUTS["zarr"][1], "--out-filter", "deflate:1"], "o.zarr"),
                ("the format's version of /result is 3 and was the usual one", [*OUTPUTS["zarr"][1], "--out-zarr", "3"], "o.zarr"),
                ("the shape of /other is .* and was not there", OUTPUTS["zarr"][1], "o.zarr:/other"),
            ],
            "npy": [],
        }.items():
            output, options = OUTPUTS[layout]
            self.stopped(self.command(*options, output=output))
            left = self.leftovers()
            for pattern, more, name in cases:
                self.fails(2, f"unfinished output '{output}' is of another run: .*{pattern}", *self.command(*more, output=name))
            self.fails(2, "the expression of /result", *self.command(*options, expression=EXPRESSION + " + 1", output=output))
            os.utime(self.path("in.h5"), ns=(len(layout), len(layout)))
            self.fails(2, "input in.h5:/x is .* bytes changed at", *self.command(*options, output=output))
            self.assertEqual(self.leftovers(), left)
            # Without --resume a run begins anew and takes away what is left.
            self.ok(*[word for word in self.command(*options, output=output) if word != "--resume"])
            self.assertEqual(self.leftovers(), [])

    def test_a_folder_that_is_there_stays_until_the_end(self):
        self.ok("eval", "ones(10)", "-o", "o.zarr:/g/old")
        self.ok("eval", "zeros(7)", "-o", "o.zarr:/g/new")
        before = self.tree("o.zarr")
        arguments = [*self.command(*OUTPUTS["zarr"][1], output="o.zarr/:/g/new"), "--overwrite"]
        self.fails(1, "a fault of the test", *arguments, ranks=2, env={"QUARRY_FAULT_READ_BYTES": str(12 << 20)})
        self.assertEqual(self.tree("o.zarr"), before)
        self.fails(2, "is of another run: the shape of /h is", *self.command(*OUTPUTS["zarr"][1], output="o.zarr:/h"))
        # What is added meanwhile stays too; what a commit that was killed has put there does not.
        (self.dir / "o.zarr/g/older").mkdir()
        for name in [".zarray", "0"]:
            shutil.copy(self.dir / "o.zarr/g/old" / name, self.dir / "o.zarr/g/older" / name)
        (self.dir / "o.zarr.partial/gone").mkdir()
        for name in [".zgroup", "g/.zgroup", "g/new/.zarray", "gone/.zgroup"]:
            (self.dir / "o.zarr.partial" / name).write_text('{"zarr_format": 2}')
        self.ok(*arguments)
        self.assertEqual(sorted(p.name for p in (self.dir / "o.zarr").iterdir()), [".zgroup", "g"])
        self.assertEqual(sorted(p.name for p in (self.dir / "o.zarr/g").iterdir() if not p.name.startswith(".")), ["new", "old", "older"])
        self.assertEqual(self.evaluate("sum(x) + sum(y)", "-i", "x=o.zarr:/g/old", "-i", "y=o.zarr:/g/older"), "20.0")
        self.ok(*self.command(output="whole.h5"))
        self.ok("convert", "o.zarr", "-o", "c.h5")
        np.testing.assert_array_equal(self.read("c.h5", "g/new").view(np.uint64), self.contents_of("whole.h5"))
        self.assertEqual(self.leftovers(), [])
        # A folder that another one has replaced since is not replaced, nor one that was made.
        self.fails(1, "a fault of the test", *arguments, env={"QUARRY_FAULT_READ_BYTES": str(24 << 20)})
        shutil.copytree(self.path("o.zarr"), self.path("other"))
        os.rename(self.path("o.zarr"), self.path("kept"))
        os.rename(self.path("other"), self.path("o.zarr"))
        self.fails(2, "'o.zarr' cannot be resumed: it was replaced since", *arguments)
        # A run that is killed when it has put the new folder in its place, before it has removed the old one.
        self.remove("o.zarr")
        os.rename(self.path("o.zarr.partial"), self.path("o.zarr"))
        os.rename(self.path("kept"), self.path("o.zarr.partial"))
        (self.dir / "o.zarr/.zgroup").write_text('{"zarr_format": 2}')
        self.fails(2, "'o.zarr' cannot be resumed: it is complete", *arguments)

    def tree(self, name):
        return {str(p.relative_to(self.dir)): p.read_bytes() for p in sorted((self.dir / name).rglob("*")) if p.is_file()}

    def test_damaged_chunk_files_are_made_again(self):
        """Changed, cut off, too long, and gone."""
        for layout in ["zarr", "zarr_deflate"]:
            output, options = OUTPUTS[layout]
            arguments = self.command(*options, output=output, expression="exp(random.normal(size=(12000, 512)) * x)")
            self.ok(*arguments)
            expected = self.contents_of(output)
            self.remove(output)
            self.stopped(arguments)
            files = sorted(p for p in (self.dir / "o.zarr.partial/result").rglob("*") if p.is_file())
            self.assertGreater(len(files), 20)
            files[3].write_bytes(b"damaged" + files[3].read_bytes()[7:])
            os.truncate(files[7], 100)
            files[11].write_bytes(files[11].read_bytes() + b"more")
            files[15].unlink()
            self.ok(*arguments, ranks=2)
            np.testing.assert_array_equal(self.contents_of(output), expected)
            self.remove(output)

    def test_formats_that_cannot_be_resumed(self):
        for name in ["o.npz", "o.csv"]:
            self.fails(2, f"'{name}': outputs of the format .* cannot be resumed; those of HDF5, .* can", "eval", "ones((3, 2))", "-o", name, "--resume")
        self.assertEqual([p.name for p in self.dir.iterdir()], ["in.h5"])
        self.fails(2, "--resume needs an output", "eval", "1", "--resume")

    def test_awkward_shapes(self):
        for expression, shape in [("full((), 3.0)", ()), ("ones((0, 3))", (0, 3)), ("ones((1,))", (1,)), ("ones((5, 7)) > 0", (5, 7))]:
            for more in [[], ["--out-filter", "deflate:1"]]:
                self.ok("eval", expression, "-o", "o.h5", "--resume", "--overwrite", *more, ranks=2)
                self.assertEqual(self.read("o.h5").shape, shape)
                self.assertEqual(self.leftovers(), [])
                for name in ["o.zarr"] if more else ["o.zarr", "o.npy"]:
                    self.ok("eval", expression, "-o", name, "--resume", "--overwrite", *more, ranks=2)
                    self.ok("diff", name, "o.h5")
                    self.assertEqual(self.leftovers(), [])

    def test_two_runs_at_once(self):
        for output in ["o.h5", "o.zarr"]:
            process = self.start(*self.command(expression=LONG, output=output))
            self.wait_until_computing(process, output)
            self.fails(2, "another process is writing", *self.command(expression=LONG, output=output))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 75)
            for name in self.leftovers():
                self.remove(name)

    def test_a_full_disk_can_be_emptied(self):
        """A file size limit stands for it."""
        for layout in ["contiguous", "deflate"]:
            arguments = self.command(*LAYOUTS[layout])
            result = self.run_quarry(*arguments, ranks=2, file_limit=20 << 20)
            self.assertNotEqual(result.status, 0, result.err)
            self.assertRegex(result.errors()[0], "no space left")
            self.assertFalse((self.dir / "o.h5").exists())
            self.ok(*arguments, ranks=0)
            self.assertEqual(self.read("o.h5").shape, (12000, COLUMNS))
            self.assertEqual(self.leftovers(), [])
            os.remove(self.path("o.h5"))


    def test_writes_that_fail(self):
        """Of a rank's journal and of a chunk: the run ends with that error, and the next one goes on."""
        full, broken = ("full", "no space left on device"), ("broken", "Input/output error")
        for layout, end, ranks, faults in [
            ("deflate", "o.h5.partial.job.0.1", 2, [full]),
            ("zarr", "o.zarr.partial.job.0.1", 2, [broken]),
            ("zarr", "o.zarr.partial/result/60.1", 0, [full]),
            ("zarr_deflate", "o.zarr.partial/result/c/24/1", 2, [broken]),
            ("npy", "o.npy.partial", 2, [full, broken]),
        ]:
            output, options = OUTPUTS[layout]
            arguments = self.command(*options, output=output)
            self.ok(*arguments)
            expected = self.contents_of(output)
            self.remove(output)
            for how, reason in faults:
                number = 10 if layout == "npy" else 1
                self.fails(1, reason, *arguments, ranks=ranks, env={"LD_PRELOAD": str(FAULTY_WRITES), "FAULTY_WRITES": f"{how},{number},{end}"})
                self.assertIn(output + ".partial", self.leftovers())
                self.assertFalse((self.dir / output).exists())
                self.ok(*arguments, ranks=2 - ranks)
                np.testing.assert_array_equal(self.contents_of(output), expected)
                self.assertEqual(self.leftovers(), [])
                self.remove(output)


@unittest.skipUnless(os.geteuid() == 0, "needs a user who may mount")
class ReadOnly(CliTest):
    def test_a_folder_that_cannot_be_written(self):
        mount = tempfile.mkdtemp(prefix="quarry_tmpfs_")
        self.addCleanup(os.rmdir, mount)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M,ro", "tmpfs", mount], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("needs a user who may mount: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", mount], check=True)
        for more in [[], ["--resume"]]:
            self.fails(2, "cannot be written: Read-only", "eval", "ones(10)", "-o", mount + "/o.h5", *more)


if __name__ == "__main__":
    main()
