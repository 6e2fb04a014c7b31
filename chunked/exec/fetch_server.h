// The owner's side of fetches: waits until a block is ready, reads the wanted segments into bounce buffers in a thread
// of its own and sends them. A consumer has posted its receives before it asks, so every send ends and every buffer
// comes back. A consumer whose device reaches this one's memory leases the block instead and copies it from there. A
// small hyperslab of a block in host memory leaves in one message, from the thread that made it or heard of the
// request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "quarry/chunked/exec/hyperslab.h"
#include "quarry/chunked/exec/service_messages.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::exec {

// What the parts of a service share.
struct ServiceLink {
  comm::Communicator& communicator;
  scheduler::Executor& executor;
  uint64_t epoch = 0;
  const comm::PeerMemory* peers = nullptr;
  int64_t segment_bytes = 0;
  local::Device device;
  // This rank's own failure; from any thread.
  std::function<void(const std::exception_ptr&)> fail;
};

class FetchServer : public std::enable_shared_from_this<FetchServer> {
 public:
  static constexpr int kBuffers = 3;  // bounce buffers; one more segment is scratch for gathering short runs

  explicit FetchServer(const ServiceLink& link);
  ~FetchServer();

  void expose(const BlockKey& key, scheduler::BlockId block);
  // See Service::publish_stolen().
  void publish_stolen(const BlockKey& key, std::shared_ptr<const std::byte> data);
  // From the thread that makes progress (service.cpp).
  void request(int from, Request request, MessageKind kind);  // request, eager, lease or device
  void rdma_done(int from, uint32_t fetch);                   // the block of a lease
  bool poll();
  // A fetch from this rank itself: fills `to` without messages; `done` is called by poll().
  void fetch_own(const BlockKey& key, const Hyperslab& hyperslab, void* to,
                 std::function<void(std::exception_ptr)> done);
  // From now on everything is declined with this error. Any thread.
  void decline_all(const std::exception_ptr& error);
  // Ends the thread; after every rank's fetches are over.
  void stop();
  int64_t bytes_sent() const { return bytes_sent_; }
  // Who waits for blocks of this rank, a line for each.
  std::string describe();

 private:
  struct Get {
    int to = -1;  // this rank: `own` is set
    uint32_t fetch = 0;
    BlockKey key;
    scheduler::BlockId block = -1;
    std::shared_ptr<const std::byte> stolen;  // of a kStolen one, once it is ready
    std::unique_ptr<HyperslabRuns> runs;
    int64_t segments_left = 0;
    bool ready = false;
    bool declined = false;
    bool rdma_wanted = false, device_wanted = false, leased = false;
    bool eager = false;                              // the reply holds it all
    std::deque<std::pair<int64_t, int64_t>> wanted;  // [first, last) segments asked for before the block was ready
    void* own = nullptr;
    Hyperslab hyperslab;  // of an own fetch
    std::function<void(std::exception_ptr)> done;
  };
  using GetPtr = std::shared_ptr<Get>;
  struct Job {
    GetPtr get;
    int64_t first, last;  // segments; first < 0: decline
  };
  struct Sending {
    std::unique_ptr<comm::Request> request;
    int buffer;  // -1: from device memory
    GetPtr get;  // then: whose block is leased
  };
  struct Stolen {
    std::shared_ptr<const std::byte> data;
    GetPtr get;  // once it is fetched
  };
  struct Finished {
    std::function<void(std::exception_ptr)> done;
    std::exception_ptr error;
  };

  void wait_for_block(const GetPtr& get);
  void wait_for_stolen(const GetPtr& get);
  void read(const Get& get, int64_t offset, int64_t count, void* to);
  void on_ready(const GetPtr& get);
  void queue(Job job);  // under the lock
  void loop();
  void work(const Job& job);
  void decline(const GetPtr& get);
  const std::byte* lease_for(const GetPtr& get);
  void lease(const GetPtr& get);
  void send_device(const GetPtr& get);
  bool reply_from_memory(const GetPtr& get);
  void reply_eager(const GetPtr& get, std::span<const std::byte> data);
  void reply(const GetPtr& get, MessageKind kind, int64_t offset);
  void get_own(const GetPtr& get);
  int take_buffer();
  std::span<std::byte> scratch();
  int64_t segments_of(int64_t bytes) const;
  void finish(const GetPtr& get);

  const ServiceLink& link_;
  std::vector<std::unique_ptr<local::Buffer>> buffers_;                 // kBuffers, then the scratch
  std::map<std::pair<uint64_t, int64_t>, scheduler::BlockId> exposed_;  // (stage, part), chunk

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::map<std::pair<int, uint32_t>, GetPtr> gets_;
  std::map<std::pair<uint64_t, int64_t>, Stolen> stolen_;  // as exposed_
  std::vector<int> free_buffers_;
  std::vector<Sending> sending_;
  std::vector<Finished> finished_;
  std::atomic<int64_t> to_poll_{0};  // entries of sending_ and finished_
  std::exception_ptr declining_;
  bool stop_ = false;
  uint32_t own_fetches_ = 0;
  std::unique_ptr<local::Stream> own_stream_;
  std::unique_ptr<local::Event> on_this_device_;  // of thread_, see send_device()
  std::atomic<int64_t> bytes_sent_{0};
  std::thread thread_;
};

}  // namespace quarry::exec
