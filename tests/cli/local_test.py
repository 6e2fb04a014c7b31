"""quarry eval --local: scripts, results, errors and the speed of many lines."""

import re

from support import CliTest, h5py, main, np


class Local(CliTest):
    def script(self, *lines):
        (self.dir / "s.q").write_text("\n".join(lines) + "\n")
        return "s.q"

    def evaluate_local(self, expression, *arguments, **options):
        return self.evaluate(expression, "--local", *arguments, **options)


class Printing(Local):
    def test_values_print_as_in_python(self):
        for text, shown in [
            ("add([1, 2, 3], 2)", "[3 4 5]"),
            ("np.sum([[1, 2], [3, 4]], axis=0)", "[4 6]"),
            ("np.divmod(7, 2)", "(np.int64(3), np.int64(1))"),
            ("divmod(7, 2)", "(3, 1)"),
            ("max(1, 2), np.max([1, 2]), max(add([1, 2], 1))", "(2, np.int64(2), np.int64(3))"),
            ("sum([[1, 2], [3, 4]], axis=0)", "[4 6]"),
            ("2 ** 70 * add([1.5], 0)", "[1.77088743e+21]"),
            ("complex(1, 2)", "(1+2j)"),
            ("np.fft.fft([1, 0])", "[1.+0.j 1.+0.j]"),
            ("np.lib.stride_tricks.sliding_window_view([1, 2, 3], 2)", "[[1 2]\n [2 3]]"),
            ("np.s_[1:2]", "slice(1, 2, None)"),
            ("add([[1, 2]], 0)[Ellipsis, 1]", "[2]"),
            ("zeros(2, '>i4').dtype", "int32"),
            ("frombuffer(b'\\x01\\x02', '>i2')", "[258]"),
            ("add([1, 2], 0).astype('u1').tobytes()", "b'\\x01\\x02'"),
            ("random.SeedSequence([1, 2]).generate_state(2)", "[1596810411 3615836353]"),
            ("len(random.default_rng([1, 2]).spawn(2))", "2"),
            ("float32(2.5) * 2", "5.0"),
            ("(1, 'a', None)", "(1, 'a', None)"),
            ("2 ** -1", "0.5"),
            ("1 < sum([1, 1]) < 3", "True"),
            ("add([1, 2], 1).dtype", "int64"),
            ("(lambda x, k=2: x * k)(21)", "42"),
            ("s_[1:2, ...]", "(slice(1, 2, None), Ellipsis)"),
        ]:
            self.assertEqual(self.evaluate_local(text), shown, text)

    def test_inputs_are_read_whole(self):
        x = np.random.default_rng(1).standard_normal((50, 7))
        self.write("a.h5", x=x, b=x.astype(">f4"), c=(x, {"chunks": (7, 3), "compression": 4}))
        inputs = ["-i", "x=a.h5:/x", "-i", "b=a.h5:/b", "-i", "c=a.h5:/c"]
        self.assertEqual(self.evaluate_local("all(x == c)", *inputs), "True")
        self.assertEqual(self.evaluate_local("all(x.astype(float32) == b)", *inputs), "True")
        self.assertEqual(self.evaluate_local("x.T[::-1, 0]", *inputs), str(x.T[::-1, 0]))

    def test_every_device_kind_that_is_here(self):
        for device in ["cpu", "emulated"]:
            self.assertEqual(self.evaluate_local("sqrt([4.0, 9.0]) + 1", "--device", device), "[3. 4.]")


