// Stable radix sort of records with unsigned keys, and selection by the same steps.
//
// A range that fits the cache is sorted by least significant digits first, over the bits alone in which its keys
// differ; a larger one is first distributed by its most significant differing digit, and its buckets are sorted on
// their own. Every element crosses main memory once for each such level: two for most data, where a plain
// least-significant-digit sort needs a pass for each byte of the key. A selection skips the buckets that hold none of
// the wanted positions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/sorting/vector.h"

namespace quarry::local::cpu {

// Records: words of the key from the least significant one, and the position in the input (or none).
template <class T>
struct PlainKey {
  using Word = T;
  static constexpr int kWords = 1;
  T key;
  template <int W>
  Word word() const {
    return key;
  }
};
struct IndexedKey32 {  // key in the upper half, position in the lower one
  using Word = uint32_t;
  static constexpr int kWords = 1;
  uint64_t bits;
  template <int W>
  Word word() const {
    return static_cast<Word>(bits >> 32);
  }
  int64_t index() const { return static_cast<int64_t>(bits & 0xffffffffu); }
};
struct IndexedKey64 {
  using Word = uint64_t;
  static constexpr int kWords = 1;
  uint64_t key;
  int64_t position;
  template <int W>
  Word word() const {
    return key;
  }
  int64_t index() const { return position; }
};
struct IndexedKey128 {
  using Word = uint64_t;
  static constexpr int kWords = 2;
  uint64_t low, high;
  int64_t position;
  template <int W>
  Word word() const {
    return W == 0 ? low : high;
  }
  int64_t index() const { return position; }
};

template <class R>
class RadixSort {
 public:
  // A large range is cut into this many parts that run at once.
  explicit RadixSort(int slots) : slots_(slots) {}

  // Sorts data[0, n), with `other` of the same size to work in; the result is in `to_other ? other : data`. With `kth`
  // (ascending) only so far that these positions are right.
  void sort(R* data, R* other, int64_t n, bool to_other, const std::vector<int64_t>* kth = nullptr) const {
    const Range range{data, other, n, /*first=*/0, to_other};
    if (slots_ <= 1 || n <= kParallelMin) return sort_range(range, kth);
    std::vector<Range> ranges;
    distribute_parallel(range, n, kth, ranges);
    for_each_unit(static_cast<int64_t>(ranges.size()), slots_,
                  [&](int64_t unit, int) { sort_range(ranges[static_cast<size_t>(unit)], kth); });
  }

 private:
  using Word = typename R::Word;
  static constexpr int kWords = R::kWords;
  static constexpr int kWordBits = 8 * static_cast<int>(sizeof(Word));
  // Wider keys come to 4 digits or more, which a quicksort in vector registers beats. Positions make records distinct,
  // so that it need not be stable.
  static constexpr bool kVector = std::is_same_v<R, PlainKey<uint32_t>> || std::is_same_v<R, PlainKey<uint64_t>>;
  static constexpr int64_t kInsertion = 24;
  static constexpr int64_t kCached = (int64_t{1} << 18) / static_cast<int64_t>(sizeof(R));
  static constexpr int64_t kParallelMin = int64_t{1} << 15;
  static constexpr int kMaxDigitBits = 11;

  struct Range {
    R* data;
    R* other;
    int64_t n;
    int64_t first;  // position of its first element in the whole
    bool to_other;
  };
  // Bits [shift, shift + bits) of a word of the key.
  struct Digit {
    int word, shift, bits;
  };
  struct Difference {
    Word words[kWords] = {};
    bool none() const {
      for (Word word : words)
        if (word) return false;
      return true;
    }
  };

  static bool less(const R& a, const R& b) {
    if constexpr (kWords == 2)
      if (a.template word<1>() != b.template word<1>()) return a.template word<1>() < b.template word<1>();
    return a.template word<0>() < b.template word<0>();
  }

  static Difference difference(const R* data, int64_t n) {
    Difference result;
    if (n == 0) return result;
    const R first = data[0];
    for (int64_t i = 0; i < n; ++i) {
      result.words[0] = static_cast<Word>(result.words[0] | (data[i].template word<0>() ^ first.template word<0>()));
      if constexpr (kWords == 2) result.words[1] |= data[i].template word<1>() ^ first.template word<1>();
    }
    return result;
  }

