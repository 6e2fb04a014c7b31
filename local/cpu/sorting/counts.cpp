#include "quarry/local/cpu/sorting/counts.h"

#include <algorithm>
#include <type_traits>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/cpu/arena.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local::cpu {
namespace {

// The elements are cut into parts with counts of their own, which are added in order: the sums do not depend on the
// number of threads.
int64_t parts_of(int64_t count, int64_t bins) {
  constexpr int64_t kMostParts = 16, kLeast = int64_t{1} << 15;
  const int64_t by_count = count / kLeast, by_bins = count / std::max<int64_t>(4 * bins, 1);
  return std::clamp<int64_t>(std::min(by_count, by_bins), 1, kMostParts);
}

// bin(i): of element i, outside [0, bins) for none.
template <class Sum, class Bin>
void accumulate(int64_t count, int64_t bins, const double* weights, Sum* out, char* scratch, int threads, Bin&& bin) {
  const int64_t parts = parts_of(count, bins);
  const int64_t stride =
      rounded_allocation(bins * static_cast<int64_t>(sizeof(Sum))) / static_cast<int64_t>(sizeof(Sum));
  const int slots = threads > 0 ? std::min(threads, arena_threads()) : arena_threads();
  const auto sums_of = [&](int64_t part) {
    return part == 0 ? out : reinterpret_cast<Sum*>(scratch) + (part - 1) * stride;
  };
  for_each_unit(parts, slots, [&](int64_t part, int) {
    Sum* const sums = sums_of(part);
    std::fill_n(sums, bins, Sum{0});
    const int64_t end = count * (part + 1) / parts;
    for (int64_t i = count * part / parts; i < end; ++i) {
      const auto b = static_cast<uint64_t>(bin(i));
      if (b >= static_cast<uint64_t>(bins)) continue;
      if constexpr (std::is_same_v<Sum, double>)
        sums[b] += weights[i];
      else
        ++sums[b];
    }
  });
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t b = 0; b < bins; ++b) out[b] += sums_of(part)[b];
}

template <class Bin>
void accumulate(int64_t count, int64_t bins, const double* weights, void* out, char* scratch, int threads, Bin&& bin) {
  if (weights)
    accumulate(count, bins, weights, static_cast<double*>(out), scratch, threads, bin);
  else
    accumulate(count, bins, weights, static_cast<int64_t*>(out), scratch, threads, bin);
}

}  // namespace

int64_t count_scratch_bytes(int64_t count, int64_t bins) {
  return (parts_of(count, bins) - 1) * rounded_allocation(bins * 8);
}

void bincount(const int64_t* positions, int64_t count, const double* weights, int64_t bins, void* out, char* scratch,
              int threads) {
  accumulate(count, bins, weights, out, scratch, threads, [positions](int64_t i) { return positions[i]; });
}

void histogram(DType dtype, const void* values, int64_t count, DType edges_dtype, const void* edges, int64_t bins,
               bool uniform, const double* weights, void* out, char* scratch, int threads) {
  const auto run = [&]<class Edge>() {
    const auto* edge = static_cast<const Edge*>(edges);
    const Edge lowest = edge[0], highest = edge[bins];
    dispatch(dtype, [&]<class T>() {
      if constexpr (std::is_convertible_v<T, double>) {
        const auto* data = static_cast<const T*>(values);
        if (uniform) {
          const double scale = static_cast<double>(bins) / (static_cast<double>(highest) - static_cast<double>(lowest));
          accumulate(count, bins, weights, out, scratch, threads, [=](int64_t i) -> int64_t {
            const auto x = static_cast<Edge>(data[i]);
            if (!(x >= lowest && x <= highest)) return -1;
            auto b = static_cast<int64_t>(static_cast<double>(x - lowest) * scale);
            b = std::clamp<int64_t>(b, 0, bins - 1);
            while (b > 0 && x < edge[b]) --b;
            while (b < bins - 1 && x >= edge[b + 1]) ++b;
            return b;
          });
          return;
        }
        accumulate(count, bins, weights, out, scratch, threads, [=](int64_t i) -> int64_t {
          const auto x = static_cast<Edge>(data[i]);
          if (!(x >= lowest && x <= highest)) return -1;
          int64_t first = 0, n = bins;  // the last edge that is not above x, below the highest one
          while (n > 1) {
            const int64_t half = n / 2;
            first = edge[first + half] <= x ? first + half : first;
            n -= half;
          }
          return first;
        });
      } else {
        throw InternalError("histogram of complex values");
      }
    });
  };
  if (edges_dtype == DType::float64) return run.operator()<double>();
  if (edges_dtype == DType::int64) return run.operator()<int64_t>();
  QUARRY_CHECK(edges_dtype == DType::uint64);
  run.operator()<uint64_t>();
}

}  // namespace quarry::local::cpu
