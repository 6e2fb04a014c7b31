#include "quarry/chunked/api/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "quarry/chunked/api/arrangement.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/diagonals.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/products/einsum_plan.h"
#include "quarry/local/ops/products/pairs.h"

namespace quarry {

using namespace compose;

namespace {

bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

Array multiplied(const Array& a, const Array& b) {
  return a.dtype() == DType::bool_ ? logical_and(a, b) : multiply(a, b);
}
Array summed(const Array& x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;
  return x.dtype() == DType::bool_ ? any(x, Axes(axes)) : sum(x, Axes(axes), {.dtype = x.dtype()});
}

// An operand with a letter for each axis, each once.
struct Term {
  Array array;
  std::string labels;

  int64_t extent(char letter) const { return array.shape()[static_cast<int>(labels.find(letter))]; }
};

// Sums over the letters that are not in `out`, and puts the axes into its order.
Term sum_to(const Term& term, const std::string& out) {
  std::vector<int64_t> axes;
  std::string left;
  for (size_t d = 0; d < term.labels.size(); ++d) {
    if (has(out, term.labels[d]))
      left += term.labels[d];
    else
      axes.push_back(static_cast<int64_t>(d));
  }
  Array array = summed(term.array, axes);
  std::vector<int64_t> order;
  for (char letter : out) order.push_back(static_cast<int64_t>(left.find(letter)));
  return {arrange::permuted(array, order), out};
}

// The axes in the order of `letters`, of which those that the term lacks have one element.
Array spread(const Term& term, const std::string& letters) {
  std::string present;
  uint32_t absent = 0;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (has(term.labels, letters[i]))
      present += letters[i];
    else
      absent |= uint32_t{1} << i;
  }
  Array array = sum_to(term, present).array;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < letters.size(); ++i)
    if (absent >> i & 1) axes.push_back(static_cast<int64_t>(i));
  return axes.empty() ? array : expand_dims(array, Axes(axes));
}

int64_t size_of(const Term& term, const std::string& letters) {
  int64_t size = 1;
  for (char letter : letters) size *= term.extent(letter);
  return size;
}

// The einsum of two operands: letters that are not in `out` are summed over.
Term contract(Term a, Term b, const std::string& out, Precision precision) {
  // What only one operand has and nobody needs is summed at once.
  const auto needed = [&](const Term& term, const Term& other) {
    std::string letters;
    for (char letter : term.labels)
      if (has(other.labels, letter) || has(out, letter)) letters += letter;
    return letters.size() == term.labels.size() ? term : sum_to(term, letters);
  };
  a = needed(a, b);
  b = needed(b, a);
  std::string batch, rows, inner, columns;
  for (char letter : a.labels) (has(b.labels, letter) ? has(out, letter) ? batch : inner : rows) += letter;
  for (char letter : b.labels)
    if (!has(a.labels, letter)) columns += letter;
  if (inner.empty() || (rows.empty() && columns.empty())) {
    const std::string letters = out + inner;
    const Array product = multiplied(spread(a, letters), spread(b, letters));
    std::vector<int64_t> axes;
    for (size_t i = out.size(); i < letters.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    return {summed(product, axes), out};
  }
  // One batched matrix product; groups of axes are merged.
  Dims left, right, shape;
  for (char letter : batch) {
    left.push_back(a.extent(letter)), right.push_back(a.extent(letter)), shape.push_back(a.extent(letter));
  }
  left.push_back(size_of(a, rows)), left.push_back(size_of(a, inner));
  right.push_back(size_of(a, inner)), right.push_back(size_of(b, columns));
  for (char letter : rows) shape.push_back(a.extent(letter));
  for (char letter : columns) shape.push_back(b.extent(letter));
  const Array product = matmul(reshape(sum_to(a, batch + rows + inner).array, left),
                               reshape(sum_to(b, batch + inner + columns).array, right), precision);
  return sum_to({reshape(product, shape), batch + rows + columns}, out);
}

// The diagonal over letters that occur more than once, without the axes of one element that broadcast to other terms'
// extents.
Term without_repeats(Array array, std::string labels, const local::ops::EinsumTerms& terms) {
  for (int d = 0; d < array.ndim();) {
    const char letter = labels[static_cast<size_t>(d)];
    if (array.shape()[d] == 1 && terms.extents[static_cast<size_t>(letter)] != 1) {
      array = squeeze(array, d);
      labels.erase(static_cast<size_t>(d), 1);
      continue;
    }
    const size_t first = labels.find(letter);
    if (first == static_cast<size_t>(d)) {
      ++d;
      continue;
    }
    array = moveaxis(diagonal(array, 0, static_cast<int64_t>(first), d), -1, static_cast<int64_t>(first));
    labels.erase(static_cast<size_t>(d), 1);
  }
  return {array, labels};
}

std::string letters_from(char first, int count) {
  std::string letters(static_cast<size_t>(count), ' ');
  std::iota(letters.begin(), letters.end(), first);
  return letters;
}

// The sum over a's and b's listed axes, in pairs; a's other axes come first in the result.
Array contract_axes(const Array& a, const Array& b, const local::ops::AxisPairs& pairs, Precision precision) {
  const DType dtype = promoted({a, b});
  Term left{a.astype(dtype), letters_from('A', a.ndim())}, right{b.astype(dtype), letters_from('a', b.ndim())};
  for (size_t i = 0; i < pairs.a.size(); ++i)
    right.labels[static_cast<size_t>(pairs.b[i])] = left.labels[static_cast<size_t>(pairs.a[i])];
  std::string out;
  for (const auto& [term, axes] : {std::pair(&left, &pairs.a), std::pair(&right, &pairs.b)})
    for (int d = 0; d < term->array.ndim(); ++d)
      if (std::find(axes->begin(), axes->end(), d) == axes->end()) out += term->labels[static_cast<size_t>(d)];
  return contract(left, right, out, precision).array;
}

}  // namespace

