"""Expressions for the values of benchmark rows."""


# Uniform in [0, 1), the same in every library: bits of a multiplicative hash of the position.
def uniform(count, dtype="float64"):
    if dtype in ("float64", "complex128"):
        return f"((arange({count}, dtype=uint64) * uint64(11400714819323198485)) >> 11).astype(float64) * 2.0**-53"
    return f"((arange({count}, dtype=uint32) * uint32(2654435769)) >> 8).astype(float32) * float32(2.0**-24)"
