"""Masked arrays, numpy.ma (local/ops/functions/ma.def). A masked result is stored as its data, 0 where it is masked, and
its mask.

Numbers beside masked arrays are weak in quarry, as beside plain ones, and strong in numpy.ma's operators: cases with
numbers have dtypes for which both are the same."""
import re

from expressions import COMPLEX, FLOATS, NUMPY_DTYPES, case, fortran, layouts, reversed_, rng, sample, strided
import numpy as np

INEXACT = [d for d in FLOATS + COMPLEX if d != "bfloat16"]
NARROW = ["float16", "float32", "complex64"]


def mask_of(shape, seed=0, share=0.4):
    return rng("mask", shape, seed).random(shape) < share


def named(text, name, value):
    """The text with an expression for a name."""
    return re.sub(rf"\b{name}\b", value, text)


def bound(dtype):
    return {"norm": 8, "ulp": 4} if dtype in INEXACT else {}


def moment_bound(dtype):
    """numpy.ma sums squared distances of narrow floats in their dtype."""
    return {"norm": 4, "ulp": 4, "atol": {"float16": 0.5, "float32": 2e-4, "complex64": 2e-4}.get(dtype, 1e-12)}


TOTALS = ["sum", "prod", "min", "max", "any", "all", "ptp", "argmin", "argmax", "count"]


def numbers(dtype, shape, seed=0):
    """Values whose products stay small."""
    a = sample(dtype, shape, seed)
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return (a % 5).astype(dtype)
    return (a / 8).astype(dtype) if kind in "fc" else a


