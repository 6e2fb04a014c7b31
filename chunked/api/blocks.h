// Functions of chunks: names and meaning as Dask's. Lazy.
//
// A function gets one local array per argument, read-only, on the device that computes, and gives new ones; it may use
// all of quarry::local. It is called once per chunk, from several threads at once, and must depend on its arguments and
// place alone. A ChunkPlace as its last parameter says which chunk it is.
//   map_blocks([](const NdArray& a) { return local::ops::sort(a); }, x)
//   map_blocks([](const NdArray& a, const NdArray& b, const ChunkPlace& place) { ... }, {x, y}, {.dtype =
//   DType::int64})
//
// Errors inside a function name it and the chunk. Results of other shapes or dtypes than declared are InvalidArgument
// with both. A function that takes more memory than its task reserved is OutOfMemory with both numbers.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "quarry/chunked/api/operand.h"
#include "quarry/chunked/grid/chunk_function.h"

namespace quarry {

// What a function of chunks is made of, from callables of one to four arrays or a span, with or without a place.
using BlockFunction = detail::ChunkFunction;
namespace detail {
template <class R>
std::vector<NdArray> as_results(R&& result) {
  if constexpr (std::is_convertible_v<R, NdArray>) {
    return {NdArray(std::forward<R>(result))};
  } else if constexpr (requires { result.first; }) {
    return {std::move(result.first), std::move(result.second)};
  } else {
    return std::forward<R>(result);
  }
}
template <size_t... I, class F>
auto call_with(F& f, std::span<const NdArray> arrays, const ChunkPlace& place, std::index_sequence<I...>) {
  if constexpr (std::is_invocable_v<F&, decltype(arrays[I])..., const ChunkPlace&>)
    return f(arrays[I]..., place);
  else
    return f(arrays[I]...);
}
template <class F, size_t N>
concept TakesArrays = []<size_t... I>(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((static_cast<void>(I), std::declval<const NdArray&>()))...> ||
         std::is_invocable_v<F&, decltype((static_cast<void>(I), std::declval<const NdArray&>()))...,
                             const ChunkPlace&>;
}
(std::make_index_sequence<N>());
void check_count(size_t given, size_t wanted);  // throws InvalidArgument
}  // namespace detail

namespace detail {

template <class F>
BlockFunction block_function(F f) {
  if constexpr (std::is_convertible_v<F, BlockFunction>) {
    return f;
  } else if constexpr (std::is_invocable_v<F&, std::span<const NdArray>, const ChunkPlace&>) {
    return [f](std::span<const NdArray> arrays, const ChunkPlace& place) mutable {
      return detail::as_results(f(arrays, place));
    };
  } else if constexpr (std::is_invocable_v<F&, std::span<const NdArray>>) {
    return [f](std::span<const NdArray> arrays, const ChunkPlace&) mutable { return detail::as_results(f(arrays)); };
  } else {
    constexpr size_t kArrays = detail::TakesArrays<F, 1>   ? 1
                               : detail::TakesArrays<F, 2> ? 2
                               : detail::TakesArrays<F, 3> ? 3
                               : detail::TakesArrays<F, 4> ? 4
                                                           : 0;
    static_assert(kArrays > 0, "a function of chunks takes one to four arrays, or a span of them");
    return [f](std::span<const NdArray> arrays, const ChunkPlace& place) mutable {
      detail::check_count(arrays.size(), kArrays);
      return detail::as_results(detail::call_with(f, arrays, place, std::make_index_sequence<kArrays>()));
    };
  }
}

}  // namespace detail

// About a function, whatever it is used for.
struct BlockOptions {
  std::string name = "function";  // in listings, traces and errors
  // Of the results; none: found by a call on small arrays.
  std::vector<DType> dtypes = {};
  // Equal numbers say that functions are equal, so that calls on equal arguments are computed once, and that the plan
  // is the same in another run; none: every call is a function of its own.
  std::optional<uint64_t> identity = {};
  // That the function takes at most at once for a chunk, results included; none: estimated as three times the chunk's
  // arguments and results.
  std::optional<int64_t> scratch_bytes = {};
  // Finds them by a trial (local/ndarray/trial.h) instead: for functions that call quarry::local alone and read no
  // values.
  bool by_trial = false;
};

struct MapBlocksOptions {
  // Chunks of the result; none: those of the arguments, without `drop_axis`, and of one element along `new_axis`.
  std::optional<Grid> chunks = {};
  std::vector<int64_t> drop_axis = {};  // of the broadcast arguments: which the function takes away
  std::vector<int64_t> new_axis = {};   // of the result: which it adds
};
// The function of every chunk. Arguments broadcast, and are cut alike. Dropped axes of several chunks are passed whole.
// Throws InvalidArgument where `chunks` has other counts.
Array map_blocks(BlockFunction function, std::span<const Array> arrays, const MapBlocksOptions& how = {},
                 const BlockOptions& options = {});
template <class F>
Array map_blocks(F function, std::initializer_list<Array> arrays, const MapBlocksOptions& how = {},
                 const BlockOptions& options = {}) {
  return map_blocks(detail::block_function(std::move(function)), std::span<const Array>(arrays.begin(), arrays.size()),
                    how, options);
}
template <class F>
Array map_blocks(F function, const Array& array, const MapBlocksOptions& how = {}, const BlockOptions& options = {}) {
  return map_blocks(detail::block_function(std::move(function)), std::span<const Array>(&array, 1), how, options);
}

struct BlockwiseOptions {
  std::map<char, int64_t> new_axes = {};                               // an index of the result alone: its extent
  std::map<char, std::function<int64_t(int64_t)>> adjust_chunks = {};  // an index: extents of chunks in the result
};
// Indices name axes, as in einsum: blockwise(f, "ik", {{x, "ij"}, {y, "jk"}}). An index that the result lacks is passed
// whole. Throws InvalidArgument where extents differ (1 broadcasts) or indices are wrong.
struct Indexed {
  Array array;
  std::string indices;
};
Array blockwise(BlockFunction function, const std::string& out, std::span<const Indexed> arguments,
                const BlockwiseOptions& how = {}, const BlockOptions& options = {});
template <class F>
Array blockwise(F function, const std::string& out, std::initializer_list<Indexed> arguments,
                const BlockwiseOptions& how = {}, const BlockOptions& options = {}) {
  return blockwise(detail::block_function(std::move(function)), out,
                   std::span<const Indexed>(arguments.begin(), arguments.size()), how, options);
}

struct Boundary {
  Edge edge = Edge::clip;
  Scalar fill = 0;
};
struct MapOverlapOptions {
  std::vector<int64_t> depth = {};      // per axis, or one for all: elements on either side
  std::vector<Boundary> boundary = {};  // per axis, or one for all; default: the array ends at its edges
  bool trim = true;                     // takes the halo off the result, which has the shape of the argument otherwise
};
// The function of every chunk with a halo from its neighbours; the depth may be larger than a chunk. Without `trim` the
// function gives chunks without the halo.
Array map_overlap(BlockFunction function, const Array& array, const MapOverlapOptions& how,
                  const BlockOptions& options = {});
template <class F>
Array map_overlap(F function, const Array& array, const MapOverlapOptions& how, const BlockOptions& options = {}) {
  return map_overlap(detail::block_function(std::move(function)), array, how, options);
}

struct GufuncOptions {
  std::map<std::string, int64_t> output_sizes = {};  // of core dimensions that no argument has
  bool vectorize = false;  // the function takes core axes alone: it is called for each element of the loop axes
};
// A generalised ufunc: apply_gufunc(f, "(i,j),(j)->(i)", {a, b}). Core axes are the last ones and come whole; the
// others broadcast. Throws InvalidArgument for errors in the signature, with the place, and where core extents differ.
std::vector<Array> apply_gufunc(BlockFunction function, const std::string& signature, std::span<const Array> arrays,
                                const GufuncOptions& how = {}, const BlockOptions& options = {});
template <class F>
std::vector<Array> apply_gufunc(F function, const std::string& signature, std::initializer_list<Array> arrays,
                                const GufuncOptions& how = {}, const BlockOptions& options = {}) {
  return apply_gufunc(detail::block_function(std::move(function)), signature,
                      std::span<const Array>(arrays.begin(), arrays.size()), how, options);
}

// All windows of the given lengths: new axes at the end, as NumPy's. The result's elements are stored, a window's
// length times those of x. Throws InvalidArgument for windows longer than the axis.
Array sliding_window_view(const Array& x, const Dims& window_shape, const Axes& axis = {});

// A reduction of blocks of that many neighbours along each named axis: coarsen(local::ops::mean-like, x, {{0, 2}}).
// `reduction` gets an array with two axes in place of each, and the axes to reduce. Throws InvalidArgument unless
// extents are multiples, or with `trim_excess`, which drops what is left over.
Array coarsen(const std::function<NdArray(const NdArray&, const Axes&)>& reduction, const Array& x,
              const std::map<int64_t, int64_t>& axes, bool trim_excess = false, const BlockOptions& options = {});

// The function of every line along an axis, as NumPy's: what it gives for a 1-d array stands in place of the axis.
// Lines come whole. Its shape and dtype are found by a call on a line of ones, unless `result` says them.
struct LocalResult {
  Dims shape;
  DType dtype;
};
Array apply_along_axis(std::function<NdArray(const NdArray&)> function, int64_t axis, const Array& x,
                       const std::optional<LocalResult>& result = {}, const BlockOptions& options = {});

// A reduction of the user's, in two steps as Dask's: `chunk` folds every chunk along the axes, with extents of 1 left;
// `aggregate` folds what the chunks gave, joined along the axes, in the same way. Both get the axes. With `keepdims`
// the axes stay, of length 1. The bits depend on the chunks. `options.dtypes`: of what chunk() gives, and of the
// result.
using FoldFunction = std::function<NdArray(const NdArray&, const Axes& axes)>;
Array reduction(const Array& x, const FoldFunction& chunk, const FoldFunction& aggregate, const Axes& axis = {},
                bool keepdims = false, const BlockOptions& options = {});

// Any function of local arrays on arrays of one chunk, or several that fit one task. `outputs`: shapes and dtypes of
// the results. Larger ones throw NotSupported when the computation is planned.
std::vector<Array> local_call(const std::string& name, std::span<const Array> arrays,
                              const std::function<std::vector<LocalResult>(std::span<const Array>)>& infer,
                              std::function<std::vector<NdArray>(std::span<const NdArray>)> function,
                              const BlockOptions& options = {});

}  // namespace quarry
