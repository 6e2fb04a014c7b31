"""Evaluates the same expressions with NumPy and with `quarry eval` on 1, 2 and 4 ranks, and compares values, dtypes and, between runs, bits.

usage: differential.py QUARRY [--gpus N] [MPIRUN ...]      MPIRUN: the launcher and its options, up to -n
With --gpus the runs are on up to N ranks with a GPU each, instead of on the CPU and on emulated devices.
"""

import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np

# One expression a line; names are the data sets below and NumPy's functions.
EXPRESSIONS = """
x
x + y
x * 2 + v
x[::2, -3:]
x[::-1, ::-2]
x[3]
x[:, 4]
x[..., None] * v[None, :, None]
x.T
x.T[::3] + 1
(x + w).T
transpose(cube, (2, 0, 1))
transpose(cube * 2, (1, 2, 0)) + 0.5
cube[1:, ::-1, 3]
reshape(x, (23, 40))
reshape(x + 1, (-1,))
reshape(cube, (6, 35)) * 2
reshape(x.T, (40, 23))
reshape(x[::2, 1:], (11, 40))
concatenate([x, w], axis=0)
concatenate([x, x * 2, w], axis=1)
concatenate([x[:5], w[7:9]])
stack([x, w], axis=1)
stack([x[0], v])
sum(x)
sum(x, axis=0)
sum(x, axis=1)
sum(x, axis=(0, 1))
sum(x + w.T.T, axis=0)
sum(i)
sum(i, axis=0)
sum(b, axis=0)
sum(c, axis=1)
sum(cube, axis=(0, 2))
sum(cube, axis=1, keepdims=True)
prod(y[:4, :3])
min(x)
min(x, axis=0)
max(i, axis=1)
max(x + w, axis=0)
any(x > 2, axis=0)
all(x < 5)
argmin(x)
argmax(x, axis=0)
argmax(i, axis=1)
argmin(cube, axis=1)
argmax(x.T)
count_nonzero(i > 3)
count_nonzero(x > 0, axis=0)
mean(x)
mean(x, axis=0)
mean(i, axis=1)
mean(y)
mean(c)
var(x)
var(x, axis=0, ddof=1)
std(x, axis=1)
std(x - mean(x, axis=0), axis=0)
std(i, ddof=1)
(x - mean(x, axis=0)) / std(x, axis=0, ddof=1)
(x - mean(x, axis=1, keepdims=True)).T
x - mean(x)
x - x[0]
x / sum(abs(x), axis=1)[:, None]
mean(sqrt(x * x + 1) * exp(-x))
mean(sqrt(x * x + 1) * exp(-x), axis=0)
where(x > 0, x, -w)
where(b, i, 0)
clip(x, -0.5, 0.5)
clip(i, 2, None)
x > w
(x > 0) & (w < 0)
~b
i // 3
i % 4
-i
i << 2
abs(c)
conjugate(c) * c
exp(c)
sqrt(abs(x))
floor(x * 3)
rint(x * 3)
maximum(x, w)
arctan2(x, w)
hypot(x, 2)
power(abs(x), 1.5)
log1p(abs(x))
logaddexp(x, w)
astype(x * 10, int32)
astype(i, float32) / 3
astype(x, complex128)
isnan(n)
sum(n)
max(n, axis=0)
argmax(n, axis=1)
x @ w.T
x.T @ x
(x - mean(x, axis=0)).T @ (x - mean(x, axis=0)) / (x.shape[0] - 1)
w @ v
v @ v
v @ w.T
x.T @ w
i @ i.T
conjugate(c).T @ c
cube @ cube[0].T
swap
arange(10)
arange(2, 20, 3) * x[0, 0]
linspace(0, 1, 7)
eye(4)
eye(23) @ v
zeros((3, 4)) + ones(4)
full((2, 3), 7)
arange(920).reshape(40, 23) + x
sum(arange(1000000))
fortran
empty_rows
sum(empty_rows, axis=0)
sum(empty_rows)
empty_rows.T @ empty_rows
scalar
scalar * x
x[5:5]
concatenate([x[5:5], x])
x[0, 0]
x[-1, -1] * 2
linalg.eigh(x.T @ x)[0]
abs(linalg.eigh(x.T @ x)[1])
x.shape[0]
"""


