"""Calls of ufuncs, reductions, casts, printing, basic indexing and matmul with what NumPy answers: the section "calls"
of the chapters that CHAPTERS names, for tests/unit/local/oracle_test.cpp.

All come from one stream of random numbers, so they are made together.
"""
import itertools
import struct
import warnings

import ml_dtypes
import numpy as np
from format import DTYPES, NUMPY_DTYPES, Kind, Parts, dtype_of, inline, pooled, text

warnings.simplefilter("ignore")
rng = np.random.default_rng(20240229)
CHAPTERS = {Kind.UFUNC: "ufuncs", Kind.REDUCTION: "reductions", Kind.PRINT: "printing", Kind.PROMOTE: "dtypes",
            Kind.CAN_CAST: "dtypes", Kind.ASTYPE: "dtypes", Kind.INDEX: "indexing", Kind.MATMUL: "products",
            Kind.RESULT_TYPE: "dtypes"}
found = {chapter: [] for chapter in CHAPTERS.values()}


def add(kind, data):
    found[CHAPTERS[kind]].append(struct.pack("<B", kind) + Parts() + data)


def argument(value):
    if isinstance(value, bool):
        return Parts(struct.pack("<BB", 1, value))
    if isinstance(value, int):
        return Parts(struct.pack("<Bq", 2, value))
    if isinstance(value, float):
        return Parts(struct.pack("<Bd", 3, value))
    if isinstance(value, complex):
        return Parts(struct.pack("<Bdd", 4, value.real, value.imag))
    return b"\0" + pooled(value)


def code(dtype):
    return struct.pack("<B", 255 if dtype is None else DTYPES.index(np.dtype(dtype).name))


def result(compute):
    try:
        with np.errstate(all="ignore"):
            values = compute()
    except IndexError:
        return Parts(struct.pack("<B", 3))
    except TypeError:
        return Parts(struct.pack("<B", 1))
    except (ValueError, OverflowError):
        return Parts(struct.pack("<B", 2))
    if not isinstance(values, tuple):
        values = (values,)
    values = [np.asarray(value) for value in values]
    parts = [inline(np.ascontiguousarray(value).reshape(value.shape)) for value in values]
    return sum(parts, Parts(struct.pack("<BB", 0, len(parts))))


def ufunc(name, compute, *args, dtype=None):
    data = Parts(text(name) + code(dtype) + struct.pack("<B", len(args)))
    add(Kind.UFUNC, sum(map(argument, args), data) + result(compute))


REAL_SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.5, 0.1, 1e-3, 7.25, -10.0, 100.0, np.inf, -np.inf,
                np.nan]


