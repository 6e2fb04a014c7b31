"""CuPy's or NumPy's side of scripts/bench/linalg, as a co-process (chunked_cupy.py says how).
  time EXPR COUNT M N DTYPE NAME...     makes the arrays of scripts/bench/linalg and computes EXPR so often: {"seconds": [each]}
  wire                                  copies 1 GiB of pinned memory to the GPU: {"bytes_per_second": median}
usage: linalg_peer.py cuda|cpu|emulated < requests
"""

import ctypes
import json
import statistics
import sys
import time


def wire(cupy):
    size = 1 << 30
    pinned, array = cupy.cuda.alloc_pinned_memory(size), cupy.empty(size, dtype="uint8")
    rates = []
    for _ in range(7):
        cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        array.data.copy_from_host_async(ctypes.c_void_p(pinned.ptr), size, cupy.cuda.Stream.null)
        cupy.cuda.Device().synchronize()
        rates.append(size / (time.perf_counter() - begin))
    return statistics.median(rates)


def main():
    device = sys.argv[1]
    if device == "cuda":
        import cupy as np

        synchronize = np.cuda.Device().synchronize
    else:
        import numpy as np

        def synchronize():
            pass

    for line in sys.stdin:
        if line.rstrip("\n") == "wire":
            print(json.dumps({"bytes_per_second": wire(np)}), flush=True)
            continue
        request, expression, count, m, n, dtype, *names = line.rstrip("\n").split("\t")
        m, n = int(m), int(n)
        try:
            random_dtype = {"complex64": "float32"}.get(dtype, dtype)
            arrays = {"a": np.random.default_rng().random((m, n), dtype=random_dtype).astype(dtype, copy=False)}
            if "b" in names:
                arrays["a"][np.arange(n), np.arange(n)] += n
                arrays["b"] = np.random.default_rng().random(n)
            seconds = []
            for _ in range(int(count)):
                synchronize()
                begin = time.perf_counter()
                result = eval(expression, {"np": np}, arrays)
                synchronize()
                seconds.append(time.perf_counter() - begin)
                del result
            print(json.dumps({"seconds": seconds}), flush=True)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main()
