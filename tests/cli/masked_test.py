"""quarry eval with masked arrays: printing, inputs with _FillValue and its like, outputs, scripts; chunked and --local."""

from support import CliTest, h5py, main, np

ma = np.ma


class Masked(CliTest):
    def both(self, expression, *arguments):
        """The output with chunks, which that of local arrays equals."""
        shown = self.evaluate(expression, *arguments)
        self.assertEqual(self.evaluate(expression, "--local", *arguments), shown, expression)
        return shown

    def test_masked_elements_print_as_numpy_prints_them(self):
        x = np.arange(6.0).reshape(2, 3)
        self.write("a.h5", x=x)
        m = ma.masked_where(x > 3, x)
        for text, expected in [
            ("ma.masked_where(x > 3, x)", m),
            ("ma.masked_where(x > 3, x).mean(0)", m.mean(0)),
            ("ma.masked_where(x > 3, x).sum()", m.sum()),
            ("ma.masked_where(x >= 0, x).sum()", ma.masked),
            ("ma.masked_where(x > 3, x)[1]", m[1]),
            ("ma.sqrt(x - 3)", ma.sqrt(x - 3)),
            ("(ma.masked_where(x > 3, x) + x).compressed()", (m + x).compressed()),
            ("ma.masked_where(x > 3, x).argmax(1)", m.argmax(1)),
            ("ma.masked_greater(x, 2) > 1", ma.masked_greater(x, 2) > 1),
            ("ma.masked", ma.masked),
            ("1 if ma.masked_where(x > 3, x).count() == 4 else 0", 1),
        ]:
            self.assertEqual(self.both(text, "-i", "x=a.h5:/x"), str(expected), text)
        large = "ma.masked_equal(arange(3000) % 3, 1)"
        self.assertEqual(self.both(large), str(ma.masked_equal(np.arange(3000) % 3, 1)))
        self.assertEqual(self.both("ma.masked_equal([1, 2], 2), 5"), repr((ma.masked_equal([1, 2], 2), 5)))

    def test_inputs_are_masked_by_their_attributes(self):
        x = np.array([[1, -999, 3], [250, 5, -7]], "i2")
        y = np.array([1.5, 1e20, np.nan, 2.5], "f4")
        self.write("a.h5", x=x, y=y, z=x)
        with h5py.File(self.path("a.h5"), "a") as file:
            file["x"].attrs["_FillValue"] = np.array([-999], "i2")
            file["x"].attrs["valid_range"] = np.array([0, 100], "i2")
            file["y"].attrs["_FillValue"] = np.array([1e20], "f4")
            file["y"].attrs["missing_value"] = np.float32(np.nan)
        inputs = ["-i", "x=a.h5:/x", "-i", "y=a.h5:/y", "-i", "z=a.h5:/z", "--masked"]
        self.assertEqual(self.both("x", *inputs), "[[1 -- 3]\n [-- 5 --]]")
        self.assertEqual(self.both("x.fill_value", *inputs), "-999")
        self.assertEqual(self.both("y", *inputs), "[1.5 -- -- 2.5]")
        self.assertEqual(self.both("y.sum()", *inputs), "4.0")
        self.assertEqual(self.both("z", *inputs), str(x))
        self.assertEqual(self.both("x", "-i", "x=a.h5:/x"), str(x))
        self.assertEqual(self.ok("eval", "x.mean(1)", *inputs, ranks=2).out, "[2.0 5.0]\n")

    # As xarray decodes; the dtype is in the text by what NumPy would print.
    def test_inputs_are_decoded_by_their_attributes(self):
        columns = {
            "scaled": (np.array([0, 10, -999, 30], "i2"), {"scale_factor": 0.5, "_FillValue": np.int16(-999)}, np.float32),
            "moved": (np.array([0, 10, -999, 30], "i2"), {"scale_factor": 0.1, "add_offset": 273.15, "missing_value": np.int16(-999)}, np.float64),
            "wide": (np.array([1, 2, 3, 4], "i4"), {"_FillValue": np.int32(3)}, np.float64),
            "signed": (np.array([-1, 0, 1, -56], "i1"), {"_Unsigned": "true", "_FillValue": np.int8(-1), "scale_factor": 2.0}, np.float32),
            "real": (np.array([1.5, 2.5, 1e20, 9], "f4"), {"_FillValue": np.float32(1e20), "valid_max": np.float32(5)}, np.float32),
            "scaled_real": (np.array([1.5, 2.5, 3, 4], "f8"), {"add_offset": -1.0}, np.float64),
            "plain": (np.array([1, 2, 3, 4], "i2"), {"units": "m"}, np.int16),
        }
        with h5py.File(self.path("packed.h5"), "w") as file:
            for name, (values, attributes, _) in columns.items():
                file[name] = values
                file[name].attrs.update(attributes)
        for name, (values, attributes, dtype) in columns.items():
            stored = values.view(f"u{values.itemsize}") if "_Unsigned" in attributes else values
            missing = np.zeros(4, bool)
            for key in ("_FillValue", "missing_value"):
                missing |= values == attributes.get(key, np.nan)
            missing |= stored > attributes.get("valid_max", np.inf)
            expected = stored.astype(dtype)
            if "scale_factor" in attributes:
                expected = expected * dtype(attributes["scale_factor"])
            if "add_offset" in attributes:
                expected = expected + dtype(attributes["add_offset"])
            inputs = ["-i", f"x=packed.h5:/{name}", "--decode"]
            with self.subTest(name):
                self.assertEqual(self.both("x", *inputs, "--masked"), str(ma.masked_array(expected, missing if missing.any() else ma.nomask)))
                self.assertEqual(self.both("x.dtype", *inputs), str(np.dtype(dtype)))
                if missing.any():
                    expected[missing] = np.nan
                self.assertEqual(self.both("x", *inputs), str(expected))
        warning = self.ok("eval", "x.mean()", "-i", "x=packed.h5:/moved").err
        self.assertIn("-999 stands for missing numbers, and numbers are packed", warning)
        self.assertIn("--decode", warning)
        self.assertNotIn("--decode", self.ok("eval", "x.mean()", "-i", "x=packed.h5:/plain").err)

    def test_results_are_stored_with_their_fill_value(self):
        x = np.arange(6, dtype="f4").reshape(2, 3)
        self.write("a.h5", x=x)
        for place in [[], ["--local"]]:
            self.ok("eval", "ma.masked_values(x, 2.0)", "-i", "x=a.h5:/x", "-o", "o.h5:/r", "--overwrite", *place)
            with h5py.File(self.path("o.h5")) as file:
                stored = file["r"]
                self.assertEqual((stored.dtype, stored.attrs["_FillValue"].dtype), (np.float32, np.float32))
                self.assertEqual(stored.attrs["_FillValue"], 2)
                np.testing.assert_array_equal(stored[()], x)
            self.assertEqual(self.both("r", "-i", "r=o.h5:/r", "--masked"), str(ma.masked_equal(x, 2)))
            self.ok("eval", "(ma.masked_greater(x, 3).sum(1), ma.log(x).mean(), x)", "-i", "x=a.h5:/x", "-o", "p.h5:/r", "--overwrite", *place)
            self.assertEqual(self.keys("p.h5"), ["r.0", "r.1", "r.2"])
            np.testing.assert_allclose(self.read("p.h5", "r.0"), [3, 3])
            with h5py.File(self.path("p.h5")) as file:
                self.assertNotIn("_FillValue", file["r.2"].attrs)
        self.ok("eval", "ma.masked_greater(x, 3)", "-i", "x=a.h5:/x", "-o", "c.h5:/r", "--out-filter", "deflate", ranks=2)
        np.testing.assert_array_equal(self.read("c.h5", "r"), ma.masked_greater(x, 3).filled())

    def test_scripts_assign_to_masked_arrays(self):
        (self.dir / "s.q").write_text("m = ma.masked_array(arange(5), mask=[0, 1, 0, 0, 0])\nm[0] = ma.masked\nm[1] = 7\nm[3:] += 10\nn = m.sum()\n")
        for place in [[], ["--local"]]:
            self.assertEqual(self.ok("eval", "-f", "s.q", *place).out, "m = [-- 7 2 13 14]\nn = 36\n")

    def test_errors_say_what_is_wrong(self):
        for place in [[], ["--local"]]:
            for text, pattern in [
                ("ma.masked_array([1, 2, 3], mask=[1, 0])", "Mask and data not compatible: data size is 3, mask size is 2"),
                ("ma.masked_where([True, False], [1, 2, 3])", "Inconsistent shape between the condition and the input"),
                ("ma.masked_array([1, 2], fill_value='a')", "fill_value must be a number, not str"),
                ("ma.masked_array([1, 2], hard_mask=True)", "no hard masks"),
                ("ma.masked_array([1, 2]).sum(out=[1])", "out"),
                ("ma.masked_array([1, 2]).summ()", "no attribute 'summ'"),
                ("ma.masked_sum([1])", "'ma' has no function 'masked_sum'"),
                ("ma.masked_array([1, 2], mask=[0, 1]) @ [1, 2]", "ma.dot"),
                ("linalg.norm(ma.masked_array([1.0, 2], mask=[0, 1]))", "must be an array, not MaskedArray"),
            ]:
                self.fails(2, pattern, "eval", text, *place)


if __name__ == "__main__":
    main()
