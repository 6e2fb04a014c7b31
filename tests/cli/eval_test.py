"""quarry eval: input, output, printing, scripts."""

from support import CliTest, h5py, main, np


class Printing(CliTest):
    def test_python_scalars_print_as_str(self):
        for text, shown in [("1/2", "0.5"), ("7//2", "3"), ("2**-1", "0.5"), ("'a' + 'b'", "ab"), ("(1, 'a')", "(1, 'a')"), ("None", "None"), ("1 < 2 < 3", "True"), ("2j", "2j")]:
            self.assertEqual(self.evaluate(text), shown)

    def test_arrays_print_as_numpy(self):
        x = np.random.default_rng(1).standard_normal((5, 7))
        i = np.arange(24, dtype="i4").reshape(2, 3, 4)
        self.write("a.h5", x=x, i=i, v=np.float32(2.5))
        inputs = ["-i", "x=a.h5:/x", "-i", "i=a.h5:/i", "-i", "v=a.h5:/v"]
        for text in ["x", "i", "v", "x[0]", "x[::2, -3:, None]", "i.T", "x.shape[0]", "i.sum(axis=(0, 2))", "x > 0"]:
            self.assertEqual(self.evaluate(text, *inputs), str(eval(text, {"x": x, "i": i, "v": np.float32(2.5)})), text)

    def test_arrays_in_tuples_print_as_numpy_2(self):
        self.write("a.h5", v=np.float32(2.5), i=np.arange(3, dtype="i4"))
        self.assertEqual(self.evaluate("(v, i, sum(i) > 2)", "-i", "v=a.h5:/v", "-i", "i=a.h5:/i"), "(np.float32(2.5), array([0, 1, 2], dtype=int32), np.True_)")

    def test_large_arrays_are_summarised_without_reading_them(self):
        with h5py.File(self.path("big.h5"), "w") as file:
            data = file.create_dataset("x", shape=(100000, 2000), dtype="f8", chunks=(100, 100), fillvalue=1.5)
            data[0, :3] = [1, 2, 3]
            data[-1, -1] = 7
        expected = np.full((100, 2000), 1.5)
        expected[0, :3] = [1, 2, 3]
        expected[-1, -1] = 7
        result = self.ok("eval", "x", "-i", "x=big.h5:/x", "--memory", "64MiB", "--stats", "s.json")
        self.assertEqual(result.out, str(expected) + "\n")
        self.assertLess(self.stats()["tasks"], 200)


