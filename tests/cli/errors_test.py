"""Bad input: one line of error, once for all ranks, and the exit status."""

import os
import re
import signal

from support import TIMEOUT, CliTest, h5py, main, np


class BadInput(CliTest):
    def setUp(self):
        super().setUp()
        self.write("a.h5", x=np.arange(12.0).reshape(3, 4), group__y=np.arange(3))
        with h5py.File(self.path("a.h5"), "a") as file:
            file["text"] = "a string"
            file["texts"] = np.array([b"ab", b"cd"])
            file["pair"] = np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
            file["null"] = h5py.Empty("f8")
            file["zero"] = np.zeros((0, 3))

    def test_missing_file(self):
        self.fails(2, "none.h5", "eval", "x", "-i", "x=none.h5:/x")
        self.fails(2, "none.h5", "info", "none.h5")
        self.fails(2, "none.h5", "pca", "none.h5:/x", "-k", 1, "-o", "o.h5")

    def test_files_that_cannot_be_made_are_found_before_computing(self):
        job = ["eval", "sum(x)", "-i", "x=a.h5:/x"]
        options = ["--trace", "--report", "--stats"]
        for option in options:
            result = self.fails(2, f"{option} none/o cannot be written: there is no directory none", *job, option, "none/o")
            self.assertEqual(result.out, "")
        cases = [(f"{option} . is a directory", [*job, option, "."]) for option in options]
        self.all_fail(2, [*cases, ("--spill-dir: 'none' does not exist", [*job, "--spill-dir", "none"])], ranks=2)

    def test_messages_that_help(self):
        self.fails(2, "a command is missing: info, eval, .*quarry --help")
        self.fails(2, "'return' is a word of the expression language", "eval", "x", "-i", "return=a.h5:/x")
        self.fails(2, "unknown filter 'snappy'; there are shuffle, deflate:LEVEL, lz4, zstd:LEVEL, blosc:LEVEL, fletcher32", "eval", "x", "-i", "x=a.h5:/x", "-o", "o.h5", "--out-filter", "snappy")
        self.fails(2, "QUARRY_WATCHDOG=x: expected seconds", "eval", "sum(x)", "-i", "x=a.h5:/x", env={"QUARRY_WATCHDOG": "x"})
        self.fails(2, "'a.h5' is no trace of quarry: it is no JSON from byte 1 on", "report", "a.h5")
        self.assertIn("quarry eval [OPTIONS] EXPR", self.ok("eval", "--help").out)
        self.assertRegex(self.ok("eval", "sum(x)", "-i", "x=a.h5:/x", "--chunks", "5").err, "chunks .5.* have 1 axis, and no input has so many")
        self.assertNotIn("no input", self.ok("eval", "sum(x)", "-i", "x=a.h5:/x", "--chunks", "2,2").err)

    def test_missing_object_names_the_nearest(self):
        self.write("b.h5", returns=np.zeros(3))
        self.fails(2, "retruns.*did you mean.*returns", "eval", "x", "-i", "x=b.h5:/retruns")

    def test_group_instead_of_data_set(self):
        self.fails(2, "group", "eval", "x", "-i", "x=a.h5:/group")

    def test_unsupported_types(self):
        for name in ["text", "texts", "pair"]:
            self.fails(2, name, "eval", "x", "-i", f"x=a.h5:/{name}")

    def test_null_dataspace(self):
        self.fails(2, "null", "eval", "x", "-i", "x=a.h5:/null")

    def test_zero_size_is_no_error(self):
        self.assertEqual(self.evaluate("x", "-i", "x=a.h5:/zero"), "[]")
        self.assertEqual(self.evaluate("x.shape", "-i", "x=a.h5:/zero"), "(0, 3)")
        self.assertEqual(self.evaluate("sum(x)", "-i", "x=a.h5:/zero"), "0.0")
        self.fails(2, "zero-size", "eval", "max(x)", "-i", "x=a.h5:/zero")

    def test_truncated_and_foreign_files(self):
        with open(self.path("no.h5"), "w") as file:
            file.write("this is no HDF5 file\n" * 100)
        with open(self.path("empty.h5"), "w"):
            pass
        self.write("whole.h5", x=np.random.default_rng(0).random((300, 300)))
        whole = self.contents("whole.h5")
        for part in [len(whole) // 2, 1000, 100]:
            with open(self.path("cut.h5"), "wb") as file:
                file.write(whole[:part])
            result = self.run_quarry("eval", "sum(x)", "-i", "x=cut.h5:/x")
            self.assertIn(result.status, (1, 2), result.err)
            self.assertEqual(len(result.errors()), 1, result.err)
            self.assertIn("cut.h5", result.errors()[0])
        for name in ["no.h5", "empty.h5"]:
            result = self.run_quarry("eval", "sum(x)", "-i", f"x={name}:/x")
            self.assertIn(result.status, (1, 2), result.err)
            self.assertEqual(len(result.errors()), 1, result.err)
            self.assertIn(name, result.errors()[0])

    def test_budget_too_small_says_the_least(self):
        self.write("b.h5", x=(np.zeros((4096, 4096)), {"chunks": (4096, 4096), "compression": 1}))
        result = self.fails(2, "least", "eval", "x.T + 1", "-i", "x=b.h5:/x", "-o", "o.h5", "--memory", "8MiB")
        least = max(int(n) for n in re.findall(r"\d+", result.errors()[0].split("least")[1]))
        self.ok("eval", "x.T + 1", "-i", "x=b.h5:/x", "-o", "o.h5", "--memory", least)
        self.fails(2, "least", "eval", "x.T + 1", "-i", "x=b.h5:/x", "-o", "p.h5", "--memory", least // 2)
        self.assertFalse((self.dir / "p.h5").exists())

    def test_output_not_writable(self):
        x = ["-i", "x=a.h5:/x"]
        self.fails(2, "no directory", "eval", "x", *x, "-o", "none/o.h5")
        self.fails(2, "is a directory", "eval", "x", *x, "-o", ".")
        self.fails(2, "the output ':/y' names no file", "eval", "x", *x, "-o", ":/y")
        self.fails(2, "the output '' names no file", "sort", "a.h5:/x", "-o", "")
        self.fails(2, "/group is a group|a.h5:/group", "eval", "x", *x, "-o", "a.h5:/group", "--overwrite")
        self.fails(2, "/proc/o.h5", "eval", "x", *x, "-o", "/proc/o.h5")
        with open(self.path("text.h5"), "w") as file:
            file.write("not HDF5")
        result = self.run_quarry("eval", "x", *x, "-o", "text.h5")
        self.assertIn(result.status, (1, 2))
        self.assertEqual(self.contents("text.h5"), b"not HDF5")

    def test_expression_errors_show_the_place(self):
        result = self.fails(2, "column 5: name 'meen' is not defined; did you mean 'mean'", "eval", "1 + meen(x)", "-i", "x=a.h5:/x")
        self.assertIn("\n  1 + meen(x)\n      ^~~~\n", result.err)
        self.fails(2, r"\(3, 4\) \(2,\)", "eval", "x + [1, 2]", "-i", "x=a.h5:/x")
        self.fails(2, "never closed", "eval", "(x", "-i", "x=a.h5:/x")
        self.fails(2, "unexpected keyword argument 'axes'; did you mean 'axis'", "eval", "mean(x, axes=0)", "-i", "x=a.h5:/x")
        self.fails(2, "division by zero", "eval", "1/0")
        self.fails(2, "do not store", "eval", "'text'", "-o", "o.h5")

    def test_usage(self):
        self.fails(2, "a command is missing")
        self.fails(2, "unknown command evla; did you mean 'eval'", "evla")
        self.fails(2, "unknown option --memroy; did you mean '--memory'", "eval", "1", "--memroy", "1GiB")
        self.fails(2, "--components is required", "pca", "a.h5:/x", "-o", "o.h5")
        self.fails(2, "expression", "eval")
        self.fails(2, "one expression", "eval", "1", "2")
        self.fails(2, "not both", "eval", "1", "-f", "job.qy")
        self.fails(2, "NAME=FILE:/PATH", "eval", "x", "-i", "a.h5:/x")
        self.fails(2, "/PATH", "eval", "x", "-i", "x=a.h5")
        self.fails(2, "twice", "eval", "x", "-i", "x=a.h5:/x", "-i", "x=a.h5:/x")
        self.fails(2, "cannot name an input", "eval", "1", "-i", "None=a.h5:/x")
        self.fails(2, "memory|size", "eval", "1", "--memory", "lots")
        self.fails(2, "--device gpu: expected auto, cpu, cuda or emulated", "eval", "1", "--device", "gpu")
        self.fails(2, "--threads", "eval", "1", "--threads", "none")
        self.fails(2, "--chunks", "eval", "1", "--chunks", "4,x")
        self.fails(2, "--chunks", "eval", "1", "--chunks", "0")
        self.fails(2, "unknown filter 'deflat:3'; did you mean 'deflate'", "eval", "x", "-i", "x=a.h5:/x", "-o", "o.h5", "--out-filter", "deflat:3")
        self.fails(2, "--seed", "eval", "1", "--seed", "-1")
        self.fails(2, "--progress", "eval", "1", "--progress", "maybe")
        self.fails(2, "job.qy", "eval", "-f", "job.qy", "-o", "o.h5")


class FullDisk(CliTest):
    """A limit on the size of files stands for a disk without room."""

    def test_while_storing(self):
        for ranks in [0, 2]:
            result = self.run_quarry("eval", "random.uniform(size=(2048, 1024))", "-o", "new.h5", ranks=ranks, file_limit=4 << 20)
            self.assertIn(result.status, (1, 2), result.err)
            self.assertEqual(len(result.errors()), 1, result.err)
            self.assertRegex(result.errors()[0], "no space left")
            self.assertEqual(list(self.dir.iterdir()), [])

    def test_while_spilling(self):
        product = "sum(random.uniform(size=(3000, 3000)) @ random.uniform(size=(3000, 3000)))"
        for ranks in [0, 2]:
            result = self.run_quarry("eval", product, "-o", "o.h5", "--memory", "18MiB", "--chunks", "500,500", ranks=ranks, file_limit=4 << 20)
            self.assertEqual(result.status, 1, result.err)
            self.assertEqual(len(result.errors()), 1, result.err)
            self.assertRegex(result.errors()[0], "spill|space|large")
            self.assertEqual(list(self.dir.iterdir()), [])


class OneLineForAllRanks(CliTest):
    def setUp(self):
        super().setUp()
        self.write("a.h5", x=np.arange(12.0).reshape(3, 4))

    def test_mistakes_are_named_once(self):
        cases = [
            ("a command is missing", []),
            ("none.h5", ["eval", "x", "-i", "x=none.h5:/x"]),
            ("meen", ["eval", "meen(x)", "-i", "x=a.h5:/x"]),
            ("--memory|size|lots", ["eval", "1", "--memory", "lots"]),
            ("exists", ["eval", "x", "-i", "x=a.h5:/x", "-o", "a.h5:/x"]),
            ("never closed", ["eval", "(x"]),
        ]
        self.all_fail(2, cases, ranks=2)

    def test_failures_are_named_once(self):
        self.write("a.h5", bad=np.full((2, 2), np.nan))
        self.fails(1, "nan|NaN|finite", "eval", "linalg.eigh(b)", "-i", "b=a.h5:/bad", "-o", "o.h5", ranks=2)
        self.assertFalse((self.dir / "o.h5").exists())

    def test_results_are_printed_once(self):
        self.assertEqual(self.ok("eval", "sum(x)", "-i", "x=a.h5:/x", ranks=2).out, "66.0\n")


LONG = "sum(random.normal(size=(2000000, 20000)), axis=0)"


class Interrupts(CliTest):
    def interrupted(self, signal_number, ranks):
        self.write("o.h5", old=np.arange(3))
        process = self.start("eval", LONG, "-o", "o.h5", "--progress", "off", ranks=ranks)
        self.wait_until_computing(process)
        process.send_signal(signal_number)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(self.keys("o.h5"), ["old"])
        np.testing.assert_array_equal(self.read("o.h5", "old"), np.arange(3))
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["o.h5"])
        return process.returncode, err

    def test_ctrl_c_ends_cleanly(self):
        status, err = self.interrupted(signal.SIGINT, ranks=0)
        self.assertEqual(status, 128 + signal.SIGINT)
        self.assertEqual(sum(line.startswith("quarry: error: interrupted") for line in err.splitlines()), 1, err)

    def test_sigterm_ends_cleanly(self):
        status, err = self.interrupted(signal.SIGTERM, ranks=0)
        self.assertEqual(status, 128 + signal.SIGTERM)

    def test_ctrl_c_of_a_job(self):
        status, err = self.interrupted(signal.SIGINT, ranks=2)
        self.assertNotEqual(status, 0)


class DeadRank(CliTest):
    def test_a_killed_rank_ends_the_job(self):
        process = self.start("eval", LONG, "-o", "o.h5", "--progress", "off", ranks=2)
        self.wait_until_computing(process)
        ranks = [int(p) for p in os.popen(f"pgrep -P {process.pid}").read().split()]
        self.assertEqual(len(ranks), 2)
        os.kill(ranks[1], signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
        self.assertNotEqual(process.returncode, 0)
        self.assertFalse((self.dir / "o.h5").exists())


if __name__ == "__main__":
    main()
