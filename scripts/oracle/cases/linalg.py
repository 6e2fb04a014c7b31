"""numpy.linalg where results are unique, or made so: products of factors, absolute values, sorted eigenvalues.

Where quarry differs by decision: float16 and bfloat16 are computed (in float32; NumPy has no loops); float32 and
complex64 are computed in their own precision (NumPy computes in double precision and rounds), which the bounds allow
for.
"""
import collections
import types

import numpy as np
import scipy.linalg as scipy_linalg
from expressions import case, layouts, rng, sample

REAL = ["float32", "float64"]
INEXACT = ["float32", "float64", "complex64", "complex128"]
EXACT = ["bool", "int8", "int32", "int64", "uint8", "uint32"]
# Spacings at the largest element, for well-conditioned matrices.
BOUND = 400


def well(dtype, shape, seed=0):
    """Well-conditioned square matrices: random ones with a heavy diagonal."""
    n = shape[-1]
    random = rng("well", dtype, shape, seed)
    a = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * random.standard_normal(shape)
    return (a + (3 + n) * np.eye(n)).astype(dtype)


def plain(dtype, shape, seed=0):
    random = rng("plain", dtype, shape, seed)
    a = random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * random.standard_normal(shape)
    return a.astype(dtype)


def positive(dtype, shape, seed=0):
    a = plain(dtype, shape, seed).astype("complex128" if np.dtype(dtype).kind == "c" else "float64")
    n = shape[-1]
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n)).astype(dtype)


def hermitian(dtype, shape, seed=0):
    a = plain(dtype, shape, seed)
    return a + np.conj(np.swapaxes(a, -1, -2))


SQUARE = [(0, 0), (1, 1), (2, 2), (5, 5), (33, 33), (3, 4, 4), (2, 3, 6, 6), (0, 3, 3), (2, 0, 0)]
RECTANGLES = [(5, 3), (3, 5), (1, 4), (4, 1), (2, 5, 3), (2, 3, 5), (20, 7)]


def solving():
    for dtype in INEXACT:
        for shape in SQUARE:
            a = well(dtype, shape)
            for f in ["inv", "det", "slogdet"]:
                # The determinant is beyond complex64, where what comes of it depends on the order of products.
                if f == "det" and dtype == "complex64" and shape[-1] > 30:
                    continue
                yield case(f"linalg.{f}(a)", a=a, norm=BOUND, atol=1e-30)
            n = shape[-1]
            yield case("linalg.solve(a, b)", a=a, b=plain(dtype, shape[:-1] + (2,)), norm=BOUND)
            yield case("linalg.solve(a, b)", a=a, b=plain(dtype, (n,)), norm=BOUND)
            p = positive(dtype, shape)
            yield case("linalg.cholesky(a)", a=p, norm=BOUND)
            yield case("linalg.cholesky(a, upper=True)", a=p, norm=BOUND)
            # Of the other triangle nothing is read.
            yield case("linalg.cholesky(tril(a))", a=p, norm=BOUND)
            yield case("linalg.cholesky(triu(a), upper=True)", a=p, norm=BOUND)
        a = well(dtype, (6, 6))
        for view in layouts(a):
            yield case("linalg.inv(a)", a=view, norm=BOUND)
            yield case("linalg.det(a)", a=view, norm=BOUND)
            yield case("linalg.solve(a, b)", a=view, b=plain(dtype, (6, 3)), norm=BOUND)
            yield case("linalg.solve(b, a)", a=view, b=a, norm=BOUND)
        for view in layouts(positive(dtype, (4, 4))):
            yield case("linalg.cholesky(a)", a=view, norm=BOUND)
        # Broadcasting, both ways.
        yield case("linalg.solve(a, b)", a=a, b=plain(dtype, (5, 6, 2)), norm=BOUND)
        yield case("linalg.solve(a, b)", a=well(dtype, (5, 6, 6)), b=plain(dtype, (6, 2)), norm=BOUND)
        yield case("linalg.solve(a, b)", a=well(dtype, (3, 1, 6, 6)), b=plain(dtype, (2, 6, 2)), norm=BOUND)
        yield case("linalg.solve(a, b)", a=a, b=plain(dtype, (6, 0)), norm=BOUND)
        yield case("linalg.solve(a, b)", a=a, b=plain(dtype, (5,)))
        yield case("linalg.solve(a, b)", a=a, b=plain(dtype, (5, 2)))
        singular = np.ones((3, 3), dtype)
        for f in ["inv(a)", "solve(a, ones(3))", "det(a)", "slogdet(a)", "matrix_power(a, -1)", "tensorinv(a, ind=1)"]:
            yield case(f"linalg.{f}", a=singular, norm=4)
        yield case("linalg.det(a)", a=np.zeros((2, 3, 3), dtype), norm=4)
        yield case("linalg.slogdet(a)", a=np.zeros((2, 3, 3), dtype), norm=4)
        stack = np.stack([np.eye(2), np.zeros((2, 2)), np.eye(2)]).astype(dtype)
        yield case("linalg.det(a)", a=stack, norm=4)
        yield case("linalg.inv(a)", a=stack)
        yield case("linalg.cholesky(a)", a=stack)
        yield case("linalg.cholesky(a)", a=-positive(dtype, (3, 3)))
        yield case("linalg.cholesky(a)", a=positive(dtype, (3, 4, 4)) * np.array([1, -1, 1], dtype)[:, None, None])
    for dtype in EXACT:
        a = np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]]).astype(dtype)
        if dtype == "bool":
            a = np.eye(3, dtype=bool)
        for f in ["inv", "det", "slogdet", "cholesky", "eigvalsh", "svdvals", "pinv", "cond", "norm", "matrix_rank"]:
            yield case(f"linalg.{f}(a)", a=a, norm=BOUND, atol=1e-30)
        yield case("linalg.solve(a, b)", a=a, b=sample(dtype, (3,)), norm=BOUND)
        yield case("linalg.matrix_power(a, 5)", a=a)
        yield case("linalg.matrix_power(a, -2)", a=a, norm=BOUND)
    for x in ["float32", "complex64", "int32"]:
        for y in ["float64", "complex128", "float32"]:
            yield case("linalg.solve(a, b)", a=well("float64", (3, 3)).astype(x), b=plain(y, (3,)), norm=BOUND)
    for f in ["inv", "det", "slogdet", "cholesky", "eigvals", "eigvalsh", "eig", "eigh"]:
        yield case(f"linalg.{f}(a)", a=plain("float64", (2, 3)))
        yield case(f"linalg.{f}(a)", a=plain("float64", (3,)))
        yield case(f"linalg.{f}(3.5)")
    for f in ["qr", "svd", "svdvals", "pinv"]:
        yield case(f"linalg.{f}(a)", a=plain("float64", (3,)))
    nan = well("float64", (3, 3))
    nan[1, 2] = np.nan
    for f in ["inv(a)", "det(a)", "solve(a, ones(3))"]:
        yield case(f"isnan(linalg.{f})", a=np.full((3, 3), np.nan))
    for f in ["eig", "eigvals", "svd", "svdvals", "lstsq"]:
        yield case(f"linalg.{f}(a)" if f != "lstsq" else "linalg.lstsq(a, ones(3))", a=nan)
    for f in ["eig", "eigvals"]:
        yield case(f"linalg.{f}(a)", a=np.array([[np.inf, 1], [0, 1]]))
    a = plain("float64", (6, 4, 24))
    a = a + 10 * np.eye(24).reshape(6, 4, 24)
    yield case("linalg.tensorsolve(a, b)", a=a, b=plain("float64", (6, 4)), norm=BOUND)
    a = (plain("float64", (24, 24)) + 10 * np.eye(24)).reshape(2, 12, 3, 8)
    yield case("linalg.tensorsolve(a, b)", a=a, b=plain("float64", (2, 12)), norm=BOUND)
    moved, b = a.transpose(2, 0, 3, 1), plain("float64", (2, 12))
    yield case("linalg.tensorsolve(a, b, axes=(0, 2))", a=moved, b=b, norm=BOUND)
    yield case("linalg.tensorsolve(a, b)", a=a, b=plain("float64", (12,)))
    yield case("linalg.tensorinv(a)", a=a, norm=BOUND)
    yield case("linalg.tensorinv(a, ind=1)", a=a.reshape(24, 3, 8), norm=BOUND)
    yield case("linalg.tensorinv(a, ind=0)", a=a)
    yield case("linalg.tensorinv(a, ind=1)", a=a)


