"""One rank's exception leaves main or a function that the program gave to the library: the job ends on all ranks, soon and with its message."""

import concurrent.futures
import pathlib
import time

from support import QUARRY, CliTest, main, slowness

THROWS = pathlib.Path(QUARRY).with_name("mpi_throws")  # tests/mpi/throws.cpp
MESSAGE = r"rank {} found a wrong date"
LIMIT = 15  # seconds, on an idle machine; five of them are what others wait before they call a rank's end an error
HANGS = 90


class Exceptions(CliTest):
    def ends(self, how, others, catches, rank, pattern, ranks=2, status=None, without=None):
        """On every kind of device and over every network the job ends by itself, soon, and says why."""
        cases = [(device, transport) for device in ["cpu", "emulated"] for transport in ["ucx", "mpi"]]
        with concurrent.futures.ThreadPoolExecutor(max_workers=len(cases)) as pool:  # they wait more than they work
            runs = [pool.submit(self.ends_on, *case, [how, others, catches, rank], pattern, ranks, status, without) for case in cases]
        for (device, transport), run in zip(cases, runs):
            with self.subTest(device=device, transport=transport):
                run.result()

    def ends_on(self, device, transport, arguments, pattern, ranks, status, without):
        env = {"QUARRY_DEVICE": device, "QUARRY_HOST_MEMORY": "64MiB", "QUARRY_TRANSPORT": transport}
        begin = time.time()
        process = self.start(*arguments, ranks=ranks, env=env, program=THROWS)
        try:
            _, err = process.communicate(timeout=HANGS)
        finally:
            process.kill()
        seconds = time.time() - begin
        self.assertRegex(err, pattern)
        self.assertNotIn("MPI Error", err)
        if without:
            self.assertNotRegex(err, without)
        self.assertNotEqual(process.returncode, 0, err)
        if status is not None:
            self.assertEqual(process.returncode, status, err)
        if seconds >= LIMIT:
            self.assertLess(seconds, LIMIT * slowness(ranks), err)

    def test_a_rank_whose_messages_do_not_arrive(self):
        """Between hosts it is a firewall; in one, memory that cannot be shared. Here a rank goes no further than MPI's start."""
        env = {"QUARRY_DEVICE": "cpu", "QUARRY_RANK_TIMEOUT": "0.2"}
        for rank in [0, 1]:
            process = self.start("absent", "end", "all", rank, ranks=2, env=env, program=THROWS)
            try:
                _, err = process.communicate(timeout=HANGS)
            finally:
                process.kill()
            self.assertRegex(err, "caught of another rank: messages between the ranks do not arrive: .* for 2.4 seconds")
            self.assertNotEqual(process.returncode, 0, err)

    def test_that_leaves_main(self):
        # Nothing catches it, so no destructor runs.
        for rank in [0, 1]:
            self.ends("throws", "compute", "none", rank, r"terminate called(.|\n)*" + MESSAGE.format(rank))

    def test_that_passes_the_runtime(self):
        for rank in [0, 1]:
            self.ends("throws", "compute", "all", rank, "caught: " + MESSAGE.format(rank))
        self.ends("throws", "compute", "all", 2, "caught: " + MESSAGE.format(2), ranks=4)

    def test_that_passes_the_runtime_where_the_others_catch_nothing(self):
        # What they die of comes later than the cause.
        for rank in [0, 1]:
            self.ends("throws", "compute", "one", rank, "caught: " + MESSAGE.format(rank))

    def test_while_the_others_do_not_communicate(self):
        for rank in [0, 1]:
            self.ends("throws", "sleep", "all", rank, "caught: " + MESSAGE.format(rank))

    def test_while_the_others_wait_at_their_end(self):
        for rank in [0, 1]:
            self.ends("throws", "end", "all", rank, "caught: " + MESSAGE.format(rank), without="caught of another")

    def test_of_every_rank_alike(self):
        self.ends("alike", "end", "all", 0, "caught: " + MESSAGE.format("[01]"), without="caught of another|improperly")

    def test_of_a_callback(self):
        self.ends("progress", "compute", "all", 0, "caught: " + MESSAGE.format(0))
        self.ends("progress_int", "compute", "all", 0, "caught: an exception that is no std::exception")

    def test_a_rank_that_returns_early(self):
        for rank in [0, 1]:
            self.ends("returns", "compute", "all", rank, f"caught of another rank: .*rank {rank} has left the job while others still communicate with it")
            self.ends("returns", "end", "all", rank, r"Exit code: +3", status=3, without="caught")


if __name__ == "__main__":
    main()
