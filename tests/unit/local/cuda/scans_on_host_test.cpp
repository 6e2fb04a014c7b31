// The kernels of scans, run on the host: all forms, last elements alone, what precedes the lines, groups and sections
// of tiles. What they give is compared with the CPU's scans.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/scanning.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "tests/unit/local/cuda/kernels_on_host.h"

namespace quarry::local::cuda {
namespace {

NdArray from(const NdArray& x, int axis, int64_t start, int64_t stop, int64_t step = 1) {
  std::vector<IndexItem> index(static_cast<size_t>(axis), IndexItem(full_slice));
  index.emplace_back(step > 0 ? Slice{start, stop, step} : Slice{{}, {}, step});
  return x[index];
}

// Values that show their order: sums round, products stay near 1; some have NaN.
NdArray values(const Dims& shape, DType dtype, bool some_nan = false) {
  const NdArray i = ops::arange(element_count(shape));
  if (is_integer(dtype)) return (i % 7 - 3).astype(dtype).reshape(shape);
  if (dtype == DType::bool_) return ops::equal(i % 3, 0).reshape(shape);
  // Sums of 16-bit floats would end at their largest number.
  NdArray x = (ops::sin(i.astype(DType::float64)) * 0.01 + (itemsize(dtype) == 2 ? 0.0 : 1.0)).astype(dtype);
  if (some_nan) x[{Slice{5, {}, 1001}}].fill(Scalar(std::nan("")));
  return x.reshape(shape);
}

bool same_bits(const NdArray& a, const NdArray& b) {
  const NdArray x = a.copy(), y = b.copy();
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.size() * itemsize(x.dtype()))) == 0;
}

// The kernels of one operation, input and result; every kernel is compiled once, in a namespace of its own.
class ScansOnHost {
 public:
  ScansOnHost(Op op, DType input, DType dtype) : op_(op), input_(input), dtype_(dtype) {
    for (const ScanKernel kernel :
         {ScanKernel::lines, ScanKernel::warps, ScanKernel::look, ScanKernel::across, ScanKernel::last_lines,
          ScanKernel::last_warps, ScanKernel::last_look, ScanKernel::last_across}) {
      ModuleSource source = make_scan_source(kernel, op, input, dtype);
      const std::string space = "scan" + std::to_string(static_cast<int>(kernel));
      const std::string name = "namespace quarry::local::scan", once = "#pragma once";
      for (size_t at = 0; (at = source.text.find(name, at)) != std::string::npos; at += name.size())
        source.text.replace(at, name.size(), "namespace quarry::local::" + space);
      if (const size_t at = source.text.find(once); at != std::string::npos) source.text.erase(at, once.size());
      names_[kernel] = source.kernels[0];
      host_.add(source, space);
    }
  }
  // False where there is no compiler.
  bool compile() {
    try {
      host_.compile();
    } catch (const NotSupported&) {
      return false;
    }
    return true;
  }

  // The kernel that ran.
  ScanKernel run(const NdArray& x, int axis, const NdArray& out, const NdArray* before, bool only_last) {
    ScanLaunch launch;
    launch.op = op_;
    launch.dtype = dtype_;
    launch.shape = x.shape();
    launch.axis = axis;
    launch.input_dtype = input_;
    launch.input = operand(x, x.shape());
    launch.output = operand(out, x.shape());
    if (before) launch.before = operand(*before, x.shape());
    launch.only_last = only_last;
    ScanCall call = make_scan_call(launch);
    const std::vector<uint64_t> chain(static_cast<size_t>(call.chain_bytes / 8));
    if (!chain.empty()) call.set_chain(chain.data());
    EXPECT_EQ(host_.call(names_.at(call.kernel), call.blocks, 1, call.slots), "");
    return call.kernel;
  }

