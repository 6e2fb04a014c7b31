#!/usr/bin/env python3
"""Random expressions and what NumPy 2 answers, as a chapter of its own.

usage: scripts/oracle/fuzz.py SEED COUNT -o FILE [--only TEXT ...]
       QUARRY_ORACLE_FILE=FILE build/bin/test_apps --gtest_filter='*AnswersAsNumPy/cpu*'

A random function of the tables gets random dtypes, shapes (0-d, empty, of size 1, broadcast), memory layouts (strided,
backwards, Fortran's, broadcast) and keyword values, right ones most of the time. Each difference is a bug: it is mended,
and a case of it goes to the chapter of the function in cases/. What differs by decision is left out here (see DECIDED)
and explained in that chapter. --only keeps the generators whose name contains a text.
"""
import argparse
import random
import re
import sys

import numpy as np

from expressions import NUMPY_DTYPES, case, evaluate, fortran, namespace, record, reversed_, strided
from format import encode, save

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
REAL = ["bool"] + INTS + FLOATS
# Differences by decision; see the chapters.
DECIDED = re.compile(r"i0\(|(arctan2|atan2|power|pow)\.(reduce|accumulate)|ldexp\.(reduce|accumulate)|lcm\.(reduce|accumulate)")


def decided(one):
    """Whether quarry differs from NumPy on purpose: half precisions have linear algebra, literals take the dtype of the
    choices beside them in select()."""
    dtypes = {getattr(value, "dtype", np.dtype(object)) for value in one.inputs.values()}
    if DECIDED.search(one.expression):
        return True
    if "linalg." in one.expression and np.dtype("float16") in dtypes:
        return True
    return one.expression.startswith("select(") and any(d.kind == "u" for d in dtypes)


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.np = np.random.default_rng(seed)
        self.inputs = {}

    # ---- values -----------------------------------------------------------------------------------------------------
    def chance(self, p):
        return self.r.random() < p

    def of(self, *choices):
        return self.r.choice(choices)

    def dtype(self, among=None):
        return self.r.choice(among or NUMPY_DTYPES)

    def shape(self, low=0, high=4, most=5):
        ndim = self.r.choice([d for d in (0, 1, 1, 1, 2, 2, 2, 3, 3, 4) if low <= d <= high])
        extents = [0, 1, 1, 2, 3, 3, 4, most] if self.chance(0.15) else [1, 2, 2, 3, 3, 4, most]
        return tuple(self.r.choice(extents) for _ in range(ndim))

    def values(self, dtype, shape, special=0.3, positive=False):
        count = int(np.prod(shape, dtype=np.int64))
        kind = np.dtype(dtype).kind
        if kind == "b":
            return (self.np.random(count) < 0.5).reshape(shape)
        if kind in "iu":
            info = np.iinfo(dtype)
            a = self.np.integers(max(info.min, -5 if self.chance(0.5) else -100), min(info.max, 100), count,
                                 endpoint=True).astype(dtype)
            extremes = [info.max, info.min, 0, 1]
        else:
            a = np.round(self.np.standard_normal(count) * self.r.choice([1, 8, 1000]), 2)
            if kind == "c":
                a = a + 1j * np.round(self.np.standard_normal(count) * 8, 2)
            a = a.astype(dtype)
            extremes = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
        if count and self.chance(special):
            for _ in range(self.r.randint(1, 3)):
                a[self.r.randrange(count)] = self.r.choice(extremes)
        if positive:
            a = np.abs(a)
        return a.reshape(shape)

    def layout(self, a):
        if a.ndim and self.chance(0.5):
            choice = self.r.randrange(5)
            if choice == 0:
                return strided(a)
            if choice == 1:
                return reversed_(a)
            if choice == 2:
                return fortran(a)
            if choice == 3 and a.size:
                axes = list(range(a.ndim))
                self.r.shuffle(axes)
                back = np.argsort(axes)
                return np.ascontiguousarray(a.transpose(axes)).transpose(back)
            if choice == 4 and a.shape[0] > 0:
                return np.broadcast_to(np.ascontiguousarray(a[:1]), a.shape)
        return a

    def array(self, dtype=None, shape=None, among=None, **options):
        """The name of a new input."""
        low, high = options.pop("low", 0), options.pop("high", 4)
        shape = self.shape(low, high) if shape is None else shape
        return self.named(self.layout(self.values(dtype or self.dtype(among), shape, **options)))

    def named(self, a):
        name = "abcdefgh"[len(self.inputs)]
        self.inputs[name] = a
        return name

    def writable(self, dtype=None, shape=None, **options):
        shape = self.shape() if shape is None else shape
        a = self.values(dtype or self.dtype(), shape, **options)
        a = self.r.choice([lambda a: a, lambda a: a, strided, reversed_, fortran])(a) if a.ndim and a.size else a
        return self.named(a)

    def get(self, name):
        return self.inputs[name]

    def broadcastable(self, shape):
        shape = [1 if self.chance(0.25) else n for n in shape]
        shape = shape[self.r.randint(0, len(shape)) :] if self.chance(0.4) else shape
        if self.chance(0.1):
            shape = [self.r.randint(1, 3)] + shape
        if shape and self.chance(0.04):
            shape[self.r.randrange(len(shape))] += 1
        return tuple(shape)

    def scalar(self):
        return self.r.choice(["True", "0", "1", "2", "3", "-1", "-7", "100", "127", "200", "255", "256", "300", "-200", "65536", "-40000",
                              "2**31", "2**40", "2**63", "2.0", "0.5", "-1.5", "1e10", "1e39", "1j", "(2-1j)", "float32(1.5)", "int8(3)",
                              "uint64(7)", "float64(2.5)", "nan", "inf", "[1, 2]", "(0.5,)"])

    def axis(self, ndim, wrong=0.05):
        if ndim == 0 or self.chance(wrong):
            return self.r.randint(-ndim - 2, ndim + 1)
        return self.r.randint(-ndim, ndim - 1)

    def axes(self, ndim):
        if self.chance(0.25):
            return None
        if self.chance(0.5) or ndim == 0:
            return self.axis(ndim)
        count = self.r.randint(0, ndim)
        axes = self.r.sample(range(ndim), count)
        axes = [a - ndim if self.chance(0.3) else a for a in axes]
        if axes and self.chance(0.04):
            axes[0] = axes[-1] if len(axes) > 1 else ndim
        return tuple(axes)

    def options(self, **choices):
        """Keyword arguments, each given with probability 0.35. Values are texts, or callables that make one."""
        text = ""
        for name, make in choices.items():
            if self.chance(0.35):
                value = make() if callable(make) else self.r.choice(make)
                if value is not None:
                    text += f", {name}={value}"
        return text

    def bool_text(self):
        return self.of("True", "False")

    def dtype_text(self):
        return self.dtype()


