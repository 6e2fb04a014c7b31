"""What the system does not give (threads, file descriptors, address space) is one line of error in time: no hang, no abort."""

import concurrent.futures
import os
import re
import shutil
import subprocess
import time
import unittest

from support import CliTest, main, np, slowness

LIMIT = 5  # seconds of a command that fails, on an idle machine
NO_THREAD = r"a thread for [\w' ]+ cannot be started: "
# What a lack of address space may end in. The loader's own complaint comes before the program.
NO_ROOM = NO_THREAD + r"|OpenBLAS cannot have|out of memory|has no memory left|[Cc]annot allocate|cannot be mapped|bytes do not fit|does not fit a memory budget|is nothing"
NO_FILE = r"[Tt]oo many open files|cannot (open|read|write|create|make)|descriptors"


class Limits(CliTest):
    def setUp(self):
        super().setUp()
        self.write("x.h5", x=np.ones((600, 400)))

    def ends(self, pattern, *arguments, ranks=0, most_errors=1, starts=True, **options):
        """Whether it worked; else it says why, soon and in one line, or in most_errors of them. starts: MPI has the room for its own start."""
        begin = time.time()
        result = self.run_quarry(*arguments, "--progress", "off", ranks=ranks, **options)
        seconds = time.time() - begin
        what = f"{arguments} on {ranks} ranks, {options}: status {result.status} after {seconds:.1f} s\n{result.out}\n{result.err}"
        if seconds >= LIMIT:
            self.assertLess(seconds, LIMIT * slowness(max(ranks, 1)), what)
        if result.status == 0:
            self.assertEqual(result.errors(), [], what)
            return True, result
        said = result.err if starts else result.err.replace("quarry: error: the program ended itself", "")  # told of a signal, too
        if ranks and "quarry:" not in said and re.search("mca_|MPI_INIT|opal_show_help" + ("" if starts else "|[Ss]ignal "), result.err):
            return False, result  # Open MPI's components or PMIx's thread, before the program does anything
        if "Fatal glibc error: failed to register TLS destructor: out of memory" in result.err:
            return False, result  # the C library ends the process itself, where it has no room for what it notes of a thread
        if re.search(r"callbackq\.c:\d+ +Fatal: .*could not allocate memory", result.err):
            return False, result  # and so does UCX, of what its own thread has to call
        if "error: leaving the job: " in result.err and "Shared memory error" in result.err:
            return False, result  # UCX has no room for the memory of another rank, which it first attaches at the end
        self.assertNotRegex(result.err, "terminate called|Signal: |Segmentation", what)
        self.assertIn(result.status, [1, 2], what)
        self.assertIn(len(result.errors()), range(1, most_errors + 1), what)
        for error in result.errors():
            self.assertRegex(error, pattern, what)
        return False, result

    def test_every_thread(self):
        commands = [
            ["eval", "sum(random.normal(size=(300, 200)) @ ones((200, 3)))", "--device", "cpu"],
            ["eval", "sum(random.normal(size=(300, 200)) + 1)", "--device", "emulated", "--memory", "64MiB", "--host-memory", "64MiB"],
            ["eval", "sum(x)", "-i", "x=x.h5:/x", "--dashboard", "0", "--report", "r.html"],
        ]
        purposes = set()
        for command in commands:
            for number in range(1, 40):
                worked, result = self.ends(NO_THREAD, *command, "--threads", "2", env={"QUARRY_FAULT_THREADS": str(number)})
                purposes |= set(re.findall("a thread for ([\\w' ]+) cannot", result.err))
                if worked:
                    break
            self.assertTrue(worked, command)
        self.assertLessEqual({"signals", "tasks", "progress", "an emulated stream", "requests", "the dashboard"}, purposes)

    def test_every_thread_of_one_of_three_ranks(self):
        # The products fetch blocks of every rank; the small one begins without threads.
        self.write("small.h5", x=np.ones((60, 40)))
        def purposes_of(rank, name, chunks):
            purposes = set()
            for number in range(1, 40):
                without = {"QUARRY_FAULT_THREADS": str(number)}
                first, further = (without, [{"QUARRY_FAULT_THREADS": "0"}] * 2) if rank == 0 else ({}, [{}, without])
                command = ["eval", "sum(x.T @ x)", "-i", f"x={name}.h5:/x", "--chunks", chunks, "--threads", "1", "--memory", "64MiB"]
                worked, result = self.ends(NO_THREAD, *command, ranks=1, env=first, beside=further)
                purposes |= set(re.findall("a thread for ([\\w' ]+) cannot", result.err))
                if worked:
                    return purposes
            self.fail("it never worked")

        with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:  # they wait more than they work
            runs = [pool.submit(purposes_of, rank, *data) for rank, data in [(0, ("small", "10,10")), (2, ("x", "100,100")), (2, ("small", "10,10"))]]
        purposes = set().union(*(run.result() for run in runs))
        self.assertLessEqual({"signals", "watching ranks", "tasks", "progress", "messages", "sending blocks"}, purposes)

    @unittest.skipIf(os.getuid() != 0 or not shutil.which("setpriv"), "a limit of processes binds other users than root, and only root can become one")
    def test_a_user_with_few_processes(self):
        os.chmod(self.dir, 0o777)
        good = 0
        for number in range(1, 16):
            around = ["setpriv", "--reuid", "64321", "--regid", "64321", "--clear-groups", "prlimit", f"--nproc={number}"]
            for options in [["--device", "cpu"], ["--device", "emulated"]]:
                worked, _ = self.ends(NO_THREAD, "eval", "sum(ones((200, 300)) @ ones((300, 2)))", "--threads", "2", "--memory", "64MiB", *options, around=around)
                good += worked
        self.assertGreater(good, 0)

    def test_address_space(self):
        # What the loader and the libraries take before main() starts.
        least = next(mib for mib in range(60, 2000, 10) if self.runs_at_all(mib))
        for expression in ["sum(random.normal(size=(1500, 700)))", "sum(random.normal(size=(700, 700)) @ ones((700, 700)))", "sum(linalg.eigvalsh(random.normal(size=(200, 200))))"]:
            results = []
            # Where it just does not fit, any allocation may be the one that fails.
            for mib in [*range(least, least + 90, 5), *range(least + 100, least + 700, 120)]:
                worked, _ = self.ends(NO_ROOM, "eval", expression, "--threads", "2", around=["prlimit", f"--as={mib << 20}"])
                results.append(worked)
            self.assertTrue(results[-1], expression)

    def runs_at_all(self, mib):
        return self.run_quarry("--version", around=["prlimit", f"--as={mib << 20}"]).status == 0

    def test_the_default_budget_is_within_the_address_space(self):
        text = self.run_quarry("info", "--memory", around=["prlimit", f"--as={1 << 30}"]).out
        number, unit = re.search(r"([\d.]+) (MiB|GiB) +[\d.]+ %  memory budget", text).groups()
        self.assertLess(float(number) * {"MiB": 1, "GiB": 1024}[unit], 0.6 * 1024)

    def test_address_space_of_ranks(self):
        least = next(mib for mib in range(60, 2000, 10) if self.runs_at_all(mib))
        good = 0
        for mib in [least + 60, least + 150, least + 300, least + 600, least + 1200]:
            # UCX may lack the room for a message: then each rank loses the other.
            worked, _ = self.ends(
                NO_ROOM + "|Shared memory error",
                *["eval", "sum(x.T @ x)", "-i", "x=x.h5:/x", "--chunks", "100,100", "--threads", "1"],
                ranks=2,
                most_errors=2,
                starts=mib >= least + 150,
                around=["prlimit", f"--as={mib << 20}"],
            )
            good += worked
        self.assertGreater(good, 0)

    def test_descriptors(self):
        good = 0
        spilling = ["eval", "sum(random.uniform(size=(1500, 1500)) @ random.uniform(size=(1500, 1500)))", "-o", "o.h5", "--overwrite", "--memory", "18MiB", "--chunks", "500,500"]
        for command in [["eval", "sum(x)", "-i", "x=x.h5:/x"], ["eval", "x.T + 1", "-i", "x=x.h5:/x", "-o", "o.h5", "--overwrite", "--report", "r.html"], spilling]:
            for number in [*range(4, 16), 18]:
                worked, _ = self.ends(NO_FILE, *command, around=["prlimit", f"--nofile={number}"])
                good += worked
        self.assertGreater(good, 10)

    def test_descriptors_of_ranks(self):
        good = 0
        for number in range(16, 68, 6):
            worked, _ = self.ends(NO_FILE, "eval", "sum(x.T @ x)", "-i", "x=x.h5:/x", "--chunks", "100,100", "--memory", "64MiB", ranks=2, around=["prlimit", f"--nofile={number}"])
            good += worked
        self.assertGreater(good, 0)


if __name__ == "__main__":
    main(at_once=2)
