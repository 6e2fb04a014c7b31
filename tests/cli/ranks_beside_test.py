"""Ranks that are not alike: CPU ranks beside ranks with a device (an emulated one, or QUARRY_TEST_DEVICE, cuda: two GPUs), and slow ranks."""

import json
import os

from support import CliTest, main, np

CPU = {"QUARRY_DEVICE": "cpu", "QUARRY_WEIGHT": "1"}
KIND = os.environ.get("QUARRY_TEST_DEVICE", "emulated")
DEVICE = {"QUARRY_DEVICE": KIND, "QUARRY_WEIGHT": "1"}
OPTIONS = ["--memory", "64MiB", "--host-memory", "32MiB", "--threads", "1", "--progress", "off"]


class RanksBeside(CliTest):
    def mixed(self, expression, *arguments, first=DEVICE, beside=(CPU,), **options):
        environment = {"QUARRY_WITHOUT_GPU": "cpu", **first}
        return self.ok("eval", expression, *arguments, *OPTIONS, ranks=1, env=environment, beside=list(beside), **options)

    def test_blocks_travel_between_them(self):
        x = np.random.default_rng(3).standard_normal((300, 200))
        self.write("x.h5", x=x)
        expressions = {
            "sum(x, axis=0)": x.sum(0),
            "x.T @ x": x.T @ x,
            "(x - mean(x, axis=0)) / std(x, axis=0)": (x - x.mean(0)) / x.std(0),
            "x.T + 1": x.T + 1,
            "concatenate([x[::-1], x[:, ::-1]], axis=0)": np.concatenate([x[::-1], x[:, ::-1]]),
        }
        for beside, first in [([CPU], DEVICE), ([DEVICE], CPU), ([CPU, DEVICE, CPU], DEVICE)]:
            for number, (expression, expected) in enumerate(expressions.items()):
                output = f"o{number}.h5"
                self.mixed(expression, "-i", "x=x.h5:/x", "--chunks", "64,64", "-o", output, "--overwrite", first=first, beside=beside)
                np.testing.assert_allclose(self.read(output), expected, rtol=1e-10, atol=1e-10)

    def test_copies_between_devices_may_be_required(self):
        # Only of ranks that have a device.
        x = np.arange(40000.0).reshape(200, 200)
        self.write("x.h5", x=x)
        for copies in ["on", "off"]:
            self.mixed("x.T @ x", "-i", "x=x.h5:/x", "--chunks", "50,50", "--peer-copies", copies, "-o", copies + ".h5", beside=[CPU, DEVICE])
            np.testing.assert_allclose(self.read(copies + ".h5"), x.T @ x, rtol=1e-12)

    def test_more_ranks_than_chunks(self):
        x = np.arange(100.0)
        self.write("x.h5", x=x)
        for chunks in [50, 100]:
            result = self.mixed("sum(x)", "-i", "x=x.h5:/x", "--chunks", chunks, beside=[CPU, DEVICE, CPU])
            self.assertEqual(result.out, "4950.0\n")

    def slow_rank(self, kind, rows, chunk, rate):
        """What is printed and written with one of two ranks slow; chunks that changed hands."""
        if not (self.dir / f"{kind}.h5").exists():
            self.write(f"{kind}.h5", x=np.random.default_rng(4).standard_normal((rows, 64)))
        slow, fast = ({"QUARRY_DEVICE": kind, "QUARRY_FAULT_READ_RATE": rate} for rate in [str(rate), "0"])
        for balance in ["on", "off"]:
            files = [option for name in ["stats", "trace", "report"] for option in ["--" + name, f"{balance}.{name}"]]
            arguments = ["-i", f"x={kind}.h5:/x", "--chunks", f"{chunk},64", "--balance", balance, "--overwrite", "-o", balance + ".h5"]
            self.mixed("sum(x, axis=0)", *arguments, *files, first=slow, beside=[fast])
        stolen = self.stats("on.stats")["stolen_chunks"]
        self.assertEqual(self.stats("off.stats")["stolen_chunks"], 0)
        np.testing.assert_array_equal(self.read("on.h5"), self.read("off.h5"))
        names = [event.get("name", "") for event in json.loads((self.dir / "on.trace").read_text())["traceEvents"]]
        self.assertEqual(sum(name.endswith((" for rank 0", " for rank 1")) for name in names), stolen)
        self.assertIn("Chunks stolen", (self.dir / "on.report").read_text())
        return stolen

    def taken_from_a_slow_rank(self, least, kind, rows, chunk, rate):
        """On a busy machine the other rank may be late to help: then with a rank a third and a ninth as fast."""
        for slower in [1, 3, 9]:
            taken = self.slow_rank(kind, rows, chunk, rate // slower)
            if taken > least:
                break
        return taken

    def test_what_is_done_for_a_slow_rank_is_reported(self):
        self.assertGreater(self.taken_from_a_slow_rank(4, "cpu", rows=8192, chunk=256, rate=2_000_000), 4)
        self.fails(2, "expected on or off", "eval", "1", "--balance", "maybe")

    def test_a_slow_rank_with_a_device(self):
        self.assertGreater(self.taken_from_a_slow_rank(0, KIND, rows=131072, chunk=8192, rate=20_000_000), 0)

    def test_they_must_be_asked_for(self):
        self.write("x.h5", x=np.arange(10.0))
        arguments = ["eval", "sum(x)", "-i", "x=x.h5:/x", *OPTIONS]
        self.fails(2, "different kinds of device", *arguments, ranks=1, env=DEVICE, beside=[CPU])
        self.fails(2, "expected error or cpu", *arguments, "--without-gpu", "maybe", ranks=2)
        text = self.ok("info", "--topology", *OPTIONS[:-2], ranks=1, env={**DEVICE, "QUARRY_WITHOUT_GPU": "cpu"}, beside=[CPU]).out
        self.assertRegex(text, rf"(?m)^  0 on \S+: {KIND}")
        self.assertRegex(text, r"(?m)^  1 on \S+: cpu, 1 thread")
        self.assertRegex(text, r"0 <- 1: staged \(.*\); no peer-copy: no device; .*\n  1 <- 0: eager ")


if __name__ == "__main__":
    main(at_once=2)
