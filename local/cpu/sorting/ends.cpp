#include "quarry/local/cpu/sorting/ends.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <vector>

#include "quarry/local/program/sorting_dispatch.h"

// The elements are visited in an order in which a later one loses against an equal one: forwards for the first,
// backwards for the last. Candidates are those before the k-th best so far; when there is no room for more of them, the
// best k are kept. In random order k log(n / k) elements become candidates, in the worst order all, at a few steps
// each.
namespace quarry::local::cpu {
namespace {

// What elements are compared as before their ranks are known: numbers, or no comparison at all.
template <class Key>
struct number_of {
  using Bits = typename Key::Bits;
  static constexpr bool floating = requires { Key::kInfinity; };
  static constexpr bool is_signed = !floating && requires { Key::kSign; };
  using Float = std::conditional_t<sizeof(Bits) == 8, double, float>;
  using type = std::conditional_t<floating, Float, std::conditional_t<is_signed, std::make_signed_t<Bits>, Bits>>;
  static constexpr bool comparable = !floating || sizeof(Bits) >= 4;
};

template <class Key, bool last>
class Ends {
  using Bits = typename Key::Bits;
  using Number = typename number_of<Key>::type;
  struct Candidate {
    Bits rank;  // less is better
    int64_t visit;
    friend bool operator<(const Candidate& a, const Candidate& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.visit < b.visit;
    }
  };

 public:
  Ends(const Bits* in, int64_t n, int64_t k) : in_(in), n_(n), k_(k), room_(2 * k + 1024) {
    candidates_.reserve(static_cast<size_t>(room_));
  }

  void run(int64_t* out) {
    constexpr int64_t kGroup = 64;
    int64_t visit = 0;
    for (; visit < std::min(k_, n_); ++visit) candidates_.push_back(candidate(visit));
    keep_best();
    while (visit < n_) {
      const int64_t end = std::min(n_, visit + kGroup);
      if (any_before(last ? n_ - end : visit, end - visit)) {
        for (int64_t i = visit; i < end; ++i) {
          const Candidate c = candidate(i);
          if (c.rank < worst_) candidates_.push_back(c);
        }
        if (static_cast<int64_t>(candidates_.size()) + kGroup > room_) keep_best();
      }
      visit = end;
    }
    keep_best();
    for (int64_t i = 0; i < k_; ++i) out[i] = place(candidates_[static_cast<size_t>(i)].visit);
    std::sort(out, out + k_);
  }

 private:
  int64_t place(int64_t visit) const { return last ? n_ - 1 - visit : visit; }
  Candidate candidate(int64_t visit) const {
    const Bits rank = Key::rank(in_[place(visit)]);
    return {last ? static_cast<Bits>(~rank) : rank, visit};
  }
  void keep_best() {
    std::nth_element(candidates_.begin(), candidates_.begin() + (k_ - 1), candidates_.end());
    candidates_.resize(static_cast<size_t>(k_));
    worst_ = candidates_.back().rank;
    worst_number_ = std::bit_cast<std::conditional_t<number_of<Key>::comparable, Number, Bits>>(
        in_[place(candidates_.back().visit)]);
  }
  // Whether one of the elements may be better than the worst that is kept.
  bool any_before(int64_t begin, int64_t count) const {
    if constexpr (number_of<Key>::comparable) {
      bool found = false;
      for (int64_t i = begin; i < begin + count; ++i) {
        const auto x = std::bit_cast<Number>(in_[i]);
        if constexpr (last)
          found |= !(x <= worst_number_);  // NaN too
        else
          found |= !(x >= worst_number_);
      }
      return found;
    }
    return true;
  }

  const Bits* const in_;
  const int64_t n_, k_, room_;
  std::vector<Candidate> candidates_;
  Bits worst_ = 0;
  std::conditional_t<number_of<Key>::comparable, Number, Bits> worst_number_{};
};

}  // namespace

void end_positions(DType dtype, const void* in, int64_t n, int64_t k, bool last, int64_t* out) {
  keys::with_key(dtype, [&]<class Key>() {
    const auto* row = static_cast<const typename Key::Bits*>(in);
    if (last)
      Ends<Key, true>(row, n, k).run(out);
    else
      Ends<Key, false>(row, n, k).run(out);
  });
}

}  // namespace quarry::local::cpu
