"""quarry solve, lstsq, inv, cholesky, lu, qr, svd, eigh, matmul on data sets: by tiles, on ranks, in little memory."""

from support import CliTest, h5py, main, np

SIZE = 1300  # more than two tiles


RANDOM = np.random.default_rng(5)
A = RANDOM.standard_normal((SIZE, SIZE))
B = RANDOM.standard_normal((SIZE, 3))
DEFINITE = A @ A.T / SIZE + np.eye(SIZE)
TALL = RANDOM.standard_normal((6000, 40))


class Matrices(CliTest):
    a, b, spd, tall = A, B, DEFINITE, TALL

    def setUp(self):
        super().setUp()
        chunked = {"chunks": (200, 300)}
        self.write("m.h5", a=(self.a, chunked), b=self.b, spd=(self.spd, chunked), tall=(self.tall, {"chunks": (700, 40)}), v=self.tall[:, 0].copy())

    def results(self, name):
        """The values, in order."""
        with h5py.File(self.path(name)) as file:
            return [file[key][()] for key in sorted(file)]

    def close(self, a, b, bound=1e-8):
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound)

    def test_values_on_ranks(self):
        for ranks in [0, 2]:
            run = lambda *words: self.ok(*words, "--overwrite", "--memory", "64MiB", ranks=ranks)  # noqa: E731
            run("solve", "m.h5:/a", "m.h5:/b", "-o", "x.h5")
            self.close(self.a @ self.read("x.h5"), self.b)
            run("cholesky", "m.h5:/spd", "-o", "l.h5:/factor")
            factor = self.read("l.h5", "factor")
            self.close(factor @ factor.T, self.spd)
            run("qr", "m.h5:/tall", "-o", "q.h5")
            q, r = self.results("q.h5")
            self.close(q @ r, self.tall)
            self.close(q.T @ q, np.eye(40))
            run("matmul", "m.h5:/a", "m.h5:/b", "-o", "p.h5")
            self.close(self.read("p.h5"), self.a @ self.b)
        bits = [self.read("x.h5").tobytes(), self.read("l.h5", "factor").tobytes()]
        self.ok("solve", "m.h5:/a", "m.h5:/b", "-o", "x.h5", "--overwrite", "--memory", "512MiB", ranks=3)
        self.ok("cholesky", "m.h5:/spd", "-o", "l.h5:/factor", "--overwrite", "--memory", "512MiB", ranks=4)
        self.assertEqual([self.read("x.h5").tobytes(), self.read("l.h5", "factor").tobytes()], bits)

    def test_other_decompositions(self):
        run = lambda *words: self.ok(*words, "--memory", "128MiB")  # noqa: E731
        run("lu", "m.h5:/a", "-o", "lu.h5")
        p, lower, upper = self.results("lu.h5")
        self.close(p @ lower @ upper, self.a)
        run("svd", "m.h5:/tall", "-o", "s.h5")
        u, values, vh = self.results("s.h5")
        self.close(values, np.linalg.svd(self.tall, compute_uv=False))
        self.close(u * values @ vh, self.tall)
        run("inv", "m.h5:/spd", "-o", "i.h5")
        self.close(self.read("i.h5") @ self.spd, np.eye(SIZE))
        run("eigh", "m.h5:/spd", "-o", "e.h5")
        self.close(self.results("e.h5")[0], np.linalg.eigvalsh(self.spd))
        out = run("lstsq", "m.h5:/tall", "m.h5:/v").out
        self.assertIn("array", out)

    def test_spectra_in_little_memory(self):
        self.ok("eigh", "m.h5:/spd", "-o", "e.h5", "--memory", "32MiB", ranks=2)
        values, vectors = self.results("e.h5")
        self.close(values, np.linalg.eigvalsh(self.spd))
        self.close(vectors * values @ vectors.T, self.spd)
        self.ok("svd", "m.h5:/a", "-o", "s.h5", "--memory", "32MiB")
        u, values, vh = self.results("s.h5")
        self.close(values, np.linalg.svd(self.a, compute_uv=False))
        self.close(u * values @ vh, self.a)

    def test_more_ranks_than_one_serves_at_once(self):
        """Ranks pass tiles on to others: the same bits."""
        bits = {}
        for ranks, memory in [(0, "256MiB"), (6, "256MiB"), (0, "24MiB"), (7, "24MiB")]:  # from which the size of tiles follows
            for command, *inputs in [("cholesky", "spd"), ("solve", "a", "b"), ("qr", "a"), ("matmul", "a", "spd")]:
                self.ok(command, *[f"m.h5:/{name}" for name in inputs], "-o", "x.h5", "--overwrite", "--memory", memory, "--threads", "1", ranks=ranks)
                made = self.results("x.h5")[0].tobytes()
                self.assertTrue(bits.setdefault((command, memory), made) == made, (command, ranks))
            text = "matmul(linalg.cholesky(a), linalg.cholesky(a)) + matmul(linalg.cholesky(a), a)"
            self.ok("eval", text, "-i", "a=m.h5:/spd", "-o", "x.h5", "--overwrite", "--memory", memory, ranks=ranks)
            self.close(self.read("x.h5"), (factor := np.linalg.cholesky(self.spd)) @ factor + factor @ self.spd)

    def test_precision_of_products(self):
        """On the CPU every product is exact; what was asked for is in the plan all the same."""
        for name in ["exact", "tf32", "bf16x3"]:
            self.ok("eval", "x.astype('float32')", "-i", "x=m.h5:/tall", "-o", "single.h5", "--overwrite")
            words = ["matmul", "single.h5:/result", "single.h5:/result", "--precision", name]
            self.fails(2, "mismatch in its core dimension", *words)
            words = ["eval", f"matmul(x.T, x, precision='{name}')", "-i", "x=single.h5:/result"]
            plan = self.ok(*words, "--plan").out
            self.assertEqual(f"precision={name}" in plan, name != "exact", plan)
            self.ok(*words, "-o", f"{name}.h5")
            for form in ["dot(x.T, x", "einsum('ij,ik->jk', x, x", "tensordot(x, x, [[0], [0]]", "inner(x.T, x.T"]:
                local = self.ok("eval", f"max(abs({form}, precision='{name}') - matmul(x.T, x)))", "-i", "x=single.h5:/result").out
                self.assertLess(float(local), 1e-2)
            self.ok("eval", "--local", f"matmul(x.T, x, precision='{name}')", "-i", "x=single.h5:/result")
        self.assertEqual(self.read("exact.h5").tobytes(), self.read("tf32.h5").tobytes())
        self.assertEqual(self.read("exact.h5").tobytes(), self.read("bf16x3.h5").tobytes())
        self.write("squares.h5", a=self.a.astype("float32"), b=self.b.astype("float32"))
        plan = self.ok("matmul", "squares.h5:/a", "squares.h5:/b", "--precision", "tf32", "--plan").out
        self.assertIn("precision=tf32", plan)
        self.fails(2, "precision must be 'exact', 'tf32' or 'bf16x3', not 'bf16'", "eval", "matmul(x, x.T, precision='bf16')", "-i", "x=m.h5:/a")
        self.fails(2, "--precision", "matmul", "m.h5:/a", "m.h5:/b", "--precision", "half")

    def test_options_of_commands(self):
        upper = np.triu(self.spd)
        self.write("o.h5", upper=upper, spd=self.spd[:60, :60], rows=self.tall[:, [0, 0, 1]])

        def run(*words):
            (self.dir / "r.h5").unlink(missing_ok=True)
            self.ok(*words, "-o", "r.h5")

        run("cholesky", "o.h5:/upper", "--upper")
        factor = self.read("r.h5")
        self.close(factor.T @ factor, self.spd)
        run("solve", "o.h5:/upper", "m.h5:/b", "--assume-a", "pos")
        self.close(self.spd @ self.read("r.h5"), self.b)
        run("solve", "m.h5:/spd", "m.h5:/b", "--assume-a", "pos", "--lower", "--refine")
        self.close(self.spd @ self.read("r.h5"), self.b)
        run("qr", "o.h5:/rows", "--mode", "complete")
        self.assertEqual([x.shape for x in self.results("r.h5")], [(6000, 6000), (6000, 3)])
        run("svd", "m.h5:/tall", "--values-only")
        self.close(self.read("r.h5"), np.linalg.svd(self.tall, compute_uv=False))
        all_values = np.linalg.eigvalsh(self.spd[:60, :60])
        run("eigh", "o.h5:/spd", "--values-only", "--by-index", "3,9")
        self.close(self.read("r.h5"), all_values[3:10])
        run("eigh", "o.h5:/spd", "--upper", f"--by-value={(all_values[6] + all_values[7]) / 2},1e3")
        self.close(self.results("r.h5")[0], all_values[7:])
        # A column that is there twice: one of its values is tiny, and another is no longer large.
        run("lstsq", "o.h5:/rows", "m.h5:/v")
        self.assertEqual(self.results("r.h5")[2], 2)
        run("lstsq", "o.h5:/rows", "m.h5:/v", "--rcond", "0.99")
        self.assertEqual(self.results("r.h5")[2], 1)
        self.fails(2, "--rcond takes a number, not 'much'", "lstsq", "o.h5:/rows", "m.h5:/v", "--rcond", "much")
        self.fails(2, "--by-index takes two numbers, as '0,9', not '3'", "eigh", "o.h5:/spd", "--by-index", "3")
        self.fails(2, "--by-value takes two numbers", "eigh", "o.h5:/spd", "--by-value", "1,2,")
        self.fails(2, "--mode", "qr", "o.h5:/rows", "--mode", "raw")
        self.fails(2, "matmul: RIGHT: give the object too, m.h5:/PATH", "matmul", "m.h5:/a", "m.h5")
        self.fails(2, "error: cholesky: ", "cholesky", "m.h5:/tall")

    def test_files_of_one_array(self):
        np.save(self.path("a.npy"), self.spd[:50, :50])
        self.ok("inv", "a.npy", "-o", "i.npy")
        self.close(np.load(self.path("i.npy")) @ self.spd[:50, :50], np.eye(50))

    def test_plans_errors_and_help(self):
        for command in ["svd", "qr"]:  # a tall matrix is read once
            plan = self.ok(command, "m.h5:/tall", "-o", "l.h5", "--plan").out
            self.assertIn("reads: 1.83 MiB\n", plan)
        plan = self.ok("cholesky", "m.h5:/spd", "-o", "l.h5", "--plan", "--memory", "32MiB")
        self.assertIn("cholesky", plan.out)
        self.assertFalse((self.dir / "l.h5").exists())
        singular = self.a.copy()
        singular[:, 700] = 0
        indefinite = self.spd.copy()
        indefinite[900, 900] = -1
        self.write("bad.h5", singular=singular, indefinite=indefinite)
        for ranks in [0, 2]:
            self.fails(1, "Singular matrix: pivot 701 is 0", "solve", "bad.h5:/singular", "m.h5:/b", "-o", "x.h5", ranks=ranks)
            self.fails(1, "not positive definite: its leading minor of order 901 is not", "cholesky", "bad.h5:/indefinite", "-o", "x.h5", ranks=ranks)
        self.fails(2, "square", "cholesky", "m.h5:/tall")
        self.fails(2, "do not make a system of equations", "solve", "m.h5:/a", "m.h5:/tall")
        self.fails(2, "Incompatible dimensions: a has 6000 rows, b has 1300", "lstsq", "m.h5:/tall", "m.h5:/b")
        # Before anything is computed: the sides do not fit either.
        for command, last in [("lstsq", 3), ("lu", 2), ("qr", 1), ("svd", 2), ("eigh", 1)]:
            there = f"{command}.h5"
            self.write(there, **{f"result.{last}": np.zeros(2)})
            inputs = ["m.h5:/tall", "m.h5:/b"][: 2 if command == "lstsq" else 1]
            self.fails(2, f"the output {there}:/result.{last} exists; --overwrite replaces it", command, *inputs, "-o", there)
        self.fails(2, "SIDES", "solve", "m.h5:/a")
        for command in ["solve", "lstsq", "inv", "cholesky", "lu", "qr", "svd", "eigh", "matmul"]:
            self.assertIn("quarry eval", self.ok(command, "--help").out)

    def test_little_memory(self):
        """Matrix and factor are twice the budget: tiles are smaller, and spilled."""
        self.ok("cholesky", "m.h5:/spd", "-o", "l.h5", "--memory", "12MiB")
        factor = self.read("l.h5")
        self.close(factor @ factor.T, self.spd)
        self.fails(2, "budget", "cholesky", "m.h5:/spd", "-o", "s.h5", "--memory", "64KiB")


if __name__ == "__main__":
    main()
