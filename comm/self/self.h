// The communicator of a job of one rank: no vendor library is called.
#pragma once

#include <memory>

#include "quarry/comm/communicator.h"
#include "quarry/comm/endpoint.h"

namespace quarry::comm {

class SelfCommunicator : public Communicator {
 public:
  SelfCommunicator();
  ~SelfCommunicator() override;

  int rank() const override { return 0; }
  int size() const override { return 1; }
  int node_rank() const override { return 0; }
  int node_size() const override { return 1; }
  int node_of(int /*rank*/) const override { return 0; }
  const char* transport() const override { return "self"; }

  std::unique_ptr<Communicator> split(int color, int key) override;
  void barrier() override {}
  void broadcast(void* data, int64_t bytes, int root) override;
  void all_gather(const void* mine, int64_t bytes_each, void* all) override;
  void all_reduce(std::span<int64_t> values, ReduceOp op) override;
  void all_reduce(std::span<double> values, ReduceOp op) override;

  std::unique_ptr<Request> send(const void* data, int64_t bytes, int to, uint64_t tag) override;
  std::unique_ptr<Request> receive(void* data, int64_t bytes, int from, uint64_t tag) override;
  void set_handler(Handler handler) override;
  void post(int to, std::span<const std::byte> message) override;
  bool progress() override { return endpoint_.progress(); }
  void wait_for_event(double seconds) override { endpoint_.wait_for_event(seconds); }
  void check_ranks(int64_t /*calls*/) override {}
  void wake() override { endpoint_.wake(); }
  int64_t bytes_sent() const override { return 0; }

  [[noreturn]] void abort(int status) override;

 private:
  Endpoint endpoint_;
};

}  // namespace quarry::comm
