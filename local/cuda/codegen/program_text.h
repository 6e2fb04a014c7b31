// The values of a program as CUDA C++.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/local/program/program.h"

namespace quarry::local::cuda {

// Type of an element in kernels.
const char* type_name(DType dtype);

// Lines with indentation.
class TextWriter {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    raw(fmt::format(text, std::forward<Args>(args)...));
  }
  void raw(const std::string& text) {
    text_.append(static_cast<size_t>(indent_) * 2, ' ');
    text_ += text;
    text_ += '\n';
  }
  void open(const std::string& text) {
    raw(text + " {");
    ++indent_;
  }
  void close(const char* text = "}") {
    --indent_;
    raw(text);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int indent_ = 0;
};

// The values that the given ones depend on.
std::vector<bool> reachable(const Program& program, const std::vector<ValueId>& roots);

// Declares v0, v1, ... of the needed values; `leaf` gives the expression of an input, constant or index, and `given`
// that of an operation by its number in the program, where it is not the table's: else "".
void write_values(TextWriter& w, const Program& program, const std::vector<bool>& needed,
                  const std::function<std::string(const Value&)>& leaf,
                  const std::function<std::string(size_t)>& given = {});

// A constant of a combine program as a literal that the compiler can fold.
std::string literal(const Scalar& scalar);

}  // namespace quarry::local::cuda
