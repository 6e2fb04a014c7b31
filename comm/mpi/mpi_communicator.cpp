#include "quarry/comm/mpi/mpi_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "quarry/comm/monitor/activity.h"
#include "quarry/comm/monitor/watchdog.h"
#include "quarry/local/base/log.h"

namespace quarry::comm::mpi {

namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 30;  // what one call of MPI moves

MPI_Op operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
  }
  return MPI_OP_NULL;
}

MemoryKind memory_of(local::DeviceKind kind) {
  switch (kind) {
    case local::DeviceKind::cpu:
      return MemoryKind::host;
    case local::DeviceKind::cuda:
      return MemoryKind::cuda;
    case local::DeviceKind::emulated:
      return MemoryKind::emulated;
    case local::DeviceKind::trial:
      break;  // which holds nothing to be sent
  }
  return MemoryKind::host;
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::shared_ptr<Job> job, MPI_Comm comm) : job_(std::move(job)), comm_(comm) {
  std::vector<int> members;
  {
    const std::lock_guard guard(lock());
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  members.resize(static_cast<size_t>(size_));
  int64_t last = endpoint().last_channel();
  int64_t highest = 0;
  const int mine = endpoint().rank();
  // No channel yet, so no check of members: all of them are in this call.
  const auto run = [this](const char* call, const std::function<int(MPI_Request*)>& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    {
      const std::lock_guard guard(lock());
      check(start(&request), call);
    }
    Backoff backoff;
    for (int done = 0; !done;) {
      {
        const std::lock_guard guard(lock());
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
      }
      if (!done && !endpoint().progress()) backoff.pause();
    }
  };
  run("MPI_Iallgather", [&](MPI_Request* request) {
    return MPI_Iallgather(&mine, 1, MPI_INT, members.data(), 1, MPI_INT, comm_, request);
  });
  run("MPI_Iallreduce",
      [&](MPI_Request* request) { return MPI_Iallreduce(&last, &highest, 1, MPI_INT64_T, MPI_MAX, comm_, request); });
  const std::vector<int>& nodes = job_->nodes();
  const int node = nodes[static_cast<size_t>(mine)];
  node_size_ = 0;
  for (int r = 0; r < size_; ++r) {
    node_of_.push_back(nodes[static_cast<size_t>(members[static_cast<size_t>(r)])]);
    if (node_of_.back() != node) continue;
    if (r < rank_) ++node_rank_;
    ++node_size_;
  }
  channel_ = static_cast<uint32_t>(highest) + 1;
  endpoint().open_channel(channel_, std::move(members), rank_);
}

MpiCommunicator::~MpiCommunicator() {
  const bool lost = endpoint().is_any_lost();
  endpoint().close_channel(channel_, leaving(std::uncaught_exceptions() > exceptions_));
  const std::lock_guard guard(lock());
  int finalized = 0;
  MPI_Finalized(&finalized);
  // MPI_Comm_free is collective in principle; after an error the others may never come.
  if (!finalized && !lost && !endpoint().is_broken()) MPI_Comm_free(&comm_);
}

void MpiCommunicator::finish(const char* call, const std::function<int(MPI_Request*)>& start) {
  const int64_t number = calls_ + 1;
  if (endpoint().is_broken()) endpoint().check_members(channel_, number);
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const std::lock_guard guard(lock());
    check(start(&request), call);
  }
  // A rank may have left already: the root of a broadcast, say, that was done before this rank came to it. So even then
  // the call gets its chance.
  Backoff backoff;
  std::optional<Watchdog> watchdog;  // for those that take a while
  struct EndOfWait {
    const std::optional<Watchdog>& watchdog;
    ~EndOfWait() {
      if (watchdog) --activity().waiting;
    }
  } const end_of_wait{watchdog};
  for (;;) {
    int done = 0;
    {
      const std::lock_guard guard(lock());
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    }
    if (done) {
      calls_ = number;
      activity().progress.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    if (!watchdog) {
      watchdog.emplace();
      ++activity().waiting;
    }
    if (watchdog->is_stalled(0)) {
      local::log(local::LogLevel::warn,
                 fmt::format("waiting in {} ({} of {} ranks) for {:.3g} s: another rank has not come to it",
                             name_of(call), call, size_, watchdog->seconds()));
    }
    if (waiting_work_ ? waiting_work_() : endpoint().progress()) {
      backoff.reset();
      continue;
    }
    try {
      endpoint().check_members(channel_, number);
    } catch (const local::Error&) {
      endpoint().mark_broken();
      local::ErrorRecord error = local::to_record(std::current_exception());
      error.message = fmt::format("{}: {}", name_of(call), error.message);
      local::throw_record(error);
    }
    backoff.pause();
  }
}

void MpiCommunicator::finish(const char* call, std::span<std::byte> data, bool reads,
                             const std::function<int(void* memory, MPI_Request*)>& start) {
  // What this rank gives up the others go on with, and MPI with it: the memory has to stay.
  constexpr size_t kMostCopied = size_t{1} << 20;
  if (data.size() > kMostCopied) {
    try {
      finish(call, [&](MPI_Request* request) { return start(data.data(), request); });
    } catch (...) {
      job_->be_quiet();
      throw;
    }
    return;
  }
  auto copy = std::make_unique<std::byte[]>(data.size());
  if (!data.empty()) std::memcpy(copy.get(), data.data(), data.size());
  try {
    finish(call, [&](MPI_Request* request) { return start(copy.get(), request); });
  } catch (...) {
    static_cast<void>(copy.release());
    throw;
  }
  if (reads && !data.empty()) std::memcpy(data.data(), copy.get(), data.size());
}

bool MpiCommunicator::leave(bool unwinding) {
  return endpoint().leave_channel(channel_, leaving(unwinding), [this] { job_->make_progress(); });
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  // When all ranks are here, MPI's blocking call ends without anything else that this process would have to do.
  barrier();
  MPI_Comm part = MPI_COMM_NULL;
  {
    const std::lock_guard guard(lock());
    check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
  }
  if (part == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiCommunicator>(job_, part);
}

void MpiCommunicator::barrier() {
  finish("MPI_Ibarrier", [this](MPI_Request* request) { return MPI_Ibarrier(comm_, request); });
}

void MpiCommunicator::broadcast(void* data, int64_t bytes, int root) {
  if (root < 0 || root >= size_) {
    throw local::InvalidArgument(fmt::format("root {} in a communicator of {} ranks", root, size_));
  }
  auto* at = static_cast<std::byte*>(data);
  for (int64_t left = bytes; left > 0; left -= kPieceBytes, at += kPieceBytes) {
    const int count = static_cast<int>(std::min(left, kPieceBytes));
    finish(
        "MPI_Ibcast", {at, static_cast<size_t>(count)}, /*reads=*/root != rank_,
        [&](void* memory, MPI_Request* request) { return MPI_Ibcast(memory, count, MPI_BYTE, root, comm_, request); });
  }
  if (root == rank_ && size_ > 1) endpoint().count_sent(bytes);
}

void MpiCommunicator::all_gather(const void* mine, int64_t bytes_each, void* all) {
  if (bytes_each <= 0) return;
  auto* to = static_cast<std::byte*>(all);
  std::byte* own = to + static_cast<int64_t>(rank_) * bytes_each;
  if (mine != own) std::memmove(own, mine, static_cast<size_t>(bytes_each));
  if (bytes_each <= kPieceBytes / size_) {
    const int count = static_cast<int>(bytes_each);
    finish("MPI_Iallgather", {to, static_cast<size_t>(bytes_each * size_)}, /*reads=*/true,
           [&](void* memory, MPI_Request* request) {
             return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, memory, count, MPI_BYTE, comm_, request);
           });
    if (size_ > 1) endpoint().count_sent(bytes_each);
    return;
  }
  for (int r = 0; r < size_; ++r) broadcast(to + static_cast<int64_t>(r) * bytes_each, bytes_each, r);
}

void MpiCommunicator::all_reduce(std::span<int64_t> values, ReduceOp op) {
  constexpr size_t kSegment = static_cast<size_t>(kPieceBytes) / sizeof(int64_t);
  for (size_t at = 0; at < values.size(); at += kSegment) {
    const std::span segment = values.subspan(at, std::min(kSegment, values.size() - at));
    finish("MPI_Iallreduce", std::as_writable_bytes(segment), /*reads=*/true, [&](void* memory, MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, memory, static_cast<int>(segment.size()), MPI_INT64_T, operation(op), comm_,
                            request);
    });
  }
}

