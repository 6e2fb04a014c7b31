#include "quarry/local/ops/types/types.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/ufunc/operators.h"

namespace quarry::local::ops {
namespace {

// The abstract types above a dtype, by name, and the concrete ones by theirs.
struct AbstractType {
  std::string_view name;
  std::string_view kinds;  // letters of kind() below it
};
constexpr std::array<AbstractType, 8> kAbstract = {{{"generic", "biufc"},
                                                    {"number", "iufc"},
                                                    {"integer", "iu"},
                                                    {"signedinteger", "i"},
                                                    {"unsignedinteger", "u"},
                                                    {"inexact", "fc"},
                                                    {"floating", "f"},
                                                    {"complexfloating", "c"}}};

const AbstractType* find_abstract(std::string_view text) {
  for (const AbstractType& type : kAbstract)
    if (type.name == text) return &type;
  return nullptr;
}

struct AnyType {
  std::optional<DType> dtype;
  const AbstractType* abstract = nullptr;
};
AnyType any_type(const std::variant<DType, std::string_view>& argument) {
  if (const DType* dtype = std::get_if<DType>(&argument)) return {*dtype, nullptr};
  const std::string_view text = std::get<std::string_view>(argument);
  if (const AbstractType* abstract = find_abstract(text)) return {std::nullopt, abstract};
  if (const std::optional<DType> dtype = parse_dtype(text)) return {dtype, nullptr};
  throw TypeError(fmt::format("data type '{}' not understood", text));
}

struct KindName {
  std::string_view name, kinds;
};
constexpr std::array<KindName, 7> kKinds = {{{"bool", "b"},
                                             {"signed integer", "i"},
                                             {"unsigned integer", "u"},
                                             {"integral", "iu"},
                                             {"real floating", "f"},
                                             {"complex floating", "c"},
                                             {"numeric", "iufc"}}};

bool is_of_kind(DType dtype, const std::variant<std::string_view, DType>& wanted) {
  if (const DType* other = std::get_if<DType>(&wanted)) return dtype == *other;
  const std::string_view text = std::get<std::string_view>(wanted);
  for (const KindName& row : kKinds)
    if (row.name == text) return row.kinds.find(kind(dtype)) != std::string_view::npos;
  throw InvalidArgument(fmt::format("kind argument is a string, but '{}' is not a known kind name.", text));
}

DType dtype_of(const std::variant<DType, NdArray>& argument) {
  if (const NdArray* array = std::get_if<NdArray>(&argument)) return array->dtype();
  return std::get<DType>(argument);
}

// A type, or a number of it.
void require_type_or_number(const std::variant<DType, NdArray>& argument) {
  const NdArray* array = std::get_if<NdArray>(&argument);
  if (array && array->ndim() > 0)
    throw InvalidArgument(
        fmt::format("a dtype or a number is needed, not an array of shape {}", to_string(array->shape())));
}

DType smallest_integer(const Scalar& value) {
  const bool is_unsigned = kind(value.dtype()) == 'u';
  const int64_t v = value.as_int64();
  if (is_unsigned || v >= 0) {
    const uint64_t u = value.as_uint64();
    return u <= 0xff ? DType::uint8 : u <= 0xffff ? DType::uint16 : u <= 0xffffffff ? DType::uint32 : DType::uint64;
  }
  return v >= INT8_MIN ? DType::int8 : v >= INT16_MIN ? DType::int16 : v >= INT32_MIN ? DType::int32 : DType::int64;
}

// By range only, as NumPy: precision is not looked at.
DType smallest_float(double value) {
  if (!std::isfinite(value) || std::fabs(value) < 65000) return DType::float16;
  return std::fabs(value) < 3.4e38 ? DType::float32 : DType::float64;
}

bool parse_bitorder(std::string_view bitorder) {
  if (bitorder == "big") return true;
  if (bitorder == "little") return false;
  throw InvalidArgument(fmt::format("'order' must be either 'little' or 'big', not '{}'", bitorder));
}

// The elements of up to eight views as the bits of one byte each.
void pack(const NdArray& target, std::span<const NdArray> bits, bool big) {
  if (target.size() == 0) return;
  Program program;
  std::vector<const NdArray*> inputs;
  ValueId byte = -1;
  for (size_t i = 0; i < bits.size(); ++i) {
    const DType dtype = bits[i].dtype();
    const ValueId compared[] = {program.input(dtype), program.constant(Scalar::strong(0, dtype), dtype)};
    const ValueId bit = program.cast(program.apply("not_equal"_op, compared), DType::uint8);
    const auto weight = static_cast<int64_t>(big ? 0x80u >> i : 1u << i);
    const ValueId weighted[] = {bit, program.constant(weight, DType::uint8)};
    const ValueId term = program.apply("multiply"_op, weighted);
    const ValueId both[] = {byte, term};
    byte = byte < 0 ? term : program.apply("bitwise_or"_op, both);
    inputs.push_back(&bits[i]);
  }
  program.output(byte);
  const NdArray* out[] = {&target};
  run_elementwise(program, inputs, out, context_for(target.device()));
}

// Eight neighbouring bytes along the last axis as one number, without a copy; nothing where they are not neighbours or
// do not begin at multiples of eight bytes. The axis has a multiple of eight elements.
std::optional<NdArray> as_words(const NdArray& bytes) {
  const int last = bytes.ndim() - 1;
  if (bytes.size() == 0 || bytes.strides()[last] != 1 || bytes.offset() % 8 != 0) return std::nullopt;
  Dims shape = bytes.shape(), strides = bytes.strides();
  for (int d = 0; d < last; ++d)
    if (strides[d] % 8 != 0 && shape[d] > 1) return std::nullopt;
  shape[last] /= 8;
  strides[last] = 8;
  return bytes.restrided(shape, strides, bytes.offset(), DType::uint64);
}

ValueId word_constant(Program& program, uint64_t value) {
  return program.constant(Scalar::strong(value, DType::uint64), DType::uint64);
}

// pack() of eight truth values, 0 or 1, that are the bytes of a number: its product with a constant that has a bit for
// each has them side by side in the upper byte, and nothing carries.
void pack_words(const NdArray& target, const NdArray& words, bool big) {
  Program program;
  const auto two = [&](Op op, ValueId a, uint64_t b) {
    return program.apply(op, std::array{a, word_constant(program, b)});
  };
  const ValueId product =
      two("multiply"_op, program.input(DType::uint64), big ? 0x8040201008040201 : 0x0102040810204080);
  program.output(program.cast(two("right_shift"_op, product, 56), DType::uint8));
  const NdArray *in[] = {&words}, *out[] = {&target};
  run_elementwise(program, in, out, context_for(target.device()));
}

// The reverse: each byte of a number keeps its own bit of eight copies of a byte, which then moves down.
void unpack_words(const NdArray& words, const NdArray& bytes, bool big) {
  Program program;
  const auto two = [&](Op op, ValueId a, uint64_t b) {
    return program.apply(op, std::array{a, word_constant(program, b)});
  };
  constexpr uint64_t kOnes = 0x0101010101010101;
  const ValueId copies = two("multiply"_op, program.cast(program.input(DType::uint8), DType::uint64), kOnes);
  const ValueId own = two("bitwise_and"_op, copies, big ? 0x0102040810204080 : 0x8040201008040201);
  const ValueId top = two("add"_op, own, 0x7f * kOnes);  // the top bit of a byte that is not 0
  program.output(two("bitwise_and"_op, two("right_shift"_op, top, 7), kOnes));
  const NdArray *in[] = {&bytes}, *out[] = {&words};
  run_elementwise(program, in, out, context_for(words.device()));
}

// --- shares_memory ---------------------------------------------------------------------------------------------------

// One term step * x of a sum, 0 <= x <= last.
struct Term {
  int64_t step, last;
};

// Whether the terms can add up to `target`. Terms are sorted by descending step; gcds[i] divides every sum of the terms
// from i on, reach[i] is the largest.
class BoundedSum {
 public:
  BoundedSum(std::vector<Term> terms, int64_t max_work) : terms_(std::move(terms)), max_work_(max_work) {
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.step > b.step; });
    gcds_.assign(terms_.size() + 1, 0);
    reach_.assign(terms_.size() + 1, 0);
    for (size_t i = terms_.size(); i-- > 0;) {
      gcds_[i] = std::gcd(gcds_[i + 1], terms_[i].step);
      reach_[i] = reach_[i + 1] + static_cast<__int128>(terms_[i].step) * terms_[i].last;
    }
  }

