// The executor's inside. One lock guards all state; threads of the queues run tasks and move blocks between tiers
// without it. Split over executor.cpp (life, run, failure, what others ask), admission.cpp (budget, eviction,
// completion), workers.cpp (threads), tiers.cpp (spilling, bringing back, reading) and staging.cpp.
//
// A block's record exists from its producer's admission to its last use. Its data may be in several tiers at once:
// blocks do not change once produced, so a copy further down stays valid and makes the next eviction free.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <limits>
#include <thread>
#include <unordered_map>

#include "quarry/scheduler/blocks/block_memory.h"
#include "quarry/scheduler/executor.h"
#include "quarry/scheduler/queues/ready_queue.h"
#include "quarry/scheduler/blocks/spill_file.h"

namespace quarry::scheduler {

class Core;
class CoreCompletion;

// For loops that wait for another thread.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Scratch memory of one task: best fit inside one piece. On the CPU the piece is taken at first use.
class Scratch final : public local::MemoryResource {
 public:
  Scratch(Core& core, local::Device device) : core_(core), device_(device) {}
  void open(void* data, int64_t bytes);  // data null: taken at first use
  void close();                          // gives back what was taken at first use

  local::Device device() const override { return device_; }
  void* allocate(int64_t bytes, local::Stream* stream) override;
  void deallocate(void* data, int64_t bytes, local::Stream* stream) noexcept override;
  int64_t used_bytes() const override;
  int64_t acquired_bytes() const override { return bytes_; }
  int64_t peak_bytes() const override;

 private:
  Core& core_;
  const local::Device device_;
  mutable std::mutex mutex_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  bool owned_ = false;
  std::vector<std::pair<int64_t, int64_t>> pieces_;  // handed out: offset and length, in order of offsets
  int64_t used_ = 0, peak_ = 0;
};

class CoreTaskRun final : public TaskRun {
 public:
  explicit CoreTaskRun(Core& core);
  std::shared_ptr<Completion> defer() override;
  bool is_cancelled() const override;

  Core& core;
  Scratch scratch;
  std::vector<BlockView> input_views, output_views;
  std::vector<std::pair<std::shared_ptr<local::Event>, int>> waits;  // events of the inputs and their streams
  std::shared_ptr<CoreCompletion> completion;
  bool deferred = false;
  int32_t live = -1;
  TaskId task = -1;
  int64_t begin_ns = 0, end_ns = 0;  // of run()
};

class CoreCompletion final : public Completion {
 public:
  CoreCompletion(Core& core, int32_t live) : core_(core), live_(live) {}
  ~CoreCompletion() override;
  void finish() override;
  void fail(std::exception_ptr error) override;
  // Whether nobody has ended the task yet; the caller does now.
  bool claim() { return !used_.exchange(true); }

 private:
  Core& core_;
  const int32_t live_;
  std::atomic<bool> used_{false};
};

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

class Staging final : public local::MemoryResource {
 public:
  explicit Staging(Core& core) : core_(core) {}
  ~Staging() override;
  local::Device device() const override { return local::kCpu; }
  void* allocate(int64_t bytes, local::Stream* stream) override;
  void deallocate(void* data, int64_t bytes, local::Stream* stream) noexcept override;
  int64_t used_bytes() const override;
  int64_t acquired_bytes() const override;
  int64_t peak_bytes() const override;
  // Reuses what was given back behind an event that has come; waits for the oldest where asked to. False if there was
  // nothing.
  bool reap(bool wait);

 private:
  struct Pending {
    void* data;
    int64_t bytes;
    std::shared_ptr<local::Event> event;
  };
  void give_back(void* data, int64_t bytes);

  Core& core_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, local::Reservation> out_;
  std::deque<Pending> pending_;
  int64_t used_ = 0, peak_ = 0;
};

class Core final : public Executor {
 public:
  explicit Core(const ExecutorConfig& config);
  ~Core() override;

