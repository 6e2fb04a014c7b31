"""Dask's side of scripts/bench/chunked, as a co-process: one request a line on standard input, its fields separated by tabs, one JSON object
a line on standard output. All arrays are /x of an HDF5 file of their name; tasks run on two threads.
  open NAME FILE
  run ROW CHUNKS COUNT FILE   builds and computes the row so often: {"seconds": [each]}; FILE is for the last values (.npz) or, of a row
                              that is stored, for each result (HDF5). CHUNKS: auto (Dask's choice) or rows (whole ones of about 32 MiB)
  names                       {"rows": [each]}
  versions                    {"Dask": version, ...}
usage: chunked_dask.py < requests
       chunked_dask.py ROW CHUNKS FILE NAME=FILE...      once, for the time of a whole command
"""

import json
import os
import sys
import time

import dask
import dask.array as da
import h5py
import numpy as np
import threadpoolctl
from chunked_rows import LATITUDES, LONGITUDES, ROWS

WORKERS = 2
ROWS_OF = {}  # name -> function of the arrays
STORED = {row.name: row for row in ROWS if row.stored}


def row(name):
    def add(function):
        ROWS_OF[name] = function
        return function

    return add


def simple(name, function):
    ROWS_OF[name] = function


simple("reductions: sum", lambda x: x.sum())
simple("reductions: sum of deflated chunks", lambda c: c.sum())
simple("reductions: mean and std, axis 0", lambda x: (x.mean(axis=0), x.std(axis=0)))
simple("reductions: min and max, axis 1", lambda x: (x.min(axis=1), x.max(axis=1)))
simple("reductions: argmax, axis 0", lambda x: x.argmax(axis=0))
simple("reductions: nanmean and nanstd, axis 0", lambda n: (da.nanmean(n, axis=0), da.nanstd(n, axis=0)))
simple("fused: mean(sqrt(x*x+1)*exp(-x))", lambda x: (da.sqrt(x * x + 1) * da.exp(-x)).mean())
simple("fused: where and mean, axis 0", lambda x: da.where(x > 0, x, x * 0.1).mean(axis=0))
simple("fused: concatenate and std, axis 0", lambda x: da.concatenate([x[: len(x) // 2], x[len(x) // 2 :] * 2]).std(axis=0))
simple("fused: stack, max and sum", lambda v, u: da.stack([v, u * 2, da.sqrt(abs(v))]).max(axis=0).sum())
simple("masks: mean of x[x > 0]", lambda x: x[x > 0].mean())
simple("masks: rows of x[:, 0] > 0, sums", lambda x: x[x[:, 0] > 0].sum(axis=0))
simple("masks: count of x > 1", lambda x: da.count_nonzero(x > 1))
simple("statistics: standardise, stored", lambda x: (x - x.mean(axis=0)) / x.std(axis=0))
simple("statistics: correlation", lambda x: da.corrcoef(x, rowvar=False))
simple("statistics: covariance", lambda x: da.cov(x, rowvar=False))
simple("statistics: histogram", lambda v: da.histogram(v, bins=100, range=(-5, 5))[0])
simple("statistics: median, axis 0", lambda w: da.median(w, axis=0))
simple("statistics: percentiles of all", lambda v: da.percentile(v, [5, 50, 95]))
simple("statistics: digitize and count", lambda v: da.bincount(da.digitize(v, np.linspace(-3, 3, 33)), minlength=34))
simple("statistics: unique", lambda k: da.unique(k))
simple("statistics: isin", lambda k: da.count_nonzero(da.isin(k, np.arange(0, 10000, 7))))
simple("statistics: topk", lambda v: da.topk(v, 10))
simple("groups: monthly climatology", lambda w: monthly(w).mean(axis=0))
simple("groups: std of monthly anomalies", lambda w: (monthly(w) - monthly(w).mean(axis=0)).std(axis=0))
simple("groups: coarsen 4 x 4", lambda g: da.coarsen(np.mean, g, {0: 4, 1: 4}))
simple("neighbours: rolling mean by windows, max", lambda v: da.overlap.sliding_window_view(v, 7).mean(axis=-1).max())
simple("neighbours: gradient, axis 0, std", lambda g: da.gradient(g, axis=0).std())
simple("scans: cumsum, axis 0, max", lambda x: x.cumsum(axis=0).max(axis=0))
simple("scans: sort of rows, means", lambda x: x.rechunk({1: -1}).map_blocks(np.sort, axis=1).mean(axis=0))
simple("scans: apply_gufunc, norms of rows", lambda x: da.apply_gufunc(norms, "(i)->()", x.rechunk({1: -1}), output_dtypes=x.dtype))
simple("transforms: FFT of rows, mean magnitudes", lambda x: abs(da.fft.fft(x.rechunk({1: -1}), axis=1)).mean(axis=0))
simple("transforms: rechunk to columns, stored", lambda x: x.rechunk({0: -1, 1: 8}))
simple("transforms: transpose, stored", lambda x: x.T)
simple("products: x.T @ x", lambda x: x.T @ x)
simple("products: p @ q", lambda p, q: p @ q)
simple("products: einsum, quadratic forms", lambda x, centres: da.einsum("ij,jk,ik->i", x, centres.T @ centres, x, optimize=True))
simple("products: tensordot", lambda w: da.tensordot(w, w[:12], axes=([1, 2], [1, 2])))
simple("products: logistic regression, one step", lambda x, b, y: b - 0.1 * (x.T @ (1 / (1 + da.exp(-(x @ b))) - y)) / len(x))


def monthly(w):
    return w.rechunk({0: 12 * max(1, w.chunks[0][0] // 12)}).reshape(-1, 12, LATITUDES, LONGITUDES)


def norms(a):
    return np.sqrt((a * a).sum(axis=-1))


@row("fused: softmax of rows, largest of columns")
def softmax(x):
    exps = da.exp(x - x.max(axis=1, keepdims=True))
    return (exps / exps.sum(axis=1, keepdims=True)).max(axis=0)


@row("fused: Black-Scholes, means of calls and puts")
def black_scholes(price, strike, years):
    from scipy.special import ndtr  # not before: whole commands are timed too

    d1 = (da.log(price / strike) + (0.02 + 0.5 * 0.3 * 0.3) * years) / (0.3 * da.sqrt(years))
    d2 = d1 - 0.3 * da.sqrt(years)
    discounted = strike * da.exp(-0.02 * years)
    call = price * d1.map_blocks(ndtr) - discounted * d2.map_blocks(ndtr)
    put = discounted * (-d2).map_blocks(ndtr) - price * (-d1).map_blocks(ndtr)
    return call.mean(), put.mean()


@row("statistics: percentiles, axis 0")
def percentiles(w):
    whole = w.rechunk({0: -1, 1: "auto", 2: "auto"})
    if hasattr(da, "quantile"):
        return da.quantile(whole, np.array([0.1, 0.5, 0.9]), axis=0)
    return whole.map_blocks(np.percentile, q=[10, 50, 90], axis=0, chunks=(3, *whole.chunks[1:]), dtype=w.dtype)


@row("groups: sums by key")
def sums_by_key(k, u):
    return da.bincount(k, weights=u[: len(k)].rechunk(k.chunks), minlength=10000)


@row("neighbours: rolling mean by map_overlap, max")
def rolling_mean(v):
    return v.map_overlap(lambda b: np.convolve(b, np.ones(31) / 31, "same"), depth=15, boundary="reflect", dtype=v.dtype).max()


@row("neighbours: convolution, std")
def convolution(v):
    # All 63 elements more than v has: what numpy.convolve() gives in its mode "full".
    padded = da.concatenate([v, da.zeros(63, chunks=63)]).rechunk(v.chunks[0][:1] * (len(v.chunks[0]) - 1) + (v.chunks[0][-1] + 63,))
    return padded.map_overlap(lambda b: np.convolve(b, np.ones(64) / 64)[: len(b)], depth=63, boundary=0, dtype=v.dtype).std()


def jacobi(g):
    return (g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:]) / 4


simple("neighbours: Jacobi step by slices, mean change", lambda g: abs(jacobi(g) - g[1:-1, 1:-1]).mean())
simple("neighbours: Jacobi step by slices, stored", jacobi)


@row("neighbours: heat step by map_overlap, std")
def heat(g):
    def step(b):
        return b + 0.1 * (np.roll(b, 1, 0) + np.roll(b, -1, 0) + np.roll(b, 1, 1) + np.roll(b, -1, 1) - 4 * b)

    return g.map_overlap(step, depth=1, boundary="periodic", dtype=g.dtype).std()


@row("transforms: 2-D FFT, mean power")
def fft2(g):
    rows = da.fft.fft(g.rechunk({0: "auto", 1: -1}), axis=1)
    return (abs(da.fft.fft(rows.rechunk({0: -1, 1: "auto"}), axis=0)) ** 2).mean(axis=0)


@row("transforms: random normal, mean magnitude and std")
def random_normal(v):
    drawn = da.random.default_rng(1).standard_normal(v.shape, chunks=v.chunks)
    return abs(drawn).mean(), drawn.std()


@row("products: k-means, one step")
def k_means(x, centres):
    distances = (x * x).sum(axis=1)[:, None] - 2 * (x @ centres.T) + (centres * centres).sum(axis=1)
    labels = (distances.argmin(axis=1)[:, None] == da.arange(16)).astype(float)
    return (labels.T @ x) / labels.sum(axis=0)[:, None]


def array_of(dataset, chunks):
    if chunks == "auto":
        return da.from_array(dataset)
    rows = max(1, (32 << 20) // (dataset.size // dataset.shape[0] * dataset.dtype.itemsize))
    if dataset.chunks:
        rows = max(dataset.chunks[0], rows // dataset.chunks[0] * dataset.chunks[0])
    return da.from_array(dataset, chunks=(min(rows, dataset.shape[0]), *dataset.shape[1:]))


def run(files, name, chunks, count, path):
    seconds = []
    names = next(row.arrays.split() for row in ROWS if row.name == name)
    for _ in range(count):
        arrays = [array_of(files[each], chunks) for each in names]
        alone = all(array.npartitions == 1 for array in arrays)  # else the workers fill the cores, and BLAS takes one each
        with threadpoolctl.threadpool_limits(WORKERS if alone else 1, "blas"):
            start = time.perf_counter()
            result = ROWS_OF[name](*arrays)
            if name in STORED:
                if os.path.exists(path):
                    os.remove(path)
                file_chunks = tuple(given or extent for given, extent in zip(STORED[name].chunks, result.shape)) or None
                da.to_hdf5(path, "/result", result, chunks=file_chunks)
            else:
                values = dask.compute(*result) if isinstance(result, tuple) else (result.compute(),)
            seconds.append(time.perf_counter() - start)
    if name not in STORED and path:
        np.savez(path, *values)
    return {"seconds": seconds}


def answer(files, request, *fields):
    if request == "open":
        files[fields[0]] = h5py.File(fields[1], "r")["/x"]
        return {}
    if request == "versions":
        return {"Dask": dask.__version__, "NumPy": np.__version__, "h5py": h5py.__version__}
    if request == "names":
        return {"rows": list(ROWS_OF)}
    name, chunks, count, path = fields
    return run(files, name, chunks, int(count), path)


def main():
    files = {}
    dask.config.set(scheduler="threads", num_workers=WORKERS)
    np.seterr(all="ignore")
    if len(sys.argv) > 1:
        name, chunks, path, *arrays = sys.argv[1:]
        for array in arrays:
            answer(files, "open", *array.split("=", 1))
        run(files, name, chunks, 1, path)
        return
    for line in sys.stdin:
        try:
            found = answer(files, *line.rstrip("\n").split("\t"))
        except Exception as error:  # a row of its own
            found = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
