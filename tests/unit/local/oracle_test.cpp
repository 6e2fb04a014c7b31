// Replays the calls that NumPy 2 answered (scripts/oracle/calls.py) on every device kind that is here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "quarry/local/ops/linalg/hermitian.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/reduction/states.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/oracle/reader.h"

namespace quarry::oracle {
namespace {

using namespace local;

// How far a result may be from the reference.
struct Bound {
  double ulp = 0;            // of the result's own size (complex: of its magnitude)
  double absolute = 0;       // beside that
  bool either_zero = false;  // -0 and 0 are the same
};

// Spacing of the values of a float type around x.
double spacing(DType dtype, double x) {
  const int digits = dtype == DType::float16 ? 11 : dtype == DType::bfloat16 ? 8 : dtype == DType::float32 ? 24 : 53;
  const int lowest = dtype == DType::float16    ? -24
                     : dtype == DType::bfloat16 ? -133
                     : dtype == DType::float32  ? -149
                                                : -1074;
  if (x == 0 || !std::isfinite(x)) return std::ldexp(1.0, lowest);
  return std::ldexp(1.0, std::max(std::ilogb(x) - digits + 1, lowest));
}

// The power of two that comes after the largest finite value, in units of that value's spacing.
double largest_in_steps(DType dtype) {
  return dtype == DType::float16    ? 0x1p11
         : dtype == DType::bfloat16 ? 0x1p8
         : dtype == DType::float32  ? 0x1p24
                                    : 0x1p53;
}
int largest_exponent(DType dtype) { return dtype == DType::float16 ? 15 : dtype == DType::float64 ? 1023 : 127; }

bool close(DType real, double got, double want, double size, const Bound& bound) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) {
    if (want == got) return true;
    // The largest finite value and infinity are neighbours.
    const double finite = std::isinf(want) ? got : want;
    return std::isfinite(finite) && std::signbit(want) == std::signbit(got) && finite != 0 &&
           std::ilogb(finite) == largest_exponent(real) &&
           std::fabs(finite) / spacing(real, finite) + bound.ulp >= largest_in_steps(real);
  }
  if (got == 0 && want == 0) return bound.either_zero || std::signbit(got) == std::signbit(want);
  return std::fabs(got - want) <= bound.ulp * spacing(real, size) + bound.absolute;
}

// Empty if equal, else what differs.
std::string difference(const Scalar& got, const Scalar& want, const Bound& bound) {
  const DType dtype = want.dtype();
  bool same;
  if (!is_float(dtype) && !is_complex(dtype)) {
    same = got.as_uint64() == want.as_uint64();
  } else {
    const std::complex<double> g = got.as_complex(), w = want.as_complex();
    const DType real = real_type(dtype);
    const double size =
        std::isfinite(w.real()) && std::isfinite(w.imag()) ? std::max(std::fabs(w.real()), std::fabs(w.imag())) : 0;
    if (is_float(dtype)) {
      same = close(real, g.real(), w.real(), w.real(), bound);
    } else if (bound.ulp > 0 && std::isnan(w.real()) != std::isnan(w.imag()) &&
               (std::isinf(w.real()) || std::isinf(w.imag()))) {
      // C leaves the sign of the infinity beside a NaN open.
      same = std::isnan(g.real()) == std::isnan(w.real()) && std::isnan(g.imag()) == std::isnan(w.imag()) &&
             std::isinf(g.real()) == std::isinf(w.real()) && std::isinf(g.imag()) == std::isinf(w.imag());
    } else if (bound.ulp == 0 || size == 0) {
      same = close(real, g.real(), w.real(), w.real(), bound) && close(real, g.imag(), w.imag(), w.imag(), bound);
    } else {
      same = close(real, g.real(), w.real(), size, bound) && close(real, g.imag(), w.imag(), size, bound);
    }
  }
  return same ? "" : fmt::format("{} instead of {}", to_string(got), to_string(want));
}

