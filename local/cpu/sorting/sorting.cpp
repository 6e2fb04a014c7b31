// Sorting by the unsigned keys of local/program/sorting_keys.h: NaN last, both zeros equal where positions are kept.
// Positions are always those of a stable sort.
//
// Keys of 32 and 64 bits are sorted by a quicksort in 512-bit registers where the processor has them (vector.h), other
// keys by a radix sort from the most significant differing bits (radix.h). Keys that take few values are counted
// (counts.h). Positions ride in the lower bits of the keys; the few keys that lose bits by that are put in order
// afterwards. A selection visits only the parts that hold a wanted position. Several threads cut a long row into
// buckets first.
#include "quarry/local/cpu/sorting/sorting.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/sorting/counts.h"
#include "quarry/local/cpu/sorting/ends.h"
#include "quarry/local/cpu/sorting/radix.h"
#include "quarry/local/cpu/sorting/vector.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/sorting_dispatch.h"

namespace quarry::local {
namespace {

using namespace cpu;
using keys::with_key;

// How the rows of a call are spread: many rows side by side, each in one thread; or one after the other, each with all
// threads.
struct Schedule {
  bool side_by_side;
  int64_t rows_per_unit = 1;
  int slots = 1;  // that run rows at once, each with scratch of its own

  Schedule(Rows rows, int threads) {
    constexpr int64_t kUnit = int64_t{1} << 14, kLong = int64_t{1} << 20;
    const int most = threads > 0 ? std::min(threads, arena_threads()) : arena_threads();
    side_by_side = rows.rows > 1 && (rows.length <= kLong || rows.rows >= 4 * most);
    if (!side_by_side) return;
    rows_per_unit = std::max<int64_t>(1, kUnit / std::max<int64_t>(rows.length, 1));
    slots = static_cast<int>(std::clamp<int64_t>((rows.rows + rows_per_unit - 1) / rows_per_unit, 1, most));
  }

