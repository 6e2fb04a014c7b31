"""Shape, axes, joining, splitting, repeating, padding, diagonals.

Where quarry differs by decision: -1 is the only negative extent of a shape, and a float is no count."""
from expressions import DTYPES, SOME, case, layouts, reversed_, sample, strided
import numpy as np

SHAPES = [(), (1,), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 4)]


def each(expression, shapes=SHAPES, dtype="int32"):
    for shape in shapes:
        yield case(expression, a=sample(dtype, shape))


def shapes():
    a = sample("int16", (2, 3, 4))
    for b in layouts(a):
        for order in "CFA":
            yield case(f"reshape(a, (4, 6), order='{order}')", a=b)
            yield case(f"reshape(a, (4, -1, 2), order='{order}')", a=b)
            yield case(f"a.reshape(-1, order='{order}')", a=b)
        for order in "CFAK":
            yield case(f"ravel(a, order='{order}')", a=b)
            yield case(f"a.flatten('{order}')", a=b)
            yield case(f"copy(a, order='{order}')", a=b)
            yield case(f"a.copy(order='{order}')", a=b)
            yield case(f"a.ravel('{order}')", a=b)
        yield case("a.reshape(4, 3, 2)", a=b)
        yield case("a.reshape((4, 3, 2))", a=b)
        yield case("a.swapaxes(0, 2).ravel('K')", a=b)
        yield case("reshape(a, (6, 4), copy=True)", a=b)
        yield case("ascontiguousarray(a)", a=b)
        yield case("asfortranarray(a, dtype=float32)", a=b)
    for text in ["reshape(a, (5, 5))", "reshape(a, (-1, -1))", "reshape(a, (-1, 5))", 
                 "reshape(a, 24, order='K')", "reshape(a, 24, order='X')", "reshape(a, (24,), copy=False)",
                 "reshape(a.T, (24,), copy=False)", "ravel(a, 'Z')", "a.reshape()", "a.reshape(1.5)",
                 "size(a)", "size(a, 1)", "size(a, axis=(0, -1))", "size(a, 3)", "shape(a)", "ndim(a)"]:
        yield case(text, a=a)
    yield case("reshape(a, (3, 0, 2))", a=sample("int8", (0, 5)))
    yield case("reshape(a, (-1, 0))", a=sample("int8", (0, 5)))
    yield case("reshape(a, ())", a=sample("int8", (1, 1)))
    yield case("reshape(a, (1, 1, 1))", a=sample("int8", ()))
    for text in ["expand_dims(a, 0)", "expand_dims(a, -1)", "expand_dims(a, (0, 2))", "expand_dims(a, (1, -1))",
                 "expand_dims(a, (0, 0))", "expand_dims(a, 7)", "squeeze(a)", "squeeze(a, 0)", "squeeze(a, (0, -1))",
                 "squeeze(a, (0, 0))", "a.squeeze(axis=-1)", "atleast_1d(a)", "atleast_2d(a)", "atleast_3d(a)",
                 "ascontiguousarray(a)", "asfortranarray(a)", "ravel(a)", "a.flatten()", "shape(a)", "size(a)",
                 "ndim(a)", "copy(a)", "a.copy()"]:
        for shape in SHAPES + [(1, 3, 1), (1, 1)]:
            yield case(text, a=sample("int32", shape))
    for name in ["atleast_1d", "atleast_2d", "atleast_3d"]:
        yield case(f"{name}(a, 3, [[1.5]])", a=sample("int8", (2,)))
    for dtype in DTYPES:
        yield case("ravel(a)", a=strided(sample(dtype, (3, 4), special=True)))


