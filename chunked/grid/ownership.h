// Which rank owns which chunks of an array.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/chunked/grid/grid.h"

namespace quarry {

// How the chunks of an array are dealt out: a part of plans and of stored arrays, which knows no ranks.
struct Owners {
  enum class Kind : uint8_t { blocks, cyclic, everywhere };
  Kind kind = Kind::blocks;
  // cyclic: of ranks, along the last two axes of chunks. 0: not settled yet (Ownership::settled()).
  int rows = 1, columns = 1;

  // Each rank has one run of the chunks, in C order.
  static Owners blocks() { return {}; }
  // The last axis of chunks is dealt to `columns` ranks in turn: panels of a factorisation. 0: to all ranks.
  static Owners cyclic(int columns = 0);
  // The last two axes are dealt to rows x columns ranks, the matrices of a stack to the next ones: tiles. (0, 0): to
  // all ranks, in a rectangle that fits the chunks. Throws InvalidArgument for one 0, or less.
  static Owners cyclic(int rows, int columns);
  // Every rank has all of them.
  static Owners everywhere() { return {Kind::everywhere}; }

  std::string to_string() const;  // "blocks", "cyclic(2, 3)"
  friend bool operator==(const Owners&, const Owners&) = default;
};

// The chunks of an array that one rank owns, in ascending order.
class OwnedChunks {
 public:
  OwnedChunks(int64_t first, int64_t last) : first_(first), count_(last - first) {}
  explicit OwnedChunks(std::vector<int64_t> chunks)
      : count_(static_cast<int64_t>(chunks.size())), chunks_(std::move(chunks)) {}

  int64_t size() const { return count_; }
  int64_t operator[](int64_t i) const { return chunks_.empty() ? first_ + i : chunks_[static_cast<size_t>(i)]; }
  // Where a chunk is in the list; -1: it is not this rank's.
  int64_t index_of(int64_t chunk) const;

  class Iterator {
   public:
    Iterator(const OwnedChunks& chunks, int64_t at) : chunks_(&chunks), at_(at) {}
    int64_t operator*() const { return (*chunks_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const OwnedChunks* chunks_;
    int64_t at_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, count_}; }

 private:
  int64_t first_ = 0, count_ = 0;
  std::vector<int64_t> chunks_;  // empty: they follow each other
};

// The ranks among which chunks are dealt out. A value: every Runtime has its own. Owners decide who computes, never
// what: results do not depend on ranks or weights.
class Ownership {
 public:
  Ownership() = default;         // one rank
  explicit Ownership(int ranks)  // each as much as the others
      : ranks_(ranks) {}
  // How much of every array each rank owns, in any unit: for ranks of different speed. Throws InvalidArgument for
  // weights that are not positive or add up to more than 2^31.
  explicit Ownership(std::span<const int64_t> weights);

  int ranks() const { return ranks_; }
  bool is_equal() const { return weight_sums_.empty(); }  // each rank owns as much as the others
  // Of blocks: the owner of chunk `chunk` of `count`, and the chunks [first, last) that a rank owns.
  int owner(int64_t chunk, int64_t count) const;
  std::pair<int64_t, int64_t> owned(int rank, int64_t count) const;
  // Of owners that are settled, of any kind but everywhere for owner().
  int owner(const Owners& owners, const Grid& grid, int64_t chunk) const;
  // Of a chunk of any array, the rank from which `rank` has it: itself where it is everywhere.
  int source(const Owners& owners, const Grid& grid, int64_t chunk, int rank) const {
    return owners.kind == Owners::Kind::everywhere ? rank : owner(owners, grid, chunk);
  }
  OwnedChunks owned(const Owners& owners, const Grid& grid, int rank) const;
  // With numbers of ranks for all that is 0. Tiles become blocks where a rectangle would give a rank too many of them.
  Owners settled(const Owners& owners, const Grid& grid) const;

 private:
  // Where chunk (i, j) of matrix b has its owner: at place (b rows columns + i % rows columns + j % columns) % places.
  struct Pattern {
    int64_t matrices, chunk_rows, chunk_columns;  // of the grid
    int64_t rows, columns, places;
  };
  Pattern pattern_of(const Owners& owners, const Grid& grid) const;
  int64_t first_chunk(int rank, int64_t count) const;
  // Of `places` that are dealt to the ranks in order, by their weights.
  int rank_at(int64_t place, int64_t places) const;
  int64_t first_place(int rank, int64_t places) const;

  int ranks_ = 1;
  std::vector<int64_t> weight_sums_;  // of the weights before each rank, and of all; empty: equal weights
};

}  // namespace quarry
