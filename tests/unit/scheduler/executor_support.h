// Graphs of arithmetic that a plain loop can check, for every device kind.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "quarry/local/device/device.h"
#include "quarry/scheduler/executor.h"

namespace quarry::scheduler::testing_support {

using local::DeviceKind;

// A body from a callable.
class Call final : public TaskBody {
 public:
  explicit Call(std::function<void(TaskRun&)> function, std::string label = "task")
      : function_(std::move(function)), label_(std::move(label)) {}
  std::string name(int64_t index) const override { return label_ + "[" + std::to_string(index) + "]"; }
  void run(TaskRun& run) override { function_(run); }

 private:
  std::function<void(TaskRun&)> function_;
  std::string label_;
};

inline constexpr std::array kKinds = {TaskKind::read, TaskKind::decode,  TaskKind::copy,  TaskKind::compute,
                                      TaskKind::send, TaskKind::receive, TaskKind::write, TaskKind::host};

inline uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 29);
}

// Each output word depends on the task, the output, the word and one word of every input.
inline void mix(int64_t index, const std::vector<BlockView>& inputs, const std::vector<BlockView>& outputs) {
  for (size_t o = 0; o < outputs.size(); ++o) {
    auto* out = static_cast<uint64_t*>(outputs[o].data);
    const int64_t words = outputs[o].bytes / 8;
    for (int64_t i = 0; i < words; ++i) {
      uint64_t value = scramble(static_cast<uint64_t>(index * 1000003 + static_cast<int64_t>(o) * 7919 + i));
      for (const BlockView& input : inputs) {
        const int64_t n = input.bytes / 8;
        if (n > 0) value = scramble(value + static_cast<const uint64_t*>(input.data)[(i * 31 + index) % n]);
      }
      out[i] = value;
    }
  }
}

// The same, queued on the stream, through a piece of scratch.
class Mix final : public TaskBody {
 public:
  explicit Mix(int64_t throws_at = -1) : throws_at_(throws_at) {}
  std::string name(int64_t index) const override { return "mix[" + std::to_string(index) + "]"; }
  bool supports_batching() const override { return true; }
  void run(TaskRun& run) override {
    if (run.index == throws_at_) throw local::IoError("for the test");
    std::vector<BlockView> inputs(run.inputs.begin(), run.inputs.end());
    std::vector<BlockView> outputs(run.outputs.begin(), run.outputs.end());
    // What it visits on disk is read in two parts.
    const auto visited = std::make_shared<std::vector<std::vector<char>>>();
    visited->reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].data != nullptr) continue;
      std::vector<char>& read = visited->emplace_back(static_cast<size_t>(inputs[i].bytes));
      const int64_t half = inputs[i].bytes / 3;
      run.read_visited(i, 0, half, read.data());
      run.read_visited(i, half, inputs[i].bytes - half, read.data() + half);
      inputs[i].data = read.data();
    }
    const int64_t scratch_bytes = run.context.memory->acquired_bytes();
    void* scratch = scratch_bytes > 0 ? run.context.memory->allocate(scratch_bytes, run.context.stream) : nullptr;
    run.context.stream->host_callback([index = run.index, inputs, outputs, scratch, scratch_bytes, visited] {
      if (scratch) std::memset(scratch, 0xA5, static_cast<size_t>(scratch_bytes));
      // What is changed in place is read before.
      std::vector<BlockView> sources = inputs;
      std::vector<std::vector<char>> before;
      before.reserve(outputs.size());
      for (size_t i = 0; i < std::min(inputs.size(), outputs.size()); ++i) {
        if (inputs[i].data != outputs[i].data || inputs[i].bytes == 0) continue;
        const char* const data = static_cast<const char*>(inputs[i].data);
        sources[i].data = before.emplace_back(data, data + inputs[i].bytes).data();
      }
      mix(index, sources, outputs);
    });
    if (scratch) run.context.memory->deallocate(scratch, scratch_bytes, run.context.stream);
  }

 private:
  const int64_t throws_at_;
};

struct RandomGraph {
  struct Task {
    int64_t index;
    std::vector<int> inputs, outputs;  // block numbers
    int64_t scratch;
    QueueKind queue;
    TaskKind kind;
    bool visits;
    uint8_t in_place = 0;
  };
  std::vector<int64_t> bytes;  // of the blocks
  std::vector<Task> tasks;
  std::vector<bool> keep;

