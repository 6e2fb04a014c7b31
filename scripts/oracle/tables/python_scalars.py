"""Expressions over Python's scalars and what Python 3.11 makes of them, for
tests/unit/apps/language/scalars_test.cpp.

A row is an expression and its repr(), or "error".
"""
import itertools

VALUES = ["0", "1", "-1", "2", "3", "-7", "2.5", "-0.5", "0.0", "True", "False", "1j", "(2+3j)", "10**18", "2**63"]
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
""".strip("\n").split("\n")


def outcome(text):
    try:
        value = eval(text)
    except Exception:
        return "error"

    def fits(item):
        if isinstance(item, (tuple, list)):
            return all(fits(i) for i in item)
        return not isinstance(item, int) or -(2**63) <= item < 2**64

    if isinstance(value, float) and abs(value) == float("inf"):
        return repr(value)
    return repr(value) if fits(value) else "error"


def rows():
    texts = list(HAND)
    for (a, b), op in itertools.product(itertools.product(VALUES, VALUES), BINARY):
        if op in ("**", "<<") and b in ("10**18", "2**63") and a not in ("0", "1", "-1", "True", "False"):
            continue  # Python would try
        texts.append(f"({a}) {op} ({b})")
    for text in texts:
        yield text, outcome(text)
