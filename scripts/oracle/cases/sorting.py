"""Sorting, searching and sets (local/ops/functions/sorting.def).

NumPy leaves some orders open, and quarry's may differ there: that of equal elements (argsort is always stable in quarry,
so that it is compared with kind="stable"), that of a partition on both sides of its positions, and that of
unique_values (sorted in quarry). NumPy's bfloat16 (ml_dtypes) does not order NaN; quarry puts them last as it does for
every dtype; nor does NumPy order NaN of float16 in slices (unique with axis). Which of equal NaN is kept or comes first
is open where NumPy's sort is not stable: the cases leave out what depends on it. isin(kind="table") is a choice of algorithm that quarry does not need; it never fails for a range too wide.
trim_zeros of a list gives a list
in NumPy and an array in quarry. top_k is the array API's: its reference is below. Equal elements may be any of them, so that values are compared.
"""
import functools

from expressions import COMPLEX, DTYPES, NUMPY_DTYPES, case, layouts, sample, strided
import numpy as np

case = functools.partial(case, atol=5e-324)  # either zero: they are equal elements

def top_k(a, k, /, *, axis=-1, largest=True):
    a = np.asarray(a)
    n = a.shape[axis] if -a.ndim <= axis < a.ndim else np.moveaxis(a, axis, 0).shape[0]
    if not 0 <= k <= n:
        raise ValueError("k out of bounds")
    order = np.argsort(a, axis=axis, kind="stable")
    order = np.take(np.flip(order, axis), np.arange(k), axis) if largest else np.take(order, np.arange(k), axis)
    return np.take_along_axis(a, order, axis), order


FUNCTIONS = {"top_k": top_k}
SHAPES = [(1,), (0,), (7,), (40,), (3, 5), (2, 0), (0, 3), (1, 1), (2, 3, 4)]
AXES = ["", ", axis=0", ", axis=None"]


def values(dtype, shape, seed=0):
    """With what has its own place in an order: NaN of both signs, infinities, signed zeros, extremes, equal elements."""
    a = sample(dtype, shape, seed=seed, special=dtype != "bfloat16" and dtype != "bool")
    flat = a.reshape(-1)
    if flat.size > 9:
        flat[9] = flat[8]
        flat[5] = flat[8]
        if dtype in ("float16", "float32", "float64"):
            flat[4] = -np.array(np.nan, dtype)
        if dtype in COMPLEX:
            flat[4], flat[6], flat[7] = complex(1, np.nan), complex(-2, np.nan), complex(-np.nan, np.nan)
            flat[3] = complex(flat[2].real, -1000)
            flat[1] = complex(np.nan, -3)
            flat[0] = complex(np.inf, np.nan)
    return a


def few(dtype, shape, seed=0):
    """Many equal elements."""
    a = sample("int8", shape, seed=seed) % 5
    result = (a > 1) if dtype == "bool" else a.astype(dtype if dtype != "bfloat16" else sample(dtype, ()).dtype)
    if dtype in COMPLEX:
        result = result + (1j * (sample("int8", shape, seed=seed + 7) % 3)).astype(dtype)
    return result


def with_nan(dtype, shape, seed=0):
    a = few(dtype, shape, seed)
    if a.dtype.kind in "fc":
        a.reshape(-1)[1::4] = np.nan
    if a.dtype.kind == "c":
        a.reshape(-1)[2::7] = complex(1, np.nan)
    return a


