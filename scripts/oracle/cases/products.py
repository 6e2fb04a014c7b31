"""Products of vectors, matrices and tensors, and einsum (local/ops/functions/math.def)."""
from expressions import FLOATS, INTEGERS, NUMPY_DTYPES, SOME, case, layouts, sample
import numpy as np

# Sums of products: spacings at the largest value of the result.
NORM = 16


def products(name, shapes):
    for dtype in NUMPY_DTYPES:
        for left, right in shapes:
            a, b = sample(dtype, left), sample(dtype, right, seed=1)
            yield case(f"{name}(a, b)", a=a, b=b, norm=NORM)
    for one in NUMPY_DTYPES:
        for other in NUMPY_DTYPES:
            left, right = shapes[0]
            yield case(f"{name}(a, b)", a=sample(one, left), b=sample(other, right, seed=1), norm=NORM)
    for dtype in ["bool", "int16", "float32", "complex128"]:
        left, right = shapes[0]
        for a in layouts(sample(dtype, left)):
            for b in layouts(sample(dtype, right, seed=1)):
                yield case(f"{name}(a, b)", a=a, b=b, norm=NORM)


def matrix_products():
    yield from products("matmul", [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)),
                                   ((2, 1, 3, 4), (5, 4, 2)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((1, 1), (1, 1)),
                                   ((0, 2, 3), (3, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,))])
    yield from products("dot", [((3, 4), (4, 5)), ((), ()), ((), (3,)), ((3,), ()), ((4,), (4,)), ((2, 3, 4), (5, 4, 2)),
                                ((2, 3, 4), (4,)), ((0,), (0,)), ((2, 0), (0,))])
    yield from products("vdot", [((4,), (4,)), ((2, 3), (3, 2)), ((), ()), ((0,), (0,)), ((1,), (1, 1))])
    yield from products("inner", [((3, 4), (5, 4)), ((4,), (4,)), ((), (3, 2)), ((2, 3, 4), (5, 4)), ((0,), (0,))])
    yield from products("outer", [((3,), (4,)), ((2, 2), (3,)), ((), ()), ((0,), (3,))])
    yield from products("kron", [((2, 3), (3, 2)), ((2,), (3, 2)), ((), (3,)), ((2, 1, 2), (3,)), ((0, 2), (2,))])
    yield from products("vecdot", [((3, 4), (3, 4)), ((4,), (4,)), ((2, 3, 4), (4,)), ((3, 1, 4), (2, 4)), ((2, 0), (0,))])
    yield from products("matvec", [((3, 4), (4,)), ((2, 3, 4), (2, 4)), ((3, 4), (5, 4)), ((3, 0), (0,))])
    yield from products("vecmat", [((3,), (3, 4)), ((2, 3), (2, 3, 4)), ((5, 3), (3, 4)), ((0,), (0, 3))])
    yield from products("tensordot", [((3, 4, 2), (4, 2, 3)), ((2, 3), (2, 3)), ((2, 3, 0), (3, 0, 2))])
    for text in ["cross(a, b)", "linalg.matmul(a, b)", "a @ b.T", "a.dot(b.T)"]:
        yield from products("cross", [((5, 3), (5, 3))]) if text == "cross(a, b)" else [
            case(text, a=sample("float32", (3, 3)), b=sample("float32", (3, 3), seed=1), norm=NORM)]


