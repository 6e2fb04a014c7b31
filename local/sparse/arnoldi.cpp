#include "quarry/local/sparse/arnoldi.h"

#include <algorithm>
#include <cmath>

#include "quarry/local/ops/linalg/linalg.h"

namespace quarry::local::sparse::krylov {

namespace {

Small from_array(const NdArray& a) { return Small(a.shape()[1], to_vector<Complex>(a.astype(DType::complex128))); }

// x, y = c x + s y, c y - conj(s) x.
void rotate(Complex& x, Complex& y, double c, Complex s) {
  const Complex old = x;
  x = c * old + s * y;
  y = c * y - std::conj(s) * old;
}

// Exchanges the values at i and i + 1 (LAPACK's xTREXC for complex forms).
void exchange(SchurForm& schur, int64_t i) {
  Small& t = schur.form;
  const int64_t n = t.columns();
  const Complex first = t.at(i, i), second = t.at(i + 1, i + 1), f = t.at(i, i + 1), g = second - first;
  const double length = std::hypot(std::abs(f), std::abs(g));
  double c = 1;
  Complex s = 0;
  if (g != Complex(0)) {
    c = std::abs(f) / length;
    s = (f == Complex(0) ? Complex(1) : f / std::abs(f)) * std::conj(g) / length;
  }
  for (int64_t j = i + 2; j < n; ++j) rotate(t.at(i, j), t.at(i + 1, j), c, s);
  for (int64_t j = 0; j < i; ++j) rotate(t.at(j, i), t.at(j, i + 1), c, std::conj(s));
  for (int64_t j = 0; j < n; ++j) rotate(schur.vectors.at(j, i), schur.vectors.at(j, i + 1), c, std::conj(s));
  t.at(i, i) = second;
  t.at(i + 1, i + 1) = first;
}

// How much a value is wanted.
double worth(Complex value, bool real, std::string_view which) {
  const double imaginary = real ? std::abs(value.imag()) : value.imag();
  const double size = which[1] == 'M' ? std::abs(value) : which[1] == 'R' ? value.real() : imaginary;
  return which[0] == 'L' ? size : -size;
}

}  // namespace

void check_which_general(std::string_view which) {
  for (const char* known : {"LM", "SM", "LR", "SR", "LI", "SI"})
    if (which == known) return;
  throw InvalidArgument(fmt::format("which: '{}' is none of 'LM', 'SM', 'LR', 'SR', 'LI', 'SI'", which));
}

SchurForm small_schur(const Small& h, bool real) {
  const DeviceScope host(kCpu);
  const auto [form, vectors] = ops::schur(h.array(real ? DType::float64 : DType::complex128), "complex");
  return {from_array(form), from_array(vectors)};
}

int64_t EigenGroups::whole(int64_t count, int64_t most) const {
  int64_t begin = 0;
  for (const int64_t end : ends) {
    if (end >= count) return end <= most ? end : begin;
    begin = end;
  }
  return begin;
}

EigenGroups grouped(const Small& form, bool real, std::string_view which) {
  struct Group {
    Complex value;
    int64_t upper, lower;  // of a pair the one below the real axis; else -1
  };
  std::vector<Group> groups;
  std::vector<bool> taken(static_cast<size_t>(form.columns()));
  // Rounding leaves partners not quite conjugate: each takes the one that is nearest.
  if (real) {
    for (int64_t i = 0; i < form.columns(); ++i) {
      if (form.at(i, i).imag() <= 0) continue;
      int64_t partner = -1;
      double nearest = std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < form.columns(); ++j) {
        const double distance = std::abs(std::conj(form.at(j, j)) - form.at(i, i));
        if (taken[static_cast<size_t>(j)] || form.at(j, j).imag() >= 0 || distance >= nearest) continue;
        partner = j;
        nearest = distance;
      }
      // A real one that rounding moved off the axis has none.
      const bool has_partner = partner >= 0 && nearest < std::abs(form.at(i, i).imag());
      groups.push_back({form.at(i, i), i, has_partner ? partner : -1});
      taken[static_cast<size_t>(i)] = true;
      if (has_partner) taken[static_cast<size_t>(partner)] = true;
    }
  }
  for (int64_t i = 0; i < form.columns(); ++i)
    if (!taken[static_cast<size_t>(i)]) groups.push_back({form.at(i, i), i, -1});
  for (Group& group : groups) {
    if (real && group.lower < 0) group.value = group.value.real();
    if (group.lower >= 0) group.value = (group.value + std::conj(form.at(group.lower, group.lower))) / 2.0;
  }
  std::stable_sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
    return worth(a.value, real, which) > worth(b.value, real, which);
  });
  EigenGroups result;
  for (const Group& group : groups) {
    result.order.push_back(group.upper);
    result.values.push_back(group.value);
    if (group.lower >= 0) {
      result.order.push_back(group.lower);
      result.values.push_back(std::conj(group.value));
    }
    result.ends.push_back(std::ssize(result.order));
  }
  return result;
}

