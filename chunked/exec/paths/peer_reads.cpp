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
constexpr int64_t kEngineBytesUnderWay = int64_t{256} << 20;  // 700 us of a copy engine

// While one kernel ends the next is under way.
constexpr size_t kKernelLines = 2;
constexpr size_t kQueuedBatches = 2;  // of a line
constexpr size_t kBatchHyperslabs = 96;
constexpr int64_t kBatchBytes = int64_t{64} << 20;

}  // namespace

PeerReads::PeerReads(local::Device device, int rank, int ranks)
    : device_(device),
      lines_(static_cast<size_t>(ranks) + kKernelLines),
      next_owner_(static_cast<size_t>((rank + 1) % ranks)),
      for_engines_(static_cast<size_t>(ranks)),
      for_kernels_(static_cast<size_t>(ranks)) {}

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
  if (!copy) {
    Line& line = open_line(static_cast<size_t>(owner));
    pack_on_device(hyperslab, block, to, *line.stream);
    finish_queueing(line, {fetch}, 0);
  } else if (short_runs || runs.bytes() < kEngineBytes) {
    for_kernels_[static_cast<size_t>(owner)].push_back({fetch, *copy});
    start_batches();
  } else {
    for_engines_[static_cast<size_t>(owner)].push_back({fetch, *copy});
    start_engines();
  }
}

void PeerReads::finish_queueing(Line& line, std::vector<uint32_t> fetches, int64_t engine_bytes) {
  if (free_events_.empty()) free_events_.push_back(local::backend(device_.kind).create_event(device_.index));
  std::unique_ptr<local::DeviceEvent> done = std::move(free_events_.back());
  free_events_.pop_back();
  line.stream->record(*done);
  line.queued.push_back({std::move(fetches), std::move(done), engine_bytes});
  engine_bytes_ += engine_bytes;
  ++under_way_;
}

// The next one in turn that something is to be read from.
std::optional<size_t> PeerReads::next_owner(const Waitings& waiting) {
  for (size_t turn = 0; turn < waiting.size(); ++turn) {
    const size_t owner = next_owner_;
    next_owner_ = (next_owner_ + 1) % waiting.size();
    if (!waiting[owner].empty()) return owner;
  }
  return std::nullopt;
}

void PeerReads::start_engines() {
  while (engine_bytes_ < kEngineBytesUnderWay) {
    const std::optional<size_t> owner = next_owner(for_engines_);
    if (!owner) return;
    const Waiting next = for_engines_[*owner].front();
    for_engines_[*owner].pop_front();
    Line& line = open_line(*owner);
    local::memory_sharing(device_.kind)->copy_boxes(std::span(&next.copy, 1), *line.stream, local::CopyBy::engines);
    finish_queueing(line, {next.fetch}, next.copy.run_bytes * next.copy.runs());
  }
}

// As many hyperslabs of every owner as of the others, while there are any.
std::vector<uint32_t> PeerReads::take_batch(std::vector<local::BoxCopy>& copies) {
  std::vector<uint32_t> fetches;
  int64_t bytes = 0;
  while (bytes < kBatchBytes && fetches.size() < kBatchHyperslabs) {
    const std::optional<size_t> owner = next_owner(for_kernels_);
    if (!owner) break;
    const Waiting& next = for_kernels_[*owner].front();
    fetches.push_back(next.fetch);
    copies.push_back(next.copy);
    bytes += next.copy.run_bytes * next.copy.runs();
    for_kernels_[*owner].pop_front();
  }
  return fetches;
}

bool PeerReads::start_batch(Line& line) {
  std::vector<local::BoxCopy> copies;
  std::vector<uint32_t> fetches = take_batch(copies);
  if (fetches.empty()) return false;
  local::memory_sharing(device_.kind)->copy_boxes(copies, *line.stream, local::CopyBy::kernel);
  finish_queueing(line, std::move(fetches), 0);
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
      engine_bytes_ -= queued.engine_bytes;
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
  if (moved) {
    start_engines();
    start_batches();
  }
  return moved;
}

bool PeerReads::holds(uint32_t fetch) const {
  const auto waits = [&](const Waiting& one) { return one.fetch == fetch; };
  for (const Waitings* waiting : {&for_engines_, &for_kernels_})
    if (std::ranges::any_of(*waiting, [&](const auto& of) { return std::ranges::any_of(of, waits); })) return true;
  return std::ranges::any_of(lines_, [&](const Line& line) {
    return std::ranges::any_of(line.queued,
                               [&](const Queued& queued) { return std::ranges::count(queued.fetches, fetch) > 0; });
  });
}

}  // namespace quarry::exec
