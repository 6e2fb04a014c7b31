// Replays expressions that NumPy 2 evaluated (scripts/oracle/expressions.py) on every device kind that is here, chapter
// by chapter. QUARRY_ORACLE_FILE names a file to take instead, QUARRY_ORACLE_ONLY keeps the expressions that contain
// its text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "quarry/apps/binding/local_values.h"
#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/lexer.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/local_eval.h"
#include "quarry/local/memory/allocation_count.h"
#include "tests/oracle/reader.h"

namespace quarry::apps::expression {
namespace {

using namespace local;
using oracle::HostArray;
using oracle::Reader;
using ExpressionValue = expression::Value;

// Chapters with expressions; one without a name for QUARRY_ORACLE_FILE.
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

// As format.py says.
struct Expected {
  enum class Kind : uint8_t { none, array, text, dtype, sequence } kind = Kind::none;
  uint32_t array = 0;  // of the pool
  std::string text;
  DType dtype{};
  std::vector<Expected> items;
};
enum class Failure : uint8_t { none, type_error, value_error, index_error, axis_error };
const char* name(Failure failure) {
  constexpr const char* kNames[] = {"no error", "TypeError", "ValueError", "IndexError", "AxisError"};
  return kNames[static_cast<int>(failure)];
}
struct Case {
  std::string expression;
  std::vector<std::pair<std::string, uint32_t>> inputs;
  double ulp = 0, norm = 0, atol = 0;
  Failure failure = Failure::none;
  Expected expected;
};

Expected read_expected(Reader& reader) {
  Expected result;
  result.kind = static_cast<Expected::Kind>(reader.number<uint8_t>());
  switch (result.kind) {
    case Expected::Kind::none:
      break;
    case Expected::Kind::array:
      result.array = reader.number<uint32_t>();
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
      case Expected::Kind::array:
        break;
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

// The functions and methods that the text names: "roll", "linalg.qr", "add.reduce", ".tolist".
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

// The same values elsewhere: the axes in another order in memory, with gaps, backwards, not at the beginning.
NdArray laid_out_anew(const NdArray& a, std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  if (a.ndim() == kMaxDims) return a;
  const bool gaps = a.ndim() <= 5;  // else the memory between the elements would be much
  std::vector<int64_t> order(static_cast<size_t>(a.ndim())), back(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Dims shape{3};
  std::vector<IndexItem> items{IndexItem(below(3))};
  for (size_t d = 0; d < order.size(); ++d) {
    back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
    const int64_t extent = a.shape()[static_cast<int>(order[d])];
    const int64_t first = gaps ? below(3) : 0, step = gaps ? 1 + below(3) : 1;
    const bool backwards = below(2) == 1;
    const int64_t last = first + (extent - 1) * step;
    shape.push_back(first + extent * step);
    if (extent == 0)
      items.emplace_back(Slice{0, 0, {}});
    else if (backwards)
      items.emplace_back(Slice{last, first > 0 ? std::optional(first - 1) : std::nullopt, -step});
    else
      items.emplace_back(Slice{first, last + 1, step});
  }
  const NdArray memory(shape, a.dtype());
  memory.fill(Scalar(77));
  NdArray result = memory[items].transpose(back);
  result.assign(a);
  return result;
}

// QUARRY_ORACLE_SHARD=I/N: one case in N.
struct Shard {
  Shard() {
    const char* part = std::getenv("QUARRY_ORACLE_SHARD");
    if (part != nullptr && (std::sscanf(part, "%d/%d", &index, &count) != 2 || count < 1))
      throw InvalidArgument(fmt::format("QUARRY_ORACLE_SHARD is not I/N: {}", part));
  }
  bool has(int number) const { return number % count == index; }
  int index = 0, count = 1;
};

class ExpressionOracle : public ::testing::TestWithParam<std::tuple<DeviceKind, std::string>> {
 protected:
  static DeviceKind kind() { return std::get<DeviceKind>(GetParam()); }
  static const std::string& chapter() { return std::get<std::string>(GetParam()); }
  static constexpr int kShown = 400;

  // What went wrong, or nothing. `layouts` gives the inputs others than NumPy's.
  static std::string outcome(const Reader& reader, const Case& one, std::mt19937_64* layouts = nullptr) {
    Environment environment;
    environment.library = &local_library();
    try {
      for (const auto& [input, number] : one.inputs) {
        const NdArray array = reader.pool()[number].upload();
        environment.variables.emplace(input, layouts ? laid_out_anew(array, *layouts) : array);
      }
      const Source source{one.expression, "", 0};
      const ExpressionValue got = evaluate(source, *parse(source), environment);
      if (one.failure != Failure::none) {
        return fmt::format("got {}, expected {}", short_text(display_local(got)), name(one.failure));
      }
      Case wanted = one;
      if (layouts && (one.ulp > 0 || one.norm > 0 || one.atol > 0)) wanted.atol += order_of_sums(reader, one);
      return Comparison(reader, wanted).difference(got, one.expected);
    } catch (const InvalidArgument& error) {
      const Failure failure = error.code() == ErrorCode::type_error    ? Failure::type_error
                              : error.code() == ErrorCode::index_error ? Failure::index_error
                                                                       : Failure::value_error;
      const bool known = error.code() != ErrorCode::not_supported && error.code() != ErrorCode::budget;
      const bool axis = one.failure == Failure::axis_error && failure != Failure::type_error;
      if (known && (failure == one.failure || axis)) return "";
      return fmt::format("got {} ({}), expected {}", known ? name(failure) : "NotSupported", short_text(error.what()),
                         one.failure == Failure::none ? "a value" : name(one.failure));
    } catch (const std::exception& error) {
      return fmt::format("threw {}", short_text(error.what()));
    }
  }

  // What another order of summation may change where terms cancel.
  static double order_of_sums(const Reader& reader, const Case& one) {
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

  static std::string short_text(std::string text) {
    constexpr size_t kLongest = 160;
    text = text.substr(0, text.find('\n'));
    return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
  }

  static std::string describe_inputs(const Reader& reader, const Case& one) {
    std::string text;
    for (const auto& [input, number] : one.inputs) {
      const HostArray& array = reader.pool()[number];
      text +=
          fmt::format("{}{}={}{}", text.empty() ? "" : " ", input, local::name(array.dtype), to_string(array.shape));
    }
    return text;
  }
};

TEST_P(ExpressionOracle, AnswersAsNumPy) {
  if (!available(kind())) GTEST_SKIP() << "no such device here";
  const DeviceScope scope(Device{kind(), 0});
  const char* only = std::getenv("QUARRY_ORACLE_ONLY");
  const Shard shard;
  Reader reader(load_cases(chapter()));
  std::set<std::string> names;
  int cases = 0, failures = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int number = 0; !reader.done(); ++number) {
    const Case one = read_case(reader);
    if (!shard.has(number)) continue;
    if (only != nullptr && one.expression.find(only) == std::string::npos) continue;
    ++cases;
    collect_names(one.expression, names);
    const std::string wrong = outcome(reader, one);
    if (wrong.empty()) continue;
    if (++failures <= kShown) fmt::print("  {}  [{}]: {}\n", one.expression, describe_inputs(reader, one), wrong);
  }
  int functions = 0;
  for (const std::string& function : local_library().registry().function_names()) functions += names.contains(function);
  fmt::print("{} on {}: {} functions, {} cases, {} failures, {:.1f} s\n", chapter(), local::name(kind()), functions,
             cases, failures, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (only == nullptr && shard.count == 1) {
    EXPECT_GT(cases, 0);
  }
  EXPECT_EQ(failures, 0);
}
// The cases again with every input in a random layout.
TEST_P(ExpressionOracle, ResultsDoNotDependOnStrides) {
  if (!available(kind())) GTEST_SKIP() << "no such device here";
  const DeviceScope scope(Device{kind(), 0});
  const char* only = std::getenv("QUARRY_ORACLE_ONLY");
  // What is about the layout itself; dot() wants an `out` in C order.
  constexpr std::string_view kAboutLayout[] = {"strides",
                                               "strided",
                                               ".view(",
                                               "copy=False",
                                               "'K'",
                                               "'A'",
                                               ".flags.",
                                               "shares_memory",
                                               "may_share",
                                               "ravel",
                                               "dot(a, b, out=c)",
                                               ".dot(b, c)",
                                               "dot([a, b, c], out=d)"};
  // Another layout may be another kernel to compile on a GPU.
  const int every = kind() == DeviceKind::cpu ? 1 : kind() == DeviceKind::emulated ? 7 : 50;
  const Shard shard;
  Reader reader(load_cases(chapter()));
  std::mt19937_64 random(20);
  int cases = 0, failures = 0;
  for (int number = 0; !reader.done(); ++number) {
    const Case one = read_case(reader);
    if (only != nullptr && one.expression.find(only) == std::string::npos) continue;
    if (number % every != 0 || !shard.has(number / every)) continue;
    const auto names = [&](std::string_view text) { return one.expression.find(text) != std::string::npos; };
    if (std::any_of(std::begin(kAboutLayout), std::end(kAboutLayout), names)) continue;
    ++cases;
    const std::string wrong = outcome(reader, one, &random);
    if (wrong.empty()) continue;
    if (++failures <= kShown) fmt::print("  {}  [{}]: {}\n", one.expression, describe_inputs(reader, one), wrong);
  }
  fmt::print("{} in other layouts on {}: {} cases, {} failures\n", chapter(), local::name(kind()), cases, failures);
  if (only == nullptr && shard.count == 1) {
    EXPECT_GT(cases, 0);
  }
  EXPECT_EQ(failures, 0);
}
// The cases again on the trial device that stands for the CPU: shapes and dtypes are NumPy's, and the peak is what the
// CPU takes, or little more.
class ExpressionTrials : public ::testing::TestWithParam<std::string> {};

// What of an expression's shapes and dtypes is not as expected, and the most bytes that it takes on the device.
struct Tried {
  std::string wrong;
  int64_t peak = 0;
};

std::string other_shape(const Reader& reader, const ExpressionValue& got, const Expected& want) {
  if (want.kind == Expected::Kind::sequence) {
    const SequenceValue* sequence = got.sequence();
    if (sequence == nullptr || sequence->items.size() != want.items.size()) return "another number of items";
    for (size_t i = 0; i < want.items.size(); ++i) {
      const std::string text = other_shape(reader, sequence->items[i], want.items[i]);
      if (!text.empty()) return fmt::format("item {}: {}", i, text);
    }
  }
  if (want.kind != Expected::Kind::array) return "";
  if (!is_local_operand(got) || got.sequence() != nullptr) return "got a " + type_name(got) + ", expected an array";
  const NdArray array = to_ndarray(got);
  const HostArray& expected = reader.pool()[want.array];
  if (array.dtype() == expected.dtype && array.shape() == expected.shape) return "";
  return fmt::format("got {}{}, expected {}{}", local::name(array.dtype()), to_string(array.shape()),
                     local::name(expected.dtype), to_string(expected.shape));
}

// Throws what the expression throws.
Tried tried_on(Device device, const Reader& reader, const Case& one) {
  const DeviceScope scope(device);
  Environment environment;
  environment.library = &local_library();
  for (const auto& [input, number] : one.inputs) environment.variables.emplace(input, reader.pool()[number].upload());
  const AllocationCount counted(device, /*also_cpu=*/true);
  const Source source{one.expression, "", 0};
  std::string wrong = other_shape(reader, evaluate(source, *parse(source), environment), one.expected);
  return {std::move(wrong), counted.peak_bytes()};
}
// Nothing where the CPU does not answer as NumPy, which is another test's business.
std::optional<Tried> on_cpu(const Reader& reader, const Case& one) {
  if (one.failure != Failure::none) return std::nullopt;
  try {
    Tried taken = tried_on(kCpu, reader, one);
    if (taken.wrong.empty()) return taken;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}
// Nothing where it needs values. Throws other errors.
std::optional<Tried> on_trial(const Reader& reader, const Case& one, std::string* message = nullptr) {
  try {
    return tried_on(trial_of(DeviceKind::cpu), reader, one);
  } catch (const InvalidArgument& error) {
    if (error.code() != ErrorCode::needs_value) throw;
    if (message != nullptr) *message = error.what();
    return std::nullopt;
  }
}

TEST_P(ExpressionTrials, TellShapesAndBytes) {
  // Scratch is stated for the longer of two ways, of which small arrays take the other one.
  constexpr int64_t kSmall = int64_t{64} << 10;
  constexpr double kMore = 1.1;
  // Expressions that read a value themselves, and so have no function that could be named.
  constexpr std::string_view kReaders[] = {".tobytes(", "array_str(", "array_repr(", "array2string(",
                                           "str(",      "fill(",      "a < b < 50"};
  const char* only = std::getenv("QUARRY_ORACLE_ONLY");
  Reader reader(load_cases(GetParam()));
  int cases = 0, need = 0, failures = 0;
  while (!reader.done()) {
    const Case one = read_case(reader);
    if (only != nullptr && one.expression.find(only) == std::string::npos) continue;
    std::string wrong, message;
    try {
      const std::optional<Tried> tried = on_trial(reader, one, &message);
      if (!tried) {
        ++need;
        const bool reads = std::any_of(std::begin(kReaders), std::end(kReaders), [&](std::string_view text) {
          return one.expression.find(text) != std::string::npos;
        });
        if (!reads && message.find("an element or a copy") != std::string::npos) wrong = "names no function";
      } else if (const std::optional<Tried> taken = on_cpu(reader, one)) {
        ++cases;
        wrong = tried->wrong;
        if (tried->peak < taken->peak ||
            static_cast<double>(tried->peak) > kMore * static_cast<double>(taken->peak) + kSmall)
          wrong += fmt::format(" {} bytes, the CPU takes {}", tried->peak, taken->peak);
      }
    } catch (const std::exception& error) {
      if (on_cpu(reader, one)) wrong = error.what();
    }
    if (!wrong.empty() && ++failures <= 50) fmt::print("  {}: {}\n", one.expression, wrong);
  }
  fmt::print("{} tried: {} cases, {} need values, {} failures\n", GetParam(), cases, need, failures);
  EXPECT_EQ(failures, 0);
}
INSTANTIATE_TEST_SUITE_P(All, ExpressionTrials, ::testing::ValuesIn(chapters()),
                         [](const auto& info) { return info.param.empty() ? std::string("file") : info.param; });

INSTANTIATE_TEST_SUITE_P(All, ExpressionOracle,
                         ::testing::Combine(::testing::Values(DeviceKind::cpu, DeviceKind::emulated, DeviceKind::cuda),
                                            ::testing::ValuesIn(chapters())),
                         [](const auto& info) {
                           const std::string& chapter = std::get<std::string>(info.param);
                           return fmt::format("{}_{}", local::name(std::get<DeviceKind>(info.param)),
                                              chapter.empty() ? "file" : chapter);
                         });

// The methods of ufuncs are few functions with the ufunc as an argument: "add.reduce" counts as "ufunc.reduce".
std::string function_family(const std::string& function) {
  static const std::set<std::string> methods = {".accumulate", ".at", ".outer", ".reduce", ".reduceat"};
  const size_t dot = function.rfind('.');
  if (dot == std::string::npos || dot == 0 || !methods.contains(function.substr(dot))) return function;
  return "ufunc" + function.substr(dot);
}

// Every function and method has a case, but for the lines of uncovered.txt.
TEST(ExpressionOracleCoverage, EveryFunctionHasACase) {
  if (std::getenv("QUARRY_ORACLE_FILE") != nullptr) GTEST_SKIP() << "another file may hold one chapter only";
  std::set<std::string> names, allowed;
  for (const std::string& chapter : chapters())
    for (Reader reader(load_cases(chapter)); !reader.done();) collect_names(read_case(reader).expression, names);
  for (const std::string& name : std::set<std::string>(names)) names.insert(function_family(name));
  std::ifstream file(oracle::file("uncovered.txt"));
  for (std::string line; std::getline(file, line);) allowed.insert(line);
  std::string missing;
  for (const std::string& registered : local_library().registry().function_names()) {
    const std::string function = function_family(registered);
    if (function.starts_with("builtins.")) continue;  // Python's: scripts/oracle/tables/python_scalars.py
    if (!names.contains(function) && !allowed.contains(function)) missing += " " + function;
  }
  for (const std::string& method : local_library().registry().method_names()) {
    if (!names.contains("." + method) && !allowed.contains("." + method)) missing += " ." + method;
  }
  EXPECT_EQ(missing, "") << "functions without a case in scripts/oracle/cases";
}

// Functions that cannot be tried because they read values are the lines of needs_values.txt.
TEST(ExpressionTrialCoverage, OthersNeedNoValues) {
  if (std::getenv("QUARRY_ORACLE_FILE") != nullptr) GTEST_SKIP() << "another file may hold one chapter only";
  std::set<std::string> asked, tried, listed, need;
  for (const std::string& chapter : chapters()) {
    for (Reader reader(load_cases(chapter)); !reader.done();) {
      const Case one = read_case(reader);
      if (one.failure != Failure::none) continue;
      collect_names(one.expression, asked);
      try {
        if (on_trial(reader, one)) collect_names(one.expression, tried);
      } catch (const std::exception&) {  // TellShapesAndBytes says so
      }
    }
  }
  for (const std::string& function : local_library().registry().function_names()) {
    if (asked.contains(function) && !tried.contains(function)) need.insert(function);
  }
  std::ifstream file(oracle::file("needs_values.txt"));
  for (std::string line; std::getline(file, line);) listed.insert(line);
  EXPECT_EQ(need, listed);
}

TEST(FunctionTable, KnowsNumPysNames) {
  const std::set<std::string> beyond_expressions = {"from_dlpack"};  // takes an object of Python
  std::ifstream file(oracle::file("numpy_functions.txt"));
  std::string missing;
  int known = 0;
  for (std::string line; std::getline(file, line);) {
    const std::string function = line.starts_with("ufunc.") ? "add" + line.substr(line.find('.')) : line;
    if (local_library().registry().function(function) != nullptr)
      ++known;
    else if (!beyond_expressions.contains(function))
      missing += " " + function;
  }
  fmt::print("{} of NumPy's functions\n", known);
  EXPECT_EQ(missing, "");
  EXPECT_GT(known, 300);
}

// A row of a function table whose signature is not the C++ function's gets a handler that says so.
TEST(FunctionTable, SignaturesAreThoseOfTheFunctions) { EXPECT_EQ(table_problems(), ""); }

}  // namespace
}  // namespace quarry::apps::expression
