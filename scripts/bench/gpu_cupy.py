"""The rows of bench_gpu that CuPy has too, by CuPy. usage: gpu_cupy.py [--quick] [--json FILE]"""

import json
import sys

import cupy as cp
import programs

quick = "--quick" in sys.argv
out = open(sys.argv[sys.argv.index("--json") + 1], "w") if "--json" in sys.argv else None


def report(name, call, amount=None, unit="TB/s"):
    took = programs.median_seconds(call, cp.cuda.Device().synchronize, each=0.01 if quick else 0.03, batches=3 if quick else 7)
    rate = f"{amount / took / 1e12:9.3f} {unit}" if amount else ""
    print(f"{name:<44} {took * 1e3:10.3f} ms {rate}", flush=True)
    if out:
        out.write(json.dumps({"name": name, "seconds": took}) + "\n")
        out.flush()


@cp.fuse()
def root_of_squares(x, y):
    return cp.sqrt(x * x + y * y) + x


@cp.fuse()
def decayed(x):
    return cp.sqrt(x * x + 1) * cp.exp(-x)


n = 1 << 26 if quick else 1 << 29
for dtype in ("float64", "float32", "float16", "uint8"):
    x = cp.random.random(n, dtype="float32").astype(dtype)
    y = cp.ones(n, dtype)
    z = cp.empty(n, dtype)
    report(f"add {dtype}", lambda: cp.add(x, y, out=z), 3 * x.nbytes)
    if dtype in ("float64", "float32"):
        for function in ("exp", "sin", "log", "tanh"):
            report(f"{function} {dtype}", lambda: getattr(cp, function)(x, out=z), 2 * x.nbytes)
side = int(n**0.5)
x = cp.random.random((side, side))
z = cp.empty((side, side))
row = cp.random.random(side)
report("add a row, float64", lambda: cp.add(x, row, out=z), 2 * x.nbytes)
report("add a column, float64", lambda: cp.add(x, row[:, None], out=z), 2 * x.nbytes)
report("transpose float64", lambda: cp.copyto(z, x.T), 2 * x.nbytes)
report("x + x.T float64", lambda: cp.add(x, x.T, out=z), 3 * x.nbytes)
edge = int(round((side * side) ** (1 / 3)))
edge -= edge**3 > side * side
cube, target = x.ravel()[: edge**3].reshape(edge, edge, edge), z.ravel()[: edge**3].reshape(edge, edge, edge)
report("transpose (2, 1, 0) float64", lambda: cp.copyto(target, cube.T), 2 * cube.nbytes)
few, other = cp.ones(1000), cp.ones(1000)
report("small add float64 (1000)", lambda: few + other)
report("standard normal float32", lambda: cp.random.standard_normal(n, dtype="float32"), 4 * n)
del x, y, z, row, cube, target
cp.get_default_memory_pool().free_all_blocks()

m = n if quick else 1 << 30
x, y = cp.random.random(m), cp.random.random(m)
report("fused sqrt(x*x+y*y)+x float64", lambda: root_of_squares(x, y), 3 * x.nbytes)
del y
report("fused mean(sqrt(x*x+1)*exp(-x)) float64", lambda: decayed(x).mean(), x.nbytes)
del x
cp.get_default_memory_pool().free_all_blocks()

rows, columns = 4096 if quick else 32768, 16384
for name, dtype in (("sum", "float64"), ("sum", "float32"), ("mean", "float64"), ("var", "float64"), ("var", "float32"), ("max", "float64")):
    x = cp.random.random((rows, columns), dtype="float32").astype(dtype)
    for axis, label in ((None, "all"), (1, "axis 1"), (0, "axis 0")):
        report(f"{name} {dtype} {label}", lambda: getattr(x, name)(axis=axis), x.nbytes)
x = cp.random.random((rows, columns))
report("argmax float64 axis 1", lambda: x.argmax(axis=1), x.nbytes)
del x
cp.get_default_memory_pool().free_all_blocks()

k = 2048 if quick else 8192
for dtype in ("float64", "float32"):
    x = cp.random.random((k, k)).astype(dtype)
    y = cp.random.random((k, k)).astype(dtype)
    report(f"gemm {k} {dtype}", lambda: x @ y, 2 * k**3, "TFLOP/s")
tall = cp.random.random((65536 if quick else 524288, 512))
report(f"syrk {tall.shape[0]} x 512 float64 (as gemm)", lambda: tall.T @ tall, 2 * tall.shape[0] * 512**2, "TFLOP/s")
size = 512 if quick else 4096
m = cp.random.random((size, size))
m = m + m.T
report(f"eigh {size} float64", lambda: cp.linalg.eigh(m))