def spectra():
    for dtype in INEXACT:
        for shape in SQUARE:
            h = hermitian(dtype, shape)
            yield case("linalg.eigvalsh(a)", a=h, norm=BOUND)
            yield case("linalg.eigh(a).eigenvalues", a=h, norm=BOUND)
            yield case("linalg.eigvalsh(triu(a), UPLO='U')", a=h, norm=BOUND)
            yield case("linalg.eigvalsh(tril(a))", a=h, norm=BOUND)
            yield case("abs(linalg.eigh(a)[1])", a=h, norm=40 * BOUND)
            if shape[-1] > 0:
                yield case("linalg.svdvals(a)", a=h, norm=BOUND)
                yield case("linalg.svd(a, compute_uv=False, hermitian=True)", a=h, norm=BOUND)
                yield case("abs(linalg.svd(a, hermitian=True).U)", a=h, norm=40 * BOUND)
                yield case("linalg.pinv(a, hermitian=True)", a=positive(dtype, shape), norm=BOUND)
                yield case("linalg.matrix_rank(a, hermitian=True)", a=h)
            # Distinct real eigenvalues, so that their order can be that of size.
            d = np.arange(1, shape[-1] + 1)
            t = (np.triu(plain(dtype, shape), 1) / 4 + np.eye(shape[-1]) * d).astype(dtype)
            yield case("sort(linalg.eigvals(a))", a=t, norm=40 * BOUND, atol=1e-30)
            yield case("sort(linalg.eig(a).eigenvalues)", a=t, norm=40 * BOUND)
            yield case("sum(linalg.eigvals(a), axis=-1)", a=plain(dtype, shape), norm=BOUND, atol=1e-5)
        for view in layouts(hermitian(dtype, (5, 5))):
            yield case("linalg.eigvalsh(a)", a=view, norm=BOUND)
            yield case("linalg.eigvalsh(a, 'U')", a=view, norm=BOUND)
        for shape in RECTANGLES:
            for a in layouts(plain(dtype, shape)):
                yield case("linalg.svdvals(a)", a=a, norm=BOUND)
                yield case("linalg.svd(a, compute_uv=False)", a=a, norm=BOUND)
                yield case("linalg.pinv(a)", a=a, norm=BOUND)
            yield case("linalg.svd(a)[1]", a=a, norm=BOUND)
            yield case("linalg.svd(a, full_matrices=False).S", a=a, norm=BOUND)
            yield case("(linalg.svd(a)[0].shape, linalg.svd(a).Vh.shape)", a=a)
            yield case("(linalg.svd(a, False)[0].shape, linalg.svd(a, False).Vh.shape)", a=a)
            yield case("abs(linalg.svd(a, full_matrices=False)[2])", a=a, norm=40 * BOUND)
            for mode in ["reduced", "complete"]:
                yield case(f"(linalg.qr(a, '{mode}').Q.shape, linalg.qr(a, '{mode}').R.shape)", a=a)
                yield case(f"matmul(linalg.qr(a, '{mode}').Q, linalg.qr(a, '{mode}').R)", a=a, norm=BOUND)
            yield case("abs(linalg.qr(a, mode='r'))", a=a, norm=BOUND)
            yield case("abs(linalg.qr(a).R)", a=a, norm=BOUND)
            yield case("(linalg.qr(a, mode='raw')[0].shape, linalg.qr(a, mode='raw')[1].shape)", a=a)
        for shape in [(0, 3), (3, 0), (2, 0, 3), (0, 2, 3)]:
            a = np.zeros(shape, dtype)
            for f in ["svd(a)", "svd(a, full_matrices=False)", "svdvals(a)", "qr(a)", "qr(a, mode='r')",
                      "qr(a, mode='raw')", "pinv(a)", "matrix_rank(a)"]:
                yield case(f"linalg.{f}", a=a)
            yield case("linalg.qr(a, mode='complete')", a=a)
        low = (plain(dtype, (6, 2)) @ plain(dtype, (2, 5), 1)).astype(dtype)
        yield case("linalg.matrix_rank(a)", a=low)
        yield case("linalg.matrix_rank(a)", a=np.stack([low, low * 0, plain(dtype, (6, 5))]))
        yield case("linalg.matrix_rank(a, 1e3)", a=low)
        yield case("linalg.matrix_rank(a, tol=b)", a=np.stack([low, low]), b=np.array([1e-3, 1e3]))
        yield case("linalg.matrix_rank(a, rtol=0.9)", a=low)
        yield case("linalg.matrix_rank(a, rtol=0.9, tol=1)", a=low)
        yield case("linalg.pinv(a, rcond=1e-3)", a=low, norm=40 * BOUND)
        yield case("linalg.pinv(a, rtol=1e-3)", a=low, norm=40 * BOUND)
        yield case("linalg.pinv(a, rtol=None)", a=low, norm=40 * BOUND)
        yield case("linalg.pinv(a, rcond=0.5, rtol=None)", a=low)
        yield case("linalg.pinv(a, rtol=b)", a=np.stack([low, low]), b=np.array([1e-3, 1e-2]), norm=40 * BOUND)
        yield case("linalg.matrix_rank(a)", a=plain(dtype, (4,)))
        yield case("linalg.matrix_rank(a)", a=np.zeros(4, dtype))
        yield case("linalg.matrix_rank(a)", a=np.array(2, dtype))
    yield case("linalg.eigh(a, UPLO='X')", a=hermitian("float64", (2, 2)))
    yield case("linalg.eigvalsh(a, UPLO='u')", a=hermitian("float64", (2, 2)), norm=BOUND)
    yield case("linalg.qr(a, mode='x')", a=plain("float64", (2, 2)))
    # A rotation has complex eigenvalues.
    for dtype in REAL:
        rotation = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 2]], dtype)
        yield case("sort_complex(linalg.eigvals(a))", a=rotation, atol=1e-5)
        yield case("linalg.eigvals(a).dtype", a=rotation)
        yield case("linalg.eig(a)[1].dtype", a=rotation)
        yield case("linalg.eig(a)[1].dtype", a=np.eye(3, dtype=dtype))
        yield case("matmul(a, linalg.eig(a)[1]) - linalg.eig(a)[1] * linalg.eig(a)[0]", a=rotation, atol=1e-5)


