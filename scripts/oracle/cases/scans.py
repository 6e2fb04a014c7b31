"""Cumulative functions and differences (local/ops/functions/scans.def)."""
from expressions import COMPLEX, DTYPES, FLOATS, case, layouts, rng, sample
import numpy as np

INEXACT = FLOATS + COMPLEX
CUMULATIVE = ["cumsum", "cumprod", "nancumsum", "nancumprod"]
ARRAY_API = ["cumulative_sum", "cumulative_prod"]


def bound(dtype):
    # NumPy rounds 16-bit floats after every step.
    return {"norm": 64 if dtype in ("float16", "bfloat16") else 16} if dtype in INEXACT else {}


def numbers(name, dtype, shape, seed=0):
    if "prod" in name and dtype in INEXACT:
        a = 1 + rng(name, dtype, shape, seed).standard_normal(shape) / 8
        return np.asarray(a * (1 + 0.2j) if dtype in COMPLEX else a).astype(sample(dtype, (1,)).dtype)
    a = sample(dtype, shape, seed)
    if name.startswith("nan") and dtype in INEXACT and a.size > 2:
        a.reshape(-1)[1::3] = np.nan
    return a


def cumulative():
    for name in CUMULATIVE:
        for dtype in DTYPES:
            if dtype == "bfloat16":
                continue
            a = numbers(name, dtype, (3, 4))
            for text in [f"{name}(a)", f"{name}(a, axis=0)", f"{name}(a, axis=-1)", f"{name}(a, 1)"]:
                yield case(text, a=a, **bound(dtype))
            if not name.startswith("nan"):
                yield case(f"a.{name}()", a=a, **bound(dtype))
                yield case(f"a.{name}(axis=0)", a=a, **bound(dtype))
        for dtype in ["int8", "float32", "complex128"]:
            for shape in [(), (1,), (0,), (0, 3), (3, 0), (5,), (2, 3, 4)]:
                a = numbers(name, dtype, shape)
                yield case(f"{name}(a)", a=a, **bound(dtype))
                for axis in range(-len(shape), len(shape)):
                    yield case(f"{name}(a, axis={axis})", a=a, **bound(dtype))
            for a in layouts(numbers(name, dtype, (3, 4, 2))):
                for axis in [None, 0, 1, 2]:
                    yield case(f"{name}(a, axis={axis})", a=a, **bound(dtype))
        f, i = numbers(name, "float64", (3, 4)), numbers(name, "int8", (3, 4))
        for text in [f"{name}(a, dtype={d})" for d in ["float32", "float64", "complex64", "int64", "float16"]] + [
                f"{name}(i, axis=0, dtype={d})" for d in ["int8", "int16", "float32", "float64", "uint8", "complex128", "bool"]] + [
                f"({name}(a, axis=0, out=o), o)", f"({name}(i, axis=1, out=o), o)", f"({name}(i, axis=0, out=t), t)", f"{name}(a, axis=0, out=t)",
                f"{name}(a, axis=0, out=o[0])", f"({name}(a, out=w), w)", f"{name}(a, axis=2)", f"{name}(a, axis=-3)", f"{name}(a, axis=(0, 1))",
                f"{name}(a, axis=0.5)", f"{name}([1, 2, 3])", f"{name}(5)", f"{name}(5, axis=0)", f"{name}([[1.5, 2], [3, 4]], axis=1)",
                f"({name}(a, axis=0, out=a), a)", f"{name}(a[::-1, ::2], axis=1)", f"{name}([])", f"{name}([True, True, False])"]:
            yield case(text, a=f, i=i, o=np.zeros((3, 4)), t=np.zeros((3, 4), "int16"), w=np.zeros(12), norm=64)
        for dtype in ["float32", "int32"]:
            for shape in [(20000,), (5, 2000), (2000, 5), (4, 70, 9)]:
                a = np.resize(numbers(name, dtype, (101,)), shape)
                if "prod" in name:
                    a = np.sign(a) + (a == 0)
                for axis in range(len(shape)):
                    yield case(f"{name}(a, axis={axis})", a=a, norm=256 if dtype == "float32" else 0)
    for name in ARRAY_API:
        for dtype in ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64"]:
            a = numbers(name, dtype, (3, 4))
            for text in [f"{name}(a[0])", f"{name}(a, axis=0)", f"{name}(a, axis=1, include_initial=True)", f"{name}(a[0], include_initial=True)",
                         f"{name}(a, axis=-1)", f"{name}(a)"]:
                yield case(text, a=a, **bound(dtype))
        for text in [f"{name}(3)", f"{name}(a, axis=0, dtype=float32)", f"{name}(i, axis=0, dtype=float64, include_initial=True)", f"{name}(a, axis=5)",
                     f"({name}(a, axis=0, out=o), o)", f"({name}(a, axis=0, out=p, include_initial=True), p)", f"{name}(a, axis=0, out=o, include_initial=True)",
                     f"{name}(a[:0], axis=0)", f"{name}(a[:0], axis=0, include_initial=True)", f"{name}([], include_initial=True)",
                     f"{name}(a[:, ::-1], axis=1, include_initial=True)", f"{name}([1, 2, 3])", f"({name}(i, axis=0, out=p, include_initial=True), p)"]:
            yield case(text, a=numbers(name, "float64", (3, 4)), i=sample("int8", (3, 4)), o=np.zeros((3, 4)), p=np.zeros((4, 4)), norm=16)


