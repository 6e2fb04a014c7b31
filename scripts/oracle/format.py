"""The oracle's files: tests/oracle/CHAPTER.h5, read by tests/oracle/reader.h.

A file has data sets of bytes, its sections, each compressed: "calls" (calls.py), "expressions" (cases/CHAPTER.py) and
tables (tables/). Little-endian; a string is u32 length and bytes. An array is
    u8 dtype, u8 ndim, i64 shape[ndim], i64 strides[ndim] (bytes), i64 offset, i64 buffer length, the buffer,
so that views with any strides can be given.

Calls and expressions begin with u32 number of pool arrays and the arrays; then come records until the end.
A call is u8 kind (see Kind), then what the kind needs.
    An argument is u8 tag: 0 array (u32 number in the pool), 1 bool (u8), 2 int (i64), 3 float (f64), 4 complex (2 f64).
    A result is u8 tag: 0 arrays (u8 count, then arrays), 1 TypeError, 2 ValueError, 3 IndexError.
An expression is its text, u8 number of inputs, (name, u32 pool array) each; f64 ulp, norm, atol; u8 error (0: none,
1 TypeError, 2 ValueError, 3 IndexError, 4 AxisError) and without one the value: u8 tag, then
    0 None: nothing, 1 array: u32 pool array, 2 str: string, 3 dtype: u8, 4 sequence: u32 count, that many values,
    5 masked array: u32 pool arrays data (0 where masked) and mask, 6 ma.masked: nothing.
A table is rows until the end: u32 number of fields, a string each.

In Python a record is Parts: raw bytes between arrays, which are in the pool or inline. So records can be compared with
those of a stored file whatever their number in the pool is (see kept()).
"""
import collections
import os
import re
import struct

import h5py
import ml_dtypes
import numpy as np

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex64", "complex128"]
NUMPY_DTYPES = [d for d in DTYPES if d != "bfloat16"]
SPACINGS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23, "float64": 2.0**-52,
            "complex128": 2.0**-52}


def dtype_of(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class Kind:
    UFUNC, REDUCTION, PRINT, PROMOTE, CAN_CAST, ASTYPE, INDEX, MATMUL, RESULT_TYPE = range(9)


class Pooled(bytes):
    """An array that stands in the pool."""


class Inline(bytes):
    """An array that stands in the record."""


class Parts:
    """A record or a piece of one; pieces and bytes are put together by +.

    bounds: (ulp, norm, atol) of an expression's value; inputs: how many of the arrays are inputs, None for all."""

    def __init__(self, *items):
        self.items, self.bounds, self.inputs = [], (0.0, 0.0, 0.0), None
        for item in items:
            if type(item) is bytes and self.items and type(self.items[-1]) is bytes:
                self.items[-1] += item
            elif item or type(item) is not bytes:
                self.items.append(item)

    def __add__(self, other):
        return Parts(*self.items, *(other.items if isinstance(other, Parts) else [other]))

    def __radd__(self, other):
        return Parts(other, *self.items)

    def arrays(self):
        return [item for item in self.items if type(item) is not bytes]

    def exactly(self):
        return tuple(self.items)

    def roughly(self):
        """All of it but the values of arrays."""
        return tuple(item if type(item) is bytes else (type(item), item[:header_size(item)]) for item in self.items)

    def near(self, other):
        """Whether it is the same question with an answer that another machine may give. `other` has the same roughly()."""
        ulp, norm, atol = self.bounds
        for number, (a, b) in enumerate(zip(self.arrays(), other.arrays())):
            is_input = self.inputs is None or number < self.inputs
            if not (near_arrays(a, b, 8, 0) if is_input else near_arrays(a, b, 4 + 2 * (ulp + norm), 2 * atol)):
                return False
        return True


class Row(tuple):
    """A row of a table: strings."""

    NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|0)(?![\w.])")

    def exactly(self):
        return tuple(self)

    def roughly(self):
        return tuple(self.NUMBER.sub("#", field) for field in self)

    def near(self, other):
        numbers = zip(self.NUMBER.findall("\n".join(self)), self.NUMBER.findall("\n".join(other)))
        return all(abs(float(a) - float(b)) <= 1e-6 * (1 + abs(float(b))) for a, b in numbers)