def least_squares():
    for dtype in INEXACT:
        for m, n in [(5, 3), (3, 5), (4, 4), (1, 1), (20, 6), (6, 1)]:
            a = plain(dtype, (m, n)) + 3 * np.eye(m, n).astype(dtype)
            yield case("linalg.lstsq(a, b)", a=a, b=plain(dtype, (m,)), norm=4 * BOUND)
            yield case("linalg.lstsq(a, b)", a=a, b=plain(dtype, (m, 3)), norm=4 * BOUND)
            yield case("linalg.lstsq(a, b, rcond=0.5)[2]", a=a, b=plain(dtype, (m, 3)))
        low = (plain(dtype, (6, 2)) @ plain(dtype, (2, 4), 1)).astype(dtype)
        yield case("linalg.lstsq(a, b, rcond=1e-4)[0]", a=low, b=plain(dtype, (6,)), norm=4 * BOUND)
        yield case("linalg.lstsq(a, b, rcond=1e-4)[1:3]", a=low, b=plain(dtype, (6,)), norm=4 * BOUND)
    a = plain("float64", (5, 3))
    yield case("linalg.lstsq(a, b)", a=a, b=plain("float64", (5, 0)), norm=4 * BOUND)
    yield case("linalg.lstsq(a, b)", a=np.zeros((0, 3)), b=np.zeros((0, 2)))
    yield case("linalg.lstsq(a, b)", a=np.zeros((3, 0)), b=np.zeros((3, 2)))
    yield case("linalg.lstsq(a, b)", a=a, b=plain("float64", (4,)))
    yield case("linalg.lstsq(a, b)", a=plain("float64", (2, 5, 3)), b=plain("float64", (5,)))
    yield case("linalg.lstsq(a, b)", a=a, b=plain("float64", (2, 5, 3)))
    yield case("linalg.lstsq(a, b)", a=sample("int32", (5, 2)), b=sample("int32", (5,)), norm=4 * BOUND)


ORDERS = ["None", "inf", "-inf", "0", "1", "-1", "2", "-2", "3", "0.5", "'fro'", "'nuc'", "'f'", "'x'"]


