// The executor's inside. One lock guards all state that more than one thread changes; worker threads run tasks and move
// blocks between tiers without it. What belongs together is a class of its own (blocks, live tasks, admission, queues,
// callbacks, staging); this one drives them: core.cpp (life, run, failure), workers.cpp (threads and rounds of tasks),
// completion.cpp (what happens when a task ends), moves.cpp (spill and restore), readers.cpp (reads for other ranks)
// and counters.cpp (progress, waits, trace).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "quarry/scheduler/admission/admission.h"
#include "quarry/scheduler/core/callbacks.h"
#include "quarry/scheduler/core/staging.h"
#include "quarry/scheduler/core/task_fault.h"
#include "quarry/scheduler/core/worker.h"

namespace quarry::scheduler {

// For loops that wait for another thread.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Lets blocks that outlive the executor find out.
struct CoreLink {
  std::mutex mutex;
  Core* core = nullptr;
};

class CoreStoredBlock final : public StoredBlock {
 public:
  CoreStoredBlock(std::shared_ptr<CoreLink> link, int32_t record, int64_t bytes)
      : link_(std::move(link)), record_(record), bytes_(bytes) {}
  ~CoreStoredBlock() override;
  int64_t bytes() const override { return bytes_; }
  const CoreLink* link() const { return link_.get(); }
  int32_t record() const { return record_; }

 private:
  std::shared_ptr<CoreLink> link_;
  int32_t record_;
  int64_t bytes_;
};

// Its public functions are those of Executor.
class Core {
 public:
  explicit Core(const ExecutorConfig& config);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // core.cpp
  void run(Graph& graph, const std::function<void()>& watch, const ShortRun* as_short);
  void cancel(const local::ErrorRecord& error);
  void clear_cancel();
  void set_failure_handler(std::function<void(const local::ErrorRecord&)> handler);
  void set_idle_work(std::function<void()> work);
  void expect_run();
  std::shared_ptr<StoredBlock> stored_block(BlockId block);
  void forget_blocks();
  local::Reservation reserve_outside(int64_t bytes);
  local::Reservation try_reserve_outside(int64_t bytes);
  void set_reclaim(std::function<int64_t(int64_t bytes)> reclaim);
  const ExecutorConfig& config() const { return config_; }
  Tiers& tiers() { return tiers_; }
  local::MemoryResource& staging() { return staging_; }
  // readers.cpp
  void when_ready(BlockId block, std::function<void()> callback);
  void read_block(BlockId block, int64_t offset, int64_t bytes, void* to);
  bool visit_block(BlockId block, int64_t bytes, const std::function<void(const void*)>& visit);
  void release_remote(BlockId block);
  const void* lease_block(BlockId block);
  void end_lease(BlockId block);
  SharedSegment share_segment(const void* block);
  void set_recall_handler(std::function<void(int64_t number)> recall);
  void end_sharing(int64_t number);
  int64_t device_bytes() const;
  void read_stored(const StoredBlock& block, int64_t offset, int64_t bytes, void* to);
  void note_arrival() { blocks_.note_movement(); }
  // counters.cpp
  Progress progress() const;
  Statistics statistics() const;
  std::string describe_waits() const;

 private:
  friend class ExecutorTaskRun;
  friend class TaskCompletion;
  friend class CoreStoredBlock;
  friend class Staging;

  // The lock; releasing it wakes the threads that have work now and calls the callbacks that are due.
  class Guard {
   public:
    explicit Guard(Core& core) : core_(core), lock_(core.mutex_, std::defer_lock) { lock(); }
    ~Guard() {
      if (lock_.owns_lock()) unlock();
    }
    void lock();
    void unlock();
    template <class Condition>
    void wait(Condition& condition) {
      core_.return_unused_bytes();
      core_.held_.store(false, std::memory_order_relaxed);
      condition.wait(lock_);
      core_.held_.store(true, std::memory_order_relaxed);
    }
    template <class Condition>
    void wait_for(Condition& condition, std::chrono::microseconds time) {
      core_.return_unused_bytes();
      core_.held_.store(false, std::memory_order_relaxed);
      condition.wait_for(lock_, time);
      core_.held_.store(true, std::memory_order_relaxed);
    }

   private:
    Core& core_;
    std::unique_lock<std::mutex> lock_;
  };

  std::string block_name(const BlockRecord& r) const;

  // core.cpp
  void start_workers(QueueKind queue, int count);
  std::unique_ptr<Worker> make_worker(QueueKind queue);
  void stop_threads();
  int64_t unmovable_bytes(const Graph& graph) const;
  void let_compute_begin(Guard& guard);
  void run_as_short(Guard& guard, const ShortRun& how);
  void give_up_short(Guard& guard, const ShortRun& how);
  void begin_run(Graph& graph, std::vector<TaskId> order, Consumers consumers);
  void end_run();
  bool is_run_over() const;
  // Whether somebody works whose end may free memory.
  bool is_at_work() const { return at_work_ > 0 || !issued_.empty(); }
  void synchronize_streams();
  void drop_stored(int32_t index);
  void set_error(std::exception_ptr error);  // first one wins
  void advance();                            // admits what fits
  void return_unused_bytes() {
    if (!graph_ || staging_requests_.bytes > 0) {
      blocks_.return_unused();
    } else {
      blocks_.return_most_unused();
    }
  }

