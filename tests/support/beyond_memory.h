// Arrays that are larger than the budget of a Runtime: they come from a file, and what is made of them goes to files.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "tests/support/chunked_values.h"
#include "tests/support/temp_dir.h"

namespace quarry::testing {

class BeyondMemory {
 public:
  // Before the Runtime of little memory is made.
  void write(const std::string& name, const local::NdArray& values) const {
    Array::from_local(values).to_hdf5(file(name), "/x");
  }
  Array open(const std::string& name) const { return open_hdf5(file(name), "/x"); }

  // Computes.
  void expect(const Array& got, const local::NdArray& wanted, const std::string& what) {
    made_.push_back({"made " + std::to_string(++number_), wanted, what});
    got.to_hdf5(file(made_.back().name), "/x");
  }
  // Computes; value() brings it when that Runtime is gone.
  void keep(const Array& got, const std::string& name) const { got.to_hdf5(file(name), "/x"); }
  local::NdArray value(const std::string& name) const { return open(name).to_host(); }
  // Compares, when that Runtime is gone.
  void check() {
    for (const Made& made : made_) expect_same(open(made.name), made.wanted, made.what);
    made_.clear();
  }

 private:
  struct Made {
    std::string name;
    local::NdArray wanted;
    std::string what;
  };
  std::string file(const std::string& name) const { return directory_ / (name + ".h5"); }

  const test::TempDir directory_;
  std::vector<Made> made_;
  int number_ = 0;
};

}  // namespace quarry::testing
