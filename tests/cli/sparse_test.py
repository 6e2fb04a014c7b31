"""Sparse matrices in files as inputs of expressions, as their results, and in quarry info."""

import h5py
from support import CliTest, main, np

SCRIPT = """
y = A @ b
left = b @ A
both = (A + 2 * A.T - A.multiply(A) / 4).toarray()
square = (A @ A).toarray()
some = A[5:20, 1:-3:2].toarray()
above = A.diagonal(3)
rows = A[10:30].toarray()
sums = A.sum(0)
diagonal = A.diagonal()
taken = A[[31, 2, 2, -1]][:, [7, 0, 7]].toarray()
masked = A[b > 0][:, b < 0].toarray()
squares = (A ** 2).toarray()
cube = sparse.linalg.matrix_power(A, 3).toarray()
x = sparse.linalg.cg(A, b, rtol=1e-12, M='jacobi')[0]
z = sparse.linalg.gmres(A, b, rtol=1e-12, M='ilu')[0]
w = sparse.linalg.eigsh(A, 3)[0]
"""


class SparseTest(CliTest):
    def write_mtx(self, name, header, shape, lines):
        sizes = " ".join(map(str, [*shape, len(lines)]))
        (self.dir / name).write_text("\n".join([f"%%MatrixMarket matrix {header}", "% made for a test", sizes, *lines]) + "\n")

    def write_group(self, file, name, parts, **attributes):
        with h5py.File(self.path(file), "a") as out:
            group = out.create_group(name)
            group.attrs.update(attributes)
            for key, values in zip(["data", "indices", "indptr", "shape"], parts):
                group[key] = values