  static Digit top_digit(const Difference& difference, int64_t n) {
    int word = kWords - 1;
    while (word > 0 && !difference.words[word]) --word;
    const int high = std::bit_width(difference.words[word]);
    const int bits = std::min(high, n > (int64_t{1} << 21) ? kMaxDigitBits : 8);
    return {word, high - bits, bits};
  }

  // Calls f(number of the digit) for every element in order.
  template <class F>
  static void each_digit(const R* data, int64_t n, Digit digit, F&& f) {
    const Word mask = static_cast<Word>((Word{1} << digit.bits) - 1);
    const int shift = digit.shift;
    if (kWords == 1 || digit.word == 0) {
      for (int64_t i = 0; i < n; ++i) f(data[i], static_cast<size_t>((data[i].template word<0>() >> shift) & mask));
    } else {
      for (int64_t i = 0; i < n; ++i)
        f(data[i], static_cast<size_t>((data[i].template word<kWords - 1>() >> shift) & mask));
    }
  }
  static void count(const R* data, int64_t n, Digit digit, int64_t* counts) {
    std::fill_n(counts, size_t{1} << digit.bits, 0);
    each_digit(data, n, digit, [&](const R&, size_t d) { ++counts[d]; });
  }
  static void scatter(const R* data, int64_t n, Digit digit, int64_t* starts, R* to) {
    each_digit(data, n, digit, [&](const R& record, size_t d) { to[starts[d]++] = record; });
  }

  static bool wanted(int64_t first, int64_t n, const std::vector<int64_t>* kth) {
    if (!kth) return true;
    const auto next = std::lower_bound(kth->begin(), kth->end(), first);
    return next != kth->end() && *next < first + n;
  }

  static void insertion_sort(R* data, int64_t n) {
    for (int64_t i = 1; i < n; ++i) {
      const R record = data[i];
      int64_t j = i;
      for (; j > 0 && less(record, data[j - 1]); --j) data[j] = data[j - 1];
      data[j] = record;
    }
  }

  static void finish(const Range& range) {
    if (range.to_other) std::copy_n(range.data, range.n, range.other);
  }

  static void sort_range(const Range& range, const std::vector<int64_t>* kth) {
    if constexpr (kVector) {
      if (has_vector_sort()) {
        // A record is its one word.
        vector_sort(reinterpret_cast<std::conditional_t<sizeof(R) == 4, uint32_t, uint64_t>*>(range.data), range.n,
                    Decoding::none, kth ? kth->data() : nullptr, kth ? static_cast<int64_t>(kth->size()) : 0,
                    range.first);
        return finish(range);
      }
    }
    if (range.n <= kInsertion) {
      insertion_sort(range.data, range.n);
      return finish(range);
    }
    const Difference difference = RadixSort::difference(range.data, range.n);
    if (difference.none()) return finish(range);
    if (range.n <= kCached) return sort_cached(range, difference);
    const Digit digit = top_digit(difference, range.n);
    const size_t buckets = size_t{1} << digit.bits;
    std::vector<int64_t> ends(buckets);
    count(range.data, range.n, digit, ends.data());
    int64_t start = 0;
    for (int64_t& value : ends) start += std::exchange(value, start);
    scatter(range.data, range.n, digit, ends.data(), range.other);
    start = 0;
    for (int64_t end : ends) {
      if (end > start)
        sort_bucket({range.other + start, range.data + start, end - start, range.first + start, !range.to_other}, kth);
      start = end;
    }
  }
  static void sort_bucket(const Range& range, const std::vector<int64_t>* kth) {
    if (wanted(range.first, range.n, kth))
      sort_range(range, kth);
    else
      finish(range);
  }

