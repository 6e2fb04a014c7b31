// What a network has to provide below the communicators: ordered control frames and numbered data transfers between the
// processes of a job.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "quarry/comm/communicator.h"

namespace quarry::comm {

// The largest control frame: an active message of 4 KiB and its header.
inline constexpr int64_t kMaxMessageBytes = 4096;
inline constexpr int64_t kFrameHeaderBytes = 48;
inline constexpr int64_t kMaxFrameBytes = kMaxMessageBytes + kFrameHeaderBytes;

// The state of one transfer, shared by the transport that works on it and the request that waits for it.
struct Transfer {
  enum class State : int { pending, done, failed };
  std::atomic<State> state{State::pending};
  std::string error;  // written before state becomes failed

  void finish() { end(State::done); }
  void fail(std::string reason) {
    error = std::move(reason);
    end(State::failed);
  }
  // The second of this call and the end of the transfer pushes the number.
  void notify(std::shared_ptr<CompletionQueue> queue, uint64_t number) {
    queue_ = std::move(queue);
    number_ = number;
    listening_ = true;
    if (state != State::pending) push();
  }

 private:
  void end(State how) {
    state = how;
    push();
  }
  void push() {
    if (listening_.exchange(false)) queue_->push(number_);
  }

  std::atomic<bool> listening_{false};
  std::shared_ptr<CompletionQueue> queue_;  // these two: written before listening_ is set
  uint64_t number_ = 0;
};
using TransferPtr = std::shared_ptr<Transfer>;

// Where the memory of a transfer is: what host threads read and write, or a device's. That of emulated devices is host
// memory, but never travels with an announcement, as that of no device does.
enum class MemoryKind : uint8_t { host, emulated, cuda };

// Takes what arrives. Called from Transport::progress() with the transport's lock held: must not call the transport.
class TransportSink {
 public:
  virtual ~TransportSink() = default;
  virtual void receive_frame(int from, std::span<const std::byte> frame) = 0;
  virtual void report_lost(int rank, const std::string& reason) = 0;
};

// Ranks are those of the job. Every function may be called from any thread.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const char* name() const = 0;
  // What the connection to that rank uses, in words.
  virtual std::string link_to(int /*rank*/) { return name(); }
  // Control frames of at most kMaxFrameBytes: copied, delivered in order per sender.
  virtual void post(int to, std::span<const std::byte> frame) = 0;
  // Data: a send and the receive with the same id (unique per pair of ranks while in flight) and size meet. The memory
  // must stay until the transfer is not pending any more.
  virtual void send(int to, uint64_t id, const void* data, int64_t bytes, MemoryKind memory,
                    const TransferPtr& transfer) = 0;
  virtual void receive(int from, uint64_t id, void* data, int64_t bytes, MemoryKind memory,
                       const TransferPtr& transfer) = 0;
  // Whether it moves memory of that kind itself.
  virtual bool moves(MemoryKind memory) const { return memory != MemoryKind::cuda; }
  // That rank is gone: what is under way with it fails, now or in the next progress().
  virtual void abandon(int rank, const std::string& reason) = 0;
  // True if something happened.
  virtual bool progress(TransportSink& sink) = 0;
  // Sleeps until something may have arrived, wake() is called or the time is over.
  virtual void wait_for_event(double seconds) = 0;
  virtual void wake() = 0;
  // Completes what has been posted, then disconnects; after every rank has said that it sends nothing more. Gives up
  // after `seconds`.
  virtual void close(TransportSink& sink, double seconds) = 0;
};

}  // namespace quarry::comm
