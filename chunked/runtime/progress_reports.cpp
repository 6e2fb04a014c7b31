#include "quarry/chunked/runtime/progress_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "quarry/local/base/log.h"
#include "quarry/local/base/thread.h"

namespace quarry {

static_assert(std::is_trivially_copyable_v<Progress>);  // it travels as bytes

ProgressReports::ProgressReports(comm::Communicator& communicator, std::function<Progress()> mine,
                                 std::function<void(const local::ErrorRecord&)> failed)
    : rank_(communicator.rank()),
      mine_(std::move(mine)),
      failed_(std::move(failed)),
      first_child_(int64_t{communicator.rank()} * kChildren + 1),
      latest_(static_cast<size_t>(1 + std::clamp<int64_t>(communicator.size() - first_child_, 0, kChildren))) {
  if (communicator.size() > 1) {
    reports_ = communicator.split(/*color=*/0, rank_);
    if (latest_.size() > 1) {
      reports_->set_handler([this](int from, std::span<const std::byte> message) {
        const std::lock_guard lock(latest_mutex_);
        if (message.size() != sizeof(Progress)) return;
        std::memcpy(&latest_.at(static_cast<size_t>(from - first_child_ + 1)), message.data(), message.size());
        news_ = true;
      });
    }
  }
}

void ProgressReports::start() {
  watcher_ = local::start_joined_thread("progress", [this](const std::stop_token& token) { watch(token); });
}

ProgressReports::~ProgressReports() {
  watcher_.request_stop();
  if (watcher_.joinable()) watcher_.join();
  if (reports_) reports_->set_handler(nullptr);
}

void ProgressReports::set_callback(std::function<void(const Progress&)> callback) {
  const std::lock_guard lock(callback_mutex_);
  callback_ = std::move(callback);
}

std::vector<Progress> ProgressReports::latest() const {
  const std::lock_guard lock(latest_mutex_);
  return latest_;
}

void ProgressReports::watch(const std::stop_token& token) {
  constexpr auto kPeriod = std::chrono::milliseconds(100);
  std::mutex sleep_mutex;
  std::condition_variable_any sleeper;
  while (!token.stop_requested()) {
    {
      std::unique_lock lock(sleep_mutex);
      sleeper.wait_for(lock, token, kPeriod, [] { return false; });
    }
    if (token.stop_requested()) return;
    try {
      sample();
    } catch (const std::exception& error) {
      local::log(local::LogLevel::info, fmt::format("progress is not reported any more: {}", error.what()));
      return;
    }
  }
}

// One tick: the progress of this rank and those below it goes to the parent; on rank 0 it goes to the callback.
void ProgressReports::sample() {
  if (reports_ && latest_.size() > 1) reports_->progress();
  const Progress mine = mine_();
  Progress sum;
  {
    const std::lock_guard lock(latest_mutex_);
    if (latest_[0] == mine && !news_) return;
    latest_[0] = mine;
    news_ = false;
    sum = total(latest_);
  }
  if (rank_ != 0) {
    reports_->post((rank_ - 1) / kChildren, std::as_bytes(std::span(&sum, 1)));
    return;
  }
  const std::lock_guard lock(callback_mutex_);
  if (!callback_) return;
  try {
    callback_(sum);
  } catch (...) {
    callback_ = nullptr;
    failed_(local::to_record(std::current_exception()));
  }
}

}  // namespace quarry