def data():
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 40, 23))
    n = x.copy()
    n[3, 4] = n[17, 0] = np.nan
    return {
        "x": x,
        "w": w,
        "n": n,
        "y": rng.standard_normal((40, 23)).astype("f4"),
        "v": rng.standard_normal(23),
        "i": rng.integers(-9, 9, (40, 23)).astype("i4"),
        "b": rng.random((40, 23)) < 0.3,
        "c": rng.standard_normal((40, 23)) + 1j * rng.standard_normal((40, 23)),
        "cube": rng.standard_normal((5, 6, 7)),
        "swap": rng.standard_normal((40, 23)).astype(">f8"),
        "fortran": np.asfortranarray(rng.standard_normal((9, 8))),
        "empty_rows": np.zeros((0, 23)),
        "scalar": np.float64(2.5),
    }


def main():
    quarry, launcher = sys.argv[1], sys.argv[2:]
    gpus = 0
    if launcher[:1] == ["--gpus"]:
        gpus, launcher = int(launcher[1]), launcher[2:]
    arrays = data()
    expressions = [line.strip() for line in EXPRESSIONS.strip().splitlines()]
    names = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
    names.update(astype=lambda a, dtype: a.astype(dtype), bool=np.bool_, int32=np.int32)
    with np.errstate(all="ignore"):
        expected = [np.asarray(eval(expression, {"__builtins__": {}}, {**names, **arrays})) for expression in expressions]

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with h5py.File(folder / "in.h5", "w") as file:
            for name, value in arrays.items():
                options = {}
                if name == "x":
                    options = dict(chunks=(8, 6))
                if name == "w":
                    options = dict(chunks=(16, 4), compression="gzip", shuffle=True, fletcher32=True)
                file.create_dataset(name, data=value, **options)
        script = folder / "script.txt"
        script.write_text("".join(f"r{k} = {expression}\n" for k, expression in enumerate(expressions)))
        # (ranks, options); runs of one group must agree bit for bit.
        groups = {
            "auto chunks": [(1, []), (2, [])],
            "small chunks": [(1, ["--chunks", "7,5"]), (2, ["--chunks", "7,5"]), (4, ["--chunks", "7,5"]), (2, ["--chunks", "7,5", "--threads", "1"])],
            "emulated": [(2, ["--chunks", "7,5", "--device", "emulated", "--memory", "256MiB", "--host-memory", "64MiB"])],
        }
        if gpus:
            small = ["--chunks", "7,5", "--device", "cuda", "--memory", "1GiB", "--host-memory", "256MiB"]
            groups = {
                "GPU": [(1, ["--device", "cuda", "--memory", "1GiB"])],
                "GPU, small chunks": [(ranks, small) for ranks in (1, 2, 4) if ranks <= gpus],
            }
        failures = comparisons = 0
        for group, runs in groups.items():
            first = None
            for ranks, options in runs:
                output = folder / "out.h5"
                output.unlink(missing_ok=True)
                command = [*launcher, "-n", str(ranks)] if ranks > 1 else []
                command += [quarry, "eval", "-f", script, "-o", output, "--progress", "off", *options]
                for name in arrays:
                    command += ["-i", f"{name}={folder / 'in.h5'}:/{name}"]
                run = subprocess.run(command, capture_output=True, text=True, timeout=300)
                label = f"{group}, {ranks} ranks {' '.join(options)}"
                if run.returncode:
                    print(f"{label}: exit {run.returncode}\n{run.stderr}")
                    return 1
                results = []
                with h5py.File(output) as file:
                    for k, expression in enumerate(expressions):
                        value = file[f"r{k}"][()]
                        results.append(np.asarray(value))
                        comparisons += 1
                        if value.shape != expected[k].shape:
                            problem = f"shape {value.shape}, not {expected[k].shape}"
                        elif np.asarray(value).dtype != expected[k].dtype.newbyteorder("="):
                            problem = f"dtype {np.asarray(value).dtype}, not {expected[k].dtype}"
                        elif not np.allclose(value, expected[k], rtol=2e-5 if expected[k].dtype == "f4" else 1e-10, atol=1e-10, equal_nan=True):
                            problem = f"values differ by up to {np.nanmax(np.abs(value - expected[k]))}"
                        elif first is not None and results[k].tobytes() != first[k].tobytes():
                            problem = "bits differ from the first run of the group"
                        else:
                            continue
                        failures += 1
                        print(f"{label}: {expression}: {problem}")
                first = first or results
        print(f"{len(expressions)} expressions, {comparisons} comparisons, {failures} failures")
        return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
