"""Casts, promotion, limits of dtypes, bits, shared memory."""
from expressions import DTYPES, NUMPY_DTYPES, case, layouts, sample
import numpy as np


def promotion():
    for a in NUMPY_DTYPES:
        for b in NUMPY_DTYPES:
            yield case(f"promote_types('{a}', {b})")
            for casting in ["no", "safe", "same_kind", "unsafe"]:
                yield case(f"can_cast({a}, '{b}', casting='{casting}')")
        for text in ["result_type(a, 1)", "result_type(a, 1.5)", "result_type(a, 1j)", "result_type(a, True)",
                     "result_type(a, 'int16', 2)", "result_type(a)", "can_cast(a, int32)"]:
            yield case(text, a=sample(a, (2,)))
    for text in ["result_type()", "result_type(3)", "result_type(3, 2.5)", "result_type('f4', int8)", "can_cast(3, 'i1')",
                 "can_cast('i8', 'i4', 'sideways')", "promote_types('i4', 'nothing')", "can_cast(array(3), 'i1')",
                 "min_scalar_type(300)", "min_scalar_type(-1)", "min_scalar_type(-129)", "min_scalar_type(-70000)",
                 "min_scalar_type(2**40)", "min_scalar_type(-2**40)", "min_scalar_type(255)", "min_scalar_type(1e5)",
                 "min_scalar_type(1e50)", "min_scalar_type(3+0j)", "min_scalar_type(1e50j)", "min_scalar_type(arange(3))",
                 "min_scalar_type(True)", "min_scalar_type(nan)", "min_scalar_type(1.5)", "min_scalar_type(2**63)"]:
        yield case(text)


def hierarchy():
    abstract = ["generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating"]
    for a in NUMPY_DTYPES:
        for b in abstract:
            yield case(f"issubdtype({a}, {b})")
            yield case(f"issubdtype('{a}', np.{b})")
        for b in ["float32", "int8", "bool", "float", "complex64"]:
            yield case(f"issubdtype({a}, {b})")
        for kind in ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]:
            yield case(f"isdtype(np.{a}, '{kind}')")
        yield case(f"isdtype(np.{a}, ('bool', 'real floating'))")
        yield case(f"isdtype(np.{a}, (float64, 'integral'))")
        yield case(f"isdtype(np.{a}, float32)")
    for a in abstract:
        for b in abstract:
            yield case(f"issubdtype({a}, {b})")
    yield case("isdtype(float32, 'f4')")
    yield case("isdtype(float32, 'foo')")
    yield case("issubdtype('nothing', integer)")


def limits():
    for dtype in ["float16", "float32", "float64", "complex64", "complex128"]:
        for field in ["bits", "eps", "epsneg", "max", "min", "tiny", "smallest_normal", "smallest_subnormal", "resolution",
                      "precision", "machep", "negep", "maxexp", "minexp", "iexp", "nexp", "nmant", "dtype"]:
            yield case(f"finfo({dtype}).{field}")
    for dtype in ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]:
        for field in ["bits", "max", "min", "kind", "dtype"]:
            yield case(f"iinfo({dtype}).{field}")
    for text in ["finfo('f4').eps", "finfo(a).max", "iinfo(b).max", "finfo(int8)", "iinfo(float32)", "finfo(bool)",
                 "iinfo(bool)", "iinfo(b).bits"]:
        yield case(text, a=sample("float16", (2,)), b=sample("int16", (2,)))


def bits():
    for dtype in NUMPY_DTYPES:
        for a in layouts(sample(dtype, (3, 11))):
            for text in ["packbits(a)", "packbits(a, axis=1)", "packbits(a, 0, 'little')"]:
                yield case(text, a=a)
    for shape in [(), (1,), (0,), (8,), (16,), (9,), (0, 3), (3, 0)]:
        yield case("packbits(a)", a=sample("bool", shape))
        yield case("packbits(a, axis=0)", a=sample("bool", shape))
        yield case("unpackbits(a)", a=sample("uint8", shape))
        if 0 not in shape:  # NumPy leaves those bits uninitialised
            yield case("unpackbits(a, axis=-1, count=5)", a=sample("uint8", shape))
    for a in layouts(sample("uint8", (3, 4))):
        for text in ["unpackbits(a)", "unpackbits(a, axis=0)", "unpackbits(a, axis=1, bitorder='little')",
                     "unpackbits(a, axis=1, count=13)", "unpackbits(a, axis=1, count=40)", "unpackbits(a, axis=0, count=-3)",
                     "unpackbits(a, count=7, bitorder='little')", "unpackbits(a, count=0)", "unpackbits(a, axis=1, count=-32)"]:
            yield case(text, a=a)
    for text in ["unpackbits(a, axis=2)", "unpackbits(a, count=-200)", "packbits(a, bitorder='x')", "unpackbits(a, bitorder='x')",
                 "packbits(a, axis=5)"]:
        yield case(text, a=sample("uint8", (2, 3)))


def memory():
    a = sample("int32", (6, 8))
    for text in ["a, a", "a[::2], a[1::2]", "a[:, ::2], a[:, 1::2]", "a[:2], a[2:]", "a[:3], a[2:]", "a, b", "a.T, a[1]",
                 "a[::3, ::2], a[::2, ::3]", "a[1::3, 1::2], a[::3, ::2]", "a[:0], a", "a.view('int8')[:, ::4], a.view('int8')[:, 1::4]",
                 "a.view('int8')[:, ::4], a", "a[::-1], a[5]"]:
        yield case(f"shares_memory({text})", a=a, b=sample("int32", (3,)))
        yield case(f"may_share_memory({text})", a=a, b=sample("int32", (3,)))


def cases():
    yield from promotion()
    yield from hierarchy()
    yield from limits()
    yield from bits()
    yield from memory()