class Arguments(CliTest):
    def setUp(self):
        super().setUp()
        self.write("a.h5", x=np.arange(6.0).reshape(2, 3))

    def test_the_expression_stands_anywhere_and_may_begin_with_minus(self):
        shown = "[[-0. -1. -2.]\n [-3. -4. -5.]]"
        for arguments in [
            ["-x", "-i", "x=a.h5:/x"],
            ["-i", "x=a.h5:/x", "-x"],
            ["-i", "x=a.h5:/x", "--progress", "off", "-x"],
            ["--progress=off", "-x", "-i", "x=a.h5:/x"],
            ["-i", "x=a.h5:/x", "--", "-x"],
            ["---x", "-i", "x=a.h5:/x"],
        ]:
            self.assertEqual(self.ok("eval", *arguments).out, shown + "\n", arguments)
        self.assertEqual(self.evaluate("-i", "-i", "i=a.h5:/x"), shown)
        self.assertEqual(self.evaluate("--x", "-i", "x=a.h5:/x"), "[[0. 1. 2.]\n [3. 4. 5.]]")
        self.assertEqual(self.evaluate("-inf"), "-inf")

    def test_environment_variables_stand_for_options(self):
        result = self.ok("eval", "1", env={"QUARRY_MEMORY": "96MiB"})
        self.assertIn("96", result.err)
        result = self.ok("eval", "1", "--memory", "80MiB", env={"QUARRY_MEMORY": "96MiB"})
        self.assertIn("80", result.err)

    def test_a_line_at_the_start_says_what_runs(self):
        first = self.ok("eval", "1", "--memory", "96MiB", "--threads", "1").err.splitlines()[0]
        for word in ["quarry:", "1 rank", "1 thread", "96.0 MiB"]:
            self.assertIn(word, first)

    def test_help_and_version(self):
        self.assertRegex(self.ok("--version").out, r"^quarry \d+\.\d+\.\d+\n$")
        self.assertRegex(self.ok("eval", "--version").out, r"^quarry \d+\.\d+\.\d+\n$")
        for command in ["info", "eval", "pca", "generate"]:
            self.assertIn(command, self.ok("--help").out)
            self.assertIn("--help", self.ok(command, "--help").out)
        self.assertIn("--memory", self.ok("eval", "--help").out)
        self.assertEqual(self.ok("--help", ranks=2).out.count("Usage"), 1)

    def test_seed(self):
        first, second = (self.evaluate("random.normal(size=3)", "--seed", s) for s in "12")
        self.assertNotEqual(first, second)
        self.assertEqual(first, self.evaluate("random.normal(size=3)", "--seed", "1"))

    def test_plans_and_chunks_are_drawn(self):
        self.assertIn("stage 0 reads nothing", self.ok("eval", "(ones(5) + 1).explain()").out)
        self.assertIn("<svg", self.ok("eval", "ones((4, 6)).to_svg(size=100)").out)
        self.ok("eval", "(ones((4, 6)) + 1).sum().visualize('plan.svg')", ranks=2)
        with open(self.path("plan.svg")) as file:
            self.assertIn("1 chunk of (4, 6)", file.read())

    def test_files_of_a_pattern_follow_each_other(self):
        whole = np.arange(60.0).reshape(20, 3)
        for i, (a, b) in enumerate([(0, 4), (4, 5), (5, 20)]):
            with h5py.File(self.path(f"day-{i}.h5"), "w") as file:
                file["x"] = whole[a:b]
        for ranks in [0, 2]:
            text = self.ok("eval", "x[3:6].sum(axis=0)", "-i", "x=day-*.h5:/x", ranks=ranks).out
            self.assertEqual([float(n) for n in text.strip("[]\n ").replace(",", " ").split()], [36.0, 39.0, 42.0])
        self.fails(2, "no file matches 'night", "eval", "x", "-i", "x=night*:/x")
        with h5py.File(self.path("day-7.h5"), "w") as file:
            file["x"] = np.zeros((2, 4))
        self.fails(2, "day-7.h5.*does not continue", "eval", "x", "-i", "x=day-*.h5:/x")


