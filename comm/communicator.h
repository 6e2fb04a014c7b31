// Message passing between the ranks of a job. Counts are 64-bit bytes. Host buffers unless a function says device.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/device/device.h"

namespace quarry::comm {

// Numbers of requests that are over, for a thread that waits for many of them: see Request::notify().
class CompletionQueue {
 public:
  void push(uint64_t number) {
    const std::lock_guard lock(mutex_);
    numbers_.push_back(number);
    any_.store(true, std::memory_order_release);
  }
  // Moves them to `numbers`, each once.
  void drain(std::vector<uint64_t>& numbers) {
    if (!any_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    numbers.insert(numbers.end(), numbers_.begin(), numbers_.end());
    numbers_.clear();
    any_.store(false, std::memory_order_relaxed);
  }

 private:
  std::mutex mutex_;
  std::vector<uint64_t> numbers_;
  std::atomic<bool> any_{false};
};

// A transfer under way. The buffer must live until it is done. Destroying a request withdraws a receive that no message
// has matched, and otherwise waits for the transfer, unless its peer is gone.
class Request {
 public:
  virtual ~Request() = default;
  virtual bool done() = 0;  // makes progress; throws CommError if the transfer failed
  virtual void wait() = 0;
  virtual bool pending() const = 0;  // neither done nor failed, so far; makes no progress, never throws
  // Once it is not pending any more, or now if it is not, `queue` gets the number. At most one call per request.
  virtual void notify(std::shared_ptr<CompletionQueue> queue, uint64_t number) = 0;
};

enum class ReduceOp : uint8_t { sum, min, max };

// Any thread may start transfers and ask for progress; one thread at a time runs collectives. Blocking calls make
// progress on everything.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int node_rank() const = 0;  // among the ranks of this host
  virtual int node_size() const = 0;
  // A number of the host that a rank of this communicator runs on; the same for ranks of one host.
  virtual int node_of(int rank) const = 0;
  virtual const char* transport() const = 0;  // "self", "mpi", "ucx"
  // What messages to that rank travel by, as far as is known: "ucx sysv/memory, cma/memory". After the first message.
  virtual std::string link_to(int rank) {
    static_cast<void>(rank);
    return transport();
  }

  // Collective, blocking. Throw CommError once a rank of this communicator is lost or has left the job.
  // split: ranks of equal color (>= 0) ordered by key; null for a negative color.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;
  virtual void barrier() = 0;
  virtual void broadcast(void* data, int64_t bytes, int root) = 0;
  virtual void all_gather(const void* mine, int64_t bytes_each, void* all) = 0;
  virtual void all_reduce(std::span<int64_t> values, ReduceOp op) = 0;
  virtual void all_reduce(std::span<double> values, ReduceOp op) = 0;  // same bits on every rank
  // send_bytes[r] bytes to each rank r, one segment after the other in `send`, and receive_bytes[r] bytes from it; what
  // one sends and the other receives must agree. Takes no further memory. Uses kAllToAllTag.
  static constexpr uint64_t kAllToAllTag = 0x616c6c32616c6cULL;
  void all_to_all(const void* send, std::span<const int64_t> send_bytes, void* receive,
                  std::span<const int64_t> receive_bytes);
  std::string broadcast_string(const std::string& mine, int root);

  // The same as messages along a binomial tree: a rank sends to one and receives from at most log2(size()) others.
  // Every rank's text is merged on the way to rank 0: merge(mine, next) adds the text of the ranks that follow. The
  // result is rank 0's; others get an empty text.
  std::string reduce_string(std::string mine, const std::function<void(std::string&, const std::string&)>& merge);
  // By rank, at rank 0; elsewhere nothing.
  std::vector<std::string> gather_strings(const std::string& mine);
  // The same on every rank: for few or short texts, of which every rank keeps all.
  std::vector<std::string> all_gather_strings(const std::string& mine);

  // What is sent to a rank, or came from it.
  struct Parcel {
    int rank = 0;
    std::vector<std::byte> bytes;
  };
  // Brings parcels, at most one for each rank, and returns those for this rank, by sender. For ranks that have few
  // partners: how many bytes come from whom is found out by log2(size()) small messages. The bytes go directly.
  std::vector<Parcel> exchange(const std::vector<Parcel>& out);

  // Point to point, asynchronous. Messages between two ranks with the same tag match in order. Sizes must agree.
  virtual std::unique_ptr<Request> send(const void* data, int64_t bytes, int to, uint64_t tag) = 0;
  virtual std::unique_ptr<Request> receive(void* data, int64_t bytes, int from, uint64_t tag) = 0;

  // Whether send_device() and receive_device() take memory of that kind of device; the same on every rank.
  virtual bool moves_memory_of(local::DeviceKind kind) const {
    static_cast<void>(kind);
    return false;
  }
  // As send() and receive(), of memory of a device of this process, to and from other ranks; what was queued on the
  // memory must be done. At the other end may be host memory, if the message is larger than 4 KiB. Throw NotSupported
  // where moves_memory_of() is false.
  virtual std::unique_ptr<Request> send_device(local::DeviceKind kind, const void* data, int64_t bytes, int to,
                                               uint64_t tag);
  virtual std::unique_ptr<Request> receive_device(local::DeviceKind kind, void* data, int64_t bytes, int from,
                                                  uint64_t tag);