  // The whole scan, the same after what precedes it, and its last elements.
  void check(const NdArray& x, int axis, ScanKernel expected) {
    SCOPED_TRACE(std::string(info(op_).name) + " of " + x.to_string().substr(0, 40) + ", axis " + std::to_string(axis));
    const NdArray scan(x.shape(), dtype_), again(x.shape(), dtype_);
    EXPECT_EQ(run(x, axis, scan, nullptr, false), expected);
    const NdArray reference = ops::ufunc_accumulate(op_, x, axis, dtype_);
    if (is_float(dtype_) || is_complex(dtype_)) {
      const double tolerance = itemsize(dtype_) == 2 ? 2e-2 : 1e-10;
      EXPECT_TRUE(ops::allclose(scan, reference, tolerance, tolerance, true));
    } else {
      EXPECT_TRUE(same_bits(scan, reference));
    }
    Dims kept = x.shape();
    kept[axis] = 1;
    const NdArray before = values(kept, dtype_);
    run(x, axis, again, &before, false);
    const NdArray continued = apply(op_, {before, scan}, dtype_);
    EXPECT_TRUE(same_bits(again, continued));
    // Lines lie in the results as they like.
    const NdArray last = ops::empty(kept, dtype_), reversed = last.copy();
    run(x, axis, last, nullptr, true);
    const int64_t n = x.shape()[axis];
    EXPECT_TRUE(same_bits(last, from(scan, axis, n - 1, n)));
    run(x, axis, from(reversed, axis == 0 ? x.ndim() - 1 : 0, 0, 0, -1), &before, true);
    EXPECT_TRUE(same_bits(from(reversed, axis == 0 ? x.ndim() - 1 : 0, 0, 0, -1), from(continued, axis, n - 1, n)));
  }

 private:
  const Op op_;
  const DType input_, dtype_;
  KernelsOnHost host_;
  std::map<ScanKernel, std::string> names_;
};

class ScanFormsOnHost : public ::testing::TestWithParam<std::tuple<const char*, DType, DType, bool>> {};

TEST_P(ScanFormsOnHost, AgreeWithTheCpu) {
  const auto& [name, input, dtype, some_nan] = GetParam();
  ScansOnHost scans(*find_op(name), input, dtype);
  if (!scans.compile()) GTEST_SKIP() << "no compiler";
  const auto x = [&, in = input, nan = some_nan](const Dims& shape) { return values(shape, in, nan); };
  // A thread per line; short lines; one element.
  scans.check(x({1}), 0, ScanKernel::lines);
  scans.check(x({64, 3}), 0, ScanKernel::lines);
  scans.check(x({5, 17}), 1, ScanKernel::lines);
  if (itemsize(input) >= 8) scans.check(x({70, 32768}), 0, ScanKernel::lines);
  // A warp per line, and lines of whole tiles and of a part.
  scans.check(x({3, 65}), 1, ScanKernel::warps);
  scans.check(x({2, 1000}), 1, ScanKernel::warps);
  scans.check(x({2100, 70}), 1, ScanKernel::warps);
  scans.check(x({3, 1002})[{Slice{}, Slice{1, {}, {}}}], 1, ScanKernel::warps);
  // Blocks along lines: a part of a tile, one group and more, backwards, every other element.
  scans.check(x({20000}), 0, ScanKernel::look);
  scans.check(x({2, 3, 40001}), 2, ScanKernel::look);
  scans.check(from(x({150000}), 0, 0, 0, -1), 0, ScanKernel::look);
  scans.check(from(x({270000}), 0, 1, 269999, 2), 0, ScanKernel::look);
  // Blocks across lines: few and many, more than a block's, more axes, backwards.
  scans.check(x({65, 2}), 0, ScanKernel::across);
  scans.check(x({300, 33}), 0, ScanKernel::across);
  scans.check(x({5000, 37}), 0, ScanKernel::across);
  scans.check(x({3, 129, 4}), 1, ScanKernel::across);
  scans.check(x({2, 300, 3, 5}), 1, ScanKernel::across);
  scans.check(from(x({9001, 8}), 0, 0, 0, -1), 0, ScanKernel::across);
  scans.check(from(x({4500, 40}), 1, 0, 0, -1), 0, ScanKernel::across);
}

INSTANTIATE_TEST_SUITE_P(Types, ScanFormsOnHost,
                         ::testing::Values(std::tuple("add", DType::float64, DType::float64, false),
                                           std::tuple("add", DType::float16, DType::float16, false),
                                           std::tuple("add", DType::bool_, DType::int64, false),
                                           std::tuple("add", DType::float32, DType::float64, true),
                                           std::tuple("multiply", DType::complex128, DType::complex128, false),
                                           std::tuple("maximum", DType::float32, DType::float32, true),
                                           std::tuple("logical_or", DType::bool_, DType::bool_, false)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + local::name(std::get<1>(info.param)) +
                                  "_" + local::name(std::get<2>(info.param));
                         });

// More than 1024 tiles: the fold of a section.
TEST(ScansOnHost, Sections) {
  ScansOnHost scans("add"_op, DType::float64, DType::float64);
  if (!scans.compile()) GTEST_SKIP() << "no compiler";
  scans.check(values({4096 * 1025 + 3}, DType::float64), 0, ScanKernel::look);
  scans.check(values({2048 * 1056 + 5, 2}, DType::float64), 0, ScanKernel::across);
}

}  // namespace
}  // namespace quarry::local::cuda
