// Sorting by CUB's radix sort on the unsigned keys of local/program/sorting_keys.h, compiled ahead of time by key width
// rather than by dtype. Positions are always those of a stable sort.
//
// Many rows are one sort with the row's number above the key where both fit into 64 bits, else a segmented sort; very
// long rows follow one another. complex128 is sorted by two words, the less significant one first. Positions have 32
// bits up to 2^32 elements in a row. Up to eight positions of a long row (partitions, top-k, medians, quantiles) are
// found by a radix selection (select.cu), and a partition then places every element by its class; other partitions are
// sorts. Stretches that are sorted already are merged two by two.
#include "quarry/local/cuda/sorting/sorting.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/sorting/device.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/sorting_dispatch.h"

namespace quarry::local::cuda {
namespace {

// How the rows of a call are sorted.
//   flat       all rows at once by one radix sort, with the row's number above the element's key
//   segmented  CUB's segmented sort: short rows, or keys of 64 bits that leave no room for the row's number
//   loop       one row after the other
struct Method {
  enum class Kind : uint8_t { flat, segmented, loop };
  Kind kind = Kind::flat;
  int key_bits = 0;         // of an element
  int row_bits = 0;         // flat: above them
  bool wide = false;        // keys of 64 bits, else 32
  bool wide_index = false;  // positions of 64 bits

  int end_bit() const { return key_bits + row_bits; }
};

constexpr int64_t kShortRow = 1024;             // up to here a block or less sorts a row in one go
constexpr int64_t kLongRow = int64_t{1} << 16;  // from here a row keeps the device busy
constexpr int64_t kShortIndex = int64_t{1} << 32;

Method choose(DType dtype, Rows rows) {
  Method method;
  method.key_bits = static_cast<int>(8 * itemsize(dtype));
  method.wide_index = rows.length >= kShortIndex;
  const int row_bits = std::bit_width(static_cast<uint64_t>(rows.rows - 1));
  const int bits = method.key_bits + row_bits;
  method.wide = bits > 32;
  method.row_bits = row_bits;
  if (rows.rows == 1) return method;
  if (method.wide_index) {
    method.kind = Method::Kind::loop;
  } else if (bits > 64 || (bits > 32 && rows.length <= kShortRow)) {
    method.kind = bits > 64 && rows.length >= kLongRow ? Method::Kind::loop : Method::Kind::segmented;
    method.wide = method.key_bits > 32;
    method.row_bits = 0;
  }
  return method;
}

// Parts of one piece of scratch, in order; without a piece only their sizes add up.
class Parts {
 public:
  Parts() = default;
  explicit Parts(void* data) : data_(static_cast<char*>(data)) {}
  template <class T>
  T* take(int64_t count) {
    char* const part = data_ ? data_ + used_ : nullptr;
    used_ += rounded_allocation(count * static_cast<int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(part);
  }
  int64_t used() const { return used_; }

 private:
  char* data_ = nullptr;
  int64_t used_ = 0;
};

// Every function below runs in two ways: with `data` it takes its scratch from there and queues its work; without, it
// only says how much that is (null for both `in` and `out` stands for the worst case, that they are the same).
class Run {
 public:
  Run() = default;  // measures
  Run(void* data, cudaStream_t stream) : parts_(data), measure_(false), stream_(stream) {}

  bool measures() const { return measure_; }
  int64_t bytes() const { return most_; }

  // The scratch of `f` is given back after it.
  template <class F>
  void scope(F&& f) {
    const Parts before = parts_;
    f();
    parts_ = before;
  }
  template <class T>
  T* take(int64_t count) {
    T* const part = parts_.take<T>(count);
    most_ = std::max(most_, parts_.used());
    return part;
  }
  // A CUB sort, sort(temporary, bytes).
  template <class Sort>
  void cub(Sort&& sort) {
    size_t bytes = 0;
    sort(nullptr, bytes);
    scope([&] {
      void* const temporary = take<char>(static_cast<int64_t>(bytes));
      if (!measure_) sort(temporary, bytes);
    });
  }
  cudaStream_t stream() const { return stream_; }