def axes():
    for b in layouts(sample("int32", (2, 3, 4))):
        for text in ["transpose(a)", "transpose(a, (1, 0, 2))", "transpose(a, (-1, 0, 1))", "permute_dims(a, (2, 0, 1))",
                     "a.transpose()", "a.transpose(1, 0, 2)", "a.transpose((1, 2, 0))", "a.transpose(None)",
                     "matrix_transpose(a)", "moveaxis(a, 0, -1)", "moveaxis(a, (0, 1), (-1, -2))",
                     "moveaxis(a, [2, 0], [0, 1])", "rollaxis(a, 2)", "rollaxis(a, 0, 3)", "rollaxis(a, 1, -1)",
                     "rollaxis(a, -1, 1)", "swapaxes(a, 0, 2)", "swapaxes(a, -1, 1)", "a.swapaxes(0, 1)",
                     "flip(a)", "flip(a, 1)", "flip(a, (0, -1))", "fliplr(a)", "flipud(a)", "rot90(a)", "rot90(a, 2)",
                     "rot90(a, 3, (1, 2))", "rot90(a, -1, axes=(2, 0))", "rot90(a, 4)"]:
            yield case(text, a=b)
    a = sample("int32", (2, 3, 4))
    for text in ["transpose(a, (0, 1))", "transpose(a, (0, 0, 1))", "transpose(a, (0, 1, 3))", "moveaxis(a, 3, 0)",
                 "moveaxis(a, (0, 1), 0)", "moveaxis(a, (0, 0), (1, 2))", "rollaxis(a, 3)", "rollaxis(a, 0, 4)",
                 "swapaxes(a, 0, 3)", "flip(a, 3)", "flip(a, (0, 0))", "rot90(a, 1, (0, 0))", "rot90(a, 1, (0, 3))",
                 "rot90(a, 1, (0, 1, 2))"]:
        yield case(text, a=a)
    for text in ["matrix_transpose(a)", "fliplr(a)", "rot90(a)", "flipud(a)", "transpose(a)", "flip(a)", "flip(a, 0)"]:
        yield from each(text)


def broadcasting():
    for text in ["broadcast_to(a, (2, 3))", "broadcast_to(a, (3,))", "broadcast_to(a, (2,))", "broadcast_to(a, (0, 3))",
                 "broadcast_to(a, 3)", "broadcast_to(a, (2, -3))", "broadcast_to(a, ())"]:
        yield case(text, a=sample("float32", (3,)))
        yield case(text, a=sample("float32", (1,)))
        yield case(text, a=sample("float32", ()))
    a, b, c = sample("int8", (3, 1)), sample("float64", (1, 4)), sample("bool", ())
    for text in ["broadcast_arrays(a, b)", "broadcast_arrays(a, b, c)", "broadcast_arrays()", "broadcast_arrays(a, 2)",
                 "broadcast(a, b).shape", "broadcast(a, b, c).size", "broadcast(a, b).nd", "broadcast(a, c).ndim",
                 "broadcast(a, b, c).numiter"]:
        yield case(text, a=a, b=b, c=c)
    yield case("broadcast_arrays(a, b)", a=sample("int8", (3,)), b=sample("int8", (4,)))
    yield case("broadcast(a, b).shape", a=sample("int8", (3,)), b=sample("int8", (4,)))
    for text in ["broadcast_shapes((2, 1), (1, 3))", "broadcast_shapes((5,), 1, (3, 1))", "broadcast_shapes()",
                 "broadcast_shapes((2,), (3,))", "broadcast_shapes((0,), (1,))", "broadcast_shapes((-1,), (1,))"]:
        yield case(text)
    for b in layouts(sample("float32", (5, 6))):
        for text in ["sliding_window_view(a, (2, 3))", "sliding_window_view(a, 3, axis=1)",
                     "sliding_window_view(a, (2, 2), axis=(1, 1))", "sliding_window_view(a, (5, 6))",
                     "lib.stride_tricks.sliding_window_view(a, 4, 0)", "lib.stride_tricks.as_strided(a)"]:
            yield case(text, a=b)
    for text in ["(2, 3), (48, 4)", "(3, 4), (24, 8)", "(2, 2, 2), (24, 4, 4)", "(0, 9), (4, 4)", "(), ()", "(2, 2), (1,)"]:
        yield case(f"lib.stride_tricks.as_strided(a, {text})", a=sample("float32", (5, 6)))
    for text in ["sliding_window_view(a, 3)", "sliding_window_view(a, (6, 1))", "sliding_window_view(a, (-1, 1))",
                 "sliding_window_view(a, 1, axis=2)", "sliding_window_view(a, (1, 1), axis=0)"]:
        yield case(text, a=sample("float32", (5, 6)))