def reductions():
    for dtype in NUMPY_DTYPES:
        a, m = numbers(dtype, (4, 5)), mask_of((4, 5))
        m[:, 3] = True  # a column of nothing
        for name in TOTALS:
            if name == "ptp" and dtype == "bool":
                continue
            for axis in ["", "0", "axis=1"]:
                yield case(f"ma.masked_array(a, mask=m).{name}({axis})", a=a, m=m, **bound(dtype))
            yield case(f"ma.{name}(ma.masked_array(a, m))", a=a, m=m, **bound(dtype))
            yield case(f"ma.masked_array(a).{name}(0)", a=a, **bound(dtype))
        for name in ["mean", "var", "std"]:
            limits = bound(dtype) if name == "mean" else moment_bound(dtype)
            if name == "mean" and dtype in NARROW:
                limits = {"atol": 1e-2 if dtype == "float16" else 1e-5}
            for axis in ["", "0", "axis=1"]:
                yield case(f"ma.masked_array(a, mask=m).{name}({axis})", a=a, m=m, **(limits or {"ulp": 4, "atol": 1e-14}))
        for name in ["cumsum", "cumprod"]:
            for axis in ["", "0", "1"]:
                yield case(f"ma.masked_array(a, mask=m).{name}({axis})", a=a, m=m, **({"norm": 64} if dtype in INEXACT else {}))
        yield case("ma.masked_array(a, mask=m).anom(0)", a=a, m=m, **(bound(dtype) | {"atol": 1e-2 if dtype == "float16" else 1e-5}))
    x, m = sample("float64", (3, 4, 5)), mask_of((3, 4, 5))
    for name in ["sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "ptp", "count", "median"]:
        for arguments in ["axis=(0, 2)", "axis=-1", "axis=1, keepdims=True", "keepdims=True", "axis=(2, 1), keepdims=True"]:
            if name == "median" and "(" in arguments:
                continue
            yield case(f"ma.masked_array(x, mask=m).{name}({arguments})" if name != "median" else f"ma.median(ma.masked_array(x, mask=m), {arguments})",
                       x=x, m=m, norm=16, atol=1e-9)
        for a in [strided(x), reversed_(x), fortran(x)]:
            text = f"ma.{name}(ma.masked_array(x, mask=m), axis=1)"
            yield case(text, x=a, m=m, norm=16, atol=1e-9)
            yield case(text, x=x, m=reversed_(m), norm=16, atol=1e-9)
        if name not in ("count", "median"):
            for empty in [(0,), (0, 3), (3, 0)]:
                e = np.zeros(empty)
                yield case(f"ma.masked_array(e, mask=m).{name}()", e=e, m=np.zeros(empty, "bool"))
                if len(empty) == 2 and name != "ptp":
                    yield case(f"ma.masked_array(e, mask=m).{name}(axis=0)", e=e, m=np.zeros(empty, "bool"))
        for one in [np.array(2.5), np.array([2.5]), np.array([[2.5]])]:
            for masked in [True, False]:
                if name == "median":
                    continue
                yield case(f"ma.masked_array(o, mask=m).{name}()", o=one, m=np.full(one.shape, masked))
        if name != "median":
            yield case(f"ma.masked_array(x, mask=True).{name}()", x=x)
            yield case(f"ma.masked_array(x, mask=True).{name}(0)", x=x)
            yield case(f"ma.masked_array(x, mask=m).{name}(axis=3)", x=x, m=m)
    for text in ["sum(axis=0, dtype='float32')", "sum(dtype='complex128')", "prod(0, 'float32')", "mean(0, dtype='float32')", "var(ddof=1)",
                 "std(0, ddof=1)", "var(1, ddof=2)", "std(ddof=59)", "var(axis=0, ddof=3)", "argmin(0, fill_value=-1e3)", "argmax(fill_value=99)",
                 "argmin(axis=1, keepdims=True)", "anom()", "anom(2)", "cumsum(1, dtype='float32')", "mean(axis=0)", "std(axis=(0, 1))"]:
        yield case(f"ma.masked_array(x, mask=m).{text}", x=x, m=m, norm=16, atol=1e-4 if "32" in text else 1e-9)
    n = np.array([[1.0, np.nan, 3.0], [np.nan, 2.0, 5.0]])
    for text in ["sum()", "sum(0)", "mean(1)", "mean(0)", "min(0)", "max()", "prod(1)", "count()", "argmin(1)", "any(0)"]:
        yield case(f"ma.masked_array(n, mask=[[0, 1, 0], [0, 0, 1]]).{text}", n=n, atol=1e-12)
        yield case(f"ma.masked_invalid(n).{text}", n=n, atol=1e-12)
    for function in ["sum", "mean", "min", "max", "std", "any", "prod"]:  # NumPy's of masked arrays
        yield case(f"{function}(ma.masked_array(x, mask=m), axis=1)", x=x, m=m, norm=16, atol=1e-9)
    for dtype in ["float32", "float64", "int32", "uint8", "bool"]:
        a, m = sample(dtype, (5, 7)), mask_of((5, 7), 3)
        m[:, 2] = True
        for axis in ["", ", axis=0", ", axis=1"]:
            yield case(f"ma.median(ma.masked_array(a, mask=m){axis})", a=a, m=m, ulp=4)
    a, m, w = sample("float64", (4, 3)), mask_of((4, 3), 1), np.abs(sample("float64", (4, 3), 2)) + 1
    for text in ["x", "x, axis=0", "x, 1", "x, weights=w", "x, axis=0, weights=w", "x, axis=1, weights=[1, 2, 3]", "x, axis=0, weights=[1, 0, 2, 4]",
                 "x, axis=1, keepdims=True", "x, axis=(0, 1), weights=w, keepdims=True", "x, axis=0, returned=True", "x, axis=1, weights=[3, 1, 2], returned=True",
                 "x, weights=[1, 2]", "x, axis=0, weights=[1, 2]", "x, axis=0, weights=ma.masked_array(w, mask=m)", "x, axis=(1, 0), weights=w.T"]:
        yield case("ma.average(" + text.replace("x", "ma.masked_array(a, mask=m)", 1) + ")", a=a, m=m, w=w, ulp=16, atol=1e-13)
    yield case("ma.average(i, axis=0, weights=[1, 2, 3, 4])", i=sample("int16", (4, 3)), ulp=16, atol=1e-13)
    yield case("ma.average(a, weights=w)", a=a, w=w, ulp=16, atol=1e-13)


UNARY = ["exp", "conjugate", "sin", "cos", "arctan", "arcsinh", "sinh", "cosh", "tanh", "abs", "absolute", "fabs", "negative", "floor", "ceil",
         "logical_not", "sqrt", "log", "log2", "log10", "tan", "arcsin", "arccos", "arccosh", "arctanh"]
BINARY = ["add", "subtract", "multiply", "arctan2", "equal", "not_equal", "less_equal", "greater_equal", "less", "greater", "logical_and", "logical_or",
          "logical_xor", "hypot", "divide", "true_divide", "floor_divide", "remainder", "fmod", "mod", "power", "maximum", "minimum"]


def elementwise():
    edges = np.array([-2.0, -1.0, -0.5, -0.0, 0.0, 1e-320, 0.5, 1.0, 2.0, 1e308, np.nan, np.inf, -np.inf])
    m = mask_of(edges.shape, 5, 0.2)
    for name in UNARY:
        if name == "conjugate":
            yield case(f"ma.{name}(ma.masked_array(a, mask=m))", a=sample("complex128", (13,)), m=m)
        for dtype in ["float64", "float32", "int32", "bool"]:
            if (dtype == "bool" and name in ("negative",)) or (dtype == "float32" and name in ("floor", "ceil")):
                continue
            with np.errstate(all="ignore"):
                a = edges.astype(dtype)
            if dtype == "int32":
                a = sample("int32", edges.shape) % 4 - 1
            limits = {"ulp": 4, "norm": 1} if dtype == "float32" or name in ("sinh", "cosh", "tan") else {"ulp": 4}
            yield case(f"ma.{name}(ma.masked_array(a, mask=m))", a=a, m=m, **limits, **({"atol": 1e-2} if dtype == "bool" else {}))
        yield case(f"ma.{name}(a)", a=edges, ulp=4, norm=1)
        yield case(f"ma.{name}(ma.masked_array(a[2], mask=True))", a=edges)
        if name not in ("abs", "fabs"):
            yield case(f"{name}(ma.masked_array(a, mask=m))", a=np.abs(sample("float64", edges.shape)) / 100 + 1e-3 if name != "arccosh" else edges[8:9] + m, m=m, ulp=4)
    b = np.array([0.0, 1.0, -1.0, 2.0, 0.0, 1e-300, 3.0, -0.0, 1e300, 2.0, 1.0, np.inf, np.nan])
    k = mask_of(edges.shape, 6, 0.3)
    for name in BINARY:
        yield case(f"ma.{name}(ma.masked_array(a, mask=m), ma.masked_array(b, mask=k))", a=edges, b=b, m=m, k=k, ulp=4, norm=1)
        yield case(f"ma.{name}(a, ma.masked_array(b, mask=k))", a=edges, b=b, k=k, ulp=4, norm=1)
        yield case(f"ma.{name}(a, b)", a=edges, b=b, ulp=4, norm=1)
        yield case(f"ma.{name}(ma.masked_array(a, mask=m), 2.0)", a=edges, m=m, ulp=4, norm=1)
        yield case(f"ma.{name}(3.0, ma.masked_array(a, mask=m))", a=edges, m=m, ulp=4, norm=1)
        yield case(f"ma.{name}(ma.masked_array(x, mask=m), ma.masked_array(y, mask=k))", x=sample("float64", (3, 1)), y=sample("float64", (4,)), m=mask_of((3, 1), 2),
                   k=mask_of((4,), 3), ulp=4)
        for dtype in ["int8", "uint16", "int64", "float32"]:
            x, y = numbers(dtype, (13,)), np.abs(numbers(dtype, (13,), 2))
            if dtype != "float32" or name not in ("power",):
                yield case(f"ma.{name}(ma.masked_array(x, mask=m), ma.masked_array(y, mask=k))", x=x, y=y, m=m, k=k, ulp=8)
    i, j = sample("int32", (6,)), np.abs(sample("int32", (6,), 1)) % 7
    m, k = mask_of((6,), 7), mask_of((6,), 8)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]:
        yield case(f"ma.{name}(ma.masked_array(i, mask=m), j)", i=i, j=j, m=m)
    for symbol in ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "==", "!=", "<", "<=", ">", ">="]:
        x, y = "ma.masked_array(i, mask=m)", "ma.masked_array(j, mask=k)"
        yield case(f"{x} {symbol} {y}", i=i % 5, j=j, m=m, k=k, ulp=2)
        yield case(f"{x} {symbol} j", i=i % 5, j=j, m=m, ulp=2)
        yield case(f"j {symbol} {x}" if symbol not in ("**",) else f"{x} {symbol} 2.0", i=i % 5, j=j, m=m, ulp=2)
        if symbol not in "&|^":
            yield case(f"ma.masked_array(x, mask=m) {symbol} 2.0", x=sample("float64", (6,)), m=m, ulp=4)
            yield case(f"ma.masked_array(x, mask=m) {symbol} ma.masked", x=sample("float64", (6,)), m=m)
    for text in ["-x", "~(x > 0)", "abs(x)", "(x > 0) & (x < 5)", "+x", "x + ma.masked", "x[0] + ma.masked", "x - x.mean()",
                 "x.round(1)", "ma.round(x, 1)", "x.clip(-1.0, 3.0)", "x.clip(max=2.0)", "x.real", "x.imag", "x.conj()", "x.conjugate()", "x.astype('int16')", "add(x, x)", "sqrt(abs(x))"]:
        yield case(text.replace("x", "ma.masked_array(q, mask=m)") if "max" not in text else text.replace("x.", "ma.masked_array(q, mask=m)."), q=sample("float64", (6,)), m=m, ulp=2)


