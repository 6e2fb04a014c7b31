"""Creation, ranges, grids and windows."""
from expressions import DTYPES, FLOATS, NUMPY_DTYPES, SOME, case, layouts, sample, strided
import numpy as np


def filled():
    for name in ["zeros", "ones"]:
        for dtype in DTYPES:
            yield case(f"{name}((2, 3), dtype={dtype})")
            yield case(f"{name}_like(a)", a=strided(sample(dtype, (2, 3))))
            yield case(f"full((2, 2), 3, dtype={dtype})")
            yield case(f"full_like(a, 1)", a=sample(dtype, (3,)))
        for text in ["3", "()", "(0,)", "[2, 0]", "(2, 3), order='F'", "-1", "(2, -1)", "2, order='K'", "2, dtype=None",
                     "2, 'int8'", "1.5"]:
            yield case(f"{name}({text})")
        for text in ["a, dtype=int8", "a, shape=(4,)", "a, order='F'", "a, shape=(-1,)", "a, 'f4', 'C', True, 2"]:
            yield case(f"{name}_like({text})", a=sample("float32", (2, 3)))
        yield case(f"{name}_like(a)", a=sample("float32", ()))
    for text in ["empty((2, 3)).shape", "empty(3, dtype=int8).dtype", "empty_like(a).shape", "empty_like(a, dtype=bool).dtype",
                 "empty(-2)", "full(2, 1.5)", "full((2, 3), a[0])", "full((2, 3), [1, 2, 3])", "full(2, 300, dtype=int8)",
                 "full(2, -1, dtype=uint8)", "full(2, 3.7, dtype=int)", "full(2, True)", "full(2, 1j)", "full(3, [1, 2])",
                 "full((), 2)", "full_like(a, 2.9)", "full_like(a, 2.9, dtype=float64)", "full_like(a, a[0])",
                 "full_like(a, 300)", "full((2, 2), float32(2))", "full_like(a, [1, 2])"]:
        yield case(text, a=sample("int8", (2, 3)))


def arrays():
    for b in layouts(sample("int32", (2, 3))):
        for text in ["array(a)", "array(a, dtype=float32)", "array(a, ndmin=4)", "array(a, order='F')", "asarray(a)",
                     "asarray(a, dtype='int8')", "asarray(a, order='C')", "asanyarray(a)", "from_dlpack(a)",
                     "from_dlpack(a, copy=True)", "array(a, copy=None)", "array(a, copy=False)",
                     "asarray(a, copy=True)", "asarray(a, dtype=float32, copy=False)"]:
            yield case(text, a=b)
    for text in ["array([1, 2, 3])", "array([[1, 2], [3, 4.5]])", "array(3)", "array([])", "array([True, False])",
                 "array([1, 2j])", "array([[1], [2, 3]])", "array(1, ndmin=2)",
                 "asarray([1, 2], 'float16')", "array([1.7, 2.2], dtype=int32)"]:
        yield case(text)
    for dtype in DTYPES:
        if dtype != "bfloat16":
            yield case("from_dlpack(a)", a=sample(dtype, (3,), special=True))


