"""Expressions over small arrays and what NumPy 2 makes of them, for tests/unit/apps/language/arrays_test.cpp.

A row is an expression and "DTYPE SHAPE\\nSTR" of an array, repr() of anything else, or "error". The first row holds the
statements that make the arrays.
"""
import re

import numpy as np

PRELUDE = """
x = arange(24.0).reshape(4, 6) * 0.5 - 3
y = linspace(0.25, 4, 24).reshape(4, 6)
i = arange(24, dtype=int32).reshape(2, 3, 4)
j = arange(-3, 3)
u = array([0, 1, 2, 100, 200, 255], dtype=uint8)
f = array([-1.5, 0, 0.25, 1, 2, 1e10], dtype=float32)
h = array([0.5, 1, 2], dtype=float16)
c = array([1 + 2j, -1j, 3])
b = x > 2
m = array([[2.0, 1, 0], [1, 3, 1], [0, 1, 4]])
n = array([1.0, nan, -2, inf])
s = array(2.5)
z = zeros((0, 3))
big = arange(5000).reshape(50, 100)
"""

EXPRESSIONS = """
x
-x
+x
~b
~u
x + 1
1 + x
x - y
x * 2
x / 4
x // 2
x % 2
x ** 2
x @ x.T
m @ m
m @ array([1, 2, 3])
array([1.0, 2, 3]) @ m
u + 1
u + u
u * 2
u - 1
u << 1
u >> 1
u & 15
u | 1
u ^ u
u // 3
u % 7
u + 1.0
u + 256
u + -1
u + j
f + 1
f * 2.5
f + y[0]
f + s
h + 1
h * h
h + f[:3]
h + 1e10
b + b
b & (y > 1)
b | ~b
b ^ True
b - b
b + 1
c + 1
c * c
c / 2
c.conj()
c.real
c.imag
abs(c)
c == c
c < c
i + 1
i + 1.5
i / 2
i // 5
i % 5
i ** 2
i + 3000000000
i @ i
-u
-b
x < 2
x <= y
2 > x
x == x
x != y
0 < x
1 < 2 < 3
x[0]
x[-1]
x[1, 2]
x[1, -1]
x[1:3]
x[::2, -3:]
x[::-1]
x[:, ::-2]
x[..., 0]
x[None]
x[:, None, 0]
x[1:1]
x[5:]
x[-100:100:3]
x[4]
x[0, 0, 0]
x[..., ...]
x['a']
x[1.5]
x[::0]
i[1]
i[:, 1]
i[1, ..., 2]
i[::-1, ::-1, ::-1]
i[0][1][2]
i[newaxis, 0]
s[()]
s[None]
s[0]
x.T
x.T[0]
i.T
x.shape
i.shape[0]
x.shape[5]
x.ndim
x.size
x.dtype
u.dtype
x.nbytes
x.itemsize
len(x)
len(s)
x.sum()
x.sum(axis=0)
x.sum(0)
x.sum(axis=1)
x.sum(axis=-1, keepdims=True)
x.sum(axis=(0, 1))
x.sum(axis=2)
x.sum(axis=(0, 0))
sum(i, axis=(0, 2))
sum(u)
sum(u, dtype=uint8)
sum(b)
sum(f)
sum(z)
sum(z, axis=0)
prod(x[0])
prod(j)
prod(z)
x.mean()
x.mean(axis=0)
mean(u)
mean(i, axis=1)
mean(h)
mean(x, axis=(0, 1), keepdims=True)
var(x)
var(x, axis=0)
var(x, axis=0, ddof=1)
std(x, axis=1)
std(x, axis=0, ddof=1)
x.std(0, ddof=1, keepdims=True)
std(i)
std(c).astype(float32)
min(x)
max(x, axis=0)
min(z)
max(z, axis=0)
max(z, axis=1)
amin(x, axis=1)
min(n)
max(u)
any(b)
all(b)
any(b, axis=0)
all(x, axis=1)
all(z)
argmin(x)
argmax(x, axis=0)
argmax(n)
argmin(y, axis=1, keepdims=True)
argmin(z)
argmax(x, axis=(0, 1))
count_nonzero(x)
count_nonzero(x, axis=0)
count_nonzero(b, axis=1)
sqrt(y)
sqrt(u)
sqrt(array([4, 9]))
exp(x)
log(y)
sin(x) ** 2 + cos(x) ** 2
tanh(j)
arctan2(x, y)
hypot(x, y)
maximum(x, 0)
minimum(x, y)
maximum(n, 0)
fmax(n, 0)
floor(x)
ceil(f)
trunc(x)
rint(x)
round(x)
round(y, 1)
sign(x)
square(j)
reciprocal(y)
absolute(x)
abs(j)
fabs(j)
isnan(n)
isfinite(n)
isinf(n)
signbit(n)
where(x > 0, x, 0)
where(b, 1, 2)
where(x > 0, x, y)
where(True, j, 0)
clip(x, 0, 2)
clip(j, -1, 1)
clip(x, None, 1)
x.clip(0)
clip(x, 1)
astype(x, int32)
x.astype(float32)
x.astype('int8')
x.astype(bool)
x.astype(int)
u.astype(int8)
c.astype(complex64)
j.astype(float16)
x.astype('nothing')
divmod(j, 2)
modf(f)
frexp(f)
ldexp(y, 2)
add(x, y)
add(u, 1, dtype=float32)
add(1, 2)
multiply(2, 3.5)
power(2, 10)
logical_and(b, x)
logical_not(x)
equal(x, y)
bitwise_count(u)
gcd(j, 4)
lcm(j, 4)
copysign(y, x)
heaviside(x, 0.5)
degrees(x)
floor_divide(7, 2)
remainder(-7, 3)
fmod(-7, 3)
left_shift(1, 3)
invert(5)
greater(x, y)
sqrt(-1 * y[0, 0])
bitwise_and(x, 1)
sin(b)
sin('a')
isnan('a')
add(x)
add(x, y, z, s)
add(x, y, axis=0)
zeros(3)
zeros((2, 3), dtype=int32)
ones((2, 2))
ones(2, dtype=bool)
full((2, 2), 7)
full(3, 2.5)
full(2, 1j)
full((2,), 3, dtype=float32)
zeros_like(u)
ones_like(x)
full_like(u, 3)
arange(5)
arange(2, 8)
arange(2, 8, 3)
arange(5, 0, -2)
arange(0, 1, 0.25)
arange(3, dtype=float32)
arange(0)
arange(0, 1, 0)
linspace(0, 1, 5)
linspace(0, 1, 4, endpoint=False)
linspace(2, 3, num=1)
eye(3)
eye(2, 4, k=1)
eye(3, k=-1, dtype=int64)
identity(2)
array([1, 2, 3])
array([[1, 2], [3, 4]])
array([1, 2.5])
array([True, 2])
array([1, 2j])
array([])
array([[1], [2, 3]])
array(['a'])
array([1, 2], dtype=float32)
array(3)
zeros(-1)
transpose(i)
transpose(i, (1, 0, 2))
i.transpose(2, 0, 1)
i.transpose((2, 0, 1))
transpose(i, (0, 0, 1))
swapaxes(i, 0, 2)
moveaxis(i, 0, -1)
reshape(x, (6, 4))
x.reshape(3, -1)
x.reshape((2, 12))
x.reshape(24)
x.reshape(5, 5)
x.reshape(-1, -1)
ravel(i)
i.flatten()
broadcast_to(j, (2, 6))
broadcast_to(j, (6, 2))
expand_dims(j, 0)
expand_dims(x, (0, 2))
squeeze(x[None])
squeeze(x, 0)
flip(x)
flip(x, 0)
concatenate([x, y])
concatenate((x, y), axis=1)
concatenate([x, j])
concatenate([u, j])
concatenate([i, i], axis=2)
concatenate([])
concatenate([x, y], axis=None)
stack([j, j])
stack([j, j], axis=1)
stack([j, u, f])
stack([j, x])
vstack([j, j])
hstack([j, u])
matmul(m, m)
dot(m, m)
dot(j, j)
m @ x
x @ s
j @ j
shape(x)
size(x)
size(x, 0)
ndim(i)
x + i
x + j
x + zeros((6, 4))
x + [1, 2, 3, 4, 5, 6]
x + (1, 2)
[1, 2] + x[0, :2]
undefined_name
x.undefined
mean(x, axes=0)
mean()
mean(x, 0, None, None, None, None)
reshape(x)
s + 1
s * u
s + f
float32(1.5)
float32(1.5) + f
float64(1.5) + f
int8(100) + u
uint8(5)
uint8(300)
float(s.size)
pi * h
e + f
inf * u
n * 0
nan == nan
(x, 1, 'a')
(s + 0, u)
[x[0, 0], 2]
(sum(x), mean(b), max(u), any(b))
x.max() - x.min()
(x - x.mean(axis=0)) / x.std(axis=0)
(z, z.shape)
z
z + 1
z.sum(axis=1)
big
big.T
big * 1.5
big[:, :3]
big > 2500
big.astype(float32) / 7
zeros((3, 1001))
arange(1001)
arange(1000)
ones((1100, 2))
arange(1200).reshape(2, 3, 200)
arange(10000) * 1e-7
1e10 * x
x / 3
1 / y
x * 1e-5
f * 1e20
array([1e-300, 1e300])
array([0.1, 100000.5])
array([1e16, 1.0])
array([1e15, 0.5])
array([123456789.0, 1])
array([nan, inf, -inf])
array([1 + 1j, nan])
array([0.1 + 1e-10j])
""".strip("\n").split("\n")


def namespace():
    names = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
    names.update(len=len, bool=bool, int=int, float=float, complex=complex)
    return names


def outcome(text, names):
    try:
        value = eval(text, dict(names))
        if isinstance(value, np.ndarray) and value.dtype.kind not in "biufc":
            return "error"
        if isinstance(value, np.dtype):
            return str(value)
        if isinstance(value, (np.ndarray, np.generic)):
            return f"{value.dtype} {value.shape}\n{value!s}"
        return repr(value)
    except Exception:
        return "error"


def rows():
    names = namespace()
    for line in PRELUDE.strip().split("\n"):
        name, expression = line.split(" = ", 1)
        names[name] = eval(expression, dict(names))
    yield PRELUDE, ""
    for text in EXPRESSIONS:
        yield text, re.sub(r"\bnp\.(True|False)_?(?!_)", r"np.\1_", outcome(text, names))
