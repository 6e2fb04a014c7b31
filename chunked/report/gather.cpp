#include "quarry/chunked/report/gather.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "quarry/chunked/report/thinning.h"
#include "quarry/local/base/error.h"

namespace quarry::report {
namespace {

constexpr uint64_t kClockTag = 0x7265706f72740001;  // plans' tags carry small epochs
constexpr uint64_t kPartTag = 0x7265706f72740002;
// The exchange that took least time says most about the clocks.
constexpr int kClockRounds = 8;

int64_t ask_clock(comm::Communicator& communicator, int of) {
  int64_t best_offset = 0, best_time = INT64_MAX;
  for (int round = 0; round < kClockRounds; ++round) {
    int64_t asked = local::trace_clock_ns(), answered = 0;
    const auto answer = communicator.receive(&answered, sizeof answered, of, kClockTag);
    communicator.send(&asked, sizeof asked, of, kClockTag)->wait();
    answer->wait();
    const int64_t received = local::trace_clock_ns();
    if (received - asked >= best_time) continue;
    best_time = received - asked;
    best_offset = clock_offset_ns(asked, answered, received);
  }
  return best_offset;
}

void answer_clock(comm::Communicator& communicator, int rank) {
  for (int round = 0; round < kClockRounds; ++round) {
    int64_t asked = 0;
    communicator.receive(&asked, sizeof asked, rank, kClockTag)->wait();
    const int64_t now = local::trace_clock_ns();
    communicator.send(&now, sizeof now, rank, kClockTag)->wait();
  }
}

// Each with its length.
std::string pack(const std::vector<RankTrace>& traces) {
  std::string packed;
  for (const RankTrace& trace : traces) {
    const std::string part = serialize(trace);
    const auto bytes = static_cast<int64_t>(part.size());
    packed.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    packed += part;
  }
  return packed;
}

void unpack(std::string_view packed, const std::function<void(RankTrace)>& append) {
  while (!packed.empty()) {
    int64_t bytes = 0;
    QUARRY_CHECK(packed.size() >= sizeof bytes);
    std::memcpy(&bytes, packed.data(), sizeof bytes);
    packed.remove_prefix(sizeof bytes);
    append(deserialize(packed.substr(0, static_cast<size_t>(bytes))));
    packed.remove_prefix(static_cast<size_t>(bytes));
  }
}

}  // namespace

RankTrace rank_trace(const Runtime& runtime, std::vector<local::TraceEvent> events) {
  RankTrace part;
  part.rank = runtime.rank();
  char host[256] = {};
  part.host = gethostname(host, sizeof host - 1) == 0 ? host : "";
  const local::Device device = runtime.device();
  part.device = device.kind == local::DeviceKind::cuda
                    ? local::backend(device.kind).info(device.index).name
                    : fmt::format("{}, {} thread{}", local::name(device.kind), runtime.threads(),
                                  runtime.threads() == 1 ? "" : "s");
  const RunStatistics totals = runtime.statistics();
  part.memory_limit_bytes = runtime.memory_bytes();
  part.memory_peak_bytes = totals.peak_device_bytes;
  part.read_bytes = totals.read_bytes;
  part.written_bytes = totals.written_bytes;
  part.spilled_bytes = totals.spilled_bytes;
  part.restored_bytes = totals.restored_bytes;
  if (device.kind != local::DeviceKind::cpu) {
    part.host_limit_bytes = runtime.host_bytes();
    part.host_peak_bytes = totals.peak_host_bytes;
  }
  part.communicated_bytes = totals.communicated_bytes;
  part.tasks = totals.tasks;
  part.stolen_chunks = totals.stolen_chunks;
  double flops = 0;
  for (const local::TraceEvent& event : events) flops += event.flops;
  part.flops = static_cast<int64_t>(std::min(flops, 9e18));
  part.events = std::move(events);
  return part;
}

std::vector<RankTrace> gather_traces(comm::Communicator& communicator, RankTrace mine) {
  comm::agree(communicator, nullptr, {"gather_traces"});
  const int rank = communicator.rank(), size = communicator.size();
  // Of very many ranks some show their events, each for those behind it.
  constexpr auto kMostShown = static_cast<int>(kMostGathered / kLeastKept);
  const int together = (size - 1) / kMostShown + 1;
  if (rank % together != 0) mine.events.clear();
  thin_to(mine.events, std::max(kMostGathered / static_cast<size_t>(size), kLeastKept));
  std::vector<RankTrace> all;
  const auto append = [&](RankTrace next) {
    if (!all.empty() && all.back().rank / together == next.rank / together) {
      add_totals(all.back(), next);
    } else {
      all.push_back(std::move(next));
    }
  };
  // Along a binomial tree. A rank gets the traces of those behind it by its own clock and hands them on by its
  // parent's.
  append(std::move(mine));
  for (int step = 1; step < size; step *= 2) {
    if ((rank & step) != 0) {
      const int parent = rank - step;
      const int64_t offset_ns = ask_clock(communicator, parent);
      for (RankTrace& trace : all) align_clock(trace, offset_ns);
      const std::string packed = pack(all);
      const auto bytes = static_cast<int64_t>(packed.size());
      communicator.send(&bytes, sizeof bytes, parent, kPartTag)->wait();
      communicator.send(packed.data(), bytes, parent, kPartTag)->wait();
      all.clear();
      break;
    }
    const int child = rank + step;
    if (child >= size) continue;
    answer_clock(communicator, child);
    int64_t bytes = 0;
    communicator.receive(&bytes, sizeof bytes, child, kPartTag)->wait();
    std::string packed(static_cast<size_t>(bytes), '\0');
    communicator.receive(packed.data(), bytes, child, kPartTag)->wait();
    unpack(packed, append);
  }
  communicator.barrier();
  return all;
}

}  // namespace quarry::report
