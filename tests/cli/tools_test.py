"""The commands that go through files: convert, diff, verify, doctor, info; against h5py and NumPy."""

import json
import re
import time

from support import CliTest, h5py, main, np


class Convert(CliTest):
    def test_every_format_from_every_other(self):
        x = np.random.default_rng(1).standard_normal((300, 40))
        self.write("x.h5", x=(x, {"chunks": (7, 11), "compression": "gzip", "shuffle": True}))
        np.save(self.path("x.npy"), x)
        np.savez(self.path("x.npz"), x=x)
        self.ok("convert", "x.h5:/x", "-o", "x.csv")
        for source in ["x.h5:/x", "x.npy", "x.npz:/x", "x.csv:/"]:
            for target in ["y.h5:/y", "y.npy", "y.npz:/y", "y.csv"]:
                self.ok("convert", source, "-o", target, "--overwrite", "--memory", "64MiB", ranks=2 if target == "y.h5:/y" else 0)
                if target == "y.h5:/y":
                    np.testing.assert_array_equal(self.read("y.h5", "y"), x)
                elif target == "y.npy":
                    np.testing.assert_array_equal(np.load(self.path("y.npy")), x)
                elif target == "y.npz:/y":
                    with np.load(self.path("y.npz")) as found:
                        np.testing.assert_array_equal(found["y"], x)
                self.ok("diff", source, target if ":" in target or target.endswith("npy") else target + ":/", "--values")

    def test_whole_files_keep_names_attributes_and_layouts(self):
        random = np.random.default_rng(2)
        table = np.zeros(50, [("day", "i4"), ("price", "f8", (3,))])
        table["day"], table["price"] = np.arange(50), random.standard_normal((50, 3))
        with h5py.File(self.path("a.h5"), "w") as file:
            file["plain"] = np.arange(12).reshape(3, 4)
            file["plain"].attrs["units"] = "m/s"
            file["plain"].attrs["_FillValue"] = np.array([7])
            packed = random.integers(0, 9, (100, 90))
            file.create_dataset("g/packed", data=packed, chunks=(30, 20), compression="gzip", compression_opts=6, shuffle=True, fletcher32=True)
            file["g/packed"].attrs["scale"] = [1.5, 2.5]
            file.create_dataset("g/deep/chunked", data=random.standard_normal((60, 7)).astype(">f4"), chunks=(8, 7))
            file["scalar"], file["empty"], file["table"], file["text"] = np.float32(2.5), np.zeros((0, 4)), table, np.array([b"abc", b"d"])
        self.fails(2, "a.h5:/text is no array of numbers", "convert", "a.h5", "-o", "b.h5")
        self.assertFalse((self.dir / "b.h5").exists())
        self.assertIn("/text is left out", self.ok("convert", "a.h5", "-o", "b.h5", "--skip").err)
        with h5py.File(self.path("a.h5")) as a, h5py.File(self.path("b.h5")) as b:
            for name in ["plain", "g/packed", "g/deep/chunked", "scalar", "empty"]:
                np.testing.assert_array_equal(a[name][()], b[name][()])
                self.assertEqual(a[name].chunks, b[name].chunks, name)
                self.assertEqual(a[name].compression, b[name].compression, name)
                self.assertEqual(a[name].compression_opts, b[name].compression_opts, name)
                self.assertEqual(a[name].shuffle, b[name].shuffle)
                self.assertEqual(a[name].fletcher32, b[name].fletcher32)
            np.testing.assert_array_equal(b["table/price"][()], table["price"])
            np.testing.assert_array_equal(b["table/day"][()], table["day"])
            self.assertEqual(b["plain"].attrs["units"], "m/s")
            self.assertEqual(b["plain"].attrs["_FillValue"], 7)
            self.assertEqual(b["plain"].attrs["_FillValue"].dtype, np.int64)
            np.testing.assert_array_equal(b["g/packed"].attrs["scale"], [1.5, 2.5])
            self.assertNotIn("text", b)
        self.ok("convert", "a.h5", "-o", "c.h5:/copy", "--skip", "--out-chunks", "16,16", "--out-filter", "zstd:3,shuffle", "--dtype", "float32")
        self.assertRegex(self.ok("info", "c.h5:/copy/g/packed").out, r"\(100, 90\) float32 .*chunks \(16, 16\).*shuffle,zstd:3")
        self.ok("diff", "a.h5:/g", "c.h5:/copy/g", "--values", "--rtol", "1e-6")
        self.ok("convert", "a.h5:/g", "-o", "d.npz")
        with np.load(self.path("d.npz")) as found:
            self.assertEqual(sorted(found.files), ["g/deep/chunked", "g/packed"])

    def test_groups_and_texts_keep_their_attributes(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            file.attrs["title"], file.attrs["quarry_version"] = "all of it", "0"
            file["x"] = np.arange(6.0)
            file["x"].attrs["axes"] = np.array(["time", "plätze"], h5py.string_dtype())
            file["x"].attrs["fixed"] = np.array([b"ab", b"c"])
            file["x"].attrs["none"] = np.nan
            group = file.create_group("g")
            group.attrs["source"], group.attrs["n"], group.attrs["weights"] = "a", 3, [0.5, 1.5]
            group["y"] = np.arange(3)
            file.create_group("g/empty").attrs["why"] = "nothing yet"
        kept = {"/": {"title": "all of it"}, "g": {"source": "a", "n": 3, "weights": [0.5, 1.5]}, "g/empty": {"why": "nothing yet"}}
        for ranks, chain in [(0, ["a.h5", "b.h5"]), (2, ["a.h5", "b.zarr", "c.zarr", "c.h5"])]:
            for source, target in zip(chain, chain[1:]):
                self.ok("convert", source, "-o", target, *(["--out-zarr", "3"] if target == "c.zarr" else []), ranks=ranks)
                self.ok("diff", "a.h5", target)
            with h5py.File(self.path(chain[-1])) as file:
                for name, attributes in kept.items():
                    self.assertEqual({key: value.tolist() if hasattr(value, "tolist") else value for key, value in file[name].attrs.items()}, attributes)
                self.assertEqual(list(file["x"].attrs["axes"]), ["time", "plätze"])
                self.assertEqual([str(text) for text in file["x"].attrs["fixed"]], ["ab", "c"])
        self.assertEqual(json.loads((self.dir / "b.zarr/g/.zattrs").read_text()), kept["g"])
        self.assertEqual(json.loads((self.dir / "c.zarr/g/zarr.json").read_text())["attributes"], kept["g"])
        # Below another group, and where there are attributes already.
        self.ok("convert", "a.h5:/g", "-o", "d.h5:/copy")
        self.ok("diff", "a.h5:/g", "d.h5:/copy")
        for name in ["b.h5", "b.zarr"]:
            with h5py.File(self.path("a.h5"), "a") as file:
                file["g"].attrs["n"] = 3
            self.ok("eval", "ones(2)", "-o", f"{name}:/g/more")
            with h5py.File(self.path("a.h5"), "a") as file:
                file["g"].attrs["n"] = 4
                file["g"].attrs["new"] = "yes"
            self.assertIn("/g: attributes @n, @new (first only)", self.run_quarry("diff", "a.h5", name).out)
            self.ok("convert", "a.h5", "-o", name, "--overwrite")
            self.assertEqual(self.run_quarry("diff", "a.h5", name).out, f"/g/more: is only in {name}\n")
            with h5py.File(self.path("a.h5"), "a") as file:
                del file["g"].attrs["new"]
        self.ok("convert", "a.h5:/x", "-o", "x.npy")  # has no attributes

    def test_what_cannot_be(self):
        self.write("a.h5", x=np.arange(3), y=np.arange(4))
        self.fails(2, "takes one array", "convert", "a.h5", "-o", "x.npy")
        self.ok("convert", "a.h5:/x", "-o", "x.npy")
        self.fails(2, "no dtype 'float12'", "convert", "a.h5:/x", "-o", "y.npy", "--dtype", "float12")
        self.ok("convert", "a.h5", "-o", "b.h5")
        self.fails(2, "exists", "convert", "a.h5", "-o", "b.h5")
        self.fails(2, "did you mean '/x'", "convert", "a.h5:/xx", "-o", "c.h5")


class Diff(CliTest):
    def status(self, *arguments, ranks=0):
        return self.run_quarry("diff", *arguments, ranks=ranks)

    def test_values(self):
        x = np.random.default_rng(3).standard_normal((200, 30))
        x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, -np.inf
        y = x.copy()
        y[100, 2] += 1e-9
        y[150, 29] += 0.5
        self.write("a.h5", x=(x, {"chunks": (9, 9)}), same=(x, {"chunks": (200, 1)}), other=y, single=x.astype("f4"))
        self.write("b.h5", x=x)
        for ranks in [0, 2]:
            self.assertEqual(self.status("a.h5:/x", "a.h5:/same", ranks=ranks).status, 0)
            found = self.status("a.h5:/x", "a.h5:/other", ranks=ranks)
            self.assertEqual(found.status, 1)
            self.assertRegex(found.out, r"2 of 6,000 values, the first at \(100, 2\), by 0\.5 at most")
        found = self.status("a.h5:/x", "a.h5:/other", "--atol", "1e-6")
        self.assertRegex(found.out, r"1 of 6,000 values, the first at \(150, 29\)")
        self.assertEqual(self.status("a.h5:/x", "a.h5:/other", "--atol", "1").status, 0)
        found = self.status("a.h5:/x", "a.h5:/single", "--rtol", "1e-6")
        self.assertEqual((found.status, "dtypes float64 and float32" in found.out), (1, True))
        self.assertEqual(self.status("a.h5:/x", "a.h5:/single", "--rtol", "1e-6", "--values").status, 0)

    def test_whole_files(self):
        for name in ["a.h5", "b.h5", "c.h5"]:
            with h5py.File(self.path(name), "w") as file:
                file["x"], file["g/y"], file["e"], file["flag"] = np.arange(6), np.ones((2, 2)), np.zeros(0), np.array([True, False])
                if name != "c.h5":
                    file["s"] = np.int8(3)
                    continue
                file["x"].attrs["units"] = "m"
                file["g"].attrs["title"] = "t"
                file["flag"][1] = True
                file["more"] = 1
        self.assertEqual(self.status("a.h5", "b.h5").status, 0)
        found = self.status("a.h5", "c.h5")
        self.assertEqual(found.status, 1)
        for line in ["/x: attributes @units (second only)", "/g: attributes @title (second only)", "/more: is only in c.h5", "/s: is only in a.h5", "/flag: 1 of 2 values, the first at (1,)"]:
            self.assertIn(line, found.out)
        self.assertNotIn("/e:", found.out)

    def test_trouble_is_no_difference(self):
        self.write("a.h5", x=np.arange(6))
        self.assertEqual(self.status("a.h5", "none.h5").status, 2)
        self.assertEqual(self.status("a.h5:/y", "a.h5").status, 2)
        self.assertEqual(self.status("a.h5", "a.h5", "--rtol", "-1").status, 2)
        self.write("t.h5", t=np.array([b"ab"]))
        found = self.status("t.h5", "t.h5")
        self.assertEqual((found.status, "cannot be compared" in found.out), (2, True))
        # A file that ends while it is read.
        self.write("big.h5", x=(np.random.default_rng(1).integers(0, 256, 1 << 20, dtype="u1"), {"chunks": (1 << 16,), "compression": "gzip"}))
        data = bytearray(self.contents("big.h5"))
        data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
        (self.dir / "bad.h5").write_bytes(data)
        self.assertEqual(self.status("big.h5", "bad.h5").status, 2)


class Verify(CliTest):
    def test_damaged_chunks_are_named(self):
        x = np.random.default_rng(4).integers(0, 200, (100, 64)).astype("i4")
        self.write("a.h5", sums=(x, {"chunks": (10, 64), "fletcher32": True}), packed=(x, {"chunks": (10, 64), "compression": "gzip"}), plain=x)
        self.assertIn("3 data sets", self.ok("verify", "a.h5").out)
        with h5py.File(self.path("a.h5")) as file:
            places = [file["sums"].id.get_chunk_info(i).byte_offset for i in (2, 7)]
            places.append(file["packed"].id.get_chunk_info(4).byte_offset)
        data = bytearray(self.contents("a.h5"))
        for place in places:
            data[place + 50] ^= 0x10
        (self.dir / "b.h5").write_bytes(data)
        found = self.run_quarry("verify", "b.h5")
        self.assertEqual(found.status, 1)
        for pattern in [r"'/sums' in 'b.h5': damaged chunk at \(20, 0\): its Fletcher-32", r"'/sums' .* at \(70, 0\)", r"'/packed' in 'b.h5': damaged chunk at \(40, 0\)", r"3 damaged"]:
            self.assertRegex(found.out, pattern)

    def test_checksums_of_the_format(self):
        with h5py.File(self.path("a.h5"), "w", libver="latest") as file:
            for i in range(30):
                file[f"g/link number {i}"] = i
            file.create_dataset("x", data=np.arange(1000), chunks=(10,), maxshape=(None,))
        self.ok("verify", "a.h5")
        data = self.contents("a.h5")
        for signature in [b"FRHP", b"FHDB", b"BTHD", b"BTLF", b"EAHD", b"EAIB", b"OHDR"]:
            bad = bytearray(data)
            bad[data.rindex(signature) + 9] ^= 1
            (self.dir / "b.h5").write_bytes(bad)
            found = self.run_quarry("verify", "b.h5")
            self.assertEqual(found.status, 1, (signature, found.out))
            self.assertRegex(found.out, "damaged", signature)
        (self.dir / "c.h5").write_bytes(data[:-100])
        found = self.run_quarry("verify", "c.h5")
        self.assertEqual(found.status, 2)
        self.assertIn("the last 100 are missing", found.err)

    def test_other_formats(self):
        np.savez_compressed(self.path("a.npz"), x=np.arange(10000), y=np.ones(5))
        self.ok("verify", "a.npz")
        data = bytearray(self.contents("a.npz"))
        data[len(data) // 4] ^= 8
        (self.dir / "b.npz").write_bytes(data)
        self.assertNotEqual(self.run_quarry("verify", "b.npz").status, 0)
        (self.dir / "a.csv").write_text("a,b\n1,2\n3,4\n")
        self.ok("verify", "a.csv")

    def test_shapes_of_any_size_cost_nothing(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            file.create_dataset("x", shape=(10**15, 200), chunks=(100, 200), dtype="f4")[5, 5] = 1
        begin = time.monotonic()
        self.assertIn("nothing is damaged", self.ok("verify", "a.h5").out)
        self.assertLess(time.monotonic() - begin, 5)


class Info(CliTest):
    def test_what_was_never_written(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            file.attrs["title"] = "all"
            file.create_group("g").attrs["n"] = 3
            file.create_dataset("empty", shape=(50, 4), dtype="f4")
            file.create_dataset("chunked", shape=(50, 4), dtype="f4", chunks=(5, 4))
            file["x"] = np.arange(100000.0)
        text = self.ok("info", "a.h5", "--rate").out
        self.assertRegex(text, r"/empty .*never written\n")
        self.assertRegex(text, r"/chunked .*never written\n")
        self.assertRegex(text, r"/x .*one thread reads .*/s\n")
        self.assertNotRegex(text, r"/x .*never")
        self.assertIn('@title = "all"', text)
        self.assertIn("@n = 3", text)

    def test_many_objects(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            for i in range(100):
                group = file.create_group(f"g{i}")
                for j in range(100):
                    group[f"x{j}"] = j
        begin = time.monotonic()
        text = self.ok("info", "a.h5").out
        seconds = time.monotonic() - begin
        self.assertEqual(text.count("int64"), 10000)
        self.assertLess(seconds, 5)  # 0.2 s on an idle machine

    def test_tables_are_described_once(self):
        fields = [(f"f{i}", "i4") for i in range(200)]
        with h5py.File(self.path("a.h5"), "w") as file:
            file.create_dataset("t", shape=(20000,), dtype=fields, chunks=(1,))[::2] = np.zeros(10000, fields)
        begin = time.monotonic()
        self.assertEqual(self.ok("info", "a.h5").out.count("/t:f"), 200)
        self.assertLess(time.monotonic() - begin, 10)


class Refused(CliTest):
    def test_plans_of_shapes_that_no_rank_lists(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            file.create_dataset("pib", shape=(100 * 2**50 // 8,), dtype="f8", chunks=(1 << 17,))
            file.create_dataset("tall", shape=(10**15, 200), dtype="f8", chunks=(1000, 200))
        for name in ["pib", "tall"]:
            for expression in [
                "sum(x)", "mean(x, axis=0)", "x[1:] - x[:-1]", "cumsum(x, axis=0)", "concatenate([x, x])", "diff(x, axis=0)", "topk(x, 3, axis=0)",
                "sort(x, axis=0)", "sort(x.ravel())", "x[x > 0]", "roll(x, 5)",
            ]:
                for more in [["--plan"], []]:
                    begin = time.monotonic()
                    self.fails(2, r"the plan has at least [0-9.e+]+ tasks", "eval", expression, "-i", f"x=a.h5:/{name}", *more)
                    self.assertLess(time.monotonic() - begin, 10)
            self.ok("eval", "x[10:12]", "-i", f"x=a.h5:/{name}")  # what is small is small


class Doctor(CliTest):
    def test_it_looks_at_everything(self):
        for ranks in [0, 2]:
            text = self.ok("doctor", ranks=ranks).out
            for what in ["formats: HDF5", "spill folder", "this folder", "cores", "page cache"]:
                self.assertIn(what, text)
            if ranks:
                self.assertIn("MPI: 2 ranks", text)
            self.assertTrue(re.search(r"\d+ to look at|nothing is missing or slow", text), text)


if __name__ == "__main__":
    main()
