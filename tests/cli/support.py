"""What the end-to-end tests of the program share: running it, alone or under mpirun, and data sets to run it on."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
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

    def start(self, *arguments, ranks=0, env=None, file_limit=None, beside=None, hosts=0):
        """file_limit: bytes that a file may have; writing beyond fails, as on a full disk. beside: a list with the environment (a dict) of each
        further rank, which runs the same command. hosts: pretended ones, with `ranks` on each (tests/mpi/hosts)."""

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

        command = [SOURCE / "tests/mpi/hosts", str(hosts), str(ranks)] if hosts else [*MPIRUN, "-n", str(ranks)] if ranks else []
        program = [QUARRY, *map(str, arguments)]
        command += program
        for further in beside or []:
            command += [":", "-n", "1", *(part for name, value in further.items() for part in ("-x", f"{name}={value}")), *program]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **(env or {}))
        return subprocess.Popen(
            command,
            cwd=self.dir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit if file_limit else None,
        )

    def wait_until_computing(self, process, output="o.h5", seconds=1):
        """Returns when `output` is being written: the file has been created, and tasks run."""
        end = time.time() + TIMEOUT
        while not (self.dir / (output + ".partial")).exists():
            self.assertIsNone(process.poll(), "it ended before it was seen computing")
            self.assertLess(time.time(), end, "it did not begin to compute")
            time.sleep(0.05)
        time.sleep(seconds)
        self.assertIsNone(process.poll(), "it ended before it was seen computing")

    def run_quarry(self, *arguments, **options):
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail(f"no end within {TIMEOUT} s: {arguments}\n{out}\n{err}")
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

    def evaluate(self, expression, *arguments, **options):
        """What `quarry eval` prints."""
        return self.ok("eval", expression, *arguments, **options).out.removesuffix("\n")


def main():
    unittest.main(verbosity=2)
