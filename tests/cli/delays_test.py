"""At exactly the least budget and with random delays at every lock (tests/delays), runs end with the right result.

DELAY_RUNS: how many random ones (default 6); DELAY_SEED: of which numbers."""

import concurrent.futures
import os
import pathlib
import random
import re
import subprocess
import time

from support import QUARRY, CliTest, main, np

DELAYS = pathlib.Path(QUARRY).parent.parent / "lib" / "libquarry_delays.so"
HANGS = 240
# Expressions and what they are.
EXPRESSIONS = {
    "x.T + 1": lambda x: x.T + 1,
    "x.T @ x[:, :64]": lambda x: x.T @ x[:, :64],
    "sort(x, axis=0)[:100]": lambda x: np.sort(x, axis=0)[:100],
    "sum(x[::2], axis=1) + cumsum(x[0])[-1]": lambda x: np.sum(x[::2], axis=1) + np.sum(x[0]),
}


class Delays(CliTest):
    def setUp(self):
        super().setUp()
        self.x = np.random.default_rng(1).integers(0, 50, (2048, 2048)).astype(float)
        self.write("d.h5", x=(self.x, {"chunks": (256, 256), "compression": "gzip", "compression_opts": 1}))

    def least(self, *command, ranks):
        """The least budget, exactly: what a run below it says."""
        text = self.run_quarry(*command, "--memory", "64MiB", "--plan", ranks=ranks).out
        memory = int(re.search(r"least budget: (\d+)", text).group(1))
        while True:
            memory //= 2
            result = self.run_quarry(*command, "--memory", str(memory), ranks=ranks)
            if result.status != 0:
                found = re.search(r"the least that works with these chunks is (\d+)", result.err)
                self.assertTrue(found, result.err)
                return int(found.group(1))

    def run_at_random(self, number):
        pick = random.Random(number)
        ranks, threads, device = pick.choice([0, 0, 0, 2, 3]), pick.choice([1, 2, 4]), pick.choice(["cpu", "cpu", "cpu", "emulated"])
        form = pick.choice([[], [], ["--out-filter", "deflate:1"], ["--out-chunks", "256,256"]])
        expression = pick.choice(["x.T + 1", "x.T + 1", *EXPRESSIONS])
        output = f"o{number}.h5"
        command = ["eval", expression, "-i", "x=d.h5:/x", "--device", device, "--threads", threads, "-o", output, "--overwrite", "--progress", "off", *form]
        command += ["--host-memory", "64MiB"] if device == "emulated" else []
        least = self.least(*command, ranks=ranks)
        env = {"QUARRY_DELAYS": f"{number},{100 if ranks else 300}", "LD_PRELOAD": str(DELAYS)}
        process = self.start(*command, "--memory", str(least), ranks=ranks, env=env)
        begin = time.time()
        case = f"{ranks} ranks: {command}, {least} bytes"
        try:
            _, err = process.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail(f"no end: {case}\n{process.communicate()[1]}")
        self.assertEqual(process.returncode, 0, f"{case} after {time.time() - begin:.1f} s\n{err}")
        np.testing.assert_allclose(self.read(output), EXPRESSIONS[expression](self.x), rtol=1e-12)
        os.remove(self.path(output))

    def test_at_random(self):
        runs, seed = int(os.environ.get("DELAY_RUNS", "6")), int(os.environ.get("DELAY_SEED", "1"))
        with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:  # they wait more than they work
            done = {number: pool.submit(self.run_at_random, number) for number in range(seed, seed + runs)}
        for number, run in done.items():
            with self.subTest(seed=number):
                run.result()


if __name__ == "__main__":
    main(at_once=1)
