"""Data sets that are there: appended to and changed in part, compared with what h5py would have made."""

import fcntl
import os
import random
import shutil
import signal
import subprocess
import time

import h5py

from support import TIMEOUT, CliTest, main, np

LAYOUTS = {
    "contiguous": {},
    "chunked": {"chunks": (4, 5)},
    "deflate": {"chunks": (4, 5), "compression": "gzip", "shuffle": True},
    "fletcher32": {"chunks": (4, 5), "fletcher32": True},
    "one_chunk": {"chunks": (17, 13), "compression": "gzip"},
}
REGIONS = ["0:17, 0:13", "3:9, 2:11", "4:8, 5:10", "16, :", "..., -1", "0:0, :", "-3:, :2"]


def region_of(text):
    return eval(f"np.s_[{text}]")  # noqa: S307: written above


class Regions(CliTest):
    def numbers(self, shape, dtype, first=0):
        count = int(np.prod(shape))
        if dtype == "?":
            return (np.arange(first, first + count).reshape(shape) % 3 == 0).astype(dtype)
        return (np.arange(first, first + count) % 100).reshape(shape).astype(dtype)

    def check_region(self, dtype, layout, text, ranks=0, latest=False):
        name = f"r{random.getrandbits(60)}.h5"
        old = self.numbers((17, 13), dtype)
        with h5py.File(self.path(name), "w", libver="latest" if latest else "earliest") as file:
            file.create_dataset("g/x", data=old, **layout)
            file["other"] = np.arange(1000)
        new = self.numbers(old[region_of(text)].shape, np.dtype(dtype).newbyteorder("="), first=37)
        self.write("n" + name, new=new)
        self.ok("eval", "new", "-i", f"new=n{name}:/new", "-o", f"{name}:/g/x", "--region", text, "--chunks", "3,4" if new.ndim == 2 else "3", ranks=ranks)
        expected = old.copy()
        expected[region_of(text)] = new
        with h5py.File(self.path(name)) as file:
            np.testing.assert_array_equal(file["g/x"][()], expected, err_msg=f"{dtype} {layout} {text}")
            self.assertEqual(file["g/x"].dtype, old.dtype)
            np.testing.assert_array_equal(file["other"][()], np.arange(1000))
        self.assertEqual([p.name for p in self.dir.glob(f"{name}.*")], [])

    def test_layouts_and_regions(self):
        """Every region of encoded chunks; of the others what covers chunks in part, and a last row."""
        for name, layout in LAYOUTS.items():
            for text in REGIONS if name == "deflate" else ["3:9, 2:11", "16, :"]:
                self.check_region("f8", layout, text)

    def test_dtypes(self):
        for dtype in ["?", "u1", "<i2", ">i2", "<f2", "<f4", ">f8", "<c16", "<i8"]:
            for layout in ["contiguous", "deflate"]:
                self.check_region(dtype, LAYOUTS[layout], "3:9, 2:11")

    def test_newer_indexes(self):
        """A single chunk, fixed and extensible arrays, version 2 trees."""
        for more in [{}, {"maxshape": (None, 13)}, {"maxshape": (None, None)}]:
            for layout in ["chunked", "deflate", "one_chunk"]:
                self.check_region("f4", {**LAYOUTS[layout], **more}, "3:9, 2:11", latest=True)

    def test_ranks(self):
        for ranks, layout in [(2, "contiguous"), (2, "deflate"), (4, "chunked"), (4, "deflate")]:
            self.check_region("f8", LAYOUTS[layout], "3:16, 2:11", ranks=ranks)

    def test_what_was_never_written(self):
        for options in [{}, {"chunks": (4, 5)}, {"chunks": (4, 5), "fillvalue": 7.5}, {"chunks": (4, 5), "fillvalue": 7.5, "compression": "gzip"}]:
            with h5py.File(self.path("e.h5"), "w") as file:
                file.create_dataset("x", shape=(17, 13), dtype="f8", **options)
            self.ok("eval", "ones((6, 9))", "-o", "e.h5:/x", "--region", "3:9, 2:11")
            expected = np.full((17, 13), options.get("fillvalue", 0.0))
            expected[3:9, 2:11] = 1
            np.testing.assert_array_equal(self.read("e.h5", "x"), expected, err_msg=str(options))

    def test_the_same_data_set_is_read_and_written(self):
        x = np.arange(400.0 * 300).reshape(400, 300)
        for layout in [{}, {"chunks": (64, 64)}, {"chunks": (64, 64), "compression": "gzip"}]:
            for ranks in [0, 2]:
                self.write("s.h5", x=(x, layout))
                self.ok("eval", "x[::-1] + 1", "-i", "x=s.h5:/x", "-o", "s.h5:/x", "--region", "...", "--chunks", "50,70", ranks=ranks)
                np.testing.assert_array_equal(self.read("s.h5", "x"), x[::-1] + 1)
                os.remove(self.path("s.h5"))

    def test_large_files_are_not_copied(self):
        """A region of a sparse file of 64 GiB."""
        with h5py.File(self.path("big.h5"), "w") as file:
            file.create_dataset("x", shape=(1 << 33,), dtype="f8", chunks=(1 << 26,))
            file["x"][-1] = 1
            contiguous = file.create_dataset("y", shape=(1 << 33,), dtype="f8")
            contiguous[0] = 1
        begin = os.stat(self.path("big.h5")).st_blocks
        self.ok("eval", "arange(1000.0)", "-o", "big.h5:/y", "--region", "5000000000:5000001000")
        with h5py.File(self.path("big.h5")) as file:
            np.testing.assert_array_equal(file["y"][5000000000:5000001000], np.arange(1000.0))
            self.assertEqual(file["y"][0], 1)
        self.assertLess(os.stat(self.path("big.h5")).st_blocks - begin, 1 << 11)

    def test_changed_again_and_again(self):
        """Encoded chunks of any size take the place of others; the file stays one that the library can change."""
        x = np.zeros((40, 30))
        self.write("again.h5", x=(x, {"chunks": (8, 7), "compression": "gzip", "maxshape": (None, 30)}))
        generator = random.Random(5)
        for i in range(12):
            a, b = sorted(generator.sample(range(41), 2))
            c, d = sorted(generator.sample(range(31), 2))
            if i % 4 == 3:
                with h5py.File(self.path("again.h5"), "r+") as file:
                    file["x"][a:b, c:d] = i
                    file.create_dataset(f"more{i}", data=np.arange(i))
            else:
                self.ok("eval", f"full(({b - a}, {d - c}), {i}.0)", "-o", "again.h5:/x", "--region", f"{a}:{b}, {c}:{d}")
            x[a:b, c:d] = i
            np.testing.assert_array_equal(self.read("again.h5", "x"), x)
        self.ok("verify", "again.h5")
        dump = subprocess.run(["h5dump", "-H", self.path("again.h5")], capture_output=True, check=False)
        self.assertEqual(dump.returncode, 0, dump.stderr)


