"""What Dask's schedulers cost per task, on the same dependency patterns as bench_scheduler; the peer of scripts/bench/scheduler.

usage: dask_tasks.py THREADS [--quick]      prints one JSON object a line

Tasks burn time in hashlib, which lets go of the interpreter's lock, so that threads run side by side. Of Debian's two
schedulers for one process (threads, and the one that runs all in the calling thread) the better one counts.
"""

import hashlib
import json
import math
import sys
import time

import dask
import dask.local
import dask.threaded


def inputs_of(pattern, t, i, width):
    if t == 0 or pattern == "trivial":
        return []
    if pattern == "tree":
        return [i // 2]
    far = 1 if pattern == "stencil" else 1 << ((t - 1) % max(1, width.bit_length() - 1))
    return [p for p in (i - far, i, i + far) if 0 <= p < width]


def graph_of(pattern, width, steps, work):
    graph, last = {}, []
    for t in range(steps):
        points = min(width, 1 << min(t, 60)) if pattern == "tree" else width
        last = [(t, i) for i in range(points)]
        for i in range(points):
            graph[(t, i)] = (work, *[(t - 1, p) for p in inputs_of(pattern, t, i, width)])
    if pattern == "trivial":
        last = list(graph)
    return graph, last


def seconds_of(get, graph, keys):
    start = time.perf_counter()
    get(graph, keys)
    return time.perf_counter() - start


def main():
    threads = int(sys.argv[1])
    quick = "--quick" in sys.argv
    schedulers = {
        "threads": lambda graph, keys: dask.threaded.get(graph, keys, num_workers=threads),
        "synchronous": lambda graph, keys: dask.local.get_sync(graph, keys),
    }

    def nothing(*_):
        return 0

    tasks = 2000 if quick else 20000
    for pattern in ("trivial", "stencil", "fft", "tree"):
        best = None
        for name, get in schedulers.items():
            graph, keys = graph_of(pattern, 64, tasks // 64, nothing)
            seconds = min(seconds_of(get, graph, keys) for _ in range(3)) / len(graph)
            if best is None or seconds < best[0]:
                best = (seconds, name)
        print(json.dumps({"name": f"empty tasks, {pattern}", "seconds_per_task": best[0], "scheduler": best[1]}), flush=True)

    start = time.perf_counter()
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 200000)
    round_seconds = (time.perf_counter() - start) / 200000
    for width in (8 * threads, threads):
        for pattern in ("trivial", "stencil", "fft", "tree"):
            above, share_above = 0.032, 1.0
            seconds = above
            while seconds > 1e-5:
                rounds = max(1, round(seconds / round_seconds))

                def work(*_, rounds=rounds):
                    hashlib.pbkdf2_hmac("sha256", b"x", b"y", rounds)
                    return 0

                exact = rounds * round_seconds
                graph, keys = graph_of(pattern, width, max(8, int(0.3 / exact / width)), work)
                wall = min(seconds_of(schedulers["threads"], graph, keys) for _ in range(1 if quick else 3))
                share = len(graph) * exact / threads / wall
                if share < 0.5:
                    part = (share_above - 0.5) / (share_above - share)
                    above *= (exact / above) ** min(1.0, max(0.0, part))
                    break
                above, share_above = exact, share
                seconds /= math.sqrt(2)
            print(json.dumps({"name": f"METG {pattern}, {threads} threads, width {width}", "metg_seconds": above}), flush=True)


if __name__ == "__main__":
    main()
