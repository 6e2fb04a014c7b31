"""A hundred and more real ranks of little work on this machine: the bits of one rank, deaths noticed, few descriptors."""

import os
import signal
import time
import unittest

from ranks_lost_test import ranks_of
from support import CliTest, main, np, slowness

RANKS = 128
LITTLE = ["--memory", "48MiB", "--threads", "1", "--device", "cpu", "--progress", "off"]
# More chunks than ranks, reduced over all and over an axis, multiplied, copied over all ranks and read by all.
PARTS = ["mean(x, axis=0) + sum(x)", "sum((x - mean(x, axis=0)).T @ x, axis=1)", "max(x.T + 1, axis=1)", "cumsum(x, axis=0)[1234]", "var(x, axis=0)"]
EXPRESSION = f"concatenate([{', '.join(PARTS)}])"


class ManyRanks(CliTest):
    def setUp(self):
        super().setUp()
        # Of very different sizes: sums in another order have other bits.
        self.write("x.h5", x=np.exp(np.random.default_rng(1).normal(size=(1500, 24)) * 9))

    def values(self, name, ranks):
        self.ok("eval", EXPRESSION, "-i", "x=x.h5:/x", "--chunks", "2,12", "-o", name, *LITTLE, ranks=ranks)
        return self.read(name)

    def test_bits_are_those_of_one_rank(self):
        one = self.values("one.h5", 1)
        for ranks in [48, RANKS]:
            self.assertEqual(self.values(f"{ranks}.h5", ranks).tobytes(), one.tobytes())

    def test_a_rank_that_dies_is_named(self):
        job = f"many-{os.getpid()}"
        slow = {"QUARRY_FAULT_READ_RATE": "150", "QUARRY_TEST_JOB": job}
        process = self.start("eval", "sum(x)", "-i", "x=x.h5:/x", "--chunks", "1,24", *LITTLE, ranks=40, env=slow)
        for _ in range(600):
            if len(ranks_of(job)) == 40:
                break
            time.sleep(0.1)
        time.sleep(5 * slowness(2))
        os.kill(ranks_of(job)[37], signal.SIGKILL)
        begin = time.time()
        _, err = process.communicate(timeout=60)
        self.assertLess(time.time() - begin, 15 * slowness(2))
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, r"rank 37 \(process \d+ on \S+\) has died")

    def test_few_descriptors_are_enough(self):
        # A rank is connected with some others, never with all.
        sum_of_all = ["eval", "sum(x)", "-i", "x=x.h5:/x", "--chunks", "5,24", *LITTLE]
        of_mpi = {"QUARRY_TRANSPORT": "mpi", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_pml": "ob1"}
        result = self.run_quarry(*sum_of_all, ranks=100, around=["prlimit", "--nofile=64"], env=of_mpi)
        self.assertEqual((result.status, result.errors()), (0, []), result.err)
        self.assertEqual(result.out, self.ok(*sum_of_all).out)


if __name__ == "__main__":
    main(at_once=1)
