"""Order statistics, averages, correlation and histograms (local/ops/functions/statistics.def).

Where quarry differs from NumPy by decision: sums of 16-bit floats are accumulated in float32; the dtype of a
quantile does not depend on whether there is a NaN; quantiles are interpolated in their own dtype, not that of `out`,
which must have their shape; an empty float64 array is an empty list to bincount(); RuntimeError is ValueError.
"""
from expressions import COMPLEX, FLOATS, INTEGERS, NUMPY_DTYPES, SOME, case, layouts, sample
import numpy as np

NAN = np.nan


def real(dtype):
    return np.dtype(dtype).kind != "c"


# Sums: spacings at the largest value of the result; 16-bit floats add up their sums' roundings in NumPy.
def norm(*dtypes):
    return 64 if "float16" in dtypes else 8


def averages():
    for dtype in NUMPY_DTYPES:
        for shape in [(3, 4), (5,), (), (1,), (2, 0), (0,)]:
            yield case("average(a)", a=sample(dtype, shape), norm=norm(dtype))
        for a in layouts(sample(dtype, (2, 3, 4))):
            w = np.abs(sample("float64", (2, 3, 4), seed=1)) + 1
            for axis in ["None", "0", "-1", "(0, 2)", "(2, 1)", "()"]:
                yield case(f"average(a, {axis})", a=a, norm=norm(dtype))
                yield case(f"average(a, {axis}, w, True)", a=a, w=w, norm=norm(dtype))
    for one in NUMPY_DTYPES:
        for other in NUMPY_DTYPES:
            w = np.abs(sample(other, (4,), seed=2)) + np.ones(4, other)
            yield case("average(a, axis=1, weights=w, returned=True)", a=sample(one, (3, 4)), w=w, norm=norm(one, other))
    for a in layouts(sample("float32", (3, 4))):
        for w in layouts(sample("uint8", (3, 4), seed=1) + np.uint8(1)):
            yield case("average(a, weights=w, axis=0, keepdims=True)", a=a, w=w, norm=8)
    a, w = sample("float64", (2, 3, 4)), np.abs(sample("float64", (2, 3, 4), seed=1)) + 1
    for text in ["average(a, axis=(0, 1), weights=w[:, :, 0])", "average(a, axis=(1, 0), weights=w[:, :, 0].T)",
                 "average(a, axis=(2, 0), weights=w[:, 0].T, keepdims=True)", "average(a, weights=w[0])",
                 "average(a, axis=1, weights=w[0])", "average(a, axis=1, weights=w[0, 0])", "average(a, axis=3)",
                 "average(a, axis=(0, 0))", "average(a, weights=w * 0)", "average(a, axis=0, weights=[1, -1])",
                 "average(a, axis=0, weights=[1, 3], returned=True, keepdims=True)", "average(a, returned=True)",
                 "average(a, axis=1, returned=True)", "average(a, axis=1, keepdims=True, returned=True)",
                 "average(a, weights=2)", "average(3, weights=2)", "average(3, axis=0)", "average(a[:, :0], axis=1)",
                 "average(a[:, :0], axis=0)", "average(a[:, :0], axis=1, weights=w[:, :0])",
                 "average([1, 2, 4], weights=[3, 2, 1])", "average([], weights=[])"]:
        yield case(text, a=a, w=w, norm=8)
    b = sample("float32", (3, 5), special=True)
    yield case("average(b, axis=1)", b=b)
    yield case("average(b, axis=0, weights=[1, 2, 3])", b=b, norm=8)


def bincounts():
    for dtype in ["bool"] + INTEGERS:
        for n in [0, 1, 7, 300]:
            x = np.abs(sample(dtype, (n,)))
            yield case("bincount(x)", x=x)
            yield case("bincount(x, minlength=120)", x=x)
        for x in layouts(np.abs(sample(dtype, (20,)))):
            for other in NUMPY_DTYPES:
                yield case("bincount(x, w)", x=x, w=sample(other, (20,), seed=1), norm=4)
    x = np.array([3, 1, 3, 0], np.int32)
    for text in ["bincount(x, [0.5, nan, inf, -inf])", "bincount(x, minlength=2)", "bincount(x, minlength=-1)",
                 "bincount(x, None, 6)", "bincount(-x)", "bincount(x, [1, 2, 3])", "bincount(x * 0.5)", "bincount(3)",
                 "bincount(x.reshape(2, 2))", "bincount(x, x.reshape(2, 2))", "bincount(x, 5)", "bincount([])",
                 "bincount([], [], 3)", "bincount([2, 2], weights=[True, False])", "bincount(x * 1j)",
                 "bincount(x[:0], x[:1], 2)"]:
        yield case(text, x=x)