 private:
  Parts parts_;
  bool measure_ = true;
  int64_t most_ = 0;
  cudaStream_t stream_ = nullptr;
};

template <class F>
int64_t measured(F&& f) {
  Run run;
  f(run);
  return run.bytes();
}
template <class F>
void queue(const ExecContext& context, F&& f) {
  CudaStream& stream = cuda_stream(context.stream);
  use_device(stream.device().index);
  const int64_t bytes = measured(f);
  const Scratch scratch(bytes, context);
  Run run(scratch.data(), stream.handle());
  f(run);
}

template <class Key>
void sort_encoded(Run& run, const Method& method, DType dtype, const void* in, void* out, Rows rows) {
  const int64_t n = rows.elements();
  run.scope([&] {
    Key* const first = run.take<Key>(n);
    // The result's memory serves as the second buffer where it is large enough.
    Key* const second =
        itemsize(dtype) == static_cast<int64_t>(sizeof(Key)) ? static_cast<Key*>(out) : run.take<Key>(n);
    if (!run.measures()) encode_keys<Key>(dtype, in, first, rows, method.row_bits ? method.key_bits : 0, run.stream());
    Buffers<Key> keys{first, second};
    run.cub([&](void* temporary, size_t& bytes) {
      if constexpr (sizeof(Key) > 2) {
        if (method.kind == Method::Kind::segmented)
          return segmented_sort_keys<Key>(temporary, bytes, keys, rows, run.stream());
      }
      radix_sort_keys<Key>(temporary, bytes, keys, n, method.end_bit(), run.stream());
    });
    if (!run.measures()) decode_keys<Key>(dtype, keys.current, out, n, run.stream());
  });
}

// Where CUB's order of a type is NumPy's but for signs.
template <class Key>
void sort_native(Run& run, DType dtype, const void* in, void* out, int64_t n) {
  const auto* from = static_cast<const Key*>(in);
  auto* to = static_cast<Key*>(out);
  run.scope([&] {
    if (in == out) {  // CUB keeps its input apart
      Key* const copy = run.take<Key>(n);
      if (!run.measures()) {
        QUARRY_CUDA_CALL(
            cudaMemcpyAsync(copy, in, static_cast<size_t>(n) * sizeof(Key), cudaMemcpyDeviceToDevice, run.stream()));
      }
      from = copy;
    }
    run.cub([&](void* temporary, size_t& bytes) { radix_sort_keys<Key>(temporary, bytes, from, to, n, run.stream()); });
  });
  if constexpr (std::is_floating_point_v<Key>) {
    run.scope([&] {
      Key* const parts = run.take<Key>(n);
      auto* const counts = run.take<int64_t>(2);
      if (!run.measures()) order_signs(dtype, out, n, parts, counts, run.stream());
    });
  }
}

template <class Key, class Value>
void argsort_ranked(Run& run, const Method& method, DType dtype, const void* in, int64_t* out, Rows rows) {
  const int64_t n = rows.elements();
  run.scope([&] {
    Buffers<Key> keys{run.take<Key>(n), run.take<Key>(n)};
    Value* const first = run.take<Value>(n);
    Buffers<Value> positions{first, reinterpret_cast<Value*>(out)};
    if (!run.measures())
      rank_keys<Key, Value>(dtype, in, keys.current, positions.current, rows, method.row_bits ? method.key_bits : 0,
                            run.stream());
    run.cub([&](void* temporary, size_t& bytes) {
      if constexpr (sizeof(Value) == 4) {
        if (method.kind == Method::Kind::segmented)
          return segmented_sort_pairs<Key>(temporary, bytes, keys, positions, rows, run.stream());
      }
      radix_sort_pairs<Key, Value>(temporary, bytes, keys, positions, n, method.end_bit(), run.stream());
    });
    if (run.measures()) return;
    if (positions.current != first) {  // they are widened into memory of their own
      QUARRY_CUDA_CALL(cudaMemcpyAsync(first, positions.current, static_cast<size_t>(n) * sizeof(Value),
                                       cudaMemcpyDeviceToDevice, run.stream()));
    }
    positions_in_rows<Value>(first, /*row_length=*/n, out, n, run.stream());
  });
}

// complex128: by the less significant word, by the more significant one, by the row.
template <class Value>
void argsort_words(Run& run, const void* in, int64_t* out, Rows rows) {
  const int64_t n = rows.elements();
  run.scope([&] {
    Buffers<uint64_t> keys{run.take<uint64_t>(n), run.take<uint64_t>(n)};
    Buffers<Value> order{run.take<Value>(n), run.take<Value>(n)};
    if (!run.measures()) iota<Value>(order.current, n, run.stream());
    for (int word = 0; word < 2; ++word) {
      if (!run.measures())
        complex_rank_words<Value>(in, word == 0 ? nullptr : order.current, word, keys.current, n, run.stream());
      run.cub([&](void* temporary, size_t& bytes) {
        radix_sort_pairs<uint64_t, Value>(temporary, bytes, keys, order, n, /*end_bit=*/64, run.stream());
      });
    }
    if (rows.rows > 1) {
      Buffers<uint32_t> numbers{reinterpret_cast<uint32_t*>(keys.current), reinterpret_cast<uint32_t*>(keys.other)};
      if (!run.measures()) row_numbers<Value>(order.current, rows.length, numbers.current, n, run.stream());
      const int row_bits = std::bit_width(static_cast<uint64_t>(rows.rows - 1));
      run.cub([&](void* temporary, size_t& bytes) {
        radix_sort_pairs<uint32_t, Value>(temporary, bytes, numbers, order, n, row_bits, run.stream());
      });
    }
    if (!run.measures()) positions_in_rows<Value>(order.current, rows.length, out, n, run.stream());
  });
}

void argsort_rows(Run& run, DType dtype, const void* in, int64_t* out, Rows rows) {
  if (dtype == DType::complex128) {
    if (rows.rows >= kShortIndex) throw NotSupported("more than 2^32 rows of complex numbers in one sort");
    return rows.elements() < kShortIndex ? argsort_words<uint32_t>(run, in, out, rows)
                                         : argsort_words<uint64_t>(run, in, out, rows);
  }
  const Method method = choose(dtype, rows);
  if (method.kind == Method::Kind::loop) {
    for (int64_t row = 0; row < (run.measures() ? 1 : rows.rows); ++row) {
      argsort_rows(run, dtype, static_cast<const char*>(in) + row * rows.length * itemsize(dtype),
                   out + row * rows.length, {1, rows.length});
    }
    return;
  }
  if (method.wide_index) {
    return method.wide ? argsort_ranked<uint64_t, uint64_t>(run, method, dtype, in, out, rows)
                       : argsort_ranked<uint32_t, uint64_t>(run, method, dtype, in, out, rows);
  }
  return method.wide ? argsort_ranked<uint64_t, uint32_t>(run, method, dtype, in, out, rows)
                     : argsort_ranked<uint32_t, uint32_t>(run, method, dtype, in, out, rows);
}

// Where keys do not hold all of an element. `out` may be `in`.
void sort_by_positions(Run& run, DType dtype, const void* in, void* out, Rows rows) {
  run.scope([&] {
    const int64_t n = rows.elements();
    auto* order = run.take<int64_t>(n);
    auto* copy = run.take<char>(in == out ? n * itemsize(dtype) : 0);
    argsort_rows(run, dtype, in, order, rows);
    if (run.measures()) return;
    if (in == out) {
      QUARRY_CUDA_CALL(
          cudaMemcpyAsync(copy, in, static_cast<size_t>(n * itemsize(dtype)), cudaMemcpyDeviceToDevice, run.stream()));
      in = copy;
    }
    gather_rows(itemsize(dtype), in, order, out, rows, run.stream());
  });
}

void sort_rows(Run& run, DType dtype, const void* in, void* out, Rows rows) {
  if (is_complex(dtype)) return sort_by_positions(run, dtype, in, out, rows);
  if (rows.rows == 1) {  // what needs no keys of its own
    const int64_t n = rows.length;
    if (dtype == DType::int32) return sort_native<int32_t>(run, dtype, in, out, n);
    if (dtype == DType::int64) return sort_native<int64_t>(run, dtype, in, out, n);
    if (dtype == DType::uint32) return sort_native<uint32_t>(run, dtype, in, out, n);
    if (dtype == DType::uint64) return sort_native<uint64_t>(run, dtype, in, out, n);
    if (n >= kLongRow && dtype == DType::float32) return sort_native<float>(run, dtype, in, out, n);
    if (n >= kLongRow && dtype == DType::float64) return sort_native<double>(run, dtype, in, out, n);
  }
  Method method = choose(dtype, rows);
  if (method.kind == Method::Kind::loop) {
    for (int64_t row = 0; row < (run.measures() ? 1 : rows.rows); ++row) {
      const int64_t offset = row * rows.length * itemsize(dtype);
      sort_rows(run, dtype, static_cast<const char*>(in) + offset, static_cast<char*>(out) + offset, {1, rows.length});
    }
    return;
  }
  if (method.kind == Method::Kind::flat && method.end_bit() <= 16)
    return sort_encoded<uint16_t>(run, method, dtype, in, out, rows);
  return method.wide ? sort_encoded<uint64_t>(run, method, dtype, in, out, rows)
                     : sort_encoded<uint32_t>(run, method, dtype, in, out, rows);
}

// `out` is not `in`. One row is sorted by value, and what is equal is put in order then.
void sort_rows_stably(Run& run, DType dtype, const void* in, void* out, Rows rows) {
  if (!is_float(dtype) || rows.rows > 1) return sort_by_positions(run, dtype, in, out, rows);
  sort_rows(run, dtype, in, out, rows);
  run.scope([&] {
    auto* const parts = run.take<char>(rows.length * itemsize(dtype));
    auto* const counts = run.take<int64_t>(2);
    run.cub([&](void* temporary, size_t& bytes) {
      settle_equal(temporary, bytes, dtype, in, rows.length, parts, counts, out, run.stream());
    });
  });
}

// ---- merges of sorted stretches ----

// A merge reads and writes the row once for every doubling of the stretches, a radix sort for every digit, at less than
// half the rate.
bool merges(DType dtype, size_t stretches) {
  constexpr int64_t kPassesOfByte = 2;
  return !is_complex(dtype) && static_cast<int64_t>(std::bit_width(stretches)) <= kPassesOfByte * itemsize(dtype);
}

// Neighbours two by two, until one is left: from `in` to `out`, by way of memory of their size.
template <class Bits>
void merge_stretches(Run& run, DType dtype, const void* in, void* out, std::vector<int64_t> lengths, bool stably) {
  const auto key = keys::runtime_key<Bits>(dtype, stably);
  std::erase(lengths, 0);
  const auto count = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  run.scope([&] {
    auto* const other = run.take<Bits>(count);
    const auto* from = static_cast<const Bits*>(in);
    auto passes = std::max<size_t>(std::bit_width(lengths.size() - 1), 1);  // one stretch is copied
    for (; passes > 0; --passes) {
      Bits* const to = passes % 2 == 1 ? static_cast<Bits*>(out) : other;
      std::vector<int64_t> merged;
      int64_t at = 0;
      for (size_t i = 0; i < lengths.size(); i += 2) {
        const int64_t first = lengths[i], second = i + 1 < lengths.size() ? lengths[i + 1] : 0;
        if (second == 0 && !run.measures()) {
          QUARRY_CUDA_CALL(cudaMemcpyAsync(to + at, from + at, static_cast<size_t>(first) * sizeof(Bits),
                                           cudaMemcpyDeviceToDevice, run.stream()));
        } else {
          run.cub([&](void* temporary, size_t& bytes) {
            merge_two<Bits>(temporary, bytes, key, from + at, first, from + at + first, second, to + at, run.stream());
          });
        }
        merged.push_back(first + second);
        at += first + second;
      }
      lengths = std::move(merged);
      from = to;
    }
  });
}

void merge_row(Run& run, DType dtype, const void* in, void* out, const std::vector<int64_t>& lengths, bool stably) {
  switch (itemsize(dtype)) {
    case 1:
      return merge_stretches<uint8_t>(run, dtype, in, out, lengths, stably);
    case 2:
      return merge_stretches<uint16_t>(run, dtype, in, out, lengths, stably);
    case 4:
      return merge_stretches<uint32_t>(run, dtype, in, out, lengths, stably);
    default:
      return merge_stretches<uint64_t>(run, dtype, in, out, lengths, stably);
  }
}

// `out` is not `in`.
void sort_apart(Run& run, DType dtype, const void* in, void* out, Rows rows, bool stably) {
  stably ? sort_rows_stably(run, dtype, in, out, rows) : sort_rows(run, dtype, in, out, rows);
}

// ---- selection: few positions of long rows ----

constexpr int64_t kSelectRow = int64_t{1} << 17;   // from here a single row is read several times rather than sorted
constexpr int64_t kSelectRows = int64_t{1} << 20;  // the same for each of several rows, one after the other

bool selects(DType dtype, Rows rows, int64_t ranks) {
  return !is_complex(dtype) && ranks > 0 && ranks <= kMostRanks &&
         rows.length >= (rows.rows == 1 ? kSelectRow : kSelectRows);
}

std::vector<int64_t> ascending(std::vector<int64_t> kth) {
  std::sort(kth.begin(), kth.end());
  kth.erase(std::unique(kth.begin(), kth.end()), kth.end());
  return kth;
}

enum class Selected : uint8_t { elements, partition, positions };

void select_row(Run& run, Selected what, DType dtype, const void* in, void* out, int64_t n,
                const std::vector<int64_t>& kth) {
  const auto ranks = static_cast<int64_t>(kth.size());
  const bool ranked = what == Selected::positions;  // whose equal elements stay in order
  run.scope([&] {
    char* const state = run.take<char>(select_state_bytes(ranks));
    const void* from = in;
    if (what == Selected::partition && in == out) {
      char* const copy = run.take<char>(n * itemsize(dtype));
      if (!run.measures()) {
        QUARRY_CUDA_CALL(cudaMemcpyAsync(copy, in, static_cast<size_t>(n * itemsize(dtype)), cudaMemcpyDeviceToDevice,
                                         run.stream()));
      }
      from = copy;
    }
    run.scope([&] {
      char* const candidates = run.take<char>(select_candidate_bytes(dtype, n));
      if (!run.measures()) select_keys(dtype, ranked, from, n, kth, state, candidates, run.stream());
    });
    if (what == Selected::elements) {
      if (!run.measures()) selected_elements(dtype, state, ranks, out, run.stream());
      return;
    }
    char* const place = run.take<char>(select_place_bytes(ranks, n));
    if (run.measures()) return;
    place_by_keys(dtype, ranked, /*positions=*/what == Selected::positions, from, n, state, ranks, place, out,
                  run.stream());
  });
}

void select_rows(Run& run, Selected what, DType dtype, const void* in, void* out, Rows rows,
                 const std::vector<int64_t>& kth) {
  const int64_t in_bytes = rows.length * itemsize(dtype);
  const int64_t out_bytes = what == Selected::elements    ? static_cast<int64_t>(kth.size()) * itemsize(dtype)
                            : what == Selected::partition ? in_bytes
                                                          : rows.length * static_cast<int64_t>(sizeof(int64_t));
  for (int64_t row = 0; row < (run.measures() ? 1 : rows.rows); ++row) {
    select_row(run, what, dtype, static_cast<const char*>(in) + row * in_bytes,
               static_cast<char*>(out) + row * out_bytes, rows.length, kth);
  }
}

// With any positions.
int64_t select_rows_bytes(Selected what, DType dtype, Rows rows) {
  if (!selects(dtype, rows, kMostRanks)) return 0;
  const std::vector<int64_t> kth(kMostRanks);
  return measured([&](Run& run) { select_rows(run, what, dtype, nullptr, nullptr, rows, kth); });
}

// Where there is nothing to gain by it.
void select_from_sorted(Run& run, DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth) {
  run.scope([&] {
    char* const sorted = run.take<char>(rows.elements() * itemsize(dtype));
    // Null where it is measured: the sort then counts on the worst.
    sort_rows(run, dtype, in, sorted, rows);
    if (!run.measures()) gather_positions(itemsize(dtype), sorted, rows, kth, out, run.stream());
  });
}

// Stands for an input that is not the result, where scratch is measured. Is not read.
constexpr char kElsewhere = 0;

class CudaSorting final : public Sorting {
 public:
  int64_t sort_scratch_bytes(DType dtype, Rows rows) override {
    if (rows.elements() == 0) return 0;
    return measured([&](Run& run) { sort_rows(run, dtype, nullptr, nullptr, rows); });
  }
  void sort(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    if (rows.elements() == 0) return;
    queue(context, [&](Run& run) { sort_rows(run, dtype, in, out, rows); });
  }
  int64_t sort_stably_scratch_bytes(DType dtype, Rows rows) override {
    if (rows.elements() == 0) return 0;
    return measured([&](Run& run) { sort_apart(run, dtype, &kElsewhere, nullptr, rows, /*stably=*/true); });
  }
  void sort_stably(DType dtype, const void* in, void* out, Rows rows, const ExecContext& context) override {
    if (rows.elements() == 0) return;
    queue(context, [&](Run& run) { sort_apart(run, dtype, in, out, rows, /*stably=*/true); });
  }
  int64_t merge_scratch_bytes(DType dtype, int64_t count, bool stably) override {
    if (count == 0) return 0;
    const auto sorts = measured([&](Run& run) { sort_apart(run, dtype, &kElsewhere, nullptr, {1, count}, stably); });
    if (!merges(dtype, 1)) return sorts;
    const std::vector<int64_t> halves{count - count / 2, count / 2};
    return std::max(sorts, measured([&](Run& run) { merge_row(run, dtype, nullptr, nullptr, halves, stably); }));
  }
  void merge(DType dtype, const void* in, void* out, const std::vector<int64_t>& lengths, bool stably,
             const ExecContext& context) override {
    const auto count = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    if (count == 0) return;
    queue(context, [&](Run& run) {
      if (merges(dtype, lengths.size()))
        merge_row(run, dtype, in, out, lengths, stably);
      else
        sort_apart(run, dtype, in, out, {1, count}, stably);
    });
  }
  int64_t argsort_scratch_bytes(DType dtype, Rows rows) override {
    if (rows.elements() == 0) return 0;
    return measured([&](Run& run) { argsort_rows(run, dtype, nullptr, nullptr, rows); });
  }
  void argsort(DType dtype, const void* in, int64_t* out, Rows rows, const ExecContext& context) override {
    if (rows.elements() == 0) return;
    queue(context, [&](Run& run) { argsort_rows(run, dtype, in, out, rows); });
  }
  // A sorted row is a partition of it.
  int64_t partition_scratch_bytes(DType dtype, Rows rows) override {
    return std::max(sort_scratch_bytes(dtype, rows), select_rows_bytes(Selected::partition, dtype, rows));
  }
  void partition(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
                 const ExecContext& context) override {
    const std::vector<int64_t> wanted = ascending(kth);
    if (!selects(dtype, rows, static_cast<int64_t>(wanted.size()))) return sort(dtype, in, out, rows, context);
    queue(context, [&](Run& run) { select_rows(run, Selected::partition, dtype, in, out, rows, wanted); });
  }
  int64_t argpartition_scratch_bytes(DType dtype, Rows rows) override {
    return std::max(argsort_scratch_bytes(dtype, rows), select_rows_bytes(Selected::positions, dtype, rows));
  }
  void argpartition(DType dtype, const void* in, int64_t* out, Rows rows, const std::vector<int64_t>& kth,
                    const ExecContext& context) override {
    const std::vector<int64_t> wanted = ascending(kth);
    if (!selects(dtype, rows, static_cast<int64_t>(wanted.size()))) return argsort(dtype, in, out, rows, context);
    queue(context, [&](Run& run) { select_rows(run, Selected::positions, dtype, in, out, rows, wanted); });
  }
  int64_t select_scratch_bytes(DType dtype, Rows rows, int64_t positions) override {
    if (rows.elements() == 0) return 0;
    if (selects(dtype, rows, positions)) return select_rows_bytes(Selected::elements, dtype, rows);
    return measured([&](Run& run) { select_from_sorted(run, dtype, nullptr, nullptr, rows, {}); });
  }
  void select(DType dtype, const void* in, void* out, Rows rows, const std::vector<int64_t>& kth,
              const ExecContext& context) override {
    if (rows.elements() == 0 || kth.empty()) return;
    if (selects(dtype, rows, static_cast<int64_t>(kth.size())))
      return queue(context, [&](Run& run) { select_rows(run, Selected::elements, dtype, in, out, rows, kth); });
    queue(context, [&](Run& run) { select_from_sorted(run, dtype, in, out, rows, kth); });
  }

