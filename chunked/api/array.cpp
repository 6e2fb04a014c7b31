#include "quarry/chunked/api/array.h"

#include <fmt/format.h>

#include <ostream>

#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/host_value.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"

namespace quarry {

Array Array::from_local(const NdArray& array) {
  const NdArray host = array.to(local::kCpu).copy();
  const uint64_t identity = expr::content_hash(host.raw(), host.nbytes());
  auto stored = std::make_shared<exec::StoredArray>(host);
  const Grid grid = stored->grid();
  return Array(expr::stored(std::move(stored), identity, host.shape(), host.dtype(), grid));
}

const Dims& Array::shape() const { return node_->shape; }
DType Array::dtype() const { return node_->dtype; }
const Grid& Array::chunks() const { return node_->grid; }

Array Array::operator[](std::span<const local::IndexItem> index) const& {
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

std::string Array::repr() const {
  return fmt::format("Array(shape={}, dtype={}, chunks={})", local::to_string(shape()), local::name(dtype()),
                     chunks().to_string());
}
std::ostream& operator<<(std::ostream& out, const Array& array) { return out << array.repr(); }

std::vector<NdArray> to_host(std::span<const Array> arrays) {
  const std::vector<expr::NodePtr> nodes = nodes_of(arrays);
  std::vector<NdArray> values;
  std::vector<local::Reservation> reserved;
  for (const auto& stored : exec::persist(nodes, "to_host", nodes.size()))
    values.push_back(exec::take_host_value(*stored, reserved));
  return values;
}

NdArray Array::to_host() const { return quarry::to_host(std::span<const Array>(this, 1)).front(); }

namespace {

// What was computed of an expression: with chosen chunks where that has them, so that what is made of it has the same
// chunks, and bits, as what is made of the expression.
Array array_of(const std::shared_ptr<exec::StoredArray>& stored, const expr::Node& computed) {
  // The same on every rank, since every rank persists the same arrays.
  uint64_t& persisted = Runtime::current().internals().persisted;
  return Array(
      expr::stored(stored, ++persisted, stored->grid().shape(), stored->dtype(), stored->grid(), computed.chosen_grid));
}

}  // namespace

std::vector<Array> persist(std::span<const Array> arrays) {
  const std::vector<expr::NodePtr> nodes = nodes_of(arrays);
  std::vector<Array> result;
  for (const auto& stored : exec::persist(nodes, "persist")) result.push_back(array_of(stored, *nodes[result.size()]));
  return result;
}

Settled settle(std::span<const Array> values, std::span<const Array> keep, InPlans in_plans) {
  std::vector<expr::NodePtr> nodes;
  // In one chunk each, which travels to the other ranks in one message.
  for (const Array& value : values) nodes.push_back(expr::rechunk(value.node(), Grid::single(value.shape())));
  for (const Array& array : keep) nodes.push_back(array.node());
  Settled settled;
  settled.is_planned = static_cast<bool>(Runtime::current().internals().instead_of_running);
  std::vector<local::Reservation> reserved;
  const exec::HostValues why = in_plans == InPlans::zeros ? exec::HostValues::guessed : exec::HostValues::needed;
  for (const auto& stored : exec::persist(nodes, "compute", values.size(), why)) {
    if (settled.values.size() < values.size())
      settled.values.push_back(exec::take_host_value(*stored, reserved));
    else
      settled.kept.push_back(array_of(stored, *keep[settled.kept.size()].node()));
  }
  return settled;
}

double settled_number(const Array& number, double in_plans) {
  const Settled known = settle(std::span(&number, 1), {}, InPlans::zeros);
  return known.is_planned ? in_plans : known.values[0].item().as_double();
}

Array Array::persist() const { return quarry::persist(std::span<const Array>(this, 1)).front(); }

}  // namespace quarry