def joining():
    for dtype in DTYPES:
        a, b = sample(dtype, (2, 3), special=True), sample(dtype, (2, 3), seed=1)
        for text in ["concatenate((a, b))", "concatenate([a, b], axis=1)", "stack([a, b], axis=-1)"]:
            yield case(text, a=reversed_(a), b=strided(b))
    for left in SOME:
        for right in SOME:
            yield case("concat([a, b])", a=sample(left, (2,)), b=sample(right, (3,)))
    for b in layouts(sample("int32", (3, 4))):
        for text in ["concatenate((a, a, a[:, :0]), axis=1)", "concatenate((a, a), axis=None)", "concatenate([a])",
                     "stack((a, a, a))", "stack((a, a), 1)", "stack([a, a.T.reshape(3, 4)], axis=2)", "vstack((a, a))",
                     "hstack((a, a))", "dstack((a, a))", "column_stack((a, a))", "append(a, a)", "append(a, a, axis=0)",
                     "append(a, 2.5)", "append(a, [[1], [2], [3]], 1)", "concatenate(a)", "vstack(a)", "stack(a, 1)"]:
            yield case(text, a=b)
    for name in ["vstack", "hstack", "dstack", "column_stack", "stack", "concatenate"]:
        for shape in SHAPES:
            yield case(f"{name}((a, a))", a=sample("int32", shape))
        yield case(f"{name}(())")
        yield case(f"{name}((a, b))", a=sample("int32", (2,)), b=sample("int32", (3, 2)))
        yield case(f"{name}((a, b))", a=sample("int32", (2, 3)), b=sample("int32", (3, 2)))
    a, b = sample("int16", (2, 3)), sample("int8", (2, 3), seed=1)
    for text in ["(concatenate((a, b), out=c), c)", "(stack((a, b), out=d), d)", "concatenate((a, b), dtype=float32)",
                 "concatenate((a, b), dtype='int8')", "concatenate((a, b), dtype='int8', casting='unsafe')",
                 "concatenate((a, b), dtype='bool')", "stack((a, b), dtype='uint8')", "vstack((a, b), dtype='f8')",
                 "hstack((a, b), dtype='f4', casting='safe')", "hstack((a, b), dtype='i1', casting='safe')",
                 "concatenate((a, b), out=c, dtype='f8')", "concatenate((a, b), out=d)", "concatenate((a, b), axis=2)",
                 "concatenate((a, b), axis=-3)", "stack((a, b), axis=3)", "concatenate((a, b), casting='wild')",
                 "concatenate((a, b), axis=None, out=e)", "(concatenate((a[:1], a[1:]), out=a), a)"]:
        yield case(text, a=a, b=b, c=np.zeros((4, 3)), d=np.zeros((2, 2, 3), "int32"), e=np.zeros(12, "int64"))
    for text in ["block([a, b])", "block([[a, b], [b, a]])", "block([[[a]], [[b]]])", "block(a)", "block([a, 1])",
                 "block([[a], [b]])", "block([[a, b], [a]])", "block([[a], b])", "block([])", "block([[], []])",
                 "block([1, 2.5])", "block([[1, 2], [3, 4]])", "block((a, b))", "block([[a, a], [b.T, 1]])"]:
        yield case(text, a=sample("int32", (2, 3)), b=sample("float32", (2, 3)))
    yield case("block([[a, zeros((2, 3))], [zeros((3, 2)), b]])", a=sample("int32", (2, 2)), b=sample("int32", (3, 3)))