class Info(CliTest):
    def test_attributes_of_the_root_of_groups_and_of_data_sets(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            file.attrs["title"] = "the root"
            file.attrs["version"] = 3
            group = file.create_group("g/inner")
            group.attrs["scale"] = 0.5
            file["g"].attrs["note"] = "a group"
            file["g"].attrs["list"] = np.array([1.0, 2.0])
            file["g/x"] = np.arange(3)
            file["g/x"].attrs["unit"] = "m"
            file["again"] = file["g"]  # the same group under another name
        self.assertEqual(self.ok("info", "a.h5").out.splitlines()[:4],
                         ["/", '    @title = "the root"', "    @version = 3", "  /again/"])
        lines = self.ok("info", "a.h5:/g").out.splitlines()
        self.assertEqual(lines[:3], ["  /g/", "      @list = [1, 2]", '      @note = "a group"'])
        self.assertIn("        @scale = 0.5", lines)
        self.assertEqual(lines[-1], '        @unit = "m"')
        self.assertEqual(self.ok("info", "a.h5").out.count("@note"), 1)


class Storing(CliTest):
    def setUp(self):
        super().setUp()
        self.x = np.arange(12.0).reshape(3, 4)
        self.write("a.h5", x=self.x)

    def test_default_path_and_named_path(self):
        self.ok("eval", "x * 2", "-i", "x=a.h5:/x", "-o", "o.h5")
        self.ok("eval", "x + 1", "-i", "x=a.h5:/x", "-o", "o.h5:/deep/er")
        np.testing.assert_array_equal(self.read("o.h5"), self.x * 2)
        np.testing.assert_array_equal(self.read("o.h5", "deep/er"), self.x + 1)

    def test_values_of_every_kind(self):
        for name, text, value in [
            ("int", "3", np.int64(3)),
            ("float", "1/4", np.float64(0.25)),
            ("complex", "2j", np.complex128(2j)),
            ("bool", "True", np.bool_(True)),
            ("list", "[1, 2]", np.array([1, 2])),
            ("float16", "astype(x, float16)", self.x.astype("f2")),
            ("uint8", "astype(x, uint8)", self.x.astype("u1")),
            ("mask", "x > 3", self.x > 3),
            ("complex64", "astype(x * 1j, complex64)", (self.x * 1j).astype("c8")),
            ("empty", "x[:0]", self.x[:0]),
            ("scalar", "sum(x)", self.x.sum()),
            ("int32", "astype(x, int32)", self.x.astype("i4")),
        ]:
            self.ok("eval", text, "-i", "x=a.h5:/x", "-o", f"o.h5:/{name}")
            stored = self.read("o.h5", name)
            np.testing.assert_array_equal(stored, value)
            self.assertEqual(stored.dtype, value.dtype, name)
            self.assertEqual(stored.shape, value.shape, name)

    def test_tuples_are_numbered(self):
        self.ok("eval", "(x, x.sum(), 3)", "-i", "x=a.h5:/x", "-o", "o.h5:/t")
        self.ok("eval", "(x,)", "-i", "x=a.h5:/x", "-o", "o.h5")
        self.ok("eval", "linalg.eigh(x @ x.T)", "-i", "x=a.h5:/x", "-o", "o.h5:/e")
        self.assertEqual(self.keys("o.h5"), ["e.0", "e.1", "result.0", "t.0", "t.1", "t.2"])
        self.assertEqual(self.read("o.h5", "t.2"), 3)
        np.testing.assert_allclose(self.read("o.h5", "e.0"), np.linalg.eigvalsh(self.x @ self.x.T), atol=1e-12)

    def test_existing_objects_need_overwrite(self):
        self.write("o.h5", other=np.arange(3), result=np.arange(2))
        before = self.contents("o.h5")
        self.fails(2, r"o\.h5:/result exists", "eval", "x", "-i", "x=a.h5:/x", "-o", "o.h5")
        self.assertEqual(self.contents("o.h5"), before)
        self.ok("eval", "x", "-i", "x=a.h5:/x", "-o", "o.h5", "--overwrite")
        np.testing.assert_array_equal(self.read("o.h5"), self.x)
        np.testing.assert_array_equal(self.read("o.h5", "other"), np.arange(3))

    def test_the_output_may_be_an_input(self):
        self.ok("eval", "x * x", "-i", "x=a.h5:/x", "-o", "a.h5:/y")
        np.testing.assert_array_equal(self.read("a.h5", "y"), self.x**2)
        np.testing.assert_array_equal(self.read("a.h5", "x"), self.x)
        self.ok("eval", "x + 1", "-i", "x=a.h5:/x", "-o", "a.h5:/x", "--overwrite")
        np.testing.assert_array_equal(self.read("a.h5", "x"), self.x + 1)

    def test_the_index_of_many_chunks(self):
        x = np.arange(70000.0).reshape(350, 200)
        for kind, libver in [("tree", "earliest"), ("array", "latest")]:
            for ranks in [0, 2, 3]:
                with h5py.File(self.path("o.h5"), "w", libver=libver) as file:
                    file["before"] = [1, 2]
                self.ok("eval", "(arange(70000.).reshape(350, 200), arange(70000.).reshape(350, 200)[:, ::-1].astype(float32))", "-o", "o.h5:/r", "--out-filter", "deflate:1", "--out-chunks", "3,4", ranks=ranks)
                with h5py.File(self.path("o.h5"), "r+") as file:
                    for name, expected in [("r.0", x), ("r.1", x[:, ::-1].astype(np.float32))]:
                        data = file[name]
                        self.assertEqual(data.id.get_num_chunks(), 117 * 50, kind)
                        np.testing.assert_array_equal(data[...], expected, kind)
                        data[100:110] = 7  # the library goes on with the index
                        np.testing.assert_array_equal(data[90:120, 3], np.where((np.arange(90, 120) >= 100) & (np.arange(90, 120) < 110), 7, expected[90:120, 3]), kind)

    def test_chunks_and_filters(self):
        self.ok("eval", "x", "-i", "x=a.h5:/x", "-o", "o.h5", "--out-chunks", "2,3", "--out-filter", "deflate:6,shuffle")
        with h5py.File(self.path("o.h5")) as file:
            data = file["result"]
            self.assertEqual((data.chunks, data.compression, data.compression_opts, data.shuffle), ((2, 3), "gzip", 6, True))
            np.testing.assert_array_equal(data[()], self.x)

    def test_a_failed_run_leaves_files_as_they_were(self):
        self.write("o.h5", old=np.arange(3))
        self.write("a.h5", bad=np.full((2, 2), np.nan))
        before = self.contents("o.h5")
        self.fails(1, "nan|NaN|finite", "eval", "linalg.eigh(b)", "-i", "b=a.h5:/bad", "-o", "o.h5")
        self.assertEqual(self.keys("o.h5"), ["old"])
        self.assertEqual(self.contents("o.h5")[:8], before[:8])
        self.fails(1, "nan|NaN|finite", "eval", "linalg.eigh(b)", "-i", "b=a.h5:/bad", "-o", "new.h5")
        self.assertEqual([p.name for p in self.dir.iterdir() if "new" in p.name], [])


class Scripts(CliTest):
    def setUp(self):
        super().setUp()
        self.x = np.arange(12.0).reshape(3, 4)
        self.write("a.h5", x=self.x)

    def script(self, text):
        with open(self.path("job.qy"), "w") as file:
            file.write(text)
        return "job.qy"

    def test_names_are_stored_and_private_ones_not(self):
        script = self.script("# a comment\n_mean = x.mean(axis=0)\ncentred = x - _mean   # another\n\ntotal = sum(centred * centred)\nboth = (total, 3)\r\n")
        self.ok("eval", "-f", script, "-i", "x=a.h5:/x", "-o", "o.h5")
        self.assertEqual(self.keys("o.h5"), ["both.0", "both.1", "centred", "total"])
        np.testing.assert_allclose(self.read("o.h5", "centred"), self.x - self.x.mean(axis=0))

    def test_elements_are_assigned_to(self):
        lines = "y = x + 0\ny[y > 5] *= 2\ny[1:, ::-2] = y[:2, :2]\ny[[0, 2], -1] = [7, 8]\n"
        scope = {"x": self.x}
        exec(lines, scope)
        script = self.script(lines)
        self.ok("eval", "-f", script, "-i", "x=a.h5:/x", "-o", "o.h5")
        self.ok("eval", "--local", "-f", script, "-i", "x=a.h5:/x", "-o", "l.h5")
        for file in ("o.h5", "l.h5"):
            np.testing.assert_array_equal(self.read(file, "y"), scope["y"])
        self.fails(2, r"job\.qy:2:1: index 3 is out of bounds for axis 0 with size 3", "eval", "-f", self.script("y = x + 0\ny[3] = 1\n"), "-i", "x=a.h5:/x")

    def test_names_are_computed_together(self):
        self.write("b.h5", x=np.arange(1 << 20, dtype="f8"))
        script = self.script("a = mean(x)\nb = std(x)\nc = max(x)\n")
        self.ok("eval", "-f", script, "-i", "x=b.h5:/x", "-o", "o.h5", "--stats", "s.json")
        self.assertEqual(self.stats()["read_bytes"], 8 << 20)

    def test_without_output_names_are_printed(self):
        self.assertEqual(self.ok("eval", "-f", self.script("a = x[0]\nb = 2 * 3\n"), "-i", "x=a.h5:/x").out, "a = [0. 1. 2. 3.]\nb = 6\n")

    def test_the_first_mistake_is_named_with_its_line(self):
        result = self.fails(2, r"job\.qy:2:9: name 'meen' is not defined; did you mean 'mean'\?", "eval", "-f", self.script("a = x\nb = 1 + meen(x)\n"), "-i", "x=a.h5:/x", "-o", "o.h5")
        self.assertIn("b = 1 + meen(x)\n          ^~~~", result.err)
        self.assertFalse((self.dir / "o.h5").exists())

    def test_keep_going_stores_what_works(self):
        self.write("a.h5", bad=np.full((2, 2), np.nan))
        script = self.script("a = x + 1\nb = meen(x)\nc = a * 2\nd = b + 1\ne = linalg.eigh(bad)\nf = (\n")
        result = self.run_quarry("eval", "-f", script, "-i", "x=a.h5:/x", "-i", "bad=a.h5:/bad", "-o", "o.h5", "--keep-going")
        self.assertEqual(result.status, 1)
        self.assertEqual(self.keys("o.h5"), ["a", "c"])
        errors = "\n".join(result.errors())
        for line in ["job.qy:2:", "job.qy:4:", "job.qy:5:", "job.qy:6:"]:
            self.assertIn(line, errors)
        self.assertEqual(len(result.errors()), 4, result.err)

    def test_what_cannot_be_stored(self):
        self.fails(2, r"job\.qy:1:5: the result is a str", "eval", "-f", self.script("a = 'text'\n"), "-o", "o.h5")


if __name__ == "__main__":
    main()
