// A worker thread and the round of tasks that it has taken from its queue.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "quarry/scheduler/blocks/tiers.h"
#include "quarry/scheduler/core/task_run.h"
#include "quarry/scheduler/graph.h"
#include "quarry/scheduler/queues/issued_rounds.h"

namespace quarry::scheduler {

// A task of a round.
struct Slot {
  ExecutorTaskRun* run = nullptr;  // the slot's own until a task outlives its round
  const Graph::Task* task = nullptr;
  size_t stream = 0;  // of the worker
  int64_t expected_ns = 0;
  bool deferred = false, given_up = false;
  std::exception_ptr error;
};

// Threads take several short tasks at a time: one round of the lock for all of them. What one of them has not begun can
// be taken away again: `next` counts what it has begun.
struct Worker {
  static constexpr int kMostTasks = 64;  // of a round

  std::thread thread;
  QueueKind queue = QueueKind::compute;
  // Rounds take the first ones in turn; a thread of the io queue of device kinds has one more, to the host.
  std::vector<std::unique_ptr<local::DeviceStream>> streams;
  int first_stream = 0;  // its number among those of all workers
  size_t turns = 1, turn = 0;
  std::unique_ptr<BounceBuffer> bounce;  // io queue of device kinds
  std::array<Slot, kMostTasks> slots;
  int count = 0;                // slots in use
  bool in_short_round = false;  // counted in its queue's in_short_rounds
  bool seen_in_round = false;   // in this round by let_long_tasks_be()
  alignas(64) std::atomic<int> next{kMostTasks};
  std::vector<IssuedRound> issued;  // device kinds: the round's, per stream
};

}  // namespace quarry::scheduler
