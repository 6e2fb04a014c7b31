#include "quarry/local/cpu/line_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numbers>
#include <tuple>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/short_plan.h"
#include "quarry/local/cpu/strided.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local::cpu {
namespace {

// Without the operator's recovery of infinities.
template <class T>
std::complex<T> product(std::complex<T> x, std::complex<T> y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}

// ---- Long lines ----

// A line of n = a b elements as an a x b matrix, row by row: x[s b + t] -> y[q + r a],
//   y[q + r a] = sum over t of w_b^(rt) (w_n^(qt) (sum over s of w_a^(qs) x[s b + t])),
// transforms of a along the columns, factors, transforms of b along the rows: twice through memory, and parts for
// threads.
template <class T>
class SplitPlan final : public LinePlan {
  using Complex = std::complex<T>;

 public:
  SplitPlan(bool inverse, int64_t a, int64_t b)
      : a_(a),
        b_(b),
        columns_(line_plan(TransformKind::complex, dtype_of_v<T>, inverse, a)),
        rows_(line_plan(TransformKind::complex, dtype_of_v<T>, inverse, b)),
        shift_(std::bit_width(static_cast<uint64_t>(a * b)) / 2) {
    const int64_t n = a * b, step = int64_t{1} << shift_;
    const auto root = [&](int64_t k) {
      const std::complex<double> w = unit_root(k, n);
      return Complex(static_cast<T>(w.real()), static_cast<T>(inverse ? w.imag() : -w.imag()));
    };
    for (int64_t k = 0; k < std::min(step, n); ++k) fine_.push_back(root(k));
    for (int64_t k = 0; k < n; k += step) coarse_.push_back(root(k));
  }

  int64_t input_distance() const override { return spread(a_ * b_ * kSize); }
  int64_t output_distance() const override { return spread(a_ * b_ * kSize); }
  int64_t scratch_bytes(int threads) const override { return middle_bytes() + threads * slot_bytes(); }
  int64_t table_bytes() const override { return static_cast<int64_t>(fine_.size() + coarse_.size()) * kSize; }
  bool keeps_input() const override { return true; }

  void execute(const Lines& in, const Lines& out, int64_t lines, char* scratch, int threads) const override {
    const int64_t row = rows_->input_distance();
    char* const middle = scratch;
    char* const slots = scratch + middle_bytes();
    for (int64_t line = 0; line < lines; ++line) {
      const char* const from = in.data + line * in.distance;
      char* const to = out.data + line * out.distance;
      for_each_unit((b_ + kWidth - 1) / kWidth, threads, [&](int64_t unit, int slot) {
        const int64_t t = unit * kWidth, count = std::min(kWidth, b_ - t);
        char* const memory = slots + slot * slot_bytes();
        const Lines gathered{memory, columns_->input_distance()};
        const Lines done{memory + kWidth * gathered.distance, columns_->output_distance()};
        copy_2d(gathered.data, gathered.distance, kSize, from + t * kSize, kSize, b_ * kSize, count, a_, kSize);
        columns_->execute(gathered, done, count, memory + part_bytes(), 1);
        for (int64_t k = 0; k < count; ++k) turn(reinterpret_cast<Complex*>(done.data + k * done.distance), t + k);
        copy_2d(middle + t * kSize, row, kSize, done.data, kSize, done.distance, a_, count, kSize);
      });
      for_each_unit((a_ + kWidth - 1) / kWidth, threads, [&](int64_t unit, int slot) {
        const int64_t q = unit * kWidth, count = std::min(kWidth, a_ - q);
        char* const memory = slots + slot * slot_bytes();
        const Lines done{memory, rows_->output_distance()};
        rows_->execute({middle + q * row, row}, done, count, memory + part_bytes(), 1);
        copy_2d(to + q * kSize, a_ * kSize, kSize, done.data, kSize, done.distance, b_, count, kSize);
      });
    }
  }

 private:
  static constexpr int64_t kSize = static_cast<int64_t>(sizeof(Complex)), kWidth = 512 / kSize;

  int64_t middle_bytes() const { return rounded_allocation(a_ * rows_->input_distance()); }
  int64_t part_bytes() const {
    return rounded_allocation(
        kWidth * std::max(columns_->input_distance() + columns_->output_distance(), rows_->output_distance()));
  }
  int64_t slot_bytes() const {
    return part_bytes() + rounded_allocation(std::max(columns_->scratch_bytes(1), rows_->scratch_bytes(1)));
  }
  // y[q] times w_n^(qt)
  void turn(Complex* y, int64_t t) const {
    const int64_t mask = (int64_t{1} << shift_) - 1;
    for (int64_t q = 0, k = 0; q < a_; ++q, k += t)
      y[q] = product(y[q], product(coarse_[static_cast<size_t>(k >> shift_)], fine_[static_cast<size_t>(k & mask)]));
  }

  const int64_t a_, b_;
  const std::shared_ptr<const LinePlan> columns_, rows_;
  const int shift_;  // w^k = coarse[k >> shift] fine[k & mask]
  std::vector<Complex> fine_, coarse_;
};

// The largest divisor up to the root.
int64_t middle_divisor(int64_t n) {
  auto a = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % a != 0) --a;
  return a;
}

