#include "quarry/chunked/algo/copying.h"

#include "quarry/chunked/exec/lowering/copies.h"

namespace quarry::algo {

void Copying::needs(const op::Call& call, int64_t chunk, std::vector<op::Need>& needs) const {
  for (Piece& piece : pieces(call, chunk)) needs.push_back(std::move(piece.need));
}

void Copying::lower(exec::Builder& builder, const plan::Applied& stage) const {
  exec::lower_copies(builder, [this, &stage](int64_t chunk) {
    const int64_t itemsize = local::itemsize(stage.call.outputs[0].dtype);
    std::vector<exec::CopyRegion> regions;
    for (Piece& piece : pieces(stage.call, chunk)) {
      for (int64_t& stride : piece.strides) stride *= itemsize;
      regions.push_back({&stage.inputs[static_cast<size_t>(piece.need.argument)], std::move(piece.need.box),
                         piece.offset * itemsize, std::move(piece.strides)});
    }
    return regions;
  });
}

}  // namespace quarry::algo
