"""scipy.special: the ufuncs (local/program/ufunc.def) against mpmath on sweeps of their arguments, with SciPy's answers
for infinities, NaN, poles and the ends of domains; and functions over axes (local/ops/functions/special.def).

Where quarry differs by decision: 16-bit floats keep their dtype, computed in float32; every integer is computed in
float64 (SciPy takes int8 to float32 in some functions); complex numbers are TypeErrors but for xlogy and xlog1py; beta
and betaln of NaN are NaN. Relative accuracy ends near the zeros of gammaln and digamma at negative arguments, and near
digamma's at 1.46: within 1e-6 of them the errors are some 1e-21.
"""
import types

import mpmath as mp
import numpy as np
import scipy.special as sc
from expressions import case, layouts, rng, sample
from mpmath import mpf

mp.mp.dps = 60
ERF, GAMMA = 8, 32  # ULP of the families
BOUNDS = {name: ERF for name in ["erf", "erfc", "erfinv", "erfcinv", "ndtr", "ndtri", "log_ndtr", "expit", "logit", "xlogy",
                                 "xlog1py", "entr", "rel_entr"]}
BOUNDS.update({name: GAMMA for name in ["gamma", "gammaln", "digamma", "psi", "beta", "betaln", "betainc", "gammainc",
                                        "gammaincc"]})
REAL = ["float32", "float64"]


# ---- References ----

def ndtr(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def ndtri(p):
    if p > mpf(1) / 2:
        return -ndtri(1 - p)
    if p == mpf(1) / 2:
        return mpf(0)
    x = mpf(float(sc.ndtri(max(float(p), 1e-320))))
    for _ in range(6):  # Newton's steps on the logarithm
        x -= (mp.log(ndtr(x)) - mp.log(p)) * ndtr(x) / (mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi))
    return x


def erfinv(y):
    if y < 0:
        return -erfinv(-y)
    if y < mpf("1e-10"):
        return y * mp.sqrt(mp.pi) / 2 * (1 + mp.pi * y * y / 12)
    return -ndtri((1 - y) / 2) / mp.sqrt(2)


def gammainc(a, x, upper):
    with mp.workdps(80):
        return mp.gammainc(a, x, regularized=True) if upper else mp.gammainc(a, 0, x, regularized=True)


def betainc(a, b, x):
    with mp.workdps(120):
        if x > a / (a + b):
            return 1 - mp.betainc(b, a, 0, 1 - x, regularized=True)
        return mp.betainc(a, b, 0, x, regularized=True)


def is_pole(x):
    return x <= 0 and x == mp.floor(x)


# mpmath's function, and the arguments that it is for; the others are SciPy's.
EXACT = {
    "erf": (mp.erf, lambda x: True),
    "erfc": (mp.erfc, lambda x: abs(x) < 100),
    "erfinv": (erfinv, lambda x: abs(x) < 1),
    "erfcinv": (lambda y: -ndtri(y / 2) / mp.sqrt(2), lambda x: 0 < x < 2),
    "gamma": (mp.gamma, lambda x: not is_pole(x)),
    "gammaln": (lambda x: mp.re(mp.loggamma(x)), lambda x: not is_pole(x)),
    "digamma": (lambda x: mp.psi(0, x), lambda x: not is_pole(x)),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), lambda x: True),
    "logit": (lambda p: mp.log(p / (1 - p)), lambda p: 0 < p < 1),
    "ndtr": (ndtr, lambda x: abs(x) < 100),
    "ndtri": (ndtri, lambda p: 0 < p < 1),
    "log_ndtr": (lambda x: mp.log1p(-ndtr(-x)) if x > 0 else mp.log(ndtr(x)), lambda x: abs(x) < 1000),
    "entr": (lambda x: -x * mp.log(x), lambda x: x > 0 and x != 1),
    "beta": (mp.beta, lambda a, b: not (is_pole(a) or is_pole(b) or is_pole(a + b))),
    "betaln": (lambda a, b: mp.log(abs(mp.beta(a, b))), lambda a, b: not (is_pole(a) or is_pole(b) or is_pole(a + b))),
    "betainc": (betainc, lambda a, b, x: a > 0 and b > 0 and 0 < x < 1),
    "gammainc": (lambda a, x: gammainc(a, x, False), lambda a, x: a > 0 and x > 0),
    "gammaincc": (lambda a, x: gammainc(a, x, True), lambda a, x: a > 0 and x > 0),
    "xlogy": (lambda x, y: x * mp.log(y), lambda x, y: y > 0),
    "xlog1py": (lambda x, y: x * mp.log1p(y), lambda x, y: y > -1),
    "rel_entr": (lambda x, y: x * mp.log(x / y), lambda x, y: x > 0 and y > 0),
}
EXACT["psi"] = EXACT["digamma"]


