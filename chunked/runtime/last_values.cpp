#include "quarry/chunked/runtime/last_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "quarry/chunked/runtime/host_value.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/memory/exec_context.h"

namespace quarry::exec {
namespace {

constexpr int64_t kMostBytes = 2048, kMostChunks = 64;  // of all results
constexpr int64_t kMostOfAll = 1 << 16;                 // bytes that a rank receives
constexpr int kMostRanks = 64;                          // all tell all

int64_t bytes_of(const LastValues::Result& result, int64_t chunk) {
  return result.grid.chunk(chunk).elements() * local::itemsize(result.dtype);
}

}  // namespace

const Owners& LastValues::speakers(const Result& result) {
  static const Owners kBlocks = Owners::blocks();
  return result.owners.kind == Owners::Kind::everywhere ? kBlocks : result.owners;
}

LastValues::LastValues(std::vector<Result> results, const Ownership& owners) : owners_(owners) {
  if (owners.ranks() > kMostRanks) return;
  int64_t bytes = 0, chunks = 0;
  for (const Result& result : results) {
    bytes += local::element_count(result.grid.shape()) * local::itemsize(result.dtype);
    chunks += result.grid.count();
    if (bytes > kMostBytes || chunks > kMostChunks) return;
  }
  std::vector<int64_t> bytes_of_rank(static_cast<size_t>(owners.ranks()));
  for (const Result& result : results) {
    const int64_t count = result.grid.count();
    for (int64_t chunk = 0; chunk < count; ++chunk) {
      const int owner = owners.owner(speakers(result), result.grid, chunk);
      bytes_of_rank[static_cast<size_t>(owner)] += bytes_of(result, chunk);
    }
  }
  const int64_t most = std::ranges::max(bytes_of_rank);
  if (most * owners.ranks() > kMostOfAll) return;
  words_.bytes = most;
  results_ = std::move(results);
}

LastWords* LastValues::words(int rank, scheduler::Executor& executor,
                             const std::vector<std::vector<scheduler::BlockId>>& owned) {
  if (results_.empty()) return nullptr;
  words_.write = [this, rank, &executor, &owned](std::byte* to) {
    for (size_t i = 0; i < results_.size(); ++i) {
      const Result& result = results_[i];
      const OwnedChunks here = owners_.owned(result.owners, result.grid, rank);
      for (const int64_t chunk : owners_.owned(speakers(result), result.grid, rank)) {
        const int64_t bytes = bytes_of(result, chunk);
        if (bytes == 0) continue;
        const auto block = executor.stored_block(owned[i][static_cast<size_t>(here.index_of(chunk))]);
        executor.read_stored(*block, /*offset=*/0, bytes, to);
        to += bytes;
      }
    }
  };
  return &words_;
}

std::vector<std::shared_ptr<StoredArray>> LastValues::values() const {
  std::vector<std::shared_ptr<StoredArray>> arrays;
  std::vector<const std::byte*> from(static_cast<size_t>(owners_.ranks()));
  for (size_t r = 0; r < from.size(); ++r) from[r] = words_.all.data() + r * static_cast<size_t>(words_.bytes);
  const local::DeviceScope scope(local::kCpu);
  for (const Result& result : results_) {
    const int64_t itemsize = local::itemsize(result.dtype), count = result.grid.count();
    local::NdArray value(result.grid.shape(), result.dtype);
    const Dims strides = local::contiguous_strides(value.shape(), itemsize);
    for (int64_t chunk = 0; chunk < count; ++chunk) {
      const int64_t bytes = bytes_of(result, chunk);
      if (bytes == 0) continue;
      const Region box = result.grid.chunk(chunk);
      const std::byte*& at = from[static_cast<size_t>(owners_.owner(speakers(result), result.grid, chunk))];
      if (count == 1) {
        std::memcpy(value.raw(), at, static_cast<size_t>(bytes));
      } else {
        copy_region(static_cast<std::byte*>(value.raw()) + offset_of(box.start, strides), strides, at,
                    local::contiguous_strides(box.count, itemsize), box.count, result.dtype);
      }
      at += bytes;
    }
    arrays.push_back(std::make_shared<StoredArray>(std::move(value)));
  }
  return arrays;
}

}  // namespace quarry::exec
