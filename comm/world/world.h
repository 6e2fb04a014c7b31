// The communicator of this process's job: the one place that knows every transport.
#pragma once

#include <exception>
#include <memory>

#include "quarry/comm/communicator.h"
#include "quarry/local/base/options.h"

namespace quarry::comm {

// The job's communicator: MPI (with UCX for point-to-point traffic where built in) when a launcher's environment is
// found, else a job of one rank. Initialises MPI on the first call (MPI_THREAD_SERIALIZED); finalises it when the
// returned object dies. `transport`: a value of that option. Throws InvalidArgument, also where srun started several
// tasks without MPI, and CommError where the transport asked for cannot be used.
std::unique_ptr<Communicator> world(int* argc, char*** argv,
                                    const local::OptionValue& transport = local::OptionValue(local::Option::transport));
// Of a process that cannot go on before it has called world(): calls it in a way that makes world() throw `failure` on
// every rank of the job. Blocks until the others call it; returns at once where no launcher is found.
void fail_world(int* argc, char*** argv, const std::exception_ptr& failure);
// Whether a launcher (mpirun, srun with PMIx) started this process.
bool is_launched();
// That of a job of one rank, whatever started the process.
std::unique_ptr<Communicator> self_communicator();

}  // namespace quarry::comm
