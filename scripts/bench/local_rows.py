"""The rows of scripts/bench/local: expressions in NumPy syntax, timed in quarry and in its peer.

row(group, name, expression, bytes=what must move at least, peer=the peer's statement where it differs)
A group has statements that make its arrays; everything is dropped after it. `scale` is the number of elements of a large
flat array; sizes follow from it.
"""

from fft_rows import fft_groups
from kernel_rows import kernel_groups
from linalg_rows import linalg_groups
from random_rows import random_groups
from row_values import uniform


class Group:
    def __init__(self, name, **variables):
        self.name = name
        self.variables = variables
        self.rows = []
        self.setup = ""  # the peer's alone

    def row(self, name, expression, moved=None, peer=None):
        self.rows.append((name, expression, moved, peer))


def integers(count, bound, dtype="int64"):
    return f"((arange({count}, dtype=uint64) * uint64(11400714819323198485)) >> 20).astype({dtype}) % {dtype}({bound})"


SIZE = {"float32": 4, "float64": 8, "int64": 8, "complex128": 16, "int32": 4, "bool": 1}


# The example programs (apps/examples).
def program_groups(group, scale):
    for size in (10**4, 10**6, min(10**8, scale // 1000 * 1000)):
        g = group(f"program arange of {size}", x=f"arange({size})")
        g.row("reshape(1000, -1).T * 2", f"arange({size}).reshape(1000, -1).T * 2", 16 * size)
    g = group("program random inverse", rng="random.default_rng(1)")
    for n in (10, 100, 1000) + ((10000,) if scale > 1 << 26 else ()):
        g.row(f"created, {n}", f"rng.random(({n}, {n}))", 8 * n * n)
        g.row(f"created and inverted, {n}", f"linalg.inv(rng.random(({n}, {n})))")
    n = scale * 4 if scale > 1 << 26 else scale
    g = group("program in place", x=f"zeros({n})")
    g.row("x *= 3", "multiply(x, 3, out=x)", 16 * n)
    g.row("x *= x", "multiply(x, x, out=x)", 16 * n)
    n = scale // 2
    g = group("program softplus", x=f"linspace(-800, 800, {n})")
    g.row("maximum(0, x) + log1p(exp(-abs(x)))", "maximum(0, x) + log1p(exp(-abs(x)))", 14 * 8 * n)
    g = group("program stacked", v="arange(1.0, 6.0)", x=uniform(n))
    g.row("det of five copies", "linalg.det(vstack((v, v, v, v, v)))")
    g.row("norm", "linalg.norm(x)", 8 * n)
    rows = max(64, scale // 2**16)
    g = group(
        "program network",
        x=f"({uniform(rows * 784, 'float32')}).reshape({rows}, 784)",
        w=f"({uniform(784 * 1000, 'float32')}).reshape(784, 1000) - float32(0.5)",
        b="zeros(1000, dtype=float32)",
        h="maximum(matmul(x, w) + b, 0)",
        p="exp(h[:, :10] * float32(0.01))",
    )
    g.row("linear", "matmul(x, w) + b")
    g.row("relu", "maximum(h, 0)", 8 * rows * 1000)
    g.row("softmax", "p / sum(p, axis=-1, keepdims=True)")


def groups(scale):
    side = int(scale**0.5) // 64 * 64
    edge = int(round(scale ** (1 / 3))) // 16 * 16
    found = []

    def group(name, **variables):
        found.append(Group(name, **variables))
        return found[-1]

    # ---- elementwise: kinds of operands ----
    for dtype in ("float64", "float32", "int64", "complex128"):
        e = SIZE[dtype]
        n = side * side
        make = integers(n, 1000) if dtype == "int64" else uniform(n, dtype)
        g = group(
            f"elementwise {dtype}",
            x=f"({make}).astype({dtype}).reshape({side}, {side})",
            y="x[::-1] + x[:1]",
            w=f"({make}).astype({dtype}).reshape({side // 2}, {side * 2})",
            r="x[0] + x[1]",
            c="x[:, 1:2] + x[:, :1]",
        )
        g.row("add", "x + y", 3 * n * e)
        g.row("multiply by a scalar", "x * 3", 2 * n * e)
        g.row("add a row", "x + r", 2 * n * e)
        g.row("add a column", "x + c", 2 * n * e)
        g.row("add, every second column", "w[:, ::2] + w[:, 1::2]", 3 * n * e // 2)
        g.row("add, transposed operand", "x + y.T", 3 * n * e)
        g.row("less", "x < y", 2 * n * e + n) if dtype != "complex128" else None
        g.row("where", "where(x == y, x, y)", (5 * e + 2) * n)  # with the comparison
        if dtype in ("float64", "float32"):
            g.row("exp", "exp(x)", 2 * n * e)
            other = "float32" if dtype == "float64" else "float64"
            g.row(f"cast to {other}", f"x.astype({other})", n * 12)
        if dtype == "complex128":
            g.row("multiply", "x * y", 3 * n * e)

    # ---- functions that read their argument once ----
    for dtype in ("float64", "float32"):
        e = SIZE[dtype]
        n = scale // 2
        m = n // 2048 * 2048
        g = group(
            f"one pass {dtype}",
            x=f"({uniform(n, dtype)}) + {dtype}(0.5)",
            holes="where(x < 0.75, x * nan, x)",
            y="x[::-1] * 3 + 1",
            bins=f"linspace(0.5, 1.5, 100).astype({dtype})",
            five="bins[::20].copy()",
            table=f"linspace(0.5, 1.5, 1000).astype({dtype})",
            c=f"x[:{m}].reshape(-1, 8, 256)",
        )
        for function in ("nansum", "nanmax", "nanmean", "nanargmax"):
            g.row(function, f"{function}(holes)", n * e)
        g.row("nanvar", "nanvar(holes)", 2 * n * e)
        g.row("nan_to_num", "nan_to_num(holes)", 2 * n * e)
        for exponent in ("2", "3", "-1", "0.5", "2.5"):
            g.row(f"x ** {exponent}", f"x ** {exponent}", 2 * n * e)
        for function in ("floor_divide", "remainder", "fmod"):
            g.row(function, f"{function}(y, x)", 3 * n * e)
        g.row("isin, 5 elements", "isin(x, five)", n * (e + 1))
        g.row("isin, 100 elements", "isin(x, bins)", n * (e + 1))
        g.row("digitize, 100 bins", "digitize(x, bins)", n * (e + 8))
        g.row("searchsorted, 1000 points", "searchsorted(table, x)", n * (e + 8))
        g.row("interp, 1000 points", "interp(x, table, table)", n * (e + 8))
        g.row("mean of 8 in the middle", "mean(c, axis=1)", m * e + m // 8 * e)
        g.row("sum of 8 in the middle", "sum(c, axis=1)", m * e + m // 8 * e)
    n = scale // 2
    g = group(
        "one pass int64",
        x=integers(n, 10**9),
        y=f"({integers(n, 1000)}) + 1",
        five="x[:5].copy()",
        hundred="x[:100].copy()",
    )
    g.row("floor_divide", "floor_divide(x, y)", 24 * n)
    g.row("x ** 2", "x ** 2", 16 * n)
    g.row("isin, 5 elements", "isin(x, five)", 9 * n)
    g.row("isin, 100 elements", "isin(x, hundred)", 9 * n)

    # ---- copies ----
    for dtype in ("float64", "float32"):
        e = SIZE[dtype]
        n, m = side * side, edge**3
        g = group(
            f"copy {dtype}",
            x=f"({uniform(n, dtype)}).reshape({side}, {side})",
            z=f"({uniform(m, dtype)}).reshape({edge}, {edge}, {edge})",
        )
        g.row("contiguous", "x.copy()", 2 * n * e)
        g.row("(1, 0)", "ascontiguousarray(x.T)", 2 * n * e)
        g.row("(2, 1, 0)", "ascontiguousarray(z.transpose(2, 1, 0))", 2 * m * e)
        g.row("(0, 2, 1)", "ascontiguousarray(z.transpose(0, 2, 1))", 2 * m * e)
        g.row("flip both axes", "ascontiguousarray(flip(x))", 2 * n * e)

    # ---- reductions and scans ----
    for dtype in ("float64", "float32"):
        e = SIZE[dtype]
        tall = scale // 32
        shapes = {"cube": (edge, edge, edge), "tall": (tall, 8), "wide": (8, tall)}
        for name, shape in shapes.items():
            n = 1
            for extent in shape:
                n *= extent
            # any() reads everything only where all is false.
            g = group(f"reduce {dtype} {name}", x=f"({uniform(n, dtype)}).reshape{shape}", nothing="x * 0")
            axes = [None] + list(range(len(shape))) + ([(0, 2)] if name == "cube" else [])
            for function in ("sum", "max", "argmax", "var", "any"):
                for axis in axes:
                    if function == "argmax" and isinstance(axis, tuple):
                        continue
                    argument = "nothing" if function == "any" else "x"
                    g.row(f"{function} axis {axis}", f"{function}({argument}, axis={axis})", n * e)
            for axis in range(len(shape)):
                g.row(f"cumsum axis {axis}", f"cumsum(x, axis={axis})", 2 * n * e)
        n = tall * 8
        g = group(f"scan {dtype} flat", x=uniform(n, dtype))
        g.row("cumsum", "cumsum(x)", 2 * n * e)
        g.row("cumprod", "cumprod(x)", 2 * n * e)
        g.row("diff", "diff(x)", 2 * n * e)

    # ---- sorting and searching ----
    for dtype in ("float32", "float64", "int64"):
        e = SIZE[dtype]
        n = scale * 2 // 5 if scale > 1 << 26 else scale
        m = int(n**0.5)
        make = integers(n, 10**9) if dtype == "int64" else uniform(n, dtype)
        g = group(
            f"sort {dtype}",
            x=make,
            q=f"x[:{n // 100}] + x[1:{n // 100 + 1}]",
            s="sort(x)",
            k=integers(n, 1000),
            z=f"x[:{m * m}].reshape({m}, {m})",
        )
        g.row("sort", "sort(x)", 2 * n * e)
        g.row("sort, stable", "sort(x, kind='stable')", 2 * n * e)
        g.row("argsort", "argsort(x)", n * (e + 8))
        g.row("sort axis 1", "sort(z, axis=1)", 2 * m * m * e)
        g.row("sort axis 0", "sort(z, axis=0)", 2 * m * m * e)
        g.row("argsort axis 1", "argsort(z, axis=1)", m * m * (e + 8))
        g.row("argsort axis 0", "argsort(z, axis=0)", m * m * (e + 8))
        g.row("partition", f"partition(x, {n // 3})", 2 * n * e)
        g.row("argpartition", f"argpartition(x, {n // 3})", n * (e + 8))
        g.row("top 100", "top_k(x, 100)[0]", n * e, peer="sort(partition(x, -100)[-100:])")
        g.row("unique", "unique(x)", 2 * n * e)
        g.row("unique of 1000 values", "unique(k)", n * 8)
        g.row("searchsorted", "searchsorted(s, q)")
        g.row("histogram, 100 bins", "histogram(x, bins=100)[0]", n * e)
        g.row("bincount", "bincount(k)", n * 8)
        g.row("percentile", "percentile(x, 30)", n * e)
        g.row("median", "median(x)", n * e)

    # ---- indexing ----
    for dtype in ("float64", "float32"):
        e = SIZE[dtype]
        n = scale // 4
        m = int(n**0.5) // 32 * 32
        g = group(
            f"index {dtype}",
            x=uniform(n, dtype),
            i=integers(n, n),
            b="x < 0.5",
            z=f"x[:{m * m}].reshape({m}, {m})",
            rows=integers(m, m),
            along=f"({integers(m * m, m)}).reshape({m}, {m})",
            few=integers(n, 1000),
            target=f"zeros({n}, dtype={dtype})",
            small=f"zeros(1000, dtype={dtype})",
        )
        g.row("take, random positions", "x[i]", n * (2 * e + 8))
        g.row("take rows", "take(z, rows, axis=0)", 2 * m * m * e)
        g.row("take columns", "take(z, rows, axis=1)", 2 * m * m * e)
        g.row("take_along_axis 1", "take_along_axis(z, along, axis=1)", m * m * (2 * e + 8))
        g.row("boolean mask", "x[b]", n * (e + 1) + n * e // 2)
        g.row("boolean assignment", "putmask(target, b, 1.5)", n * (e + 1), peer="target[b] = 1.5")
        g.row("nonzero", "nonzero(b)[0]", n + 4 * n)
        g.row("scatter-add, random positions", "add.at(target, i, x)", n * (3 * e + 8))
        g.row("scatter-add, 1000 positions", "add.at(small, few, x)", n * (e + 8))
        g.row("divide.at, random positions", "divide.at(target, i, x)", n * (3 * e + 8))
        g.row("divide.at, 1000 positions", "divide.at(small, few, x)", n * (e + 8))

    # ---- joining ----
    for dtype in ("float64", "float32"):
        e = SIZE[dtype]
        n = scale // 4
        m = int(n**0.5) // 32 * 32
        g = group(f"join {dtype}", x=f"({uniform(m * m, dtype)}).reshape({m}, {m})", y="x + 1")
        g.row("concatenate axis 0", "concatenate((x, y), axis=0)", 4 * m * m * e)
        g.row("concatenate axis 1", "concatenate((x, y), axis=1)", 4 * m * m * e)
        g.row("stack axis 2", "stack((x, y), axis=2)", 4 * m * m * e)
        g.row("repeat axis 1", "repeat(x, 3, axis=1)", 4 * m * m * e)
        g.row("roll", "roll(x, 17)", 2 * m * m * e)
        g.row("roll axis 1", "roll(x, 17, axis=1)", 2 * m * m * e)
        g.row("pad, constant", "pad(x, 8)", 2 * m * m * e)
        g.row("pad, reflect", "pad(x, 8, mode='reflect')", 2 * m * m * e)
        g.row("tile", "tile(x, (2, 2))", 5 * m * m * e)

    # ---- products ----
    for dtype in ("float64", "float32"):
        k = max(64, int((scale // 8) ** 0.5) // 64 * 64)
        b = max(4, scale // 2**15)
        e = SIZE[dtype]
        g = group(
            f"product {dtype}",
            x=f"({uniform(k * k, dtype)}).reshape({k}, {k})",
            y="x.T + 1",
            z=f"({uniform(b * 1024, dtype)}).reshape({b}, 32, 32)",
            v="x[0] + x[1]",
            t=f"({uniform(k * k, dtype)}).reshape({k // 32}, 32, {k})",
        )
        g.row("einsum contraction", "einsum('ij,jk->ik', x, y)")
        g.row("einsum batched", "einsum('bij,bjk->bik', z, z)")
        g.row("einsum trace", "einsum('ii', x)")
        g.row("einsum outer", "einsum('i,j->ij', v, v)", k * k * e)
        g.row("tensordot", "tensordot(t, t, axes=((0, 1), (0, 1)))")
        g.row("matmul batched", "matmul(z, z)")
        g.row("row vector times matrix", "matmul(v, x)", k * k * e)
        g.row("matrix times column vector", "matmul(x, v)", k * k * e)

    linalg_groups(group, scale)
    program_groups(group, scale)
    kernel_groups(group, uniform, scale)
    fft_groups(group, scale)
    random_groups(group, scale)

    # ---- ten elements: the cost of a call ----
    g = group("ten elements", x="arange(10.0)", y="arange(10.0) + 1", i="arange(10)[::-1].copy()")
    calls = {
        "x + y": "@plus x y",
        "exp(x)": "@exp x",
        "x * 2": "@twice x",
        "sum(x)": "@sum x",
        "x[i]": "@take x i",
        "sort(x)": "@sort x",
        "cumsum(x)": "@cumsum x",
        "concatenate((x, y))": "@concatenate x y",
        "where(x < y, x, y)": "@where x y",
    }
    for expression, call in calls.items():
        g.row(expression, call, peer=expression)
    return found
