#include "quarry/local/ops/sorting/sorting.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/sorting/rows.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local {

NdArray swapped_axes(const NdArray& a, int first, int second) {
  if (first == second) return a;
  std::vector<int64_t> axes(static_cast<size_t>(a.ndim()));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  std::swap(axes[static_cast<size_t>(first)], axes[static_cast<size_t>(second)]);
  return a.transpose(axes);
}

namespace {

void use(const NdArray& array, const ExecContext& context) { array.begin_read(context.stream); }

NdArray result_like(const NdArray& in, const Out& out, const ExecContext& context) {
  if (!out) return {in.shape(), in.dtype(), context};
  QUARRY_CHECK(out->shape() == in.shape() && out->dtype() == in.dtype() && out->is_contiguous());
  return *out;
}

NdArray sorted_by(decltype(&Sorting::sort) method, const NdArray& a, const ExecContext& context, const Out& given) {
  const NdArray in = packed(a, context);
  NdArray out = result_like(in, given, context);
  if (in.size() == 0) return out;
  use(in, context);
  (engine(context.device).sorting().*method)(in.dtype(), in.raw(), out.raw(), rows_of(in), context);
  return out;
}

}  // namespace

NdArray sorted_rows(const NdArray& a, const ExecContext& context, const Out& out) {
  return sorted_by(&Sorting::sort, a, context, out);
}

// Complex numbers are sorted by their positions anyway, and equal elements of others are the same.
NdArray stably_sorted_rows(const NdArray& a, const ExecContext& context, const Out& out) {
  return sorted_by(is_float(a.dtype()) ? &Sorting::sort_stably : &Sorting::sort, a, context, out);
}

NdArray merged_stretches(const NdArray& a, const std::vector<int64_t>& lengths, bool stably, const Out& given) {
  const int64_t count = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  if (a.ndim() != 1 || count != a.size())
    throw InvalidArgument(fmt::format("stretches of {} elements in an array of shape {}", count, to_string(a.shape())));
  const ExecContext context = context_for(a.device());
  const NdArray in = packed(a, context);
  NdArray out = result_like(in, given, context);
  if (in.size() == 0) return out;
  use(in, context);
  const bool differ = stably && is_float(a.dtype());
  engine(context.device).sorting().merge(in.dtype(), in.raw(), out.raw(), lengths, differ, context);
  return out;
}

NdArray argsorted_rows(const NdArray& a, const ExecContext& context) {
  const NdArray in = packed(a, context);
  NdArray out(in.shape(), DType::int64, context);
  if (in.size() == 0) return out;
  use(in, context);
  engine(context.device).sorting().argsort(in.dtype(), in.raw(), out.data<int64_t>(), rows_of(in), context);
  return out;
}

NdArray partitioned_rows(const NdArray& a, const std::vector<int64_t>& kth, const ExecContext& context) {
  const NdArray in = packed(a, context);
  NdArray out(in.shape(), in.dtype(), context);
  if (in.size() == 0) return out;
  use(in, context);
  engine(context.device).sorting().partition(in.dtype(), in.raw(), out.raw(), rows_of(in), kth, context);
  return out;
}

NdArray selected_rows(const NdArray& a, const std::vector<int64_t>& kth, const ExecContext& context) {
  const NdArray in = packed(a, context);
  Dims shape = in.shape();
  shape.back() = static_cast<int64_t>(kth.size());
  NdArray out(shape, in.dtype(), context);
  if (out.size() == 0) return out;
  use(in, context);
  engine(context.device).sorting().select(in.dtype(), in.raw(), out.raw(), rows_of(in), kth, context);
  return out;
}

bool is_stable(std::optional<std::string_view> kind, std::optional<bool> stable) {
  if (!kind || kind->empty()) return stable.value_or(false);
  const char first = kind->front();
  return first == 's' || first == 'S' || first == 'm' || first == 'M';
}