  // body(row, slot, threads of the row)
  template <class Body>
  void run(Rows rows, int threads, Body&& body) const {
    if (!side_by_side) {
      const int most = threads > 0 ? std::min(threads, arena_threads()) : arena_threads();
      for (int64_t row = 0; row < rows.rows; ++row) body(row, 0, most);
      return;
    }
    for_each_unit((rows.rows + rows_per_unit - 1) / rows_per_unit, slots, [&](int64_t unit, int slot) {
      const int64_t end = std::min(rows.rows, (unit + 1) * rows_per_unit);
      for (int64_t row = unit * rows_per_unit; row < end; ++row) body(row, slot, 1);
    });
  }
};

// f(begin, end) over [0, n), with all of the threads where that is worth it.
template <class F>
void in_parallel(int64_t n, int threads, F&& f) {
  constexpr int64_t kUnit = int64_t{1} << 16;
  if (threads <= 1 || n <= kUnit) return f(int64_t{0}, n);
  for_each_unit((n + kUnit - 1) / kUnit, threads,
                [&](int64_t unit, int) { f(unit * kUnit, std::min(n, (unit + 1) * kUnit)); });
}

constexpr int64_t kFewPoints = 4096;               // of a row, for which tables are made
constexpr int64_t kOneThread = int64_t{1} << 15;   // rows up to here are not worth a second thread
constexpr int64_t kShortIndex = int64_t{1} << 32;  // rows up to here have 32-bit positions

template <class Key>
constexpr Decoding kDecoding = Decoding::none;
template <class T>
constexpr Decoding kDecoding<keys::SignedKey<T>> = Decoding::signed_integer;
template <class T, T Infinity>
constexpr Decoding kDecoding<keys::FloatKey<T, Infinity>> = Decoding::floating;

// Sorts n keys that differ in the bits of `difference` alone by counting each value. False where these are too many for
// `scratch`, which is as large as the keys.
template <class Bits>
bool sort_by_counts(Bits* keys, int64_t n, Bits difference, char* scratch) {
  if (difference == 0) return true;
  constexpr int kMostBits = 16;
  const int low = std::countr_zero(difference), bits = std::bit_width(difference) - low;
  if (bits > kMostBits || n * static_cast<int64_t>(sizeof(Bits)) < int64_t{16} << bits) return false;
  const auto values = size_t{1} << bits;
  const auto mask = static_cast<Bits>(static_cast<Bits>(values - 1) << low);
  const auto rest = static_cast<Bits>(keys[0] & static_cast<Bits>(~mask));
  // Four tables, for increments of one counter wait for each other.
  constexpr size_t kTables = 4;
  auto* counts = reinterpret_cast<uint32_t*>(scratch);
  const int64_t most = std::numeric_limits<uint32_t>::max();
  if (n > most) return false;
  std::fill_n(counts, kTables * values, 0);
  const auto digit = [&](int64_t i) { return static_cast<size_t>((keys[i] & mask) >> low); };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (size_t t = 0; t < kTables; ++t) ++counts[t * values + digit(i + static_cast<int64_t>(t))];
  for (; i < n; ++i) ++counts[digit(i)];
  Bits* to = keys;
  for (size_t v = 0; v < values; ++v) {
    const uint32_t count = counts[v] + counts[values + v] + counts[2 * values + v] + counts[3 * values + v];
    to = std::fill_n(to, count, static_cast<Bits>(rest | static_cast<Bits>(v << low)));
  }
  return true;
}

// The record of the element `i` of a row.
template <class Key>
void make_record(const void* row, int64_t i, IndexedKey32& record) {
  const auto rank = static_cast<uint64_t>(Key::rank(static_cast<const typename Key::Bits*>(row)[i]));
  record.bits = rank << 32 | static_cast<uint64_t>(i);
}
template <class Key>
void make_record(const void* row, int64_t i, IndexedKey64& record) {
  record = {Key::rank(static_cast<const typename Key::Bits*>(row)[i]), i};
}
struct Complex64Key {};
struct Complex128Key {};
template <>
void make_record<Complex64Key>(const void* row, int64_t i, IndexedKey64& record) {
  const auto* parts = static_cast<const uint32_t*>(row) + 2 * i;
  const auto words = keys::ComplexKey<keys::Float32Key>::rank(parts[0], parts[1]);
  record = {static_cast<uint64_t>(words.high) << 32 | words.low, i};
}
template <class Key>
void make_record(const void* row, int64_t i, IndexedKey128& record) {
  static_assert(std::is_same_v<Key, Complex128Key>);
  const auto* parts = static_cast<const uint64_t*>(row) + 2 * i;
  const auto words = keys::ComplexKey<keys::Float64Key>::rank(parts[0], parts[1]);
  record = {words.low, words.high, i};
}

// f.operator()<Key, Record>() for sorts that keep positions.
template <class F>
decltype(auto) with_record(DType dtype, int64_t length, F&& f) {
  if (dtype == DType::complex64) return f.template operator()<Complex64Key, IndexedKey64>();
  if (dtype == DType::complex128) return f.template operator()<Complex128Key, IndexedKey128>();
  return with_key(dtype, [&]<class Key>() -> decltype(auto) {
    if constexpr (sizeof(typename Key::Bits) < 8) {
      if (length < kShortIndex) return f.template operator()<Key, IndexedKey32>();
    }
    return f.template operator()<Key, IndexedKey64>();
  });
}

int64_t scratch_slots(Rows rows) { return Schedule(rows, 0).slots; }

// Two rows of records, except that the positions' own memory serves as one of them where records have their size.
int64_t record_bytes(DType dtype, Rows rows) {
  if (rows.elements() == 0) return 0;
  return with_record(dtype, rows.length, [&]<class Key, class Record>() {
    const int64_t buffers = sizeof(Record) == sizeof(int64_t) ? 1 : 2;
    return scratch_slots(rows) * buffers * rounded_allocation(rows.length * static_cast<int64_t>(sizeof(Record)));
  });
}

class CpuSorting final : public Sorting {
 public:
  int64_t sort_scratch_bytes(DType dtype, Rows rows) override { return order_scratch_bytes(dtype, rows); }
  void sort(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    order(dtype, in, out, rows, nullptr, context);
  }
  // A sort by value, and then the zeros and the NaNs once more, which stand together.
  int64_t sort_stably_scratch_bytes(DType dtype, Rows rows) override { return sort_scratch_bytes(dtype, rows); }
  void sort_stably(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    sort(dtype, in, out, rows, context);
    with_key(dtype, [&]<class Key>() {
      if constexpr (requires { Key::kInfinity; }) {
        using Bits = typename Key::Bits;
        const Schedule schedule(rows, context.threads);
        schedule.run(rows, context.threads, [&](int64_t row, int, int) {
          settle_equal<Key>(static_cast<const Bits*>(in) + row * rows.length,
                            static_cast<Bits*>(out) + row * rows.length, rows.length);
        });
      }
    });
  }
  int64_t argsort_scratch_bytes(DType dtype, Rows rows) override { return record_bytes(dtype, rows); }
  void argsort(DType dtype, const void* in, int64_t* out, Rows rows, const ExecContext& context) override {
    arg_order(dtype, in, out, rows, nullptr, context);
  }
  int64_t partition_scratch_bytes(DType dtype, Rows rows) override { return order_scratch_bytes(dtype, rows); }
  void partition(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
                 const ExecContext& context) override {
    std::vector<int64_t> ascending = kth;
    std::sort(ascending.begin(), ascending.end());
    order(dtype, in, out, rows, &ascending, context);
  }
  int64_t argpartition_scratch_bytes(DType dtype, Rows rows) override { return record_bytes(dtype, rows); }
  void argpartition(DType dtype, const void* in, int64_t* out, Rows rows, const std::vector<int64_t>& kth,
                    const ExecContext& context) override {
    std::vector<int64_t> ascending = kth;
    std::sort(ascending.begin(), ascending.end());
    arg_order(dtype, in, out, rows, &ascending, context);
  }

