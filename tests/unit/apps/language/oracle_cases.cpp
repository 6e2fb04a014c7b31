#include "tests/unit/apps/language/oracle_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "quarry/apps/binding/local_values.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/language/lexer.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/local_eval.h"

namespace quarry::apps::oracle_cases {

using namespace local;
using namespace expression;
using oracle::HostArray;
using oracle::Reader;

std::vector<std::string> chapters() {
  return std::getenv("QUARRY_ORACLE_FILE") ? std::vector<std::string>{""} : oracle::chapters_with("expressions");
}

std::vector<unsigned char> load_cases(const std::string& chapter) {
  const char* other = std::getenv("QUARRY_ORACLE_FILE");
  if (other == nullptr) return oracle::section(chapter, "expressions");
  std::optional<std::vector<unsigned char>> bytes = oracle::section_of(other, "expressions");
  if (!bytes) throw IoError(std::string(other) + " has no expressions");
  return *std::move(bytes);
}

namespace {

Expected read_expected(Reader& reader) {
  Expected result;
  result.kind = static_cast<Expected::Kind>(reader.number<uint8_t>());
  switch (result.kind) {
    case Expected::Kind::none:
      break;
    case Expected::Kind::array:
      result.array = reader.number<uint32_t>();
      break;
    case Expected::Kind::masked_array:
      result.array = reader.number<uint32_t>();
      result.mask = reader.number<uint32_t>();
      break;
    case Expected::Kind::masked:
      break;
    case Expected::Kind::text:
      result.text = reader.text();
      break;
    case Expected::Kind::dtype:
      result.dtype = reader.dtype();
      break;
    case Expected::Kind::sequence: {
      const auto count = reader.number<uint32_t>();
      for (uint32_t i = 0; i < count; ++i) result.items.push_back(read_expected(reader));
    }
  }
  return result;
}

const char* name(Failure failure) {
  constexpr const char* kNames[] = {"no error", "TypeError", "ValueError", "IndexError", "AxisError"};
  return kNames[static_cast<int>(failure)];
}

// Spacing of the values of a float type at x.
double spacing(DType dtype, double x) {
  const int digits = dtype == DType::float16 ? 11 : dtype == DType::bfloat16 ? 8 : dtype == DType::float32 ? 24 : 53;
  const int lowest = dtype == DType::float16    ? -24
                     : dtype == DType::bfloat16 ? -133
                     : dtype == DType::float32  ? -149
                                                : -1074;
  if (x == 0 || !std::isfinite(x)) return std::ldexp(1.0, lowest);
  return std::ldexp(1.0, std::max(std::ilogb(x) - digits + 1, lowest));
}

class Comparison {
 public:
  Comparison(const Reader& reader, const Case& one) : reader_(reader), case_(one) {}

  // Empty if as expected.
  std::string difference(const ExpressionValue& got, const Expected& want) const {
    switch (want.kind) {
      case Expected::Kind::none:
        return got.is_none() ? "" : "got a " + type_name(got) + ", expected None";
      case Expected::Kind::text: {
        const auto* text = got.as<std::string>();
        if (text == nullptr) return "got a " + type_name(got) + ", expected a str";
        return *text == want.text ? "" : fmt::format("got '{}', expected '{}'", *text, want.text);
      }
      case Expected::Kind::dtype: {
        const auto* dtype = got.as<DTypeValue>();
        if (dtype == nullptr) return "got a " + type_name(got) + ", expected a dtype";
        if (dtype->dtype == want.dtype) return "";
        return fmt::format("got {}, expected {}", local::name(dtype->dtype), local::name(want.dtype));
      }
      case Expected::Kind::sequence: {
        const SequenceValue* sequence = got.sequence();
        if (sequence == nullptr) return fmt::format("got a {}, expected {} items", type_name(got), want.items.size());
        if (sequence->items.size() != want.items.size())
          return fmt::format("got {} items, expected {}", sequence->items.size(), want.items.size());
        for (size_t i = 0; i < want.items.size(); ++i) {
          const std::string text = difference(sequence->items[i], want.items[i]);
          if (!text.empty()) return fmt::format("item {}: {}", i, text);
        }
        return "";
      }
      case Expected::Kind::masked: {
        const LocalMasked* masked = masked_in<local::ma::Local>(got);
        const bool is_masked = masked != nullptr && masked->ndim() == 0 && masked->mask().item().as_bool();
        return is_masked ? "" : "got a " + type_name(got) + ", expected masked";
      }
      case Expected::Kind::masked_array:
      case Expected::Kind::array:
        break;
    }
    if (const LocalMasked* masked = masked_in<local::ma::Local>(got)) {
      // Without a mask it is as good as plain.
      if (want.kind == Expected::Kind::masked_array) {
        const std::string text = array_difference(masked->mask().to(kCpu), reader_.pool()[want.mask]);
        if (!text.empty()) return "mask: " + text;
      } else if (masked->is_masked()) {
        return "got masked elements";
      }
      return array_difference(masked->filled(local::ma::Operand(0)).to(kCpu), reader_.pool()[want.array]);
    }
    if (want.kind == Expected::Kind::masked_array) {
      const HostArray& mask = reader_.pool()[want.mask];
      for (int64_t i = 0; i < mask.size(); ++i)
        if (*mask.element(i) != 0) return "got no masked elements";
    }
    if (!is_local_operand(got) || got.sequence() != nullptr) return "got a " + type_name(got) + ", expected an array";
    return array_difference(to_ndarray(got).to(kCpu), reader_.pool()[want.array]);
  }

