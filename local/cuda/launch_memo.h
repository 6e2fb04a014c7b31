// Launches that a program repeats: the plan of an earlier launch of the same program over the same geometry, so that a
// short operation does not wait for planning.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "quarry/local/cuda/plan.h"

namespace quarry::local::cuda {

class Module;

// Whether launches of a program differ in addresses (equally aligned ones) and offsets at most: one plan serves both.
bool same_geometry(const Launch& a, const Launch& b);

class LaunchMemo {
 public:
  struct Entry {
    std::string key;  // the program's
    int device = 0;
    Launch launch;
    Plan plan;
    const Module* module = nullptr;
    // Of the kernels that take several launches; null until there are any.
    const Module* several = nullptr;
    int most_several = 0;
  };

  // An earlier launch of the same geometry, its plan's slots as this launch and the program's constants need them; null
  // where there is none. `key` is the program's.
  Entry* find(const std::string& key, const Program& program, const Launch& launch, int device);
  // Takes the place of another launch if need be.
  Entry& keep(Entry entry);

 private:
  static size_t place(const std::string& key, const Launch& launch, int device);

  static constexpr size_t kEntries = 128;
  std::array<std::unique_ptr<Entry>, kEntries> entries_;
};

}  // namespace quarry::local::cuda
