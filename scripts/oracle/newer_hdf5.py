#!/usr/bin/env python3
"""Writes tests/unit/io/hdf5/newer.h5: what HDF5 2.0 writes with libver="latest", of which releases of the 1.10 line do not
read all. Every data set /x... holds 0, 1, 2, ...; /many has 20 of them, /attributes 12 attributes a0 = 0, a1 = 1, ... and
a long one.

usage: scripts/oracle/newer_hdf5.py FILE          needs h5py on HDF5 2 of PyPI; the tests need neither
"""
import sys

import h5py
import numpy as np

LIMIT = (None, None)


def main(path):
    with h5py.File(path, "w", libver="latest") as file:
        values = np.arange(60)

        def add(name, dtype="<i4", shape=(6, 10), **options):
            file.create_dataset(name, data=values.reshape(shape).astype(dtype), **options)

        add("x_contiguous")
        add("x_big", dtype=">i2")
        add("x_single", chunks=(6, 10))
        add("x_fixed", chunks=(4, 3))
        add("x_extensible", chunks=(2, 3), maxshape=(None, 10))
        add("x_tree", chunks=(4, 3), maxshape=LIMIT)
        add("x_filtered", chunks=(4, 3), compression="gzip", shuffle=True, fletcher32=True)
        add("x_filtered_tree", chunks=(4, 3), maxshape=LIMIT, compression="gzip")
        add("x_complex_compound", dtype="<c16")
        native = h5py.h5t.COMPLEX_IEEE_F64LE.copy()
        space = h5py.h5s.create_simple((6, 10))
        data = h5py.h5d.create(file.id, b"x_complex", native, space)
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, values.reshape(6, 10).astype("<c16"), mtype=native)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        compact = h5py.h5d.create(file.id, b"x_compact", h5py.h5t.STD_I32LE, space, plist)
        compact.write(h5py.h5s.ALL, h5py.h5s.ALL, values.reshape(6, 10).astype("<i4"))
        many = file.create_group("many")
        for i in range(20):
            many.create_dataset(f"x{i}", data=np.arange(i))
        attributes = file.create_group("attributes")
        for i in range(12):
            attributes.attrs[f"a{i}"] = i
        attributes.attrs["long"] = np.arange(700.0)


if __name__ == "__main__":
    main(sys.argv[1])
