"""scripts/demo: its commands, with the program that is built already."""

import subprocess

from support import QUARRY, SOURCE, CliTest, main


class Demo(CliTest):
    def demo(self, *arguments):
        return subprocess.run([SOURCE / "scripts/demo", *arguments], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)

    def test_the_factors_found_agree_with_the_model(self):
        done = self.demo("--small", QUARRY)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^passed = True$")
        self.assertRegex((self.dir / "report.html").read_text(), r"(?i)explained variance")
        self.assertIn("demo: making market_small.h5", done.stdout)

    def test_mistakes(self):
        for arguments in [["--large"], ["--small", "--large"], [QUARRY, QUARRY]]:
            done = self.demo(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("usage: scripts/demo", done.stdout)


if __name__ == "__main__":
    main()
