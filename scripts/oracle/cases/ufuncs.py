"""ufuncs, their keyword arguments and methods, and functions made of them (ufunc.def, local/ops/functions/ufuncs.def).

quarry differs from NumPy by decision:
- i0(inf) is inf, not NaN.
- arctan2.reduce and power.reduce along a contiguous axis are right; NumPy's are wrong with its AVX-512 loops.
- complex64 powers are accurate to 4 spacings, NumPy's to some hundred; the signs of zero parts of complex powers differ.
- ldexp has no reduce and accumulate. `a ** 2` of bool has the dtype of power(a, 2), not int8.
- maximum(0.0, -0.0) and the like are either zero, as in NumPy, whose answer depends on the position.
- signature= with some inputs left open takes those as they are; NumPy looks for a loop.
- bfloat16 has every loop that float16 has; NumPy with ml_dtypes has fewer, and those are left out here.
"""
from expressions import BOOL, COMPLEX, DTYPES, FLOATS, INTEGERS, case, layouts, rng, sample
import numpy as np

UNARY = ["negative", "positive", "absolute", "fabs", "sign", "reciprocal", "square", "sqrt", "cbrt", "conjugate", "real",
         "imag", "rint", "floor", "ceil", "trunc", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
         "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "degrees",
         "radians", "spacing", "logical_not", "isfinite", "isinf", "isnan", "isnat", "signbit", "invert",
         "bitwise_count"]
BINARY = ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "float_power",
          "logaddexp", "logaddexp2", "arctan2", "hypot", "maximum", "minimum", "fmax", "fmin", "heaviside", "copysign",
          "nextafter", "ldexp", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
          "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd",
          "lcm"]
TWO_RESULTS = ["modf", "frexp", "divmod"]
ALIASES = {"abs": "absolute", "conj": "conjugate", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin",
           "asinh": "arcsinh", "atan": "arctan", "atanh": "arctanh", "deg2rad": "radians", "rad2deg": "degrees",
           "bitwise_not": "invert", "bitwise_invert": "invert", "true_divide": "divide", "mod": "remainder",
           "pow": "power", "atan2": "arctan2", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}
# Correctly rounded or exact; the others are within 4 spacings.
EXACT = {"negative", "positive", "fabs", "square", "rint", "floor", "ceil", "trunc", "real", "imag", "conjugate",
         "spacing", "logical_not", "isfinite", "isinf", "isnan", "isnat", "signbit", "invert", "bitwise_count", "add",
         "subtract", "floor_divide", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin", "heaviside", "copysign",
         "nextafter", "ldexp", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
         "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd",
         "lcm", "modf", "frexp"}
REAL_EXACT = {"absolute", "sign", "reciprocal", "sqrt", "multiply", "divide", "divmod"}
# Every pair of kinds, in either order. Each pair is a kernel on a GPU, so that not all dtypes meet for all ufuncs.
MIXED = [("bool", "int32"), ("int32", "uint8"), ("uint8", "float16"), ("float32", "int32"), ("float16", "float64"),
         ("complex128", "float32"), ("float64", "bool"), ("bool", "complex128"), ("int32", "float64")]
INEXACT = set(FLOATS + COMPLEX)


def bounds(name, *dtypes):
    """ulp= of a ufunc over these dtypes."""
    if name in ("power", "float_power", "pow") and any(dtype in COMPLEX for dtype in dtypes):
        return {"ulp": 256, "atol": 1e-300}
    if name in ("maximum", "minimum", "fmax", "fmin"):
        return {"atol": 1e-300}
    if any(dtype in COMPLEX for dtype in dtypes):
        return {} if name in EXACT and name != "square" else {"ulp": 8}
    return {} if name in EXACT | REAL_EXACT else {"ulp": 4}