 private:
  std::string array_difference(const NdArray& got, const HostArray& want) const {
    if (got.dtype() != want.dtype || got.shape() != want.shape) {
      return fmt::format("got {}{}, expected {}{}", local::name(got.dtype()), to_string(got.shape()),
                         local::name(want.dtype), to_string(want.shape));
    }
    const NdArray packed = got.is_contiguous() ? got : got.copy(default_context(kCpu));
    const auto* bytes = static_cast<const unsigned char*>(packed.raw());
    const int64_t count = want.size(), item = itemsize(want.dtype);
    double largest = 0;
    if (case_.norm > 0) {
      for (int64_t i = 0; i < count; ++i) {
        const std::complex<double> value = Scalar::load(want.dtype, want.element(i)).as_complex();
        for (const double part : {value.real(), value.imag()})
          if (std::isfinite(part)) largest = std::max(largest, std::fabs(part));
      }
    }
    int64_t wrong = 0;
    std::string first;
    for (int64_t i = 0; i < count; ++i) {
      const unsigned char* expected = want.element(i);
      const unsigned char* actual = bytes + i * item;
      if (std::memcmp(actual, expected, static_cast<size_t>(item)) == 0) continue;
      const Scalar x = Scalar::load(want.dtype, actual), y = Scalar::load(want.dtype, expected);
      if (close(x, y, largest)) continue;
      if (++wrong == 1) first = fmt::format("got {}, expected {} at {}", to_string(x), to_string(y), i);
    }
    return wrong == 0 ? "" : fmt::format("{} ({} of {} {})", first, wrong, count, local::name(want.dtype));
  }

  bool close(const Scalar& got, const Scalar& want, double largest) const {
    const DType dtype = want.dtype();
    if (!is_float(dtype) && !is_complex(dtype)) return false;
    const std::complex<double> g = got.as_complex(), w = want.as_complex();
    double size = std::fabs(w.real());
    if (is_complex(dtype)) {
      size = 0;
      for (const double part : {w.real(), w.imag()})
        if (std::isfinite(part)) size = std::max(size, std::fabs(part));
    }
    return close(real_type(dtype), g.real(), w.real(), size, largest) &&
           (!is_complex(dtype) || close(real_type(dtype), g.imag(), w.imag(), size, largest));
  }

  bool close(DType real, double got, double want, double size, double largest) const {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
    if (std::isinf(want) || std::isinf(got)) return want == got;
    const bool near_zero_is_zero = case_.norm > 0 || case_.atol > 0;
    if (got == 0 && want == 0) return near_zero_is_zero || std::signbit(got) == std::signbit(want);
    return std::fabs(got - want) <=
           case_.ulp * spacing(real, size) + (case_.norm > 0 ? case_.norm * spacing(real, largest) : 0) + case_.atol;
  }

