"""random.default_rng() and its methods (local/ops/functions/random.def).

The numbers are not NumPy's, whose Generator has another bit generator; the tests of local/ops/random/random.h judge the
distributions. Here are what does not depend on them: shapes, dtypes, orders, values of parameters that leave no choice,
and errors. By decision NaN is an error for every parameter, where NumPy lets it through for some; multiples beyond
NumPy's parameters (dtype= everywhere) are not in the cases.
"""
import numpy as np
from expressions import INTEGERS, case, sample

RNG = "random.default_rng(1)"

# Parameters that are fine, as Python writes them.
GOOD = {
    "uniform": "-1, 2.5", "normal": "1, 2", "exponential": "2", "standard_gamma": "0.5", "gamma": "2, 3", "beta": "1, 2",
    "chisquare": "3", "f": "3, 4", "gumbel": "0, 1", "laplace": "0, 1", "logistic": "0, 1", "lognormal": "0, 1",
    "noncentral_chisquare": "2, 3", "noncentral_f": "2, 3, 1", "pareto": "2", "power": "2", "rayleigh": "1",
    "standard_t": "4", "triangular": "0, 1, 3", "vonmises": "0, 1", "wald": "1, 1", "weibull": "2",
    "binomial": "10, 0.5", "geometric": "0.2", "hypergeometric": "10, 5, 4", "logseries": "0.5",
    "negative_binomial": "3, 0.5", "poisson": "3", "zipf": "2",
}
NONE = ["random", "standard_normal", "standard_exponential", "standard_cauchy"]

BAD = {
    "uniform": ["3, 1", "0, inf"], "normal": ["0, -1", "1j", "0, 1, -1"], "exponential": ["-1"],
    "standard_gamma": ["-1"], "gamma": ["-1", "1, -1"], "beta": ["0, 1", "1, 0"], "chisquare": ["0"], "f": ["0, 1", "1, 0"],
    "gumbel": ["0, -1"], "laplace": ["0, -1"], "logistic": ["0, -1"], "lognormal": ["0, -1"],
    "noncentral_chisquare": ["0, 1", "1, -1"], "noncentral_f": ["0, 1, 1", "1, 0, 1", "1, 1, -1"], "pareto": ["0"],
    "power": ["0"], "rayleigh": ["-1"], "standard_t": ["0"], "triangular": ["3, 2, 1", "1, 3, 2", "1, 1, 1"],
    "vonmises": ["0, -1"], "wald": ["0, 1", "1, 0"], "weibull": ["-1"], "binomial": ["-1, 0.5", "5, 1.5", "5, nan"],
    "geometric": ["0", "1.5", "nan"], "hypergeometric": ["1, 2, 5", "1000000000, 1, 1", "1, -1, 1"],
    "logseries": ["1", "-1", "nan"], "negative_binomial": ["0, 0.5", "1, 0"], "poisson": ["-1", "nan", "1e19"],
    "zipf": ["1", "nan"],
}


def call(name, arguments=""):
    return f"random.Generator.{name}({RNG}{', ' if arguments else ''}{arguments})"