def splitting():
    for b in layouts(sample("int32", (6, 4, 2))):
        for text in ["split(a, 3)", "split(a, 2, axis=1)", "split(a, [1, 4])", "split(a, [1, 4], axis=-3)",
                     "split(a, (4, 1, -1, 9))", "array_split(a, 4)", "array_split(a, 3, axis=1)", "array_split(a, 9)",
                     "array_split(a, [])", "hsplit(a, 2)", "vsplit(a, [2])", "dsplit(a, 2)", "unstack(a)",
                     "unstack(a, axis=-1)"]:
            yield case(text, a=b)
    for text in ["split(a, 4)", "split(a, 0)", "array_split(a, 0)", "split(a, 2, axis=2)", "hsplit(a, 5)",
                 "dsplit(a, 2)", "unstack(a, axis=5)", "hsplit(a, 2)", "vsplit(a, 2)"]:
        yield case(text, a=sample("int32", (6, 4)))
        yield case(text, a=sample("int32", (6,)))
    for name in ["hsplit", "vsplit", "dsplit"]:
        yield case(f"{name}(a, 1)", a=sample("int32", ()))
    yield case("unstack(a)", a=sample("int32", ()))
    yield case("array_split(a, 3)", a=sample("int32", (0, 2)))


def repeating():
    for b in layouts(sample("int32", (2, 3))):
        for text in ["tile(a, 2)", "tile(a, (2, 1))", "tile(a, (3, 2, 2))", "tile(a, 0)", "tile(a, (1, 1))",
                     "roll(a, 1)", "roll(a, -2, axis=1)", "roll(a, (1, 1), (0, 1))", "roll(a, 7, 0)", "roll(a, 1, (0, 1))",
                     "roll(a, (1, 2), 1)", "roll(a, (1, 1))", "resize(a, (4, 4))", "resize(a, 4)", "resize(a, (0, 2))",
                     "resize(a, 13)"]:
            yield case(text, a=b)
    for dtype in DTYPES:
        a = sample(dtype, (3, 2), special=True)
        yield case("tile(a, (2, 2))", a=a)
        yield case("roll(a, 1, 0)", a=a)
        yield case("resize(a, (5,))", a=a)
    for text in ["tile(a, 2)", "tile(a, (2, 3))", "tile(a, ())", "roll(a, 1)", "roll(a, 3)", "resize(a, (2, 2))"]:
        yield from each(text)
    yield case("tile(a, 2)", a=sample("int8", (1,) * 20))
    yield case("tile(a, (2,) * 1 + (1,) * 30 + (2,))", a=sample("int8", (3,)))
    for text in ["tile(a, -1)", "roll(a, 1, 2)", "roll(a, (1, 2, 3), (0, 1))", "resize(a, (-1, 2))"]:
        yield case(text, a=sample("int32", (2, 3)))


def insertion():
    for b in layouts(sample("int32", (3, 4))):
        for text in ["repeat(a, 2)", "repeat(a, 3, axis=1)", "repeat(a, [1, 0, 2], 0)", "repeat(a, array([2, 1, 0, 3]), -1)",
                     "repeat(a, [2])", "repeat(a, 0, 0)", "a.repeat(2, axis=0)", "a.repeat([1, 2, 3], 0)",
                     "delete(a, 1)", "delete(a, -1, 0)", "delete(a, 1, axis=1)", "delete(a, slice(0, 2), 1)",
                     "delete(a, slice(None, None, -2), 1)", "delete(a, [0, 2, 2], 1)", "delete(a, [1, -1])",
                     "delete(a, array([True, False, True]), 0)", "delete(a, [], 0)", "delete(a, [-1], 1)",
                     "insert(a, 1, 9)", "insert(a, 1, 9, axis=0)", "insert(a, -1, [1, 2, 3], axis=1)",
                     "insert(a, [1, 3], 7, axis=1)", "insert(a, [3, 0, 0], [[1, 2, 3]], axis=1)",
                     "insert(a, slice(0, 3), 5, axis=1)", "insert(a, [0], [[1], [2], [3]], axis=1)",
                     "insert(a, 3, [[1, 2, 3, 4]], axis=0)", "insert(a, [1, 1], [[1], [2]], axis=0)", "insert(a, 12, 2.7)",
                     "insert(a, [-1, 1], [5, 6])", "insert(a, 1, [1, 2])"]:
            yield case(text, a=b)
    for dtype in DTYPES:
        a = sample(dtype, (4,), special=True)
        for text in ["repeat(a, [0, 1, 2, 3])", "repeat(a, 2)", "delete(a, [0, 2])", "insert(a, [0, 2], a[1])"]:
            yield case(text, a=a)
    for text in ["repeat(a, -1)", "repeat(a, [1, 2])", "repeat(a, [1, -1, 1], 0)", "repeat(a, 2, axis=2)",
                 "repeat(a, array([1.5, 1, 1]), 0)", "delete(a, 3, 0)", "delete(a, [0, 5], 0)", "delete(a, 0, 4)",
                 "delete(a, array([True, False]), 0)", "insert(a, 4, 1, axis=0)", "insert(a, [0, 9], 1, axis=0)",
                 "insert(a, 0, [1, 2], axis=0)", "insert(a, 0, 1, axis=5)", "delete(a, -4, 0)"]:
        yield case(text, a=sample("int32", (3, 4)))
    yield from each("repeat(a, 2)")
    yield case("repeat(a, [])", a=sample("int8", (0,)))


