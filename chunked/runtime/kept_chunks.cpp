#include "quarry/chunked/runtime/kept_chunks.h"

#include <algorithm>

#include "quarry/local/base/shape.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {
namespace {

int64_t chunk_count(const io::DatasetInfo& info) {
  int64_t count = 1;
  for (int d = 0; d < info.shape.size(); ++d) {
    const int64_t chunk = (*info.chunks)[d];
    count *= info.shape[d] / chunk + (info.shape[d] % chunk != 0);
  }
  return count;
}

}  // namespace

int64_t kept_bytes(const std::vector<plan::FileReads>& reads, int64_t budget, int64_t free_bytes) {
  double wanted = 0;
  for (const plan::FileReads& one : reads) {
    // Threads are at different places: some more than one row of chunks.
    constexpr double kMore = 2;
    const int64_t chunk = io::ChunkCache::rounded_bytes(one.dataset->decoded_chunk_bytes());
    const double all = one.chunks * static_cast<double>(chunk);
    wanted += std::min(all, kMore * one.wanted_bytes);
  }
  constexpr double kMost = 9e18;
  return local::memory_policy::chunk_cache_bytes(budget, free_bytes, static_cast<int64_t>(std::min(wanted, kMost)));
}

KeptChunks::KeptChunks(const std::vector<plan::FileReads>& reads, scheduler::Executor& executor, int64_t needed_bytes)
    : executor_(executor) {
  if (reads.empty()) return;
  const bool on_cpu = executor.device().kind == local::DeviceKind::cpu;
  const local::Budget& budget = on_cpu ? executor.memory_budget() : executor.host_budget();
  const int64_t limit = budget.limit_bytes();
  const int64_t bytes = kept_bytes(reads, limit, std::min(limit - needed_bytes, limit - budget.reserved_bytes()));
  if (bytes > 0) memory_ = executor.try_reserve_outside(bytes);
  given_ = memory_.bytes();
  cache_ = std::make_shared<io::ChunkCache>(given_);
  for (const plan::FileReads& one : reads) {
    kept_.emplace_back(one.dataset,
                       cache_->add(one.dataset->decoded_chunk_bytes(), chunk_count(one.dataset->info()), one.reads));
    one.dataset->keep_chunks(kept_.back().second);
  }
  if (given_ > 0) executor.set_reclaim([this](int64_t wanted) { return reclaim(wanted); });
}

KeptChunks::~KeptChunks() {
  if (given_ > 0) executor_.set_reclaim(nullptr);
  for (const auto& [dataset, chunks] : kept_) dataset->keep_chunks(nullptr);
}

// Only the executor calls it, under its lock.
int64_t KeptChunks::reclaim(int64_t bytes) {
  const int64_t given = cache_->reclaim(std::min(bytes, memory_.bytes()));
  if (given > 0) memory_.split(given).release();
  return given;
}

int64_t KeptChunks::decoded_bytes() const {
  int64_t bytes = 0;
  for (const auto& [dataset, chunks] : kept_) bytes += chunks->decoded_bytes();
  return bytes;
}

int64_t KeptChunks::reread_bytes() const {
  int64_t bytes = 0;
  for (const auto& [dataset, chunks] : kept_) bytes += chunks->reread_bytes();
  return bytes;
}

}  // namespace quarry::exec