def product_options():
    f = lambda *shape: sample("float64", shape)  # noqa: E731
    g = lambda *shape: sample("float64", shape, seed=1)  # noqa: E731
    for text in ["matmul(a, b, out=c)", "(matmul(a, b, out=c), c)", "matmul(a, b, dtype=complex128)",
                 "matmul(a, b, casting='unsafe', dtype=int32)", "matmul(a, b, casting='no', dtype=float32)",
                 "matmul(a, b, dtype=float32)", "matmul(a, b, dtype=int64)", "matmul(a, b, axes=[(0, 1), (0, 1), (1, 0)])",
                 "matmul(a, a, axes=[(0, 1), (1, 0), (0, 1)])", "matmul(a, b, axes=[(0, 1), (0, 1)])",
                 "matmul(a, b, axes=[(0, 5), (0, 1), (0, 1)])", "matmul(a, b, axes=[(0, 0), (0, 1), (0, 1)])",
                 "matmul(a, a)", "matmul(a, 3)", "matmul(3, a)", "dot(a, b, out=c)", "dot(a, a)", "a.dot(b, c)",
                 "inner(a, b)", "vdot(a, b[0])", "tensordot(a, b, 1)", "tensordot(a, b, axes=0)",
                 "tensordot(a, b, axes=([1], [0]))", "tensordot(a, b, axes=(1, 0))", "tensordot(a, a, axes=([0, 1], [0, 1]))",
                 "tensordot(a, b, axes=([0], [0]))", "tensordot(a, b, axes=([1, 0], [0]))", "tensordot(a, b, axes=3)",
                 "tensordot(a, a, axes=([0, 0], [0, 0]))", "tensordot(a, b, axes=([7], [0]))", "tensordot(a, b, -1)",
                 "outer(a, b, out=a)", "outer(a[0], b[0])", "kron(a, [1, 2])", "vecdot(a, a, axis=0)",
                 "vecdot(a, a, axes=[0, 0])", "vecdot(a, a, axes=[(0,), (0,), ()])", "vecdot(a, a, keepdims=True)",
                 "vecdot(a, a, axis=0, keepdims=True)", "vecdot(a, b)", "matvec(a, b)", "vecmat(a[:, 0], a)", "matvec(a, a[0])",
                 "vecmat(3, a)", "matmul(a, b[0])", "matmul(a, b, order='F')", "matmul(a, b, order='X')", "matmul(a, b, subok=False)",
                 "vecdot(a, a, order='F', keepdims=True)", "matvec(a, a[0], order='A', subok=True)", "vecmat(a[:, 0], a, order='C')",
                 "matmul(a, b, out=c, order='F')", "matmul(a, b, axis=0)", "linalg.tensordot(a, b, axes=1)",
                 "linalg.tensordot(a, a, axes=([0, 1], [0, 1]))", "linalg.tensordot(a, b)", "linalg.vecdot(a, a)",
                 "linalg.vecdot(a, a, axis=0)", "linalg.vecdot(a, b)", "linalg.vecdot(a * 1j, a * 1j)"]:
        yield case(text, a=f(3, 4), b=g(4, 2), c=np.zeros((3, 2)), norm=NORM)
    for text in ["matmul(a, b, out=c)", "dot(a, b, out=c)"]:
        for c in [np.zeros((3, 2), "float32"), np.zeros((3, 2), "int64"), np.zeros((2, 2)), np.zeros((5, 3, 2)),
                  np.zeros((3, 4))[:, ::2], np.zeros((2, 3)).T]:
            yield case(text, a=f(3, 4), b=g(4, 2), c=c, norm=NORM)
    yield case("matmul(a, a, out=a)", a=f(3, 3), norm=NORM)
    yield case("matmul(a, b)", a=f(2, 3, 4), b=g(3, 4, 5))
    yield case("matmul(a, b, axes=[(0, 2), (2, 0), (0, 1)])", a=f(4, 3, 2), b=g(4, 3, 2), norm=NORM)
    yield case("matmul(a, b, axes=[(0, 2), (2, 0), (-1, 0)])", a=f(4, 3, 2), b=g(4, 3, 2), norm=NORM)
    for dtype in FLOATS[2:] + ["complex64", "complex128", "float16"]:
        yield case("matmul(a, b)", a=sample(dtype, (40, 60)), b=sample(dtype, (60, 50), seed=1), norm=64)
        yield case("dot(a, b)", a=sample(dtype, (1000,)), b=sample(dtype, (1000,), seed=1), norm=256, atol=0.1)
        special = sample(dtype, (4, 4), special=True)
        yield case("matmul(a, b)", a=special.real if dtype != "float16" else special, b=np.eye(4, dtype="float32")[:, :1],
                   norm=NORM)
    for dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        extreme = np.array([[low, high, 3], [high, high, 7]], dtype)
        yield case("matmul(a, a.T)", a=extreme)
        yield case("inner(a, a)", a=extreme)
    for text in ["cross(a, b)", "cross(a[:, :2], b)", "cross(a, b[:, :2])", "cross(a[:, :2], b[:, :2])", "cross(a, b[0])",
                 "cross(a, b, axis=0)", "cross(a, b, axisa=0, axisb=1, axisc=0)", "cross(a.T, b, axisa=0)",
                 "cross(a, b, axisc=0)", "cross(a[0], b[1])", "cross(a, b, axis=5)", "cross(a[:, :1], b)", "cross(1, 2)",
                 "cross(a[:2], b)", "cross(a[:2], b, axis=0)", "cross(a[None], b[:, None])", "cross(a[:0], b[:0])"]:
        for dtype in ["float64", "int32", "uint8", "complex64", "bool"]:
            yield case(text, a=sample(dtype, (3, 3)), b=sample(dtype, (3, 3), seed=1), norm=4)


