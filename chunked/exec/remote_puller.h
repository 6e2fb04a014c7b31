// The consumer's side of pulls. On the CPU the pieces arrive where they belong, all asked for at once, and a small box
// arrives in one message. A block in device memory that this rank's device reaches is leased and copied from there; a
// run of one that the transport moves by itself arrives as one message, from device memory to device memory. For the
// rest of device memory a piece is asked for when a bounce buffer is free for it, and copied from there on a stream of
// its own.
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

#include "quarry/chunked/exec/peer_reads.h"
#include "quarry/chunked/exec/remote_server.h"
#include "quarry/comm/spin_mutex.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {

class RemotePuller {
 public:
  static constexpr int kBuffers = local::memory_policy::kMessageBuffers;  // bounce buffers, for device memory
  static constexpr int64_t kLeastDirect = int64_t{64} << 10;              // bytes of a message between device memories

  explicit RemotePuller(const ServiceLink& link);
  ~RemotePuller();

  void pull(int owner, const BlockKey& key, const BlockBox& box, void* to,
            std::function<void(std::exception_ptr)> done);
  // The box of a small pull. Any thread.
  void fetched(int from, uint32_t pull, std::span<const std::byte> data);
  // From the thread that drives the service (service.cpp).
  void declined(int from, uint32_t pull);
  void leased(int from, uint32_t pull, int64_t offset);
  void elsewhere(int from, uint32_t pull);
  bool poll();
  // The run has failed: pulls that wait for nothing any more end with this error, the others when their owners answer.
  void fail_all(const std::exception_ptr& error);
  bool idle() const { return open_ == 0; }
  int64_t arrived_pieces() const { return arrived_pieces_; }
  // What is not there yet, a line for each owner.
  std::string describe();

 private:
  struct Pull {
    int owner = 0;
    uint32_t id = 0;
    BlockKey key;
    BlockBox box;
    std::byte* to = nullptr;
    std::function<void(std::exception_ptr)> done;
    int64_t bytes = 0, pieces = 0;
    int64_t asked = 0, arrived = 0;                       // pieces
    std::deque<std::unique_ptr<comm::Request>> receives;  // CPU: of pieces arrived, arrived + 1, …
    std::exception_ptr error;
    bool declined = false;
    int64_t begin_ns = 0;
  };
  using PullPtr = std::shared_ptr<Pull>;
  struct Bounce {  // device memory: one piece on its way
    std::unique_ptr<local::Buffer> memory;
    std::unique_ptr<local::Event> copied;
    PullPtr pull;  // null: free
    int64_t piece = 0;
    std::unique_ptr<comm::Request> receive;  // null: being copied
  };

  void start(const PullPtr& pull);
  void look_at(uint32_t pull);  // in the next poll(); under the lock
  void look(const PullPtr& pull);
  PullPtr find(int from, uint32_t id);
  void tell(const Pull& pull, MessageKind kind);
  void fail_pull(const PullPtr& pull, const std::exception_ptr& error);
  bool poll_reads();
  int64_t pieces_of(int64_t bytes) const;
  int64_t piece_size(const Pull& pull, int64_t piece) const;
  void ask(const Pull& pull, int64_t first, int64_t count);
  void poll_host(const PullPtr& pull);
  bool poll_bounces();
  bool start_pieces();
  bool outstanding(const PullPtr& pull) const;
  void finish(const PullPtr& pull);
  void set_error(const PullPtr& pull, const std::exception_ptr& error);
  bool finish_others();
  // Wakes the service's thread once the event is reached.
  void wake_after(local::Event& event);

  const ServiceLink& link_;
  const bool on_device_;
  std::unique_ptr<local::Stream> stream_;
  std::vector<Bounce> bounces_;                 // of the thread that drives the service, as all up to open_
  std::unique_ptr<local::Stream> wake_stream_;  // calls back to the host, which would hold up the copies behind them
  std::unique_ptr<PeerReads> reads_;            // from other ranks' devices; null where none is reached
  std::vector<uint64_t> looked_at_;
  const std::shared_ptr<comm::Finished> finished_receives_ = std::make_shared<comm::Finished>();
  std::atomic<int64_t> open_{0}, arrived_pieces_{0};

  comm::SpinMutex mutex_;
  std::unordered_map<uint32_t, PullPtr> pulls_;
  std::deque<PullPtr> waiting_;    // device: with pieces to ask for
  std::vector<uint64_t> to_look_;  // pulls to which something happened
  std::atomic<bool> any_look_{false};
  std::exception_ptr failure_;
  uint32_t next_id_ = 0;
};

}  // namespace quarry::exec