def sorts():
    for dtype in DTYPES:
        for shape in SHAPES:
            a = values(dtype, shape)
            yield case("sort(a)", a=a)
            yield case("argsort(a, kind='stable')", a=a)
            for k in ["0", "-1", f"{shape[-1] // 2}"]:
                yield case(f"partition(a, {k})[..., {k}]", a=a)
                yield case(f"sort(partition(a, {k})[..., :{k}])", a=a)
                yield case(f"take_along_axis(a, argpartition(a, {k}), -1)[..., {k}]", a=a)
                yield case(f"sort(argpartition(a, {k}))", a=a)
        for a in layouts(values(dtype, (4, 3, 5))):
            for axis in ["-1", "1", "0", "-3", "None"]:
                yield case(f"sort(a, axis={axis})", a=a)
                yield case(f"argsort(a, axis={axis}, stable=True)", a=a)
                yield case(f"sort(partition(a, 2, axis={axis}), axis={axis})", a=a)
                yield case(f"sort(argpartition(a, 2, axis={axis}), axis={axis})", a=a)
                if axis != "None":
                    yield case(f"take(partition(a, [0, 2], axis={axis}), [0, 2], axis={axis})", a=a)
                    yield case(f"take(take_along_axis(a, argpartition(a, (0, -1), {axis}), {axis}), [0, -1], {axis})", a=a)
                    yield case(f"(a.sort({axis}), a)", a=a)
                    yield case(f"(a.partition(2, {axis}), a.sort({axis}), a)", a=a)
                    yield case(f"(a[::-1, :, ::2].sort({axis}), a)", a=a)
                yield case(f"a.argsort({axis}, kind='stable')", a=a)
                yield case(f"sort(a.argpartition(2, {axis}), {axis})", a=a)
        a = few(dtype, (5, 13))
        for text in ["sort(a)", "argsort(a, stable=True)", "argsort(a, 0, 'stable')", "sort(a, None)", "sort_complex(a)",
                     "sort_complex(a[:0])", "partition(a, [3, 5, 3], axis=1)[:, [3, 5]]"]:
            yield case(text, a=a)
        yield case("sort_complex(a)", a=values(dtype, (3, 12)))
        yield case("sort_complex(a)", a=sample(dtype, ()))
    for text in ["a", "a.T", "a[::-1]", "a[:, ::-1]", "a[:, ::2]", "a[2:3]", "a[..., None]"]:
        for dtype in ["float32", "int16"]:
            a = sample(dtype, (4, 6))
            yield case(f"sort({text})", a=a)
            yield case(f"argsort({text}, stable=True)", a=a)
    a = sample("float64", (300,), special=True)
    for kind in ["'quicksort'", "'mergesort'", "'heapsort'", "'stable'", "None", "'q'", "'foo'", "''", "3"]:
        yield case(f"sort(a, kind={kind})", a=a)
        yield case(f"sort(a[argsort(a, kind={kind})])", a=a)
        yield case(f"(a.sort(kind={kind}), a)", a=a)
    for dtype in ["float16", "float32", "float64", "complex64", "complex128"]:
        a = np.array([0.0, -0.0, 1, -0.0, 0.0, np.nan, -1, -0.0] * 5).astype(dtype)
        for part in ["", ".real", ".imag"] if a.dtype.kind == "c" else [""]:
            for text in ["sort(a, kind='stable')", "sort(a[::-1], stable=True)", "unique(a, return_index=True)[0]", "unique_all(-a).values[:3]"]:
                yield case(f"signbit(({text}){part})" if part or a.dtype.kind == "f" else text, a=a)
    a = sample("float32", (4, 6))
    for name in ["sort", "argsort", "a.sort", "a.argsort"]:
        head = f"{name}(" if "." in name else f"{name}(a, "
        for options in ["axis=2", "axis=-3", "axis=1.5", "axis=(0, 1)", "axis='x'", "order='x'", "kind='stable', stable=True",
                        "kind=None, stable=False", "bogus=1", "stable=True, axis=0", "order=None, axis=-1", "True"]:
            if not (options == "True" and "argsort" in name):  # NumPy takes True for an axis in sort alone
                yield case(f"{head}{options})", a=a)
    for name in ["partition", "argpartition", "a.partition", "a.argpartition"]:
        head = f"{name}(" if "." in name else f"{name}(a, "
        for options in ["", "6", "-7", "[0, 6]", "1.5", "[]", "2, axis=2", "2, axis=-3", "2, 0, 'quick'", "2, order='x'", "None",
                        "'a'", "4, axis=0", "2, bogus=1"]:
            yield case(f"{head}{options})", a=a)
    for name in ["sort", "argsort", "partition", "argpartition", "a.sort", "a.argsort"]:
        head = f"{name}(" if "." in name else f"{name}(a"
        more = [", 0"] if "partition" in name else [""]
        more += [m + f"axis={axis}" for m in [more[0] + ", " if "." not in name else ""] for axis in ["None", "0", "-1", "1"]]
        for options in more:
            yield case(f"{head}{options})", a=sample("int32", ()))
    for text in ["sort([3, 1, 2])", "sort([[3, 1], [2, 0]], axis=0)", "sort(3)", "sort([])", "argsort([3.5, 1, 2])", "sort()",
                 "argsort()", "sort_complex()", "sort_complex([3, 1])", "sort_complex(a, 1)", "partition([3, 1, 2], 1)[1]",
                 "sort(a=[2, 1])", "partition(a, kth=1)[:, 1]", "partition(a, kth=-2, axis=0)[-2]", "partition(a[:, :0], 0)",
                 "argpartition(a[:0], 3)", "argpartition(a[:0], 7)", "argpartition(a[:, :0], 7)", "(a[:0].partition(7), a[:0])", "a[:, :0].argpartition(7)", "partition(a[:0], 7, axis=None)", "partition(a[:0], 7, axis=0)", "partition(a[:, :0], 3)", "partition(a[:0], 7)", "(a.sort, 1)[1]", "a.sort()",
                 "(a[0].sort(), a)", "(a.T.sort(), a)", "(a[::2, ::-1].sort(0), a)", "(a.sort(axis=0), a)", "(a[:0].sort(), a)"]:
        yield case(text, a=a)
    for length in [63, 64, 65, 255, 256, 257, 1000, 5000]:
        for dtype in ["int8", "uint16", "int64", "float32", "float64"]:
            yield case("sort(a)", a=sample(dtype, (length,), special=True))
        yield case("argsort(a, stable=True)", a=sample("float32", (length,), special=True))
        yield case("argsort(a, stable=True)", a=sample("int16", (length,)))


