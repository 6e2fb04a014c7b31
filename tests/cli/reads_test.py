"""What is read of files: each chunk that is decoded as a whole once, however many tasks and expressions want something of it, as long as the budget allows."""

import os

from support import CliTest, h5py, main, np

ALIGNED = 128  # of 100 x 100 elements of 8 bytes, in the cache


class ReadsOfChunks(CliTest):
    """700 x 500 elements in 7 x 5 compressed chunks of 100 x 100."""

    CHUNKS, CHUNK = 35, 80_000 + ALIGNED

    def setUp(self):
        super().setUp()
        self.x = np.round(np.cumsum(np.random.default_rng(0).standard_normal((700, 500)), axis=0), 2)
        with h5py.File(self.dir / "z.h5", "w") as file:
            file.create_dataset("x", data=self.x, chunks=(100, 100), compression="gzip", shuffle=True)
            chunks = file["x"].id
            self.stored = sum(chunks.get_chunk_info(i).size for i in range(self.CHUNKS))

    def evaluated(self, expression, *options, **more):
        self.ok("eval", expression, "-i", "x=z.h5:/x", "-o", "o.h5", "--overwrite", "--progress", "off", "--stats", "s.json", *options, **more)
        return self.read("o.h5")

    def test_each_is_decoded_once(self):
        x = self.x
        cases = {
            "x * 2": x * 2,
            "x - mean(x)": x - np.mean(x),
            "x[:-2] - 2 * x[1:-1] + x[2:]": x[:-2] - 2 * x[1:-1] + x[2:],
            "x[:, :-30] + x[:, 30:]": x[:, :-30] + x[:, 30:],
            "x[::7, ::3] + 1": x[::7, ::3] + 1,
            "x[::-1, 3:-5]": x[::-1, 3:-5],
            "cumsum(x, axis=1)": np.cumsum(x, axis=1),
            "x.T @ x": x.T @ x,
        }
        for ranks, device in [(0, "cpu"), (0, "emulated"), (2, "emulated"), (4, "cpu")]:
            for chunks in ["150,150", "64,500"][: 1 if ranks else 2]:
                # Two ranks have one half of them, four the other.
                for expression, expected in list(cases.items())[{2: slice(0, None, 2), 4: slice(1, None, 2)}.get(ranks, slice(None))]:
                    with self.subTest(ranks=ranks, device=device, chunks=chunks, expression=expression):
                        found = self.evaluated(expression, "--chunks", chunks, "--device", device, "--threads", 2, ranks=ranks)
                        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-7)
                        stats = self.stats()
                        self.assertEqual(stats["reread_bytes"], 0)
                        # What two ranks want is decoded by both.
                        self.assertLessEqual(stats["decoded_bytes"], max(ranks, 1) * self.CHUNKS * self.CHUNK)
                        if ranks == 0:
                            self.assertEqual((stats["decoded_bytes"], stats["read_bytes"]), (self.CHUNKS * self.CHUNK, self.stored))

    def test_a_device_decodes_them(self):
        for ranks in (0, 2):
            for expression, expected in {"x * 2": self.x * 2, "x[50:, :450] + 1": self.x[50:, :450] + 1, "x - mean(x)": self.x - np.mean(self.x)}.items():
                with self.subTest(ranks=ranks, expression=expression):
                    found = self.evaluated(expression, "--device", "emulated", "--decompress", "device", "--trace", "t.json", ranks=ranks)
                    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-7)
                    # What a run goes through twice is kept by the host.
                    self.assertEqual("on the device" in (self.dir / "t.json").read_text(), "mean" not in expression)
        self.fails(2, "expected auto, host or device", "eval", "sum(x)", "-i", "x=z.h5:/x", "--decompress", "gpu")

    def test_a_device_decodes_zstd_and_folders(self):
        for file, filters, *more in ("zstd.h5", "shuffle,zstd:3"), ("zstd.zarr", "shuffle,zstd:3"), ("zlib.zarr", "deflate:4"), ("3.zarr", "zstd:9", "--out-zarr", 3):
            with self.subTest(file=file):
                self.ok("convert", "z.h5:/x", "-o", f"{file}:/x", "--out-filter", filters, "--out-chunks", "100,100", *more)
                self.ok("eval", "x * 2", "-i", f"x={file}:/x", "-o", "o.h5", "--overwrite", "--device", "emulated", "--decompress", "device", "--trace", "t.json")
                np.testing.assert_array_equal(self.read("o.h5"), self.x * 2)
                self.assertIn("on the device", (self.dir / "t.json").read_text())

    def test_around_the_page_cache(self):
        x = np.random.default_rng(1).standard_normal((1000, 1000))
        with h5py.File(self.dir / "c.h5", "w") as file:
            file.create_dataset("x", data=x)
        for device in ("cpu", "emulated"):
            for way in ("on", "off", "auto"):
                with self.subTest(device=device, way=way):
                    self.ok("eval", "x + 1", "-i", "x=c.h5:/x", "-o", "o.h5", "--overwrite", "--progress", "off", "--stats", "s.json", "--device", device, "--direct-io", way, "--io-threads", 3, "--chunks", "300,1000")
                    np.testing.assert_array_equal(self.read("o.h5"), x + 1)
                    direct = self.stats()["direct_bytes"]
                    # Where the file system has it; the rest of a read is what is too short.
                    if way != "on" or device == "cpu":
                        self.assertIn(direct, (0,) if way != "on" else range(0, 8_000_001))
                    elif self.has_direct_io():
                        self.assertGreater(direct, 4_000_000)
        self.fails(2, "from 1 to 256", "eval", "1", "--io-threads", 0)

    def has_direct_io(self):
        try:
            os.close(os.open(self.dir / "c.h5", os.O_RDONLY | os.O_DIRECT))
        except OSError:
            return False
        return True

    def test_chunks_that_agree_are_not_kept(self):
        self.evaluated("x * 2", "--chunks", "100,100", "--memory", "64MiB")
        self.assertEqual((self.stats()["decoded_bytes"], self.stats()["reread_bytes"]), (self.CHUNKS * self.CHUNK, 0))
        self.evaluated("x * 2", "--chunks", "150,150", "--memory", "64MiB")
        self.assertEqual(self.stats()["decoded_bytes"], self.CHUNKS * self.CHUNK)

    def test_several_expressions_share_a_read(self):
        (self.dir / "job.qy").write_text("a = x + 1\nb = x - mean(x, axis=0)\nc = x[2:] - x[:-2]\n")
        self.ok("eval", "-f", "job.qy", "-i", "x=z.h5:/x", "-o", "o.h5", "--chunks", "150,150", "--stats", "s.json")
        self.assertEqual((self.stats()["decoded_bytes"], self.stats()["reread_bytes"]), (self.CHUNKS * self.CHUNK, 0))
        np.testing.assert_array_equal(self.read("o.h5", "c"), self.x[2:] - self.x[:-2])

    def test_a_small_budget_reads_again_and_says_so(self):
        x = np.round(np.cumsum(np.random.default_rng(1).standard_normal((6000, 1500)), axis=0), 2)
        with h5py.File(self.dir / "z.h5", "w") as file:
            file.create_dataset("x", data=x, chunks=(500, 300), compression="gzip", compression_opts=1, shuffle=True)
        arguments = ["--chunks", "700,700", "--threads", "1"]
        # Before a device the planner reads by the file's chunks.
        for memory, device, again in [("16MiB", "cpu", True), ("16MiB", "emulated", False), ("256MiB", "cpu", False)]:
            with self.subTest(memory=memory, device=device):
                more = [*arguments, "--memory", memory, "--device", device, *(["--host-memory", "16MiB"] if device == "emulated" else [])]
                plan = self.ok("eval", "x - mean(x)", "-i", "x=z.h5:/x", "-o", "p.h5", "--plan", *more).out
                self.assertEqual("of the file again, as its chunks are cut and do not all fit the budget" in plan, again, plan)
                result = self.ok("eval", "x - mean(x)", "-i", "x=z.h5:/x", "-o", "o.h5", "--overwrite", "--progress", "off", "--stats", "s.json", *more)
                np.testing.assert_allclose(self.read("o.h5"), x - np.mean(x), atol=1e-9)
                stats = self.stats()
                self.assertEqual(stats["reread_bytes"] > 0, again)
                self.assertEqual("had been read and decoded before" in result.err, again, result.err)
                self.assertLessEqual(stats["peak_device_bytes"], int(memory.removesuffix("MiB")) << 20)

    def test_stolen_chunks_are_right(self):
        x = np.round(np.cumsum(np.random.default_rng(2).standard_normal((4000, 300)), axis=0), 2)
        with h5py.File(self.dir / "z.h5", "w") as file:
            file.create_dataset("x", data=x, chunks=(100, 300), compression="gzip", shuffle=True)
        # On a busy machine the other rank may be late to help: then with a slower one.
        for rate in [500_000, 150_000, 50_000]:
            for balance in ["on", "off"]:
                slow, fast = ({"QUARRY_DEVICE": "cpu", "QUARRY_WEIGHT": "1", "QUARRY_FAULT_READ_RATE": each} for each in [str(rate), "0"])
                arguments = ["sum((x - mean(x, axis=0)) * x, axis=0)", "-i", "x=z.h5:/x", "--chunks", "100,300", "--balance", balance, "--threads", 1, "--memory", "64MiB"]
                self.ok("eval", *arguments, "-o", balance + ".h5", "--overwrite", "--stats", balance + ".json", ranks=1, env=slow, beside=[fast])
            np.testing.assert_array_equal(self.read("on.h5"), self.read("off.h5"))
            np.testing.assert_allclose(self.read("on.h5"), ((x - x.mean(axis=0)) * x).sum(axis=0))
            self.assertEqual(self.stats("off.json")["reread_bytes"], 0)
            if self.stats("on.json")["stolen_chunks"] > 0:
                return
        self.fail("no chunk was stolen")

    def test_zarr_chunks_too(self):
        self.ok("convert", "z.h5", "-o", "z.zarr", "--out-chunks", "100,100")
        self.ok("eval", "x - mean(x)", "-i", "x=z.zarr:/x", "--chunks", "150,150", "-o", "o.h5", "--stats", "s.json")
        np.testing.assert_allclose(self.read("o.h5"), self.x - np.mean(self.x), atol=1e-9)
        self.assertEqual((self.stats()["decoded_bytes"], self.stats()["reread_bytes"]), (self.CHUNKS * self.CHUNK, 0))


