"""Cases over small sparse matrices with SciPy's results, for tests/unit/local/sparse/oracle_test.cpp.

A row is one line:
    matrix NAME DTYPE ROWS COLUMNS N | rows | columns | values      coordinates, unsorted and with duplicates
    dense NAME DTYPE NDIM extents | values
    case OPERATION ARGUMENTS = DTYPE NDIM extents | values
where arguments are NAME:FORMAT (a matrix), NAME (an array), numbers, slices (1:5:2), lists ([0,2]). Complex values are two
numbers each; ~ stands for the result of the case before. The results of quarry's functions are compared after toarray().
"""
import numpy as np
import scipy.sparse as sp

rng = np.random.default_rng(20261121)
lines = []
last = ""
matrices, arrays = {}, {}


def text(values):
    values = np.ascontiguousarray(values).ravel()
    if values.dtype.kind == "c":
        values = values.view(values.real.dtype)
    if values.dtype.kind == "b":
        values = values.astype(int)
    if values.dtype.kind == "f":
        return " ".join("0" if v == 0 else repr(v.item()) if values.dtype == np.float64 else str(v) for v in values)
    return " ".join(map(str, values))


def some_values(count, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, count).astype(dtype)
    if dtype.kind == "c":
        return (np.round(rng.normal(size=count), 2) + 1j * np.round(rng.normal(size=count), 2)).astype(dtype)
    return np.round(rng.normal(size=count), 2).astype(dtype)


def matrix(name, dtype, shape, count):
    rows = rng.integers(0, max(1, shape[0]), count) if shape[0] else np.zeros(0, int)
    columns = rng.integers(0, max(1, shape[1]), len(rows)) if shape[1] else np.zeros(0, int)
    rows = rows[: len(columns)]
    values = some_values(len(rows), dtype)
    matrices[name] = sp.coo_array((values, (rows, columns)), shape=shape)
    lines.append(f"matrix {name} {np.dtype(dtype).name} {shape[0]} {shape[1]} {len(rows)} | {text(rows)} | {text(columns)} | {text(values)}")


def array(name, values):
    arrays[name] = values
    lines.append(f"dense {name} {values.dtype.name} {values.ndim} {' '.join(map(str, values.shape))} | {text(values)}")


def case(operation, *arguments, result):
    if sp.issparse(result):
        result = result.toarray()
    result = np.asarray(result)
    global last
    answer = f"{result.dtype.name} {result.ndim} {' '.join(map(str, result.shape))} | {text(result)}"
    lines.append(f"case {operation} {' '.join(map(str, arguments))} = {'~' if answer == last else answer}")
    last = answer


def get(name, form):
    return matrices[name].asformat(form)


DTYPES = ["float64", "float32", "complex128", "int64", "int32", "uint8", "bool"]
for letter, dtype in zip("abcdefg", DTYPES):
    matrix(f"{letter}1", dtype, (6, 8), 20)
    matrix(f"{letter}2", dtype, (6, 8), 14)
    matrix(f"{letter}3", dtype, (8, 5), 17)
    matrix(f"{letter}4", dtype, (2, 3), 4)
    matrix(f"{letter}q", dtype, (7, 7), 25)
matrix("none", "float64", (4, 3), 0)
matrix("flat", "float64", (0, 3), 0)
matrix("thin", "float64", (3, 0), 0)
matrix("one", "float64", (1, 1), 1)
matrix("row", "float64", (1, 8), 5)
matrix("column", "float64", (6, 1), 3)
matrix("full", "float64", (4, 4), 60)
for dtype in DTYPES:
    array(f"v8_{dtype}", some_values(8, dtype))
    array(f"v6_{dtype}", some_values(6, dtype))
    array(f"m8_{dtype}", some_values(8 * 3, dtype).reshape(8, 3))
    array(f"m6_{dtype}", some_values(2 * 6, dtype).reshape(2, 6))
array("d68", some_values(48, "float64").reshape(6, 8) + 0.25)
array("v3", some_values(3, "float64"))

FORMATS = ["coo", "csr", "csc", "dia"]
PAIRS = [("csr", "csr"), ("csc", "csc"), ("coo", "csr"), ("csr", "dia"), ("csc", "csr"), ("dia", "dia")]
everything = [n for n in matrices]

