// Transforms along whole axes, X[k] = sum over j of x[j] w^(j k) with w = exp(-2 pi i / n): a Map for each group of
// axes that fit one chunk together. About 5 n log2 n operations a line of n, half of them for real ones. Between two
// groups the array is cut anew: a rank of R receives its part of it, but for the 1 / R that it has already.
//
// A line that fits no chunk is a matrix of n1 rows and n2 columns, j = n2 j1 + j2 and k = k1 + n1 k2 (Bailey, FFTs in
// External or Hierarchical Memory, 1990): transforms of the columns, factors w^(j2 k1), transforms of the rows, and the
// result read column by column; three exchanges. Tasks hold a chunk, its transform and the library's workspace.
//
// A line whose n has no two factors of like size is a convolution (Bluestein, A linear filtering approach to the
// computation of discrete Fourier transform, 1970): as j k = (j^2 + k^2 - (k - j)^2) / 2, with c[j] = w^(j^2 / 2) it is
//   X[k] = c[k] sum over j of x[j] c[j] conj(c[k - j]).
// It is done by two transforms of m >= 2 n - 1 points, m of small factors, as a matrix whose transform stays in the
// order that it has before the last of the four steps: four exchanges of m points. About 20 n log2 n operations a line,
// and half as many once for the chirp's transform. That is stored, m points, and m of every line between two stages.
#include "quarry/chunked/api/fft.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/chirp.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/op/hash.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ndarray/trial.h"
#include "quarry/local/ops/fft/request.h"