  bool reaches(__int128 target, size_t first = 0) {
    if (target < 0 || target > reach_[first]) return false;
    if (target == 0 || target == reach_[first]) return true;
    if (gcds_[first] == 0 || target % gcds_[first] != 0) return false;
    const Term& term = terms_[first];
    // What this term must leave to the others lies in [0, reach of them].
    const __int128 least = target - reach_[first + 1];
    __int128 low = least > 0 ? (least + term.step - 1) / term.step : 0;
    const __int128 high = std::min<__int128>(term.last, target / term.step);
    if (first + 1 == terms_.size()) return low <= high;  // target is a multiple of the step
    for (; low <= high; ++low) {
      if (max_work_ >= 0 && ++work_ > max_work_)
        throw InvalidArgument(fmt::format("shares_memory: max_work of {} is exceeded", max_work_));
      if (reaches(target - low * term.step, first + 1)) return true;
    }
    return false;
  }

 private:
  std::vector<Term> terms_;
  std::vector<int64_t> gcds_;
  std::vector<__int128> reach_;
  const int64_t max_work_;
  int64_t work_ = 0;
};

// Adds the bytes of an array's elements as terms; returns the lowest address.
int64_t add_terms(const NdArray& a, std::vector<Term>& terms) {
  auto low = static_cast<int64_t>(reinterpret_cast<intptr_t>(a.raw()));
  for (int d = 0; d < a.ndim(); ++d) {
    const int64_t last = a.shape()[d] - 1, step = a.strides()[d];
    if (last == 0 || step == 0) continue;
    if (step < 0) low += step * last;
    terms.push_back({std::abs(step), last});
  }
  if (a.itemsize() > 1) terms.push_back({1, a.itemsize() - 1});
  return low;
}

}  // namespace

