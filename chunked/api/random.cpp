#include "quarry/chunked/api/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/local/base/error.h"
#include "quarry/local/device/range.h"
#include "quarry/local/ndarray/launch.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/random/recipe.h"

namespace quarry::random {

using namespace local;  // what distributions.inl is written with
using quarry::Array;
using Arg = quarry::Operand;

// The C-order index of every element.
static expr::NodePtr element_index(const Dims& shape) {
  expr::NodePtr sum = expr::constant(0, DType::int64, shape);
  int64_t stride = 1;
  bool first = true;
  for (int d = shape.size() - 1; d >= 0; --d) {
    expr::NodePtr term = expr::index(shape, d);
    if (stride != 1) term = expr::elementwise("multiply"_op, {term, expr::constant(stride, DType::int64)});
    sum = first ? term : expr::elementwise("add"_op, {term, sum});
    first = false;
    stride *= std::max<int64_t>(shape[d], 1);
  }
  return sum;
}

// One draw of a chunked array: the formula's values become nodes.
class Recipe final : public Formula {
 public:
  Recipe(Generator& generator, DType dtype, std::initializer_list<const Arg*> parameters,
         const std::optional<Ints>& size, Generator::Out = {})
      : Formula(generator.state_, dtype) {
    std::vector<Dims> shapes;
    for (const Arg* parameter : parameters)
      if (parameter->is_array()) shapes.push_back(parameter->array().shape());
    if (!shapes.empty()) shape_ = broadcast_shapes(shapes);
    if (size) shape_ = random_shape(random_shape(*size), shape_);
  }

  Term parameter(const Arg& value) { return parameter(value, dtype_); }
  Term parameter(const Arg& value, DType dtype) {
    if (!value.is_array()) return constant(value.scalar(), dtype);
    inputs_.push_back(value.array().node());
    return Term(this, program_.input(value.array().dtype())).as(dtype);
  }

  Array make(Term result) { return make(result, dtype_); }
  Array make(Term result, DType dtype) {
    const ValueId wanted = id(result.as(dtype));
    std::vector<expr::NodePtr> nodes;
    for (const Value& value : program_.values()) nodes.push_back(node_of(value, nodes));
    return Array(expr::broadcast_to(nodes[static_cast<size_t>(wanted)], shape_));
  }

 private:
  ValueId index() override {
    if (index_ < 0) index_ = program_.index(0);
    return index_;
  }

  expr::NodePtr node_of(const Value& value, const std::vector<expr::NodePtr>& nodes) const {
    const auto slot = static_cast<size_t>(value.slot);
    switch (value.kind) {
      case Value::Kind::input:
        return inputs_[slot];
      case Value::Kind::constant:
        return expr::constant(program_.constants()[slot], value.dtype);
      case Value::Kind::index:
        return element_index(shape_);
      case Value::Kind::op:
        break;
    }
    std::vector<expr::NodePtr> arguments;
    for (int i = 0; i < value.nargs; ++i) arguments.push_back(nodes[static_cast<size_t>(value.args[i])]);
    if (value.op == "cast"_op) return expr::cast(arguments[0], value.dtype);
    // The arguments have the loop's dtypes; only the random streams do not tell it by theirs.
    const bool stream = info(value.op).rule == OpRule::random;
    return expr::elementwise(value.op, std::move(arguments), stream ? std::optional(value.loop) : std::nullopt);
  }

