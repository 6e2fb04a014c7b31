// Communicators of an MPI job: collectives by MPI, point-to-point traffic by the job's endpoint (over MPI or UCX).
#pragma once

#include <mpi.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/comm/mpi/job.h"

namespace quarry::comm::mpi {

class MpiCommunicator : public Communicator {
 public:
  // Takes `comm` over. Collective over its ranks.
  MpiCommunicator(std::shared_ptr<Job> job, MPI_Comm comm);
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node_rank() const override { return node_rank_; }
  int node_size() const override { return node_size_; }
  int node_of(int rank) const override { return node_of_.at(static_cast<size_t>(rank)); }
  const char* transport() const override { return endpoint().transport(); }

  std::string link_to(int rank) override { return endpoint().link_to(channel_, rank); }

  std::unique_ptr<Communicator> split(int color, int key) override;
  void barrier() override;
  void broadcast(void* data, int64_t bytes, int root) override;
  void all_gather(const void* mine, int64_t bytes_each, void* all) override;
  void all_reduce(std::span<int64_t> values, ReduceOp op) override;
  void all_reduce(std::span<double> values, ReduceOp op) override;

  std::unique_ptr<Request> send(const void* data, int64_t bytes, int to, uint64_t tag) override;
  std::unique_ptr<Request> receive(void* data, int64_t bytes, int from, uint64_t tag) override;
  bool moves_memory_of(local::DeviceKind kind) const override;
  std::unique_ptr<Request> send_device(local::DeviceKind kind, const void* data, int64_t bytes, int to,
                                       uint64_t tag) override;
  std::unique_ptr<Request> receive_device(local::DeviceKind kind, void* data, int64_t bytes, int from,
                                          uint64_t tag) override;
  void set_handler(Handler handler) override;
  void post(int to, std::span<const std::byte> message) override;
  bool progress() override { return endpoint().progress(); }
  void set_waiting_work(const std::function<bool()>& work) override { waiting_work_ = work; }
  void wait_for_event(double seconds) override { endpoint().wait_for_event(seconds); }
  std::vector<int> lost_ranks() override { return endpoint().lost_members(channel_); }
  void check_ranks(int64_t calls) override { endpoint().check_members(channel_, calls); }
  int64_t calls() const override { return calls_; }
  void fail(const local::ErrorRecord& error) override { endpoint().fail_channel(channel_, entered(), error); }
  bool leave(bool unwinding) override;
  void wake() override { endpoint().wake(); }
  int64_t bytes_sent() const override { return endpoint().bytes_sent(); }

  [[noreturn]] void abort(int status) override { job_->abort(status); }

 private:
  Endpoint& endpoint() const { return job_->endpoint(); }
  Endpoint::Leaving leaving(bool unwinding) const { return {calls_, unwinding}; }
  // For messages.
  std::string name_of(const char* call) const { return entered().empty() ? call : entered(); }
  // Starts a non-blocking collective and makes progress on everything until it is done, without holding MPI's lock.
  void finish(const char* call, const std::function<int(MPI_Request*)>& start);
  // Of a call that reads `data` and, where `reads` says so, gives it its result.
  void finish(const char* call, std::span<std::byte> data, bool reads,
              const std::function<int(void* memory, MPI_Request*)>& start);

  std::shared_ptr<Job> job_;
  MPI_Comm comm_;
  int rank_ = 0, size_ = 1, node_rank_ = 0, node_size_ = 1;
  uint32_t channel_ = 0;
  std::atomic<int64_t> calls_{0};       // collective ones that are done
  std::function<bool()> waiting_work_;  // of the thread of collective calls
  const int exceptions_ = std::uncaught_exceptions();
  std::vector<int> node_of_;  // per rank
};

}  // namespace quarry::comm::mpi
