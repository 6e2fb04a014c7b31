"""Indexing by arrays and masks, its assignment, and the functions of that chapter.

By decision choose() rejects a literal that the common dtype of the choices cannot hold, as where() does (NumPy wraps
it), and copyto() wants a where= of bools even if it is a list.
"""
from expressions import DTYPES, case, layouts, reversed_, sample, strided
import numpy as np

I = np.array


def subscripts():
    a = sample("int32", (4, 5, 3, 2))
    i, j = I([0, 3, -1]), I([[1], [-2]])
    m4, m5, m45 = I([1, 0, 1, 0], bool), I([1, 1, 0, 0, 1], bool), sample("bool", (4, 5))
    placed = ["i", "j", "i, i", "i, j", ":, i", ":, i, j", "i, :, j", "i, ..., j % 2", "..., j % 2", "i, None, i % 3",
              "None, i, i % 3", "i, 1", "1, i", "1, :, i % 3", ":, 1, i % 3", ":, i, None, 1", ":, i, ..., 1", "i, 1:4",
              "1:3, ::-2, i % 3, ::-1", "::2, i", "i, i, i % 3, i % 2", "i, i, i % 3", "0, i, 0, 0", "0, 0, i % 3, 0",
              "i[0], j", ":, i[1]", "i[1]", "..., i[0] * 0", "[]", "[[]]", "[0, 1], []", ":, []", "[[0, 1]]",
              "[[0], [1]], [0, 2]", "(0, 1), [0, 1]", "i * 0", "i.astype(int8)", "i.astype(uint8) % 4", "(i,)",
              "True", "False", "True, False", "True, i", ":, True, i", ":, False", "None, True", "..., True",
              "i, True, :, 0", "yes", "one", ":, one", ":, one, :, one - 1",
              "m4", "m5", ":, m5", "m4, 1", "m4, :, i[:2] % 3", "m4, [0, 1]", "m4, [0, 1, 2]", "m45", "m45, 1",
              "m45, ..., 0",
              "m45, [0]", "m45.T", "m4, m5", "~m4, :2", "a > 10", "(a > 10)[0]", "a > 1000", ":, :, m4[:3]",
              "m4 & False",
              "[True, False, False, True]", "[[True]]", "m4[:0]", "i, i, i, i, i", "m45, 0, 0, 0", "i, 0, 0, 0, 0",
              "9", "[9]", "[-5]", ":, [5]", "i, i + 9", "[0, 1], [0, 1, 2]", "1.5", "[1.5]", "i * 1.0", "'x'",
              "..., ..., i",
              "i, [9], []", "[9], j[:0]", "a", "a % 4"]
    for index in placed:
        yield case(f"a[{index}]", a=a, i=i, j=j, m4=m4, m5=m5, m45=m45, yes=I(True), one=I(1))
    for index in ["i", ":, i", "i, j", "i, :, j % 3", "m45", "a > 10", ":, m5"]:
        for b in layouts(a):
            yield case(f"a[{index}]", a=b, i=strided(i), j=reversed_(j), m4=m4, m5=strided(m5), m45=reversed_(m45))
    for dtype in DTYPES:
        b = sample(dtype, (5, 6), special=True)
        for index in ["[4, 0, 0]", ":, [5, -6]", "[[1, 2], [3, 4]], [0, 5]", "m", "m[:, 0]", ":, m[0]"]:
            yield case(f"a[{index}]", a=b, m=sample("bool", (5, 6)))
    for text in ["a.__getitem__((i, 1))", "a.__getitem__(...)", "a.__getitem__(m4)",
                 "a[slice(1, 3), slice(None), i % 3]",
                 "a[slice(None, None, -1)]", "a[list(range(3))]", "a[tuple([1, 2])]", "a[list((1, 2))]", "a[range(2)]",
                 "a[[slice(1)]]", "a[[1, None]]", "a[[]][:, i]", "a[int8(1), i]", "a[uint64(3)]", "a[[[1]], 0]",
                 "a[None, i[None], None]",
                 "a[none]", "a[m4[:0]]", "a[m40[:0]]", "a[m40]", "a[m40, 1]", "a[m4[:0], :, m4[:0]]",
                 "a[0][m5]", "a[i][:, m5]", "a[m4][m4]", "a[no, i]", "a[[True], 0]", "a[i, no]", "a[no]"]:
        yield case(text, a=a, i=i, j=j, m4=m4, m5=m5, none=np.zeros(0, np.float32), m40=np.zeros((4, 0), bool),
                   no=I(False))
    deep = np.arange(2**12).reshape((2,) * 12)
    for index in ["i, ..., i", "..., i, :, i, :", "i, i, i, i, i, i, i, i, i, i, i, i", "m, ..., i", "..., m"]:
        yield case(f"a[{index}]", a=deep, i=I([1, 0, 1]), m=I([[True, False], [True, True]])[:, :])
    for b in [sample("float32", ()), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((1, 1))]:
        for index in ["True", "False", "...", "()", "yes", "[0]", "[]", "[1]", "[5]", "0", ":, [0]", "a > 0",
                      "[0], [0]", "[9], []"]:
            yield case(f"a[{index}]", a=b, yes=I(True))


