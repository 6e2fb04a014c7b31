// Prefixes' folds along an axis that is cut into chunks: y[i] = x[0] + ... + x[i] for an associative +.
//
// For a line of n chunks c_0 ... c_(n-1): every chunk's total is the last element of its own scan, which is read for it
// and not written; the carry of chunk i is the fold of the totals before it, in order; y = carry + scan of the chunk,
// in one pass. Totals and carries have an element per chunk and line, so x is read twice and y written once, and no two
// chunks are in one task. The same totals are what
// the last elements of chunks are made of, so sums of positive numbers ascend across chunks too. Where the order of
// the operations makes no difference (integers, extremes, truth), totals are folds per chunk, which fuse with what x is
// computed from. Bits depend on the chunks alone. An axis of one chunk is one scan per chunk.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"

namespace quarry::algo {
namespace {

namespace ops = local::ops;
using local::DType;
using local::NdArray;

struct Scan {
  std::string name;
  int64_t bytes_per_element = 0;  // of positions and masks on the way
  uint64_t identity = 0;          // of what the functions capture
  DType dtype = DType::float64;   // of the result
  // Of a chunk, along the axis; after `before`, of length 1 along the axis, where there is something.
  std::function<void(const NdArray& x, const std::optional<NdArray>& before, const NdArray& out)> scan;
  std::function<void(const NdArray& x, const NdArray& out)> last;  // the last elements of that alone
  std::function<NdArray(const NdArray&)> scan_totals;              // of the results of that
  std::optional<local::Reduction> fold = {};  // that gives the last element of a chunk's scan exactly
};

// Positions [start, stop) along an axis.
NdArray part(const NdArray& x, int axis, int64_t start, int64_t stop) {
  std::vector<local::IndexItem> index(static_cast<size_t>(axis), local::IndexItem(local::full_slice));
  index.emplace_back(local::Slice{start, stop, {}});
  return x[index];
}

NodePtr scanned(const Scan& scan, const NodePtr& arg, int axis) {
  const Grid& grid = arg->grid;
  std::vector<Along> along;
  for (int d = 0; d < grid.ndim(); ++d) along.push_back(Along::following(d, grid.axis(d)));
  const uint64_t identity = op::Hash().add(scan.identity).add(axis).value;
  const op::ArraySpec result{arg->shape, scan.dtype, grid, arg->chosen_grid};
  const int64_t count = grid.axis(axis).count();
  if (count == 1) {
    MapSpec whole{scan.name, identity, {std::move(along)}, {result}, nullptr, {}};
    whole.bytes_per_element = scan.bytes_per_element;
    whole.by_trial = true;
    whole.into = [scan](std::span<const NdArray> arrays, const ChunkPlace&, std::span<const NdArray> outputs) {
      scan.scan(arrays[0], {}, outputs[0]);
    };
    return map(std::move(whole), {arg})[0];
  }

  const auto with_axis = [&](AxisChunks cuts) {
    std::vector<AxisChunks> axes = grid.axes();
    axes[static_cast<size_t>(axis)] = std::move(cuts);
    Grid made(std::move(axes));
    const Dims shape = made.shape();
    return op::ArraySpec{shape, scan.dtype, std::move(made), /*chosen_grid=*/true};
  };
  const AxisChunks each(count, 1);
  const auto total_of_chunks = [&] {
    if (scan.fold) return expr::fold_chunks(*scan.fold, arg, uint32_t{1} << axis, grid, scan.dtype);
    MapSpec totals{scan.name + " totals", identity, {along}, {with_axis(each)}, nullptr, {}};
    totals.bytes_per_element = scan.bytes_per_element;
    totals.by_trial = true;
    totals.into = [scan](std::span<const NdArray> arrays, const ChunkPlace&, std::span<const NdArray> outputs) {
      scan.last(arrays[0], outputs[0]);
    };
    return map(std::move(totals), {arg})[0];
  };
  const NodePtr total = total_of_chunks();

  std::vector<Along> line = along;
  line[static_cast<size_t>(axis)] = Along::whole();
  MapSpec carries{scan.name + " carries", identity, {line}, {with_axis(AxisChunks(count, count))}, nullptr, {}};
  carries.bytes_per_element = scan.bytes_per_element;
  carries.function = [scan, axis, count](std::span<const NdArray> arrays, const ChunkPlace&) {
    // Carry 0 is of no chunk and is not read.
    const NdArray folds = scan.scan_totals(arrays[0]);
    return std::vector<NdArray>{ops::concatenate({part(folds, axis, 0, 1), part(folds, axis, 0, count - 1)}, axis)};
  };
  const NodePtr carry = map(std::move(carries), {total})[0];

  // A chunk reads its own carries, or, where that is little beside it, those of all chunks of the line: no part of them
  // has to be taken out then.
  const int64_t elements = local::element_count(grid.largest()), carried = elements / grid.axis(axis).largest() * count;
  const bool takes_all = 8 * carried <= elements;
  std::vector<Along> of_carry = along;
  of_carry[static_cast<size_t>(axis)] = takes_all ? Along::whole() : Along::following(axis, each);
  MapSpec sums{scan.name, identity, {along, of_carry}, {result}, nullptr, {}};
  sums.bytes_per_element = scan.bytes_per_element;
  sums.by_trial = true;
  sums.into = [scan, axis, takes_all](std::span<const NdArray> arrays, const ChunkPlace& place,
                                      std::span<const NdArray> outputs) {
    const int64_t i = place.coordinates[axis];
    std::optional<NdArray> before;
    if (i > 0) before = takes_all ? part(arrays[1], axis, i, i + 1) : arrays[1];
    scan.scan(arrays[0], before, outputs[0]);
  };
  return map(std::move(sums), {arg, carry})[0];
}

// A scan that is a function of whole chunks and its combination with a carry, in place.
void scan_whole(Scan& scan, int axis, const std::function<void(const NdArray& x, const NdArray& out)>& whole,
                const std::function<void(const NdArray& carry, const NdArray& chunk)>& combine) {
  scan.scan = [whole, combine](const NdArray& x, const std::optional<NdArray>& before, const NdArray& out) {
    whole(x, out);
    if (before) combine(*before, out);
  };
  scan.last = [whole, axis, dtype = scan.dtype](const NdArray& x, const NdArray& out) {
    const NdArray chunk(x.shape(), dtype);
    whole(x, chunk);
    const int64_t n = x.shape()[axis];
    out.assign(part(chunk, axis, n - 1, n));
  };
}

// The reduction that gives the same in any order of the operations, if there is one.
std::optional<local::Reduction> exact_fold(local::Op op, DType dtype) {
  const std::optional<local::Reduction> fold = local::reduction_of(op);
  const bool is_extreme = op == "maximum"_op || op == "minimum"_op;
  const bool is_exact = is_extreme || dtype == DType::bool_ || local::is_integer(dtype);
  if (!fold || !is_exact || local::result_dtype(*fold, dtype) != dtype) return {};
  return fold;
}

// Every NaN becomes the last element before it that is none.
NdArray pushed(const NdArray& x, int axis) {
  const NdArray missing = local::apply("isnan"_op, {x});
  Dims line = Dims::filled(x.ndim(), 1);
  line[axis] = x.shape()[axis];
  const NdArray positions = ops::arange(x.shape()[axis]).reshape(line);
  const NdArray last = ops::ufunc_accumulate("maximum"_op, local::apply("where"_op, {missing, -1, positions}), axis);
  // Where there is none, the first element is NaN itself.
  return ops::take_along_axis(x, local::apply("maximum"_op, {last, 0}), axis);
}

}  // namespace

NodePtr accumulate(local::Op op, const NodePtr& arg, int axis, std::optional<DType> dtype, bool skip_nan) {
  Scan scan;
  scan.name = std::string(skip_nan ? "nan" : "") + local::info(op).name + ".accumulate";
  scan.identity = op::Hash().add(static_cast<int>(op)).add(dtype ? static_cast<int>(*dtype) : -1).add(skip_nan).value;
  scan.dtype = local::fold_dtype(op, arg->dtype, dtype, {});
  scan.scan_totals = [op, axis, dtype = scan.dtype](const NdArray& x) {
    return ops::ufunc_accumulate(op, x, axis, dtype);
  };
  if (skip_nan) {
    scan_whole(
        scan, axis,
        [op, axis, dtype = scan.dtype](const NdArray& x, const NdArray& out) {
          if (op == "add"_op)
            ops::nancumsum(x, axis, dtype, out);
          else
            ops::nancumprod(x, axis, dtype, out);
        },
        [op, dtype = scan.dtype](const NdArray& carry, const NdArray& chunk) {
          local::apply(op, {carry, chunk}, local::UfuncOptions{.dtype = dtype, .out = chunk});
        });
  } else {
    scan.scan = [op, axis](const NdArray& x, const std::optional<NdArray>& before, const NdArray& out) {
      local::scan_axis(op, x, axis, out, before);
    };
    scan.last = [op, axis](const NdArray& x, const NdArray& out) { local::last_of_scan(op, x, axis, out); };
    scan.fold = exact_fold(op, scan.dtype);
  }
  return scanned(scan, arg, axis);
}

NodePtr push(const NodePtr& arg, int axis) {
  if (!local::is_float(arg->dtype) && !local::is_complex(arg->dtype)) return arg;
  Scan scan;
  scan.name = "push";
  scan.bytes_per_element = 3 * sizeof(int64_t);
  scan.dtype = arg->dtype;
  scan.scan_totals = [axis](const NdArray& x) { return pushed(x, axis); };
  scan_whole(
      scan, axis, [axis](const NdArray& x, const NdArray& out) { out.assign(pushed(x, axis)); },
      [](const NdArray& carry, const NdArray& chunk) {
        local::apply("where"_op, {local::apply("isnan"_op, {chunk}), carry, chunk}, local::UfuncOptions{.out = chunk});
      });
  return scanned(scan, arg, axis);
}

}  // namespace quarry::algo