// ---- Lengths with large prime factors ----

int64_t largest_prime_factor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) largest = p;
  }
  return std::max(largest, n);
}

// The least 2^a 3^b 5^c that is not below n.
int64_t smooth_length(int64_t n) {
  int64_t best = 1;
  while (best < n) best *= 2;
  for (int64_t five = 1; five < best; five *= 5) {
    for (int64_t three = five; three < best; three *= 3) {
      int64_t length = three;
      while (length < n) length *= 2;
      best = std::min(best, length);
    }
  }
  return best;
}

// Bluestein: jk = (j^2 + k^2 - (k - j)^2) / 2 makes the transform a convolution with a chirp c[j] = exp(-pi i j^2 / n),
//   y[k] = c[k] sum over j of (x[j] c[j]) conj(c[k - j]),
// done cyclically by transforms of a smooth length m >= 2n - 1.
template <class T>
class ChirpPlan final : public LinePlan {
  using Complex = std::complex<T>;

 public:
  ChirpPlan(TransformKind kind, bool inverse, int64_t n)
      : kind_(kind),
        n_(n),
        m_(smooth_length(2 * n - 1)),
        forward_(line_plan(TransformKind::complex, dtype_of_v<T>, false, m_)),
        backward_(line_plan(TransformKind::complex, dtype_of_v<T>, true, m_)),
        chirp_(static_cast<size_t>(n)),
        filter_(static_cast<size_t>(m_)) {
    const bool positive = kind == TransformKind::complex ? inverse : kind == TransformKind::half_to_real;
    std::vector<Complex> lag(static_cast<size_t>(m_));
    int64_t square = 0;  // j^2 mod 2n
    for (int64_t j = 0; j < n; ++j) {
      const std::complex<double> root = unit_root(square, 2 * n);
      const Complex c(static_cast<T>(root.real()), static_cast<T>(positive ? root.imag() : -root.imag()));
      chirp_[static_cast<size_t>(j)] = c;
      // The sums below are divided by m here.
      const Complex lagged = std::conj(c) / static_cast<T>(m_);
      lag[static_cast<size_t>(j)] = lagged;
      if (j > 0) lag[static_cast<size_t>(m_ - j)] = lagged;
      square = (square + 2 * j + 1) % (2 * n);
    }
    std::vector<char> scratch(static_cast<size_t>(forward_->scratch_bytes(1) + kAllocationAlignment));
    void* memory = scratch.data();
    size_t space = scratch.size();
    std::align(kAllocationAlignment, scratch.size() - kAllocationAlignment, memory, space);
    forward_->execute({reinterpret_cast<char*>(lag.data()), 0}, {reinterpret_cast<char*>(filter_.data()), 0}, 1,
                      static_cast<char*>(memory), /*threads=*/1);
  }

  int64_t input_distance() const override {
    return spread(input_count(kind_, n_) * size(kind_ == TransformKind::real_to_half));
  }
  int64_t output_distance() const override {
    return spread(output_count(kind_, n_) * size(kind_ == TransformKind::half_to_real));
  }
  int64_t scratch_bytes(int threads) const override { return 2 * work_bytes() + forward_->scratch_bytes(threads); }
  int64_t table_bytes() const override { return (n_ + m_) * size(false); }
  bool keeps_input() const override { return true; }

  void execute(const Lines& in, const Lines& out, int64_t lines, char* scratch, int threads) const override {
    auto* const a = reinterpret_cast<Complex*>(scratch);
    auto* const b = reinterpret_cast<Complex*>(scratch + work_bytes());
    char* const rest = scratch + 2 * work_bytes();
    for (int64_t line = 0; line < lines; ++line) {
      load(in.data + line * in.distance, a);
      std::fill(a + n_, a + m_, Complex());
      forward_->execute({reinterpret_cast<char*>(a), 0}, {reinterpret_cast<char*>(b), 0}, 1, rest, threads);
      for (int64_t k = 0; k < m_; ++k) b[k] = product(b[k], filter_[static_cast<size_t>(k)]);
      backward_->execute({reinterpret_cast<char*>(b), 0}, {reinterpret_cast<char*>(a), 0}, 1, rest, threads);
      store(a, out.data + line * out.distance);
    }
  }

 private:
  static int64_t size(bool real) { return static_cast<int64_t>(real ? sizeof(T) : 2 * sizeof(T)); }
  int64_t work_bytes() const { return rounded_allocation(m_ * size(false)); }

