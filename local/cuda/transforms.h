// The GPU engine's family of local/program/transforms.h.
#pragma once

#include <optional>

#include "quarry/local/cuda/transform_plans.h"
#include "quarry/local/program/transforms.h"

namespace quarry::local::cuda {

Transforms& cuda_transforms();

// ---- For tests: how a transform becomes plans of cuFFT ----

// A transform of some axes of operands of one iteration space: the axes of a plan, outermost first (at most three), and
// the extents of both sides.
struct AxisGroup {
  TransformKind kind = TransformKind::complex;
  DType dtype = DType::float64;
  Dims lengths;  // of the axes, in their order
  std::vector<int> axes;
  Dims input_extents, output_extents;
  Operand input, output;
};

// One plan, run at several places: bytes from the first elements.
struct GroupLayout {
  PlanLayout plan;
  struct Place {
    int64_t input = 0, output = 0;
  };
  std::vector<Place> places;
};
// Nothing where cuFFT cannot take the memory as it lies, or only in many calls.
std::optional<GroupLayout> layout_of(const AxisGroup& group);
// The axes of `axes` that one plan takes, outermost first, ending in `innermost`.
std::vector<int> plan_axes(int innermost, const std::vector<int>& axes, const Dims& input_extents, const Operand& input,
                           const Dims& output_extents, const Operand& output);

}  // namespace quarry::local::cuda
