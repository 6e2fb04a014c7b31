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

    def test_the_example_is_the_compiled_one(self):
        shown = re.search(r"```cpp\n(.*?)```", self.text, re.S).group(1)
        self.assertEqual(shown, (SOURCE / "apps/examples/covariance.cpp").read_text())
        self.assertLessEqual(len(shown.splitlines()), 20)

    def test_the_example_runs(self):
        x = np.random.default_rng(2).standard_normal((500, 10))
        self.write("a.h5", x=x)
        done = subprocess.run([os.environ["QUARRY_EXAMPLE"], "a.h5", "o.h5"], cwd=self.dir, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        values, vectors = self.read("o.h5", "values"), self.read("o.h5", "vectors")
        correlation = np.corrcoef(x.T)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(correlation), rtol=1e-10)
        np.testing.assert_allclose(correlation @ vectors, vectors * values, atol=1e-10)
        np.testing.assert_allclose(np.array(done.stdout.strip("[]\n").split(), float), values[-3:], rtol=1e-7)

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
