"""Arrays as text, with every print option."""
from expressions import DTYPES, case, sample, strided
import numpy as np

SHAPES = [(), (1,), (0,), (0, 3), (5,), (3, 4), (2, 2, 3), (30,), (4, 30)]


def cases():
    for dtype in DTYPES:
        if dtype == "bfloat16":
            continue
        for shape in SHAPES:
            for special in [False, True]:
                a = sample(dtype, shape, special=special)
                for name in ["array2string", "array_repr", "array_str"]:
                    yield case(f"{name}(a)", a=a)
        yield case("array_repr(a)", a=np.resize(sample(dtype, (50,)), (40, 50)))
        yield case("array_str(a)", a=strided(sample(dtype, (3, 4))).T)
    scales = [1.0, 1e-3, 1e5, 1e10, 1e-10, 1e300]
    for dtype in ["float16", "float32", "float64", "complex64", "complex128"]:
        for scale in scales:
            with np.errstate(all="ignore"):
                a = (sample("float64", (4,)) / 7 * scale).astype(dtype)
            specials = np.array([np.nan, -np.inf, 0, -0.0, 1.5]).astype(dtype)
            for values in [a, np.abs(a), specials, np.concatenate([a, specials])]:
                for mode in ["fixed", "unique", "maxprec", "maxprec_equal"]:
                    for precision in [0, 3, 8, 17]:
                        yield case(f"array2string(a, precision={precision}, floatmode='{mode}')", a=values)
                for sign in "+- ":
                    yield case(f"array2string(a, sign='{sign}')", a=values)
                    yield case(f"array2string(a, sign='{sign}', suppress_small=True, floatmode='fixed')", a=values)
                yield case("array_repr(a, precision=3, suppress_small=True)", a=values)
                yield case("array_str(a, 30, 4)", a=values)
    for dtype in ["int32", "uint8", "bool"]:
        for sign in "+- ":
            yield case(f"array2string(a, sign='{sign}')", a=sample(dtype, (5,)))
            yield case(f"array2string(abs(a), sign='{sign}')", a=sample(dtype, (5,)))
    a = np.arange(60, dtype="int32").reshape(3, 4, 5)
    for text in ["threshold=5", "threshold=5, edgeitems=1", "threshold=5, edgeitems=2, max_line_width=20", "max_line_width=10",
                 "max_line_width=1", "separator=', '", "separator='|', prefix='abc'", "separator=',\\n'.replace('x', 'y')",
                 "prefix='prefix', suffix=')))', max_line_width=30", "threshold=60", "threshold=59", "threshold=5, edgeitems=9",
                 "threshold=0, edgeitems=0", "sign='x'", "floatmode='x'", "precision=-1"]:
        if "replace" in text:
            continue
        yield case(f"array2string(a, {text})", a=a)
    yield case("array_repr(a, max_line_width=40)", a=a)
    yield case("array_str(a, max_line_width=40)", a=a)
