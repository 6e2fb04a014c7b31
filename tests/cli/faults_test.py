"""One rank of a library program leaves, dies, stops or calls another function: every other rank ends soon with an error that names it.

FAULT_RUNS: how many random runs (default 6), at most for FAULT_SECONDS; FAULT_SEED: of which numbers; FAULT_LIMIT: seconds
that an error may take."""

import os
import pathlib
import random
import re
import signal
import subprocess
import time

from support import QUARRY, CliTest, core_share, h5py, main, np, slowness

FAULTS = pathlib.Path(QUARRY).with_name("mpi_faults")  # tests/mpi/faults.cpp
FAULTY_WRITES = pathlib.Path(QUARRY).parent.parent / "lib" / "libquarry_faulty_writes.so"
CALLS = ["sum", "mean", "product", "persist", "rechunk", "to_host", "store", "open", "quantile", "unique", "statistics", "rng", "explain"]
OF_KIND = {"read": "read", "copy": "rechunk", "compute": "sum", "receive": "rechunk", "write": "write", "host": "read", "any": "product"}  # a call with such tasks on every rank
KINDS = {"cpu": [kind for kind in OF_KIND if kind != "read"], "emulated": list(OF_KIND)}  # of tasks
REPEATED = ["sum", "product", "persist", "rechunk", "to_host", "quantile", "unique", "statistics"]  # calls that may be done again and again
# Who writes to memory that is not his any more is ended by the C library.
CHECKED_MEMORY = {"LD_PRELOAD": os.environ.get("FAULT_PRELOAD", "libc_malloc_debug.so.0"), "GLIBC_TUNABLES": "glibc.malloc.check=3", "MALLOC_PERTURB_": "165"}
LIMIT = int(os.environ.get("FAULT_LIMIT", "5"))  # seconds from the fault to the error, on an idle machine
HANGS = 60
ROUNDS = 2  # calls before the fault, or the one that a fault may come in


def shared_memory():
    return {entry for entry in os.listdir("/dev/shm") if re.search("quarry|ucx", entry)}