namespace ops {
namespace {

void check_order(std::optional<std::string_view> order) {
  if (order) throw InvalidArgument("Cannot specify order when the array has no fields.");
}

void check_sort_options(std::optional<std::string_view> kind, std::optional<std::string_view> order,
                        std::optional<bool> stable) {
  check_order(order);
  if (kind && stable) {
    throw InvalidArgument("`kind` and keyword parameters can't be provided at the same time. Use only one of them.");
  }
  if (!kind) return;
  const char first = kind->empty() ? '\0' : kind->front();  // as NumPy, which looks no further
  for (const char known : {'q', 'Q', 'h', 'H', 'm', 'M', 's', 'S'})
    if (first == known) return;
  throw InvalidArgument(fmt::format("sort kind must be one of 'quick', 'heap', or 'stable' (got '{}')", *kind));
}

void check_partition_options(std::string_view kind, std::optional<std::string_view> order) {
  check_order(order);
  if (kind != "introselect") throw InvalidArgument(fmt::format("select kind must be 'introselect' (got '{}')", kind));
}

// `f` of the rows along an axis, brought back to the array's order of axes.
template <class F>
NdArray along(const NdArray& a, std::optional<int64_t> axis, F&& f) {
  const ExecContext context = context_for(a.device());
  if (!axis) return f(flattened(a), context);
  const int d = normalize_axis(*axis, a.ndim());
  if (d == a.ndim() - 1) return f(a, context);
  return to_last_axis(f(to_last_axis(a, d), context), d).copy(context);
}

// Positions count from 0, in ascending order and once each. An array without elements takes every position, as NumPy.
std::vector<int64_t> positions(const Ints& kth, const NdArray& a, std::optional<int64_t> axis) {
  const int64_t length = a.size() == 0 ? 0 : axis ? a.shape(*axis) : a.size();
  std::vector<int64_t> result = kth.values();
  if (result.empty()) throw TypeError("Partition index must be integer");
  for (int64_t& k : result) {
    if (k < 0) k += length;
    if (length > 0 && (k < 0 || k >= length))
      throw InvalidArgument(fmt::format("kth(={}) out of bounds ({})", k, length));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Positions of the k last or first elements of every sorted row; the rows are packed.
NdArray end_positions(const NdArray& rows, int64_t k, bool last, const ExecContext& context) {
  Dims shape = rows.shape();
  shape.back() = k;
  NdArray order(shape, DType::int64, context);
  if (order.size() == 0) return order;
  use(rows, context);
  if (engine(context.device)
          .sorting()
          .ends(rows.dtype(), rows.raw(), order.data<int64_t>(), rows_of(rows), k, last, context))
    return order;
  const int64_t n = rows.shape().back();
  const Slice chosen = last ? Slice{n - k, std::nullopt, std::nullopt} : Slice{std::nullopt, k, std::nullopt};
  return packed(argpartition(rows, last ? n - k : k - 1)[{ellipsis, chosen}], context);
}

bool parse_side(std::string_view side) {
  if (side == "right") return true;
  if (side != "left") throw InvalidArgument(fmt::format("search side must be 'left' or 'right' (got '{}')", side));
  return false;
}

// Both in the dtype that they are compared in.
NdArray search(const NdArray& sorted, const NdArray& values, bool right) {
  const NdArray* both[] = {&sorted, &values};
  const ExecContext context = context_for(common_device(both));
  const NdArray row = packed(sorted, context), wanted = packed(values, context);
  NdArray out(values.shape(), DType::int64, context);
  if (out.size() == 0) return out;
  use(row, context);
  use(wanted, context);
  engine(context.device)
      .sorting()
      .searchsorted(row.dtype(), row.raw(), {1, row.size()}, wanted.raw(), wanted.size(), right, out.data<int64_t>(),
                    context);
  return out;
}

NdArray cast_to(const NdArray& a, DType dtype, const ExecContext& context) {
  return a.dtype() == dtype ? a : a.astype(dtype, context);
}

void check_one_dimension(const NdArray& a) {
  if (a.ndim() == 0) throw InvalidArgument("object of too small depth for desired array");
  if (a.ndim() > 1) throw InvalidArgument("object too deep for desired array");
}

// Whether a row of bins falls, in one read. Throws InvalidArgument where it also rises. Blocks.
bool decreases(const NdArray& bins) {
  Fused f;
  const auto low = f.input(bins[{Slice{std::nullopt, bins.size() - 1, std::nullopt}}]);
  const auto high = f.input(bins[{Slice{1, std::nullopt, std::nullopt}}]);
  const auto rises = f("less"_op, low, high), falls = f("greater"_op, low, high);
  for (const auto& step : {rises, falls, f("not_equal"_op, low, high)}) {
    const ValueId value[] = {f.id(step)};
    f.program().reduce("any"_reduction, value, DType::bool_);
  }
  const auto states = run_reductions(f.program(), f.inputs(), f.shape(), /*mask=*/1, f.context());
  Fused code;  // for one read of all
  const auto bit = [&](size_t k) {
    return code("multiply"_op, code.cast(code.input(states[k]), DType::int64), int64_t{1} << k);
  };
  const int64_t found = item_or(code.run(code("add"_op, code("add"_op, bit(0), bit(1)), bit(2))), 0).as_int64();
  if ((found & 3) == 3) throw InvalidArgument("bins must be monotonically increasing or decreasing");
  return found == 6 || found == 4;  // NaN beside numbers alone: as NumPy
}

}  // namespace

NdArray sort(const NdArray& a, std::optional<int64_t> axis, std::optional<std::string_view> kind,
             std::optional<std::string_view> order, std::optional<bool> stable) {
  const Range named("sort");
  check_sort_options(kind, order, stable);
  const auto sorted = is_stable(kind, stable) ? stably_sorted_rows : sorted_rows;
  return along(a, axis, [&](const NdArray& rows, const ExecContext& context) { return sorted(rows, context, {}); });
}

NdArray argsort(const NdArray& a, std::optional<int64_t> axis, std::optional<std::string_view> kind,
                std::optional<std::string_view> order, std::optional<bool> stable) {
  const Range named("argsort");
  check_sort_options(kind, order, stable);
  return along(a.ndim() == 0 ? a.reshape({1}) : a, axis,
               [](const NdArray& rows, const ExecContext& context) { return argsorted_rows(rows, context); });
}

NdArray sort_complex(const NdArray& a) {
  const Range named("sort_complex");
  const bool narrow = (is_integer(a.dtype()) && a.itemsize() <= 2) || a.dtype() == DType::complex64;
  return sort(a.astype(narrow ? DType::complex64 : DType::complex128));
}

NdArray partition(const NdArray& a, const Ints& kth, std::optional<int64_t> axis, std::string_view kind,
                  std::optional<std::string_view> order) {
  const Range named("partition");
  check_partition_options(kind, order);
  const std::vector<int64_t> wanted = positions(kth, a, axis);
  return along(a, axis, [&](const NdArray& rows, const ExecContext& context) {
    return partitioned_rows(rows, wanted, context);
  });
}

NdArray argpartition(const NdArray& a, const Ints& kth, std::optional<int64_t> axis, std::string_view kind,
                     std::optional<std::string_view> order) {
  const Range named("argpartition");
  check_partition_options(kind, order);
  const NdArray array = a.ndim() == 0 ? a.reshape({1}) : a;
  const std::vector<int64_t> wanted = positions(kth, array, axis);
  return along(array, axis, [&](const NdArray& rows, const ExecContext& context) {
    const NdArray in = packed(rows, context);
    NdArray out(in.shape(), DType::int64, context);
    if (in.size() == 0) return out;
    use(in, context);
    engine(context.device)
        .sorting()
        .argpartition(in.dtype(), in.raw(), out.data<int64_t>(), rows_of(in), wanted, context);
    return out;
  });
}

void sort_in_place(const NdArray& a, int64_t axis, std::optional<std::string_view> kind,
                   std::optional<std::string_view> order, std::optional<bool> stable) {
  const Range named("sort");
  check_sort_options(kind, order, stable);
  a.check_writable();
  const int d = normalize_axis(axis, a.ndim());
  const ExecContext context = context_for(a.device());
  if (a.size() == 0) return;
  if (is_stable(kind, stable) && is_float(a.dtype())) {
    const NdArray rows = to_last_axis(a, d);
    return rows.assign(stably_sorted_rows(rows, context), context);
  }
  if (d == a.ndim() - 1 && a.is_contiguous()) {
    a.begin_write(context.stream);
    engine(context.device).sorting().sort(a.dtype(), a.raw(), a.raw(), rows_of(a), context);
    return;
  }
  const NdArray rows = to_last_axis(a, d);
  rows.assign(sorted_rows(rows, context), context);
}

void partition_in_place(const NdArray& a, const Ints& kth, int64_t axis, std::string_view kind,
                        std::optional<std::string_view> order) {
  const Range named("partition");
  check_partition_options(kind, order);
  a.check_writable();
  const int d = normalize_axis(axis, a.ndim());
  const std::vector<int64_t> wanted = positions(kth, a, d);
  const ExecContext context = context_for(a.device());
  if (a.size() == 0) return;
  if (d == a.ndim() - 1 && a.is_contiguous()) {
    a.begin_write(context.stream);
    engine(context.device).sorting().partition(a.dtype(), a.raw(), a.raw(), rows_of(a), wanted, context);
    return;
  }
  const NdArray rows = to_last_axis(a, d);
  rows.assign(partitioned_rows(rows, wanted, context), context);
}

NdArray searchsorted(const NdArray& a, const Arg& v, std::string_view side, const std::optional<NdArray>& sorter) {
  const Range named("searchsorted");
  const bool right = parse_side(side);
  check_one_dimension(a);
  NdArray values = v.array() ? *v.array() : NdArray();
  const ExecContext context = context_for(a.device());
  if (!v.array()) {
    DeviceScope scope(context);
    values = NdArray({}, v.scalar().dtype(), context);
    values.fill(v.scalar(), context);
  }
  const DType common = promote_types(a.dtype(), values.dtype());
  if (sorter) {
    if (!is_integer(sorter->dtype())) throw TypeError("sorter must only contain integers");
    if (sorter->ndim() != 1) throw TypeError("could not parse sorter argument");
    if (sorter->size() != a.size()) throw InvalidArgument("sorter.size must equal a.size");
    if (sorter->size() > 0 && values.size() > 0) {
      const int64_t least = item_or(min(*sorter), 0).as_int64(), greatest = item_or(max(*sorter), 0).as_int64();
      if (least < 0 || greatest < 0 || greatest >= a.size()) {
        throw InvalidArgument(
            fmt::format("Sorter index out of range: {} to {} for {} elements", least, greatest, a.size()));
      }
    }
    return searchsorted(take(a, *sorter, 0, std::nullopt, "clip"), v, side);
  }
  return search(cast_to(a, common, context), cast_to(values, common, context), right);
}

NdArray lexsort(const std::vector<NdArray>& keys, int64_t axis) {
  const Range named("lexsort");
  if (keys.empty()) throw TypeError("need sequence of keys with len > 0 in lexsort");
  for (const NdArray& key : keys)
    if (key.shape() != keys.front().shape()) throw InvalidArgument("all keys need to be the same shape");
  std::vector<const NdArray*> all;
  for (const NdArray& key : keys) all.push_back(&key);
  const ExecContext context = context_for(common_device(all));
  if (keys.front().ndim() == 0) {
    if (axis != 0 && axis != -1) normalize_axis(axis, 0);  // throws; these two NumPy takes
    NdArray zero({}, DType::int64, context);
    zero.fill(0, context);
    return zero;
  }
  const int d = normalize_axis(axis, keys.front().ndim());
  NdArray order = argsorted_rows(to_last_axis(keys.front(), d), context);
  for (size_t k = 1; k < keys.size(); ++k) {
    const NdArray key = take_along_axis(to_last_axis(keys[k], d), order, -1);
    order = take_along_axis(order, argsorted_rows(key, context), -1);
  }
  return d == keys.front().ndim() - 1 ? order : to_last_axis(order, d).copy(context);
}

std::pair<NdArray, NdArray> top_k(const NdArray& a, int64_t k, int64_t axis, bool largest) {
  const Range named("top_k");
  const int d = normalize_axis(axis, a.ndim());
  const int64_t n = a.shape()[d];
  if (k < 0 || k > n) throw InvalidArgument(fmt::format("k(={}) out of bounds ({})", k, n));
  const ExecContext context = context_for(a.device());
  const NdArray rows = packed(to_last_axis(a, d), context);
  NdArray order = end_positions(rows, k, largest, context);
  NdArray values = take_along_axis(rows, order, -1);
  const NdArray ranks = argsorted_rows(values, context);
  const NdArray wanted = largest ? ranks[{ellipsis, Slice{std::nullopt, std::nullopt, -1}}] : ranks;
  values = take_along_axis(values, wanted, -1);
  order = take_along_axis(order, wanted, -1);
  if (d == a.ndim() - 1) return {values, order};
  return {to_last_axis(values, d).copy(context), to_last_axis(order, d).copy(context)};
}

NdArray digitize(const NdArray& x, const NdArray& bins, bool right) {
  const Range named("digitize");
  if (is_complex(x.dtype())) throw TypeError("x may not be complex");
  if (is_complex(bins.dtype())) throw TypeError("bins may not be complex");
  check_one_dimension(bins);
  const NdArray* both[] = {&x, &bins};
  const ExecContext context = context_for(common_device(both));
  const int64_t n = bins.size();
  const bool decreasing = n > 1 && decreases(bins);
  const DType common = promote_types(x.dtype(), bins.dtype());
  const NdArray values = cast_to(x, common, context), edges = cast_to(bins, common, context);
  if (!decreasing) return search(edges, values, !right);
  const NdArray flipped = edges[{Slice{std::nullopt, std::nullopt, -1}}];
  return apply("subtract"_op, {Scalar(n), search(flipped, values, !right)});
}

}  // namespace ops
}  // namespace quarry::local
