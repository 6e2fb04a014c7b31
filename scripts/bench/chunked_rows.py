"""The workloads of scripts/bench/chunked on files: arrays, and what is computed of them in quarry's language. The same names stand in
chunked_dask.py, with what Dask computes."""

import dataclasses
import math

import h5py
import numpy as np

SIZES = {"small": 1 / 64, "medium": 1 / 4, "large": 1}  # of the numbers below
COLUMNS = 512
LATITUDES, LONGITUDES = 180, 360
BLOCK = 1 << 22  # elements that are drawn at a time


@dataclasses.dataclass(frozen=True)
class Row:
    name: str  # GROUP: WORKLOAD
    expression: str
    arrays: str  # names of those that it reads, with blanks between them
    tolerance: float = 1e-9  # of the greatest absolute value
    stored: bool = False  # the result is a new file
    chunks: tuple = ()  # of that file
    setup: tuple = ()  # lazy variables before: (name, expression)


def shapes(scale):
    """Name -> shape."""
    rows, side, edge = int(262144 * scale), int(8192 * math.sqrt(scale)), int(4096 * scale ** (1 / 3)) // 64 * 64
    months, options = max(24, int(1200 * scale) // 12 * 12), int(10**8 * scale)
    return {
        "x": (rows, COLUMNS), "n": (rows // 2, COLUMNS), "c": (rows // 2, COLUMNS), "w": (months, LATITUDES, LONGITUDES), "g": (side, side),
        "v": (int(2**26 * scale),), "u": (int(2**26 * scale),), "k": (int(2**25 * scale),), "y": (rows,), "b": (COLUMNS,), "centres": (16, COLUMNS),
        "p": (edge, edge), "q": (edge, edge), "price": (options,), "strike": (options,), "years": (options,),
    }  # fmt: skip


def drawn(name, rng, count):
    """`count` elements of an array."""
    if name == "n":
        return np.where(rng.random(count) < 0.05, np.nan, rng.standard_normal(count))
    if name == "c":  # a few significant digits, so that compression has something to do
        return np.round(rng.standard_normal(count), 3)
    if name == "k":
        return rng.integers(0, 10000, count)
    if name == "y":
        return (rng.random(count) < 0.5).astype("f8")
    if name in ("price", "strike"):
        return rng.uniform(50, 150, count)
    if name == "years":
        return rng.uniform(0.1, 2, count)
    return rng.standard_normal(count, dtype="f4" if name == "w" else "f8")


def make(path, name, shape):
    """The array as /x of a new file, in C order: contiguous, but `c` in chunks, shuffled and deflated."""
    rng = np.random.default_rng(sum(map(ord, name)))
    partial = path.with_suffix(".making")
    with h5py.File(partial, "w") as file:
        options = dict(chunks=(min(4096, shape[0]), 64), compression="gzip", compression_opts=1, shuffle=True) if name == "c" else {}
        dataset = file.create_dataset("x", shape, {"w": "f4", "k": "i8"}.get(name, "f8"), **options)
        line = math.prod(shape[1:])
        step = max(1, BLOCK // line)
        for first in range(0, shape[0], step):
            count = min(step, shape[0] - first)
            dataset[first : first + count] = drawn(name, rng, count * line).reshape(count, *shape[1:])
    partial.rename(path)


SQUARED_DISTANCES = "((x * x).sum(axis=1)[:, None] - 2 * (x @ centres.T) + (centres * centres).sum(axis=1))"
MONTHLY = f"w.reshape(-1, 12, {LATITUDES}, {LONGITUDES})"
MIDDLE = "g[1:-1, 1:-1]"
ROLLED = "np.roll(b, 1, 0) + np.roll(b, -1, 0) + np.roll(b, 1, 1) + np.roll(b, -1, 1)"

ROWS = [
    Row("reductions: sum", "sum(x)", "x"),
    Row("reductions: sum of deflated chunks", "sum(c)", "c"),
    Row("reductions: mean and std, axis 0", "(mean(x, axis=0), std(x, axis=0))", "x"),
    Row("reductions: min and max, axis 1", "(min(x, axis=1), max(x, axis=1))", "x"),
    Row("reductions: argmax, axis 0", "argmax(x, axis=0)", "x", 0),
    Row("reductions: nanmean and nanstd, axis 0", "(nanmean(n, axis=0), nanstd(n, axis=0))", "n"),
    Row("fused: mean(sqrt(x*x+1)*exp(-x))", "mean(sqrt(x*x+1)*exp(-x))", "x"),
    Row("fused: where and mean, axis 0", "where(x > 0, x, x * 0.1).mean(axis=0)", "x"),
    Row("fused: softmax of rows, largest of columns", "(exps / exps.sum(axis=1, keepdims=True)).max(axis=0)", "x",
        setup=(("exps", "exp(x - x.max(axis=1, keepdims=True))"),)),
    Row("fused: Black-Scholes, means of calls and puts", "(call.mean(), put.mean())", "price strike years", 1e-9, setup=(
        ("d1", "(log(price / strike) + (0.02 + 0.5 * 0.3 * 0.3) * years) / (0.3 * sqrt(years))"),
        ("d2", "d1 - 0.3 * sqrt(years)"),
        ("discounted", "strike * exp(-0.02 * years)"),
        ("call", "price * special.ndtr(d1) - discounted * special.ndtr(d2)"),
        ("put", "discounted * special.ndtr(-d2) - price * special.ndtr(-d1)"),
    )),
    Row("fused: concatenate and std, axis 0", "concatenate([x[: x.shape[0] // 2], x[x.shape[0] // 2 :] * 2]).std(axis=0)", "x"),
    Row("fused: stack, max and sum", "stack([v, u * 2, sqrt(abs(v))]).max(axis=0).sum()", "v u"),
    Row("masks: mean of x[x > 0]", "x[x > 0].mean()", "x"),
    Row("masks: rows of x[:, 0] > 0, sums", "x[x[:, 0] > 0].sum(axis=0)", "x"),
    Row("masks: count of x > 1", "count_nonzero(x > 1)", "x", 0),
    Row("statistics: standardise, stored", "(x - x.mean(axis=0)) / x.std(axis=0)", "x", stored=True),
    Row("statistics: correlation", "corrcoef(x, rowvar=False)", "x"),
    Row("statistics: covariance", "cov(x, rowvar=False)", "x"),
    Row("statistics: histogram", "histogram(v, bins=100, range=(-5, 5))[0]", "v", 0),
    Row("statistics: percentiles, axis 0", "percentile(w, [10, 50, 90], axis=0)", "w", 1e-6),
    Row("statistics: median, axis 0", "median(w, axis=0)", "w", 1e-6),
    Row("statistics: percentiles of all", "percentile(v, [5, 50, 95])", "v", 1e-2),
    Row("statistics: digitize and count", "bincount(digitize(v, linspace(-3, 3, 33)), minlength=34)", "v", 0),
    Row("statistics: unique", "unique(k)", "k", 0),
    Row("statistics: isin", "count_nonzero(isin(k, arange(0, 10000, 7)))", "k", 0),
    Row("statistics: topk", "topk(v, 10)", "v", 0),
    Row("groups: monthly climatology", f"{MONTHLY}.mean(axis=0)", "w", 1e-5),
    Row("groups: std of monthly anomalies", "(monthly - monthly.mean(axis=0)).std(axis=0)", "w", 1e-5, setup=(("monthly", MONTHLY),)),
    Row("groups: sums by key", "bincount(k, weights=u[: k.shape[0]], minlength=10000)", "k u"),
    Row("groups: coarsen 4 x 4", "coarsen(mean, g, {0: 4, 1: 4})", "g"),
    Row("neighbours: rolling mean by map_overlap, max", "map_overlap(lambda b: np.convolve(b, np.ones(31) / 31, 'same'), v, depth=15, boundary='reflect').max()", "v"),
    Row("neighbours: rolling mean by windows, max", "sliding_window_view(v, 7).mean(axis=-1).max()", "v"),
    Row("neighbours: convolution, std", "convolve(v, ones(64) / 64).std()", "v"),
    Row("neighbours: Jacobi step by slices, mean change", f"abs((g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:]) / 4 - {MIDDLE}).mean()", "g"),
    Row("neighbours: Jacobi step by slices, stored", "(g[:-2, 1:-1] + g[2:, 1:-1] + g[1:-1, :-2] + g[1:-1, 2:]) / 4", "g", stored=True),
    Row("neighbours: heat step by map_overlap, std", f"map_overlap(lambda b: b + 0.1 * ({ROLLED} - 4 * b), g, depth=1, boundary='periodic').std()", "g"),
    Row("neighbours: gradient, axis 0, std", "gradient(g, axis=0).std()", "g"),
    Row("scans: cumsum, axis 0, max", "cumsum(x, axis=0).max(axis=0)", "x"),
    Row("scans: sort of rows, means", "sort(x, axis=1).mean(axis=0)", "x"),
    Row("scans: apply_gufunc, norms of rows", "apply_gufunc(lambda a: np.sqrt((a * a).sum(axis=-1)), '(i)->()', x)", "x"),
    Row("transforms: FFT of rows, mean magnitudes", "abs(fft.fft(x, axis=1)).mean(axis=0)", "x"),
    Row("transforms: 2-D FFT, mean power", "(abs(fft.fft2(g)) ** 2).mean(axis=0)", "g"),
    Row("transforms: rechunk to columns, stored", "x", "x", stored=True, chunks=(None, 8)),
    Row("transforms: transpose, stored", "x.T", "x", stored=True),
    Row("transforms: random normal, mean magnitude and std", "(abs(drawn).mean(), drawn.std())", "v", 1e-2, setup=(("drawn", "random.normal(size=v.shape)"),)),
    Row("products: x.T @ x", "x.T @ x", "x"),
    Row("products: p @ q", "p @ q", "p q"),
    Row("products: einsum, quadratic forms", "einsum('ij,jk,ik->i', x, m, x)", "x centres", setup=(("m", "centres.T @ centres"),)),
    Row("products: tensordot", "tensordot(w, w[:12], axes=([1, 2], [1, 2]))", "w", 1e-4),
    Row("products: logistic regression, one step", "b - 0.1 * (x.T @ (1 / (1 + exp(-(x @ b))) - y)) / x.shape[0]", "x b y"),
    Row("products: k-means, one step", "(labels.T @ x) / labels.sum(axis=0)[:, None]", "x centres", setup=(
        ("labels", f"({SQUARED_DISTANCES}.argmin(axis=1)[:, None] == arange(16)).astype(float)"),
    )),
]  # fmt: skip