  // completion.cpp
  void make_available(BlockRecord& r) { live_.make_available(r, blocks_.table.consumers()); }
  void release_live(int32_t live);
  void complete(int32_t live);  // everything that a task needed to end has happened
  void end_part(int32_t live, const std::exception_ptr& error);

  // workers.cpp
  void work_loop(Worker& worker);
  bool poll_streams(Guard& guard);
  void poll_loop();
  bool watch_device(Guard& guard);
  bool wait_for_work(Guard& guard, Worker& worker);
  void sleep(Guard& guard, const Worker& worker);
  void look_for_work(Guard& guard, const Worker& worker);
  bool take_back(Worker& worker);
  bool take_back_others(const Worker& worker);
  void let_long_tasks_be();
  bool others_have_more(const Worker& worker) const;
  void run_tasks(Guard& guard, Worker& worker, int32_t first);
  int64_t fill_round(Worker& worker, int32_t first, int64_t round_ns, int most);
  void prepare(Worker& worker, int32_t live);
  int batch_size(const Worker& worker, int first, int count) const;
  bool stop_clock(const Worker& worker, int first, int done, int count) const;
  void perform(Worker& worker, std::span<Slot> slots);
  void perform_batch(Worker& worker, std::span<Slot> slots);
  void end_with_fault(Worker& worker, std::span<Slot> slots);
  bool begin(Worker& worker, Slot& slot);
  void call_body(Worker& worker, Slot& slot);
  void record_events(Worker& worker, int done);
  void finish(Worker& worker, Slot& slot);
  void queue_on_device(Worker& worker);

  // moves.cpp
  void spill(Guard& guard, Worker& worker, int32_t index);
  void restore(Guard& guard, Worker& worker, int32_t index);
  SpillFile::Slot write_slot(int64_t bytes, const std::function<void(SpillFile::Slot&)>& write);
  local::Reservation evict_host_for(Guard& guard, int64_t bytes, int64_t after_use);
  bool drop_clean_slots();

  // readers.cpp
  int32_t produced_record(BlockId block);
  void read_record(Guard& guard, int32_t index, int64_t offset, int64_t bytes, void* to);

  // counters.cpp
  double running_work() const;
  void trace_task(const LiveTask& live, int64_t begin_ns, int64_t end_ns, const std::exception_ptr& error) const;
  void trace_move(const std::string& what, int64_t bytes, int64_t begin_ns, const char* detail) const;

  const ExecutorConfig config_;
  const std::unique_ptr<TaskFault> task_fault_;  // null but in tests
  local::Backend& backend_;
  Tiers tiers_;
  const bool on_device_;
  std::shared_ptr<CoreLink> link_;

  alignas(64) mutable std::mutex mutex_;
  std::atomic<bool> held_{false};     // a hint for who wants the lock
  std::condition_variable run_wake_;  // run() and who waits for the threads
  WorkQueues queues_;
  Blocks blocks_;
  LiveTasks live_;
  Admission admission_;
  TaskRunPool task_runs_;
  Callbacks callbacks_;
  StagingRequests staging_requests_;

  // Threads.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::array<std::unique_ptr<Worker>, 2> callers_;  // of run_as_short(), without threads; the CPU's
  int at_work_ = 0;  // threads that are at tasks or moves and do not wait for staging memory
  bool quit_ = false;
  const bool may_look_ = std::thread::hardware_concurrency() > 1;  // else it would hold up what it looks for
  std::shared_ptr<const std::function<void()>> idle_work_;
  // Device kinds: a thread that finds out what streams have done.
  std::thread poller_;
  std::condition_variable poll_wake_;
  IssuedRounds issued_;
  int panel_stream_ = -1;  // of the panel queue's worker, where there is one
  int panels_begun_ = 0;   // that are not queued on the device yet
  std::condition_variable panel_queued_;
  EventPool events_;
  bool polling_ = false;   // a thread is at poll_streams()
  bool watching_ = false;  // the thread that waits for the run polls
  struct Front {
    size_t stream = 0;
    std::shared_ptr<local::DeviceEvent> event;
    bool ended = false;
    std::exception_ptr error;
  };
  std::vector<Front> fronts_;      // of the thread that polls
  int64_t expected_until_ns_ = 0;  // a run is expected to begin before

  // This run.
  Graph* graph_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::exception_ptr error_;
  int64_t remote_left_ = 0;                  // readers on other ranks
  const ShortRun* short_run_ = nullptr;      // while the calling thread runs tasks
  int64_t short_since_ns_ = 0;               // when that began, of the last one
  bool gave_up_ = false, gives_up_ = false;  // it has been given up; somebody is at that
  // Between runs.
  bool watches_short_ = false;  // the thread of the comm queue looks now and then whether one takes long
  std::unordered_map<BlockId, std::shared_ptr<StoredBlock>> kept_;
  std::exception_ptr cancelled_before_;
  std::function<void(const local::ErrorRecord&)> failure_handler_;
  std::function<void(int64_t number)> recall_handler_;

  Progress progress_;
  mutable std::unordered_map<TaskId, std::chrono::steady_clock::time_point> running_since_;  // running_work()
  Statistics statistics_;
  Staging staging_;
};

}  // namespace quarry::scheduler