def lexsorts():
    for dtype in NUMPY_DTYPES:
        a, b = few(dtype, (30,)), few(dtype, (30,), seed=1)
        yield case("lexsort((a, b))", a=a, b=b)
        yield case("lexsort([b, a])", a=a, b=b)
        yield case("lexsort((a,))", a=values(dtype, (30,)))
        yield case("lexsort(a, axis=-3)", a=values(dtype, (5,)))
        yield case("lexsort((a, b))", a=values(dtype, (30,)), b=with_nan(dtype, (30,), seed=1))
    for one, other in [("int8", "float64"), ("bool", "uint64"), ("complex64", "int16"), ("float32", "float16")]:
        a, b, c = few(one, (4, 6)), few(other, (4, 6), seed=1), few("int32", (4, 6), seed=2)
        for axis in ["", ", axis=0", ", axis=-1", ", 1", ", axis=-2", ", axis=2", ", axis=-3"]:
            yield case(f"lexsort((a, b, c){axis})", a=a, b=b, c=c)
        yield case("lexsort((a[:, ::-1], b.T.T, c))", a=a, b=b, c=c)
        yield case("lexsort((a.T, b.T), axis=0)", a=a, b=b)
    a = few("float32", (3, 8))
    for text in ["lexsort(a)", "lexsort(a[:, ::-1])", "lexsort(a.T)", "lexsort(a[:1])", "lexsort(a[0])", "lexsort(a[:0])", "lexsort(())",
                 "lexsort([])", "lexsort((a, a[0]))", "lexsort((a[:, :0], a[:, :0]))", "lexsort((a[:, :1], a[:, :1]))", "lexsort()",
                 "lexsort((3, 4))", "lexsort((a, [1, 2]))", "lexsort(keys=(a[0], a[1]))", "lexsort(([3, 1, 2], [1, 1, 0]))",
                 "lexsort(3)", "lexsort(a[..., None])", "lexsort((a, a), axis=None)"]:
        yield case(text, a=a)


def top_ks():
    for dtype in DTYPES:
        a = sample(dtype, (4, 9)) if dtype == "bfloat16" else values(dtype, (4, 9))
        for options in ["3", "9", "1", "0", "2, axis=0", "2, largest=False", "4, axis=0, largest=False"]:
            axis = 0 if "axis=0" in options else -1
            for b in [a, strided(a), a[::-1]]:
                yield case(f"top_k(a, {options})[0]", a=b)
                yield case(f"take_along_axis(a, top_k(a, {options})[1], {axis})", a=b)
    distinct = np.argsort(sample("float64", (4, 25)), axis=1, kind="stable")
    for dtype in ["int16", "float32", "float64", "uint64"]:
        for options in ["5", "5, largest=False", "25", "0", "3, axis=0", "3, axis=-2, largest=False"]:
            if "axis" not in options:
                yield case(f"top_k(a, {options})", a=distinct.astype(dtype))
            yield case(f"top_k(a, {options})[0]", a=distinct.astype(dtype))
    a = sample("float32", (5,))
    for text in ["top_k(a, 6)", "top_k(a, -1)", "top_k(a, 2, axis=1)", "top_k(a)", "top_k(a, 2, 0)", "top_k(a[:0], 0)", "top_k(a, 1.5)",
                 "top_k(a[:0], 1)", "top_k(a, 2, axis=-2)", "top_k(x=a, k=2)"]:
        yield case(text, a=a)


