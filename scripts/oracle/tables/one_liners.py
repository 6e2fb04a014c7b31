"""NumPy's values of the lines in tests/unit/local/api/one_liners.def and tests/unit/chunked/api/one_liners.def.

A row is the line, the dtype, the shape and the elements in C order, a complex number as two; or the line, "dtype", "" and
the name of a dtype. The first row holds the statements that make the arrays.
"""
import pathlib
import re

import numpy as np
import scipy.stats

ROOT = pathlib.Path(__file__).resolve().parents[3]
LINE = re.compile(r'^QUARRY_(LINE|DONE)\("((?:[^"\\]|\\.)*)", (\w*)', re.M)
PRELUDE = """
x = arange(12.).reshape(3, 4)
y = (x * 7 % 5)
a = array([[4., 1., 0.], [1., 3., 1.], [0., 1., 2.]])
b = array([[1., 2., 0.], [0., 1., 3.], [2., 0., 1.]])
v = array([1., 3., 2., 4.])
w = array([0.5, 1., 2., 0.25])
i = array([2, 0, 1])
k = array([5, 2, 9, 2, 7, 5])
n = array([1., nan, 3., inf])
z = array([1 + 2j, -1j, 3])
m = x > 4
"""


def lines(layer):
    text = (ROOT / f"tests/unit/{layer}/api/one_liners.def").read_text()
    return [(kind, line.replace('\\"', '"'), changed) for kind, line, changed in LINE.findall(text)]


def names():
    scope = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
    scope.update(sliding_window_view=np.lib.stride_tricks.sliding_window_view, float=float, int=int, bool=bool)
    scope.update(stats=scipy.stats)
    exec(PRELUDE, scope)
    return scope


def row(line, value):
    if isinstance(value, np.dtype):
        return (line, "dtype", "", value.name)
    array = np.asarray(value)
    flat = array.ravel()
    if array.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return (line, array.dtype.name, " ".join(map(str, array.shape)), " ".join(repr(number) for number in flat.tolist()))


def of_layer(layer):
    yield (PRELUDE,)
    for kind, line, changed in lines(layer):
        scope = names()
        if kind == "LINE":
            value = eval(line, scope)
        else:
            exec(line, scope)
            value = scope[changed]
        yield row(line, value)


def rows():
    return of_layer("local")


def chunked_rows():
    return of_layer("chunked")
