"""quarry pca, generate and info, with their options."""

import json
import os
import re
import signal
import time
import urllib.request

from support import TIMEOUT, CliTest, h5py, main, np

KILLS = int(os.environ.get("KILLS", "1"))


def reference(x, k, standardise):
    """Means, deviations, variances, ratios, components and scores by NumPy."""
    x = x.astype("f8")
    mean, std = x.mean(axis=0), x.std(axis=0, ddof=1)
    z = (x - mean) / (std if standardise else 1)
    values, vectors = np.linalg.eigh(z.T @ z / (len(x) - 1))
    components = vectors.T[::-1][:k].copy()
    for row in components:
        if row[np.argmax(abs(row))] < 0:
            row *= -1
    return mean, std, values[::-1][:k], values[::-1][:k] / values.sum(), components, z @ components.T


class Pca(CliTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.x = rng.standard_normal((700, 12)) * np.arange(1, 13) + rng.standard_normal((700, 1)) * 5 + 100
        self.write("a.h5", x=(self.x, {"chunks": (64, 5)}))

    def check(self, name, x, k, standardise):
        with h5py.File(self.path(name)) as file:
            found = [file[key][()] for key in ["mean", "std", "explained_variance", "explained_variance_ratio", "components", "scores"]]
        for value, expected in zip(found, reference(x, k, standardise)):
            self.assertEqual(value.dtype, np.float64)
            np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-9)
        return found

    def test_against_numpy(self):
        for standardise in [False, True]:
            flags = ["--standardize"] if standardise else []
            self.ok("pca", "a.h5:/x", "-k", 4, *flags, "-o", "o.h5", "--overwrite")
            mean, std, variance, ratio, components, scores = self.check("o.h5", self.x, 4, standardise)
            np.testing.assert_allclose((components**2).sum(axis=1), 1)
            self.assertTrue((np.diff(variance) < 0).all())
            self.assertTrue((components[np.arange(4), abs(components).argmax(axis=1)] > 0).all())

    def test_all_components_and_other_dtypes(self):
        for dtype in ["f4", "i2", ">f8"]:
            self.write("b.h5", **{dtype.strip(">"): self.x.astype(dtype)})
            name = dtype.strip(">")
            self.ok("pca", f"b.h5:/{name}", "-k", 12, "-o", f"{name}.h5")
            self.check(f"{name}.h5", self.x.astype(dtype), 12, False)

    def test_same_bits_on_every_number_of_ranks_and_budget(self):
        self.ok("pca", "a.h5:/x", "-k", 3, "--standardize", "-o", "one.h5", "--chunks", "100,12")
        for ranks, memory in [(1, "2MiB"), (2, "1GiB"), (4, "2MiB")]:
            name = f"o{ranks}.h5"
            self.ok("pca", "a.h5:/x", "-k", 3, "--standardize", "-o", name, "--chunks", "100,12", "--memory", memory, ranks=ranks)
            for key in self.keys("one.h5"):
                self.assertEqual(self.read(name, key).tobytes(), self.read("one.h5", key).tobytes(), (ranks, key))

    def test_missing_values(self):
        x = self.x.copy()
        x[3, 2] = x[100, 2] = x[5, 7] = np.nan
        self.write("n.h5", x=x)
        self.fails(1, r"3 NaN, in columns 2, 7; --missing mean", "pca", "n.h5:/x", "-k", 2, "-o", "o.h5")
        self.assertFalse((self.dir / "o.h5").exists())
        result = self.ok("pca", "n.h5:/x", "-k", 2, "--missing", "mean", "-o", "o.h5")
        self.assertIn("3 NaN replaced", result.out)
        filled = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
        self.check("o.h5", filled, 2, False)
        self.ok("pca", "a.h5:/x", "-k", 2, "--missing", "mean", "-o", "p.h5")
        self.check("p.h5", self.x, 2, False)
        x[:, 4] = np.nan
        self.write("m.h5", x=x)
        self.fails(1, "nothing but NaN in column 4", "pca", "m.h5:/x", "-k", 2, "--missing", "mean", "-o", "q.h5")

    def test_unsuitable_data(self):
        constant, infinite = self.x.copy(), self.x.copy()
        constant[:, [1, 3]] = 7
        infinite[0, 5] = np.inf
        self.write("b.h5", constant=constant, infinite=infinite, vector=self.x[0], row=self.x[:1], complex=self.x * 1j)
        self.fails(1, "constant in columns 1, 3", "pca", "b.h5:/constant", "-k", 2, "--standardize", "-o", "o.h5")
        self.ok("pca", "b.h5:/constant", "-k", 2, "-o", "c.h5")
        self.fails(1, "infinite values.*column 5", "pca", "b.h5:/infinite", "-k", 2, "-o", "o.h5")
        self.fails(2, r"\(12,\).*matrix", "pca", "b.h5:/vector", "-k", 2, "-o", "o.h5")
        self.fails(2, "1 rows; at least 2", "pca", "b.h5:/row", "-k", 2, "-o", "o.h5")
        self.fails(2, "complex", "pca", "b.h5:/complex", "-k", 2, "-o", "o.h5")
        self.fails(2, r"-k takes 1 to the number of columns \(12\), not 13", "pca", "a.h5:/x", "-k", 13, "-o", "o.h5")
        self.fails(2, "not 0", "pca", "a.h5:/x", "-k", 0, "-o", "o.h5")
        self.fails(2, "pca: give the object too, a.h5:/PATH", "pca", "a.h5", "-k", 2, "-o", "o.h5")
        self.assertEqual(self.keys("c.h5")[0], "components")
        self.fails(2, "exists; --overwrite", "pca", "a.h5:/x", "-k", 2, "-o", "c.h5")

    def test_columns_in_a_small_budget(self):
        self.write("w.h5", x=(np.random.default_rng(0).random((1000, 900)), {"chunks": (64, 100)}))
        variances = []
        for memory in ["256MiB", "2MiB"]:
            self.ok("pca", "w.h5:/x", "-k", 2, "-o", "o.h5", "--overwrite", "--memory", memory)
            variances.append(self.read("o.h5", "explained_variance"))
        np.testing.assert_allclose(variances[1], variances[0], rtol=1e-12)
        self.fails(2, r"does not fit a memory budget of 262144 bytes per rank; the least that works", "pca", "w.h5:/x", "-k", 2, "-o", "p.h5", "--memory", "256KiB")

    def test_columns_whose_covariances_no_task_decomposes(self):
        x = np.random.default_rng(0).random((1200, 1100)) * np.arange(1, 1101)
        self.write("w.h5", x=(x, {"chunks": (64, 100)}))
        self.ok("pca", "w.h5:/x", "-k", 2, "-o", "o.h5", "--memory", "24MiB")
        with h5py.File(self.path("o.h5")) as file:
            found = file["explained_variance"][()], np.abs(file["components"][()])
        expected = reference(x, 2, False)
        np.testing.assert_allclose(found[0], expected[2], rtol=1e-9)
        np.testing.assert_allclose(found[1], np.abs(expected[4]), rtol=1e-6, atol=1e-8)

    def test_scores_may_be_filtered(self):
        self.ok("pca", "a.h5:/x", "-k", 4, "-o", "o.h5", "--out-chunks", "100,4", "--out-filter", "shuffle,deflate:1")
        with h5py.File(self.path("o.h5")) as file:
            self.assertEqual((file["scores"].chunks, file["scores"].compression), ((100, 4), "gzip"))
        self.check("o.h5", self.x, 4, False)

    def test_stats_trace_report_and_plan(self):
        self.ok("pca", "a.h5:/x", "-k", 2, "-o", "o.h5", "--stats", "s.json", "--trace", "t.json", "--report", "r.html", ranks=2)
        stats = self.stats()
        self.assertEqual(set(stats), {"wall_seconds", "read_bytes", "decoded_bytes", "reread_bytes", "direct_bytes", "written_bytes", "spilled_bytes", "restored_bytes", "communicated_bytes", "stolen_chunks", "tasks", "peak_device_bytes", "peak_host_bytes", "queues"})
        self.assertGreaterEqual(stats["read_bytes"], 3 * self.x.nbytes)
        self.assertEqual(stats["written_bytes"], 8 * (12 + 12 + 2 + 2 + 24 + 1400))
        self.assertGreater(stats["tasks"], 0)
        events = self.stats("t.json")["traceEvents"]
        self.assertEqual({event["pid"] for event in events}, {0, 1})
        page = (self.dir / "r.html").read_text()
        for text in ["Scree plot", "Explained variance", "quarry pca a.h5:/x -k 2", "Memory", "Timeline", "syrk"]:
            self.assertIn(text, page)
        self.assertNotRegex(page, r"(src|href)=.http")
        self.assertIn("Measured ceiling", page)
        lines = self.ok("report", "t.json", "-o", "again.html").out
        for text in ["quarry pca a.h5:/x -k 2", "2 ranks", "compute", "read"]:
            self.assertIn(text, lines)
        self.assertIn("Slowest tasks", (self.dir / "again.html").read_text())
        self.ok("pca", "a.h5:/x", "-k", 2, "-o", "q.h5", "--chunks", "64,5", "--trace", "u.json", ranks=2)
        self.ok("report", "u.json", "-o", "u.html")
        self.assertTrue("Communication matrix" in (self.dir / "u.html").read_text())
        self.fails(2, "is no trace of quarry", "report", "s.json")
        self.fails(2, "none.json", "report", "none.json")
        plan = self.ok("pca", "a.h5:/x", "-k", 2, "-o", "p.h5", "--plan").out
        for word in ["chunks:", "tasks:", "reads:", "writes:", "least budget:", "given budget:", "estimated time:", "syrk", "eigh"]:
            self.assertIn(word, plan)
        self.assertFalse((self.dir / "p.h5").exists())