def making():
    x = np.array([1.0, 2.0, 3.0, np.nan, np.inf, 2.0, -1.0])
    i, m = np.array([3, 1, 2, 2, 7]), mask_of((5,), 9)
    for text in ["equal(x, 2.0)", "not_equal(x, 2.0)", "greater(x, 2.0)", "greater_equal(x, 2.0)", "less(x, 2.0)", "less_equal(x, 2.0)", "inside(x, 1.5, 2.5)",
                 "inside(x, 3.0, 2.0)", "outside(x, 0.0, 2.0)", "outside(x, 2.0, 0.0)", "values(x, 2.0)", "values(x, 2.0, rtol=0.0, atol=1.5)", "invalid(x)", "where(x > 2, x)",
                 "where(False, x)", "where(True, x)", "where([0, 1, 0, 0, 0, 0, 1], x)", "where([True], x)", "where(x[:3] > 0, x)", "equal(x, y)", "less(x, y)",
                 "greater(x, y, copy=False)", "where(ma.masked_array(x > 2, mask=x < 2), x)", "all_like(x)", "equal(z, 2.0)", "where(z > 2, z)", "invalid(z)", "values(z, 3.0)"]:
        yield case("ma.masked_" + text, x=x, y=x[::-1].copy(), z=np.array(2.0))
        if "y" not in text and "z" not in text and text != "where(x[:3] > 0, x)":
            inner = text.replace("copy=False", "")
            yield case(f"ma.masked_{inner}.fill_value", x=x)
    for text in ["equal(i, 2)", "not_equal(i, 2)", "values(i, 2)", "inside(i, 1, 2)", "outside(i, 2, 300)", "invalid(i)", "where(i == 2, i)", "greater(i, 1.5)", "equal(i, 300)"]:
        yield case(f"ma.masked_{text}", i=i)
        if "300" not in text:
            yield case(f"ma.masked_{text}", i=i.astype("uint8"))
        yield case(f"ma.masked_{text}", i=ma_input(i))
    for text in ["(i)", "(i, mask=m)", "(i, m)", "(i, mask=True)", "(i, mask=False)", "(i, mask=[0, 1, 0, 0, 1])", "(i, mask=[[0, 1, 0, 0, 1]])", "(i, mask=[1])",
                 "(i, mask=[0, 1])", "(i, mask=m, dtype='float32')", "(i, mask=m, fill_value=7)", "(i, fill_value='a')", "(i, fill_value=1e400)", "(x, fill_value=1j)",
                 "(ma.masked_array(i, mask=m), mask=[1, 0, 0, 0, 0])", "(ma.masked_array(i, mask=m), mask=[1, 0, 0, 0, 0], keep_mask=False)", "(5)", "(5, mask=True)",
                 "([[1, 2], [3, 4]], mask=[[1, 0], [0, 1]])", "(i, mask=m, ndmin=3)", "([])", "(e, mask=e > 0)", "(i.reshape(5, 1), mask=m)", "(i.astype('int8'), fill_value=300)"]:
        yield case(f"ma.masked_array{text}", i=i, m=m, x=x, e=np.zeros((0, 3)))
    for text in ["ma.array(i, mask=m)", "ma.array([1.5, 2], mask=[True, False], dtype='float32')", "ma.asarray(i)", "ma.asarray(ma.masked_array(i, mask=m), 'float64')",
                 "ma.zeros_like(y)", "ma.ones_like(y)", "ma.empty_like(y).shape", "ma.getmaskarray(ma.empty_like(y))", "ma.zeros_like(i)", "ma.ones_like(y, dtype='int8')",
                 "ma.masked_all((2, 3)).mask", "ma.masked_all((2, 3), dtype='int16')", "ma.masked_all_like(i)",
                 "ma.getdata(y)", "ma.getdata(i)", "ma.getmask(y)", "ma.getmask(i)", "ma.getmaskarray(y)", "ma.getmaskarray(i)", "ma.filled(y)", "ma.filled(y, 5)",
                 "ma.filled(i)", "y.filled()", "y.filled(-1)", "y.filled(arange(5))", "y.filled(arange(3))", "ma.filled(y, 'a')", "ma.filled([1, 2])", "y.data", "y.mask", "y.fill_value",
                 "y.shape", "y.ndim", "y.size", "y.dtype", "y.itemsize", "y.nbytes", "y.T", "ma.is_masked(y)", "ma.is_masked(i)", "ma.is_masked(ma.masked_array(i, mask=[0, 0, 0, 0, 0]))",
                 "ma.count_masked(y)", "ma.count_masked(i)", "ma.compressed(y)", "y.compressed()", "ma.compressed(i)", "ma.nonzero(y)", "y.nonzero()", "ma.nonzero(i)",
                 "ma.where(y > 1, y, 0)", "ma.where(i > 1, y, i)", "ma.where(y > 1)", "ma.where(y > 1, y, ma.masked)", "ma.where(i > 1, ma.masked, i)", "ma.where(i > 1, i, i * 1.5)",
                 "ma.where(y > 1, y)", "ma.where(True, y, i)", "ma.where(i > 1, 1.5, 2.5)", "ma.allequal(y, i)", "ma.allequal(y, i, False)", "ma.allequal(y, i + 1)", "ma.allequal(i, i)",
                 "ma.concatenate([y, i])", "ma.concatenate([i, i])", "ma.concatenate([y.reshape(1, 5), y.reshape(1, 5)], axis=1)", "ma.stack([y, i])", "ma.stack([y, y], axis=1)",
                 "ma.dot(y, i)", "y.dot(i)", "ma.dot(y.reshape(5, 1), y.reshape(1, 5))", "ma.dot(ma.masked_array(i, mask=True), i)", "ma.fix_invalid(x)", "ma.fix_invalid(x).data",
                 "ma.fix_invalid(x, fill_value=-3.0).data", "ma.fix_invalid(x, mask=[1, 0, 0, 0, 0, 0, 0])", "ma.fix_invalid(i)", "(ma.set_fill_value(y, 9), y.fill_value)[0]",
                 "ma.default_fill_value(i)", "ma.default_fill_value(x)", "ma.default_fill_value(True)", "ma.default_fill_value(1j)", "ma.nomask", "ma.masked", "ma.masked + 1",
                 "ma.set_fill_value(i, 3)", "ma.anom(y)", "ma.median(i)", "ma.cumsum(y)", "ma.cumprod(y)", "ma.min(y, axis=0)", "ma.ptp(y)",
                 "ma.array(i, mask=m, hard_mask=False)", "ma.MaskedArray(i, m)", "ma.any(y)", "ma.all(y)", "ma.var(y)", "ma.std(y)", "ma.mean(y)", "ma.sum(y)", "ma.prod(y)", "ma.max(y)"]:
        yield case(named(text, "y", "ma.masked_array(i, mask=m)"), i=i, m=m, x=x, atol=1e-12)


