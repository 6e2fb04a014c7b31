"""The oracle file: one HDF5 data set of bytes that tests/oracle/reader.h reads.

Little-endian. A string is u32 length and bytes. An array is
    u8 dtype, u8 ndim, i64 shape[ndim], i64 strides[ndim] (bytes), i64 offset, i64 buffer length, the buffer,
so that views with any strides can be given. A file is: u32 number of pool arrays, the arrays, then cases until the end:
    u8 kind (see Kind), then what the kind needs.
An argument is u8 tag: 0 array (u32 number in the pool), 1 bool (u8), 2 int (i64), 3 float (f64), 4 complex (2 f64).
A result is u8 tag: 0 arrays (u8 count, then arrays), 1 TypeError, 2 ValueError, 3 IndexError.
"""
import struct

import h5py
import ml_dtypes
import numpy as np

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex64", "complex128"]
NUMPY_DTYPES = [d for d in DTYPES if d != "bfloat16"]


def dtype_of(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


class Kind:
    UFUNC, REDUCTION, PRINT, PROMOTE, CAN_CAST, ASTYPE, INDEX, MATMUL, RESULT_TYPE = range(9)


class Writer:
    def __init__(self):
        self.pool = []
        self.keys = {}
        self.cases = bytearray()
        self.count = 0

    def text(self, value):
        data = value.encode()
        return struct.pack("<I", len(data)) + data

    def array(self, a):
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

    def pooled(self, a):
        data = self.array(a)
        if data not in self.keys:
            self.keys[data] = len(self.pool)
            self.pool.append(data)
        return self.keys[data]

    def argument(self, value):
        if isinstance(value, bool):
            return struct.pack("<BB", 1, value)
        if isinstance(value, int):
            return struct.pack("<Bq", 2, value)
        if isinstance(value, float):
            return struct.pack("<Bd", 3, value)
        if isinstance(value, complex):
            return struct.pack("<Bdd", 4, value.real, value.imag)
        return struct.pack("<BI", 0, self.pooled(value))

    def result(self, compute):
        try:
            with np.errstate(all="ignore"):
                values = compute()
        except IndexError:
            return struct.pack("<B", 3)
        except TypeError:
            return struct.pack("<B", 1)
        except (ValueError, OverflowError):
            return struct.pack("<B", 2)
        if not isinstance(values, tuple):
            values = (values,)
        out = struct.pack("<BB", 0, len(values))
        for value in values:
            value = np.asarray(value)
            out += self.array(np.ascontiguousarray(value).reshape(value.shape))
        return out

    def dtype(self, dtype):
        return struct.pack("<B", 255 if dtype is None else DTYPES.index(np.dtype(dtype).name))

    def case(self, kind, data):
        self.cases += struct.pack("<B", kind) + data
        self.count += 1

    def ufunc(self, name, compute, *args, dtype=None):
        data = self.text(name) + self.dtype(dtype) + struct.pack("<B", len(args))
        for arg in args:
            data += self.argument(arg)
        self.case(Kind.UFUNC, data + self.result(compute))

    def save(self, path):
        blob = struct.pack("<I", len(self.pool)) + b"".join(self.pool) + bytes(self.cases)
        with h5py.File(path, "w", libver=("earliest", "v108")) as file:
            file.create_dataset("cases", data=np.frombuffer(blob, np.uint8), compression=9, shuffle=False,
                                chunks=(min(len(blob), 1 << 20),))
            file.attrs["count"] = self.count
            file.attrs["numpy"] = np.__version__
        return len(blob)