def cases():
    yield case("random.default_rng(-1)")
    yield case("random.default_rng(1.5)")
    for name, good in GOOD.items():
        for size in ["3", "(2, 3)", "0", "(2, 0, 3)"]:
            text = call(name, f"{good}, size={size}")
            yield case(f"({text}.shape, {text}.dtype)")
        yield case(call(name, good + ", size=-1"))
        for bad in BAD[name]:
            yield case(call(name, bad))
        count = good.count(",") + 1
        arrays = [sample("float32", (3, 1)) * 0 + np.float32(v) for v in good.split(",")]
        names = ["a", "b", "c"][:count]
        inputs = dict(zip(names, arrays))
        yield case(call(name, ", ".join(names)) + ".shape", inputs)
        yield case(call(name, ", ".join(names) + ", size=(2, 3, 4)") + ".shape", inputs)
        yield case(call(name, ", ".join(names) + ", size=(3,)"), inputs)
    for name in NONE:
        for size in ["3", "(2, 3)", "0"]:
            yield case(f"{RNG}.{name}({size}).shape")
            text = call(name, f"size={size}")
            yield case(f"({text}.shape, {text}.dtype)")
    for name in ["random", "standard_normal", "standard_exponential"]:
        yield case(call(name, "3, dtype=float32") + ".dtype")
        yield case(call(name, "3, dtype=int32"))
        yield case(call(name, "out=a") + ".shape", a=np.zeros((2, 3)))
        yield case(call(name, "3, out=a"), a=np.zeros(4))
        yield case(call(name, "out=a"), a=np.zeros(4, "float32"))
    yield case(call("standard_gamma", "2, dtype=float32, size=3") + ".dtype")
    yield case(call("standard_gamma", "a, out=b") + ".shape", a=np.ones(3), b=np.zeros((2, 3)))
    yield case(call("standard_gamma", "a, out=b"), a=np.ones(3), b=np.zeros(2))

    for dtype in INTEGERS + ["bool"]:
        yield case(call("integers", f"0, 1, (2, 3), dtype={dtype}"))
        yield case(call("integers", f"1, 1, 5, dtype={dtype}, endpoint=True"))
        yield case(call("integers", f"5, 300, dtype={dtype}") + ".dtype" if dtype not in ("int8", "uint8", "bool")
                   else call("integers", f"5, 300, dtype={dtype}"))
    yield case(call("integers", "a, a + 1"), a=sample("int16", (3, 2)))
    yield case(call("integers", "a, b"), a=np.array([3, 4]), b=np.array([4, 4]))
    for bad in ["5, 5", "6, 5, endpoint=True", "-1, 5, dtype=uint8", "3, dtype=float64", "0"]:
        yield case(call("integers", bad))

    for bad in ["-5, [0.5, 0.5]", "5, [0.5, 0.6, 0.1]", "5, [-0.5, 0.5]", "5, 0.5", "5, []", "[5, 6], [0.5, 0.5], (3,)"]:
        yield case(call("multinomial", bad))
    yield case(call("multinomial", "7, [0.0, 1.0, 0.0], 2"))
    yield case(call("multinomial", "[[5], [6]], [[0.5, 0.5], [0.2, 0.8]]") + ".sum(axis=-1)")
    yield case(call("multinomial", "9, [0.5, 0.25, 0.25], (3, 2)") + ".sum(axis=-1)")
    for bad in ["[1, 2], 5", "[1, -2], 1", "[1, 2], -1", "[1000000000, 1], 1", "[1, 2], 1, method='x'"]:
        yield case(call("multivariate_hypergeometric", bad))
    yield case(call("multivariate_hypergeometric", "[4, 0, 5], 9, 2"))
    yield case(call("multivariate_hypergeometric", "[4, 1, 5], 6, (3, 2)") + ".sum(axis=-1)")
    yield case(call("multivariate_hypergeometric", "[4, 1, 5], 6, method='count'") + ".sum()")
    yield case(call("dirichlet", "[1, -1]"))
    yield case(call("dirichlet", "[[1, 2]]"))
    yield case(call("dirichlet", "[0.5, 1, 2], (2, 3)") + ".sum(axis=-1)", ulp=4)
    yield case(call("dirichlet", "[0.0, 0.0]"))
    for bad in ["0, [[1]]", "[0, 0], [[1, 2]]", "[0], [[1, 2], [3, 4]]", "[0, 0], [[1, 2], [3, -4]], check_valid='raise'",
                "[0, 0], eye(2), method='x'", "[0, 0], eye(2), check_valid='x'"]:
        yield case(call("multivariate_normal", bad))
    yield case(call("multivariate_normal", "[1, 2], zeros((2, 2)), 3"))
    yield case(call("multivariate_normal", "[1, 2], eye(2), (3, 4), method='cholesky'") + ".shape")

    for x in [sample("int32", (6,)), sample("float64", (4, 3)), sample("complex64", (2, 3, 2)), sample("bool", (5,)),
              sample("float16", (0,)), sample("int8", (1,))]:
        yield case("sort(" + call("permutation", "x") + ", axis=0).shape", x=x)
        yield case("sort(" + call("permuted", "x") + ", axis=None)", x=x)
        yield case("sort(" + call("permuted", "x, axis=0") + ", axis=0)", x=x)
        yield case(f"({call('shuffle', 'x')}, sort(x, axis=None))", x=x)
        yield case("sort(" + call("permutation", "x, axis=-1") + ", axis=-1)", x=x)
    yield case("sort(" + call("permutation", "10") + ")")
    yield case("sort(" + call("choice", "10, 10, replace=False") + ")")
    yield case("sort(" + call("choice", "4, (2,), False, [0.0, 0.5, 0.0, 0.5]") + ")")
    yield case(call("choice", "3, (2, 2), p=[0, 1, 0]"))
    x = sample("float32", (3, 4))
    yield case(call("choice", "x, (2, 5), axis=1") + ".shape", x=x)
    yield case("sort(" + call("choice", "x, 4, replace=False, axis=1") + ", axis=1)", x=x)
    yield case(call("choice", "x") + ".shape", x=x)
    for bad in ["0", "-1", "[]", "3.5", "5, p=[0.5, 0.5]", "2, p=[[0.5, 0.5]]", "2, p=[0.5, 0.6]", "2, p=[-0.5, 1.5]",
                "2, 3, replace=False", "2, 2, replace=False, p=[0, 1]", "2, -1", "[[1, 2]], axis=2"]:
        yield case(call("choice", bad))
    for bad in ["2.5", "[[1, 2]], axis=2"]:
        yield case(call("permutation", bad))
    yield case(call("permuted", "3"))
    yield case(call("permuted", "[1, 2], axis=1"))
    yield case(call("shuffle", "x, 2"), x=x)
    yield case(call("shuffle", "x"), x=np.array(3.0))
