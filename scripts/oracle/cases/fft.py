"""Fourier transforms (local/ops/functions/fft.def).

Where quarry differs from NumPy by decision: hfft, ifft2 and irfft2 use their out=, which NumPy 2.4 ignores; `out` needs the
shape of the final result alone, also where lengths change along several axes; the inverse real transforms of no elements,
filled up, are zeros (NumPy gives what the memory held); shifts of 0-d arrays are copies (NumPy fails); a norm that is no
string and a number of frequencies that is no integer are TypeErrors (ValueErrors there); a length may be a bool; bfloat16
behaves like float16 (NumPy has no loop).
"""
from expressions import NUMPY_DTYPES, case, layouts, sample
import numpy as np

NORM = 24  # spacings at the largest value, of both sides' roundings
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL = ["rfft", "ihfft", "rfft2", "rfftn"]
TWO = ["fft2", "ifft2", "rfft2", "irfft2"]
MANY = ["fftn", "ifftn", "rfftn", "irfftn"]
NORMS = ["'backward'", "'ortho'", "'forward'", "None"]


def of(name, dtype="complex128"):
    """A dtype that the function takes."""
    return {"complex128": "float64", "complex64": "float32"}.get(dtype, dtype) if name in REAL else dtype


def one_axis():
    for name in ONE:
        for dtype in NUMPY_DTYPES:  # rfft of complex numbers is an error
            a = sample(dtype, (3, 5))
            for arguments in ["a", "a, 7", "a, n=4, axis=0", "a, norm='ortho'", "a[0], 1, norm='forward'"]:
                yield case(f"fft.{name}({arguments})", a=a, norm=NORM)
        for length in [1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 31, 60, 64, 67, 97, 128, 131, 243, 262]:
            for dtype in ["complex128", "complex64"]:
                a = sample(of(name, dtype), (length,))
                if name not in ("irfft", "hfft"):
                    yield case(f"fft.{name}(a)", a=a, norm=NORM)
                else:
                    yield case(f"fft.{name}(a[:{length // 2 + 1}], {length})", a=a, norm=NORM)
        a = sample(of(name), (2, 3, 4))
        for shape in layouts(a):
            for axis in [0, 1, 2, -1]:
                for n in [None, 2, 5]:
                    yield case(f"fft.{name}(a, {n}, {axis})", a=shape, norm=NORM)
            yield case(f"fft.{name}(a[:, ::-1, 1:], axis=1, norm='ortho')", a=shape, norm=NORM)
            yield case(f"fft.{name}(a.T, 6, axis=-3)", a=shape, norm=NORM)
        for norm in NORMS:
            for n in [None, 3, 6]:
                yield case(f"fft.{name}(a, {n}, axis=1, norm={norm})", a=a, norm=NORM)
        for dtype in ["float32", "float16", "complex64"]:
            for norm in NORMS:
                yield case(f"fft.{name}(a, axis=1, norm={norm})", a=sample(of(name, dtype), (2, 7)), norm=NORM)
        for shape in [(), (1,), (0,), (0, 3), (3, 0), (2, 0, 3), (1, 1), (3, 1), (2, 1, 3)]:
            b = sample(of(name), shape)
            for arguments in ["b", "b, 3", "b, 1", "b, axis=0", "b, 4, axis=0", "b, 2, axis=1"]:
                if b.size == 0 and name in ("irfft", "hfft") and arguments != "b":
                    continue
                yield case(f"fft.{name}({arguments})", b=b, norm=NORM)
        for arguments in ["a, 0", "a, -1", "a, 2.5", "a, axis=3", "a, axis=-4", "a, 4, axis=3", "a, axis=None", "a, norm='none'", "a, norm=''",
                          "a, (2,)", "a, axis=(0,)", "[[1, 2, 3], [4, 5, 6]]", "[1, 2, 3]", "[True, False]", "5", "5.0, axis=0", "[]", "a[..., 0], 4",
                          "broadcast_to(a[:, :1], (2, 5, 4)), axis=1", "a[None, :, None], axis=2"]:
            yield case(f"fft.{name}({arguments})", a=a, norm=NORM)
        result = getattr(np.fft, name)(a, axis=1)
        o, wide = np.zeros_like(result), np.zeros((1, *result.shape), result.dtype)
        small = np.zeros(result.shape, "complex64" if result.dtype.kind == "c" else "float32")
        if name != "hfft":
            for arguments in ["a, axis=1, out=o", "a, axis=1, out=s", "a, axis=1, norm='ortho', out=o", "a[::-1], axis=1, out=o[::-1]"]:
                target = arguments[-1] if arguments[-1] != "]" else "o"
                yield case(f"(fft.{name}({arguments}), {target})", a=a, o=o, s=small, norm=NORM)
            for arguments in ["a, axis=1, out=i", "a, axis=1, out=w", "a, axis=1, out=o[:, :1]", "a, axis=1, out=o[:1]", "a, axis=2, out=o"]:
                yield case(f"fft.{name}({arguments})", a=a, o=o, w=wide, i=np.zeros(result.shape, "int64"), norm=NORM)
    c = sample("complex128", (4, 6))
    for name in ["fft", "ifft"]:
        for axis in [0, 1]:
            yield case(f"(fft.{name}(a, axis={axis}, out=a), a)", a=c, norm=NORM)
        yield case(f"(fft.{name}(a[:3], axis=1, out=a[1:]), a)", a=c, norm=NORM)
    # What has no mirror image of its own must be real: imaginary parts there do not count.
    yield case("fft.irfft(a, 6)", a=np.array([1 + 5j, 2 - 1j, 3j, 4 + 7j]), norm=NORM)
    yield case("fft.irfft(a, 7)", a=np.array([1 + 5j, 2 - 1j, 3j, 4 + 7j]), norm=NORM)
    yield case("fft.irfft(fft.rfft(a, norm='ortho'), 9, norm='ortho')", a=sample("float64", (9,)), norm=NORM)
    for shape, axis in [((20000,), 0), ((3, 4099), 1), ((600, 7), 0), ((5, 96, 11), 1)]:
        for name, dtype in [("fft", "complex64"), ("fft", "float32"), ("rfft", "float32")]:
            a = np.resize(sample(dtype, (97,)), shape)
            yield case(f"fft.{name}(a, axis={axis})[..., ::97]", a=a, norm=NORM)