bool can_cast(const std::variant<DType, Arg>& from_, DType to, std::string_view casting) {
  const Casting rule = parse_casting(casting);
  if (const DType* from = std::get_if<DType>(&from_)) return local::can_cast(*from, to, rule);
  const PromotionOperand operand = std::get<Arg>(from_).promotion();
  if (operand.weak) {
    throw TypeError(
        "can_cast() does not support Python ints, floats, and complex because the result used to depend on the value.");
  }
  return local::can_cast(operand.dtype, to, rule);
}

DType promote_types(DType type1, DType type2) { return local::promote_types(type1, type2); }

DType result_type(const std::vector<std::variant<DType, Arg>>& arrays_and_dtypes) {
  if (arrays_and_dtypes.empty()) throw InvalidArgument("at least one array or dtype is required");
  std::vector<PromotionOperand> operands;
  for (const auto& each : arrays_and_dtypes) {
    if (const DType* dtype = std::get_if<DType>(&each))
      operands.push_back({*dtype, false});
    else
      operands.push_back(std::get<Arg>(each).promotion());
  }
  return local::result_type(operands);
}

DType min_scalar_type(const NdArray& a) {
  if (a.ndim() > 0 || a.dtype() == DType::bool_) return a.dtype();
  const Scalar value = a.item();
  if (is_integer(a.dtype())) return smallest_integer(value);
  const auto fits = [&](DType smallest) { return itemsize(smallest) < itemsize(a.dtype()) ? smallest : a.dtype(); };
  if (a.dtype() == DType::bfloat16) return a.dtype();
  if (is_float(a.dtype())) return fits(smallest_float(value.as_double()));
  const std::complex<double> z = value.as_complex();
  const bool narrow = smallest_float(z.real()) != DType::float64 && smallest_float(z.imag()) != DType::float64;
  return narrow ? DType::complex64 : a.dtype();
}

bool issubdtype(const std::variant<DType, std::string_view>& arg1, const std::variant<DType, std::string_view>& arg2) {
  const AnyType below = any_type(arg1), above = any_type(arg2);
  if (above.dtype) return below.dtype == above.dtype;
  if (below.dtype) return above.abstract->kinds.find(kind(*below.dtype)) != std::string_view::npos;
  for (char letter : below.abstract->kinds)
    if (above.abstract->kinds.find(letter) == std::string_view::npos) return false;
  return true;
}

bool isdtype(DType dtype, const DTypeKind& kind) {
  if (const auto* text = std::get_if<std::string_view>(&kind)) return is_of_kind(dtype, *text);
  if (const auto* other = std::get_if<DType>(&kind)) return dtype == *other;
  bool any = false;
  for (const auto& each : std::get<std::vector<std::variant<std::string_view, DType>>>(kind))
    any = is_of_kind(dtype, each) || any;
  return any;
}