class Appends(CliTest):
    def check_append(self, dtype, layout, axis, counts, ranks=0, latest=False, first=0, **file_options):
        name = f"a{random.getrandbits(60)}.h5"
        shape = [11, 7]
        shape[axis] = first
        maxshape = [11, 7]
        maxshape[axis] = None
        expected = (np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype)
        with h5py.File(self.path(name), "w", libver=latest if isinstance(latest, tuple) else "latest" if latest else "earliest", **file_options) as file:
            file.create_dataset("g/x", data=expected, maxshape=tuple(maxshape), **layout)
            file["other"] = np.arange(1000)
        for i, count in enumerate(counts):
            shape[axis] = count
            new = (np.arange(np.prod(shape)) % 90 + i).reshape(shape).astype(np.dtype(dtype).newbyteorder("="))
            self.write("n" + name, **{f"new{i}": new})
            self.ok("eval", "new", "-i", f"new=n{name}:/new{i}", "-o", f"{name}:/g/x", "--append", axis - 2 * (i % 2), "--chunks", "3,4", ranks=ranks)
            expected = np.concatenate([expected, new], axis=axis).astype(dtype)
            with h5py.File(self.path(name)) as file:
                np.testing.assert_array_equal(file["g/x"][()], expected, err_msg=f"{dtype} {layout} {axis} {counts}")
                self.assertEqual(file["g/x"].maxshape, tuple(maxshape))
                np.testing.assert_array_equal(file["other"][()], np.arange(1000))
        self.assertEqual([p.name for p in self.dir.glob(f"{name}.*")], [])
        with h5py.File(self.path(name), "r+") as file:
            file["g/x"].resize(file["g/x"].shape[axis] + 30, axis)
            tail = file["g/x"][expected.shape[0] :] if axis == 0 else file["g/x"][:, expected.shape[1] :]
            np.testing.assert_array_equal(tail, np.full_like(tail, layout.get("fillvalue", 0)))

    def test_axes_and_filters(self):
        for options in [{}, {"compression": "gzip", "shuffle": True}, {"fletcher32": True}, {"fillvalue": 3}, {"fillvalue": 3, "compression": "gzip"}]:
            for axis in [0, 1]:
                self.check_append("f8", {"chunks": (4, 5), **options}, axis, [1, 40, 0, 3], first=3)

    def test_from_nothing(self):
        for options in [{}, {"compression": "gzip"}]:
            self.check_append("f4", {"chunks": (4, 5), **options}, 0, [5, 6])

    def test_dtypes(self):
        for dtype, options in [("?", {}), ("u1", {"compression": "gzip"}), (">i4", {"compression": "gzip"}), ("<f2", {}), ("<c8", {"compression": "gzip"})]:
            self.check_append(dtype, {"chunks": (4, 5), **options}, 0, [3, 6], first=2)

    def test_newer_indexes(self):
        for options in [{}, {"compression": "gzip"}]:
            self.check_append("f8", {"chunks": (4, 5), **options}, 1, [1, 20], latest=True, first=4)

    def test_kinds_of_files(self):
        """Behind a user block; with managed free space; with newer superblocks and older indexes."""
        for file_options in [{"userblock_size": 1024}, {"fs_strategy": "page", "fs_persist": True}, {"fs_strategy": "fsm", "fs_persist": True}, {"libver": ("v108", "v108")}]:
            libver = file_options.pop("libver", None)
            for options in [{}, {"compression": "gzip"}]:
                self.check_append("f8", {"chunks": (4, 5), **options}, 0, [3, 9], first=2, latest=libver or False, **file_options)

    def test_ranks(self):
        for ranks, options in [(2, {}), (4, {"compression": "gzip"})]:
            self.check_append("f8", {"chunks": (4, 5), **options}, 0, [7, 30], ranks=ranks, first=3)

    def test_made_by_the_first(self):
        for options in [[], ["--out-filter", "shuffle,deflate:3"], ["--out-chunks", "5,3"]]:
            expected = np.zeros((0, 6))
            for i in range(4):
                self.ok("eval", f"arange({3 + i}.0 * 6).reshape({3 + i}, 6) + {i}", "-o", "o.h5:/x", "--append", "0", *options)
                expected = np.concatenate([expected, np.arange((3 + i) * 6.0).reshape(3 + i, 6) + i])
                np.testing.assert_array_equal(self.read("o.h5", "x"), expected)
            with h5py.File(self.path("o.h5")) as file:
                self.assertEqual(file["x"].maxshape, (None, 6))
            os.remove(self.path("o.h5"))

    def test_unlimited_axes(self):
        self.ok("eval", "arange(12.0).reshape(3, 4)", "-o", "u.h5:/x", "--unlimited", "0,-1")
        with h5py.File(self.path("u.h5")) as file:
            self.assertEqual(file["x"].maxshape, (None, None))
        self.ok("eval", "arange(6.0).reshape(3, 2)", "-o", "u.h5:/x", "--append", "1")
        expected = np.concatenate([np.arange(12.0).reshape(3, 4), np.arange(6.0).reshape(3, 2)], axis=1)
        np.testing.assert_array_equal(self.read("u.h5", "x"), expected)

    def test_several_at_once(self):
        (self.dir / "s.txt").write_text("x = ones((4, 3))\nt = arange(4.0)\n")
        for _ in range(3):
            self.ok("eval", "-f", "s.txt", "-o", "several.h5", "--append", "0")
        np.testing.assert_array_equal(self.read("several.h5", "x"), np.ones((12, 3)))
        np.testing.assert_array_equal(self.read("several.h5", "t"), np.tile(np.arange(4.0), 3))
        (self.dir / "s.txt").write_text("x = ones((4, 3))\ny = arange(4.0)\n")
        self.fails(2, "some of the data sets are there, and '/y' is not", "eval", "-f", "s.txt", "-o", "several.h5", "--append", "0")