class Replay {
 public:
  // Every `parts`-th call of a chapter, from number `part`; all where there is one part.
  Replay(Device device, const std::string& chapter, int part = 0, int parts = 1)
      : device_(device), part_(part), parts_(parts), reader_(section(chapter, "calls")) {
    const DeviceScope scope(device_);
    for (const HostArray& array : reader_.pool()) pool_.push_back(array.upload());
  }

  // The number of calls, of which it made its part.
  int run() {
    const DeviceScope scope(device_);
    while (!reader_.done()) {
      const Kind kind = static_cast<Kind>(reader_.number<uint8_t>());
      switch (kind) {
        case Kind::ufunc:
          ufunc();
          break;
        case Kind::reduction:
          reduction();
          break;
        case Kind::print:
          print();
          break;
        case Kind::promote:
          promote();
          break;
        case Kind::can_cast:
          check_can_cast();
          break;
        case Kind::astype:
          astype();
          break;
        case Kind::index:
          index();
          break;
        case Kind::matmul:
          matmul();
          break;
        case Kind::result_type:
          check_result_type();
          break;
      }
    }
    std::string worst;
    for (const auto& [name, count] : failures_) worst += fmt::format(" {}:{}", name, count);
    fmt::print("oracle on {}: {} functions, {} cases, {} failures{}\n", local::to_string(device_), functions_.size(),
               cases_, failed_, worst);
    EXPECT_EQ(failed_, 0);
    return cases_;
  }

 private:
  static constexpr int kShownEach = 4;

  void fail(const std::string& name, const std::string& what) {
    ++failed_;
    if (++failures_[name] <= kShownEach) ADD_FAILURE() << what;
  }
  std::string describe(const Argument& arg) const {
    if (arg.array < 0) return to_string(arg.literal);
    const HostArray& a = reader_.pool()[static_cast<size_t>(arg.array)];
    return fmt::format("{}{}", name(a.dtype), to_string(a.shape));
  }
  // Of one shape with the result.
  std::complex<double> argument_value(const Argument& arg, const Dims& shape, int64_t i) const {
    if (arg.array < 0) return arg.literal.as_complex();
    const HostArray& a = reader_.pool()[static_cast<size_t>(arg.array)];
    return a.shape == shape ? Scalar::load(a.dtype, a.element(i)).as_complex() : NAN;
  }
  std::string element_of(const Argument& arg, const Dims& shape, int64_t i) const {
    if (arg.array < 0) return to_string(arg.literal);
    const HostArray& a = reader_.pool()[static_cast<size_t>(arg.array)];
    if (a.shape != shape) return describe(arg);
    return to_string(Scalar::load(a.dtype, a.element(i)));
  }

  // Compares a call's results or exception with what NumPy did; `bound_at` gives the bound of element i of output k.
  template <class Call, class BoundAt, class Inputs>
  void check(const std::string& label, const std::string& title, const Expected& expected, Call&& call,
             BoundAt&& bound_at, Inputs&& inputs) {
    ++cases_;
    functions_.insert(label);
    if (cases_ % parts_ != part_) return;
    std::vector<NdArray> results;
    try {
      results = call();
    } catch (const InvalidArgument& error) {
      const bool type = dynamic_cast<const TypeError*>(&error) != nullptr;
      const bool index = dynamic_cast<const IndexError*>(&error) != nullptr;
      if (expected.error == Expected::Error::none) return fail(label, fmt::format("{}: threw {}", title, error.what()));
      if (type != (expected.error == Expected::Error::type_error) ||
          index != (expected.error == Expected::Error::index_error))
        fail(label, fmt::format("{}: the wrong class of error, NumPy has {}: {}", title,
                                static_cast<int>(expected.error), error.what()));
      return;
    } catch (const std::exception& error) {
      return fail(label, fmt::format("{}: threw {}", title, error.what()));
    }
    if (expected.error != Expected::Error::none)
      return fail(label, fmt::format("{}: no error, NumPy has {}", title, static_cast<int>(expected.error)));
    if (results.size() != expected.arrays.size()) return fail(label, title + ": number of outputs");
    for (size_t k = 0; k < results.size(); ++k) {
      const HostArray& want = expected.arrays[k];
      const NdArray host = results[k].to(kCpu);
      const NdArray got = host.is_contiguous() ? host : host.copy(default_context(kCpu));
      if (got.dtype() != want.dtype)
        return fail(label, fmt::format("{}: {} instead of {}", title, name(got.dtype()), name(want.dtype)));
      if (got.shape() != want.shape)
        return fail(label, fmt::format("{}: {} instead of {}", title, to_string(got.shape()), to_string(want.shape)));
      const int64_t item = itemsize(want.dtype);
      for (int64_t i = 0; i < want.size(); ++i) {
        const unsigned char* a = static_cast<const unsigned char*>(got.raw()) + i * item;
        const unsigned char* b = want.element(i);
        if (std::memcmp(a, b, static_cast<size_t>(item)) == 0) continue;
        const std::string what = difference(Scalar::load(want.dtype, a), Scalar::load(want.dtype, b), bound_at(k, i));
        if (!what.empty())
          return fail(label, fmt::format("{}: output {} element {}: {}{}", title, k, i, what, inputs(want.shape, i)));
      }
    }
  }