namespace quarry::fft {
namespace {

using namespace compose;
namespace transforms = local::ops::fft;
using algo::Along;
using local::TransformKind;
using transforms::Request;

// One of the kinds of transforms that the functions are made of.
struct Kind {
  const char* name;
  TransformKind kind;
  bool inverse;
  bool hermitian;  // conjugates, by the other direction's norm
  // Along all axes of a request at once, in `out` where it is given.
  NdArray (*local)(const NdArray&, const Request&, Norm, const std::optional<NdArray>& out);
};

template <auto function>
NdArray along_axes(const NdArray& a, const Request& request, Norm norm, const std::optional<NdArray>& out) {
  return function(a, request.lengths, std::vector<int64_t>(request.axes.begin(), request.axes.end()), norm, out);
}
template <auto function>
NdArray along_axis(const NdArray& a, const Request& request, Norm norm, const std::optional<NdArray>& out) {
  return function(a, request.lengths[0], request.axes[0], norm, out);
}

constexpr Kind kFft{"fft", TransformKind::complex, false, false, along_axes<transforms::fftn>};
constexpr Kind kIfft{"ifft", TransformKind::complex, true, false, along_axes<transforms::ifftn>};
constexpr Kind kRfft{"rfft", TransformKind::real_to_half, false, false, along_axes<transforms::rfftn>};
constexpr Kind kIrfft{"irfft", TransformKind::half_to_real, true, false, along_axes<transforms::irfftn>};
constexpr Kind kHfft{"hfft", TransformKind::half_to_real, false, true, along_axis<transforms::hfft>};
constexpr Kind kIhfft{"ihfft", TransformKind::real_to_half, true, true, along_axis<transforms::ihfft>};

// The norm may not outlive the call that names it.
using OwnedNorm = std::optional<std::string>;
OwnedNorm owned(Norm norm) { return norm ? OwnedNorm(*norm) : std::nullopt; }

// What is between, in the precision of the result.
DType complex_dtype(DType dtype) {
  const DType real = local::real_type(dtype);
  return local::is_float(real) && local::itemsize(real) < 8 ? DType::complex64 : DType::complex128;
}

int64_t usual_bytes() { return target_chunk_bytes(chunk_policy().device); }

// The most that the whole axes of a group may have: a usual chunk, or as much as the chunks of the array have.
int64_t most_bytes(const Array& a, int64_t itemsize) {
  return std::max(usual_bytes(), largest_chunk_bytes(a.chunks(), itemsize));
}

op::Hash identity_of(const Kind& kind, const Request& request, const OwnedNorm& norm) {
  op::Hash hash;
  hash.add(std::string_view("fft")).add(std::string_view(kind.name)).add(std::string_view(norm.value_or("backward")));
  for (size_t i = 0; i < request.axes.size(); ++i) hash.add(request.axes[i]).add(request.lengths[i]);
  return hash;
}

// A transform along the axes of a request, and what is done with its result in the same task.
struct Stage {
  Kind kind;
  Request request;
  OwnedNorm norm;
  std::function<NdArray(const NdArray& result, const Region& box)> finish = {};  // of a chunk; none: nothing
  uint64_t identity = 0;                                                         // of `finish`
};

// The dtype of the result, found on one element. Throws local's errors for norm and dtype.
DType result_dtype(const Array& a, const Kind& kind, const Request& request, const OwnedNorm& norm) {
  const Request one{request.axes, std::vector<int64_t>(request.axes.size(), 1)};
  const auto function = [&](std::span<const NdArray> arrays) {
    return std::vector<NdArray>{kind.local(arrays[0], one, norm, {})};
  };
  const local::ArraySpec element{Dims::filled(a.ndim(), 1), a.dtype()};
  return local::trial(function, std::span(&element, 1), local::DeviceKind::cpu).results[0].dtype;
}

// The array for tasks that each read one chunk of `boxes`. What is stored may be brought there in several stages; what
// is not is computed in chunks that the planner may cut further.
Array in_boxes(const Array& a, const Grid& boxes) {
  const expr::Node* node = a.node().get();
  for (const auto* view = node->as<expr::View>(); view != nullptr; view = node->as<expr::View>())
    node = view->arg.get();
  const bool is_computed = node->as<expr::Elementwise>() || node->as<expr::Constant>() || node->as<expr::Index>();
  return is_computed || boxes == a.chunks() ? a : a.rechunk(boxes);
}

// In one stage: the axes are whole in every chunk.
Array in_one_stage(const Array& a, const Stage& stage) {
  const DType dtype = result_dtype(a, stage.kind, stage.request, stage.norm);
  const int64_t itemsize = std::max(local::itemsize(a.dtype()), local::itemsize(dtype));
  int64_t line_bytes = itemsize;
  std::vector<int64_t> made(static_cast<size_t>(a.ndim()), -1);  // along the axes of the request
  for (size_t i = 0; i < stage.request.axes.size(); ++i) {
    const int axis = stage.request.axes[i];
    int64_t& extent = made[static_cast<size_t>(axis)];
    extent = transforms::made_extent(stage.kind.kind, stage.request, i);
    line_bytes *= std::max<int64_t>(a.shape()[axis], extent);
  }
  std::vector<AxisChunks> others;
  for (int d = 0; d < a.ndim(); ++d)
    if (made[static_cast<size_t>(d)] < 0) others.push_back(a.chunks().axis(d));
  const Grid cut = limited_grid(Grid(std::move(others)), line_bytes, most_bytes(a, itemsize));

  algo::MapSpec spec;
  spec.name = std::string("fft.") + stage.kind.name;
  spec.identity = identity_of(stage.kind, stage.request, stage.norm).add(stage.identity).value;
  spec.by_trial = true;
  // Engines transform several short lines at once, which rounds otherwise than one does.
  constexpr int64_t kShort = 64;
  spec.may_be_cut = std::ranges::all_of(stage.request.lengths, [](int64_t n) { return n > kShort; });
  std::vector<AxisChunks> axes, boxes;
  std::vector<Along> along;
  for (int d = 0, other = 0; d < a.ndim(); ++d) {
    if (const int64_t extent = made[static_cast<size_t>(d)]; extent >= 0) {
      axes.emplace_back(extent, extent);
      boxes.emplace_back(a.shape()[d], std::max<int64_t>(a.shape()[d], 1));
      along.push_back(Along::whole());
    } else {
      axes.push_back(cut.axis(other));
      boxes.push_back(cut.axis(other));
      along.push_back(Along::following(d, cut.axis(other++)));
    }
  }
  spec.along = {std::move(along)};
  Grid grid(std::move(axes));
  Dims shape = grid.shape();
  spec.outputs = {{std::move(shape), dtype, std::move(grid), a.node()->chosen_grid}};
  if (stage.finish) {
    spec.function = [stage](std::span<const NdArray> arrays, const ChunkPlace& place) {
      const NdArray result = stage.kind.local(arrays[0], stage.request, stage.norm, {});
      return std::vector<NdArray>{stage.finish(result, place.outputs[0])};
    };
  } else {
    spec.into = [stage](std::span<const NdArray> arrays, const ChunkPlace&, std::span<const NdArray> outputs) {
      stage.kind.local(arrays[0], stage.request, stage.norm, outputs[0]);
    };
  }
  return Array(algo::map(std::move(spec), {in_boxes(a, Grid(std::move(boxes))).node()})[0]);
}

// ---- Long lines ----

// The divisor of n that is nearest to its root from below.
int64_t middle_divisor(int64_t n) {
  auto divisor = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (divisor * divisor > n) --divisor;
  while (n % divisor != 0) --divisor;
  return divisor;
}

// x[k, j] exp(-+ 2 pi i k j / n), where k and j are positions along `axis` and the one behind it in a whole of which x
// is `box`.
NdArray twiddled(const NdArray& x, int axis, const Region& box, int64_t n, bool inverse) {
  local::Program program;
  const auto apply = [&](local::Op op, auto... arguments) { return program.apply(op, std::array{arguments...}); };
  const auto complex = [&](local::ValueId value) { return program.cast(value, x.dtype()); };
  const auto along = [&](int d) {
    return apply("add"_op, program.index(d), program.constant(Scalar(box.start[d]), DType::int64));
  };
  const local::ValueId value = program.input(x.dtype());
  const local::ValueId position = program.cast(apply("multiply"_op, along(axis), along(axis + 1)), DType::float64);
  const double turn = (inverse ? 2 : -2) * std::numbers::pi;
  const local::ValueId part =
      apply("divide"_op, position, program.constant(Scalar(static_cast<double>(n)), DType::float64));
  const local::ValueId angle = apply("multiply"_op, part, program.constant(Scalar(turn), DType::float64));
  const local::ValueId i = program.constant(Scalar(std::complex<double>(0, 1)), x.dtype());
  const local::ValueId factor =
      apply("add"_op, complex(apply("cos"_op, angle)), apply("multiply"_op, complex(apply("sin"_op, angle)), i));
  program.output(apply("multiply"_op, value, factor));
  const local::ExecContext context = local::context_for(x.device());
  NdArray result(x.shape(), x.dtype(), context);
  const NdArray *inputs[] = {&x}, *outputs[] = {&result};
  local::run_elementwise(program, inputs, outputs, context);
  return result;
}

// A transform along `axis` or the one behind it of lines as matrices along both, and factors of n points.
Stage twiddled_stage(int along, int64_t extent, int axis, int64_t n, bool inverse, const OwnedNorm& norm) {
  Stage stage{inverse ? kIfft : kFft, {{along}, {extent}}, norm};
  stage.finish = [axis, n, inverse](const NdArray& result, const Region& box) {
    return twiddled(result, axis, box, n, inverse);
  };
  stage.identity = op::Hash().add(axis).add(n).value;
  return stage;
}

// Lines along an axis as matrices of n1 rows.
Array as_matrices(const Array& a, int axis, int64_t n1) {
  Dims split = a.shape();
  split[axis] = n1;
  split.insert(axis + 1, a.shape()[axis] / n1);
  return reshape(a, split);
}

// Steps one to three of four, for lines as matrices along `axis` and the one behind it: the transform of n = n1 n2
// points with k = k1 + n1 k2 at (k1, k2).
Array in_three_steps(const Array& matrices, int axis, bool inverse, const OwnedNorm& norm) {
  const int64_t n1 = matrices.shape()[axis], n2 = matrices.shape()[axis + 1];
  const Array turned = in_one_stage(matrices, twiddled_stage(axis, n1, axis, n1 * n2, inverse, norm));
  return in_one_stage(turned, {inverse ? kIfft : kFft, {{axis + 1}, {n2}}, norm});
}

// A complex transform of n = n1 n2 points along one axis in four steps (Bailey 1990, "FFTs in external or hierarchical
// memory"): with positions n2 j1 + j2 and results k1 + n1 k2, transforms over j1, factors exp(-+ 2 pi i j2 k1 / n),
// transforms over j2, and a transposition. No task holds a line.
Array in_four_steps(const Array& a, int axis, int64_t n1, bool inverse, const OwnedNorm& norm) {
  return reshape(swapaxes(in_three_steps(as_matrices(a, axis, n1), axis, inverse, norm), axis, axis + 1), a.shape());
}

// Cut off or filled up with zeros.
Array with_length(const Array& a, int axis, int64_t length) {
  const int64_t extent = a.shape()[axis];
  if (extent == length) return a;
  if (extent > length) return arrange::part(a, axis, 0, length);
  return joined({a, constant(with_extent(a.shape(), axis, length - extent), 0, a.dtype())}, axis);
}

// What the sums of a transform of n points are multiplied by.
double factor_of(int64_t n, bool inverse, const OwnedNorm& norm) {
  const std::string_view name = norm ? std::string_view(*norm) : "backward";
  if (name == "ortho") return 1 / std::sqrt(static_cast<double>(n));
  return (name == "forward") != inverse ? 1 / static_cast<double>(n) : 1;
}

// A complex transform along one axis as a convolution (Bluestein). No task holds a line.
Array by_convolution(const Array& a, int axis, const chirps::Padded& size, bool inverse, const OwnedNorm& norm) {
  const int64_t n = a.shape()[axis], rows = size.rows, columns = size.columns, m = rows * columns;
  const DType dtype = a.dtype();
  const Array at = along(positions(n), axis, a.ndim());
  const Array chirped = with_length(a * chirps::chirp(at, n, inverse, dtype), axis, m);
  // conj(c[l]) for l in (-n, n), modulo m. Elsewhere the chirp of 0 takes the place of others, and counts nothing.
  const Array l = positions({rows, columns}, 0) * columns + positions({rows, columns}, 1);
  const Array distance = minimum(l, m - l), is_near = distance < n;
  const Array other = chirps::chirp(where(is_near, distance, 0), n, !inverse, dtype) * is_near.astype(dtype);
  Dims beside = Dims::filled(a.ndim() + 1, 1);
  beside[axis] = rows;
  beside[axis + 1] = columns;
  const Array spectrum = reshape(in_three_steps(other, 0, /*inverse=*/false, {}), beside);
  const Array product = in_three_steps(as_matrices(chirped, axis, rows), axis, /*inverse=*/false, {}) * spectrum;
  // The three steps backwards.
  const Array turned = in_one_stage(product, twiddled_stage(axis + 1, columns, axis, m, /*inverse=*/true, {}));
  const Array sums = reshape(in_one_stage(turned, {kIfft, {{axis}, {rows}}, {}}), with_extent(a.shape(), axis, m));
  const Array factors = chirps::chirp(at, n, inverse, dtype) * factor_of(n, inverse, norm);
  return arrange::part(sums, axis, 0, n) * factors;
}

OwnedNorm swapped(const OwnedNorm& norm) {
  if (!norm || *norm == "backward") return "forward";
  return *norm == "forward" ? "backward" : norm;
}

// A line that is too long for one chunk; nothing where it is not, or so long that no matrix of it has lines that fit.
std::optional<Array> of_long_lines(const Array& a, const Kind& kind, const Request& request, const OwnedNorm& norm) {
  constexpr int64_t kMostChunks = 4;  // in a line that is one chunk
  constexpr int64_t kCopies = 4;      // of a line in its task
  const int axis = request.axes[0];
  const int64_t n = request.lengths[0];
  const DType result = result_dtype(a, kind, request, norm);
  const DType dtype = complex_dtype(a.dtype());
  const int64_t item = local::itemsize(dtype);
  const int64_t most = std::min(std::max(kMostChunks * usual_bytes(), largest_chunk_bytes(a.chunks(), item)),
                                Runtime::current().plan_bytes() / kCopies) /
                       item;
  if (n <= most) return std::nullopt;
  const int64_t n1 = middle_divisor(n);
  const bool has_factors = n / n1 <= most;
  const chirps::Padded size = has_factors ? chirps::Padded{} : chirps::padded(2 * n - 1);
  if (size.columns > most) return std::nullopt;
  const bool mirrors = kind.kind == TransformKind::half_to_real, halves = kind.kind == TransformKind::real_to_half;
  Array x = with_length(a, axis, transforms::read_extent(kind.kind, request, 0)).astype(dtype);
  if (mirrors) {
    // The elements that are their own mirror images count as real.
    const int64_t half = n / 2 + 1, others = (n - 1) / 2;
    const auto real_at = [&](int64_t at) { return real(arrange::part(x, axis, at, 1)).astype(dtype); };
    std::vector<Array> parts{real_at(0), arrange::part(x, axis, 1, others)};
    if (n % 2 == 0) parts.push_back(real_at(half - 1));
    parts.push_back(conjugate(arrange::backwards(arrange::part(x, axis, 1, others), axis)));
    x = joined(parts, axis);
    if (kind.hermitian) x = conjugate(x);
  }
  // Both Hermitian transforms are the others of swapped norms.
  const bool inverse = kind.hermitian ? !kind.inverse : kind.inverse;
  const OwnedNorm other = kind.hermitian ? swapped(norm) : norm;
  Array y = has_factors ? in_four_steps(x, axis, n1, inverse, other) : by_convolution(x, axis, size, inverse, other);
  if (halves) y = arrange::part(y, axis, 0, n / 2 + 1);
  if (halves && kind.hermitian) y = conjugate(y);
  return (mirrors ? real(y) : y).astype(result);
}

// ---- Groups of axes ----

Array transformed(const Array& given, const Kind& kind, const Request& request, const OwnedNorm& norm) {
  if (request.axes.size() == 1) {
    if (std::optional<Array> result = of_long_lines(given, kind, request, norm)) return *std::move(result);
  }
  // What is not read is not brought to the task either.
  Array a = given;
  for (size_t i = 0; i < request.axes.size(); ++i) {
    const int64_t read = transforms::read_extent(kind.kind, request, i);
    if (a.shape()[request.axes[i]] > read) a = arrange::part(a, request.axes[i], 0, read);
  }
  return in_one_stage(a, {kind, request, norm});
}

// Whether a line along the axes of a request is at most `most` elements.
bool fits(const Dims& shape, const Request& request, int64_t most) {
  double elements = 1;
  for (size_t i = 0; i < request.axes.size(); ++i)
    elements *= static_cast<double>(std::max<int64_t>({shape[request.axes[i]], request.lengths[i], 1}));
  return elements <= static_cast<double>(most);
}

// Axes from `begin` up to `end` of a request.
Request part_of(const Request& request, size_t begin, size_t end) {
  const auto at = [](const auto& list, size_t i) { return list.begin() + static_cast<std::ptrdiff_t>(i); };
  return {{at(request.axes, begin), at(request.axes, end)}, {at(request.lengths, begin), at(request.lengths, end)}};
}

// The axes in groups that are transformed together, in local's order: the last one goes first, but a half comes back to
// a whole at the very end.
Array along_all(const Array& a, const Kind& kind, const Request& request, const OwnedNorm& norm) {
  const size_t count = request.axes.size();
  const bool is_half = local::is_float(a.dtype()) && local::itemsize(a.dtype()) == 2;
  const int64_t itemsize = local::itemsize(complex_dtype(a.dtype()));
  const int64_t most = most_bytes(a, itemsize) / itemsize;
  const auto together = [&](size_t begin, size_t end) {
    const Request part = part_of(request, begin, end);
    return transforms::has_distinct_axes(part) && fits(a.shape(), part, most);
  };
  const Kind& between = kind.inverse ? kIfft : kFft;
  Array result = a;
  if (kind.kind == TransformKind::half_to_real) {
    for (size_t begin = 0; begin < count;) {
      size_t end = begin + 1;
      // The factor of the first axis is rounded as 16-bit floats are: it goes alone, unless all go together.
      if (together(begin, count))
        end = count;
      else
        while (end < count && !(is_half && begin == 0) && together(begin, end + 1)) ++end;
      result = transformed(result, end == count ? kind : between, part_of(request, begin, end), norm);
      begin = end;
    }
    return result;
  }
  for (size_t end = count; end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && together(begin - 1, end)) --begin;
    result = transformed(result, end == count ? kind : between, part_of(request, begin, end), norm);
    end = begin;
  }
  return result;
}

Array one_axis(const Kind& kind, const Array& a, std::optional<int64_t> n, int64_t axis, Norm norm) {
  return along_all(a, kind, transforms::request_along(kind.kind, a.shape(), n, axis), owned(norm));
}
Array axes_of(const Kind& kind, const Array& a, const Lengths& s, const Lengths& axes, Norm norm) {
  return along_all(a, kind, transforms::request_along_all(kind.kind, a.shape(), s, axes), owned(norm));
}

}  // namespace