TESTS = {}


def fuzz(weight=1):
    def register(f):
        TESTS[f.__name__] = (f, weight)
        return f
    return register


UNARY = sorted(n for n in dir(np) if isinstance(getattr(np, n), np.ufunc) and getattr(np, n).nin == 1 and getattr(np, n).nout == 1
               and n not in ("isnat",))
BINARY = sorted(n for n in dir(np) if isinstance(getattr(np, n), np.ufunc) and getattr(np, n).nin == 2 and getattr(np, n).nout == 1
                and getattr(np, n).signature is None)
UNARY = [n for n in UNARY if n not in ("str_len", "isalpha") and not n.startswith("_")]
CASTING = ["'no'", "'equiv'", "'safe'", "'same_kind'", "'unsafe'"]


def ufunc_options(g, shape, exact=True):
    text = g.options(dtype=g.dtype_text, casting=CASTING)
    out, masked = True, g.chance(0.15)
    if out and (masked or g.chance(0.2)):
        # Roundings of a narrower type show in a wider one.
        name = g.writable(shape=shape, dtype=None if exact else g.of("float64", "complex128", "int32"))
        if not exact:
            text = text.replace("casting='unsafe'", "casting='safe'")
        text += f", out={name}"
    if masked and out:
        text += f", where={g.array('bool', g.broadcastable(shape))}"
    return text


BOUND = {"ulp": 8, "atol": 1e-300}
EXACT = set("""absolute abs negative positive fabs sign square sqrt rint floor ceil trunc conjugate conj logical_not isfinite isinf isnan signbit
    invert bitwise_not bitwise_invert bitwise_count add subtract multiply divide true_divide floor_divide remainder mod fmod maximum minimum fmax
    fmin heaviside copysign nextafter ldexp equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor left_shift right_shift bitwise_left_shift bitwise_right_shift gcd lcm""".split())


@fuzz(4)
def unary(g):
    name = g.r.choice(UNARY)
    a = g.array()
    return f"{name}({a}{ufunc_options(g, g.get(a).shape, name in EXACT)})", BOUND if name in EXACT else {"ulp": 8, "norm": 1e9 if "out=" in name else 0}


@fuzz(6)
def binary(g):
    name = g.r.choice(BINARY)
    a = g.array()
    bounds = {"ulp": 256, "atol": 1e-300} if "pow" in name else BOUND
    if "pow" in name:
        g.inputs[a] = g.layout(g.values(g.dtype(REAL), g.get(a).shape))
    exact = name in EXACT
    if g.chance(0.3):
        b = g.scalar()
        pair = [a, b] if g.chance(0.6) else [b, a]
        return f"{name}({pair[0]}, {pair[1]}{ufunc_options(g, g.get(a).shape, exact)})", bounds
    b = g.array(shape=g.broadcastable(g.get(a).shape))
    try:
        shape = np.broadcast_shapes(g.get(a).shape, g.get(b).shape)
    except ValueError:
        shape = g.get(a).shape
    return f"{name}({a}, {b}{ufunc_options(g, shape, exact)})", bounds


@fuzz(3)
def operators(g):
    a = g.array()
    op = g.of("+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", ">", ">=", "&", "|", "^", "<<", ">>")
    b = g.scalar() if g.chance(0.6) else g.array(shape=g.broadcastable(g.get(a).shape))
    if op == "**" and (np.iscomplexobj(g.get(a)) or "j" in str(b) or (b in g.inputs and np.iscomplexobj(g.get(b)))):
        op = "*"  # NumPy's complex powers are inexact
    return (f"{a} {op} {b}" if g.chance(0.6) else f"{b} {op} {a}"), {"ulp": 256 if op == "**" else 8, "atol": 1e-300}


@fuzz(3)
def ufunc_methods(g):
    name = g.r.choice(BINARY)
    method = g.of("reduce", "accumulate", "outer", "reduceat", "at")
    bound = {"ulp": 64, "norm": 16, "atol": 1e-30}
    special = {"special": 0.05}
    if method == "outer":
        return f"{name}.outer({g.array(shape=g.shape(0, 2))}, {g.array(shape=g.shape(0, 2))})", {"ulp": 256, "atol": 1e-300}
    a = g.writable(**special) if method == "at" else g.array(**special)
    shape = g.get(a).shape
    n = shape[0] if shape else 1
    index = lambda size, count: g.named(g.np.integers(0 if g.chance(0.5) else -size, max(size, 1), count))  # noqa: E731
    if method == "reduce":
        text = g.options(axis=lambda: g.axes(len(shape)), dtype=g.dtype_text, keepdims=g.bool_text, initial=["0", "1", "2", "None", "1.5"])
        if g.chance(0.15):
            text += f", where={g.array('bool', g.broadcastable(shape))}"
        return f"{name}.reduce({a}{text})", bound
    if method == "accumulate":
        return f"{name}.accumulate({a}{g.options(axis=lambda: g.axis(len(shape)), dtype=g.dtype_text)})", bound
    if method == "reduceat":
        axis = g.axis(len(shape), 0.02)
        size = shape[axis] if -len(shape) <= axis < len(shape) else 1
        indices = g.named(g.np.integers(0, max(size, 1), g.r.randint(0, 4)))
        return f"{name}.reduceat({a}, {indices}, axis={axis})", bound
    values = g.array(shape=g.of((), (3,)), **special)
    return f"({name}.at({a}, {index(n, 3)}, {values}), {a})", bound


