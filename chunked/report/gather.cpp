#include "quarry/chunked/report/gather.h"

#include <fmt/format.h>
#include <unistd.h>

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
  part.events = std::move(events);
  return part;
}

std::vector<RankTrace> gather_traces(comm::Communicator& communicator, RankTrace mine) {
  comm::agree(communicator, nullptr, {"gather_traces"});
  const int rank = communicator.rank(), size = communicator.size();
  // Of very many ranks some show their events; the totals are of all.
  constexpr auto kMostShown = static_cast<int>(kMostGathered / kLeastKept);
  if (rank % ((size - 1) / kMostShown + 1) != 0) mine.events.clear();
  thin_to(mine.events, std::max(kMostGathered / static_cast<size_t>(size), kLeastKept));
  // Along a binomial tree. A rank gets the traces of those behind it by its own clock and hands them on by its
  // parent's.
  std::vector<RankTrace> all;
  all.push_back(std::move(mine));
  for (int step = 1; step < size; step *= 2) {
    if ((rank & step) != 0) {
      const int parent = rank - step;
      const int64_t offset_ns = ask_clock(communicator, parent);
      for (RankTrace& trace : all) {
        align_clock(trace, offset_ns);
        const std::string part = serialize(trace);
        const auto bytes = static_cast<int64_t>(part.size());
        communicator.send(&bytes, sizeof bytes, parent, kPartTag)->wait();
        communicator.send(part.data(), bytes, parent, kPartTag)->wait();
      }
      all.clear();
      break;
    }
    const int child = rank + step;
    if (child >= size) continue;
    answer_clock(communicator, child);
    for (int behind = child; behind < std::min(child + step, size); ++behind) {
      int64_t bytes = 0;
      communicator.receive(&bytes, sizeof bytes, child, kPartTag)->wait();
      std::string part(static_cast<size_t>(bytes), '\0');
      communicator.receive(part.data(), bytes, child, kPartTag)->wait();
      all.push_back(deserialize(part));
    }
  }
  communicator.barrier();
  return all;
}

}  // namespace quarry::report
