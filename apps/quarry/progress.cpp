#include "quarry/apps/quarry/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/local/base/options.h"

namespace quarry::apps {

namespace {

constexpr double kLineSeconds = 10;  // between lines where there is no terminal
constexpr const char* kGap = "  ";   // behind the step's name
constexpr int kLongestBar = 30, kShortestBar = 10, kFrame = 4;
constexpr int kWideEnough = 60;  // columns where there is a bar, whatever else has to go
constexpr int kUsualWidth = 80;

int columns_of(int file) {
  winsize size{};
  return ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 0;
}

// The parent of a process and the name of its program; 0 where it is not known.
std::pair<int, std::string> parent_of(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t open = text.find('('), close = text.rfind(')');
  int parent = 0;
  if (open == std::string::npos || close == std::string::npos || close + 4 > text.size()) return {0, ""};
  std::from_chars(text.data() + close + 4, text.data() + text.size(), parent);  // behind ") S "
  return {parent, text.substr(open + 1, close - open - 1)};
}

// The width of the terminal that the launcher writes this rank's stderr to, which is a pipe here; 0: none. It is so
// where the launcher's own stderr is a terminal and it runs on this host.
int launcher_width() {
  if (!has_launcher()) return 0;
  constexpr const char* kHelper = "hydra_pmi_proxy";  // between mpiexec and its ranks
  int process = getppid();
  if (parent_of(process).second == kHelper) process = parent_of(process).first;
  if (process <= 1) return 0;
  const int file = open(fmt::format("/proc/{}/fd/2", process).c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return 0;
  const int width = isatty(file) == 0 ? 0 : columns_of(file) > 0 ? columns_of(file) : kUsualWidth;
  close(file);
  return width;
}

}  // namespace

int progress_width(bool always) {
  if (const int columns = columns_of(STDERR_FILENO); columns > 0) return columns;
  if (isatty(STDERR_FILENO) == 0) {
    if (const int columns = launcher_width(); columns > 0) return columns;
    if (!always) return 0;
  }
  constexpr int kLeast = 20, kMost = 1000;
  const std::string columns = local::environment("COLUMNS", "");
  int width = kUsualWidth;
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
  const double fraction = progress.fraction();
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
  const int bar = width_ >= kWideEnough ? kShortestBar + kFrame : 0;
  const auto room = static_cast<size_t>(std::max(0, width_ - 1 - prefix_width() - bar));
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
  const int room = width_ - kFrame - static_cast<int>(prefix.size() + text.size());
  std::string shown = prefix;
  if (room >= kShortestBar) {
    const int bar = std::min(room, kLongestBar);
    const int full = std::min(bar, static_cast<int>(bar * progress.fraction()));
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
