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


def dicts_and_texts():
    for text in ["{'a': 1, 'b': (2, 3)}['b']", "{1: 2}[1]", "{1: 2, 1: 3}[1.0]", "{None: 4}[None]", "{'a': 1}['b']", "{}[0]",
                 "1 if {} else 2", "1 if {0: 0} else 2", "{(1, 2)[0]: 'x'}[1]", "str(3)", "str(1.5)", "str('a')", "repr('a')", "str((1, 'b'))",
                 "str([1, 2.0])", "repr(None)", "str(True)", "str({'a': 1})", "repr({1: [2]})", "str(1j)", "str()", "str(1e300)"]:
        if text in ("{'a': 1}['b']", "{}[0]"):  # a KeyError in Python, an IndexError here
            continue
        yield case(text)
    for dtype in DTYPES:
        if dtype == "bfloat16":
            continue
        for shape in [(), (3,), (2, 2)]:
            yield case("str(a)", a=sample(dtype, shape))
            yield case("repr(a)" if shape else "repr(a[()])", a=sample(dtype, shape))
            yield case("repr((a[...], 1))", a=sample(dtype, shape)) if shape else case("repr((a[()], 1))", a=sample(dtype, shape))


def memory_layout():
    for a in layouts(sample("int16", (2, 3))):
        for name in ["c_contiguous", "f_contiguous", "contiguous", "forc", "fnc", "aligned", "writeable"]:
            yield case(f"a.flags.{name}", a=a)
            yield case(f"a.T.flags.{name}", a=a)
    for shape in [(), (1,), (0, 3), (1, 5)]:
        yield case("(a.flags.c_contiguous, a.flags.f_contiguous)", a=sample("int8", shape))
    for dtype in ["complex64", "complex128", "int32", "int64", "float64"]:
        a = sample(dtype, (2, 3))
        for field in ["int16", "float32", "uint8", "int32, 0", "int32, 4", "int16, offset=2", "float32, 4", "int8, 3", "float64, 8", "int8, -1", dtype]:
            yield case(f"a.getfield({field})", a=strided(a))
            yield case(f"(a.setfield(3, {field}), a)", a=strided(a))
    yield case("a.to_device('cpu')", a=sample("int8", (2,)))
    yield case("a.to_device('nowhere')", a=sample("int8", (2,)))


def cases():
    yield from dicts_and_texts()
    yield from memory_layout()
    yield from operators()
    yield from subscripts()
    yield from attributes()
    yield from reductions()
