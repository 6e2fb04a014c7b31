// Progress of a run on stderr: a bar where stderr is a terminal, else a line now and then.
#pragma once

#include <chrono>
#include <string>

#include "quarry/chunked/runtime/progress.h"

namespace quarry::apps {

// Of the terminal that stderr is, or that a launcher on this host passes it on to; of the environment's COLUMNS, or 80,
// where `always`; else 0.
int progress_width(bool always);

class ProgressDisplay {
 public:
  // `width`: of the terminal; 0: none.
  explicit ProgressDisplay(int width) : width_(width) {}

  void start(const std::string& step);  // what runs next
  void update(const Progress& progress);
  void finish();  // removes the bar

  // The text shown after `seconds` of the step: on a narrow terminal without what is worth least.
  std::string line(const Progress& progress, double seconds) const;

 private:
  int prefix_width() const;

  using Clock = std::chrono::steady_clock;
  int width_;
  std::string step_;
  Clock::time_point begin_ = Clock::now(), shown_ = begin_;
  bool drawn_ = false;
};

}  // namespace quarry::apps
