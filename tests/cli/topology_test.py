"""quarry info --topology: which path each pair of ranks takes, and forcing it."""

from support import CliTest, main


class Topology(CliTest):
    def topology(self, *options, ranks=2, **environment):
        result = self.run_quarry("info", "--topology", *options, ranks=ranks)
        self.assertEqual(result.status, 0, result.err)
        return result.out

    def test_one_rank(self):
        self.assertIn("one rank: nothing travels", self.topology("--device", "cpu", ranks=0))

    def test_each_rank_is_named_with_its_host_and_threads(self):
        text = self.topology("--device", "cpu", "--memory", "64MiB", "--threads", "1")
        for rank in [0, 1]:
            self.assertRegex(text, rf"(?m)^  {rank} on \S+: cpu, 1 thread, 64.0 MiB of memory$")

    def test_paths_of_the_transport_asked_for(self):
        self.assertRegex(self.topology("--device", "cpu", "--transport", "mpi"), r"0 <- 1: eager \(at most 4000 bytes; mpi\), else rendezvous \(mpi\); messages: mpi\n  1 <- 0: eager .*; messages: mpi\n")
        text = self.topology("--device", "cpu", "--transport", "ucx", ranks=3)
        self.assertRegex(text, r"0 <- 1-2: eager .*, else rendezvous \(ucx\); messages: ucx \S+/\S+")
        self.assertIn("transport: ucx", text)

    def test_devices_of_one_host_copy(self):
        options = ["--device", "emulated", "--memory", "64MiB", "--host-memory", "64MiB"]
        self.assertRegex(self.topology(*options), r"0 <- 1: peer-copy \(shared memory\), else staged \(\w+\); ")
        text = self.topology(*options, "--peer-copies", "off")
        self.assertRegex(text, r"(?m)^  0 on \S+: emulated:0 .*\n  1 on \S+: emulated:1 ")  # a rank's number among those of its host
        self.assertRegex(text, r"0 <- 1: staged \(\w+\); no peer-copy: copies between devices are turned off; ")
        self.assertIn("NCCL, for programs with device memory of their own: ", text)
        self.assertIn("messages of device memory: auto (--device-messages), which the transport moves", text)  # an emulated device's
        text = self.topology(*options, "--peer-copies", "off", "--device-messages", "on")
        self.assertRegex(text, r"0 <- 1: device-message \(single runs of at least 64 KiB; \w+\), else staged \(\w+\); ")

    def test_mistakes(self):
        self.fails(2, "expected auto, mpi, ucx or self", "info", "--topology", "--transport", "tcp")
        self.fails(2, "expected auto, on or off", "info", "--topology", "--peer-copies", "maybe")
        self.fails(2, "expected auto, on or off", "info", "--topology", "--device-messages", "maybe")
        self.fails(2, "info needs a FILE, --topology or --memory", "info")


if __name__ == "__main__":
    main()