#define QUARRY_ONE_AXIS(name, kind)                                               \
  Array name(const Array& a, std::optional<int64_t> n, int64_t axis, Norm norm) { \
    return one_axis(kind, a, n, axis, norm);                                      \
  }
QUARRY_ONE_AXIS(fft, kFft)
QUARRY_ONE_AXIS(ifft, kIfft)
QUARRY_ONE_AXIS(rfft, kRfft)
QUARRY_ONE_AXIS(irfft, kIrfft)
QUARRY_ONE_AXIS(hfft, kHfft)
QUARRY_ONE_AXIS(ihfft, kIhfft)
#undef QUARRY_ONE_AXIS

#define QUARRY_SEVERAL_AXES(name, kind)                                          \
  Array name(const Array& a, const Lengths& s, const Lengths& axes, Norm norm) { \
    return axes_of(kind, a, s, axes, norm);                                      \
  }
QUARRY_SEVERAL_AXES(fftn, kFft)
QUARRY_SEVERAL_AXES(ifftn, kIfft)
QUARRY_SEVERAL_AXES(rfftn, kRfft)
QUARRY_SEVERAL_AXES(irfftn, kIrfft)
QUARRY_SEVERAL_AXES(fft2, kFft)
QUARRY_SEVERAL_AXES(ifft2, kIfft)
QUARRY_SEVERAL_AXES(rfft2, kRfft)
QUARRY_SEVERAL_AXES(irfft2, kIrfft)
#undef QUARRY_SEVERAL_AXES

}  // namespace quarry::fft
