// The transport over MPI point-to-point messages: frames on a communicator of their own into pre-posted receives, data
// on another one, in segments that an int can count.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <vector>

#include "quarry/comm/mpi/job.h"

namespace quarry::comm::mpi {

namespace {

constexpr int64_t kSegmentBytes = int64_t{1} << 30;
constexpr int kFrameTag = 0;
constexpr int kPostedFrames = 64;

class MpiTransport : public Transport {
 public:
  MpiTransport(MPI_Comm frames, MPI_Comm data)
      : frames_(frames), data_(data), memory_(static_cast<size_t>(kPostedFrames * kMaxFrameBytes)) {
    const std::lock_guard guard(lock());
    void* attribute = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(data_, MPI_TAG_UB, &attribute, &found), "MPI_Comm_get_attr");
    tags_ = found ? static_cast<uint64_t>(*static_cast<int*>(attribute)) : 32767;
    posted_.resize(kPostedFrames, MPI_REQUEST_NULL);
    for (int i = 0; i < kPostedFrames; ++i) post_receive(i);
  }

  ~MpiTransport() override {
    const std::lock_guard guard(lock());
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized) return;
    for (MPI_Request& request : posted_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }

  const char* name() const override { return "mpi"; }

  void post(int to, std::span<const std::byte> frame) override {
    auto copy = std::make_unique<std::byte[]>(frame.size());
    std::memcpy(copy.get(), frame.data(), frame.size());
    MPI_Request request = MPI_REQUEST_NULL;
    const std::lock_guard guard(lock());
    check(MPI_Isend(copy.get(), static_cast<int>(frame.size()), MPI_BYTE, to, kFrameTag, frames_, &request),
          "MPI_Isend");
    add(request, {nullptr, 0, to, std::move(copy)});
  }

  void send(int to, uint64_t id, const void* data, int64_t bytes, MemoryKind /*memory*/,
            const TransferPtr& transfer) override {
    const std::lock_guard guard(lock());
    auto joint = std::make_shared<Segments>(Segments{transfer, 0});
    for (int64_t at = 0; at < bytes; at += kSegmentBytes) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int count = static_cast<int>(std::min(kSegmentBytes, bytes - at));
      check(MPI_Isend(static_cast<const std::byte*>(data) + at, count, MPI_BYTE, to, tag(id), data_, &request),
            "MPI_Isend");
      ++joint->left;
      add(request, {joint, count, to, nullptr});
    }
  }