  int64_t select_scratch_bytes(DType dtype, Rows rows, int64_t) override {
    return rounded_allocation(rows.elements() * itemsize(dtype)) + partition_scratch_bytes(dtype, rows);
  }
  void select(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
              const ExecContext& context) override {
    if (rows.elements() == 0) return;
    const int64_t item = itemsize(dtype);
    const Scratch parts(rows.elements() * item, context);
    order(dtype, in, parts.data(), rows, &kth, context);
    auto* to = static_cast<char*>(out);
    for (int64_t row = 0; row < rows.rows; ++row) {
      for (const int64_t k : kth) {
        std::memcpy(to, parts.at((row * rows.length + k) * item), static_cast<size_t>(item));
        to += item;
      }
    }
  }

  std::optional<int64_t> ends_scratch_bytes(DType dtype, Rows rows, int64_t k) override {
    constexpr int64_t kFew = 16;  // of the row
    if (is_complex(dtype) || k > rows.length / kFew) return std::nullopt;
    return 0;
  }
  bool ends(DType dtype, const void* in, int64_t* out, Rows rows, int64_t k, bool last,
            const ExecContext& context) override {
    if (!ends_scratch_bytes(dtype, rows, k)) return false;
    const int64_t row_bytes = rows.length * itemsize(dtype);
    const Schedule schedule(rows, context.threads);
    schedule.run(rows, context.threads, [&](int64_t row, int, int) {
      end_positions(dtype, static_cast<const char*>(in) + row * row_bytes, rows.length, k, last, out + row * k);
    });
    return true;
  }

