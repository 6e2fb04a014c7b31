"""The result dtypes of every ufunc by NumPy 2 for every combination of dtypes and Python literals, for
tests/unit/local/program/types_test.cpp.

A row is a function and a letter for each combination of OPERANDS, the last one running fastest; '.' is a TypeError.
"""
import warnings

import numpy as np

warnings.simplefilter("ignore")

LETTERS = "?bhilBHILefdFD"  # bool, int8..int64, uint8..uint64, float16, float32, float64, complex64, complex128
LITERALS = {"1": 1, "2": 1.5, "3": 1j}  # weak int, float, complex
OPERANDS = list(LETTERS) + list(LITERALS)

UNARY = """negative positive absolute fabs sign reciprocal square sqrt cbrt conjugate rint floor ceil trunc exp exp2 expm1
log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians spacing
logical_not isfinite isinf isnan signbit invert bitwise_count""".split()
BINARY = """add subtract multiply divide floor_divide remainder fmod power float_power logaddexp logaddexp2 arctan2 hypot
maximum minimum fmax fmin heaviside copysign nextafter ldexp equal not_equal less less_equal greater greater_equal
logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm""".split()
PARTS = {"modf_fraction": (np.modf, 0), "modf_integer": (np.modf, 1), "frexp_mantissa": (np.frexp, 0),
         "frexp_exponent": (np.frexp, 1)}


def operand(letter):
    return LITERALS[letter] if letter in LITERALS else np.ones(1, np.dtype(letter))


def letter_of(function, *args):
    try:
        result = function(*args)
    except TypeError:
        return "."
    letter = np.asarray(result).dtype.char
    return {"q": "l", "Q": "L"}.get(letter, letter)


def rows():
    with np.errstate(all="ignore"):
        for name in UNARY:
            yield name, "".join(letter_of(getattr(np, name), operand(a)) for a in OPERANDS)
        for name, (function, part) in PARTS.items():
            yield name, "".join(letter_of(lambda x: function(x)[part], operand(a)) for a in OPERANDS)
        where = lambda a, b: np.where(np.ones(1, bool), a, b)
        for name in [*BINARY, "where"]:
            function = where if name == "where" else getattr(np, name)
            yield name, "".join(letter_of(function, operand(a), operand(b)) for a in OPERANDS for b in OPERANDS)
