// Decoded chunks of files that a run keeps between its reads.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "quarry/chunked/plan/file_reads.h"
#include "quarry/io/chunk_cache.h"
#include "quarry/local/memory/budget.h"
#include "quarry/scheduler/executor.h"

namespace quarry::exec {

// The bytes of decoded chunks that are kept of a plan, of a budget of which so many no task needs.
int64_t kept_bytes(const std::vector<plan::FileReads>& reads, int64_t budget, int64_t free_bytes);

// While it lives, reads of a plan's data sets keep decoded chunks for each other, in bytes of the budget for memory of
// the host that are free and that no task needs; in none where there are none, and then what is read again is counted
// only. Chunks give these bytes back before blocks that the run still reads make way.
class KeptChunks {
 public:
  KeptChunks(const std::vector<plan::FileReads>& reads, scheduler::Executor& executor, int64_t needed_bytes);
  ~KeptChunks();
  KeptChunks(const KeptChunks&) = delete;
  KeptChunks& operator=(const KeptChunks&) = delete;

  int64_t given_bytes() const { return given_; }  // when the run began
  int64_t decoded_bytes() const;
  int64_t reread_bytes() const;  // stored bytes that were read again

 private:
  int64_t reclaim(int64_t bytes);

  scheduler::Executor& executor_;
  local::Reservation memory_;
  int64_t given_ = 0;
  std::shared_ptr<io::ChunkCache> cache_;
  std::vector<std::pair<std::shared_ptr<io::Dataset>, std::shared_ptr<io::CachedChunks>>> kept_;
};

}  // namespace quarry::exec