def assignments():
    def written(index, value, a, **more):
        return case(f"(a.__setitem__(s_[{index}], {value}), a)", a=a, **more)

    a = sample("int32", (4, 5, 3))
    i, j, m = I([0, 3, -1]), I([[1], [-2]]), sample("bool", (4, 5, 3))
    more = {"i": i, "j": j, "m": m, "v": sample("int16", (3,), seed=4), "w": sample("float64", (4, 5, 3), seed=5)}
    for b in layouts(a):
        for index in ["i", "j", ":, i", "i, j", "i, :, j", "m[:, 0, 0]", "m[:, :, 0]", "m", ":, m[0, :, 0]", "1", "1:3",
                      "...",
                      "True", "False", "i, 1, 2", "[]"]:
            for value in ["7", "v", "2.7", "w[0, 0]"]:
                yield written(index, value, b, **more)
    for index, value in [("i", "w[:3]"), ("i", "w"), ("i, j", "w[0, 0, :2]"), ("[0, 0, 0], 1, 1", "v"), ("m",
                                                                                                         "a[m][::-1]"),
                         ("m", "w[m]"), ("m", "v"), ("m", "[5]"), ("m", "w"), ("~m", "0"), ("m & False", "v"),
                         ("[0, 1]", "a[[1, 0]]"),
                         (":, [0, 1]", "a[:, [1, 0]]"), ("::-1", "a"), ("[3, 2, 1, 0]", "a"), ("[9]", "1"), ("[0, 9]",
                                                                                                             "1"),
                         ("0, [5]", "1"), ("[0, 1], [0, 1, 2]", "1"), ("m.T", "1"), ("0, 0, 0, 0", "1"), ("i", "nan"),
                         ("i", "1j"),
                         ("0", "inf"), ("i", "2**40"), ("m", "2**40"), ("i", "float64(nan)"), ("m[:0, 0, 0]", "1"),
                         ("m[:0, :, 0]", "1"), ("m[:0, 0, 0]", "[1, 2]"), ("m[:0]", "1"), ("m[:0]", "[1, 2]"), ("i",
                                                                                                                "[[[[7]]]]"),
                         ("0, 0, 0", "i[:1]"), ("1:3", "w"), ("[1.0]", "1"), ("i", "True"), ("a % 4", "1")]:
        yield written(index, value, a, **more)
    yield case("(a.__setitem__(a, [7, 8, 9]), a)", a=I([1, 0, 2]))
    yield case("(a.__setitem__(a, False), a)", a=I([True, False, True]))
    for dtype in DTYPES:
        b = sample(dtype, (3, 4), special=True)
        for index in ["[2, 0]", ":, [0, -1]", "m", "m[:, 0]"]:
            yield written(index, "1", b, m=sample("bool", (3, 4)))
            yield written(index, "v", b, m=sample("bool", (3, 4)), v=sample("int8", (), seed=3))
        yield written("m", "a[m][::-1]", b, m=sample("bool", (3, 4)))
        yield written("[0, 0, 1]", "a[[1, 2, 0]]", b)


