// The CPUs of a host, shared by the ranks on it.
#pragma once

#include "quarry/comm/communicator.h"

namespace quarry {

// Threads for this rank: the CPUs of its affinity mask over the ranks that have the same one, at most what Slurm's
// --cpus-per-task says. Collective.
int thread_share(comm::Communicator& communicator);

}  // namespace quarry
