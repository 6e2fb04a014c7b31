"""Options: where a value comes from, what the program says about itself, and misuse: one line that helps, status 2."""

import os
import re
import subprocess

from support import QUARRY, SOURCE, CliTest, main, np


class Help(CliTest):
    def test_words_do_what_the_options_do(self):
        self.assertEqual(self.ok("help").out, self.ok("--help").out)
        self.assertEqual(self.ok("help", "eval").out, self.ok("eval", "--help").out)
        self.assertEqual(self.ok("help", "generate", "market").out, self.ok("generate", "market", "--help").out)
        self.assertEqual(self.ok("version").out, self.ok("--version").out)
        self.fails(2, "unknown command evla; did you mean 'eval'", "help", "evla")

    def test_every_command_lists_the_common_options(self):
        for command in [["eval"], ["pca"], ["info"], ["generate", "market"]]:
            text = self.ok(*command, "--help").out
            self.assertIn("--memory SIZE (Env:QUARRY_MEMORY)", text)
            self.assertIn("--peer-copies auto|on|off (Env:QUARRY_PEER_COPIES)", text)
            self.assertIn("[4 GiB or 25% of free memory, whichever is less]", text)

    def test_the_table_of_options(self):
        table = self.ok("help", "options").out
        for part in ["--memory SIZE, QUARRY_MEMORY", "QUARRY_WATCHDOG=SECONDS", "QUARRY_EMULATED_DEVICES=N", "RuntimeOptions::compute_streams", "[auto: a GPU where one is present]"]:
            self.assertIn(part, table)
        self.assertLess(max(map(len, re.findall(r"^  \S.*", table, re.M))), 80)

    def test_the_page_is_generated(self):
        build = os.path.dirname(os.path.dirname(QUARRY))
        done = subprocess.run([SOURCE / "scripts/options_page", "--check", build], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)