def several_axes():
    for name in TWO + MANY:
        for dtype in NUMPY_DTYPES:
            yield case(f"fft.{name}(a)", a=sample(dtype, (3, 4)), norm=NORM)
            yield case(f"fft.{name}(a, (2, 5), axes=(1, 0), norm='forward')", a=sample(dtype, (3, 4)), norm=NORM)
        a = sample(of(name), (3, 4, 5))
        for b in layouts(a):
            for axes in ["(0, 1)", "(1, 0)", "(0, 2)", "(2, 0)", "(1, 2)", "(-1, -3)", "[1, 2]", "(1,)", "()", "(0, 1, 2)", "(2, 1, 0)", "(1, 2, 0)", "None",
                         "(0, 0)", "(1, 0, 1)", "(1, 1)", "(0, 3)", "(0, -4)", "1"]:
                yield case(f"fft.{name}(a, axes={axes})", a=b, norm=NORM)
        for s in ["(2, 3)", "(4, 7)", "(2, 8)", "(5, 2)", "(-1, 3)", "(4, -1)", "(0, 3)", "(3, -2)", "(3,)", "(2, 3, 4)", "(4, 5, 6, 7)", "5", "()", "None",
                  "[3, 3]", "(1, 1)", "(2.5, 2)"]:
            for axes in ["", ", axes=(0, 1)", ", axes=(2, 0)", ", (-1, -2), 'ortho'", ", None"]:
                if s == "()" and axes in ("", ", None"):
                    continue
                yield case(f"fft.{name}(a, {s}{axes})", a=a, norm=NORM)
        for norm in NORMS + ["'x'"]:
            yield case(f"fft.{name}(a, norm={norm})", a=a, norm=NORM)
            yield case(f"fft.{name}(a, (4, 3), (0, 2), norm={norm})", a=a.astype(of(name, "complex64")), norm=NORM)
        for shape in [(), (3,), (0,), (0, 3), (3, 0), (1, 1), (2, 3, 0, 2), (0, 2, 3), (2, 3, 2, 3), (1, 2, 1, 3, 2)]:
            b = sample(of(name), shape)
            for arguments in ["b", "b, (2, 3)", "b, (2, 3), axes=(0, 1)", "b, (2,), axes=(-1,)", "b, axes=(0,)"]:
                if b.size == 0 and name in ("irfft2", "irfftn") and "(2" in arguments:
                    continue
                yield case(f"fft.{name}({arguments})", b=b, norm=NORM)
        for arguments in ["[[1, 2], [3, 4]]", "[[1.5, 2, 3]]", "a[:, ::-1, ::2]", "a.T", "broadcast_to(a[:1], (2, 4, 5))", "a, (3, 3), (0,)"]:
            yield case(f"fft.{name}({arguments})", a=a, norm=NORM)
        result = getattr(np.fft, name)(a, axes=(0, 2))
        if name not in ("ifft2", "irfft2"):
            o, s = np.zeros_like(result), np.zeros(result.shape, "complex64" if result.dtype.kind == "c" else "float32")
            for arguments in ["a, axes=(0, 2), out=o", "a, axes=(0, 2), out=s", "a, axes=(0, 2), norm='ortho', out=o"]:
                yield case(f"(fft.{name}({arguments}), {arguments[-1]})", a=a, o=o, s=s, norm=2 * NORM)
            for arguments in ["a, axes=(0, 2), out=i", "a, axes=(0, 2), out=o[:2]", "a, axes=(0, 2), out=o[0]"]:
                yield case(f"fft.{name}({arguments})", a=a, o=o, i=np.zeros(result.shape, "int64"), norm=NORM)
    for name, dtype in [("fftn", "complex64"), ("rfftn", "float64"), ("ifft2", "float32"), ("irfft2", "complex128")]:
        for shape in [(40, 33), (7, 64, 9), (16, 3, 25)]:
            yield case(f"fft.{name}(a)[..., ::3]", a=np.resize(sample(dtype, (101,)), shape), norm=NORM)
    yield case("fft.irfftn(fft.rfftn(a), (5, 7))", a=sample("float64", (5, 7)), norm=NORM)
    yield case("fft.ifftn(fft.fftn(a, norm='forward'), norm='forward')", a=sample("complex128", (4, 3, 5)), norm=NORM)