  const Reader& reader_;
  const Case& case_;
};

// What another order of summation may change where terms cancel.
double order_of_sums(const Reader& reader, const Case& one) {
  constexpr double kRoundings = 16;
  double result = 0;
  for (const auto& [input, number] : one.inputs) {
    const HostArray& array = reader.pool()[number];
    if (!is_float(array.dtype) && !is_complex(array.dtype)) continue;
    double largest = 0;
    for (int64_t i = 0; i < array.size(); ++i) {
      const double size = std::abs(Scalar::load(array.dtype, array.element(i)).as_complex());
      if (std::isfinite(size)) largest = std::max(largest, size);
    }
    result = std::max(result, kRoundings * spacing(real_type(array.dtype), largest));
  }
  return result;
}

// What of an error is not as expected.
std::string difference(const Case& one, const InvalidArgument& error) {
  const Failure failure = error.code() == ErrorCode::type_error    ? Failure::type_error
                          : error.code() == ErrorCode::index_error ? Failure::index_error
                                                                   : Failure::value_error;
  const bool known = error.code() != ErrorCode::not_supported && error.code() != ErrorCode::budget;
  const bool axis = one.failure == Failure::axis_error && failure != Failure::type_error;
  if (known && (failure == one.failure || axis)) return "";
  return fmt::format("got {} ({}), expected {}", known ? name(failure) : "NotSupported", short_text(error.what()),
                     one.failure == Failure::none ? "a value" : name(one.failure));
}

}  // namespace

Case read_case(Reader& reader) {
  Case one;
  one.expression = reader.text();
  const int inputs = reader.number<uint8_t>();
  for (int i = 0; i < inputs; ++i) {
    std::string input = reader.text();
    one.inputs.emplace_back(std::move(input), reader.number<uint32_t>());
  }
  one.ulp = reader.number<double>();
  one.norm = reader.number<double>();
  one.atol = reader.number<double>();
  one.failure = static_cast<Failure>(reader.number<uint8_t>());
  if (one.failure == Failure::none) one.expected = read_expected(reader);
  return one;
}

std::string difference(const Reader& reader, const Case& one, const ExpressionValue& got) {
  return Comparison(reader, one).difference(got, one.expected);
}

ExpressionValue localised(const ExpressionValue& value) {
  if (const auto* array = value.as<quarry::Array>()) return array->to_host();
  if (const ChunkedMasked* masked = masked_in<quarry::ma::Chunked>(value))
    return masked_value(quarry::ma::to_host(*masked));
  const SequenceValue* sequence = value.sequence();
  if (sequence == nullptr) return value;
  std::vector<ExpressionValue> items;
  for (const ExpressionValue& item : sequence->items) items.push_back(localised(item));
  return sequence->is_list ? ExpressionValue::list(std::move(items)) : ExpressionValue::tuple(std::move(items));
}

std::string short_text(std::string text) {
  constexpr size_t kLongest = 160;
  text = text.substr(0, text.find('\n'));
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

std::string describe_inputs(const Reader& reader, const Case& one) {
  std::string text;
  for (const auto& [input, number] : one.inputs) {
    const HostArray& array = reader.pool()[number];
    text += fmt::format("{}{}={}{}", text.empty() ? "" : " ", input, local::name(array.dtype), to_string(array.shape));
  }
  return text;
}

std::string outcome(const Reader& reader, const Case& one, const Way& way) {
  Environment environment;
  environment.library = way.library;
  try {
    for (const auto& [input, number] : one.inputs)
      environment.variables.emplace(input, way.given(reader.pool()[number].upload()));
    const Source source{one.expression, "", 0};
    const ExpressionValue got = way.taken(evaluate(source, *parse(source), environment));
    if (one.failure != Failure::none)
      return fmt::format("got {}, expected {}", short_text(display_local(got)), name(one.failure));
    Case wanted = one;
    if (way.other_sums && (one.ulp > 0 || one.norm > 0 || one.atol > 0)) wanted.atol += order_of_sums(reader, one);
    return difference(reader, wanted, got);
  } catch (const InvalidArgument& error) {
    const bool refusal = error.code() == ErrorCode::not_supported || error.code() == ErrorCode::budget;
    if (way.throws_refusals && refusal) throw;
    return difference(one, error);
  } catch (const std::exception& error) {
    return fmt::format("threw {}", short_text(error.what()));
  }
}

void collect_names(const std::string& text, std::set<std::string>& names) {
  std::vector<Token> tokens;
  try {
    tokens = tokenize({text, "", 0});
  } catch (const ExpressionError&) {
    return;
  }
  std::string chain;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind != Token::Kind::name) {
      if (tokens[i].text != ".") chain.clear();
      continue;
    }
    const bool member = i > 0 && tokens[i - 1].text == "." && tokens[i - 1].kind == Token::Kind::op;
    if (member) names.insert("." + tokens[i].text);
    chain = member && !chain.empty() && chain != "np" ? chain + "." + tokens[i].text : tokens[i].text;
    names.insert(chain);
  }
}

Shard::Shard() {
  const char* part = std::getenv("QUARRY_ORACLE_SHARD");
  if (part != nullptr && (std::sscanf(part, "%d/%d", &index, &count) != 2 || count < 1))
    throw InvalidArgument(fmt::format("QUARRY_ORACLE_SHARD is not I/N: {}", part));
}

}  // namespace quarry::apps::oracle_cases
