// What x(rows, 2) and x[mask] give: the elements that an index with arrays or masks chooses, to be read or assigned to.
#pragma once

#include <ostream>
#include <utility>
#include <vector>

#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/program/op.h"

namespace quarry::local {

// Refers to the array's memory. It is read where an array is wanted: NdArray y = x[mask], x[mask].sum(), sqrt(x[mask]).
// An assignment and x[index] += y change the array; where an element occurs twice in the index, the last value counts,
// and += adds once.
class Elements : public NdArrayMethods<Elements> {
 public:
  Elements(NdArray array, std::vector<IndexTerm> index) : array_(std::move(array)), index_(std::move(index)) {}
  Elements(const Elements&) = delete;
  ~Elements() = default;
  NdArray value() const { return ops::get(array_, index_); }  // a new array; a view where the index is basic
  operator NdArray() const { return value(); }
  const Elements& operator=(const Arg& value) const {
    ops::set(array_, index_, value);
    return *this;
  }
  const Elements& operator=(const Elements& other) const { return *this = Arg(other.value()); }
#define QUARRY_OPERATOR(symbol, name)                              \
  const Elements& operator symbol##=(const Arg& value) const {     \
    ops::update(array_, index_, detail::named_op<#name>(), value); \
    return *this;                                                  \
  }
#include "quarry/local/ops/ufunc/operators.def"
#undef QUARRY_OPERATOR

 private:
  NdArray array_;
  std::vector<IndexTerm> index_;
};

inline std::ostream& operator<<(std::ostream& out, const Elements& elements) { return out << elements.value(); }

namespace detail {

template <IndexLike T>
void append_terms(std::vector<IndexTerm>& index, const T& term) {
  if constexpr (std::is_base_of_v<std::vector<NdArray>, T>)  // what nonzero() and ix_() give
    index.insert(index.end(), term.begin(), term.end());
  else if constexpr (BasicTerm<T> || std::is_same_v<T, bool> || std::is_same_v<T, std::vector<int64_t>>)
    index.emplace_back(term);
  else
    index.emplace_back(NdArray(term));
}

}  // namespace detail

template <detail::IndexLike... Terms>
requires(sizeof...(Terms) > 0) auto NdArray::operator()(const Terms&... terms) const {
  if constexpr ((detail::BasicTerm<Terms> && ...)) {
    const IndexItem items[] = {detail::index_item(terms)...};
    return (*this)[std::span<const IndexItem>(items)];
  } else {
    std::vector<IndexTerm> index;
    (detail::append_terms(index, terms), ...);
    return Elements(*this, std::move(index));
  }
}

template <detail::IndexLike Term>
auto NdArray::operator[](const Term& term) const {
  return (*this)(term);
}

inline const View& View::operator=(const Arg& value) const&& {
  ops::set(*this, {ellipsis}, value);
  return *this;
}
inline const View& View::operator=(const View& value) const&& {
  ops::set(*this, {ellipsis}, Arg(value));
  return *this;
}

}  // namespace quarry::local