  void searchsorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row, bool right,
                    int64_t* out, const ExecContext& context) override {
    with_ranks(dtype, [&](auto load, int64_t itemsize) {
      search(sorted, itemsize, load, rows, values, values_per_row, right, context,
             [&](int64_t i, const auto&, int64_t position, const char*) { out[i] = position; });
    });
  }
  void contains(DType dtype, const void* sorted, int64_t length, const void* values, int64_t count, bool invert,
                bool* out, const ExecContext& context) override {
    constexpr int64_t kFew = 32;  // that are compared one by one
    if (!is_complex(dtype) && length <= kFew) {
      return with_key(dtype, [&]<class Key>() {
        const auto* wanted = static_cast<const typename Key::Bits*>(values);
        in_parallel(count, context.threads > 0 ? std::min(context.threads, arena_threads()) : arena_threads(),
                    [&](int64_t begin, int64_t end) {
                      is_one_of<Key>(static_cast<const typename Key::Bits*>(sorted), length, wanted + begin,
                                     end - begin, invert, out + begin);
                    });
      });
    }
    with_ranks(dtype, [&](auto load, int64_t itemsize) {
      search(sorted, itemsize, load, {1, length}, values, count, /*right=*/false, context,
             [&](int64_t i, const auto& value, int64_t position, const char* row) {
               const bool found = position < length && load(row, position) == value && !load.is_nan(values, i);
               out[i] = found != invert;
             });
    });
  }
  void interpolate(const Interpolation& task, const ExecContext& context) override {
    const Rank<keys::Float64Key> load;
    Interpolation known = task;
    std::vector<double> slopes;
    if (task.length > 1 && task.length <= kFewPoints && task.length <= task.count) {
      for (int64_t k = 0; k + 1 < task.length; ++k) slopes.push_back(interpolation::slope(task, k, k + 1));
      known.slopes = slopes.data();
    }
    search(task.points, sizeof(double), load, {1, task.length}, task.places, task.count, /*right=*/true, context,
           [&](int64_t i, const auto&, int64_t position, const char*) {
             task.out[i * task.out_step] = interpolation::value_at(known, task.places[i], position);
           });
  }

  int64_t bincount_scratch_bytes(int64_t count, int64_t bins) override { return count_scratch_bytes(count, bins); }
  void bincount(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out,
                const ExecContext& context) override {
    const Scratch scratch(count_scratch_bytes(count, bins), context);
    cpu::bincount(positions, count, weights, bins, out, scratch.data(), context.threads);
  }
  int64_t histogram_scratch_bytes(int64_t count, int64_t bins) override { return count_scratch_bytes(count, bins); }
  void histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges, int64_t bins,
                 bool uniform, const double* weights, void* out, const ExecContext& context) override {
    const Scratch scratch(count_scratch_bytes(count, bins), context);
    cpu::histogram(dtype, values, count, edges_dtype, edges, bins, uniform, weights, out, scratch.data(),
                   context.threads);
  }

 private:
  // Puts the zeros and NaNs of a sorted row in the order of the input.
  template <class Key, class Bits = typename Key::Bits>
  static void settle_equal(const Bits* from, Bits* sorted, int64_t n) {
    constexpr Bits kSign = Key::kSign;
    int64_t before = 0, plus = 0, minus = 0, nans = 0;  // elements below zero, both zeros
    for (int64_t i = 0; i < n; ++i) {
      const Bits x = from[i];
      const auto size = static_cast<Bits>(x & static_cast<Bits>(~kSign));
      const bool nan = size > static_cast<Bits>(Key::kInfinity & static_cast<Bits>(~kSign));
      before += x > kSign && !nan ? 1 : 0;
      plus += x == 0 ? 1 : 0;
      minus += x == kSign ? 1 : 0;
      nans += nan ? 1 : 0;
    }
    if ((plus == 0 || minus == 0) && nans == 0) return;
    Bits* zero = sorted + before;
    Bits* nan = sorted + n - nans;
    for (int64_t i = 0; i < n; ++i) {
      if (static_cast<Bits>(from[i] & static_cast<Bits>(~kSign)) == 0)
        *zero++ = from[i];
      else if (Key::is_nan(from[i]))
        *nan++ = from[i];
    }
  }

