// Operators whose result is put together from boxes of the arguments: one copying task per chunk.
#pragma once

#include <vector>

#include "quarry/chunked/op/operator.h"

namespace quarry::algo {

class Copying : public op::Operator {
 public:
  // A box of an argument and its place in a chunk of the output, in elements.
  struct Piece {
    op::Need need;
    int64_t offset = 0;
    Dims strides;  // of the chunk, per axis of the box
  };
  // Together they are the chunk.
  virtual std::vector<Piece> pieces(const op::Call& call, int64_t chunk) const = 0;

  bool is_chunked() const final { return true; }
  bool streams() const final { return true; }
  bool copies() const final { return true; }
  void needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const final;
  void lower(exec::Builder& builder, const plan::Applied& stage) const final;
};

}  // namespace quarry::algo
