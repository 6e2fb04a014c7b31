"""Polynomials, sliding products, interpolation, and functions over slices (local/ops/functions/math.def)."""
from expressions import INTEGERS, NUMPY_DTYPES, SOME, case, layouts, sample
import numpy as np

NORM = 32


def sliding():
    for name in ["convolve", "correlate"]:
        for dtype in NUMPY_DTYPES:
            for mode in ["full", "same", "valid"]:
                for n, m in [(9, 4), (4, 9), (5, 5), (6, 1), (1, 1), (7, 2), (40, 13)]:
                    yield case(f"{name}(a, b, '{mode}')", a=sample(dtype, (n,)), b=sample(dtype, (m,), seed=1), norm=NORM)
        for one in NUMPY_DTYPES:
            for other in NUMPY_DTYPES:
                yield case(f"{name}(a, b)", a=sample(one, (6,)), b=sample(other, (3,), seed=1), norm=NORM)
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            extreme = np.array([info.max, info.min, 3, info.max, 0, 7, info.min], dtype)
            for mode in ["full", "same", "valid"]:
                for m in (1, 2, 3, 7):
                    yield case(f"{name}(a, b, '{mode}')", a=extreme, b=np.ascontiguousarray(extreme[::-1][:m]))
        for a in layouts(sample("float64", (8,))):
            for b in layouts(sample("float64", (3,), seed=1)):
                yield case(f"{name}(a, b, mode='same')", a=a, b=b, norm=NORM)
        a = sample("float64", (5,))
        for text in ["(a, a[:0])", "(a[:0], a)", "(a[None], a)", "(a, a, 'bogus')", "(a, 2)", "(3, 2)", "(a[:0], a[:0])"]:
            yield case(name + text, a=a)
        for mode in ["full", "same", "valid"]:
            special = np.array([1, np.inf, 2, np.nan, 3, -np.inf, 4, 5.0])
            yield case(f"{name}(a, b, '{mode}')", a=special, b=np.array([1.0, 2, 3]), norm=NORM)
            yield case(f"{name}(b, a, '{mode}')", a=np.array([1.0, np.inf, 2]), b=np.array([1.0, 2, 3, 4, 5]), norm=NORM)


def polynomials():
    for dtype in NUMPY_DTYPES:
        p, q = sample(dtype, (4,)), sample(dtype, (2,), seed=1)
        for name in ["polyadd", "polysub", "polymul"]:
            yield case(f"{name}(p, q)", p=p, q=q, norm=NORM)
            yield case(f"{name}(q, p)", p=p, q=q, norm=NORM)
        for text in ["polyder(p)", "polyder(p, 2)", "polyder(p, 0)", "polyder(p, 5)", "polyint(p)", "polyint(p, 2)",
                     "polyint(p, 2, [1, 2])", "polyint(p, 2, 3)", "polyint(p, 0)", "polyder(p, -1)", "polyint(p, -1)",
                     "polyint(p, 3, [1, 2])"]:
            yield case(text, p=p, norm=NORM)
        for x in ["float64", "int32", "complex64", dtype]:
            yield case("polyval(p, x)", p=p, x=sample(x, (3, 2), seed=2), norm=NORM)
            yield case("polyval(p, x)", p=p, x=sample(x, (), seed=2), norm=NORM)
    yield case("polyval(p, x)", p=sample("float64", (40,)), x=sample("float64", (5,)) / 10, norm=64)
    yield case("polyval([], x)", x=sample("float64", (5,)))
    yield case("polyval([1, 2], 3)", {})
    for dtype in ["int32", "float32", "float64", "complex64", "complex128", "uint8", "bool"]:
        yield case("poly(a)", a=sample(dtype, (4,)), norm=NORM)
        yield case("poly(a)", a=sample(dtype, (0,)), norm=NORM)
    yield case("poly([1j, -1j, 2])", {}, norm=NORM)
    yield case("poly([[1., 2.], [3., 4.]])", {}, norm=64)
    yield case("poly(a)", a=sample("float64", (2, 3)))
    for dtype in ["int32", "float32", "float64", "complex128"]:
        p, q = sample(dtype, (6,)), sample(dtype, (3,), seed=1)
        for text in ["polydiv(p, q)", "polydiv(q, p)", "polydiv(p, q[:1])", "polydiv(p, p)"]:
            yield case(text, p=p, q=q, norm=256, atol=1e-5 if dtype == "float32" else 1e-12)
    yield case("polydiv([], [1])", {})
    for text in ["polymul([0, 0, 1, 2], [0, 3])", "polymul([0, 0], [0, 3])", "polyadd([1, 2], 3)", "polyadd([], [1])",
                 "polymul([[1]], [1])", "polyadd(1, 2)", "polysub([1, 2, 3], [[1]])"]:
        yield case(text, {})
    for text in ["roots([1, -3, 2])", "roots([1, 0, 1])", "roots([0, 0, 1, -3, 2, 0, 0])", "roots([0, 0])", "roots([])", "roots([5])",
                 "roots([5, 0, 0])", "roots([1, 2j])", "roots([[1, 2]])", "roots([2.5, -1, 4, 7, -3])", "roots([1, nan, 2])",
                 "roots(3)", "poly(3)", "poly(p)", "roots([0, 0, 0, 5])"]:
        yield case(text, p=np.array(2.0), norm=64)
    yield case("roots(a)", a=np.array([1, -6, 11, -6], "float32"), norm=64)
    yield case("roots(a)", a=np.array([1, -6, 11, -6], "float16"))


