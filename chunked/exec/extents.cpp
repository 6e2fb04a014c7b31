#include "quarry/chunked/exec/extents.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "quarry/local/base/error.h"

namespace quarry::exec {

Extents::Extents(comm::Communicator& communicator, std::function<int64_t(int64_t bytes)> reserve)
    : rank_(communicator.rank()), reserve_(std::move(reserve)) {
  if (communicator.size() == 1) return;
  messages_ = communicator.split(/*color=*/0, rank_);
  messages_->set_handler([this](int from, std::span<const std::byte> message) {
    int64_t number = 0;
    QUARRY_CHECK(message.size() == sizeof number);
    std::memcpy(&number, message.data(), sizeof number);
    if (rank_ == 0) {
      const int64_t at = reserve_(number);
      messages_->post(from, std::as_bytes(std::span(&at, 1)));
      return;
    }
    const std::lock_guard lock(reply_mutex_);
    reply_ = number;
    replied_.notify_one();
  });
}

Extents::~Extents() {
  if (messages_) messages_->set_handler(nullptr);
}

int64_t Extents::take(int64_t bytes) {
  if (rank_ == 0) return reserve_(bytes);
  constexpr int64_t kLarge = 64 << 10;  // takes longer to encode than a message takes
  constexpr int64_t kMostSlab = 16 * kLarge;
  constexpr int64_t kPart = 32;  // of what has been taken: small outputs have small holes
  const std::lock_guard lock(mutex_);
  if (bytes >= kLarge) return ask(bytes);
  taken_ += bytes;
  auto room = std::ranges::find_if(rooms_, [&](const Room& r) { return r.bytes >= bytes; });
  if (room == rooms_.end()) {
    constexpr size_t kMostRooms = 16;
    const int64_t slab = std::max(bytes, std::min(taken_ / kPart, kMostSlab));
    if (rooms_.size() == kMostRooms) rooms_.erase(std::ranges::min_element(rooms_, {}, &Room::bytes));
    rooms_.push_back({ask(slab), slab});
    room = rooms_.end() - 1;
  }
  const int64_t at = room->at;
  room->at += bytes;
  room->bytes -= bytes;
  if (room->bytes == 0) rooms_.erase(room);
  return at;
}

// The run's own thread makes progress too, but may have left when its rank has nothing more to do for others.
int64_t Extents::ask(int64_t bytes) {
  constexpr auto kNap = std::chrono::microseconds(200);
  constexpr int kNapsBetweenLooks = 100;
  {
    const std::lock_guard lock(reply_mutex_);
    reply_ = -1;
  }
  messages_->post(/*to=*/0, std::as_bytes(std::span(&bytes, 1)));
  for (int naps = 0;; ++naps) {
    messages_->progress();
    std::unique_lock lock(reply_mutex_);
    if (replied_.wait_for(lock, kNap, [&] { return reply_ >= 0; })) return reply_;
    lock.unlock();
    if (naps % kNapsBetweenLooks == 0) messages_->check_ranks(/*calls=*/0);
  }
}

}  // namespace quarry::exec