class Faults(CliTest):
    def setUp(self):
        super().setUp()
        self.write("faults_input.h5", x=np.ones((400, 300)))

    def run_faults(self, how, rank, others, ranks, device="cpu", delay=0, alone=None, everywhere=None):
        """Its messages by rank. alone: what the environment of that rank has more, a fault that comes within a call; everywhere: that of all."""
        env = {"QUARRY_DEVICE": device, "QUARRY_HOST_MEMORY": "64MiB", "QUARRY_RANK_TIMEOUT": "2", **CHECKED_MEMORY, **(everywhere or {})}
        # The launcher is not to end the others before they have spoken; but it waits for ever for one that was killed.
        if how not in ("kill", "stop"):
            env["OMPI_MCA_orte_abort_on_non_zero_status"] = "0"
        if alone:
            of_ranks = [alone if r == rank else {name: env.get(name, "") for name in alone} for r in range(ranks)]
            process = self.start("signals" if how == "signals" else "task", rank, others, ROUNDS, 0, ranks=1, env={**env, **of_ranks[0]}, beside=of_ranks[1:], program=FAULTS)
        else:
            process = self.start(how, rank, others, ROUNDS, delay, ranks=ranks, env=env, program=FAULTS)
        lines, stopped = "", how == "stop"
        begin = time.time()
        try:
            if stopped:  # nobody ends it but this test, once the others have ended
                os.set_blocking(process.stderr.fileno(), False)
                while time.time() < begin + HANGS and len(re.findall(r"rank \d+ met", lines)) < ranks - 1 and process.poll() is None:
                    try:
                        lines += os.read(process.stderr.fileno(), 65536).decode()
                    except BlockingIOError:
                        time.sleep(0.05)
                os.set_blocking(process.stderr.fileno(), True)
                self.end_processes()
            lines += process.communicate(timeout=HANGS)[1]
        except subprocess.TimeoutExpired:
            self.end_processes()
            process.kill()
            self.fail(f"no end: {how} {rank} {others} on {ranks} ranks, {device}\n{lines}{process.communicate()[1]}")
        return lines

    def end_processes(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def processes(self):
        """Those of this test, by their working directory."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(folder / "cwd") == str(self.dir) and (folder / "comm").read_text().strip() == "mpi_faults":
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def ends(self, how, rank, others, ranks=2, device="cpu", delay=0, pattern=None, alone=None, everywhere=None):
        """Every rank but the one that fails meets a CommError in time, which names that one; a call that is unlike, that one too."""
        text = self.run_faults(how, rank, others, ranks, device, delay, alone, everywhere)
        what = f"{how} {rank} {others} on {ranks} ranks, {device}, {delay} us, {alone}\n{text}"
        met = {int(r): (kind, float(seconds), said) for r, kind, seconds, said in re.findall(r"rank (\d+) met (\w+) after (\S+) s: (.*)", text)}
        error = "IoError" if alone and how == "throw" else "CommError"
        expected = [r for r in range(ranks) if r != rank or how in CALLS or error == "IoError"]
        if how in ("kill", "stop"):  # the launcher ends the others, on a busy machine before any speaks
            if not set(met) & set(expected):
                self.assertRegex(text, rf"mpirun noticed that process rank {rank} .* exited on signal 9", what)
            expected = [r for r in expected if r in met]
        for r in expected:
            self.assertIn(r, met, what)
            kind, seconds, said = met[r]
            self.assertEqual(kind, error, what)
            self.assertRegex(said, pattern or rf"\brank {rank}\b", what)
            if seconds >= LIMIT:
                self.assertLess(seconds, LIMIT * slowness(ranks), what)
        self.assertNotRegex(text, r"Assertion|Signal: Aborted|MPI Error", what)
        end = time.time() + LIMIT
        while self.processes() and time.time() < end:
            time.sleep(0.05)
        self.assertEqual(self.processes(), [], what)
        return text

    def test_unlike_calls(self):
        for other, name in [("mean", "to_host of mean"), ("persist", "persist"), ("store", "store"), ("rechunk", "persist"), ("open", "open_hdf5"), ("statistics", "total_statistics"), ("rng", "default_rng")]:
            self.ends(other, 1, "sum", pattern=f"ranks diverged: rank 0 called to_host.*rank 1 called {name}")
        self.ends("sum", 2, "persist", ranks=4, device="emulated", pattern="ranks diverged: ranks 0-1, 3 called persist, rank 2 called to_host")

    def test_a_rank_that_leaves(self):
        for device in ["cpu", "emulated"]:
            for how in ["throw", "inside", "return", "exit"]:
                self.ends(how, 1, "product", ranks=3, device=device, pattern=r"^to_host: (.*transfer.*|.*message.*)?rank 1 ")

    def test_a_rank_that_dies_or_stops(self):
        for how in ["kill", "stop"]:
            for rank in [0, 2]:
                self.ends(how, rank, "rechunk", ranks=3, delay=3000)

    def test_a_rank_that_does_not_come_back_is_named(self):
        for how, least, most in [("compute", 0.2, 100), ("sleep", 0, 0.2)]:  # of a core
            process = self.start(how, 1, "sum", ranks=3, env={"QUARRY_WATCHDOG": "2"}, program=FAULTS)
            text, end = "", time.time() + HANGS
            while not (said := re.search(r"no rank has made progress for ([\d.]+) s: rank 1 \(.*\) is outside of quarry's calls, with ([\d.e-]+) s of processor time\n", text)):
                self.assertLess(time.time(), end, text)
                text += process.stderr.readline()
            share = float(said.group(2)) / float(said.group(1))
            self.assertTrue(least * core_share() <= share <= most, text)
            self.end_processes()
            process.communicate(timeout=HANGS)

    def test_options_that_differ_are_named(self):
        for name, values, said in [
            ("QUARRY_RANK_TIMEOUT", ["5", "2"], "QUARRY_RANK_TIMEOUT is 5 s on rank 0 and 2 s on rank 1"),
            ("QUARRY_RANK_TIMEOUT", ["5", "0"], "QUARRY_RANK_TIMEOUT is 5 s on rank 0 and 0 s on rank 1"),
            ("QUARRY_BALANCE", ["on", "off"], r"all ranks need the same balance \(QUARRY_BALANCE\): it is on on rank 0, off on rank 1"),
            ("QUARRY_TRANSPORT", ["mpi", "ucx"], r"transport \(QUARRY_TRANSPORT\) is mpi on rank 0 and ucx on rank 1"),
        ]:
            result = self.run_quarry("eval", "1+1", ranks=1, env={name: values[0]}, beside=[{name: values[1]}])
            self.assertNotEqual(result.status, 0, result.err)
            self.assertRegex(result.err, said)

    def test_commands_that_differ_are_named(self):
        for mine, theirs, said in [
            (["--out-chunks", "10,10"], ["--out-chunks", "20,10"], r"out_chunks \(--out-chunks\): it is 10,10 on rank 0, 20,10 on rank 2"),
            (["--out-filter", "deflate:1"], ["--out-filter", "lz4"], r"out_filter \(--out-filter\): it is deflate:1 on rank 0, lz4 on rank 2"),
            ([], ["--seed", "3"], r"seed \(--seed\): it is 0 on rank 0, 3 on rank 2"),
            ([], ["--plan"], r"plan \(--plan\): it is off on rank 0, on on rank 2"),
            (["--report", "faults_r.html"], [], r"report \(--report\): it is given on rank 0, not given on rank 2"),
            ([], ["--stats", "faults_s.json"], r"stats \(--stats\): it is not given on rank 0, given on rank 2"),
            (["--dashboard", "0"], [], r"dashboard \(--dashboard\): it is given on rank 0, not given on rank 2"),
        ]:
            command = [QUARRY, "eval", "x+1", "-i", "x=faults_input.h5:/x", "-o", "faults_o.h5"]
            result = self.run_quarry(*command[1:], *mine, ":", "-n", 1, *command, *theirs, ranks=2)
            self.assertEqual((result.status, len(result.errors())), (2, 1), result.err)
            self.assertRegex(result.err, "all ranks need the same " + said)
            self.assertFalse((self.dir / "faults_o.h5").exists())

    def test_mistakes_of_one_rank_are_said(self):
        """By rank 0, which knows of none itself."""
        for name, good, bad, said in [
            ("QUARRY_THREADS", "1", "x", "QUARRY_THREADS=x: expected a whole number from 1 to 4096"),
            ("QUARRY_TRANSPORT", "ucx", "x", "QUARRY_TRANSPORT=x: expected auto, mpi, ucx or self"),
            ("QUARRY_DASHBOARD", "", "x", "QUARRY_DASHBOARD takes a whole number, not 'x'"),
            ("QUARRY_WEIGHT", "1", "0", "QUARRY_WEIGHT=0: expected a number from 0.001 to 100000"),
        ]:
            for values in [[good, good, bad], [bad, good, good], [bad, bad, bad]]:
                result = self.run_quarry("eval", "1+1", ranks=1, env={name: values[0]}, beside=[{name: value} for value in values[1:]])
                self.assertEqual((result.status, result.errors()), (2, [f"quarry: error: {said}"]), result.err)

    def test_the_smallest_budget_is_named(self):
        command = ["eval", "sum(x.T @ x)", "-i", "x=faults_input.h5:/x", "--chunks", "100,100"]

        def run(memory):
            return self.run_quarry(*command, ranks=1, env={"QUARRY_MEMORY": "64MiB"}, beside=[{"QUARRY_MEMORY": memory}, {"QUARRY_MEMORY": "64MiB"}])

        result = run("1KiB")
        self.assertEqual((result.status, len(result.errors())), (2, 1), result.err)
        found = re.search(r"does not fit a memory budget of 1024 bytes of rank 1; the least that works with these chunks is (\d+) bytes, for .", result.err)
        self.assertTrue(found, result.err)
        result = run(f"{found[1]}B")
        self.assertEqual((result.status, result.out), (0, "36000000.0\n"), result.err)
        self.assertIn(f"budget of {int(found[1]) - 1} bytes of rank 1", run(f"{int(found[1]) - 1}B").err)

    def test_signals_stay_the_programs(self):
        text = self.run_faults("signals", 0, "nothing", ranks=2)
        self.assertEqual(re.findall(r"handler of signal \d+", text), [])

    def task_ends(self, how, kind, when, number, rank, others, **options):
        pattern = "a fault that a test asked for" if how == "throw" else None
        return self.ends(how, rank, others, pattern=pattern, alone={"QUARRY_FAULT_TASK": f"{how},{kind},{when},{number}"}, **options)

    def test_a_write_that_fails(self):
        """Of a chunk, of a part of the index, and of what the first rank writes at the end: every rank meets the same error, and the file that is there stays."""
        even = {"QUARRY_BALANCE": "off"}  # every run writes the same on each rank
        for libver, rank, ranks in [("earliest", 1, 2), ("earliest", 0, 2), ("latest", 1, 2), ("latest", 2, 3)]:
            name = self.path(f"faults_{rank}.h5")
            with h5py.File(name, "w", libver=libver) as file:
                file["old"] = np.arange(100)
            before = self.contents(name)

            def fault(how, number):
                return {"LD_PRELOAD": f"{CHECKED_MEMORY['LD_PRELOAD']}:{FAULTY_WRITES}", "FAULTY_WRITES": f"{how},{number},.partial", "FAULTY_WRITES_COUNT": self.path("count")}

            said = self.run_faults("signals", rank, "index", ranks, alone=fault("count", 0), everywhere=even)
            self.assertEqual(said.count("ended with 0"), ranks, said)
            self.assertEqual(self.keys(name), ["old", "result"])
            pathlib.Path(name).write_bytes(before)
            last = int(self.contents("count")) // ROUNDS
            self.assertGreater(last, 4800 // ranks // 2)
            ends = range(last - 4 * (rank == 0), last + 1)
            for how, reason, numbers in [("full", "no space left on device", [1, last // 2, *ends]), ("broken", "Input/output error", [last])]:
                for number in numbers:
                    # No task writes the index.
                    pattern = f"^(writing|cannot (write|sync)) .*{reason}" if number == last else reason
                    self.ends("throw", rank, "index", ranks, pattern=pattern, alone=fault(how, number), everywhere=even)
                    self.assertEqual(self.contents(name), before)
                    self.assertEqual([left for left in os.listdir(self.dir) if "partial" in left], [])

    def test_every_kind_of_task(self):
        for device, when in [("cpu", "begin"), ("cpu", "end"), ("emulated", "begin"), ("emulated", "end")]:
            for kind in KINDS[device]:
                self.task_ends("throw", kind, when, 2, 1, OF_KIND[kind], ranks=3, device=device)

    def test_a_rank_that_passes_tiles_on(self):
        """Of six ranks that factor a matrix by panels: those that have a panel from the one that fails end as well."""
        for how, kind, when, number in [("throw", "compute", "begin", 2), ("throw", "receive", "end", 3), ("throw", "receive", "begin", 1), ("kill", "receive", "end", 2)]:
            self.task_ends(how, kind, when, number, 1, "factor", ranks=6)

    def test_a_rank_that_exits_while_others_copy_from_it(self):
        """Where a copy is over that it cannot be told of, those that wait behind it end too."""
        for number in [26, 27]:
            self.task_ends("exit", "receive", "begin", number, 1, "rechunk", ranks=4, device="emulated")

    def test_at_random(self):
        runs, seed = int(os.environ.get("FAULT_RUNS", "6")), int(os.environ.get("FAULT_SEED", "1"))
        before = shared_memory()
        end = time.time() + float(os.environ.get("FAULT_SECONDS", "inf"))
        for run in range(seed, seed + runs):
            if time.time() > end:
                runs = run - seed
                break
            pick = random.Random(run)
            others = pick.choice(REPEATED)
            # Of another kind than all do.
            how = pick.choice(["throw", "inside", "return", "exit", "kill", "stop", "call", "call", "task", "task", "task", "task"])
            if how == "call":
                how = pick.choice([call for call in CALLS if call != others])
            ranks = pick.randint(2, 8)
            if how == "task":
                device = pick.choice(["cpu", "emulated"])
                kind = pick.choice(KINDS[device])
                how, when, number = pick.choice(["throw", "throw", "exit", "kill", "stop"]), pick.choice(["begin", "end"]), pick.randint(1, 40)
                with self.subTest(seed=run):
                    self.task_ends(how, kind, when, number, pick.randrange(ranks), OF_KIND[kind], ranks=ranks, device=device)
                continue
            delay = pick.randint(0, 20000) if how in ("kill", "stop", "exit") else 0
            pattern = r"ranks diverged.*\brank|rank" if how in CALLS else None
            with self.subTest(seed=run):
                self.ends(how, pick.randrange(ranks), others, ranks, pick.choice(["cpu", "emulated"]), delay, pattern)
        print(f"{runs} random runs", flush=True)
        self.assertEqual(shared_memory() - before, set())
        # Who is killed while it writes leaves NAME.partial, which the next run replaces.
        self.assertEqual([name for name in os.listdir(self.dir) if not name.startswith("faults_")], [])


if __name__ == "__main__":
    main(at_once=2)
