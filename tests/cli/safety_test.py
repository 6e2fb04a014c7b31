"""Whatever ends a run that adds to a file: the file is byte for byte what it was, and the next run works."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from support import TIMEOUT, CliTest, main, np

NOISE = "random.uniform(size=(2048, 1024))"  # 16 MiB that no filter makes much smaller
LONG = "random.normal(size=(400000, 2000))"  # 6 GiB, never completed


class FailedRuns(CliTest):
    def setUp(self):
        super().setUp()
        self.write("o.h5", old=np.arange(300000.0), replaced=np.arange(1000))
        self.before = self.digest()

    def digest(self):
        return hashlib.sha256((self.dir / "o.h5").read_bytes()).hexdigest()

    def assert_as_before(self, leftover=False):
        self.assertEqual(self.digest(), self.before)
        names = sorted(p.name for p in self.dir.iterdir())
        if not leftover:
            self.assertEqual(names, ["o.h5"])

    def assert_next_run_works(self):
        """Adds and replaces, also over what a killed run left."""
        self.ok("eval", "(x + 1, x * 2)", "-i", "x=o.h5:/old", "-o", "o.h5:/replaced")
        self.ok("eval", "x[:5]", "-i", "x=o.h5:/old", "-o", "o.h5:/replaced", "--overwrite")
        np.testing.assert_array_equal(self.read("o.h5", "old"), np.arange(300000.0))
        np.testing.assert_array_equal(self.read("o.h5", "replaced"), np.arange(5.0))
        np.testing.assert_array_equal(self.read("o.h5", "replaced.0"), np.arange(300000.0) + 1)
        self.assertEqual(self.keys("o.h5"), ["old", "replaced", "replaced.0", "replaced.1"])
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["o.h5"])

    def test_file_size_limit_in_the_middle(self):
        for ranks in [0, 2]:
            for filters in [[], ["--out-filter", "deflate:1"]]:
                result = self.run_quarry("eval", NOISE, "-o", "o.h5:/replaced", "--overwrite", *filters, ranks=ranks, file_limit=6 << 20)
                self.assertNotEqual(result.status, 0)
                self.assertEqual(len(result.errors()), 1, result.err)
                self.assertRegex(result.errors()[0], "no space left")
                self.assert_as_before()
        self.assert_next_run_works()

    def test_a_limit_below_the_size_of_the_file(self):
        result = self.run_quarry("eval", "1", "-o", "o.h5", file_limit=1 << 20)
        self.assertNotEqual(result.status, 0)
        self.assertRegex(result.errors()[0], "no space left")
        self.assert_as_before()

    def kill_all(self, ranks):
        process = self.start("eval", LONG, "-o", "o.h5:/replaced", "--overwrite", "--progress", "off", "--memory", "64MiB", ranks=ranks)
        self.wait_until_computing(process)
        children = [int(p) for p in os.popen(f"pgrep -P {process.pid}").read().split()] if ranks else []
        self.assertEqual(len(children), ranks)
        for pid in [*children, process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
        self.assert_as_before(leftover=True)
        self.assertTrue((self.dir / "o.h5.partial").exists())

    def test_sigkill(self):
        self.kill_all(0)
        self.assert_next_run_works()

    def test_sigkill_of_all_ranks(self):
        self.kill_all(2)
        self.assert_next_run_works()

    def interrupt(self, ranks, signal_number):
        process = self.start("eval", LONG, "-o", "o.h5:/replaced", "--overwrite", "--progress", "off", "--memory", "64MiB", ranks=ranks)
        self.wait_until_computing(process)
        process.send_signal(signal_number)
        process.communicate(timeout=TIMEOUT)
        self.assertNotEqual(process.returncode, 0)
        self.assert_as_before()

    def test_ctrl_c(self):
        self.interrupt(0, signal.SIGINT)
        self.interrupt(2, signal.SIGINT)
        self.assert_next_run_works()

    def test_sigterm(self):
        self.interrupt(0, signal.SIGTERM)
        self.interrupt(2, signal.SIGTERM)

    def test_sighup(self):
        # As of a terminal that is closed: the launcher may be gone already.
        self.interrupt(0, signal.SIGHUP)
        process = self.start("eval", LONG, "-o", "o.h5:/replaced", "--overwrite", "--progress", "off", "--memory", "64MiB", ranks=2)
        self.wait_until_computing(process)
        ranks = [int(p) for p in os.popen(f"pgrep -P {process.pid}").read().split()]
        self.assertEqual(len(ranks), 2)
        for pid in ranks:
            os.kill(pid, signal.SIGHUP)
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertIn(128 + signal.SIGHUP, [process.returncode, *map(int, re.findall(r"Exit code: +(\d+)", err))], err)
        end = time.time() + 5  # the launcher does not wait for all of them
        while (left := [pid for pid in ranks if os.path.exists(f"/proc/{pid}")]) and time.time() < end:
            time.sleep(0.05)
        self.assertEqual(left, [])
        self.assert_as_before()

    def test_a_task_that_does_not_end_leaves_nothing_behind(self):
        # One task that takes longer than the launcher waits; it kills the ranks in the middle of it.
        expression = "linalg.eigh(random.normal(size=(6000, 6000)))"
        process = self.start("eval", expression, "-o", "o.h5", "--progress", "off", "--memory", "4GiB", ranks=2)
        self.wait_until_computing(process)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        self.assertNotEqual(process.returncode, 0)
        self.assert_as_before()

    def test_an_error_in_the_middle(self):
        result = self.run_quarry("eval", "linalg.eigh(full((3, 3), nan))", "-o", "o.h5", ranks=2)
        self.assertEqual(result.status, 1, result.err)
        self.assert_as_before()

    def test_input_and_output_are_one_file(self):
        for ranks in [0, 2]:
            self.ok("eval", "x[::-1] + 1", "-i", "x=o.h5:/old", "-o", "o.h5:/old", "--overwrite", ranks=ranks)
        np.testing.assert_array_equal(self.read("o.h5", "old"), np.arange(300000.0) + 2)
        np.testing.assert_array_equal(self.read("o.h5", "replaced"), np.arange(1000))

    def test_two_runs_at_once(self):
        process = self.start("eval", LONG, "-o", "o.h5", "--progress", "off", "--memory", "64MiB")
        self.wait_until_computing(process)
        self.fails(2, "another process is writing", "eval", "1", "-o", "o.h5")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
        self.assert_as_before()


@unittest.skipUnless(os.geteuid() == 0, "needs a user who may mount")
class FullDevice(CliTest):
    """A small tmpfs that fills up."""

    def setUp(self):
        super().setUp()
        self.mount = tempfile.mkdtemp(prefix="quarry_tmpfs_")
        self.addCleanup(os.rmdir, self.mount)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12M", "tmpfs", self.mount], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("needs a user who may mount: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", self.mount], check=True)
        self.write("o.h5", old=np.arange(100000.0))
        shutil.move(self.path("o.h5"), self.mount + "/o.h5")

    def test_in_the_middle(self):
        before = open(self.mount + "/o.h5", "rb").read()
        for ranks in [0, 2]:
            # Encoded chunks: how many bytes they take is known when they are there.
            result = self.run_quarry("eval", NOISE, "-o", self.mount + "/o.h5", "--out-filter", "deflate:1", ranks=ranks)
            self.assertEqual(result.status, 1, result.err)
            self.assertEqual(len(result.errors()), 1, result.err)
            self.assertRegex(result.errors()[0], "[Nn]o space left")
            self.assertEqual(open(self.mount + "/o.h5", "rb").read(), before)
            self.assertEqual(os.listdir(self.mount), ["o.h5"])

    def test_before_anything_is_copied(self):
        before = open(self.mount + "/o.h5", "rb").read()
        self.fails(2, "no space left.*bytes are needed.*copy", "eval", NOISE, "-o", self.mount + "/o.h5")
        self.assertEqual(open(self.mount + "/o.h5", "rb").read(), before)
        self.assertEqual(os.listdir(self.mount), ["o.h5"])


if __name__ == "__main__":
    main()