class Scripts(Local):
    def test_results_are_stored_as_numpy_would(self):
        x = np.arange(6, dtype="i4").reshape(2, 3)
        self.write("a.h5", x=x)
        self.ok("eval", "--local", "-f", self.script(
            "a = x + 1", "# a comment", "b = a.T / 2", "c = True", "d = 7", "e = 2.5", "f = 1j", "g = [1, 2.5]",
            "h = (x, sum(x))", "k = [x, x]", "_private = 5", "l = _private + 1", "m = x[1:1]", "n = float16(3)",
            "a = a * 2",
        ), "-i", "x=a.h5:/x", "-o", "o.h5")
        self.assertEqual(self.keys("o.h5"), ["a", "b", "c", "d", "e", "f", "g", "h.0", "h.1", "k.0", "k.1", "l", "m", "n"])
        expected = {"a": (x + 1) * 2, "b": (x + 1).T / 2, "c": np.bool_(True), "d": np.int64(7), "e": np.float64(2.5),
                    "f": np.complex128(1j), "g": np.array([1, 2.5]), "h.0": x, "h.1": np.int64(15), "k.1": x,
                    "l": np.int64(6), "m": x[1:1], "n": np.float16(3)}
        for name, value in expected.items():
            stored = self.read("o.h5", name)
            np.testing.assert_array_equal(stored, value, name)
            self.assertEqual((stored.dtype, stored.shape), (value.dtype, value.shape), name)

    def test_text_is_stored_as_h5py_stores_it(self):
        self.ok("eval", "--local", "-f", self.script(
            "a = 'gr\u00fc\u00df dich'", "b = add([1, 2], 1).dtype", "c = b'a\\x00\\xff'", "d = ('x', add([1], 1), '')", "e = ['one', 'two']",
            "f = str(add([1, 2], 1))", "g = b''",
        ), "-o", "o.h5")
        with h5py.File(self.path("o.h5")) as file:
            self.assertEqual(sorted(file), ["a", "b", "c", "d.0", "d.1", "d.2", "e.0", "e.1", "f", "g"])
            for name, value in {"a": "gr\u00fc\u00df dich", "b": "int64", "d.0": "x", "d.2": "", "e.0": "one", "e.1": "two", "f": "[2 3]"}.items():
                self.assertEqual(file[name].shape, ())
                kind = h5py.check_string_dtype(file[name].dtype)
                self.assertEqual((kind.encoding, kind.length), ("utf-8", None), name)
                self.assertEqual(file[name].asstr()[()], value)
            self.assertEqual(file["c"][()], b"a\x00\xff")
            self.assertEqual(file["g"][()], b"")
            np.testing.assert_array_equal(file["d.1"][()], [2])
        self.ok("eval", "--local", "'new'", "-o", "o.h5:/a", "--overwrite")  # beside and over what is there
        with h5py.File(self.path("o.h5")) as file:
            self.assertEqual(file["a"].asstr()[()], "new")
            self.assertEqual(file["f"].asstr()[()], "[2 3]")
        self.fails(2, r"zero character", "eval", "--local", "'a\\0b'", "-o", "p.h5")
        self.assertFalse((self.dir / "p.h5").exists())
        self.fails(2, r"the result is a Generator, which cannot be stored", "eval", "--local", "random.default_rng(1)", "-o", "p.h5")

    def test_results_are_printed_without_an_output(self):
        result = self.ok("eval", "--local", "-f", self.script("a = [1, 2]", "b = add(a, 1)"))
        self.assertEqual(result.out, "a = [1, 2]\nb = [2 3]\n")

    def test_keep_going_reports_each_line_and_stores_the_others(self):
        script = self.script("a = add(1, 2)", "b = a + nothing", "c = [1, 2", "d = b * 2", "e = zeros_(3)",
                             "f = sum(a, axis=4)", "g = None", "h = add(a, 1)")
        result = self.run_quarry("eval", "--local", "-f", script, "--keep-going", "-o", "o.h5")
        self.assertEqual(result.status, 1)
        errors = result.errors()
        self.assertEqual([line.split(":")[3] for line in errors], ["2", "3", "4", "5", "6", "7"])
        self.assertIn("line 2 failed", errors[2])
        self.assertIn("\n  b = a + nothing\n          ^~~~~~~\n", result.err)
        self.assertEqual(self.keys("o.h5"), ["a", "h"])

    def test_a_line_that_needs_too_much_memory_does_not_stop_the_others(self):
        script = self.script("a = x + 1", "b = x[:, None, None, None, None] + x[:, None, None, None] + x[:, None, None] + x[:, None] + x", "c = x + 2")
        self.write("a.h5", x=np.arange(10000.0))
        result = self.run_quarry("eval", "--local", "-f", script, "--keep-going", "-o", "o.h5", "--overwrite", "-i", "x=a.h5:/x")
        self.assertEqual(result.status, 1)
        self.assertEqual(len(result.errors()), 1)
        self.assertRegex(result.errors()[0], r"s\.q:2:")
        np.testing.assert_array_equal(self.read("o.h5", "c"), np.arange(10000.0) + 2)

    def test_the_first_error_ends_a_script_and_stores_nothing(self):
        self.fails(2, r"s\.q:2:5: name 'y' is not defined", "eval", "--local", "-f", self.script("a = 1", "b = y", "c = z"), "-o", "o.h5")
        self.assertFalse((self.dir / "o.h5").exists())

    def test_thousands_of_lines_are_fast(self):
        lines = [f"v{i} = add([1, 2, 3], {i}) * 2.5 + sum([1, 2])" for i in range(4000)]
        self.ok("eval", "--local", "-f", self.script(*lines), "-o", "o.h5", cpu_limit=10)  # about 1 of the processor
        with h5py.File(self.path("o.h5")) as file:
            self.assertEqual(len(file), 4000)
            np.testing.assert_array_equal(file["v3999"][()], np.array([4000, 4001, 4002]) * 2.5 + 3)