void reorder(SchurForm& schur, const std::vector<int64_t>& order) {
  std::vector<int64_t> now(order.size());  // which value stands where
  std::iota(now.begin(), now.end(), int64_t{0});
  for (size_t to = 0; to < order.size(); ++to) {
    const auto from = static_cast<size_t>(std::ranges::find(now, order[to]) - now.begin());
    for (size_t at = from; at > to; --at) {
      exchange(schur, static_cast<int64_t>(at) - 1);
      std::swap(now[at], now[at - 1]);
    }
  }
}

Small product(const Small& a, const Small& b, bool adjoint_a) {
  const int64_t rows = adjoint_a ? a.columns() : a.rows(), inner = adjoint_a ? a.rows() : a.columns();
  Small result(rows, b.columns());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < inner; ++k) {
      const Complex factor = adjoint_a ? std::conj(a.at(k, i)) : a.at(i, k);
      for (int64_t j = 0; j < b.columns(); ++j) result.at(i, j) += factor * b.at(k, j);
    }
  return result;
}

Small leading_basis(const SchurForm& schur, int64_t count, bool real) {
  const int64_t n = schur.vectors.rows();
  std::vector<int64_t> first(static_cast<size_t>(count));
  std::iota(first.begin(), first.end(), int64_t{0});
  const Small leading = schur.vectors.picked(first);
  if (!real) return leading;
  // The projector on a span that is closed under conjugation is real; its eigenvalues are 0 and 1.
  Small projector(n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < count; ++k) projector.at(i, j) += (leading.at(i, k) * std::conj(leading.at(j, k))).real();
  const auto [values, vectors] = small_eigh(projector, /*real=*/true);
  for (int64_t& column : first) column += n - count;
  return vectors.picked(first);
}

Small eigenvectors_of(const SchurForm& schur, int64_t count) {
  const Small& t = schur.form;
  double size = std::numeric_limits<double>::min();
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = i; j < count; ++j) size = std::max(size, std::abs(t.at(i, j)));
  const double least = std::numeric_limits<double>::epsilon() * size;  // as LAPACK's xTREVC
  Small inside(schur.vectors.rows(), count);
  for (int64_t j = 0; j < count; ++j) {
    double squared = 1;
    inside.at(j, j) = 1;
    for (int64_t i = j; i-- > 0;) {
      Complex sum = 0;
      for (int64_t k = i + 1; k <= j; ++k) sum += t.at(i, k) * inside.at(k, j);
      const Complex difference = t.at(i, i) - t.at(j, j);
      inside.at(i, j) = -sum / (std::abs(difference) < least ? Complex(least) : difference);
      squared += std::norm(inside.at(i, j));
    }
    for (int64_t i = 0; i <= j; ++i) inside.at(i, j) /= std::sqrt(squared);
  }
  return product(schur.vectors, inside);
}

}  // namespace quarry::local::sparse::krylov
