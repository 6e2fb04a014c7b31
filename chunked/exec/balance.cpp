#include "quarry/chunked/exec/balance.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::exec {
namespace {

constexpr int64_t kUnknown = INT64_MAX;
constexpr int32_t kNobody = -1;

}  // namespace

Balance::Balance(int rank, int ranks, std::function<void(int, const Message&)> post)
    : rank_(rank), ranks_(ranks), post_(std::move(post)) {}

void Balance::configure(Settings settings) {
  settings_ = std::move(settings);
  room_ = std::make_shared<local::Budget>("chunks taken from other ranks", settings_.room_bytes);
}

void Balance::share(const BlockKey& key, int64_t first, int64_t last) {
  const std::lock_guard lock(mutex_);
  shares_[key.stage] = {key, first, last, last - first,
                        std::vector<int32_t>(static_cast<size_t>(last - first), kNobody)};
}

int Balance::claim(uint32_t stage, int64_t chunk) {
  const std::lock_guard lock(mutex_);
  Share& share = shares_.at(stage);
  int32_t& maker = share.makers.at(static_cast<size_t>(chunk - share.first));
  if (maker == kNobody) {
    maker = rank_;
    --share.left;
  }
  return maker;
}

// The other rank with most chunks left, the next one of equals; what it has left then counts as one less.
std::optional<int> Balance::whom_to_ask(std::vector<int64_t>& left) const {
  int best = rank_;
  for (int step = 1; step < ranks_; ++step) {
    const int other = (rank_ + step) % ranks_;
    if (left[static_cast<size_t>(other)] > left[static_cast<size_t>(best)]) best = other;
  }
  if (best == rank_) return std::nullopt;
  int64_t& most = left[static_cast<size_t>(best)];
  if (most != kUnknown) --most;
  return best;
}

std::optional<Balance::Taken> Balance::take(uint32_t stage, const std::function<bool()>& cancelled) {
  constexpr auto kLook = std::chrono::milliseconds(20);  // at what no message announces
  if (!room_) return std::nullopt;
  std::unique_lock lock(mutex_);
  std::vector<int64_t>& left = left_[stage];
  if (left.empty()) {
    for (int r = 0; r < ranks_; ++r) left.push_back(settings_.mates[static_cast<size_t>(r)] ? kUnknown : 0);
    left[static_cast<size_t>(rank_)] = 0;
  }
  while (const std::optional<int> owner = whom_to_ask(left)) {
    const uint32_t ticket = next_ticket_++;
    Question& question = questions_[ticket];
    question.stage = stage;
    lock.unlock();
    Message ask;
    ask.kind = MessageKind::ask;
    ask.request.fetch = ticket;
    ask.request.key.stage = stage;
    post_(*owner, ask);
    lock.lock();
    while (!question.answer) {
      if (cancelled()) return std::nullopt;
      answer_came_.wait_for(lock, kLook);
    }
    const BlockKey key = *question.answer;
    questions_.erase(ticket);
    if (key.chunk >= 0) return Taken{*owner, key};
  }
  return std::nullopt;
}

std::shared_ptr<std::byte> Balance::reserve(int64_t bytes) {
  if (!room_) return nullptr;
  struct Memory {
    Memory(std::shared_ptr<local::Budget> budget, local::Reservation in_room, local::Reservation in_memory, int64_t n)
        : room_budget(std::move(budget)),
          room(std::move(in_room)),
          memory(std::move(in_memory)),
          data(static_cast<std::byte*>(
              ::operator new (static_cast<size_t>(n), std::align_val_t{local::kAllocationAlignment}))) {}
    ~Memory() { ::operator delete (data, std::align_val_t{local::kAllocationAlignment}); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    const std::shared_ptr<local::Budget> room_budget;
    local::Reservation room, memory;
    std::byte* const data;
  };
  const int64_t rounded = local::rounded_allocation(bytes);
  local::Reservation room = room_->try_reserve(rounded);
  if (!room) return nullptr;
  local::Reservation memory = settings_.budget->try_reserve(rounded);
  if (!memory) return nullptr;
  const auto made = std::make_shared<Memory>(room_, std::move(room), std::move(memory), rounded);
  return {made, made->data};
}

void Balance::count_taken() const {
  if (settings_.taken) settings_.taken();
}

void Balance::asked(int from, uint32_t stage, uint32_t ticket) {
  Message answer;
  answer.kind = MessageKind::handed;
  answer.request.fetch = ticket;
  answer.request.key = {stage, 0, -1};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = shares_.find(stage); found != shares_.end()) {
      Share& share = found->second;
      const auto maker = [&](int64_t chunk) -> int32_t& {
        return share.makers[static_cast<size_t>(chunk - share.first)];
      };
      while (share.end > share.first && maker(share.end - 1) != kNobody) --share.end;
      if (share.end > share.first) {
        answer.request.key = share.key;
        answer.request.key.chunk = --share.end;
        maker(share.end) = from;
        --share.left;
      }
      answer.request.offset = share.left;
    }
  }
  post_(from, answer);
}

void Balance::answered(int from, const Message& answer) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = questions_.find(answer.request.fetch);
    if (found == questions_.end()) return;
    found->second.answer = answer.request.key;
    left_[found->second.stage].at(static_cast<size_t>(from)) = answer.request.offset;
  }
  answer_came_.notify_all();
}

}  // namespace quarry::exec
