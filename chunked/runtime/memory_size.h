// What a process may still take of the host's memory, read from the files that Linux shows.
#pragma once

#include <cstdint>
#include <string>

namespace quarry {

// As free_host_bytes(), with /proc and /sys found below `root` ("" for the real ones).
int64_t free_host_bytes_below(const std::string& root);
// What this process may take beside the other ranks of its node: its share of free_host_bytes(), and at most what its
// address space (ulimit -v) has left beside the buffers of BLAS calls on so many threads.
int64_t free_share_bytes(int ranks_of_node, int threads);
// The memory of this node that Slurm's --mem or --mem-per-cpu gives the job, which cgroups need not enforce; the
// largest number where none was asked for, or all of it.
int64_t bytes_given_by_slurm();

}  // namespace quarry