def ma_input(i):
    return i[::-1].copy()[::-1]


def parts():
    x, m = sample("float64", (3, 4, 2)), mask_of((3, 4, 2), 11)
    for dtype in ["float64", "int16", "bool"]:
        a = sample(dtype, (3, 4, 2))
        for each in layouts(a):
            for text in ["x[0]", "x[-1, 2]", "x[0, 1, 1]", "x[:, 0]", "x[1:, ::2]", "x[::-1]", "x[..., 0]", "x[:, None, 1]", "x[[2, 0]]", "x[[0, 2], [1, 3]]", "x[x.data > 0]", "x[b]",
                         "x[b[:, 0, 0]]", "x.ravel()", "x.reshape(4, 6)", "x.reshape((6, -1))", "x.T", "x.transpose(1, 0, 2)", "x.transpose()", "x.swapaxes(0, 2)", "x.flatten()",
                         "x[:1].squeeze()", "x.take([0, 5, 3])", "x.take([2, 0], axis=1)", "x.repeat(2, axis=1)", "x.repeat(3)", "x.diagonal()", "x.trace()", "x.copy()",
                         "x.compress([True, False, True], axis=0)", "x.compressed()", "x.nonzero()", "x.filled()", "x.count(1)", "ma.transpose(x, (2, 0, 1))", "ma.reshape(x, (2, 12))",
                         "ma.ravel(x)", "ma.take(x, [1, 2], axis=0)", "x.astype('complex64')"]:
                # numpy.ma's trace() of integers is float64 by accident (astype(None)).
                if text == "x.trace()" and dtype != "float64" or text == "x.filled()" and dtype == "int16":
                    continue
                yield case(named(text, "x", "ma.masked_array(a, mask=m)"), a=each, m=m, b=mask_of((3, 4, 2), 12), ulp=4, atol=1e-13)
    for text in ["x[9]", "x[:, 9]", "x[0, 0, 0, 0]", "x.reshape(5, 5)", "x.transpose(0, 0, 1)", "x.take([99])", "x.squeeze(0)", "x[[9]]", "x.filled(x[:2].data)", "x.sum(5)", "x + x[:2]"]:
        yield case(named(text, "x", "ma.masked_array(x, mask=m)"), x=x, m=m)
    s, k = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 0.5]), np.array([0, 1, 0, 0, 1, 0], "bool")
    for text in ["ma.sort(s)", "ma.sort(s, endwith=False)", "ma.sort(s.reshape(2, 3), axis=0)", "ma.sort(s.reshape(3, 2))", "ma.sort(s.reshape(3, 2), axis=None)", "ma.argsort(s)[:4]",
                 "ma.argsort(s.reshape(2, 3), axis=1)[0, :2]", "ma.sort(s.astype('int32'))", "ma.argsort(s, endwith=False)[2:]"]:
        yield case(re.sub(r"\bs\b", "ma.masked_array(s, mask=k)", text, count=1) if "ma.sort(s" in text or "ma.argsort(s" in text else text, s=s, k=k)