for name in everything:
    m = matrices[name]
    dense = m.toarray()
    for operation, result in (("toarray", m), ("transpose", m.T)):
        for form in FORMATS:
            case(operation, f"{name}:{form}", result=result)
    for axis in (0, 1):
        for form in FORMATS:
            case("sum", f"{name}:{form}", axis, result=dense.sum(axis=axis))
        if 0 not in m.shape and m.dtype.kind != "b":
            case("mean", f"{name}:csr", axis, result=dense.mean(axis=axis))
        case("count_nonzero", f"{name}:csr", axis, result=np.count_nonzero(dense, axis=axis))
    case("sum", f"{name}:dia", result=dense.sum())
    if 0 not in m.shape and m.dtype.kind != "c":
        for function in ("max", "min", "argmax", "argmin"):
            case(function, f"{name}:csc", result=getattr(dense, function)())
            for axis in (0, 1):
                case(function, f"{name}:csr", axis, result=getattr(dense, function)(axis=axis))
    for k in (-2, 1, 9):
        case("diagonal", f"{name}:csr", k, result=m.tocsr().diagonal(k))
        for function in ("tril", "triu"):
            case(function, f"{name}:csc", k, result=getattr(sp, function)(m.tocsc(), k))
    case("conj", f"{name}:csr", result=m.conj())
    case("real", f"{name}:csr", result=m.toarray().real)
    case("imag", f"{name}:csr", result=m.toarray().imag)
    if m.dtype.kind != "b":
        case("negative", f"{name}:dia", result=-m)
        case("power", f"{name}:csr", 2, result=m.tocsr().power(2))
    case("absolute", f"{name}:coo", result=abs(m.toarray()))
    case("asfptype", f"{name}:csr", result=m if m.dtype.kind in "fc" else m.tocsr().astype("float64"))
    total = m.shape[0] * m.shape[1]
    case("reshape", f"{name}:csr", 1, total, "C", result=m.toarray().reshape(1, total))
    case("reshape", f"{name}:csc", m.shape[1], m.shape[0], "F", result=m.toarray().reshape(m.shape[::-1], order="F"))

BINARY = {"add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y, "equal": lambda x, y: x == y,
          "not_equal": lambda x, y: x != y, "less": lambda x, y: x < y, "greater_equal": lambda x, y: x >= y,
          "maximum": np.maximum, "minimum": np.minimum}
for first, second in [("a1", "a2"), ("b1", "b2"), ("c1", "c2"), ("d1", "d2"), ("g1", "g2"), ("a1", "c2"), ("b1", "d2"), ("e1", "f2"), ("a1", "a1")]:
    x, y = matrices[first].toarray(), matrices[second].toarray()
    for operation, function in BINARY.items():
        if operation == "subtract" and "g1" in (first,):
            continue
        if np.result_type(x, y).kind == "c" and operation in ("less", "greater_equal"):
            continue
        for f1, f2 in PAIRS if first in ("a1", "d1") else PAIRS[:1]:
            case(operation, f"{first}:{f1}", f"{second}:{f2}", result=function(x, y))
for shape in ("row", "column", "one"):
    case("multiply", "a1:csr", f"{shape}:csc", result=matrices["a1"].toarray() * matrices[shape].toarray())
case("add", "none:csr", "none:csr", result=matrices["none"])
case("add", "flat:csr", "flat:csc", result=matrices["flat"])
for form in FORMATS:
    a, dense = get("a1", form), matrices["a1"].toarray()
    d = arrays["d68"]
    case("add_dense", f"a1:{form}", "d68", result=dense + d)
    case("multiply_dense", f"a1:{form}", "d68", result=dense * d)
    case("multiply_dense", f"a1:{form}", "v8_float64", result=dense * arrays["v8_float64"])
    case("divide_dense", f"a1:{form}", "d68", result=dense / d)
    case("scale", f"a1:{form}", 2.5, result=dense * 2.5)
    case("scale", f"d1:{form}", 3, result=matrices["d1"].toarray() * 3)
    case("scale", f"d1:{form}", 2.5, result=matrices["d1"].toarray() * 2.5)
    case("divide", f"a1:{form}", 4.0, result=dense / 4.0)
    case("divide", f"d1:{form}", 4, result=matrices["d1"].toarray() / 4)
    for operation in ("less", "not_equal", "greater_equal"):
        for bound in (0, 0.5, -0.5):
            case(f"{operation}_scalar", f"a1:{form}", bound, result=BINARY[operation](dense, bound))
    case("maximum_scalar", f"a1:{form}", 0.3, result=np.maximum(dense, 0.3))
    case("minimum_scalar", f"a1:{form}", 0.3, result=np.minimum(dense, 0.3))

for letter, dtype in zip("abcdefg", DTYPES):
    for form in FORMATS if letter in "acd" else ["csr", "csc"]:
        a, q = matrices[f"{letter}1"].toarray(), matrices[f"{letter}3"].toarray()
        for vector in (f"v8_{dtype}", f"m8_{dtype}", "v8_float64"):
            case("matmul_dense", f"{letter}1:{form}", vector, result=a @ arrays[vector])
        for vector in (f"v6_{dtype}", f"m6_{dtype}"):
            case("dense_matmul", vector, f"{letter}1:{form}", result=arrays[vector] @ a)
        for other in ("csr", form):
            case("matmul", f"{letter}1:{form}", f"{letter}3:{other}", result=a @ q)
    case("kron", f"{letter}3:csr", f"{letter}4:coo", result=np.kron(matrices[f"{letter}3"].toarray(), matrices[f"{letter}4"].toarray()))