  void run(Graph& graph) override;
  void cancel(const local::ErrorRecord& error) override;
  void clear_cancel() override;
  void set_failure_handler(std::function<void(const local::ErrorRecord&)> handler) override;
  void set_idle_work(std::function<void()> work) override;
  std::shared_ptr<StoredBlock> stored_block(BlockId block) override;
  void when_ready(BlockId block, std::function<void()> callback) override;
  void read_block(BlockId block, int64_t offset, int64_t bytes, void* to) override;
  bool visit_block(BlockId block, int64_t bytes, const std::function<void(const void*)>& visit) override;
  void release_remote(BlockId block) override;
  const void* lease_block(BlockId block) override;
  void end_lease(BlockId block) override;
  std::pair<void*, int64_t> device_slab() const override { return {slab_data_, slab_bytes_}; }
  void read_stored(const StoredBlock& block, int64_t offset, int64_t bytes, void* to) override;
  Progress progress() const override;
  Statistics statistics() const override;
  local::Device device() const override { return config_.device; }
  local::Budget& memory_budget() override { return memory_budget_; }
  local::Budget& host_budget() override { return host_budget_; }
  local::MemoryResource& staging() override { return staging_; }
  std::string describe_waits() const override;

 private:
  friend class Scratch;
  friend class CoreTaskRun;
  friend class CoreCompletion;
  friend class CoreStoredBlock;
  friend class Staging;

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // What every use of a block touches: one line of the cache.
  struct BlockState {
    BlockId block = -1;    // in this run; -1: kept from an earlier run and not used by this one
    int64_t bytes = 0;     // of the block
    void* data = nullptr;  // compute tier; on the CPU null until the block is about to be filled
    // Consumers in order of admission are consumers_[cursor, end); those before it are admitted, and the last `waiting`
    // of those wait for the data.
    int64_t cursor = 0, end = 0;
    int32_t waiting = 0;
    int32_t pins = 0;         // inputs of admitted tasks that are not done
    int32_t busy = 0;         // moves and reads under way without the lock
    int32_t remote = 0;       // readers on other ranks to come
    uint32_t generation = 0;  // tells a reused record from what it was
    bool used : 1 = false;
    bool resident : 1 = false;   // has room in the compute tier: its charge is reserved
    bool produced : 1 = false;   // its producer is done
    bool available : 1 = false;  // in the compute tier, or behind `event`
    bool spilling : 1 = false;
    bool in_last_use : 1 = false;  // dies when the admitted tasks are done; counted in freed_soon_bytes_
    bool keep : 1 = false;         // becomes stored when the run succeeds
    bool stored : 1 = false;
    bool has_extras : 1 = false;  // has been in a tier below, or has an event: what Record adds may be set
    int64_t charge() const { return charged_bytes(bytes); }  // in the budget
  };
  // A block with data, or about to have it.
  struct alignas(64) Record : BlockState {
    void* host = nullptr;  // pinned tier
    SpillFile::Slot slot;  // disk tier
    local::Reservation host_reserved;
    std::shared_ptr<local::Event> event;  // device kinds: after which the data is there
    int stream = -1;                      // that it was recorded on
    uint64_t stamp = 0;                   // of the admission attempt that counted it last
  };
  static_assert(sizeof(BlockState) == 64);

  enum class Phase : uint8_t { waiting, ready, running, issued };
  // An admitted task that is not done: one line of the cache too.
  struct alignas(64) Live {
    TaskId task = -1;
    int64_t order = 0;
    int32_t pending = 0;  // inputs not available yet
    int32_t open = 0;     // what must still happen before it is done: run() returns, Completion, event
    int32_t body = 0;
    QueueKind queue = QueueKind::compute;
    Phase phase = Phase::waiting;
    bool used = false;
    bool owns_run = false;  // else `run` belongs to a thread's slot
    int64_t scratch_bytes = 0;
    void* scratch_data = nullptr;
    CoreTaskRun* run = nullptr;
    std::exception_ptr error;
  };
  static_assert(sizeof(Live) == 64);
  // Tasks that were queued on a stream together: done when their event is reached.
  struct Issued {
    std::shared_ptr<local::Event> event;
    std::vector<int32_t> tasks;
  };