Array dot(const Array& a, const Array& b, Precision precision) {
  if (a.ndim() == 0 || b.ndim() == 0) return multiply(a, b);
  return contract_axes(a, b, local::ops::dot_axes(a.shape(), b.shape()), precision);
}

Array inner(const Array& a, const Array& b, Precision precision) {
  if (a.ndim() == 0 || b.ndim() == 0) return multiply(a, b);
  return contract_axes(a, b, local::ops::inner_axes(a.shape(), b.shape()), precision);
}

Array vdot(const Array& a, const Array& b) {
  if (a.size() != b.size())
    throw InvalidArgument(fmt::format("cannot reshape array of size {} into shape ({},)", b.size(), a.size()));
  return vecdot(ravel(a), ravel(b));
}

Array outer(const Array& a, const Array& b) { return multiply(with_axes(ravel(a), 1), with_axes(ravel(b), 0)); }

namespace {

void check_core(const char* name, const char* signature, int operand, int ndim, int needed) {
  if (ndim >= needed) return;
  throw InvalidArgument(fmt::format(
      "{}: Input operand {} does not have enough dimensions (has {}, gufunc core with signature {} requires "
      "{})",
      name, operand, ndim, signature, needed));
}
void check_same(const char* name, const char* signature, int64_t got, int64_t expected) {
  if (got == expected) return;
  throw InvalidArgument(
      fmt::format("{}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature {} (size {} is "
                  "different from {})",
                  name, signature, got, expected));
}

}  // namespace

Array vecdot(const Array& x1, const Array& x2, int64_t axis) {
  constexpr const char* kSignature = "(n),(n)->()";
  check_core("vecdot", kSignature, 0, x1.ndim(), 1);
  check_core("vecdot", kSignature, 1, x2.ndim(), 1);
  const Array a = moveaxis(x1, axis, -1), b = moveaxis(x2, axis, -1);
  check_same("vecdot", kSignature, b.shape(-1), a.shape(-1));
  const DType dtype = promoted({x1, x2});
  return summed(multiplied(conjugated(a).astype(dtype), b.astype(dtype)), {-1});
}

Array matvec(const Array& x1, const Array& x2) {
  constexpr const char* kSignature = "(m,n),(n)->(m)";
  check_core("matvec", kSignature, 0, x1.ndim(), 2);
  check_core("matvec", kSignature, 1, x2.ndim(), 1);
  check_same("matvec", kSignature, x2.shape(-1), x1.shape(-1));
  return squeeze(matmul(x1, expand_dims(x2, -1)), -1);
}

Array vecmat(const Array& x1, const Array& x2) {
  constexpr const char* kSignature = "(n),(n,m)->(m)";
  check_core("vecmat", kSignature, 0, x1.ndim(), 1);
  check_core("vecmat", kSignature, 1, x2.ndim(), 2);
  check_same("vecmat", kSignature, x2.shape(-2), x1.shape(-1));
  return squeeze(matmul(expand_dims(conjugated(x1), -2), x2), -2);
}

Array tensordot(const Array& a, const Array& b, int64_t axes, Precision precision) {
  return contract_axes(a, b, local::ops::tensordot_axes(a.shape(), b.shape(), axes), precision);
}
Array tensordot(const Array& a, const Array& b, const std::vector<Ints>& axes, Precision precision) {
  return contract_axes(a, b, local::ops::tensordot_axes(a.shape(), b.shape(), axes), precision);
}

