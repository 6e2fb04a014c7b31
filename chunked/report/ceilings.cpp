#include "quarry/chunked/report/ceilings.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>
#include <thread>

#include "quarry/comm/communicator.h"
#include "quarry/local/base/nameless_file.h"
#include "quarry/local/base/thread.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::report {
namespace {

constexpr int64_t kMostBytes = int64_t{64} << 20, kLeastBytes = int64_t{1} << 20;
constexpr int kRepeats = 3;
constexpr uint64_t kTag = 0x7265706f72740003;  // plans' tags carry small epochs

using Clock = std::chrono::steady_clock;

// The best of a few.
double rate_of(int64_t bytes, const std::function<void()>& call) {
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = Clock::now();
    call();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (seconds > 0) best = std::max(best, static_cast<double>(bytes) / seconds);
  }
  return best;
}

// `threads` threads copy parts of the same bytes.
void split_copy(std::span<char> to, std::span<const char> from, int threads) {
  std::vector<std::jthread> workers;
  const int64_t bytes = std::ssize(to), part = bytes / threads;
  for (int i = 0; i < threads; ++i) {
    const int64_t begin = i * part, end = i + 1 == threads ? bytes : begin + part;
    workers.push_back(local::start_joined_thread("measuring copies", [=](const std::stop_token& /*stop*/) {
      std::memcpy(to.data() + begin, from.data() + begin, static_cast<size_t>(end - begin));
    }));
  }
}

void measure_file(const std::string& directory, std::vector<char>& data, std::vector<TrackCeiling>& found) {
  const int file = local::open_nameless_file(directory, "ceiling");
  if (file < 0) return;
  bool whole = true;
  const int64_t bytes = std::ssize(data);
  const auto transfer = [&](auto call) {
    return rate_of(bytes, [&] {
      for (int64_t at = 0; at < bytes && whole;) {
        const ssize_t n = call(at);
        whole = n > 0;
        at += n;
      }
    });
  };
  const auto left = [&](int64_t at) { return static_cast<size_t>(std::min<int64_t>(bytes - at, 4 << 20)); };
  const double write = transfer([&](int64_t at) { return pwrite(file, data.data() + at, left(at), at); });
  const double read = transfer([&](int64_t at) { return pread(file, data.data() + at, left(at), at); });
  close(file);
  if (!whole) return;
  found.push_back({"read", read});
  found.push_back({"write", write});
  found.push_back({"spill", write});
}

void measure_device(local::Device device, int64_t bytes, std::vector<TrackCeiling>& found) {
  const local::ExecContext context = local::default_context(device);
  local::Backend& backend = local::backend(device.kind);
  void* const host = backend.allocate_pinned(bytes);
  std::memset(host, 1, bytes);
  {
    const local::Buffer a(bytes, *context.memory, context.stream), b(bytes, *context.memory, context.stream);
    const auto rate = [&](void* to, const void* from) {
      return rate_of(bytes, [&] {
        context.stream->copy(to, from, bytes);
        context.stream->synchronize();
      });
    };
    found.push_back({"h2d", rate(a.data(), host)});
    found.push_back({"d2h", rate(host, a.data())});
    found.push_back({"compute", rate(b.data(), a.data())});
  }
  backend.free_pinned(host, bytes);
  context.memory->free_unused();
}

// Every rank to the next one at the same time.
void measure_messages(comm::Communicator& communicator, std::vector<char>& data, std::vector<TrackCeiling>& found) {
  const int size = communicator.size(), rank = communicator.rank();
  if (size < 2) return;
  std::vector<char> arrived(data.size());
  communicator.barrier();
  found.push_back({"comm", rate_of(std::ssize(data), [&] {
                     const auto receive =
                         communicator.receive(arrived.data(), std::ssize(data), (rank + size - 1) % size, kTag);
                     communicator.send(data.data(), std::ssize(data), (rank + 1) % size, kTag)->wait();
                     receive->wait();
                   })});
}

}  // namespace

std::vector<TrackCeiling> measure_ceilings(Runtime& runtime) {
  std::vector<TrackCeiling> found;
  // What is copied and where to, in the memory that the run had.
  constexpr int64_t kPart = 4;
  const bool on_device = runtime.device().kind != local::DeviceKind::cpu;
  int64_t bytes[] = {(on_device ? runtime.host_bytes() : runtime.memory_bytes()) / kPart};
  runtime.communicator().all_reduce(bytes, comm::ReduceOp::min);
  bytes[0] = std::clamp(bytes[0], kLeastBytes, kMostBytes);
  std::vector<char> data(static_cast<size_t>(bytes[0]), 1);
  measure_file(runtime.options().spill_dir, data, found);
  if (runtime.device().kind == local::DeviceKind::cpu) {
    std::vector<char> to(data.size(), 2);
    const double copy = rate_of(bytes[0], [&] { split_copy(to, data, runtime.threads()); });
    found.push_back({"compute", copy});
  } else {
    try {
      measure_device(runtime.device(), bytes[0], found);
    } catch (const local::Error&) {
      // The device's memory may be taken.
    }
  }
  measure_messages(runtime.communicator(), data, found);
  return found;
}

}  // namespace quarry::report
