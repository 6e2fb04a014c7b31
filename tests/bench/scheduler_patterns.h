// Task Bench's dependency patterns, and tasks that keep a core busy for a given time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "quarry/scheduler/task.h"

namespace quarry::bench {

// Work that no clock is asked for, so that another process on the core makes it longer, as it would real work.
inline double burn(int64_t steps) {
  double x = 1;
  for (int64_t i = 0; i < steps; ++i) x = x * 1.0000001 + 1e-9;
  return x;
}

inline double seconds_of(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double step_seconds() {
  constexpr int64_t kSteps = 2'000'000;
  volatile double sink = 0;
  double best = 1;
  for (int i = 0; i < 9; ++i) best = std::min(best, seconds_of([&] { sink = burn(kSteps); }));
  static_cast<void>(sink);
  return best / kSteps;
}

class Burn final : public scheduler::TaskBody {
 public:
  explicit Burn(int64_t steps) : steps_(steps) {}
  std::string name(int64_t) const override { return "burn"; }
  void run(scheduler::TaskRun&) override {
    if (steps_ == 0) return;
    volatile double sink = burn(steps_);
    static_cast<void>(sink);
  }

 private:
  int64_t steps_;
};

enum class Pattern { trivial, stencil, fft, tree };
inline constexpr std::array kPatterns = {Pattern::trivial, Pattern::stencil, Pattern::fft, Pattern::tree};
inline const char* name(Pattern pattern) {
  switch (pattern) {
    case Pattern::trivial:
      return "trivial";
    case Pattern::stencil:
      return "stencil";
    case Pattern::fft:
      return "fft";
    case Pattern::tree:
      return "tree";
  }
  return "";
}

// Points of the step before that point `i` of step `t` reads; `width` is a power of two, as Task Bench defines the
// patterns.
inline int inputs_of(Pattern pattern, int64_t t, int64_t i, int64_t width, std::array<int64_t, 3>& points) {
  int count = 0;
  const auto add = [&](int64_t point) {
    if (point >= 0 && point < width) points[static_cast<size_t>(count++)] = point;
  };
  if (t == 0) return 0;
  switch (pattern) {
    case Pattern::trivial:
      break;
    case Pattern::stencil:
      for (const int64_t point : {i - 1, i, i + 1}) add(point);
      break;
    case Pattern::fft: {
      const int levels = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(width))) - 1);
      const int64_t far = int64_t{1} << ((t - 1) % levels);
      for (const int64_t point : {i - far, i, i + far}) add(point);
      break;
    }
    case Pattern::tree:
      add(i / 2);
      break;
  }
  return count;
}

struct Shape {
  Pattern pattern = Pattern::trivial;
  int64_t width = 64;
  int64_t steps = 1000;
  int64_t tasks() const {
    int64_t sum = 0;
    for (int64_t t = 0; t < steps; ++t) sum += points(t);
    return sum;
  }
  int64_t points(int64_t t) const {
    return pattern == Pattern::tree && t < 62 ? std::min(width, int64_t{1} << t) : width;
  }
};

// The smallest duration at which tasks get half of the time: `efficiency` is that share for tasks of a duration, made
// of so many steps of burn(). From above: the last duration before the share falls below a half, interpolated.
struct Metg {
  double seconds = 0;
  nlohmann::json curve = nlohmann::json::array();  // durations and shares
};
inline Metg smallest_worthwhile(double most, double least, const auto& efficiency) {
  const double step = step_seconds();
  Metg found{most};
  double share_above = 1;
  for (double seconds = most; seconds >= least; seconds /= std::sqrt(2.0)) {
    const auto burn_steps = std::max<int64_t>(1, std::llround(seconds / step));
    const double exact = static_cast<double>(burn_steps) * step;
    double share = efficiency(exact, burn_steps);
    // Other work on the machine must not end the search.
    for (int again = 0; again < 2 && share < 0.5; ++again) share = std::max(share, efficiency(exact, burn_steps));
    found.curve.push_back({exact, share});
    if (share < 0.5) {
      const double part = share_above > share ? (share_above - 0.5) / (share_above - share) : 0;
      found.seconds = found.seconds * std::pow(exact / found.seconds, std::clamp(part, 0.0, 1.0));
      break;
    }
    found.seconds = exact;
    share_above = share;
  }
  return found;
}

}  // namespace quarry::bench
