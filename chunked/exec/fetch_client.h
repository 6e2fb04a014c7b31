// The consumer's side of fetches. On the CPU the segments arrive where they belong, all requested at once, and a
// small hyperslab arrives in one message. A block in device memory that this rank's device reaches is leased and copied
// from there; a run of one that the transport moves by itself arrives as one message, from device memory to device
// memory. For the rest of device memory a segment is requested when a bounce buffer is free for it, and copied from
// there on a stream of its own.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "quarry/chunked/exec/fetch_server.h"
#include "quarry/chunked/exec/peer_reads.h"
#include "quarry/comm/spin_mutex.h"

namespace quarry::exec {

class FetchClient {
 public:
  static constexpr int kBuffers = 3;                                 // bounce buffers, for device memory
  static constexpr int64_t kLeastDeviceMessage = int64_t{64} << 10;  // bytes of a message between device memories

  explicit FetchClient(const ServiceLink& link);
  ~FetchClient();

  void fetch(int owner, const BlockKey& key, const Hyperslab& hyperslab, void* to,
             std::function<void(std::exception_ptr)> done);
  // The hyperslab of a small fetch. Any thread.
  void eager_data(int from, uint32_t fetch, std::span<const std::byte> data);
  // From the thread that makes progress (service.cpp).
  void declined(int from, uint32_t fetch);
  void rdma_ready(int from, uint32_t fetch, int64_t offset);
  void not_on_device(int from, uint32_t fetch);
  bool poll();
  // The run has failed: fetches that wait for nothing any more end with this error, the others when their owners
  // answer.
  void fail_all(const std::exception_ptr& error);
  bool idle() const { return open_ == 0; }
  int64_t arrived_segments() const { return arrived_segments_; }
  // What is not there yet, a line for each owner.
  std::string describe();

 private:
  struct Fetch {
    int owner = 0;
    uint32_t id = 0;
    BlockKey key;
    Hyperslab hyperslab;
    std::byte* to = nullptr;
    std::function<void(std::exception_ptr)> done;
    int64_t bytes = 0, segments = 0;
    int64_t requested = 0, arrived = 0;                   // segments
    std::deque<std::unique_ptr<comm::Request>> receives;  // CPU: of segments arrived, arrived + 1, …
    std::exception_ptr error;
    bool declined = false;
    int64_t begin_ns = 0;
  };
  using FetchPtr = std::shared_ptr<Fetch>;
  struct Bounce {  // device memory: one segment on its way
    std::unique_ptr<local::Buffer> memory;
    std::unique_ptr<local::Event> copied;
    FetchPtr fetch;  // null: free
    int64_t segment = 0;
    std::unique_ptr<comm::Request> receive;  // null: being copied
  };

  void start(const FetchPtr& fetch);
  void mark(uint32_t fetch);  // in the next poll(); under the lock
  void mark_now(const FetchPtr& fetch);
  FetchPtr find(int from, uint32_t id);
  void post_request(const Fetch& fetch, MessageKind kind);
  void fail_fetch(const FetchPtr& fetch, const std::exception_ptr& error);
  bool poll_reads();
  int64_t segments_of(int64_t bytes) const;
  int64_t segment_size(const Fetch& fetch, int64_t segment) const;
  void request_segments(const Fetch& fetch, int64_t first, int64_t count);
  void poll_host(const FetchPtr& fetch);
  bool poll_bounces();
  bool start_segments();
  bool outstanding(const FetchPtr& fetch) const;
  void finish(const FetchPtr& fetch);
  void set_error(const FetchPtr& fetch, const std::exception_ptr& error);
  bool finish_others();
  // Wakes the service's thread once the event is reached.
  void wake_after(local::Event& event);

  const ServiceLink& link_;
  const bool on_device_;
  std::unique_ptr<local::Stream> stream_;
  std::vector<Bounce> bounces_;                 // of the thread that makes progress, as all up to open_
  std::unique_ptr<local::Stream> wake_stream_;  // calls back to the host, which would hold up the copies behind them
  std::unique_ptr<PeerReads> reads_;            // from other ranks' devices; null where none is reached
  std::vector<uint64_t> examined_;
  const std::shared_ptr<comm::CompletionQueue> completed_receives_ = std::make_shared<comm::CompletionQueue>();
  std::atomic<int64_t> open_{0}, arrived_segments_{0};

  comm::SpinMutex mutex_;
  std::unordered_map<uint32_t, FetchPtr> fetches_;
  std::deque<FetchPtr> waiting_;  // device: with segments to request
  std::vector<uint64_t> marked_;  // fetches to which something happened
  std::atomic<bool> any_marked_{false};
  std::exception_ptr failure_;
  uint32_t next_id_ = 0;
};

}  // namespace quarry::exec