def norms():
    for dtype in INEXACT + ["int32", "bool"]:
        v, m, s = sample(dtype, (7,)), sample(dtype, (4, 3)), sample(dtype, (2, 4, 3))
        for order in ORDERS:
            for a in [v, m]:
                yield case(f"linalg.norm(a, {order})", a=a, norm=BOUND)
            yield case(f"linalg.norm(a, {order}, axis=1)", a=m, norm=BOUND)
            yield case(f"linalg.norm(a, {order}, axis=(0, 2), keepdims=True)", a=s, norm=BOUND)
            yield case(f"linalg.norm(a, {order}, axis=(2, 1))", a=s, norm=BOUND)
            yield case(f"linalg.matrix_norm(a, ord={order})", a=s, norm=BOUND)
            yield case(f"linalg.vector_norm(a, ord={order}, axis=(0, 2))", a=s, norm=BOUND)
            if order != "0.5":
                yield case(f"linalg.vector_norm(a, ord={order}, keepdims=True)", a=m, norm=BOUND)
        for a in layouts(m):
            yield case("linalg.norm(a)", a=a, norm=BOUND)
            yield case("linalg.vector_norm(a)", a=a, norm=BOUND)
            yield case("linalg.matrix_norm(a, keepdims=True)", a=a, norm=BOUND)
        yield case("linalg.norm(a, axis=-1, keepdims=True)", a=s, norm=BOUND)
        yield case("linalg.norm(a)", a=s, norm=BOUND)
        yield case("linalg.norm(a, keepdims=True)", a=s, norm=BOUND)
        yield case("linalg.norm(a, 2)", a=s)
        yield case("linalg.norm(a)", a=sample(dtype, ()), norm=BOUND)
    a = sample("float64", (3, 4))
    yield case("linalg.norm(a, axis=(0, 0))", a=a)
    yield case("linalg.norm(a, axis=2)", a=a)
    yield case("linalg.norm(a, axis=(0, 1, 2))", a=sample("float64", (2, 2, 2)))
    for order in ["None", "inf", "-inf", "0", "1", "2"]:
        yield case(f"linalg.norm(a, {order})", a=np.zeros(0))
        yield case(f"linalg.norm(a, {order})", a=sample("float64", (9,), special=True))
    for order in ["None", "1", "-1", "inf", "-inf", "2", "-2", "'fro'", "'nuc'"]:
        yield case(f"linalg.norm(a, {order})", a=np.zeros((0, 3)))
    for dtype in INEXACT:
        for shape in [(1, 1), (4, 4), (3, 4, 4)]:
            for order in ["None", "2", "-2", "1", "-1", "inf", "-inf", "'fro'"]:
                yield case(f"linalg.cond(a, {order})", a=well(dtype, shape), norm=BOUND)
        yield case("linalg.cond(a)", a=well(dtype, (5, 5))[:, :3], norm=BOUND)
    singular = np.stack([np.eye(2), np.zeros((2, 2)), np.diag([1.0, 0.0])])
    for order in ["1", "inf", "'fro'"]:
        yield case(f"linalg.cond(a, {order})", a=singular, norm=BOUND)
    yield case("linalg.cond(a)", a=singular, norm=BOUND)
    yield case("linalg.cond(a, -2)", a=singular, norm=BOUND)
    yield case("linalg.cond(a, 1)", a=plain("float64", (3, 2)))
    yield case("linalg.cond(a)", a=np.zeros((0, 0)))
    yield case("linalg.cond(a, 1)", a=np.array([[np.nan, 1], [0, 1]]))


def products():
    for dtype in INEXACT + ["int64", "int8"]:
        a = sample(dtype, (3, 3))
        for n in [0, 1, 2, 3, 4, 7]:
            yield case(f"linalg.matrix_power(a, {n})", a=a, norm=BOUND)
            yield case(f"linalg.matrix_power(a, {n})", a=sample(dtype, (2, 2, 2)), norm=BOUND)
        chain = [sample(dtype, shape) for shape in [(2, 5), (5, 3), (3, 7), (7, 4), (4, 2)]]
        names = "abcde"
        for count in [2, 3, 4, 5]:
            inputs = dict(zip(names, chain[:count]))
            yield case(f"linalg.multi_dot([{', '.join(names[:count])}])", inputs, norm=BOUND)
        v, w = sample(dtype, (5,)), sample(dtype, (7,))
        yield case("linalg.multi_dot([v, b, c, w])", v=v, b=chain[1], c=chain[2], w=w, norm=BOUND)
        yield case("linalg.multi_dot([v, b, c])", v=v, b=chain[1], c=chain[2], norm=BOUND)
        yield case("linalg.multi_dot([b, c, w])", b=chain[1], c=chain[2], w=w, norm=BOUND)
        inputs = dict(zip("abcd", [*chain[:3], np.zeros((2, 7), dtype)]))
        yield case("linalg.multi_dot([a, b, c], out=d)", inputs, norm=BOUND)
        x, y = sample(dtype, (4, 3)), sample(dtype, (4, 3), 1)
        yield case("linalg.cross(x, y)", x=x, y=y, norm=4)
        yield case("linalg.cross(x, y, axis=0)", x=x[:3].copy(), y=y[:3].copy(), norm=4)
        yield case("linalg.cross(x, y, axis=0)", x=x, y=y)
        yield case("linalg.outer(x, y)", x=v, y=w, norm=4)
        yield case("linalg.outer(x, y)", x=x, y=y)
        yield case("linalg.vecdot(x, y)", x=x, y=y, norm=BOUND)
        yield case("linalg.vecdot(x, y, axis=0)", x=x, y=y, norm=BOUND)
        for view in layouts(sample(dtype, (2, 3, 4))):
            yield case("linalg.trace(x)", x=view, norm=BOUND)
            yield case("linalg.diagonal(x)", x=view)
            yield case("linalg.matrix_transpose(x)", x=view)
        yield case("linalg.trace(x, offset=1)", x=x, norm=BOUND)
        yield case("linalg.trace(x, offset=-2, dtype=complex128)", x=x, norm=BOUND)
        yield case("linalg.diagonal(x, offset=-1)", x=x)
        yield case("linalg.matmul(x, linalg.matrix_transpose(y))", x=x, y=y, norm=BOUND)
        yield case("linalg.tensordot(x, y, axes=2)", x=x, y=y, norm=BOUND)
    a = sample("float64", (2, 3))
    yield case("linalg.matrix_power(a, 2)", a=a)
    yield case("linalg.matrix_power(a, 1.5)", a=a[:2, :2].copy())
    yield case("linalg.multi_dot([a])", a=a)
    yield case("linalg.multi_dot([a, a, a])", a=a)
    yield case("linalg.multi_dot([a, b, a])", a=a, b=sample("float64", (3, 3, 2)))
    yield case("linalg.trace(a)", a=sample("float64", (3,)))


# ---- scipy.linalg: references that are slow and plain ---------------------------------------------------------------