def differences():
    for dtype in DTYPES:
        if dtype == "bfloat16":
            continue
        a = sample(dtype, (4, 5), special=dtype not in COMPLEX)
        for text in ["diff(a)", "diff(a, axis=0)", "diff(a, 2)", "diff(a, n=3, axis=0)", "diff(a, n=0)", "diff(a, 9)", "diff(a, prepend=0)",
                     "diff(a, axis=0, append=a[:1])", "diff(a, prepend=a[:, :2], append=a[:, -1:])", "ediff1d(a)", "ediff1d(a, to_end=a[0])",
                     "ediff1d(a, to_begin=a[0, 0], to_end=a[:2, :2])", "ediff1d(a[0, :1])", "ediff1d(a[:0])", "diff(a, prepend=3, append=4)"]:
            yield case(text, a=a)
        b = sample(dtype, (4, 5))
        for text in ["trapezoid(a)", "trapezoid(a, axis=0)", "trapezoid(a, dx=0.5)", "trapezoid(a, x=[0, 1, 3, 3.5, 7])", "trapezoid(a, a)",
                     "trapezoid(a[:, :1])", "trapezoid(a[:, :0])", "trapezoid(a[0], a[1])", "trapezoid(a, [0, 1, 2, 4], axis=0)", "trapezoid(a, dx=2)"]:
            yield case(text, a=b, ulp=4, norm=8)
        for text in ["gradient(a)", "gradient(a, axis=0)", "gradient(a, 2)", "gradient(a, 2.5, axis=1)", "gradient(a, 1, 2)", "gradient(a, edge_order=2)",
                     "gradient(a, [0, 1, 3, 4], axis=0)", "gradient(a, [0, 1, 3, 4], 2, edge_order=2)", "gradient(a[0])", "gradient(a, axis=(1, 0))",
                     "gradient(a, [0, 1, 2, 3.5], [0, 1, 2, 3, 5.5], edge_order=2)", "gradient(a, [0, 1, 2, 3], axis=0)"]:
            yield case(text, a=b, ulp=8, norm=16, atol=1e-300)
        if dtype not in COMPLEX + ["bool"]:
            for text in ["unwrap(a)", "unwrap(a, axis=0)", "unwrap(a, discont=4)", "unwrap(a, period=10)", "unwrap(a, period=5.5)", "unwrap(a, period=7, axis=0)"]:
                yield case(text, a=b, ulp=8, norm=16)
    f, i, z = sample("float64", (3, 4)), sample("int32", (3, 4)), sample("complex64", (3, 4))
    texts = ["diff(a, -1)", "diff(5)", "diff([1])", "diff([])", "diff([1, 3, 6, 10], 2)", "diff(a, axis=2)", "diff(a, prepend=a[:2])", "diff(a, append=[1, 2])",
             "diff(i, prepend=1.5)", "diff(i, append=z[:, :1])", "diff([True, False, False])", "diff([1, 2], prepend=[[0]])", "diff(a.T)", "diff(a[::-1, ::-1])",
             "diff(a, 1.5)", "ediff1d([1, 2, 4])", "ediff1d(5)", "ediff1d([1, 2, 4], to_begin=-99, to_end=[88, 99])", "ediff1d(i, to_end=1.5)",
             "ediff1d(a, to_begin=i)", "ediff1d([True, False])", "ediff1d(i, 300, 7)", "ediff1d(a.T)", "ediff1d(i, to_end=z)",
             "trapezoid([1, 2, 3])", "trapezoid([1, 2, 3], x=[4, 6, 8])", "trapezoid([1, 2, 3], dx=2)", "trapezoid(a, x=a, axis=0)", "trapezoid(a, x=[1, 2])",
             "trapezoid(5)", "trapezoid([])", "trapezoid(a, axis=4)", "trapezoid(i, dx=1)", "trapezoid(z, x=z)", "trapezoid(a[0], dx=[1, 2, 3])", "trapezoid(a, i)",
             "trapezoid([True, False, True])", "trapezoid(i, axis=0)", "trapezoid(a.T, axis=1)",
             "gradient([1, 2, 4, 7, 11, 16])", "gradient([1, 2, 4, 7, 11, 16], 2)", "gradient([1, 2, 4, 7, 11, 16], [0, 1, 1.5, 3.5, 4, 6])", "gradient([1])",
             "gradient([1, 2], edge_order=2)", "gradient(a, 1, 2, 3)", "gradient(a, edge_order=3)", "gradient(a, [1, 2], axis=0)", "gradient(a, axis=(0, 0))",
             "gradient(a, axis=5)", "gradient(a, [[1, 2]], axis=0)", "gradient(5)", "gradient(a, 0.0, axis=0)", "gradient(i)", "gradient(z, 1j, axis=0)",
             "gradient(a, axis=())", "gradient(a, 2, axis=None)", "gradient(a.T)", "gradient(a[::-1, ::2], axis=0)", "gradient(a, 1., axis=0, edge_order=1)",
             "unwrap([0, 1, 2, -1, 0], period=4)", "unwrap([2, 3, 4, 5, 2, 3], period=4)", "unwrap([1, 2, 3, 4, 5, 6, 1, 2, 3], period=6)", "unwrap(5)", "unwrap([])",
             "unwrap([3.0])", "unwrap(a, 0.1)", "unwrap(linspace(0, 720, 19) % 360, period=360)", "unwrap(a, axis=2)", "unwrap(a, period=5)", "unwrap(a.T)",
             "unwrap(array([0, 200, 100], dtype=uint8))", "unwrap(i, 10, 0)", "unwrap([0, nan, 7, 1.0])"]
    for text in texts:
        yield case(text, a=f, i=i, z=z, ulp=8, norm=16 if "diff" not in text else 0)
    for a in layouts(sample("float32", (3, 4, 3))):
        for axis in [0, 1, 2]:
            for name in ["diff", "trapezoid", "gradient", "unwrap"]:
                yield case(f"{name}(a, axis={axis})", a=a, ulp=4, norm=8)


def cases():
    yield from cumulative()
    yield from differences()