def has_loop(name, *arrays):
    try:
        with np.errstate(all="ignore"):
            getattr(np, name)(*arrays)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def values(dtype, shape, seed=0):
    """Values that suit every ufunc: specials among small numbers, some in (-1, 1)."""
    a = sample(dtype, shape, seed, special=True)
    if dtype in INEXACT and a.size > 12:
        flat = a.reshape(-1)
        scale = rng("scale", dtype, seed).random(a.size // 3)
        flat[: a.size // 3] = (np.where(np.isfinite(flat[: a.size // 3].astype("complex128")), 1, 0) * scale).astype(a.dtype)
    return a


def unary():
    for name in UNARY + ["modf", "frexp"]:
        for dtype in DTYPES:
            a = values(dtype, (3, 7))
            if dtype == "bfloat16" and not has_loop(name, a):
                continue
            if name in ("real", "imag", "degrees", "radians") and dtype == "bfloat16":
                continue
            yield case(f"{name}(a)", a=a, **bounds(name, dtype))
        for dtype in ["float32", "int16", "complex64"] if name in ("negative", "absolute") else ["float32"]:
            for a in layouts(values(dtype, (3, 5), seed=2)):
                yield case(f"{name}(a)", a=a, **bounds(name, dtype))
            for shape in [(), (0,), (2, 0, 3), (1,), (1, 1)]:
                yield case(f"{name}(a)", a=sample(dtype, shape), **bounds(name, dtype))
        for scalar in ["True", "2", "-3", "0.5", "(1+2j)", "300"]:
            if name in ("real", "imag") and scalar == "True":  # Python's own attribute
                continue
            yield case(f"{name}({scalar})", **bounds(name, "complex128" if "j" in scalar else "float64"))
    for alias, name in ALIASES.items():
        for dtype in ["int32", "float64", "complex128", "bool"]:
            a = values(dtype, (7,))
            arguments = "a" if name in UNARY else "a, b"
            b = {} if name in UNARY else {"b": sample("uint8" if dtype != "bool" else "bool", (7,), 1)}
            yield case(f"{alias}({arguments})", a=a, **b, **bounds(name, dtype))


def large_values():
    """Exponents of the whole range, for argument reduction, overflow and underflow."""
    for dtype, low, high in [("float32", -44, 38), ("float64", -320, 308), ("float16", -7, 4)]:
        exponents = np.linspace(low, high, 61)
        a = (10.0 ** exponents * (1 + rng("sweep", dtype).random(61))).astype(dtype)
        a = np.concatenate([a, -a])
        for name in UNARY:
            if has_loop(name, a):
                yield case(f"{name}(a)", a=a, **bounds(name, dtype))
        for name in ["modf", "frexp"]:
            yield case(f"{name}(a)", a=a)
        b = np.roll(a, 17)
        for name in BINARY:
            if has_loop(name, a, b):
                yield case(f"{name}(a, b)", a=a, b=b, **bounds(name, dtype))


def second(name, dtype, shape, seed=1):
    b = values(dtype, shape, seed)
    if name in ("power", "float_power") and dtype in COMPLEX:
        return sample(dtype, shape, seed)
    if name in ("left_shift", "right_shift", "power") and dtype in INTEGERS:
        b = (np.abs(sample(dtype, shape, seed).astype("int64")) % 9).astype(dtype)
    return b


def binary():
    for name in BINARY + ["divmod"]:
        for dtype in DTYPES:
            a, b = values(dtype, (3, 7)), second(name, dtype, (3, 7))
            if dtype == "bfloat16" and not has_loop(name, a, b):
                continue
            yield case(f"{name}(a, b)", a=a, b=b, **bounds(name, dtype))
        for one, other in MIXED:
            yield case(f"{name}(a, b)", a=values(one, (5,)), b=second(name, other, (5,)), **bounds(name, one, other))
        for dtype in ["float32", "int16", "complex64"] if name in ("subtract", "multiply", "less") else ["float32"]:
            for a in layouts(values(dtype, (3, 5), seed=2)):
                for b in layouts(second(name, dtype, (3, 5), seed=3)):
                    yield case(f"{name}(a, b)", a=a, b=b, **bounds(name, dtype))
        for dtype in ["float64", "uint8"]:
            for left, right in [((), ()), ((0,), (1,)), ((2, 0), (2, 1)), ((1,), (4,)), ((3, 1), (1, 4)), ((4,), (3, 1)),
                                ((2, 1, 3), (4, 1)), ((3,), (4,)), ((2, 3), (2,)), ((), (3,))]:
                yield case(f"{name}(a, b)", a=values(dtype, left), b=second(name, dtype, right), **bounds(name, dtype))
        some = name in ("add", "divide", "remainder", "maximum", "less", "bitwise_and")
        for dtype in ["int8", "uint8", "int64", "float16", "float32", "complex64", "bool"] if some else ["int8", "float32"]:
            for scalar in ["2", "True", "2.5"]:
                if scalar == "2.5" and name == "ldexp":
                    continue
                yield case(f"{name}(a, {scalar})", a=values(dtype, (6,)), **bounds(name, dtype))
                if some:
                    yield case(f"{name}({scalar}, a)", a=values(dtype, (6,)), **bounds(name, dtype))
    for one in DTYPES:
        for other in DTYPES:
            if "bfloat16" in (one, other):
                continue
            for name in ["add", "multiply", "divide", "less", "equal"]:
                yield case(f"{name}(a, b)", a=values(one, (9,)), b=values(other, (9,), 1), **bounds(name, one, other))
    for text in ["a + 300", "a - 300", "a + (-1)", "a * 1000", "a < 300", "a == -1", "a >= -1", "a != 256", "300 > a",
                 "a & 300", "maximum(a, 300)", "a + 1.5", "a + 1j", "a // 0", "a % 0", "a ** 2", "2 ** a", "a ** -1",
                 "a << 3", "a >> 1", "~a", "-a", "+a", "abs(a)", "a / 0", "divmod(a, 0)", "a ^ 1", "a | 1", "a ** 0.5",
                 "a + None"]:
        for dtype in ["uint8", "int8", "int64", "uint64", "bool", "float32"]:
            if (text, dtype) != ("a ** 2", "bool"):
                yield case(text, a=sample(dtype, (6,)), ulp=4 if "**" in text else 0)
    for a, b in [("int64", "uint64"), ("uint64", "int64"), ("int8", "uint64"), ("uint64", "int32")]:
        x = np.array([np.iinfo(a).min, -1 if a[0] == "i" else 7, 0, 1, np.iinfo(a).max], a)
        y = np.array([np.iinfo(b).max, np.iinfo(b).max, 0, np.iinfo(b).min, 1], b)
        for name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]:
            yield case(f"{name}(a, b)", a=x, b=y)
    for name in ["power", "left_shift", "right_shift"]:
        for dtype in INTEGERS:
            b = np.array([0, 1, 7, 8, 31, 63, 64, 100], dtype)
            yield case(f"{name}(a, b)", a=sample(dtype, (8,), special=True), b=b)
    for text in ["power(a, b)", "a ** b", "power(a, -1)", "power(2, b)", "left_shift(a, b)", "right_shift(a, b)"]:
        yield case(text, a=np.array([1, 2, 3]), b=np.array([1, -1, 2]))


def options():
    f, i = sample("float64", (2, 3)), sample("int32", (2, 3))
    mask = np.array([[True, False, True], [False, True, True]])
    o, o32, oi = np.full((2, 3), 7.0), np.full((2, 3), 7, "float32"), np.full((2, 3), 7, "int16")
    inputs = dict(a=f, i=i, m=mask, o=o, s=o32, t=oi)
    ufuncs = ["add(a, i", "multiply(a, 2", "sqrt(abs(a)", "negative(a", "less(a, i", "floor_divide(a, i", "bitwise_and(i, i",
              "absolute(i", "isfinite(a", "maximum(i, 3", "power(i, 2", "divide(i, 3", "invert(i", "logical_and(a, i"]
    for text in ufuncs:
        ulp = 1 if "sqrt" in text else 0
        for out in ["o", "s", "t", "m", "i"]:
            for casting in ["", ", casting='unsafe'", ", casting='same_kind'", ", casting='safe'", ", casting='no'"]:
                yield case(f"({text}, out={out}{casting}), {out})", **inputs, ulp=ulp)
        yield case(f"({text}, out=o, where=m, casting='unsafe'), o)", **inputs, ulp=ulp)
        yield case(f"({text}, out=s, where=m[0], casting='unsafe'), s)", **inputs, ulp=ulp)
        yield case(f"({text}, out=o, where=False, casting='unsafe'), o)", **inputs, ulp=ulp)
        yield case(f"{text}, where=True)", **inputs, ulp=ulp)
        yield case(f"{text}, where=i)", **inputs)
        yield case(f"{text}, o, casting='unsafe')", **inputs, ulp=ulp)
        yield case(f"{text}, out=(o,), casting='unsafe')", **inputs, ulp=ulp)
        yield case(f"{text}, out=o[0])", **inputs)
        yield case(f"{text}, out=o[:, :2])", **inputs)
        yield case(f"{text}, out=3)", **inputs)
        yield case(f"{text}, casting='maybe')", **inputs)
        yield case(f"{text}, order='C', subok=True)", **inputs, ulp=ulp)
        for dtype in ["float64", "float32", "float16", "int32", "int8", "complex128", "bool", "uint64"]:
            yield case(f"{text}, dtype={dtype if dtype != 'bool' else 'bool'})", **inputs, ulp=1)
            yield case(f"{text}, dtype='{dtype}', casting='unsafe')", **inputs, ulp=1)
    # Overlap of out and operands.
    line = sample("int64", (8,))
    for text in ["(add(a, a, out=a[::-1]), a)", "(add(a[:-1], 1, out=a[1:]), a)", "(multiply(a[1:], a[:-1], out=a[:-1]), a)",
                 "(negative(a, out=a), a)", "(add(a, a[0], out=a), a)", "(add(a, a[::-1], out=a), a)",
                 "(add(a[::2], a[1::2], out=a[:4]), a)", "(square(a[4:], out=a[:4], where=a[:4] > 0), a)"]:
        yield case(text, a=line)
    for text in ["(modf(a, o, p), o, p)", "modf(a, out=(o, p))", "(modf(a, out=(o, None)), o)", "modf(a, out=o)",
                 "modf(a, out=(o,))", "(divmod(a, 2, out=(o, p)), o, p)", "divmod(i, 2, dtype=float64)", "frexp(a)",
                 "(frexp(a, o), o)", "(frexp(a, out=(None, q)), q)", "frexp(a, out=(None, w))",
                 "(modf(a, out=(o, p), where=m), o, p)", "divmod(a, a[0])", "divmod(i, 0)", "divmod(a, 0)",
                 "divmod(i, -3)", "divmod(a, -2.5)"]:
        yield case(text, a=f, i=i, m=mask, o=o, p=np.zeros((2, 3)), q=np.zeros((2, 3), "int32"), w=np.zeros((2, 3), "int8"))


def methods():
    for name in BINARY:
        if name == "ldexp":
            continue
        some = name in ("add", "subtract", "maximum", "logical_xor", "bitwise_or")
        for dtype in ["bool", "int8", "float32", "float64", "complex64"] + (["uint16", "int64", "float16"] if some else []):
            a = second(name, dtype, (3, 4), 4) if name in ("power", "left_shift", "right_shift") else sample(dtype, (3, 4), 4)
            if name in ("lcm", "power", "float_power") and dtype not in COMPLEX + BOOL:
                a = np.abs(sample(dtype, (3, 4), 4).astype("int64") % 5).astype(dtype)
            if dtype in COMPLEX and name in ("power", "float_power"):
                a = (sample(dtype, (3, 4), 4) / 8).astype(dtype)
            inexact = ("logaddexp", "logaddexp2", "arctan2", "hypot", "divide", "float_power")
            bound = {"norm": 4} if (dtype in INEXACT or name in inexact) and name not in ("maximum", "minimum", "fmax", "fmin") else {}
            bound |= {"ulp": 4} if name in inexact else {}
            bound |= {"atol": 1e-300} if name in ("maximum", "minimum", "fmax", "fmin") else {}
            bound |= bounds(name, dtype) if name in ("power", "float_power") else {}
            yield case(f"{name}.reduce(a)", a=a, **bound)
            yield case(f"{name}.accumulate(a)", a=a, **bound)
            if dtype in ("int8", "float64", "bool") and name not in ("power", "float_power", "arctan2"):
                yield case(f"{name}.reduce(a, axis=1, keepdims=True)", a=a, **bound)
                yield case(f"{name}.reduce(a, axis=None)", a=a, **bound)
                yield case(f"{name}.accumulate(a, 1)", a=a[:, ::-1], **bound)
                yield case(f"{name}.reduceat(a, [0, 2, 1])", a=a, **bound)
                yield case(f"{name}.reduceat(a, [1, 3], axis=-1)", a=a, **bound)
                yield case(f"{name}.reduce(a[:0])", a=a, **bound)
                yield case(f"{name}.accumulate(a[:0])", a=a, **bound)
                yield case(f"{name}.reduce(a[:1])", a=a, **bound)
                yield case(f"{name}.reduce(a, initial=2)", a=a, **bound)
                yield case(f"{name}.reduce(a, initial=1, where=a > 0)", a=a, **bound)
            if dtype in ("int8", "float32"):
                yield case(f"{name}.outer(a, a[0])", a=a, **bounds(name, dtype))
                yield case(f"{name}.outer(a, 2)", a=a, **bounds(name, dtype))
                b = {"b": np.array([1, 2, 1], "int8" if dtype == "int8" else dtype)}
                if name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
                            "logical_or", "logical_xor", "ldexp"):
                    continue
                yield case(f"({name}.at(a, [0, 2, 0], b[:, None]), a)", a=a, **b, **bounds(name, dtype))
    f, i = sample("float64", (2, 3, 4)), sample("int32", (2, 3, 4))
    for text in ["add.reduce(a, axis=(0, 2))", "add.reduce(a, (0, 1, 2))", "add.reduce(a, axis=())", "add.reduce(i, dtype=int8)",
                 "add.reduce(i, dtype=float32)", "add.reduce(a, dtype=int64)", "subtract.reduce(a, axis=(0, 1))",
                 "subtract.reduce(a, axis=())", "add.reduce(a, axis=3)", "add.reduce(a, axis=(0, 0))", "add.reduce(a, axis=-1)",
                 "add.reduce(a, axis=[0, 1])", "multiply.reduce(i, axis=2, dtype=int64)", "maximum.reduce(a, axis=None, keepdims=True)",
                 "maximum.reduce(a, where=a > 0)", "maximum.reduce(a, where=a > 0, initial=-5)", "add.reduce(a, where=i > 0)",
                 "add.reduce(a, where=i[0])", "add.reduce(a, initial=10)", "add.reduce(a, initial=None)", "add.reduce(3)",
                 "add.reduce(i, out=o)", "(add.reduce(i, out=p), p)", "(add.reduce(a, 0, None, o), o)", "add.reduce(a, out=o[0])",
                 "logical_and.reduce(a, axis=1)", "logical_or.reduce(i, axis=None)", "bitwise_xor.reduce(i, axis=(1, 2))",
                 "bitwise_and.reduce(a)", "sqrt.reduce(a)", "add.accumulate(a, axis=2)", "add.accumulate(a, axis=3)",
                 "add.accumulate(3)", "add.accumulate(i, dtype=float64)", "add.accumulate(i, axis=1, out=q)",
                 "(add.accumulate(i, axis=1, out=q), q)", "subtract.accumulate(a, axis=-1)", "divide.accumulate(a, axis=0)",
                 "add.outer([1, 2], [3, 4, 5])", "add.outer(2, 3)", "subtract.outer(a[0], i[0, 0])", "multiply.outer([], [1, 2])",
                 "less.outer(a[0, 0], i[0, 0])", "power.outer([2, 3], [0, 1, 2])", "add.outer(a[0, 0], a[0, 0], dtype=float32)",
                 "sqrt.outer(a, a)", "add.reduceat(a, [0], axis=1)", "add.reduceat(a, [0, 0, 1, 0], axis=0)",
                 "add.reduceat(a, [3], axis=1)", "add.reduceat(a, [-1], axis=1)", "add.reduceat(a, [], axis=1)",
                 "add.reduceat(a, [[0]], axis=1)", "add.reduceat(a, a[0, 0], axis=1)", "add.reduceat(i, [0, 1], axis=2, dtype=float64)",
                 "multiply.reduceat(i, [1, 0], axis=1)", "maximum.reduceat(a, [0, 3, 1, 2], axis=2)", "add.reduceat(5, [0])",
                 "minimum.reduce(a, axis=1)", "hypot.reduce(a, axis=1)", "logaddexp.reduce(a, axis=None)", "gcd.reduce(i, axis=None)",
                 "lcm.reduce(i, axis=0)", "floor_divide.reduce(i, axis=1)", "fmax.reduce(a, axis=(0, 1))",
                 "(add.at(a, (0, [0, 1, 0]), 1), a)", "(add.at(a, [True, False], 2.5), a)", "(add.at(i, 1, 1), i)",
                 "(negative.at(a, [0, 0]), a)", "(add.at(i, [0, 5], 1), i)", "(add.at(i, [0, 0], 1.5), i)", "add.at(a, [0])",
                 "negative.at(a, [0], 1)", "(subtract.at(a, (slice(None), 1, [0, 0]), [1, 2]), a)",
                 "(maximum.at(i, ([0, 1, 0], [1, 1, 1], 2), [100, -100, 50]), i)", "(multiply.at(a, ..., 2), a)",
                 "(add.at(a, (1, 2, 3), 7), a)", "(logical_not.at(i, [1]), i)", "(power.at(i, [0], 2), i)",
                 "(divide.at(a, [0, 0], 2), a)", "(add.at(a, [-1, -2], a[0]), a)", "add.at([1, 2], [0], 1)"]:
        yield case(text, a=f, i=i, o=np.zeros((3, 4)), p=np.zeros((3, 4), "int32"), q=np.zeros((2, 3, 4), "int64"), norm=4,
                   ulp=8 if "divide" in text else 0)
    for shape, text in [((5000,), "a"), ((3, 2000), "a, axis=1"), ((2000, 3), "a, axis=0")]:
        for name in ["add", "maximum", "bitwise_xor", "subtract", "gcd"]:
            yield case(f"{name}.reduce({text})", a=sample("int32", shape))
    yield case("add.reduceat(a, arange(0, 3000, 7))", a=sample("int64", (3000,)))


