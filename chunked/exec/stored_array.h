// A persisted array: its chunks live in the memory tiers of their owners, or, for small local data, as a copy on every
// rank.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "quarry/chunked/grid/grid.h"
#include "quarry/chunked/grid/ownership.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/scheduler/executor.h"

namespace quarry::exec {

class StoredArray {
 public:
  // The blocks of the chunks that this rank has by `owners`, in their order, in the tiers of `executor`.
  StoredArray(local::DType dtype, Grid grid, const Owners& owners, OwnedChunks chunks,
              std::vector<std::shared_ptr<scheduler::StoredBlock>> blocks, const scheduler::Executor* executor)
      : dtype_(dtype),
        grid_(std::move(grid)),
        owners_(owners),
        chunks_(std::move(chunks)),
        blocks_(std::move(blocks)),
        executor_(executor) {
    QUARRY_CHECK(chunks_.size() == std::ssize(blocks_));
  }
  // The same C-contiguous host array on every rank, as one chunk.
  explicit StoredArray(local::NdArray replicated)
      : dtype_(replicated.dtype()),
        grid_(Grid::single(replicated.shape())),
        owners_(Owners::everywhere()),
        replicated_(std::move(replicated)) {}

  local::DType dtype() const { return dtype_; }
  const Grid& grid() const { return grid_; }
  const Owners& owners() const { return owners_; }
  bool replicated() const { return replicated_.has_value(); }
  const local::NdArray& value() const { return *replicated_; }
  // Whether tasks of that executor can read it.
  bool is_in(const scheduler::Executor& executor) const { return replicated() || &executor == executor_; }
  const std::shared_ptr<scheduler::StoredBlock>& block(int64_t chunk) const { return blocks_[index_of(chunk)]; }
  // Gives up a chunk of this rank's; nothing may ask for it afterwards.
  void drop_block(int64_t chunk) { blocks_[index_of(chunk)].reset(); }

 private:
  size_t index_of(int64_t chunk) const {
    const int64_t index = chunks_.index_of(chunk);
    QUARRY_CHECK(index >= 0);
    return static_cast<size_t>(index);
  }

  local::DType dtype_;
  Grid grid_;
  Owners owners_;
  OwnedChunks chunks_{0, 0};
  std::vector<std::shared_ptr<scheduler::StoredBlock>> blocks_;
  const scheduler::Executor* executor_ = nullptr;
  std::optional<local::NdArray> replicated_;
};

}  // namespace quarry::exec