def each(function, *arrays):
    """The function of every matrix of a stack."""
    if arrays[0].ndim == 2:
        return function(*arrays)
    parts = [each(function, *items) for items in zip(*arrays)]
    return tuple(map(np.stack, zip(*parts))) if isinstance(parts[0], tuple) else np.stack(parts)


def float_of(a):
    return a if a.dtype.kind in "fc" else a.astype("float64")


def wide(a):
    return a.astype("complex128" if a.dtype.kind == "c" else "float64")


def finite(a):
    if not np.isfinite(a).all():
        raise ValueError("array must not contain infs or NaNs")


def eliminated(a):
    """L and U in one matrix, and the swapped rows."""
    finite(a)
    a = float_of(a)
    result = wide(a).copy()
    m, n = a.shape
    pivots = []
    for j in range(min(m, n)):
        column = result[j:, j]
        best = j + int(np.argmax(abs(column.real) + abs(column.imag)))
        pivots.append(best)
        result[[j, best]] = result[[best, j]]
        if result[j, j] != 0:
            result[j + 1:, j] /= result[j, j]
        result[j + 1:, j + 1:] -= np.outer(result[j + 1:, j], result[j, j + 1:])
    return result.astype(a.dtype), np.array(pivots, "int32")


def lu_parts(a):
    both, pivots = eliminated(a)
    m, n = a.shape
    order = np.arange(m)
    for i, p in enumerate(pivots):
        order[[i, p]] = order[[p, i]]
    lower = np.tril(both[:, : min(m, n)], -1) + np.eye(m, min(m, n), dtype=both.dtype)
    return np.argsort(order), lower, np.triu(both[: min(m, n)])


def lu(a, permute_l=False, p_indices=False):
    place, lower, upper = each(lu_parts, a)
    if permute_l:
        return np.take_along_axis(lower, place[..., None], -2), upper
    if p_indices:
        return place, lower, upper
    return (place[..., None] == np.arange(a.shape[-2])).astype(upper.real.dtype), lower, upper


def operated(a, trans):
    a = wide(float_of(a))
    return [a, a.swapaxes(-1, -2), a.swapaxes(-1, -2).conj()]["NTC".index(trans) if isinstance(trans, str) else trans]


def solved(a, b):
    finite(b)
    return np.linalg.solve(a, b).astype(np.result_type(float_of(b)))


def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False):
    finite(a)
    t = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        n = a.shape[-1]
        t = t * (1 - np.eye(n, dtype=t.dtype)) + np.eye(n, dtype=t.dtype)
    return solved(operated(t, trans), b)


def lu_solve(factors, b, trans=0):
    both, pivots = factors
    n = both.shape[-1]
    a = (np.tril(wide(both), -1) + np.eye(n)) @ np.triu(wide(both))
    for i in range(n - 1, -1, -1):
        a[[i, pivots[i]]] = a[[pivots[i], i]]
    return solved(operated(a, trans), b)


def cho_factor(a, lower=False):
    finite(a)
    return np.linalg.cholesky(a, upper=not lower), lower


def cho_solve(factor, b):
    c, lower = wide(factor[0]), factor[1]
    adjoint = c.swapaxes(-1, -2).conj()
    return solved(c @ adjoint if lower else adjoint @ c, b)


def expm(a):
    a = float_of(a)
    x = a.astype("clongdouble")
    n = a.shape[-1]
    steps = max(0, int(np.ceil(np.log2(max(abs(x).max(initial=0) * max(n, 1), 1e-30)))) + 4)
    x = x / 2.0**steps
    term = result = np.broadcast_to(np.eye(n), x.shape).astype(x.dtype)
    for k in range(1, 30):
        term = term @ x / k
        result = result + term
    for _ in range(steps):
        result = result @ result
    return (result if a.dtype.kind == "c" else result.real).astype(a.dtype)


def sqrtm(a):
    a = float_of(a)
    if not np.allclose(a, a.swapaxes(-1, -2).conj()):
        raise ValueError("sqrtm takes symmetric or Hermitian matrices only")
    values, vectors = np.linalg.eigh(wide(a))
    real = a.dtype.kind != "c" and (values > 0).all()
    roots = np.sqrt(values if real else values.astype("complex128"))
    result = (vectors * roots[..., None, :]) @ vectors.swapaxes(-1, -2).conj()
    single = a.real.dtype == "float32"
    return result.astype(a.dtype if real else "complex64" if single else "complex128")


def block_diag(*arrays):
    arrays = [np.atleast_2d(a) for a in arrays]
    result = np.zeros(np.sum([a.shape for a in arrays], axis=0), np.result_type(*arrays))
    row = column = 0
    for a in arrays:
        result[row: row + a.shape[0], column: column + a.shape[1]] = a
        row, column = row + a.shape[0], column + a.shape[1]
    return result


def toeplitz(c, r=None):
    c = c.ravel()
    r = c.conj() if r is None else r.ravel()
    rows = [[c[i - j] if i >= j else r[j - i] for j in range(len(r))] for i in range(len(c))]
    return np.array(rows, np.result_type(c, r)).reshape(len(c), len(r))


def lu_factor(a):
    return each(eliminated, a)


def of_matrices(f, signature):
    """f for stacks: over the leading axes, in its own precision."""
    def stacked(*args):
        args = [float_of(np.asarray(a)) for a in args]
        if any(not np.isfinite(a).all() for a in args):
            raise ValueError("not finite")
        dtype = np.result_type(*args)
        return np.vectorize(f, signature=signature)(*[a.astype(dtype) for a in args])
    return stacked


Eigh = collections.namedtuple("Eigh", ["eigenvalues", "eigenvectors"])