class Resumed(CliTest):
    """A run that ends too early goes on where it was, with the same bits on any number of ranks."""

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(4)
        x = rng.standard_normal((60000, 48)) * np.arange(1, 49) + 10
        wide = rng.standard_normal((40, 12000)) + 5 * rng.standard_normal((40, 1))
        self.write("m.h5", x=x, wide=wide)

    def words(self, *more, output="o.h5", data="x", chunks="500,48", k=3):
        return ["pca", f"m.h5:/{data}", "-k", k, "--standardize", "-o", output, "--chunks", chunks, "--memory", "64MiB", "--threads", 1, "--progress", "off", "--device", "cpu", *more]

    def resumable(self, *more, **options):
        return self.words("--resume", "--save-every", 0, *more, **options)

    def bits(self, name="o.h5"):
        if name.endswith(".zarr"):
            self.ok("convert", name, "-o", "read.h5", "--overwrite")
            name = "read.h5"
        return {key: self.read(name, key).tobytes() for key in self.keys(name)}

    def states(self):
        return sorted(p.parent.name for p in self.dir.glob("**/*.states/table.*"))

    def test_stopped_in_every_pass(self):
        """A wide matrix by its small side."""
        for data, chunks, passes, numbers in [
            ("x", "500,48", 2, [20, 130, 200, 350]),
            ("wide", "40,600", 3, [1, 5, 10, 20, 25, 30, 34]),
        ]:
            options = {"data": data, "chunks": chunks}
            self.ok(*self.words(output="whole.h5", **options), "--overwrite")
            expected = self.bits("whole.h5")
            self.ok(*self.resumable("--stats", "whole.json", **options))
            self.assertTrue(self.bits() == expected)
            self.assertEqual(self.leftovers(), [])
            whole = self.stats("whole.json")["read_bytes"]
            os.remove(self.path("o.h5"))
            seen = set()  # how many steps were there
            for number in numbers:
                for ranks, then in [(0, 3), (2, 0)] if number in (20, 130) else [(0, 0)]:
                    stopped = self.fails_at_write(number // max(ranks, 1) + 1, self.resumable(**options), ranks)
                    self.assertTrue(stopped, (data, ranks, number))
                    steps = self.saved_steps()
                    seen.add(steps)
                    has_any = steps or self.states()
                    self.ok(*self.resumable("--stats", "s.json", **options), ranks=then)
                    self.assertTrue(self.bits() == expected, (data, ranks, then, number))
                    self.assertEqual(self.leftovers(), [])
                    if has_any:
                        self.assertLess(self.stats("s.json")["read_bytes"], whole, (data, ranks, then, number))
                    os.remove(self.path("o.h5"))
            self.assertGreaterEqual(len(seen), passes)

    def test_killed_at_random_moments(self):
        for output, more in [("o.h5", []), ("o.zarr", ["--out-filter", "deflate:1"])]:
            self.assert_goes_on_after_kills(self.resumable(*more, output=output), KILLS, self.bits, output)

    def test_sigterm(self):
        """Between passes too."""
        self.ok(*self.words(output="whole.h5"))
        process = self.start(*self.resumable())
        end = time.time() + TIMEOUT
        while not self.saved_steps() and process.poll() is None and time.time() < end:
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("the same command goes on", err)
        self.ok(*self.resumable(), ranks=2)
        self.assertTrue(self.bits() == self.bits("whole.h5"))

    def test_other_runs_are_refused_by_name(self):
        """By what a step has made, and by what it has begun."""
        for number, cases in [
            (20, [("the expression of step 1's result 1", self.resumable(chunks="400,48"))]),
            (130, [("the shape of step 3's result 1", self.resumable(k=4)), ("input m.h5:/x is .* and was not there", [word for word in self.resumable() if word != "--standardize"])]),
            (300, [("the chunks in the file of /components", self.resumable("--out-chunks", "100,3")), ("the expression of step 1's result 1", self.resumable(chunks="400,48"))]),
        ]:
            self.assertTrue(self.fails_at_write(number, self.resumable()))
            before = self.saved_steps(), self.states()
            for pattern, arguments in cases:
                result = self.run_quarry(*arguments)
                self.assertNotEqual(result.status, 0)
                self.assertRegex(result.errors()[0], "is of another run: .*" + pattern)
            os.utime(self.path("m.h5"), ns=(number, number))
            result = self.run_quarry(*self.resumable())
            self.assertRegex(result.errors()[0], "input m.h5:/x is .* bytes changed at")
            self.assertEqual((self.saved_steps(), self.states()), before)
            # A run that begins anew takes them away.
            self.ok(*self.words())
            self.assertEqual(self.leftovers(), [])
            os.remove(self.path("o.h5"))

    def test_what_cannot_be_resumed(self):
        for name in ["o.npz", "o.csv"]:
            self.fails(2, "cannot be resumed", *self.resumable(output=name))
        self.write("n.h5", x=np.where(np.arange(2000).reshape(100, 20) == 7, np.nan, 1.0), constant=np.ones((100, 20)))
        for message, data in [("1 NaN, in column 7", "x"), ("constant in columns 0, 1", "constant")]:
            self.fails(1, message, "pca", f"n.h5:/{data}", "-k", 2, "--standardize", "-o", "o.h5", "--resume")
            self.assertEqual(self.leftovers(), [])
        self.ok("pca", "n.h5:/x", "-k", 2, "--missing", "mean", "-o", "o.h5", "--resume")
        self.assertEqual(self.leftovers(), [])
        self.fails(2, "exists; --overwrite", "pca", "n.h5:/x", "-k", 2, "-o", "o.h5", "--resume")


class LivePage(CliTest):
    def test_it_is_served_while_the_run_lasts(self):
        self.ok("generate", "market", "--rows", 200000, "--cols", 64, "--factors", 4, "-o", "m.h5:/x")
        process = self.start("pca", "m.h5:/x", "-k", 4, "-o", "o.h5", "--dashboard", "0", "--memory", "16MiB", ranks=2)
        url, seen = None, []
        for line in process.stderr:
            if found := re.search(r"the run is shown at (http://127\.0\.0\.1:\d+/)", line):
                url = found[1]
                break
        self.assertIsNotNone(url)
        self.assertIn(b"<!DOCTYPE html>", urllib.request.urlopen(url, timeout=20).read())
        try:
            while process.poll() is None:
                seen.append(json.load(urllib.request.urlopen(url + "progress.json", timeout=20)))
                time.sleep(0.02)
        except OSError:
            pass  # it ended
        process.communicate()
        self.assertEqual(process.returncode, 0)
        self.assertEqual([rank["rank"] for rank in seen[-1]["ranks"]], [0, 1])
        self.assertTrue(seen[0]["title"].startswith("quarry pca m.h5:/x"))
        for status in seen:
            self.assertLessEqual(status["all"]["memory_used"], status["all"]["memory_limit"])
            self.assertLessEqual(status["all"]["fraction"], 1)

    def test_another_address_needs_a_token(self):
        self.fails(2, "needs a token", "eval", "1", "--dashboard", "0.0.0.0:0")
        self.fails(2, "0 to 65535", "eval", "1", "--dashboard", "70000")


class Generate(CliTest):
    arguments = ["generate", "market", "--rows", 3000, "--cols", 24, "--factors", 3, "--seed", 5]

    def test_data_do_not_depend_on_chunks_and_ranks(self):
        self.ok(*self.arguments, "-o", "a.h5:/r", "--chunks", "500,10")
        self.ok(*self.arguments, "-o", "b.h5:/r", "--memory", "8MiB", ranks=2)
        self.ok(*self.arguments, "-o", "c.h5:/r", "--chunks", "100,24", "--filter", "deflate:4,shuffle", ranks=4)
        self.ok(*self.arguments, "-o", "f.h5:/r", "--dtype", "float32")
        a = self.read("a.h5", "r")
        self.assertEqual(self.read("b.h5", "r").tobytes(), a.tobytes())
        self.assertEqual(self.read("c.h5", "r").tobytes(), a.tobytes())
        self.assertEqual(self.read("f.h5", "r").tobytes(), a.astype("f4").tobytes())
        with h5py.File(self.path("c.h5")) as file:
            self.assertEqual((file["r"].chunks, file["r"].shuffle, file["r"].compression_opts), ((100, 24), True, 4))
        self.ok(*self.arguments[:-1], 6, "-o", "d.h5:/r")
        self.assertFalse((self.read("d.h5", "r") == a).any())

    def test_data_follow_the_model(self):
        self.ok("generate", "market", "--rows", 60000, "--cols", 24, "--factors", 3, "--seed", 5, "-o", "a.h5:/r")
        b, variances, means, volatilities = (self.read("a.h5", f"r_model/{key}") for key in ["loadings", "variances", "means", "volatilities"])
        np.testing.assert_allclose(b @ b.T, np.eye(3), atol=1e-14)
        self.assertTrue((np.diff(variances) < 0).all())
        self.assertTrue((b[0] > 0).all())
        r = self.read("a.h5", "r")
        expected = np.outer(volatilities, volatilities) * (b.T @ np.diag(variances) @ b + np.eye(24))
        scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        self.assertLess((abs(np.cov(r.T) - expected) / scale).max(), 6 / np.sqrt(len(r)))
        self.assertLess((abs(r.mean(axis=0) - means) / np.sqrt(np.diag(expected))).max(), 6 / np.sqrt(len(r)))

    def test_mistakes(self):
        self.fails(2, "--factors takes 1 to the number of columns", "generate", "market", "--rows", 3, "--cols", 2, "--factors", 3, "-o", "a.h5")
        self.fails(2, "--rows", "generate", "market", "--rows", 0, "--cols", 2, "--factors", 1, "-o", "a.h5")
        self.fails(2, "--dtype", *self.arguments, "-o", "a.h5", "--dtype", "int32")
        self.fails(2, "--chunks", *self.arguments, "-o", "a.h5", "--chunks", "5")
        self.fails(2, "unknown filter", *self.arguments, "-o", "a.h5", "--filter", "zip")
        self.fails(2, "required", "generate", "market", "--rows", 3)
        self.assertFalse((self.dir / "a.h5").exists())


class Info(CliTest):
    def test_tree(self):
        x = np.zeros((100, 20))
        self.write("a.h5", x=(x, {"chunks": (10, 20), "compression": 4, "shuffle": True}), g__y=np.arange(3, dtype=">i4"), scalar=np.float32(1))
        with h5py.File(self.path("a.h5"), "a") as file:
            file["x"].attrs["unit"] = "m"
            file["text"] = "a string"
        out = self.ok("info", "a.h5").out
        for pattern in [r"/x  \(100, 20\) float64  15\.6 KiB  chunks \(10, 20\)  shuffle,deflate:4  stored .*ratio", r'@unit = "m"', r"/g/\n", r"/g/y  \(3,\) int32 \(foreign byte order\)", r"/scalar  \(\) float32", r"/text .*string"]:
            self.assertRegex(out, pattern)
        below = self.ok("info", "a.h5:/g").out
        self.assertIn("/g/y", below)
        self.assertNotIn("/x", below)
        self.assertEqual(self.ok("info", "a.h5", ranks=2).out, out)
        self.fails(2, "nothing", "info", "a.h5:/nothing")


if __name__ == "__main__":
    main()
