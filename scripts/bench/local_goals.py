"""Goals of the rows of scripts/bench/local and sparse: those set before the work began. The first pattern that fits a row's name counts."""

import fnmatch

import record

# (pattern of the name, kind, number, text). Kinds: ceiling (share of the contiguous copy's rate), peer (times its speed), seconds, rate (bytes per second).
GPU = [
    ("elementwise *", "ceiling", 0.96, "0.96 of the copy"),
    ("copy *: (2, 1, 0)", "rate", 3.8e12, "3.8 TB/s"),
    ("reduce * cube: cumsum *", "rate", 2e12, "2 TB/s"),
    ("reduce * cube: var *", "rate", 3.9e12, "3.9 TB/s"),
    ("reduce *: argmax *", "peer", record.SLOWER, "not slower"),
    ("reduce *: cumsum *", None, 0, ""),
    ("reduce *: var *", None, 0, ""),
    ("reduce *", "ceiling", 0.93, "0.93 of the copy"),
    ("sort float32: argsort", "seconds", 4.5e-3, "4.5 ms"),
    ("sort *: *partition", "peer", record.SLOWER, "not slower"),
    ("sort *: top 100", "peer", record.SLOWER, "not slower"),
    ("sort *: percentile", "peer", record.SLOWER, "not slower"),
    ("sort *: median", "peer", record.SLOWER, "not slower"),
    ("ten elements: x + y", "seconds", 4.5e-6, "4.5 us"),
    ("ten elements: exp(x)", "seconds", 4.5e-6, "4.5 us"),
    ("tall float64 65536 x 512: qr*", "seconds", 6e-3, "6 ms"),
    ("tall float* 65536 x 512: svd of 8192 rows", "seconds", 25e-3, "25 ms"),
    ("program random inverse: created and inverted, 10000", "seconds", 0.119, "119 ms"),
    ("linalg * 2000 of 64: *", "peer", record.SLOWER, "not slower"),
    ("fft *", "peer", record.SLOWER, "not slower"),
    ("user kernels*", "peer", record.SLOWER, "not slower"),
    ("raw kernels*", "peer", record.SLOWER, "not slower"),
    ("random: standard_normal float32", "rate", 1.5e12, "1.5 TB/s"),
    ("random: *", "peer", record.SLOWER, "not slower"),
    ("sparse: *", "peer", record.SLOWER, "not slower"),
]
ONE_CORE = [
    ("user kernels float*: fused sqrt(x[*]x+1)[*]exp(-x)", "peer", 4, "4 times NumPy"),
    ("*", "peer", 0.9, "at most a tenth slower"),
]
TWO_CORES = [
    ("elementwise *", "ceiling", 0.85, "0.85 of the copy"),
    ("reduce *", "ceiling", 0.85, "0.85 of the copy"),
]


def goal_of(name, device, threads=1, moved=None):
    """The goal of a row, with what it moves at least in bytes where the goal is a rate; None without one."""
    table = GPU if device == "cuda" else ONE_CORE if threads == 1 else TWO_CORES
    for pattern, kind, number, text in table:
        if fnmatch.fnmatchcase(name, pattern):
            if kind in ("ceiling", "peer"):
                return record.goal(text, number, kind)
            if kind == "seconds":
                return record.goal(text, number)
            return record.goal(text, moved / number) if kind == "rate" and moved else None
    return None


def size_of(moved):
    """The least number of bytes that a row moves, for its size."""
    if not moved:
        return None
    scale, name = next((s for s in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if moved >= s[0]), (1, "B"))
    return f"{moved / scale:.3g} {name}"
