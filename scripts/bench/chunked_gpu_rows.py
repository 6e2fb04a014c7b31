"""The workloads of scripts/bench/chunked on data in the memory of a GPU. Expressions are quarry's and, eagerly, CuPy's."""

import dataclasses
import math
import re

COLUMNS, SOFTMAX_COLUMNS = 512, 1024
ELEMENTS = {"small": 1 << 20, "medium": 1 << 28, "large": 1 << 30}  # of float64, where a row says `share` = 1
FRACTIONS = "(i * 0.6180339887498949) % 1.0"  # of the index i: the same on both sides, anything but sorted


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    expression: str
    shapes: dict  # array -> shape for so many elements
    passes: float  # so often the first array's bytes are moved at least; 0: arithmetic counts
    share: float = 1  # of the elements
    kept: bool = False  # the result stays on the device; else its values are wanted
    setup: tuple = ()  # (name, expression); eager in CuPy
    recipes: dict = dataclasses.field(default_factory=dict)  # array -> of its index; default: FRACTIONS
    by_hand: bool = False  # chunked_kernels.cu has kernels for it, one for each pass over the data
    ceiling: str = ""  # "passes": what the copy rate gives; else the kernels by hand
    least: float = 0.9  # share of the ceiling that is the goal
    faster: float = 0  # times CuPy's speed that are the goal, in a row of its own
    tolerance: float = 1e-9
    sample: str = "::100003"  # elements of a result that stays on the device, to be compared

    def arrays(self, elements):
        """Name -> (recipe, shape)."""
        count = int(elements * self.share)
        return {name: (self.recipes.get(name, FRACTIONS), shape(count)) for name, shape in self.shapes.items()}

    def results(self):
        """The expression, or those of a tuple of names."""
        names = re.fullmatch(r"\((\w+(?:, \w+)+)\)", self.expression)
        return names[1].split(", ") if names else [self.expression]

    def moved_bytes(self, elements):
        """By all passes; 0 where arithmetic counts."""
        return int(self.passes * 8 * math.prod(next(iter(self.arrays(elements).values()))[1]))


def line(count):
    return (count,)


def table(columns):
    return lambda count: (count // columns, columns)


def cube(count):
    return (round(count ** (1 / 3)),) * 3


def fixed(*shape):
    return lambda count: shape


STENCIL = ("u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]"
           " - 6 * u[1:-1, 1:-1, 1:-1]")  # fmt: skip
DISTANCES = "((x * x).sum(axis=1)[:, None] - 2 * (x @ centres.T) + (centres * centres).sum(axis=1))"
SIGNED = "(i * 0.6180339887498949) % 1.0 - 0.5"

ROWS = [
    Row("sum", "sum(x)", {"x": line}, 1, by_hand=True),
    Row("mean(sqrt(x*x+1)*exp(-x))", "mean(sqrt(x * x + 1) * exp(-x))", {"x": line}, 1, by_hand=True),
    Row("mean and std, axis 0", "(mean(x, axis=0), std(x, axis=0))", {"x": table(COLUMNS)}, 1, by_hand=True),
    Row("sum, axis 1", "sum(x, axis=1)", {"x": table(COLUMNS)}, 1, kept=True, by_hand=True),
    Row("x * 2 + 1", "x * 2 + 1", {"x": line}, 2, kept=True, by_hand=True),
    Row("sqrt(x*x + y*y) + x", "sqrt(x * x + y * y) + x", {"x": line, "y": line}, 3, 0.5, True, recipes={"y": "(i * 0.4142135623730951) % 1.0"}, by_hand=True),
    Row("Black-Scholes, calls and puts", "(call, put)", {"price": line, "strike": line, "years": line}, 5, 0.2, True, by_hand=True, faster=5,
        recipes={"price": "50 + 100 * ((i * 0.6180339887498949) % 1.0)", "strike": "50 + 100 * ((i * 0.4142135623730951) % 1.0)",
                 "years": "0.1 + 1.9 * ((i * 0.7320508075688772) % 1.0)"},
        setup=(
            ("d1", "(log(price / strike) + (0.02 + 0.5 * 0.3 * 0.3) * years) / (0.3 * sqrt(years))"),
            ("d2", "d1 - 0.3 * sqrt(years)"),
            ("discounted", "strike * exp(-0.02 * years)"),
            ("call", "price * special.ndtr(d1) - discounted * special.ndtr(d2)"),
            ("put", "discounted * special.ndtr(-d2) - price * special.ndtr(-d1)"),
        )),
    Row("7-point stencil by slices", STENCIL, {"u": cube}, 2, kept=True, by_hand=True, sample="::101, ::103, ::107"),
    Row("softmax of rows", "exps / exps.sum(axis=1, keepdims=True)", {"x": table(SOFTMAX_COLUMNS)}, 3, 0.5, True, by_hand=True,
        setup=(("exps", "exp(x - x.max(axis=1, keepdims=True))"),), sample="::1009, ::7"),
    Row("standardise", "(x - x.mean(axis=0)) / x.std(axis=0)", {"x": table(COLUMNS)}, 3, 0.5, True, by_hand=True, sample="::1009, ::7"),
    Row("histogram", "histogram(x, bins=100, range=(0, 1))[0]", {"x": line}, 1, 0.5, by_hand=True, tolerance=1e-5),
    Row("cumsum along the cut axis", "cumsum(x, axis=0)", {"x": table(COLUMNS)}, 3, 0.5, True, ceiling="passes", least=0.8, sample="::1009, ::7"),
    Row("cumsum of a vector", "cumsum(x)", {"x": line}, 3, 0.5, True, ceiling="passes", least=0.8),
    Row("mean of x[x > 0.5]", "x[x > 0.5].mean()", {"x": line}, 0, 0.25),
    Row("correlation", "corrcoef(x, rowvar=False)", {"x": table(COLUMNS)}, 0, 0.25, tolerance=1e-7),
    Row("x.T @ x", "x.T @ x", {"x": table(COLUMNS)}, 0, 0.25),
    Row("logistic regression, one step", "b - 0.1 * (x.T @ (1 / (1 + exp(-(x @ b))) - 0.5)) / x.shape[0]", {"x": table(COLUMNS), "b": fixed(COLUMNS)}, 0, 0.25,
        recipes={"x": SIGNED, "b": SIGNED}),
    Row("k-means, one step", "(labels.T @ x) / labels.sum(axis=0)[:, None]", {"x": table(COLUMNS), "centres": fixed(16, COLUMNS)}, 0, 0.25,
        recipes={"centres": "(i * 0.4142135623730951) % 1.0"},
        setup=(("labels", f"({DISTANCES}.argmin(axis=1)[:, None] == arange(16)).astype(float)"),)),
]  # fmt: skip


def made(recipe, shape):
    """The array in quarry's language."""
    count = math.prod(shape)
    return f"(lambda i: {recipe})(arange({count})).reshape({shape})"


def digest(row, result):
    """What stands for a result that is too large to be compared whole, in both languages."""
    return f"(lambda r: (abs(r).sum(), abs(r).max(), r[{row.sample}]))({result})"
