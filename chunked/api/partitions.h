// Arrays by their chunks, and elements by points: dask.array's blocks, vindex and reshape_blockwise.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "quarry/chunked/api/operand.h"

namespace quarry {

// x.vindex[terms]: as index(), with the axes of the index arrays in front always, wherever they stand. Collective and
// blocking where a term is an array.
Array vindex(const Array& x, std::span<const IndexTerm> terms);
inline Array vindex(const Array& x, std::initializer_list<IndexTerm> terms) {
  return vindex(x, std::span<const IndexTerm>(terms.begin(), terms.size()));
}

// Some of the chunks: x.blocks[terms] and x.partitions[terms]. A term is a number of a chunk along its axis, which
// stays, a slice of them, or a list of numbers, of which there may be one; ellipsis stands for all. Chunks of the
// result are those of x. Lazy, but for lists in chunked arrays (collective, blocking). Throws IndexError naming index,
// axis and number of chunks.
Array blocks(const Array& x, std::span<const IndexTerm> terms);
inline Array blocks(const Array& x, std::initializer_list<IndexTerm> terms) {
  return blocks(x, std::span<const IndexTerm>(terms.begin(), terms.size()));
}
inline Array partitions(const Array& x, std::initializer_list<IndexTerm> terms) { return blocks(x, terms); }

// Every chunk reshaped by itself, so that nothing moves between chunks: the elements' order is reshape()'s inside the
// chunks alone. An axis of `shape` is one of x's, the product of several, or, where `chunks` are given, a part of one:
// a chunk of the result has as many elements as the chunk of x with its number. Lazy. Throws InvalidArgument where
// shapes or chunks do not fit.
Array reshape_blockwise(const Array& x, const Dims& shape, const std::optional<Grid>& chunks = std::nullopt);

}  // namespace quarry
