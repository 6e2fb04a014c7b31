"""Started by Slurm: srun with PMIx, the scripts of docs/howto/slurm, signals, tasks that die. Runs under tests/mpi/slurm, on the nodes n0 and n1."""

import os
import pathlib
import re
import signal
import subprocess
import time

from support import QUARRY, SOURCE, TIMEOUT, CliTest, Result, main, np, slowness

CORES = os.cpu_count()
SLOW = ["x.T @ x", "-i", "x=x.h5:/x", "--chunks", "128,64", "--memory", "64MiB", "--progress", "off"]
LIMIT = 10  # seconds, on an idle machine


def ranks_of(job):
    """Process ids by rank, of the quarry processes of a Slurm job."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "exe") != os.path.realpath(QUARRY):
                continue
            environment = dict(entry.split("=", 1) for entry in (folder / "environ").read_text(errors="replace").split("\0") if "=" in entry)
        except OSError:
            continue
        if environment.get("SLURM_JOB_ID") == job:
            found[int(environment["SLURM_PROCID"])] = int(folder.name)
    return found


class Slurm(CliTest):
    def run_command(self, *command, **env):
        done = subprocess.run(
            list(map(str, command)), cwd=self.dir, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def srun(self, options, *arguments, status=0, **env):
        result = self.run_command("srun", *options.split(), QUARRY, *arguments, **env)
        self.assertEqual(result.status, status, result.out + result.err)
        return result

    def submit(self, script, options, *arguments, **env):
        """The job's number, and a function that waits for its end and returns its status and what it wrote."""
        job = self.run_command(
            "sbatch", "--parsable", "-o", self.path("log-%j"), *options.split(), SOURCE / "docs/howto/slurm" / script, *arguments, QUARRY=QUARRY, **env
        )
        self.assertEqual(job.status, 0, job.err)
        number = job.out.strip()

        def wait():
            end = time.time() + TIMEOUT
            while True:
                self.assertLess(time.time(), end, "the job does not end")
                shown = self.run_command("scontrol", "show", "job", number).out
                if re.search(r"JobState=(?!PENDING|RUNNING|COMPLETING|CONFIGURING)", shown):
                    break
                time.sleep(0.1)
            log = pathlib.Path(self.path("log-" + number))
            text = log.read_text() if log.exists() else ""
            code, by_signal = map(int, re.search(r"ExitCode=(\d+):(\d+)", shown).groups())
            return Result(code or by_signal, text, text)

        return number, wait

    def test_ranks_and_devices(self):
        text = self.srun("--mpi=pmix -N2 --ntasks-per-node=2 --overcommit", "info", "--topology", "--device", "cpu").out
        self.assertEqual(re.findall(r"(?m)^  (\d) on (n\d): cpu", text), [("0", "n0"), ("1", "n0"), ("2", "n1"), ("3", "n1")])
        text = self.srun("--mpi=pmix -N2 --ntasks-per-node=2 --overcommit", "info", "--topology", "--device", "emulated", "--memory", "64MiB").out
        self.assertEqual(re.findall(r"(?m)^  \d on (n\d): (emulated:\d)", text), [(f"n{n}", f"emulated:{i}") for n in [0, 1] for i in [0, 1]])
        self.assertIn("0 <- 1: blocks in device memory: copied by the reading device", text)
        self.assertIn("0 <- 2-3: blocks: through pinned memory", text)

    def test_one_task_with_and_without_mpi(self):
        for options in ["-n1", "-n1 --mpi=pmix"]:
            self.assertEqual(self.srun(options, "eval", "sum(arange(5))").out, "10\n")

    def test_tasks_without_mpi_are_an_error(self):
        result = self.srun("-n2 --overcommit", "eval", "arange(5)", "-o", "o.h5", status=2)
        self.assertRegex(result.err, "srun started 2 processes that know nothing of each other: start them with srun --mpi=pmix")
        self.assertFalse((self.dir / "o.h5").exists())
        result = self.srun("-n2 --overcommit", "eval", "sum(arange(5))", "--transport", "self")
        self.assertEqual(result.out, "10\n10\n")

    def test_more_ranks_than_cores(self):
        x = np.random.default_rng(1).random((300, 40))
        self.write("x.h5", x=x)
        self.srun("--mpi=pmix -N2 -n8 --overcommit", "eval", "mean(x, axis=0)", "-i", "x=x.h5:/x", "--chunks", "50,40", "-o", "o.h5")
        np.testing.assert_allclose(self.read("o.h5"), x.mean(axis=0), rtol=1e-14)

    def test_threads_and_memory_are_those_of_the_job(self):
        def ranks(script, options):
            _, wait = self.submit(script, options, "info", "--topology")
            result = wait()
            self.assertEqual(result.status, 0, result.out)
            return re.findall(r"(?m)^  \d on (n\d): .*?, (\d+) threads?, (\S+ \S+) of", result.out)

        # 60 % of the node's memory for its ranks.
        self.assertEqual(ranks("cpu.sbatch", f"-N2 --ntasks-per-node=1 --cpus-per-task={CORES} --mem=1000M"), [(f"n{n}", str(CORES), "600 MiB") for n in [0, 1]])
        if CORES > 1:
            self.assertEqual(ranks("cpu.sbatch", "-N1 --ntasks-per-node=2 --cpus-per-task=1 --mem=1000M"), [("n0", "1", "300 MiB")] * 2)
            text = self.srun("--mpi=pmix -n1 --cpus-per-task=1 --cpu-bind=none --overcommit", "info", "--topology", "--device", "cpu").out
            self.assertRegex(text, "cpu, 1 thread,")

    def test_scripts(self):
        x = np.random.default_rng(1).random((300, 40))
        self.write("x.h5", x=x)
        jobs = []
        for script, env in [("cpu.sbatch", {}), ("gpu.sbatch", {"QUARRY_DEVICE": "emulated", "QUARRY_MEMORY": "64MiB", "QUARRY_HOST_MEMORY": "64MiB"})]:
            options = "-N2 --ntasks-per-node=1 --cpus-per-task=1 --mem=500M"
            jobs.append((script, self.submit(script, options, "eval", "mean(x, axis=0)", "-i", "x=x.h5:/x", "-o", script + ".h5", "--chunks", "50,40", **env)))
        for script, (_, wait) in jobs:
            result = wait()
            self.assertEqual(result.status, 0, result.out)
            self.assertIn("2 ranks on 2 nodes", result.out)
            np.testing.assert_allclose(self.read(script + ".h5"), x.mean(axis=0), rtol=1e-14)
        self.assertIn("0 <- 1: blocks: through pinned memory", result.out)

    def test_mpirun_inside_an_allocation(self):
        options = "-N2 --ntasks-per-node=2 --overcommit --mem=500M --parsable"
        text = self.run_command("salloc", *options.split()[:-1], "mpirun", "--bind-to", "none", QUARRY, "info", "--topology", "--device", "cpu").out
        self.assertEqual(re.findall(r"(?m)^  \d on (n\d): cpu", text), ["n0", "n0", "n1", "n1"], text)

    def begin_slowly(self):
        self.write("x.h5", x=np.ones((49152, 64)))
        options = "-N2 --ntasks-per-node=2 --cpus-per-task=1 --overcommit --mem=500M"
        job, wait = self.submit("cpu.sbatch", options, "eval", *SLOW, "-o", "o.h5", QUARRY_FAULT_READ_RATE="100000")
        end = time.time() + TIMEOUT
        while not (self.dir / "o.h5.partial").exists():
            self.assertLess(time.time(), end, "it did not begin to compute")
            time.sleep(0.05)
        return job, wait

    def test_cancelled(self):
        for options in [[], ["--signal=TERM"]]:  # the latter is what --signal=TERM@60 sends
            job, wait = self.begin_slowly()
            begin = time.time()
            self.run_command("scancel", *options, job)
            result = wait()
            self.assertLess(time.time() - begin, LIMIT * slowness(ranks=2))
            self.assertNotEqual(result.status, 0)
            self.assertIn("interrupted; outputs are as they were", result.out)
            self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("o.h5")], [])
            (self.dir / "x.h5").unlink()

    def test_a_rank_that_is_lost_ends_the_job(self):
        for victim, number, said in [(3, signal.SIGKILL, r"rank 3 \(process \d+ on n1\) has died"), (0, signal.SIGSTOP, "rank 0 on n0 has said nothing for 2 s")]:
            os.environ["QUARRY_RANK_TIMEOUT"] = "2"
            job, wait = self.begin_slowly()
            pids = ranks_of(job)
            self.assertEqual(sorted(pids), [0, 1, 2, 3])
            begin = time.time()
            os.kill(pids[victim], number)
            result = wait()
            self.assertLess(time.time() - begin, LIMIT * slowness(ranks=2))
            self.assertNotEqual(result.status, 0)
            self.assertRegex(result.out, said)
            self.assertFalse((self.dir / "o.h5").exists())
            (self.dir / "x.h5").unlink()


if __name__ == "__main__":
    main(at_once=1)