def eigh(a, UPLO="L", *, b=None, lower=None, eigvals_only=False, type=1, check_finite=True, **subset):
    """NumPy's, or SciPy's for two matrices and for a part of the spectrum."""
    if subset:
        lower = UPLO in "Ll" if lower is None else lower
        values, vectors = scipy_linalg.eigh(float_of(np.asarray(a)), b, lower=lower, type=type, **subset)
        return values if eigvals_only else Eigh(values, vectors)
    if not isinstance(UPLO, str):
        UPLO, b = "L", UPLO
    lower = UPLO in "Ll" if lower is None else lower
    if b is None:
        result = np.linalg.eigh(a, UPLO if UPLO not in "LUlu" else "L" if lower else "U")
        return result.eigenvalues if eigvals_only else result
    np.linalg.inv(a), np.linalg.inv(b)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("wrong b dimensions")
    values, vectors = of_matrices(lambda x, y: scipy_linalg.eigh(x, y, lower=lower, type=type), "(n,n),(n,n)->(n),(n,n)")(a, b)
    return values if eigvals_only else Eigh(values, vectors)


def eigvalsh(a, UPLO="L", **subset):
    return eigh(a, UPLO, eigvals_only=True, **subset)


def solve(a, b, **options):
    """NumPy's, or SciPy's where more is assumed."""
    if "assume_a" not in options:
        return np.linalg.solve(a, b)
    result = scipy_linalg.solve(a, b, **options)
    return result.astype(np.result_type(a, b))


def symm(a, b, side=0, lower=False, hermitian=False):
    part = np.tril(a, -1) if lower else np.triu(a, 1)
    diagonal = np.diag(np.diag(a).real if hermitian else np.diag(a))
    whole = part + (np.conj(part.T) if hermitian else part.T) + diagonal
    return whole.astype(a.dtype) @ b if side == 0 else b @ whole.astype(a.dtype)


def hemm(a, b, side=0, lower=False):
    return symm(a, b, side, lower, hermitian=True)


def trmm(a, b, side=0, lower=False, trans=0, unit_diagonal=False):
    part = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        part = part - np.diag(np.diag(part)) + np.eye(len(a), dtype=a.dtype)
    part = [part, part.T, np.conj(part.T)][trans]
    return part @ b if side == 0 else b @ part


def syrk(a, trans=False):
    return a.T @ a if trans else a @ a.T


def herk(a, trans=False):
    return np.conj(a.T) @ a if trans else a @ np.conj(a.T)


def schur(a, output="real"):
    if output not in ("real", "r", "complex", "c"):
        raise ValueError(output)
    a = float_of(np.asarray(a))
    if output[0] == "c":
        a = a.astype(np.result_type(a, "complex64"))
    np.linalg.inv(a + 1e3 * np.eye(a.shape[-1]))  # complains where it is not square
    return of_matrices(scipy_linalg.schur, "(n,n)->(n,n),(n,n)")(a)


def ldl(a, lower=True, hermitian=True):
    np.linalg.inv(a + 1e3 * np.eye(a.shape[-1]))
    lu, d, order = of_matrices(lambda x: scipy_linalg.ldl(x, lower=lower, hermitian=hermitian), "(n,n)->(n,n),(n,n),(n)")(a)
    return lu, d, order.astype("int64")


def solve_banded(l_and_u, ab, b):
    of_one = b.ndim == 1
    f = of_matrices(lambda x, y: scipy_linalg.solve_banded(l_and_u, x, y), "(r,n),(m,k)->(m,k)")
    return f(ab, b[:, None])[..., 0] if of_one else f(ab, b)


def solveh_banded(ab, b, *, lower=False):
    of_one = b.ndim == 1
    f = of_matrices(lambda x, y: scipy_linalg.solveh_banded(x, y, lower=lower), "(r,n),(m,k)->(m,k)")
    return f(ab, b[:, None])[..., 0] if of_one else f(ab, b)


def solve_toeplitz(c, b):
    c, r = c if isinstance(c, tuple) else (c, np.conj(c))
    if c.ndim != 1 or r.shape != c.shape or b.shape[0] != len(c):
        raise ValueError("shapes")
    dtype = np.result_type(float_of(c), float_of(r), float_of(b))
    return scipy_linalg.solve_toeplitz((c, r), b).astype(dtype)


EXTRA = [solve_toeplitz, eigh, eigvalsh, solve, symm, hemm, trmm, syrk, herk, schur, ldl, solve_banded, solveh_banded, lu, lu_factor, lu_solve, solve_triangular, cho_factor, cho_solve, expm, sqrtm, block_diag, toeplitz]
FUNCTIONS = {"linalg": types.SimpleNamespace(**({n: getattr(np.linalg, n) for n in dir(np.linalg) if n[0] != "_"}
                                                | {f.__name__: f for f in EXTRA}))}