def functions():
    f, z, i = values("float64", (3, 7)), values("complex128", (3, 7)), sample("int32", (3, 7))
    for dtype in ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex64", "complex128"]:
        a, b = values(dtype, (3, 7)), values(dtype, (3, 7), seed=5)
        small = 1e-3 if dtype in INEXACT else 0
        for text in ["isclose(a, b)", "isclose(a, a)", "isclose(a, a, equal_nan=True)", "isclose(a, b, rtol=0.5)",
                     "isclose(a, b, atol=3)", "isclose(a, b, 0, 0)", "isclose(a, c)", "allclose(a, a)", "allclose(a, b)",
                     "allclose(a, a, equal_nan=True)", "array_equal(a, a)", "array_equal(a, b)", "array_equal(a, a[0])",
                     "array_equal(a, a, equal_nan=True)", "array_equiv(a, a[0])", "array_equiv(a[:1], a[[0, 0]])",
                     "array_equiv(a, a[:2])", "nan_to_num(a)", "nan_to_num(a, nan=3, posinf=4.0, neginf=-4.0)",
                     "(nan_to_num(a, copy=False), a)", "nan_to_num(a, posinf=5)", "nan_to_num(a, True, 1)", "iscomplex(a)", "isreal(a)",
                     "iscomplexobj(a)", "isrealobj(a)", "isposinf(a)", "isneginf(a)", "real(a)", "imag(a)",
                     "clip(a, -2, 3)", "clip(a, None, 3)", "clip(a, 2, None)", "clip(a, b, None)", "clip(a, b, 5)", "clip(a, min=1)",
                     "clip(a, max=1, min=0)", "clip(a, None, None)", "a.clip(-2, 3)", "a.clip(min=1)", "a.clip(max=2)", "clip(a, 3, -2)",
                     "clip(a, b, c)", "real_if_close(a)", "fix(a)"]:
            c = b + np.asarray(small, a.dtype)
            yield case(text, a=a, b=b, c=c, atol=1e-300 if "clip" in text else 0)
        for decimals in ["", ", 2", ", decimals=-1", ", 1"]:
            for text in [f"round(a{decimals})", f"around(a{decimals})", f"a.round({decimals[2:]})"]:
                yield case(text, a=a, ulp=1)
        for text, ulp in [("angle(a)", 4), ("angle(a, deg=True)", 4), ("sinc(a)", 8), ("i0(a)", 16), ("i0(a * 3)", 16)]:
            finite = np.where(np.isfinite(a), a, 1).astype(a.dtype) if dtype in INEXACT else a
            finite = np.abs(finite) if text.startswith("i0") and dtype not in COMPLEX + BOOL else finite
            yield case(text, a=finite, ulp=ulp if dtype != "float16" else 2, atol=1e-12 if "sinc" in text else 0)
    for shape in [(), (0,), (1,), (2, 0)]:
        for dtype in ["float32", "int8", "complex64"]:
            a = sample(dtype, shape)
            for text in ["isclose(a, a)", "allclose(a, a)", "array_equal(a, a)", "array_equiv(a, a)", "nan_to_num(a)", "iscomplex(a)",
                         "isreal(a)", "isposinf(a)", "isneginf(a)", "clip(a, 0, 1)", "round(a, 1)", "angle(a)", "sinc(a)", "i0(a)",
                         "real_if_close(a)", "fix(a)"]:
                yield case(text, a=a, ulp=8)
    for layout in layouts(sample("float32", (4, 3))):
        for text in ["isclose(a, a.T[:3].T)", "nan_to_num(a)", "clip(a, -1, 1)", "round(a, 1)", "sinc(a)", "i0(a)", "angle(a)", "fix(a)"]:
            yield case(text, a=layout, ulp=16)
    close = np.array([1 + 1e-20j, 2 + 0j, 3 - 1e-15j])
    o = np.zeros((3, 7))
    for text in ["real_if_close(c)", "real_if_close(c, tol=1000)", "real_if_close(c, tol=1e-16)", "real_if_close(c * 1j)",
                 "real_if_close(c, 1)", "clip(a, 0, 1, out=o)", "(clip(a, 0, 1, o), o)", "(a.clip(0, 1, o), o)", "clip(a, 0, 1, min=2)",
                 "clip(i, 0.5, 3)", "clip(i, 0, 2.5)", "clip(i, -5, 10**12)", "clip(u, -5, 300)", "clip(u, 5, 300)", "clip(u, -5, 9)",
                 "clip(i, [1, 2], 3)", "clip(i, arange(7), 9)", "clip(i, nan, 3)", "clip(a, nan, 3)", "clip(i, 0, 5, dtype=float64)",
                 "clip(i, 0, 5, casting='unsafe', dtype=int8)", "clip(a, 0, 5, dtype=int32)", "clip(3, 0, 2)", "clip([1, 2], 2, None)",
                 "(clip(a, 0, 1, out=o, where=a > 0.5), o)", "clip(a, 0, 1, out=i)", "around(a, 2, out=o)", "(round(a, 1, o), o)",
                 "(a.round(1, out=o), o)", "round(2.675, 2)", "round(z, 1)", "round(i, -2)", "round(i, -10)", "round(a, -400)",
                 "round(u, -1)", "around([0.5, 1.5, 2.5, -0.5])", "around([1234, 5678], -2)", "isclose(1, 1 + 1e-9)", "isclose([1, 2], 1)",
                 "isclose(a, i)", "isclose(i, 3)", "isclose(a[0], a[:, :1])", "isclose(a, a[:2])", "isclose(a, b, rtol=[[0.1], [1], [10]])",
                 "allclose([], [])", "allclose(inf, inf)", "allclose(nan, nan)", "allclose(1, 1.1, rtol=0.2)", "allclose(a, 'x')",
                 "array_equal([1, 2], [1, 2.0])", "array_equal(1, 1)", "array_equal([], [[]])", "array_equiv([1, 2], [[1, 2], [1, 2]])",
                 "array_equiv([1], [1, 1, 2])", "array_equal([1, nan], [1, nan], equal_nan=True)", "nan_to_num(nan)", "nan_to_num([1, inf])",
                 "nan_to_num(a, nan=i)", "nan_to_num(5)", "isposinf(a, out=m)", "(isneginf(a, m), m)", "isposinf(z)", "isposinf(i)",
                 "isneginf(i)", "(fix(a, out=o), o)", "fix(z)", "fix(2.7)", "iscomplexobj(3)", "iscomplexobj(1j)", "isrealobj([1, 2])",
                 "iscomplex([1, 1j])", "isreal(3)", "angle(1j)", "angle([1, 1j], True)", "angle(-1)", "sinc(0)", "sinc(0.5)", "sinc(i)",
                 "sinc(z)", "i0(0)", "i0(z)", "i0([0., 1., -8., 30., 100.])", "i0(i)", "a.conj()", "z.conj()", "z.conjugate()",
                 "i.conjugate()", "real(z)", "imag(z)", "real(3)", "imag(1j)", "abs(z)", "absolute(i)"]:
        yield case(text, a=f, b=f[::-1], c=close, i=i, z=z, u=sample("uint8", (3, 7)), o=o, m=np.zeros((3, 7), bool),
                   ulp=16 if "i0" in text or "sinc" in text else 4 if "angle" in text or "abs" in text else 0)