def in_place():
    """What Python makes of a[index] op= value."""
    a = sample("int32", (4, 5, 3))
    more = {"i": I([0, 3, -1]), "r": I([0, 0, 1]), "j": I([[1], [-2]]), "m": sample("bool", (4, 5, 3)),
            "v": sample("int16", (3,), seed=4)}
    for index in ["1", "1:3", "...", "i", "r", "j", ":, i", "i, j", "i, :, r", "m", "m[:, :, 0]", ":, m[0, :, 0]",
                  "True", "False", "[]",
                  "a > 0", "None"]:
        for name, value in [("add", "7"), ("multiply", "v"), ("subtract", "2.5"), ("bitwise_and", "6"), ("floor_divide",
                                                                                                         "3"),
                            ("left_shift", "1")]:
            yield case(f"(a.__setitem__(s_[{index}], {name}(a[{index}], {value}, out=a[{index}])), a)", a=a, **more)
    for dtype in DTYPES:
        b = sample(dtype, (3, 4))
        for index in ["[2, 0, 0]", "m", ":, 1:", "::-1, [0, -1]"]:
            yield case(f"(a.__setitem__(s_[{index}], add(a[{index}], 1, out=a[{index}])), a)", a=b, m=sample("bool", (3,
                                                                                                                      4)))


def ufunc_at():
    i = I([0, 3, -1, 0, 3, 3])
    for dtype in DTYPES:
        a, v = sample(dtype, (4,)), sample(dtype, (6,), seed=1)
        for name in ["add", "subtract", "multiply", "maximum", "minimum", "logical_or", "fmax"]:
            if dtype == "bool" and name == "subtract":
                continue
            yield case(f"({name}.at(a, i, v), a)", a=a, v=v, i=i, norm=4)
    for dtype in ["int8", "uint16", "int64"]:
        for name in ["bitwise_xor", "bitwise_and", "floor_divide", "remainder", "left_shift", "gcd", "power"]:
            v = np.abs(sample(dtype, (6,), seed=1)) % 3 + 1
            yield case(f"({name}.at(a, i, v), a)", a=sample(dtype, (4,)), v=v.astype(dtype), i=i)
    for name in ["divide", "power", "copysign", "hypot", "arctan2", "fmod", "float_power", "nextafter", "logaddexp",
                 "fmin", "ldexp",
                 "greater", "not_equal", "logical_and", "logical_xor", "remainder", "heaviside"]:
        for dtype in ["float16", "float32", "float64", "int32", "uint8"]:
            v = np.abs(sample("int32" if name == "ldexp" else dtype, (6,), seed=1)) % 3 + 1
            yield case(f"({name}.at(a, i, v), a)", a=sample(dtype, (4,)), v=v, i=i, ulp=8)
    for name in ["negative", "square", "sqrt", "isnan", "logical_not", "invert", "sign", "exp2", "rint", "conjugate",
                 "signbit"]:
        for dtype in ["float16", "float64", "int16", "uint32", "bool", "complex64"]:
            yield case(f"({name}.at(a, i), a)", a=sample(dtype, (4,)), i=i, ulp=8)
    for a in layouts(sample("int64", (4, 3))):
        for index in ["i", "(i, [0, 0, 1, 0, -1, 2])", "s_[:, [0, 0, 1]]", "s_[[0, 0], ::-1]", "m", "m[:, 0]",
                      "s_[m[:, 0], 1]",
                      "[[0, 1], [0, 0]]", "(slice(1, None), [2, 2])", "None", "[]", "True", "False", "-1", "(1, 1)"]:
            for value in ["3", "[1, 2, 3]", "v"]:
                yield case(f"(add.at(a, {index}, {value}), a)", a=a, i=i, m=sample("bool", (4, 3)),
                           v=reversed_(sample("int8", (1, 3))))
    many = np.arange(5000) * 7919 % 23 - 11
    for dtype in ["int8", "uint16", "int64", "float16", "float32", "float64", "complex128", "bool", "bfloat16"]:
        v = sample(dtype, (5000,), seed=2)
        ones = np.where(sample("bool", (5000,)), -1, 1).astype(v.dtype)
        for name, values in [("add", v), ("maximum", v), ("multiply", ones), ("logical_xor", v)]:
            # The order of sums is not fixed on a GPU.
            yield case(f"({name}.at(a, i, v), a)", a=sample(dtype, (12,)), i=many, v=values,
                       norm=1000 if name == "add" else 0)
    for dtype, other in [("int32", "float64"), ("uint8", "float32"), ("bool", "int8"), ("int8", "int64"), ("float32",
                                                                                                           "float64"),
                         ("float64", "complex128"), ("int16", "uint8")]:
        for name in ["add", "maximum", "logical_or"]:
            yield case(f"({name}.at(a, i, v), a)", a=sample(dtype, (12,)), i=many, v=sample(other, (5000,), seed=2),
                       norm=1000 if name == "add" else 0)
    for text in ["frexp.at(a, [0])", "divmod.at(a, [0], 1)", "add.at(5, [0], 1)", "add.at([1, 2], [0], 1)",
                 "add.at(a, [0], 1j)", "add.at(a, [[9]], 1)",
                 "add.at(a, ([0], [7]), 1)", "add.at(a, [-5], 1)", "add.at(a, [0, 0], [[1, 2, 3], [4, 5, 6]])",
                 "add.at(a, [0.5], 1)"]:
        yield case(f"({text}, a)", a=sample("int32", (4, 3)))
    for text in ["add.at(a, i, 1.5)", "add.at(a, [[0, 1], [1, 1]], [[1], [2]])",
                 "add.at(a, ([0, 0], slice(None)), [1, 2, 3])",
                 "add.at(a, s_[:, [0, 0]], 1)", "add.at(a, a > 0, 1)", "add.at(a, [7], 1)", "negative.at(a, [0, 0, 1])",
                 "add.at(a, [0], [1, 2])", "add.at(a, ..., 1)", "add.at(a, 0, 1)", "negative.at(a, [0], 1)",
                 "add.at(a, [0])"]:
        yield case(f"({text}, a)", a=sample("int32", (4, 3)), i=i)
        yield case(f"({text}, a)", a=reversed_(sample("float64", (4, 3))), i=i, norm=2)


