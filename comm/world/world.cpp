#include "quarry/comm/world/world.h"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>

#include "quarry/comm/mpi/mpi_communicator.h"
#include "quarry/comm/self/self.h"
#include "quarry/local/base/options.h"

namespace quarry::comm {
namespace {

// Several tasks of one Slurm step, none of which knows of the others: all would write the same output.
void refuse_separate_tasks() {
  const std::string tasks = local::environment("SLURM_STEP_NUM_TASKS", "");  // not set in a batch script
  if (std::atoi(tasks.c_str()) < 2) return;
  throw local::InvalidArgument(
      fmt::format("srun started {} processes that know nothing of each other: start them with srun --mpi=pmix, "
                  "or, if each is to be a run of its own, with --transport self (QUARRY_TRANSPORT)",
                  tasks));
}

}  // namespace

bool is_launched() {
  // What Open MPI's, MPICH's and Slurm's launchers (with PMI or PMIx) set for the processes they start.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (local::environment(variable)) return true;
  }
  return false;
}

std::unique_ptr<Communicator> world(int* argc, char*** argv, const local::OptionValue& transport) {
  auto choice = mpi::TransportChoice::automatic;
  std::exception_ptr failure;
  try {
    choice = transport.choice<mpi::TransportChoice>();
  } catch (const local::InvalidArgument&) {
    if (!is_launched()) throw;
    failure = std::current_exception();
  }
  if (transport.text() == "self") return self_communicator();
  if (!is_launched()) {
    refuse_separate_tasks();
    return self_communicator();
  }
  std::shared_ptr<mpi::Job> job = mpi::Job::get(argc, argv, choice, failure);
  MPI_Comm comm = job->duplicate();
  return std::make_unique<mpi::MpiCommunicator>(std::move(job), comm);
}

void fail_world(int* argc, char*** argv, const std::exception_ptr& failure) {
  if (!is_launched()) return;
  try {
    mpi::Job::get(argc, argv, mpi::TransportChoice::automatic, failure);
  } catch (const local::Error&) {  // the failure, here too
  }
}

std::unique_ptr<Communicator> self_communicator() { return std::make_unique<SelfCommunicator>(); }

}  // namespace quarry::comm
