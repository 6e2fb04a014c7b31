"""Reductions and their nan variants (reduction.def, local/ops/reduction/nan_reductions.cpp).

quarry differs from NumPy by decision:
- Sums of float16 and bfloat16 accumulate in float32 throughout.
- var and std of float16 do not overflow where the sum of squares would. The var of complex numbers with a real dtype= is
  that of both parts.
- axis= of ptp may be a list. An integer dtype= together with out= or where= rounds the result only.
- min and max of both zeros are either of them, as in NumPy, whose answer depends on the position.
"""
from expressions import COMPLEX, DTYPES, FLOATS, case, layouts, rng, sample
import numpy as np

INEXACT = FLOATS + COMPLEX
SUMS = ["sum", "prod", "mean", "var", "std"]
EXTREMES = ["min", "max", "amin", "amax", "ptp"]
TRUTHS = ["any", "all", "count_nonzero"]
POSITIONS = ["argmin", "argmax"]
METHODS = ["sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax"]
NAN = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax"]
SHAPES = [(), (1,), (0,), (2, 0), (0, 3), (5,), (3, 4), (2, 3, 4), (1, 1, 3)]


def bound(name, dtype):
    name = name.removeprefix("nan")
    if name in ("min", "max", "amin", "amax"):
        return {"atol": 1e-300}
    if name in POSITIONS + TRUTHS + ["ptp"]:
        return {}
    # NumPy sums 16-bit floats in their own precision where axes are not contiguous. Terms cancel: roundings are those of
    # the greatest partial sum.
    rounding = {"bfloat16": 0.4, "float16": 0.05, "float32": 1e-5, "complex64": 1e-5}.get(dtype, 1e-13)
    return {"norm": 32 if dtype in ("float16", "bfloat16") else 8, "atol": rounding}


def numbers(name, dtype, shape, seed=0):
    a = sample(dtype, shape, seed)
    if "prod" in name and dtype in INEXACT:
        a = (np.sign(a.real) * (1 + rng(name, dtype, shape).random(shape) / 4)).astype(a.dtype) if dtype not in COMPLEX else (
            np.exp(1j * a.real) * (1 + rng(name, dtype, shape).random(shape) / 4)).astype(a.dtype)
    return a


def with_nan(a, every=3):
    a = a.copy()
    if a.dtype.kind in "fc" or a.dtype.name == "bfloat16":
        a.reshape(-1)[::every] = np.nan
    return a


def works(text, **inputs):
    """Whether NumPy with ml_dtypes has it for bfloat16."""
    try:
        with np.errstate(all="ignore"):
            eval(text, {**{n: getattr(np, n) for n in dir(np)}, **inputs})
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def every_dtype():
    for name in SUMS + EXTREMES + TRUTHS + POSITIONS:
        for dtype in DTYPES:
            a = numbers(name, dtype, (3, 4))
            if dtype == "bfloat16" and not works(f"{name}(a)", a=a):
                continue
            texts = [f"{name}(a)", f"{name}(a, axis=0)", f"{name}(a, axis=-1)", f"{name}(a, axis=1, keepdims=True)"]
            if name not in POSITIONS:
                texts += [f"{name}(a, axis=(0, 1))", f"{name}(a, (1, 0), keepdims=True)"]
            if name in METHODS:
                texts += [f"a.{name}()", f"a.{name}(axis=0)", f"a.{name}(1, keepdims=True)"]
            for text in texts:
                yield case(text, a=a, **bound(name, dtype))
            if dtype == "bfloat16":
                continue
            special = sample(dtype, (3, 4), 7, special=True)
            if name in EXTREMES + TRUTHS + POSITIONS:
                yield case(f"{name}(a, axis=0)", a=special, **bound(name, dtype))
                yield case(f"{name}(a)", a=special, **bound(name, dtype))
                yield case(f"{name}(a)", a=np.zeros((3, 4), dtype), **bound(name, dtype))
            elif dtype not in COMPLEX:
                yield case(f"{name}(a, axis=0)", a=special, **bound(name, dtype))
        for dtype in ["bool", "int16", "float32", "complex64", "uint64"]:
            for shape in SHAPES:
                a = numbers(name, dtype, shape)
                yield case(f"{name}(a)", a=a, **bound(name, dtype))
                if shape:
                    yield case(f"{name}(a, axis=-1)", a=a, **bound(name, dtype))
                    yield case(f"{name}(a, axis=0, keepdims=True)", a=a, **bound(name, dtype))
            yield case(f"{name}(a, axis=(0, 2))", a=numbers(name, dtype, (2, 3, 4)), **bound(name, dtype))
            yield case(f"{name}(a, axis=(-1, 0), keepdims=True)", a=numbers(name, dtype, (2, 3, 4)), **bound(name, dtype))
            yield case(f"{name}(a, axis=())", a=numbers(name, dtype, (2, 3)), **bound(name, dtype))
            for a in layouts(numbers(name, dtype, (3, 4, 2))) if dtype in ("int16", "float32") else []:
                for axis in [None, 0, 1, 2] + ([] if name in POSITIONS else [(0, 1), (1, 2), (0, 2)]):
                    yield case(f"{name}(a, axis={axis})", a=a, **bound(name, dtype))
        for axis in ["2", "-3", "(0, 0)", "(0, 5)", "1.5", "'x'"] + ([] if name == "ptp" else ["[0, 1]"]):
            yield case(f"{name}(a, axis={axis})", a=numbers(name, "float64", (3, 4)))
        for value in ["3", "2.5", "True", "[1, 2, 3]", "[[1.5, 2], [3, 4]]", "[]"]:
            yield case(f"{name}({value})", ulp=2)
            yield case(f"{name}({value}, axis=0)", ulp=2)


