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


def dtype_texts():
    """Arrays have the machine's byte order, so that only the dtypes differ where NumPy keeps another one."""
    names = ["int8", "uint64", "float32", "complex128", "bool", "int", "float", "complex", "int_", "bool_", "uint", "intp", "uintp", "byte", "ubyte",
             "short", "ushort", "intc", "uintc", "long", "ulong", "longlong", "ulonglong", "half", "single", "double", "csingle", "cdouble"]
    codes = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"] + list("?bBhHiIlLqQpPnNefdFD")
    unknown = ["i3", "f16x", "", " f8", "f8 ", "float_", "Int32", "<int32", ">float64", "=double", "<<f8", "<", "complex64x"]
    for name in names + codes + unknown:
        yield case(f"dtype('{name}')")
        yield case(f"zeros(2, '{name}')")
    for code in codes:
        for order in "<=|":
            yield case(f"dtype('{order}{code}')")
        yield case(f"array([1, 0]).astype('>{code}').astype('{code}')")
        yield case(f"dtype('>{code}').itemsize")
        if code in "qQ":  # a type of its own in NumPy with the name and size of 'l'
            continue
        yield case(f"(dtype('{code}').char, dtype('{code}').str, dtype('{code}').kind, dtype('{code}').byteorder, dtype('{code}').isnative)")
    for text in ["dtype('>f8') == 'f8'", "dtype('>f8') == '>f8'", "dtype('f8') == '<f8'", "dtype('f8') == 'd'", "dtype('|i1') == 'b'", "dtype('>i4').str",
                 "dtype('>i4').byteorder", "dtype('>i4').isnative", "dtype('>i1').str", "dtype('>i4').name", "repr(dtype('>c16'))", "dtype(None)",
                 "dtype(float)", "dtype(dtype('i2'))", "dtype(int32)", "long(3)", "ulong(3)"]:
        yield case(text)


def large_integers():
    """Ints that no array holds are floats beside floats."""
    arrays = {"f": sample("float64", (3,)), "s": sample("float32", (3,)), "c": sample("complex128", (3,)), "i": sample("int64", (3,)),
              "u": sample("uint8", (3,)), "n": np.array([2**64 - 1, 0, 5], "uint64")}
    for number in ["2**63", "2**64", "-2**63 - 1", "10**30", "-10**30"]:
        for op in ["+", "-", "*", "/", "//", "<", "<=", "==", "!=", ">", ">="]:
            for a in arrays:
                if number == "2**63" and a in "iu" and op in ("<", "<=", "==", "!=", ">", ">="):
                    continue
                yield case(f"a {op} {number}", a=arrays[a], ulp=1)
                yield case(f"{number} {op} a", a=arrays[a], ulp=1)
    for text in ["array(2**63)", "array([2**63, 1])", "array([2**63, -1])", "array([2**63, 2**64 - 1])", "array([2**64], dtype=float)",
                 "array([2**64, 1.5], dtype='f4')", "array([2**70], dtype=bool)", "array([2**64], dtype=int)", "array(10**400, dtype=float)",
                 "full(3, 10**30, dtype=float)", "where([True, False], 10**30, 1.0)", "maximum(a, 10**30)", "minimum(10**30, a)", "clip(a, -10**30, 10**30)",
                 "a * 10**400", "float64(10**30)", "float32(2**70)", "complex128(10**30)", "int64(2**63)", "uint64(2**64 - 1)", "uint64(2**64)", "uint8(300)",
                 "uint8([1, 2]) + 300", "uint8([1, 2]) < 300", "uint8([1, 2]) == -1", "float64(1) * 10**30", "add(10**30, 1.0)", "add(10**30, 1)",
                 "equal(2**70, 2**70)", "less(2**70, 2**70 + 1)", "greater(2**70, 1.5)", "arctan2(a, 10**30)", "divide(arange(3), 10**30)", "a // 10**30",
                 "isclose(a, 10**30)", "result_type(float32, 10**30)", "zeros(2**70)", "zeros(3)[2**70]", "arange(3) & 2**70", "searchsorted(a, 10**30)",
                 "float64('1.5')", "float64('x')"]:
        yield case(text, a=np.array([1.0, 2.5, -3.0]), ulp=1)


