// One queue of ready work, and what is known of the worker threads that serve it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <utility>
#include <vector>

#include "quarry/scheduler/queues/ready_queue.h"
#include "quarry/scheduler/task.h"

namespace quarry::scheduler {

// What a thread takes at a time is expected to last no longer, and after it, it gives back what it has not begun.
inline constexpr int64_t kRoundNs = 4000;

enum class Job : uint8_t { task, spill, restore };

struct WorkItem {
  int64_t order;          // of the task, or of the one that needs the block; -1: at once
  int32_t what;           // live task or record
  Job job;                // spill and restore move a block between tiers
  int64_t ns = kRoundNs;  // that it is expected to take
};

// How long the threads of a queue were at work. Not thread-safe: the executor's lock guards it.
class BusyTime {
 public:
  void add(int64_t ns) { ns_ += ns; }
  // Tasks that have returned and are not finished: the queue is busy while there are any.
  void begin_deferred(int64_t now_ns) {
    if (deferred_++ == 0) deferred_since_ns_ = now_ns;
  }
  void end_deferred(int64_t now_ns) {
    if (--deferred_ == 0) ns_ += now_ns - deferred_since_ns_;
  }
  // A task of a stream was seen to be done. The stream was at it since the one before it was done, or since it was
  // queued. Returns when that was.
  int64_t end_on_stream(int64_t queued_ns, int64_t end_ns) {
    const int64_t begin_ns = std::max(queued_ns, last_end_ns_);
    last_end_ns_ = end_ns;
    ns_ += end_ns - begin_ns;
    return begin_ns;
  }
  double seconds() const { return static_cast<double>(ns_) * 1e-9; }

 private:
  int64_t ns_ = 0;
  int64_t deferred_ = 0;
  int64_t deferred_since_ns_ = 0;
  int64_t last_end_ns_ = 0;
};

// Not thread-safe, but for is_known_worth_joining(): the executor's lock guards it.
class WorkQueue {
 public:
  bool empty() const { return ready_.empty(); }
  size_t size() const { return ready_.size(); }
  const WorkItem& front() const { return ready_.front(); }
  void push(const WorkItem& item) {
    ready_ns_ += worth_ns(item);
    ready_.push(item);
  }
  WorkItem pop() {
    const WorkItem item = ready_.pop();
    ready_ns_ -= worth_ns(item);
    overdue_ = false;
    return item;
  }
  // Calls `call` with every item and drops them all.
  void clear(const auto& call) {
    ready_.for_each(call);
    ready_.clear();
    ready_ns_ = 0;
  }
  // Called now and then: what is ready has not been taken at once.
  void note_overdue() { overdue_ = !ready_.empty(); }

  // Whether one more thread makes the queue faster. A few short tasks are left to a thread that will be back for them
  // in no time: handing over the lock and what lies in the caches would take longer.
  bool is_worth_joining() const {
    if (ready_.empty()) return false;
    return in_short_rounds == 0 || ready_ns_ >= kWorthNs || overdue_;
  }
  // The same when the lock was last released. Threads that look for work read nothing else; needs no lock.
  bool is_known_worth_joining() const { return worth_.load(std::memory_order_relaxed); }
  // When the lock is released: how many sleeping threads to wake. They count as woken.
  int wake_for_ready() {
    const bool worth = is_worth_joining();
    if (worth_.load(std::memory_order_relaxed) != worth) worth_.store(worth, std::memory_order_relaxed);
    const int64_t useful =
        worth ? std::clamp<int64_t>(ready_ns_ / kRoundNs, 1, std::min<int64_t>(std::ssize(ready_), threads)) : 0;
    const int count = static_cast<int>(std::clamp<int64_t>(useful - tokens - looking, 0, idle));
    idle -= count;
    tokens += count;
    return count;
  }

  int in_short_rounds = 0;  // threads that will be back for more in no time
  int threads = 0;
  int idle = 0;              // sleeping threads that nobody has woken
  int tokens = 0;            // woken threads that have not noticed
  int looking = 0;           // threads that look at the queue for a while before they sleep
  bool short_tasks = false;  // the last one was short: sleeping and waking would cost more
  std::condition_variable wake;
  BusyTime busy;

 private:
  // One more thread joins where it saves as much.
  static constexpr int64_t kWorthNs = 1000;
  // What another thread would save by it: a task that moves between threads brings its records and blocks along.
  static int64_t worth_ns(const WorkItem& item) {
    constexpr int64_t kHandOverNs = 300;
    return std::max<int64_t>(item.ns - kHandOverNs, 0);
  }

  ReadyQueue<WorkItem> ready_;
  int64_t ready_ns_ = 0;  // that another thread would save by what is ready
  bool overdue_ = false;  // something has been ready for long
  alignas(64) std::atomic<bool> worth_{false};
};

// All queues, by kind.
class WorkQueues {
 public:
  WorkQueue& operator[](QueueKind kind) { return queues_[static_cast<size_t>(kind)]; }
  const WorkQueue& operator[](QueueKind kind) const { return queues_[static_cast<size_t>(kind)]; }
  auto begin() { return queues_.begin(); }
  auto end() { return queues_.end(); }
  void copy_busy_seconds(double (&seconds)[kQueueCount]) const {
    for (size_t i = 0; i < queues_.size(); ++i) seconds[i] = queues_[i].busy.seconds();
  }

 private:
  std::array<WorkQueue, kQueueCount> queues_;
};

// What tasks of each body have taken lately, in this run or an earlier one of the same graph.
class TaskTimes {
 public:
  // `known`: from an earlier run of the same graph, or empty.
  void begin_run(int64_t bodies, const std::vector<int64_t>& known) {
    ns_ = known;
    ns_.resize(static_cast<size_t>(bodies), kUnknown);
  }
  std::vector<int64_t> end_run() { return std::exchange(ns_, {}); }
  // Of a body that has not run: as long as a round.
  int64_t expected_ns(int32_t body) const {
    const int64_t ns = ns_[static_cast<size_t>(body)];
    return ns < 0 ? kRoundNs : ns;
  }
  void add(int32_t body, int64_t ns) {
    int64_t& usual_ns = ns_[static_cast<size_t>(body)];
    usual_ns = usual_ns < 0 ? ns : usual_ns + (std::min(ns, 8 * kRoundNs) - usual_ns) / 4;
  }

 private:
  static constexpr int64_t kUnknown = -1;
  std::vector<int64_t> ns_;
};

}  // namespace quarry::scheduler