def searches():
    for dtype in NUMPY_DTYPES:
        for shape in [(), (1,), (0,), (8,), (3, 4)]:
            for side in ["left", "right"]:
                yield case(f"searchsorted(sort(a), v, side='{side}')", a=values(dtype, (20,)), v=values(dtype, shape, seed=1))
                yield case(f"searchsorted(sort(a), v, '{side}')", a=few(dtype, (20,)), v=few(dtype, shape, seed=1))
        a = values(dtype, (20,))
        for v in layouts(np.concatenate([a, values(dtype, (8,), seed=2)]).reshape(4, 7)):
            yield case("searchsorted(sort(a), v)", a=a, v=v)
            yield case("searchsorted(sort(a)[::2], v, 'right')", a=a, v=v)
            yield case("sort(a).searchsorted(v, 'right')", a=a, v=v)
        yield case("searchsorted(a, v, sorter=argsort(a, kind='stable'))", a=a, v=a[::-1])
        yield case("searchsorted(a, v, 'right', argsort(a, kind='stable'))", a=a, v=a[::3])
        yield case("searchsorted(a[:0], v)", a=a, v=a)
        if dtype != "bool" and dtype not in COMPLEX:
            for right in ["", ", right=True", ", False"]:
                yield case(f"digitize(x, sort(bins){right})", x=values(dtype, (3, 7)), bins=few(dtype, (8,)))
                yield case(f"digitize(x, sort(bins)[::-1]{right})", x=few(dtype, (3, 7)), bins=few(dtype, (8,), seed=1))
        else:
            yield case("digitize(x, bins)", x=few(dtype, (5,)), bins=np.array([0, 1], "int8"))
            yield case("digitize(x, bins)", x=few("int8", (5,)), bins=np.sort(few(dtype, (3,))))
        for other in NUMPY_DTYPES:
            yield case("searchsorted(sort(a), v)", a=few(dtype, (12,)), v=few(other, (6,), seed=1))
    a = np.array([1, 2, 2, 3, 5, 5, 9], "int32")
    order = np.array([3, 0, 6, 1, 5, 2, 4])
    for text in ["searchsorted(a, 2)", "searchsorted(a, 2.5)", "searchsorted(a, 5, 'right')", "searchsorted(a, [0, 100])",
                 "searchsorted(a, 2, side='middle')", "searchsorted(a, 2, side='l')", "searchsorted(a, 2, side='RIGHT')",
                 "searchsorted(a, 2, side='')", "searchsorted(3, 2)", "searchsorted(a[:, None], 2)", "searchsorted(a, [[1, 3], [5, 7]])",
                 "searchsorted([1, 2, 3], 2)", "searchsorted([], [1, 2])", "searchsorted(a, [])", "searchsorted(a)", "searchsorted(a, 1e300)",
                 "searchsorted(a, nan)", "searchsorted(a, inf)", "searchsorted(a, -inf, side='right')", "searchsorted(a, 2**40)",
                 "searchsorted(a, -2**40)", "searchsorted(a, 1+2j)", "searchsorted(a, True)", "searchsorted(a.astype(int8), 300)",
                 "searchsorted(a[order], a, sorter=argsort(a[order]))", "searchsorted(a, 2, sorter=[0, 1, 2])", "searchsorted(a, 2, sorter=[0.5] * 7)",
                 "searchsorted(a, 2, sorter=[7] * 7)", "searchsorted(a, 2, sorter=[-1] * 7)", "searchsorted(a, 2, sorter=[[0]])",
                 "searchsorted(a, a, sorter=[0, 1, 2, 3, 4, 5, 6])", "searchsorted(a, a, sorter=uint8([0, 1, 2, 3, 4, 5, 6]))",
                 "a.searchsorted(3)", "a.searchsorted([3, 5], 'right')", "a.searchsorted(3, sorter=order * 0 + 1)", "searchsorted(a, v=2)",
                 "searchsorted(a, 2, 'left', None)", "searchsorted(a[::-1][::-1], 5)", "searchsorted(a[:1], [0, 1, 2])", "searchsorted(a, 2, bogus=1)",
                 "digitize([0.2, 6.4, 3.0, 1.6], [0.0, 1.0, 2.5, 4.0, 10.0])", "digitize(5, [1, 2, 3])", "digitize([5], [])", "digitize([5], [5])",
                 "digitize(a, [10, 5, 2, 1])", "digitize(a, [10, 5, 2, 1], right=True)", "digitize(a, [1, 3, 2])", "digitize(a, 3)",
                 "digitize(a, [[1, 2]])", "digitize(a, [2, 2, 2])", "digitize(a, [1, 2, 2, 9])", "digitize(a, [9, 2, 2, 1])", "digitize(a, [5, 5, 2])",
                 "digitize(1+2j, [1, 2])", "digitize(a, [1j, 2j])", "digitize([nan, inf, -inf, 1], [0.0, 1.0, inf])",
                 "digitize([1.5], [nan, 1.0])", "digitize([1.5, nan], [nan, nan])", "digitize(a[::-1], [1, 5])", "digitize(a[:, None], [1, 5])",
                 "digitize(a, [1, 5], 1)", "digitize(a)", "digitize(a, bins=[1, 5], right=True)", "digitize(a[:0], [1, 5])", "digitize(2**53 + 1, [2**53 + 1, 2**53 + 3])"]:
        yield case(text, a=a, order=order)


