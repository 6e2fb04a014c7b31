"""A rank that dies or stops is named by the others, and the job ends with an error within ten seconds."""

import os
import pathlib
import signal
import time

from support import CliTest, main, np

LONG = "random.normal(size=(400000, 2000)) @ random.normal(size=(2000, 40))"  # never completed
LIMIT = 10  # seconds


def ranks_of(process):
    """Process ids by rank."""
    found = {}
    for pid in os.popen(f"pgrep -P {process.pid}").read().split():
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        for variable in environment:
            if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(variable.split(b"=")[1])] = int(pid)
    return found


class RanksLost(CliTest):
    def lose(self, victim, signal_number, pattern, ranks=3, **environment):
        for leftover in self.dir.glob("o.h5*"):
            leftover.unlink()
        process = self.start("eval", LONG, "-o", "o.h5", "--progress", "off", "--memory", "64MiB", "--threads", "1", ranks=ranks, env=environment)
        self.wait_until_computing(process)
        pids = ranks_of(process)
        self.assertEqual(sorted(pids), list(range(ranks)))
        begin = time.time()
        os.kill(pids[victim], signal_number)
        try:
            _, err = process.communicate(timeout=60)
        finally:
            for pid in pids.values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.assertLess(time.time() - begin, LIMIT, err)
        self.assertNotEqual(process.returncode, 0, err)
        self.assertRegex(err, pattern)
        self.assertFalse((self.dir / "o.h5").exists())
        return err

    def test_killed(self):
        for transport in ["ucx", "mpi"]:
            for victim in [0, 1, 2]:
                name = r"rank 0 on \S+" if victim == 0 else rf"rank {victim} \(process \d+ on \S+\)"
                self.lose(victim, signal.SIGKILL, name + " has died", QUARRY_TRANSPORT=transport)

    def test_stopped(self):
        for transport in ["ucx", "mpi"]:
            for victim in [0, 2]:
                name = r"rank 0 on \S+" if victim == 0 else rf"rank {victim} \(process \d+ on \S+\)"
                err = self.lose(victim, signal.SIGSTOP, name + " has said nothing for 5 s", QUARRY_TRANSPORT=transport)
                self.assertRegex(err, r"(?m)^quarry: error: .*rank " + str(victim))

    def test_the_time_of_silence_can_be_chosen(self):
        self.lose(1, signal.SIGSTOP, "has said nothing for 2 s", ranks=2, QUARRY_RANK_TIMEOUT="2")
        self.fails(2, "QUARRY_RANK_TIMEOUT=x: expected seconds", "info", "--topology", ranks=2, env={"QUARRY_RANK_TIMEOUT": "x"})

    def test_a_lost_message_is_an_error(self):
        x = np.random.default_rng(1).random((400, 300))
        self.write("x.h5", x=x)
        lost = 0
        for number in [1, 2, 5, 9, 20]:
            options = ["--chunks", "100,300", "--progress", "off", "--memory", "64MiB"]
            begin = time.time()
            result = self.run_quarry("eval", "x.T @ x", "-i", "x=x.h5:/x", *options, ranks=2, env={"QUARRY_FAULT_LOSE_MESSAGE": str(number)})
            self.assertLess(time.time() - begin, LIMIT, result.err)
            if result.status != 0:
                self.assertRegex(result.err, r"a message from rank \d was lost|gave up|left the job")
                lost += 1
        self.assertGreater(lost, 0)


if __name__ == "__main__":
    main()
