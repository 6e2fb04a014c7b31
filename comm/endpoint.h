// The point-to-point part of every communicator of a process: matches sends with receives by (channel, sender, tag) and
// delivers active messages, over one transport. Every transfer begins with a control frame that carries tag and size.
// A small one is eager: its data is in that frame. A larger one is a rendezvous: when a receive matches the frame, the
// data moves under a number of its own. So tags have all 64 bits on every network, sizes are checked, and a receive
// that matched nothing can be withdrawn.
//
// Locks: mutex_ guards the tables and is never held while the transport or a handler is called; delivering_ is held by
// the one thread that calls handlers, so that they see messages in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/comm/transport.h"

namespace quarry::comm {

// Waits a little between polls: yields for as long as a sleep would take at least, then sleeps, longer each time, up to
// a millisecond.
class Backoff {
 public:
  void pause();
  void reset() { rounds_ = 0; }

 private:
  int rounds_ = 0;
  std::chrono::steady_clock::time_point yields_until_;
  int sleeps_ = 0;
};

class Endpoint : public TransportSink {
 public:
  // One per process; `transport` is null in a job of one rank. `rank`, `size`: of the job.
  Endpoint(int rank, int size, std::unique_ptr<Transport> transport);
  ~Endpoint() override;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const char* transport() const { return transport_ ? transport_->name() : "self"; }
  std::string link_to(uint32_t channel, int rank);
  int rank() const { return rank_; }
  int size() const { return size_; }

  // A channel is the endpoint's side of a communicator. `members` maps its ranks to the job's; ids are the same on all
  // members and grow.
  void open_channel(uint32_t id, std::vector<int> members, int rank);
  // How this rank ends its part in a channel.
  struct Leaving {
    int64_t calls = 0;       // collective calls that it has done
    bool unwinding = false;  // an exception ends it
  };
  // Tells the members, once.
  void close_channel(uint32_t id, const Leaving& leaving);
  uint32_t last_channel() const;

  // Device memory: where moves() says so, between different processes. A message of at most kMaxMessageBytes has device
  // memory at both ends or at none.
  std::unique_ptr<Request> send(uint32_t channel, const void* data, int64_t bytes, int to, uint64_t tag,
                                MemoryKind memory = MemoryKind::host);
  std::unique_ptr<Request> receive(uint32_t channel, void* data, int64_t bytes, int from, uint64_t tag,
                                   MemoryKind memory = MemoryKind::host);
  bool moves(MemoryKind memory) const { return transport_ != nullptr && transport_->moves(memory); }
  void set_handler(uint32_t channel, Communicator::Handler handler);
  void post(uint32_t channel, int to, std::span<const std::byte> message);

  bool progress();
  void wait_for_event(double seconds);
  void wake();

  // From any thread: that rank of the job has died or stopped.
  void peer_died(int rank, const std::string& reason);
  // Ranks of a channel that are lost.
  std::vector<int> lost_members(uint32_t channel) const;
  bool is_any_lost() const;

  // Throws CommError once a member is lost or has left after fewer than `calls` collective calls, and the error of one
  // that failed alone. Of a member that an exception ends it does so a little later than that one's own message comes.
  // Without `calls`, for a transfer, a member that has left does not matter for some seconds.
  void check_members(uint32_t channel, std::optional<int64_t> calls = std::nullopt);
  // The CommError of a transfer that failed. A rank that dies ends others, which then leave: throws what is known of
  // one that died, or becomes known soon after any rank left, and else `error`. Not with locks that others need.
  [[noreturn]] void throw_cause(const std::string& error) const;
  // Of the whole job: throws CommError once a rank is lost, or has left some seconds ago.
  void check_present();
  // Communicator::fail().
  void fail_channel(uint32_t channel, const std::string& call, const local::ErrorRecord& error) noexcept;
  // Communicator::leave(). Calls `meanwhile` again and again while it waits. Never throws.
  bool leave_channel(uint32_t channel, const Leaving& leaving, const std::function<void()>& meanwhile) noexcept;
  // The same for the whole job, then closes the transport. True if every rank left in order, none of them broken.
  bool leave(bool unwinding, const std::function<void()>& meanwhile) noexcept;
  // A collective call was given up half-way: the job can only end.
  void mark_broken() { broken_ = true; }
  bool is_broken() const { return broken_; }

  int64_t bytes_sent() const { return bytes_sent_; }        // data, to other ranks
  void count_sent(int64_t bytes) { bytes_sent_ += bytes; }  // by collectives
  // How often others are told how many frames they must have seen. Before anything is sent.
  void set_count_period(std::chrono::milliseconds period) { count_period_ = period; }

  // TransportSink
  void receive_frame(int from, std::span<const std::byte> frame) override;
  void report_lost(int rank, const std::string& reason) override;

