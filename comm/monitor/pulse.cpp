#include "quarry/comm/monitor/pulse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#include "quarry/comm/monitor/activity.h"
#include "quarry/local/base/trace.h"

namespace quarry::comm {

static_assert(std::is_trivially_copyable_v<Pulse>);  // it travels as bytes

Pulse Pulse::of_this_process() {
  const Activity& mine = activity();
  const int64_t looked = mine.looked_ns;
  return {mine.progress,        mine.running,
          mine.waiting,         looked == 0 ? -1 : std::max<int64_t>(local::trace_clock_ns() - looked, 0),
          comm::processor_ns(), comm::core_share()};
}

std::string Pulse::to_bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }

Pulse Pulse::from_bytes(std::string_view bytes) {
  Pulse pulse;
  if (bytes.size() == sizeof pulse) std::memcpy(&pulse, bytes.data(), sizeof pulse);
  return pulse;
}

namespace {

constexpr double kSilent = 2;  // seconds: of the thread of messages, which looks many times a second
constexpr double kNs = 1e9;

bool is_silent(const Pulse& pulse) {
  return pulse.silent_ns >= 0 && static_cast<double>(pulse.silent_ns) > kSilent * kNs;
}

// Whether others may wait for it, and not it for others.
bool may_hold_up(const Pulse& pulse) {
  if (is_silent(pulse)) return true;
  return pulse.waiting == 0 && (pulse.silent_ns < 0 || pulse.running > 0);
}

// The larger, the more others may wait for it.
int suspicion(const Pulse& pulse) { return is_silent(pulse) ? 2 : pulse.silent_ns < 0 ? 1 : 0; }

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
bool take(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

}  // namespace

PulseReport::PulseReport(int rank, const std::string& name, const Pulse& pulse)
    : progress_(pulse.progress), in_call_(pulse.silent_ns >= 0 || pulse.waiting > 0 ? 1 : 0) {
  if (may_hold_up(pulse)) ranks_.push_back({rank, name.substr(0, kMostName), pulse});
}

void PulseReport::add(const PulseReport& others) {
  progress_ += others.progress_;
  in_call_ += others.in_call_;
  unlisted_ += others.unlisted_;
  ranks_.insert(ranks_.end(), others.ranks_.begin(), others.ranks_.end());
  std::ranges::stable_sort(ranks_, {}, &Rank::rank);
  std::ranges::stable_sort(ranks_, std::greater<>(), [](const Rank& rank) { return suspicion(rank.pulse); });
  if (ranks_.size() <= kMostListed) return;
  unlisted_ += std::ssize(ranks_) - static_cast<int64_t>(kMostListed);
  ranks_.resize(kMostListed);
}

std::string PulseReport::to_bytes() const {
  std::string bytes;
  for (const int64_t sum : {progress_, in_call_, unlisted_}) append(bytes, sum);
  for (const Rank& rank : ranks_) {
    append(bytes, rank.rank);
    append(bytes, rank.pulse);
    append(bytes, static_cast<uint32_t>(rank.name.size()));
    bytes += rank.name;
  }
  return bytes;
}

PulseReport PulseReport::from_bytes(std::string_view bytes) {
  PulseReport report;
  for (int64_t* const sum : {&report.progress_, &report.in_call_, &report.unlisted_})
    if (!take(bytes, *sum)) return {};
  while (!bytes.empty()) {
    Rank rank;
    uint32_t length = 0;
    if (!take(bytes, rank.rank) || !take(bytes, rank.pulse) || !take(bytes, length) || length > bytes.size()) return {};
    rank.name = bytes.substr(0, length);
    bytes.remove_prefix(length);
    report.ranks_.push_back(std::move(rank));
  }
  return report;
}

PulseBoard::PulseBoard(double patience_seconds)
    : patience_seconds_(patience_seconds), next_seconds_(patience_seconds) {}

void PulseBoard::note(const PulseReport& report, Clock::time_point now) {
  if (report.progress_ != latest_.progress_) {
    since_ = now;
    next_seconds_ = patience_seconds_;
    processor_ns_.clear();
  }
  latest_ = report;
  for (const PulseReport::Rank& rank : report.ranks_) processor_ns_.try_emplace(rank.rank, rank.pulse.processor_ns);
}

std::string PulseBoard::verdict(const PulseReport::Rank& rank, double seconds) const {
  const Pulse& pulse = rank.pulse;
  const double processor = static_cast<double>(pulse.processor_ns - processor_ns_.at(rank.rank)) / kNs;
  const double silent = static_cast<double>(pulse.silent_ns) / kNs;
  if (is_silent(pulse)) {
    return fmt::format("is stuck: its thread of messages has done nothing for {:.3g} s", silent);
  }
  if (pulse.waiting > 0) return describe_standstill(0, processor, seconds, pulse.core_share);
  if (pulse.silent_ns >= 0) return describe_standstill(pulse.running, processor, seconds, pulse.core_share);
  return fmt::format("is outside of quarry's calls, with {:.3g} s of processor time", processor);
}

std::string PulseBoard::standstill(Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - since_).count();
  if (patience_seconds_ == 0 || seconds < next_seconds_) return "";
  if (latest_.in_call_ == 0) return "";
  next_seconds_ *= 2;
  std::vector<PulseReport::Rank> ranks = latest_.ranks_;
  std::ranges::sort(ranks, {}, &PulseReport::Rank::rank);
  std::string text;
  for (const PulseReport::Rank& rank : ranks)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", rank.name, verdict(rank, seconds));
  if (latest_.unlisted_ > 0) text += fmt::format("; and {} more ranks do not wait", latest_.unlisted_);
  return fmt::format("no rank has made progress for {:.3g} s: {}", seconds,
                     text.empty() ? "every rank waits for other ranks or for memory" : text);
}

}  // namespace quarry::comm
