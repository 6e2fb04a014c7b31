// What running computations keeps in a Runtime, so that two Runtimes do not see each other's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/chunked/exec/bodies/device_decoding.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/plan/cost.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/chunked/runtime/host_value.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"

namespace quarry {

namespace exec {
class PlanCache;  // chunked/runtime/plan_cache.h
}

struct Runtime::Internals {
  ChunkPolicy chunk_policy;
  Ownership owners;
  std::optional<Owners> stage_owners;  // for tests: of all that stages make chunk by chunk
  int product_layers = 0;              // for tests: of ranks in products; 0: as is best
  plan::PassNames passes_off;
  exec::Decompress decompress = exec::Decompress::automatic;
  std::shared_ptr<exec::PlanCache> plans;
  int64_t message_piece_bytes = 0;  // of all ranks the least, as Service::create() takes it
  uint64_t runs = 0;       // lowered so far: tells messages of one from those of the next; the same on every rank
  uint64_t persisted = 0;  // arrays so far: tells them apart; the same on every rank
  // The last function without an identity (chunked/api/blocks.h); begins with the Runtime's number. The same on every
  // rank, and not that of any function of another Runtime of the process.
  std::atomic<uint64_t> functions{0};
  std::atomic<bool> any_run_started{false};
  std::mutex failure_mutex;
  std::optional<local::ErrorRecord> failure;              // what a callback threw: of this run or the next
  std::atomic<bool> interrupt{false};                     // from Runtime::interrupt() until a run has ended for it
  static_assert(std::atomic<bool>::is_always_lock_free);  // signal handlers set it
  // For estimates of what runs: the tool's progress. None: what tasks take is not estimated.
  std::optional<plan::Rates> rates;
  // Takes what would run, in place of running it: --plan. Does not return from the `last` computation that it is to
  // know of.
  std::function<void(const std::vector<expr::NodePtr>& nodes, bool write, bool last)> instead_of_running;
  // Computes in place of persist(), where results outlive the run (chunked/api/saved_steps.h).
  std::function<std::vector<std::shared_ptr<exec::StoredArray>>(
      const std::vector<expr::NodePtr>& nodes, std::string_view call, size_t to_host, exec::HostValues why)>
      persist_saving;
  // Takes why the chunks of what runs are not what they would be by default.
  std::function<void(const std::string& note)> take_note;
  // Attributes of every data set that is written, beside its chunks: who made it.
  std::map<std::string, std::string> provenance;
  // Seconds between saved states, where the tool says so; else as the environment says (Option::save_every).
  std::optional<double> save_every;
  std::atomic<int64_t> read_bytes{0}, written_bytes{0}, stolen_chunks{0};
  std::atomic<int64_t> decoded_bytes{0}, reread_bytes{0};
};

}  // namespace quarry