def rounded(value, dtype):
    value = mp.re(value)
    return np.float64(float(value)).astype(dtype)


def function(name):
    exact, inside = EXACT[name]
    scipys = getattr(sc, name)

    def reference(*args, dtype=None):
        args = [np.asarray(a) if np.ndim(a) or isinstance(a, np.generic) else a for a in args]
        strong = [a.dtype for a in args if isinstance(a, np.ndarray)]
        loop = np.dtype(dtype) if dtype else np.result_type(*args)
        if loop.kind in "biu":
            loop = np.dtype("float64")
        if loop.kind == "c":
            if name not in ("xlogy", "xlog1py"):
                raise TypeError(name)
            return scipys(*[np.asarray(a).astype("complex128") for a in args]).astype(loop)
        assert strong or dtype is None
        values = np.broadcast_arrays(*[np.asarray(a).astype(loop).astype("float64") for a in args])
        out = np.empty(values[0].shape, loop)
        for place in np.ndindex(out.shape):
            one = [float(v[place]) for v in values]
            if all(np.isfinite(one)) and inside(*map(mpf, one)):
                value = exact(*map(mpf, one))
                # mpmath's zero has no sign. SciPy has erfinv(-0.0) = 0.0, but the function is odd, and erfcinv(1) = -0.0.
                sign = {"erfinv": one[0], "erfcinv": 1.0}.get(name)
                out[place] = rounded(value, loop) if value else np.copysign(0.0, scipys(*one) if sign is None else sign)
            elif name in ("beta", "betaln") and any(np.isnan(one)):
                out[place] = np.nan
            else:
                out[place] = scipys(*one)
        return out
    return reference


FUNCTIONS = {"special": types.SimpleNamespace(**{name: function(name) for name in EXACT}, logsumexp=sc.logsumexp,
                                              softmax=sc.softmax, log_softmax=sc.log_softmax)}


# ---- Sweeps ----

def powers(random, low, high, count):
    return 10.0 ** random.uniform(low, high, count)


def both(x):
    return np.concatenate([x, -x])


TINY = np.array([5e-324, 1e-310, 2.3e-308, 1e-300, 1e-20, 1e-10])


def unary(name, random, n=40):
    """Arguments in float64."""
    uniform = random.uniform
    if name in ("erf", "erfc", "ndtr", "log_ndtr"):
        return np.concatenate([both(uniform(0, 8, n)), both(uniform(0, 28, n)), both(TINY), both(powers(random, -3, 1.5, n)),
                               [26.5, 26.9, 27, 27.2, -37.5, -38.4, -38.2, -30, -1, 1]])
    if name == "erfinv":
        return both(np.concatenate([uniform(0, 1, n), 1 - powers(random, -15.9, -1, n), powers(random, -300, 0, 20), TINY,
                                    [0.85, 0.15, np.nextafter(1, 0)]]))
    if name == "erfcinv":
        return np.concatenate([uniform(0, 2, n), 2 - powers(random, -15, -1, n), powers(random, -307, 0, n), TINY,
                               [0.15, 1.85]])
    if name == "ndtri":
        return np.concatenate([uniform(0, 1, n), 1 - powers(random, -15, -1, n), powers(random, -307, 0, n), TINY,
                               [0.075, 0.925, 1e-300, 1e-12, 0.5 + 1e-10, 0.5]])
    if name in ("gamma", "gammaln", "digamma"):
        whole = np.arange(1.0, 18)
        x = np.concatenate([uniform(0, 30, n), uniform(0, 171, n), powers(random, -300, 0, 20), powers(random, 0, 300, n), TINY,
                            uniform(0, 3, n), 1 + powers(random, -15, -1, 10), 2 - powers(random, -15, -1, 10),
                            -uniform(0, 20, 2 * n), -uniform(0, 170, n), -whole + powers(random, -12, -1, 17),
                            -whole - powers(random, -12, -1, 17), -powers(random, -300, 0, 10), [171.6, 171.62, -5.991, -6.0013]])
        return x[(x != np.floor(x)) | (x > 0)]
    if name == "expit":
        return both(np.concatenate([uniform(0, 40, n), uniform(0, 745, n), TINY]))
    if name == "logit":
        return np.concatenate([uniform(0, 1, n), 0.5 + both(powers(random, -15, -1, 20)), powers(random, -300, 0, n),
                               1 - powers(random, -15, -1, n), TINY])
    return np.concatenate([uniform(0, 3, n), powers(random, -300, 300, n), 1 + both(powers(random, -15, -1, 20)), TINY])  # entr