class Names(CliTest):
    """Axes with names are dimension scales, as h5py and netCDF have them."""

    def scales(self, name, key):
        """By axis: the path of its scale."""
        with h5py.File(self.path(name)) as file:
            dataset = file[key]
            return [[scale.name for scale in axis.values()] for axis in dataset.dims]

    def test_coordinates_beside_the_array(self):
        (self.dir / "s.txt").write_text("x = ones((4, 3, 2))\ntime = arange(4.0) * 10\nlat = arange(3.0)\n")
        self.ok("eval", "-f", "s.txt", "-o", "n.h5:/g", "--dims", "time, lat,lon")
        self.assertEqual(self.scales("n.h5", "g/x"), [["/g/time"], ["/g/lat"], ["/g/lon"]])
        with h5py.File(self.path("n.h5")) as file:
            group = file["g"]
            for name in ["time", "lat", "lon"]:
                self.assertTrue(h5py.h5ds.is_scale(group[name].id))
            self.assertEqual(group["time"].attrs["NAME"], b"time")
            self.assertEqual(group["lon"].shape, (2,))
            self.assertTrue(group["lon"].attrs["NAME"].startswith(b"This is a netCDF dimension but not a netCDF variable."))
            np.testing.assert_array_equal(group["time"][()], np.arange(4.0) * 10)
            # h5py's own functions go on with them.
            self.assertEqual(list(group["x"].dims[0].keys()), ["time"])
        with h5py.File(self.path("n.h5"), "r+") as file:
            file["g/y"] = np.zeros((4, 2))
            file["g/y"].dims[0].attach_scale(file["g/time"])
            file["g/x"].dims[1].detach_scale(file["g/lat"])
        self.assertEqual(self.scales("n.h5", "g/x"), [["/g/time"], [], ["/g/lon"]])

    def test_scales_that_are_there(self):
        self.write("n.h5", time=np.arange(4.0))
        for key in ["a", "b"]:
            self.ok("eval", "ones((4, 5))", "-o", f"n.h5:/{key}", "--dims", "time,level")
            self.assertEqual(self.scales("n.h5", key), [["/time"], ["/level"]])
        # A scale forgets what is replaced.
        self.ok("eval", "zeros((4, 4))", "-o", "n.h5:/a", "--dims", "time,other", "--overwrite")
        self.ok("eval", "zeros((7, 4))", "-o", "n.h5:/b", "--overwrite")
        self.assertEqual(self.scales("n.h5", "a"), [["/time"], ["/other"]])
        with h5py.File(self.path("n.h5")) as file:
            self.assertEqual([(file[r["dataset"]].name, r["dimension"]) for r in file["time"].attrs["REFERENCE_LIST"]], [("/a", 0)])
            self.assertNotIn("REFERENCE_LIST", file["level"].attrs)
        dump = subprocess.run(["h5dump", self.path("n.h5")], capture_output=True, text=True, check=False)
        self.assertEqual(dump.returncode, 0, dump.stderr)

    def test_names_are_kept_by_convert(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            group = file.create_group("g")
            for name, values in [("time", np.arange(4.0)), ("lat", np.arange(3.0)), ("alone", np.arange(2.0))]:
                group[name] = values
                group[name].make_scale(name)
            # As netCDF's library makes one that has no coordinates.
            group["lon"] = np.zeros(2, ">f4")
            group["lon"].make_scale(f"This is a netCDF dimension but not a netCDF variable.{2:10}")
            for key, axes in [("x", ["time", "lat", "lon"]), ("y", ["time", "lat"]), ("square", ["time", "time"]), ("some", ["lat"])]:
                group[key] = np.random.default_rng(1).normal(size=[{"time": 4, "lat": 3, "lon": 2}[a] for a in axes] + ([5] if key == "some" else []))
                for axis, name in enumerate(axes):
                    group[key].dims[axis].attach_scale(group[name])
        self.ok("convert", "in.h5", "-o", "out.h5")
        self.assertEqual(self.scales("out.h5", "g/x"), [["/g/time"], ["/g/lat"], ["/g/lon"]])
        self.assertEqual(self.scales("out.h5", "g/y"), [["/g/time"], ["/g/lat"]])
        for key in ["square", "some"]:  # which quarry does not make
            self.assertEqual(self.scales("out.h5", f"g/{key}"), [[], []])
        with h5py.File(self.path("in.h5")) as before, h5py.File(self.path("out.h5")) as after:
            self.assertEqual(sorted(before["g"]), sorted(after["g"]))
            for key in before["g"]:
                np.testing.assert_array_equal(before["g"][key][()], after["g"][key][()])
                self.assertEqual(h5py.h5ds.is_scale(before["g"][key].id), h5py.h5ds.is_scale(after["g"][key].id), key)
                if "NAME" in before["g"][key].attrs:
                    self.assertEqual(before["g"][key].attrs["NAME"], after["g"][key].attrs["NAME"])
        # One of them alone, under another name.
        self.ok("convert", "in.h5:/g/y", "-o", "one.h5:/z")
        self.assertEqual(self.scales("one.h5", "z"), [["/time"], ["/lat"]])
        self.ok("convert", "in.h5:/g/time", "-o", "t.h5:/hours")
        with h5py.File(self.path("t.h5")) as file:
            self.assertTrue(h5py.h5ds.is_scale(file["hours"].id))
            self.assertEqual(list(file), ["hours"])

    def test_a_coordinate_alone(self):
        self.ok("eval", "arange(5.0)", "-o", "n.h5:/time", "--dims", "time")
        with h5py.File(self.path("n.h5")) as file:
            self.assertTrue(h5py.h5ds.is_scale(file["time"].id))
            self.assertNotIn("DIMENSION_LIST", file["time"].attrs)

    def test_axes_that_grow(self):
        for i in range(3):
            (self.dir / "s.txt").write_text(f"x = ones((2, 3))\ntime = arange(2.0) + {2 * i}\n")
            self.ok("eval", "-f", "s.txt", "-o", "n.h5", "--append", "0", "--dims", "time,lat")
        self.assertEqual(self.scales("n.h5", "x"), [["/time"], ["/lat"]])
        np.testing.assert_array_equal(self.read("n.h5", "time"), np.arange(6.0))
        self.assertEqual(self.read("n.h5", "x").shape, (6, 3))

    def test_filters_and_ranks(self):
        self.ok("eval", "ones((40, 30))", "-o", "n.h5:/x", "--dims", "time,lat", "--out-filter", "deflate", "--out-chunks", "7,30", ranks=2)
        self.assertEqual(self.scales("n.h5", "x"), [["/time"], ["/lat"]])
        np.testing.assert_array_equal(self.read("n.h5", "x"), np.ones((40, 30)))

    def test_mistakes(self):
        self.write("n.h5", lat=np.arange(4.0), wide=np.zeros((3, 3)))
        for pattern, arguments in [
            (r"there are 3 names of axes, and no array of so many", ["ones((4, 3))", "-o", "n.h5:/x", "--dims", "a,b,c"]),
            (r"'b' is there twice", ["ones((4, 3))", "-o", "n.h5:/x", "--dims", "b,b"]),
            (r"'' can be no name", ["ones((4, 3))", "-o", "n.h5:/x", "--dims", "b,,"]),
            (r"'a/b' can be no name", ["ones((4, 3))", "-o", "n.h5:/x", "--dims", "a/b,c"]),
            (r"axis 1 of '/x' cannot have the scale '/lat': it has 4 elements, and the axis 3", ["ones((4, 3))", "-o", "n.h5:/x", "--dims", "time,lat"]),
            (r"the scale '/wide': it has not one axis", ["ones((4, 3))", "-o", "n.h5:/x", "--dims", "time,wide"]),
            (r"'x' is the name of the data set, which has more than one axis", ["ones((4, 3))", "-o", "n.h5:/x", "--dims", "x,b"]),
            (r"names of axes are for HDF5, and the output is of the format", ["ones((4, 3))", "-o", "n.npy", "--dims", "x,b"]),
            (r"--dims needs an output", ["ones((4, 3))", "--dims", "x,b"]),
            (r"--region does not go with --dims", ["ones((3, 3))", "-o", "n.h5:/wide", "--region", "...", "--dims", "x,b"]),
        ]:
            self.fails(2, pattern, "eval", *arguments)
        self.assertEqual(self.keys("n.h5"), ["lat", "wide"])


class Mistakes(CliTest):
    def setUp(self):
        super().setUp()
        self.write("f.h5", fixed=np.zeros((4, 3)), grows=(np.zeros((4, 3)), {"maxshape": (None, 3)}), limited=(np.zeros((4, 3)), {"maxshape": (6, 3)}))

    def test_what_does_not_fit(self):
        before = self.contents("f.h5")
        # One after the other: each has the file alone.
        for pattern, arguments in [
            (r"--region takes integers", ["eval", "zeros((2, 3))", "-o", "f.h5:/fixed", "--region", "a:b"]),
            (r"--append does not go with --overwrite", ["eval", "zeros((2, 3))", "-o", "f.h5:/grows", "--append", "0", "--overwrite"]),
            (r"--region needs an output", ["eval", "zeros((2, 3))", "--region", ":"]),
            (r"/grows.*its shape is \(4, 3\), and the array's \(2, 4\): they may differ along axis 0", ["eval", "zeros((2, 4))", "-o", "f.h5:/grows", "--append", "0"]),
            (r"/grows.*float64, and the array of int64", ["eval", "zeros((2, 3), dtype='int64')", "-o", "f.h5:/grows", "--append", "0"]),
            (r"/grows.*cannot grow along axis 1", ["eval", "zeros((4, 1))", "-o", "f.h5:/grows", "--append", "1"]),
            (r"/fixed.*cannot grow along axis 0.*--unlimited", ["eval", "zeros((2, 3))", "-o", "f.h5:/fixed", "--append", "0"]),
            (r"/limited.*at most 6 elements, not 7", ["eval", "zeros((3, 3))", "-o", "f.h5:/limited", "--append", "0"]),
            (r"axis 2 is out of bounds", ["eval", "zeros((3, 3))", "-o", "f.h5:/grows", "--append", "2"]),
            (r"/fixed.*the region is of shape \(2, 3\), and the array of \(3, 3\)", ["eval", "zeros((3, 3))", "-o", "f.h5:/fixed", "--region", "0:2, :"]),
            (r"index 5 is outside of the data set, which has 4 elements along axis 0", ["eval", "zeros((3, 3))", "-o", "f.h5:/fixed", "--region", "2:5, :"]),
            (r"steps of 1, not 2", ["eval", "zeros((2, 3))", "-o", "f.h5:/fixed", "--region", "::2"]),
            (r"no object '/none'", ["eval", "zeros((2, 3))", "-o", "f.h5:/none", "--region", ":2"]),
            (r"axes that can grow are made in HDF5 files", ["eval", "zeros((2, 3))", "-o", "z.npy", "--append", "0"]),
        ]:
            self.fails(2, pattern, *arguments)
        self.assertEqual(self.contents("f.h5"), before)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["f.h5"])

    def test_filters_that_are_only_read(self):
        self.write("f.h5", lzf=(np.zeros((4, 3)), {"compression": "lzf"}))
        before = self.contents("f.h5")
        self.fails(2, "cannot change '/lzf' in 'f.h5': filter 32000 is not written", "eval", "zeros((2, 3))", "-o", "f.h5:/lzf", "--region", ":2")
        self.assertEqual(self.contents("f.h5"), before)

    def test_open_elsewhere(self):
        with h5py.File(self.path("f.h5"), "r"):
            self.fails(2, "'f.h5': another program has it open", "eval", "zeros((2, 3))", "-o", "f.h5:/grows", "--append", "0")
        self.ok("eval", "zeros((2, 3))", "-o", "f.h5:/grows", "--append", "0")

    def test_an_error_in_the_computation(self):
        before = self.contents("f.h5")
        self.fails(2, "no space left", "eval", "random.uniform(size=(2000000, 3))", "-o", "f.h5:/grows", "--append", "0", file_limit=1 << 20)
        self.assertEqual(self.contents("f.h5"), before)
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["f.h5"])

    def test_read_only(self):
        os.chmod(self.path("f.h5"), 0o444)
        before = self.contents("f.h5")
        os.chmod(self.dir, 0o755)
        around = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        for change in [["--append", "0"], ["--region", ":2"]]:
            self.fails(2, "cannot be written: Permission denied", "eval", "zeros((2, 3))", "-o", "f.h5:/grows", *change, around=around)
        self.assertEqual(self.contents("f.h5"), before)


