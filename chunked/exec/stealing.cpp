#include "quarry/chunked/exec/stealing.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <set>
#include <utility>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::exec {
namespace {

constexpr int64_t kUnknown = INT64_MAX;
constexpr int32_t kUnclaimed = -1;

}  // namespace

WorkStealing::WorkStealing(int rank, int ranks, std::function<void(int, const Message&)> post)
    : rank_(rank), ranks_(ranks), post_(std::move(post)) {}

void WorkStealing::configure(Settings settings) {
  settings_ = std::move(settings);
  stolen_budget_ = std::make_shared<local::Budget>("chunks stolen from other ranks", settings_.limit_bytes);
}

void WorkStealing::make_stealable(const BlockKey& key, int64_t first, int64_t last) {
  const std::lock_guard lock(mutex_);
  stages_[key.stage] = {key, first, last, last - first,
                        std::vector<int32_t>(static_cast<size_t>(last - first), kUnclaimed)};
}

int WorkStealing::claim(uint32_t stage, int64_t chunk) {
  const std::lock_guard lock(mutex_);
  Stealable& own = stages_.at(stage);
  int32_t& computed_by = own.computed_by.at(static_cast<size_t>(chunk - own.first));
  if (computed_by == kUnclaimed) {
    computed_by = rank_;
    --own.left;
  }
  return computed_by;
}

std::vector<int> WorkStealing::known_ranks(int rank, int ranks) {
  constexpr int kSmall = 16;
  std::set<int> known;
  for (int away = 1; away < ranks; away = ranks <= kSmall ? away + 1 : 2 * away) {
    known.insert((rank + away) % ranks);
    known.insert((rank - away + ranks) % ranks);
  }
  return {known.begin(), known.end()};
}

// The rank with most chunks left, the next one of equals; what it has left then counts as one less.
std::optional<int> WorkStealing::choose_victim(Left& left) const {
  auto best = left.end();
  const auto look = [&](Left::iterator from, Left::iterator to) {
    for (auto one = from; one != to; ++one)
      if (one->second > (best == left.end() ? 0 : best->second)) best = one;
  };
  const auto next = left.upper_bound(rank_);
  look(next, left.end());
  look(left.begin(), next);
  if (best == left.end()) return std::nullopt;
  if (best->second != kUnknown) --best->second;
  return best->first;
}

std::optional<WorkStealing::Stolen> WorkStealing::steal(uint32_t stage, const std::function<bool()>& cancelled) {
  constexpr auto kLook = std::chrono::milliseconds(20);  // at what no message announces
  if (!stolen_budget_) return std::nullopt;
  std::unique_lock lock(mutex_);
  const auto [known, is_new] = left_.try_emplace(stage);
  Left& left = known->second;
  if (is_new) {
    for (const int rank : known_ranks(rank_, ranks_))
      if (settings_.is_victim(rank)) left.emplace(rank, kUnknown);
  }
  while (const std::optional<int> victim = choose_victim(left)) {
    const uint32_t ticket = next_ticket_++;
    StealRequest& request = requests_[ticket];
    request.stage = stage;
    lock.unlock();
    Message message;
    message.kind = MessageKind::steal_request;
    message.request.fetch = ticket;
    message.request.key.stage = stage;
    post_(*victim, message);
    lock.lock();
    while (!request.reply) {
      if (cancelled()) return std::nullopt;
      reply_came_.wait_for(lock, kLook);
    }
    const BlockKey key = *request.reply;
    requests_.erase(ticket);
    if (key.chunk >= 0) return Stolen{*victim, key};
  }
  return std::nullopt;
}

std::shared_ptr<std::byte> WorkStealing::reserve(int64_t bytes) {
  if (!stolen_budget_) return nullptr;
  struct Memory {
    Memory(std::shared_ptr<local::Budget> stolen, local::Reservation in_limit, local::Reservation in_memory, int64_t n)
        : budget(std::move(stolen)),
          limit(std::move(in_limit)),
          memory(std::move(in_memory)),
          data(static_cast<std::byte*>(
              ::operator new (static_cast<size_t>(n), std::align_val_t{local::kAllocationAlignment}))) {}
    ~Memory() { ::operator delete (data, std::align_val_t{local::kAllocationAlignment}); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    const std::shared_ptr<local::Budget> budget;
    local::Reservation limit, memory;
    std::byte* const data;
  };
  const int64_t rounded = local::rounded_allocation(bytes);
  local::Reservation limit = stolen_budget_->try_reserve(rounded);
  if (!limit) return nullptr;
  local::Reservation memory = settings_.budget->try_reserve(rounded);
  if (!memory) return nullptr;
  const auto made = std::make_shared<Memory>(stolen_budget_, std::move(limit), std::move(memory), rounded);
  return {made, made->data};
}

void WorkStealing::count_stolen() const {
  if (settings_.on_stolen) settings_.on_stolen();
}

void WorkStealing::handle_request(int from, uint32_t stage, uint32_t ticket) {
  Message reply;
  reply.kind = MessageKind::steal_reply;
  reply.request.fetch = ticket;
  reply.request.key = {stage, 0, -1};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = stages_.find(stage); found != stages_.end()) {
      Stealable& own = found->second;
      const auto computed_by = [&](int64_t chunk) -> int32_t& {
        return own.computed_by[static_cast<size_t>(chunk - own.first)];
      };
      while (own.end > own.first && computed_by(own.end - 1) != kUnclaimed) --own.end;
      if (own.end > own.first) {
        reply.request.key = own.key;
        reply.request.key.chunk = --own.end;
        computed_by(own.end) = from;
        --own.left;
      }
      reply.request.offset = own.left;
    }
  }
  post_(from, reply);
}

void WorkStealing::handle_reply(int from, const Message& reply) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = requests_.find(reply.request.fetch);
    if (found == requests_.end()) return;
    found->second.reply = reply.request.key;
    left_[found->second.stage].at(from) = reply.request.offset;
  }
  reply_came_.notify_all();
}

}  // namespace quarry::exec
