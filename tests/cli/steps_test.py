"""Commands that compute in several runs (sort, eigh, svd, lstsq, scripts) go on behind the last step that was saved, on any number of ranks, with the same bits."""

import os
import signal
import time

from support import TIMEOUT, CliTest, main, np

KILLS = int(os.environ.get("KILLS", "1"))  # per command
RANDOM = np.random.default_rng(11)
SIZE = 400
A = RANDOM.standard_normal((SIZE, SIZE))
COMMON = ["--progress", "off", "--threads", "1", "--device", "cpu"]
COMMANDS = {  # and a budget in which they have steps
    "sort": (["sort", "m.h5:/v"], "8MiB"),
    "sort_by": (["sort", "m.h5:/rows", "--by", 1], "4MiB"),
    "eigh": (["eigh", "m.h5:/s"], "4MiB"),
    "svd": (["svd", "m.h5:/a"], "4MiB"),
    "lstsq": (["lstsq", "m.h5:/tall", "m.h5:/b"], "4MiB"),
    "unique": (["eval", "unique(v // 0.01) * mean(v)", "-i", "v=m.h5:/v"], "8MiB"),
}


class Steps(CliTest):
    def setUp(self):
        super().setUp()
        self.write("m.h5", v=RANDOM.standard_normal(600_000), rows=RANDOM.standard_normal((150_000, 4)), a=A, s=A + A.T, tall=RANDOM.standard_normal((3000, 60)), b=RANDOM.standard_normal((3000, 2)))

    def words(self, name, *more, output="o.h5"):
        words, memory = COMMANDS[name]
        return [*words, "-o", output, "--memory", memory, *COMMON, *more]

    def resumable(self, name, *more, every=0):
        return self.words(name, "--resume", "--save-every", every, *more)

    def has_states(self):
        return any(self.dir.glob("o.h5.partial.steps/*.states"))

    def resumed(self, name, *rounds):
        """By runs on so many ranks whose writes of these numbers failed, each by one on as many as it says. The steps that they had saved."""
        self.ok(*self.words(name, output=f"{name}.h5"))
        expected, had = self.bits(f"{name}.h5"), []
        self.ok(*self.resumable(name, "--stats", "whole.json"))
        self.assertTrue(self.bits() == expected, name)
        self.assertEqual(self.leftovers(), [])
        whole = self.stats("whole.json")["tasks"]
        for number, ranks, then in rounds:
            os.remove(self.path("o.h5"))
            self.assertTrue(self.fails_at_write(number, self.resumable(name), ranks), f"{name} {number}")
            had.append(self.saved_steps())
            is_saved = had[-1] > 0 or self.has_states()
            result = self.run_quarry(*self.resumable(name, "--stats", "s.json"), ranks=then)
            self.assertEqual(result.status, 0, f"{name} {number} {ranks} {then}: {result.err}")
            self.assertTrue(self.bits() == expected, f"{name} {number} {ranks} {then}")
            self.assertEqual(self.leftovers(), [])
            if is_saved and ranks == then == 0:
                self.assertLess(self.stats("s.json")["tasks"], whole, f"{name} {number}")
        return had

    def test_sort(self):
        self.assertGreater(self.resumed("sort", (3, 0, 2), (14, 2, 0), (24, 0, 3), (30, 0, 0))[-1], 1)

    def test_rows_sorted_by_a_column(self):
        self.assertGreater(self.resumed("sort_by", (20, 2, 3), (80, 0, 0))[-1], 0)

    def test_eigh(self):
        self.assertGreater(self.resumed("eigh", (20, 0, 2), (120, 2, 0), (400, 0, 0))[-1], 5)

    def test_svd(self):
        self.assertGreater(self.resumed("svd", (100, 2, 0), (1600, 0, 3))[-1], 5)

    def test_lstsq(self):
        """In one step, which saves states."""
        self.resumed("lstsq", (4, 0, 2), (8, 0, 0))

    def test_scripts(self):
        self.assertGreater(self.resumed("unique", (1, 2, 0), (3, 0, 0))[-1], 0)

    def test_killed_at_random_moments(self):
        for name in ["sort", "eigh"]:
            self.assert_goes_on_after_kills(self.resumable(name), KILLS, self.bits)

    def test_told_to_end_between_steps(self):
        self.ok(*self.words("eigh", output="whole.h5"))
        process = self.start(*self.resumable("eigh"))
        end = time.time() + TIMEOUT
        while self.saved_steps() < 3 and process.poll() is None and time.time() < end:
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("the same command goes on", err)
        self.ok(*self.resumable("eigh"), ranks=2)
        self.assertTrue(self.bits() == self.bits("whole.h5"))

    def test_other_runs_are_refused_by_name(self):
        self.assertTrue(self.fails_at_write(20, self.resumable("sort")))
        had = self.saved_steps()
        self.assertGreater(had, 0)
        self.fails(2, "of another run: the (shape|expression) of step 1's result 1", *self.resumable("sort", "--descending"))
        os.utime(self.path("m.h5"), ns=(1, 1))
        self.fails(2, "input m.h5:/v is .* bytes changed at", *self.resumable("sort"))
        self.assertEqual(self.saved_steps(), had)
        self.ok(*self.words("sort"))  # one that begins anew takes them away
        self.assertEqual(self.leftovers(), [])

    def test_short_runs_save_nothing(self):
        process = self.start(*self.resumable("eigh", every=1000))
        seen = 0
        while process.poll() is None:
            seen = max(seen, self.saved_steps())
            time.sleep(0.002)
        self.output_of(process)
        self.assertEqual(seen, 0)

    def test_damage(self):
        self.ok(*self.words("eigh", output="whole.h5"))
        self.assertTrue(self.fails_at_write(150, self.resumable("eigh")))
        folder = self.dir / "o.h5.partial.steps"
        last = max(folder.glob("arrays.*.h5"), key=lambda path: int(path.name.split(".")[1]))
        with open(last, "r+b") as file:
            file.seek(-50, os.SEEK_END)
            file.write(b"damaged")
        result = self.ok(*self.resumable("eigh"), ranks=2)
        self.assertRegex(result.err, r"the saved steps 1 to \d+ of 'o.h5' are damaged")
        self.assertTrue(self.bits() == self.bits("whole.h5"))
        self.assertEqual(self.leftovers(), [])


if __name__ == "__main__":
    main()
