"""Files of other formats than HDF5, against what writes and reads them in Python."""

import base64
import gzip
import json
import shutil
import zlib

from support import CliTest, main, np

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


class NumpyFiles(CliTest):
    def save(self, name, array):
        np.save(self.path(name), array)

    def test_arrays_of_every_dtype_and_order_are_read(self):
        random = np.random.default_rng(3)
        cases = []
        for dtype in DTYPES:
            for order in "<>":
                for shape in [(), (0, 3), (5,), (4, 3), (2, 3, 4)]:
                    array = (random.random(shape) * 100).astype(dtype).astype(np.dtype(dtype).newbyteorder(order))
                    cases.append(array)
                    cases.append(np.asfortranarray(array))
        inputs, lines = [], []
        for i, array in enumerate(cases):
            self.save(f"x{i}.npy", array)
            inputs += ["-i", f"x{i}=x{i}.npy" + (":/" if i % 2 else "")]
            lines.append(f"y{i} = x{i} + 0" if array.dtype != bool else f"y{i} = x{i} & True")
        (self.dir / "s.q").write_text("\n".join(lines))
        for more in [["--local"], ["--chunks", "auto"]]:
            self.ok("eval", "-f", "s.q", *inputs, *more, "-o", "y.npz", "--overwrite")
            with np.load(self.path("y.npz")) as results:
                for i, array in enumerate(cases):
                    result = results[f"y{i}"]
                    self.assertEqual(result.dtype, array.dtype.newbyteorder("="))
                    np.testing.assert_array_equal(result, array)

    def test_files_are_those_of_numpy(self):
        for array in [np.float32(3).reshape(()), np.arange(7.0), np.arange(24, dtype="i2").reshape(2, 3, 4), np.zeros((0, 5), bool), np.zeros(3, "c16"), np.zeros((100, 100), "u8")]:
            self.save("a.npy", array)
            self.ok("eval", "x", "-i", "x=a.npy", "-o", "b.npy", "--overwrite", ranks=2 if array.size > 10 else 0)
            self.assertEqual(self.contents("a.npy"), self.contents("b.npy"))

    def test_archives_are_read_and_written(self):
        x, y = np.random.default_rng(1).standard_normal((300, 1000)), np.arange(100000, dtype="i4").reshape(500, 200).T
        np.savez(self.path("plain.npz"), x=x, y=y)
        np.savez_compressed(self.path("packed.npz"), x=x, y=y)
        for name in ["plain.npz", "packed.npz"]:
            for ranks in [0, 2]:
                for output, more in [("o.npz", []), ("c.npz", ["--out-filter", "deflate:1"])]:
                    self.ok("eval", "(x * 2, y[::-1, 5:])", "-i", f"x={name}:/x", "-i", f"y={name}:/y", "--memory", "32MiB", "-o", f"{output}:/r", "--overwrite", *more, ranks=ranks)
                    with np.load(self.path(output)) as results:
                        np.testing.assert_array_equal(results["r.0"], x * 2)
                        np.testing.assert_array_equal(results["r.1"], y[::-1, 5:])
        self.assertLess(len(self.contents("c.npz")), 0.97 * len(self.contents("o.npz")))
        self.assertRegex(self.ok("info", "packed.npz").out, r"(?s)/x  \(300, 1000\) float64 .*deflate.*ratio.*/y  \(200, 500\) int32")
        self.ok("eval", "1 + 1", "-o", "o.npz:/two")  # beside what is there
        with np.load(self.path("o.npz")) as results:
            self.assertEqual(sorted(results), ["r.0", "r.1", "two"])
            self.assertEqual(results["two"], 2)
        self.fails(2, "/two exists; --overwrite replaces it", "eval", "1", "-o", "o.npz:/two")
        self.fails(2, "no object '/z' in 'plain.npz'", "eval", "z", "-i", "z=plain.npz:/z")

    def test_records_and_dates(self):
        table = np.zeros(1000, dtype=[("day", "M8[D]"), ("price", "f8"), ("name", "U4"), ("flow", ">f4", (3,))])
        table["day"] = np.datetime64("2020-01-31") + np.arange(1000)
        table["price"] = np.arange(1000) / 8
        table["flow"] = np.arange(3000).reshape(1000, 3)
        self.save("t.npy", table)
        self.assertEqual(self.evaluate("(sum(p), f[10:12].tolist(), d[0])", "-i", "p=t.npy:/price", "-i", "f=t.npy:/flow", "-i", "d=t.npy:/day", "--local"),
                         "(np.float64(62437.5), [[30.0, 31.0, 32.0], [33.0, 34.0, 35.0]], np.int64(18292))")
        self.assertIn("days since 1970-01-01", self.ok("info", "t.npy").out)
        self.fails(2, "choose one of its fields /day, /price, /name, /flow", "eval", "x", "-i", "x=t.npy")
        self.fails(2, r"is of text \('<U4'\)", "eval", "x", "-i", "x=t.npy:/name")

    def test_the_name_decides_the_format(self):
        self.ok("eval", "ones(3)", "-o", "x.npy")
        np.testing.assert_array_equal(np.load(self.path("x.npy")), [1, 1, 1])
        self.fails(2, "x.npy' exists", "eval", "zeros(3)", "-o", "x.npy")
        self.fails(2, "holds one", "eval", "(ones(3), ones(3))", "-o", "y.npy")
        self.fails(2, "no filters", "eval", "ones(3)", "-o", "y.npy", "--out-filter", "deflate")
        self.fails(2, "deflate, and not shuffle", "eval", "ones(3)", "-o", "y.npz", "--out-filter", "shuffle")
        self.ok("eval", "--local", "'añ'", "-o", "t.npz")
        self.assertEqual(str(np.load(self.path("t.npz"))["result"]), "añ")
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["t.npz", "x.npy"])

    def test_damaged_files_are_errors(self):
        self.save("x.npy", np.arange(1000.0))
        whole = self.contents("x.npy")
        (self.dir / "short.npy").write_bytes(whole[:-100])
        self.fails(2, r"'short.npy' is damaged: its header: it is truncated: .* 100 are missing", "eval", "x", "-i", "x=short.npy")
        (self.dir / "evil.npy").write_bytes(whole.replace(b"(1000,)", b"a(10,)!"))
        self.fails(2, "something that is no literal", "info", "evil.npy")


