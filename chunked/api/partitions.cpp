#include "quarry/chunked/api/partitions.h"

#include <fmt/format.h>

#include <numeric>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/index_terms.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/local/base/error.h"

namespace quarry {

using namespace compose;

Array vindex(const Array& x, std::span<const IndexTerm> terms) {
  const IndexParts parts = parts_of(x, terms);
  Array result = index(x, terms);
  if (!parts.has_arrays || parts.place == 0) return result;
  const Array left = x[parts.basic];
  int indexed = 0;
  for (const auto& [array, axis] : parts.arrays) indexed += array.dtype() == DType::bool_ ? array.ndim() : 1;
  const int added = result.ndim() - (left.ndim() - indexed);
  std::vector<int64_t> source(static_cast<size_t>(added)), destination(source.size());
  std::iota(source.begin(), source.end(), parts.place);
  std::iota(destination.begin(), destination.end(), 0);
  return arrange::moveaxis(result, source, destination);
}

namespace {

// The chunks of an axis that a term names, and whether it is a list.
std::vector<int64_t> named_chunks(const IndexTerm& term, int axis, int64_t count) {
  const auto checked = [&](int64_t i) {
    if (i < -count || i >= count)
      throw local::IndexError(fmt::format("index {} is out of bounds for axis {} with {} chunks", i, axis, count));
    return i < 0 ? i + count : i;
  };
  std::vector<int64_t> chunks;
  if (const auto* position = std::get_if<int64_t>(&term.value())) return {checked(*position)};
  if (const auto* slice = std::get_if<Slice>(&term.value())) {
    const local::IndexItem item = *slice;
    const local::BasicIndex::Axis found = local::resolve_index(std::span(&item, 1), {count}).axes[0];
    for (int64_t i = 0; i < found.count; ++i) chunks.push_back(found.start + i * found.step);
    return chunks;
  }
  const Array& list = std::get<Array>(term.value());
  if (list.ndim() != 1 || (!local::is_integer(list.dtype()) && list.dtype() != DType::bool_))
    throw local::IndexError("chunks are chosen by integers, slices, and lists of integers");
  const std::vector<int64_t> values = settled(list);
  if (list.dtype() != DType::bool_) {
    for (const int64_t value : values) chunks.push_back(checked(value));
    return chunks;
  }
  if (std::ssize(values) != count)
    throw local::IndexError(fmt::format("a mask of {} chunks for axis {} with {}", values.size(), axis, count));
  for (int64_t i = 0; i < count; ++i)
    if (values[static_cast<size_t>(i)] != 0) chunks.push_back(i);
  return chunks;
}

}  // namespace

Array blocks(const Array& x, std::span<const IndexTerm> terms) {
  int named = 0, ellipses = 0, lists = 0;
  for (const IndexTerm& term : terms) {
    if (std::holds_alternative<local::NewAxis>(term.value()))
      throw local::IndexError("newaxis is no chunk: index the result with it");
    const bool is_ellipsis = std::holds_alternative<local::Ellipsis>(term.value());
    ellipses += is_ellipsis;
    named += !is_ellipsis;
    lists += std::holds_alternative<Array>(term.value());
  }
  if (ellipses > 1) throw local::IndexError("an index can only have a single ellipsis ('...')");
  if (lists > 1) throw local::IndexError("chunks are chosen by one list only");
  if (named > x.ndim())
    throw local::IndexError(
        fmt::format("too many indices for array: array is {}-dimensional, but {} were indexed", x.ndim(), named));
  Array result = x;
  std::vector<AxisChunks> cuts = x.chunks().axes();
  int axis = 0;
  for (const IndexTerm& term : terms) {
    if (std::holds_alternative<local::Ellipsis>(term.value())) {
      axis += x.ndim() - named;
      continue;
    }
    const AxisChunks own = x.chunks().axis(axis);
    std::vector<int64_t> extents;
    std::vector<Array> parts;
    const std::vector<int64_t> chunks = named_chunks(term, axis, own.count());
    for (size_t i = 0; i < chunks.size();) {
      // Neighbours are one slice.
      const int64_t first = chunks[i];
      int64_t end = first;
      for (; i < chunks.size() && chunks[i] == end; ++i, ++end) extents.push_back(own.size(end));
      parts.push_back(arrange::part(result, axis, own.start(first), own.start(end) - own.start(first)));
    }
    if (parts.empty()) parts.push_back(arrange::part(result, axis, 0, 0));
    result = joined(parts, axis);
    cuts[static_cast<size_t>(axis)] = AxisChunks(extents);
    ++axis;
  }
  return result.rechunk(Grid(std::move(cuts)));
}

Array reshape_blockwise(const Array& x, const Dims& shape, const std::optional<Grid>& chunks) {
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(fmt::format("reshape_blockwise: {} does not become {}: {}", local::to_string(x.shape()),
                                      local::to_string(shape), what));
  };
  if (local::element_count(shape) != x.size()) fail("the numbers of elements differ");
  if (x.size() == 0) return constant(shape, 0, x.dtype());
  if (chunks) {
    if (chunks->shape() != shape) fail("the chunks are for " + local::to_string(chunks->shape()));
    if (chunks->count() != x.chunks().count()) fail("there are other numbers of chunks");
    for (int64_t i = 0; i < chunks->count(); ++i)
      if (chunks->chunk_elements(i) != x.chunks().chunk_elements(i))
        fail(fmt::format("chunk {} has {} elements, and {} in the result", i, x.chunks().chunk_elements(i),
                         chunks->chunk_elements(i)));
    return Array(algo::reshape_chunks(x.node(), *chunks));
  }
  // Neighbouring axes merge; their chunks too, in C order.
  std::vector<AxisChunks> merged;
  int d = 0;
  for (int out = 0; out < shape.size(); ++out) {
    std::vector<int64_t> extents{1};
    int64_t extent = 1;
    const int first = d;
    while (d < x.ndim() && (d == first || extent < shape[out] || (out + 1 == shape.size()))) {
      std::vector<int64_t> next;
      const AxisChunks& cuts = x.chunks().axis(d);
      for (const int64_t before : extents)
        for (int64_t i = 0; i < cuts.count(); ++i) next.push_back(before * cuts.size(i));
      extents = std::move(next);
      extent *= x.shape()[d++];
    }
    if (extent != shape[out]) fail("axes can be merged, and split only where the chunks of the result are given");
    merged.emplace_back(extents);
  }
  if (d != x.ndim()) fail("axes can be merged, and split only where the chunks of the result are given");
  return Array(algo::reshape_chunks(x.node(), Grid(std::move(merged))));
}

}  // namespace quarry
