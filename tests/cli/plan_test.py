"""Plans, estimates, progress and what is said of a run."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios

from support import MPIRUN, QUARRY, CliTest, h5py, main, np


def estimate(plan):
    text = re.search(r"estimated time: (.*) \(", plan)[1]
    if text.endswith(" s"):
        return float(text[:-2])
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


class Plans(CliTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(1)
        self.write("a.h5", x=rng.standard_normal((600, 500)), v=rng.integers(0, 50, 4000))

    def names(self):
        return sorted(path.name for path in self.dir.iterdir())

    def test_nothing_is_computed_or_written(self):
        (self.dir / "spill").mkdir()
        for command in [
            ["generate", "market", "--rows", 2_000_000, "--cols", 500, "--factors", 20, "-o", "o.h5", "--memory", "64MiB"],
            ["pca", "a.h5:/x", "-k", 2, "-o", "o.h5"],
            ["eval", "x @ x.T", "-i", "x=a.h5:/x", "-o", "o.h5"],
            ["eval", "unique(v)", "-i", "v=a.h5:/v"],
            ["eval", "x.to_hdf5('o.h5', '/x')", "-i", "x=a.h5:/x"],
            ["eval", "mean(x.persist())", "-i", "x=a.h5:/x"],
        ]:
            before = self.names()
            result = self.ok(*command, "--plan", "--spill-dir", "spill", "--stats", "s.json", "--report", "r.html", "--trace", "t.json")
            self.assertRegex(result.out, "estimated time: ")
            self.assertEqual(self.names(), before)
            self.assertEqual(list((self.dir / "spill").iterdir()), [])

    def test_what_depends_on_values_is_said(self):
        result = self.ok("eval", "mean(unique(v) * 2.0)", "-i", "v=a.h5:/v", "--plan")
        self.assertRegex(result.out, "plan of what is computed first(.|\n)*unique(.|\n)*what follows depends on its values")
        self.assertIn("what follows depends", self.ok("eval", "unique(v)", "-i", "v=a.h5:/v", "--plan", ranks=2).out)

    def test_all_computations_of_a_command(self):
        """What is planned of them is about what runs."""
        rng = np.random.default_rng(2)
        square = rng.standard_normal((300, 300))
        self.write("m.h5", v=rng.standard_normal(400_000), s=square + square.T, a=square, tall=rng.standard_normal((3000, 60)), b=rng.standard_normal(3000))
        for words, memory, least in [(["sort", "m.h5:/v"], "6MiB", 3), (["eigh", "m.h5:/s"], "3MiB", 20), (["svd", "m.h5:/a"], "3MiB", 20), (["lstsq", "m.h5:/tall", "m.h5:/b"], "4MiB", 2), (["solve", "m.h5:/s", "m.h5:/a", "--refine"], "3MiB", 2)]:
            command = [*words, "-o", "o.h5", "--overwrite", "--memory", memory, "--device", "cpu", "--progress", "off"]
            for ranks in [0, 2]:
                plan = self.ok(*command, "--plan", ranks=ranks).out
                self.assertNotIn("what follows depends", plan)
                self.assertFalse((self.dir / "o.h5").exists())
                last, everything = plan.split("plan of all ")
                self.assertGreaterEqual(int(everything.split()[0]), least, words)
                number = lambda name, text=everything: int(re.search(rf"\n{name}: ([\d,]+)", text)[1].replace(",", ""))
                self.ok(*command, "--stats", "s.json", ranks=ranks)
                stats = self.stats("s.json")
                if words[0] != "solve":  # whose number of refinements is not known
                    self.assertLess(abs(number("tasks") - stats["tasks"]), 0.4 * stats["tasks"], (words, ranks))
                self.assertGreaterEqual(number("least budget"), number("least budget", last))
                self.assertEqual("between ranks: " in everything, ranks > 0)
                if ranks > 0:
                    self.assertRegex(everything, r"between ranks: .* within nodes, 0 B between nodes")
                # The least budget of all is enough, and not much too large.
                enough = [*words, "-o", "n.h5", "--overwrite", "--memory", str(number("least budget")), "--device", "cpu", "--progress", "off"]
                self.assertEqual(self.run_quarry(*enough, "--plan", ranks=ranks).status, 0)
                os.remove(self.path("o.h5"))

    def test_arithmetic_is_estimated(self):
        def of(expression):
            return estimate(self.ok("eval", expression, "--plan", env={"QUARRY_CACHE_DIR": self.path("cache")}).out)

        self.assertGreater(of("linalg.eigh(ones((3000, 3000)))[0]"), 1)
        small, large = of("ones((1000, 1000)) @ ones((1000, 1000))"), of("ones((8000, 8000)) @ ones((8000, 8000))")
        self.assertGreater(large, 30 * small)

    def test_damaged_rates_are_measured_anew(self):
        cache = self.dir / "cache"
        env = {"QUARRY_CACHE_DIR": str(cache)}
        self.ok("eval", "sum(x)", "-i", "x=a.h5:/x", "--plan", env=env)
        kept = [path for path in cache.iterdir() if path.name.startswith("rates-")]
        self.assertEqual(len(kept), 1)
        for damage in [b"", b"nonsense", kept[0].read_bytes()[:-3]]:
            kept[0].write_bytes(damage)
            self.assertRegex(self.ok("eval", "sum(x)", "-i", "x=a.h5:/x", "--plan", env=env).out, r"estimated time: \d")
        cache.rename(self.dir / "gone")
        cache.write_text("no folder")
        self.assertRegex(self.ok("eval", "sum(x)", "-i", "x=a.h5:/x", "--plan", env=env).out, r"estimated time: \d")

    def test_outputs_larger_than_the_disk_are_refused_before_anything_is_computed(self):
        self.write("wide.h5", x=(np.zeros((1, 1)), {"maxshape": (None, None), "chunks": (1024, 1024)}))
        with h5py.File(self.path("wide.h5"), "a") as file:
            file["x"].resize((4_000_000_000_000, 2))  # nothing of it is stored
        for command in [
            ["generate", "market", "--rows", 10**12, "--cols", 1000, "--factors", 3, "-o", "o.h5"],
            ["pca", "wide.h5:/x", "-k", 1, "-o", "o.h5"],
        ]:
            self.fails(2, "no space left on device: .* are needed, .* free", *command)
            self.assertNotIn("o.h5", self.names())

    def test_flops_and_bytes_between_ranks_are_those_of_the_run(self):
        random = np.random.default_rng(2)
        self.write("m.h5", a=(random.standard_normal((1300, 1300)), {"chunks": (200, 300)}))
        for text, flops in [
            ("linalg.solve(a, a[0])", "1.47e+09"),
            ("linalg.inv(a)", "4.62e+09"),  # 2 n^3, and panels of the identity solved whole
            ("linalg.qr(a)[0]", "5.86e+09"),
            ("a @ a", "4.39e+09"),
        ]:
            for ranks in [0, 3] if text in ("linalg.qr(a)[0]", "a @ a") else [3]:
                command = ["eval", text, "-i", "a=m.h5:/a", "-o", "o.h5", "--overwrite", "--memory", "64MiB", "--threads", 1]
                plan = self.ok(*command, "--plan", ranks=ranks).out
                self.assertIn(f"flops: about {flops}, of products and decompositions", plan)
                self.ok(*command, "--stats", "s.json", "--trace", "t.json", ranks=ranks)
                with open(self.path("t.json")) as file:
                    tasks = [event["args"] for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
                self.assertEqual(f"{sum(task.get('flops', 0) for task in tasks):.3g}", flops)
                self.assertTrue(all(task["detail"] and task["TFLOP/s"] > 0 for task in tasks if "flops" in task))
                self.assertIn("FLOP/s", self.ok("report", "t.json").out)
                sent = self.stats("s.json")["communicated_bytes"]
                said = re.search(r"between ranks: ([\d.]+) MiB \([\d.]+ MiB within nodes, 0 B between nodes\), at most ([\d.]+) MiB to one of them", plan)
                if ranks == 0:
                    self.assertIsNone(said)
                    continue
                total, most = float(said[1]), float(said[2])
                self.assertAlmostEqual(sent / 2**20 / total, 1, delta=0.1)
                self.assertLessEqual(total / ranks, most)
                self.assertLessEqual(most, total)
        self.assertNotIn("flops", self.ok("eval", "sum(a)", "-i", "a=m.h5:/a", "--plan", ranks=2).out)

    def test_ranks_multiply_in_layers_where_those_receive_less(self):
        random = np.random.default_rng(2)
        self.write("m.h5", **{name: (random.standard_normal((1024, 1024)), {"chunks": (128, 128)}) for name in "ab"})
        text = "matmul(a.rechunk((64, 64)), b.rechunk((64, 64)))"
        command = ["eval", text, "-i", "a=m.h5:/a", "-i", "b=m.h5:/b", "-o", "o.h5", "--overwrite", "--threads", 1]
        bits, received = set(), {}
        for ranks, memory, grid in [(0, "64MiB", None), (2, "64MiB", "2 x 1 x 1"), (8, "64MiB", "4 x 1 x 2"), (8, "6MiB", "8 x 1 x 1")]:
            plan = self.ok(*command, "--memory", memory, "--plan", ranks=ranks).out
            self.assertEqual(re.findall(r"on (.*) ranks", plan), [grid] if grid else [])
            self.ok(*command, "--memory", memory, "--stats", "s.json", ranks=ranks)
            bits.add(self.read("o.h5").tobytes())
            if ranks:
                said = float(re.search(r"between ranks: ([\d.]+) MiB", plan)[1])
                received[grid] = self.stats("s.json")["communicated_bytes"] / 2**20
                self.assertAlmostEqual(received[grid] / said, 1, delta=0.01)
        self.assertEqual(len(bits), 1)
        self.assertLess(received["4 x 1 x 2"], 0.7 * received["8 x 1 x 1"])

    def test_statistics_count_the_run_alone(self):
        command = ["eval", "sum(x * 2)", "-i", "x=a.h5:/x", "--threads", 1]
        for ranks in [0, 2]:
            self.ok(*command, "--stats", "plain.json", ranks=ranks)
            self.ok(*command, "--stats", "more.json", "--report", "r.html", "--trace", "t.json", ranks=ranks)
            plain, more = self.stats("plain.json"), self.stats("more.json")
            for key in ["tasks", "read_bytes", "written_bytes", "spilled_bytes"]:
                self.assertEqual(plain[key], more[key], key)
            self.assertLess(more["communicated_bytes"], plain["communicated_bytes"] + 10_000)

    def test_halved_chunks_are_said_with_what_keeps_them(self):
        command = ["generate", "market", "--rows", 20000, "--cols", 500, "--factors", 4, "-o", "o.h5", "--overwrite", "--memory"]
        result = self.ok(*command, "48MiB", "--report", "r.html")
        self.assertRegex(result.err, r"quarry: chunks halved to fit .*; --memory \d+MiB keeps them")
        self.assertIn("chunks halved to fit", (self.dir / "r.html").read_text())
        memory = re.search(r"--memory (\d+MiB) keeps", result.err)[1]
        self.assertNotIn("halved", self.ok(*command, memory).err)

    def test_the_least_budget_works_and_a_byte_less_does_not(self):
        for command in [
            ["eval", "x.T @ x", "-i", "x=a.h5:/x"],
            ["eval", "sort(x, axis=0)", "-i", "x=a.h5:/x"],
            ["eval", "linalg.inv(x[:500])", "-i", "x=a.h5:/x"],
        ]:
            for ranks in [0, 2]:
                command = [*command, "-o", "o.h5", "--overwrite", "--memory"]
                error = self.fails(2, r"the least that works with these chunks is \d+ bytes", *command, "300KiB", ranks=ranks).err
                least = int(re.search(r"these chunks is (\d+) bytes", error)[1])
                self.ok(*command, f"{least}B", ranks=ranks)
                again = self.fails(2, "does not fit", *command, f"{least - 1}B", ranks=ranks).err
                self.assertEqual(int(re.search(r"these chunks is (\d+) bytes", again)[1]), least)
                command = command[: command.index("-o")]

    def test_outputs_say_who_made_them(self):
        self.ok("eval", "x + 1", "-i", "x=a.h5:/x", "-o", "o.h5:/y", "--chunks", "100,500")
        self.ok("pca", "a.h5:/x", "-k", 2, "-o", "p.h5")
        with h5py.File(self.path("o.h5")) as file:
            attributes = dict(file["y"].attrs)
        self.assertEqual(attributes["quarry_command"], "quarry eval 'x + 1' -i x=a.h5:/x -o o.h5:/y --chunks 100,500")
        self.assertRegex(attributes["quarry_version"], r"^\d+\.\d+")
        self.assertEqual(attributes["quarry_inputs"], "a.h5:/x")
        self.assertEqual(attributes["quarry_chunks"], "(100, 500)")
        with h5py.File(self.path("p.h5")) as file:
            self.assertIn("quarry pca", file["scores"].attrs["quarry_command"])
            self.assertEqual(file["mean"].attrs["quarry_inputs"], "a.h5:/x")

    def test_the_report_begins_with_what_held_the_run_up(self):
        self.ok("eval", "x @ x.T", "-i", "x=a.h5:/x", "-o", "o.h5", "--report", "r.html")
        page = (self.dir / "r.html").read_text()
        self.assertRegex(page, r'</header>\s*<p class="bottleneck">[A-Z][^<]*\.</p>')
        self.assertRegex(page, r"<td>product</td>.*>0\.18</td>.*>[\d.e+]+ GFLOP/s</td>.*>\d+ %<")
        self.ok("pca", "a.h5:/x", "-k", 2, "-o", "p.h5", "--report", "p.html", "--trace", "p.json")
        page = (self.dir / "p.html").read_text()
        self.assertIn("<title>2/3 covariances</title>", page)
        self.ok("report", "p.json", "-o", "again.html")
        self.assertIn("<title>2/3 covariances</title>", (self.dir / "again.html").read_text())


class SmallSide(CliTest):
    """pca of fewer rows than columns."""

    def components(self, x, k, *options):
        self.write("w.h5", x=x)
        self.ok("pca", "w.h5:/x", "-k", k, "-o", "o.h5", "--overwrite", *options)
        with h5py.File(self.path("o.h5")) as file:
            return {name: file[name][()] for name in file}

    def check(self, x, k, *options):
        found = self.components(x, k, *options)
        z = x - x.mean(axis=0)
        _, s, vt = np.linalg.svd(z, full_matrices=False)
        variance = s**2 / (len(x) - 1)
        np.testing.assert_allclose(found["explained_variance"], variance[:k], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found["explained_variance_ratio"], variance[:k] / variance.sum(), rtol=1e-9, atol=1e-12)
        rows = found["components"]
        np.testing.assert_allclose(rows @ rows.T, np.eye(k), atol=1e-8)
        self.assertTrue(all(row[np.argmax(abs(row))] > 0 for row in rows))
        np.testing.assert_allclose(abs(rows @ vt[:k].T), np.eye(k), atol=1e-6)
        np.testing.assert_allclose(found["scores"], z @ rows.T, atol=1e-8)

    def test_against_numpy(self):
        rng = np.random.default_rng(5)
        x = rng.standard_normal((40, 700)) * np.linspace(3, 1, 40)[:, None] + rng.standard_normal(700)
        for k in [1, 5, 38]:
            self.check(x, k)
            (self.dir / "w.h5").unlink()

    def test_columns_squared_are_not_needed(self):
        x = np.random.default_rng(6).standard_normal((30, 3000))
        self.check(x, 3, "--memory", "24MiB")  # the square of the columns has 69 MiB

    def test_components_without_variance_take_the_large_side(self):
        rng = np.random.default_rng(7)
        x = rng.standard_normal((6, 3)) @ rng.standard_normal((3, 20))
        rows = self.components(x, 5)["components"]
        self.assertTrue(np.isfinite(rows).all())
        np.testing.assert_allclose(rows @ rows.T, np.eye(5), atol=1e-8)


class Bar(CliTest):
    def shown(self, command, columns):
        """What a command writes to a terminal of so many columns that is its stderr."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = dict(os.environ, QUARRY_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        process = subprocess.Popen([str(word) for word in command], cwd=self.dir, stderr=theirs, stdout=subprocess.DEVNULL, env=env)
        os.close(theirs)
        text = b""
        while True:
            ready, _, _ = select.select([ours], [], [], 120)
            try:
                part = os.read(ours, 65536) if ready else b""
            except OSError:
                part = b""
            if not part:
                break
            text += part
        os.close(ours)
        self.assertEqual(process.wait(), 0, text)
        return text.decode(errors="replace")

    def test_at_80_columns_and_under_a_launcher(self):
        self.write("s.h5", x=np.random.default_rng(2).standard_normal((1200, 1200)))
        expression = "linalg.svd(x)[1]"
        for command in [[QUARRY, "eval", expression, "-i", "x=s.h5:/x"], [*MPIRUN, "-n", 2, QUARRY, "eval", expression, "-i", "x=s.h5:/x"]]:
            text = self.shown(command, 80)
            drawn = re.findall(r"\r(\[[#.]+\] +\d+%[^\r\x1b]*)", text)
            self.assertTrue(drawn, text)
            self.assertLess(max(len(line) for line in drawn), 80)
            # One long task does not stand at nothing.
            self.assertGreater(max(int(re.search(r"(\d+)%", line)[1]) for line in drawn), 0, drawn)


if __name__ == "__main__":
    main()