def header_size(array):
    return 2 + 16 * array[1] + 16


def near_arrays(a, b, spacings, atol):
    """Whether two arrays with one header agree within so many spacings at the largest value, or within atol."""
    if a == b:
        return True
    name = DTYPES[a[0]]
    if name not in SPACINGS:
        return False
    x, y = (np.frombuffer(data, dtype_of(name), offset=header_size(data)) for data in (a, b))
    if x.dtype.kind == "c":
        x, y = x.view(x.real.dtype), y.view(y.real.dtype)
    x, y = x.astype("float64"), y.astype("float64")
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    x, y = x[finite], y[finite]
    with np.errstate(over="ignore"):
        return bool((np.abs(x - y) <= spacings * SPACINGS[name] * np.abs(y).max(initial=0) + atol).all())


# ---- making records -------------------------------------------------------------------------------------------------


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def array_bytes(a):
    a = np.asanyarray(a)
    base = a
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    if not (base.flags.c_contiguous and base.dtype.itemsize * base.size == base.nbytes):
        base = a = np.ascontiguousarray(a).reshape(a.shape)
    if base.dtype != a.dtype:
        base = a = np.ascontiguousarray(a).reshape(a.shape)
    offset = a.__array_interface__["data"][0] - base.__array_interface__["data"][0] if a.size else 0
    data = base.tobytes()
    head = struct.pack("<BB", DTYPES.index(a.dtype.name), a.ndim)
    head += struct.pack(f"<{a.ndim}q", *a.shape) + struct.pack(f"<{a.ndim}q", *a.strides)
    return head + struct.pack("<qq", offset, len(data)) + data


def pooled(a):
    return Parts(Pooled(array_bytes(a)))


def inline(a):
    return Parts(Inline(array_bytes(a)))


# ---- sections as bytes ----------------------------------------------------------------------------------------------


def encode(records):
    """Of calls or expressions: the pool in the order of first use, then the records."""
    pool, body = {}, bytearray()
    for record in records:
        for item in record.items:
            body += struct.pack("<I", pool.setdefault(bytes(item), len(pool))) if type(item) is Pooled else item
    return struct.pack("<I", len(pool)) + b"".join(pool) + bytes(body)


def encode_rows(rows):
    return b"".join(struct.pack("<I", len(row)) + b"".join(map(text, row)) for row in rows)


