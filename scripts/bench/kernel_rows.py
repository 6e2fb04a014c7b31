"""Rows of user kernels and fused functions. What quarry calls is compiled into bench_local ("@NAME x y": see
tests/bench/kernel_calls.h); the peer's is CuPy's kernel of the same text, or NumPy's operations."""

SETUP = """
try:
    add_kernel = ElementwiseKernel("T x, T y", "T z", "z = x + y", "bench_add")
    generic_kernel = ElementwiseKernel("T x, T y, T z", "T w", "w = (x * y) + z", "bench_generic")
    chain_kernel = ElementwiseKernel("T x", "T z", "z = sqrt(x * x + 1) * exp(-x)", "bench_chain")
    norm_kernel = ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "bench_norm")
    layers_source = r'''
    extern "C" __global__ void in_memory(const double* layers, double* product, int count, int size) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= size) return;
      product[i] = 1;
      for (int k = 0; k < count; ++k) product[i] *= layers[(long long)k * size + i];
    }
    extern "C" __global__ void in_register(const double* layers, double* product, int count, int size) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= size) return;
      double value = 1;
      for (int k = 0; k < count; ++k) value *= layers[(long long)k * size + i];
      product[i] = value;
    }'''
    raw = {name: RawKernel(layers_source, name) for name in ("in_memory", "in_register")}
    generic_fused = fuse(lambda x, y, z: x * y + z)
    chain_fused = fuse(lambda x: sqrt(x * x + 1) * exp(-x))
    sum_fused = fuse(lambda x: sum(sqrt(x * x + 1) * exp(-x)))

    def layers(name, x):
        count, size = x.shape[0], x.shape[1] * x.shape[2]
        out = empty(x.shape[1:])
        raw[name](((size + 255) // 256,), (256,), (x, out, int32(count), int32(size)))
        return out
except NameError:
    add_kernel = add
    generic_kernel = generic_fused = lambda x, y, z: x * y + z
    chain_kernel = chain_fused = lambda x: sqrt(x * x + 1) * exp(-x)
    sum_fused = lambda x: sum(sqrt(x * x + 1) * exp(-x))

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