  void receive(int from, uint64_t id, void* data, int64_t bytes, MemoryKind /*memory*/,
               const TransferPtr& transfer) override {
    const std::lock_guard guard(lock());
    auto joint = std::make_shared<Segments>(Segments{transfer, 0});
    for (int64_t at = 0; at < bytes; at += kSegmentBytes) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int count = static_cast<int>(std::min(kSegmentBytes, bytes - at));
      check(MPI_Irecv(static_cast<std::byte*>(data) + at, count, MPI_BYTE, from, tag(id), data_, &request),
            "MPI_Irecv");
      ++joint->left;
      add(request, {joint, count, from, nullptr});
    }
  }

  // Sends to it stay with MPI, which cannot take them back; nobody waits for them.
  void abandon(int rank, const std::string& reason) override {
    const std::lock_guard guard(lock());
    for (Pending& pending : pending_) {
      if (pending.peer != rank || !pending.segments) continue;
      Transfer& transfer = *pending.segments->transfer;
      if (transfer.state == Transfer::State::pending) {
        transfer.fail(fmt::format("transfer with rank {}: {}", rank, reason));
      }
    }
    gone_.push_back(rank);
  }

  bool progress(TransportSink& sink) override {
    const std::lock_guard guard(lock());
    bool moved = receive_frames(sink);
    moved |= complete(sink);
    if (moved) idle_ = 0;
    return moved;
  }

  // MPI has nothing to sleep on: short sleeps that grow while nothing happens.
  void wait_for_event(double seconds) override {
    constexpr double kShortest = 20e-6, kLongest = 1e-3;
    std::unique_lock guard(sleep_mutex_);
    const double nap = std::min({seconds, kLongest, kShortest * static_cast<double>(1 << std::min(idle_ / 8, 10))});
    ++idle_;
    wake_.wait_for(guard, std::chrono::duration<double>(nap), [this] { return woken_; });
    woken_ = false;
  }

  void wake() override {
    {
      const std::lock_guard guard(sleep_mutex_);
      woken_ = true;
    }
    wake_.notify_all();
  }

  void close(TransportSink& sink, double seconds) override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    Backoff backoff;
    while (std::chrono::steady_clock::now() < end) {
      if (progress(sink)) backoff.reset();
      {
        const std::lock_guard guard(lock());
        const bool reachable = std::ranges::any_of(
            pending_, [this](const Pending& pending) { return !std::ranges::count(gone_, pending.peer); });
        if (!reachable) break;
      }
      backoff.pause();
    }
  }

 private:
  struct Segments {
    TransferPtr transfer;
    int64_t left;
  };
  struct Pending {
    std::shared_ptr<Segments> segments;  // null: a frame
    int bytes;
    int peer;
    std::unique_ptr<std::byte[]> frame;
  };

  int tag(uint64_t id) const { return static_cast<int>(id % tags_); }

  void post_receive(int i) {
    check(MPI_Irecv(memory_.data() + static_cast<int64_t>(i) * kMaxFrameBytes, static_cast<int>(kMaxFrameBytes),
                    MPI_BYTE, MPI_ANY_SOURCE, kFrameTag, frames_, &posted_[static_cast<size_t>(i)]),
          "MPI_Irecv");
  }

  void add(MPI_Request request, Pending pending) {
    requests_.push_back(request);
    pending_.push_back(std::move(pending));
  }

  // Messages match the posted receives in the order of posting, so handling them in that order keeps senders' orders.
  bool receive_frames(TransportSink& sink) {
    bool moved = false;
    for (;;) {
      int done = 0;
      MPI_Status status;
      MPI_Request& request = posted_[static_cast<size_t>(head_)];
      check(MPI_Test(&request, &done, &status), "MPI_Test");
      if (!done) return moved;
      moved = true;
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      sink.receive_frame(status.MPI_SOURCE,
                         {memory_.data() + static_cast<int64_t>(head_) * kMaxFrameBytes, static_cast<size_t>(bytes)});
      post_receive(head_);
      head_ = (head_ + 1) % kPostedFrames;
    }
  }

  bool complete(TransportSink& sink) {
    if (requests_.empty()) return false;
    finished_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    const int code =
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(), statuses_.data());
    if (code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
    if (count <= 0) return false;
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(finished_[static_cast<size_t>(i)]);
      Pending& pending = pending_[at];
      const MPI_Status& status = statuses_[static_cast<size_t>(i)];
      if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
        char text[MPI_MAX_ERROR_STRING] = {};
        int length = 0;
        MPI_Error_string(status.MPI_ERROR, text, &length);
        sink.report_lost(pending.peer, text);
        if (pending.segments)
          pending.segments->transfer->fail(fmt::format("transfer with rank {}: {}", pending.peer, text));
      } else if (pending.segments && --pending.segments->left == 0 &&
                 pending.segments->transfer->state == Transfer::State::pending) {
        pending.segments->transfer->finish();
      }
    }
    // Finished requests are null now; the others keep their order.
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      if (kept != i) pending_[kept] = std::move(pending_[i]);
      ++kept;
    }
    requests_.resize(kept);
    pending_.resize(kept);
    return true;
  }

  MPI_Comm frames_, data_;

  uint64_t tags_ = 32767;
  std::vector<std::byte> memory_;
  std::vector<MPI_Request> posted_;
  int head_ = 0;
  // Under way, in parallel arrays as MPI_Testsome wants them.
  std::vector<MPI_Request> requests_;
  std::vector<Pending> pending_;
  std::vector<int> finished_;
  std::vector<MPI_Status> statuses_;
  std::vector<int> gone_;  // ranks

  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
  std::atomic<int> idle_{0};
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm frames, MPI_Comm data) {
  return std::make_unique<MpiTransport>(frames, data);
}

}  // namespace quarry::comm::mpi
