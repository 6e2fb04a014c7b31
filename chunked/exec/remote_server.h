// The owner's side of pulls: waits until a block is ready, reads the wanted pieces into bounce buffers in a thread of
// its own and sends them. A consumer has posted its receives before it asks, so every send ends and every buffer comes
// back. A consumer whose device reaches this one's memory leases the block instead and copies it from there. A small
// box of a block in host memory leaves in one message, from the thread that made it or heard of the request.
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

#include "quarry/chunked/exec/remote_box.h"
#include "quarry/chunked/exec/remote_messages.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {

// What the parts of a service share.
struct ServiceLink {
  comm::Communicator& communicator;
  scheduler::Executor& executor;
  uint64_t epoch = 0;
  const comm::PeerMemory* peers = nullptr;
  int64_t piece_bytes = 0;
  local::Device device;
  // This rank's own failure; from any thread.
  std::function<void(const std::exception_ptr&)> fail;
};

class RemoteServer : public std::enable_shared_from_this<RemoteServer> {
 public:
  // Bounce buffers; one more piece is scratch for gathering short runs.
  static constexpr int kBuffers = local::memory_policy::kMessageBuffers;

  explicit RemoteServer(const ServiceLink& link);
  ~RemoteServer();

  void expose(const BlockKey& key, scheduler::BlockId block);
  // See Service::give().
  void give(const BlockKey& key, std::shared_ptr<const std::byte> data);
  // From who drives the service (service.cpp).
  void request(int from, Request request, MessageKind kind);  // request, fetch, lease or direct
  void returned(int from, uint32_t pull);                     // the block of a lease
  bool poll();
  // A pull from this rank itself: fills `to` without messages; `done` is called by poll().
  void pull_own(const BlockKey& key, const BlockBox& box, void* to, std::function<void(std::exception_ptr)> done);
  // From now on everything is declined with this error. Any thread.
  void decline_all(const std::exception_ptr& error);
  // Ends the thread; after every rank's pulls are over.
  void stop();
  int64_t bytes_sent() const { return bytes_sent_; }
  // Who waits for blocks of this rank, a line for each.
  std::string describe();

 private:
  struct Serve {
    int to = -1;  // this rank: `own` is set
    uint32_t pull = 0;
    BlockKey key;
    scheduler::BlockId block = -1;
    std::shared_ptr<const std::byte> given;  // of a kGiven one, once it is ready
    std::unique_ptr<BoxRuns> runs;
    int64_t pieces_left = 0;
    bool ready = false;
    bool declined = false;
    bool lease_wanted = false, direct_wanted = false, leased = false;
    bool fetch = false;                              // the answer holds it all
    std::deque<std::pair<int64_t, int64_t>> wanted;  // [first, last) pieces asked for before the block was ready
    void* own = nullptr;
    BlockBox box;  // of an own pull
    std::function<void(std::exception_ptr)> done;
  };
  using ServePtr = std::shared_ptr<Serve>;
  struct Job {
    ServePtr serve;
    int64_t first, last;  // pieces; first < 0: decline
  };
  struct Sending {
    std::unique_ptr<comm::Request> request;
    int buffer;      // -1: from device memory
    ServePtr serve;  // then: whose block is leased
  };
  struct Given {
    std::shared_ptr<const std::byte> data;
    ServePtr serve;  // once it is pulled
  };
  struct Finished {
    std::function<void(std::exception_ptr)> done;
    std::exception_ptr error;
  };

  void add(const ServePtr& serve);
  void add_given(const ServePtr& serve);
  void read(const Serve& serve, int64_t offset, int64_t count, void* to);
  void became_ready(const ServePtr& serve);
  void queue(Job job);  // under the lock
  void loop();
  void work(const Job& job);
  void decline(const ServePtr& serve);
  const std::byte* lease_for(const ServePtr& serve);
  void lease(const ServePtr& serve);
  void send_direct(const ServePtr& serve);
  bool answer_from_memory(const ServePtr& serve);
  void answer_fetch(const ServePtr& serve, std::span<const std::byte> data);
  void answer(const ServePtr& serve, MessageKind kind, int64_t offset);
  void serve_own(const ServePtr& serve);
  int take_buffer();
  std::span<std::byte> scratch();
  int64_t pieces_of(int64_t bytes) const;
  void over(const ServePtr& serve);

  const ServiceLink& link_;
  std::vector<std::unique_ptr<local::Buffer>> buffers_;                 // kBuffers, then the scratch
  std::map<std::pair<uint64_t, int64_t>, scheduler::BlockId> exposed_;  // (stage, part), chunk

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::map<std::pair<int, uint32_t>, ServePtr> serves_;
  std::map<std::pair<uint64_t, int64_t>, Given> given_;  // as exposed_
  std::vector<int> free_buffers_;
  std::vector<Sending> sending_;
  std::vector<Finished> finished_;
  std::atomic<int64_t> to_poll_{0};  // entries of sending_ and finished_
  std::exception_ptr declining_;
  bool stop_ = false;
  uint32_t own_pulls_ = 0;
  std::unique_ptr<local::Stream> own_stream_;
  std::unique_ptr<local::Event> on_this_device_;  // of thread_, see send_direct()
  std::atomic<int64_t> bytes_sent_{0};
  std::thread thread_;
};

}  // namespace quarry::exec
