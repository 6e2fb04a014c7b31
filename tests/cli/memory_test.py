"""quarry info --memory: who gets what of a rank's memory, on every kind of device."""

import re

from support import CliTest, main

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def rows(text):
    """(bytes, whether it is a most, share in percent, name) of each line that has a share."""
    found = re.findall(r"(?m)^ *(<= )?([\d.]+) ([KMGT]?i?B) +([\d.]+) %  +(.*)$", text)
    return [(float(number) * UNITS[unit], bool(most), float(share), name) for most, number, unit, share, name in found]


class Memory(CliTest):
    def shares(self, *options, ranks=0, env=None):
        result = self.run_quarry("info", *options, "--threads", "1", ranks=ranks, env=env)
        self.assertEqual(result.status, 0, result.err)
        return result.out

    def assert_adds_up(self, text):
        """Shares that are not a most add up to the budget above them."""
        budget, left = None, 0
        for size, most, _, name in [*rows(text), (0, False, 0, "end budget")]:
            if " budget" in name:
                if budget is not None:
                    self.assertLess(abs(left), 0.02 * budget, text)
                budget = left = size
            elif not most:
                left -= size
            else:
                self.assertLessEqual(size, budget * 1.01, name)

    def test_the_budget_asked_for_on_the_cpu(self):
        text = self.shares("--memory", "256MiB", "--device", "cpu")
        self.assertRegex(text, r"^rank 0: cpu, 2 I/O threads\n")
        self.assertRegex(text, r"256 MiB +[\d.]+ %  memory budget \(--memory\), of [\d.]+ \w+ of host memory that are free for the rank")
        self.assertRegex(text, r"256 MiB  100.0 %    tasks")
        self.assertRegex(text, r"<= 41.3 MiB   16.1 %      one task")  # two ranks would need buffers
        self.assertNotIn("between ranks", text)
        self.assertNotIn("pinned", text)
        self.assert_adds_up(text)

    def test_two_ranks_have_buffers_and_steal(self):
        text = self.shares("--memory", "256MiB", "--device", "cpu", ranks=2)
        self.assertEqual(text.count("rank "), 2)
        self.assertRegex(text, r"8.00 MiB    3.1 %    messages between ranks: 4 buffers of 2.00 MiB")
        self.assertRegex(text, r"<= 16.0 MiB    6.2 %      results of chunks stolen")
        self.assert_adds_up(text)
        self.assertNotIn("stolen", self.shares("--memory", "256MiB", "--device", "cpu", "--balance", "off", ranks=2))

    def test_a_device_has_a_pinned_tier(self):
        options = ["--device", "emulated", "--memory", "64MiB", "--host-memory", "32MiB"]
        text = self.shares(*options)
        self.assertRegex(text, r"^rank 0: emulated:0, ")
        self.assertRegex(text, r"64.0 MiB +[\d.]+ %  device memory budget \(--memory\)")
        self.assertRegex(text, r"32.0 MiB +[\d.]+ %  pinned host memory budget \(--host-memory\)")
        self.assertRegex(text, r"8.00 MiB   25.0 %    bounce buffers to the spill file: 2 of 4.00 MiB")
        self.assertRegex(text, r"<= 8.00 MiB   25.0 %      staging of files: pieces of 2.00 MiB")
        self.assert_adds_up(text)
        two = self.shares(*options, ranks=2)
        self.assertRegex(two, r"messages between ranks: 7 buffers of 256 KiB")
        self.assertRegex(two, r"<= 512 KiB    1.6 %      results of chunks stolen")
        self.assert_adds_up(two)

    def test_the_budget_without_a_size_is_a_share_of_what_is_free(self):
        cpu, emulated = self.shares("--memory", "--device", "cpu"), self.shares("--memory", "--device", "emulated", env={"QUARRY_EMULATED_MEMORY": "1TiB"})
        for text, percent in [(cpu, 60), (emulated, 30)]:
            # What is free changes meanwhile.
            self.assertAlmostEqual(rows(text)[0][2], percent, delta=3)
            self.assert_adds_up(text)

    def test_the_spill_directory(self):
        text = self.shares("--memory", "64MiB", "--device", "cpu", "--spill-dir", str(self.dir))
        self.assertRegex(text, rf"free for the spill file in {re.escape(str(self.dir))} \(--spill-dir\)")

    def test_mistakes(self):
        self.fails(2, "is no size", "info", "--memory", "lots")
        self.fails(2, "is nothing", "info", "--memory", "0", "--device", "cpu")
        self.fails(2, "info needs a FILE, --topology or --memory", "info", "--device", "cpu")


if __name__ == "__main__":
    main()
