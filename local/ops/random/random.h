// Random numbers: NumPy's Generator, over Philox4x32-10 or another bit generator.
//
// Every draw takes the next stream of the generator: key = (seed, stream), counter = C-order element index. A result
// depends on the seed, on the draws before it, on its shape, dtype and parameters, and on nothing else: the order of
// the draws is the only state. Bits, integers, uniforms and normals are the same on every device; distributions by
// rejection are the same for any number of threads and differ between CPU and GPU at most where the last bit of a
// logarithm decides. They are the distributions of NumPy's Generator, not its bits.
//
// Of the other bit generators XORWOW, MRG32k3a, MT19937 and MTGP32 are cuRAND's and run on a GPU only. A draw takes
// their next words, which are stored before they are used: one of 32 bits per element, two where 64 bits are needed.
// Quasi- random generators (Sobol32, Sobol64 and their scrambled forms) give points of the unit cube. A draw of d n
// elements takes n points of their d dimensions: in C order first all first coordinates, then all second ones, as
// cuRAND, so that random((d, n)) has a point in each column. Sobol's points are those of cuRAND and, in 32 bits, of
// SciPy, the same on every device: Joe and Kuo's direction numbers (new-joe-kuo-6) in the order of the Gray code, from
// the origin on; of 1111 dimensions on the CPU and 20000 on a GPU. The scrambled points of the CPU (Matousek's linear
// scramble and a random shift of the digits, by seed) are not those of a GPU (cuRAND's, which knows no seed). Normals
// are quantiles of the uniforms for all of these, not Box and Muller's. From quasi-random points come what takes one
// number per element and no rejection: uniforms, normals, integers, exponentials and what a formula gives from one of
// them; the other functions throw NotSupported.
//
// Parameters broadcast, with `size` (the result's shape; none: the shape of the parameters) and with `out`. Results are
// on the device of the parameters' arrays, else on the current one. dtype is float32 or float64, of counts int64. All
// functions throw InvalidArgument for parameters out of range or NaN ("scale < 0"), for shapes that do not broadcast
// and for negative extents, TypeError for dtypes that do not fit, OutOfMemory. Parameters that are arrays are checked
// on their device, which blocks; else nothing waits for its result.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/ops/random/seed_sequence.h"
#include "quarry/local/program/bit_generator.h"

namespace quarry::local {

// Bit generators for Generator(...). `seed` is not negative; none is one from the operating system. `offset` words, or
// points, are left out; for MT19937 and MTGP32 they are made and dropped. `ordering` is one of cuRAND's: "default",
// "best", "seeded", "legacy", "dynamic" (NotSupported at the first draw where the generator lacks it). Words of 32
// bits. A draw throws NotSupported where the device has no such generator. Throw InvalidArgument.
BitGenerator XORWOW(std::optional<int64_t> seed = {}, int64_t offset = 0, std::string_view ordering = "default");
BitGenerator MRG32k3a(std::optional<int64_t> seed = {}, int64_t offset = 0, std::string_view ordering = "default");
BitGenerator MT19937(std::optional<int64_t> seed = {}, int64_t offset = 0, std::string_view ordering = "default");
BitGenerator MTGP32(std::optional<int64_t> seed = {}, int64_t offset = 0, std::string_view ordering = "default");
// The generator of default_rng(): `offset` counts draws.
BitGenerator Philox(std::optional<int64_t> seed = {}, int64_t offset = 0);
// Points of `dimensions`, at most 20000, from point `offset` on. There are 2^32 points of Sobol32.
BitGenerator Sobol32(int64_t dimensions = 1, int64_t offset = 0);
BitGenerator Sobol64(int64_t dimensions = 1, int64_t offset = 0);
// `seed` chooses the scramble, a linear one and a shift of the digits: the same points on every device.
BitGenerator ScrambledSobol32(int64_t dimensions = 1, int64_t seed = 0, int64_t offset = 0);
BitGenerator ScrambledSobol64(int64_t dimensions = 1, int64_t seed = 0, int64_t offset = 0);

// Not for several threads at once. Copies continue alike.
class Generator {
 public:
  using Array = NdArray;
  using Arg = local::Arg;
  using Size = local::Size;
  using Out = std::optional<NdArray>;