class ReadsOfPositions(CliTest):
    """Rows of 2400 elements at positions, of files whose chunks hold hundreds of rows."""

    ROWS, COLUMNS = 4000, 2400
    ROW = 8 * COLUMNS

    def setUp(self):
        super().setUp()
        self.x = np.arange(self.ROWS * self.COLUMNS, dtype="f8").reshape(self.ROWS, self.COLUMNS)
        with h5py.File(self.dir / "x.h5", "w") as file:
            file.create_dataset("c", data=self.x)
            file.create_dataset("u", data=self.x, chunks=(400, 600))
        np.save(self.dir / "x.npy", self.x)

    def test_only_what_is_wanted_is_read(self):
        far, near = [7, 500, 501, 1999, 3999], [100, 101, 103, 102, 100]
        cases = {
            f"x[{far}]": (self.x[far], 5 * self.ROW),
            f"x[{far[::-1]}]": (self.x[far[::-1]], 5 * self.ROW),
            f"x[{near}]": (self.x[near], 4 * self.ROW),
            "x[[100, 102]]": (self.x[[100, 102]], 3 * self.ROW),  # what lies between costs less than another read
            f"(2 * x + 1)[{far}]": ((2 * self.x + 1)[far], 5 * self.ROW),
            f"x[10:-10][{far[:-1]}]": (self.x[10:-10][far[:-1]], 4 * self.ROW),
            f"x[::2][[7, 1500]]": (self.x[::2][[7, 1500]], 2 * self.ROW),
            f"x[{far}, 100:200]": (self.x[far, 100:200], 5 * self.ROW),
            "x[::500]": (self.x[::500], 8 * self.ROW),
            "x[3990:10:-500] + 1": (self.x[3990:10:-500] + 1, 8 * self.ROW),
        }
        inputs = ["x.h5:/c", "x.h5:/u", "x.npy"]
        for ranks, device in [(0, "cpu"), (0, "emulated"), (2, "cpu"), (4, "cpu")]:
            for source in inputs if ranks == 0 and device == "cpu" else inputs[:1]:
                # Ranks read by the same plan: some are enough to see that each reads its own.
                for expression, (expected, most) in list(cases.items())[: 3 if ranks else None]:
                    with self.subTest(ranks=ranks, device=device, source=source, expression=expression):
                        self.ok("eval", expression, "-i", f"x={source}", "-o", "o.h5", "--overwrite", "--device", device, "--stats", "s.json", ranks=ranks)
                        np.testing.assert_array_equal(self.read("o.h5"), expected)
                        self.assertLessEqual(self.stats()["read_bytes"], most)

    def test_very_many_are_read_together(self):
        every = list(range(0, 4000, 3))
        self.ok("eval", f"x[{every}]", "-i", "x=x.h5:/c", "-o", "o.h5", "--stats", "s.json")
        np.testing.assert_array_equal(self.read("o.h5"), self.x[every])
        self.assertLessEqual(self.stats()["read_bytes"], self.x.nbytes)
        self.assertLess(self.stats()["tasks"], 4 * 64 + 100)


if __name__ == "__main__":
    main()
