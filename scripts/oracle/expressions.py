"""NumPy expressions and what NumPy 2 answers: the section "expressions" of every chapter that has a file in cases/, for
tests/unit/apps/language/oracle_test.cpp to evaluate on every device and compare.

How to write a chapter: scripts/oracle/cases/CHAPTER.py has a function cases() that yields case(expression, inputs), or
plain pairs (expression, inputs):

    from expressions import DTYPES, case, layouts, sample

    def cases():
        for dtype in DTYPES:
            for a in layouts(sample(dtype, (4, 6))):
                yield case("roll(a, 2, axis=1)", a=a)
        yield case("mean(a, axis=0)", a=sample("float32", (100, 3)), norm=4)   # inexact: see case()
        yield case("roll(a, 1, axis=7)", a=sample("int8", (3,)))               # an error: its class is stored

Expressions use NumPy's names with or without `np.`; a tuple stores several results, so that functions that change an
argument are written "(put(a, [0], 9), a)". Inputs keep their layout (offset, strides), and each case gets its own
copies. A name of the language that NumPy does not have gets its reference from the chapter: FUNCTIONS = {"top_k": f}.
Values must not depend on anything but the seeds here, so that the file is the same whoever writes it.

To try cases, write the chapter elsewhere and name the file to the test:

    scripts/oracle/generate.py manipulation -o /tmp/oracle
    QUARRY_ORACLE_FILE=/tmp/oracle/manipulation.h5 QUARRY_ORACLE_ONLY=roll build/bin/test_apps --gtest_filter='*ExpressionOracle*'

QUARRY_ORACLE_ONLY keeps the expressions that contain the text. QUARRY_ORACLE_SHARD=I/N takes case I, I + N, I + 2N ...: on
a GPU most of a first replay is the compilation of kernels, which N processes do side by side. Failures are printed with
what was got and expected.
"""
import builtins
import importlib
import pathlib
import struct
import sys
import warnings
import zlib

import ml_dtypes
import numpy as np
from format import DTYPES, NUMPY_DTYPES, Parts, dtype_of, pooled, text  # noqa: F401  (chapters import the lists from here)

CASES = pathlib.Path(__file__).resolve().parent / "cases"

BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
# One of each kind, for what does not depend on the width.
SOME = ["bool", "int32", "uint8", "float16", "float32", "float64", "complex128"]


class Case:
    def __init__(self, expression, inputs, ulp, norm, atol):
        self.expression, self.inputs, self.ulp, self.norm, self.atol = expression, inputs, ulp, norm, atol


def case(expression, inputs=None, *, ulp=0, norm=0, atol=0, **more):
    """A case. Exact unless a bound is given; the bounds add up. NaN equals NaN; dtype and shape are always exact.

    ulp:  spacings of the result's dtype at each expected value (of a complex one: at its magnitude)
    norm: the same at the largest finite value of the result, for sums and products of matrices
    atol: absolute
    """
    return Case(expression, {**(inputs or {}), **more}, ulp, norm, atol)


def rng(*key):
    """A generator that depends on the key alone."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def sample(dtype, shape, seed=0, special=False):
    """Values of a dtype without NaN and infinity; special=True puts such ones, signed zeros and extremes among them."""
    random = rng(dtype, shape, seed)
    count = int(np.prod(shape, dtype=np.int64))
    kind = "f" if dtype == "bfloat16" else np.dtype(dtype).kind
    if kind == "b":
        values = random.random(count) < 0.5
    elif kind in "iu":
        info = np.iinfo(dtype)
        values = random.integers(max(info.min, -50), min(info.max, 100), count, endpoint=True).astype(dtype)
        if special:
            values[: min(count, 3)] = [info.max, info.min, 0][: min(count, 3)]
    else:
        values = np.round(random.standard_normal(count) * 8, 3)
        extra = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]
        if kind == "c":
            values = values + 1j * np.round(random.standard_normal(count) * 8, 3)
            extra = [complex(np.nan, 1), complex(np.inf, -1), complex(0, -np.inf), complex(-0.0, 0.0), 1j, 1]
        values = values.astype(dtype_of(dtype))
        if special:
            values[: min(count, len(extra))] = np.array(extra).astype(values.dtype)[:count]
    if special:
        random.shuffle(values)
    return values.reshape(shape)


def strided(a):
    """The same values with every axis stored at twice the distance."""
    wide = np.zeros([2 * n for n in a.shape], a.dtype)
    view = wide[tuple(slice(None, 2 * n, 2) for n in a.shape)]
    view[...] = a
    return view


def reversed_(a):
    """The same values stored backwards along every axis."""
    return np.ascontiguousarray(a[(slice(None, None, -1),) * a.ndim])[(slice(None, None, -1),) * a.ndim]


def fortran(a):
    """The same values in Fortran's order."""
    return np.ascontiguousarray(a.T).T