  static Bound ufunc_bound(const std::string& name, DType result) {
    // Of two equal zeros NumPy takes either, by code path.
    static const std::set<std::string> kEither = {"maximum", "minimum", "fmax", "fmin", "clip"};
    static const std::set<std::string> kExact = {
        "positive",  "negative", "absolute",  "fabs",     "sign",         "rint",        "floor",
        "ceil",      "trunc",    "real",      "imag",     "where",        "conjugate",   "conj",
        "add",       "subtract", "sqrt",      "multiply", "divide",       "modf",        "frexp",
        "ldexp",     "divmod",   "remainder", "mod",      "floor_divide", "fmod",        "copysign",
        "nextafter", "spacing",  "heaviside", "square",   "reciprocal",   "true_divide", "abs"};
    static const std::set<std::string> kComplexExact = {"positive", "negative", "conjugate", "conj", "add",
                                                        "subtract", "where",    "real",      "imag"};
    if (kEither.contains(name)) return {0, 0, true};
    if (is_complex(result)) return kComplexExact.contains(name) ? Bound{} : Bound{8, 0, true};
    if (kExact.contains(name)) return {};
    return {result == DType::float16 || result == DType::bfloat16 ? 1.0 : 4.0};
  }

  void ufunc() {
    const std::string name = reader_.text();
    const std::optional<DType> dtype = reader_.optional_dtype();
    std::vector<Argument> arguments(reader_.number<uint8_t>());
    std::string title = name + "(";
    for (Argument& arg : arguments) {
      arg = reader_.argument();
      title += describe(arg) + ", ";
    }
    title += dtype ? fmt::format("dtype={})", local::name(*dtype)) : ")";
    const Expected expected = reader_.expected();
    std::vector<Arg> args;
    bool complex_input = false;
    for (const Argument& arg : arguments) {
      args.push_back(arg.array >= 0 ? Arg(pool_[static_cast<size_t>(arg.array)]) : Arg(arg.literal));
      complex_input = complex_input || is_complex(args.back().promotion().dtype);
    }
    const auto call = [&]() -> std::vector<NdArray> {
      if (const MultiOutput* several = find_multi_output(name)) return apply(*several, args, dtype);
      const std::optional<Op> op = find_op(name);
      if (!op) throw InternalError("no such function");
      return {apply(*op, args, dtype)};
    };
    const auto bound_at = [&](size_t k, int64_t i) {
      const DType result = expected.arrays[k].dtype;
      Bound bound = ufunc_bound(name, result);
      if (name == "absolute" || name == "abs") bound.ulp = complex_input ? 4 : 0;  // a hypot
      // What comes of rounding the exponent, or of a sum with a result near zero, in any implementation.
      const auto value = [&](size_t arg) { return argument_value(arguments[arg], expected.arrays[k].shape, i); };
      if (is_complex(result) && (name == "power" || name == "pow" || name == "float_power")) {
        const double exponent = std::abs(value(1) * std::log(value(0)));
        if (std::isfinite(exponent)) bound.ulp *= 1 + exponent;
      }
      if (is_complex(result) && name == "exp2") bound.ulp *= 1 + std::abs(value(0));
      if (name == "logaddexp" || name == "logaddexp2") {
        const double larger = std::max(std::abs(value(0)), std::abs(value(1)));
        if (std::isfinite(larger)) bound.absolute = 4 * spacing(result, larger);
      }
      return bound;
    };
    const auto inputs = [&](const Dims& shape, int64_t i) {
      std::string text = " for";
      for (const Argument& arg : arguments) text += " " + element_of(arg, shape, i);
      return text;
    };
    check(name, title, expected, call, bound_at, inputs);
  }