def uniques():
    flags = ["", "return_index=True", "return_inverse=True", "return_counts=True", "return_index=True, return_inverse=True, return_counts=True"]
    for dtype in NUMPY_DTYPES:
        for shape in [(), (1,), (0,), (30,), (4, 5), (2, 0)]:
            a = few(dtype, shape)
            for options in flags:
                yield case(f"unique(a{', ' if options else ''}{options})", a=a)
            for name in ["unique_all", "unique_counts", "unique_inverse"]:
                yield case(f"{name}(a)", a=a)
            yield case("sort(unique_values(a))", a=a)
        for a in layouts(few(dtype, (5, 8))):
            yield case("unique(a, True, True, True)", a=a)
            yield case("unique_all(a)", a=a)
        for a in [with_nan(dtype, (5, 6)), values(dtype, (40,))]:
            for equal in ["", "equal_nan=True", "equal_nan=False"]:
                for options in flags:
                    text = f"unique(a, {', '.join(x for x in (equal, options) if x)})"
                    if equal == "equal_nan=False" and options == "return_inverse=True":
                        text = text.replace("return_inverse", "return_index=True, return_inverse")  # a stable sort
                    if dtype in COMPLEX and equal != "equal_nan=False" and "return_index" not in options:
                        yield case(f"{text}[0][:-1]" if options else f"{text}[:-1]", a=a)
                        yield case(f"{text}[1:]" if options else f"{text}.shape", a=a)
                        continue
                    yield case(text.replace("(a, )", "(a)"), a=a)
            for name in ["unique_all", "unique_counts"]:
                yield case(f"{name}(a)", a=a)
            if a.dtype.kind != "c":
                yield case("sort(unique_values(a))", a=a)
        b = few(dtype, (6, 2, 2))
        b[3], b[5] = b[1], b[0]
        b[:, 1] = b[:, 0]
        for axis in ["0", "1", "2", "-1", "-3", "None"]:
            for options in flags:
                yield case(f"unique(b, axis={axis}{', ' if options else ''}{options})", b=b)
        yield case("unique(b[:, 0], True, True, True, 0)", b=b)
        yield case("unique(b[::-1, :, 0], axis=1)", b=b)
        if dtype != "float16":
            yield case("unique(b, axis=0, return_counts=True)", b=with_nan(dtype, (5, 3)))
            yield case("unique(b, axis=0, return_inverse=True, equal_nan=False)", b=with_nan(dtype, (5, 3)))
        yield case("unique(b, axis=0, return_counts=True)", b=with_nan(dtype, (12,)))
    a = few("float32", (4, 3))
    for text in ["unique([3, 1, 3, 2])", "unique(3)", "unique([])", "unique([[1, 0, 0], [1, 0, 0], [2, 3, 4]], axis=0)", "unique(a, axis=2)",
                 "unique(a, axis=-3)", "unique(3, axis=0)", "unique(a[:, :0], axis=0)", "unique(a[:, :0], axis=1)", "unique(a[:0], axis=0)",
                 "unique(a[:0], axis=1)", "unique(a[:, :0], axis=0, return_inverse=True, return_counts=True)", "unique(a, sorted=True)",
                 "unique(a, True)[0]", "unique(a, False, True)[1]", "unique(a, axis='x')", "unique(a, bogus=1)", "unique()", "unique_all()",
                 "unique_all([1, 1, 2]).counts", "unique_all([1, 1, 2]).values", "unique_all([1, 1, 2]).indices",
                 "unique_all([[1, 1], [2, 1]]).inverse_indices", "unique_counts([5, 5]).counts", "unique_inverse([5, 4]).inverse_indices",
                 "sort(unique_values([2, 1, 2]))", "unique_all(3)", "unique_inverse(3)", "unique_all([])", "unique(a[0], axis=0)",
                 "unique(a[0], axis=-1, return_inverse=True)", "unique(a[0], axis=1)", "unique(True)", "unique([True, False, True])"]:
        yield case(text, a=a)