def padding():
    modes = ["constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric", "wrap"]
    for mode in modes:
        for dtype in SOME + ["int8", "uint64", "complex64"]:
            if mode in ("linear_ramp", "maximum", "minimum", "mean", "median") and dtype in ("bool", "complex64", "complex128"):
                continue
            a = sample(dtype, (3, 4))
            bound = 4 if mode in ("mean", "linear_ramp", "median") else 0
            yield case(f"pad(a, 2, mode='{mode}')", a=a, norm=bound)
            yield case(f"pad(a, ((1, 0), (3, 2)), '{mode}')", a=strided(a), norm=bound)
        for text in ["(4, 7)", "[[1, 2]]", "((9,), (11,))", "0", "((0, 3), (0, 0))"]:
            yield case(f"pad(a, {text}, mode='{mode}')", a=reversed_(sample("int32", (3, 4))))
        yield case(f"pad(a, 2, mode='{mode}')", a=sample("int32", (1, 3)))
        yield case(f"pad(a, 2, mode='{mode}')", a=sample("int32", ()))
        yield case(f"pad(a, ((0, 0), (2, 1)), mode='{mode}')", a=sample("int32", (0, 3)))
        yield case(f"pad(a, 1, mode='{mode}')", a=sample("int32", (0, 3)))
        yield case(f"pad(a, 1, '{mode}')", a=sample("int32", (2, 1, 2, 3)))
    a = sample("int32", (4, 5))
    for text in ["pad(a, 2, constant_values=7)", "pad(a, 1, constant_values=(1, 2))",
                 "pad(a, 1, constant_values=((1, 2), (3, 4)))", "pad(a, 1, constant_values=2.7)",
                 "pad(a, 3, 'linear_ramp', end_values=9)", "pad(a, 2, 'linear_ramp', end_values=((1, 2), (3, -4)))",
                 "pad(a, 2, 'maximum', stat_length=2)", "pad(a, 2, 'minimum', stat_length=((1, 2), (3, 9)))",
                 "pad(a, 2, 'mean', stat_length=2)", "pad(a, 2, 'median', stat_length=3)",
                 "pad(a, 3, 'reflect', reflect_type='odd')", "pad(a, 9, 'reflect', reflect_type='odd')",
                 "pad(a, 3, 'symmetric', reflect_type='odd')", "pad(a, 11, 'symmetric', reflect_type='even')",
                 "pad(a, 2, 'empty').shape", "pad(a, -1)", "pad(a, 1.5)", "pad(a, (1, 2, 3))", "pad(a, 1, 'other')",
                 "pad(a, 1, 'edge', constant_values=2)", "pad(a, 1, 'maximum', stat_length=0)",
                 "pad(a, 1, 'constant', stat_length=2)", "pad(a, ((1, 2), (3, 4), (5, 6)))",
                 "pad(a, 1, 'mean', stat_length=-1)"]:
        yield case(text, a=a)
    # Widths by axis, and functions.
    cube = sample("int16", (2, 3, 2))
    for width in ["{0: 1}", "{1: (1, 2)}", "{0: 2, 2: (0, 1)}", "{-1: (2, 0)}", "{}", "{0: 1, -3: 2}", "{3: 1}", "{0: -1}", "{1: (0, -1)}", "{-4: 1}"]:
        for b in layouts(cube):
            yield case(f"pad(a, {width})", a=b)
        yield case(f"pad(a, {width}, 'edge')", a=cube)
        yield case(f"pad(a, {width}, mode='reflect', reflect_type='odd')", a=cube)
        if width != "{}":  # NumPy has no dtype of no widths
            yield case(f"pad(a, {width}, 'constant', constant_values=3)", a=sample("float32", ()))
    ends = "lambda v, w, axis, kw: (v.__setitem__(slice(None, w[0]), 10 + axis), v.__setitem__(slice(len(v) - w[1], None), v[w[0]]))"
    for dtype in ["int32", "float64", "bool", "complex64", "uint8"]:
        for width in ["1", "(2, 1)", "((0, 2), (1, 0))", "{1: 2}", "0"]:
            yield case(f"pad(a, {width}, {ends})", a=strided(sample(dtype, (3, 2))))
    yield case(f"pad(a, 1, {ends})", a=cube)
    yield case(f"pad(a, ((1, 2),), mode={ends})", a=sample("int8", (4,)))
    yield case("pad(a, 2, lambda v, w, axis, kw: None)", a=sample("int8", (2, 2)))
    yield case("pad(a, 2, lambda v, w, axis, kw: None)", a=sample("int8", ()))
    yield case("pad(a, 1, lambda v, w, axis, kw: v.__setitem__(9, 1))", a=sample("int8", (2, 2)))
    yield case("pad(a, 1, lambda v, w: None)", a=sample("int8", (2, 2)))
    yield case("pad(a, -1)", a=sample("int8", ()))
    yield case("pad(a, 1, 'median', stat_length=0)", a=sample("float64", (2, 2)))
    yield case("pad(a, 3, 'reflect', reflect_type='odd')", a=sample("float32", (3, 3)), norm=4)
    yield case("pad(a, 2, 'median')", a=np.array([1.0, np.nan, 2.0]))