class FileChunks(CliTest):
    def test_small_budgets_do_not_halve_what_is_encoded_whole(self):
        x = np.random.default_rng(4).standard_normal((70000, 7))
        self.write("x.h5", x=x)
        self.ok("eval", "x", "-i", "x=x.h5:/x", "-o", "o.h5", "--out-chunks", "70000,7", "--out-filter", "deflate", "--memory", "24MiB")
        np.testing.assert_array_equal(self.read("o.h5"), x)


class TextFiles(CliTest):
    def test_prices_with_dates_and_gaps(self):
        random = np.random.default_rng(2)
        prices = np.round(random.random((5000, 4)) * 100, 2)
        prices[random.random(prices.shape) < 0.1] = np.nan
        days = np.datetime64("2001-01-01") + np.arange(5000)
        lines = ["date,symbol,open,high,low,close"]
        lines += [f"{day},QRY," + ",".join("" if np.isnan(p) else repr(float(p)) for p in row) for day, row in zip(days, prices)]
        (self.dir / "p.csv").write_text("\n".join(lines) + "\n")
        for ranks in [0, 2]:
            self.ok("eval", "(x, d, nanmean(c), x[::-7, 1])", "-i", "x=p.csv:/open,high,low,close", "-i", "d=p.csv:/date", "-i", "c=p.csv:/close", "-o", "o.h5", "--overwrite", ranks=ranks)
            np.testing.assert_array_equal(self.read("o.h5", "result.0"), prices)
            np.testing.assert_array_equal(self.read("o.h5", "result.1"), days.astype("i8"))
            self.assertAlmostEqual(self.read("o.h5", "result.2"), np.nanmean(prices[:, 3]))
            np.testing.assert_array_equal(self.read("o.h5", "result.3"), prices[::-7, 1])
        out = self.ok("info", "p.csv").out
        self.assertRegex(out, r"(?s)/date  \(5000,\) int64.*@units = \"days since 1970-01-01\".*/symbol  text.*/close  \(5000,\) float64")
        self.fails(2, r"date \(dates\).* choose others by name", "eval", "x", "-i", "x=p.csv")
        self.fails(2, r"no object '/clse' in 'p.csv'; did you mean '/close'\?", "eval", "x", "-i", "x=p.csv:/clse")

    def test_tables_are_written_and_read_back(self):
        x = np.random.default_rng(4).standard_normal((70000, 7))
        x[::5, 3] = np.nan
        self.write("x.h5", x=x)
        for ranks in [0, 2]:
            for more in [["--local"]] * (ranks == 0) + [["--memory", "24MiB"]]:
                self.ok("eval", "x", "-i", "x=x.h5:/x", "-o", "x.csv", "--overwrite", *more, ranks=ranks)
                table = np.genfromtxt(self.path("x.csv"), delimiter=",", names=True)
                self.assertEqual(table.dtype.names, tuple(f"result{c}" for c in range(7)))
                np.testing.assert_array_equal(np.stack([table[name] for name in table.dtype.names], axis=1), x)
                self.ok("eval", "x", "-i", "x=x.csv", "-o", "y.npy", "--overwrite", ranks=ranks)
                np.testing.assert_array_equal(np.load(self.path("y.npy")), x)
        (self.dir / "s.q").write_text("mean = nanmean(x, axis=0)\ncount = sum(isnan(x), axis=0)\n")
        self.ok("eval", "-f", "s.q", "-i", "x=x.h5:/x", "-o", "m.tsv", ranks=2)
        lines = (self.dir / "m.tsv").read_text().splitlines()
        self.assertEqual(lines[0], "mean\tcount")
        self.assertEqual([line.split("\t")[1] for line in lines[1:]], ["0", "0", "0", "14000", "0", "0", "0"])
        self.ok("eval", "mean(x[:, 0])", "-i", "x=x.h5:/x", "-o", "one.csv", ranks=2)
        self.assertEqual(float((self.dir / "one.csv").read_text().splitlines()[1]), float(self.evaluate("mean(x[:, 0])", "-i", "x=x.h5:/x")))

    def test_masked_elements_are_empty(self):
        self.ok("eval", "ma.masked_greater(arange(4.0), 2)", "-o", "m.csv:/m")
        self.assertEqual((self.dir / "m.csv").read_text(), 'm\n0.0\n1.0\n2.0\n""\n')

    def test_ragged_lines_have_a_place(self):
        (self.dir / "r.csv").write_text("a,b\n" + "1,2\n" * 1000 + "3\n" + "4,5\n" * 1000)
        for ranks in [0, 2]:
            self.fails(1, r"'r.csv', line 1002, column 2 \(b\): the line has 1 fields, the first one has 2", "eval", "sum(x)", "-i", "x=r.csv:/a", ranks=ranks)

    def test_files_of_a_pattern_follow_each_other(self):
        for day in range(3):
            (self.dir / f"day-{day}.csv").write_text("a,b\n" + "".join(f"{day},{i}\n" for i in range(4)))
        self.assertEqual(self.evaluate("x[:, 0]", "-i", "x=day-*.csv"), "[0. 0. 0. 0. 1. 1. 1. 1. 2. 2. 2. 2.]")

    def test_what_cannot_be_a_table(self):
        self.fails(2, "3 axes, and a table has two", "eval", "ones((2, 2, 2))", "-o", "x.csv")
        self.fails(2, "complex numbers are no fields", "eval", "ones(2) * 1j", "-o", "x.csv")
        self.fails(2, "it has 3 rows and others have 2", "eval", "(ones(2), ones(3))", "-o", "x.csv")
        self.fails(2, "text has no filters", "eval", "ones(2)", "-o", "x.csv", "--out-filter", "deflate")
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), [])