  void searchsorted(DType dtype, const void* sorted, Rows rows, const void* values, int64_t values_per_row, bool right,
                    int64_t* out, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    search_sorted(dtype, sorted, rows, values, values_per_row, right, out, stream.handle());
  }

  void contains(DType dtype, const void* sorted, int64_t length, const void* values, int64_t count, bool invert,
                bool* out, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    contains_sorted(dtype, sorted, length, values, count, invert, out, stream.handle());
  }
  void interpolate(const Interpolation& task, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    interpolate_points(task, stream.handle());
  }

  int64_t bincount_scratch_bytes(int64_t, int64_t) override { return 0; }
  void bincount(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out,
                const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    stream.fill(out, 0, bins * 8);
    count_bins(positions, count, weights, bins, out, stream.handle());
  }
  int64_t histogram_scratch_bytes(int64_t, int64_t) override { return 0; }
  void histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges, int64_t bins,
                 bool uniform, const double* weights, void* out, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    use_device(stream.device().index);
    stream.fill(out, 0, bins * 8);
    count_histogram(dtype, values, count, edges_dtype, edges, bins, uniform, weights, out, stream.handle());
  }
};

}  // namespace

Sorting& cuda_sorting() {
  static CudaSorting instance;
  return instance;
}

}  // namespace quarry::local::cuda