  // The rank of an element, and whether it equals nothing.
  template <class Key>
  struct Rank {
    using Bits = typename Key::Bits;
    static Bits bits(const void* data, int64_t i) { return static_cast<const Bits*>(data)[i]; }
    Bits operator()(const void* data, int64_t i) const { return Key::rank(bits(data, i)); }
    bool is_nan(const void* data, int64_t i) const {
      if constexpr (requires(Bits x) { Key::is_nan(x); }) return Key::is_nan(bits(data, i));
      return false;
    }
  };
  template <class Part>
  struct ComplexRank {
    using Bits = typename Part::Bits;
    std::pair<Bits, Bits> operator()(const void* data, int64_t i) const {
      const auto* parts = static_cast<const Bits*>(data) + 2 * i;
      const auto rank = keys::ComplexKey<Part>::rank(parts[0], parts[1]);
      return std::pair(rank.high, rank.low);
    }
    bool is_nan(const void* data, int64_t i) const {
      const auto* parts = static_cast<const Bits*>(data) + 2 * i;
      return Part::is_nan(parts[0]) || Part::is_nan(parts[1]);
    }
  };
  template <class Key, class Bits = typename Key::Bits>
  static void is_one_of(const Bits* set, int64_t length, const Bits* values, int64_t n, bool invert, bool* out) {
    constexpr int64_t kTile = 512;
    Bits ranks[kTile];
    uint8_t found[kTile];
    for (int64_t begin = 0; begin < n; begin += kTile) {
      const int64_t count = std::min(kTile, n - begin);
      for (int64_t i = 0; i < count; ++i) ranks[i] = Key::rank(values[begin + i]);
      std::fill_n(found, count, uint8_t{0});
      for (int64_t k = 0; k < length; ++k) {
        if constexpr (requires { Key::kInfinity; })
          if (Key::is_nan(set[k])) continue;
        const Bits one = Key::rank(set[k]);
        for (int64_t i = 0; i < count; ++i) found[i] = static_cast<uint8_t>(found[i] | (ranks[i] == one ? 1 : 0));
      }
      for (int64_t i = 0; i < count; ++i) out[begin + i] = (found[i] != 0) != invert;
    }
  }
  // f(rank, itemsize)
  template <class F>
  static void with_ranks(DType dtype, F&& f) {
    if (dtype == DType::complex64) return f(ComplexRank<keys::Float32Key>(), itemsize(dtype));
    if (dtype == DType::complex128) return f(ComplexRank<keys::Float64Key>(), itemsize(dtype));
    with_key(dtype, [&]<class Key>() { f(Rank<Key>(), itemsize(dtype)); });
  }
  // each(i, rank, position, row) for value i of all rows: how many elements of its sorted row come before it.
  template <class Load, class Each>
  static void search(const void* sorted, int64_t itemsize, const Load& load, Rows rows, const void* values,
                     int64_t values_per_row, bool right, const ExecContext& context, Each&& each) {
    constexpr int64_t kUnit = int64_t{1} << 13;
    const int64_t units_per_row = (values_per_row + kUnit - 1) / kUnit;
    const int slots = context.threads > 0 ? std::min(context.threads, arena_threads()) : arena_threads();
    // Of a short row that many values are looked for in, the ranks are made once.
    using Value = decltype(load(sorted, 0));
    std::vector<Value> ranks;
    if (rows.rows == 1 && rows.length <= kFewPoints && rows.length <= values_per_row / 4)
      for (int64_t k = 0; k < rows.length; ++k) ranks.push_back(load(sorted, k));
    const auto ranked = [&](const char*, int64_t k) { return ranks[static_cast<size_t>(k)]; };
    for_each_unit(rows.rows * units_per_row, slots, [&](int64_t unit, int) {
      const int64_t row = unit / units_per_row, begin = unit % units_per_row * kUnit;
      const int64_t n = std::min(kUnit, values_per_row - begin), first = row * values_per_row + begin;
      const auto* row_data = static_cast<const char*>(sorted) + row * rows.length * itemsize;
      // Several searches in step, so that they wait for memory at the same time.
      constexpr int64_t kTogether = 16;
      const auto together = [&]<int64_t kCount>(int64_t i) {
        Value wanted[kCount];
        int64_t found[kCount];
        for (int64_t k = 0; k < kCount; ++k) wanted[k] = load(values, first + i + k);
        if (ranks.empty())
          search_together<kCount>(rows.length, row_data, load, wanted, right, found);
        else
          search_together<kCount>(rows.length, row_data, ranked, wanted, right, found);
        for (int64_t k = 0; k < kCount; ++k) each(first + i + k, wanted[k], found[k], row_data);
      };
      int64_t i = 0;
      for (; i + kTogether <= n; i += kTogether) together.template operator()<kTogether>(i);
      for (; i < n; ++i) together.template operator()<1>(i);
    });
  }
  // out[k]: how many of the n elements are less than wanted[k] (`right`: or equal).
  template <int64_t kCount, class Load, class Value>
  static void search_together(int64_t n, const char* row, Load&& load, const Value* wanted, bool right, int64_t* out) {
    std::fill_n(out, kCount, 0);
    if (n == 0) return;
    const auto narrow = [&](auto&& before) {
      int64_t left = n;
      while (left > 1) {  // without branches on the data
        const int64_t half = left / 2;
        for (int64_t k = 0; k < kCount; ++k) {
          const int64_t beyond = out[k] + half;
          out[k] = before(load(row, beyond - 1), wanted[k]) ? beyond : out[k];
        }
        left -= half;
      }
      for (int64_t k = 0; k < kCount; ++k) out[k] += before(load(row, out[k]), wanted[k]) ? 1 : 0;
    };
    if (right)
      narrow([](const Value& element, const Value& value) { return !(value < element); });
    else
      narrow([](const Value& element, const Value& value) { return element < value; });
  }