METHODS = ["inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen",
           "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest"]
SHAPES = [(), (1,), (2,), (7,), (10,), (0,), (3, 4), (2, 3, 5), (0, 3), (3, 0)]


def holes(dtype, shape, seed=0, share=0.3):
    """Values with NaN among them, in every row of more than three but not everywhere."""
    a = sample(dtype, shape, seed)
    random = np.random.default_rng(7 + seed)
    mask = random.random(shape) < share
    mask[..., 0] = False
    a[mask] = np.nan
    return a


def one_zero(a):
    """Without -0.0: which of two equal elements comes first is left open."""
    a[a == 0] = 0
    return a


def medians():
    for name in ["median", "nanmedian"]:
        # NumPy's nanmedian adds the middle elements as float16.
        ulp = {"float16": 2} if name == "nanmedian" else {}
        for dtype in NUMPY_DTYPES:
            for shape in SHAPES:
                yield case(f"{name}(a)", a=sample(dtype, shape), ulp=ulp.get(dtype, 0))
                for seed in [1, 2]:
                    if np.dtype(dtype).kind != "c":
                        yield case(f"{name}(a)", a=one_zero(sample(dtype, shape, seed, special=True)), ulp=ulp.get(dtype, 0))
            for a in layouts(sample(dtype, (2, 3, 5))):
                for axis in ["0", "-1", "(0, 2)", "(2, 1)", "()", "(0, 1, 2)", "None"]:
                    yield case(f"{name}(a, {axis})", a=a, ulp=ulp.get(dtype, 0))
                    yield case(f"{name}(a, {axis}, keepdims=True)", a=a, ulp=ulp.get(dtype, 0))
        for dtype in ["float16", "float32", "float64"]:
            for a in layouts(holes(dtype, (4, 3, 5))):
                for axis in ["None", "0", "1", "-1", "(0, 2)", "()"]:
                    yield case(f"{name}(a, {axis})", a=a, ulp=ulp.get(dtype, 0))
            for a in layouts(np.full((3, 4), NAN, dtype)):
                yield case(f"{name}(a)", a=a)
                yield case(f"{name}(a, 0)", a=a)
        for dtype in ["complex64", "complex128"]:
            a = holes(dtype, (4, 6))
            yield case(f"{name}(a)", a=a)
            yield case(f"{name}(a, 1)", a=a)
            yield case(f"{name}(a[0])", a=a)
        a = sample("int32", (3, 4))
        for out, text in [("float64", "a, 0, out=c"), ("int64", "a, 0, out=c"), ("float32", "a, axis=0, out=c")]:
            yield case(f"({name}({text}), c)", a=a, c=np.zeros(4, out))
        yield case("median(a, out=c)", a=a, c=np.zeros(3))
        f = holes("float64", (3, 4))
        yield case(f"({name}(f, 0, c), c)", f=f, c=np.zeros(4))
        yield case(f"({name}(f, 1, c, keepdims=True), c)", f=f, c=np.zeros((3, 1)))
        yield case(f"({name}(f, out=c, keepdims=True), c)", f=f, c=np.zeros((1, 1)))
        for text in ["a, 2", "a, (0, 0)", "a, (0, 2)", "3, 0", "[]", "[[]], 1", "[[]], 0",
                     "[3, 1, 2], overwrite_input=True", "a, axis=1, overwrite_input=True", "5", "[True, False]",
                     "[inf, -inf]", "[inf, inf, 1]", "[nan]", "[1, nan]", "[nan, nan]"]:
            yield case(f"{name}({text})", a=a)