def keywords():
    f, i, z = sample("float64", (3, 4)), sample("int16", (3, 4)), sample("complex64", (3, 4))
    mask = rng("mask").random((3, 4)) < 0.6
    inputs = dict(a=f, i=i, z=z, m=mask, o=np.zeros(4), p=np.zeros((1, 4)), q=np.zeros(4, "float32"), t=np.zeros(4, "int64"),
                  b=np.zeros(4, bool), s=np.array(0.0))
    for name in SUMS + EXTREMES + TRUTHS + POSITIONS:
        b = bound(name, "float64") | {"ulp": 2}
        texts = []
        if name != "count_nonzero":
            texts += [f"({name}({x}, axis=0, out={o}), {o})" for x in "aiz" for o in "oqtb"
                      if x != "z" or o != "o" or name not in ("mean", "var", "std")]
            texts += [f"({name}(a, axis=0, out=p, keepdims=True), p)", f"{name}(a, axis=1, out=o)", f"{name}(a, 0, out=p)",
                      f"({name}(a, out=s), s)"] + ([] if name == "ptp" else [f"{name}(a, 0, out=3)"])
        if name in SUMS:
            texts += [f"{name}({x}, {axis}, dtype={d})" for x in "ai" for axis in (0, None)
                      for d in ["float32", "float64", "float16", "int64", "int8", "complex128", "bool", "uint32"]]
            texts += [f"{name}(z, dtype=complex128)", f"{name}(a, 0, float32)",
                      f"{name}(i, 0, dtype=float32, out=q)"]
        if name in SUMS + ["min", "max", "any", "all"]:
            first = ", initial=3" if name in ("min", "max") else ""
            texts += [f"{name}(a, where=m{first})", f"{name}(a, axis=0, where=m{first})", f"{name}(i, axis=1, where=m, keepdims=True{first})",
                      f"{name}(a, where=m[0]{first})", f"{name}(a, axis=0, where=m[:, :1]{first})", f"{name}(a, where=False{first})",
                      f"{name}(a, where=True)", f"{name}(a, where=i{first})", f"{name}(a[0], where=m{first})", f"{name}(z, axis=0, where=m{first})",
                      f"({name}(a, axis=0, where=m, out=o{first}), o)"]
        if name in ("min", "max"):
            texts += [f"{name}(a, where=m)", f"{name}(a[:0], axis=0, initial=5)", f"{name}(i, initial=2.5)", f"{name}(i, initial=100000)"]
        if name in ("sum", "prod", "min", "max"):
            texts += [f"{name}(a, initial=10)", f"{name}(i, axis=0, initial=-7)", f"{name}(a, axis=0, initial=2.5)", f"{name}(z, initial=1j)",
                      f"{name}(a[:, :0], axis=1, initial=4)", f"{name}(a, initial=None)", f"{name}(i, initial=True)"]
        if name in ("var", "std"):
            texts += [f"{name}(a, ddof=1)", f"{name}(a, axis=0, ddof=2)", f"{name}(a, axis=0, ddof=3)", f"{name}(a, axis=0, ddof=5)",
                      f"{name}(a, ddof=0.5)", f"{name}(a, correction=1)", f"{name}(a, ddof=1, correction=1)", f"{name}(z, axis=0, ddof=1)",
                      f"{name}(a, axis=0, mean=mean(a, axis=0, keepdims=True))", f"{name}(a, mean=a.mean(keepdims=True))",
                      f"{name}(i, axis=1, ddof=1, mean=i.mean(axis=1, keepdims=True))", f"{name}(a, axis=0, mean=[[1, 2, 3, 4]])",
                      f"{name}(z, axis=0, mean=z.mean(axis=0, keepdims=True))", f"{name}(a, axis=0, where=m, ddof=1)",
                      f"{name}(a, axis=0, where=m, mean=mean(a, axis=0, where=m, keepdims=True))", f"a.{name}(axis=0, ddof=1)",
                      f"{name}([1e8, 1e8 + 1, 1e8 + 2])", f"{name}(i, dtype=float32)", f"{name}(3)", f"{name}([5])", f"{name}([5], ddof=1)"]
        if name in METHODS:
            texts += [f"(a.{name}(0, out=o), o)"]
        texts += [f"{name}(a, bogus=1)", f"{name}()"]
        for text in texts:
            yield case(text, **inputs, **b)


