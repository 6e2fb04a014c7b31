// A hyperslab of a block as runs of contiguous bytes, to be packed one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "quarry/chunked/exec/service.h"
#include "quarry/local/device/sharing.h"

namespace quarry::exec {

class HyperslabRuns {
 public:
  // Throws InvalidArgument if the hyperslab does not lie inside the block.
  explicit HyperslabRuns(const Hyperslab& hyperslab);

  int64_t bytes() const { return bytes_; }              // packed
  int64_t run_bytes() const { return run_bytes_; }      // of one run; 0 if the hyperslab is empty
  int64_t begin() const { return base_; }               // of the first run in the block
  int64_t block_bytes() const { return block_bytes_; }  // of the whole block
  // The copy of the whole hyperslab out of a block, as devices take it; none where the hyperslab has too many axes. Not
  // for an empty hyperslab.
  std::optional<local::BoxCopy> device_copy(const void* block, void* to) const;
  // Copies bytes of the block, from `offset` on.
  using Read = std::function<void(int64_t offset, int64_t bytes, void* to)>;
  // Packs the bytes [begin, begin + bytes) of the packed hyperslab into `to`. Short runs that lie close together are
  // read together, with the gaps between them, into `scratch` (may be empty).
  void read(int64_t begin, int64_t bytes, std::byte* to, std::span<std::byte> scratch, const Read& read) const;

 private:
  struct Axis {
    int64_t count, stride;  // in bytes
  };
  int64_t offset_of(int64_t run) const;

  int64_t bytes_ = 0, block_bytes_ = 0, base_ = 0, run_bytes_ = 0;
  std::vector<Axis> outer_;  // last axis fastest
};

}  // namespace quarry::exec