def sets():
    for dtype in NUMPY_DTYPES:
        for one, other in [(few(dtype, (20,)), few(dtype, (15,), seed=3)), (few(dtype, (3, 4)), few(dtype, (2, 2), seed=3)),
                           (few(dtype, (0,)), few(dtype, (4,))), (few(dtype, (4,)), few(dtype, (0,))), (few(dtype, ()), few(dtype, (5,))),
                           (few(dtype, (0,)), few(dtype, (0,))), (few(dtype, (1,)), few(dtype, (1,))),
                           (sample(dtype, (50,)), sample(dtype, (40,), seed=1)), (with_nan(dtype, (20,)), with_nan(dtype, (9,), seed=1))]:
            nan = one.dtype.kind == "c" and bool(np.isnan(one).any())
            for name in ["union1d", "intersect1d", "setdiff1d", "setxor1d"]:
                if nan and name in ("union1d", "setdiff1d", "setxor1d"):
                    continue  # which of several complex NaN is kept is open
                yield case(f"{name}(a, b)", a=one, b=other)
            yield case("intersect1d(a, b, return_indices=True)", a=one, b=other)
            for options in ["", ", invert=True"]:
                yield case(f"isin(a, b{options})", a=one, b=other)
                yield case(f"isin(a, b{options}, kind='sort')", a=one, b=other)
        for a in layouts(few(dtype, (4, 5))):
            b = few(dtype, (3,), seed=4)
            yield case("isin(a, b)", a=a, b=b)
            yield case("isin(b, a)", a=a, b=b)
            yield case("union1d(a, b)", a=a, b=b)
            yield case("setdiff1d(a, b)", a=a, b=b)
            yield case("setxor1d(b, a)", a=a, b=b)
            yield case("intersect1d(a, b, return_indices=True)", a=a, b=b)
        for other in NUMPY_DTYPES:
            a, b = few(dtype, (8,)), few(other, (6,), seed=1)
            yield case("(union1d(a, b), intersect1d(a, b), setxor1d(a, b), setdiff1d(a, b))", a=a, b=b)
            yield case("isin(a, b)", a=a, b=b)
        if dtype == "bool":
            continue
        a, b = np.array([5, 3, 9, 1, 7]).astype(dtype), np.array([9, 2, 5]).astype(dtype)
        for name in ["intersect1d", "setdiff1d", "setxor1d", "isin"]:
            yield case(f"{name}(a, b, assume_unique=True)", a=a, b=b)
            yield case(f"{name}(a, b, True)", a=a, b=b)
        yield case("intersect1d(a, b, True, True)", a=a, b=b)
        yield case("isin(a, b, assume_unique=True, invert=True)", a=a, b=b)
    for dtype in ["bool", "int8", "uint8", "int32", "uint64"]:
        for options in [", kind='table'", ", kind='table', invert=True", ", kind=None"]:
            yield case(f"isin(a, b{options})", a=few(dtype, (12,)), b=few(dtype, (2,), seed=4))
            yield case(f"isin(a, b{options})", a=sample("int16", (12,)), b=few(dtype, (2,), seed=4))
    # Integers of both signs that float64 does not tell apart, and few, so that NumPy compares them one by one.
    a = np.array([2**53 + 1, 2**62 + 1, -1, 5, 2**63 - 1, -(2**63)], "int64")
    b = np.array([2**53, 2**62, 2**64 - 1, 5, 2**63, 2**62 + 3], "uint64")
    for text in ["isin(a, b)", "isin(b, a)", "isin(a, b, invert=True)", "setdiff1d(a, b)", "setdiff1d(b, a)", "equal(a, b)", "less(a, b)",
                 "searchsorted(sort(a), b)", "union1d(a, b)", "intersect1d(a, b)", "setxor1d(a, b)", "array_equal(a, b)"]:
        yield case(text, a=a, b=b)
    a, b = np.array([5, 3, 9, 1, 3, 7], "int32"), np.array([9, 2, 5, 5], "int64")
    for text in ["isin(a, 3)", "isin(3, a)", "isin(3, 3)", "isin([[1, 2], [3, 4]], [1, 4])", "isin(a, b, kind='foo')", "isin(a, [1.5], kind='table')",
                 "isin(a)", "isin(a, [2.5, 3.0])", "isin(a, [])", "isin([], a)", "isin(a, [], invert=True)", "isin(a, b, bogus=1)", "isin([nan, 1], [nan, 1])",
                 "isin([2**53 + 1], [2.0**53])", "isin(uint64([2**63 + 1, 5]), [5, -1])", "isin(int8([1, 2, -1]), [300, 255, 1])", "isin([0.0, -0.0], [0.0])",
                 "union1d([1, 2], [2.5])", "union1d(3, [1])", "union1d([[3, 1]], [[2], [1]])", "union1d(a)", "intersect1d(a)", "setdiff1d(a)", "setxor1d(a)",
                 "intersect1d(a, b)", "intersect1d(a, b, return_indices=True)", "intersect1d(a, b, return_indices=True)[1]", "setdiff1d(a, b)", "setdiff1d(b, a)",
                 "setxor1d(a, b)", "union1d(a, b)", "setdiff1d(a, 3)", "setdiff1d(a, [])", "setdiff1d([], a)", "setxor1d([], [])", "setxor1d(a, a)",
                 "setdiff1d(a, b, assume_unique=True)", "union1d(ar1=a, ar2=b)", "intersect1d(a, b, bogus=1)", "setdiff1d([3, 1, 2, 1], [2], assume_unique=True)",
                 "intersect1d([nan, 1], [nan, 1])", "union1d([nan, 1], [nan])", "setxor1d([nan, 1], [nan])", "setdiff1d([nan, 1], [nan])"]:
        yield case(text, a=a, b=b)