class Kills(CliTest):
    """SIGKILL at any moment leaves the old data set or, once quarry has opened the file again, the new one."""

    SIZE = 6_000_000

    def setUp(self):
        super().setUp()
        self.old = np.zeros(self.SIZE)
        self.write("base.h5", x=self.old, c=(self.old, {"chunks": (50000,), "maxshape": (None,)}), z=(self.old, {"chunks": (50000,), "maxshape": (None,), "compression": "gzip", "compression_opts": 1}))

    def states(self, name, key, new):
        """old or new; h5py does not take an unfinished file."""
        self.ok("info", name)
        with h5py.File(self.path(name)) as file:
            data = file[key][()]
        if data.shape == self.old.shape and np.array_equal(data, self.old):
            return "old"
        np.testing.assert_array_equal(data, new)
        return "new"

    def command(self, key, change):
        return ["eval", "ones(%d)" % self.SIZE, "-o", f"k.h5:/{key}", *change, "--progress", "off"]

    def kill_at_random(self, key, change, new, ranks):
        """Kills between the start and the end of an undisturbed run."""
        shutil.copy(self.path("base.h5"), self.path("k.h5"))
        begin = time.time()
        self.ok(*self.command(key, change), ranks=ranks)
        seconds = time.time() - begin
        self.assertEqual(self.states("k.h5", key, new), "new")
        for i in range(6):
            shutil.copy(self.path("base.h5"), self.path("k.h5"))
            process = self.start(*self.command(key, change), ranks=ranks)
            time.sleep(seconds * (i + random.random()) / 6)
            self.kill(process, ranks)
            self.states("k.h5", key, new)
            # And the next change works.
            self.ok("eval", "full(3, 2.0)", "-o", f"k.h5:/{key}", "--region", "5:8")
            with h5py.File(self.path("k.h5")) as file:
                self.assertEqual(file[key][4:9].tolist()[1:4], [2.0] * 3)
            self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["base.h5", "k.h5"])

    def kill(self, process, ranks):
        children = [int(p) for p in os.popen(f"pgrep -P {process.pid}").read().split()] if ranks else []
        for pid in [*children, process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.communicate(timeout=TIMEOUT)
        with open(self.path("k.h5"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the last rank has gone

    def is_marked(self):
        with open(self.path("k.h5"), "rb") as file:
            return file.read(4) == b"\x89QRY"

    def leaves_it_marked(self, key, change):
        """Kills a change within its commit; False where it was too fast for that."""
        shutil.copy(self.path("base.h5"), self.path("k.h5"))
        process = self.start(*self.command(key, change))
        while not self.is_marked():
            if process.poll() is not None:
                process.communicate()
                return False
        self.kill(process, 0)
        return self.is_marked()

    def kill_when_marked(self, key, change, new):
        """The moment when the file is neither: nothing takes it but quarry, which completes it."""
        if not self.leaves_it_marked(key, change):
            return False
        with self.assertRaises(OSError):
            h5py.File(self.path("k.h5"))
        self.assertTrue((self.dir / "k.h5.changes").exists())
        result = self.ok("info", "k.h5")
        self.assertIn("completing the interrupted change", result.err)
        self.assertFalse((self.dir / "k.h5.changes").exists())
        self.assertEqual(self.states("k.h5", key, new), "new")
        return True

    def test_random_moments_of_regions(self):
        for key in ["x", "c", "z"]:
            self.kill_at_random(key, ["--region", ":"], np.ones(self.SIZE), ranks=0)

    def test_random_moments_of_appends(self):
        for key, ranks in [("c", 0), ("z", 0), ("c", 2)]:
            self.kill_at_random(key, ["--append", "0"], np.concatenate([self.old, np.ones(self.SIZE)]), ranks=ranks)

    def test_a_change_that_is_half_made(self):
        for key in ["x", "c"]:
            self.assertTrue(any(self.kill_when_marked(key, ["--region", ":"], np.ones(self.SIZE)) for _ in range(5)))

    def test_a_journal_that_is_lost(self):
        self.assertTrue(any(self.marked_without_journal() for _ in range(5)))

    def marked_without_journal(self):
        if not self.leaves_it_marked("x", ["--region", ":"]) or not (self.dir / "k.h5.changes").exists():
            return False
        os.truncate(self.path("k.h5.changes"), 5000)
        for command in [["info", "k.h5"], ["eval", "x", "-i", "x=k.h5:/x"], ["eval", "1", "-o", "k.h5:/new"], ["verify", "k.h5"]]:
            result = self.run_quarry(*command)
            self.assertNotEqual(result.status, 0)
            self.assertRegex(result.err, "unfinished")
        return True

    def test_another_process_changes_it(self):
        """Who comes meanwhile waits for the lock's end or says so."""
        with open(self.path("base.h5"), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.fails(2, "another program has it open", "eval", "ones(3)", "-o", "base.h5:/x", "--region", "0:3")


if __name__ == "__main__":
    main()
