#include "chunked/array.h"

#include "chunked/chunking.h"
#include "chunked/exec/stored_array.h"
#include "chunked/expr/build.h"
#include "chunked/functions/manipulation.h"

namespace quarry {

Array Array::from_local(const NdArray& array) {
  const NdArray host = array.to(local::kCpu).copy();
  const uint64_t identity = expr::content_hash(host.raw(), host.nbytes());
  auto stored = std::make_shared<exec::StoredArray>(host);
  const Grid grid = stored->grid();
  return Array(expr::stored(std::move(stored), identity, host.shape(), host.dtype(), grid));
}

Array Array::operator[](std::span<const local::IndexItem> index) const {
  const local::BasicIndex basic = local::resolve_index(index, shape());
  std::vector<expr::View::Axis> axes;
  Dims counts;
  for (const local::BasicIndex::Axis& axis : basic.axes) {
    axes.push_back({axis.source, axis.start, axis.step});
    counts.push_back(axis.count);
  }
  return Array(expr::view(node_, std::move(axes), basic.integers, counts));
}

Array Array::T() const { return quarry::transpose(*this); }
Array Array::transpose(std::span<const int64_t> axes) const { return quarry::transpose(*this, axes); }
Array Array::reshape(const Dims& shape) const { return quarry::reshape(*this, shape); }
Array Array::astype(DType dtype) const { return Array(expr::cast(node_, dtype)); }
Array Array::rechunk(const Dims& chunk) const { return Array(expr::rechunk(node_, explicit_grid(shape(), chunk))); }
Array Array::rechunk(const Grid& grid) const { return Array(expr::rechunk(node_, grid)); }

}  // namespace quarry