class Functions(CliTest):
    def test_one_is_described(self):
        text = self.ok("functions", "linalg.eigh").out
        self.assertRegex(text, r"^linalg\.eigh\(a, UPLO='L', .*\)\n    Eigenvalues .*\n    For chunked arrays, and for local ones .* One device holds the whole array\.\n$")
        self.assertIn("For local arrays alone (--local).", self.ok("functions", "np.roots").out)
        self.assertIn("For chunked arrays alone. It streams", self.ok("functions", "rechunk").out)
        self.assertEqual(len(re.findall(r"^(?:x\.)?mean\(", self.ok("functions", "mean").out, re.M)), 2)  # and the method
        self.fails(2, r"there is no function 'maen'; did you mean 'mean'\?", "functions", "maen")

    def test_all_are_listed(self):
        lines = self.ok("functions").out.splitlines()
        self.assertGreater(len(lines), 500)
        rows = {line.split()[0]: line.split()[1:] for line in lines}
        self.assertEqual(rows["mean"][:2], ["both", "streams"])
        self.assertEqual(rows["roots"][0], "local")
        self.assertEqual(rows["random.normal"][:2], ["chunked", "streams"])
        self.assertEqual(rows["x.reshape"][0], "both")


class Errors(Local):
    def test_what_the_other_kind_of_arrays_has_is_named(self):
        self.write("a.h5", x=np.arange(6.0).reshape(2, 3))
        inputs = ["-i", "x=a.h5:/x"]
        for text, pattern in [
            ("roots(x)", "name 'roots' is not defined; --local has it"),
            ("np.poly(x)", "'np' has no function 'poly'; --local has it"),
            ("x.tolist()", "arrays have no attribute 'tolist'; --local has it"),
            ("x.strides", "arrays have no attribute 'strides'; --local has it"),
            ("random.default_rng(1).permuted(x)", "generators have no method 'permuted'; --local has it"),
            ("np.matmul(x, x.T, axes=[(0, 1)] * 3)", r"matmul\(\) takes no 'axes' here; --local has it"),
            ("matmul(x, x.T, axes=[(0, 1)] * 3)", r"matmul\(\) takes no 'axes' here; --local has it"),
            ("meen(x)", r"name 'meen' is not defined; did you mean 'mean'\?"),
        ]:
            self.fails(2, pattern, "eval", text, *inputs)
        self.fails(2, r"name 'rechunk' is not defined; it is there without --local", "eval", "--local", "rechunk(x, 2)", *inputs)
        self.fails(2, r"arrays have no attribute 'chunks'; it is there without --local", "eval", "--local", "x.chunks", *inputs)
        self.fails(2, r"the result is a str, which chunked results do not store; eval --local", "eval", "'a'", "-o", "o.h5")

    def test_outputs_named_as_another_format_are_refused(self):
        for name, kind in [("x.PARQUET", "Parquet"), ("d/x.parquet", "Parquet"), ("x.txt", "text")]:
            for local in [["--local"], []]:
                self.fails(2, rf"the output {name} has the name of a file of {kind}, which quarry does not write: call it .*x\.h5, or {name}:/result",
                           "eval", "ones(3)", *local, "-o", name)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), [])
        self.ok("eval", "--local", "add([1, 2], 1)", "-o", "x.parquet:/a")  # who names the object means HDF5
        np.testing.assert_array_equal(self.read("x.parquet", "a"), [2, 3])
        self.ok("eval", "--local", "add([1, 2], 2)", "-o", "x.parquet")  # an HDF5 file that is there
        np.testing.assert_array_equal(self.read("x.parquet"), [3, 4])
        for name in ["x.h5", "x.hdf5", "x.nc", "plain", "x.2026-01-01", "x.mine"]:
            self.ok("eval", "--local", "add([1, 2], 1)", "-o", name)
        (self.dir / "y.txt").write_text("1,2\n")
        self.fails(2, "the output y.txt has the name of a file of text", "eval", "--local", "1", "-o", "y.txt")
        self.fails(2, "the output g.xlsx has the name of a file of Excel", "generate", "market", "--rows", "10", "--cols", "4", "--factors", "2", "-o", "g.xlsx")
        self.assertEqual((self.dir / "y.txt").read_text(), "1,2\n")

    def test_errors_point_at_their_place(self):
        for text, pattern in [
            ("1 + meen(2)", r"column 5: name 'meen' is not defined; did you mean 'mean'\?"),
            ("add([1], 2).summ()", r"no attribute 'summ'; did you mean 'sum'\?"),
            ("sum([1], axs=0)", r"unexpected keyword argument 'axs'; did you mean 'axis'\?"),
            ("add([1, 2], [1, 2, 3])", r"\(2,\) \(3,\)"),
            ("add([1, 2], 3)[5]", r"5"),
            ("[[1, 2], [3]] + add(1, 1)", r"inhomogeneous"),
            ("np.nothing(1)", r"'np' has no function 'nothing'"),
            ("not add([1, 2], 0)", r"ambiguous"),
        ]:
            self.fails(2, pattern, "eval", "--local", text)

    def test_options_that_need_a_plan_are_refused(self):
        self.fails(2, r"--plan is not for --local", "eval", "--local", "1", "--plan")
        self.fails(2, r"--trace is not for --local", "eval", "--local", "1", "--trace", "t.json")
        self.fails(2, r"--device gpu: expected auto, cpu, cuda or emulated", "eval", "--local", "1", "--device", "gpu")

    def test_existing_objects_need_overwrite(self):
        self.ok("eval", "--local", "add(1, 1)", "-o", "o.h5:/a")
        self.fails(2, r"o\.h5:/a exists", "eval", "--local", "add(1, 2)", "-o", "o.h5:/a")
        self.ok("eval", "--local", "add(1, 2)", "-o", "o.h5:/a", "--overwrite")
        self.assertEqual(self.read("o.h5", "a"), 3)

    def test_one_rank_speaks(self):
        result = self.ok("eval", "--local", "add(1, 1)", ranks=2)
        self.assertEqual(result.out, "2\n")


if __name__ == "__main__":
    main()