def several(name, random, n=60):
    uniform = random.uniform
    if name in ("beta", "betaln"):
        a = np.concatenate([powers(random, -5, 3, n), powers(random, -3, 2, n), uniform(-15, 15, n), powers(random, -300, 5, 20)])
        b = np.concatenate([powers(random, -5, 3, n), powers(random, 2, 6, n), uniform(-15, 15, n), powers(random, -3, 5, 20)])
        return a, b
    if name in ("gammainc", "gammaincc"):
        marks = np.array([1e-5, 0.3, 0.5, 0.7, 1, 5, 15.9, 16, 100, 999, 1001, 5000])
        a = np.concatenate([powers(random, -6, 4, n), powers(random, -300, 0, 10), powers(random, 0, 3, n), np.repeat(marks, 12)])
        x = np.concatenate([a[:n] * powers(random, -1, 1, n), powers(random, -10, 0.5, 10), a[n + 10:2 * n + 10] * uniform(0.7, 1.3, n),
                            np.repeat(marks, 12) * np.tile([0.01, 0.2, 0.5, 0.9, 0.99, 1, 1.001, 1.1, 1.29, 1.31, 2, 5], 12)])
        return a, x
    if name == "betainc":
        a = np.concatenate([powers(random, -5, 3, n), powers(random, 0, 3, n),
                            np.repeat([1e-5, 1e-5, 1e5, 0.3, 0.5, 5, 20, 1000.0], 6), powers(random, -5, 1, n)])
        b = np.concatenate([powers(random, -5, 3, n), powers(random, 0, 3, n),
                            np.repeat([1e5, 1e-5, 1e-5, 0.3, 200, 0.01, 20, 3000.0], 6), powers(random, 1, 3, n)])
        mean = a / (a + b)
        u = uniform(0, 1, a.size)
        x = np.choose(np.arange(a.size) % 3, [mean * u, 1 - (1 - mean) * u, u])
        x[n:2 * n] = mean[n:2 * n] * (1 + 0.05 * random.standard_normal(n))
        return a, b, np.clip(x, 1e-300, 1 - 1e-16)
    if name == "xlog1py":
        return both(powers(random, -5, 5, n)), np.concatenate([powers(random, -20, 5, n), -0.999 * powers(random, -15, 0, n)])
    y = powers(random, -5, 5, n)
    x = np.concatenate([powers(random, -5, 5, n), y * (1 + powers(random, -15, -1, n)), powers(random, -300, 0, 10)])
    return x, np.concatenate([powers(random, -5, 5, n), y, powers(random, -300, 0, 10)])


def kept(name, args):
    """The arguments that a narrower dtype still tells apart from poles, zeros and ends, where results are no cases."""
    finite = np.all([np.isfinite(a) for a in args], axis=0)
    args = [a[finite] for a in args]
    exact, inside = EXACT[name]
    good = []
    for i in range(args[0].size):
        one = [mpf(float(a[i])) for a in args]
        if not inside(*one):
            continue
        # The ranges below are where relative errors mean something.
        if name in ("gammaln", "digamma", "betaln") and abs(exact(*one)) < 1e-6 and not (one[0] > 0 and name == "gammaln"):
            continue
        good.append(i)
    return [a[good] for a in args]


def sweeps():
    for name in EXACT:
        if name == "psi":
            continue
        arity = getattr(sc, name).nin
        letters = ["x"] if arity == 1 else ["x", "y", "z"][:arity]
        for dtype in REAL:
            random = rng("special", name)
            args = [unary(name, random)] if arity == 1 else several(name, random)
            with np.errstate(all="ignore"):
                args = [a.astype(dtype) for a in args]
            args = kept(name, args)
            yield case(f"special.{name}({', '.join(letters)})", dict(zip(letters, args)), ulp=BOUNDS[name])