def values(name):
    """Interesting values of a dtype, one-dimensional."""
    dtype = dtype_of(name)
    kind = "f" if name == "bfloat16" else dtype.kind
    if kind == "b":
        return np.array([False, True, True, False])
    if kind in "iu":
        info = np.iinfo(dtype)
        some = [0, 1, 2, 3, 5, 7, 10, 100, info.max, info.max - 1, info.max // 2]
        if kind == "i":
            some += [-1, -2, -3, -7, -100, info.min, info.min + 1]
        return np.array(some, dtype)
    if kind == "f":
        info = ml_dtypes.finfo(dtype)
        some = REAL_SPECIAL + [float(info.max), float(info.smallest_normal), float(info.smallest_subnormal), -np.pi,
                               1.5, 2.5]
        return np.array(some).astype(dtype)
    part = np.float32 if name == "complex64" else np.float64
    parts = [0.0, -0.0, 1.0, -0.5, 2.5, np.inf, -np.inf, np.nan]
    some = [complex(a, b) for a in parts for b in parts]
    more = list((rng.standard_normal(12) + 1j * rng.standard_normal(12)) * 3)
    return np.concatenate([np.array(some), np.array(more)]).astype(dtype)


def random_values(name, count):
    dtype = dtype_of(name)
    kind = "f" if name == "bfloat16" else dtype.kind
    if kind == "b":
        return rng.random(count) < 0.5
    if kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    scale = np.exp2(rng.uniform(-6, 6, count))
    real = rng.standard_normal(count) * scale
    if kind == "c":
        return (real + 1j * rng.standard_normal(count) * scale).astype(dtype)
    return real.astype(dtype)


def small(name):
    """A few harmless values, for dtype combinations."""
    dtype = dtype_of(name)
    if dtype.kind == "b":
        return np.array([False, True, True, False, True])
    return np.array([0, 1, 2, 3, 7]).astype(dtype)


UFUNCS = {name: getattr(np, name) for name in sorted(dir(np))
          if isinstance(getattr(np, name), np.ufunc) and getattr(np, name).signature is None}
EXTRA = {"clip": (np.clip, 3), "where": (np.where, 3), "real": (np.real, 1), "imag": (np.imag, 1)}
UNARY = [n for n, f in UFUNCS.items() if f.nin == 1] + ["real", "imag"]
BINARY = [n for n, f in UFUNCS.items() if f.nin == 2]


def function(name):
    return UFUNCS[name] if name in UFUNCS else EXTRA[name][0]


# Functions that the C library approximates: the reference is computed in the next wider type and rounded, so that a
# bound in ULP is one on the true error.
APPROXIMATE = {"power", "pow", "float_power", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp",
               "logaddexp2", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh",
               "arcsinh", "arccosh", "arctanh", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "hypot",
               "degrees", "radians", "rad2deg", "deg2rad"}
WIDER = {"float16": np.float64, "bfloat16": np.float64, "float32": np.float64, "float64": np.longdouble,
         "complex64": np.complex128, "complex128": np.clongdouble}


def reference(name, *args, **options):
    f = function(name)
    out = f(*args, **options)
    if name not in APPROXIMATE or np.asarray(out).dtype.name not in WIDER:
        return out
    loop = np.asarray(out).dtype
    wide = WIDER[loop.name]
    return f(*[np.asarray(a).astype(loop).astype(wide) for a in args]).astype(loop)


def through_float32(name, *args, storage=False):
    """bfloat16 as quarry defines it: computed in float32, rounded once."""
    f = function(name)
    wide = [a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == ml_dtypes.bfloat16 else a for a in args]
    if name in APPROXIMATE and name != "float_power":
        wide = [a.astype(np.float64) for a in wide]
        f = lambda *a: function(name)(*a).astype(np.float32)
    out = f(*wide)
    back = lambda r: r.astype(ml_dtypes.bfloat16) if r.dtype == np.float32 else r
    return tuple(back(r) for r in out) if isinstance(out, tuple) else back(out)


def nonnegative_exponents(name, a, b):
    """NumPy refuses integers to negative powers as a whole; keep those cases for the error cases."""
    if name not in ("power", "pow") or not (isinstance(b, np.ndarray) and b.dtype.kind == "i"):
        return b
    return np.abs(b // 2)


def unary_cases():
    for name in UNARY:
        f = function(name)
        for t in DTYPES:
            x = np.concatenate([values(t), random_values(t, 24)])
            if name == "reciprocal" and dtype_of(t).kind in "iu":
                x = x[x != 0]  # undefined in C
            if t == "bfloat16":
                if name in ("nextafter", "spacing"):
                    ufunc(name, lambda: np.spacing(x), x)
                else:
                    ufunc(name, lambda: through_float32(name, x), x)
            else:
                ufunc(name, lambda: reference(name, x), x)
        for literal in (True, 3, -2, 0.25, 1 + 2j):
            if literal is True and name in ("real", "imag"):
                continue  # not ufuncs: Python's int
            ufunc(name, lambda: reference(name, literal), literal)


def binary_cases():
    for name in BINARY:
        f = function(name)
        for t in DTYPES:
            v = values(t)
            if dtype_of(t).kind == "c":
                v = np.concatenate([v[:64:5], v[64:70]])
                if name in ("power", "pow", "float_power"):
                    v = v[np.isfinite(v)]  # beyond: as the C library likes
            a, b = [np.ascontiguousarray(g).ravel() for g in np.broadcast_arrays(v[:, None], v[None, :])]
            if name == "ldexp":
                b = np.resize(np.array([0, 1, -1, 5, -7, 40, -2000], np.int32), a.shape)
            b = nonnegative_exponents(name, a, b)
            if t == "bfloat16":
                if name == "nextafter":
                    ufunc(name, lambda: np.nextafter(a, b), a, b)
                else:
                    ufunc(name, lambda: through_float32(name, a, b), a, b)
            else:
                ufunc(name, lambda: reference(name, a, b), a, b)
            if dtype_of(t).kind in "fc" and t != "bfloat16":
                a, b = random_values(t, 16), random_values(t, 16)
                ufunc(name, lambda: reference(name, a, b), a, b)
        for t, u in itertools.product(NUMPY_DTYPES, NUMPY_DTYPES):
            if t != u:
                a, b = small(t), small(u)[::-1]
                ufunc(name, lambda: reference(name, a, b), a, b)
        for t in NUMPY_DTYPES:
            for literal in (True, 3, -1, 300, 2.5, 1 + 2j):
                if name in ("power", "pow") and literal == -1 and dtype_of(t).kind in "iu":
                    continue  # below, as errors
                a = small(t)
                ufunc(name, lambda: reference(name, a, literal), a, literal)
                if name in ("subtract", "divide", "floor_divide", "left_shift", "less", "arctan2"):
                    ufunc(name, lambda: reference(name, literal, a), literal, a)


def select_cases():
    condition = np.array([True, False, True, False, False])
    for t, u in itertools.product(NUMPY_DTYPES, NUMPY_DTYPES):
        a, b = small(t), small(u)[::-1]
        ufunc("where", lambda: np.where(condition, a, b), condition, a, b)
    for t in NUMPY_DTYPES:
        a = values(t)
        c = a != 0
        ufunc("where", lambda: np.where(a, a, a[::-1]), a, a, a[::-1])
        ufunc("where", lambda: np.where(c, a, 3), c, a, 3)
        ufunc("where", lambda: np.where(c, 2.5, a), c, 2.5, a)
        low, high = np.sort(a)[[a.size // 3, 2 * a.size // 3]]
        low, high = np.full(1, low), np.full(1, high)
        ufunc("clip", lambda: np.clip(a, low, high), a, low, high)
        ufunc("clip", lambda: np.clip(a, high, low), a, high, low)
        ufunc("clip", lambda: np.clip(a, 1, 5), a, 1, 5)
        if dtype_of(t).kind in "fc":
            ufunc("clip", lambda: np.clip(a, -0.25, 2.5), a, -0.25, 2.5)
    for t, u in itertools.product(("int8", "uint16", "int64", "float32", "complex64"), ("int8", "uint16", "float64")):
        a, b = small(t), small(u)
        ufunc("clip", lambda: np.clip(a, b, b + b.dtype.type(1)), a, b, b + b.dtype.type(1))


def views(name):
    """Arrays of awkward layout."""
    big = random_values(name, 60)
    cube = big.reshape(3, 4, 5)
    yield big[:0]
    yield np.zeros((3, 0), big.dtype)
    yield big[:1]
    yield big[7:8].reshape(())
    yield big[::2]
    yield big[::-1]
    yield big[40:3:-7]
    yield cube
    yield cube.T
    yield cube.transpose(1, 0, 2)
    yield cube[::-1, 1:3, ::2]
    yield cube[:, ::-1, 1]
    yield np.broadcast_to(cube[0, :, :1], (2, 4, 3))
    yield np.asfortranarray(cube[1])


def layout_cases():
    for t in ("float64", "float32", "int32", "int8", "complex128", "bool", "uint64", "float16"):
        for v in views(t):
            for name in ("negative" if t != "bool" else "logical_not", "absolute", "isnan", "sqrt"):
                f = function(name)
                ufunc(name, lambda: f(v), v)
            for name in ("add", "multiply", "less", "maximum"):
                f = function(name)
                ufunc(name, lambda: f(v, v[::-1] if v.ndim else v), v, v[::-1] if v.ndim else v)
                ufunc(name, lambda: f(v, v[..., :1] if v.ndim else v), v, v[..., :1] if v.ndim else v)
            ufunc("divmod", lambda: np.divmod(v, v), v, v)
    # Broadcasting, and shapes that do not.
    x = rng.standard_normal((3, 1, 5))
    for shape in [(), (1,), (5,), (4, 5), (3, 4, 1), (2, 3, 4, 5), (1, 1, 1, 1), (4,), (2, 4, 5), (0,), (0, 5)]:
        y = rng.standard_normal(shape)
        ufunc("add", lambda: np.add(x, y), x, y)
        ufunc("greater", lambda: np.greater(y, x), y, x)
        c = y > 0
        ufunc("where", lambda: np.where(c, x, y), c, x, y)
    # Many dimensions.
    for ndim in (6, 7, 12, 31):
        a = rng.standard_normal((2, 1) * (ndim // 2) + (1,) * (ndim % 2)) if ndim < 20 else np.ones((1,) * ndim)
        ufunc("add", lambda: np.add(a, a.T), a, a.T)
    # Longer than any tile.
    for t in ("float32", "int16"):
        a = random_values(t, 5003)
        ufunc("add", lambda: np.add(a[::-1], a), a[::-1], a)
    # dtype=.
    for name, t, d in [("add", "int8", "int64"), ("add", "int8", "float32"), ("sqrt", "int8", "float64"),
                       ("sqrt", "float64", "float32"), ("add", "float64", "int32"), ("multiply", "bool", "int32"),
                       ("exp", "float32", "complex64"), ("divide", "int32", "float32"), ("divide", "int32", "int32"),
                       ("sin", "int32", "int32"), ("bitwise_and", "int8", "float64"), ("power", "uint8", "float64"),
                       ("negative", "bool", "int8"), ("floor", "float64", "float32"), ("absolute", "int8", "int16")]:
        f, a = function(name), small(t)
        args = (a,) if f.nin == 1 else (a, a)
        ufunc(name, lambda: reference(name, *args, dtype=d), *args, dtype=d)


def error_cases():
    for t in ("int8", "int64", "bool"):
        a = small(t)
        b = np.array([1, -1, 2, 0, 1]).astype(t if t != "bool" else "int8")
        ufunc("power", lambda: np.power(a, b), a, b)
    for t in ("int8", "int32", "int64"):
        a = small(t)
        ufunc("power", lambda: np.power(a, -1), a, -1)
    for name, args in [("add", (np.zeros(3), np.zeros(4))), ("where", (np.zeros((2, 3)), np.zeros(2), np.zeros(3)))]:
        ufunc(name, lambda: function(name)(*args), *args)


REDUCTIONS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max, "any": np.any, "all": np.all,
              "argmin": np.argmin, "argmax": np.argmax, "count_nonzero": np.count_nonzero, "mean": np.mean,
              "var": np.var, "std": np.std}


def reduction(name, a, axis=None, keepdims=False, dtype=None, ddof=None):
    options = {"axis": axis, "keepdims": keepdims}
    if dtype is not None:
        options["dtype"] = dtype
    if ddof is not None:
        options["ddof"] = ddof
    if axis is None:
        axes = [-1000]
    else:
        axes = [axis] if isinstance(axis, int) else list(axis)
    data = text(name) + pooled(a) + struct.pack("<B", len(axes) if axis != () else 0)
    data += struct.pack(f"<{len(axes)}q", *axes) + struct.pack("<B", keepdims) + code(dtype)
    data += struct.pack("<d", ddof or 0.0)

    def compute():
        """Sums and products in the next wider type: NumPy's own differ in accuracy between axes."""
        x = a.astype(np.float32) if a.dtype == ml_dtypes.bfloat16 else a
        out = np.asarray(REDUCTIONS[name](x, **options))
        if name in ("sum", "prod", "mean", "var", "std") and out.dtype.name in WIDER:
            x = x if dtype is None else x.astype(dtype)
            kind = WIDER[out.dtype.name]
            if x.dtype.kind == "c" and np.dtype(kind).kind == "f":
                kind = {np.float64: np.complex128, np.longdouble: np.clongdouble}[kind]
            wide = REDUCTIONS[name](x.astype(kind), **{k: v for k, v in options.items() if k != "dtype"})
            out = np.asarray(wide).astype(out.dtype)
        return out.astype(ml_dtypes.bfloat16) if a.dtype == ml_dtypes.bfloat16 and out.dtype == np.float32 else out
    add(Kind.REDUCTION, data + result(compute))


def reduction_cases():
    for name in REDUCTIONS:
        for t in DTYPES:
            v = values(t)
            finite = random_values(t, 60).reshape(3, 4, 5)
            if name == "prod" and dtype_of(t).kind in "fc":
                finite = (finite / np.abs(finite)).astype(finite.dtype)
            reduction(name, v)
            if t not in ("complex64", "complex128") or name not in ("prod",):
                reduction(name, v[:6])
            for a in (finite, finite.transpose(2, 0, 1)[::-1]):
                for axis in (None, 0, 1, 2, -1):
                    reduction(name, a, axis)
                if name not in ("argmin", "argmax"):
                    for axis in ((0, 1), (0, 2), (2, 1), (0, 1, 2), ()):
                        if axis == () and a is not finite:
                            continue
                        reduction(name, a, axis)
                reduction(name, a, 1, keepdims=True)
                reduction(name, a, None, keepdims=True)
            reduction(name, finite[:, :, ::-2], 2)
            reduction(name, np.asfortranarray(finite[0]), 0)
            reduction(name, finite[0, 0, 0].reshape(()))
            reduction(name, finite[:1, :1, :1], 0)
            reduction(name, finite[:, :0], 1)
            reduction(name, finite[:, :0], 0)
            reduction(name, finite[:, :0])
            if dtype_of(t).kind in "fc" or t == "bfloat16":
                holes = finite.copy()
                holes[1, 2, 3] = np.nan
                reduction(name, holes, 1)
                reduction(name, holes)
        for t in ("float64", "float32", "int32", "complex64", "float16"):
            long = random_values(t, 3 * 1709).reshape(3, 1709)
            if name != "prod":
                for axis in (None, 0, 1):
                    reduction(name, long, axis)
        # Ties and signed zeros.
        reduction(name, np.array([3.0, 1.0, 3.0, 1.0, np.nan, 0.0, np.nan]))
        reduction(name, np.array([0.0, -0.0, 0.0]))
        reduction(name, np.array([2, 7, 7, 2, 2], np.int16))
        # Errors.
        a = rng.standard_normal((3, 4))
        for axis in (2, -3, (0, 0), (0, 5)):
            if not (isinstance(axis, tuple) and name in ("argmin", "argmax")):
                reduction(name, a, axis)
    for name in ("sum", "prod", "mean"):
        for t, d in [("int8", "int8"), ("int8", "float32"), ("float64", "float32"), ("float32", "float64"),
                     ("bool", "uint8"), ("int32", "complex64"), ("float64", "int64"), ("uint8", "int16")]:
            a = small(t)
            reduction(name, a, 0, dtype=d)
    for name in ("var", "std"):
        for t in ("float64", "float32", "int16", "complex128", "bool", "float16"):
            a = random_values(t, 40).reshape(5, 8)
            if t == "int16":
                a = a // np.int16(300)
            for ddof in (0.0, 1.0, 1.5, 5.0, 9.0):
                reduction(name, a, 0, ddof=ddof)
        reduction(name, random_values("float32", 40), dtype="float64")
        reduction(name, random_values("int32", 40), dtype="float32")
        # Data far from zero, where a one-pass formula fails.
        reduction(name, 1e8 + rng.standard_normal(1000), ddof=1.0)


def cast_cases():
    for t, u in itertools.product(NUMPY_DTYPES, NUMPY_DTYPES):
        v = np.concatenate([values(t), random_values(t, 8)])
        to, kind = dtype_of(u), dtype_of(u).kind
        if kind in "iu" and dtype_of(t).kind in "fc":
            # Beyond the target's range C leaves the result open.
            info = np.iinfo(to)
            real = v.real.astype(np.float64)
            with np.errstate(invalid="ignore"):
                v = v[(real >= max(info.min, -2.0**62)) & (real <= min(info.max, 2.0**62))]
        data = pooled(v) + code(to)
        add(Kind.ASTYPE, data + result(lambda: v.astype(to)))
    for u in NUMPY_DTYPES:
        if dtype_of(u).kind in "iu":
            continue
        v, to = values("bfloat16"), dtype_of(u)
        add(Kind.ASTYPE, pooled(v) + code(to) + result(lambda: v.astype(to)))
        v, to = values(u), dtype_of("bfloat16")
        if u != "bool" and dtype_of(u).kind != "c":
            add(Kind.ASTYPE, pooled(v) + code(to) + result(lambda: v.astype(to)))
    v = values("float64")[::-3].reshape(2, -1)
    add(Kind.ASTYPE, pooled(v) + code(np.float32) + result(lambda: v.astype(np.float32)))


def promotion_cases():
    for t, u in itertools.product(NUMPY_DTYPES, NUMPY_DTYPES):
        a, b = dtype_of(t), dtype_of(u)
        add(Kind.PROMOTE, code(a) + code(b) + code(np.promote_types(a, b)))
        for level, casting in enumerate(("no", "equiv", "safe", "same_kind", "unsafe")):
            add(Kind.CAN_CAST, code(a) + code(b) + struct.pack("<BB", level, np.can_cast(a, b, casting)))
    for t in NUMPY_DTYPES:
        for literal in (True, 1, 1.0, 1j):
            add(Kind.RESULT_TYPE, code(dtype_of(t)) + argument(literal)
                   + code(np.result_type(dtype_of(t), literal)))


def print_cases():
    def show(a):
        add(Kind.PRINT, pooled(a) + text(str(a)) + text(repr(a)))

    for t in NUMPY_DTYPES:
        v = values(t)
        dtype = dtype_of(t)
        show(v)
        for x in v:
            show(np.array(x))
            show(np.array([x]))
        for x in random_values(t, 12):
            show(np.array(x))
            show(np.array([x]))
        for shape in [(0,), (0, 3), (3, 0), (2, 0, 2), (1, 1), (1, 1, 1)]:
            show(np.ones(shape, dtype))
        for count in (2, 5, 17, 40):
            show(random_values(t, count))
        r = random_values(t, 2400)
        show(r[:60].reshape(3, 4, 5))
        show(r[:60].reshape(3, 4, 5).T)
        show(r[:60].reshape(2, 2, 3, 5)[::-1])
        show(r[:24].reshape(2, 12))
        show(r[:1000])
        show(r[:1001])
        show(r.reshape(40, 60))
        show(r.reshape(4, 600))
        show(r.reshape(600, 4))
        show(r.reshape(8, 20, 15))
        show(r.reshape(2, 8, 6, 25)[:, ::-1])
        show(np.arange(12).astype(dtype).reshape(3, 4))
        if dtype.kind in "fc":
            for scale in (1e-6, 1e-5, 1e-3, 0.5, 10.0, 999.0, 1e4, 1e6, 1e7, 1e9, 1e15, 1e17):
                with np.errstate(all="ignore"):
                    show((r[:7] * scale).astype(dtype))
                    show((np.arange(5) * scale).astype(dtype))
                    show(np.array(scale).astype(dtype))
                    show(np.array([scale, 0, np.nan]).astype(dtype))
            show(np.array([1, np.nan, -np.inf]).astype(dtype))
            show(np.array([np.nan, np.inf]).astype(dtype))
            show(np.array([np.nan]).astype(dtype))
            show(np.array([-np.inf]).astype(dtype))
            show(np.array([1e-5, np.inf, -np.inf]).astype(dtype))
            show(np.linspace(0, 1, 11).astype(dtype))
            show(np.round(r[:30], 2))
    show(np.float32([0.1, 1 / 3, 16777216, 123456.7]))
    show(np.array([0.1 + 0.2, 1 / 3, 2 / 3, 1e16, 123456789.123456789]))
    show(np.array([1e300, 1e-300]))
    show(np.array([5e-324, 1.7976931348623157e308]))
    show(np.array([0.15, 0.25, 0.35, 2.675, 1.005, 0.123456785, 0.999999999, 9.999999995]))
    show(np.array([9.999999995e10, 1.0]))
    show(np.array(np.exp2(np.arange(-24, 16, dtype=np.float64))).astype(np.float16))
    show(np.exp2(np.arange(-80, 80, 3, dtype=np.float64)))
    show(np.exp2(np.arange(-100, 100, 3, dtype=np.float32)))
    show(np.array([[True, False], [False, True]]))


def index_cases():
    """A basic index as items: 0 int, 1 slice with three optional bounds, 2 newaxis, 3 ellipsis."""
    def item(i):
        if i is None:
            return struct.pack("<B", 2)
        if i is Ellipsis:
            return struct.pack("<B", 3)
        if isinstance(i, slice):
            out = struct.pack("<B", 1)
            for bound in (i.start, i.stop, i.step):
                out += struct.pack("<Bq", bound is not None, bound or 0)
            return out
        return struct.pack("<Bq", 0, i)

    def index(a, items):
        data = pooled(a) + struct.pack("<B", len(items)) + b"".join(item(i) for i in items)
        add(Kind.INDEX, data + result(lambda: np.asarray(a[items])))

    a = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    line = np.arange(7, dtype=np.int16)
    bounds = [None, 0, 1, 3, 6, 7, 8, 100, -1, -3, -7, -8, -100]
    for start, stop, step in itertools.product(bounds, bounds, [None, 1, 2, 3, 7, 100, -1, -2, -3, -100]):
        if rng.random() < 0.35:
            index(line, (slice(start, stop, step),))
    s = slice
    for items in [(), (0,), (-1,), (3,), (-4,), (0, 0, 0), (0, 0, 0, 0), (Ellipsis,), (Ellipsis, Ellipsis), (None,),
                  (None, None, 0), (Ellipsis, 0), (0, Ellipsis), (Ellipsis, 0, None), (s(None), 2), (s(None), 2, s(None)),
                  (s(1, 2), None, Ellipsis, -1), (s(None, None, -1), Ellipsis, s(None, None, -2)), (s(0, 0),),
                  (s(5, 2), 1), (s(None), s(None), s(None), s(None)), (s(None, None, 0),), (2, s(None, None, 3), None, 4),
                  (Ellipsis, None), (1, 1, Ellipsis), (1, 1, 1, Ellipsis), (1, 1, 1, 1, Ellipsis)]:
        index(a, items)
    index(np.array(5.0), ())
    index(np.array(5.0), (Ellipsis, None))
    index(np.array(5.0), (0,))
    index(np.zeros((0, 3)), (s(None), 1))
    index(np.zeros((0, 3)), (0,))


def matmul_cases():
    shapes = [((3, 4), (4, 5)), ((1, 1), (1, 1)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)),
              ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((3, 4), (3, 4)),
              ((), (3,)), ((3,), (4,)), ((2, 3, 4), (3, 4, 5)), ((2, 3, 4), (4,)), ((17, 33), (33, 9))]
    for t in NUMPY_DTYPES:
        for s, u in shapes:
            a, b = random_values(t, int(np.prod(s))).reshape(s), random_values(t, int(np.prod(u))).reshape(u)
            data = pooled(a) + pooled(b)
            add(Kind.MATMUL, data + result(lambda: np.matmul(a, b)))
    for t, u in [("float32", "float64"), ("int8", "float32"), ("bool", "int64"), ("float64", "complex64"),
                 ("int64", "uint64")]:
        a, b = small(t).reshape(5, 1), small(u).reshape(1, 5)
        add(Kind.MATMUL, pooled(a) + pooled(b) + result(lambda: np.matmul(a, b)))
    for t in ("float64", "complex64", "int32"):
        a, b = random_values(t, 60).reshape(10, 6), random_values(t, 60).reshape(10, 6)
        for left, right in [(a.T, b), (a[::2].T, b[1::2]), (a[::-1].T, b), (a[:, ::-1], b.T), (a[:, ::2], b[::2, 3:].T),
                            (np.broadcast_to(a[:1], a.shape), b.T)]:
            data = pooled(left) + pooled(right)
            add(Kind.MATMUL, data + result(lambda: np.matmul(left, right)))


def records():
    """{chapter: its calls}."""
    if not any(found.values()):
        for part in [unary_cases, binary_cases, select_cases, layout_cases, error_cases, reduction_cases, cast_cases,
                     promotion_cases, print_cases, index_cases, matmul_cases]:
            part()
    return found