  explicit Generator(uint64_t seed) { bits_.seed = seed; }
  explicit Generator(const BitGenerator& bits) : bits_(bits) {}
  // The seed is the first 64 bits of the sequence, which spawn() goes on with.
  Generator(const BitGenerator& bits, SeedSequence sequence) : bits_(bits), sequence_(std::move(sequence)) {
    bits_.seed = sequence_->generate_state_64(1)[0];
  }
  uint64_t seed() const { return bits_.seed; }
  const BitGenerator& bit_generator() const { return bits_; }  // at the next draw
  // Generators of the same kind at their beginning, whose seeds are the first 64 bits of the children of this one's
  // seed sequence; of a generator of a number that is SeedSequence(seed). Throws TypeError where a generator has no
  // seed.
  std::vector<Generator> spawn(int64_t n_children);
  // Leaves out `delta` draws (Philox), words or points, or goes back. Throws InvalidArgument before the beginning.
  void advance(int64_t delta);

  // random, integers, uniform, normal, exponential, gamma, poisson and all others: for example
  //   NdArray normal(const Arg& loc = 0.0, const Arg& scale = 1.0, const Size& size = {}, DType dtype = float64);
#include "quarry/local/ops/random/distributions_declared.inl"

  // Vectors along a new last axis.
  NdArray dirichlet(const NdArray& alpha, const Size& size = {});
  NdArray multinomial(const Arg& n, const NdArray& pvals, const Size& size = {});
  // One draw per category whatever `method` ("marginals", "count") says; at most 10^9 - 1 items.
  NdArray multivariate_hypergeometric(const std::vector<int64_t>& colors, int64_t nsample, const Size& size = {},
                                      std::string_view method = "marginals");
  // By the eigenvectors of cov, whatever `method` ("svd", "eigh", "cholesky") says; blocks. check_valid "raise" throws
  // where cov is not symmetric positive-semidefinite up to tol, "warn" logs it.
  NdArray multivariate_normal(const NdArray& mean, const NdArray& cov, const Size& size = {},
                              std::string_view check_valid = "warn", double tol = 1e-8,
                              std::string_view method = "svd");

  // Elements along an axis of a, or of arange(a), each with probability p (uniform without it). Without `replace` none
  // is taken twice; the order is random whatever `shuffle` says. Needs memory for as many keys as there are elements
  // where it does not replace. Blocks where p is given.
  NdArray choice(const std::variant<int64_t, NdArray>& a, const Size& size = {}, bool replace = true,
                 const std::optional<NdArray>& p = {}, int64_t axis = 0, bool shuffle = true);
  // arange(x), or a copy of x, with the slices along the axis in random order.
  NdArray permutation(const std::variant<int64_t, NdArray>& x, int64_t axis = 0);
  // The elements along the axis in random order, each line in one of its own; without an axis all elements.
  NdArray permuted(const NdArray& x, std::optional<int64_t> axis = {}, const Out& out = {});
  // permutation() in place.
  void shuffle(const NdArray& x, int64_t axis = 0);
  // In host memory. Blocks.
  std::string bytes(int64_t length);

 private:
  NdArray permutation_of(int64_t n, Device device);

  BitGenerator bits_;
  std::optional<SeedSequence> sequence_;  // where it was made from one, or has made children
};

// Without a seed one from the operating system. Throws InvalidArgument for a negative one.
Generator default_rng(std::optional<int64_t> seed = std::nullopt);
// default_rng(SeedSequence({1, 2})): NumPy's default_rng([1, 2]).
Generator default_rng(const SeedSequence& sequence);

}  // namespace quarry::local
