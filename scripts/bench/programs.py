"""Running the programs of tests/bench and their peers: what the scripts here have in common."""

import json
import os
import select
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


def medians_in_turn(rounds, *measures):
    """Of each measure, all of them in turn; a first round is not counted: it compiles kernels and fills the page cache."""
    found = [[measure() for measure in measures] for _ in range(rounds + 1)][1:]
    return [statistics.median(column) for column in zip(*found)]


def pread_rate(build, path, threads, **how):
    """Bytes per second of threads that do nothing but pread the file, with the best size of blocks."""
    command = [f"{build}/bin/bench_pread", str(path), str(threads)]
    return max(float(subprocess.check_output([*command, str(1 << log)], **how)) for log in range(18, 24))


class Ended(Exception):
    """A co-process that ended, or was ended because it took too long."""


class CoProcess:
    """A program that takes a request a line, its fields separated by tabs, and answers each with a line: a JSON object."""

    def __init__(self, command, env=None, cores=None):
        """`cores`: those that it may use."""
        pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, preexec_fn=pin)
        self.rest = b""

    def ask(self, *fields, limit=None):
        """The answer. Raises Ended where none comes, or not in `limit` seconds."""
        end = None if limit is None else time.monotonic() + limit
        try:
            self.process.stdin.write("\t".join(str(field) for field in fields).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Ended(self.ended()) from None
        while True:
            while b"\n" not in self.rest:
                if not select.select([self.process.stdout], [], [], None if end is None else max(0, end - time.monotonic()))[0]:
                    self.process.kill()
                    self.ended()
                    raise Ended(f"more than {limit:.0f} s")
                part = os.read(self.process.stdout.fileno(), 1 << 16)
                if not part:
                    raise Ended(self.ended())
                self.rest += part
            line, _, self.rest = self.rest.partition(b"\n")
            if line.startswith(b"{"):  # not what a library prints
                return json.loads(line)

    def ended(self):
        """Waits for the end; says how it was."""
        self.close()
        return f"{os.path.basename(str(self.process.args[0]))} ended with status {self.process.returncode}"

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()


class BenchLocal(CoProcess):
    """bench_local; ends this process where it fails."""

    def __init__(self, build, device, threads, env=None):
        super().__init__([f"{build}/bin/bench_local", device, str(threads)], env)

    def ask(self, *fields):
        try:
            return super().ask(*fields)
        except Ended as error:
            sys.exit(f"{error} at {fields}")