  static int64_t order_scratch_bytes(DType dtype, Rows rows) {
    if (is_complex(dtype)) {  // positions, and room to gather a row in
      return record_bytes(dtype, rows) + scratch_slots(rows) * (rounded_allocation(rows.length * 8) +
                                                                rounded_allocation(rows.length * itemsize(dtype)));
    }
    return scratch_slots(rows) * rounded_allocation(rows.length * itemsize(dtype));
  }

  // One row in one thread; `work` has the row's size.
  template <class Key, class Bits = typename Key::Bits>
  static void order_row(const Bits* from, Bits* to, Bits* work, int64_t n, const std::vector<int64_t>* kth) {
    constexpr bool kWide = sizeof(Bits) >= 4;
    const bool vector = kWide && has_vector_sort();
    Bits difference = 0;
    if (vector) {
      if constexpr (kWide) difference = vector_encode(from, to, n, kDecoding<Key>);
    } else {
      const Bits first = Key::encode(from[0]);
      for (int64_t i = 0; i < n; ++i) {
        to[i] = Key::encode(from[i]);
        difference = static_cast<Bits>(difference | static_cast<Bits>(to[i] ^ first));
      }
    }
    if (!sort_by_counts(to, n, difference, reinterpret_cast<char*>(work))) {
      if constexpr (kWide) {
        if (vector) return sort_with_vectors(to, n, kDecoding<Key>, kth);
      }
      using Record = PlainKey<Bits>;
      RadixSort<Record>(1).sort(reinterpret_cast<Record*>(to), reinterpret_cast<Record*>(work), n, /*to_other=*/false,
                                kth);
    }
    for (int64_t i = 0; i < n; ++i) to[i] = Key::decode(to[i]);
  }
  template <class Bits>
  static void sort_with_vectors(Bits* keys, int64_t n, Decoding decoding, const std::vector<int64_t>* kth) {
    vector_sort(keys, n, decoding, kth ? kth->data() : nullptr, kth ? static_cast<int64_t>(kth->size()) : 0);
  }

