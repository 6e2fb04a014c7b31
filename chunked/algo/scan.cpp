// Prefixes' folds along an axis that is cut into chunks: y[i] = x[0] + ... + x[i] for an associative +.
//
// For a line of n chunks c_0 ... c_(n-1): every chunk's total is the last element of its own scan, which is read for it
// and not written; the carry of chunk i is the fold of the totals before it, in order; y = carry + scan of the chunk,
// in one pass. Totals and carries have an element per chunk and line, so x is read twice and y written once, and no two
// chunks are in one task. The same totals are what
// the last elements of chunks are made of, so sums of positive numbers ascend across chunks too. Where the order of
// the operations makes no difference (integers, extremes, truth), totals are folds per chunk, which fuse with what x is
// computed from. On a device, segments of chunks take the place of chunks while the folds of all of them are few: then
// no block of threads waits for another one. Bits depend on the chunks alone. An axis of one chunk is one scan per
// chunk.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/ufunc/apply.h"
#include "quarry/local/ops/ufunc/folds.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/program/scanning.h"

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
  // The same in segments of the axis (local/ops/ufunc/folds.h): their folds, their scans after what precedes each, and
  // what precedes the first one; none for functions that are not cut.
  std::function<void(const NdArray& x, int64_t length, const NdArray& out)> fold_segments;
  std::function<void(const NdArray& x, int64_t length, const NdArray& before, const NdArray& out)> scan_segments;
  std::optional<local::Scalar> identity_value = {};
};

int64_t divided(int64_t n, int64_t by) { return (n + by - 1) / by; }

// On a device, chunks are scanned in segments of so many elements where that keeps all of it busy without a part that
// waits for another: a warp has a line that is contiguous in memory, a thread one of many neighbours. One task has what
// precedes all segments, so they are not many. 0: not in segments.
int64_t segment_length(const Grid& grid, int axis, int64_t itemsize) {
  constexpr int64_t kLeastElements = 1 << 18, kWarps = 4096, kThreads = 65536, kLeastSegments = 4;
  constexpr int64_t kWarpsTile = 512, kRows = 32, kMostBytes = int64_t{64} << 20;
  const Dims chunk = grid.largest();
  const int64_t elements = local::element_count(chunk), n = chunk[axis];
  if (chunk_policy().device == local::DeviceKind::cpu || elements < kLeastElements) return 0;
  int64_t inner = 1;
  for (int d = axis + 1; d < chunk.size(); ++d) inner *= chunk[d];
  const int64_t lines = elements / n, threads = inner == 1 ? kWarps : kThreads;
  for (int64_t wanted = threads / lines; wanted >= std::max(kLeastSegments, threads / 2 / lines); wanted /= 2) {
    const int64_t length = local::align_up(divided(n, wanted), inner == 1 ? kWarpsTile : kRows);
    if (n < kLeastSegments * length) return 0;
    if (divided(n, length) * lines * grid.axis(axis).count() * itemsize <= kMostBytes) return length;
  }
  return 0;
}

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
  // Folds are of segments of chunks, or of whole chunks.
  const bool is_stored = arg->as<expr::Stored>() != nullptr || arg->as<expr::Source>() != nullptr;
  const bool may_cut = scan.identity_value && (is_stored || !scan.fold);
  const int64_t length = may_cut ? segment_length(grid, axis, local::itemsize(scan.dtype)) : 0;
  AxisChunks each(count, 1);
  if (length > 0) {
    std::vector<int64_t> segments;
    for (int64_t i = 0; i < count; ++i) segments.push_back(divided(grid.axis(axis).size(i), length));
    each = AxisChunks(segments);
  }
  const uint64_t cut_identity = op::Hash().add(identity).add(length).value;
  const auto total_of_chunks = [&] {
    if (length == 0 && scan.fold) return expr::fold_chunks(*scan.fold, arg, uint32_t{1} << axis, grid, scan.dtype);
    MapSpec totals{scan.name + " totals", cut_identity, {along}, {with_axis(each)}, nullptr, {}};
    totals.bytes_per_element = scan.bytes_per_element;
    totals.by_trial = true;
    totals.into = [scan, length](std::span<const NdArray> arrays, const ChunkPlace&, std::span<const NdArray> outputs) {
      if (length > 0)
        scan.fold_segments(arrays[0], length, outputs[0]);
      else
        scan.last(arrays[0], outputs[0]);
    };
    return map(std::move(totals), {arg})[0];
  };
  const NodePtr total = total_of_chunks();

  const int64_t totals = each.extent();
  std::vector<Along> line = along;
  line[static_cast<size_t>(axis)] = Along::whole();
  MapSpec carries{scan.name + " carries", cut_identity, {line}, {with_axis(AxisChunks(totals, totals))}, nullptr, {}};
  carries.bytes_per_element = scan.bytes_per_element;
  carries.by_trial = length > 0;
  carries.into = [scan, axis, totals, length](std::span<const NdArray> arrays, const ChunkPlace&,
                                              std::span<const NdArray> outputs) {
    const NdArray first = part(outputs[0], axis, 0, 1);
    if (length > 0) {
      first.fill(*scan.identity_value);
      scan.scan(part(arrays[0], axis, 0, totals - 1), {}, part(outputs[0], axis, 1, totals));
      return;
    }
    // Carry 0 is of no chunk and is not read.
    const NdArray folds = scan.scan_totals(arrays[0]);
    first.assign(part(folds, axis, 0, 1));
    part(outputs[0], axis, 1, totals).assign(part(folds, axis, 0, totals - 1));
  };
  const NodePtr carry = map(std::move(carries), {total})[0];

  // A chunk reads its own carries, or, where that is little beside it, those of all chunks of the line: no part of them
  // has to be taken out then.
  const int64_t elements = local::element_count(grid.largest()),
                carried = elements / grid.axis(axis).largest() * totals;
  const bool takes_all = length > 0 || 8 * carried <= elements;
  std::vector<Along> of_carry = along;
  of_carry[static_cast<size_t>(axis)] = takes_all ? Along::whole() : Along::following(axis, each);
  MapSpec sums{scan.name, cut_identity, {along, of_carry}, {result}, nullptr, {}};
  sums.bytes_per_element = scan.bytes_per_element;
  sums.by_trial = true;
  sums.into = [scan, axis, takes_all, length, each](std::span<const NdArray> arrays, const ChunkPlace& place,
                                                    std::span<const NdArray> outputs) {
    const int64_t i = place.coordinates[axis];
    const NdArray before = takes_all ? part(arrays[1], axis, each.start(i), each.start(i + 1)) : arrays[1];
    if (length > 0)
      scan.scan_segments(arrays[0], length, before, outputs[0]);
    else if (i > 0)
      scan.scan(arrays[0], before, outputs[0]);
    else
      scan.scan(arrays[0], {}, outputs[0]);
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
    if (local::is_associative(op)) scan.identity_value = local::exact_identity(op, scan.dtype);
    scan.fold_segments = [op, axis](const NdArray& x, int64_t length, const NdArray& out) {
      local::fold_segments(op, x, axis, length, out);
    };
    scan.scan_segments = [op, axis](const NdArray& x, int64_t length, const NdArray& before, const NdArray& out) {
      local::scan_segments(op, x, axis, length, before, out);
    };
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
