"""quarry sort on data sets: lines and rows, on ranks, in little memory."""

from support import CliTest, h5py, main, np

RANDOM = np.random.default_rng(9)


class Sort(CliTest):
    def setUp(self):
        super().setUp()
        self.x = np.round(RANDOM.normal(0, 1e3, 400000))
        self.x[::1000] = np.nan
        self.m = RANDOM.integers(0, 50, (3000, 7))
        self.write("x.h5", x=(self.x, {"chunks": (30000,)}), m=(self.m, {"chunks": (400, 5)}), none=np.zeros((0, 3)), one=np.float32(3))

    def test_values_on_ranks(self):
        expected = np.sort(self.x)
        for ranks, memory in [(0, "64MiB"), (0, "4MiB"), (2, "4MiB"), (3, "8MiB")]:
            out = self.ok("sort", "x.h5:/x", "-o", "s.h5", "--overwrite", "--memory", memory, ranks=ranks).out
            self.assertIn("400,000 elements along axis 0", out)
            self.assertEqual("sorted runs" in out, memory != "64MiB", out)
            np.testing.assert_array_equal(self.read("s.h5", "x"), expected)

    def test_descending_rows_and_axes(self):
        for memory in ["64MiB", "4MiB"]:
            run = lambda *words: self.ok("sort", *words, "-o", "s.h5:/y", "--overwrite", "--memory", memory)  # noqa: E731
            run("x.h5:/x", "--descending")
            np.testing.assert_array_equal(self.read("s.h5", "y"), np.sort(self.x)[::-1])
            run("x.h5:/m", "--axis", "0")
            np.testing.assert_array_equal(self.read("s.h5", "y"), np.sort(self.m, 0))
            run("x.h5:/m", "--by", "2")
            np.testing.assert_array_equal(self.read("s.h5", "y"), self.m[np.argsort(self.m[:, 2], kind="stable")])
            run("x.h5:/m", "--by", "-1", "--descending")
            np.testing.assert_array_equal(self.read("s.h5", "y"), self.m[np.argsort(-self.m[:, -1], kind="stable")])
        wide = RANDOM.standard_normal((6000, 500))
        self.write("w.h5", x=wide)
        for memory in ["8MiB", "64MiB"]:  # many lines in a chunk
            self.ok("sort", "w.h5:/x", "--axis", "0", "-o", "s.h5:/y", "--overwrite", "--memory", memory)
            np.testing.assert_array_equal(self.read("s.h5", "y"), np.sort(wide, 0))
        self.ok("sort", "x.h5:/none", "-o", "n.h5")
        self.assertEqual(self.read("n.h5", "none").shape, (0, 3))

    def test_plan_and_errors(self):
        plan = self.ok("sort", "x.h5:/x", "-o", "s.h5", "--plan", "--memory", "4MiB").out
        self.assertIn("sort runs", plan)
        self.assertIn("least budget", plan)
        self.assertFalse((self.dir / "s.h5").exists())
        for words, message in [
            (["x.h5:/m", "--by", "7"], "--by 7: x.h5:/m has 7 columns"),
            (["x.h5:/x", "--by", "0"], "--by takes a matrix"),
            (["x.h5:/m", "--by", "0", "--axis", "1"], "--axis or --by, not both"),
            (["x.h5:/m", "--axis", "2"], "axis 2 is out of bounds"),
            (["x.h5:/one"], "is a number"),
            (["x.h5"], "sort: give the object too, x.h5:/PATH"),
            (["x.h5:/absent"], "absent"),
        ]:
            self.fails(2, message, "sort", *words, "-o", "s.h5")
        self.fails(2, r"does not fit a memory budget of 65536 bytes per rank: what every rank has to know .* takes \d+ bytes", "sort", "x.h5:/x", "-o", "s.h5", "--memory", "64KiB")
        self.assertFalse((self.dir / "s.h5").exists())
        self.assertIn("plan of all 3 computations", plan)
        told = self.ok("sort", "x.h5:/x", "-o", "t.h5", "--chunks", "50,2").err
        self.assertIn("no input has so many", told)
        np.save(self.path("x.npy"), self.x)
        for output in ["t.npy", "u.h5"]:
            self.ok("sort", "x.npy", "-o", output)
        np.testing.assert_array_equal(np.load(self.path("t.npy")), np.sort(self.x))
        np.testing.assert_array_equal(self.read("u.h5", "result"), np.sort(self.x))
        self.ok("sort", "x.h5:/m", "-o", "s.h5")
        self.fails(2, "overwrite", "sort", "x.h5:/m", "-o", "s.h5")


if __name__ == "__main__":
    main()
