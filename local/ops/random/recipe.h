// How a distribution is written down: one program over the elements of the result, from parameters and draws. Private
// to local/ops.
#pragma once

#include <initializer_list>
#include <vector>

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

// Throws InvalidArgument unless every element is in the range, TypeError for complex numbers. Blocks for arrays.
void check_parameter(const char* name, const Arg& value, const ParameterRange& range);
// Throws InvalidArgument with that message where `comparison` holds for any elements of a and b. Blocks for arrays.
void check_none(Op comparison, const Arg& a, const Arg& b, const char* message);
// a[...] as an array; numbers on the current device.
NdArray as_array(const Arg& a);

// One draw of an array: parameters, random streams, arithmetic, and the array.
class Recipe {
 public:
  // A value per element. Literals take the dtype of what they meet.
  class Term {
   public:
    Term(Recipe* recipe, ValueId id) : recipe_(recipe), id_(id) {}

    friend Term operator+(Term a, Term b) { return a.recipe_->apply("add"_op, {a, b}); }
    friend Term operator-(Term a, Term b) { return a.recipe_->apply("subtract"_op, {a, b}); }
    friend Term operator*(Term a, Term b) { return a.recipe_->apply("multiply"_op, {a, b}); }
    friend Term operator/(Term a, Term b) { return a.recipe_->apply("divide"_op, {a, b}); }
    friend Term operator+(Term a, double b) { return a + a.like(b); }
    friend Term operator-(Term a, double b) { return a - a.like(b); }
    friend Term operator*(Term a, double b) { return a * a.like(b); }
    friend Term operator/(Term a, double b) { return a / a.like(b); }
    friend Term operator+(double a, Term b) { return b.like(a) + b; }
    friend Term operator-(double a, Term b) { return b.like(a) - b; }
    friend Term operator*(double a, Term b) { return b.like(a) * b; }
    friend Term operator/(double a, Term b) { return b.like(a) / b; }
    friend Term operator-(Term a) { return a.recipe_->apply("negative"_op, {a}); }
    friend Term operator<(Term a, double b) { return a.recipe_->apply("less"_op, {a, a.like(b)}); }
    friend Term operator<=(Term a, Term b) { return a.recipe_->apply("less_equal"_op, {a, b}); }
    friend Term map(Op op, Term a) { return a.recipe_->apply(op, {a}); }
    friend Term map(Op op, Term a, Term b) { return a.recipe_->apply(op, {a, b}); }
    friend Term where(Term condition, Term a, Term b) { return a.recipe_->apply("where"_op, {condition, a, b}); }
    Term like(double value) const { return {recipe_, recipe_->program_.constant(value, recipe_->program_.dtype(id_))}; }
    DType dtype() const { return recipe_->program_.dtype(id_); }
    Term as(DType dtype) const { return {recipe_, recipe_->program_.cast(id_, dtype)}; }

   private:
    friend class Recipe;
    Recipe* recipe_;
    ValueId id_;
  };

  // `parameters` decide device and shape; they outlive the recipe. dtype: of uniforms, normals and parameters.
  Recipe(Generator& generator, DType dtype, std::initializer_list<const Arg*> parameters,
         const std::optional<Ints>& size, const std::optional<NdArray>& out = std::nullopt);

  Term parameter(const Arg& value) { return parameter(value, dtype_); }
  Term parameter(const Arg& value, DType dtype);
  Term constant(const Scalar& value, DType dtype) { return {this, program_.constant(value, dtype)}; }
  Term apply(Op op, std::initializer_list<Term> args, std::optional<DType> dtype = std::nullopt);

  // Each a stream of its own.
  Term uniform();
  Term normal();
  // uint64.
  Term bits();
  // The same as the key of an element's own draws. Throws NotSupported for quasi-random generators, whose numbers are
  // no such keys.
  Term key();
  // (0, 1): zero counts as the middle between it and the next value.
  Term open_uniform();
  // Exponential of mean 1: -log(1 - u).
  Term exponential();
  // float64.
  Term gamma(Term shape) { return apply("random_gamma"_op, {key(), shape.as(DType::float64)}); }
  Term log_gamma(Term shape) { return apply("random_log_gamma"_op, {key(), shape.as(DType::float64)}); }

  // The array: `out`, or a new one of that dtype.
  NdArray make(Term result, DType dtype);
  NdArray make(Term result) { return make(result, dtype_); }

 private:
  friend class Words;
  bool philox() const { return generator_.bit_generator().kind == BitGenerator::Kind::philox; }
  Term draw(Op op, DType dtype);
  ValueId index();

  Generator& generator_;
  DType dtype_;
  Device device_;
  Dims shape_;
  bool flat_ = true;  // the space is the result's elements in one row
  std::optional<NdArray> out_;
  Program program_;
  std::vector<NdArray> inputs_;
  ValueId index_ = -1;
  bool has_words_ = false;
};

using Term = Recipe::Term;

// Throws TypeError unless float32 or float64 ("Unsupported dtype dtype('int32') for random").
void check_random_dtype(DType dtype, const char* function);
// A shape argument. Throws InvalidArgument for negative extents.
Dims random_shape(const Ints& size);
// `given`, the shape of a result. Throws InvalidArgument where parameters of that shape do not broadcast to it.
Dims random_shape(const Dims& given, const Dims& parameters);

}  // namespace quarry::local