FloatInfo finfo(const std::variant<DType, NdArray>& argument) {
  require_type_or_number(argument);
  const DType dtype = real_type(dtype_of(argument));
  if (!is_float(dtype)) throw InvalidArgument(fmt::format("data type '{}' not inexact", name(dtype)));
  FloatInfo info;
  info.dtype = dtype;
  info.bits = itemsize(dtype) * 8;
  info.nmant = dtype == DType::float16 ? 10 : dtype == DType::bfloat16 ? 7 : dtype == DType::float32 ? 23 : 52;
  info.nexp = info.iexp = info.bits - info.nmant - 1;
  info.maxexp = int64_t{1} << (info.nexp - 1);
  info.minexp = 2 - info.maxexp;
  info.machep = -info.nmant;
  info.negep = -info.nmant - 1;
  // NumPy counts the digits of eps, ml_dtypes those that the significand surely holds; they agree.
  info.precision = static_cast<int64_t>(static_cast<double>(info.nmant) * std::log10(2.0));
  const auto power_of_two = [&](int64_t exponent) {
    return Scalar::strong(std::ldexp(1.0, static_cast<int>(exponent)), dtype);
  };
  info.eps = power_of_two(info.machep);
  info.epsneg = power_of_two(info.negep);
  const double largest =
      std::ldexp(2.0 - std::ldexp(1.0, static_cast<int>(-info.nmant)), static_cast<int>(info.maxexp - 1));
  info.max = Scalar::strong(largest, dtype);
  info.min = Scalar::strong(-largest, dtype);
  info.tiny = info.smallest_normal = power_of_two(info.minexp);
  info.smallest_subnormal = power_of_two(info.minexp - info.nmant);
  info.resolution = Scalar::strong(std::pow(10.0, static_cast<double>(-info.precision)), dtype);
  return info;
}

IntInfo iinfo(const std::variant<DType, NdArray>& argument) {
  require_type_or_number(argument);
  const DType dtype = dtype_of(argument);
  if (!is_integer(dtype)) throw InvalidArgument(fmt::format("Invalid integer data type '{}'.", kind(dtype)));
  IntInfo info;
  info.dtype = dtype;
  info.bits = itemsize(dtype) * 8;
  info.kind = std::string(1, kind(dtype));
  if (kind(dtype) == 'u') {
    info.max = ~uint64_t{0} >> (64 - info.bits);
    info.min = 0;
  } else {
    info.max = INT64_MAX >> (64 - info.bits);
    info.min = INT64_MIN >> (64 - info.bits);
  }
  return info;
}

NdArray packbits(const NdArray& a, std::optional<int64_t> axis, std::string_view bitorder) {
  const bool big = parse_bitorder(bitorder);
  if (a.dtype() != DType::bool_ && !is_integer(a.dtype())) {
    throw TypeError(fmt::format("Expected an input array of integer or boolean data type, not {}", name(a.dtype())));
  }
  NdArray bits = a;
  if (!axis || (a.ndim() == 0 && (*axis == 0 || *axis == -1))) bits = a.reshape({a.size()});
  const int along = axis ? normalize_axis(*axis, bits.ndim()) : 0;
  const int64_t size = bits.shape()[along], whole = size / 8;
  Dims shape = bits.shape();
  shape[along] = (size + 7) / 8;
  NdArray result(shape, DType::uint8, context_for(a.device()));
  std::vector<NdArray> parts;
  std::optional<NdArray> words;
  if (whole > 0 && along == bits.ndim() - 1) {
    NdArray truth = bits.dtype() == DType::bool_ ? bits : apply("not_equal"_op, {bits, 0});
    if (truth.strides()[along] != 1) truth = truth.copy(context_for(a.device()));
    words = as_words(sliced(truth, along, 0, whole * 8));
  }
  if (words) {
    pack_words(sliced(result, along, 0, whole), *words, big);
  } else if (whole > 0) {
    for (int64_t i = 0; i < 8; ++i) parts.push_back(sliced(bits, along, i, whole, 8));
    pack(sliced(result, along, 0, whole), parts, big);
    parts.clear();
  }
  for (int64_t i = whole * 8; i < size; ++i) parts.push_back(sliced(bits, along, i, 1));
  if (!parts.empty()) pack(sliced(result, along, whole, 1), parts, big);
  return result;
}

