"""What the end-to-end tests of the program share: running it, alone or under mpirun, and data sets to run it on."""

import concurrent.futures
import contextlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import h5py
import numpy as np

QUARRY = os.environ["QUARRY_PROGRAM"]
MPIRUN = os.environ["QUARRY_MPIRUN"].split()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 240


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def errors(self):
        """The lines that name an error."""
        return [line for line in self.err.splitlines() if line.startswith("quarry: error:")]


class CliTest(unittest.TestCase):
    """A temporary directory per test, as the working directory of the programs it runs."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="quarry_cli_"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return str(self.dir / name)

    def write(self, name, **datasets):
        """An HDF5 file; values are arrays or (array, options of create_dataset)."""
        with h5py.File(self.path(name), "a") as file:
            for key, value in datasets.items():
                data, options = value if isinstance(value, tuple) else (value, {})
                file.create_dataset(key.replace("__", "/"), data=data, **options)
        return self.path(name)

    def contents(self, name):
        return (self.dir / name).read_bytes()

    def stats(self, name="s.json"):
        return json.loads((self.dir / name).read_text())

    def read(self, name, key="result"):
        with h5py.File(self.path(name)) as file:
            return file[key][()]

    def keys(self, name):
        with h5py.File(self.path(name)) as file:
            return sorted(file)

    def start(self, *arguments, ranks=0, env=None, file_limit=None, cpu_limit=None, beside=None, hosts=0, program=QUARRY, around=()):
        """around: a command before the program's, in every rank. file_limit: bytes that a file may have; writing beyond fails, as on a full disk. cpu_limit: seconds of the processor after which it is killed. beside: a list with the environment (a dict) of each
        further rank, which runs the same command. hosts: pretended ones, with `ranks` on each (tests/mpi/hosts)."""

        command = [SOURCE / "tests/mpi/hosts", str(hosts), str(ranks)] if hosts else [*MPIRUN, "-n", str(ranks)] if ranks else []
        program = [*around, program, *map(str, arguments)]
        limits = [f"--{name}={value}" for name, value in [("fsize", file_limit), ("cpu", cpu_limit)] if value]
        command = [*(["prlimit", *limits] if limits else []), *command, *program]
        for further in beside or []:
            command += [":", "-n", "1", *(part for name, value in further.items() for part in ("-x", f"{name}={value}")), *program]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **(env or {})}
        return subprocess.Popen(
            command,
            cwd=self.dir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_computing(self, process, output="o.h5", seconds=1):
        """Returns when `output` is being written: the file has been created, and tasks run."""
        end = time.time() + TIMEOUT
        while not (self.dir / (output + ".partial")).exists():
            self.assert_runs(process)
            self.assertLess(time.time(), end, "it did not begin to compute")
            time.sleep(0.05)
        time.sleep(seconds)
        self.assert_runs(process)

    def bits(self, name="o.h5"):
        with h5py.File(self.path(name)) as file:
            return {key: file[key][()].tobytes() for key in sorted(file)}

    def leftovers(self):
        """What runs that ended early have left beside outputs."""
        return sorted(p.name for p in self.dir.iterdir() if ".partial" in p.name or p.name.startswith("o.h5."))

    def saved_steps(self):
        """How many are saved for o.h5."""
        tables = (self.dir / "o.h5.partial.steps").glob("calls.*")
        return max((int(p.name.split(".")[1]) for p in tables if not p.name.endswith(".new")), default=0)

    def fails_at_write(self, number, arguments, ranks=0):
        """Ends with an error in its write task of that number: those that save states are such. Whether it has so many."""
        result = self.run_quarry(*arguments, ranks=ranks, env={"QUARRY_FAULT_TASK": f"throw,write,end,{number}"})
        if result.status != 0:
            self.assertIn("a fault that a test asked for", result.err)
        return result.status != 0

    def kill_one(self, process, ranks, seconds):
        """Kills the process, or one of its ranks, so many seconds after all have begun, unless it has ended. No rank is killed earlier: Open MPI's launcher sometimes waits for ever (in PMIx_server_finalize) when one dies within MPI_Init."""
        while (line := process.stderr.readline()) and not re.match(r"quarry: \d+ ranks? ?", line):
            pass
        time.sleep(seconds)
        victims = [int(p) for p in os.popen(f"pgrep -P {process.pid}").read().split()] if ranks else [process.pid]
        if victims and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(victims), signal.SIGKILL)
        self.output_of(process)

    def assert_goes_on_after_kills(self, arguments, times, bits, output="o.h5"):
        """That so many times runs which are killed at random moments are gone on with, on any number of ranks, to the bits() of one that is not, with nothing left beside the output."""
        path = self.dir / output
        begin = time.time()
        self.ok(*arguments)
        seconds, expected = time.time() - begin, bits(output)
        for _ in range(times):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            for _ in range(2):
                ranks = random.choice([0, 2])
                self.kill_one(self.start(*arguments, ranks=ranks), ranks, random.uniform(0.1, 1) * seconds)
                if path.exists():
                    break
            self.ok(*arguments, *(["--overwrite"] if path.exists() else []), ranks=random.choice([0, 2, 3]))
            self.assertTrue(bits(output) == expected, arguments)
            self.assertEqual(self.leftovers(), [])
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def assert_runs(self, process):
        if process.poll() is not None:
            self.fail(f"it ended with status {process.returncode} before it was seen computing: {process.communicate()[1]}")

    def output_of(self, process):
        """What it says until it ends. One that does not end is killed, and fails the test with what it has said."""
        try:
            return process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail(f"no end within {TIMEOUT} s: {process.args}\n{out}\n{err}")

    def run_quarry(self, *arguments, **options):
        process = self.start(*arguments, **options)
        out, err = self.output_of(process)
        return Result(process.returncode, out, err)

    def ok(self, *arguments, **options):
        result = self.run_quarry(*arguments, **options)
        self.assertEqual(result.status, 0, f"{arguments}\n{result.out}\n{result.err}")
        self.assertEqual(result.errors(), [])
        return result

    def fails(self, status, pattern, *arguments, **options):
        """Ends with the status and exactly one line of error that matches."""
        result = self.run_quarry(*arguments, **options)
        self.assertEqual(result.status, status, f"{arguments}\n{result.out}\n{result.err}")
        self.assertEqual(len(result.errors()), 1, result.err)
        self.assertRegex(result.errors()[0], pattern)
        return result

    def all_fail(self, status, cases, **options):
        """fails() for each (pattern, arguments), several at once: a launcher waits more than it works."""
        with concurrent.futures.ThreadPoolExecutor(max_workers=3) as pool:
            for done in [pool.submit(self.fails, status, pattern, *arguments, **options) for pattern, arguments in cases]:
                done.result()

    def evaluate(self, expression, *arguments, **options):
        """What `quarry eval` prints."""
        return self.ok("eval", expression, *arguments, **options).out.removesuffix("\n")