case("matmul", "none:csr", "thin:csr", result=np.zeros((4, 0)))
case("matmul", "thin:csr", "flat:csr", result=np.zeros((3, 3)))
case("matmul_dense", "none:csr", "v3", result=np.zeros(4))
case("kronsum", "aq:csr", "full:csc", result=sp.kronsum(matrices["aq"], matrices["full"]))
case("matrix_power", "full:csr", 3, result=np.linalg.matrix_power(matrices["full"].toarray(), 3))

INDICES = [("2", ":"), (":", "3"), ("-1", ":"), (":", "-8"), ("1:5", "2:7"), ("::-1", ":"), (":", "::-1"), ("5:0:-2", "::3"), ("::2", "1::2"),
           ("[4,0,0]", ":"), (":", "[7,1,1,0]"), ("[3,-1]", "[0,2,-2]"), ("3:3", ":"), (":", "5:2"), ("2", "[5,0]"), ("4", "6"), ("[]", "::2")]


def term(text_):
    if text_.startswith("["):
        return np.array([int(x) for x in text_[1:-1].split(",") if x], dtype=int)
    if ":" in text_:
        return slice(*[int(x) if x else None for x in text_.split(":")])
    return int(text_)


def two_d(dense, row, column):
    """What the indices name, integers as axes of one element."""
    rows, columns = (np.atleast_1d(np.arange(n)[term(t)]) for n, t in zip(dense.shape, (row, column)))
    return np.ix_(rows, columns)


for name in ("a1", "c1", "d1", "g1"):
    dense = matrices[name].toarray()
    for row, column in INDICES:
        for form in ("csr", "csc", "coo", "dia") if name == "a1" else ("csr", "csc"):
            case("index", f"{name}:{form}", row, column, result=dense[two_d(dense, row, column)])
    case("values_at", f"{name}:csr", "[0,5,-1,2,2]", "[1,7,-8,2,2]", result=dense[[0, 5, -1, 2, 2], [1, 7, -8, 2, 2]])
for row, column in INDICES:
    for form in ("csr", "csc", "dia"):
        changed = matrices["a1"].toarray()
        changed[two_d(changed, row, column)] = 2.5
        case("set", f"a1:{form}", row, column, 2.5, result=changed)
changed = matrices["a1"].toarray()
changed[1:4, 2:5] = matrices["a2"].toarray()[:3, :3]
case("set_sparse", "a1:csr", "1:4", "2:5", "a2:csc", "0:3", "0:3", result=changed)
for k in (-1, 0, 2):
    changed = sp.csr_array(matrices["a1"])
    changed.setdiag(1.5, k)
    case("setdiag", "a1:csr", k, 1.5, result=changed)
    changed.setdiag(arrays["v3"], k)
    case("setdiag_array", "a1:dia", k, 1.5, "v3", result=changed)

case("hstack", "a1:csr", "a2:coo", "column:csc", result=np.hstack([matrices[n].toarray() for n in ("a1", "a2", "column")]))
case("hstack", "a1:csc", "g2:csc", result=np.hstack([matrices[n].toarray() for n in ("a1", "g2")]))
case("vstack", "a1:csr", "c2:csr", "row:csr", result=np.vstack([matrices[n].toarray() for n in ("a1", "c2", "row")]))
case("block_diag", "a1:csr", "none:coo", "one:dia", result=sp.block_diag([matrices[n] for n in ("a1", "none", "one")]))
case("block_array", "a1:csr", "column:csr", "row:csr", result=sp.block_array([[matrices["a1"], matrices["column"]], [matrices["row"], None]]))
for m, n, k in [(4, 4, 0), (3, 5, 1), (5, 3, -2), (2, 2, 7), (0, 0, 0)]:
    case("eye", m, n, k, result=np.eye(m, n, k))
case("diags", "v3", "[0]", 3, 3, result=sp.diags_array(arrays["v3"]).toarray())
case("diags", "v3", "[1]", 4, 4, result=sp.diags_array([arrays["v3"]], offsets=[1]).toarray())
case("diags", "v3", "[-2]", 5, 4, result=sp.diags_array([arrays["v3"]], offsets=[-2], shape=(5, 4)).toarray())
case("spdiags", "m8_float64", "[0,2,-1,3,4,-3,5,-2]", 4, 5, result=sp.spdiags(arrays["m8_float64"], [0, 2, -1, 3, 4, -3, 5, -2], 4, 5))


def rows():
    return [[line] for line in lines]
