"""A rank that dies or stops is named by the others, and the job ends with an error within ten seconds."""

import concurrent.futures
import os
import pathlib
import re
import signal
import threading
import time
import unittest

from support import QUARRY, TIMEOUT, CliTest, main, np, slowness

BUSY = "random.normal(size=(400000, 2000)) @ random.normal(size=(2000, 40))"  # never completed
LIMIT = 10  # seconds, on an idle machine
SKIPPED = 77  # status of tests/mpi/hosts


def ranks_of(job):
    """Process ids by rank, of the job with this QUARRY_TEST_JOB."""
    found = {}
    program = os.path.realpath(QUARRY)
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "exe") != program:
                continue
            environment = dict(entry.split("=", 1) for entry in (folder / "environ").read_text(errors="replace").split("\0") if "=" in entry)
        except OSError:
            continue
        if environment.get("QUARRY_TEST_JOB") == job and "OMPI_COMM_WORLD_RANK" in environment:
            found[int(environment["OMPI_COMM_WORLD_RANK"])] = int(folder.name)
    return found


class RanksLost(CliTest):
    numbers = iter(range(1000))
    numbering = threading.Lock()

    def setUp(self):
        super().setUp()
        # Read slowly, this takes half a minute, in which the machine is free for other jobs: chunks of 64 KiB at 0.6 s each.
        self.write("x.h5", x=np.ones((49152, 64)))
        self.slowly = ["x.T @ x", "-i", "x=x.h5:/x", "--chunks", "128,64"]

    def lose(self, victim, signal_number, pattern, busy=False, ranks=3, hosts=0, beside=None, after=0.3, **environment):
        with self.numbering:
            job = f"{os.getpid()}-{next(self.numbers)}"
        output = f"o{job}.h5"
        arguments = [BUSY] if busy else self.slowly
        env = {"QUARRY_FAULT_READ_RATE": "100000", **environment, "QUARRY_TEST_JOB": job}
        ranks -= len(beside or [])
        process = self.start("eval", *arguments, "-o", output, "--progress", "off", "--memory", "64MiB", "--threads", "1", ranks=ranks, hosts=hosts, beside=beside, env=env)
        if hosts and self.ends_as_skipped(process, output):
            raise unittest.SkipTest("hosts cannot be pretended here")
        self.wait_until_computing(process, output, seconds=1 if busy else after)
        pids = ranks_of(job)
        self.assertEqual(sorted(pids), list(range(ranks * max(hosts, 1) + len(beside or []))))
        begin = time.time()
        os.kill(pids[victim], signal_number)
        try:
            _, err = process.communicate(timeout=TIMEOUT)
        finally:
            for pid in pids.values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.assert_soon(time.time() - begin, LIMIT, err)
        self.assertNotEqual(process.returncode, 0, err)
        self.assertRegex(err, pattern)
        self.assertFalse((self.dir / output).exists())
        return err

    def assert_soon(self, seconds, limit, text):
        """Where the machine does other work as well, by as much later as a job takes to start then."""
        if seconds >= limit:
            self.assertLess(seconds, limit * slowness(ranks=3), text)

    def ends_as_skipped(self, process, output):
        end = time.time() + TIMEOUT
        while process.poll() is None and not (self.dir / (output + ".partial")).exists() and time.time() < end:
            time.sleep(0.05)
        return process.poll() == SKIPPED

    def all_at_once(self, cases):
        """Cases are arguments of lose(): they wait more than they work."""
        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
            for result in [pool.submit(self.lose, *arguments, **options) for arguments, options in cases]:
                result.result()

    @staticmethod
    def name(victim, host=r"\S+"):
        return f"rank 0 on {host}" if victim == 0 else rf"rank {victim} \(process \d+ on {host}\)"

    def test_killed(self):
        self.lose(1, signal.SIGKILL, self.name(1) + " has died", busy=True)
        self.all_at_once(
            ((victim, signal.SIGKILL, self.name(victim) + " has died"), {"QUARRY_TRANSPORT": transport}) for transport in ["ucx", "mpi"] for victim in [0, 1, 2]
        )

    def test_stopped(self):
        said = rf" has said nothing for 5 s(.|\n)*^quarry: error: .*rank "
        self.lose(2, signal.SIGSTOP, "(?m)" + self.name(2) + said + "2", busy=True)
        self.all_at_once(
            ((victim, signal.SIGSTOP, "(?m)" + self.name(victim) + said + str(victim)), {"QUARRY_TRANSPORT": transport})
            for transport in ["ucx", "mpi"]
            for victim in [0, 2]
        )

    def test_on_another_host(self):
        self.all_at_once(
            ((victim, number, self.name(victim, f"quarry-{1 + victim // 2}") + said), {"hosts": 2, "ranks": 2, "QUARRY_RANK_TIMEOUT": "3"})
            for number, said in [(signal.SIGKILL, " has died"), (signal.SIGSTOP, " has said nothing for 3 s")]
            for victim in [0, 3]
        )

    def test_where_most_have_nothing_to_do(self):
        # One chunk, which a rank reads for five seconds.
        self.write("z.h5", z=np.ones((1024, 64)))
        for expression in ["z.T @ z", "sum(z, axis=0)"]:
            self.slowly = [expression, "-i", "z=z.h5:/z", "--chunks", "1024,64"]
            self.all_at_once(
                ((victim, number, self.name(victim) + said), {"QUARRY_RANK_TIMEOUT": "2"})
                for number, said in [(signal.SIGKILL, " has died"), (signal.SIGSTOP, " has said nothing for 2 s")]
                for victim in [0, 2]
            )

    def test_one_that_computes_for_a_slow_rank(self):
        # Rank 0 has ten of twelve parts and reads slowly; the others have read theirs after 1.3 s and then read its chunks for six seconds.
        self.write("y.h5", y=np.ones((12288, 64)))
        self.slowly = ["sum(y, axis=0)", "-i", "y=y.h5:/y", "--chunks", "128,64"]
        slow = {"QUARRY_FAULT_READ_RATE": "50000", "QUARRY_WEIGHT": "10", "QUARRY_RANK_TIMEOUT": "2"}
        others = [{"QUARRY_FAULT_READ_RATE": "400000", "QUARRY_WEIGHT": "1"}] * 2
        self.all_at_once(
            ((victim, number, self.name(victim) + said), {**slow, "beside": others, "after": 3})
            for victim, number, said in [(1, signal.SIGKILL, " has died"), (2, signal.SIGSTOP, " has said nothing for 2 s")]
        )

    def watch(self, fault, said):
        """What rank 0 says of rank 1, one task of which goes wrong; then the run is interrupted and ends."""
        with self.numbering:
            job = f"{os.getpid()}-{next(self.numbers)}"
        env = {"QUARRY_TEST_JOB": job, "QUARRY_WATCHDOG": "2"}
        beside = [{"QUARRY_FAULT_TASK": fault}, {}]
        process = self.start(
            "eval", "sum(sqrt(random.normal(size=(3000, 100)) ** 2))", "--chunks", "100,100", "--threads", "1", "--memory", "64MiB", ranks=1, beside=beside, env=env
        )
        lines, end = "", time.time() + TIMEOUT
        while not re.search(said, lines) and time.time() < end and process.poll() is None:
            lines += process.stderr.readline()
        pids = ranks_of(job).values()
        process.send_signal(signal.SIGINT)
        lines += process.communicate(timeout=TIMEOUT)[1]
        self.assertRegex(lines, said)
        self.assertNotEqual(process.returncode, 0)
        end = time.time() + LIMIT
        while any(os.path.exists(f"/proc/{pid}") for pid in pids) and time.time() < end:
            time.sleep(0.1)
        self.assertEqual([pid for pid in pids if os.path.exists(f"/proc/{pid}")], [], lines)

    def test_one_that_computes_for_ever_is_told_from_one_that_is_stuck(self):
        first = "no rank has made progress for [\\d.]+ s: " + self.name(1)
        self.watch("compute,compute,begin,3", first + r" computes: 1 task runs, with [\d.]+ s of processor time\n")
        self.watch("sleep,compute,end,3", first + r" is stuck, or waits for a file: 1 task runs, with [\d.e-]+ s of processor time\n")

    def test_the_time_of_silence_can_be_chosen(self):
        self.lose(1, signal.SIGSTOP, "has said nothing for 2 s", ranks=2, QUARRY_RANK_TIMEOUT="2")
        self.fails(2, "QUARRY_RANK_TIMEOUT=x: expected seconds", "info", "--topology", ranks=2, env={"QUARRY_RANK_TIMEOUT": "x"})

    def test_a_lost_message_is_an_error(self):
        x = np.random.default_rng(1).random((400, 300))
        self.write("m.h5", x=x)

        def run(number, command=("x.T @ x", "-i", "x=m.h5:/x", "--chunks", "100,300")):
            options = ["--progress", "off", "--memory", "64MiB"]
            begin = time.time()
            result = self.run_quarry("eval", *command, *options, ranks=2, env={"QUARRY_FAULT_LOSE_MESSAGE": str(number)})
            self.assert_soon(time.time() - begin, 3 * LIMIT, result.err)  # two jobs at once
            if result.status != 0:
                # Of several messages of a fetch, the one after the lost one may come to its place.
                other_size = r"expected \d+ bytes, the message has \d+"
                self.assertRegex(result.err, r"a message from rank \d was lost|gave up|left the job|" + other_size)
            return result.status

        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            self.assertNotEqual(set(pool.map(run, [1, 2, 5, 9, 20])), {0})
            # Of few messages, so that those of the end are among them.
            self.assertNotEqual(set(pool.map(lambda number: run(number, ["1+1"]), range(1, 13))), {0})


if __name__ == "__main__":
    main(at_once=2)
