"""Files of other formats than HDF5, against what writes and reads them in Python."""

from support import CliTest, main, np

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


class NumpyFiles(CliTest):
    def save(self, name, array):
        np.save(self.path(name), array)

    def test_arrays_of_every_dtype_and_order_are_read(self):
        random = np.random.default_rng(3)
        cases = []
        for dtype in DTYPES:
            for order in "<>":
                for shape in [(), (0, 3), (5,), (4, 3), (2, 3, 4)]:
                    array = (random.random(shape) * 100).astype(dtype).astype(np.dtype(dtype).newbyteorder(order))
                    cases.append(array)
                    cases.append(np.asfortranarray(array))
        inputs, lines = [], []
        for i, array in enumerate(cases):
            self.save(f"x{i}.npy", array)
            inputs += ["-i", f"x{i}=x{i}.npy" + (":/" if i % 2 else "")]
            lines.append(f"y{i} = x{i} + 0" if array.dtype != bool else f"y{i} = x{i} & True")
        (self.dir / "s.q").write_text("\n".join(lines))
        for more in [["--local"], ["--chunks", "auto"]]:
            self.ok("eval", "-f", "s.q", *inputs, *more, "-o", "y.npz", "--overwrite")
            with np.load(self.path("y.npz")) as results:
                for i, array in enumerate(cases):
                    result = results[f"y{i}"]
                    self.assertEqual(result.dtype, array.dtype.newbyteorder("="))
                    np.testing.assert_array_equal(result, array)

    def test_files_are_those_of_numpy(self):
        for array in [np.float32(3).reshape(()), np.arange(7.0), np.arange(24, dtype="i2").reshape(2, 3, 4), np.zeros((0, 5), bool), np.zeros(3, "c16"), np.zeros((100, 100), "u8")]:
            self.save("a.npy", array)
            self.ok("eval", "x", "-i", "x=a.npy", "-o", "b.npy", "--overwrite", ranks=2 if array.size > 10 else 0)
            self.assertEqual(self.contents("a.npy"), self.contents("b.npy"))

    def test_archives_are_read_and_written(self):
        x, y = np.random.default_rng(1).standard_normal((300, 1000)), np.arange(100000, dtype="i4").reshape(500, 200).T
        np.savez(self.path("plain.npz"), x=x, y=y)
        np.savez_compressed(self.path("packed.npz"), x=x, y=y)
        for name in ["plain.npz", "packed.npz"]:
            for ranks in [0, 2]:
                for output, more in [("o.npz", []), ("c.npz", ["--out-filter", "deflate:1"])]:
                    self.ok("eval", "(x * 2, y[::-1, 5:])", "-i", f"x={name}:/x", "-i", f"y={name}:/y", "--memory", "32MiB", "-o", f"{output}:/r", "--overwrite", *more, ranks=ranks)
                    with np.load(self.path(output)) as results:
                        np.testing.assert_array_equal(results["r.0"], x * 2)
                        np.testing.assert_array_equal(results["r.1"], y[::-1, 5:])
        self.assertLess(len(self.contents("c.npz")), 0.97 * len(self.contents("o.npz")))
        self.assertRegex(self.ok("info", "packed.npz").out, r"(?s)/x  \(300, 1000\) float64 .*deflate.*ratio.*/y  \(200, 500\) int32")
        self.ok("eval", "1 + 1", "-o", "o.npz:/two")  # beside what is there
        with np.load(self.path("o.npz")) as results:
            self.assertEqual(sorted(results), ["r.0", "r.1", "two"])
            self.assertEqual(results["two"], 2)
        self.fails(2, "/two exists; --overwrite replaces it", "eval", "1", "-o", "o.npz:/two")
        self.fails(2, "no object '/z' in 'plain.npz'", "eval", "z", "-i", "z=plain.npz:/z")

    def test_records_and_dates(self):
        table = np.zeros(1000, dtype=[("day", "M8[D]"), ("price", "f8"), ("name", "U4"), ("flow", ">f4", (3,))])
        table["day"] = np.datetime64("2020-01-31") + np.arange(1000)
        table["price"] = np.arange(1000) / 8
        table["flow"] = np.arange(3000).reshape(1000, 3)
        self.save("t.npy", table)
        self.assertEqual(self.evaluate("(sum(p), f[10:12].tolist(), d[0])", "-i", "p=t.npy:/price", "-i", "f=t.npy:/flow", "-i", "d=t.npy:/day", "--local"),
                         "(np.float64(62437.5), [[30.0, 31.0, 32.0], [33.0, 34.0, 35.0]], np.int64(18292))")
        self.assertIn("days since 1970-01-01", self.ok("info", "t.npy").out)
        self.fails(2, "choose one of its fields /day, /price, /name, /flow", "eval", "x", "-i", "x=t.npy")
        self.fails(2, r"is of text \('<U4'\)", "eval", "x", "-i", "x=t.npy:/name")

    def test_the_name_decides_the_format(self):
        self.ok("eval", "ones(3)", "-o", "x.npy")
        np.testing.assert_array_equal(np.load(self.path("x.npy")), [1, 1, 1])
        self.fails(2, "x.npy' exists", "eval", "zeros(3)", "-o", "x.npy")
        self.fails(2, "holds one", "eval", "(ones(3), ones(3))", "-o", "y.npy")
        self.fails(2, "no filters", "eval", "ones(3)", "-o", "y.npy", "--out-filter", "deflate")
        self.fails(2, "deflate, and not shuffle", "eval", "ones(3)", "-o", "y.npz", "--out-filter", "shuffle")
        self.ok("eval", "--local", "'añ'", "-o", "t.npz")
        self.assertEqual(str(np.load(self.path("t.npz"))["result"]), "añ")
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["t.npz", "x.npy"])

    def test_damaged_files_are_errors(self):
        self.save("x.npy", np.arange(1000.0))
        whole = self.contents("x.npy")
        (self.dir / "short.npy").write_bytes(whole[:-100])
        self.fails(2, r"'short.npy' is damaged: its header: it is truncated: .* 100 are missing", "eval", "x", "-i", "x=short.npy")
        (self.dir / "evil.npy").write_bytes(whole.replace(b"(1000,)", b"a(10,)!"))
        self.fails(2, "something that is no literal", "info", "evil.npy")


class FileChunks(CliTest):
    def test_small_budgets_do_not_halve_what_is_encoded_whole(self):
        x = np.random.default_rng(4).standard_normal((70000, 7))
        self.write("x.h5", x=x)
        self.ok("eval", "x", "-i", "x=x.h5:/x", "-o", "o.h5", "--out-chunks", "70000,7", "--out-filter", "deflate", "--memory", "24MiB")
        np.testing.assert_array_equal(self.read("o.h5"), x)


main()