  static void order(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>* kth,
                    const ExecContext& context) {
    if (rows.elements() == 0) return;
    if (is_complex(dtype)) return order_complex(dtype, in, out, rows, kth, context);
    const Schedule schedule(rows, context.threads);
    const Scratch scratch(order_scratch_bytes(dtype, rows), context);
    with_key(dtype, [&]<class Key>() {
      using Bits = typename Key::Bits;
      using Record = PlainKey<Bits>;
      static_assert(sizeof(Record) == sizeof(Bits));
      const int64_t row_bytes = rows.length * static_cast<int64_t>(sizeof(Bits));
      schedule.run(rows, context.threads, [&](int64_t row, int slot, int threads) {
        const auto* from = reinterpret_cast<const Bits*>(static_cast<const char*>(in) + row * row_bytes);
        auto* to = reinterpret_cast<Bits*>(static_cast<char*>(out) + row * row_bytes);
        auto* work = reinterpret_cast<Bits*>(scratch.data() + slot * rounded_allocation(row_bytes));
        if (threads == 1 || rows.length <= kOneThread) return order_row<Key>(from, to, work, rows.length, kth);
        // A large row is distributed once: from the work space to its place.
        const bool large = row_bytes > (int64_t{1} << 18);
        Bits* const keys = large ? work : to;
        in_parallel(rows.length, threads, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) keys[i] = Key::encode(from[i]);
        });
        const RadixSort<Record> sort(threads);
        sort.sort(reinterpret_cast<Record*>(keys), reinterpret_cast<Record*>(large ? to : work), rows.length, large,
                  kth);
        in_parallel(rows.length, threads, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) to[i] = Key::decode(to[i]);
        });
      });
    });
  }

  // By positions: the ranks of complex numbers cannot be turned back.
  static void order_complex(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>* kth,
                            const ExecContext& context) {
    const int64_t slots = scratch_slots(rows), item = itemsize(dtype), row_bytes = rows.length * item;
    const Scratch scratch(order_scratch_bytes(dtype, rows), context);
    char* const positions = scratch.data() + record_bytes(dtype, rows);
    char* const gathered = positions + slots * rounded_allocation(rows.length * 8);
    const Schedule schedule(rows, context.threads);
    schedule.run(rows, context.threads, [&](int64_t row, int slot, int threads) {
      const char* from = static_cast<const char*>(in) + row * row_bytes;
      char* to = static_cast<char*>(out) + row * row_bytes;
      auto* order = reinterpret_cast<int64_t*>(positions + slot * rounded_allocation(rows.length * 8));
      char* row_gathered = gathered + slot * rounded_allocation(row_bytes);
      arg_order_row(dtype, from, order, rows, scratch.data(), slot, threads, kth);
      in_parallel(rows.length, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          std::memcpy(row_gathered + i * item, from + order[i] * item, static_cast<size_t>(item));
      });
      std::memcpy(to, row_gathered, static_cast<size_t>(row_bytes));
    });
  }

  static void arg_order(DType dtype, const void* in, int64_t* out, Rows rows, const std::vector<int64_t>* kth,
                        const ExecContext& context) {
    if (rows.elements() == 0) return;
    const Scratch scratch(record_bytes(dtype, rows), context);
    const Schedule schedule(rows, context.threads);
    const int64_t row_bytes = rows.length * itemsize(dtype);
    schedule.run(rows, context.threads, [&](int64_t row, int slot, int threads) {
      arg_order_row(dtype, static_cast<const char*>(in) + row * row_bytes, out + row * rows.length, rows,
                    scratch.data(), slot, threads, kth);
    });
  }
  // Positions of 64-bit keys in the order of `kth` or of a sort. A sort packs the bits that differ, or the upper ones
  // of them, into one word with the position; the few elements that are equal there are put in order at the end. False
  // where they are not few, or several positions are wanted: nothing is done. `ranks`: room for n.
  static bool arg_order_wide(const uint64_t* from, int64_t* out, uint64_t* ranks, int64_t n, Decoding decoding,
                             const std::vector<int64_t>* kth) {
    if (kth) {
      if (kth->size() != 1) return false;
      vector_ranks(from, ranks, n, decoding);
      auto* keys = reinterpret_cast<uint64_t*>(out);
      std::copy_n(ranks, n, keys);
      sort_with_vectors(keys, n, Decoding::none, kth);
      const int64_t k = kth->front();
      const uint64_t wanted = keys[k];
      int64_t below = 0, equal = 0;
      for (int64_t i = 0; i < n; ++i) {
        below += keys[i] < wanted ? 1 : 0;
        equal += keys[i] == wanted ? 1 : 0;
      }
      int64_t next[3] = {0, below, below + equal};
      for (int64_t i = 0; i < n; ++i) out[next[(ranks[i] >= wanted ? 1 : 0) + (ranks[i] > wanted ? 1 : 0)]++] = i;
      return true;
    }
    auto* records = reinterpret_cast<uint64_t*>(out);
    const uint64_t difference = vector_ranks(from, records, n, decoding);
    if (difference == 0) {
      std::iota(out, out + n, int64_t{0});
      return true;
    }
    const int index_bits = std::bit_width(static_cast<uint64_t>(n - 1));
    const int low = std::countr_zero(difference), width = std::bit_width(difference) - low;
    const int dropped = std::max(0, width + index_bits - 64);
    const uint64_t index_mask = (uint64_t{1} << index_bits) - 1;
    if (dropped > 0) std::copy_n(records, n, ranks);
    vector_pack(records, n, low + dropped, index_bits);
    sort_with_vectors(records, n, Decoding::none, nullptr);
    const auto same = [&](int64_t i) { return (records[i] ^ records[i - 1]) <= index_mask; };
    if (dropped > 0) {
      int64_t equal = 0;
      for (int64_t i = 1; i < n; ++i) equal += same(i) ? 1 : 0;
      if (equal > n / 4) return false;
      for (int64_t begin = 0, end; equal > 0 && begin < n; begin = end) {
        end = begin + 1;
        while (end < n && same(end)) ++end;
        if (end - begin == 1) continue;
        std::sort(records + begin, records + end, [&](uint64_t a, uint64_t b) {
          const uint64_t i = a & index_mask, j = b & index_mask;
          return ranks[i] != ranks[j] ? ranks[i] < ranks[j] : i < j;
        });
      }
    }
    for (int64_t i = 0; i < n; ++i) records[i] &= index_mask;
    return true;
  }

  // scratch: of record_bytes().
  static void arg_order_row(DType dtype, const char* from, int64_t* out, Rows rows, char* scratch, int slot,
                            int threads, const std::vector<int64_t>* kth) {
    const int64_t n = rows.length;
    with_record(dtype, n, [&]<class Key, class Record>() {
      constexpr bool kShared = sizeof(Record) == sizeof(int64_t);
      const int64_t bytes = rounded_allocation(n * static_cast<int64_t>(sizeof(Record)));
      auto* first = reinterpret_cast<Record*>(scratch + slot * (kShared ? 1 : 2) * bytes);
      auto* second =
          kShared ? reinterpret_cast<Record*>(out) : reinterpret_cast<Record*>(scratch + (2 * slot + 1) * bytes);
      if (has_vector_sort() && (threads == 1 || n <= kOneThread)) {
        if constexpr (std::is_same_v<Record, IndexedKey32>) {
          using Bits = typename Key::Bits;
          if constexpr (sizeof(Bits) == 4) {
            auto* records = reinterpret_cast<uint64_t*>(out);
            vector_records(reinterpret_cast<const Bits*>(from), records, n, kDecoding<Key>);
            return sort_with_vectors(records, n, Decoding::low_half, kth);
          }
        } else if constexpr (std::is_same_v<Record, IndexedKey64> && !std::is_same_v<Key, Complex64Key>) {
          using Bits = typename Key::Bits;
          if constexpr (sizeof(Bits) == 8) {
            auto* ranks = reinterpret_cast<uint64_t*>(first);
            if (arg_order_wide(reinterpret_cast<const Bits*>(from), out, ranks, n, kDecoding<Key>, kth)) return;
          }
        }
      }
      in_parallel(n, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) make_record<Key>(from, i, first[i]);
      });
      const RadixSort<Record> sort(threads);
      sort.sort(first, second, n, /*to_other=*/true, kth);
      in_parallel(n, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t index = second[i].index();
          std::memcpy(&out[i], &index, sizeof index);
        }
      });
    });
  }
};

}  // namespace

Sorting& cpu_sorting() {
  static CpuSorting instance;
  return instance;
}

}  // namespace quarry::local