 private:
  friend class EndpointRequest;
  struct Receive {  // posted, matched by no announcement yet
    void* data;
    int64_t bytes;
    int from;
    uint64_t tag;
    MemoryKind memory;
    TransferPtr transfer;
  };
  struct Unexpected {  // announced, matched by no receive yet
    int64_t bytes;
    uint64_t id;
    bool eager;  // `data` is all of it
    std::vector<std::byte> data;
    const void* own = nullptr;  // sent by this rank to itself: the sender's memory, and its transfer
    TransferPtr sender;
  };
  struct Message {
    int from;
    std::vector<std::byte> bytes;
  };
  struct Left {
    std::chrono::steady_clock::time_point at;
    Leaving how;
    bool is_told = false;  // to all members, by this rank
  };
  struct Channel {
    std::vector<int> members;
    int rank = 0;
    std::shared_ptr<Communicator::Handler> handler;
    std::deque<Message> inbox;
    std::map<std::pair<int, uint64_t>, std::deque<Receive>> receives;
    std::map<std::pair<int, uint64_t>, std::deque<Unexpected>> unexpected;
    std::map<int, Left> left;                   // members known to communicate no more here
    std::set<int> rounds;                       // of meet()
    std::optional<local::ErrorRecord> failure;  // of a member, alone
    bool has_told = false;                      // that this rank communicates no more here
  };
  struct Start {  // a matched receive whose data the transport is to fetch
    int from;
    uint64_t id;
    void* data;
    int64_t bytes;
    MemoryKind memory;
    TransferPtr transfer;
  };
  struct Peer {
    uint64_t next_id = 0;                 // of data sent to it
    std::atomic<uint64_t> frames_out{0};  // handed to the transport
    uint64_t frames_in = 0, frames_counted = 0;
    bool left = false, lost = false, gave_up = false, broken = false;
    bool is_told = false;  // to all ranks, by this one: that it left too early
    std::string reason;
    std::chrono::steady_clock::time_point left_at, lost_at;
  };
  enum class FrameKind : uint32_t;
  struct FrameHeader;

  Channel& channel(uint32_t id);
  // With mutex_: a rank of the job of which this one knows something; null where it does not.
  const Peer* known(int job_rank) const;
  // With mutex_: why nothing can be sent to a member any more, nor come from it.
  std::optional<std::string> why_gone(const Channel& ch, int member) const;
  // Why that rank is lost, if it is.
  std::optional<std::string> loss_of(int job_rank) const;
  std::vector<int> known_ranks() const;
  void check_memory(MemoryKind memory, int job_rank) const;
  void dispatch(int from, const FrameHeader& header, std::span<const std::byte> payload);
  void announce(Channel& channel, int from, const FrameHeader& header, std::span<const std::byte> payload);
  // Joins a message and a receive; the transport's part goes to starts_.
  void match(Channel& channel, Unexpected& announced, const Receive& receive);
  void fail_receives(int job_rank, const std::string& reason);
  static void fail_receives(Channel& channel, int from, const std::string& reason);
  void lose(int job_rank, const std::string& reason);  // with mutex_
  // To those of these ranks that are not lost. With `channel`, of its members.
  void tell(const std::vector<int>& job_ranks, FrameKind kind, uint32_t channel, int from, const Leaving& leaving,
            std::span<const std::byte> text = {});
  void tell(const std::vector<int>& job_ranks, const FrameHeader& header, std::span<const std::byte> text);
  void tell_early(const std::vector<int>& job_ranks, const FrameHeader& header) noexcept;
  void tell_leaving(uint32_t channel, const Leaving& leaving);
  // With mutex_: throws as check_present() for a rank that `concerns`; one that has left is told to all first.
  void check_known(const std::function<bool(int)>& concerns, std::unique_lock<std::mutex>& lock);
  void log_lost() const;
  // Tells the ranks that are a power of two away, waits until they have left as well, and then until all of them have
  // come here: 3 log2(ranks) messages. Not longer than a rank is lost, or than a patience that only unwinding has;
  // then this rank gives the job up. Whether all came.
  bool meet(uint32_t channel, const std::vector<int>& members, int rank, const std::function<bool(int)>& has_left,
            bool unwinding, const std::function<void()>& meanwhile);
  std::set<int>& rounds_of(uint32_t channel) { return channel == 0 ? rounds_ : this->channel(channel).rounds; }
  void put(int job_rank, std::span<const std::byte> frame);
  // Now and then sends every rank the number of frames that it must have seen by now: a lost one is an error, not a
  // hang.
  void send_counts();
  void send_count(int job_rank, bool last);
  bool start_matched();
  bool deliver();
  // Takes back a transfer that nothing matched yet; false if it is under way or over.
  bool withdraw(uint32_t channel, const TransferPtr& transfer);
  bool deliverable() const;

  const int rank_, size_;
  std::unique_ptr<Transport> transport_;
  mutable std::mutex mutex_;
  std::chrono::steady_clock::time_point last_leave_;  // when any rank left the job or a channel
  std::map<uint32_t, Channel> channels_;
  uint32_t last_channel_ = 0;
  // Frames of channels that this rank has not opened yet.
  std::map<uint32_t, std::vector<std::pair<int, std::vector<std::byte>>>> early_;
  std::vector<Start> starts_;
  std::unordered_map<int, Peer> peers_;  // by rank of the job: those that this one has communicated with
  std::set<int> rounds_;                 // of meet(), for the job
  bool leaving_ = false;
  std::atomic<bool> broken_{false};
  std::atomic<bool> broken_elsewhere_{false};  // a rank said so as it left
  std::atomic<bool> trouble_{false};           // some rank has left or is lost
  std::atomic<int64_t> waiting_messages_{0};
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> last_counts_ns_{0};
  std::chrono::milliseconds count_period_{500};
  std::vector<int> given_up_;      // ranks that gave the job up, which the transport has not been told
  const double patience_seconds_;  // with ranks that do not come to the end although this one fails
  const int64_t frame_to_lose_;    // for tests, by QUARRY_FAULT_LOSE_MESSAGE; 0: none
  std::atomic<int64_t> frames_put_{0};

  std::mutex delivering_;
  std::atomic<std::thread::id> deliverer_{};

  // For jobs of one rank: there is no transport to sleep on.
  std::condition_variable wake_;
  bool woken_ = false;
};

}  // namespace quarry::comm