  enum class Job : uint8_t { task, spill, restore };
  struct Item {
    int64_t order;  // of the task, or of the one that needs the block; -1: at once
    int32_t what;   // live task or record
    Job job;
    int64_t ns = 0;  // that it is expected to take
  };
  struct WorkQueue {
    ReadyQueue<Item> ready;
    int64_t ready_ns = 0;     // that another thread would save by what is ready
    int in_short_rounds = 0;  // threads that will be back for more in no time
    bool overdue = false;     // something has been ready for long
    std::condition_variable wake;
    int threads = 0;
    int idle = 0;              // sleeping threads that nobody has woken
    int tokens = 0;            // woken threads that have not noticed
    int looking = 0;           // threads that look at `any` for a while before they sleep
    bool short_tasks = false;  // the last one was short: sleeping and waking would cost more
    int64_t busy_ns = 0;
    int64_t deferred = 0;  // tasks that returned and are not finished; the queue is busy while there are any
    int64_t deferred_since_ns = 0;
    int64_t last_end_ns = 0;  // device kinds: when the last task was seen to be done
    // is_worth_joining() at the last release of the lock; threads that look for work read nothing else.
    alignas(64) std::atomic<bool> worth{false};
  };
  // A task that a thread has taken from its queue.
  struct Slot {
    CoreTaskRun* run = nullptr;  // the slot's own until a task outlives its round
    const Graph::Task* task = nullptr;
    size_t stream = 0;  // of the worker
    int64_t expected_ns = 0;
    bool deferred = false, given_up = false;
    std::exception_ptr error;
  };
  static constexpr int kMostTaken = 64;
  // What a thread takes at a time is expected to last no longer, and after it, it gives back what it has not begun.
  static constexpr int64_t kRoundNs = 4000;
  // Tasks that are admitted at a time on device kinds: the first ones are queued while others are admitted.
  static constexpr int64_t kAdmittedAtATime = 64;
  // Threads take several short tasks at a time: one round of the lock for all of them. What one of them has not begun
  // can be taken away again: `next` counts what it has begun.
  struct Worker {
    std::thread thread;
    QueueKind queue = QueueKind::compute;
    // Rounds take the first ones in turn; a thread of the io queue of device kinds has one more, to the host.
    std::vector<std::unique_ptr<local::Stream>> streams;
    int first_stream = 0;  // its number in issued_
    size_t turns = 1, turn = 0;
    local::Stream* to_host = nullptr;
    std::array<Slot, kMostTaken> slots;
    int taken = 0;  // slots in use
    alignas(64) std::atomic<int> next{kMostTaken};
    std::vector<Issued> issued;  // device kinds: the round's, per stream
    void* bounce = nullptr;      // pinned, two halves; io queue of device kinds
    std::unique_ptr<local::Event> bounce_events[2];
  };
  struct EvictionCandidate {
    int64_t next_use;
    int32_t record;
    uint32_t generation;
    bool operator<(const EvictionCandidate& other) const { return next_use < other.next_use; }
  };

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
      core_.return_most_unused();
      core_.held_.store(false, std::memory_order_relaxed);
      condition.wait(lock_);
      core_.held_.store(true, std::memory_order_relaxed);
    }
    template <class Condition>
    void wait_for(Condition& condition, std::chrono::microseconds time) {
      core_.return_most_unused();
      core_.held_.store(false, std::memory_order_relaxed);
      condition.wait_for(lock_, time);
      core_.held_.store(true, std::memory_order_relaxed);
    }