SPECIAL = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3.5, -2.5, 0.25, np.inf, -np.inf, np.nan, 1e300, -1e300, 172])


def edges():
    for name in EXACT:
        arity = getattr(sc, name).nin
        ulp = BOUNDS[name]
        for dtype in REAL:
            with np.errstate(all="ignore"):
                x = SPECIAL.astype(dtype)
            if arity == 1:
                yield case(f"special.{name}(x)", x=x, ulp=ulp)
            elif arity == 2:
                x = x[np.abs(x) != 1e300] if dtype == "float64" else x
                x = x[np.abs(x) < 100] if name in ("gammainc", "gammaincc", "beta", "betaln") else x
                more = np.array([np.nan] if name in ("beta", "betaln") else [np.inf, np.nan], dtype)
                x = np.concatenate([x, more])
                yield case(f"special.{name}(x[:, None], x)", x=x, ulp=ulp)
            else:
                a = np.array([0, 1, 2, 0.5, np.inf, np.nan, -1], dtype)
                z = np.array([0, 0.25, 1, -0.5, 1.5, np.nan], dtype)
                yield case(f"special.{name}(a[:, None, None], a[:, None], z)", a=a, z=z, ulp=ulp)


def dtypes():
    for name in EXACT:
        arity = getattr(sc, name).nin
        ulp = BOUNDS[name]
        for dtype in ["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "bfloat16"]:
            values = np.array([1, 0, 1]) if dtype == "bool" else np.array([1, 2, 3, 5])
            x = values.astype(dtype) if dtype != "bfloat16" else values.astype(sample("bfloat16", (1,)).dtype)
            if arity == 3 and dtype == "bfloat16":  # ml_dtypes takes literals for float64
                continue
            call = {1: "x", 2: "x, x[::-1]", 3: "x, x[::-1], 0.5"}[arity]
            yield case(f"special.{name}({call})", x=x, ulp=2 if "float16" in dtype else ulp)
        x = sample("complex128", (3,))
        call = ", ".join(["x"] * arity)
        for dtype in ["complex64", "complex128"]:
            yield case(f"special.{name}({call})", x=x.astype(dtype), ulp=16)
        a = np.abs(sample("float64", (3, 4))) / 30 + 0.01
        for view in layouts(a):
            call = {1: "a", 2: "a, a[::-1, ::-1]", 3: "a, a[::-1], a"}[arity]
            yield case(f"special.{name}({call})", a=view, ulp=ulp)
        for shape in [(), (0,), (1,), (2, 0)]:
            b = np.full(shape, 0.375)
            yield case(f"special.{name}({', '.join(['b'] * arity)})", b=b, ulp=ulp)
        yield case(f"special.{name}({', '.join(['0.25'] * arity)})", ulp=ulp)
        yield case(f"special.{name}(a, dtype='float32')" if arity == 1 else f"special.{name}({', '.join(['a'] * arity)}, dtype='float32')",
                   a=a.astype("float32"), ulp=ulp)
    yield case("special.erf(a) + special.erfc(a)", a=np.array([-1.0, 0.5, 3.0]), ulp=4)
    yield case("special.beta(a, b)", a=np.array([1.0, 2.0]), b=np.array([1.0, 2.0, 3.0]))


def axes():
    a = sample("float64", (3, 4, 5)) / 4
    w = sample("float64", (3, 4, 5), 1)
    for dtype in ["float32", "float64", "int32", "int64"]:
        x = a.astype(dtype)
        for axis in ["", ", 0", ", 1", ", -1", ", (0, 2)", ", axis=None", ", axis=(-1, 0, 1)"]:
            for keep in ["", ", keepdims=True"] if axis else [""]:
                yield case(f"special.logsumexp(x{axis}{keep})", x=x, ulp=8)
            if dtype[0] == "f":
                yield case(f"special.softmax(x{axis})", x=x, ulp=16)
                yield case(f"special.log_softmax(x{axis})", x=x, norm=8)
    for view in layouts(a):
        yield case("special.logsumexp(x, 1)", x=view, ulp=8)
        yield case("special.softmax(x, 1)", x=view, ulp=16)
        yield case("special.log_softmax(x, 1)", x=view, norm=8)
        yield case("special.logsumexp(x, 1, b=b, return_sign=True)", x=view, b=w, ulp=400)
    for b in ["b", "b[0]", "b[:, :1]", "abs(b)", "2", "2.5", "where(b > 0, 1, 0)", "where(b > 0, b, 0.0)"]:
        for axis in ["None", "0", "(1, 2)"]:
            yield case(f"special.logsumexp(x, {axis}, b={b}, return_sign=True)", x=a, b=w, ulp=400)
            yield case(f"special.logsumexp(x, {axis}, {b}, keepdims=True)", x=a, b=abs(w), ulp=8)
    inf, nan = np.inf, np.nan
    for row in [[inf, 1], [-inf, 1], [-inf, -inf], [inf, inf], [inf, -inf], [nan, 1], [nan, inf], [1000, 1000], [-1000, -1000],
                [1e300, -1e300], [0, -40], [0, -800], [0.0], [-inf], [inf], [nan], [3, 3, 3]]:
        x = np.array(row, float)
        for dtype in REAL:
            y = x.astype(dtype) if np.all(np.abs(x[np.isfinite(x)]) < 1e30) else x
            yield case("special.logsumexp(x)", x=y, ulp=4)
            yield case("special.logsumexp(x, return_sign=True)", x=y, ulp=4)
            yield case("special.softmax(x)", x=y, ulp=8)
            yield case("special.log_softmax(x)", x=y, ulp=8)
        # Where SciPy's second way, by the exponentials themselves, neither overflows nor underflows.
        for b in [1.0, -1.0] if np.all(abs(x) < 100) else [1.0]:
            yield case(f"special.logsumexp(x, b={b}, return_sign=True)", x=x, ulp=4)
            yield case(f"special.logsumexp(x, b={b})", x=x, ulp=4)
    x = np.array([1.0, 2.0])
    for b in [[1, -1], [-1, 1], [0, 1], [0, 0], [-1, -1], [inf, 1], [nan, 1], [0, nan]]:
        yield case("special.logsumexp(x, b=b)", x=x, b=np.array(b, float), ulp=4)
        yield case("special.logsumexp(x, b=b, return_sign=True)", x=x, b=np.array(b, float), ulp=4)
    for row, b in [([5, 5], [1, -1]), ([5, 5, 1], [1, -1, 1]), ([inf, inf], [1, -1]), ([inf, 1], [0, 1]), ([nan, 1], [0, 1]),
                   ([-inf, 1], [inf, 1])]:
        yield case("special.logsumexp(x, b=b, return_sign=True)", x=np.array(row, float), b=np.array(b, float), ulp=8)
    for shape in [(), (1,), (0,), (0, 3), (3, 0)]:
        z = np.ones(shape)
        for axis in ["None", "0", "-1", "1", "2"]:
            if (shape == () and axis != "None") or (z.size == 0 and z.ndim > 1 and axis == "None"):
                continue  # SciPy fails by mistake
            yield case(f"special.logsumexp(z, {axis})", z=z, ulp=4)
            yield case(f"special.logsumexp(z, {axis}, keepdims=True, return_sign=True)", z=z, ulp=4)
            yield case(f"special.softmax(z, {axis})", z=z, ulp=4)
            yield case(f"special.log_softmax(z, {axis})", z=z, ulp=4)
    x = sample("float64", (2, 3))
    for name in ["logsumexp", "softmax", "log_softmax"]:
        yield case(f"special.{name}([[1, 2], [3, 4.5]], 1)", ulp=8)
        for axis in ["2", "-3", "(0, 3)", "(0, 0)", "'x'"]:
            yield case(f"special.{name}(x, {axis})", x=x)
    yield case("special.logsumexp(x, b=b)", x=x, b=np.ones(4))
    # Of long rows and columns.
    long = rng("special", "long").standard_normal((3, 4000)) * 3
    for dtype in REAL:
        y = long.astype(dtype)
        for axis in ["0", "1", "None"]:
            yield case(f"special.logsumexp(x, {axis})", x=y, norm=8)
            yield case(f"special.softmax(x, {axis})", x=y, ulp=16)
            yield case(f"special.log_softmax(x, {axis})", x=y, norm=8)


def cases():
    yield from sweeps()
    yield from edges()
    yield from dtypes()
    yield from axes()