  void reduction() {
    const std::string name = reader_.text();
    const auto array = reader_.number<uint32_t>();
    std::vector<int64_t> axes(reader_.number<uint8_t>());
    for (int64_t& axis : axes) axis = reader_.number<int64_t>();
    ReduceOptions options;
    options.keepdims = reader_.number<uint8_t>() != 0;
    options.dtype = reader_.optional_dtype();
    options.ddof = reader_.number<double>();
    const Expected expected = reader_.expected();
    constexpr int64_t kNone = -1000;
    const bool none = axes.size() == 1 && axes[0] == kNone;
    const Axes selected = none ? Axes() : Axes(axes);
    const HostArray& host = reader_.pool()[array];
    std::string title = fmt::format("{}({}{}, axis=", name, local::name(host.dtype), to_string(host.shape));
    for (int64_t axis : axes) title += none ? "None " : fmt::format("{} ", axis);
    title += fmt::format("keepdims={}, dtype={}, ddof={})", options.keepdims,
                         options.dtype ? local::name(*options.dtype) : "None", options.ddof);
    const Reduction which = *find_reduction(name);
    const auto call = [&]() -> std::vector<NdArray> { return {reduce(which, pool_[array], selected, options)}; };
    const auto bound_at = [&](size_t k, int64_t i) {
      return reduction_bound(name, host, selected, options, expected.arrays[k], i);
    };
    check(name, title, expected, call, bound_at, [](const Dims&, int64_t) { return std::string(); });
  }

  // The reference is rounded once, so these bound the true error: a pairwise sum's is at most log2(n) roundings of the
  // sum of magnitudes.
  static Bound reduction_bound(const std::string& name, const HostArray& host, const Axes& axes,
                               const ReduceOptions& options, const HostArray& want, int64_t i) {
    if (name == "min" || name == "max") return {0, 0, true};
    if (!is_float(want.dtype) && !is_complex(want.dtype)) return {};
    const uint32_t mask = axes.mask(host.shape.size());
    const Dims kept = reduced_shape(host.shape, mask, /*keepdims=*/true);
    double magnitude = 0;
    int64_t count = 0;
    for (int64_t e = 0; e < host.size(); ++e) {
      int64_t rest = e, target = 0, step = 1;
      for (int d = host.shape.size() - 1; d >= 0; --d) {
        const int64_t at = rest % host.shape[d];
        rest /= host.shape[d];
        if (!(mask & (1u << d))) target += at * step;
        step *= kept[d];
      }
      if (target != i) continue;
      ++count;
      magnitude += std::abs(Scalar::load(host.dtype, host.element(e)).as_complex());
    }
    static_cast<void>(options);
    const bool wide = real_type(want.dtype) == DType::float64;
    const double unit = wide ? 0x1p-53 : 0x1p-24;
    const double steps = std::log2(static_cast<double>(count + 1)) + 4;
    if (!std::isfinite(magnitude)) return {4, 0, true};
    if (name == "sum") return {1, steps * unit * magnitude, true};
    if (name == "mean") return {1, steps * unit * magnitude / static_cast<double>(std::max<int64_t>(count, 1)), true};
    if (name == "prod")
      return {2.0 + (real_type(want.dtype) == DType::float16 || want.dtype == DType::bfloat16
                         ? 0.0
                         : static_cast<double>(count) * 2),
              0, true};
    return {4 * steps, 0, true};  // var, std
  }