def signatures():
    """signature=, and what ufuncs say of themselves."""
    for signature in ["'dd->d'", "'ff->f'", "'bb->b'",  "(float64, float64, float64)", "(None, None, float32)", "(int8, int8, int8)",
                      "'ii->d'", "'dd->dd'", "'zz->z'", "3", "(float64,)", "'FF->F'", "'??->?'"]:
        for dtype in ["int8", "float32", "bool", "complex64"]:
            a, b = sample(dtype, (3,)), sample(dtype, (3,), seed=1)
            for name in ["add", "subtract", "multiply", "divide", "less", "logical_and", "arctan2", "bitwise_and"]:
                if signature in ("(float64,)",  "3", "'dd->dd'", "'zz->z'") and name != "add":
                    continue
                yield case(f"{name}(a, b, signature={signature})", a=a, b=b, ulp=4)
                yield case(f"{name}(a, b, signature={signature}, casting='unsafe')", a=a, b=b, ulp=4)
    for text in ["sqrt(a, signature='f->f')", "sqrt(a, signature='d->d')", "sqrt(a, signature=(float32, float32))", "add(a, 1, signature='ff->f')",
                 "add(a, 300, signature='bb->b', casting='unsafe')", "add(a, a, signature='dd->d', dtype=float64)",
                 "isfinite(a, signature='f->?')", "isfinite(a, signature='d->f')", "absolute(a, signature='F->f')"]:
        for dtype in ["int8", "float16", "float64"]:
            yield case(text, a=abs(sample(dtype, (4,))), ulp=2)
    for name in UNARY + BINARY + TWO_RESULTS:
        if name in ("real", "imag"):
            continue
        for attribute in ["nin", "nout", "nargs", "signature", "__name__"]:
            yield case(f"{name}.{attribute}")
        if name not in ("maximum", "minimum"):
            yield case(f"{name}.identity")


def cases():
    yield from signatures()
    yield from unary()
    yield from large_values()
    yield from binary()
    yield from options()
    yield from methods()
    yield from functions()
    for casting in ("unsafe", "same_kind", "safe"):  # which of two mistakes is the first
        yield case(f"power(a, b, dtype=uint32, casting='{casting}')", a=sample("uint64", (5,)), b=sample("int8", (3,)))
