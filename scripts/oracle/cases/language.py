"""Operators, literals, indexing by integers and slices, attributes, and the reductions, as the language writes them."""
from expressions import DTYPES, FLOATS, NUMPY_DTYPES, SOME, case, layouts, sample, strided
import numpy as np

SHAPES = [(), (1,), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 4)]


def operators():
    for op in ["+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", ">", ">=", "&", "|", "^"]:
        for dtype in SOME:
            yield case(f"a {op} b", a=sample(dtype, (3, 4)), b=sample(dtype, (4,), seed=1), ulp=2)
            yield case(f"a {op} 2", a=sample(dtype, (5,)), ulp=2)
        yield case(f"a {op} b", a=sample("int32", (3,)), b=sample("int32", (4,)))
    for dtype in SOME:
        a = sample(dtype, (2, 3))
        for text in ["-a", "+a", "~a", "abs(a)"]:
            yield case(text, a=a, ulp=1)
    yield case("a < b < 50", a=sample("int8", ()), b=sample("int16", ()))
    yield case("a and 3", a=sample("float32", (1,)))
    yield case("not a", a=sample("float32", (2,)))
    yield case("1 if a else 2", a=sample("float32", ()))
    yield case("[1, 2.5] + a", a=sample("float32", (2,)))
    yield case("(1, 2) * a", a=sample("int8", (2,)))
    yield case("300 + a", a=sample("int8", (2,)))
    yield case("float32(2.5) * a", a=sample("int8", (2,)))
    yield case("a @ b", a=sample("float64", (3, 4)), b=sample("float64", (4, 2)), norm=4)


def subscripts():
    a = sample("int32", (4, 5, 3))
    for index in ["1", "-1", "1, 2", "1, 2, 0", "...", "None", "::2", "::-1", "1:3, None, ..., ::-2", "..., 1", "2:1",
                  "-9:9", "7", "0, 7", "1, 2, 3, 4", "..., ...", "'a'", "1.5", "(1, 2)"]:
        for b in layouts(a):
            yield case(f"a[{index}]", a=b)


def attributes():
    for dtype in DTYPES:
        for name in ["T", "shape", "ndim", "size", "dtype", "itemsize", "nbytes", "real", "imag", "dtype.name"]:
            if dtype == "bfloat16" and name in ("real", "imag"):
                continue
            yield case(f"a.{name}", a=strided(sample(dtype, (3, 4))))
    yield case("a.mT", a=sample("int8", (2, 3, 4)))
    yield case("a.mT", a=sample("int8", (2,)))
    yield case("a.strides", a=sample("int16", (2, 3)))
    yield case("len(a)", a=sample("int8", (2, 3)))
    yield case("len(a)", a=sample("int8", ()))
    yield case("a.tolist()", a=sample("int8", (2, 3)))
    yield case("a.item(3)", a=sample("int8", (2, 3)))
    yield case("a.astype(float32)", a=sample("int8", (2, 3)))


def reductions():
    for name in ["sum", "prod", "min", "max", "any", "all", "argmin", "argmax", "count_nonzero", "mean", "var", "std"]:
        for dtype in NUMPY_DTYPES:
            for a in layouts(sample(dtype, (3, 4), special=False)):
                yield case(f"{name}(a, axis=0)", a=a, ulp=4, norm=4)
        for shape in SHAPES:
            yield case(f"{name}(a)", a=sample("float64", shape), norm=8)
            yield case(f"{name}(a, axis=-1, keepdims=True)", a=sample("float64", shape), norm=8)
        yield case(f"{name}(a, axis=5)", a=sample("float64", (2, 3)))
        yield case(f"{name}(a, axis=(0, 2))", a=sample("float32", (2, 3, 4)), norm=8)
        yield case(f"{name}(a, axis=(0, 0))", a=sample("float32", (2, 3, 4)))
        yield case(f"{name}(a, bad=1)", a=sample("float32", (2,)))
    for dtype in FLOATS[:1] + FLOATS[2:]:
        for name in ["min", "max", "argmin", "argmax", "sum", "any", "all", "count_nonzero"]:
            yield case(f"{name}(a)", a=sample(dtype, (20,), special=True))
    yield case("sum(a, dtype=float64, out=b)", a=sample("int8", (2, 3)), b=np.zeros(()))
    yield case("sum(a, axis=0, initial=5, where=b)", a=sample("int8", (2, 3)), b=sample("bool", (2, 3)))
    yield case("max(a, axis=0, initial=5, where=b)", a=sample("int8", (2, 3)), b=sample("bool", (2, 3)))
    yield case("var(a, axis=0, ddof=1)", a=sample("float64", (5, 3)), norm=8)
    yield case("std(a, axis=0, mean=mean(a, axis=0, keepdims=True))", a=sample("float64", (5, 3)), norm=8)
    yield case("var(a, correction=1, ddof=1)", a=sample("float64", (5, 3)))


def cases():
    yield from operators()
    yield from subscripts()
    yield from attributes()
    yield from reductions()
