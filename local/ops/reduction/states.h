// Reductions in steps: states that a program writes, what they are combined to, and what is returned.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/program/program.h"

namespace quarry::local {

// The shape of a reduction over the axes of `mask`.
Dims reduced_shape(const Dims& shape, uint32_t mask, bool keepdims);

// Queues a program that ends in reductions over the axes of `mask` of `space`, to which the inputs broadcast. The
// states have the kept axes, and the others as 1. Nothing runs where no state has elements.
// `outputs` are those of the program, over the space.
std::vector<NdArray> run_reductions(const Program& program, std::span<const NdArray* const> inputs, const Dims& space,
                                    uint32_t mask, const ExecContext& context,
                                    std::span<const NdArray* const> outputs = {});
// Throws InvalidArgument where there is nothing to reduce and no identity.
void check_reducible(Reduction reduction, const Dims& shape, uint32_t mask);
// Throws TypeError for more than one axis of a reduction that gives positions.
void check_axes(Reduction reduction, const Axes& axes, uint32_t mask, int ndim);
// Which keywords a call gives.
struct ReductionGiven {
  bool dtype = false, ddof = false, mean = false, initial = false, where = false;
};
// The axes, given first or by name, and their mask. Throws what a call of such keywords over such axes is refused with.
std::pair<Axes, uint32_t> reduced_axes(Reduction reduction, const Dims& shape, const Axes& first, const Axes& named,
                                       const ReductionGiven& given);
// What values of `dtype` are accumulated in, and what the result of mean, var and std is converted to where dtype= is
// no dtype of theirs. `to_one`: all axes are reduced. Throws TypeError for std of several numbers in integers.
struct ReductionDTypes {
  DType accumulate;
  std::optional<DType> converted;
};
ReductionDTypes reduction_dtypes(Reduction reduction, DType dtype, std::optional<DType> wanted, bool to_one);
// The position of an element in C order over the reduced axes of `shape`.
ValueId reduced_position(Program& program, const Dims& shape, uint32_t mask);
// The reduction that runs in place of `reduction`: that of positions where several NaNs among complex numbers would
// tell the order in which a device combines.
Reduction executed_reduction(Reduction reduction, DType accumulate, Device device);
// The result, with the kept axes as 1, from the states of executed_reduction().
NdArray finish_states(Reduction reduction, DType accumulate, double ddof, std::span<const NdArray> states,
                      const ExecContext& context);

// What is written into `out` and returned, or `result` itself: `result` with the kept axes as 1 becomes the shape that
// keepdims asks for. `function` is for messages. Casts to `out` without a rule, as NumPy's reductions do. Throws
// InvalidArgument where `out` has another shape.
NdArray deliver(const char* function, const NdArray& result, const Dims& shape, uint32_t mask, bool keepdims,
                const std::optional<NdArray>& out);

}  // namespace quarry::local
