#include "quarry/chunked/exec/paths/peer_reads.h"

#include <algorithm>
#include <utility>

#include "quarry/chunked/exec/device_pack.h"
#include "quarry/local/base/log.h"
#include "quarry/local/device/sharing.h"

namespace quarry::exec {
namespace {

// Hyperslabs of few or long runs go by the copy engines, if there is enough of them: a copy takes the host several
// microseconds.
constexpr int64_t kFewRuns = 8;
constexpr int64_t kLongRunBytes = int64_t{1} << 20;
constexpr int64_t kEngineBytes = int64_t{4} << 20;

// While one kernel ends the next is under way.
constexpr size_t kKernelLines = 2;
constexpr size_t kQueuedBatches = 2;  // of a line
constexpr size_t kBatchHyperslabs = 96;
constexpr int64_t kBatchBytes = int64_t{64} << 20;

}  // namespace

PeerReads::PeerReads(local::Device device, int ranks)
    : device_(device), lines_(static_cast<size_t>(ranks) + kKernelLines), waiting_(static_cast<size_t>(ranks)) {}

PeerReads::~PeerReads() {
  try {
    for (const Line& line : lines_) {
      if (line.stream) line.stream->synchronize();
    }
  } catch (const std::exception& error) {
    local::log(local::LogLevel::debug, error.what());
  }
}

PeerReads::Line& PeerReads::open_line(size_t index) {
  Line& line = lines_[index];
  if (!line.stream) {
    line.stream = local::backend(device_.kind).create_stream(device_.index, local::StreamRole::to_device);
  }
  return line;
}

void PeerReads::add(uint32_t fetch, int owner, const Hyperslab& hyperslab, const void* block, void* to) {
  const HyperslabRuns runs(hyperslab);
  const auto copy = runs.device_copy(block, to);
  const bool short_runs = runs.bytes() > kFewRuns * runs.run_bytes() && runs.run_bytes() < kLongRunBytes;
  if (copy && (short_runs || runs.bytes() < kEngineBytes)) {
    waiting_[static_cast<size_t>(owner)].push_back({fetch, *copy});
    start_batches();
    return;
  }
  Line& line = open_line(static_cast<size_t>(owner));
  if (copy) {
    local::memory_sharing(device_.kind)->copy_boxes(std::span(&*copy, 1), *line.stream, local::CopyBy::engines);
  } else {
    pack_on_device(hyperslab, block, to, *line.stream);
  }
  finish_queueing(line, {fetch});
}

void PeerReads::finish_queueing(Line& line, std::vector<uint32_t> fetches) {
  if (free_events_.empty()) free_events_.push_back(local::backend(device_.kind).create_event(device_.index));
  std::unique_ptr<local::DeviceEvent> done = std::move(free_events_.back());
  free_events_.pop_back();
  line.stream->record(*done);
  line.queued.push_back({std::move(fetches), std::move(done)});
  ++under_way_;
}

// As many hyperslabs of every owner as of the others, while there are any.
std::vector<uint32_t> PeerReads::take_batch(std::vector<local::BoxCopy>& copies) {
  std::vector<uint32_t> fetches;
  int64_t bytes = 0;
  for (bool more = true; more && bytes < kBatchBytes;) {
    more = false;
    for (size_t turn = 0; turn < waiting_.size() && fetches.size() < kBatchHyperslabs; ++turn) {
      std::deque<Waiting>& waiting = waiting_[next_owner_];
      next_owner_ = (next_owner_ + 1) % waiting_.size();
      if (waiting.empty()) continue;
      fetches.push_back(waiting.front().fetch);
      copies.push_back(waiting.front().copy);
      bytes += copies.back().run_bytes * copies.back().runs();
      waiting.pop_front();
      more = true;
    }
  }
  return fetches;
}

bool PeerReads::start_batch(Line& line) {
  std::vector<local::BoxCopy> copies;
  std::vector<uint32_t> fetches = take_batch(copies);
  if (fetches.empty()) return false;
  local::memory_sharing(device_.kind)->copy_boxes(copies, *line.stream, local::CopyBy::kernel);
  finish_queueing(line, std::move(fetches));
  return true;
}

void PeerReads::start_batches() {
  for (;;) {
    Line& line = open_line(lines_.size() - kKernelLines + next_line_);
    if (line.queued.size() >= kQueuedBatches || !start_batch(line)) return;
    next_line_ = (next_line_ + 1) % kKernelLines;
  }
}

bool PeerReads::poll(const Over& over) {
  bool moved = false;
  for (Line& line : lines_) {
    while (!line.queued.empty() && line.queued.front().done->done()) {
      Queued queued = std::move(line.queued.front());
      line.queued.pop_front();
      --under_way_;
      moved = true;
      std::exception_ptr error;
      try {
        queued.done->synchronize();  // throws what the copies threw
      } catch (...) {
        error = std::current_exception();
      }
      free_events_.push_back(std::move(queued.done));
      for (const uint32_t fetch : queued.fetches) over(fetch, error);
    }
  }
  if (moved) start_batches();
  return moved;
}

bool PeerReads::holds(uint32_t fetch) const {
  const auto waits = [&](const Waiting& one) { return one.fetch == fetch; };
  if (std::ranges::any_of(waiting_, [&](const auto& of) { return std::ranges::any_of(of, waits); })) return true;
  return std::ranges::any_of(lines_, [&](const Line& line) {
    return std::ranges::any_of(line.queued,
                               [&](const Queued& queued) { return std::ranges::count(queued.fetches, fetch) > 0; });
  });
}

}  // namespace quarry::exec
