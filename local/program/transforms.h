// Discrete Fourier transforms over some axes of an array.
// Part of Engine: the same contract (queued on context.stream, scratch from context.memory and at most what the
// *_scratch_bytes() function says, thread-safe for different streams).
#pragma once

#include <vector>

#include "quarry/local/program/engine.h"

namespace quarry::local {

enum class TransformKind : uint8_t {
  complex,       // y[k] = sum over j of x[j] exp(-2 pi i jk / n)
  real_to_half,  // the same of real x, for k <= n / 2 along the last of the axes
  half_to_real,  // the inverse: real y from those x[j] with j <= n / 2 along the last of the axes. Of an element that
                 // is its own mirror image the imaginary part does not count.
};

// Applied along each of `axes` in turn. The elements are of `dtype` and of the complex type of that precision.
struct Transform {
  TransformKind kind = TransformKind::complex;
  DType dtype = DType::float64;  // float32 or float64
  bool inverse = false;          // complex: exp(+2 pi i jk / n). The real kinds have one direction each
  double scale = 1;              // of every result
  Dims shape;                    // of the side without halves; the axes' lengths are at least 1
  std::vector<int> axes;         // distinct, at least one
  Dims input_shape;              // what there is to read: at most input_extents() along the axes, the rest counts as 0
  Operand input, output;         // strides over shape's axes; they share no memory
};

// The shapes of input (without missing elements) and output.
inline Dims half_extents(const Transform& t) {
  Dims shape = t.shape;
  shape[t.axes.back()] = shape[t.axes.back()] / 2 + 1;
  return shape;
}
inline Dims input_extents(const Transform& t) {
  return t.kind == TransformKind::half_to_real ? half_extents(t) : t.shape;
}
inline Dims output_extents(const Transform& t) {
  return t.kind == TransformKind::real_to_half ? half_extents(t) : t.shape;
}
constexpr DType complex_type(DType real) { return real == DType::float32 ? DType::complex64 : DType::complex128; }
inline DType input_type(const Transform& t) {
  return t.kind == TransformKind::real_to_half ? t.dtype : complex_type(t.dtype);
}
inline DType output_type(const Transform& t) {
  return t.kind == TransformKind::half_to_real ? t.dtype : complex_type(t.dtype);
}

class Transforms {
 public:
  virtual ~Transforms() = default;
  // Plans are kept, for a bounded number of different transforms.
  virtual int64_t transform_scratch_bytes(const Transform& transform) = 0;
  virtual void transform(const Transform& transform, const ExecContext& context) = 0;
};

}  // namespace quarry::local
