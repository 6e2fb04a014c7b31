// NumPy's Generator for chunked arrays: auto rng = qy::random::default_rng(1); rng.normal(0, 1, {1000000, 8}).
//
// Lazy; the arrays take no storage: an element is computed from seed, stream and its C-order index where it is used. So
// the numbers are those of quarry::local's generator of the same seed, whatever the chunks, ranks and devices. Every
// call takes the generator's next stream: all ranks make the same calls. Parameters, sizes and errors are as in
// local/ops/random/random.h, but for `out`. Parameters that are arrays are checked at the call, which reads them: it
// blocks and is collective.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "quarry/chunked/api/operand.h"
#include "quarry/local/ops/random/random.h"

namespace quarry::random {

using local::Philox;
using local::SeedSequence;

// Not for several threads at once. Copies continue alike.
class Generator {
 public:
  using Array = quarry::Array;
  using Arg = quarry::Operand;
  using Size = local::Size;
  struct Out {};  // chunked arrays are not written to

  explicit Generator(uint64_t seed) : state_(seed) {}
  // Throws NotSupported for others than Philox, whose numbers are no functions of their index.
  explicit Generator(const local::BitGenerator& bits);
  explicit Generator(const SeedSequence& sequence) : state_(Philox(0), sequence) {}
  uint64_t seed() const { return state_.seed(); }
  const local::BitGenerator& bit_generator() const { return state_.bit_generator(); }  // at the next call
  std::vector<Generator> spawn(int64_t n_children);
  // Leaves out `delta` calls, or goes back.
  void advance(int64_t delta) { state_.advance(delta); }

  // Distributions of numbers: random, integers, uniform, standard_normal, normal, standard_exponential, exponential,
  // standard_gamma, gamma, beta, chisquare, f, gumbel, laplace, logistic, lognormal, noncentral_chisquare,
  // noncentral_f, pareto, power, rayleigh, standard_cauchy, standard_t, triangular, vonmises, wald, weibull, binomial,
  // geometric, hypergeometric, logseries, negative_binomial, poisson, zipf.
#include "quarry/local/ops/random/distributions_declared.inl"

  // Vectors along a new last axis. Parameters but n are read at the call by every rank: collective.
  Array dirichlet(const Array& alpha, const Size& size = {});
  Array multinomial(const Arg& n, const Array& pvals, const Size& size = {});
  Array multivariate_hypergeometric(const std::vector<int64_t>& colors, int64_t nsample, const Size& size = {},
                                    std::string_view method = "marginals");
  Array multivariate_normal(const Array& mean, const Array& cov, const Size& size = {},
                            std::string_view check_valid = "warn", double tol = 1e-8, std::string_view method = "svd");

  // Elements of arange(a), or along an axis of the array a. Lazy for numbers with replacement; with p every element of
  // the result is compared with all of p's sums. Else every rank reads a and computes: NotSupported where a is larger
  // than a chunk.
  Array choice(const std::variant<int64_t, Array>& a, const Size& size = {}, bool replace = true,
               const std::optional<Array>& p = {}, int64_t axis = 0, bool shuffle = true);
  // Every rank computes: NotSupported for more than a chunk.
  Array permutation(const std::variant<int64_t, Array>& x, int64_t axis = 0);

 private:
  friend class Recipe;
  local::Generator state_;
};

// Without a seed one from rank 0's operating system: collective. Throws InvalidArgument for a negative one.
Generator default_rng(std::optional<int64_t> seed = std::nullopt);
Generator default_rng(const SeedSequence& sequence);

// The generator of the functions below: seeded with 0 unless seed() was called, so that every rank draws the same.
Generator& default_generator();
void seed(uint64_t value);

Array uniform(const Dims& shape, double low = 0, double high = 1, DType dtype = DType::float64);
Array normal(const Dims& shape, double mean = 0, double scale = 1, DType dtype = DType::float64);
Array integers(const Dims& shape, int64_t low, int64_t high, DType dtype = DType::int64);

}  // namespace quarry::random