def trims():
    for dtype in NUMPY_DTYPES:
        a = np.array([0, 0, 1, 0, 2, 3, 0, 0, 0]).astype(dtype)
        for text in ["trim_zeros(a)", "trim_zeros(a, 'f')", "trim_zeros(a, 'b')", "trim_zeros(a, trim='bf')", "trim_zeros(a, 'FB')", "trim_zeros(a[::-1])",
                     "trim_zeros(a[:2])", "trim_zeros(a[:0])", "trim_zeros(a[2:6])", "trim_zeros(a[:2], 'f')", "trim_zeros(a[:2], 'b')", "trim_zeros(a[2:3])"]:
            yield case(text, a=a)
        b = np.zeros((4, 5, 3)).astype(dtype)
        b[1:3, 2, 1] = 1
        for b in layouts(b):
            for axis in ["", ", axis=None", ", axis=0", ", axis=-1", ", axis=(0, 2)", ", axis=()", ", axis=[1]"]:
                for trim in ["'fb'", "'f'", "'b'"]:
                    yield case(f"trim_zeros(b, {trim}{axis})", b=b)
    a = np.zeros((3, 4))
    for text in ["trim_zeros(a)", "trim_zeros(a, axis=0)", "trim_zeros(a, 'f', axis=1)", "trim_zeros(a, 'x')", "trim_zeros(a, '')", "trim_zeros(a, 'ff')",
                 "trim_zeros(a, axis=2)", "trim_zeros(a, axis=(0, 0))", "trim_zeros(a, axis=-3)", "trim_zeros(a[0])", "trim_zeros(3.5)", "trim_zeros(0)",
                 "trim_zeros(float64([nan, 0]))", "trim_zeros(float64([-0.0, 1, 0.0]))", "trim_zeros()", "trim_zeros(a[:0])", "trim_zeros(int8([[0, 1], [0, 0]]))"]:
        yield case(text, a=a)


def cases():
    yield from sorts()
    yield from lexsorts()
    yield from top_ks()
    yield from searches()
    yield from uniques()
    yield from sets()
    yield from trims()