REDUCTIONS = ["sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "argmin", "argmax", "count_nonzero", "ptp", "median",
              "nansum", "nanprod", "nanmin", "nanmax", "nanmean", "nanvar", "nanstd", "nanmedian", "nanargmin", "nanargmax",
              "cumsum", "cumprod", "nancumsum", "nancumprod", "average", "amax", "amin"]
METHODS = ["sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "argmin", "argmax", "cumsum", "cumprod"]


@fuzz(6)
def reductions(g):
    name = g.r.choice(REDUCTIONS)
    a = g.array(special=0.15)
    shape = g.get(a).shape
    scan = "cum" in name
    one = scan or "arg" in name
    text = g.options(axis=lambda: g.axis(len(shape)) if one else g.axes(len(shape)))
    if not scan:
        text += g.options(keepdims=g.bool_text)
    if name in ("sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar", "nanstd") or scan:
        text += g.options(dtype=g.dtype_text) if g.chance(0.5) else ""
    if name in ("var", "std", "nanvar", "nanstd"):
        text += g.options(ddof=["1", "2", "0.5", "-1"])
    if name in ("sum", "prod", "min", "max", "nansum", "nanprod", "nanmin", "nanmax"):
        text += g.options(initial=["0", "1", "-5", "2.5", "300"])
    if not one and name not in ("median", "nanmedian", "ptp", "count_nonzero", "average") and g.chance(0.2):
        text += f", where={g.array('bool', g.broadcastable(shape))}"
    if name == "average" and g.chance(0.5):
        text += f", weights={g.array(shape=shape, positive=True, special=0)}" + g.options(returned=g.bool_text)
    x = g.get(a)
    if name in ("var", "std", "nanvar", "nanstd"):
        if x.dtype.kind == "c" or (x.size and x.ndim and (x == x.flat[0]).all()):
            g.inputs[a] = x.real.astype("float64") * np.arange(1, x.size + 1).reshape(x.shape)
        text = re.sub(r", dtype=(bool|u?int\d+|complex\d+)", "", text)  # decided
    call = f"{name}({a}{text})"
    if name in METHODS and g.chance(0.3):
        call = f"{a}.{name}({text[2:]})"
    return call, {"ulp": 64, "norm": 64, "atol": 1e-300}


@fuzz(2)
def quantiles(g):
    a = g.array(among=REAL, special=0.1)
    name = g.of("quantile", "percentile", "nanquantile", "nanpercentile")
    scale = 100 if "percent" in name else 1
    q = g.of("0.5", "[0.25, 0.75]", "0", "1", "[[0.1, 0.9]]", "1.5", "[]", "float32(0.5)")
    if scale == 100:
        q = g.of("50", "[25, 75]", "0", "100", "[[10, 90.5]]", "150", "[]", "float32(50)", "33.3")
    methods = ["inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear",
               "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest"]
    text = g.options(axis=lambda: g.axes(g.get(a).ndim) or None, method=[repr(m) for m in methods], keepdims=g.bool_text)
    return f"{name}({a}, {q}{text})", {"ulp": 8, "norm": 8}


@fuzz(3)
def sorting(g):
    a = g.array()
    n = g.get(a).ndim
    name = g.of("sort", "argsort", "partition", "argpartition", "unique", "searchsorted", "lexsort", "flip", "sort_complex", "trim_zeros",
                "digitize", "isin", "union1d", "intersect1d", "setdiff1d", "setxor1d", "bincount", "method")
    if name == "sort":
        return f"sort({a}{g.options(axis=lambda: g.of(None, g.axis(n)), kind=['None', repr('stable'), repr('quicksort')])})", {}
    if name == "argsort":
        return f"argsort({a}, kind='stable'{g.options(axis=lambda: g.axis(n))})", {}
    if name == "method":
        return f"({a}.copy().sort(), {a}.argsort(kind='stable'))", {}
    if name in ("partition", "argpartition"):
        axis = g.axis(n, 0.02)
        size = g.get(a).shape[axis] if -n <= axis < n else 1
        kth = g.r.randint(-size, max(size - 1, 0))
        return f"sort({name}({a}, {kth}, axis={axis}), axis={axis})", {}
    if name == "unique":
        return f"unique({a}{g.options(return_index=g.bool_text, return_inverse=g.bool_text, return_counts=g.bool_text, equal_nan=g.bool_text, axis=lambda: g.axis(n))})", {}
    if name == "searchsorted":
        b = g.named(np.sort(g.values(g.dtype(), (5,), special=0)))
        return f"searchsorted({b}, {a}{g.options(side=[repr('left'), repr('right')])})", {}
    if name == "lexsort":
        return f"lexsort({a}{g.options(axis=lambda: g.axis(n))})", {}
    if name == "flip":
        return f"flip({a}{g.options(axis=lambda: g.axes(n))})", {}
    if name in ("sort_complex", "trim_zeros"):
        return f"{name}({a})", {}
    if name == "digitize":
        b = g.named(np.sort(g.values(g.dtype(REAL), (4,), special=0)))
        return f"digitize({a}, {b}{g.options(right=g.bool_text)})", {}
    if name == "bincount":
        a = g.array(among=INTS + ["bool", "float64"], low=1, high=1, positive=g.chance(0.9), special=0)
        return f"bincount({a}{g.options(minlength=['0', '3', '-1', '9'], weights=lambda: g.array(shape=g.get(a).shape))})", {"ulp": 8, "norm": 8}
    b = g.array(special=0.1)
    extra = g.options(assume_unique=["False"], invert=g.bool_text) if name == "isin" else ""
    return f"{name}({a}, {b}{extra})", {}


def index_text(g, shape):
    parts, used_ellipsis = [], False
    arrays = g.chance(0.5)
    fancy = g.of((), (2,), (3,), (2, 2))
    axis = 0
    while axis < len(shape) and g.chance(0.85):
        n = shape[axis]
        kind = g.r.randrange(9)
        if kind == 0:
            parts.append(str(g.r.randint(-n, n - 1) if n and not g.chance(0.05) else n + g.r.randint(0, 1)))
        elif kind in (1, 2):
            bound = lambda: g.of("", str(g.r.randint(-n - 1, n + 1)))  # noqa: E731
            parts.append(f"{bound()}:{bound()}" + g.of("", ":2", ":-1", ":-2", ":3"))
        elif kind == 3:
            parts.append("None")
            continue
        elif kind == 4 and not used_ellipsis:
            parts.append("...")
            used_ellipsis = True
            axis = max(axis, len(shape) - g.r.randint(0, 2)) - 1
        elif kind in (5, 6) and arrays and n:
            parts.append(g.named(g.np.integers(-n, n, g.broadcastable(fancy)).astype(g.dtype(["int64", "int32", "int8", "uint8"]
                                                                                      ) if not g.chance(0.5) else "int64") % max(n, 1)))
        elif kind == 7 and arrays:
            parts.append(g.named(g.values("bool", (n + (1 if g.chance(0.03) else 0),))))
        elif kind == 8 and arrays and n:
            parts.append(str([g.r.randint(-n, n - 1) for _ in range(2)]))
        else:
            parts.append(":")
        axis += 1
        if len(g.inputs) > 5:
            arrays = False
    return ", ".join(parts) or "..."


@fuzz(5)
def indexing(g):
    a = g.array()
    return f"{a}[{index_text(g, g.get(a).shape)}]", {}


@fuzz(4)
def assignment(g):
    a = g.writable()
    index = index_text(g, g.get(a).shape)
    try:
        shape = eval(f"{a}[{index}]", {**g.inputs}).shape
    except Exception:  # noqa: BLE001
        shape = ()
    value = g.scalar() if g.chance(0.5) else g.array(shape=g.broadcastable(shape))
    index = f"({index},)" if index else "..."
    index = index.replace(":,", "::,").replace(" :)", " ::)")
    slices = ", ".join(slice_text(part) for part in split(index[1:-2]))
    return f"({a}.__setitem__(({slices},), {value}), {a})", {}


def split(text):
    parts, depth, part = [], 0, ""
    for c in text:
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return parts + [part.strip()]


def slice_text(part):
    if ":" not in part:
        return part
    bounds = [p.strip() or "None" for p in part.split(":")]
    return f"slice({', '.join((bounds + ['None', 'None'])[:3])})"


@fuzz(6)
def manipulation(g):
    a = g.array()
    x = g.get(a)
    n = x.ndim
    kind = g.r.randrange(26)
    axis = lambda: g.axis(n)  # noqa: E731
    if kind == 0:
        size = x.size
        shape = [g.r.choice([d for d in range(1, size + 1) if size % d == 0] or [1])]
        shape += [-1] if g.chance(0.5) else [size // shape[0]]
        if g.chance(0.05):
            shape[0] += 1
        return f"reshape({a}, {tuple(shape)}{g.options(order=[repr(o) for o in 'CFA'])})", {}
    if kind == 1:
        return f"transpose({a}{g.options(axes=lambda: tuple(g.r.sample(range(n), n)))})", {}
    if kind == 2:
        return f"moveaxis({a}, {axis()}, {axis()})", {}
    if kind == 3:
        return f"swapaxes({a}, {axis()}, {axis()})", {}
    if kind == 4:
        return f"roll({a}, {g.of('1', '-2', '(1, 2)', '0', '100', '[1]')}{g.options(axis=lambda: g.axes(n))})", {}
    if kind == 5:
        return f"repeat({a}, {g.of('2', '0', '[2]', '[1, 2]', '-1', '[1, 0, 3]')}{g.options(axis=axis)})", {}
    if kind == 6:
        return f"tile({a}, {g.of('2', '(2, 1)', '(1, 2, 2)', '0', '()', '(3,)')})", {}
    if kind == 7:
        return f"expand_dims({a}, {g.of(axis(), (0, -1), (0, 0), 9)})", {}
    if kind == 8:
        return f"squeeze({a}{g.options(axis=lambda: g.axes(n))})", {}
    if kind == 9:
        b = g.array(shape=x.shape if g.chance(0.8) else None)
        text = g.options(axis=lambda: g.of(None, axis()), dtype=g.dtype_text, casting=CASTING)
        return f"{g.of('concatenate', 'stack', 'concat')}([{a}, {b}]{text})", {}
    if kind == 10:
        b = g.array(shape=x.shape if g.chance(0.8) else None)
        return f"{g.of('vstack', 'hstack', 'dstack', 'column_stack')}([{a}, {b}])", {}
    if kind == 11:
        return f"{g.of('split', 'array_split')}({a}, {g.of('2', '3', '[1, 2]', '[0]', '1', '0', '[3, 1]')}{g.options(axis=axis)})", {}
    if kind == 12:
        return f"rot90({a}{g.options(k=['1', '2', '3', '-1', '5'], axes=lambda: (axis(), axis()))})", {}
    if kind == 13:
        mode = g.of("constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric", "wrap", "empty")
        width = g.of("1", "(1, 2)", "((1, 2),)", str([(g.r.randint(0, 3), g.r.randint(0, 7)) for _ in range(n)]), "0", "-1", "2.5")
        text = f"pad({a}, {width}, '{mode}'"
        if mode == "constant":
            text += g.options(constant_values=["1", "(2, 3)", "2.5", "300"])
        if mode in ("maximum", "mean", "median", "minimum"):
            text += g.options(stat_length=["1", "2", "(1, 3)", "9", "0"])
        if mode == "linear_ramp":
            text += g.options(end_values=["1", "(2, 3)", "-2"])
        if mode in ("reflect", "symmetric"):
            text += g.options(reflect_type=["'odd'", "'even'"])
        return (f"{text}).shape" if mode == "empty" else f"{text})"), {"ulp": 4, "norm": 2}
    if kind == 14:
        return f"insert({a}, {g.of('0', '1', '[0, 1]', '-1', '9', 'slice(0, 2)', '[0]')}, {g.scalar()}{g.options(axis=axis)})", {}
    if kind == 15:
        return f"delete({a}, {g.of('0', '1', '[0, 1]', '-1', '9', 'slice(0, 2)', '[]', '[True, False]')}{g.options(axis=axis)})", {}
    if kind == 16:
        b = g.array(shape=x.shape if g.chance(0.7) else None)
        return f"append({a}, {b}{g.options(axis=axis)})", {}
    if kind == 17:
        return f"{g.of('diag', 'diagflat', 'tril', 'triu')}({a}{g.options(k=['1', '-1', '2', '-3'])})", {}
    if kind == 18:
        return f"diagonal({a}{g.options(offset=['1', '-1', '5'], axis1=axis, axis2=axis)})", {}
    if kind == 19:
        return f"trace({a}{g.options(offset=['1', '-1'], axis1=axis, axis2=axis, dtype=g.dtype_text)})", {"norm": 16}
    if kind == 20:
        return f"broadcast_to({a}, {g.broadcastable((2,) + x.shape)})", {}
    if kind == 21:
        window = tuple(g.r.randint(1, max(e, 1)) for e in x.shape)
        return f"sliding_window_view({a}, {window})", {}
    if kind == 22:
        return f"ravel({a}{g.options(order=[repr(o) for o in 'CFAK'])})", {}
    if kind == 23:
        return f"resize({a}, {g.shape()})", {}
    if kind == 24:
        return f"{g.of('atleast_1d', 'atleast_2d', 'atleast_3d', 'fliplr', 'flipud', 'matrix_transpose', 'unstack')}({a})", {}
    return f"rollaxis({a}, {axis()}{g.options(start=axis)})", {}


@fuzz(3)
def gathering(g):
    a = g.array()
    x = g.get(a)
    axis = g.axis(x.ndim, 0.02)
    size = x.shape[axis] if -x.ndim <= axis < x.ndim else 1
    kind = g.r.randrange(9)
    count = g.shape(0, 2)
    ints = lambda low, high, shape: g.named(g.np.integers(low, max(high, low + 1), shape).astype(g.dtype(["int64", "int64", "int32", "uint8"])))  # noqa: E731
    mode = g.options(mode=["'raise'", "'wrap'", "'clip'"])
    if kind == 0:
        return f"take({a}, {ints(0, size + (2 if mode or g.chance(0.1) else 0), count)}{g.options(axis=lambda: axis)}{mode})", {}
    if kind == 1:
        shape = list(x.shape)
        if shape and -x.ndim <= axis < x.ndim:
            shape[axis] = g.r.randint(0, 4)
        return f"take_along_axis({a}, {ints(0, size, shape)}, {axis})", {}
    if kind == 2:
        b = g.writable()
        y = g.get(b)
        return f"(put({b}, {ints(0, y.size + (2 if mode else 0), 3)}, {g.scalar()}{mode}), {b})", {}
    if kind == 3:
        b = g.writable()
        m = g.array("bool", g.get(b).shape)
        return f"({g.of('place', 'putmask')}({b}, {m}, {g.array(low=1, high=1)}), {b})", {}
    if kind == 4:
        return f"compress({g.array('bool', (g.r.randint(0, 4),))}, {a}{g.options(axis=lambda: axis)})", {}
    if kind == 5:
        return f"{g.of('nonzero', 'argwhere', 'flatnonzero')}({a})", {}
    if kind == 6:
        b, c = g.array(shape=g.broadcastable(x.shape)), g.array(shape=g.broadcastable(x.shape))
        return f"where({a}, {b}, {g.scalar() if g.chance(0.3) else c})", {}
    if kind == 7:
        b, c = g.array(shape=x.shape), g.array(shape=g.broadcastable(x.shape))
        i = ints(0, 2 if not mode else 5, x.shape)
        return f"choose({i}, [{b}, {c}]{mode})", {}
    b = g.writable()
    return f"(copyto({b}, {g.scalar() if g.chance(0.4) else g.array(shape=g.broadcastable(g.get(b).shape))}{g.options(casting=CASTING)}), {b})", {}


@fuzz(3)
def products(g):
    kind = g.r.randrange(9)
    m, n, k = (g.r.choice([0, 1, 2, 3, 3, 4]) for _ in range(3))
    among = None if g.chance(0.5) else [g.dtype()]
    bound = {"ulp": 16, "norm": 32}
    arr = lambda *shape: g.array(shape=shape, among=among, special=0)  # noqa: E731
    if kind == 0:
        lead = g.shape(0, 2)
        return f"matmul({arr(*lead, m, n)}, {arr(*g.broadcastable(lead), n, k)})", bound
    if kind == 1:
        return f"{g.of('dot', 'inner', 'outer', 'vdot', 'kron')}({arr(n)}, {arr(n)})", bound
    if kind == 2:
        return f"dot({arr(m, n)}, {arr(n, k)})", bound
    if kind == 3:
        return f"tensordot({arr(m, n, k)}, {arr(n, k, 2)}, axes={g.of('2', '([1, 2], [0, 1])', '([1], [0])', '1')})", bound
    if kind == 4:
        sub = g.of("ij,jk->ik", "ij,jk", "ij,jk->", "ij,jk->ki", "ij,jk->ijk", "ij,jk->j", "...j,jk->...k")
        return f"einsum('{sub}', {arr(m, n)}, {arr(n, k)}{g.options(optimize=['True', 'False'])})", bound
    if kind == 5:
        sub = g.of("ii", "ii->i", "ij->ji", "ij->", "ij->j", "...i->...", "ij")
        return f"einsum('{sub}', {arr(n, n)}{g.options(dtype=g.dtype_text, casting=CASTING, order=[repr('C'), repr('F')])})", bound
    if kind == 6:
        a, b = g.r.randint(0 if g.chance(0.05) else 1, 7), g.r.randint(1, 7)
        return f"{g.of('convolve', 'correlate')}({arr(a)}, {arr(b)}{g.options(mode=[repr(m) for m in ('full', 'same', 'valid')])})", bound
    if kind == 7:
        return f"cross({arr(m, 3)}, {arr(m, g.of(2, 3))})", bound
    among = [g.dtype(INTS + ["float64"])]  # NumPy's intermediates of mixed dtypes round more often
    return f"einsum('ij,jk,kl->{g.of('il', 'i', '', 'l')}', {arr(m, n)}, {arr(n, k)}, {arr(k, 2)}{g.options(optimize=['True', 'False'])})", bound


@fuzz(3)
def elementwise(g):
    a = g.array()
    kind = g.r.randrange(12)
    bound = {"ulp": 16, "norm": 4, "atol": 1e-300}
    if kind == 0:
        low = g.scalar() if g.chance(0.6) else g.array(shape=g.broadcastable(g.get(a).shape))
        high = g.scalar() if g.chance(0.6) else g.of("None", g.array(shape=g.broadcastable(g.get(a).shape)))
        return f"clip({a}, {low}, {high})", {}
    if kind == 1:
        return f"{g.of('round', 'around')}({a}{g.options(decimals=['1', '2', '-1', '-2', '0'])})", {"ulp": 2}
    if kind == 2:
        return f"nan_to_num({a}{g.options(nan=['1.5', '7'], posinf=['9', '1e5'], neginf=['-9'])})", {}
    if kind == 3:
        b = g.array(shape=g.broadcastable(g.get(a).shape))
        return f"{g.of('isclose', 'allclose')}({a}, {b}{g.options(rtol=['0.1'], atol=['1', '0'], equal_nan=g.bool_text)})", {}
    if kind == 4:
        return f"{g.of('iscomplex', 'isreal', 'isposinf', 'isneginf', 'real', 'imag', 'angle', 'fix', 'sinc', 'real_if_close', 'nan_to_num')}({a})", bound
    if kind == 5:
        return f"diff({a}{g.options(n=['1', '2', '0', '-1'], axis=lambda: g.axis(g.get(a).ndim), prepend=['0', '5', '300'], append=['1'])})", bound
    if kind == 6:
        return f"gradient({a}{g.options(axis=lambda: g.axis(g.get(a).ndim), edge_order=['1', '2'])})", bound
    if kind == 7:
        return f"trapezoid({a}{g.options(dx=['2', '0.5'], axis=lambda: g.axis(g.get(a).ndim))})", bound
    if kind == 8:
        return f"ediff1d({a}{g.options(to_end=['0', '[1, 2]', '1.5'], to_begin=['3'])})", bound
    if kind == 9:
        x = g.named(np.sort(g.values(g.dtype(FLOATS), (5,), special=0)) * 0.37 + np.arange(5, dtype="float16") / 64)
        f = g.array(shape=(5,), special=0.1)
        return f"interp({a}, {x}, {f}{g.options(left=['0'], right=['9'], period=['3'])})", bound
    if kind == 10:
        return f"{a}.astype({g.dtype()}{g.options(casting=CASTING, copy=g.bool_text)})", {}
    text = g.options(dtype=g.dtype_text, axis=lambda: g.axis(g.get(a).ndim), include_initial=g.bool_text)
    return f"{g.of('cumulative_sum', 'cumulative_prod')}({a}{text})", {"norm": 32, "ulp": 32}


@fuzz(2)
def creation(g):
    kind = g.r.randrange(12)
    dtype = g.options(dtype=g.dtype_text)
    if kind == 0:
        return f"full({g.shape()}, {g.scalar()}{dtype})", {}
    if kind == 1:
        return f"full_like({g.array()}, {g.scalar()}{dtype})", {}
    if kind == 2:
        values = [g.r.choice(["1", "-1", "300", "2.5", "True", "1j", "2**40", "2**63", "-129", "0"]) for _ in range(g.r.randint(0, 3))]
        return f"array([{', '.join(values)}]{dtype}{g.options(ndmin=['2', '0', '3'])})", {}
    if kind == 3:
        return f"arange({g.of('5', '2, 9', '1, 10, 3', '10, 1, -2', '0, 1, 0.1', '5.0', '0', '-3', '1, 2, 0', '300')}{dtype})", {"ulp": 4}
    if kind == 4:
        return f"linspace({g.of('0, 1', '5, -5', '1, 1', '0, 10', '-1.5, 1j')}{g.options(num=['5', '1', '0', '7', '-1'], endpoint=g.bool_text)}{dtype})", {"ulp": 4, "norm": 2}
    if kind == 5:
        return f"{g.of('zeros', 'ones')}({g.shape()}{dtype})", {}
    if kind == 6:
        return f"{g.of('zeros_like', 'ones_like')}({g.array()}{dtype}{g.options(shape=lambda: g.shape())})", {}
    if kind == 7:
        return f"{g.of('eye', 'tri')}({g.r.randint(0, 4)}{g.options(M=['3', '0', '5'], k=['1', '-1', '9'])}{dtype})", {}
    if kind == 8:
        return f"vander({g.array(low=1, high=1, special=0)}{g.options(N=['3', '0', '1'], increasing=g.bool_text)})", {"ulp": 64, "norm": 4}
    if kind == 9:
        return f"meshgrid({g.array(low=0, high=1)}, {g.array(low=0, high=1)}{g.options(indexing=[repr('ij'), repr('xy')], sparse=g.bool_text)})", {}
    if kind == 10:
        return f"indices({g.shape(0, 3)}{g.options(sparse=g.bool_text)}{dtype})", {}
    return f"{g.of('geomspace', 'logspace')}({g.of('1, 100', '1, 3', '2, 5')}{g.options(num=['4', '1'], endpoint=g.bool_text)}{dtype})", {"ulp": 16, "norm": 4}


@fuzz(2)
def statistics(g):
    kind = g.r.randrange(5)
    a = g.array(among=REAL, special=0)
    bound = {"ulp": 64, "norm": 64}
    if kind == 0:
        text = g.options(bins=["3", "[0, 1, 5]", "1", "[0.5, 2]"], range=["(0, 10)", "(-5, 5)"], density=g.bool_text)
        return f"histogram({a}{text})", bound
    if kind == 1:
        return f"cov({g.array(special=0, low=1, high=2)}{g.options(rowvar=g.bool_text, bias=g.bool_text, ddof=['0', '1'])})", bound
    if kind == 2:
        return f"packbits({g.array(among=['bool', 'uint8', 'int32'])}{g.options(axis=lambda: g.axis(2), bitorder=[repr('little'), repr('big')])})", {}
    if kind == 3:
        return f"unpackbits({g.array('uint8')}{g.options(axis=lambda: g.axis(2), bitorder=[repr('little')], count=['3', '-2', '1'])})", {}
    return f"{g.of('array2string', 'array_repr', 'array_str')}({g.array()}{g.options(precision=['3', '0', '12'], suppress_small=g.bool_text, max_line_width=['20', '40'])})", {}


@fuzz(2)
def transforms(g):
    name = g.of("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    a = g.array(low=0, high=3, special=0, among=REAL if name in ("rfft", "ihfft") else None)
    n = g.get(a).ndim
    many = g.chance(0.5)
    if many and name not in ("hfft", "ihfft"):
        text = g.options(s=["(3,)", "(2, 4)", "(1, 3)", "(0,)"], axes=lambda: tuple(g.axis(n) for _ in range(g.r.randint(1, 2))),
                         norm=["'ortho'", "'forward'", "'backward'", "None", "'x'"])
        if ", s=" in text and ", axes=" not in text:
            text += ", axes=(-2, -1)" if "," in text.split("s=(")[1].split(")")[0].rstrip(",") else ", axes=(-1,)"
        return f"fft.{name}{g.of('n', '2')}({a}{text})", {"norm": 32, "ulp": 8}
    text = g.options(n=["3", "8", "1", "0", "-1", "5"], axis=lambda: g.axis(n), norm=["'ortho'", "'forward'", "'backward'", "None", "'x'"])
    return f"fft.{name}({a}{text})", {"norm": 32, "ulp": 8}


@fuzz(2)
def matrices(g):
    n = g.of(0, 1, 2, 3, 4)
    lead = g.of((), (), (2,), (0,), (2, 1))
    dtype = g.dtype(["float32", "float64", "complex64", "complex128", "int32", "bool", "float16"])
    x = g.values(dtype, (*lead, n, n if g.chance(0.95) else n + 1), special=0)
    if x.shape[-1] == n and dtype not in ("bool", "float16"):
        x = x + np.eye(n, dtype=dtype) * 20
    a = g.named(g.layout(x))
    bound = {"norm": 2e4 if dtype in ("float32", "complex64") else 1e5}
    kind = g.r.randrange(12)
    if kind == 0:
        return f"linalg.{g.of('inv', 'det', 'pinv', 'eigvalsh', 'svdvals', 'cond', 'matrix_rank')}({a})", bound
    if kind == 1:
        m = g.of((), (n,), (n, 2), (*lead, n, 1), (1,))
        return f"linalg.solve({a}, {g.array(dtype if dtype not in ('bool', 'float16') else 'float64', m, special=0)})", bound
    if kind == 2:
        return f"linalg.matrix_power({a}, {g.of('0', '1', '2', '3', '-1', '2.5')})", bound
    if kind == 3:
        return f"linalg.norm({a}{g.options(ord=['1', '-1', '2', 'inf', repr('fro'), repr('nuc'), '0', '3'], axis=lambda: g.axes(x.ndim), keepdims=g.bool_text)})", bound
    if kind == 4:
        return f"linalg.vector_norm({a}{g.options(ord=['1', '-1', '2', 'inf', '0', '3', '0.5'], axis=lambda: g.axes(x.ndim), keepdims=g.bool_text)})", bound
    if kind == 5:
        return f"linalg.slogdet({a})", bound
    if kind == 6:
        return f"linalg.{g.of('trace', 'diagonal')}({a}{g.options(offset=['1', '-1', '9'])})", bound
    if kind == 7:
        return f"linalg.cholesky(matmul({a}, conj(linalg.matrix_transpose({a}))){g.options(upper=g.bool_text)})", bound
    if kind == 8:
        return f"linalg.multi_dot([{a}, {a}, {a}])", bound
    if kind == 9:
        return f"linalg.{g.of('outer', 'vecdot', 'matmul', 'tensordot', 'cross')}({a}, {a})", bound
    if kind == 10:
        return f"linalg.matrix_norm({a}{g.options(ord=['1', '-1', '2', 'inf', repr('fro'), repr('nuc'), '3'], keepdims=g.bool_text)})", bound
    return f"linalg.{g.of('tensorinv', 'inv', 'matrix_transpose')}({a})", bound


@fuzz(2)
def polynomials(g):
    p, q = g.array(low=1, high=1, special=0), g.array(low=1, high=1, special=0)
    bound = {"ulp": 64, "norm": 64}
    kind = g.r.randrange(6)
    if kind == 0:
        return f"{g.of('polyadd', 'polysub', 'polymul')}({p}, {q})", bound
    if kind == 1:
        return f"polyval({p}, {g.array(special=0) if g.chance(0.7) else g.scalar()})", {"ulp": 64, "norm": 512}
    if kind == 2:
        return f"polyder({p}{g.options(m=['1', '2', '0', '-1', '9'])})", bound
    if kind == 3:
        return f"polyint({p}{g.options(m=['1', '2', '0', '-1'], k=['3', '[1, 2]', '0'])})", bound
    if kind == 4:
        return f"poly({p})", {"ulp": 64, "norm": 512}
    return f"{g.of('bartlett', 'hamming', 'hanning', 'blackman')}({g.of('0', '1', '2', '7', '-1', '5.5')})", {"norm": 4}


@fuzz(2)
def types(g):
    a, b = g.array(), g.array()
    kind = g.r.randrange(9)
    if kind == 0:
        return f"result_type({a}, {g.of(b, g.scalar(), g.dtype())})", {}
    if kind == 1:
        return f"promote_types({g.dtype()}, {g.dtype()})", {}
    if kind == 2:
        return f"can_cast({g.of(g.dtype(), g.dtype())}, {g.dtype()}{g.options(casting=CASTING)})", {}
    if kind == 3:
        return f"min_scalar_type({g.of(a, g.scalar())})", {}
    if kind == 4:
        kinds = [repr(k) for k in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric")]
        return f"isdtype({g.dtype()}, {g.of(*kinds, g.dtype())})", {}
    if kind == 5:
        return f"issubdtype({g.dtype()}, {g.of('integer', 'floating', 'inexact', 'number', 'generic', 'signedinteger', g.dtype())})", {}
    if kind == 6:
        return f"{a}.view({g.dtype()})", {}
    if kind == 7:
        return f"({a}.dtype, {a}.shape, {a}.ndim, {a}.size, {a}.nbytes, {a}.T.shape, {a}.real.dtype, {a}.flags.c_contiguous)", {}
    return f"{g.dtype()}({g.of(g.scalar(), a)})", {}


@fuzz(2)
def slices(g):
    a = g.array(special=0.1)
    n = g.get(a).ndim
    bound = {"ulp": 16, "norm": 32}
    f = g.of("lambda x: x[::-1]", "sum", "lambda x: x * 2", "lambda x: x[:1]", "max", "cumsum", "lambda x: x.sum()", "lambda x: (x > 0)", "sort")
    kind = g.r.randrange(4)
    if kind == 0:
        return f"apply_along_axis({f}, {g.axis(n)}, {a})", bound
    if kind == 1:
        return f"apply_over_axes({g.of('sum', 'max', 'mean')}, {a}, {g.of(g.axis(n), (0, -1), [0])})", bound
    if kind == 2:
        return f"piecewise({a}, [{a} > 1, {a} < 0], [{g.of('2', '-1.5', 'lambda x: x + 1')}, {g.of('3', 'lambda x: -x')}{g.of('', ', 7', ', abs')}])", bound
    return f"select([{a} > 1, {a} < 0], [{a}, {g.scalar()}]{g.options(default=['3', '2.5'])})", bound


def generate(seed, only=()):
    g = Generator(seed)
    tests = {name: test for name, test in TESTS.items() if not only or any(text in name for text in only)}
    name = g.r.choices(list(tests), [weight for _, weight in tests.values()])[0]
    expression, bounds = tests[name][0](g)
    return case(expression, g.inputs, **bounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--only", nargs="*", default=())
    options = parser.parse_args()
    records, names = [], namespace({})
    wrong = {}
    for i in range(options.count):
        try:
            one = generate(options.seed * 1_000_000 + i, options.only)
            if decided(one):
                continue
            records.append(record(one, names))
        except Exception as error:  # noqa: BLE001  (what NumPy has and the file cannot hold: objects, float128)
            key = f"{type(error).__name__}: {str(error)[:60]}"
            wrong.setdefault(key, []).append(i)
    save(options.output, {"expressions": encode(records)}, {"numpy": np.__version__})
    print(f"{options.output}: {len(records)} cases")
    for key, seeds in sorted(wrong.items(), key=lambda item: -len(item[1]))[:20]:
        print(f"  left out {len(seeds)}: {key} (first {seeds[0]})", file=sys.stderr)


if __name__ == "__main__":
    main()
