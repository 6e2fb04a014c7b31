"""Order statistics, averages, correlation and histograms (local/ops/functions/statistics.def).

Where quarry differs from NumPy by decision: sums of 16-bit floats are accumulated in float32; an empty float64 array is
an empty list to bincount(); RuntimeError is ValueError.
"""
from expressions import FLOATS, INTEGERS, NUMPY_DTYPES, SOME, case, layouts, sample
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


def cases():
    yield from averages()
    yield from bincounts()