  void load(const char* from, Complex* a) const {
    const Complex* const c = chirp_.data();
    const auto* const x = reinterpret_cast<const Complex*>(from);
    switch (kind_) {
      case TransformKind::complex:
        for (int64_t j = 0; j < n_; ++j) a[j] = product(x[j], c[j]);
        return;
      case TransformKind::real_to_half:
        for (int64_t j = 0; j < n_; ++j) a[j] = c[j] * reinterpret_cast<const T*>(from)[j];
        return;
      case TransformKind::half_to_real:
        a[0] = c[0] * x[0].real();
        for (int64_t j = 1; 2 * j < n_; ++j) {
          a[j] = product(x[j], c[j]);
          a[n_ - j] = product(std::conj(x[j]), c[n_ - j]);
        }
        if (n_ % 2 == 0) a[n_ / 2] = c[n_ / 2] * x[n_ / 2].real();
        return;
    }
  }
  void store(const Complex* a, char* to) const {
    const Complex* const c = chirp_.data();
    const int64_t count = output_count(kind_, n_);
    if (kind_ == TransformKind::half_to_real) {
      for (int64_t k = 0; k < count; ++k)
        reinterpret_cast<T*>(to)[k] = a[k].real() * c[k].real() - a[k].imag() * c[k].imag();
    } else {
      for (int64_t k = 0; k < count; ++k) reinterpret_cast<Complex*>(to)[k] = product(a[k], c[k]);
    }
  }

  const TransformKind kind_;
  const int64_t n_, m_;
  const std::shared_ptr<const LinePlan> forward_, backward_;
  std::vector<Complex> chirp_, filter_;
};

// ---- Cache ----

using PlanKey = std::tuple<TransformKind, DType, bool, int64_t>;

class PlanCache {
 public:
  std::shared_ptr<const LinePlan> get(const PlanKey& key) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = plans_.find(key);
      if (found != plans_.end()) {
        found->second.last_use = ++clock_;
        return found->second.plan;
      }
    }
    // Made without the lock: a plan may need others. Two threads may make the same one.
    std::shared_ptr<const LinePlan> plan = make(key);
    std::vector<std::shared_ptr<const LinePlan>> dropped;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    ++made_;
    plans_[key] = {plan, ++clock_};
    int64_t bytes = 0;
    for (const auto& [other, entry] : plans_) bytes += entry.plan->table_bytes();
    while (plans_.size() > 1 && (static_cast<int64_t>(plans_.size()) > kMostPlans || bytes > kMostBytes)) {
      const auto oldest = std::min_element(plans_.begin(), plans_.end(), [](const auto& x, const auto& y) {
        return x.second.last_use < y.second.last_use;
      });
      bytes -= oldest->second.plan->table_bytes();
      dropped.push_back(std::move(oldest->second.plan));
      plans_.erase(oldest);
    }
    return plan;
  }
  PlanCacheUse use() {
    const std::lock_guard lock(mutex_);
    return {static_cast<int64_t>(plans_.size()), made_};
  }

 private:
  static constexpr int64_t kMostPlans = 128;
  static constexpr int64_t kMostBytes = int64_t{1} << 26;

  template <class T>
  static std::shared_ptr<const LinePlan> make(TransformKind kind, bool inverse, int64_t n) {
    // FFTW's own way (Rader) is slower from about here on.
    constexpr int64_t kLargestFactor = 64;
    if (largest_prime_factor(n) > kLargestFactor) return std::make_shared<ChirpPlan<T>>(kind, inverse, n);
    // Longer ones do not stay in the cache.
    constexpr int64_t kLong = int64_t{1} << 17, kShortest = 64;
    if (kind == TransformKind::complex && n >= kLong && middle_divisor(n) >= kShortest)
      return std::make_shared<SplitPlan<T>>(inverse, middle_divisor(n), n / middle_divisor(n));
    return short_plan(kind, dtype_of_v<T>, inverse, n);
  }
  static std::shared_ptr<const LinePlan> make(const PlanKey& key) {
    const auto& [kind, dtype, inverse, n] = key;
    return dtype == DType::float32 ? make<float>(kind, inverse, n) : make<double>(kind, inverse, n);
  }

  struct Entry {
    std::shared_ptr<const LinePlan> plan;
    uint64_t last_use = 0;
  };
  std::mutex mutex_;
  std::map<PlanKey, Entry> plans_;
  int64_t made_ = 0;
  uint64_t clock_ = 0;
};

PlanCache& plan_cache() {
  static auto* const cache = new PlanCache();
  return *cache;
}

}  // namespace

std::complex<double> unit_root(int64_t k, int64_t n) {
  // The angle pi q / n brought into [0, pi / 4], where sine and cosine are exact to the last bit or two.
  int64_t q = 2 * k;
  const bool lower = q > n;
  if (lower) q = 2 * n - q;
  const bool left = 2 * q > n;
  if (left) q = n - q;
  const bool steep = 4 * q > n;
  const auto angle = [&](int64_t p, int64_t of) {
    return std::numbers::pi * (static_cast<double>(p) / static_cast<double>(of));
  };
  const double t = steep ? angle(n - 2 * q, 2 * n) : angle(q, n);
  const double c = steep ? std::sin(t) : std::cos(t), s = steep ? std::cos(t) : std::sin(t);
  return {left ? -c : c, lower ? -s : s};
}

std::shared_ptr<const LinePlan> line_plan(TransformKind kind, DType dtype, bool inverse, int64_t length) {
  return plan_cache().get({kind, dtype, kind == TransformKind::complex && inverse, length});
}

PlanCacheUse line_plan_cache_use() { return plan_cache().use(); }

}  // namespace quarry::local::cpu
