"""Random samples: generators of the same interface. A generator of the peer is made once, since CuPy's are slow to make."""

GENERATOR = "random.default_rng(1)"
REAL = {
    "random": "n",
    "standard_normal": "n",
    "standard_exponential": "n",
    "standard_gamma": "2.5, n",
}
REAL64 = {
    "uniform": "-1.0, 3.0, n",
    "normal": "1.0, 2.0, n",
    "exponential": "2.0, n",
    "gamma": "0.5, 2.0, n",
    "beta": "2.0, 3.0, n",
    "chisquare": "3.0, n",
    "f": "3.0, 5.0, n",
    "standard_cauchy": "n",
    "laplace": "0.0, 1.0, n",
    "logistic": "0.0, 1.0, n",
    "lognormal": "0.0, 1.0, n",
    "rayleigh": "1.0, n",
    "weibull": "1.5, n",
    "power": "2.0, n",
    "vonmises": "0.0, 4.0, n",
}
COUNTS = {
    "integers": "0, 1000, n",
    "poisson": "4.0, n",
    "binomial": "40, 0.3, n",
    "geometric": "0.2, n",
    "hypergeometric": "20, 30, 10, n",
    "logseries": "0.6, n",
    "zipf": "2.0, n",
}
# The ways that samplers take for other parameters: few successes, and tables that do not reach everywhere.
OTHERS = {
    "poisson": ("100.0, n", "1e6, n"),
    "binomial": ("10, 0.3, n", "1000000, 0.3, n"),
    "hypergeometric": ("20, 30, 5, n", "500000, 300000, 200000, n"),
    "standard_gamma": ("0.5, n",),
}


def random_groups(group, scale):
    n = scale // 4
    g = group("random")
    g.setup = f"generator = {GENERATOR}"

    def row(label, call, size):
        g.row(label, f"{GENERATOR}.{call}", n * size, f"generator.{call}")

    for name, arguments in REAL.items():
        for dtype, size in (("float64", 8), ("float32", 4)):
            row(f"{name} {dtype}", f"{name}({arguments.replace('n', str(n))}, dtype={dtype})", size)
    for table in (REAL64, COUNTS):
        for name, arguments in table.items():
            row(name, f"{name}({arguments.replace('n', str(n))})", 8)
    for name, several in OTHERS.items():
        for arguments in several:
            row(f"{name}({arguments.removesuffix(', n')})", f"{name}({arguments.replace('n', str(n))})", 8)
    row("permutation", f"permutation({n // 16})", 1)
