// element = f(element, value) at positions, one after the other.
#pragma once

#include <cstdint>

#include "quarry/local/cpu/code.h"

namespace quarry::local::cpu {

// Runs a program of Indexing::update() over elements in turn.
class Updater {
 public:
  explicit Updater(const Program& program);
  // For n elements at array + offsets[i], with values `step` bytes apart.
  void operator()(char* array, const int64_t* offsets, const char* values, int64_t step, int64_t n) const;

 private:
  using Loop = void (*)(char* array, const int64_t* offsets, const char* values, int64_t step, int64_t n);
  Loop direct_ = nullptr;  // of the common operations where no dtype changes
  Code code_;              // of all others
  int64_t itemsize_ = 0;
};

}  // namespace quarry::local::cpu
