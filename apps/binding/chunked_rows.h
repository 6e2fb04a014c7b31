// The functions of chunked arrays as the rows of local/ops/functions/*.def name and call them: quarry's own, and
// adapters where those have other names or parameters. An adapter hides all of quarry's functions of its name.
#pragma once

#include <algorithm>
#include <variant>

#include "quarry/apps/binding/binding.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"

namespace quarry::apps::expression::chunked_rows {

using namespace quarry;

using local::Axes;
using local::Ints;
template <class T>
using Maybe = std::optional<T>;

// Functions under the name of a row whose symbol is not the public one.
#define QUARRY_ALSO(row, ...)                                  \
  template <class... T>                                        \
  auto row(const T&... args)->decltype(__VA_ARGS__(args...)) { \
    return __VA_ARGS__(args...);                               \
  }

// ---- Creation ----

// Arrays are never written, so that a copy is the array.
Array array(const Array& object, Maybe<DType> dtype, Maybe<bool> copy, std::string_view order, bool subok,
            int64_t ndmin);
Array asarray(const Array& a, Maybe<DType> dtype);
Array zeros(const Ints& shape, Maybe<DType> dtype);
Array ones(const Ints& shape, Maybe<DType> dtype);
Array empty(const Ints& shape, Maybe<DType> dtype);
Array full(const Ints& shape, const Operand& fill_value, Maybe<DType> dtype);
Array zeros_like(const Array& a, Maybe<DType> dtype, const Maybe<Ints>& shape);
Array ones_like(const Array& a, Maybe<DType> dtype, const Maybe<Ints>& shape);
Array empty_like(const Array& prototype, Maybe<DType> dtype, const Maybe<Ints>& shape);
Array full_like(const Array& a, const Operand& fill_value, Maybe<DType> dtype, const Maybe<Ints>& shape);
Array arange(const Scalar& start_or_stop, const Maybe<Scalar>& stop, const Scalar& step, Maybe<DType> dtype);
std::variant<Array, std::pair<Array, Array>> linspace(const Operand& start, const Operand& stop, int64_t num,
                                                      bool endpoint, bool retstep, Maybe<DType> dtype, int64_t axis);
Array eye(int64_t N, Maybe<int64_t> M, int64_t k, Maybe<DType> dtype);
Array identity(int64_t n, Maybe<DType> dtype);

// ---- Shapes, axes, joining ----

QUARRY_ALSO(astype_method, quarry::astype)
Array transpose(const Array& a, const Axes& axes);
Array transpose_method(const Array& a, const std::vector<Axes>& axes);
Array moveaxis(const Array& a, const Ints& source, const Ints& destination);
Array reshape(const Array& a, const Ints& shape, std::string_view order);
Array reshape_method(const Array& a, const std::vector<Ints>& shape, std::string_view order);
Array ravel(const Array& a, std::string_view order);
Array flatten(const Array& a, std::string_view order);
Array expand_dims(const Array& a, const Ints& axis);
Array flip(const Array& m, const Axes& axis);
Dims shape(const Array& a);
int64_t size(const Array& a, const Axes& axis);
int64_t ndim(const Array& a);
Array concatenate(const std::vector<Array>& arrays, Maybe<int64_t> axis, Maybe<DType> dtype);
Array stack(const std::vector<Array>& arrays, int64_t axis, Maybe<DType> dtype);
Array vstack(const std::vector<Array>& tup, Maybe<DType> dtype);
Array hstack(const std::vector<Array>& tup, Maybe<DType> dtype);

// Dask's forms of chunks: one int for every axis, or per axis one int (-1 or None: the whole axis) or the extents.
using AxisExtents = std::variant<std::monostate, int64_t, std::vector<int64_t>>;
Array rechunk(const Array& x, const std::variant<int64_t, std::vector<AxisExtents>>& chunks);

// ---- Elementwise ----

Array clip_between(const Array& a, const Maybe<Operand>& a_min, const Maybe<Operand>& a_max, const Maybe<Operand>& min,
                   const Maybe<Operand>& max, Maybe<DType> dtype);
Array clip_method(const Array& a, const Maybe<Operand>& min, const Maybe<Operand>& max, Maybe<DType> dtype);
Array round_to(const Array& a, int64_t decimals);
std::variant<Array, ChunkedTuple> where_or_nonzero(const Operand& condition, const Maybe<Operand>& x,
                                                   const Maybe<Operand>& y);

// ---- Products ----

Array dot(const Array& a, const Array& b);

namespace linalg {
using namespace quarry::linalg;
std::pair<Array, Array> eigh_of(const Array& a, std::string_view UPLO);
Array eigvalsh(const Array& a, std::string_view UPLO);
}  // namespace linalg

// ---- Random numbers ----

// A generator of chunked arrays, whose state goes on with every draw.
class Draws {
 public:
  explicit Draws(quarry::random::Generator& generator) : generator_(&generator) {}
  quarry::random::Generator* operator->() const { return generator_; }

 private:
  quarry::random::Generator* generator_;
};

}  // namespace quarry::apps::expression::chunked_rows
