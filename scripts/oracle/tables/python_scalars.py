"""Expressions over Python's scalars and what Python 3.11 makes of them, for
tests/unit/apps/language/scalars_test.cpp.

A row is an expression and its repr(), or "error".
"""
import itertools

VALUES = ["0", "1", "-1", "2", "3", "-7", "2.5", "-0.5", "0.0", "True", "False", "1j", "(2+3j)", "10**18", "2**63", "2**64 + 3",
          "-10**30"]
LARGE = ("10**18", "2**63", "2**64 + 3", "-10**30")  # as exponents and counts of shifts Python would try them
BINARY = ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^", "<", "<=", "==", "!=", ">", ">=", "and", "or"]
HAND = """
1_000_000
0xff
0b1011 + 0o17
1e16
1e15
123456789012345680.0
1e-4
0.00001
1.5e300 * 1e10
0.1 + 0.2
1/3
100.0
-0.0
1e22
5e-324
1.7976931348623157e308
2.5e-7
1e100
inf - inf if False else 3
1 if 0 else 2
1 if [] else 2
1 < 2 < 3
1 < 3 < 2
3 > 2 > 1 == 1
1 == 1.0 == (1+0j)
2**53 == 2.0**53
2**53 + 1 == 2.0**53
9007199254740993 < 9007199254740992.0
18446744073709551615
-9223372036854775808
18446744073709551615 + 1
-9223372036854775808 - 1
9223372036854775807 + 1
4294967296 * 4294967296
2 ** 64
2 ** 63 * 2
(-2) ** 63
(-1) ** 1000001
0 ** 0
0 ** 1000000000000
1 ** 1000000000000
2 ** -1
2 ** 0.5
(-8) ** (1/3)
(-8.0) ** 3
-2 ** 2
2 ** 3 ** 2
0 ** -1
0.0 ** -1
10.0 ** 400
7 // 2
-7 // 2
7 // -2
-7 % 3
7 % -3
-7.5 // 2
7.5 % -2
-0.0 // 1
1e308 * 10
5 // 0
5 % 0
5 / 0
5.0 / 0
5.0 // 0.0
5.0 % 0.0
1j / 0
(1+2j) / (3-4j)
(1+2j) * (3-4j)
(1+2j) ** 2
(1+2j) ** -2
(1+2j) ** 0.5
(1+2j) ** (2-1j)
1j ** 2
0j ** 1j
(1+2j) // 1
(1+2j) % 1
1j < 2j
1j == 1j
1 << 62
1 << 63
1 << 64
1 << -1
-1 << 63
-1 >> 100
5 >> 1
1 >> -1
1.5 << 1
1.5 & 1
~5
~True
~1.5
+True
-True
not 0
not 0.0
not 1j
not ''
not ()
not (0,)
True + True
True & False
True ^ 1
True | False
True == 1
'a' + 'b'
'a' 'b'
'a' < 'b'
'abc' == "abc"
'abc'[1]
'abc'[-1]
'abc'[::-1]
'abc'[5]
'a' + 1
'it\\'s'
"it's"
'say "hi"'
'tab\\tnew\\nline'
(1, 2, 3)[0]
(1, 2, 3)[-1]
(1, 2, 3)[1:]
(1, 2, 3)[::-1]
(1, 2, 3)[3]
(1, 2) + (3,)
(1, 2) * 2
2 * (1,)
[1, 2] + [3]
[1] + (2,)
(1, 2) == (1, 2)
(1, 2) == [1, 2]
(1, 2.0) == (1.0, 2)
(1, 'a', None, True, 2.5, 1j)
[1, [2, (3,)], ()]
()
(1,)
[]
None
...
None == None
None == 0
None + 1
(1).real
(1.5).imag
(2+3j).imag
(2+3j).real
True.real
1 and 2
0 and 2
0 or 2
'' or 'x'
1 or undefined_is_not_evaluated
0 and undefined_is_not_evaluated
not 1 == 2
1 + 2 * 3 - 4 / 5 // 6 % 7
1 | 2 ^ 3 & 4 << 1 + 1
-1 ** 2 + ~3 * 2
abs(-3)
abs(-2.5)
abs(3+4j)
abs(True)
len((1, 2, 3))
len('abc')
len(5)
int(2.9)
int(-2.9)
int(True)
float(3)
float('2.5')
float('abc')
bool(0.1)
complex(2)
int(1e30)
int(1j)
10**30
-10**30 // 7, -10**30 % 7, 10**30 // -10**15, 10**30 % -(10**15 + 1)
(2**200 + 12345) // (2**100 - 1), (2**200 + 12345) % (2**100 - 1)
(2**128 - 1) * (2**128 + 1)
(2**96 - 1) // (2**64 - 1), (2**96 - 1) % (2**64 - 1)
(2**95 * 3) // (2**63 + 1), (2**160 - 2**100) // (2**96 - 2**40)
10**400 / 10**399, 10**400 / 3 if False else 0
10**400 / 3
10**23 / 10, 1 / 3**200, 1 / (3 * 2**1072), 2**1074 / 3**1000, -(2**64 + 1) / 2**11
(2**53 + 1) / 1, (2**54 + 2) / 1, (2**54 + 3) * 1.0, (2**54 + 1) * 1.0
float(2**1023 * 2 - 1)
float(2**1023 * 2 - 2**970)
float(2**1023 * 2 - 2**969)
2**100 >> 98, -2**100 >> 98, (-2**100 - 1) >> 98, -1 >> 10**30, 1 << 100
2**100 & -2**70, 2**100 | -3, 2**100 ^ -2**64, ~2**100, -2**100 & 2**101 - 1
2**64 == 2.0**64, 2**64 + 1 == 2.0**64, 2**64 + 1 > 2.0**64, 10**400 > 1e308, 10**400 < inf if False else 1
-10**400 < -1e308, 10**30 == 1e30, 10**22 == 1e22, 2**64 == 2**64 + 0j, 2**64 + 1 == 2.0**64 + 0j
10**400 == 1e300, 10**400 != 10**400, 3 < 10**30 < 10**31
10**30 + 0.5
10**400 + 0.5
0xffffffffffffffffffff
0b1_0000000000000000000000000000000000000000000000000000000000000000000
123456789012345678901234567890
(-3) ** 101
7 ** 77 % 10**20
bool(10**30), not 10**30, 10**30 and 1
abs(-10**30), abs(10**30), abs(-2**63)
-(-2**63), -2**63 - 1, -2**63 + 1, 2**63 - 1, 2**63 - 2**64
round(2.5), round(3.5), round(-2.5), round(0.5), round(1e20), round(-0.0)
round(1, 2)
round(25, -1), round(35, -1), round(-25, -1), round(26, -1), round(10**30 + 5, -1), round(5, -1), round(6, -1), round(6, -2)
round(True), round(2.5, None)
round(1j)
round('a')
round(1.5, 0.5)
round(inf) if False else 1
round(1e400)
pow(2, 10), pow(2, -1), pow(2, 100), pow(2.0, 3), pow(2, 10, 1000), pow(3, -1, 7), pow(3, 5, -7), pow(-3, 5, 7), pow(0, 0, 1)
pow(2, 10**30, 10**9 + 7), pow(10**30, 10**20, 2**70 - 3)
pow(2, -1, 4)
pow(2, 3, 0)
pow(2.0, 3, 5)
divmod(7, 2), divmod(-7, 2), divmod(7, -2), divmod(7.5, 2), divmod(-7.5, 2.0), divmod(10**30, 7), divmod(True, 2)
divmod(1, 0)
max(1, 2), max(3, 1, 2), max([1, 5, 2]), max((2.5, 1)), max('b', 'a'), max([1, 1.0]), max(True, 1), max(b'a', b'b')
min(1, 2), min(3, 1, 2), min([4, 5, 2]), min((2.5, 1)), min('b', 'a'), min([1.0, 1]), min(10**30, 1.5), min('hello')
max([], default=7), min([3, -4], key=abs), max(['aa', 'b'], key=len), max(-5, 3, key=abs)
max([])
max()
max(1, 'a')
max(1j, 2)
sum([1, 2, 3]), sum((0.5, 1)), sum([True, True]), sum([1, 2], 10), sum([1j, 2]), sum([10**30, 1]), sum([1], start=5)
sum(['a'])
all([]), all([1, 2]), all([1, 0]), any([]), any([0, '']), any([0, 'a']), all('abc')
sorted([3, 1, 2]), sorted((3, 1, 2), reverse=True), sorted('hello'), sorted([-3, 2, 1], key=abs), sorted([]), sorted(b'ba')
sorted([(2, 1), (1, 2), (1, 1)]), sorted(['b', 'A', 'a']), sorted([2, 1.5, True]), sorted([10**30, -10**30, 0])
sorted([1, 'a'])
sorted(5)
list((1, 2)), list('ab'), list(b'ab'), tuple([1, 2]), tuple('ab'), list(), tuple(), list({1: 2, 3: 4})
list(range(5)), list(range(2, 5)), list(range(5, 0, -2)), list(range(0)), list(range(10**30, 10**30 + 2)), len(list(range(3)))
range(1, 2, 0)
range(1.5)
len(''), len('abc'), len(b'abc'), len([]), len({1: 2}), len((1,))
'äöü'[1], len('äöü'), 'äöü'[::-1], 'a' * 3, 3 * 'ab', 'a' * -1, 'a' * 0, True * 'a'
abs('a')
int(), float(), complex(), bool(), int('12'), int(' -12 '), int('+1_000'), int('ff', 16), int('0xff', 16), int('0xff', 0), int('0b11', 0)
int('z', 36), int('10', 2), int(b'12'), int(10**30), int(-1e25), int('123456789012345678901234567890'), int('1', base=10)
int('')
int('1.5')
int('12', 1)
int('9', 8)
int('1__2')
int('010', 0)
int(1.5, 10)
int('1', 10, 3)
int(None)
float('1e3'), float(' 2.5 '), float('-inf'), float('Infinity'), float('nan'), float('1_0.5'), float('.5'), float('5.'), float(b'1.5')
float('')
float('1_')
float('0x10')
float('1e')
float(10**400)
float(1j)
float([1])
complex(1, 2), complex(1.5), complex(1j, 2j), complex(1j, 1), complex(1, 1j), complex('1+2j'), complex('j'), complex(' (1-2j) '), complex('3')
complex(real=1, imag=2), complex(imag=3), complex(True, False), complex('-1e3-1e-3j'), complex('infj'), complex(2**70, 1)
complex('1+2')
complex('1 + 2j')
complex('1', 2)
complex(1, '2')
complex(None)
bool(''), bool('a'), bool(b''), bool(None), bool(()), bool((0,)), bool({}), bool(0j)
bool(1, 2)
b'abc', b'', b"it's", b'\\x00\\xff\\n', rb'\\x00', b'a' b'b', b'\\101', Br'a'
b'abc'[0], b'abc'[-1], b'abc'[1:], b'abc'[::-1], b'ab' + b'c', b'ab' * 2, b'a' == b'a', b'a' == 'a', b'a' < b'b', b'a' != b'b'
b'abc'[5]
b'a' + 'b'
b'a' < 'b'
b'abc'.hex(), b'abc'.decode(), 'abc'.encode(), bytes(3), bytes([1, 255]), bytes(), bytes('ab', 'utf-8'), bytes(b'x')
bytes([256])
bytes('a')
bytes(-1)
not b'', b'' or 1, len(b'\\n'), {b'a': 1}[b'a']
'\\101', '\\x41', '\\a\\b\\f\\v'
Ellipsis, ... == Ellipsis
""".strip("\n").split("\n")


def outcome(text):
    try:
        value = eval(text)
    except Exception:
        return "error"

    return repr(value)


def rows():
    texts = list(HAND)
    for (a, b), op in itertools.product(itertools.product(VALUES, VALUES), BINARY):
        if op in ("**", "<<") and b in LARGE and a not in ("0", "1", "-1", "True", "False"):
            continue
        texts.append(f"({a}) {op} ({b})")
    for text in texts:
        yield text, outcome(text)