NdArray unpackbits(const NdArray& a, std::optional<int64_t> axis, std::optional<int64_t> count,
                   std::string_view bitorder) {
  const bool big = parse_bitorder(bitorder);
  if (a.dtype() != DType::uint8)
    throw TypeError(fmt::format("Expected an input array of unsigned byte data type, not {}", name(a.dtype())));
  NdArray bytes = a;
  if (!axis || (a.ndim() == 0 && (*axis == 0 || *axis == -1))) bytes = a.reshape({a.size()});
  const int along = axis ? normalize_axis(*axis, bytes.ndim()) : 0;
  const int64_t size = bytes.shape()[along];
  int64_t all = 0;
  if (__builtin_mul_overflow(size, 8, &all)) throw InvalidArgument("the bits are more than 64 bits can count");
  const int64_t wanted = !count ? all : *count < 0 ? all + *count : *count;
  if (wanted < 0) {
    throw InvalidArgument(fmt::format("-count larger than number of elements: {} of {}", -*count, all));
  }
  const ExecContext context = context_for(a.device());
  Dims shape = bytes.shape();
  shape[along] = wanted;
  NdArray result(shape, DType::uint8, context);
  // The first `shifts` bits of `number` bytes.
  const auto unpack = [&](int64_t from, int64_t number, int64_t shifts) {
    if (number == 0 || shifts == 0) return;
    Dims spread = shape, strides = result.strides();
    spread[along] = number;
    spread.insert(along + 1, shifts);
    strides[along] *= 8;
    strides.insert(along + 1, result.strides()[along]);
    const NdArray target = with_strides(result, spread, strides, result.offset() + from * strides[along]);
    const NdArray source = expand_dims(sliced(bytes, along, from, number), along + 1);
    Program program;
    const ValueId place = program.cast(program.index(along + 1), DType::uint8);
    const ValueId reversed[] = {program.constant(7, DType::uint8), place};
    const ValueId shift = big ? program.apply("subtract"_op, reversed) : place;
    const ValueId shifted[] = {program.input(DType::uint8), shift};
    const ValueId masked[] = {program.apply("right_shift"_op, shifted), program.constant(1, DType::uint8)};
    program.output(program.apply("bitwise_and"_op, masked));
    const NdArray *in[] = {&source}, *out[] = {&target};
    run_elementwise(program, in, out, context);
  };
  const int64_t used = std::min(wanted, all);
  if (result.size() > 0) {
    const std::optional<NdArray> words =
        along == result.ndim() - 1 && used >= 8 ? as_words(sliced(result, along, 0, used / 8 * 8)) : std::nullopt;
    if (words)
      unpack_words(*words, sliced(bytes, along, 0, used / 8), big);
    else
      unpack(0, used / 8, 8);
    unpack(used / 8, used % 8 ? 1 : 0, used % 8);
    if (wanted > all) sliced(result, along, all, wanted - all).fill(Scalar::strong(0, DType::uint8), context);
  }
  return result;
}

bool shares_memory(const NdArray& a, const NdArray& b, int64_t max_work) {
  if (max_work < -1) throw InvalidArgument(fmt::format("Invalid value for max_work: {}", max_work));
  if (a.device() != b.device() || a.size() == 0 || b.size() == 0) return false;
  std::vector<Term> terms;
  const int64_t a_low = add_terms(a, terms);
  const size_t split = terms.size();
  const int64_t b_low = add_terms(b, terms);
  int64_t a_reach = 0, b_reach = 0;
  for (size_t i = 0; i < terms.size(); ++i) (i < split ? a_reach : b_reach) += terms[i].step * terms[i].last;
  if (a_low > b_low + b_reach || b_low > a_low + a_reach) return false;
  if (max_work == 0) return true;
  // a_low + x = b_low + y; with y' = b_reach - y both sides add up: x + y' = b_low + b_reach - a_low.
  return BoundedSum(std::move(terms), max_work).reaches(static_cast<__int128>(b_low) + b_reach - a_low);
}

bool may_share_memory(const NdArray& a, const NdArray& b, int64_t max_work) { return shares_memory(a, b, max_work); }

}  // namespace quarry::local::ops
