// The client's side of fetches: gives each to a path (paths/path.h), and ends it when all its segments have arrived or
// it has failed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "quarry/chunked/exec/fetch.h"
#include "quarry/chunked/exec/paths/path.h"
#include "quarry/chunked/exec/service_messages.h"
#include "quarry/comm/spin_mutex.h"

namespace quarry::exec {

class FetchClient {
 public:
  explicit FetchClient(const ServiceLink& link);
  ~FetchClient();

  void fetch(int owner, const BlockKey& key, const Hyperslab& hyperslab, void* to,
             std::function<void(std::exception_ptr)> done);
  // All bytes of an eager fetch. Any thread.
  void receive_data(int from, uint32_t fetch, std::span<const std::byte> data);
  // From the thread that makes progress (service.cpp).
  void handle_decline(int from, uint32_t fetch);
  void reply(int from, const Message& message);
  void fall_back(int from, uint32_t fetch);
  bool poll();
  // The run has failed: fetches that wait for nothing any more end with this error, the others when their owners
  // answer.
  void fail_all(const std::exception_ptr& error);
  bool idle() const { return open_ == 0; }
  // Whether something is under way of which nothing but poll() tells. Any thread.
  bool must_be_polled() const;
  int64_t arrived_segments() const { return arrived_segments_; }
  // What is not there yet, a line for each owner.
  std::string describe();

  // --- for paths ---

  const ServiceLink& link() const { return link_; }
  comm::SpinMutex& mutex() { return mutex_; }
  // Sends the server a request for segments [first, first + count) by the fetch's path.
  void request(const Fetch& fetch, int64_t first, int64_t count);
  void post(const Fetch& fetch, MessageKind kind);
  int64_t segment_size(const Fetch& fetch, int64_t segment) const;
  // Posts the receive of one segment to host memory.
  std::unique_ptr<comm::Request> receive_segment(const Fetch& fetch, int64_t segment, void* to);
  // Segments that arrive with receives, in their order, each of which ends a segment. With the lock.
  void expect(Fetch& fetch, std::unique_ptr<comm::Request> receive);
  // Of one that is under way; from the thread that makes progress, as what follows.
  FetchPtr find(uint32_t id);
  void count_arrived(Fetch& fetch, int64_t segments);
  // Something happened to it: the next poll() looks whether it is over.
  void examine(const FetchPtr& fetch);
  void finish(const FetchPtr& fetch);
  void fail(const FetchPtr& fetch, const std::exception_ptr& error);

 private:
  void mark(uint32_t fetch);  // to be examined; with the lock
  FetchPtr find(int from, uint32_t id);
  PathClient& client_of(const Fetch& fetch) { return *clients_[fetch.path->number()]; }
  void complete_receives(const FetchPtr& fetch);
  bool is_outstanding(const Fetch& fetch);
  void set_error(const FetchPtr& fetch, const std::exception_ptr& error);
  bool finish_examined();

  const ServiceLink& link_;
  const bool on_device_;
  std::vector<std::unique_ptr<PathClient>> clients_;  // by row; null where the path is of no use to this rank
  std::vector<uint64_t> examined_;
  const std::shared_ptr<comm::CompletionQueue> completed_receives_ = std::make_shared<comm::CompletionQueue>();
  std::atomic<int64_t> open_{0}, arrived_segments_{0};

  comm::SpinMutex mutex_;
  std::unordered_map<uint32_t, FetchPtr> fetches_;
  std::vector<uint64_t> marked_;  // fetches to which something happened
  std::atomic<bool> any_marked_{false};
  std::exception_ptr failure_;
  uint32_t next_id_ = 0;
};

}  // namespace quarry::exec