def einsums():
    ones = ["ij->ji", "ij", "ji", "ij->", "ij->i", "ij->j", "i...->...", "...i->...", "...", "...j->j...", "ij->ijk", "ij->ii",
            "i", "ijk", "i-j", "ij.k", "ij->i->j", "i..j", "ij...->i", "...ij->...ji", " i j -> j i ", "i1", "Ij", "jI"]
    for text in ones:
        for dtype in ["int32", "float64", "bool"]:
            for a in layouts(sample(dtype, (3, 4))):
                yield case(f"einsum('{text}', a)", a=a, norm=8)
    for text in ["ii", "ii->i", "ii->", "iij->j", "ijj->ij", "iii", "iij->ij"]:
        for shape in [(3, 3), (3, 3, 4), (2, 4, 4), (3, 3, 3)]:
            yield case(f"einsum('{text}', a)", a=sample("int64", shape))
    for text in ["ij,jk->ik", "ij,jk", "ij,jk->ki", "ij,jk->", "ij,jk->j", "ij,jk->ijk", "ij,jk->i", "ij,jk->k", "...j,jk->...k",
                 "i...,...k->i...k", "ij,...->ij...", "ij,jk->jik", "ij,kl->ijkl", "ij,kl->jl", "ij,jk,ki->", "ij", "ij,ij,ij",
                 "ji,kj->ik"]:
        for dtype in SOME:
            yield case(f"einsum('{text}', a, b)", a=sample(dtype, (3, 4)), b=sample(dtype, (4, 2), seed=1), norm=NORM)
        for a in layouts(sample("float32", (3, 4))):
            for b in layouts(sample("float32", (4, 2), seed=1)):
                yield case(f"einsum('{text}', a, b)", a=a, b=b, norm=NORM)
    for text in ["bij,bjk->bik", "bij,bjk->ikb", "bij,bkj->bik", "bij,bij->b", "bij,bij->", "bij,bij->ij", "bij,kj->bik",
                 "...ij,...jk->...ik", "bij,bij->bij", "bij,cij->bc", "bij,bjk"]:
        for dtype in ["int16", "float16", "float64", "complex64", "bool"]:
            yield case(f"einsum('{text}', a, b)", a=sample(dtype, (2, 3, 3)), b=sample(dtype, (2, 3, 3), seed=1), norm=NORM)
    for one in NUMPY_DTYPES:
        for other in NUMPY_DTYPES:
            yield case("einsum('ij,jk->ik', a, b)", a=sample(one, (3, 4)), b=sample(other, (4, 2), seed=1), norm=NORM)
    chain = {"a": sample("float64", (2, 3)), "b": sample("float64", (3, 7), seed=1), "c": sample("float64", (7, 5), seed=2),
             "d": sample("float64", (5, 2), seed=3)}
    for optimize in ["", ", optimize=True", ", optimize='greedy'", ", optimize='optimal'", ", optimize=('greedy', 10)",
                     ", optimize=('optimal', 4)", ", optimize=['einsum_path', (0, 1), (0, 1), (0, 1)]",
                     ", optimize=['einsum_path', (0, 1, 2, 3)]"]:
        for text in ["ij,jk,kl,lm->im", "ij,jk,kl,lm", "ij,jk,kl,li->", "ij,jk,kl,lm->mjk"]:
            yield case(f"einsum('{text}', a, b, c, d{optimize})", chain, norm=32)
        yield case(f"einsum_path('ij,jk,kl,lm->im', a, b, c, d{optimize})", chain)
    for text in ["i,i,i->", "i,i,i->i", "i,j,k->ijk", "i,j,k->", "i,ij,ijk->k", "ij,j,k->ik"]:
        i, ij, ijk = sample("int32", (3,)), sample("int32", (3, 3), seed=1), sample("int32", (3, 3, 3), seed=2)
        by_length = {1: i, 2: ij, 3: ijk}
        names = dict(zip("abc", (by_length[len(x)] for x in text.split("->")[0].split(","))))
        for optimize in ["False", "True", "'optimal'"]:
            yield case(f"einsum('{text}', a, b, c, optimize={optimize})", names)
            yield case(f"einsum_path('{text}', a, b, c, optimize={optimize})", names)
    tensors = {"a": sample("float64", (4, 4)), "b": sample("float64", (4, 4), seed=1), "c": sample("float64", (4,) * 4, seed=2),
               "d": sample("float64", (4, 4), seed=3), "e": sample("float64", (4, 4), seed=4)}
    for optimize in ["'greedy'", "'optimal'"]:
        yield case(f"einsum('ea,fb,abcd,gc,hd->efgh', a, b, c, d, e, optimize={optimize})", tensors, norm=64)
        yield case(f"einsum_path('ea,fb,abcd,gc,hd->efgh', a, b, c, d, e, optimize={optimize})", tensors)
    a, b = sample("float64", (3, 4)), sample("float64", (4, 2), seed=1)
    for text in ["einsum(a, [0, 1], b, [1, 2], [0, 2])", "einsum(a, [0, 1], b, [1, 2])", "einsum(a, [1, 0])", "einsum(a, [0, 1], [])",
                 "einsum(a, [0, 99])", "einsum('ij,jk->ik', a, b, out=c)", "(einsum('ij,jk->ik', a, b, out=c), c)",
                 "einsum('ij,jk->ik', a, b, dtype=complex128)", "einsum('ij,jk->ik', a, b, dtype=int64)",
                 "einsum('ij,jk->ik', a, b, dtype=float32, casting='unsafe')", "einsum('ij,jk->ik', a, b, out=d)",
                 "einsum('ij,jk->ik', a, b, out=a)", "einsum('ij,jk->ik', a, b, casting='no')", "einsum('ij,jk->ik', a)",
                 "einsum('ij,jk->ik', a, b, b)", "einsum('', 3)", "einsum('->', 3)", "einsum(',', 3, 4)", "einsum('i,i', [1, 2], [3, 4])",
                 "einsum('ij,jk->ik', a, a)", "einsum('ij,ij->ij', a[:1], a)", "einsum('ij,jk->ik', a[:, :1], b)",
                 "einsum('ij,ij->j', a[:, :1], a)", "einsum('ij,ij', a[:1, :1], a)", "einsum('i...,i...->i', a, a)", "einsum('ii->ii', a)",
                 "einsum('ij,jk->ik', a[:, :0], b[:0])", "einsum('ij,jk->ik', a[:0], b)", "einsum('ij->', a[:0])", "einsum()",
                 "einsum('ij,jk->ik', a, b, bogus=1)", "einsum(a, [..., 0], b, [0, 1], [..., 1])", "einsum(a, [..., 0], b, [0, 1])",
                 "einsum(a, [0, ...], [...])", "einsum(a, [...], b.T, [2, ...], [2, ...])", "einsum(a, [..., 0, ...])", "einsum(a, [...])",
                 "einsum(a, [0, 1, ...], [..., 1, 0])", "einsum(a, [0, ...], [0])", "einsum(a, [0, 'i'])", "einsum(a, [1.5, 0])",
                 "einsum('ij,jk->ik', a, b, order='F')", "einsum('ij,jk->ik', a, b, order='X')", "einsum('ij,jk->ik', a, b, optimize=None)",
                 "einsum('ij,jk->ik', a, b, optimize=('greedy', 2.5))", "einsum('ij,jk->ik', a, b, optimize='bogus')",
                 "einsum('ij,jk->ik', a, b, subok=True)"]:
        yield case(text, a=a, b=b, c=np.zeros((3, 2)), d=np.zeros((3, 2), "int64"), norm=NORM)
    for name in ["einsum_path('ij,jk->ik', a, b)", "einsum_path('i->', a[0])", "einsum_path('ij,jk,kl->il', a, b, b.T)",
                 "einsum_path('ij,jk,kl->il', a, b, b.T, optimize=False)", "einsum_path('ij,jk', a, b, optimize=True)"]:
        yield case(name, a=a, b=b)