def diagonals():
    for b in layouts(sample("int32", (3, 4))):
        for k in [-4, -3, -1, 0, 2, 4, 9]:
            for name in ["diag", "diagonal", "trace", "tril", "triu", "diagflat"]:
                yield case(f"{name}(a, {k})", a=b)
    for b in layouts(sample("int32", (2, 3, 4))):
        for text in ["diagonal(a)", "diagonal(a, 1, 1, 2)", "diagonal(a, axis1=2, axis2=0)", "trace(a)",
                     "trace(a, axis1=-1, axis2=1, dtype=float32)", "a.diagonal(1)", "a.trace(0, 1, 2)", "tril(a, 1)",
                     "triu(a, -1)"]:
            yield case(text, a=b)
    for text in ["diag(a, 1)", "diag(a, -2)", "diagflat(a)", "diag(a)", "tril(a)", "triu(a)", "diagonal(a)", "trace(a)"]:
        yield from each(text)
    for text in ["diagonal(a, axis1=0, axis2=0)", "diagonal(a, axis1=0, axis2=3)", "trace(a, axis1=1, axis2=1)",
                 "(trace(a, out=b), b)"]:
        yield case(text, a=sample("int32", (2, 3)), b=np.zeros((), "int64"))
    for dtype in DTYPES:
        a = sample(dtype, (3, 3), special=True)
        yield case("tril(a)", a=a)
        yield case("triu(a, 1)", a=a)
        yield case("diag(a[0], -1)", a=a)
        yield case("trace(a)", a=sample(dtype, (3, 3)), norm=2)
    for text in ["tri(3)", "tri(3, 4)", "tri(3, 4, 1)", "tri(3, 2, -1, dtype='int8')", "tri(0)", "tri(-1, 2)",
                 "tri(3, dtype=complex64)", "tri(2, 3, 99)", "tri(2, 3, k=-99)"]:
        yield case(text)


