"""NumPy's result dtypes and shapes, or that it refuses, for tests/unit/chunked/expr/expr_inference_test.cpp.

A row is a function, its arguments, and the result's dtype and shape, or "error".
"""
import itertools
import random
import warnings

import numpy as np

warnings.simplefilter("ignore")
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128"]
WEAK = ["True", "5", "2.5", "1j", "300", "-1"]
UNARY = ["negative", "absolute", "sqrt", "exp", "sign", "isnan", "logical_not", "invert", "floor", "reciprocal",
         "conjugate", "square", "signbit", "bitwise_count", "degrees", "sin", "rint", "spacing", "positive", "fabs"]
BINARY = ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "float_power", "maximum",
          "less", "equal", "logical_and", "bitwise_and", "left_shift", "arctan2", "hypot", "copysign", "ldexp", "gcd",
          "fmod", "heaviside", "logaddexp", "nextafter"]
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((4, 1), (1, 5)), ((), (3,)), ((0, 3), (3,)), ((2, 1, 3), (4, 1)),
          ((2, 3), (2,)), ((2, 3), (3, 2)), ((1,), (0,)), ((), ())]


def operand(spec):
    if spec.startswith("~"):
        return eval(spec[1:])
    dtype, shape = spec.split(":")
    return np.ones([int(n) for n in shape.split(",") if n], dtype)


def spec(dtype, shape):
    return "%s:%s" % (dtype, ",".join(map(str, shape)))


def answer(name, arguments, function):
    try:
        result = function()
        # A weak literal that an array's dtype cannot hold is an error in NumPy too.
        dtype, shape = str(result.dtype), ",".join(map(str, result.shape))
    except (TypeError, ValueError, OverflowError, IndexError):
        dtype, shape = "error", ""
    return name, arguments, dtype, shape


def rows():
    random.seed(7)
    for name in UNARY:
        for dtype in DTYPES:
            s = spec(dtype, (2, 3))
            yield answer(name, s, lambda: np.asarray(getattr(np, name)(operand(s))))
    for name in BINARY:
        pairs = random.sample(list(itertools.product(DTYPES, DTYPES)), 14)
        for a, b in pairs:
            sa, sb = (spec(t, s) for t, s in zip((a, b), random.choice(SHAPES)))
            yield answer(name, sa + " " + sb, lambda: np.asarray(getattr(np, name)(operand(sa), operand(sb))))
        for _ in range(6):
            sa, sb = spec(random.choice(DTYPES), (3,)), "~" + random.choice(WEAK)
            if random.random() < 0.5:
                sa, sb = sb, sa
            yield answer(name, sa + " " + sb, lambda: np.asarray(getattr(np, name)(operand(sa), operand(sb))))
    for _ in range(20):
        a, b = random.choice(DTYPES), random.choice(DTYPES)
        s = ["bool:2,1", spec(a, (3,)), random.choice([spec(b, (2, 3)), "~" + random.choice(WEAK[:4])])]
        yield answer("where", " ".join(s), lambda: np.where(*map(operand, s)))
    for name in ["sum", "prod", "min", "max", "any", "all", "argmin", "argmax", "count_nonzero", "mean", "var", "std"]:
        for dtype in DTYPES:
            s = spec(dtype, random.choice([(2, 3), (4,), (2, 1, 3), ()]))
            x = operand(s)
            axes = [None] + list(range(-x.ndim, x.ndim))
            axis = random.choice(axes)
            keep = random.random() < 0.5
            arguments = "%s axis=%s keepdims=%d" % (s, "none" if axis is None else axis, keep)
            yield answer(name, arguments, lambda: np.asarray(getattr(np, name)(x, axis=axis, keepdims=keep)))
        for shape, axis in [((0,), None), ((0, 3), 0), ((0, 3), 1), ((2, 3), 2)]:
            s = spec("float64", shape)
            arguments = "%s axis=%s keepdims=0" % (s, "none" if axis is None else axis)
            yield answer(name, arguments, lambda: np.asarray(getattr(np, name)(operand(s), axis=axis, keepdims=False)))
    for sa, sb in [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)),
                   ((5, 1, 2, 3), (6, 3, 4)), ((2, 3), (2, 3)), ((), (3,)), ((2, 0), (0, 3)), ((0, 3), (3, 2)),
                   ((5, 2, 3), (4, 3, 2))]:
        for a, b in random.sample(list(itertools.product(DTYPES, DTYPES)), 3):
            s = [spec(a, sa), spec(b, sb)]
            yield answer("matmul", " ".join(s), lambda: np.asarray(np.matmul(*map(operand, s))))
