// Stockham's form of the mixed-radix transform: every pass takes one factor p out of the length and leaves the results
// in order, from one buffer to another. n log n for lengths of small factors; n p for a factor p.
#include <algorithm>
#include <vector>

#include "quarry/local/cpu/short_plan.h"

namespace quarry::local::cpu {
namespace {

template <class T>
class PlainPlan final : public LinePlan {
  using Complex = std::complex<T>;

 public:
  PlainPlan(TransformKind kind, bool inverse, int64_t n) : kind_(kind), n_(n) {
    const bool positive = kind == TransformKind::complex ? inverse : kind == TransformKind::half_to_real;
    for (int64_t k = 0; k < n; ++k) {
      const std::complex<double> root = unit_root(k, n);
      roots_.emplace_back(static_cast<T>(root.real()), static_cast<T>(positive ? root.imag() : -root.imag()));
    }
    for (int64_t rest = n, p = 4; rest > 1;) {
      if (rest % p == 0) {
        factors_.push_back(p);
        rest /= p;
      } else {
        p = p == 4 ? 2 : p == 2 ? 3 : p + 2;
      }
    }
  }

  int64_t input_distance() const override { return spread(input_count(kind_, n_) * input_size()); }
  int64_t output_distance() const override { return spread(output_count(kind_, n_) * output_size()); }
  int64_t scratch_bytes(int) const override { return 2 * work_bytes(); }
  int64_t table_bytes() const override { return n_ * kSize; }
  bool keeps_input() const override { return true; }

  void execute(const Lines& in, const Lines& out, int64_t lines, char* scratch, int) const override {
    std::vector<Complex> sums(
        factors_.empty() ? 1 : static_cast<size_t>(*std::max_element(factors_.begin(), factors_.end())));
    for (int64_t line = 0; line < lines; ++line) {
      auto* from = reinterpret_cast<Complex*>(scratch);
      auto* to = reinterpret_cast<Complex*>(scratch + work_bytes());
      load(in.data + line * in.distance, from);
      int64_t length = n_, step = 1;
      for (const int64_t p : factors_) {
        pass(p, length, step, from, to, sums.data());
        std::swap(from, to);
        length /= p;
        step *= p;
      }
      store(from, out.data + line * out.distance);
    }
  }

 private:
  static constexpr int64_t kSize = static_cast<int64_t>(sizeof(Complex));

  int64_t input_size() const { return kind_ == TransformKind::real_to_half ? kSize / 2 : kSize; }
  int64_t output_size() const { return kind_ == TransformKind::half_to_real ? kSize / 2 : kSize; }
  int64_t work_bytes() const { return aligned(n_ * kSize); }
  const Complex& root(int64_t k) const { return roots_[static_cast<size_t>(k)]; }

  // `step` interleaved transforms of `length` points become p step ones of length / p.
  void pass(int64_t p, int64_t length, int64_t step, const Complex* x, Complex* y, Complex* sums) const {
    const int64_t m = length / p, turn = n_ / p;
    for (int64_t q = 0; q < m; ++q) {
      for (int64_t t = 0; t < step; ++t) {
        for (int64_t k = 0; k < p; ++k) {
          sums[k] = x[t + step * q];
          for (int64_t r = 1; r < p; ++r) sums[k] += times(x[t + step * (q + m * r)], root(k * r % p * turn));
        }
        for (int64_t k = 0; k < p; ++k) y[t + step * (p * q + k)] = times(sums[k], root(q * k * step));
      }
    }
  }
  static Complex times(Complex x, Complex y) {
    return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
  }

  void load(const char* from, Complex* a) const {
    const auto* const x = reinterpret_cast<const Complex*>(from);
    switch (kind_) {
      case TransformKind::complex:
        std::copy_n(x, n_, a);
        return;
      case TransformKind::real_to_half:
        std::copy_n(reinterpret_cast<const T*>(from), n_, a);
        return;
      case TransformKind::half_to_real:
        a[0] = x[0].real();
        for (int64_t j = 1; 2 * j < n_; ++j) {
          a[j] = x[j];
          a[n_ - j] = std::conj(x[j]);
        }
        if (n_ % 2 == 0) a[n_ / 2] = x[n_ / 2].real();
        return;
    }
  }
  void store(const Complex* a, char* to) const {
    if (kind_ == TransformKind::half_to_real) {
      for (int64_t k = 0; k < n_; ++k) reinterpret_cast<T*>(to)[k] = a[k].real();
    } else {
      std::copy_n(a, output_count(kind_, n_), reinterpret_cast<Complex*>(to));
    }
  }

  const TransformKind kind_;
  const int64_t n_;
  std::vector<Complex> roots_;  // exp(-+2 pi i k / n)
  std::vector<int64_t> factors_;
};

}  // namespace

std::shared_ptr<const LinePlan> plain_plan(TransformKind kind, DType dtype, bool inverse, int64_t length) {
  if (dtype == DType::float32) return std::make_shared<PlainPlan<float>>(kind, inverse, length);
  return std::make_shared<PlainPlan<double>>(kind, inverse, length);
}

}  // namespace quarry::local::cpu