def slowness(ranks, env=None):
    """How many times longer than on an idle machine a job of so many ranks takes now to start and end; at least 1."""
    idle = 1.5  # seconds, at most
    begin = time.time()
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    subprocess.run([*MPIRUN, "-n", str(ranks), QUARRY, "info", "--topology"], env=environment, capture_output=True, timeout=TIMEOUT, check=False)
    return max(1, (time.time() - begin) / idle)


def core_share():
    """What of a core a thread that never sleeps gets now."""
    load, _, _, ready, _ = pathlib.Path("/proc/loadavg").read_text().split()
    return min(1, os.cpu_count() / max(float(load), int(ready.split("/")[0])))


def run_one(test):
    """Its result and what is to be said about it."""
    text, begin = io.StringIO(), time.time()
    result = unittest.TextTestRunner(stream=text, verbosity=0).run(test)
    word = "skipped" if result.skipped else "ok" if result.wasSuccessful() else "FAILED"
    lines = [f"{test.id()} ... {word} ({time.time() - begin:.1f} s)"] + [f"  {reason}" for _, reason in result.skipped]
    return result.wasSuccessful(), "\n".join(lines if result.wasSuccessful() else [*lines, text.getvalue()])


def main(at_once=3):
    """Runs the cases named on the command line, or all of the program: so many at once, because they wait for processes
    more than they work."""
    module = sys.modules["__main__"]
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:] else loader.loadTestsFromModule(module)

    def cases(tests):
        for test in tests:
            yield from cases(test) if isinstance(test, unittest.TestSuite) else [test]

    good, count = True, 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=at_once) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run_one, test) for test in cases(suite)]):
            successful, text = done.result()
            good, count = good and successful, count + 1
            print(text, flush=True)
    print(f"{count} cases: {'all good' if good else 'some FAILED'}")
    sys.exit(0 if good and count else 1)
