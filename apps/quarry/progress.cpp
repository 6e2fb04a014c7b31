#include "quarry/apps/quarry/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "quarry/apps/quarry/text.h"
#include "quarry/local/base/options.h"

namespace quarry::apps {

namespace {

constexpr double kLineSeconds = 10;  // between lines where there is no terminal
constexpr const char* kGap = "  ";   // behind the step's name

}  // namespace

int progress_width(bool always) {
  if (isatty(STDERR_FILENO) == 0 && !always) return 0;
  constexpr int kUsual = 80, kLeast = 20, kMost = 1000;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string columns = local::environment("COLUMNS", "");
  int width = kUsual;
  std::from_chars(columns.data(), columns.data() + columns.size(), width);
  return std::clamp(width, kLeast, kMost);
}

void ProgressDisplay::start(const std::string& step) {
  finish();
  step_ = step;
  begin_ = shown_ = Clock::now();
}

int ProgressDisplay::prefix_width() const {
  return step_.empty() ? 0 : static_cast<int>(step_.size() + std::strlen(kGap));
}

std::string ProgressDisplay::line(const Progress& progress, double seconds) const {
  const bool by_bytes = progress.bytes_total > 0;
  const auto done = static_cast<double>(by_bytes ? progress.bytes_done : progress.tasks_done);
  const auto total = static_cast<double>(by_bytes ? progress.bytes_total : progress.tasks_total);
  const double fraction = total > 0 ? std::min(1.0, done / total) : 0;
  // By place; the last to go where a terminal is narrow is what is worth most.
  enum Part { kShare, kTasks, kRate, kMemory, kStolenChunks, kLeft, kParts };
  std::array<std::string, kParts> parts;
  parts[kShare] = fmt::format("{:3.0f}%", 100 * fraction);
  parts[kTasks] =
      fmt::format("  {} of {} tasks", format_count(progress.tasks_done), format_count(progress.tasks_total));
  if (seconds > 0) {
    parts[kRate] =
        fmt::format("  {}/s", format_bytes(static_cast<int64_t>(static_cast<double>(progress.bytes_done) / seconds)));
  }
  parts[kMemory] =
      fmt::format("  memory {} of {}", format_bytes(progress.memory_used), format_bytes(progress.memory_limit));
  if (progress.stolen_chunks > 0) {
    parts[kStolenChunks] = fmt::format("  {} stolen from slow ranks", format_count(progress.stolen_chunks));
  }
  if (fraction > 0 && fraction < 1) {
    parts[kLeft] = fmt::format("  {} left", format_seconds(seconds * (1 - fraction) / fraction));
  }
  const auto text = [&] { return fmt::format("{}", fmt::join(parts, "")); };
  const auto room = static_cast<size_t>(std::max(0, width_ - 1 - prefix_width()));
  for (const Part part : {kStolenChunks, kTasks, kMemory, kRate}) {
    if (width_ == 0 || text().size() <= room) break;
    parts[part].clear();
  }
  return text();
}

void ProgressDisplay::update(const Progress& progress) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const std::string text = line(progress, seconds);
  const std::string prefix = step_.empty() ? "" : step_ + kGap;
  if (width_ == 0) {
    if (std::chrono::duration<double>(now - shown_).count() < kLineSeconds) return;
    shown_ = now;
    fmt::print(stderr, "quarry: {}{}\n", prefix, text);
    return;
  }
  constexpr int kLongestBar = 30, kShortestBar = 5, kFrame = 4;
  const int room = width_ - kFrame - static_cast<int>(prefix.size() + text.size());
  std::string shown = prefix;
  if (room >= kShortestBar) {
    const int bar = std::min(room, kLongestBar);
    const auto total = static_cast<double>(std::max<int64_t>(1, progress.tasks_total));
    const int full = std::min(bar, static_cast<int>(bar * (static_cast<double>(progress.tasks_done) / total)));
    shown +=
        "[" + std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(bar - full), '.') + "] ";
  }
  shown += text;
  shown.resize(std::min(shown.size(), static_cast<size_t>(width_ - 1)));
  fmt::print(stderr, "\r{}\x1b[K", shown);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressDisplay::finish() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace quarry::apps