class Sources(CliTest):
    """A bad value is named by where it came from."""

    def test_the_environment_and_the_command_line(self):
        cases = {
            "threads": ("many", "expected a whole number from 1 to 4096"),
            "seed": ("-1", "expected a whole number from 0 to 18446744073709551615"),
            "chunks": ("4,,5", "expected extents of at least 1 as in 4096,512"),
            "device": ("abacus", "expected auto, cpu, cuda or emulated"),
            "transport": ("tcp", "expected auto, mpi, ucx or self"),
            "balance": ("maybe", "expected on or off"),
            "progress": ("maybe", "expected auto, bar or off"),
            "peer_copies": ("maybe", "expected auto, on or off"),
        }
        for name, (text, expected) in cases.items():
            option, variable = "--" + name.replace("_", "-"), "QUARRY_" + name.upper()
            self.fails(2, re.escape(f"{variable}={text}: {expected}"), "eval", "1", env={variable: text})
            # What the command line says hides what the environment says.
            self.fails(2, re.escape(f"{option} {text}: {expected}"), "eval", "1", option, text, env={variable: text + "x"})
        self.ok("eval", "1", "--threads", 1, "--balance", "on", env={"QUARRY_THREADS": "many", "QUARRY_BALANCE": "maybe"})
        self.fails(2, "QUARRY_MEMORY: \"lots\" is no size", "eval", "1", env={"QUARRY_MEMORY": "lots"})
        self.fails(2, "--memory: \"lots\" is no size", "eval", "1", "--memory", "lots")
        self.fails(2, "QUARRY_MEMORY: \"0\" is nothing", "eval", "1", env={"QUARRY_MEMORY": "0"})
        self.fails(2, "QUARRY_SPILL_DIR: 'none' does not exist", "eval", "1", env={"QUARRY_SPILL_DIR": "none"})
        self.fails(2, "QUARRY_TRACE none/t cannot be written: there is no directory none", "eval", "1", env={"QUARRY_TRACE": "none/t"})
        self.fails(2, "QUARRY_DASHBOARD takes .* 'x'|QUARRY_DASHBOARD takes a whole number, not 'x'", "eval", "1", env={"QUARRY_DASHBOARD": "x"})

    def test_variables_that_are_no_options(self):
        for name, text in [("QUARRY_WEIGHT", "heavy"), ("QUARRY_RANK_TIMEOUT", "x"), ("QUARRY_WATCHDOG", "-1"), ("QUARRY_LOG", "loud"), ("QUARRY_CPU_LEVEL", "v9"), ("QUARRY_NVTX", "2")]:
            self.fails(2, f"{name}={text}: expected", "eval", "1", env={name: text})

    def test_once_for_all_ranks(self):
        self.fails(2, "QUARRY_BALANCE=maybe: expected on or off", "eval", "1", ranks=2, env={"QUARRY_BALANCE": "maybe"})

    def test_given_comes_before_the_environment(self):
        result = self.ok("eval", "1", "--threads", 2, "--device", "cpu", "--memory", "64MiB", env={"QUARRY_THREADS": "1", "QUARRY_DEVICE": "emulated", "QUARRY_MEMORY": "1GiB"})
        self.assertIn("1 rank, CPU, 2 threads, 64.0 MiB of memory", result.err)
        result = self.ok("eval", "1", env={"QUARRY_THREADS": "1", "QUARRY_DEVICE": "cpu", "QUARRY_MEMORY": "64MiB"})
        self.assertIn("1 rank, CPU, 1 thread, 64.0 MiB of memory", result.err)

    def test_whole_axes(self):
        self.write("a.h5", x=np.arange(12.0).reshape(3, 4))
        self.assertIn("chunks of (3, 2)", self.ok("eval", "x + 1", "-i", "x=a.h5:/x", "--chunks", "-1,2", "-o", "o.h5", "--plan").out)

    def test_misspelt_variables_are_mentioned(self):
        result = self.ok("eval", "1", env={"QUARRY_MEMROY": "1GiB", "QUARRY_HOME": "/opt/quarry"})
        self.assertEqual(result.err.count("QUARRY_MEMROY is no option; did you mean 'QUARRY_MEMORY'?"), 1, result.err)
        self.assertNotIn("QUARRY_HOME", result.err)
        result = self.ok("eval", "1", ranks=2, env={"QUARRY_MEMROY": "1GiB"})
        self.assertEqual(result.err.count("QUARRY_MEMROY"), 1, result.err)
        self.assertNotIn("is no option", self.ok("eval", "1").err)
        result = self.ok("eval", "1", "--local", env={"QUARRY_MEMROY": "1GiB"})
        self.assertEqual(result.err.count("QUARRY_MEMROY"), 1, result.err)


