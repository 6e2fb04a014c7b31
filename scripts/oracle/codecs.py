#!/usr/bin/env python3
"""Writes tests/unit/io/hdf5/codecs.h5: arrays below /plain, and the same below a group for every filter.

usage: scripts/oracle/codecs.py FILE          needs h5py and hdf5plugin of PyPI; the tests need neither
"""
import sys

import h5py
import hdf5plugin
import numpy as np


def arrays():
    random = np.random.default_rng(5)
    for name, dtype, shape, chunk in (
        ("big", ">i4", (37, 41), (8, 16)),
        ("double", "<f8", (403,), (100,)),
        ("short", "<i2", (33,), (32,)),
        ("complex", "<c16", (9, 7), (4, 4)),
        ("bool", "?", (70,), (30,)),
        ("bytes", "u1", (11,), (8,)),
    ):
        values = random.normal(0, 20, shape)
        if dtype == "?":
            yield name, values > 0, chunk
        elif dtype == "<c16":
            yield name, values + 1j * values[::-1], chunk
        else:
            yield name, np.abs(values).astype(dtype), chunk


def filters():
    yield "lzf", dict(compression="lzf")
    yield "lzf_shuffle_fletcher32", dict(compression="lzf", shuffle=True, fletcher32=True)
    yield "deflate_shuffle", dict(compression="gzip", shuffle=True)
    yield "szip_nn", dict(compression="szip", compression_opts=("nn", 8))
    yield "szip_ec", dict(compression="szip", compression_opts=("ec", 4))
    yield "bzip2", dict(hdf5plugin.BZip2(blocksize=3))
    yield "lz4", dict(hdf5plugin.LZ4())
    yield "lz4_small_blocks", dict(**hdf5plugin.LZ4(nbytes=64), shuffle=True)
    yield "zstd", dict(hdf5plugin.Zstd(clevel=5))
    yield "zstd_shuffle_fletcher32", dict(**hdf5plugin.Zstd(), shuffle=True, fletcher32=True)
    for compressor in ("none", "lz4", "zstd"):
        yield f"bitshuffle_{compressor}", dict(hdf5plugin.Bitshuffle(cname=compressor))
    yield "bitshuffle_small_blocks", dict(hdf5plugin.Bitshuffle(nelems=16, cname="lz4"))
    for compressor in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for shuffle in range(3):
            yield f"blosc_{compressor}_{shuffle}", dict(hdf5plugin.Blosc(cname=compressor, shuffle=shuffle))


with h5py.File(sys.argv[1], "w", libver=("v110", "v110")) as file:
    for name, values, chunk in arrays():
        file[f"plain/{name}"] = values
        for group, options in filters():
            if group.startswith("szip") and name in ("complex", "bool"):
                continue  # the filter does not take them
            file.create_dataset(f"{group}/{name}", data=values, chunks=chunk, track_times=False, **options)