def layouts(a):
    """The same values in C order, strided, backwards and in Fortran's order."""
    yield a
    if a.size > 1:
        yield strided(a)
        yield reversed_(a)
        if a.ndim > 1:
            yield fortran(a)


# ---- evaluation -----------------------------------------------------------------------------------------------------

ERRORS = {"type": 1, "value": 2, "index": 3, "axis": 4}
NOT_ERRORS = (NameError, SyntaxError, AttributeError, AssertionError)


def namespace(functions):
    names = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
    for name in ["len", "slice", "range", "list", "tuple", "int", "float", "complex", "bool", "dtype", "True", "False"]:
        if hasattr(builtins, name):
            names[name] = getattr(builtins, name)
    names["np"] = np
    names["bfloat16"] = ml_dtypes.bfloat16
    names["top_k"] = getattr(np, "top_k", None)
    names["sliding_window_view"] = np.lib.stride_tricks.sliding_window_view
    names.update(functions)
    names["__builtins__"] = builtins
    return names


def private_copy(a):
    """A copy of the array's buffer and the same view of it."""
    base = a
    while isinstance(base.base, np.ndarray):
        base = base.base
    if not base.flags.c_contiguous or base.dtype != a.dtype:
        return np.array(a, order="K", copy=True)
    offset = a.__array_interface__["data"][0] - base.__array_interface__["data"][0] if a.size else 0
    copy = base.copy()
    return np.ndarray(a.shape, a.dtype, copy.reshape(-1).data if copy.dtype.kind != "V" else copy, offset, a.strides)


def evaluate(case, names):
    inputs = {}
    for key, value in case.inputs.items():
        if isinstance(value, np.ndarray) and value.size:
            try:
                value = private_copy(value)
            except (ValueError, TypeError):  # bfloat16 has no buffer interface
                value = np.array(value, order="K", copy=True)
        inputs[key] = value
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(case.expression, {**names, **inputs})


def error_kind(error):
    if isinstance(error, np.exceptions.AxisError):
        return "axis"
    if isinstance(error, IndexError):
        return "index"
    if isinstance(error, TypeError):
        return "type"
    if isinstance(error, (ValueError, OverflowError, ZeroDivisionError, np.ma.MaskError)):
        return "value"
    raise error


def stored(value):
    """A value as a file holds it (format.py)."""
    if value is None:
        return Parts(b"\0")
    if value is np.ma.masked:
        return Parts(b"\6")
    if isinstance(value, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(value)
        data = np.where(mask, np.zeros((), value.dtype), value.data)
        return b"\5" + pooled(np.ascontiguousarray(data).reshape(data.shape)) + pooled(np.ascontiguousarray(mask).reshape(mask.shape))
    if isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        if value.dtype.name not in DTYPES:
            raise TypeError(f"no dtype of ours: {value.dtype}")
        return b"\1" + pooled(np.ascontiguousarray(value).reshape(value.shape))
    if isinstance(value, bool | int | float | complex):
        return b"\1" + pooled(np.array(value))
    if isinstance(value, str):
        return Parts(b"\2" + text(value))
    if isinstance(value, np.dtype):
        return Parts(b"\3" + struct.pack("<B", DTYPES.index(value.name)))
    if isinstance(value, type) and issubclass(value, np.generic):
        return Parts(b"\3" + struct.pack("<B", DTYPES.index(np.dtype(value).name)))
    if isinstance(value, slice):
        raise TypeError("slices are no results")
    if isinstance(value, tuple | list):
        return sum(map(stored, value), Parts(b"\4" + struct.pack("<I", len(value))))
    raise TypeError(f"a result of type {type(value)}")


def record(case, names):
    data = Parts(text(case.expression) + struct.pack("<B", len(case.inputs)))
    for name, array in case.inputs.items():
        data += text(name) + pooled(np.asarray(array))
    data += struct.pack("<ddd", case.ulp, case.norm, case.atol)
    try:
        value = evaluate(case, names)
    except NOT_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001  (which kind it is, is the answer)
        data += struct.pack("<B", ERRORS[error_kind(error)])
    else:
        data = data + b"\0" + stored(value)
    data.bounds, data.inputs = (case.ulp, case.norm, case.atol), len(case.inputs)
    return data


def chapters():
    return sorted(path.stem for path in CASES.glob("*.py") if not path.stem.startswith("_"))


def records(chapter):
    """The chapter's records. Mistakes in its cases are printed and raise SystemExit."""
    module = importlib.import_module(f"cases.{chapter}")
    names = namespace(getattr(module, "FUNCTIONS", {}))
    result, failed = [], 0
    for item in module.cases():
        one = item if isinstance(item, Case) else case(item[0], item[1])
        try:
            result.append(record(one, names))
        except Exception as error:  # noqa: BLE001  (a mistake in the case)
            failed += 1
            print(f"{chapter}: {one.expression}: {type(error).__name__}: {error}", file=sys.stderr)
    if failed:
        sys.exit(f"{failed} cases of {chapter} cannot be stored")
    return result
