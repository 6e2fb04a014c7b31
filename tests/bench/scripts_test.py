"""What scripts/bench and scripts/performance_pages make of figures. usage: scripts_test.py"""

import argparse
import ast
import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "bench"))
import chunked_gpu_rows
import chunked_rows
import chunked_sides
import record


def script(name):
    """A program of scripts/bench as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "scripts" / "bench" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def seconds(name, value, **columns):
    return record.row(name, value, "s", "lower", **columns)


class Rows(unittest.TestCase):
    def test_speed_is_of_the_better_direction(self):
        self.assertEqual(record.times_as_good(seconds("a", 2, peer=record.reference("NumPy", 6)), "peer"), 3)
        rate = record.row("a", 2.0, "B/s", "higher", peer=record.reference("NumPy", 4))
        self.assertEqual(record.times_as_good(rate, "peer"), 0.5)
        self.assertIsNone(record.times_as_good(seconds("a", 2), "peer"))

    def test_goals_bound_the_value_or_a_ratio(self):
        self.assertTrue(record.is_met(seconds("a", 4.5e-6, goal=record.goal("4.5 us", 4.5e-6))))
        self.assertFalse(record.is_met(seconds("a", 4.6e-6, goal=record.goal("4.5 us", 4.5e-6))))
        self.assertFalse(record.is_met(record.row("a", 339e9, "B/s", "higher", goal=record.goal("340 GB/s", 340e9))))
        four_times = record.goal("4 times", 4, "peer")
        self.assertTrue(record.is_met(seconds("a", 1, peer=record.reference("Dask", 4), goal=four_times)))
        self.assertFalse(record.is_met(seconds("a", 1, peer=record.reference("Dask", 3.9), goal=four_times)))
        self.assertIsNone(record.is_met(seconds("a", 1, goal=four_times)))
        self.assertIsNone(record.is_met(seconds("a", 1)))

    def test_quantities_have_prefixes(self):
        self.assertEqual(record.quantity(0.0271982, "s"), "27.2 ms")
        self.assertEqual(record.quantity(3e-7, "s"), "0.3 us")
        self.assertEqual(record.quantity(681, "s"), "11 min 21 s")
        self.assertEqual(record.quantity(4.27e12, "B/s"), "4.27 TB/s")
        self.assertEqual(record.quantity(160 * 2**20, "B"), "160 MiB")
        self.assertEqual(record.quantity(373, "units"), "373 units")

    def test_rows_kept_by_a_merge_name_their_commit(self):
        def of(commit, *rows):
            return {"subject": "x", "machine": {"cpu": "a"}, "versions": {"quarry": commit}, "command": "c", "date": "d", "rows": list(rows)}

        found = record.merged(of("old", seconds("a", 1), seconds("b", 1)), of("new", seconds("b", 2), seconds("c", 3)))
        self.assertEqual([(row["name"], row["value"], row.get("commit")) for row in found["rows"]], [("a", 1, "old"), ("b", 2, None), ("c", 3, None)])
        again = record.merged(found, of("newer", seconds("c", 4)))
        self.assertEqual([row.get("commit") for row in again["rows"]], ["old", "new", None])
        with self.assertRaises(SystemExit):
            record.merged(of("old"), of("new") | {"machine": {"cpu": "b"}})

    def test_a_recorder_leaves_out_where_things_lie(self):
        words = ["--json", "/tmp/x.json", "--peer-path", "/tmp/p", "--only", "fft", "--build=/opt/b", "--merge"]
        self.assertEqual(record.command_words(words), ["--only", "fft"])


class Chunked(unittest.TestCase):
    def test_every_workload_has_a_peer_and_the_reverse(self):
        peer = ast.parse((ROOT / "scripts/bench/chunked_dask.py").read_text())
        calls = [node for node in ast.walk(peer) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("row", "simple")]
        theirs = [call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)]
        self.assertEqual(sorted(theirs), sorted(row.name for row in chunked_rows.ROWS))
        self.assertGreaterEqual(len(theirs), 25)

    def test_every_workload_names_arrays_that_are_made(self):
        for size in chunked_rows.SIZES.values():
            shapes = chunked_rows.shapes(size)
            for row in chunked_rows.ROWS:
                for name in row.arrays.split():
                    self.assertGreater(min(shapes[name]), 0, row.name)

    def test_made_arrays_are_the_same_in_any_blocks_and_of_their_kind(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, shape in (("n", (64, 512)), ("c", (64, 512)), ("k", (1000,)), ("w", (24, 10, 20))):
                path = pathlib.Path(folder) / f"{name}.h5"
                chunked_rows.make(path, name, shape)
                with h5py.File(path) as file:
                    x = file["x"][...]
                    self.assertEqual((x.shape, file["x"].compression), (shape, "gzip" if name == "c" else None))
                self.assertEqual(x.dtype.kind, "i" if name == "k" else "f")
                self.assertEqual(np.isnan(x).any(), name == "n")

    def test_other_values_are_found(self):
        def differ(ours, theirs, tolerance=1e-9):
            return chunked_sides.difference([np.asarray(ours)], [np.asarray(theirs)], tolerance)

        x = np.linspace(-3, 3, 1 << 21).reshape(1 << 12, -1)
        self.assertIsNone(differ(x, x))
        self.assertIsNone(differ(x + 2e-9, x))
        self.assertIn("differs", differ(x + 4e-9, x))
        for place in (0, -1):
            other = x.copy()
            other[place, place] += 1
            self.assertIn("differs", differ(other, x))
        nan = x.copy()
        nan[0, 0] = np.nan
        self.assertEqual(differ(nan, x), "NaN elsewhere")
        self.assertEqual(differ(x, nan), "NaN elsewhere")
        self.assertIsNone(differ(nan, nan))
        self.assertIn("differs", differ(np.inf, 1.0))
        self.assertIn("shape", differ(x[0], x))
        self.assertIn("2 results for 1", chunked_sides.difference([x, x], [x], 0))
        self.assertIsNone(differ([], []))
        self.assertIsNone(differ([True], [True], 0))
        self.assertIn("differs", differ([True], [False], 0))
        self.assertIn("differs", differ(0.1, 0.0))

    def test_bytes_that_passes_move(self):
        rows = {row.name: row for row in chunked_gpu_rows.ROWS}
        self.assertEqual(len(rows), len(chunked_gpu_rows.ROWS))
        self.assertEqual(rows["sum"].moved_bytes(1 << 20), 8 << 20)
        self.assertEqual(rows["sqrt(x*x + y*y) + x"].moved_bytes(1 << 20), 3 * 8 << 19)
        self.assertEqual(rows["Black-Scholes, calls and puts"].results(), ["call", "put"])
        self.assertEqual(rows["mean and std, axis 0"].results(), [rows["mean and std, axis 0"].expression])
        self.assertEqual(chunked_gpu_rows.made("i * 2", (2, 3)), "(lambda i: i * 2)(arange(6)).reshape((2, 3))")

    def test_a_process_that_ends_or_hangs_is_a_failed_row(self):
        text = "import sys, time\nfor line in sys.stdin:\n    if 'hang' in line: time.sleep(60)\n    if 'end' in line: sys.exit(3)\n    print('noise')\n    print('{\"a\": 1}', flush=True)\n"
        side = chunked_sides.Side([sys.executable, "-c", text], None)
        self.addCleanup(side.close)
        self.assertEqual(side.ask("x"), {"a": 1})
        with self.assertRaisesRegex(chunked_sides.Failed, "status 3"):
            side.ask("end")
        self.assertEqual(side.ask("x"), {"a": 1})
        with self.assertRaisesRegex(chunked_sides.Failed, "more than 0 s"):
            side.ask("hang", limit=0.2)
        self.assertEqual(side.ask("x", limit=30), {"a": 1})


class Pages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.docs = pathlib.Path(self.folder.name) / "docs"
        for name in ("performance", "benchmarks"):
            shutil.copytree(ROOT / "docs" / name, self.docs / name)
        shutil.copy(ROOT / "docs/performance.md", self.docs)

    def check(self, *words):
        command = [sys.executable, ROOT / "scripts/performance_pages", "--root", self.folder.name, *words]
        return subprocess.run(command, capture_output=True, text=True)

    def change(self, name, change):
        path = self.docs / "benchmarks" / name
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    def fails_with(self, text):
        done = self.check("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn(text, done.stderr)

    def test_pages_are_what_the_figures_make(self):
        self.assertEqual((self.check("--check").returncode, self.check("--check").stderr), (0, ""))

    def test_another_figure_is_another_page(self):
        self.change("jobs-xeon.json", lambda data: data["rows"][0].update(value=15e9))
        self.fails_with("docs/performance/jobs.md is not what scripts/performance_pages writes")
        self.assertEqual(self.check().returncode, 0)
        self.assertEqual(self.check("--check").returncode, 0)
        self.assertIn("15 GB/s", (self.docs / "performance/jobs.md").read_text())

    def test_a_page_is_not_edited(self):
        path = self.docs / "performance/ranks.md"
        path.write_text(path.read_text().replace("**missed**", "met"))
        self.fails_with("docs/performance/ranks.md is not what")

    def test_every_figure_and_every_page_belongs_to_something(self):
        shutil.copy(self.docs / "benchmarks/jobs-xeon.json", self.docs / "benchmarks/others.json")
        self.fails_with("docs/benchmarks/others.json: no page of pages.toml shows it")
        (self.docs / "benchmarks/others.json").unlink()
        (self.docs / "performance/diary.md").write_text("how it went")
        self.fails_with("docs/performance/diary.md: no page of pages.toml")
        (self.docs / "performance/diary.md").unlink()
        (self.docs / "benchmarks/jobs-xeon.json").unlink()
        self.fails_with("pages.toml: no docs/benchmarks/jobs-xeon.json")

    def test_rows_of_another_form_are_named(self):
        self.change("jobs-xeon.json", lambda data: data["rows"][0].update(better="faster"))
        self.fails_with("better is faster, not higher or lower")
        self.change("jobs-xeon.json", lambda data: data["rows"].append(data["rows"][1]))
        self.fails_with("sum(x), chunked stands twice")
        self.change("jobs-xeon.json", lambda data: data["versions"].pop("quarry"))
        self.fails_with("versions name no commit of quarry")


class BeforeAfter(unittest.TestCase):
    def setUp(self):
        self.module = script("before_after")
        options = argparse.Namespace(before="before", after="after", limit=1.03, rename=["pulls=fetches"], only="", seconds=10)
        self.run_ = self.module.Run(options)
        self.addCleanup(self.run_.folder.cleanup)

    def add(self, name, before, after, unit="s", better="lower"):
        for values in zip(before, after):
            self.run_.add(name, values, unit, better)

    def test_slower_rows_are_found_in_both_directions(self):
        self.add("steady", [1.0, 1.1, 1.0], [1.01, 1.1, 1.02])
        self.add("slower", [1.0, 1.1, 1.0], [1.05, 1.16, 1.06])
        self.add("faster", [1.0, 1.1, 1.0], [0.5, 0.6, 0.5])
        self.add("lower rate", [10.0, 11.0, 10.0], [9.0, 10.0, 9.0], "B/s", "higher")
        self.add("higher rate", [10.0, 11.0, 10.0], [12.0, 12.0, 12.0], "B/s", "higher")
        self.assertEqual([row.name for row in self.run_.slower()], ["slower", "lower rate"])

    def test_what_a_busy_machine_takes_away_is_no_slower_row(self):
        self.add("disturbed", [1.0, 1.2, 1.1], [1.5, 1.0, 1.9])
        self.assertGreater(self.run_.pairs["disturbed"].ratio(), 1.03)
        self.assertEqual(self.run_.slower(), [])

    def test_measurements_alternate(self):
        order = []
        for _ in range(3):
            self.assertEqual(self.run_.pair(lambda which: order.append(which) or which), [0, 1])
        self.assertEqual(order, [0, 1, 1, 0, 0, 1])

    def test_rows_that_one_build_lacks_are_named(self):
        self.run_.add_all([{"pulls 1": (1.0, "s", "lower"), "gone": (1.0, "s", "lower")}, {"fetches 1": (1.0, "s", "lower")}])
        self.assertEqual(list(self.run_.pairs), ["fetches 1"])
        self.assertEqual(self.run_.failed, ["gone: only before"])


@unittest.skipUnless(shutil.which("ninja") and shutil.which("gcc"), "needs ninja and gcc")
class Build(unittest.TestCase):
    def test_units_that_a_change_compiles_again(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "table.def").write_text("int row;\n")
            (build / "reads.h").write_text('#include "table.def"\n')
            for name, text in (("direct", '#include "table.def"\n'), ("through", '#include "reads.h"\n'), ("other", "int x;\n")):
                (build / f"{name}.c").write_text(text)
            units = "".join(f"build {name}.o: cc {name}.c\n" for name in ("direct", "through", "other"))
            rule = "rule cc\n  command = gcc -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n"
            (build / "build.ninja").write_text(rule + units)
            subprocess.run(["ninja", "-C", folder], check=True, stdout=subprocess.DEVNULL)
            module = script("build")
            objects = module.dependencies(build)
            reading = {name for name, inputs in objects.items() if str(build / "table.def") in inputs}
            self.assertEqual((len(objects), reading), (3, {"direct.o", "through.o"}))
            times, whole = module.durations(build)
            self.assertEqual(set(times), set(objects))
            self.assertLessEqual(max(times.values()), whole)


class RunTests(unittest.TestCase):
    """scripts/run_tests.py over a build folder with tests of a line of shell."""

    def outcome(self, **tests):
        with tempfile.TemporaryDirectory() as folder:
            lines = [f'add_test({name} "/bin/sh" "-c" "{script}")' for name, script in tests.items()]
            pathlib.Path(folder, "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
            run = subprocess.run([sys.executable, ROOT / "scripts/run_tests.py", folder], capture_output=True, text=True)
        return run.returncode, run.stdout

    def test_a_test_that_fails_once_is_named_and_passes(self):
        status, text = self.outcome(late="echo too late; mkdir once && exit 1 || exit 0", good="true")
        self.assertEqual(status, 0, text)
        self.assertIn("--- output of late\ntoo late", text)
        self.assertTrue(text.endswith("failed, then passed alone: late\n2 passed, 0 failed, 0 skipped\n"), text)

    def test_a_test_that_fails_twice_fails(self):
        status, text = self.outcome(bad="echo wrong; exit 1", good="true")
        self.assertEqual(status, 1, text)
        self.assertTrue(text.endswith("failed: ctest bad\n1 passed, 1 failed, 0 skipped\n"), text)

    def test_many_that_fail_are_not_run_again(self):
        status, text = self.outcome(**{f"bad{i}": "exit 1" for i in range(4)})
        self.assertEqual(status, 1, text)
        self.assertNotIn("once more", text)


if __name__ == "__main__":
    unittest.main()
