"""The two sides of scripts/bench/chunked: processes that do the same work, and whether they found the same."""

import os
import pathlib
import statistics
import sys

import h5py
import numpy as np
import programs

HERE = pathlib.Path(__file__).resolve().parent


def distinct_cores(count):
    """So many of this process's processors, no two on one core; all of them where there are not so many."""
    allowed, chosen, taken = sorted(os.sched_getaffinity(0)), [], set()
    for processor in allowed:
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        core = siblings.read_text().strip() if siblings.exists() else str(processor)
        if core not in taken:
            taken.add(core)
            chosen.append(processor)
    chosen += [processor for processor in allowed if processor not in chosen]
    return set(chosen[:count])


class Failed(Exception):
    """One side could not do a row."""


class Side:
    """A co-process that is started again after it ended."""

    def __init__(self, command, env, cores=None):
        self.command, self.env, self.cores, self.process = command, env, cores, None

    def ask(self, *fields, limit=None):
        """Raises Failed."""
        if self.process is None:
            self.process = programs.CoProcess(self.command, self.env, self.cores)
            self.started()
        try:
            answer = self.process.ask(*fields, limit=limit)
        except programs.Ended as error:
            self.process = None
            raise Failed(str(error)) from None
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def started(self):
        pass

    def close(self):
        if self.process:
            self.process.close()
            self.process = None

    def seconds(self, fields_of, repeats, enough, limit):
        """Of one call: the median of so many, fewer where they take longer than `enough` seconds. `fields_of(count)` is the request."""
        found = list(self.ask(*fields_of(1), limit=limit)["seconds"])
        while len(found) < repeats and sum(found) < enough:
            found += self.ask(*fields_of(1), limit=limit)["seconds"]
        # The first call brings in what later ones find: kernels, memory, files.
        return statistics.median(found[1:] or found)


class Quarry(Side):
    """bench_chunked, on so many ranks. `settings` are variables of its environment."""

    def __init__(self, build, settings=None, cores=None, ranks=1):
        program = [f"{build}/bin/bench_chunked"]
        super().__init__(programs.on_ranks(ranks, *program) if ranks > 1 else program, programs.environment(build, **(settings or {})), cores)

    def prepare(self, files, setup):
        """Forgets all variables; then arrays of files, by name, and lazy variables."""
        self.ask("clear")
        for name, path in files.items():
            self.ask("open", name, path, "/x")
        for name, expression in setup:
            self.ask("set", name, expression)


class Dask(Side):
    """chunked_dask.py, with all arrays of `files` open."""

    def __init__(self, peer_path, files, cores, threads):
        path = os.pathsep.join(str(folder) for folder in (peer_path, os.environ.get("PYTHONPATH")) if folder)
        count = str(threads)
        env = programs.environment(PYTHONPATH=path, OMP_NUM_THREADS=count, OPENBLAS_NUM_THREADS=count, PYTHONWARNINGS="ignore")
        super().__init__([sys.executable, HERE / "chunked_dask.py"], env, cores)
        self.files = files

    def started(self):
        for name, path in self.files.items():
            self.ask("open", name, path)


def results_of(path):
    """The values that a side wrote: name -> array or data set, in the same order for both."""
    if str(path).endswith(".npz"):
        arrays = np.load(path)
        return [arrays[name] for name in arrays.files]
    file = h5py.File(path, "r")
    return [file[name] for name in sorted(file)]


BLOCKS, BLOCK_BYTES = 16, 8 << 20


def blocks_of(shape, itemsize):
    """Slices along axis 0 that cover a small array, and samples of a large one with both ends."""
    if not shape or not shape[0]:
        return [...]
    rows = max(1, BLOCK_BYTES // max(1, int(np.prod(shape[1:])) * itemsize))
    if rows * BLOCKS >= shape[0]:
        return [...]
    return [slice(first, first + rows) for first in np.linspace(0, shape[0] - rows, BLOCKS).astype(int)]


def difference(ours, theirs, tolerance):
    """What two results differ in, as a sentence; None where they agree to `tolerance` of the greatest absolute value."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for a, b in zip(ours, theirs):
        if a.shape != b.shape:
            return f"shape {a.shape} for {b.shape}"
        for block in blocks_of(a.shape, a.dtype.itemsize):
            x, y = np.asarray(a[block]), np.asarray(b[block])
            if x.dtype == bool:
                x, y = x.astype(int), y.astype(int)
            nan = np.isnan(x)
            if not np.array_equal(nan, np.isnan(y)):
                return "NaN elsewhere"
            kept = ~nan
            if not kept.any():
                continue
            off = np.abs(x[kept] - y[kept]).max()
            scale = np.abs(y[kept]).max()
            if not off <= tolerance * scale:
                return f"differs by {off / scale if scale else off:.2g} of the greatest value"
    return None
