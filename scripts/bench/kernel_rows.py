"""Rows of user kernels and fused functions. What quarry calls is compiled into bench_local ("@NAME x y": see
tests/bench/kernel_calls.h); the peer's is CuPy's kernel of the same text, or NumPy's operations."""

import pathlib

LAYERS = pathlib.Path(__file__).resolve().parents[2] / "apps/examples/layers_kernel.h"
LAYERS_SOURCE = LAYERS.read_text().split('R"cuda(')[1].split(')cuda"')[0]

# Fused functions have names: CuPy's kernels take them.
SETUP = f"""
layers_source = {LAYERS_SOURCE!r}
""" + """
def generic_function(x, y, z):
    return x * y + z

def chain_function(x):
    return sqrt(x * x + 1) * exp(-x)

def sum_function(x):
    return sum(sqrt(x * x + 1) * exp(-x))

try:
    add_kernel = ElementwiseKernel("T x, T y", "T z", "z = x + y", "bench_add")
    generic_kernel = ElementwiseKernel("T x, T y, T z", "T w", "w = (x * y) + z", "bench_generic")
    chain_kernel = ElementwiseKernel("T x", "T z", "z = sqrt(x * x + 1) * exp(-x)", "bench_chain")
    norm_kernel = ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "bench_norm")
    raw = {name: RawKernel(layers_source, name) for name in ("in_memory", "in_register")}
    generic_fused, chain_fused, sum_fused = fuse(generic_function), fuse(chain_function), fuse(sum_function)

    def layers(name, x):
        count, size = x.shape[0], x.shape[1] * x.shape[2]
        out = empty(x.shape[1:])
        raw[name](((size + 255) // 256,), (256,), (x, out, int32(count), int32(size)))
        return out
except NameError:
    add_kernel = add
    generic_kernel = generic_fused = generic_function
    chain_kernel = chain_fused = chain_function
    sum_fused = sum_function

    def norm_kernel(x, axis=None):
        return sqrt(sum(x * x, axis=axis))

    def layers(name, x):
        return prod(x, axis=0)
"""


def kernel_groups(group, uniform, scale):
    for dtype in ("float64", "float32"):
        e = 8 if dtype == "float64" else 4
        side = int(scale**0.5) // 64 * 64
        n = side * side
        g = group(f"user kernels {dtype}", x=f"({uniform(n, dtype)}).reshape({side}, {side})", y="x + 1", r="x[0] + x[1]")
        g.setup = SETUP
        g.row("elementwise x + y", "@add x y", 3 * n * e, peer="add_kernel(x, y)")
        g.row("elementwise x + y, transposed", "@add x.T y.T", 3 * n * e, peer="add_kernel(x.T, y.T)")
        g.row("elementwise x + a row", "@add x r", 2 * n * e, peer="add_kernel(x, r)")
        g.row("elementwise (x * y) + z", "@generic x y x", 3 * n * e, peer="generic_kernel(x, y, x)")
        g.row("fused x * y + z", "@fused_generic x y x", 3 * n * e, peer="generic_fused(x, y, x)")
        g.row("elementwise sqrt(x*x+1)*exp(-x)", "@chain x", 2 * n * e, peer="chain_kernel(x)")
        g.row("fused sqrt(x*x+1)*exp(-x)", "@fused_chain x", 2 * n * e, peer="chain_fused(x)")
        g.row("fused sum of it", "@fused_sum x", n * e, peer="sum_fused(x)")
        g.row("reduction norm", "@norm x", n * e, peer="norm_kernel(x)")
        g.row("reduction norm, axis 0", "@norm0 x", n * e, peer="norm_kernel(x, axis=0)")
        g.row("reduction norm, axis 1", "@norm1 x", n * e, peer="norm_kernel(x, axis=1)")
    count, side = (4096, 512) if scale >= 2**28 else (64, 512)
    g = group("raw kernels", x=f"({uniform(count * side * side)}).reshape({count}, {side}, {side}) + 0.5")
    g.setup = SETUP
    g.row("product of layers in global memory", "@layers_in_memory x", count * side * side * 8, peer="layers('in_memory', x)")
    g.row("product of layers in a register", "@layers_in_register x", count * side * side * 8, peer="layers('in_register', x)")
    g = group("user kernels, ten elements", x="arange(10.0)", y="arange(10.0) + 1")
    g.setup = SETUP
    g.row("elementwise x + y", "@add x y", peer="add_kernel(x, y)")
    g.row("fused x * y + z", "@fused_generic x y x", peer="generic_fused(x, y, x)")
    g.row("reduction norm", "@norm x", peer="norm_kernel(x)")