void MpiCommunicator::all_reduce(std::span<double> values, ReduceOp op) {
  // MPI's own all-reduce need not give the same bits everywhere.
  constexpr size_t kSegment = static_cast<size_t>(kPieceBytes) / sizeof(double);
  for (size_t at = 0; at < values.size(); at += kSegment) {
    const std::span segment = values.subspan(at, std::min(kSegment, values.size() - at));
    const int count = static_cast<int>(segment.size());
    finish("MPI_Ireduce", std::as_writable_bytes(segment), /*reads=*/rank_ == 0,
           [&](void* memory, MPI_Request* request) {
             return rank_ == 0 ? MPI_Ireduce(MPI_IN_PLACE, memory, count, MPI_DOUBLE, operation(op), 0, comm_, request)
                               : MPI_Ireduce(memory, nullptr, count, MPI_DOUBLE, operation(op), 0, comm_, request);
           });
    broadcast(segment.data(), static_cast<int64_t>(segment.size_bytes()), /*root=*/0);
  }
}

std::unique_ptr<Request> MpiCommunicator::send(const void* data, int64_t bytes, int to, uint64_t tag) {
  return endpoint().send(channel_, data, bytes, to, tag);
}

std::unique_ptr<Request> MpiCommunicator::receive(void* data, int64_t bytes, int from, uint64_t tag) {
  return endpoint().receive(channel_, data, bytes, from, tag);
}

bool MpiCommunicator::moves_memory_of(local::DeviceKind kind) const {
  return kind == local::DeviceKind::cuda ? job_->moves_cuda() : endpoint().moves(memory_of(kind));
}

std::unique_ptr<Request> MpiCommunicator::send_device(local::DeviceKind kind, const void* data, int64_t bytes, int to,
                                                      uint64_t tag) {
  return endpoint().send(channel_, data, bytes, to, tag, memory_of(kind));
}

std::unique_ptr<Request> MpiCommunicator::receive_device(local::DeviceKind kind, void* data, int64_t bytes, int from,
                                                         uint64_t tag) {
  return endpoint().receive(channel_, data, bytes, from, tag, memory_of(kind));
}

void MpiCommunicator::set_handler(Handler handler) { endpoint().set_handler(channel_, std::move(handler)); }
void MpiCommunicator::post(int to, std::span<const std::byte> message) { endpoint().post(channel_, to, message); }

}  // namespace quarry::comm::mpi
