"""Rows of linear algebra for local_rows.py; `peer_linalg` is scipy.linalg or cupyx.scipy.linalg."""


# In [0, 1) without the structure of local_rows.uniform(), whose small matrices can be singular.
def noise(count, dtype):
    return f"((sin(arange({count}) * 12.9898) * 43758.5453) % 1.0).astype({dtype})"


def linalg_groups(group, scale):
    gpu = scale >= 1 << 27
    for dtype in ("float64", "float32", "complex128", "complex64"):
        for n in (1024, 4096, 8192) if gpu else (512,):
            g = group(f"matmul {dtype} {n}", x=f"{noise(n * n, dtype)}.reshape({n}, {n})", y="x.T.copy() + 1")
            g.row("matmul", "matmul(x, y)")
    for dtype in ("float16",):
        for n in (4096, 8192) if gpu else ():
            g = group(f"matmul {dtype} {n}", x=f"{noise(n * n, dtype)}.reshape({n}, {n})", y="x.T.copy()")
            g.row("matmul", "matmul(x, y)")

    for dtype in ("float64", "float32", "complex128"):
        sizes = (1024, 4096, 8192) if gpu and dtype != "complex128" else (1024,) if gpu else (300,)
        for n in sizes:
            g = group(
                f"linalg {dtype} {n}",
                x=f"{noise(n * n, dtype)}.reshape({n}, {n})",
                h="x + x.T.conj()",
                p=f"x @ x.T.conj() + {n} * eye({n}, dtype={dtype})",
                b="x[:, :16].copy()",
            )
            g.row("inv", "linalg.inv(x)")
            g.row("solve, 16 sides", "linalg.solve(x, b)")
            g.row("cholesky", "linalg.cholesky(p)")
            g.row("qr", "linalg.qr(x)")
            g.row("det", "linalg.det(x)")
            g.row("eigvalsh", "linalg.eigvalsh(h)")
            g.row("eigh", "linalg.eigh(h)")
            if n <= 4096:
                g.row("svd values", "linalg.svd(x, compute_uv=False)")
                g.row("svd", "linalg.svd(x, full_matrices=False)")
            if n <= 1024:
                g.row("eig", "linalg.eig(x)")
                g.row("pinv", "linalg.pinv(x)")
                g.row("lstsq", "linalg.lstsq(x, b)", peer="linalg.lstsq(x, b, rcond=None)")
            g.row("lu_factor", "linalg.lu_factor(x)", peer="peer_linalg.lu_factor(x)")
            g.row("lu", "linalg.lu(x)", peer="peer_linalg.lu(x)")
            g.row("solve_triangular", "linalg.solve_triangular(p, b)", peer="peer_linalg.solve_triangular(p, b)")
            g.row("expm", "linalg.expm(x / 1000)", peer="peer_linalg.expm(x / 1000)")

    for dtype in ("float64", "float32"):
        for count, n in ((4000, 32), (2000, 64), (1000, 100), (500, 200), (10000, 16)) if gpu else ((100, 64),):
            g = group(
                f"linalg {dtype} {count} of {n}",
                x=f"{noise(count * n * n, dtype)}.reshape({count}, {n}, {n})",
                h="x + x.transpose(0, 2, 1)",
                p=f"matmul(x, x.transpose(0, 2, 1)) + {n} * eye({n}, dtype={dtype})",
                b="x[:, :, :4].copy()",
            )
            g.row("inv", "linalg.inv(x)")
            g.row("solve", "linalg.solve(x, b)")
            g.row("cholesky", "linalg.cholesky(p)")
            g.row("qr", "linalg.qr(x)")
            g.row("svd", "linalg.svd(x, full_matrices=False)")
            g.row("eigh", "linalg.eigh(h)")
            g.row("slogdet", "linalg.slogdet(x)")

    m, n = (65536, 512) if gpu else (4096, 64)
    for dtype in ("float64", "float32"):
        g = group(f"tall {dtype} {m} x {n}", x=f"{noise(m * n, dtype)}.reshape({m}, {n})", b="x[:, :2].copy()")
        g.row("qr", "linalg.qr(x)")
        g.row("qr, r", "linalg.qr(x, mode='r')")
        g.row("lstsq", "linalg.lstsq(x, b)", peer="linalg.lstsq(x, b, rcond=None)")
        if gpu:
            g.row("svd of 8192 rows", "linalg.svd(x[:8192], full_matrices=False)")
    if gpu:
        n = 10000
        g = group(f"square {n}")
        g.row("create", f"random.default_rng(1).random(({n}, {n}))", peer=f"random.random(({n}, {n}))")
        g.row("create and invert", f"linalg.inv(random.default_rng(1).random(({n}, {n})))", peer=f"linalg.inv(random.random(({n}, {n})))")