class Decoder:
    def __init__(self, data, pool=True):
        self.data, self.at = data, 0
        self.pool = [self.array_data() for _ in range(self.number("<I"))] if pool else []

    def done(self):
        return self.at == len(self.data)

    def raw(self, count):
        assert self.at + count <= len(self.data), "the file is truncated"
        self.at += count
        return self.data[self.at - count: self.at]

    def number(self, code):
        return struct.unpack(code, self.raw(struct.calcsize(code)))[0]

    def array_data(self):
        begin = self.at
        ndim = self.raw(2)[1]
        self.raw(16 * ndim + 8)
        self.raw(self.number("<q"))
        return self.data[begin: self.at]

    def text(self):
        return text(self.raw(self.number("<I")).decode())

    def pooled(self):
        return Parts(Pooled(self.pool[self.number("<I")]))

    def counted(self, code, read):
        """A count and that many of what read() gives."""
        count = self.number(code)
        return sum((read() for _ in range(count)), Parts(struct.pack(code, count)))

    # Calls.
    def argument(self):
        tag = self.raw(1)
        return tag + (self.pooled() if tag == b"\0" else Parts(self.raw({1: 1, 2: 8, 3: 8, 4: 16}[tag[0]])))

    def result(self):
        tag = self.raw(1)
        return Parts(tag) if tag != b"\0" else tag + self.counted("<B", lambda: Parts(Inline(self.array_data())))

    def index_item(self):
        tag = self.raw(1)
        return Parts(tag + self.raw({0: 8, 1: 27, 2: 0, 3: 0}[tag[0]]))

    def call(self):
        kind = self.raw(1)
        match kind[0]:
            case Kind.UFUNC:
                return kind + Parts(self.text() + self.raw(1)) + self.counted("<B", self.argument) + self.result()
            case Kind.REDUCTION:
                data = kind + Parts(self.text()) + self.pooled()
                return data + self.counted("<B", lambda: Parts(self.raw(8))) + self.raw(10) + self.result()
            case Kind.PRINT:
                return kind + self.pooled() + self.text() + self.text()
            case Kind.PROMOTE:
                return Parts(kind + self.raw(3))
            case Kind.CAN_CAST:
                return Parts(kind + self.raw(4))
            case Kind.ASTYPE:
                return kind + self.pooled() + self.raw(1) + self.result()
            case Kind.INDEX:
                return kind + self.pooled() + self.counted("<B", self.index_item) + self.result()
            case Kind.MATMUL:
                return kind + self.pooled() + self.pooled() + self.result()
            case Kind.RESULT_TYPE:
                return Parts(kind + self.raw(1)) + self.argument() + self.raw(1)
        raise ValueError(f"a call of kind {kind[0]}")

    # Expressions.
    def value(self):
        tag = self.raw(1)
        match tag[0]:
            case 0:
                return Parts(tag)
            case 1:
                return tag + self.pooled()
            case 2:
                return Parts(tag + self.text())
            case 3:
                return Parts(tag + self.raw(1))
            case 4:
                return tag + self.counted("<I", self.value)
            case 5:
                return tag + self.pooled() + self.pooled()
            case 6:
                return Parts(tag)
        raise ValueError(f"a value with tag {tag[0]}")

    def expression(self):
        data = Parts(self.text()) + self.counted("<B", lambda: self.text() + self.pooled())
        bounds, error = self.raw(24), self.raw(1)
        result = data + (bounds + error) + (self.value() if error == b"\0" else b"")
        result.bounds, result.inputs = struct.unpack("<ddd", bounds), len(data.arrays())
        return result

    def row(self):
        return Row(self.raw(self.number("<I")).decode() for _ in range(self.number("<I")))


def decode(section, data):
    """The records or rows of a section."""
    decoder = Decoder(data, pool=section in ("calls", "expressions"))
    read = {"calls": decoder.call, "expressions": decoder.expression}.get(section, decoder.row)
    records = []
    while not decoder.done():
        records.append(read())
    return records


# ---- files ----------------------------------------------------------------------------------------------------------


def load(path):
    """{section: its bytes} and the versions of the libraries that answered; both empty where there is no file."""
    if not os.path.exists(path):
        return {}, {}
    with h5py.File(path) as file:
        return {name: file[name][()].tobytes() for name in file}, dict(file.attrs)


def save(path, sections, versions):
    """The same bytes for the same arguments and libraries: no times are stored."""
    with h5py.File(path, "w", libver=("earliest", "v108")) as file:
        for name, data in sections.items():
            file.create_dataset(name, data=np.frombuffer(data, np.uint8), compression=9, shuffle=False,
                                chunks=(min(len(data), 1 << 20),), track_times=False)
        for name, version in versions.items():
            file.attrs[name] = version


def kept(fresh, stored):
    """`fresh` with the stored record wherever that is the same question with the same answer but for rounding, the
    number of those whose rounding differs, of new records and of stored ones that are in use no more.

    Another processor or BLAS rounds otherwise; an answer that is stored stays as long as it is right."""
    exact = collections.Counter(record.exactly() for record in stored)
    result = [None] * len(fresh)
    for i, record in enumerate(fresh):
        if exact[record.exactly()] > 0:
            exact[record.exactly()] -= 1
            result[i] = record
    unused = collections.defaultdict(list)
    for record in stored:
        if exact[record.exactly()] > 0:
            exact[record.exactly()] -= 1
            unused[record.roughly()].append(record)
    rounded = new = 0
    for i, record in enumerate(fresh):
        if result[i] is None:
            candidates = unused[record.roughly()]
            found = next((n for n, candidate in enumerate(candidates) if record.near(candidate)), None)
            rounded += found is not None
            new += found is None
            result[i] = record if found is None else candidates.pop(found)
    return result, rounded, new, sum(map(len, unused.values()))