def methods():
    for dtype in DTYPES:
        a = sample(dtype, (2, 4))
        for b in layouts(a):
            yield case("a.byteswap().byteswap()", a=b)
            if dtype != "bfloat16":
                yield case("a.byteswap()", a=np.zeros_like(b) if b.dtype.kind in "fc" else b)
        for to in DTYPES:
            if dtype == "bfloat16" or to == "bfloat16":
                continue
            yield case(f"a.view({to}).view({dtype})", a=a)
            if np.dtype(to).kind in "iu":
                yield case(f"a.view('{to}')", a=a)
            with np.errstate(all="ignore"):
                yield case(f"a.astype({to})", a=strided(np.abs(a).astype(dtype)))
    for text in ["a.view(int16)", "a.view('int8')", "a.T.view('int8')", "a[:, :3].view('int64')", "a[::2].view('int16')",
                 "a.view()", "(a.byteswap(inplace=True), a)", "a.byteswap(True)"]:
        yield case(text, a=sample("int32", (4, 4)))
    yield case("a.view('int8')", a=sample("int32", ()))
    yield case("a.view('float32')", a=np.array(1, "int32"))
    a = sample("float32", (2, 3))
    for text in ["a.astype('int8')", "a.astype('int8', casting='safe')", "a.astype('f8', casting='safe')",
                 "a.astype('f8', order='F')", "a.astype('f4', copy=False)", "a.astype('f4', casting='no')",
                 "astype(a, float64)", "astype(a, 'int16', copy=False)", "a.astype('i4', casting='same_kind')",
                 "a.tolist()"]:
        yield case(text, a=a)


EVERY_DTYPE = [
    "reshape(a, (4, 6), order='F')", "a.reshape(6, -1)", "ravel(a, 'K')", "a.ravel('F')", "a.flatten()", "copy(a)", "a.copy('F')",
    "ascontiguousarray(a)", "asfortranarray(a)", "shape(a)", "ndim(a)", "size(a, 1)", "expand_dims(a, 1)", "squeeze(a[:1])",
    "a[:1].squeeze(0)", "atleast_1d(a)", "atleast_2d(a[0, 0])", "atleast_3d(a[0])", "transpose(a)", "a.transpose(2, 0, 1)",
    "matrix_transpose(a)", "moveaxis(a, 0, -1)", "rollaxis(a, 2)", "swapaxes(a, 0, 1)", "a.swapaxes(1, 2)", "flip(a, 1)", "fliplr(a)",
    "flipud(a)", "rot90(a)", "broadcast_to(a[0], (2, 3, 4))", "broadcast_arrays(a, a[0])", "broadcast(a, a[0]).shape",
    "sliding_window_view(a, 2, axis=2)", "lib.stride_tricks.as_strided(a)", "stack((a, a), 1)", "vstack((a, a))", "hstack((a, a))",
    "dstack((a, a))", "column_stack((a[0, 0], a[1, 1]))", "block([[a, a], [a, a]])", "append(a, a[:1], axis=0)", "append(a, a)",
    "split(a, 2)", "array_split(a, 2, axis=1)", "hsplit(a, [1])", "vsplit(a, 2)", "dsplit(a, 2)", "unstack(a, axis=1)",
    "tile(a, (2, 1, 2))", "repeat(a, 2, axis=1)", "repeat(a, [1, 0, 2], axis=1)", "a.repeat(2)", "roll(a, (1, -1), (0, 2))",
    "resize(a, (5, 7))", "insert(a, 1, a[:, 0], axis=1)", "insert(a, [0, 2], a[:, :2], axis=1)", "delete(a, 1, axis=2)",
    "delete(a, [0, 2], axis=1)", "pad(a, 1)", "pad(a, 2, 'edge')", "pad(a, 2, 'wrap')", "pad(a, 2, 'symmetric')", "pad(a, 1, 'reflect')",
    "diag(a[0])", "diagflat(a[0])", "diagonal(a, 1)", "a.diagonal(0, 1, 2)", "tril(a)", "triu(a, 1)", "astype(a, bool)",
    "tri(2, dtype=a.dtype)", "a.view()", "array(a, ndmin=4)", "asarray(a)", "asarray(a, order='F')", "asanyarray(a)", "full_like(a, 1)",
    "zeros_like(a)", "ones_like(a)", "empty_like(a).shape", "meshgrid(a[0, 0], a[1, 1])", "shares_memory(a, a[::2])",
    "may_share_memory(a, a + a)", "concatenate((a, a), axis=None)", "concatenate((a, a), out=c, axis=2)",
]