def quantiles():
    q = [0, 0.1, 0.25, 0.5, 0.6, 0.999, 1]
    for method in METHODS:
        for dtype in NUMPY_DTYPES:
            if dtype in COMPLEX and method != "linear":
                continue
            for shape in SHAPES:
                yield case(f"quantile(a, {q}, method='{method}')", a=sample(dtype, shape))
            a = sample(dtype, (4, 7))
            for one in ["0.3", "0", "1", "0.5", "1.0", "[0, 1]", "[0.5]", "[]", "0.9", "0.125"]:
                yield case(f"quantile(a, {one}, axis=1, method='{method}')", a=a)
            yield case(f"percentile(a, 37, axis=0, method='{method}')", a=a)
            yield case(f"percentile(a, [37, 5.5], axis=0, method='{method}', keepdims=True)", a=a)
            if dtype in FLOATS:
                h = holes(dtype, (4, 9))
                for text in ["h, 0.3", "h, [0.3, 1]", "h, 0.3, axis=1", "h, [0.2, 0.75, 0, 1], axis=1", "h, 0.5, axis=0",
                             "h[0], [0, 0.4]", "h, 1, axis=1"]:
                    yield case(f"nanquantile({text}, method='{method}')", h=h)
                    yield case(f"quantile({text}, method='{method}')", h=h)
                yield case(f"nanpercentile(h, [20, 90.5], axis=(0, 1), keepdims=True, method='{method}')", h=h)
                yield case(f"nanpercentile(h, 62, axis=1, keepdims=True, method='{method}')", h=h)
        for kind in ["float16", "float32", "float64"]:
            values = np.array([0.125, 0.3, 0.7, 1], kind)
            for dtype in ["int8", "uint64", "float16", "float32", "float64"]:
                yield case(f"quantile(a, q, method='{method}')", a=sample(dtype, (9,)), q=values)
                yield case(f"quantile(a, q, 0, method='{method}')", a=sample(dtype, (5, 2)), q=values.reshape(2, 2))
                yield case(f"percentile(a, q, method='{method}')", a=sample(dtype, (9,)), q=values * 50)
            # Counts that a narrow q rounds.
            yield case(f"quantile(a, q, method='{method}')", a=sample("float64", (3001,)), q=values)
        for kind in ["bool", "int64", "int32"]:
            for dtype in ["int8", "float32"]:
                yield case(f"quantile(a, q, method='{method}')", a=sample(dtype, (9,)), q=np.array([0, 1, 1], kind))
                yield case(f"nanquantile(a, q, method='{method}')", a=sample(dtype, (9,)), q=np.array([0, 1, 1], kind))
        a = one_zero(sample("float64", (5, 6), special=True))
        for one in ["0.4", "[0, 0.5, 1]"]:
            for axis in ["None", "0", "1"]:
                yield case(f"quantile(a, {one}, {axis}, method='{method}')", a=a)
                yield case(f"nanquantile(a, {one}, {axis}, method='{method}')", a=a)
        for a in layouts(sample("float32", (2, 3, 5))):
            for axis in ["None", "0", "-1", "(0, 2)", "(2, 1)", "()"]:
                yield case(f"quantile(a, 0.3, {axis}, method='{method}', keepdims=True)", a=a)
                yield case(f"nanquantile(a, [0.3, 0.9], {axis}, method='{method}')", a=a)
        for dtype, out in [("int32", "float64"), ("int32", "int32"), ("float32", "float64"), ("float64", "float32")]:
            a = sample(dtype, (3, 4))
            for name in ["quantile", "nanquantile"]:
                yield case(f"({name}(a, 0.3, 0, c, method='{method}'), c)", a=a, c=np.zeros(4, out), atol=1e-6 if "32" in dtype + out else 0)
    a = sample("float64", (3, 4))
    for name, one in [("quantile", 1), ("nanquantile", 1), ("percentile", 100), ("nanpercentile", 100)]:
        for text in [f"a, {one * 1.01}", f"a, {-0.01 * one}", "a, nan", f"a, [0, {one * 2}]", "a, 0.5, 2", "a, 0.5, (0, 0)",
                     "a, 0.5, method='other'", "a * 1j, 0.5", "3, 0.5", "3, 0.5, 0", "[], 0.5",
                     "[], [0.5, 0.1]", "a[:, :0], 0.5, 0", "a[:, :0], 0.5, 1", "a[:0], 0.5, 1", "[True, False], 0.5",
                     "[True, False], 0.5, method='lower'", "[True, False, True], 1", "a, [[0.1, 0.2]]", "a, [[[0.1]]]",
                     "a, zeros((2, 0))", f"a, [{one}] * 12", "a, 0.5, overwrite_input=True", "a, 0.5, 0, None, True",
                     "a, 0.5, axis=(1, 0), keepdims=True", "[inf, 1], 0", f"[inf, 1], {one}", f"[-inf, 1, inf], {one / 2}",
                     "[nan, nan], 0", "[[nan, nan], [1, 2]], 0.1, 1", f"uint8([250, 10]), {one / 4}",
                     f"int8([100, -100]), {one / 4}", "a, True", "a, False", f"a, {one // 1}"]:
            yield case(f"{name}({text})", a=a)
        if name[0] != "n":
            yield case(f"{name}(a, 0.5, out=zeros(3), method='lower')", a=a)
        for c in [np.zeros((2, 4)), np.zeros((2, 1, 4)), np.zeros((2, 4), "float32")]:
            keep = ", keepdims=True" if c.ndim == 3 else ""
            yield case(f"({name}(a, [0.1, 0.5], 0, c{keep}), c)", a=a, c=c, atol=1e-6)


