// What the engines share when they run a user's kernel: the order of the loops, the words of a launch, and the C++ text
// of everything but the loops.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/program/kernels.h"

namespace quarry::local {

// How the elements of one operand lie along the innermost loop.
enum class KernelAccess : char { contiguous = 'c', broadcast = 'b', strided = 's' };

// The space without axes of extent 1: the kept ones (all, if nothing is reduced) and the reduced ones, outermost loop
// first, neighbours merged that every operand walks through as one. There is at least one axis of each.
struct KernelNest {
  struct Steps {
    std::vector<int64_t> kept, reduced;  // bytes; of the position in the space: elements
  };
  std::vector<int64_t> kept, reduced;  // extents
  std::vector<Steps> arguments;        // of element parameters, else empty
  Steps index;                         // of the position `i`
  bool crossed = false;                // elementwise: some operand runs through memory along the last but one kept axis
  bool columns = false;  // reductions: the innermost loop runs along the last kept axis, else the last reduced one

  int64_t results() const;  // product of kept
  int64_t terms() const;    // product of reduced
  KernelAccess access(const KernelCode& code, size_t argument) const;
};

KernelNest make_nest(const KernelCode& code, const KernelLaunch& launch);

// A launch as 64-bit words, and where among them each thing is. Positions depend on code and nest, not on values.
struct KernelWords {
  struct Argument {
    int pointer = -1, kept = -1, reduced = -1;  // element: address and steps
    int count = -1, shape = -1, strides = -1;   // raw, with `pointer`
    int value = -1;                             // scalar: two words
    int ndim = 0;                               // raw
    bool contiguous = false;                    // raw
  };
  std::vector<int64_t> values;
  std::vector<Argument> arguments;
  int elements = -1;            // of the space
  int space = -1, ndim = 0;     // its extents
  int kept = -1, reduced = -1;  // extents of the nest
  int index_kept = -1, index_reduced = -1;

  int add(int64_t value) {
    values.push_back(value);
    return static_cast<int>(values.size()) - 1;
  }
};
KernelWords make_words(const KernelCode& code, const KernelLaunch& launch, const KernelNest& nest);

// The C++ type of an element.
const char* kernel_type_name(DType dtype);

// Writes the parts of a kernel's source.
class KernelWriter {
 public:
  KernelWriter(const KernelCode& code, const KernelNest& nest, const KernelWords& words)
      : code_(code), nest_(nest), words_(words), uses_(code.uses) {}

  // Names of types, the preamble, and functions made of the user's snippets: quarry_operation() or quarry_map(),
  // quarry_state with start(), push() and merge(), quarry_post().
  std::string declarations() const;
  // Raw arrays, scalars, n, _ind: local variables of every kernel, from the words `p`.
  std::string locals() const;
  // "quarry_operation(x(k), ...)" with `element` for the element parameters and `i` for the position.
  std::string call_operation(const std::vector<std::string>& elements, const std::string& index) const;
  std::string call_map(const std::vector<std::string>& elements, const std::string& index) const;
  std::string call_post(const std::string& state, const std::vector<std::string>& elements) const;
  // Of the parameter's elements, "const float" for inputs.
  std::string element_type(size_t argument) const;
  // The part of the key that the text depends on beside the code's own.
  std::string key() const;

 private:
  std::string parameters(bool inputs, bool outputs) const;
  std::string arguments(const std::vector<std::string>& elements, bool inputs, bool outputs) const;

  const KernelCode& code_;
  const KernelNest& nest_;
  const KernelWords& words_;
  const KernelUses& uses_;
};

// Throws CompileError with what a compiler said about a kernel's text, quoting the lines of the user's own parts.
[[noreturn]] void refuse_kernel(const KernelCode& code, const std::string& log);
// The same for a source in one piece, which the compiler knows as "source".
[[noreturn]] void refuse_source(const std::string& name, const std::string& source, const std::string& log);

// Whether `word` stands in a C++ text as an identifier.
bool mentions(std::string_view text, std::string_view word);

}  // namespace quarry::local
