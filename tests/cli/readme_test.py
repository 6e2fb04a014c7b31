"""What README.md shows compiles and runs."""

import os
import re
import shlex
import subprocess

from support import QUARRY, SOURCE, CliTest, main, np


class Readme(CliTest):
    def setUp(self):
        super().setUp()
        self.text = (SOURCE / "README.md").read_text()

    def test_the_examples_are_the_compiled_ones(self):
        shown = re.findall(r"```cpp\n(.*?)```", self.text, re.S)
        self.assertEqual(shown, [(SOURCE / f"apps/examples/{name}.cpp").read_text() for name in ("covariance", "local_arrays")])
        for program in shown:
            self.assertLessEqual(len(program.splitlines()), 20)

    def example(self, name, *arguments):
        done = subprocess.run([os.path.join(os.environ["QUARRY_EXAMPLES"], name), *arguments], cwd=self.dir, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_local_arrays_runs(self):
        days = np.arange(250)
        returns = np.diff(np.log(100 + 5 * np.sin(days * days / 900) + 0.1 * days))
        volatility = np.std(np.lib.stride_tricks.sliding_window_view(returns, 20), axis=-1) * np.sqrt(252)
        calmest = np.argsort(volatility)[:4]
        self.assertEqual(self.example("local_arrays"), f"{calmest}\n{volatility[calmest]}\n")

    def test_covariance_runs(self):
        x = np.random.default_rng(2).standard_normal((500, 10))
        self.write("a.h5", x=x)
        printed = self.example("covariance", "a.h5", "o.h5")
        values, vectors = self.read("o.h5", "values"), self.read("o.h5", "vectors")
        correlation = np.corrcoef(x.T)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(correlation), rtol=1e-10)
        np.testing.assert_allclose(correlation @ vectors, vectors * values, atol=1e-10)
        np.testing.assert_allclose(np.array(printed.strip("[]\n").split(), float), values[-3:], rtol=1e-7)

    def test_the_page_of_functions_is_current(self):
        listed = self.ok("eval", "--local", "--list-functions").out
        self.assertIn(listed, (SOURCE / "docs/functions.md").read_text(), "run scripts/functions_page")

    def test_the_commands_run(self):
        block = next(b for b in re.findall(r"```\w*\n(.*?)```", self.text, re.S) if b.startswith("quarry generate"))
        for line in block.strip().splitlines():
            program, *arguments = shlex.split(line)
            self.assertEqual(program, "quarry")
            self.ok(*arguments)
        self.assertEqual(self.read("factors.h5", "components").shape, (3, 64))
        returns = self.read("market.h5", "returns")
        np.testing.assert_allclose(self.read("result.h5", "m"), np.mean(np.sqrt(returns**2 + 1) * np.exp(-returns), axis=0), rtol=1e-12)


if __name__ == "__main__":
    main()