# numpy.arange(60, dtype="<i4") // 7 as numcodecs 0.16 encodes it.
ENCODED = {
    "zstd": "KLUv/SDw/QAAUAAAAQIDBAUGBwgJAKATEB4IGQgFhAdCBkLZhdcGWA==",
    "lz4": "8AAAAB8AAQAIHwEEAAgfAgQACB8DBAAIHwQEAAgfBQQACB8GBAAIHwcEAAgWCAQAUAAIAAAA",
    "blosc": "AgEhAfAAAADwAAAAUgAAABQAAAA6AAAAHwABAAgfAQQACB8CBAAIHwMEAAgfBAQACB8FBAAIHwYEAAgfBwQACPABCAAAAAgAAAAIAAAACAAAAA==",
}


class ZarrFolders(CliTest):
    """Folders as zarr-python makes them, which the test needs not."""

    def chunk(self, array, index, chunks, order, encode):
        part = np.zeros(chunks, array.dtype)
        cut = array[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks))]
        part[tuple(slice(0, n) for n in cut.shape)] = cut
        return encode(part.tobytes(order))

    def make(self, folder, metadata, array, chunks, key, order="C", encode=bytes, skip=()):
        folder = self.dir / folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / (".zarray" if metadata["zarr_format"] == 2 else "zarr.json")).write_text(json.dumps(metadata))
        grid = [-(-n // c) for n, c in zip(array.shape, chunks)]
        for index in np.ndindex(*grid):
            if index in skip:
                continue
            path = folder / key(index)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.chunk(array, index, chunks, order, encode))

    def v2(self, array, chunks, **more):
        return {"zarr_format": 2, "shape": array.shape, "chunks": chunks, "dtype": array.dtype.str, "compressor": None, "fill_value": 0, "order": "C", "filters": None, **more}

    def v3(self, array, chunks, codecs, **more):
        return {"zarr_format": 3, "node_type": "array", "shape": array.shape, "data_type": array.dtype.name, "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0, "codecs": codecs, **more}

    def check(self, place, array, **options):
        self.ok("eval", "x[::-1]", "-i", f"x={place}", "-o", "o.npy", "--overwrite", "--memory", "16MiB", **options)
        np.testing.assert_array_equal(np.load(self.path("o.npy")), array[::-1])

    def test_version_2(self):
        random = np.random.default_rng(8)
        for group in ["a.zarr", "a.zarr/g"]:
            (self.dir / group).mkdir()
            (self.dir / group / ".zgroup").write_text('{"zarr_format": 2}')
        for number, (dtype, order, separator, compressor, encode) in enumerate([("<f8", "C", ".", None, bytes), (">i2", "F", "/", {"id": "zlib"}, zlib.compress), ("|b1", "C", "/", {"id": "gzip"}, gzip.compress), (">c16", "F", ".", None, bytes)]):
            array = (random.random((50, 37)) * 100).astype(dtype)
            array[13:26, :10] = 1
            metadata = self.v2(array, [13, 10], order=order, compressor=compressor, dimension_separator=separator, fill_value=1)
            self.make(f"a.zarr/g/x{number}", metadata, array, (13, 10), lambda i: separator.join(map(str, i)), order, encode, skip=[(1, 0)])
            self.check(f"a.zarr:/g/x{number}", array, ranks=2 if number == 1 else 0)
        self.assertRegex(self.ok("info", "a.zarr").out, r"(?s)/g/x1  \(50, 37\) int16 \(foreign byte order\) .* chunks \(13, 10\)  deflate:1")
        self.fails(2, r"no object '/g/x9' in 'a.zarr'", "eval", "x", "-i", "x=a.zarr:/g/x9")
        self.fails(2, "'/g' in 'a.zarr' is a group", "eval", "x", "-i", "x=a.zarr:/g")

    def test_version_3(self):
        array = (np.random.default_rng(9).random((20, 30, 7)) * 100).astype("f4")
        array[:7, :11] = np.nan
        plain = {"name": "bytes", "configuration": {"endian": "little"}}
        metadata = self.v3(array, [7, 11, 7], [plain, {"name": "gzip", "configuration": {"level": 1}}], fill_value="NaN")
        self.make("b.zarr", metadata, array, (7, 11, 7), lambda i: "c/" + "/".join(map(str, i)), encode=gzip.compress, skip=[(0, 0, 0)])
        self.check("b.zarr:/", array)
        swapped = array.astype(">f4")
        metadata = self.v3(array, [7, 11, 7], [{"name": "transpose", "configuration": {"order": [2, 1, 0]}}, {"name": "bytes", "configuration": {"endian": "big"}}], chunk_key_encoding={"name": "v2"})
        self.make("c.zarr", metadata, swapped, (7, 11, 7), lambda i: ".".join(map(str, i)), "F")
        self.check("c.zarr:/", array, ranks=2)
        metadata["codecs"] = [{"name": "sharding_indexed", "configuration": {}}]
        self.make("d.zarr", metadata, array, (7, 11, 7), lambda i: "x")
        self.fails(2, "codec 'sharding_indexed' is not one that quarry reads", "eval", "x", "-i", "x=d.zarr:/")

    def test_codecs(self):
        array = np.arange(60, dtype="<i4") // 7
        for name, text in ENCODED.items():
            self.make(f"{name}.zarr", self.v2(array, [60], compressor={"id": name}), array, (60,), lambda i: "0", encode=lambda data, text=text: base64.b64decode(text))
            self.check(f"{name}.zarr:/", array)
            whole = (self.dir / f"{name}.zarr/0").read_bytes()
            (self.dir / f"{name}.zarr/0").write_bytes(whole[:-3])
            self.fails(1, f"damaged chunk '{name}.zarr/0'", "eval", "sum(x)", "-i", f"x={name}.zarr:/")
        data = array.tobytes()
        for checksum, good in [(0xE3069283, False), (None, True)]:
            crc = checksum
            if good:  # CRC-32C bit by bit
                crc = 0xFFFFFFFF
                for byte in data:
                    crc ^= byte
                    for _ in range(8):
                        crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
                crc ^= 0xFFFFFFFF
            metadata = self.v3(array, [60], [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}])
            self.make("crc.zarr", metadata, array, (60,), lambda i: "c/0", encode=lambda data, crc=crc: data + crc.to_bytes(4, "little"))
            if good:
                self.check("crc.zarr:/", array)
            else:
                self.fails(1, "checksum", "eval", "sum(x)", "-i", "x=crc.zarr:/")

    def test_metadata_that_lies(self):
        array = np.zeros((4, 4))
        for change, message in [({"shape": [4]}, "another number of axes"), ({"chunks": [0, 1]}, "no extent"), ({"shape": [2**62, 2**62]}, "64 bits"), ({"chunks": [2**40, 1]}, "2 GiB"), ({"dtype": "<q8"}, "is none"), ({"dtype": "<U3"}, "text"),
                                ({"dtype": [["a", "<f8"]]}, "records"), ({"order": 7}, "order"), ({"compressor": {"id": "lzma"}}, "codec 'lzma'"), ({"filters": [{"id": "delta"}]}, "filters"), ({"fill_value": "x"}, "fill value"), ({"shape": {}}, "no list")]:
            self.make("l.zarr", {**self.v2(array, [4, 4]), **change}, array, (4, 4), lambda i: "0.0")
            self.fails(2, message, "eval", "sum(x)", "-i", "x=l.zarr:/")
        (self.dir / "l.zarr/.zarray").write_text('{"shape": [')
        self.fails(2, "damaged", "eval", "sum(x)", "-i", "x=l.zarr:/")
        self.make("l.zarr", self.v2(array, [4, 4]), array, (4, 4), lambda i: "0.0", encode=lambda data: data[:-8])
        self.fails(1, "it has 120 bytes instead of 128", "eval", "sum(x)", "-i", "x=l.zarr:/")


class ZarrOutputs(CliTest):
    """What is written, read by this test itself: chunks are files, and Python decodes zlib and gzip."""

    def array(self, folder):
        folder = self.dir / folder
        v2 = (folder / ".zarray").exists()
        meta = json.loads((folder / (".zarray" if v2 else "zarr.json")).read_text())
        shape = meta["shape"]
        chunks = meta["chunks"] if v2 else meta["chunk_grid"]["configuration"]["chunk_shape"]
        dtype = np.dtype(meta["dtype"] if v2 else meta["data_type"])
        decode = bytes
        if v2 and meta["compressor"]:
            self.assertEqual(meta["compressor"]["id"], "zlib")
            decode = zlib.decompress
        if not v2 and len(meta["codecs"]) > 1:
            self.assertEqual(meta["codecs"][1]["name"], "gzip")
            decode = gzip.decompress
        out = np.full(shape, 77, dtype)
        for index in np.ndindex(*[-(-n // c) for n, c in zip(shape, chunks)]):
            name = ".".join(map(str, index)) or "0"
            data = decode((folder / (name if v2 else "/".join(["c", *map(str, index)]))).read_bytes())
            if v2 and meta["filters"]:
                self.assertEqual(meta["filters"], [{"id": "shuffle", "elementsize": dtype.itemsize}])
                data = np.frombuffer(data, "u1").reshape(dtype.itemsize, -1).T.tobytes()
            part = np.frombuffer(data, dtype).reshape(chunks)
            place = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, chunks, shape))
            out[place] = part[tuple(slice(0, s.stop - s.start) for s in place)]
        return out

    def leftovers(self):
        return [path.name for path in self.dir.rglob("*") if ".partial" in path.name or "lock" in path.name]

    def test_all_ranks_write(self):
        random = np.random.default_rng(5)
        for number, (dtype, shape) in enumerate([("f8", (300, 200)), ("?", (1000,)), ("c8", (40, 30, 20)), ("f2", (128, 65)), ("u8", (3, 7))]):
            array = (random.random(shape) * 50).astype(dtype)
            self.write("in.h5", **{f"x{number}": array})
            for ranks, more in [(0, []), (2, ["--out-filter", "shuffle,deflate:2"]), (3, ["--out-zarr", "3", "--out-filter", "deflate"]), (2, ["--out-chunks", ",".join(str(max(1, n // 3)) for n in shape)])]:
                self.ok("eval", "x[::-1]", "-i", f"x=in.h5:/x{number}", "-o", "o.zarr", "--chunks", ",".join(str(max(1, n // 2 + 1)) for n in shape), *more, "--memory", "64MiB", ranks=ranks)
                np.testing.assert_array_equal(self.array("o.zarr/result"), array[::-1])
                self.ok("eval", "y", "-i", "y=o.zarr:/result", "-o", "o.npy", "--overwrite")  # quarry's own reader
                np.testing.assert_array_equal(np.load(self.path("o.npy")), array[::-1])
                shutil.rmtree(self.dir / "o.zarr")
        self.assertEqual(self.leftovers(), [])

    def test_groups_attributes_and_what_is_there(self):
        (self.dir / "s.q").write_text("a = arange(12.).reshape(3, 4)\nb = 3\nc = zeros((0, 2))\n")
        self.ok("eval", "-f", "s.q", "-o", "o.zarr:/g", ranks=2)
        np.testing.assert_array_equal(self.array("o.zarr/g/a"), np.arange(12.0).reshape(3, 4))
        self.assertEqual(self.array("o.zarr/g/b"), 3)
        self.assertEqual(self.array("o.zarr/g/c").shape, (0, 2))
        self.assertIn("quarry_version", json.loads((self.dir / "o.zarr/g/a/.zattrs").read_text()))
        listing = self.ok("info", "o.zarr").out
        self.assertRegex(listing, r"(?s)/g/a  \(3, 4\) float64.*/g/b  \(\) int64.*/g/c  \(0, 2\) float64")
        self.assertIn("quarry_version", listing)
        self.fails(2, "o.zarr:/g/a exists; --overwrite replaces it", "eval", "ones(2)", "-o", "o.zarr:/g/a")
        self.fails(2, "/g is a group", "eval", "ones(2)", "-o", "o.zarr:/g")
        self.fails(2, "'/g/a' is no group", "eval", "ones(2)", "-o", "o.zarr:/g/a/b")
        self.ok("eval", "ones(2)", "-o", "o.zarr:/g/a", "--overwrite", "--local")
        np.testing.assert_array_equal(self.array("o.zarr/g/a"), np.ones(2))
        self.ok("eval", "x + y", "-i", "x=o.zarr:/g/a", "-i", "y=o.zarr:/g/b", "-o", "o.zarr:/sum", ranks=2)  # read and written in one run
        np.testing.assert_array_equal(self.array("o.zarr/sum"), np.full(2, 4.0))
        self.assertEqual(self.array("o.zarr/g/b"), 3)
        self.fails(2, "version 2", "eval", "ones(2)", "-o", "o.zarr:/z", "--out-zarr", "3")
        self.assertEqual(self.leftovers(), [])

    def test_masked_results(self):
        self.write("in.h5", x=np.array([1.0, -2.0, 3.0]), n=np.array([1, -2, 3], "i2"))
        for version in "23":
            for name in "xn":
                self.ok("eval", "ma.masked_where(x < 0, x)", "-i", f"x=in.h5:/{name}", "-o", f"{name}{version}.zarr", "--out-zarr", version)
                shown = self.evaluate("x.sum()", "-i", f"x={name}{version}.zarr:/result", "--masked")
                self.assertEqual(float(shown), 4)

    def test_what_cannot_be_written(self):
        self.fails(2, "a Zarr array of version 2 has the filters .* and not fletcher32", "eval", "ones(3)", "-o", "o.zarr", "--out-filter", "fletcher32")
        self.fails(2, "a Zarr array of version 3 has the filters .* and not lz4", "eval", "ones(3)", "-o", "o.zarr", "--out-filter", "lz4", "--out-zarr", "3")
        (self.dir / "f.zarr").write_text("text")
        self.fails(2, "f.zarr is a file, and one of Zarr is a folder", "eval", "ones(3)", "-o", "f.zarr")
        (self.dir / "d.zarr").mkdir()
        (self.dir / "d.zarr/mine").write_text("text")
        self.fails(2, "d.zarr is a directory", "eval", "ones(3)", "-o", "d.zarr", "--overwrite")
        self.fails(2, "no directory none", "eval", "ones(3)", "-o", "none/o.zarr")
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["d.zarr", "f.zarr"])
        # A disk that becomes full while all ranks write.
        self.ok("eval", "arange(1000.)", "-o", "o.zarr:/before")
        for filters in ["none", "zstd"]:
            self.fails(1, "no space left on device", "eval", "random.default_rng(1).random((2000, 1000))", "-o", "o.zarr:/x", "--out-chunks", "700,1000", "--out-filter", filters, ranks=2, file_limit=4 << 20)
            np.testing.assert_array_equal(self.array("o.zarr/before"), np.arange(1000.0))
            self.assertEqual(sorted(path.name for path in (self.dir / "o.zarr").iterdir()), [".zgroup", "before"])
        self.assertEqual(self.leftovers(), [])

    def test_an_interrupted_output_is_no_output(self):
        slow = "(random.default_rng(1).random((60000, 3000)) ** 1.1).map_blocks(lambda b: sin(b))"
        for signal, ranks in [(15, 2), (9, 0)]:
            process = self.start("eval", slow, "-o", "o.zarr", "--out-chunks", "500,500", "--out-filter", "deflate:9", "--memory", "256MiB", ranks=ranks)
            self.wait_until_computing(process, "o.zarr", seconds=0.5)
            process.send_signal(signal)
            process.communicate(timeout=60)
            self.assertNotEqual(process.returncode, 0)
            self.assertFalse((self.dir / "o.zarr").exists())
        self.assertEqual([path for path in self.dir.rglob(".z*")], [])
        self.fails(2, "o.zarr.partial", "info", "o.zarr.partial")
        self.ok("eval", "ones(3)", "-o", "o.zarr")  # takes over what is left
        np.testing.assert_array_equal(self.array("o.zarr/result"), np.ones(3))
        self.assertEqual(self.leftovers(), [])


main()