def scipy():
    for dtype in INEXACT:
        for shape in [(1, 1), (2, 2), (5, 5), (3, 5), (5, 3), (2, 4, 4)]:
            a = plain(dtype, shape)
            for call in ["lu(a)", "lu(a, permute_l=True)", "lu(a, p_indices=True)", "lu_factor(a)"]:
                yield case(f"linalg.{call}", a=a, norm=BOUND)
        for n in [1, 2, 6]:
            a = well(dtype, (n, n))
            for b in [plain(dtype, (n,)), plain(dtype, (n, 3))]:
                for trans in ["0", "1", "2", "'N'", "'T'", "'C'"]:
                    for options in ["", ", lower=True", ", unit_diagonal=True", ", lower=True, unit_diagonal=True"]:
                        t = a / 8 if "unit" in options else a
                        yield case(f"linalg.solve_triangular(a, b, {trans}{options})", a=t, b=b, norm=BOUND)
                for trans in range(3):
                    yield case(f"linalg.lu_solve(linalg.lu_factor(a), b, trans={trans})", a=a, b=b, norm=BOUND)
                p = positive(dtype, (n, n))
                for lower in [False, True]:
                    yield case(f"linalg.cho_solve(linalg.cho_factor(a, lower={lower}), b)", a=p, b=b, norm=BOUND)
            yield case("linalg.cho_factor(a)", a=positive(dtype, (n, n)), norm=BOUND)
            yield case("linalg.expm(a)", a=plain(dtype, (n, n)), norm=BOUND)
            yield case("linalg.expm(a)", a=-3 * plain(dtype, (2, n, n)), norm=10 * BOUND)
            yield case("linalg.sqrtm(a)", a=positive(dtype, (n, n)), norm=BOUND)
            yield case("linalg.sqrtm(a)", a=-positive(dtype, (2, n, n)), norm=BOUND, atol=1e-5)
        for view in layouts(well(dtype, (3, 3))):
            yield case("linalg.solve_triangular(a, b)", a=view, b=plain(dtype, (3, 2)), norm=BOUND)
            yield case("linalg.expm(a)", a=view / 4, norm=BOUND)
            yield case("linalg.lu_factor(a)", a=view, norm=BOUND)
        c, r = sample(dtype, (4,)), sample(dtype, (3,), 1)
        yield case("linalg.toeplitz(c)", c=c)
        yield case("linalg.toeplitz(c, r)", c=c, r=r)
    for dtype in EXACT:
        yield case("linalg.toeplitz(c, r)", c=sample(dtype, (1,)), r=sample(dtype, (5,)))
        a, b = sample(dtype, (2, 3)), sample(dtype, (2,))
        yield case("linalg.block_diag(a, b, c)", a=a, b=b, c=sample("float64", (1, 1)))
        yield case("linalg.expm(a)", a=np.eye(2).astype(dtype), norm=BOUND)
    yield case("linalg.block_diag(a)", a=np.zeros((0, 2)))
    a = plain("float64", (3, 3))
    a[0, 1] = np.nan
    for call in ["lu_factor(a)", "lu(a)", "solve_triangular(a, ones(3))", "cho_factor(a)"]:
        yield case(f"linalg.{call}", a=a)
    yield case("linalg.solve_triangular(a, ones(2))", a=np.array([[1.0, 2], [0, 0]]))
    yield case("linalg.sqrtm(a)", a=plain("float64", (3, 3)))


def structured():
    """Systems by what is assumed of them, products with triangles, parts of spectra."""
    for dtype in INEXACT:
        for n in [1, 2, 6]:
            h, p = hermitian(dtype, (n, n)), positive(dtype, (n, n))
            s = plain(dtype, (n, n)) + plain(dtype, (n, n)).T + 3 * np.eye(n, dtype=dtype)
            for b in [plain(dtype, (n,)), plain(dtype, (n, 3))]:
                for assume, a in [("gen", well(dtype, (n, n))), ("pos", p), ("her", h + 9 * np.eye(n, dtype=dtype)), ("sym", s)]:
                    for options in ["", ", lower=True"]:
                        yield case(f"linalg.solve(a, b, assume_a='{assume}'{options})", a=a, b=b, norm=40 * BOUND)
            for subset in ["subset_by_index=(0, 0)", f"subset_by_index=[{n // 2}, {n - 1}]", "subset_by_value=(-inf, 0.1)",
                           "subset_by_value=(0.1, 2)", "subset_by_value=[100, inf]"]:
                yield case(f"linalg.eigh(a, {subset}).eigenvalues", a=h, norm=BOUND)
                yield case(f"abs(linalg.eigh(a, {subset})[1])", a=h, norm=100 * BOUND)
                yield case(f"linalg.eigvalsh(a, 'U', {subset})", a=h, norm=BOUND)
                yield case(f"linalg.eigh(a, b=b, {subset})[0]", a=h, b=p, norm=20 * BOUND)
            a, b, c = plain(dtype, (n, n), 1), plain(dtype, (n, 3), 2), plain(dtype, (3, n), 3)
            for lower in [False, True]:
                for f in ["symm", "hemm", "trmm"]:
                    yield case(f"linalg.{f}(a, b, lower={lower})", a=a, b=b, norm=BOUND)
                    yield case(f"linalg.{f}(a, c, 1, {lower})", a=a, c=c, norm=BOUND)
                for trans in range(3):
                    yield case(f"linalg.trmm(a, b, 0, {lower}, {trans}, unit_diagonal=True)", a=a, b=b, norm=BOUND)
                    yield case(f"linalg.trmm(a, c, 1, {lower}, {trans})", a=a, c=c, norm=BOUND)
            for f in ["syrk", "herk"]:
                yield case(f"linalg.{f}(b)", b=b, norm=BOUND)
                yield case(f"linalg.{f}(b, trans=True)", b=b, norm=BOUND)
    a, b = hermitian("float64", (3, 3)), np.ones(3)
    for call in ["eigh(a, subset_by_index=(1, 0))", "eigh(a, subset_by_index=(0, 3))", "eigh(a, subset_by_index=(-1, 1))",
                 "eigvalsh(a, subset_by_value=(1, 1))", "eigh(a, subset_by_index=(0, 0), subset_by_value=(0, 1))",
                 "solve(a, b, assume_a='some')", "solve(0 * a, b, assume_a='sym')", "solve(-a @ a, b, assume_a='pos')",
                 "solve(a[:2], b, assume_a='pos')"]:
        yield case(f"linalg.{call}", a=a, b=b)