def takes():
    a = sample("float32", (4, 5, 3))
    i, j = I([0, 2, -1]), I([[1, -2], [0, 0]])
    for b in layouts(a):
        for axis in ["", ", axis=0", ", axis=1", ", axis=-1"]:
            for positions in ["i", "j", "1", "[]", "j[:, :0]"]:
                yield case(f"take(a, {positions}{axis})", a=b, i=i, j=strided(j))
        yield case("a.take([1, 0], 1)", a=b)
    for dtype in DTYPES:
        b = sample(dtype, (6,), special=True)
        yield case("take(a, [5, 0, 0, -6])", a=b)
        yield case("(put(a, [5, 0, -2], a[:2]), a)", a=b)
        yield case("take_along_axis(a, argsort(a), 0)", a=sample(dtype, (6,)))
        yield case("choose([0, 1, 1, 0, 0, 1], [a, b])", a=b, b=sample(dtype, (6,), seed=2))
        yield case("compress([1, 0, 1], a)", a=b)
        yield case("select([m, ~m], [a, a[::-1]])", a=b, m=sample("bool", (6,)))
        yield case("(place(a, m, v), a)", a=b, m=sample("bool", (6,)), v=sample(dtype, (2,), seed=3))
        yield case("(putmask(a, m, v), a)", a=b, m=sample("bool", (6,)), v=sample(dtype, (4,), seed=3))
        yield case("(copyto(a, v, where=m), a)", a=b, m=sample("bool", (6,)), v=sample(dtype, (6,), seed=3))
        yield case("(fill_diagonal(a, v), a)", a=sample(dtype, (3, 4)), v=sample(dtype, (2,), seed=3))
        for name in ["nonzero", "flatnonzero", "argwhere", "where"]:
            yield case(f"{name}(a)", a=sample(dtype, (3, 4), special=True))
        yield case("extract(a, b)", a=b, b=sample(dtype, (6,)))
    for mode in ["raise", "wrap", "clip"]:
        for positions in [[0, 4, -5], [9, -9, 3], [-1, 5, 100]]:
            yield case(f"take(a, i, axis=1, mode='{mode}')", a=a, i=I(positions))
            yield case(f"(put(a, i, [7, 8], mode='{mode}'), a)", a=sample("int16", (5,)), i=I(positions))
            yield case(f"choose(i, [1, 2.5, a], mode='{mode}')", a=sample("float32", (2, 3)), i=I(positions))
    for text in ["take(a, 60)", "take(a, [4], axis=2)", "take(a, [0], axis=3)", "take(a, [0], mode='x')",
                 "take(a, i * 1.0)",
                 "take(a, [0, 1], out=a[0, 0])", "take(a, [0, 1], out=a[0, 0, :2])", "(take(a, [2, 1], out=out), out)",
                 "take(a, [0, 1], out=i[:2])", "take(a, [0, 1], out=wide)",
                 "take(a[:2, 0, :0], [0], axis=1)", "take(a[:2, 0, :0], [5], axis=0)",
                 "take(a[0, 0, :0], [], mode='clip')", "take(a[0, 0, :0], [0], mode='clip')",
                 "take(one, [0, 0])", "take(one, 0)", "take(one, [0], axis=0)", "take(one, [1])", "take(5, [0])",
                 "take([5, 6], 1)", "take(a, True)", "(put(a, [99], 1), a)", "(put(a, i * 1.0, 1), a)",
                 "(put(a, i, []), a)",
                 "(put(a, i, 1.5), a)", "(put(a[0], i, a[1]), a)", "(put(a, [[0, 1], [2, 3]], [1, 2, 3, 4, 5]), a)",
                 "(a.put([0], 9), a)"]:
        yield case(text, a=a, i=i, one=I(5), out=np.zeros(2, np.float32), wide=np.zeros(2))
    for b in layouts(a):
        yield case("(put(a, i, [1, 2]), a)", a=b, i=i)
        yield case("(place(a, m, [1, 2, 3]), a)", a=b, m=sample("bool", (4, 5, 3)))
        yield case("(putmask(a, m, [1, 2, 3]), a)", a=b, m=sample("bool", (4, 5, 3)))
        yield case("(copyto(a, [1, 2, 3], where=m), a)", a=b, m=sample("bool", (5, 1)))
        for axis in [0, 1, -1]:
            yield case(f"take_along_axis(a, argsort(a, axis={axis}), axis={axis})", a=b)
            yield case(f"(put_along_axis(a, argmax(a, axis={axis}, keepdims=True), 99, axis={axis}), a)", a=b)
    for text in ["take_along_axis(a, i[:2], None)", "take_along_axis(a, i[None, :2, None], 1)",
                 "take_along_axis(a, i, 1)", "take_along_axis(a, z + 9, 1)", "take_along_axis(a, a, 1)",
                 "take_along_axis(a, z[:3], 1)", "take_along_axis(a, z[:, :0], 1)",
                 "take_along_axis(a, z, 5)", "(put_along_axis(a, i, 1, None), a)",
                 "(put_along_axis(a, z, [1, 2, 3], 1), a)",
                 "(put_along_axis(a, z, [1, 2], 1), a)",
                 "take_along_axis(a, z.astype(uint8), 1)", "take_along_axis(a, z > 0, 1)",
                 "take_along_axis(a, i[:2, None], 0)"]:
        yield case(text, a=a, i=i, z=np.zeros((4, 1, 3), np.int64))


