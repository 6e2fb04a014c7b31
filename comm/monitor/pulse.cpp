#include "quarry/comm/monitor/pulse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "quarry/comm/monitor/activity.h"
#include "quarry/local/base/trace.h"

namespace quarry::comm {

static_assert(std::is_trivially_copyable_v<Pulse>);  // it travels as bytes

Pulse Pulse::of_this_process() {
  const Activity& mine = activity();
  const int64_t looked = mine.looked_ns;
  return {mine.progress, mine.running, mine.waiting,
          looked == 0 ? -1 : std::max<int64_t>(local::trace_clock_ns() - looked, 0), comm::processor_ns()};
}

std::string Pulse::to_bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }

Pulse Pulse::from_bytes(std::string_view bytes) {
  Pulse pulse;
  if (bytes.size() == sizeof pulse) std::memcpy(&pulse, bytes.data(), sizeof pulse);
  return pulse;
}

PulseBoard::PulseBoard(int ranks, double patience_seconds)
    : patience_seconds_(patience_seconds), next_seconds_(patience_seconds), ranks_(static_cast<size_t>(ranks)) {}

void PulseBoard::note(int rank, const std::string& name, const Pulse& pulse, Clock::time_point now) {
  Rank& known = ranks_[static_cast<size_t>(rank)];
  const bool moved = known.pulse.progress != pulse.progress;
  known.name = name;
  known.pulse = pulse;
  if (!moved) return;
  since_ = now;
  next_seconds_ = patience_seconds_;
  for (Rank& each : ranks_) each.processor_ns = each.pulse.processor_ns;
}

std::string PulseBoard::verdict(const Rank& rank, double seconds) const {
  constexpr double kSilent = 2;  // seconds: of the thread of messages, which looks many times a second
  constexpr double kNs = 1e9;
  const Pulse& pulse = rank.pulse;
  const double processor = static_cast<double>(pulse.processor_ns - rank.processor_ns) / kNs;
  const double silent = static_cast<double>(pulse.silent_ns) / kNs;
  if (pulse.silent_ns >= 0 && silent > kSilent) {
    return fmt::format("is stuck: its thread of messages has done nothing for {:.3g} s", silent);
  }
  if (pulse.waiting > 0) return describe_standstill(0, processor, seconds);
  if (pulse.silent_ns >= 0) return describe_standstill(pulse.running, processor, seconds);
  return fmt::format("is outside of quarry's calls, with {:.3g} s of processor time", processor);
}

std::string PulseBoard::standstill(Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - since_).count();
  if (patience_seconds_ == 0 || seconds < next_seconds_) return "";
  const auto in_call = [](const Rank& rank) { return rank.pulse.silent_ns >= 0 || rank.pulse.waiting > 0; };
  if (std::ranges::none_of(ranks_, in_call)) return "";
  next_seconds_ *= 2;
  const std::string waits = describe_standstill(0, 0, seconds);
  std::string text;
  for (const Rank& rank : ranks_) {
    const std::string one = verdict(rank, seconds);
    if (one == waits || rank.name.empty()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", rank.name, one);
  }
  return fmt::format("no rank has made progress for {:.3g} s: {}", seconds,
                     text.empty() ? "every rank waits for other ranks or for memory" : text);
}

}  // namespace quarry::comm