  RandomGraph(uint32_t seed, int task_count, int64_t most_words, double keep_share = 0.1, double visit_share = 0) {
    std::mt19937 random(seed), visits(seed + 1);
    for (int t = 0; t < task_count; ++t) {
      Task task{};
      task.index = t;
      const int inputs = bytes.empty() ? 0 : static_cast<int>(random() % 4);
      for (int i = 0; i < inputs; ++i) {
        // Mostly recent blocks, some from long ago.
        const int count = static_cast<int>(bytes.size());
        const int back = random() % 4 == 0 ? count : std::min(count, 12);
        task.inputs.push_back(count - 1 - static_cast<int>(random() % static_cast<unsigned>(back)));
      }
      const int outputs = static_cast<int>(random() % 3);
      for (int o = 0; o < outputs; ++o) {
        task.outputs.push_back(static_cast<int>(bytes.size()));
        bytes.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(most_words + 1)) * 8);
        keep.push_back(random() % 1000 < keep_share * 1000);
      }
      task.scratch = random() % 3 == 0 ? static_cast<int64_t>(random() % 4) * 512 : 0;
      task.queue = static_cast<QueueKind>(random() % kQueueCount);
      task.kind = random() % 2 == 0 ? kKinds[random() % kKinds.size()] : TaskKind::compute;
      task.visits = visits() % 1000 < visit_share * 1000;
      tasks.push_back(std::move(task));
    }
  }

  // So many of a thousand tasks that may change their first inputs in place do so. Returns how many blocks are.
  int change_in_place(uint32_t seed, unsigned share) {
    std::mt19937 random(seed);
    std::vector<int> readers(bytes.size(), 0);
    for (const Task& task : tasks)
      for (const int input : task.inputs) ++readers[static_cast<size_t>(input)];
    int count = 0;
    for (Task& task : tasks) {
      if (task.visits || random() % 1000 >= share) continue;
      for (size_t i = 0; i < std::min(task.inputs.size(), task.outputs.size()); ++i) {
        const auto input = static_cast<size_t>(task.inputs[i]);
        if (readers[input] != 1 || keep[input]) continue;
        bytes[static_cast<size_t>(task.outputs[i])] = bytes[input];
        task.in_place |= static_cast<uint8_t>(1U << i);
        ++count;
      }
    }
    return count;
  }

  std::vector<std::vector<uint64_t>> reference() const {
    std::vector<std::vector<uint64_t>> blocks;
    for (const int64_t b : bytes) blocks.emplace_back(static_cast<size_t>(b / 8));
    for (const Task& task : tasks) {
      std::vector<BlockView> inputs, outputs;
      for (const int i : task.inputs)
        inputs.push_back({blocks[static_cast<size_t>(i)].data(), bytes[static_cast<size_t>(i)]});
      for (const int o : task.outputs)
        outputs.push_back({blocks[static_cast<size_t>(o)].data(), bytes[static_cast<size_t>(o)]});
      mix(task.index, inputs, outputs);
    }
    return blocks;
  }

  // Block n of this is block n of the graph; tasks are added in another order than their positions.
  void build(Graph& graph, std::unique_ptr<TaskBody> body = std::make_unique<Mix>()) const {
    const int32_t mixer = graph.add_body(std::move(body));
    for (size_t b = 0; b < bytes.size(); ++b) graph.add_block(bytes[b], 0, keep[b]);
    for (size_t i = 0; i < tasks.size(); ++i) {
      const Task& task = tasks[i % 2 ? tasks.size() - 1 - (i - 1) / 2 : i / 2];
      const std::vector<BlockId> inputs(task.inputs.begin(), task.inputs.end());
      const std::vector<BlockId> outputs(task.outputs.begin(), task.outputs.end());
      TaskDecl decl;
      decl.kind = task.kind;
      decl.queue = task.queue;
      decl.body = mixer;
      decl.index = task.index;
      decl.position = task.index;
      decl.scratch_bytes = task.scratch;
      decl.traffic_bytes = 8;
      decl.inputs = inputs;
      decl.outputs = outputs;
      decl.visits = task.visits;
      decl.in_place = task.in_place;
      graph.add_task(decl);
    }
  }
};

inline ExecutorConfig config_for(DeviceKind kind, int64_t memory_bytes) {
  ExecutorConfig config;
  config.device = {kind, 0};
  config.memory_bytes = memory_bytes;
  config.host_bytes = kind == DeviceKind::cpu ? 0 : 512 << 10;
  config.spill_dir = ::testing::TempDir();
  return config;
}

inline std::vector<uint64_t> words_of(Executor& executor, const StoredBlock& block) {
  std::vector<uint64_t> words(static_cast<size_t>(block.bytes() / 8));
  executor.read_stored(block, 0, block.bytes(), words.data());
  return words;
}

struct Decl {
  int32_t body = 0;
  std::vector<BlockId> inputs = {}, outputs = {};
  QueueKind queue = QueueKind::compute;
  TaskKind kind = TaskKind::compute;
  int64_t scratch = 0;
  bool visits = false;
  uint8_t in_place = 0;
};
// Positions in the order of adding.
inline TaskId add(Graph& graph, const Decl& d) {
  TaskDecl task;
  task.body = d.body;
  task.kind = d.kind;
  task.queue = d.queue;
  task.index = task.position = graph.task_count();
  task.inputs = d.inputs;
  task.outputs = d.outputs;
  task.scratch_bytes = d.scratch;
  task.visits = d.visits;
  task.in_place = d.in_place;
  return graph.add_task(task);
}

}  // namespace quarry::scheduler::testing_support