def ranges():
    for dtype in DTYPES:
        if dtype not in ("bool", "bfloat16"):
            yield case(f"arange(7, dtype={dtype})")
            yield case(f"arange(1, 20, 3, dtype={dtype})")
            yield case(f"arange(0.5, 3, 0.25, dtype={dtype})")
    for text in ["5", "0", "-3", "2, 8", "8, 2", "8, 2, -1", "0, 10, 3", "0, 1, 0.1", "1, 0, -0.1", "0.1, 2, 0.2", "5.0",
                 "2.5", "0, 5, 1.5", "3, 10, dtype=float32", "0, 10, 0", "0., 10, 0.", "nan", "3, dtype=bool",
                 "2, dtype=bool", "0, 1e30", "1, 4, dtype='c16'", "3j", "0, 2+2j, 1", "300, 303, dtype='i1'", "5, dtype='u1'",
                 "-1, 2, dtype='u1'", "0, 3, .5, dtype=int", "True, 5", "True", "int8(3)", "float32(0), float32(1), float32(0.1)",
                 "float16(0), float16(2), float16(0.3)", "float32(0), 3.0", "9223372036854775800, 9223372036854775807, 3",
                 "-9223372036854775808, -9223372036854775800, 3", "0, 1000, 0.3", "1, 2, 1e-3", "10, step=3", "1, stop=4"]:
        yield case(f"arange({text})")
    for text in ["0, 1", "0, 1, 5", "1, -1, 7", "0, 1, 5, endpoint=False", "2, 3, 1", "2, 3, 0", "0, 1, -1", "0, 10, 11, dtype=int",
                 "-3.7, 3, 9, dtype='int8'", "0, 1, 5, dtype=float32", "0, 1j, 4", "1+1j, 2, 3", "0, 0, 3", "5, 5, 4",
                 "0, 5e-324, 4", "float32(0), 1, 7", "float32(0), float32(3), 7", "float16(0), float16(3), 6",
                 "0, 1, 5, retstep=True", "0, 1, 1, retstep=True", "0, 1, 0, retstep=True", "0, 1, 4, False, True",
                 "0, 1, 3, dtype=complex64", "0, 1, 3, dtype=bool", "0, 1, 3, axis=1", "0, inf, 3", "0, 1, 2.5"]:
        yield case(f"linspace({text})", ulp=1)
    for dtype in ["int32", "float16", "float32", "float64", "complex64"]:
        a, b = sample(dtype, (2, 3)), sample(dtype, (3,), seed=1)
        for text in ["a, b, 4", "a, b, 4, axis=1", "a, b, 4, axis=-1", "a, 1, 3, endpoint=False", "0, b, 3, dtype=int64",
                     "a, a, 3", "a, b, 1", "a, b, 0", "a, b, 3, axis=3"]:
            if dtype == "complex64" and "int64" in text:
                continue
            yield case(f"linspace({text})", a=a, b=b, ulp=2, norm=1)
        yield case("linspace(a, b, 3, retstep=True)", a=a, b=b, ulp=2, norm=1)
    for text in ["0, 3", "0, 3, 4", "2, 3, 5, endpoint=False", "0, 3, 4, base=2", "0, 3, 4, dtype=int", "0, 2, 3, base=[2, 3]",
                 "a, 2, 3", "a, 2, 3, axis=-1", "0, 1, 0", "0, 1, -1", "0, a, 3, base=a + 1", "float32(0), float32(2), 5"]:
        yield case(f"logspace({text})", a=np.array([1.0, 2.0]), ulp=8)
    for text in ["1, 1000, 4", "1, 256, 9", "-1, -1000, 4", "1000, 1, 4", "1, 2, 5, endpoint=False", "1j, 1000j, 4",
                 "1, 1000, 4, dtype=int", "1, 0, 3", "0, 1", "1, 8, 0", "1, 8, 1", "a, b, 4", "a, b, 4, axis=1", "a, 9, 3, axis=-1",
                 "-1, 1j, 3", "2, 3", "1, 8, -1", "float32(1), float32(9), 3", "1, 5, 3, dtype=float32"]:
        yield case(f"geomspace({text})", a=np.array([1.0, 2.0]), b=np.array([10.0, 300.0]), ulp=64, norm=16)


def matrices():
    for dtype in DTYPES:
        yield case(f"eye(3, 4, 1, dtype={dtype})")
        yield case(f"identity(2, dtype={dtype})")
    for text in ["eye(3)", "eye(3, 2)", "eye(2, 3, -1)", "eye(0)", "eye(2, 3, 99)", "eye(2, k=-99)", "eye(2, 3, order='F')",
                 "eye(-1)", "identity(3)", "identity(0)", "fromfunction(add, (2, 3))", "fromfunction(subtract, (2, 3), dtype=int)",
                 "fromfunction(multiply, (3, 0))", "fromfunction(square, 4)", "fromfunction(add, (-1, 2))"]:
        if "square, 4" in text:
            continue
        yield case(text)
    a, b, c = sample("int32", (3,)), sample("float32", (2,)), sample("int8", ())
    for text in ["meshgrid(a, b)", "meshgrid(a, b, indexing='ij')", "meshgrid(a, b, sparse=True)", "meshgrid(a, b, copy=False)",
                 "meshgrid(a, b, a)", "meshgrid(a, b, c, indexing='ij', sparse=True)", "meshgrid(a)", "meshgrid()",
                 "meshgrid(a, b, indexing='x')", "meshgrid(c)", "meshgrid([[1, 2], [3, 4]], a)"]:
        yield case(text, a=a, b=b, c=c)
    for dtype in DTYPES:
        if dtype in ("bool", "bfloat16"):
            continue
        yield case("vander(a)", a=sample(dtype, (4,)) if dtype in NUMPY_DTYPES else sample(dtype, (4,)), ulp=4)
    for text in ["vander(a, 2)", "vander(a, 4, increasing=True)", "vander(a, 0)", "vander(a, N=1)", "vander(a[:0])",
                 "vander([[1, 2]])", "vander(a, -1)"]:
        yield case(text, a=sample("int64", (3,)))


def windows():
    for name in ["bartlett", "blackman", "hamming", "hanning"]:
        for points in ["0", "1", "2", "3", "8", "51", "-2", "4.5"]:
            yield case(f"{name}({points})", atol=4e-16, ulp=4)
    for text in ["0, 3", "1, 3", "2, 3", "5, 14", "12, 0", "33, 8.6", "7, -4", "9, 100", "4.5, 3", "6, 0", "5, nan"]:
        yield case(f"kaiser({text})", ulp=64, atol=1e-17)


def cases():
    yield from filled()
    yield from arrays()
    yield from ranges()
    yield from matrices()
    yield from windows()