def weighted():
    for name in ["quantile", "nanquantile"]:
        for dtype in [d for d in NUMPY_DTYPES if d not in COMPLEX]:
            a, w = sample(dtype, (4, 6)), np.abs(np.round(sample("float64", (4, 6), seed=3)))
            for axis in ["None", "0", "1", "(0, 1)"]:
                for one in ["0.3", "0", "1", "[0.1, 0.5, 1]"]:
                    yield case(f"{name}(a, {one}, {axis}, method='inverted_cdf', weights=w)", a=a, w=w)
            for other in ["uint8", "int32", "float16", "float32"]:
                yield case(f"{name}(a, [0, 0.4], 1, method='inverted_cdf', weights=w, keepdims=True)", a=a,
                           w=w.astype(other))
            yield case(f"{name}(a, q, 1, method='inverted_cdf', weights=w)", a=a, w=w, q=np.float32([0, 0.4, 1]))
            yield case(f"{name}(a, q, method='inverted_cdf', weights=w)", a=a, w=w, q=np.float16([0, 0.4, 1]))
        a, w = sample("float64", (3, 4, 5)), np.abs(np.round(sample("float64", (3, 4, 5), seed=3)))
        for wa in layouts(a):
            yield case(f"{name}(a, [0.2, 0.7], axis=(0, 2), method='inverted_cdf', weights=w)", a=wa, w=w)
        i = "method='inverted_cdf'"
        for text in [f"a, 0.5, {i}, weights=w * 0", f"a, 0.5, {i}, weights=w - 4", f"a, 0.5, {i}, weights=w * inf",
                     f"a, 0.5, {i}, weights=w * nan", "a, 0.5, weights=w", f"a, 0.5, {i}, weights=w[0]",
                     f"a, 0.5, 0, {i}, weights=w[0]", f"a[0, 0], [0.2, 1], {i}, weights=w[0, 0]",
                     f"a, 0.5, 7, {i}, weights=w", "a, 0.5, method='what', weights=w"]:
            yield case(f"{name}({text})", a=a, w=w)
        h = holes("float64", (4, 6))
        for one in ["0.3", "[0, 0.2, 1]"]:
            for axis in ["None", "0", "1"]:
                yield case(f"{name}(h, {one}, {axis}, method='inverted_cdf', weights=w)", h=h, w=w[0, :, :1] + np.ones((4, 6)))
    a, w = sample("float64", (3, 4)), np.array([1.0, 0, 3])
    yield case("quantile(a, [0.2, 0.7], 0, method='inverted_cdf', weights=w)", a=a, w=w)
    yield case("percentile(a, 30, axis=0, method='inverted_cdf', weights=w)", a=a, w=w)
    yield case("percentile(a, 30, axis=(1, 0), method='inverted_cdf', weights=w)", a=a, w=a.T ** 2)
    for c in [np.zeros((2, 4)), np.zeros((2, 3)), np.zeros((2, 4), "float32")]:
        yield case("(quantile(a, [0.2, 0.7], 0, c, method='inverted_cdf', weights=w), c)", a=a, w=w, c=c)