def without_intermediates():
    """optimize=False and None, explicit paths, and views."""
    for dtype in ["int8", "uint16", "int64", "float32", "complex128", "bool"]:
        a, b, c = sample(dtype, (3, 4)), sample(dtype, (4, 2), seed=1), sample(dtype, (2, 5), seed=2)
        for how in ["False", "None", "True", "['einsum_path', (0, 1), (0, 1)]", "['einsum_path', (1, 2), (0, 1)]", "['einsum_path', (0, 1, 2)]"]:
            for text in ["ij,jk,kl->il", "ij,jk,kl", "ij,jk,kl->", "ij,jk,kl->j", "ij,jk,kl->ijkl", "ij,jk,kl->lki"]:
                yield case(f"einsum('{text}', a, b, c, optimize={how})", a=a, b=b, c=c, norm=32)
    for text in ["i,i,i,i->", "i,i,i,i->i", "i,j,k,l->", "...i,i,i...,i->...", "ii,i,i,i"]:
        i = sample("int32", (3,))
        shapes = {"i": i, "j": i, "k": i, "l": i, "...i": sample("int32", (2, 3)), "i...": sample("int32", (3, 1)), "ii": sample("int32", (3, 3))}
        names = dict(zip("abcd", (shapes[part] for part in text.split("->")[0].split(","))))
        for how in ["False", "True", "'optimal'"]:
            yield case(f"einsum('{text}', a, b, c, d, optimize={how})", names)
    for text in ["ij->ji", "ii->i", "ij", "...ij->...ji", "ijj->ij"]:
        for dtype in ["bool", "int16", "float16", "complex64"]:
            a = sample(dtype, (3, 3, 3) if len(text.split("->")[0].replace("...", "")) == 3 else (3, 3))
            for option in ["dtype=float64", "dtype=int8", "dtype=complex64, casting='no'", "order='F'"]:
                yield case(f"einsum('{text}', a, {option})", a=a)


def cases():
    yield from without_intermediates()
    yield from matrix_products()
    yield from product_options()
    yield from einsums()
