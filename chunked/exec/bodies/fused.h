// Fused programs over chunks.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/access.h"
#include "quarry/chunked/exec/bodies/batch.h"
#include "quarry/chunked/exec/bodies/chunk.h"
#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/local/program/engine.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// One chunk of a fused stage. Inputs: one block per plan input that arrives, except the streamed one, which is read
// from its file piece by piece while computing (CPU); then what the operators read that make the other inputs.
class FusedBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  // `room`: bytes that a task may hold of chunks that it reads a part of; 0: parts come by themselves.
  FusedBody(const plan::Stage& stage, int rank, const Ownership& owners, const local::Device& device, int64_t room = 0);
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  bool supports_batching() const override { return streamed_ < 0 && makers_.empty(); }
  void run_batch(std::span<scheduler::TaskRun* const> runs) override;
  // Adds chunk `chunk` to a batch of the stage's program.
  local::Launch& add(Batch& batch, int64_t chunk, std::span<const scheduler::BlockView> inputs,
                     std::span<const scheduler::BlockView> outputs, void* states,
                     const local::ExecContext& context) const;

  const plan::Stage& stage() const { return stage_; }
  const local::Program& program() const { return fused_.program; }
  // The number of the largest data set that it reads by boxes (Input::is_box), or -1.
  int file_input() const { return file_input_; }
  int streamed() const { return streamed_; }  // the same where it reads it itself, on the CPU; else -1
  // Whether chunks of one shape have the same launch but for addresses and positions.
  bool aligned() const { return aligned_ && streamed_ < 0; }
  // Whether chunk i of the stage reads chunk i of the input as it lies.
  bool reads_whole_chunks(int input) const {
    const plan::Input& in = fused_.inputs[static_cast<size_t>(input)];
    return aligned_ && in.array.kind != plan::ArrayRef::Kind::dataset;
  }
  // Of the operators that make inputs in the task.
  const std::vector<ChunkMaker>& makers() const { return makers_; }
  Access access(int input, int64_t chunk) const;
  // Of elementwise stages over windows in memory: the boxes of a chunk that are computed one by one, so that what lies
  // inside one chunk of the array is read where it is; only what the others read is put together first. A task's inputs
  // are those of each box in turn, all of them.
  bool splits() const { return splits_; }
  std::vector<Region> parts(int64_t chunk) const;
  // Where there is room: boxes of a chunk in each of which every view lies inside one chunk of its array, on this rank.
  // All are read where they are then, and those chunks are the task's inputs. None: by parts.
  struct Cells {
    struct Box {
      Dims start, count;  // of the space
    };
    struct View {
      size_t input;    // of the task
      int64_t offset;  // bytes into its block
    };
    std::vector<Box> boxes;
    bool even = false;        // boxes of one shape, one behind the other
    std::vector<View> views;  // of the inputs of the program for box 0, then for box 1, ...
    struct Chunk {
      int input;      // of the stage
      int64_t chunk;  // of the array
      Dims strides;   // in the space
    };
    std::vector<Chunk> chunks;  // per input of the task
  };
  std::optional<Cells> cells(int64_t chunk) const;
  Access access(int input, const Region& part) const;
  Region input_region(int input, int64_t chunk) const;
  // What a launch takes that was asked for before, so that chunks of the same layout are not laid out again.
  struct KnownScratch {
    local::Launch launch;
    int64_t bytes = -1;
  };
  int64_t scratch_bytes(int64_t chunk, KnownScratch& known) const;
  int64_t scratch_bytes(int64_t chunk, const Cells& cells, KnownScratch& known) const;
  int64_t scratch_bytes(int64_t chunk) const {
    KnownScratch known;
    return scratch_bytes(chunk, known);
  }
  int64_t state_bytes(int64_t chunk) const;
  Dims kept_shape(const Dims& shape) const;  // extents of the axes that are not reduced

 private:
  bool reduces() const { return !fused_.reductions.empty(); }
  void run_with(scheduler::TaskRun& run, std::span<const scheduler::BlockView> inputs);
  int64_t making_bytes(int64_t chunk) const;  // that the makers take, with what they make
  void add_parts(Batch& batch, const scheduler::TaskRun& run) const;
  // A launch for a box of the chunk, without inputs; without addresses where there are no blocks.
  void lay_out(local::Launch& launch, int64_t chunk, const Dims& start, const Dims& count,
               std::span<const scheduler::BlockView> outputs) const;
  void add_cell(Batch& batch, const scheduler::TaskRun& run, const Cells& cells, size_t box) const;
  local::Launch launch(int64_t chunk) const;  // shapes and strides; no addresses
  void run_streamed(scheduler::TaskRun& run, int64_t chunk, const local::Launch& whole);
  bool copies_streamed() const;
  Dims state_strides(const Dims& kept_axes_shape, int64_t itemsize) const;
  Placed placed(int slot, const Region& box) const;  // of an input of the program

  const plan::Stage& stage_;
  const plan::Fused& fused_;
  int rank_;
  Ownership owners_;
  local::Device device_;
  int file_input_ = -1, streamed_ = -1;
  int streamed_slot_ = -1;  // the input of the program that it is
  bool copies_ = false;     // the one output is what is streamed, as it lies in the file
  int64_t room_ = 0;
  bool splits_ = false;
  // Of programs that may read chunks where they lie: where the views of the inputs of the program begin, per axis of
  // the array, and which axis of the space each follows.
  struct SlotView {
    int input;
    Dims begin, follows;
  };
  std::vector<SlotView> slot_views_;
  std::vector<SlotView> slot_views() const;
  bool add_view(Cells& cells, const SlotView& view, const Dims& start, int64_t& held) const;
  bool aligned_ = false;                 // every input arrives laid out as the chunk, and nothing else
  std::vector<local::Program> combine_;  // per reduction, for pieces of what is streamed
  std::vector<ChunkMaker> makers_;       // per operator of fused_.made
};

}  // namespace quarry::exec