def helpers():
    for n in [0, 1, 2, 3, 4, 7, 8, 101, -3]:
        for arguments in [f"{n}", f"{n}, 0.1", f"{n}, d=2", f"{n}, -0.5", f"n={n}, d=1e-3", f"{n}, 0"]:
            for name in ["fftfreq", "rfftfreq"]:
                yield case(f"fft.{name}({arguments})")
    for name in ["fftshift", "ifftshift"]:
        for dtype in NUMPY_DTYPES:
            yield case(f"fft.{name}(a)", a=sample(dtype, (3, 4)))
        for shape in [(), (1,), (0,), (5,), (6,), (3, 0), (2, 3, 4)]:
            a = sample("int32", shape)
            for arguments in ["a", "a, 0", "a, axes=-1", "a, (0, 1)", "a, [1]", "a, axes=()", "a, (0, 0)", "a, 3", "a, (0, -5)", "a, axes=None"]:
                if shape == () and arguments in ("a", "a, axes=()", "a, axes=None"):
                    continue
                yield case(f"fft.{name}({arguments})", a=a)
        for a in layouts(sample("float64", (3, 5))):
            yield case(f"fft.{name}(a)", a=a)
            yield case(f"fft.{name}(a, axes=(1,))", a=a)
        yield case(f"fft.{name}([1, 2, 3, 4, 5])")
    yield case("fft.ifftshift(fft.fftshift(fft.fftfreq(9, d=1/9)))")


def cases():
    yield from one_axis()
    yield from several_axes()
    yield from helpers()
