// The process's part of an MPI job: starts and ends MPI, owns the transport and the endpoint that all communicators
// share.
#pragma once

#include <mpi.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "quarry/comm/endpoint.h"
#include "quarry/comm/monitor/monitor.h"

namespace quarry::comm::mpi {

// MPI runs with MPI_THREAD_SERIALIZED: every MPI call of the process is made under this lock, for the call only, never
// while waiting for another rank.
std::mutex& lock();
// Throws CommError with MPI's description of `code` unless it is MPI_SUCCESS.
void check(int code, const char* call);

// Which network carries point-to-point traffic; automatic: UCX where it is built in and works here on every rank.
// In the order of the words of the option transport, of which the last, self, needs no MPI.
enum class TransportChoice { automatic, mpi, ucx };

class AddressTable;

class Job {
 public:
  // The running job, or starts it (collective). `failure`: why this rank cannot go on; no rank has a job then, and each
  // throws that of the lowest such rank.
  static std::shared_ptr<Job> get(int* argc, char*** argv, TransportChoice choice,
                                  const std::exception_ptr& failure = nullptr);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Endpoint& endpoint() { return *endpoint_; }
  MPI_Comm world() const { return world_; }
  // Per rank of the job: which node it runs on (the lowest rank there).
  const std::vector<int>& nodes() const { return nodes_; }
  // Whether the transports of all ranks move memory of CUDA devices.
  bool moves_cuda() const { return moves_cuda_; }
  // Another communicator of all ranks. Collective; throws CommError once a rank is lost.
  MPI_Comm duplicate();
  // Of MPI itself: a collective call that has returned here may still have something to send for the others.
  void make_progress();
  // From now on MPI is left alone: a collective call was given up whose memory is not there any more.
  void be_quiet() { quiet_ = true; }
  // A rank gave up: MPI's own end would hang or complain.
  [[noreturn]] void abort(int status);

  struct Started {};  // only get() makes one
  Job(Started, int* argc, char*** argv, TransportChoice choice, const std::exception_ptr& failure);

 private:
  // What the ranks' environments must say alike is looked at before anything depends on it.
  void agree_on_options(TransportChoice choice, const std::exception_ptr& failure);
  void choose_transport(TransportChoice choice, MPI_Comm node);
  void make_monitor(double silence_seconds);  // nothing for 0 seconds
  void start_monitor();

  const int exceptions_ = std::uncaught_exceptions();
  bool owns_mpi_ = false;
  MPI_Comm world_ = MPI_COMM_NULL;   // collectives
  MPI_Comm frames_ = MPI_COMM_NULL;  // control frames of the MPI transport
  MPI_Comm data_ = MPI_COMM_NULL;    // data of the MPI transport
  int rank_ = 0, size_ = 1;
  double silence_seconds_ = 0;  // after which a rank counts as lost
  std::vector<int> nodes_;
  bool moves_cuda_ = false;
  std::atomic<bool> quiet_{false};
  std::unique_ptr<AddressTable> addresses_;  // of UCX; before the endpoint, which uses it
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Monitor> monitor_;
};

// The transport over MPI point-to-point messages, on two communicators of its own.
std::unique_ptr<Transport> make_mpi_transport(MPI_Comm frames, MPI_Comm data);

}  // namespace quarry::comm::mpi