Array kron(const Array& a, const Array& b) {
  const local::ops::KroneckerShapes shapes = local::ops::kron_shapes(a.shape(), b.shape());
  return reshape(multiply(reshape(a, shapes.a), reshape(b, shapes.b)), shapes.result);
}

Array cross(const Array& a, const Array& b, int64_t axisa, int64_t axisb, int64_t axisc, std::optional<int64_t> axis) {
  if (axis) axisa = axisb = axisc = *axis;
  if (a.ndim() == 0 || b.ndim() == 0) throw InvalidArgument("At least one array has zero dimension");
  const auto last = [](const Array& x, int64_t which, const char* prefix) {
    if (which < -x.ndim() || which >= x.ndim())
      throw local::IndexError(
          fmt::format("{}: axis {} is out of bounds for array of dimension {}", prefix, which, x.ndim()));
    return moveaxis(x, which, -1);
  };
  const Array left = last(a, axisa, "axisa"), right = last(b, axisb, "axisb");
  const int64_t na = left.shape(-1), nb = right.shape(-1);
  if ((na != 2 && na != 3) || (nb != 2 && nb != 3))
    throw InvalidArgument("incompatible dimensions for cross product\n(dimension must be 2 or 3)");
  const DType dtype = promoted({a, b});
  // A vector of 2 has a zero third element.
  const auto component = [&](const Array& x, int64_t i) { return x(local::ellipsis, i % 3).astype(dtype); };
  const auto product = [&](int64_t i, int64_t j) -> std::optional<Array> {
    if (i % 3 >= na || j % 3 >= nb) return std::nullopt;
    return multiply(component(left, i), component(right, j));
  };
  const auto element = [&](int64_t i) {
    const std::optional<Array> plus = product(i + 1, i + 2), minus = product(i + 2, i + 1);
    return !minus ? *plus : !plus ? negative(*minus) : subtract(*plus, *minus);
  };
  if (na == 2 && nb == 2) return element(2);
  std::vector<Array> elements;
  for (int64_t i = 0; i < 3; ++i) elements.push_back(element(i));
  const int ndim = elements[0].ndim() + 1;
  if (axisc < -ndim || axisc >= ndim)
    throw local::IndexError(fmt::format("axisc: axis {} is out of bounds for array of dimension {}", axisc, ndim));
  return stack(elements, axisc);
}

Array einsum(std::string_view subscripts, const std::vector<Array>& operands, std::optional<DType> wanted,
             local::Casting casting, Precision precision) {
  std::vector<Dims> shapes;
  for (const Array& operand : operands) shapes.push_back(operand.shape());
  const local::ops::EinsumTerms terms = local::ops::parse_einsum(std::string(subscripts), shapes);
  const auto has_all = [&](const std::string& letters) {
    return std::all_of(letters.begin(), letters.end(),
                       [&](char letter) { return terms.output.find(letter) != std::string::npos; });
  };
  // Without a sum one operand stays what it is, whatever dtype is asked for, as NumPy's view.
  const bool is_view = operands.size() == 1 && has_all(terms.inputs[0]);
  const DType dtype = is_view ? operands[0].dtype() : wanted.value_or(promoted(operands));
  for (const Array& operand : operands)
    if (!local::can_cast(operand.dtype(), dtype, casting) && !is_view)
      throw local::TypeError(
          fmt::format("Iterator operand required copying or buffering: dtype('{}') does not cast to "
                      "dtype('{}') by the rule '{}'",
                      local::name(operand.dtype()), local::name(dtype), local::name(casting)));
  std::vector<Term> left;
  for (size_t i = 0; i < operands.size(); ++i)
    left.push_back(without_repeats(operands[i].astype(dtype), terms.inputs[i], terms));
  if (left.size() == 1) return sum_to(left[0], terms.output).array;
  for (std::vector<int64_t> positions : local::ops::find_path(terms, true)) {
    std::sort(positions.begin(), positions.end());
    // A step of several operands takes them two by two.
    std::vector<Term> taken;
    for (int64_t position : positions) taken.push_back(left[static_cast<size_t>(position)]);
    for (size_t i = positions.size(); i-- > 0;) left.erase(left.begin() + positions[i]);
    Term result = taken[0];
    for (size_t i = 1; i < taken.size(); ++i) {
      std::vector<std::string> others;
      for (const Term& term : left) others.push_back(term.labels);
      for (size_t j = i + 1; j < taken.size(); ++j) others.push_back(taken[j].labels);
      const bool last = left.empty() && i + 1 == taken.size();
      const std::string kept =
          last ? terms.output : local::ops::kept_letters({result.labels, taken[i].labels}, others, terms.output);
      result = contract(result, taken[i], kept, precision);
    }
    left.push_back(result);
  }
  return sum_to(left[0], terms.output).array;
}

}  // namespace quarry
