"""CuPy's side of scripts/bench/chunked, and kernels written by hand (chunked_kernels.cu), as a co-process: one request a line on standard
input, its fields separated by tabs, one JSON object a line on standard output.
  arrays ROW ELEMENTS      makes the arrays of the row in place of those before
  eager ROW COUNT          {"seconds": [each]}
  hand ROW COUNT           the same, by hand
  values ROW FILE          what eager computation gives, or of a large result its digest (.npz)
  hand-values ROW FILE
  rates BYTES              {"copy": bytes read and written a second on the device, "to_device": from pinned memory}
  versions                 {"CuPy": version}
usage: chunked_cupy.py cuda|emulated < requests     emulated: NumPy, for values alone
"""

import json
import math
import pathlib
import sys
import time

import numpy
from chunked_gpu_rows import COLUMNS, ROWS, SOFTMAX_COLUMNS, digest

BY_NAME = {row.name: row for row in ROWS}
THREADS, PIECE = 256, 1 << 26


class Peer:
    def __init__(self, device):
        self.arrays, self.cuda = {}, device == "cuda"
        if self.cuda:
            import cupy
            import cupyx.scipy.special as special

            self.np = cupy
            self.module = cupy.RawModule(code=(pathlib.Path(__file__).parent / "chunked_kernels.cu").read_text())
            self.processors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        else:
            import scipy.special as special

            self.np = numpy
        self.names = {name: getattr(self.np, name) for name in dir(self.np) if not name.startswith("_")} | {"special": special}

    def synchronize(self):
        if self.cuda:
            self.np.cuda.Device().synchronize()

    def forget(self):
        if self.cuda:
            self.np.get_default_memory_pool().free_all_blocks()

    def make(self, row, elements):
        self.arrays.clear()
        self.forget()
        for name, (recipe, shape) in row.arrays(elements).items():
            whole = self.np.empty(math.prod(shape))
            for first in range(0, whole.size, PIECE):
                last = min(first + PIECE, whole.size)
                whole[first:last] = eval(recipe, {"i": self.np.arange(first, last)})
            self.arrays[name] = whole.reshape(shape)
        self.forget()

    def eager(self, row):
        scope = self.names | self.arrays
        for name, expression in row.setup:
            scope[name] = eval(expression, scope)
        return eval(row.expression, scope)

    # One kernel launch over elements, in as many blocks as run at once.
    def launch(self, kernel, *arguments, blocks_each=8):
        self.module.get_function(kernel)((self.processors * blocks_each,), (THREADS,), arguments)

    def hand(self, row):
        np, arrays = self.np, self.arrays
        x = arrays.get("x")
        if row.expression == "sum(x)":
            result = np.zeros(1)
            self.launch("sum", x, x.size, result)
            return result[0]
        if row.name.startswith("mean(sqrt"):
            result = np.zeros(1)
            self.launch("mean_chain", x, x.size, result)
            return result[0] / x.size
        if row.name in ("mean and std, axis 0", "standardise"):
            sums, mean, deviation = np.zeros((2, COLUMNS)), np.empty(COLUMNS), np.empty(COLUMNS)
            self.launch("column_sums", x, x.shape[0], numpy.int32(COLUMNS), sums)
            self.module.get_function("column_moments")((1,), (COLUMNS,), (x, sums, x.shape[0], numpy.int32(COLUMNS), mean, deviation))
            if row.name != "standardise":
                return mean, deviation
            result = np.empty_like(x)
            self.launch("standardise", x, mean, deviation, result, x.shape[0], numpy.int32(COLUMNS))
            return result
        if row.name == "sum, axis 1":
            result = np.empty(x.shape[0])
            self.module.get_function("row_sums")((-(-x.shape[0] * 32 // THREADS),), (THREADS,), (x, x.shape[0], numpy.int32(COLUMNS), result))
            return result
        if row.name == "x * 2 + 1":
            result = np.empty_like(x)
            self.launch("line", x, result, x.size)
            return result
        if row.name.startswith("sqrt(x*x"):
            result = np.empty_like(x)
            self.launch("root", x, arrays["y"], result, x.size)
            return result
        if row.name.startswith("Black"):
            price = arrays["price"]
            call, put = np.empty_like(price), np.empty_like(price)
            self.launch("black_scholes", price, arrays["strike"], arrays["years"], call, put, price.size)
            return call, put
        if row.name.startswith("7-point"):
            side, depth = arrays["u"].shape[0], 64
            result = np.empty((side - 2,) * 3)
            blocks = (-(-(side - 2) // 32), -(-(side - 2) // 8), -(-(side - 2) // depth))
            self.module.get_function("stencil")(blocks, (32, 8), (arrays["u"], result, numpy.int32(side), numpy.int32(depth)))
            return result
        if row.name.startswith("softmax"):
            assert SOFTMAX_COLUMNS == 4 * THREADS
            states, result = np.empty((x.shape[0], 2)), np.empty_like(x)
            self.module.get_function("softmax_states")((x.shape[0],), (THREADS,), (x, states))
            self.launch("softmax", x, states, result, x.size)
            return result
        if row.name == "histogram":
            result = np.zeros(100, "u8")
            self.launch("histogram", x, x.size, result)
            return result.astype("i8")
        raise LookupError(f"no kernels for {row.name}")

    def times(self, call, row, count):
        seconds = []
        for _ in range(count):
            self.synchronize()
            begin = time.perf_counter()
            result = call(row)
            self.synchronize()
            seconds.append(time.perf_counter() - begin)
            del result
        return {"seconds": seconds}

    def write(self, call, row, path):
        result = call(row)
        results = result if isinstance(result, tuple) else (result,)
        if row.kept:
            results = [part for r in results for part in eval(digest(row, "r"), self.names | {"r": r})]
        numpy.savez(path, *(self.np.asnumpy(r) if self.cuda else r for r in results))
        return {}

    def rates(self, count):
        np, half = self.np, count // 2
        x, y = np.ones(half, "u1"), np.empty(half, "u1")
        host = numpy.frombuffer(np.cuda.alloc_pinned_memory(half), "u1", half)
        host[:] = 1
        best = {}
        for name, moved, call in (("copy", count, lambda: np.copyto(y, x)), ("to_device", half, lambda: y.set(host))):
            best[name] = moved / min(self.times(lambda _: call(), None, 8)["seconds"])
        return best

    def answer(self, request, *fields):
        if request == "versions":
            return {"CuPy": self.np.__version__} if self.cuda else {"NumPy": self.np.__version__}
        if request == "rates":
            return self.rates(int(fields[0]))
        row = BY_NAME[fields[0]]
        if request == "arrays":
            self.make(row, int(fields[1]))
            return {}
        call = self.hand if request.startswith("hand") else self.eager
        if request.endswith("values"):
            return self.write(call, row, fields[1])
        return self.times(call, row, int(fields[1]))


def main():
    peer = Peer(sys.argv[1])
    for line in sys.stdin:
        try:
            found = peer.answer(*line.rstrip("\n").split("\t"))
        except Exception as error:  # a row of its own
            found = {"error": f"{type(error).__name__}: {error}".partition("\n")[0]}
            peer.forget()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
