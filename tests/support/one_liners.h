// Lines of NumPy beside the same in C++, and what NumPy answers (scripts/oracle/tables/one_liners.py).
#pragma once

#include <gmock/gmock.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "quarry/local/local.h"
#include "tests/oracle/reader.h"

namespace quarry::test {

// What a line gave: an array, or the name of a dtype.
struct LineValue {
  LineValue(const local::NdArray& value) : array(value) {}
  LineValue(const local::Elements& value) : array(value.value()) {}
  LineValue(const local::ArrayList& value) : array(value) {}
  LineValue(bool value) : array(local::ops::full(local::Dims{}, value)) {}
  LineValue(int64_t value) : array(local::ops::full(local::Dims{}, value)) {}
  LineValue(double value) : array(local::ops::full(local::Dims{}, value)) {}
  LineValue(const local::Dims& value) : array(local::from_vector(std::vector<int64_t>(value.begin(), value.end()))) {}
  LineValue(local::DType value) : dtype(local::name(value)) {}
  local::NdArray array;
  std::string dtype;
};

inline std::string words(const local::Dims& shape) {
  std::string text;
  for (int64_t extent : shape) text += (text.empty() ? "" : " ") + std::to_string(extent);
  return text;
}

// Compares with the rows of a section by the lines' texts.
class OneLiners {
 public:
  explicit OneLiners(const std::string& section) {
    for (std::vector<std::string>& row : oracle::table("one_liners", section)) {
      const std::string line = row[0];
      rows_.emplace(line, std::move(row));
    }
  }
  void check(const std::string& line, const LineValue& value) {
    SCOPED_TRACE(line);
    ++checked_;
    const auto found = rows_.find(line);
    ASSERT_NE(found, rows_.end()) << "the oracle has no such line: run scripts/oracle/generate.py one_liners";
    const std::vector<std::string>& row = found->second;
    if (row[1] == "dtype") {
      EXPECT_EQ(value.dtype, row[3]);
      return;
    }
    const local::NdArray& array = value.array;
    EXPECT_EQ(local::name(array.dtype()), row[1]);
    ASSERT_EQ(words(array.shape()), row[2]);
    const bool complex = local::is_complex(array.dtype());
    std::vector<double> got;
    if (complex) {
      for (const std::complex<double> z : local::values<std::complex<double>>(array)) {
        got.push_back(z.real());
        got.push_back(z.imag());
      }
    } else {
      got = local::values<double>(array);
    }
    std::istringstream text(row[3]);
    std::string word;
    const double bound = local::itemsize(array.dtype()) == (complex ? 8 : 4) ? 1e-6 : 1e-13;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(text >> word);
      char* end = nullptr;
      const double expected = word == "True" ? 1 : word == "False" ? 0 : std::strtod(word.c_str(), &end);
      ASSERT_TRUE(end == nullptr || *end == 0) << line << ": " << row[3];
      if (std::isfinite(expected))
        EXPECT_NEAR(got[i], expected, bound * (10 + std::abs(expected))) << "element " << i;
      else
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(got[i]) : got[i] == expected) << "element " << i;
    }
    EXPECT_FALSE(text >> word);
  }
  int checked() const { return checked_; }

 private:
  std::map<std::string, std::vector<std::string>> rows_;
  int checked_ = 0;
};

}  // namespace quarry::test
