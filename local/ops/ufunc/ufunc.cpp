#include "quarry/local/ops/ufunc/ufunc.h"

#include "quarry/local/base/detail.h"

namespace quarry::local::ops {
namespace {

std::pair<NdArray, NdArray> apply_pair(std::string_view function, std::initializer_list<Arg> args,
                                       OptionalDType dtype) {
  const MultiOutput* entry = find_multi_output(function);
  QUARRY_CHECK(entry != nullptr);
  std::vector<NdArray> results =
      apply(*entry, std::span<const Arg>(args.begin(), args.size()), UfuncOptions{.dtype = dtype});
  return {std::move(results[0]), std::move(results[1])};
}

}  // namespace

std::pair<NdArray, NdArray> divmod(const Arg& x, const Arg& y, OptionalDType dtype) {
  return apply_pair("divmod", {x, y}, dtype);
}
std::pair<NdArray, NdArray> modf(const Arg& x, OptionalDType dtype) { return apply_pair("modf", {x}, dtype); }
std::pair<NdArray, NdArray> frexp(const Arg& x, OptionalDType dtype) { return apply_pair("frexp", {x}, dtype); }

}  // namespace quarry::local::ops