class SparseInputs(SparseTest):
    """Against the same matrix as a dense one, on one rank and on several."""

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        a = random.standard_normal((40, 40)) * (random.random((40, 40)) < 0.1)
        self.a = a + a.T + 20 * np.eye(40)
        self.b = random.standard_normal(40)
        self.write("d.h5", b=self.b)
        rows, columns = np.nonzero(self.a)
        values = self.a[rows, columns]
        indptr = np.concatenate([[0], np.cumsum((self.a != 0).sum(1))])
        entries = [f"{i + 1} {j + 1} {x!r}" for i, j, x in zip(rows, columns, values.tolist())]
        self.write_mtx("s.mtx", "coordinate real general", (40, 40), entries)
        lower = [entry for entry, i, j in zip(entries, rows, columns) if i >= j]
        self.write_mtx("half.mtx", "coordinate real symmetric", (40, 40), lower)
        # The matrix is symmetric: its columns are its rows.
        parts = (values, columns, indptr)
        self.write_group("s.h5", "csr", parts, **{"encoding-type": "csr_matrix", "shape": [40, 40]})
        self.write_group("s.h5", "csc", parts, **{"encoding-type": "csc_matrix", "shape": [40, 40]})
        self.write_group("s.h5", "tenx", (*parts, [40, 40]))
        self.write_group("s.h5", "wrong", parts, **{"encoding-type": "array"})

    def run_script(self, matrix, *more, ranks=0):
        (self.dir / "s.q").write_text(SCRIPT)
        self.ok("eval", "-f", "s.q", "-i", f"A={matrix}", "-i", "b=d.h5:/b", "-o", "o.h5", "--overwrite", *more, ranks=ranks)
        with h5py.File(self.path("o.h5")) as file:
            return {name: file[name][()] for name in file}

    def check(self, found):
        a, b = self.a, self.b
        expected = {"y": a @ b, "left": b @ a, "both": a + 2 * a.T - a * a / 4, "square": a @ a, "some": a[5:20, 1:-3:2], "above": a.diagonal(3), "rows": a[10:30], "sums": a.sum(0)}
        expected |= {"taken": a[[31, 2, 2, -1]][:, [7, 0, 7]], "masked": a[b > 0][:, b < 0], "squares": a**2, "cube": a @ a @ a, "z": np.linalg.solve(a, b)}
        expected |= {"diagonal": a.diagonal(), "x": np.linalg.solve(a, b), "w": np.linalg.eigvalsh(a)[-3:]}
        self.assertEqual(sorted(found), sorted(expected))
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-9, err_msg=name)

    def test_expressions_take_them(self):
        for matrix in ["s.mtx", "half.mtx", "s.h5:/csr", "s.h5:/csc", "s.h5:/tenx"]:
            with self.subTest(matrix):
                self.check(self.run_script(matrix))

    def test_bits_are_those_of_one_rank(self):
        for matrix, ranks in [("half.mtx", 4), ("s.h5:/csr", 2)]:
            one, several = self.run_script(matrix), self.run_script(matrix, ranks=ranks)
            for name, values in one.items():
                self.assertEqual(values.tobytes(), several[name].tobytes(), f"{name} of {matrix} on {ranks} ranks")

    def test_on_an_emulated_device(self):
        for matrix, ranks in [("half.mtx", 0), ("s.h5:/csc", 2)]:
            self.check(self.run_script(matrix, "--device", "emulated", ranks=ranks))

    def test_other_solvers(self):
        for name in ["gmres", "bicgstab", "minres", "cgs"]:
            found = self.evaluate(f"abs(A @ sparse.linalg.{name}(A, b, rtol=1e-10)[0] - b).max() < 1e-7", "-i", "A=s.mtx", "-i", "b=d.h5:/b")
            self.assertEqual(found, "True", name)

    def test_results_are_stored_as_groups(self):
        for ranks in [0, 2]:
            self.ok("eval", "(A + A.T, A @ b)", "-i", "A=s.mtx", "-i", "b=d.h5:/b", "-o", "r.h5:/r", "--overwrite", ranks=ranks)
            with h5py.File(self.path("r.h5")) as file:
                group = file["r.0"]
                self.assertEqual(group.attrs["encoding-type"], "csr_matrix")
                self.assertEqual(list(group.attrs["shape"]), [40, 40])
                self.assertEqual(group.attrs["shape"].dtype, np.int64)  # SciPy takes no floats
                dense = np.zeros((40, 40))
                rows = np.repeat(np.arange(40), np.diff(group["indptr"][()]))
                dense[rows, group["indices"][()]] = group["data"][()]
                np.testing.assert_allclose(dense, 2 * self.a, rtol=1e-15)
                np.testing.assert_allclose(file["r.1"][()], self.a @ self.b, atol=1e-12)
            self.ok("eval", "B.toarray()", "-i", "B=r.h5:/r.0", "-o", "back.h5", "--overwrite", ranks=ranks)
            np.testing.assert_allclose(self.read("back.h5"), 2 * self.a, rtol=1e-15)
        self.fails(1, "stored as a group", "eval", "A", "-i", "A=s.mtx", "-o", "r.npy")

    def test_info(self):
        out = self.ok("info", "half.mtx").out
        self.assertRegex(out, r"\(40, 40\) float64  \d+ entries  Matrix Market coordinate real symmetric")
        out = self.ok("info", "s.h5").out
        stored = np.count_nonzero(self.a)
        self.assertIn(f"/csr/  sparse csr (40, 40) float64  {stored} stored elements", out)
        self.assertIn(f"/csc/  sparse csc (40, 40) float64  {stored} stored elements", out)
        self.assertIn(f"/tenx/  sparse csc (40, 40) float64  {stored} stored elements", out)
        self.assertIn("has the format 'array', not csr or csc", out)

    def test_plan(self):
        out = self.ok("eval", "A @ b", "-i", "A=s.mtx", "-i", "b=d.h5:/b", "--plan").out
        self.assertIn("Matrix Market", out)
        self.assertIn("depends on", out)

    def test_mistakes_are_named(self):
        for expression, pattern in [
            ("A + 1", r"\+ of a sparse matrix and an int; A\.toarray\(\)"),
            ("exp(A)", r"csr_array.*A\.toarray\(\)"),
            ("A[0]", r"indices of rows"),
            ("A[:, 1]", r"indices of columns but slices"),
            ("A[[0, 1], [0, 1]]", r"pairs of positions"),
            ("A[[0, 40]]", r"rows: index 40 is out of bounds for an axis of 40"),
            ("A[:, [True]]", r"columns: a mask of 1 elements does not fit an axis of 40"),
            ("A ** 0", r"the power 0 of a sparse matrix"),
            ("sparse.linalg.matrix_power(A, -2)", r"power: -2 is negative"),
            ("sparse.linalg.cg(A - A, b, M='ilu')", r"ilu: row 0 has no element on the diagonal"),
            ("sparse.linalg.cg(A, b, M='lu')", r"none of 'jacobi', 'block_jacobi', 'ilu', and no matrix"),
            ("A @ A[:5]", r"shapes \(40, 40\) and \(5, 40\) do not match"),
            ("A @ ones(3)", r"shapes \(40, 40\) and \(3,\) do not match"),
        ]:
            self.fails(1, pattern, "eval", expression, "-i", "A=s.mtx", "-i", "b=d.h5:/b")  # the input is read by then
        self.fails(2, "--masked is not for", "eval", "A", "-i", "A=s.mtx", "--masked")
        self.fails(2, "--local reads no Matrix Market", "eval", "--local", "A", "-i", "A=s.mtx")
        self.fails(2, "has the format 'array', not csr or csc", "eval", "A", "-i", "A=s.h5:/wrong")
        self.fails(2, "'/' in 's.h5' is a group, not a data set", "eval", "A", "-i", "A=s.h5:/")