def bytes_of_arrays():
    for code in ["u1", "i2", ">i2", "<u4", ">f8", "c8", ">c8", "?", "e"]:
        yield case(f"frombuffer(b'\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x00\\x01\\x02\\x03\\x04\\x05\\x06\\x07\\x00', '{code}').astype('{code.lstrip('<>')}')")
    for text in ["frombuffer(b'', 'u1')", "frombuffer(b'abcd', 'u1', 2)", "frombuffer(b'abcd', 'u1', 2, 1)", "frombuffer(b'abcd', 'u1', offset=3)",
                 "frombuffer(b'abcde', 'i2')", "frombuffer(b'abcd', 'u1', 5)", "frombuffer(b'abcd', 'u1', offset=5)", "frombuffer(b'abcd', 'u1', offset=-1)",
                 "frombuffer('abcd', 'u1')", "frombuffer(b'abcdefgh')", "frombuffer(b'abcdefgh', dtype('>i4')).astype(int32)"]:
        yield case(text)
    for a in layouts(sample("int16", (2, 3))):
        for order in ["", "'C'", "'F'", "'A'", "'x'"]:
            yield case(f"frombuffer(a.tobytes({order}), 'u1')", a=a)
    yield case("frombuffer(a.tobytes(), 'u1')", a=sample("complex64", ()))
    yield case("len(a.tobytes())", a=sample("float64", (0, 3)))
    yield case("len(random.default_rng(1).bytes(7))")
    yield case("len(random.Generator.bytes(random.default_rng(1), 7))")


def seeds():
    for entropy in ["0", "1", "2**31", "2**32", "2**64 - 1", "2**64", "2**100 + 7", "10**60", "[]", "[0]", "[1, 2]", "(1, 2)", "[2**40, 3]", "[2**70, 0, 5]",
                    "[1, 2, 3, 4, 5, 6, 7, 8, 9]", "array([1, 2, 3])", "[[1, 2], [3, 4]]", "-1", "1.5", "[1, -1]", "'a'", "True"]:
        s = f"random.SeedSequence({entropy})"
        yield case(f"{s}.generate_state(5)")
        yield case(f"{s}.generate_state(3, uint64)")
    s = "random.SeedSequence([1, 2])"
    for text in [f"{s}.generate_state(0)", f"{s}.generate_state(2, float64)", f"{s}.spawn(3)[2].generate_state(4)", f"len({s}.spawn(0))",
                 f"{s}.spawn(2)[1].spawn(3)[0].generate_state(4)", "random.SeedSequence(7, spawn_key=(1, 2)).generate_state(4)",
                 "random.SeedSequence(7, spawn_key=(2**40,)).generate_state(4)", "random.SeedSequence(7, pool_size=8).generate_state(9)",
                 "random.SeedSequence(7, pool_size=3)", "random.SeedSequence(7, n_children_spawned=5).spawn(1)[0].generate_state(3)", "random.SeedSequence([1, 2, 3, 4, 5], spawn_key=[9], pool_size=6).generate_state(4)",
                 "len(random.default_rng([1, 2]).spawn(3))", "len(random.Generator.spawn(random.default_rng(5), 2))",
                 f"random.SeedSequence.generate_state({s}, 2)", f"len(random.SeedSequence.spawn({s}, 2))", "random.default_rng([1, 2]).spawn(2)[1].random((2, 3)).shape", "random.default_rng(2**80).random(2).shape",
                 "random.default_rng(-1)", "random.default_rng([1, -2])", "random.default_rng('a')", "random.default_rng(1.5)"]:
        yield case(text)


def cases():
    yield from dicts_and_texts()
    yield from memory_layout()
    yield from operators()
    yield from subscripts()
    yield from attributes()
    yield from reductions()
    yield from dtype_texts()
    yield from large_integers()
    yield from bytes_of_arrays()
    yield from seeds()
