"""Arrays as text, with every print option.

quarry differs from NumPy by decision: printoptions() is a scope of C++ (PrintScope), as the language has no `with`;
get_printoptions() leaves the options out that are functions; an unknown legacy= is ignored, as NumPy documents it (2.4 keeps it and fails).
"""
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
    yield from formatters()
    yield from legacy_modes()
    yield from global_options()


def formatters():
    """formatter= by dtype and by kind, words of several lines, and functions that return no text."""
    arrays = [sample("int32", (3, 4)), sample("float64", (5,)), sample("float16", ()), sample("complex64", (3,)), sample("bool", (2, 2)),
              sample("uint8", (30,)), sample("float32", (0, 2)), np.arange(2000.0)]
    text = "str(x)"
    for a in arrays:
        for key in ["int", "int_kind", "float", "float_kind", "complexfloat", "complex_kind", "bool", "all", "longfloat", "numpystr", "other"]:
            yield case(f"array2string(a, formatter={{'{key}': lambda x: '<' + {text} + '>'}})", a=a)
        yield case("array2string(a, formatter={'all': lambda x: 'any', 'int_kind': lambda x: 'kind', 'int': lambda x: 'own'})", a=a)
        yield case("array2string(a, formatter={'all': lambda x: 'any', 'float_kind': lambda x: 'kind', 'complex_kind': lambda x: '-'})", a=a)
        yield case("array2string(a, formatter={'float_kind': None, 'int': None})", a=a)
        yield case("array2string(a, formatter={})", a=a)
        yield case("array2string(a, formatter=None, precision=2)", a=a)
        yield case("array2string(a, formatter={'all': lambda x: repr(x)}, separator=', ', max_line_width=40)", a=a)
        yield case("array2string(a, formatter={'all': lambda x: 'one\\nlonger\\n3'}, max_line_width=30)", a=a)
    yield case("array2string(a, formatter={'int': lambda x, y: 'x'})", a=arrays[0])


def legacy_modes():
    wide = np.arange(60, dtype="int32").reshape(3, 4, 5)
    arrays = [wide, sample("float64", (3, 4)), sample("float32", (7,), special=True), sample("complex128", (2, 2), special=True),
              sample("bool", (3,)), sample("float64", ()), sample("complex64", ()), sample("int8", ()), sample("bool", ()), np.array(0.1, "float32"),
              np.array([1e-10, 1, 1e10]), np.array([1e9, 2e9], "float32"), np.array([1234.5, 60000], "float16"), np.zeros((0, 3)),
              np.arange(1500.0).reshape(30, 50), np.array([np.nan, np.inf]), np.array([0.1, 123456.789]), np.array([-1.5, 2])]
    for a in arrays:
        for mode in ["'1.13'", "'1.21'", "'1.25'", "'2.1'", "'2.2'", "False", "None"]:
            yield case(f"array2string(a, legacy={mode})", a=a)
            yield case(f"array2string(a, legacy={mode}, max_line_width=20, separator=', ', prefix='ab', suffix='cde')", a=a)
            yield case(f"(set_printoptions(legacy={mode}), array_repr(a), array_str(a), str(a), set_printoptions(legacy=False))", a=a)
        for more in ["sign='+'", "sign=' '", "sign='-'", "floatmode='fixed', precision=3", "floatmode='maxprec'", "suppress_small=True",
                     "threshold=5, edgeitems=1", "floatmode='maxprec_equal', precision=2"]:
            yield case(f"array2string(a, legacy='1.13', {more})", a=a)


def global_options():
    a, z = sample("float64", (3, 4), special=True), sample("complex64", (3,))
    default = "set_printoptions(8, 1000, 3, 75, False, 'nan', 'inf', None, '-', 'maxprec', legacy=False)"
    for options in ["precision=3", "threshold=5", "threshold=5, edgeitems=1", "linewidth=20", "suppress=True", "nanstr='none'", "infstr='many'",
                    "sign='+'", "sign=' '", "floatmode='fixed'", "2, 3, 1, 30", "formatter={'float': lambda x: 'f'}", "legacy='1.13', sign='+'",
                    "precision=3, formatter={'all': lambda x: 'x'}", "", "nanstr='not a number', precision=2",
                    "override_repr=lambda x: 'an array'"]:
        yield case(f"(set_printoptions({options}), array_repr(a), array_str(a), array2string(z), {default})", a=a, z=z)
        if "override" not in options and "legacy" not in options and "formatter" not in options:
            names = ["precision", "threshold", "edgeitems", "linewidth", "suppress", "nanstr", "infstr", "sign", "floatmode", "legacy"]
            values = ", ".join(f"get_printoptions()['{name}']" for name in names)
            yield case(f"(set_printoptions({options}), {values}, {default})")
    # The formatter of one call is gone with the next.
    yield case(f"(set_printoptions(formatter={{'all': lambda x: 'x'}}), set_printoptions(precision=2), array_str(a), {default})", a=a)
    for wrong in ["sign='x'", "floatmode='x'", "threshold='x'", "precision=1.5", "bogus=1"]:
        yield case(f"set_printoptions({wrong})")