def large():
    """Longer than a tile, an unrolled loop, a segment."""
    for name in SUMS + ["min", "max", "any", "all", "argmin", "argmax", "count_nonzero"]:
        for dtype in ["float32", "int32", "float16", "complex64"]:
            if dtype == "float16" and name in ("var", "std"):  # NumPy's overflows
                continue
            for shape in [(1000,), (7, 300), (300, 7), (9, 11, 13)]:
                a = numbers(name, dtype, shape)
                if "prod" in name and dtype in INEXACT:
                    a = (a / np.abs(a)).astype(dtype)
                for axis in [None] + list(range(len(shape))):
                    yield case(f"{name}(a, axis={axis})", a=a, **({"norm": 64} | ({"ulp": 64} if dtype != "int32" and name in SUMS else {"ulp": 4})))


def nan():
    f, z, i = with_nan(sample("float64", (3, 4))), with_nan(sample("complex128", (3, 4))), sample("int32", (3, 4))
    gone = f.copy()
    gone[1] = np.nan
    column = f.copy()
    column[:, 2] = np.nan
    mask = rng("mask").random((3, 4)) < 0.6
    inputs = dict(a=f, z=z, i=i, g=gone, c=column, m=mask, o=np.zeros(4), t=np.zeros(4, "int64"), e=np.full((2, 3), np.nan))
    for name in NAN:
        for dtype in DTYPES:
            a = with_nan(numbers(name, dtype, (3, 4)))
            if dtype == "bfloat16":
                continue
            for text in [f"{name}(a)", f"{name}(a, axis=0)", f"{name}(a, axis=1, keepdims=True)"]:
                if dtype in COMPLEX and "arg" in name:
                    continue
                yield case(text, a=a, **bound(name, dtype))
        for a in layouts(with_nan(numbers(name, "float32", (3, 4, 2)))):
            for axis in [None, 0, 1, 2] + ([] if "arg" in name else [(0, 1), (0, 2)]):
                yield case(f"{name}(a, axis={axis})", a=a, **bound(name, "float32"))
        for shape in [(), (1,), (0,), (0, 3), (3, 0), (1, 2)]:
            for dtype in ["float32", "int8"]:
                yield case(f"{name}(a)", a=numbers(name, dtype, shape), **bound(name, dtype))
                if shape:
                    yield case(f"{name}(a, axis=0)", a=numbers(name, dtype, shape), **bound(name, dtype))
        texts = [f"{name}({x}, axis={axis})" for x in "gceai" for axis in (None, 0, 1)]
        texts += [f"{name}(a, axis=2)", f"{name}(nan)", f"{name}([nan, nan])", f"{name}([1, nan])", f"{name}([])", f"({name}(a, axis=0, out=o), o)",
                  f"{name}(a, axis=0, keepdims=True)"]
        if name not in ("nanmin", "nanmax"):
            texts += [f"({name}(a, axis=0, out=t), t)"]
        if "arg" not in name:
            texts += [f"{name}(a, axis=(0, 1))", f"{name}(z, axis=0)", f"{name}(a, axis=0, where=m)" if "min" not in name and "max" not in name
                      else f"{name}(a, axis=0, where=m, initial=1)", f"{name}([inf, -inf, nan])", f"{name}([inf, nan])"]
        if name in ("nansum", "nanprod", "nanmin", "nanmax"):
            texts += [f"{name}(a, initial=3)", f"{name}(e, initial=3)", f"{name}(a, axis=0, initial=-5)"]
        if name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd"):
            texts += [f"{name}(a, axis=0, dtype=float32)", f"{name}(i, dtype=float64)", f"{name}(a, dtype=complex128)"]
        if name in ("nanvar", "nanstd"):
            texts += [f"{name}(a, axis=0, ddof=1)", f"{name}(a, axis=0, ddof=2)", f"{name}(a, axis=0, ddof=3)", f"{name}(a, correction=1)",
                      f"{name}(a, axis=0, mean=nanmean(a, axis=0, keepdims=True))", f"{name}(z, ddof=1)", f"{name}(c, axis=0, ddof=1)"]
        for text in texts:
            yield case(text, **inputs, **(bound(name, "float64") | {"ulp": 4}))


def cases():
    yield from every_dtype()
    yield from keywords()
    yield from large()
    yield from nan()
