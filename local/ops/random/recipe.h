// How a distribution is written down: one program over the elements of the result, from parameters and draws.
#pragma once

#include <initializer_list>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/ops/random/random.h"
#include "quarry/local/program/program.h"

namespace quarry::local {

// The values that a parameter may have; never NaN.
struct ParameterRange {
  double low;
  bool above_low;  // low itself is excluded
  double high;
  bool below_high;
  const char* message;      // otherwise; {0} stands for the parameter's name
  const char* nan_message;  // of NaN
};
extern const ParameterRange kAnyReal, kNonNegative, kPositive, kProbability, kPositiveProbability, kLogSeries, kZipf,
    kPoisson;

bool in_range(double x, const ParameterRange& range);
// Throws InvalidArgument for a number that is NaN, or too large, or else too small for the range.
[[noreturn]] void out_of_range(const char* name, const ParameterRange& range, bool nan, bool too_large);
// Throws InvalidArgument unless every element is in the range, TypeError for complex numbers. Blocks for arrays.
void check_parameter(const char* name, const Arg& value, const ParameterRange& range);
void check_parameter(const char* name, const Scalar& value, const ParameterRange& range);
// Whether `comparison`, one of ==, <, <=, >, >=, holds for x and y.
bool holds(Op comparison, double x, double y);
// Throws InvalidArgument with that message where `comparison` holds for any elements of a and b. Blocks for arrays.
void check_none(Op comparison, const Arg& a, const Arg& b, const char* message);
// a[...] as an array; numbers on the current device.
NdArray as_array(const Arg& a);

// Parameters, random streams and arithmetic: a program whose values are terms. Recipes make arrays of it: Recipe those
// of one process, quarry::random::Recipe chunked ones.
class Formula {
 public:
  // A value per element. Literals take the dtype of what they meet.
  class Term {
   public:
    Term(Formula* formula, ValueId id) : formula_(formula), id_(id) {}

    friend Term operator+(Term a, Term b) { return a.formula_->apply("add"_op, {a, b}); }
    friend Term operator-(Term a, Term b) { return a.formula_->apply("subtract"_op, {a, b}); }
    friend Term operator*(Term a, Term b) { return a.formula_->apply("multiply"_op, {a, b}); }
    friend Term operator/(Term a, Term b) { return a.formula_->apply("divide"_op, {a, b}); }
    friend Term operator+(Term a, double b) { return a + a.like(b); }
    friend Term operator-(Term a, double b) { return a - a.like(b); }
    friend Term operator*(Term a, double b) { return a * a.like(b); }
    friend Term operator/(Term a, double b) { return a / a.like(b); }
    friend Term operator+(double a, Term b) { return b.like(a) + b; }
    friend Term operator-(double a, Term b) { return b.like(a) - b; }
    friend Term operator*(double a, Term b) { return b.like(a) * b; }
    friend Term operator/(double a, Term b) { return b.like(a) / b; }
    friend Term operator-(Term a) { return a.formula_->apply("negative"_op, {a}); }
    friend Term operator<(Term a, double b) { return a.formula_->apply("less"_op, {a, a.like(b)}); }
    friend Term operator<=(Term a, Term b) { return a.formula_->apply("less_equal"_op, {a, b}); }
    friend Term map(Op op, Term a) { return a.formula_->apply(op, {a}); }
    friend Term map(Op op, Term a, Term b) { return a.formula_->apply(op, {a, b}); }
    friend Term where(Term condition, Term a, Term b) { return a.formula_->apply("where"_op, {condition, a, b}); }
    Term like(double value) const { return {formula_, formula_->program_.constant(value, dtype())}; }
    DType dtype() const { return formula_->program_.dtype(id_); }
    Term as(DType dtype) const { return {formula_, formula_->program_.cast(id_, dtype)}; }

   private:
    friend class Formula;
    Formula* formula_;
    ValueId id_;
  };

  Term constant(const Scalar& value, DType dtype) { return {this, program_.constant(value, dtype)}; }
  Term apply(Op op, std::initializer_list<Term> args, std::optional<DType> dtype = std::nullopt);