def fits():
    x = np.linspace(-1, 2, 12)
    y = 3 * x**2 - x + 0.5 + 0.1 * np.cos(20 * x)
    two = np.stack([y, x**3], axis=1)
    w = np.linspace(1, 2, 12)
    bound = {"norm": 1024}
    for text in ["polyfit(x, y, 2)", "polyfit(x, y, 0)", "polyfit(x, two, 3)", "polyfit(x, y, 2, w=w)", "polyfit(x, two, 1, w=w)",
                 "polyfit(x, y, 2, cov=True)", "polyfit(x, y, 2, cov='unscaled')", "polyfit(x, two, 2, cov=True)",
                 "polyfit(x, y, 2, full=True)", "polyfit(x, two, 2, full=True)", "polyfit(x, y, 2, rcond=1e-3)",
                 "polyfit(x, y, -1)", "polyfit(two, y, 2)", "polyfit(x[:0], y[:0], 2)", "polyfit(x, y[:3], 2)", "polyfit(x, 3, 2)",
                 "polyfit(x, y, 2, w=two)", "polyfit(x, y, 2, w=w[:3])", "polyfit(x[:3], y[:3], 2, cov=True)",
                 "polyfit(x, y.astype(float32), 2)", "polyfit(x.astype(float32), y.astype(float32), 2)",
                 "polyfit(x.astype(float16), y.astype(float16), 2)", "polyfit(x, y * 1j, 2)", "polyfit([1, 2, 3], [2, 4, 6], 1)"]:
        atol = 2e-5 if "float32" in text else 1e-12
        yield case(text, x=x, y=y, two=two, w=w, atol=atol, **bound)


def interpolation():
    xp, fp = np.array([-2.0, 0, 0.5, 3, 10]), np.array([1.0, -4, 2.5, 2.5, 100])
    x = np.concatenate([np.linspace(-4, 12, 40), xp, [np.nan, np.inf, -np.inf]])
    for text in ["interp(x, xp, fp)", "interp(x, xp, fp, left=-1)", "interp(x, xp, fp, right=5.5)", "interp(x, xp, fp, -1, -2)",
                 "interp(x[:40], xp, fp, period=4)", "interp(x[:40], xp, fp, period=-7.5)", "interp(x, xp, fp * 1j + 2)",
                 "interp(x, xp, fp * 1j, left=1j, right=2)", "interp(0.25, xp, fp)", "interp(x, xp[:1], fp[:1])",
                 "interp(x[:0], xp, fp)", "interp(x, xp[:0], fp[:0])", "interp(x, xp, fp[:2])", "interp(x, [xp], fp)",
                 "interp(x, xp, fp, period=0)", "interp(square_x, xp, fp)", "interp(x * 1j, xp, fp)", "interp([1, 2], [0, 3], [5, 9])",
                 "interp(x[::-2], xp, fp)", "interp(x, xp, [1, inf, inf, 2, nan])",
                 "interp(x[:3], xp, fp)", "interp(x[45:], xp, fp)", "interp(x, [1, 2, 2, 3], [4, 5, 6, 7])", "interp(x, xp, fp, left=inf, right=nan)",
                 "interp(x, [0, 1, inf], [1, 2, 3])", "interp(x[:3], xp, fp * 1j)", "interp(x, xp[:1], fp[:1] * 1j, left=2)",
                 "interp(x, xp, [-0.0, -0.0, 0.0, 1, -0.0])", "interp(x, xp[:2], [5, 5])"]:
        yield case(text, x=x, square_x=x.reshape(6, 8), xp=xp, fp=fp, ulp=2, norm=4)
    for dtype in SOME[:-1]:
        yield case("interp(x, xp, fp)", x=sample(dtype, (20,)), xp=np.arange(-60, 110, 10).astype("int16"),
                   fp=sample(dtype, (17,), seed=1), ulp=2, norm=4)


def functions():
    a = sample("float64", (3, 4, 2))
    for axis in [0, 1, 2, -1]:
        for name in ["sum", "sort", "argmax", "max", "square"]:
            yield case(f"apply_along_axis({name}, {axis}, a)", a=a, norm=8)
        yield case(f"apply_along_axis(outer, {axis}, a, [1, 2])", a=a, norm=8)
    for text in ["apply_along_axis(sum, 3, a)", "apply_along_axis(sum, 0, a[:, :0])", "apply_along_axis(sum, 0, a[0, 0])",
                 "apply_over_axes(sum, a, [0, 2])", "apply_over_axes(sum, a, 1)", "apply_over_axes(max, a, (-1, 0))",
                 "apply_over_axes(sum, a, [5])"]:
        yield case(text, a=a, norm=8)
    x = np.linspace(-2.5, 2.5, 6)
    for text in ["piecewise(x, [x < 0, x >= 0], [-1, 1])", "piecewise(x, [x < 0, x >= 0], [negative, square])",
                 "piecewise(x, [x < 0], [negative, 7])", "piecewise(x, x < 0, [negative, square])", "piecewise(x, [x < 0, x > 1], [1, 2, 3])",
                 "piecewise(x, [x < 0, x > 1], [1])", "piecewise(x, [x < 0, x > -1], [1, 2])", "piecewise(x.astype(int32), [x < 0], [1.7, 2.2])",
                 "piecewise(x, [x < -9], [square, 1])", "piecewise(x[0], [x[0] < 0, x[0] >= 0], [square, 1])"]:
        yield case(text, x=x, ulp=1)


def cases():
    yield from sliding()
    yield from polynomials()
    yield from fits()
    yield from interpolation()
    yield from functions()