def every_dtype():
    for dtype in DTYPES:
        a = sample(dtype, (2, 3, 4), special=True)
        for b in [a, strided(a)]:
            for text in EVERY_DTYPE:
                yield case(text, a=b, c=np.zeros((2, 3, 8), a.dtype)) if "out=c" in text else case(text, a=b)


def misuse():
    """Errors that the parts above leave out."""
    for text in ["a.squeeze(0)", "a.diagonal(0, 0, 0)", "a.diagonal(0, 0, 5)", "a.repeat(-1)", "a.repeat(2, 7)", "a.swapaxes(0, 5)",
                 "a.trace(0, 0, 4)", "a.transpose(0, 0)", "a.transpose(0)", "a.ravel('X')", "a.flatten('X')", "a.copy('X')",
                 "a.reshape(7)", "a.reshape((7,))", "a.reshape('x')", "a.astype('nothing')", "a.astype(int, order='X')",
                 "append(a, a[0], axis=0)", "append(a, a, axis=2)", "ascontiguousarray(a, dtype='x')", "astype(a, 'x')",
                 "atleast_1d([[1], [1, 2]])", "block([a, [a]])", "broadcast_arrays(a, ones(5))", "copy(a, 'X')", "diagflat(a, 1.5)",
                 "diag(a, 'x')", "expand_dims(a, -4)", "flipud(a[0, 0])", "insert(a, 0)", "moveaxis(a, 0)", "ndim()",
                 "pad(a, [])", "ravel(a, order=3)", "repeat(a)", "roll(a)", "roll(a, 1, 'x')", "rot90(a, axes=(0,))", "shape()",
                 "size(a, 'x')", "sliding_window_view(a, -1, 0)", "stack(a, 5)", "swapaxes(a, 0)", "tile(a)", "tile(a, (2, -1))",
                 "tri(2, dtype='x')", "tril(5)", "vstack(5)", "concatenate(5)", "concatenate((a, 1))", "split(a, [[1]])",
                 "concatenate((a, a), axis=1.5)", "reshape(a, (3, 2), 'C', False)", "full_like(a, 1, order='X')",
                 "empty_like(a, order='X')", "array(a, order='X')", "asarray(a, order='X')"]:
        yield case(text, a=sample("int32", (2, 3)))
    for text in ["identity(-1)", "identity('x')", "identity()", "eye()", "bartlett('x')", "hamming()", "hanning(1, 2)", "blackman(nan)",
                 "kaiser(3)", "tri(-2)", "zeros('x')", "ones((1, 2.5))", "zeros(2**62)", "empty((2**40, 2**40))",
                 "linspace(0)", "arange()", "arange(0, 10, 0)", "fromfunction(3, (2,))", "broadcast_shapes((1, 2.5))"]:
        yield case(text)


def cases():
    yield from every_dtype()
    yield from misuse()
    yield from shapes()
    yield from axes()
    yield from broadcasting()
    yield from joining()
    yield from splitting()
    yield from repeating()
    yield from insertion()
    yield from padding()
    yield from diagonals()
    yield from methods()