  // Each a stream of its own.
  virtual Term uniform() { return draw("random_uniform"_op, dtype_); }
  virtual Term normal() { return draw("random_normal"_op, dtype_); }
  // uint64.
  virtual Term bits() { return draw("random_bits"_op, DType::uint64); }
  // The same as the key of an element's own draws. Throws NotSupported for quasi-random generators, whose numbers are
  // no such keys.
  Term key();
  // (0, 1): zero counts as the middle between it and the next value.
  virtual Term open_uniform();
  // Exponential of mean 1: -log(1 - u).
  Term exponential();
  // float64.
  Term gamma(Term shape) { return apply("random_gamma"_op, {key(), shape.as(DType::float64)}); }
  Term log_gamma(Term shape) { return apply("random_log_gamma"_op, {key(), shape.as(DType::float64)}); }

 protected:
  // dtype: of uniforms and normals. The draws take the generator's next streams.
  Formula(Generator& generator, DType dtype) : generator_(generator), dtype_(dtype) {}
  ~Formula() = default;
  Formula(const Formula&) = delete;
  Formula& operator=(const Formula&) = delete;

  static ValueId id(Term term) { return term.id_; }
  Term draw(Op op, DType dtype);
  // The position of the element in C order, int64.
  virtual ValueId index() = 0;

  Generator& generator_;
  const DType dtype_;
  Program program_;
};

using Term = Formula::Term;

// One draw of an array of one process.
class Recipe : public Formula {
 public:
  // `parameters` decide device and shape; they outlive the recipe. dtype: of uniforms, normals and parameters.
  Recipe(Generator& generator, DType dtype, std::initializer_list<const Arg*> parameters,
         const std::optional<Ints>& size, const std::optional<NdArray>& out = std::nullopt);

  Term parameter(const Arg& value) { return parameter(value, dtype_); }
  Term parameter(const Arg& value, DType dtype);

  Term uniform() override;
  Term normal() override;
  Term bits() override;
  Term open_uniform() override;

  // The array: `out`, or a new one of that dtype.
  NdArray make(Term result, DType dtype);
  NdArray make(Term result) { return make(result, dtype_); }

 private:
  friend class Words;
  bool philox() const { return generator_.bit_generator().kind == BitGenerator::Kind::philox; }
  ValueId index() override;

  Device device_;
  Dims shape_;
  bool flat_ = true;  // the space is the result's elements in one row
  std::optional<NdArray> out_;
  std::vector<NdArray> inputs_;
  ValueId index_ = -1;
  bool has_words_ = false;
};

// Throws TypeError unless float32 or float64 ("Unsupported dtype dtype('int32') for random").
void check_random_dtype(DType dtype, const char* function);
// A shape argument. Throws InvalidArgument for negative extents.
Dims random_shape(const Ints& size);
// `given`, the shape of a result. Throws InvalidArgument where parameters of that shape do not broadcast to it.
Dims random_shape(const Dims& given, const Dims& parameters);

// Of n elements with probabilities p: choice() takes the first whose end is above a uniform number. Throws
// InvalidArgument. Blocks.
NdArray choice_ends(const NdArray& p, int64_t n);

// Of vectors along a new last axis.
Dims with_last(Dims shape, int64_t extent);
// The batch of vectors: `size`, or the shape that the parameters have without it.
Dims batch_shape(const Size& size, const Dims& parameters);
// Of each category but the last its probability among the categories from it on. Throws InvalidArgument. Blocks.
std::vector<NdArray> conditional_chances(const NdArray& pvals);
// How many items have a later color, for each. Throws InvalidArgument.
std::vector<int64_t> colors_left(const std::vector<int64_t>& colors, int64_t nsample, std::string_view method);
// mean + root z is normal with that covariance, z of standard normals. float64. Throws InvalidArgument. Blocks.
struct NormalVectors {
  NdArray mean, root;
};
NormalVectors normal_vectors(const NdArray& mean, const NdArray& cov, std::string_view check_valid, double tol,
                             std::string_view method);

}  // namespace quarry::local
