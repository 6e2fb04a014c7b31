"""Factorisations, solvers and reductions that end too early go on from a saved state, on any number of ranks, with the same bits."""

import os
import shutil
import signal
import time

from support import TIMEOUT, CliTest, main, np

KILLS = int(os.environ.get("KILLS", "1"))  # per command
SIZE = 1200
RANDOM = np.random.default_rng(7)
A = RANDOM.standard_normal((SIZE, SIZE))
X = RANDOM.normal(size=(40000, 40))
POSITIVE = A @ A.T / SIZE + np.eye(SIZE)
COMMON = ["--progress", "off", "--memory", "256MiB", "--threads", "1", "--device", "cpu"]
COMMANDS = {
    "solve": ["solve", "m.h5:/a", "m.h5:/b"],
    "few": ["solve", "m.h5:/a", "m.h5:/v"],
    "cholesky": ["cholesky", "m.h5:/spd"],
    "lu": ["lu", "m.h5:/a"],
    "qr": ["qr", "m.h5:/a"],
    "inv": ["inv", "m.h5:/spd"],
}


class States(CliTest):
    def setUp(self):
        super().setUp()
        chunked = {"chunks": (300, 450)}
        self.write("m.h5", a=(A, chunked), b=A[:, :500].copy(), v=A[:, :2].copy(), spd=(POSITIVE, chunked))

    def words(self, name, *more, output="o.h5"):
        return [*COMMANDS[name], "-o", output, *COMMON, *more]

    def resumable(self, name, *more, every=0):
        return self.words(name, "--resume", "--save-every", every, *more)

    def states(self):
        folder = self.dir / "o.h5.partial.states"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []

    def tables(self):
        """(generation, state, rank) of what is committed."""
        return sorted(tuple(int(n) for n in name.split(".")[1:]) for name in self.states() if name.startswith("table.") and not name.endswith(".new"))

    def fails_at_write(self, number, arguments, ranks=0):
        fails = super().fails_at_write(number, arguments, ranks)
        if fails:
            self.assertIn("o.h5.partial.job", self.leftovers())
        return fails

    def test_resumed_by_ranks_that_pass_tiles_on(self):
        for name in ["cholesky", "solve", "qr"]:
            self.ok(*self.words(name, output=f"{name}.h5"))
            expected, resumed = self.bits(f"{name}.h5"), 0
            for ranks, then, number in [(2, 7, 12 if name == "cholesky" else 24), (7, 6, 6)]:
                resumed += self.fails_at_write(number, self.resumable(name), ranks)
                self.ok(*self.resumable(name, "--overwrite"), ranks=then)
                self.assertTrue(self.bits() == expected, f"{name} {ranks} {then}")
                self.assertEqual(self.leftovers(), [])
                os.remove(self.path("o.h5"))
            self.assertGreater(resumed, 1, name)

    def test_resumed_at_many_steps_on_as_many_fewer_and_more_ranks(self):
        for name in COMMANDS:
            self.ok(*self.words(name, output=f"{name}.h5"))
            expected = self.bits(f"{name}.h5")
            whole, fewer = {}, 0  # tasks, by ranks
            for ranks in [0, 2, 3]:
                self.ok(*self.resumable(name), "--stats", "s.json", ranks=ranks)
                self.assertTrue(self.bits() == expected, f"{name} {ranks}")
                self.assertEqual(self.leftovers(), [])
                whole[ranks] = self.stats("s.json")["tasks"]
                os.remove(self.path("o.h5"))
            short = name in ("few", "cholesky")
            for ranks, then, number in [(0, 2, 20), (2, 2, 12), (3, 0, 9)] if short else [(0, 2, 40), (2, 2, 24), (3, 0, 20)]:
                if not self.fails_at_write(number, self.resumable(name), ranks):
                    os.remove(self.path("o.h5"))
                    continue
                had = self.tables()
                result = self.run_quarry(*self.resumable(name), "--stats", "s.json", ranks=then)
                self.assertEqual(result.status, 0, f"{name} {ranks} {then}: {result.err}")
                self.assertTrue(self.bits() == expected, f"{name} {ranks} {then}")
                self.assertEqual(self.leftovers(), [])
                if had:
                    fewer += self.stats("s.json")["tasks"] < whole[then]
                os.remove(self.path("o.h5"))
            self.assertGreater(fewer, 0, name)

    def stopped_with_states(self, arguments):
        """A run that fails as soon as it has saved two states."""
        for number in range(18, 200, 2):
            self.assertTrue(self.fails_at_write(number, arguments))
            if len(self.tables()) >= 2:
                return
            for path in self.dir.glob("o.h5*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.fail("it saved no two states")

    def test_two_states_are_kept_and_a_damaged_one_is_named(self):
        self.ok(*self.words("cholesky", output="whole.h5"))
        expected = self.bits("whole.h5")
        self.stopped_with_states(self.resumable("cholesky"))
        tables = self.tables()
        self.assertEqual(len(tables), 2, self.states())
        last = max(state for _, state, _ in tables)
        name = f"o.h5.partial.states/data.0.{last}.0"
        if not (self.dir / name).exists():
            name = "o.h5.partial.states/data.0.kept.0"
        with open(self.path(name), "r+b") as file:
            file.seek(os.path.getsize(self.path(name)) - 1000)
            file.write(b"damaged")
        result = self.ok(*self.resumable("cholesky"), ranks=2)
        self.assertRegex(result.err, "saved state .* is damaged")
        self.assertTrue(self.bits() == expected)
        # A table, which says what a state has.
        os.remove(self.path("o.h5"))
        self.stopped_with_states(self.resumable("cholesky"))
        generation, last, rank = max(self.tables())
        name = f"o.h5.partial.states/table.{generation}.{last}.{rank}"
        os.truncate(self.path(name), os.path.getsize(self.path(name)) - 10)
        result = self.ok(*self.resumable("cholesky"))
        self.assertRegex(result.err, f"the saved state {last} of run {generation} is damaged.*{name}")
        self.assertTrue(self.bits() == expected)
        # All of them.
        os.remove(self.path("o.h5"))
        self.stopped_with_states(self.resumable("cholesky"))
        for name in self.states():
            os.truncate(self.path(f"o.h5.partial.states/{name}"), 10)
        self.ok(*self.resumable("cholesky"))
        self.assertTrue(self.bits() == expected)

    def test_states_of_other_runs_are_refused_and_stay(self):
        self.stopped_with_states(self.resumable("cholesky"))
        left = self.states()
        self.fails(2, "of another run", "eval", "linalg.cholesky(a, upper=True)", "-i", "a=m.h5:/spd", "-o", "o.h5", "--resume", *COMMON)
        self.fails(2, "of another run: the kind of device", *self.resumable("cholesky")[:-1], "0", "--device", "emulated")
        os.utime(self.path("m.h5"), ns=(1, 1))
        self.fails(2, "input m.h5:/spd is .* bytes changed at", *self.resumable("cholesky"))
        self.assertEqual(self.states(), left)
        # A run that begins anew takes them away.
        self.ok(*self.words("cholesky"))
        self.assertEqual(self.leftovers(), [])

    def test_killed_at_random_moments(self):
        for name in ["solve", "cholesky", "lu", "qr", "inv"]:
            self.assert_goes_on_after_kills(self.resumable(name), KILLS, self.bits)

    def reduction(self, expression, *more, output="o.h5"):
        return ["eval", expression, "-i", "x=x.h5:/x", "-o", output, *COMMON, "--chunks", "500,40", *more]

    def test_reductions(self):
        """Partial results are read, and what they are made of is not."""
        self.write("x.h5", x=X)
        for expression in ["sum(x)", "mean(x, axis=0)", "std(x * x, axis=0)", "x - mean(x, axis=0)", "x.T @ x"]:
            self.ok(*self.reduction(expression, output="whole.h5"), "--overwrite", "--stats", "whole.json")
            expected = self.bits("whole.h5")
            whole = self.stats("whole.json")["read_bytes"]
            for ranks, then in [(0, 3), (2, 0)]:
                arguments = self.reduction(expression, "--resume", "--save-every", 0)
                self.assertTrue(self.fails_at_write(40 // max(ranks, 1), arguments, ranks))
                self.assertTrue(self.tables(), self.states())
                self.ok(*arguments, "--stats", "s.json", ranks=then)
                self.assertTrue(self.bits() == expected)
                self.assertEqual(self.leftovers(), [])
                self.assertLess(self.stats("s.json")["read_bytes"], 0.9 * whole, expression)
                os.remove(self.path("o.h5"))

    def test_products(self):
        """Of large ones the finished tiles are saved."""
        words = ["eval", "a @ a", "-i", "a=m.h5:/a", *COMMON, "--chunks", "300,300"]
        self.ok(*words, "-o", "whole.h5")
        resumable = [*words, "-o", "o.h5", "--resume", "--save-every", 0]
        for ranks, then in [(0, 3), (2, 0)]:
            self.ok(*resumable, "--stats", "whole.json", ranks=then)
            os.remove(self.path("o.h5"))
            self.assertTrue(self.fails_at_write(3, resumable, ranks))
            self.assertTrue(self.tables(), self.states())
            self.ok(*resumable, "--stats", "s.json", ranks=then)
            self.assertTrue(self.bits() == self.bits("whole.h5"))
            self.assertLess(self.stats("s.json")["tasks"], self.stats("whole.json")["tasks"])
            os.remove(self.path("o.h5"))

    def test_a_damaged_value_is_computed_again(self):
        self.write("x.h5", x=X)
        self.ok(*self.reduction("mean(x, axis=0)", output="whole.h5"))
        arguments = self.reduction("mean(x, axis=0)", "--resume", "--save-every", 0)
        self.assertTrue(self.fails_at_write(40, arguments))
        with open(self.path("o.h5.partial.states/data.0.kept.0"), "r+b") as file:
            file.seek(100)
            file.write(b"damaged")
        result = self.ok(*arguments)
        self.assertIn("is damaged, and is computed again", result.err)
        self.assertTrue(self.bits() == self.bits("whole.h5"))

    def test_short_runs_save_nothing(self):
        process = self.start(*self.resumable("solve", every=1000))
        seen = False
        while process.poll() is None:
            seen = seen or bool(self.states())
            time.sleep(0.002)
        self.output_of(process)
        self.assertEqual(process.returncode, 0)
        self.assertFalse(seen)

    def test_sigterm(self):
        self.ok(*self.words("solve", output="whole.h5"))
        process = self.start(*self.resumable("solve"))
        end = time.time() + TIMEOUT
        while len(self.tables()) < 2 and process.poll() is None and time.time() < end:
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        self.output_of(process)
        self.assertEqual(process.returncode, 75)
        self.ok(*self.resumable("solve"), ranks=2)
        self.assertTrue(self.bits() == self.bits("whole.h5"))


if __name__ == "__main__":
    main()