  // Least significant digits first.
  static void sort_cached(const Range& range, const Difference& difference) {
    R* from = range.data;
    R* to = range.other;
    for (int word = 0; word < kWords; ++word) {
      Word rest = difference.words[word];
      const int widest = range.n > 2048 ? 11 : 8;
      while (rest) {
        const int low = std::countr_zero(rest);
        const int left = std::bit_width(rest) - low;
        const int passes = (left + widest - 1) / widest;
        const Digit digit{word, low, (left + passes - 1) / passes};
        uint32_t counts[size_t{1} << kMaxDigitBits];
        const size_t buckets = size_t{1} << digit.bits;
        std::fill_n(counts, buckets, 0);
        each_digit(from, range.n, digit, [&](const R&, size_t d) { ++counts[d]; });
        uint32_t start = 0;
        for (size_t d = 0; d < buckets; ++d) start += std::exchange(counts[d], start);
        each_digit(from, range.n, digit, [&](const R& record, size_t d) { to[counts[d]++] = record; });
        std::swap(from, to);
        const int above = low + digit.bits;
        rest = above >= kWordBits ? Word{0} : static_cast<Word>(rest >> above << above);
      }
    }
    R* const wanted_at = range.to_other ? range.other : range.data;
    if (from != wanted_at) std::copy_n(from, range.n, wanted_at);
  }

  // Distributes with all slots until no bucket is too large a part of the `whole`; appends what is left to sort.
  void distribute_parallel(const Range& range, int64_t whole, const std::vector<int64_t>* kth,
                           std::vector<Range>& ranges) const {
    const int64_t parts = slots_;
    const auto begin = [&](int64_t part) { return range.n * part / parts; };
    std::vector<Difference> differences(static_cast<size_t>(parts));
    for_each_unit(parts, slots_, [&](int64_t part, int) {
      Difference& mine = differences[static_cast<size_t>(part)];
      mine = difference(range.data + begin(part), begin(part + 1) - begin(part));
      if (part > 0) {  // against the first element of all
        mine.words[0] = static_cast<Word>(
            mine.words[0] | (range.data[begin(part)].template word<0>() ^ range.data[0].template word<0>()));
        if constexpr (kWords == 2)
          mine.words[1] |= range.data[begin(part)].template word<1>() ^ range.data[0].template word<1>();
      }
    });
    Difference all;
    for (const Difference& one : differences)
      for (int w = 0; w < kWords; ++w) all.words[w] = static_cast<Word>(all.words[w] | one.words[w]);
    if (all.none()) return finish_parallel(range);
    const Digit digit = top_digit(all, range.n);
    const size_t buckets = size_t{1} << digit.bits;
    std::vector<int64_t> starts(buckets * static_cast<size_t>(parts));
    const auto of_part = [&](int64_t part) { return starts.data() + static_cast<size_t>(part) * buckets; };
    for_each_unit(parts, slots_, [&](int64_t part, int) {
      count(range.data + begin(part), begin(part + 1) - begin(part), digit, of_part(part));
    });
    std::vector<int64_t> bucket_starts(buckets + 1);
    int64_t start = 0;
    for (size_t d = 0; d < buckets; ++d) {
      bucket_starts[d] = start;
      for (int64_t part = 0; part < parts; ++part) start += std::exchange(of_part(part)[d], start);
    }
    bucket_starts[buckets] = start;
    for_each_unit(parts, slots_, [&](int64_t part, int) {
      scatter(range.data + begin(part), begin(part + 1) - begin(part), digit, of_part(part), range.other);
    });
    for (size_t d = 0; d < buckets; ++d) {
      const int64_t first = bucket_starts[d], n = bucket_starts[d + 1] - first;
      if (n == 0) continue;
      const Range bucket{range.other + first, range.data + first, n, range.first + first, !range.to_other};
      if (!wanted(bucket.first, n, kth)) {
        finish_parallel(bucket);
      } else if (n > whole / (2 * parts) && n > kParallelMin) {
        distribute_parallel(bucket, whole, kth, ranges);
      } else {
        ranges.push_back(bucket);
      }
    }
  }
  void finish_parallel(const Range& range) const {
    if (!range.to_other) return;
    for_each_unit(slots_, slots_, [&](int64_t part, int) {
      const int64_t begin = range.n * part / slots_, end = range.n * (part + 1) / slots_;
      std::copy(range.data + begin, range.data + end, range.other + begin);
    });
  }

  const int slots_;
};

}  // namespace quarry::local::cpu