   private:
    Core& core_;
    std::unique_lock<std::mutex> lock_;
  };

  bool device_kind() const { return config_.device.kind != local::DeviceKind::cpu; }
  Record& record(int32_t index) { return records_[static_cast<size_t>(index)]; }
  const Record& record(int32_t index) const { return records_[static_cast<size_t>(index)]; }
  TaskId task_at(int64_t order) const { return order_.empty() ? order : order_[static_cast<size_t>(order)]; }
  Record& record_of(BlockId block) { return record(block_record_[static_cast<size_t>(block)]); }
  std::string task_name(TaskId task) const;
  std::string block_name(const Record& r) const;
  std::shared_ptr<local::Event> acquire_event();
  void recycle_event(std::shared_ptr<local::Event> event);

  // executor.cpp
  void let_compute_begin(Guard& guard);
  void begin_run(Graph& graph);
  void end_run();
  bool is_run_over() const;
  void drop_stored(int32_t index);
  void set_error(std::exception_ptr error);  // first one wins

  // admission.cpp
  void advance();
  bool may_admit();
  bool try_admit(TaskId task, int64_t order);
  bool place(const Graph::Task& task, void** scratch);
  void admit(TaskId task, int64_t order, void* scratch);
  bool reserve(int64_t bytes);
  void release(int64_t bytes) { unused_bytes_ += bytes; }
  void return_unused();
  void return_most_unused();
  void note_free_bytes();
  void keep_within_limit();
  int64_t reserved_bytes() const { return memory_budget_.reserved_bytes() - unused_bytes_; }
  bool evict_for(int64_t bytes, int64_t before_order);
  bool evict_farthest(int64_t before_order);
  bool evict_inputs(const Graph::Task& task);
  bool evict(int32_t index);
  void refuse_if_stuck(TaskId task);
  int64_t next_use(const Record& r) const;
  bool is_evictable(const Record& r) const { return r.resident && r.produced && r.available && !r.pins && !r.busy; }
  static bool is_unused(const Record& r);
  void release_if_unused(int32_t index);  // after its last pin or move: frees it or offers it for eviction
  void add_candidate(int32_t index);
  void list_candidates();
  void note_last_use(Record& r);
  void drop_resident(Record& r);
  void drop_host(Record& r);
  int32_t new_record();
  void free_record(int32_t index);
  void make_available(Record& r);
  void make_ready(int32_t live);
  void release_live(int32_t live);
  void complete(int32_t live);  // everything that a task needed to end has happened
  void end_part(int32_t live, const std::exception_ptr& error);

  // workers.cpp
  void work_loop(Worker& worker);
  void poll_loop();
  bool wait_for_work(Guard& guard, Worker& worker);
  void look_for_work(Guard& guard, const Worker& worker);
  Item pop(WorkQueue& queue);
  bool take_back(Worker& worker);
  bool take_back_others(const Worker& worker);
  bool others_have_more(const Worker& worker) const;
  void run_tasks(Guard& guard, Worker& worker, int32_t first);
  void prepare(Worker& worker, int32_t live);
  int batch_size(const Worker& worker, int first, int taken) const;
  bool stop_clock(const Worker& worker, int first, int done, int taken) const;
  void perform(Worker& worker, std::span<Slot> slots);
  void perform_batch(Worker& worker, std::span<Slot> slots);
  bool begin(Worker& worker, Slot& slot);
  void call_body(Worker& worker, Slot& slot);
  CoreTaskRun* acquire_run();
  void record_events(Worker& worker, int done);
  void finish(Worker& worker, Slot& slot);
  int64_t expected_ns(int32_t live) const;
  static int64_t worth_ns(const Item& item);
  static bool is_worth_joining(const WorkQueue& queue);
  void push(QueueKind queue, const Item& item);
  void trace_task(const Live& live, int64_t begin_ns, int64_t end_ns, const std::exception_ptr& error) const;
  void trace_move(const std::string& what, int64_t bytes, int64_t begin_ns, const char* detail) const;

  // tiers.cpp
  void spill(Guard& guard, Worker& worker, int32_t index);
  void restore(Guard& guard, Worker& worker, int32_t index);
  SpillFile::Slot write_slot(Worker* worker, const void* host, const void* device, int64_t bytes);
  void read_slot(Worker& worker, const SpillFile::Slot& slot, void* device, int64_t bytes);
  local::Reservation evict_host_for(Guard& guard, int64_t bytes, int64_t after_use);
  bool drop_clean_slots();
  int32_t produced_record(BlockId block);
  void read_record(Guard& guard, int32_t index, int64_t offset, int64_t bytes, void* to);

  // staging.cpp
  local::Reservation acquire(int64_t bytes);
  local::Reservation acquire_pinned(int64_t bytes);
  void wake_staging();

  const ExecutorConfig config_;
  local::Backend& backend_;
  local::Budget memory_budget_, host_budget_;
  SpillFile spill_;
  CachedMemory host_memory_;  // CPU: blocks; device kinds: the pinned tier
  void* slab_data_ = nullptr;
  int64_t slab_bytes_ = 0;
  std::unique_ptr<Slab> slab_;
  SmallBlocks small_blocks_;                               // CPU
  alignas(local::kAllocationAlignment) char nothing_ = 0;  // where blocks of no bytes are
  std::unique_ptr<local::Stream> read_stream_;             // device kinds: for read_block
  std::mutex read_mutex_;
  int64_t bounce_bytes_ = 0;
  local::Reservation bounce_reservation_;
  std::shared_ptr<CoreLink> link_;

  alignas(64) mutable std::mutex mutex_;
  std::atomic<bool> held_{false};        // a hint for who wants the lock
  std::condition_variable run_wake_;     // run() and who waits for the threads
  std::condition_variable memory_wake_;  // staging requests
  std::condition_variable poll_wake_;
  std::array<WorkQueue, kQueueCount> queues_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::thread poller_;
  bool quit_ = false;
  const bool may_look_ = std::thread::hardware_concurrency() > 1;  // else it would hold up what it looks for
  std::vector<std::deque<Issued>> issued_;                         // per stream, device kinds
  std::vector<std::shared_ptr<local::Event>> events_;

  // What the executor's blocks and scratch have in the budget and do not use. Most rounds need as much again as they
  // give back; when the lock is released there is little during a run, and else none.
  std::vector<local::Reservation> reservations_;
  int64_t unused_bytes_ = 0;
  int64_t least_free_;  // that the budget has at least: only under the lock is anything reserved

  Parts<Record, 256> records_;
  std::vector<int32_t> free_records_;
  int64_t used_records_ = 0;
  // A heap, farthest first, stale entries are skipped. Kept only from when the run first lacks memory.
  std::vector<EvictionCandidate> candidates_;
  bool lists_candidates_ = false;
  Parts<Live, 256> live_;
  std::vector<int32_t> free_live_;
  std::deque<CoreTaskRun> runs_;
  std::vector<CoreTaskRun*> free_runs_;  // those that no slot and no task has
  int64_t live_count_ = 0;
  int64_t busy_tasks_ = 0;  // admitted tasks that keep every queue at work
  int64_t jobs_ = 0;        // moves between tiers, queued or under way
  int64_t reads_ = 0;
  int64_t freed_soon_bytes_ = 0;  // freed for certain when the admitted tasks are done
  int64_t spilling_bytes_ = 0;    // freed when the spills under way are done
  int waiting_pinned_ = 0;        // waiting staging requests, device kinds
  int64_t waiting_bytes_ = 0;     // by staging requests that wait; they come before admission
  std::exception_ptr spill_error_;
  uint64_t stamp_ = 0;
  std::vector<std::function<void()>> due_;

  // This run.
  Graph* graph_ = nullptr;
  int64_t task_count_ = 0;
  std::atomic<bool> stopping_{false};
  std::exception_ptr error_;
  std::vector<TaskId> order_;  // empty: tasks are admitted as they were added
  int64_t head_ = 0;           // the next to admit
  bool far_ahead_ = false;     // as many are admitted as may be, or nearly
  bool admits_more_ = false;   // advance() stopped because it had admitted enough for once
  int64_t head_need_ = 0;      // bytes that it still needs
  std::vector<std::pair<void*, int64_t>> placed_;
  Consumers consumers_;
  std::vector<int32_t> block_record_;  // -1: not made yet, or gone
  std::vector<int32_t> live_of_;       // by order; -1: not admitted, or done
  std::vector<int64_t> body_ns_;       // what tasks of each body have taken lately; -1: unknown
  int64_t remote_left_ = 0;
  std::unordered_map<BlockId, std::vector<std::function<void()>>> callbacks_;
  std::unordered_map<BlockId, std::shared_ptr<StoredBlock>> kept_;
  std::exception_ptr cancelled_before_;
  std::function<void(const local::ErrorRecord&)> failure_handler_;
  std::shared_ptr<const std::function<void()>> idle_work_;
  Progress progress_;
  Statistics statistics_;
  std::chrono::steady_clock::time_point stuck_since_{};
  Staging staging_;
};

}  // namespace quarry::scheduler
