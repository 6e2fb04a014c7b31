// Running accumulations and ordered folds along one axis.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams).
#pragma once

#include "quarry/local/program/engine.h"

namespace quarry::local {

// r = op(...op(op(x0, x1), x2)..., xn) along `axis` of `shape`, for a binary operation whose loop of `dtype` has
// results of that dtype. The 16-bit floats accumulate in float32.
struct ScanLaunch {
  Op op{};
  DType dtype = DType::float64;
  Dims shape;
  int axis = 0;
  DType input_dtype = DType::float64;  // converted to `dtype` as astype() does
  Operand input;                       // strides over `shape`
  Operand output;                      // of `dtype`; may be the input, element for element
  // What precedes every line, where data is not null: r = op(before, scan), each rounded to `dtype`. Of `dtype`, an
  // element per line; shares no memory with the output. Its stride along the axis does not count.
  Operand before = {};
  // The output is the last element of every line alone, to the bit that of a scan into a C-contiguous output; its
  // stride along the axis does not count, and it shares no memory with the input.
  bool only_last = false;
};

// A fold of ranges of positions along the axis: output i is the fold of [begins[i], ends[i]), which is not empty.
struct FoldLaunch {
  Op op{};
  DType dtype = DType::float64;  // of input and output
  Dims shape;                    // of the input
  int axis = 0;
  Operand input;
  Operand output;                   // its stride along the axis steps from range to range
  int64_t ranges = 1;               // outputs along the axis
  const int64_t* begins = nullptr;  // on the device; null: one range, the whole axis
  const int64_t* ends = nullptr;
};

// The strides that the whole output of a scan has, or would have.
Dims output_strides(const ScanLaunch& launch);

// Whether the operation may be grouped in any way (its NumPy reduction is a tree): then long axes are cut into parts.
bool is_associative(Op op);

class Scanning {
 public:
  virtual ~Scanning() = default;

  // Whether scan() and fold() have a loop: the operation is binary and maps two values of `dtype` to one.
  static bool supports(Op op, DType dtype);

  // Every prefix's fold. Floating-point results depend on shape and strides only.
  virtual int64_t scan_scratch_bytes(const ScanLaunch& launch) = 0;
  virtual void scan(const ScanLaunch& launch, const ExecContext& context) = 0;
  // In order; no scratch.
  virtual void fold(const FoldLaunch& launch, const ExecContext& context) = 0;
};

}  // namespace quarry::local