  Dims shape_;
  std::vector<expr::NodePtr> inputs_;
  ValueId index_ = -1;
};

namespace {

bool is_array(const Arg& arg) { return arg.is_array(); }
bool is_empty(const Arg& arg) { return arg.is_array() && arg.array().size() == 0; }
DType dtype_of(const Arg& arg) { return arg.is_array() ? arg.array().dtype() : arg.scalar().dtype(); }

Array apply(Op op, std::initializer_list<Arg> args, std::optional<DType> dtype = std::nullopt) {
  return quarry::apply(op, std::span<const Arg>(args.begin(), args.size()), dtype);
}

// 0-d values, computed together.
std::vector<Scalar> settled(std::initializer_list<Array> arrays) {
  std::vector<Scalar> values;
  for (const NdArray& value : quarry::to_host(std::span<const Array>(arrays.begin(), arrays.size())))
    values.push_back(value.item());
  return values;
}

std::pair<Scalar, Scalar> extent_of_array(const Arg& arg) {
  const std::vector<Scalar> values = settled({quarry::min(arg.array()), quarry::max(arg.array())});
  return {values[0], values[1]};
}

void check_parameter(const char* name, const Arg& value, const ParameterRange& range) {
  if (!value.is_array()) return local::check_parameter(name, value.scalar(), range);
  if (is_complex(value.array().dtype())) local::check_parameter(name, Scalar(std::complex<double>()), range);
  if (is_empty(value)) return;
  const Array x = value.array().astype(DType::float64);
  const Array low = apply(range.above_low ? "less_equal"_op : "less"_op, {x, range.low});
  const Array high = apply(range.below_high ? "greater_equal"_op : "greater"_op, {x, range.high});
  const auto any = [](const Array& condition) { return quarry::any(condition); };
  const std::vector<Scalar> found = settled({any(low), any(quarry::isnan(x)), any(high)});
  const bool is_low = found[0].as_bool(), is_nan = found[1].as_bool(), is_high = found[2].as_bool();
  if (is_low || is_nan || is_high) out_of_range(name, range, !is_low && is_nan, !is_low && !is_nan);
}

void check_none(Op comparison, const Arg& a, const Arg& b, const char* message) {
  const bool fixed = !a.is_array() && !b.is_array();
  if (fixed ? holds(comparison, a.scalar().as_double(), b.scalar().as_double())
            : quarry::any(apply(comparison, {a, b})).item<bool>())
    throw InvalidArgument(message);
}

}  // namespace

#include "quarry/local/ops/random/distributions.inl"

Generator::Generator(const BitGenerator& bits) : state_(bits) {
  if (bits.kind != BitGenerator::Kind::philox)
    throw NotSupported(fmt::format("chunked arrays draw from Philox, not from {}", name(bits.kind)));
}

std::vector<Generator> Generator::spawn(int64_t n_children) {
  std::vector<Generator> children;
  for (const local::Generator& child : state_.spawn(n_children)) {
    children.emplace_back(child.seed());
    children.back().state_ = child;
  }
  return children;
}

// Gammas divided by their sum, from their logarithms: small alphas underflow otherwise.
Array Generator::dirichlet(const Array& alpha, const Size& size) {
  if (alpha.ndim() != 1)
    throw InvalidArgument(fmt::format("alpha must be 1-dimensional, not of shape {}", to_string(alpha.shape())));
  random::check_parameter("alpha", alpha, kNonNegative);
  const Arg parameter = alpha;
  Recipe recipe(*this, DType::float64, {&parameter}, Ints(with_last(batch_shape(size, Dims{}), alpha.size())));
  Array logs = recipe.make(recipe.log_gamma(recipe.parameter(parameter)));
  if (logs.size() == 0) return logs;
  // Where all alphas are zero nothing is finite.
  const Array most = quarry::maximum(quarry::max(logs, -1, {.keepdims = true}), std::numeric_limits<double>::lowest());
  const Array weights = quarry::exp(logs - most), sum = quarry::sum(weights, -1, {.keepdims = true});
  return weights / quarry::where(sum == 0, 1.0, sum);
}

Array Generator::multinomial(const Arg& n, const Array& pvals, const Size& size) {
  random::check_parameter("n", n, kNonNegative);
  Dims outer = pvals.shape();
  if (outer.size() > 0) outer.resize(outer.size() - 1);
  const std::vector<NdArray> chances = conditional_chances(pvals.to_host());
  const Dims shape = batch_shape(size, broadcast_shapes(n.is_array() ? n.array().shape() : Dims{}, outer));
  const Dims all_shape = with_last(shape, static_cast<int64_t>(chances.size()) + 1);
  if (element_count(all_shape) == 0) return quarry::zeros(all_shape, DType::int64);
  Array left = n.is_array() ? quarry::broadcast_to(n.array().astype(DType::int64), shape)
                            : quarry::full(shape, n.scalar().as_int64(), DType::int64);
  std::vector<Array> counts;
  for (const NdArray& chance : chances) {
    const Arg trials = left, probability = Array::from_local(chance);
    Recipe recipe(*this, DType::float64, {&trials, &probability}, Ints(shape));
    const Term all = recipe.parameter(trials);
    counts.push_back(recipe.make(recipe.apply("random_binomial"_op, {recipe.key(), all, recipe.parameter(probability)}),
                                 DType::int64));
    left = left - counts.back();
  }
  counts.push_back(left);
  return quarry::stack(counts, -1);
}

Array Generator::multivariate_hypergeometric(const std::vector<int64_t>& colors, int64_t nsample, const Size& size,
                                             std::string_view method) {
  const std::vector<int64_t> others = colors_left(colors, nsample, method);
  const Dims shape = batch_shape(size, Dims{});
  const Dims all_shape = with_last(shape, static_cast<int64_t>(colors.size()));
  if (element_count(all_shape) == 0) return quarry::zeros(all_shape, DType::int64);
  Array left = quarry::full(shape, nsample, DType::int64);
  std::vector<Array> counts;
  for (size_t j = 0; j + 1 < colors.size(); ++j) {
    const Arg sample = left;
    Recipe recipe(*this, DType::int64, {&sample}, Ints(shape));
    const Term both = recipe.constant((colors[j] << 32) | others[j], DType::int64);
    counts.push_back(
        recipe.make(recipe.apply("random_hypergeometric"_op, {recipe.key(), both, recipe.parameter(sample)})));
    left = left - counts.back();
  }
  counts.push_back(left);
  return quarry::stack(counts, -1);
}

Array Generator::multivariate_normal(const Array& mean, const Array& cov, const Size& size,
                                     std::string_view check_valid, double tol, std::string_view method) {
  const NdArray center = mean.to_host(), covariance = cov.to_host();
  const NormalVectors vectors = normal_vectors(center, covariance, check_valid, tol, method);
  const int64_t n = vectors.mean.size();
  const Dims shape = with_last(batch_shape(size, Dims{}), n);
  Recipe recipe(*this, DType::float64, {}, Ints(shape));
  Array z = recipe.make(recipe.normal());
  if (z.size() == 0) return z;
  const Array root = Array::from_local(vectors.root.T());
  return quarry::matmul(z.reshape(Dims{z.size() / n, n}), root).reshape(shape) + Array::from_local(vectors.mean);
}

namespace {

void check_one_chunk(const char* function, int64_t bytes) {
  const int64_t most = target_chunk_bytes(chunk_policy().device);
  if (bytes > most)
    throw NotSupported(fmt::format("{}() of more than a chunk ({} bytes of {})", function, bytes, most));
}

// What a local method makes of a number or of an array that every rank reads.
template <class F>
Array on_every_rank(const char* function, const std::variant<int64_t, Array>& x, F&& f) {
  if (const int64_t* count = std::get_if<int64_t>(&x)) {
    check_one_chunk(function, std::clamp<int64_t>(*count, 0, INT64_MAX / 8) * 8);
    return Array::from_local(f(std::variant<int64_t, NdArray>(*count)));
  }
  const Array& array = std::get<Array>(x);
  check_one_chunk(function, array.nbytes());
  return Array::from_local(f(std::variant<int64_t, NdArray>(array.to_host())));
}

}  // namespace

Array Generator::choice(const std::variant<int64_t, Array>& a, const Size& size, bool replace,
                        const std::optional<Array>& p, int64_t axis, bool shuffle) {
  const int64_t* count = std::get_if<int64_t>(&a);
  const std::optional<NdArray> chances = p ? std::optional(p->to_host()) : std::nullopt;
  if (count == nullptr || !replace || *count <= 0 || (p && (p->ndim() != 1 || p->size() != *count))) {
    return on_every_rank("choice", a, [&](const std::variant<int64_t, NdArray>& of) {
      return state_.choice(of, size, replace, chances, axis, shuffle);
    });
  }
  normalize_axis(axis, 1);
  const Ints shape = size ? *size : Ints(Dims{});
  if (element_count(random_shape(shape)) == 0) return quarry::zeros(random_shape(shape), DType::int64);
  if (!chances) return integers(0, *count, shape);
  // As many sums are at most the number as choice() of a local generator finds by search.
  const Array ends = Array::from_local(choice_ends(*chances, *count));
  return quarry::count_nonzero(quarry::expand_dims(random(shape), -1) >= ends, -1);
}

Array Generator::permutation(const std::variant<int64_t, Array>& x, int64_t axis) {
  return on_every_rank("permutation", x,
                       [&](const std::variant<int64_t, NdArray>& of) { return state_.permutation(of, axis); });
}

Generator default_rng(std::optional<int64_t> seed) {
  if (!seed) {
    comm::Communicator& communicator = Runtime::current().communicator();
    uint64_t mine = Philox().seed;
    comm::agree(communicator, nullptr, {"default_rng"});
    communicator.broadcast(&mine, sizeof mine, 0);
    return Generator(mine);
  }
  return Generator(Philox(seed));
}
Generator default_rng(const SeedSequence& sequence) { return Generator(sequence); }

namespace {

Generator& shared() {
  static Generator generator(0);
  return generator;
}

}  // namespace

Generator& default_generator() { return shared(); }
void seed(uint64_t value) { shared() = Generator(value); }

Array uniform(const Dims& shape, double low, double high, DType dtype) {
  return shared().uniform(low, high, Ints(shape), dtype);
}
Array normal(const Dims& shape, double mean, double scale, DType dtype) {
  return shared().normal(mean, scale, Ints(shape), dtype);
}
Array integers(const Dims& shape, int64_t low, int64_t high, DType dtype) {
  return shared().integers(low, Arg(high), Ints(shape), dtype);
}

}  // namespace quarry::random