  void print() {
    const auto array = reader_.number<uint32_t>();
    const std::string text = reader_.text(), repr = reader_.text();
    ++cases_;
    functions_.insert("str");
    functions_.insert("repr");
    const NdArray& a = pool_[array];
    for (const auto& [what, want] : {std::pair("str", &text), std::pair("repr", &repr)}) {
      std::string got;
      try {
        got = want == &text ? a.to_string() : a.repr();
      } catch (const std::exception& error) {
        got = error.what();
      }
      if (got != *want) {
        fail(what,
             fmt::format("{} of {}{}:\n{}\ninstead of\n{}", what, name(a.dtype()), to_string(a.shape()), got, *want));
      }
    }
  }

  void promote() {
    const DType a = reader_.dtype(), b = reader_.dtype(), want = reader_.dtype();
    ++cases_;
    functions_.insert("promote_types");
    if (promote_types(a, b) != want)
      fail("promote_types", fmt::format("promote_types({}, {}) is {} instead of {}", name(a), name(b),
                                        name(promote_types(a, b)), name(want)));
  }

  void check_can_cast() {
    const DType a = reader_.dtype(), b = reader_.dtype();
    const auto casting = static_cast<Casting>(reader_.number<uint8_t>());
    const bool want = reader_.number<uint8_t>() != 0;
    ++cases_;
    functions_.insert("can_cast");
    if (can_cast(a, b, casting) != want)
      fail("can_cast", fmt::format("can_cast({}, {}, {}) is {}", name(a), name(b), static_cast<int>(casting), !want));
  }

  void check_result_type() {
    const DType a = reader_.dtype();
    const Argument literal = reader_.argument();
    const DType want = reader_.dtype();
    ++cases_;
    functions_.insert("result_type");
    const PromotionOperand operands[] = {{a, false}, {literal.literal.dtype(), true}};
    if (result_type(operands) != want)
      fail("result_type", fmt::format("result_type({}, {}) is {} instead of {}", name(a), to_string(literal.literal),
                                      name(result_type(operands)), name(want)));
  }

  void astype() {
    const auto array = reader_.number<uint32_t>();
    const DType to = reader_.dtype();
    const Expected expected = reader_.expected();
    const Argument argument{static_cast<int>(array), {}};
    check(
        "astype", fmt::format("{}.astype({})", describe(argument), name(to)), expected,
        [&]() -> std::vector<NdArray> { return {pool_[array].astype(to)}; }, [](size_t, int64_t) { return Bound{}; },
        [&](const Dims& shape, int64_t i) { return " for " + element_of(argument, shape, i); });
  }

  void index() {
    const auto array = reader_.number<uint32_t>();
    std::vector<IndexItem> items(reader_.number<uint8_t>());
    std::string title = "x[";
    for (IndexItem& item : items) {
      switch (reader_.number<uint8_t>()) {
        case 0:
          item = reader_.number<int64_t>();
          title += fmt::format("{}, ", std::get<int64_t>(item));
          break;
        case 1: {
          Slice slice;
          for (std::optional<int64_t>* bound : {&slice.start, &slice.stop, &slice.step}) {
            const bool given = reader_.number<uint8_t>() != 0;
            const auto value = reader_.number<int64_t>();
            if (given) *bound = value;
            title += given ? fmt::format("{}:", value) : ":";
          }
          title += ", ";
          item = slice;
          break;
        }
        case 2:
          item = newaxis;
          title += "None, ";
          break;
        default:
          item = ellipsis;
          title += "..., ";
      }
    }
    const Expected expected = reader_.expected();
    check(
        "index", title + "]", expected,
        [&]() -> std::vector<NdArray> { return {pool_[array][std::span<const IndexItem>(items)].copy()}; },
        [](size_t, int64_t) { return Bound{}; }, [](const Dims&, int64_t) { return std::string(); });
  }

