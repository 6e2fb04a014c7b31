"""One Dask computation over an HDF5 file, timed; the peer of scripts/bench/cpu.

usage: dask_peer.py EXPRESSION FILE      prints seconds and the result's checksum
"""

import sys
import time

import dask
import dask.array as da
import h5py
import numpy as np


def standardised_correlation(x):
    z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    return (z.T @ z) / (x.shape[0] - 1)


EXPRESSIONS = {
    "sum": lambda x: x.sum(),
    "fused": lambda x: (da.sqrt(x * x + 1) * da.exp(-x)).mean(),
    "correlation": standardised_correlation,
}


def main():
    expression, path = sys.argv[1:]
    best = None
    # Dask's own choice of chunks, and whole rows of about 32 MiB: the better of the two counts.
    for chunks in ("auto", "rows"):
        with h5py.File(path, "r") as file:
            dataset = file["/x"]
            start = time.perf_counter()
            if chunks == "rows":
                rows = max(1, (32 << 20) // (dataset.shape[1] * dataset.dtype.itemsize))
                if dataset.chunks:
                    rows = max(dataset.chunks[0], rows // dataset.chunks[0] * dataset.chunks[0])
                x = da.from_array(dataset, chunks=(rows, dataset.shape[1]))
            else:
                x = da.from_array(dataset)
            with dask.config.set(scheduler="threads", num_workers=2):
                result = np.asarray(EXPRESSIONS[expression](x).compute())
            seconds = time.perf_counter() - start
        if best is None or seconds < best[0]:
            best = (seconds, float(result.sum()), chunks)
    print(*best)


if __name__ == "__main__":
    main()