def choices():
    a = sample("int64", (3, 4))
    for text in ["choose([0, 1, 2, 1], a)", "choose(1, [a, 2.5])", "choose([[0], [1]], [10, 20.5])",
                 "choose([0, 1], [[1, 2], [3, 4]])", "choose([0, 2], [[1, 2], [3, 4]])", "choose([-1], [[1], [2]])",
                 "choose([0.5], [1, 2])", "a[0, :2].choose([[1, 2], [3, 4]], mode='wrap')", "choose([0, 1, 1], [a, a])",
                 "choose([0, 1], [[1, 2], [3, 4]], out=two)",
                 "compress([0, 1], a, axis=1)", "compress([0, 1, 1, 0, 1], a)", "compress([0, 1, 0, 0, 1], a, axis=1)",
                 "compress([0] * 20, a)", "compress([[1]], a)", "a.compress([1, 0, 1], axis=0)",
                 "compress([True], a, axis=-1)",
                 "compress([1, 0, 1], a, axis=2)", "extract(a > 0, a)", "extract([1, 0, 1], a)", "extract([1] * 13, a)",
                 "select([a > 5, a > 0], [a, a * 2.5], 7)", "select([a > 5], [a], default=-1)", "select([], [])",
                 "select([a > 0], [a, a])", "select([a], [a])", "select([True, False], [a, 2])",
                 "select([a > 5, a[0] > 0], [1, a])",
                 "select([a > 5, a > 4, a > 3, a > 2, a > 1, a > 0, a > -1, a > -2], [1, 2, 3, 4, 5, 6, 7, 8], 9)",
                 "where(a > 0, a, 0.5)", "where(a)", "where(a, 1)", "where(a > 0, 1, 2)", "where(a > 0, a, a[0])",
                 "where(a > 0, a, a[:2])", "(place(a, a > 0, []), a)", "(place(a, a > 1000, []), a)",
                 "(place(a, [1, 0], [1]), a)",
                 "(place(a, a > 0, [1.5]), a)", "(putmask(a, a > 0, 2.5), a)", "(putmask(a, [1], 1), a)",
                 "(putmask(a, a > 0, a[0]), a)",
                 "(copyto(a, 2.5), a)", "(copyto(a, 2), a)", "(copyto(a, [1.5, 2, 3, 4]), a)",
                 "(copyto(a, a[::-1]), a)",
                 "(copyto(a, 1.5, casting='unsafe'), a)", "(copyto(a, [1, 2]), a)", "(copyto(a, 1, where=a), a)",
                 "(copyto(a, 1, where=[True, False, True, False]), a)", "(copyto(a, 1, where=a[:2] > 0), a)",
                 "(copyto(a, 5, where=False), a)", "(copyto(a, a[0].astype(int8), casting='safe'), a)",
                 "(copyto(a, a[0], casting='no'), a)", "(a.fill(3), a)", "a.item(5)", "a.item(1, 2)", "a.item(99)",
                 "a.item(1)",
                 "a.item()", "a.item((1, 2))", "a.item(1, 2, 3)", "a.item(-1)", "a.item(-13)", "a.item(3, 0)",
                 "a[0, 0].item()",
                 "a[0].item(2)", "a.nonzero()", "a.compress([0, 1], axis=1)", "a.take([[0, 1]], axis=1)",
                 "(a.put([0, 1], [8, 9]), a)",
                 "a.choose([1, 2])", "(a % 2).choose([1.5, a])", "(a.fill(2.7), a)", "(a.fill([1, 2]), a)",
                 "(a.fill([5]), a)",
                 "(a.fill(int8(9)), a)", "(a.fill(two[0] + 2.5), a)", "(a.fill(nan), a)", "(a.fill(1j), a)",
                 "(a[::2, ::-1].fill(0), a)",
                 "select([a > 5, a > 0], [a, [1, 2, 3, 4]])",
                 "select([a > 5, a > 0], [a.astype(float32), a.astype(int8)], 1)",
                 "select([yes, a > 0], [a, -a])", "compress([1, 0, 1], a, out=two)",
                 "compress([1, 0, 1], a, axis=0, out=a[1:])", "compress([], a)", "compress([], a, axis=1)",
                 "compress(1, a)",
                 "extract([], [])", "choose([0, 1, 0, 1], [a, -a], mode='wrap')", "choose(two[:0], [two[:0], 1])",
                 "choose([1, 0], (two.astype(int8), two.astype(uint8)))", "choose([1, 0], [two.astype(int8), 5])",
                 "choose([1, 0], [two.astype(float16), 2.5])", "choose([True, False], [10, 20])"]:
        yield case(text, a=a, two=np.zeros(2, np.int64), yes=I(True))