def more_of_scipy():
    for dtype in INEXACT:
        for n in [1, 2, 5, 20]:
            a, b = hermitian(dtype, (n, n)), positive(dtype, (n, n))
            for options in ["", ", lower=False", ", type=2", ", type=3", ", type=2, lower=False", ", type=3, lower=False"]:
                yield case(f"linalg.eigh(a, b{options}).eigenvalues", a=a, b=b, norm=20 * BOUND)
                yield case(f"abs(linalg.eigh(a, b=b{options})[1])", a=a, b=b, norm=100 * BOUND)
            yield case("linalg.eigh(a, b, eigvals_only=True)", a=a, b=b, norm=20 * BOUND)
            # One triangle is read.
            yield case("linalg.eigh(triu(a), triu(b), lower=False)[0]", a=a, b=b, norm=20 * BOUND)
            yield case("linalg.eigh(tril(a), tril(b))[0]", a=a, b=b, norm=20 * BOUND)
            a = plain(dtype, (n, n), 3)
            for output in ["'real'", "'complex'"]:
                z, t = f"linalg.schur(a, {output})[1]", f"linalg.schur(a, {output})[0]"
                yield case(f"{z} @ {t} @ conj({z}).T", a=a, norm=BOUND)
                yield case(f"{z} @ conj({z}).T", a=a, norm=BOUND)
                yield case(f"tril({t}, -2)", a=a)
            yield case("tril(linalg.schur(a, output='c')[0], -1)", a=a)
            yield case("sort(abs(diagonal(linalg.schur(a, 'complex')[0])))", a=a, norm=BOUND)
            for options in ["", ", lower=False", ", hermitian=False", ", lower=False, hermitian=False"]:
                h = hermitian(dtype, (n, n), 5)
                if "hermitian" in options:
                    h = (h + h.T) / 2 if h.dtype.kind != "c" else (plain(dtype, (n, n)) + plain(dtype, (n, n)).T)
                yield case(f"linalg.ldl(a{options})", a=h, norm=20 * BOUND)
                h = h - np.diag(np.diag(h))  # blocks of two
                yield case(f"linalg.ldl(a{options})", a=h, norm=20 * BOUND)
        for n, l, u in [(1, 0, 0), (5, 1, 2), (6, 2, 0), (6, 0, 1), (8, 1, 1), (3, 2, 2), (40, 3, 4)]:
            ab = plain(dtype, (l + u + 1, n), 1)
            ab[u] += 10
            for b in [plain(dtype, (n,)), plain(dtype, (n, 3))]:
                yield case(f"linalg.solve_banded(({l}, {u}), ab, b)", ab=ab, b=b, norm=BOUND)
        for n, bands in [(1, 1), (5, 2), (6, 3), (40, 4)]:
            ab = plain(dtype, (bands, n), 2)
            for lower in [False, True]:
                ab[0 if lower else -1] = 10 + abs(ab[0]).real
                for b in [plain(dtype, (n,)), plain(dtype, (n, 2))]:
                    yield case(f"linalg.solveh_banded(ab, b, lower={lower})", ab=ab.copy(), b=b, norm=BOUND)
        for n in [1, 2, 7, 30]:
            c, r = plain(dtype, (n,), 1), plain(dtype, (n,), 2)
            c[0] += 3 * n
            for b in [plain(dtype, (n,)), plain(dtype, (n, 2))]:
                yield case("linalg.solve_toeplitz((c, r), b)", c=c, r=r, b=b, norm=BOUND)
                yield case("linalg.solve_toeplitz(c, b)", c=c, b=b, norm=BOUND)
        yield case("linalg.solve_toeplitz(c[::-1], b)", c=c[::-1].copy(), b=plain(dtype, (30,)), norm=BOUND)
        a, b = hermitian(dtype, (2, 3, 4, 4)), positive(dtype, (3, 4, 4))
        yield case("linalg.eigh(a, b).eigenvalues", a=a, b=b, norm=20 * BOUND)
        yield case("linalg.ldl(a)", a=a, norm=20 * BOUND)
        yield case("tril(linalg.schur(a, 'complex')[0], -1)", a=a)
        ab = plain(dtype, (2, 3, 6))
        ab[:, 1] += 10
        yield case("linalg.solve_banded((1, 1), ab, b)", ab=ab, b=plain(dtype, (6, 2)), norm=BOUND)
        yield case("linalg.solve_banded((1, 1), ab, b)", ab=ab, b=plain(dtype, (2, 6, 2)), norm=BOUND)
        yield case("linalg.solve_banded((1, 1), ab[0], b)", ab=ab, b=plain(dtype, (2, 6, 2)), norm=BOUND)
        for view in layouts(hermitian(dtype, (4, 4))):
            yield case("linalg.eigh(a, b)[0]", a=view, b=positive(dtype, (4, 4)), norm=20 * BOUND)
            yield case("linalg.ldl(a)", a=view, norm=20 * BOUND)
        for view in layouts(ab[0]):
            yield case("linalg.solve_banded((1, 1), ab, b)", ab=view, b=plain(dtype, (6,)), norm=BOUND)
    a = np.array([[2, 1], [1, 3]])
    for dtype in EXACT:
        yield case("linalg.eigh(a, a)[0]", a=a.astype(dtype), norm=BOUND)
        yield case("linalg.ldl(a)", a=a.astype(dtype) if dtype != "bool" else np.eye(2, dtype=bool), norm=BOUND)
        yield case("linalg.solve_banded((0, 0), a[:1] + a[:1], b)", a=a.astype(dtype), b=np.array([1, 2], dtype), norm=BOUND)
    a, b = hermitian("float64", (3, 3)), positive("float64", (3, 3))
    wrong = a.copy()
    wrong[0, 0] = np.nan
    for call in ["eigh(a, -b)", "eigh(a, b, type=4)", "eigh(a, b[:2, :2])", "eigh(a[:2], b)", "eigh(a, b[:2])", "eigh(w, b)",
                 "eigh(a, UPLO='X')", "schur(a, 'x')", "schur(a[:2])", "schur(w)", "ldl(a[:2])", "ldl(w)",
                 "solve_banded((1, 1), a, a[:2])", "solve_banded((1, 2), a, a)", "solve_banded((1, 1), w, a)",
                 "solve_banded((1, 1), a * 0, a)", "solve_toeplitz(a[0] * 0, a)", "solve_toeplitz(w[0], a)", "solve_toeplitz(a[0], a[:2])",
                 "solve_toeplitz((a[0], a[0, :2]), a)", "solveh_banded(-b, a[0])", "solveh_banded(b, a[:2])", "solveh_banded(w, a)"]:
        yield case(f"linalg.{call}", a=a, b=b, w=wrong)


def cases():
    for part in [solving, spectra, least_squares, norms, products, scipy, more_of_scipy, structured]:
        yield from part()