def printing():
    a, m = np.array([[1.5, 2, -3], [4, 1e20, 0.1]]), np.array([[1, 0, 0], [0, 1, 0]], "bool")
    for dtype in ["float64", "float32", "int32", "bool", "complex128"]:
        with np.errstate(all="ignore"):
            x = a.astype(dtype)
        if dtype == "complex128":  # sums print as they are rounded
            x = np.array([[1 + 2j, 2, -3j], [4, 5 - 1j, 0.5]])
        for text in ["str(x)", "repr(x)", "str(x[0])", "repr(x[1])", "str(x.sum())", "str(x[0, 0])", "repr(x.sum(0))", "str(x.reshape(6))", "repr(x.reshape(1, 6))"]:
            if dtype == "int32":
                x = np.array([[1, 2, -3], [4, 5, 600]], "int32")
            yield case(named(text, "x", "ma.masked_array(x, mask=m)"), x=x, m=m)
    for text in ["str(ma.masked_array(x))", "repr(ma.masked_array(x))", "str(ma.masked_array(arange(30), mask=arange(30) % 3 == 0))", "str(ma.masked)", "repr(ma.masked)",
                 "repr(ma.masked_array(arange(3), mask=True))", "str(ma.masked_array([]))", "str(ma.masked_array(arange(2000), mask=arange(2000) % 2 == 0))", "repr((ma.masked, 1))",
                 "repr(ma.masked_equal([1, 2, 3], 2))", "str(ma.masked_array(5, mask=True))", "str(ma.masked_array(5))", "str(ma.masked_array(arange(400).reshape(20, 20), mask=True))"]:
        yield case(text, x=a)


def cases():
    yield from reductions()
    yield from elementwise()
    yield from making()
    yield from parts()
    yield from printing()