class MatrixMarketFiles(SparseTest):
    def dense(self, *arguments, ranks=0):
        self.ok("eval", "A.toarray()", "-i", "A=m.mtx", "-o", "o.h5", "--overwrite", *arguments, ranks=ranks)
        return self.read("o.h5")

    def test_fields_symmetries_and_shapes(self):
        cases = [
            ("coordinate pattern symmetric", (2, 2), ["1 1", "2 1"], [[1, 1], [1, 0]]),
            ("coordinate integer skew-symmetric", (2, 2), ["2 1 3"], [[0, -3], [3, 0]]),
            ("coordinate complex hermitian", (2, 2), ["1 1 4 0", "2 1 1 2"], [[4, 1 - 2j], [1 + 2j, 0]]),
            ("coordinate complex general", (2, 3), ["2 3 1e3 -2"], [[0, 0, 0], [0, 0, 1e3 - 2j]]),
            ("coordinate real general", (1, 3), ["1 3 2.5", "1 3 1"], [[0, 0, 3.5]]),
            ("coordinate real general", (3, 2), [], np.zeros((3, 2))),
        ]
        for header, shape, lines, expected in cases:
            self.write_mtx("m.mtx", header, shape, lines)
            for ranks in [0, 2]:
                found = self.dense(ranks=ranks)
                np.testing.assert_array_equal(found, expected, err_msg=header)
                self.assertEqual(found.dtype.kind, "i" if "integer" in header else "c" if "complex" in header else "f")

    def test_array_format_is_dense(self):
        (self.dir / "b.mtx").write_text("%%MatrixMarket matrix array real general\n3 1\n1\n2\n3\n")
        self.write_mtx("m.mtx", "coordinate real general", (3, 3), ["1 1 2", "2 2 4", "3 3 5"])
        self.ok("eval", "(A @ b, sparse.linalg.cg(A, b)[0], b + 1)", "-i", "A=m.mtx", "-i", "b=b.mtx", "-o", "o.h5", ranks=2)
        np.testing.assert_array_equal(self.read("o.h5", "result.0"), [[2], [8], [15]])
        np.testing.assert_allclose(self.read("o.h5", "result.1").ravel(), [0.5, 0.5, 0.6])
        np.testing.assert_array_equal(self.read("o.h5", "result.2"), [[2], [3], [4]])

    def test_damaged_files_are_named_with_their_lines(self):
        cases = [
            ("3 3 2\n1 1 1.0\n4 1 2.0\n", r"m\.mtx:4:1: row 4 is not between 1 and 3"),
            ("3 3 2\n1 1 1.0\n% no entry\n2 1 2.0x\n", r"m\.mtx:5:5: the value '2\.0x' is not a number"),
            ("3 3 2\n1 1 1.0\n2 1\n", r"m\.mtx:4:4: the value is missing"),
            ("3 3 3\n1 1 1.0\n2 1 2.0\n", r"m\.mtx:2: the header tells of 3 entries, and 2 follow"),
            ("3 3 1\n1 1 1.0\n2 1 2.0\n", r"m\.mtx:2: the header tells of 1 entries, and 2 follow"),
            ("3 3 99\n1 1 1.0\n", r"m\.mtx:2: the header tells of 99 entries, more than the file can hold"),
            ("", r"m\.mtx:2: the line of sizes is missing"),
        ]
        for text, pattern in cases:
            (self.dir / "m.mtx").write_text("%%MatrixMarket matrix coordinate real general\n" + text)
            for ranks in [0, 2]:
                self.fails(2, pattern, "eval", "A.sum()", "-i", "A=m.mtx", ranks=ranks)
        self.fails(2, "cannot be opened|no such file", "eval", "A", "-i", "A=none.mtx")


