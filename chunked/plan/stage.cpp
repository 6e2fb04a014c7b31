#include "quarry/chunked/plan/stage.h"

#include <algorithm>
#include <utility>

#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/grids.h"

namespace quarry::plan {

AccessMap AccessMap::identity(int ndim) {
  AccessMap map;
  for (int d = 0; d < ndim; ++d) map.axes.push_back({d, 0, 1});
  return map;
}

Region AccessMap::region(const Region& box, int array_ndim) const {
  Region region = Region::box(Dims::filled(array_ndim, 0), Dims::filled(array_ndim, 1));
  for (size_t d = 0; d < axes.size(); ++d) {
    const expr::View::Axis& axis = axes[d];
    if (axis.source < 0) continue;
    region.start[axis.source] = axis.start + axis.step * box.start[static_cast<int>(d)];
    region.count[axis.source] = box.count[static_cast<int>(d)];
    region.step[axis.source] = axis.step;
  }
  for (const auto& [d, axis] : beside) {
    region.start[axis.source] = axis.start + axis.step * box.start[d];
    region.count[axis.source] = box.count[d];
    region.step[axis.source] = axis.step;
  }
  for (const auto& [source, position] : fixed) region.start[source] = position;
  // A box that is empty along a broadcast axis reads nothing, though no array axis says so.
  if (box.elements() == 0)
    for (int64_t& count : region.count) count = 0;
  return region;
}

Region Input::region(const Region& box) const {
  Region region = map.region(box, shape.size());
  if (!is_window() || region.elements() == 0) return region;
  for (int d = 0; d < region.ndim(); ++d) {
    if (reach[d] == 0) continue;
    const int64_t first = region.start[d], last = first + region.step[d] * (region.count[d] - 1);
    region.start[d] = std::min(first, last);
    region.count[d] = (std::max(first, last) + reach[d] - region.start[d]) / pitch[d] + 1;
    region.step[d] = pitch[d];
  }
  return region;
}

int64_t Input::region_bytes(const Dims& box) const {
  if (is_window()) return region(Region::box(Dims::filled(box.size(), 0), box)).elements() * local::itemsize(dtype);
  int64_t elements = 1;
  for (size_t d = 0; d < map.axes.size(); ++d)
    if (map.axes[d].source >= 0) elements *= box[static_cast<int>(d)];
  return elements * local::itemsize(dtype);
}

namespace {

// The first of the largest chunks.
int64_t largest_chunk(const Grid& grid) {
  Dims at = Dims::filled(grid.ndim());
  for (int d = 0; d < grid.ndim(); ++d) {
    const AxisChunks& axis = grid.axis(d);
    while (axis.size(at[d]) < axis.largest()) ++at[d];
  }
  return grid.flat(at);
}

// Of the largest chunk of every output together.
int64_t output_bytes(const Stage& stage) {
  int64_t bytes = 0;
  for (const Stage::Output& output : stage.outputs)
    bytes += largest_chunk_bytes(output.grid, local::itemsize(output.dtype));
  return bytes;
}

}  // namespace

// --- Fused ---

std::vector<const Input*> Fused::reads() const {
  std::vector<const Input*> all;
  all.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (arrives(i)) all.push_back(&inputs[i]);
  for (const auto& applied : made) {
    const std::vector<const Input*> below = applied->reads();
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

int64_t Fused::task_bytes(const Stage& stage) const {
  int64_t bytes = output_bytes(stage);
  for (const Input& input : inputs) bytes += input.region_bytes(stage.grid.largest());
  for (const auto& applied : made) bytes += applied->chunk_bytes(largest_chunk(stage.grid));
  return bytes;
}

int64_t Fused::file_bytes(const Stage& stage) const {
  int64_t bytes = 0;
  for (const Input& input : inputs) bytes += input.file_bytes(stage.shape);
  for (const auto& applied : made) bytes += applied->file_bytes(stage);
  return bytes;
}

// --- Assemble ---

int64_t Assemble::task_bytes(const Stage& stage) const { return 2 * output_bytes(stage); }

int64_t Assemble::file_bytes(const Stage& stage) const { return input.file_bytes(stage.shape); }

// --- MatMul ---

std::vector<const Input*> MatMul::reads() const {
  if (syrk) return {&b};
  return {&a, &b};
}

int64_t MatMul::task_bytes(const Stage& stage) const {
  int64_t bytes = 2 * output_bytes(stage);
  // A task takes several chunks of k where there are many.
  const expr::View::Axis& k = b.map.axes[static_cast<size_t>(stage.shape.size()) - 2];
  const AxisChunks& steps = b.grid.axis(k.source);
  const int64_t together = products_in_task(steps.extent(), std::max<int64_t>(steps.largest(), 1));
  for (const Input* input : reads())
    bytes += together * largest_chunk_bytes(input->grid, local::itemsize(input->dtype));
  return bytes;
}

// --- Applied ---

std::vector<const Input*> Applied::reads() const {
  std::vector<const Input*> all;
  all.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const Fused* work = prologue(static_cast<int>(i))) {
      const std::vector<const Input*> below = work->reads();
      all.insert(all.end(), below.begin(), below.end());
    } else {
      all.push_back(&inputs[i]);
    }
  }
  return all;
}

int64_t Applied::chunk_bytes(int64_t chunk) const {
  std::vector<op::Need> needs;
  op->needs(call, chunk, needs);
  int64_t bytes = op->scratch_bytes(call, chunk);
  for (const op::Need& need : needs) {
    const auto argument = static_cast<size_t>(need.argument);
    if (const Fused* work = prologue(need.argument)) {
      bytes += local::element_count(need.box.count) * local::itemsize(call.arguments[argument].dtype);
      for (const Input& input : work->inputs) bytes += input.region_bytes(need.box.count);
    } else {
      bytes += inputs[argument].region_bytes(need.box.count);
    }
  }
  return bytes;
}

int64_t Applied::task_bytes(const Stage& stage) const {
  if (one_chunk) return op->local_task_bytes(call);
  return output_bytes(stage) + chunk_bytes(largest_chunk(stage.grid));
}

int64_t Applied::file_bytes(const Stage& /*stage*/) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Dims& shape = call.arguments[i].shape;
    if (const Fused* work = prologue(static_cast<int>(i))) {
      for (const Input& input : work->inputs) bytes += input.file_bytes(shape);
    } else {
      bytes += inputs[i].file_bytes(shape);
    }
  }
  return bytes;
}

// --- Stage ---

std::string_view Stage::kind() const {
  return std::visit([](const auto& work) { return work.kind(); }, work);
}

std::vector<const Input*> Stage::reads() const {
  return std::visit([](const auto& work) { return work.reads(); }, work);
}

std::vector<Input*> Stage::reads() {
  std::vector<Input*> result;
  for (const Input* input : std::as_const(*this).reads()) result.push_back(const_cast<Input*>(input));
  return result;
}

bool Stage::is_barrier(int output) const {
  return std::visit([&](const auto& work) { return work.is_barrier(output); }, work);
}

int64_t Stage::task_bytes() const {
  return std::visit([&](const auto& work) { return work.task_bytes(*this); }, work);
}

int64_t Stage::file_bytes() const {
  return std::visit([&](const auto& work) { return work.file_bytes(*this); }, work);
}

}  // namespace quarry::plan
