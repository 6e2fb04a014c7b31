"""Fourier transforms beside CuPy and NumPy."""

from row_values import uniform


def fft_groups(group, scale):
    for dtype in ("complex128", "complex64"):
        real = {"complex128": "float64", "complex64": "float32"}[dtype]
        e = {"complex128": 16, "complex64": 8}[dtype]
        n = scale // 8
        rows, primes = n // 1024, n // 1009
        m = 1 << (n.bit_length() - 1) // 2  # a power of two
        k = 1 << (n.bit_length() - 1) // 3
        g = group(
            f"fft {dtype}",
            r=uniform(n, real),
            z=f"(r + 1j * r[::-1]).astype({dtype})",
            q=f"z[:{primes * 1009}].reshape({primes}, 1009)",
            h="fft.rfft(r.reshape(-1, 1024))",
            h2=f"fft.rfft2(r[:{m * m}].reshape({m}, {m}))",
        )
        g.row("fft, one line", "fft.fft(z)", 2 * n * e)
        g.row("fft, rows of 16", "fft.fft(z.reshape(-1, 16))", 2 * n * e)
        g.row("fft, rows of 1024", f"fft.fft(z.reshape({rows}, 1024))", 2 * n * e)
        g.row("ifft, rows of 1024", f"fft.ifft(z.reshape({rows}, 1024))", 2 * n * e)
        g.row("fft, rows of 1000", f"fft.fft(z[:{n // 1000 * 1000}].reshape(-1, 1000))", 2 * n * e)
        g.row("fft, rows of a prime length", "fft.fft(q)", 2 * n * e)
        g.row("fft, columns of 1024", f"fft.fft(z.reshape(1024, {rows}), axis=0)", 2 * n * e)
        g.row("fft, axis in the middle", f"fft.fft(z.reshape(16, 1024, {n // 2**14}), axis=1)", 2 * n * e)
        g.row("fft of real rows of 1024", f"fft.fft(r.reshape({rows}, 1024))", 3 * n * e // 2)
        g.row("rfft, one line", "fft.rfft(r)", n * e)
        g.row("rfft, rows of 1024", f"fft.rfft(r.reshape({rows}, 1024))", n * e)
        g.row("rfft, axis in the middle", f"fft.rfft(r.reshape(16, 1024, {n // 2**14}), axis=1)", n * e)
        g.row("irfft, rows of 1024", "fft.irfft(h)", n * e)
        g.row("fft2", f"fft.fft2(z[:{m * m}].reshape({m}, {m}))", 2 * m * m * e)
        g.row("ifft2", f"fft.ifft2(z[:{m * m}].reshape({m}, {m}))", 2 * m * m * e)
        g.row("rfft2", f"fft.rfft2(r[:{m * m}].reshape({m}, {m}))", m * m * e)
        g.row("irfft2", "fft.irfft2(h2)", m * m * e)
        g.row("fftn, 3 axes", f"fft.fftn(z[:{k**3}].reshape({k}, {k}, {k}))", 2 * k**3 * e)
        g.row("rfftn, 3 axes", f"fft.rfftn(r[:{k**3}].reshape({k}, {k}, {k}))", k**3 * e)
        g.row("fftshift", f"fft.fftshift(z[:{m * m}].reshape({m}, {m}))", 2 * m * m * e)