def positions():
    for shape in [(0,), (1,), (7,), (3, 0), (2, 3, 4), (1, 1, 1, 2)]:
        for b in layouts(sample("int8", shape) % 3):
            for name in ["nonzero", "flatnonzero", "argwhere"]:
                yield case(f"{name}(a)", a=b)
            yield case("a[nonzero(a)]", a=b)
            yield case("a.nonzero()", a=b)
    for name in ["nonzero", "flatnonzero", "argwhere", "where"]:
        yield case(f"{name}(a)", a=I(3))
        yield case(f"{name}(a)", a=I(0))
        yield case(f"{name}(a)", a=I([np.nan, 0.0, -0.0, np.inf]))
    a = sample("float32", (4, 4))
    for text in ["ix_([0, 1], [1, 2, 3])", "ix_([True, False, True], [2])", "ix_(range(2), [[]])",
                 "ix_([1.5])", "a[ix_([True, False, True, True], [3, 0])]", "a[ix_([0, 2], [1, 3])]", "ix_([[1]])",
                 "ix_([], [1])",
                 "ix_()", "unravel_index(5, (2, 3))", "unravel_index([[5, 0], [1, 2]], (2, 3))",
                 "unravel_index([5], (2, 3), order='F')",
                 "unravel_index(50, (2, 3))", "unravel_index([-1], (2, 3))", "unravel_index([1.5], (2, 3))",
                 "unravel_index(0, ())",
                 "unravel_index([1], (2, 3), order='K')", "unravel_index([3, 4], 7)", "unravel_index(small, (2, 3))",
                 "ravel_multi_index(([1, 0], [2, 1]), (2, 3))", "ravel_multi_index((1, 2), (2, 3))",
                 "ravel_multi_index((1, 2), (2, 3), order='F')",
                 "ravel_multi_index(([1, 5], [2, -1]), (2, 3))",
                 "ravel_multi_index(([1, 5], [2, -1]), (2, 3), mode='wrap')",
                 "ravel_multi_index(([1, 5], [2, -1]), (2, 3), mode=('clip', 'wrap'))",
                 "ravel_multi_index((1,), (2, 3))",
                 "ravel_multi_index((1.5, 1), (2, 3))", "ravel_multi_index(([[1], [0]], [0, 1, 2]), (2, 3))",
                 "diag_indices(4)", "diag_indices(2, 3)", "diag_indices(0)", "diag_indices_from(a)",
                 "diag_indices_from(a[:2])",
                 "diag_indices_from(a[0])", "a[diag_indices(4)]", "mask_indices(3, lambda m, k: m)",
                 "mask_indices(3, lambda m, k: add.accumulate(m, axis=0) > k, 1)",
                 "mask_indices(4, lambda m, k: m * [0, k, 1, 0], 5)",
                 "tril_indices(3)", "tril_indices(3, 1)", "tril_indices(3, -1, 5)", "tril_indices(0)",
                 "tril_indices(2, m=4)", "triu_indices(3)",
                 "triu_indices(3, 1)", "triu_indices(3, -1, 5)", "triu_indices(5, k=2, m=2)", "tril_indices_from(a)",
                 "tril_indices_from(a[:2], k=1)",
                 "triu_indices_from(a[:, :2], k=-1)", "tril_indices_from(a[0])", "indices((2, 3))",
                 "indices((2, 3), dtype=float32)",
                 "indices((2, 3), sparse=True)", "indices((4,))", "indices((0, 2))", "indices((2, 1, 2), int8, True)",
                 "(fill_diagonal(a, 9), a)", "(fill_diagonal(a[:, :2], [1, 2], wrap=True), a)",
                 "(fill_diagonal(a[:2], [1, 2, 3]), a)",
                 "(fill_diagonal(a.T, a[0]), a)", "(fill_diagonal(a[::-1, ::2], 5), a)", "(fill_diagonal(a[0], 1), a)",
                 "a[tril_indices(4)]",
                 "a[nonzero(a > 0)]", "a[where(a > 0)]"]:
        yield case(text, a=a, small=I([0, 5], np.int8))
    for wrap in [False, True]:
        yield case(f"(fill_diagonal(a, [1, 2, 3], wrap={wrap}), a)", a=np.zeros((11, 3)))
        yield case(f"(fill_diagonal(a, 4, wrap={wrap}), a)", a=np.zeros((3, 11), np.int8))
        yield case(f"(fill_diagonal(a, 4, wrap={wrap}), a)", a=np.zeros((3, 3, 3), np.int8))
        yield case(f"(fill_diagonal(a, 4, wrap={wrap}), a)", a=np.zeros((3, 3, 2), np.int8))


def cases():
    for part in [subscripts, assignments, in_place, ufunc_at, takes, choices, positions]:
        yield from part()
