// The generators of arrays of one process: distributions of numbers.
#include "quarry/local/ops/random/random.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/random/recipe.h"
#include "quarry/local/ops/statistics/support.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::local {
namespace {

using Array = NdArray;

bool is_array(const Arg& arg) { return arg.array() != nullptr; }
bool is_empty(const Arg& arg) { return is_array(arg) && arg.array()->size() == 0; }
DType dtype_of(const Arg& arg) { return arg.promotion().dtype; }
std::pair<Scalar, Scalar> extent_of_array(const Arg& arg) {
  const auto [low, high] = extremes(*arg.array());
  return {low.item(), high.item()};
}

}  // namespace

#include "quarry/local/ops/random/distributions.inl"

std::string Generator::bytes(int64_t length) {
  const Range named("random.bytes");
  if (length < 0) throw InvalidArgument(fmt::format("negative length {} of random bytes", length));
  Recipe recipe(*this, DType::float64, {}, Ints((length + 7) / 8));
  const NdArray words = recipe.make(recipe.bits(), DType::uint64).to(kCpu);
  std::string result(static_cast<size_t>(length), '\0');
  std::memcpy(result.data(), words.raw(), result.size());
  return result;
}

}  // namespace quarry::local