class Misuse(CliTest):
    def test_top_level(self):
        self.fails(2, "unknown option --versoin; did you mean '--version'", "--versoin")
        self.fails(2, "unknown option -v; quarry --help lists the options", "-v")
        self.fails(2, "unknown option --memory; options stand after the command", "--memory", "1GiB", "eval", "1")
        self.fails(2, "unknown command infoo; did you mean 'info'", "infoo")
        self.fails(2, "unknown command multiply; there are info, eval, pca, solve, lstsq, inv, cholesky, lu, qr, svd, eigh, matmul, generate, sort, report", "multiply")
        self.fails(2, "quarry generate needs a command: market", "generate")
        self.fails(2, "unknown command markt; did you mean 'market'", "generate", "markt")

    def test_eval(self):
        self.fails(2, "the expression is empty", "eval", "")
        self.fails(2, "the expression is empty", "eval", "", "--local")
        self.fails(2, "error: .*expression", "eval", "  ")
        self.fails(2, "eval has no option -k", "eval", "1", "-k", "two")
        self.fails(2, "eval has no option --frobnicate", "eval", "1", "--frobnicate")
        self.fails(2, "--threads needs a value", "eval", "1", "--threads")
        self.fails(2, "--overwrite takes no value", "eval", "1", "--overwrite=maybe")
        self.fails(2, "unknown option --versoin; did you mean '--version'", "eval", "1", "--versoin")

    def test_values_of_commands(self):
        self.write("a.h5", x=np.zeros((3, 3)))
        self.fails(2, "-k takes a whole number, not 'two'", "pca", "a.h5:/x", "-k", "two", "-o", "o.h5")
        self.fails(2, "--rows takes a whole number, not '1e3'", "generate", "market", "--rows", "1e3", "--cols", 2, "--factors", 1, "-o", "o.h5")
        self.fails(2, "--components is required; quarry pca --help", "pca", "a.h5:/x", "-o", "o.h5")

    def test_suggestions_ignore_case(self):
        self.write("a.h5", a=np.zeros(3), x=np.zeros(3), Group__Y=np.zeros(3))
        self.fails(2, "did you mean '/x'", "eval", "v", "-i", "v=a.h5:/X")
        self.fails(2, "did you mean '/Group/Y'", "eval", "v", "-i", "v=a.h5:/group/y")
        self.fails(2, "did you mean '/x'", "info", "a.h5:/X")
        self.fails(2, "did you mean 'sum'", "eval", "SUM([1])")
        self.fails(2, "did you mean 'arange'", "eval", "np.ARANGE(3)", "--local")
        self.fails(2, "did you mean 'linalg.inv'|did you mean 'inv'", "eval", "np.linalg.Inv([[1]])", "--local")

    def test_long_expressions_are_not_echoed_whole(self):
        long_sum, long_name = "+".join(["1"] * 50000), "a" * 100000
        self.write("a.h5", x=np.zeros(3))
        for arguments in [
            ["eval", long_sum + "+)"],
            ["eval", long_name],
            ["eval", long_name, "--local"],
            ["eval", "np." + long_name],
            ["eval", "sum([1], " + long_name + "=1)"],
            ["eval", "[1]." + long_name],
            ["eval", long_name, long_sum],
            ["eval", "'" + long_name],
            ["eval", "1", "--" + long_name],
            ["eval", "1", "--memory", long_name],
            ["eval", "1", "-i", long_name],
            ["eval", "v", "-i", "v=a.h5:/" + long_name],
            ["info", long_name],
            [long_name],
        ]:
            result = self.fails(2, "quarry: error: ", *arguments)
            self.assertLess(len(result.err), 2500, arguments[-1][:20])


class FullDisk(CliTest):
    """What cannot be printed is an error."""

    def test_every_command_that_prints(self):
        self.write("a.h5", x=np.random.default_rng(0).random((50, 3)))
        self.ok("eval", "sum(x)", "-i", "x=a.h5:/x", "--trace", "t.json")
        commands = [
            ["eval", "1"],
            ["eval", "1", "--local"],
            ["eval", "x", "-i", "x=a.h5:/x"],
            ["eval", "x", "-i", "x=a.h5:/x", "--plan"],
            ["functions"],
            ["functions", "mean"],
            ["pca", "a.h5:/x", "-k", "1", "-o", "o.h5"],
            ["generate", "market", "--rows", "5", "--cols", "3", "--factors", "1", "-o", "m.h5"],
            ["info", "a.h5"],
            ["info", "--topology"],
            ["report", "t.json"],
            ["--help"],
            ["help", "eval"],
            ["help", "options"],
            ["--version"],
            ["version"],
        ]
        for command in commands:
            with open("/dev/full", "w") as full:
                done = subprocess.run([QUARRY, *command], cwd=self.dir, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(done.returncode, 1, f"{command}\n{done.stderr}")
            errors = [line for line in done.stderr.splitlines() if line.startswith("quarry: error:")]
            self.assertEqual(len(errors), 1, done.stderr)
            self.assertRegex(errors[0], "(?i)no space left", command)

    def test_an_error_is_said_once(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([QUARRY, "eval", "1/0"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("quarry: error:"), 1, done.stderr)


if __name__ == "__main__":
    main()