class MatrixMarketOutputs(SparseTest):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(8)
        self.a = np.where(random.random((37, 29)) < 0.3, random.standard_normal((37, 29)) * 10.0 ** random.integers(-30, 30, (37, 29)), 0)
        self.write("d.h5", a=self.a, x=self.a[:, 0], f=self.a.astype(np.float32), c=self.a + 1j * self.a[::-1])
        self.write("more.h5", i=np.arange(-6, 6).reshape(3, 4), cube=np.ones((2, 2, 2)), h=np.ones(3, np.float16))

    def written(self, expression, *inputs, ranks=0):
        self.ok("eval", expression, *[word for name, place in inputs for word in ("-i", f"{name}={place}")], "-o", "o.mtx", "--overwrite", ranks=ranks)
        return (self.dir / "o.mtx").read_bytes()

    def test_sparse_results_are_read_back(self):
        for name, make, header in [
            ("a", lambda a: a, "coordinate real general\n37 29"),
            ("f", lambda a: a.astype(np.float32), "coordinate real general\n37 29"),
            ("c", lambda a: a + 1j * a[::-1], "coordinate complex general\n37 29"),
        ]:
            one = self.written("sparse.csr_array(a)", ("a", f"d.h5:/{name}"))
            self.assertTrue(one.startswith(b"%%MatrixMarket matrix " + header.encode()), one[:80])
            for ranks in [2, 4]:
                self.assertEqual(one, self.written("sparse.csr_array(a)", ("a", f"d.h5:/{name}"), ranks=ranks), f"{name} on {ranks} ranks")
            expected = make(self.a)
            self.ok("eval", "A.toarray()", "-i", "A=o.mtx", "-o", "v.h5", "--overwrite")
            np.testing.assert_array_equal(self.read("v.h5").astype(expected.dtype), expected, err_msg=name)

    def test_texts(self):
        for expression, text in [
            ("sparse.coo_array(([1, 2, 3, 4], ([1, 0, 1, 2], [0, 2, 0, 1])), shape=(3, 4))", "coordinate integer general\n3 4 3\n1 3 2\n2 1 4\n3 2 4\n"),
            ("sparse.csr_array(zeros((3, 2)))", "coordinate real general\n3 2 0\n"),
            ("sparse.csr_array(array([[nan, inf]]))", "coordinate real general\n1 2 2\n1 1 nan\n1 2 inf\n"),
            ("array([[1., 0.1], [-2.5, 1e-300]])", "array real general\n2 2\n1\n-2.5\n0.1\n1e-300\n"),
            ("array([0.1, 2]).astype(float32)", "array real general\n2 1\n0.1\n2\n"),
            ("array([True, False])", "array integer general\n2 1\n1\n0\n"),
            ("array([[1 + 2j]])", "array complex general\n1 1\n1 2\n"),
            ("zeros((0, 3))", "array real general\n0 3\n"),
        ]:
            for ranks in [0, 4]:  # more than there are chunks
                self.assertEqual(self.written(expression, ranks=ranks).decode(), "%%MatrixMarket matrix " + text)

    def test_dense_results_are_read_back(self):
        for name in ["a", "x", "c"]:
            one = self.written("a", ("a", f"d.h5:/{name}"))
            self.assertEqual(one, self.written("a", ("a", f"d.h5:/{name}"), ranks=2))
            self.ok("convert", "o.mtx", "-o", "v.h5", "--overwrite")
            np.testing.assert_array_equal(self.read("v.h5", "data").squeeze(), self.read("d.h5", name))

    def test_many_chunks(self):
        for ranks in [0, 2]:
            self.ok("eval", "a * 2", "-i", "a=d.h5:/a", "-o", "o.mtx", "--overwrite", "--chunks", "5,3", ranks=ranks)
            self.ok("convert", "o.mtx", "-o", "v.h5", "--overwrite")
            np.testing.assert_array_equal(self.read("v.h5", "data"), 2 * self.a)

    def test_commands_that_store(self):
        self.ok("sort", "d.h5:/x", "-o", "o.mtx")
        self.ok("convert", "o.mtx", "-o", "v.h5")
        np.testing.assert_array_equal(self.read("v.h5", "data").ravel(), np.sort(self.a[:, 0]))

    def test_what_it_cannot_hold(self):
        before = self.written("ones(2)")
        for expression, pattern in [
            ("x", r"o\.mtx is Matrix Market, which holds matrices and vectors, and the result has 3 axes"),
            ("(x, x[0])", r"o\.mtx is Matrix Market, which holds one matrix, and there are 2 results"),
            ("x.sum()", r"the result has 0 axes"),
        ]:
            self.fails(2, pattern, "eval", expression, "-i", "x=more.h5:/cube", "-o", "o.mtx", "--overwrite")
        self.fails(2, "has no float16: write astype", "eval", "x", "-i", "x=more.h5:/h", "-o", "o.mtx", "--overwrite")
        self.fails(2, "has no masked elements", "eval", "ma.masked_less(x, 0)", "-i", "x=d.h5:/x", "-o", "o.mtx", "--overwrite")
        self.fails(2, "has no filters", "eval", "x", "-i", "x=d.h5:/x", "-o", "o.mtx", "--overwrite", "--out-filter", "gzip")
        self.fails(2, "--resume is not for", "eval", "x", "-i", "x=d.h5:/x", "-o", "o.mtx", "--resume")
        self.fails(2, "--append and --region are not for", "eval", "x", "-i", "x=d.h5:/x", "-o", "o.mtx", "--append", "0")
        self.fails(2, "exists; --overwrite replaces it", "eval", "x", "-i", "x=d.h5:/x", "-o", "o.mtx")
        self.assertEqual((self.dir / "o.mtx").read_bytes(), before)

    def test_a_run_that_fails_leaves_what_was_there(self):
        before = self.written("ones(2)")
        with h5py.File(self.path("bad.h5"), "w") as file:
            file.create_dataset("x", data=np.arange(64.0), chunks=(8,), fletcher32=True)
        data = bytearray((self.dir / "bad.h5").read_bytes())
        at = data.find(np.arange(48.0, 56.0).tobytes())
        data[at] ^= 1
        (self.dir / "bad.h5").write_bytes(data)
        for ranks in [0, 2]:
            self.fails(1, "bad.h5", "eval", "x + 1", "-i", "x=bad.h5:/x", "-o", "o.mtx", "--overwrite", ranks=ranks)
            self.assertEqual((self.dir / "o.mtx").read_bytes(), before)
            self.assertEqual([path.name for path in self.dir.glob("*.partial*")], [])
        for ranks in [0, 2]:
            self.fails(1, "no space left", "eval", "random.default_rng(1).random(400000)", "-o", "o.mtx", "--overwrite", ranks=ranks, file_limit=4 << 20)
            self.assertEqual((self.dir / "o.mtx").read_bytes(), before)
            self.assertEqual([path.name for path in self.dir.glob("*.partial*")], [])

    def test_within_a_small_budget(self):
        for expression in ["random.default_rng(1).random((1500, 800))", "sparse.csr_array(random.default_rng(1).random((1500, 800)).rechunk((20, -1)))"]:
            self.ok("eval", expression, "-o", "o.mtx", "--overwrite", "--memory", "2GiB")
            whole = (self.dir / "o.mtx").read_bytes()
            for ranks in [0, 2]:
                self.ok("eval", expression, "-o", "o.mtx", "--overwrite", "--memory", "8MiB", ranks=ranks)
                self.assertEqual((self.dir / "o.mtx").read_bytes(), whole)

    def test_convert_and_diff(self):
        self.written("sparse.csr_array(a)", ("a", "d.h5:/a"))
        for ranks in [0, 2]:
            self.ok("convert", "o.mtx", "-o", "s.h5", "--overwrite", ranks=ranks)
            self.ok("convert", "s.h5", "-o", "back.mtx", "--overwrite", ranks=ranks)
            self.assertEqual((self.dir / "o.mtx").read_bytes(), (self.dir / "back.mtx").read_bytes())
            for other in ["back.mtx", "s.h5", "s.h5:/matrix", "d.h5:/a"]:
                self.assertIn("hold the same", self.ok("diff", "o.mtx", other, ranks=ranks).out)
        self.ok("convert", "o.mtx", "-o", "named.h5:/g/m", "--dtype", "float32")
        self.assertIn("/g/m/  sparse csr (37, 29) float32", self.ok("info", "named.h5").out)
        self.ok("convert", "d.h5:/a", "-o", "dense.mtx")
        self.assertIn("hold the same", self.ok("diff", "dense.mtx", "d.h5:/a").out)
        self.fails(2, "stored as a group, which NumPy has not", "convert", "o.mtx", "-o", "s.npy")
        self.fails(2, "takes one array, d.h5 has 4", "convert", "d.h5", "-o", "all.mtx")
        self.fails(2, r"all.mtx. is Matrix Market, which holds matrices and vectors, not an array of shape \(2, 2, 2\)", "convert", "more.h5:/cube", "-o", "all.mtx")
        self.fails(2, "exists; --overwrite", "convert", "back.mtx", "-o", "o.mtx")
        self.fails(1, "exists; --overwrite", "convert", "o.mtx", "-o", "s.h5:/matrix")  # after it has been read
        (self.dir / "o.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 x 1\n")
        self.fails(2, r"o\.mtx:3:3: the column 'x' is not a number", "convert", "o.mtx", "-o", "new.h5")
        self.assertFalse((self.dir / "new.h5").exists())

    def test_diff_says_where(self):
        entries = ["1 1 2", "2 3 5", "3 1 0"]
        self.write_mtx("a.mtx", "coordinate real general", (3, 3), entries)
        for lines, header, pattern in [
            (["2 3 5", "1 1 2"], "real", "hold the same"),  # a zero that is stored, and another order
            (["1 1 2", "2 3 5.5"], "real", r"1 of 2 values, the first at \(1, 2\), by 0\.5 at most"),
            (["1 1 2", "2 2 5"], "real", "other elements that are not zero, first in row 1"),
            (["1 1 2", "3 3 5"], "real", "other elements that are not zero, first in row 1"),
            (["1 1 2"], "real", "2 and 1 elements that are not zero"),
            (["1 1 2", "2 3 5"], "integer", "dtypes float64 and int64"),
        ]:
            self.write_mtx("b.mtx", f"coordinate {header} general", (3, 3), lines)
            for ranks in [0, 2]:
                result = self.run_quarry("diff", "a.mtx", "b.mtx", ranks=ranks)
                self.assertEqual(result.status, 0 if "same" in pattern else 1, result.out + result.err)
                self.assertRegex(result.out, pattern)
        self.ok("diff", "a.mtx", "b.mtx", "--values")
        self.write_mtx("b.mtx", "coordinate real general", (3, 3), ["1 1 2", "2 3 5.01"])
        self.ok("diff", "a.mtx", "b.mtx", "--rtol", "0.01")
        (self.dir / "b.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 x 1\n")
        self.fails(2, r"b\.mtx:3:3: the column 'x' is not a number", "diff", "a.mtx", "b.mtx")

    def test_verify(self):
        self.written("sparse.csr_array(a)", ("a", "d.h5:/a"))
        self.assertIn("nothing is damaged", self.ok("verify", "o.mtx").out)
        text = (self.dir / "o.mtx").read_text()
        for more, pattern in [("1 1 1\n", "o.mtx:2: the header tells of"), ("1 x 1\n", ":3: the column 'x' is not a number")]:
            (self.dir / "o.mtx").write_text(text + more)
            result = self.run_quarry("verify", "o.mtx")
            self.assertEqual(result.status, 1, result.out)
            self.assertIn(pattern, result.out)
            self.assertIn("1 damaged", result.out)
        (self.dir / "o.mtx").write_text("%%MatrixMarket vector\n")
        self.fails(2, "o.mtx:1: the object is 'vector', not matrix", "verify", "o.mtx")


if __name__ == "__main__":
    main()
