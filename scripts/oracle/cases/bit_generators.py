"""random.Generator over bit generators that NumPy does not have (local/ops/functions/random.def).

Sobol's points are those of SciPy. The pseudo-random generators need a GPU, and scrambles are quarry's own: of these there
are only errors and empty results here.
"""
import types

import numpy as np
from expressions import case
from scipy.special import ndtri
from scipy.stats import qmc


class Sobol:
    """All first coordinates, then all second ones, and so on."""

    def __init__(self, bits, dimensions, offset):
        if not 1 <= dimensions <= 20000 or offset < 0:
            raise ValueError
        self.bits, self.dimensions, self.offset = bits, dimensions, offset

    def advance(self, delta):
        if self.offset + delta < 0:
            raise ValueError
        self.offset += delta

    def words(self, size):
        """Numbers below 1: the words over 2^bits, exact while positions are small."""
        count = int(np.prod(size, dtype=int)) if size is not None else 1
        if count % self.dimensions:
            raise ValueError
        points = count // self.dimensions
        if not points:
            return np.zeros(size)
        sequence = qmc.Sobol(self.dimensions, scramble=False, bits=32)  # far from the end the same
        if self.offset:
            sequence.fast_forward(self.offset)
        self.offset += points
        return sequence.random(points).T.reshape(() if size is None else size)

    def random(self, size=None, dtype="float64"):
        return self.words(size).astype(dtype)

    def uniform(self, low=0.0, high=1.0, size=None):
        return low + (high - low) * self.words(size)

    def standard_normal(self, size=None):
        return ndtri(self.words(size) + 2.0 ** -(33 if self.bits == 32 else 53))

    def standard_exponential(self, size=None):
        return -np.log1p(-self.words(size))

    def integers(self, low, high, size=None):
        return (low + np.floor(self.words(size) * (high - low))).astype("int64")


class Unreached:
    """A generator that is not drawn from."""

    def __init__(self, seed=None, offset=0, ordering="default"):
        if (seed or 0) < 0 or offset < 0 or ordering not in ("default", "best", "seeded", "legacy", "dynamic"):
            raise ValueError


class Generator:
    """Its methods are those of the bit generators here."""

    def __new__(cls, bit_generator):
        return bit_generator

    @staticmethod
    def advance(generator, delta):
        generator.advance(delta)


def philox(seed=None, offset=0):
    return np.random.default_rng(seed)


FUNCTIONS = {"random": types.SimpleNamespace(
    Generator=Generator,
    Philox=philox,
    XORWOW=Unreached, MRG32k3a=Unreached, MT19937=Unreached, MTGP32=Unreached,
    Sobol32=lambda dimensions=1, offset=0: Sobol(32, dimensions, offset),
    Sobol64=lambda dimensions=1, offset=0: Sobol(64, dimensions, offset),
    ScrambledSobol32=lambda dimensions=1, seed=0, offset=0: Sobol(32, dimensions, offset),
    ScrambledSobol64=lambda dimensions=1, seed=0, offset=0: Sobol(64, dimensions, offset))}


def cases():
    for name in ["Sobol32", "Sobol64"]:
        for arguments, size in [("", "8"), ("", "()"), ("3", "(3, 1000)"), ("dimensions=3, offset=5", "(2, 3, 7)"),
                                ("1111", "2222"), ("2", "0"), ("40, 123456", "(40, 3)")]:
            yield case(f"random.Generator(random.{name}({arguments})).random({size})")
        generator = f"random.Generator(random.{name}(2, 1))"
        yield case(f"{generator}.random((2, 100), dtype=float32)")
        yield case(f"{generator}.uniform(-2.0, 6.0, (2, 100))")
        yield case(f"{generator}.standard_normal((2, 1000))", ulp=64)
        yield case(f"{generator}.standard_exponential((2, 1000))", ulp=4)
        yield case(f"{generator}.integers(-3, 1000, (2, 1000))")
        yield case(f"{generator}.random(3)")
        yield case(f"{generator}.random()")
        yield case(f"random.{name}().random(4)")
        yield case(f"random.{name}().advance(-1)")
        yield case(f"random.{name}().advance(3)")
        yield case(f"random.Generator.advance(random.{name}(), -2)")
    for name in ["Sobol32", "Sobol64", "ScrambledSobol32", "ScrambledSobol64"]:
        yield case(f"random.{name}(0)")
        yield case(f"random.{name}(20001)")
        yield case(f"random.{name}(offset=-1)")
        yield case(f"random.{name}(2).random(0)")
        yield case(f"random.{name}(2).random(5)")
    for name in ["XORWOW", "MRG32k3a", "MT19937", "MTGP32"]:
        yield case(f"random.{name}(-1)")
        yield case(f"random.{name}(1, -1)")
        yield case(f"random.{name}(1, 0, 'worst')")
    yield case("random.Generator(random.Philox(1)).random(3).shape")
    yield case("random.Philox(-1)")
