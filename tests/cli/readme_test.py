"""What README.md shows compiles and runs."""

import os
import pathlib
import re
import shlex
import subprocess

from support import QUARRY, SOURCE, CliTest, main, np

# First words of commands that are not run here, and why.
NOT_RUN = {
    "./scripts/demo": "it builds; cli_demo runs it with the program that is built",
    "./scripts/test": "it builds, and this is one of its tests",
    "scripts/build": "it builds",
    "srun": "it needs Slurm; cli_slurm runs it where Slurm is installed",
}


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
        listed = self.ok("functions", "--markdown").out
        self.assertIn(listed, (SOURCE / "docs/functions.md").read_text(), "run scripts/functions_page")

    def commands(self):
        """The commands of README's sh blocks in their order; a line that ends in a backslash goes on in the next one."""
        for block in re.findall(r"```sh\n(.*?)```", self.text, re.S):
            yield from block.strip().replace("\\\n", " ").splitlines()

    def test_every_block_says_what_it_is(self):
        self.assertEqual(set(re.findall(r"^```(\w*)$", self.text, re.M)) - {""}, {"sh", "cpp"})
        self.assertEqual(len(re.findall(r"^```", self.text, re.M)) / 2, len(re.findall(r"^```\w+$", self.text, re.M)))

    def test_the_commands_run(self):
        """In order, in one shell that knows nothing but README: from a folder that looks like the source tree after the build."""
        for entry in SOURCE.iterdir():
            if entry.name not in (".git", "build") and not entry.name.startswith("build-"):
                (self.dir / entry.name).symlink_to(entry)
        (self.dir / "build").symlink_to(pathlib.Path(QUARRY).parents[1])
        home = self.dir / "home"
        home.mkdir()
        script, count = ["set -euo pipefail"], 0
        for command in self.commands():
            reason = NOT_RUN.get(command.split()[0])
            if reason:
                print(f"readme: not run: {' '.join(command.split())}: {reason}")
                continue
            count += 1
            script += [f"echo {shlex.quote('$ ' + command)}", command]
        self.assertGreater(count, 10)
        done = subprocess.run(
            ["env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", "bash", "-c", "\n".join(script)],
            cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        print(f"readme: {count} commands ran")
        self.assertEqual(self.read("factors.h5", "components").shape, (3, 64))
        self.assertEqual(self.read("ten_factors.h5", "components").shape, (10, 64))
        returns = self.read("market.h5", "returns")
        np.testing.assert_allclose(self.read("result.h5", "m"), np.mean(np.sqrt(returns**2 + 1) * np.exp(-returns), axis=0), rtol=1e-12)
        self.assertTrue((home / ".local/include/quarry/local.h").exists())


if __name__ == "__main__":
    main()
