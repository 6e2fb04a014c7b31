// Which rank sums which part of k of which tile of a product c = a b of P ranks. One of
// - tiles: the owner of a tile sums all of it, and operands travel: of ranks in p_m rows and p_n columns each reads
//   m k / p_m + k n / p_n elements, about 2 n^2 / sqrt(P);
// - layers: p_m x p_n ranks in each of p_k layers, each of which sums a p_k-th of the fixed tree's segments: whole
//   subtrees where p_k is a power of two. A rank reads m k / (p_m p_k) + k n / (p_n p_k) elements of operands, receives
//   m n (p_k - 1) / P of sums, about 2 n^2 / sqrt(p_k P) + n^2 p_k / P, and holds m n / (p_m p_n) of sums until the end
//   (2.5-D: Solomonik and Demmel 2011, "Communication-optimal parallel 2.5D matrix multiplication and LU factorization
//   algorithms");
// - along k: where b's rows are: a's columns travel there, and sums of all tiles from there.
// The tree is the same in all of them, and so are the bits.
#pragma once

#include <cstdint>
#include <vector>

#include "quarry/chunked/grid/ownership.h"
#include "quarry/chunked/grid/tree.h"
#include "quarry/chunked/plan/stage.h"

namespace quarry::exec {

// The chunks of k: those of b's row axis, or of a's column axis, where a whole axis of the array is mapped.
AxisChunks product_steps(const plan::MatMul& product);
// In a product's space, the box of a tile with chunk `k` along `axis`.
Region product_box(const Grid& tiles, const AxisChunks& steps, int64_t tile, int64_t k, int axis);

// Whether a stage is a product of a large matrix and a few columns or rows whose tiles in blocks are where the matrix
// is: that is in blocks of whole rows of chunks, or of columns that are not cut, it is larger than the other operand
// times the number of ranks, and every rank has tiles. The owners of what the stage reads are settled.
bool tiles_follow_an_operand(const plan::Stage& stage, const Ownership& ranks);

// The way that is taken, the same on every rank: with few tiles along k, unless owners of tiles are as many ranks and
// receive less; layers where ranks receive much less by them, none has much more to do, and its sums are a small part
// of `memory_bytes` (0: no limit). `layers`: so many, where the owners of tiles can be divided so; 0: as many as are
// best. The owners of the stage and of what it reads are settled.
plan::MatMul::Ranks choose_product_ranks(const plan::Stage& stage, const Ownership& ranks, int64_t memory_bytes,
                                         int layers = 0);

// Of a stage and ranks that outlive it.
class ProductPlaces {
 public:
  ProductPlaces(const plan::Stage& stage, const Ownership& ranks, const plan::MatMul::Ranks& chosen);

  const AxisChunks& steps() const { return steps_; }
  const Tree& tree() const { return tree_; }
  bool are_along_k() const { return chosen_.along_k; }
  // Whether several ranks sum parts of a tile.
  bool are_split() const { return chosen_.along_k || chosen_.layers > 1; }

  // The rank that has the sum at a node of a tile's tree. By tiles and layers the whole tile's is its owner.
  int home(int64_t tile, int level, int64_t node) const;
  // Tiles of which a rank sums something, in ascending order.
  OwnedChunks tiles_of(int rank) const;
  int layer(int64_t segment) const { return static_cast<int>(segment * chosen_.layers / tree_.segments()); }

  // All bytes that ranks receive, where `a` and `b` are the owners of the operands' chunks (owners_of_operand()) and
  // two arrays.
  double received_bytes(const std::vector<int>& a, const std::vector<int>& b) const;
  // By chunk along `axis` of the tiles, then of k; -1: on every rank.
  std::vector<int> owners_of_operand(const plan::Input& input, int axis) const;
  // Products of a tile and a chunk of k, of the rank that has the most.
  int64_t most_products() const;

 private:
  int64_t count(int axis) const { return tiles_.axis(axis).count(); }  // of tiles
  // The owners of tiles are ranks in rows and columns: of those a layer is a rectangle of chosen_.rows x
  // chosen_.columns.
  int layer_at(int64_t row, int64_t column) const;
  int rank_at(int64_t row, int64_t column) const;
  int rank_in(int layer, int64_t tile) const;
  int layer_of_node(int own, int level, int64_t node) const;
  int64_t last_segment(int level, int64_t node) const;
  int home_along_k(int64_t tile, int64_t segment) const;
  int owner_of(const plan::Input& input, const Region& box) const;
  double received_operand(const std::vector<int>& owners, int axis) const;
  double received_sums() const;
  double received_along_k(const std::vector<int>& a, const std::vector<int>& b) const;

  const plan::Stage& stage_;
  const plan::MatMul& product_;
  const Grid& tiles_;
  const Ownership& ranks_;
  const AxisChunks steps_;
  const Tree tree_;
  const plan::MatMul::Ranks chosen_;
};

}  // namespace quarry::exec
