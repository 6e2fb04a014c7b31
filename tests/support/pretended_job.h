// A job of very many ranks in one thread: ranks are coroutines with stacks of their own, the network is a table of what
// is under way. What the ranks run is the product's: endpoints, and all that communicators make of sends and receives.
// Collectives go along binomial trees, as MPI's do. Messages and bytes of every rank are counted, and the rounds of the
// job: all that is sent in one arrives in the next.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/comm/communicator.h"
#include "quarry/comm/endpoint.h"
#include "quarry/comm/transport.h"
#include "quarry/local/base/error.h"

namespace quarry::testing {

// Of one rank.
struct Traffic {
  int64_t sent = 0, received = 0;  // messages
  int64_t bytes = 0;               // of those, sent and received

  Traffic operator-(const Traffic& before) const {
    return {sent - before.sent, received - before.received, bytes - before.bytes};
  }
};

class PretendedJob {
 public:
  // Stacks are no part of what malloc() counts.
  explicit PretendedJob(int ranks)
      : ranks_(static_cast<size_t>(ranks)),
        stacks_(mmap(nullptr, ranks_.size() * kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    QUARRY_CHECK(stacks_ != MAP_FAILED);
  }
  ~PretendedJob() { munmap(stacks_, ranks_.size() * kStackBytes); }
  PretendedJob(const PretendedJob&) = delete;
  PretendedJob& operator=(const PretendedJob&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  const Traffic& traffic(int rank) const { return of(rank).traffic; }
  int64_t rounds() const { return rounds_; }

  // Runs `part` on every rank until all have ended. Throws what the lowest rank threw, and InternalError where ranks
  // wait for messages that nobody sends.
  void run(const std::function<void(int rank)>& part) {
    for (int rank = 0; rank < size(); ++rank) {
      Rank& one = of(rank);
      one.error = nullptr;
      one.ended = false;
      one.part = [this, rank, &part] {
        try {
          part(rank);
        } catch (...) {
          of(rank).error = std::current_exception();
        }
        of(rank).ended = true;
      };
      prepare(rank);
      wake(rank);
    }
    while (!ready_.empty() || deliver()) {
      running_ = ready_.front();
      ready_.pop_front();
      of(running_).is_ready = false;
      if (!of(running_).ended) go_on(of(running_));
    }
    running_ = -1;
    std::string waiting;
    for (int rank = 0; rank < size(); ++rank)
      if (!of(rank).ended && waiting.size() < 100) waiting += fmt::format(" {}", rank);
    for (const Rank& one : ranks_)
      if (one.error) std::rethrow_exception(one.error);
    if (!waiting.empty()) throw local::InternalError("these ranks wait for nothing that is under way:" + waiting);
  }

  std::unique_ptr<comm::Transport> transport(int rank) { return std::make_unique<Wire>(*this, rank); }

 private:
  struct Data {  // of one transfer, as far as one side knows it
    const void* from = nullptr;
    void* to = nullptr;
    int64_t bytes = 0;
    comm::TransferPtr sending, receiving;
  };
  struct Frame {
    int from, to;
    std::vector<std::byte> bytes;
  };
  struct Move {  // of data whose both sides are known
    int from, to;
    Data data;
  };
  struct Rank {
    ucontext_t beginning;
    jmp_buf place;  // where it gave way
    std::function<void()> part;
    std::exception_ptr error;
    bool has_begun = false, ended = false, is_ready = false;
    std::deque<Frame> frames;
    std::map<std::pair<int, uint64_t>, Data> data;  // to this rank
    Traffic traffic;
  };

  class Wire : public comm::Transport {
   public:
    Wire(PretendedJob& job, int rank) : job_(job), rank_(rank) {}
    const char* name() const override { return "pretended"; }
    void post(int to, std::span<const std::byte> frame) override {
      Traffic& mine = job_.of(rank_).traffic;
      ++mine.sent;
      mine.bytes += std::ssize(frame);
      job_.frames_.push_back({rank_, to, {frame.begin(), frame.end()}});
    }
    void send(int to, uint64_t id, const void* data, int64_t bytes, comm::MemoryKind /*memory*/,
              const comm::TransferPtr& transfer) override {
      Data& one = job_.of(to).data[{rank_, id}];
      one.from = data;
      one.bytes = bytes;
      one.sending = transfer;
      move(rank_, to, id);
    }
    void receive(int from, uint64_t id, void* data, int64_t bytes, comm::MemoryKind /*memory*/,
                 const comm::TransferPtr& transfer) override {
      Data& one = job_.of(rank_).data[{from, id}];
      one.to = data;
      one.bytes = bytes;
      one.receiving = transfer;
      move(from, rank_, id);
    }
    void abandon(int /*rank*/, const std::string& /*reason*/) override {}
    bool progress(comm::TransportSink& sink) override {
      Rank& mine = job_.of(rank_);
      if (mine.frames.empty()) {
        job_.give_way();
        return false;
      }
      while (!mine.frames.empty()) {
        const Frame frame = std::move(mine.frames.front());
        mine.frames.pop_front();
        count_received(mine.traffic, std::ssize(frame.bytes));
        sink.receive_frame(frame.from, frame.bytes);
      }
      return true;
    }
    void wait_for_event(double /*seconds*/) override {
      if (job_.of(rank_).frames.empty()) job_.give_way();
    }
    void wake() override { job_.wake(rank_); }
    void close(comm::TransportSink& sink, double /*seconds*/) override {
      while (!job_.of(rank_).frames.empty()) progress(sink);
    }

   private:
    // Once both sides are there.
    void move(int from, int to, uint64_t id) {
      const auto found = job_.of(to).data.find({from, id});
      if (!found->second.sending || !found->second.receiving) return;
      job_.moves_.push_back({from, to, found->second});
      job_.of(to).data.erase(found);
    }

    PretendedJob& job_;
    const int rank_;
  };

  static void count_received(Traffic& traffic, int64_t bytes) {
    ++traffic.received;
    traffic.bytes += bytes;
  }
  // All that has been sent since the last time. Whether there was any.
  bool deliver() {
    if (frames_.empty() && moves_.empty()) return false;
    ++rounds_;
    for (Frame& frame : std::exchange(frames_, {})) {
      const int to = frame.to;
      of(to).frames.push_back(std::move(frame));
      wake(to);
    }
    for (const auto& [from, to, data] : std::exchange(moves_, {})) {
      if (data.bytes > 0) std::memcpy(data.to, data.from, static_cast<size_t>(data.bytes));
      ++of(from).traffic.sent;
      of(from).traffic.bytes += data.bytes;
      count_received(of(to).traffic, data.bytes);
      data.sending->finish();
      data.receiving->finish();
      wake(from);
      wake(to);
    }
    return true;
  }
  void prepare(int rank) {
    Rank& one = of(rank);
    one.has_begun = false;
    getcontext(&one.beginning);
    one.beginning.uc_stack.ss_sp = static_cast<char*>(stacks_) + static_cast<size_t>(rank) * kStackBytes;
    one.beginning.uc_stack.ss_size = kStackBytes;
    one.beginning.uc_link = nullptr;
    const auto address = reinterpret_cast<uintptr_t>(this);
    makecontext(&one.beginning, reinterpret_cast<void (*)()>(&start), 2, static_cast<unsigned>(address >> 32),
                static_cast<unsigned>(address));
  }
  static void start(unsigned high, unsigned low) {
    auto& job = *reinterpret_cast<PretendedJob*>(static_cast<uintptr_t>(high) << 32 | low);
    job.of(job.running_).part();
    _longjmp(job.main_, 1);
  }
  // Contexts are changed by jumps but for the first time: setcontext() costs a system call.
  void go_on(Rank& one) {
    if (_setjmp(main_) != 0) return;
    if (one.has_begun) _longjmp(one.place, 1);
    one.has_begun = true;
    setcontext(&one.beginning);
  }
  Rank& of(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Rank& of(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  void wake(int rank) {
    if (std::exchange(of(rank).is_ready, true)) return;
    ready_.push_back(rank);
  }
  // The running rank waits until something arrives.
  void give_way() {
    if (running_ >= 0 && _setjmp(of(running_).place) == 0) _longjmp(main_, 1);
  }

  static constexpr size_t kStackBytes = 128 << 10;

  std::vector<Rank> ranks_;
  void* const stacks_;
  jmp_buf main_;
  std::deque<int> ready_;
  std::vector<Frame> frames_;  // sent in this round
  std::vector<Move> moves_;
  int64_t rounds_ = 0;
  int running_ = -1;
};

// A rank's communicator of all ranks.
class PretendedCommunicator : public comm::Communicator {
 public:
  PretendedCommunicator(PretendedJob& job, int rank)
      : rank_(rank), size_(job.size()), endpoint_(rank, job.size(), job.transport(rank)) {
    std::vector<int> members(static_cast<size_t>(size_));
    std::iota(members.begin(), members.end(), 0);
    endpoint_.set_count_period(std::chrono::hours(24));  // else messages would depend on how fast this machine is
    endpoint_.open_channel(kChannel, std::move(members), rank);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node_rank() const override { return rank_; }
  int node_size() const override { return size_; }
  int node_of(int /*rank*/) const override { return 0; }
  const char* transport() const override { return "pretended"; }
  std::unique_ptr<comm::Communicator> split(int /*color*/, int /*key*/) override {
    throw local::NotSupported("pretended communicators are not split");
  }
  void barrier() override {
    int64_t nothing[] = {0};
    all_reduce(nothing, comm::ReduceOp::max);
  }
  void broadcast(void* data, int64_t bytes, int root) override {
    const int mine = (rank_ - root + size_) % size_;
    int step = 1;
    for (; step < size_ && (mine & step) == 0; step *= 2) continue;
    if (mine != 0) receive(data, bytes, (mine - step + root) % size_, kTag)->wait();
    for (step /= 2; step > 0; step /= 2)
      if (mine + step < size_) send(data, bytes, (mine + step + root) % size_, kTag)->wait();
  }
  void all_gather(const void* mine, int64_t bytes_each, void* all) override {
    auto* const to = static_cast<std::byte*>(all);
    std::memcpy(to + rank_ * bytes_each, mine, static_cast<size_t>(bytes_each));
    for (int step = 1; step < size_; step *= 2) {
      const auto part = [&](int first) { return std::min(step, size_ - first) * bytes_each; };
      if ((rank_ & step) != 0) {
        send(to + rank_ * bytes_each, part(rank_), rank_ - step, kTag)->wait();
        break;
      }
      const int behind = rank_ + step;
      if (behind < size_) receive(to + behind * bytes_each, part(behind), behind, kTag)->wait();
    }
    broadcast(all, size_ * bytes_each, 0);
  }
  void all_reduce(std::span<int64_t> values, comm::ReduceOp op) override { reduce(values, op); }
  void all_reduce(std::span<double> values, comm::ReduceOp op) override { reduce(values, op); }
  std::unique_ptr<comm::Request> send(const void* data, int64_t bytes, int to, uint64_t tag) override {
    return endpoint_.send(kChannel, data, bytes, to, tag);
  }
  std::unique_ptr<comm::Request> receive(void* data, int64_t bytes, int from, uint64_t tag) override {
    return endpoint_.receive(kChannel, data, bytes, from, tag);
  }
  void set_handler(Handler handler) override { endpoint_.set_handler(kChannel, std::move(handler)); }
  void post(int to, std::span<const std::byte> message) override { endpoint_.post(kChannel, to, message); }
  bool progress() override { return endpoint_.progress(); }
  void wait_for_event(double seconds) override { endpoint_.wait_for_event(seconds); }
  void check_ranks(int64_t calls) override { endpoint_.check_members(kChannel, calls); }
  void wake() override { endpoint_.wake(); }
  int64_t bytes_sent() const override { return endpoint_.bytes_sent(); }
  [[noreturn]] void abort(int status) override { std::_Exit(status); }

  // Ends this rank's part in the job. Whether every rank did so in order.
  bool leave_job() {
    return endpoint_.leave(/*unwinding=*/false, [] {});
  }

 private:
  static constexpr uint32_t kChannel = 1;
  static constexpr uint64_t kTag = 0x636f6c6c;

  template <class T>
  void reduce(std::span<T> values, comm::ReduceOp op) {
    const auto bytes = static_cast<int64_t>(values.size_bytes());
    std::vector<T> other(values.size());
    for (int step = 1; step < size_; step *= 2) {
      if ((rank_ & step) != 0) {
        send(values.data(), bytes, rank_ - step, kTag)->wait();
        break;
      }
      if (rank_ + step >= size_) continue;
      receive(other.data(), bytes, rank_ + step, kTag)->wait();
      for (size_t i = 0; i < values.size(); ++i) {
        switch (op) {
          case comm::ReduceOp::sum:
            values[i] += other[i];
            break;
          case comm::ReduceOp::min:
            values[i] = std::min(values[i], other[i]);
            break;
          case comm::ReduceOp::max:
            values[i] = std::max(values[i], other[i]);
            break;
        }
      }
    }
    broadcast(values.data(), bytes, 0);
  }

  const int rank_, size_;
  comm::Endpoint endpoint_;
};

}  // namespace quarry::testing