  void matmul() {
    const auto a = reader_.number<uint32_t>(), b = reader_.number<uint32_t>();
    const Expected expected = reader_.expected();
    const Argument left{static_cast<int>(a), {}}, right{static_cast<int>(b), {}};
    double largest = 0;
    for (int64_t n : {a, b}) {
      const HostArray& array = reader_.pool()[static_cast<size_t>(n)];
      double most = 0;
      for (int64_t i = 0; i < array.size(); ++i)
        most = std::max(most, std::abs(Scalar::load(array.dtype, array.element(i)).as_complex()));
      largest = largest == 0 ? most : largest * most;
    }
    const int64_t k = reader_.pool()[a].shape.empty() ? 1 : reader_.pool()[a].shape.back();
    check(
        "matmul", fmt::format("matmul({}, {})", describe(left), describe(right)), expected,
        [&]() -> std::vector<NdArray> { return {linalg::matmul(pool_[a], pool_[b])}; },
        [&](size_t, int64_t) {
          const DType real = real_type(expected.arrays[0].dtype);
          if (!is_float(real)) return Bound{};
          const double unit = real == DType::float64 ? 0x1p-53 : real == DType::float16 ? 0x1p-11 : 0x1p-24;
          return Bound{1, 2 * static_cast<double>(k + 2) * unit * largest, true};
        },
        [](const Dims&, int64_t) { return std::string(); });
  }

  const Device device_;
  const int part_, parts_;
  Reader reader_;
  std::vector<NdArray> pool_;
  std::set<std::string> functions_;
  std::map<std::string, int> failures_;
  int cases_ = 0, failed_ = 0;
};

// On a GPU nearly every call compiles a kernel: the many ones are dealt to parts that can run at the same time, as
// shards of the test program.
struct Part {
  DeviceKind kind;
  std::string chapter;
  int part, parts;
};

// How many calls a chapter has at least.
struct Chapter {
  const char* name;
  int calls, parts_on_gpu;
};
constexpr Chapter kChapters[] = {{"dtypes", 1400, 1},  {"indexing", 600, 1},    {"printing", 1600, 1},
                                 {"products", 240, 1}, {"reductions", 5900, 4}, {"ufuncs", 16000, 12}};

std::vector<Part> parts() {
  std::vector<Part> result;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::emulated, DeviceKind::cuda}) {
    for (const Chapter& chapter : kChapters) {
      const int parts = kind == DeviceKind::cuda ? chapter.parts_on_gpu : 1;
      for (int part = 0; part < parts; ++part) result.push_back({kind, chapter.name, part, parts});
    }
  }
  return result;
}

class Oracle : public ::testing::TestWithParam<Part> {};
INSTANTIATE_TEST_SUITE_P(All, Oracle, ::testing::ValuesIn(parts()), [](const auto& info) {
  const Part& part = info.param;
  const std::string text = fmt::format("{}_{}", name(part.kind), part.chapter);
  return part.parts == 1 ? text : fmt::format("{}_{}", text, part.part);
});

TEST_P(Oracle, AnswersAsNumPy) {
  const Part& part = GetParam();
  if (!available(part.kind)) GTEST_SKIP() << "no device of kind " << name(part.kind);
  const int calls = Replay({part.kind, 0}, part.chapter, part.part, part.parts).run();
  for (const Chapter& chapter : kChapters) {
    if (chapter.name == part.chapter) {
      EXPECT_GE(calls, chapter.calls);
    }
  }
}

TEST(OracleChapters, AreAllReplayed) {
  std::vector<std::string> names;
  for (const Chapter& chapter : kChapters) names.emplace_back(chapter.name);
  EXPECT_EQ(chapters_with("calls"), names);
}

}  // namespace
}  // namespace quarry::oracle
