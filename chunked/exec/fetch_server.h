// The server's side of fetches: waits until a block is ready and then has the path of the request serve it, in a thread
// of its own unless the path can do so at once. A client has posted its receives before it asks, so every send ends and
// every buffer comes back.
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

#include "quarry/chunked/exec/fetch.h"
#include "quarry/chunked/exec/service_messages.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {

class FetchServer : public std::enable_shared_from_this<FetchServer> {
 public:
  // Bounce buffers; one more segment is scratch for gathering short runs.
  static constexpr int kBuffers = local::memory_policy::kMessageBuffers;

  explicit FetchServer(const ServiceLink& link);
  ~FetchServer();

  void expose(const BlockKey& key, scheduler::BlockId block);
  // See Service::publish_stolen().
  void publish_stolen(const BlockKey& key, std::shared_ptr<const std::byte> data);
  // From the thread that makes progress (service.cpp).
  void request(int from, const Message& message);
  void end_lease(int from, uint32_t fetch);  // the client has the bytes of a leased block
  // The client cannot reach the leased block, and will ask anew by another path.
  void forget_lease(int from, uint32_t fetch);
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

  // --- for paths, in the server's thread unless it says otherwise ---

  struct Sending {
    std::unique_ptr<comm::Request> request;
    int buffer;  // -1: from device memory
    GetPtr get;  // then: whose block is leased
  };

  const ServiceLink& link() const { return link_; }
  bool is_declining();  // any thread
  // Bytes of the packed hyperslab, from `begin` on.
  void read(const Get& get, int64_t begin, int64_t bytes, std::byte* to);
  // Calls `use` with the block if it lies in host memory and this rank computes on the CPU. Any thread.
  bool visit(const Get& get, const std::function<void(const void*)>& use);
  // Packs a segment into a buffer and sends it; false if the run ends.
  bool send_segment(const GetPtr& get, int64_t segment);
  // The block in device memory, until the client is done or, with add_sending(), the send is; null if it is not there,
  // which the client is told.
  const std::byte* lease(const GetPtr& get);
  // The block is leased, but of no use to the path: as if it were not on the device.
  void take_back(const GetPtr& get);
  void make_device_current();
  void add_sending(Sending sending, int64_t bytes);
  void reply(const Get& get, Message message);  // any thread, as what follows
  void count_sent(int64_t bytes) { bytes_sent_ += bytes; }
  void finish(const GetPtr& get);  // the last byte has been read: the block may go

 private:
  struct Job {
    GetPtr get;
    bool decline;
  };
  struct Stolen {
    std::shared_ptr<const std::byte> data;
    GetPtr get;  // once it is fetched
  };
  struct Completed {
    std::function<void(std::exception_ptr)> done;
    std::exception_ptr error;
  };

  GetPtr take_leased(int from, uint32_t fetch);
  bool remove(const GetPtr& get);  // with the lock; false where it is not there any more
  void wait_for_block(const GetPtr& get);
  void wait_for_stolen(const GetPtr& get);
  void send_elsewhere(const Get& get);
  void read_block(const Get& get, int64_t offset, int64_t count, void* to);
  void on_ready(const GetPtr& get);
  void queue(Job job);  // under the lock
  void loop();
  bool decline_without_thread();
  void work(const Job& job);
  void decline(const GetPtr& get);
  void get_own(const GetPtr& get);
  int take_buffer();
  std::span<std::byte> scratch();

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
  std::vector<Completed> completed_;
  std::atomic<int64_t> to_poll_{0};  // entries of sending_ and completed_
  std::exception_ptr declining_;
  std::exception_ptr no_thread_;  // why the thread could not be started
  bool stop_ = false;
  uint32_t own_fetches_ = 0;
  std::unique_ptr<local::DeviceStream> own_stream_;
  std::unique_ptr<local::DeviceEvent> on_this_device_;  // of thread_, see make_device_current()
  std::atomic<int64_t> bytes_sent_{0};
  std::thread thread_;
};

}  // namespace quarry::exec