def covariances():
    for name in ["cov", "corrcoef"]:
        # Correlations of 1 and -1 are cut off to that: roundings show only elsewhere.
        bound = {"norm": 32} if name == "cov" else {"norm": 64}
        for dtype in NUMPY_DTYPES:
            for shape in [(3, 6), (6, 3), (5,), (2, 1), (1, 5), (), (0,), (0, 3), (3, 0)]:
                a = sample(dtype, shape)
                if name == "corrcoef" and a.ndim == 2 and 0 < a.shape[1] < 4:
                    a = a[:, :1]  # few observations correlate badly
                yield case(f"{name}(a)", a=a, **bound)
                yield case(f"{name}(a, rowvar=False)", a=a, **bound)
            for a in layouts(sample(dtype, (4, 8))):
                yield case(f"{name}(a)", a=a, **bound)
                yield case(f"{name}(a, a[:2])", a=a, **bound)
            for other in ["float32", "int8", "complex64"]:
                yield case(f"{name}(a, b)", a=sample(dtype, (2, 9)), b=sample(other, (3, 9), 1), **bound)
                yield case(f"{name}(a, b)", a=sample(dtype, (9,)), b=sample(other, (9,), 1), **bound)
                yield case(f"{name}(a, b, rowvar=False)", a=sample(dtype, (9, 2)), b=sample(other, (9, 2), 1), **bound)
        a, b = sample("float64", (3, 9)), sample("float64", (9,), 1)
        for text in ["a, dtype=float32", "a, dtype=complex64", "a, b", "a, b, rowvar=False", "a.T, b, False", "a, b[:5]",
                     "a.reshape(1, 3, 9)", "a, a.reshape(1, 3, 9)", "a, dtype=int64", "[1, 2, 4], [3, 1, 0]", "[nan, 1]",
                     "[[1, inf], [2, 3]]", "[1, 1, 1]", "[[1, 1], [2, 3]]", "5", "[]", "[[]]", "a, b, rowvar=0"]:
            yield case(f"{name}({text})", a=a, b=b, norm=(1 << 30) if "32" in text or "64" in text else 64)
        yield case(f"{name}(a, dtype=float16)", a=a, atol=0.5)
    for dtype in NUMPY_DTYPES:
        a, f, w = sample(dtype, (3, 5)), np.array([1, 2, 0, 3, 1]), np.array([0.5, 1, 2, 0, 0.25])
        for text in ["fweights=f", "aweights=w", "fweights=f, aweights=w", "ddof=0", "ddof=2", "bias=True",
                     "fweights=f, ddof=0", "aweights=w, ddof=0", "fweights=f, aweights=w, ddof=2", "aweights=w, bias=True",
                     "ddof=7", "rowvar=False, fweights=f[:3]", "ddof=3.0"]:
            if text == "ddof=7" and dtype in COMPLEX:  # infinities times the roundings of imaginary parts
                continue
            yield case(f"cov(a, {text})", a=a, f=f, w=w, norm=64)
    for text in ["ddof=0.5", "fweights=w", "fweights=-f", "aweights=-w", "fweights=f * 0", "aweights=w, dtype=float32",
                 "fweights=2", "fweights=f, aweights=w, dtype=complex128", "aweights=f"]:
        yield case(f"cov(a, {text})", a=sample("float64", (3, 5)), f=f, w=w, norm=(1 << 30) if "32" in text else 64)


RULES = ["auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges"]


