#include "quarry/chunked/api/choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/manipulation/arrange.h"

namespace quarry {

using namespace compose;

namespace {

Dims shape_of(const Operand& operand) { return operand.is_array() ? operand.array().shape() : Dims(); }

// Choice i where condition i is the first that is true.
Array first_true(const std::vector<Array>& conditions, const std::vector<Operand>& choices, const Operand& otherwise) {
  std::vector<Operand> all = choices;
  all.push_back(otherwise);
  std::vector<Dims> shapes;
  for (const Operand& choice : all) shapes.push_back(shape_of(choice));
  for (const Array& condition : conditions) shapes.push_back(condition.shape());
  const DType dtype = promoted(all);
  // A literal out of range wraps, as in where().
  const auto typed_choice = [dtype](const Operand& choice) { return as_array(choice).astype(dtype); };
  Array result = typed_choice(otherwise);
  for (size_t i = conditions.size(); i-- > 0;) result = where(conditions[i], typed_choice(choices[i]), result);
  return broadcast_to(result, local::broadcast_shapes(shapes));
}

enum class Bounds : uint8_t { raise, wrap, clip };
Bounds parse_mode(std::string_view mode) {
  if (mode == "raise") return Bounds::raise;
  if (mode == "wrap") return Bounds::wrap;
  if (mode == "clip") return Bounds::clip;
  throw InvalidArgument(fmt::format("clipmode must be one of 'clip', 'raise', or 'wrap' (got '{}')", mode));
}
void check_order(std::string_view order) {
  if (order != "C" && order != "F") throw InvalidArgument("only 'C' or 'F' order is permitted");
}
void check_integers(const Array& array) {
  if (!local::is_integer(array.dtype())) throw local::TypeError("only int indices permitted");
}
// Of an array with elements.
std::pair<int64_t, int64_t> range_of(const Array& positions) {
  const Array ends[] = {min(positions), max(positions)};
  const std::vector<NdArray> values = to_host(ends);
  return {values[0].item().as_int64(), values[1].item().as_int64()};
}

}  // namespace

Array choose(const Array& a, const std::vector<Operand>& choices, std::string_view mode) {
  const Bounds bounds = parse_mode(mode);
  if (choices.empty()) throw InvalidArgument("invalid entry in choice array");
  if (!local::can_cast(a.dtype(), DType::int64, local::Casting::safe))
    throw local::TypeError(
        fmt::format("Cannot cast array data from dtype('{}') to dtype('int64') according to the rule 'safe'",
                    local::name(a.dtype())));
  Array positions = a.astype(DType::int64);
  const auto count = static_cast<int64_t>(choices.size());
  switch (bounds) {
    case Bounds::raise:
      if (a.size() > 0) {
        const auto [low, high] = range_of(positions);
        if (low < 0 || high >= count)
          throw InvalidArgument(
              fmt::format("invalid entry in choice array: {} with {} choices", low < 0 ? low : high, count));
      }
      break;
    case Bounds::wrap:
      positions = remainder(positions, count);
      break;
    case Bounds::clip:
      positions = clip(positions, 0, count - 1);
      break;
  }
  std::vector<Array> conditions;
  for (int64_t i = 0; i + 1 < count; ++i) conditions.push_back(positions == Scalar(i));
  const std::vector<Operand> before(choices.begin(), choices.end() - 1);
  const Array result = first_true(conditions, before, choices.back());
  return broadcast_to(result, local::broadcast_shapes(result.shape(), a.shape()));
}

Array select(const std::vector<Array>& condlist, const std::vector<Operand>& choicelist, const Operand& default_) {
  if (condlist.size() != choicelist.size())
    throw InvalidArgument("list of cases must be same length as list of conditions");
  if (condlist.empty()) throw InvalidArgument("select with an empty condition list is not possible");
  for (size_t i = 0; i < condlist.size(); ++i)
    if (condlist[i].dtype() != DType::bool_)
      throw local::TypeError(fmt::format("invalid entry {} in condlist: should be boolean ndarray", i));
  return first_true(condlist, choicelist, default_);
}

Array piecewise(const Array& x, const std::vector<Array>& condlist, const std::vector<Piece>& funclist) {
  const size_t count = condlist.size(), functions = funclist.size();
  if (functions != count && functions != count + 1)
    throw InvalidArgument(
        fmt::format("with {} condition(s), either {} or {} functions are expected", count, count, count + 1));
  const auto value_of = [&](const Piece& piece) {
    if (const Scalar* value = std::get_if<Scalar>(&piece.value())) return constant({}, *value, x.dtype());
    return std::get<0>(piece.value())(x).astype(x.dtype());
  };
  Array result = functions > count ? value_of(funclist.back()) : constant({}, 0, x.dtype());
  for (size_t i = 0; i < count; ++i) result = where(condlist[i].astype(DType::bool_), value_of(funclist[i]), result);
  return broadcast_to(result, x.shape());
}

std::vector<Array> unravel_index(const Array& indices, const Dims& shape, std::string_view order) {
  check_order(order);
  check_integers(indices);
  const Array flat = indices.astype(DType::int64);
  const int64_t size = local::element_count(shape);
  if (flat.size() > 0) {
    const auto [low, high] = range_of(flat);
    if (low < 0 || high >= size)
      throw InvalidArgument(
          fmt::format("index {} is out of bounds for array with size {}", low < 0 ? low : high, size));
  }
  const Dims strides = local::arrange::element_strides(shape, order);
  std::vector<Array> result;
  for (int d = 0; d < shape.size(); ++d)
    result.push_back(remainder(floor_divide(flat, strides[d]), std::max<int64_t>(shape[d], 1)));
  return result;
}

Array ravel_multi_index(const std::vector<Array>& multi_index, const Dims& dims, std::string_view mode,
                        std::string_view order) {
  check_order(order);
  const Bounds bounds = parse_mode(mode);
  if (static_cast<int>(multi_index.size()) != dims.size())
    throw InvalidArgument(fmt::format("parameter multi_index must be a sequence of length {}", dims.size()));
  local::element_count(dims);  // must fit
  const Dims strides = local::arrange::element_strides(dims, order);
  Array sum = constant({}, 0, DType::int64);
  for (int d = 0; d < dims.size(); ++d) {
    const Array& given = multi_index[static_cast<size_t>(d)];
    check_integers(given);
    Array at = given.astype(DType::int64);
    switch (bounds) {
      case Bounds::raise:
        if (at.size() > 0) {
          const auto [low, high] = range_of(at);
          if (low < 0 || high >= dims[d])
            throw InvalidArgument(fmt::format("invalid entry in coordinates array: {} for axis {} with size {}",
                                              low < 0 ? low : high, d, dims[d]));
        }
        break;
      case Bounds::wrap:
        at = remainder(at, dims[d]);
        break;
      case Bounds::clip:
        at = clip(at, 0, dims[d] - 1);
        break;
    }
    sum = sum + at * Scalar(strides[d]);
  }
  return sum;
}

namespace {

bool is_big(std::string_view bitorder) {
  if (bitorder != "big" && bitorder != "little")
    throw InvalidArgument(fmt::format("'order' must be either 'little' or 'big', not '{}'", bitorder));
  return bitorder == "big";
}
std::pair<Array, int> bits_along(const Array& a, std::optional<int64_t> axis) {
  if (!axis || (a.ndim() == 0 && (*axis == 0 || *axis == -1))) return {ravel(a), 0};
  return {a, local::normalize_axis(*axis, a.ndim())};
}
// How far each of eight bits, an axis after `axis`, is shifted.
Array shifts(bool big, int axis, int ndim) {
  const Array place = along(positions(8, DType::uint8), axis + 1, ndim + 1);
  return big ? Scalar::strong(7, DType::uint8) - place : place;
}
Dims with_bits(const Dims& shape, int axis, int64_t bytes) {
  Dims result = with_extent(shape, axis, bytes);
  result.insert(axis + 1, 8);
  return result;
}

}  // namespace

Array packbits(const Array& a, std::optional<int64_t> axis, std::string_view bitorder) {
  const bool big = is_big(bitorder);
  if (a.dtype() != DType::bool_ && !local::is_integer(a.dtype())) {
    throw local::TypeError(
        fmt::format("Expected an input array of integer or boolean data type, not {}", local::name(a.dtype())));
  }
  const auto [array, d] = bits_along(a, axis);
  const int64_t size = array.shape()[d], bytes = (size + 7) / 8;
  Array bits = not_equal(array, 0).astype(DType::uint8);
  if (bytes * 8 != size)
    bits = joined({bits, constant(with_extent(array.shape(), d, bytes * 8 - size), 0, DType::uint8)}, d);
  const Array spread = reshape(bits, with_bits(array.shape(), d, bytes));
  return sum(left_shift(spread, shifts(big, d, array.ndim())), d + 1, {.dtype = DType::uint8});
}

Array unpackbits(const Array& a, std::optional<int64_t> axis, std::optional<int64_t> count, std::string_view bitorder) {
  const bool big = is_big(bitorder);
  if (a.dtype() != DType::uint8)
    throw local::TypeError(
        fmt::format("Expected an input array of unsigned byte data type, not {}", local::name(a.dtype())));
  const auto [bytes, d] = bits_along(a, axis);
  int64_t all = 0;
  if (__builtin_mul_overflow(bytes.shape()[d], 8, &all))
    throw InvalidArgument("the bits are more than 64 bits can count");
  const int64_t wanted = !count ? all : *count < 0 ? all + *count : *count;
  if (wanted < 0) throw InvalidArgument(fmt::format("-count larger than number of elements: {} of {}", -*count, all));
  const Array spread = right_shift(with_axes(bytes, d + 1), shifts(big, d, bytes.ndim()));
  const Array bits = reshape(bitwise_and(spread, 1), with_extent(bytes.shape(), d, all));
  if (wanted <= all) return arrange::part(bits, d, 0, wanted);
  return joined({bits, constant(with_extent(bytes.shape(), d, wanted - all), 0, DType::uint8)}, d);
}

}  // namespace quarry