  // Active messages for control: small (<= 4 KiB), buffered, delivered to the handler in order per sender, from within
  // any thread's progress(), one at a time. They wait while there is no handler. A handler may send, receive and post,
  // but not wait; once set_handler(nullptr) has returned, the old one does not run any more. Throws CommError if the
  // rank is gone.
  using Handler = std::function<void(int from, std::span<const std::byte> message)>;
  virtual void set_handler(Handler handler) = 0;
  virtual void post(int to, std::span<const std::byte> message) = 0;
  // Drives all transfers and delivers messages; true if something happened.
  virtual bool progress() = 0;
  // Sleeps until something may have arrived or the time is over (no busy waiting).
  virtual void wait_for_event(double seconds) = 0;
  // What collective calls do in place of progress() while they wait, in their thread; it calls progress() itself and
  // does not throw. Null: progress().
  virtual void set_waiting_work(const std::function<bool()>& work) { static_cast<void>(work); }
  // Throws CommError once a rank of this communicator is lost or has left after fewer than `calls` collective calls,
  // and the error of one that failed alone. Cheap.
  virtual void check_ranks(int64_t calls) = 0;
  // Collective calls of MPI's kind that this rank has done here. Any thread.
  virtual int64_t calls() const { return 0; }
  // An error has ended this rank's part alone, between collective calls that the others make with it: theirs throw it,
  // and later ones fail on every rank.
  virtual void fail(const local::ErrorRecord& error) { static_cast<void>(error); }
  // The public call that this rank is in, for messages; agree() sets it. The thread of collective calls.
  void enter(std::string_view call) { entered_ = call; }
  const std::string& entered() const { return entered_; }
  // How often agree() has thrown: the same on every rank. It counts itself.
  int64_t failed_calls() const { return failed_calls_; }
  void note_failed_call() { ++failed_calls_; }
  // Those of this communicator that have died, stopped or cannot be reached any more, as far as this one knows.
  virtual std::vector<int> lost_ranks() { return {}; }
  // Tells the other ranks that this one communicates no more here, and waits until they have all said so or are gone:
  // then nobody uses what this rank shares. Others' calls throw CommError some seconds after it has been said.
  // `unwinding`: an exception ends this rank, perhaps this one alone. Then it waits for a few seconds only, and then
  // leaves the job, which ends: others' calls throw CommError at once. Whether all came.
  virtual bool leave(bool unwinding) {
    static_cast<void>(unwinding);
    return true;
  }
  // Ends another thread's wait_for_event() early, now or the next one.
  virtual void wake() = 0;
  // Data sent to other ranks by this process so far (point to point and broadcasts rooted here), over all
  // communicators.
  virtual int64_t bytes_sent() const = 0;

  // Ends the whole job with `status`; for the tool, when a rank cannot be reached any more. Does not return.
  [[noreturn]] virtual void abort(int status) = 0;

 private:
  std::string entered_;
  int64_t failed_calls_ = 0;
};

// What a rank is about to do with the others.
struct Call {
  static constexpr size_t kNameBytes = 32;  // that are compared
  std::string_view name;                    // of the public call: "to_host"
  uint64_t hash = 0;                        // of all that must be the same on every rank
  // Says what the hash is of, for the error where it differs.
  std::function<std::string()> describe{};
};

// The first step of every public collective call: every rank says how it is and what it is about to do, in one exchange
// of the same size whatever the call. Throws on every rank: CommError where the calls differ ("ranks diverged"), with
// the ranks and their calls; else the error of the lowest failing rank. Each of the `largest`, at most kMostLargest,
// becomes the largest of all ranks. `notes`: null, or note_bytes() bytes of this rank's, which become those of all
// ranks by rank; what another rank noted in a call without them is zeros. Collective, blocking.
inline constexpr size_t kMostLargest = 3;
void agree(Communicator& communicator, const std::exception_ptr& mine, const Call& call,
           std::span<int64_t> largest = {}, std::vector<std::byte>* notes = nullptr);
// Bytes that every rank can tell the others in agree(). 0 where they are many: what all tell all has to be short then.
size_t note_bytes(const Communicator& communicator);

// What rank 0 does for all, as looking at what is on the disk; its error is everyone's. Collective, blocking.
template <class Part>
void on_rank_0(Communicator& communicator, const Call& call, Part part) {
  std::exception_ptr error;
  try {
    if (communicator.rank() == 0) part();
  } catch (...) {
    error = std::current_exception();
  }
  agree(communicator, error, call);
}

// Runs a part between collective calls that may fail on this rank alone: the others, which wait for it, get its error.
template <class Part>
decltype(auto) alone(Communicator& communicator, Part part) {
  try {
    return part();
  } catch (...) {
    communicator.fail(local::to_record(std::current_exception()));
    throw;
  }
}

}  // namespace quarry::comm