def histograms():
    edges = {"int64": np.array([-40, -7, 0, 0, 9, 60]), "uint8": np.array([3, 8, 20], "uint8"),
             "float64": np.array([-20.5, -3, 0, 0.25, 7, 30]), "float32": np.array([-20.5, -3, 0.1, 7], "float32"),
             "float16": np.array([-20.5, -3, 0.1, 7], "float16"), "uint64": np.array([0, 5, 50], "uint64"),
             "one": np.array([1.0]), "none": np.array([]), "equal": np.array([2, 2, 2]), "bool": np.array([False, True])}
    reals = [d for d in NUMPY_DTYPES if d not in COMPLEX]
    for dtype in reals:
        for shape in [(60,), (5, 7), (0,), (1,), ()]:
            a = sample(dtype, shape)
            for text in ["a", "a, 4", "a, bins=7, range=(-10, 10)", "a, 5, (-2.5, 31.0)", "a, 3, density=True", "a, 1"]:
                yield case(f"histogram({text})", a=a, ulp=4 if "density" in text else 0)
            for e in edges.values():
                yield case("histogram(a, e)", a=a, e=e)
        for a in layouts(sample(dtype, (6, 9), seed=4)):
            yield case("histogram(a, 6)", a=a)
            yield case("histogram(a, e, density=True)", a=a, e=edges["float64"], ulp=4)
        a = sample(dtype, (40,), seed=2)
        for other in NUMPY_DTYPES:
            w = sample(other, (40,), seed=3)
            loose = 64 if other == "float16" else 8
            yield case("histogram(a, weights=w)", a=a, w=w, norm=loose)
            yield case("histogram(a, 5, (-8, 9), weights=w)", a=a, w=w, norm=loose)
            if other != "bool":  # which NumPy cannot cumulate
                yield case("histogram(a, e, weights=w)", a=a, w=w, e=edges["float64"], norm=4 * loose)
            if other not in ["bool", "int8"]:
                yield case("histogram(a, 4, weights=w * w, density=True)", a=a, w=np.abs(w // 1 + 1) if other not in COMPLEX else w, norm=4 * loose, atol=1e-4)
        for rule in RULES:
            for seed, n in [(0, 60), (1, 250), (2, 1), (3, 2), (4, 3), (5, 0)]:
                yield case(f"histogram_bin_edges(a, '{rule}')", a=sample(dtype, (n,), seed))
            yield case(f"histogram(a, bins='{rule}')", a=a)
            yield case(f"histogram(a, bins='{rule}', range=(-5, 20))", a=a)
            yield case(f"histogram_bin_edges(a, '{rule}', (200, 300))", a=a)
            yield case(f"histogram_bin_edges(a, '{rule}')", a=np.ones(9, dtype))
    for dtype in ["float16", "float32", "float64"]:
        b = sample(dtype, (30,), special=True)
        for text in ["b", "b, range=(-9, 9)", "b, [-5, 0, 5]", "b, [-inf, 0, inf]", "b, 'auto'", "b, 'fd', (-9, 9)",
                     "b, 3, (-9, 9), weights=b", "b, 3, (0, inf)", "b, 3, (nan, 1)"]:
            yield case(f"histogram({text})", b=b, norm=(64 if dtype == "float16" else 8) if "weights" in text else 0)
        for n in [1000, 3000]:  # bins that the dtype can hardly tell apart
            yield case("histogram(a, n)", a=sample(dtype, (50,)), n=np.int64(n))
            yield case("histogram(a, n)", a=np.array([1, 1.01], dtype), n=np.int64(n))
    rounded = np.round(sample("float64", (300,)) * 2) / 16
    for n in [3, 7, 10, 64]:  # values on edges
        yield case(f"histogram(a, {n}, (-1.0, 1.0))", a=rounded)
        yield case(f"histogram(a, {n}, (-0.7, 0.9))", a=rounded)
        yield case(f"histogram(a, {n})", a=rounded.astype("float32"))
    for low, high in [(-1e308, 1e308), (0, 5e-323), (-1e300, 1), (1e-310, 3e-310)]:
        yield case("histogram(a, 4, (low, high))", a=np.array([low, high, 0.0, 5e-324, 1e307]), low=low, high=high)
    big = np.array([-2**62, 2**62, 5, 2**62 - 1])
    small = np.array([-128, 127, 0, 3], "int8")
    a = sample("float64", (20,))
    for text in ["big", "big, 3", "big, [5, 2**62 - 1, 2**62]", "small", "small, 5", "small, 'sqrt'", "small, (-128, 3, 127)",
                 "a, 0", "a, -3", "a, 2.5", "a, 'best'", "a, [3, 2, 1]", "a, [[1, 2], [3, 4]]", "a, 3, (2, 1)", "a, 3, (2, 2)",
                 "a, 'auto', weights=a", "a, weights=a[:3]", "a, weights=a.reshape(4, 5)", "a, 'auto', (2, 2)", "[], 3",
                 "[], 'auto'", "[1, 2, 1], [0, 1, 2, 3]", "[True, False, True]", "3", "a, None", "[1, 2], 2, None, None, [3, 4]",
                 "a, density=False", "a, density=True", "a, 3, range=(0, 0)", "[0.1, 0.1]", "[5, 5, 5], 'fd'",
                 "a, True", "a, (0, 1, 9)", "a, 4, [0, 8]", "a[:0], [1, 2]", "a, 5, density=True, weights=a * 0 + 2"]:
        yield case(f"histogram({text})", a=a, big=big, small=small, ulp=4 if "density" in text else 0)
        if "density" not in text:
            yield case(f"histogram_bin_edges({text.replace('None, None, [', 'None, [')})", a=a, big=big, small=small)


def histograms_of_points():
    for dtype in [d for d in NUMPY_DTYPES if d not in COMPLEX]:
        x, y, z = (sample(dtype, (40,), seed) for seed in range(3))
        s = sample(dtype, (30, 3), 5)
        for text in ["histogram2d(x, y)", "histogram2d(x, y, 4)", "histogram2d(x, y, [3, 5])",
                     "histogram2d(x, y, [-9, 0, 3, 20])", "histogram2d(x, y, [[-9, 0, 20], [-30, 1, 5, 7]])",
                     "histogram2d(x, y, [3, [-30, 1, 5, 7]])", "histogram2d(x, y, 3, [[-9, 9], [0, 20]])",
                     "histogram2d(x, y, 3, density=True)", "histogram2d(x, y, 3, weights=z)",
                     "histogramdd(s, 3)", "histogramdd(s, (2, 3, 4))", "histogramdd([x, y, z], 2)", "histogramdd((x, y))",
                     "histogramdd(s, [2, [-10, 0, 5], 3], density=True)", "histogramdd(x, 4)",
                     "histogramdd(s, 3, range=[None, (-5, 5), (0, 9)])"]:
            yield case(text, x=x, y=y, z=z, s=s, ulp=8 if "density" in text else 0, norm=8 if "weights" in text else 0)
        for other in NUMPY_DTYPES:
            yield case("histogram2d(x, y, 4, weights=w)", x=x, y=y, w=sample(other, (40,), 7), norm=8)
    for s in layouts(sample("float32", (25, 2))):
        yield case("histogramdd(s, 5)", s=s)
    x, y = sample("float64", (20,)), sample("float32", (20,), 1)
    b = np.array([np.nan, 1, np.inf, -np.inf, 0.5, 2, 3])
    for text in ["histogram2d(x, y)", "histogram2d(x, y[:5])", "histogram2d(x, y, [1, 2, 3])", "histogram2d(x, y, [3])",
                 "histogram2d(x, y, 0)", "histogram2d(x, y, [2, 0])", "histogram2d(x, y, 2.5)", "histogram2d(x, y, [2.5, 3])",
                 "histogram2d(x, y, 3, [(0, 1)])", "histogram2d(x, y, 3, [(1, 0), (0, 1)])", "histogram2d(b, b)",
                 "histogram2d(b, b, 2, [(0, 3), (0, 3)])", "histogram2d(b, b, [0, 1, 3])", "histogram2d(x[:0], y[:0])",
                 "histogram2d(x[:0], y[:0], 2, density=True)", "histogram2d(3, 4)", "histogram2d(x, y, [3, 2, 1])",
                 "histogram2d(x, y, 3, weights=x[:4])", "histogram2d(x, y, array([-9.0, 0, 5]))",
                 "histogram2d(x, y, array([2, 3]))", "histogram2d(x, x, 4, weights=x * 1j)", "histogram2d(x * 0, y)",
                 "histogramdd(x.reshape(5, 2, 2))", "histogramdd(x.reshape(10, 2), [1, 2, 3])", "histogramdd([1, 2, 4], 2)",
                 "histogramdd([[1, 2, 4], [0, 0, 1]], 2)", "histogramdd(x.reshape(10, 2), range=[(0, 1)])",
                 "histogramdd(x.reshape(10, 2), [[1, 2], [[1, 2]]])", "histogramdd(x.reshape(10, 2), array([2, 3]))",
                 "histogramdd(x.reshape(10, 2), [[2], [1, 2]])", "histogramdd(x.reshape(20, 1), 3, weights=x)",
                 "histogramdd(x.reshape(5, 4), 2)", "histogramdd(x, 3, range=[(-4.5, 4.5)], density=True)",
                 "histogramdd(x[:0].reshape(0, 2), 2)"]:
        yield case(text, x=x, y=y, b=b, ulp=8, norm=8)


def cases():
    yield from averages()
    yield from bincounts()
    yield from medians()
    yield from quantiles()
    yield from weighted()
    yield from covariances()
    yield from histograms()
    yield from histograms_of_points()
