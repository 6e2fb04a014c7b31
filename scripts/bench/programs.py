"""Running the programs of tests/bench and their peers: what the scripts here have in common."""

import json
import os
import statistics
import subprocess
import sys
import time


def environment(build=None, **more):
    """Of a process that may be started by root, with the libraries of a build that was carried here."""
    found = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)
    if build:
        folders = [f"{build}/lib", f"{build}/lib/carried", os.environ.get("LD_LIBRARY_PATH", "")]
        found["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
    return found


def on_ranks(count, *command):
    """The command line that starts a program on ranks of this machine."""
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(count), *command]


def json_lines(command, **how):
    """The objects that a program prints, one a line, as they come; ends this process where it fails."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, **how)
    for line in process.stdout:
        if line.startswith("{"):
            yield json.loads(line)
    if process.wait() != 0:
        sys.exit(f"{command[0]} failed with status {process.returncode}")


def median_seconds(call, synchronize=lambda: None, each=0.04, most_calls=1000, batches=5):
    """Of one call: the median of batches of about `each` seconds, after one that is not counted, as bench_local has it."""

    def batch(count):
        start = time.perf_counter()
        for _ in range(count):
            call()
        synchronize()
        return (time.perf_counter() - start) / count

    batch(1)
    once = batch(1)
    if once > 2:
        return once
    count = max(1, min(most_calls, int(each / max(once, 1e-7))))
    return statistics.median(batch(count) for _ in range(batches))


class BenchLocal:
    """bench_local as a co-process: one request a line, one JSON object a line back."""

    def __init__(self, build, device, threads, env=None):
        command = [f"{build}/bin/bench_local", device, str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=env)

    def ask(self, *fields):
        try:
            self.process.stdin.write("\t".join(fields) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            sys.exit(f"{self.process.args[0]} ended at {fields}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
