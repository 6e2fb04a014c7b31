#include "quarry/chunked/plan/stage.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/grid/tree.h"
#include "quarry/chunked/plan/grids.h"

namespace quarry::plan {

AccessMap AccessMap::identity(int ndim) {
  AccessMap map;
  map.axes.reserve(static_cast<size_t>(ndim));
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

int64_t largest_bytes(const Stage::Output& output) {
  return largest_chunk_bytes(output.grid, local::itemsize(output.dtype));
}

// Of the largest chunk of every output together.
int64_t output_bytes(const Stage& stage) {
  int64_t bytes = 0;
  for (const Stage::Output& output : stage.outputs) bytes += largest_bytes(output);
  return bytes;
}

bool on_cpu(const Stage& stage) { return stage.device == local::DeviceKind::cpu; }

// What a task has of an input of which it reads a box, where one rank owns everything: the chunk that it lies in, or
// the box, which another task has brought.
struct Part {
  int64_t bytes = 0;
  int64_t bringing_bytes = 0;  // of that task
};

// The input that a task on the CPU computes on while it reads it (ADR 3).
const Input* largest_file(const std::vector<Input>& inputs) {
  const Input* largest = nullptr;
  for (const Input& input : inputs) {
    if (input.array.kind != ArrayRef::Kind::dataset || local::element_count(input.shape) == 0) continue;
    if (largest == nullptr || local::element_count(input.shape) > local::element_count(largest->shape))
      largest = &input;
  }
  return largest;
}

// Of a task that makes so many bytes, copied out of blocks in which it reads as many or fewer.
int64_t copy_bytes(const Stage& stage, int64_t made, int64_t read) {
  return made + (on_cpu(stage) ? copy_staging_bytes(made) : read);
}

Part part_of(const Stage& stage, const Input& input, const Region& box) {
  const Region region = input.map.region(box, input.shape.size());
  const int64_t packed = region.elements() * local::itemsize(input.dtype);
  if (packed == 0) return {};
  if (input.array.kind == ArrayRef::Kind::dataset)
    return {packed, packed + (on_cpu(stage) ? input.array.dataset->read_scratch_bytes(region) : 0)};
  int64_t chunk = local::itemsize(input.dtype), part = chunk;
  for (int d = 0; d < region.ndim(); ++d) {
    const int64_t first = region.start[d], last = first + (region.count[d] - 1) * region.step[d];
    const AxisChunks& cuts = input.grid.axis(d);
    const int64_t at = cuts.find(first);
    if (cuts.find(last) != at) return {packed, copy_bytes(stage, packed, packed)};  // put together
    chunk *= cuts.size(at);
    part *= std::abs(last - first) + 1;
  }
  if (!is_taken_out(chunk, part)) return {chunk, 0};
  return {part, on_cpu(stage) ? copy_bytes(stage, part, 0) : part};
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
  constexpr int64_t kMerged = 10;  // states that a task merges, with what it makes of them
  const Region box = stage.grid.chunk(largest_chunk(stage.grid));
  int64_t bytes = 0, most = 0, states = 0, kept = 1;
  for (size_t i = 0; i < program.outputs().size(); ++i) bytes += largest_bytes(stage.outputs[i]);
  for (int d = 0; d < box.ndim(); ++d)
    if (!(reduce_axes >> d & 1)) kept *= box.count[d];
  for (const local::ProgramReduction& r : program.reductions())
    for (const local::DType dtype : local::state_dtypes(r.reduction, r.accumulate))
      states += kept * local::itemsize(dtype);
  bytes += states;
  const Input* const streamed = on_cpu(stage) ? largest_file(inputs) : nullptr;
  for (const Input& input : inputs) {
    if (&input == streamed) {
      constexpr int64_t kPieceMargin = 64 << 10;
      bytes +=
          input.array.dataset->visit_scratch_bytes(input.map.region(box, input.shape.size())) + kPieceMargin + states;
      continue;
    }
    const Part part = part_of(stage, input, box);
    bytes += part.bytes;
    most = std::max(most, part.bringing_bytes);
  }
  for (const auto& applied : made) bytes += applied->chunk_bytes(largest_chunk(stage.grid));
  const int64_t merging = stage.grid.count() > 1 ? kMerged * states : 0;
  return std::max({bytes, most, merging});
}

int64_t Fused::file_bytes(const Stage& stage) const {
  int64_t bytes = 0;
  for (const Input& input : inputs) bytes += input.file_bytes(stage.shape);
  for (const auto& applied : made) bytes += applied->file_bytes(stage);
  return bytes;
}

// --- Assemble ---

int64_t Assemble::task_bytes(const Stage& stage) const {
  return copy_bytes(stage, output_bytes(stage), input.region_bytes(stage.grid.largest()));
}

int64_t Assemble::file_bytes(const Stage& stage) const { return input.file_bytes(stage.shape); }

// --- MatMul ---

std::vector<const Input*> MatMul::reads() const {
  if (syrk) return {&b};
  return {&a, &b};
}

int64_t MatMul::task_bytes(const Stage& stage) const {
  // A task takes several chunks of k where there are many. It adds to what another one has made, or adds two of them.
  const expr::View::Axis& k = b.map.axes[static_cast<size_t>(stage.shape.size()) - 2];
  const AxisChunks& steps = b.grid.axis(k.source);
  const int64_t together = products_in_task(steps.extent(), std::max<int64_t>(steps.largest(), 1));
  const int64_t made = output_bytes(stage);
  int64_t bytes = steps.count() > kSegments * together ? 2 * made : made;
  for (const Input* input : reads())
    bytes += together * largest_chunk_bytes(input->grid, local::itemsize(input->dtype));
  return std::max(bytes, steps.count() > together ? 3 * made : 0);
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
  const int64_t chunk = largest_chunk(stage.grid);
  std::vector<op::Need> needs;
  op->needs(call, chunk, needs);
  int64_t read = 0, most = 0;
  for (const op::Need& need : needs) {
    if (const Fused* work = prologue(need.argument)) {
      read += local::element_count(need.box.count) *
              local::itemsize(call.arguments[static_cast<size_t>(need.argument)].dtype);
      for (const Input& input : work->inputs) read += input.region_bytes(need.box.count);
      continue;
    }
    const Input& input = inputs[static_cast<size_t>(need.argument)];
    const Part part = part_of(stage, input, need.box);
    read += op->copies() ? input.region_bytes(need.box.count) : part.bytes;
    // Who copies takes boxes across chunks as the parts that they are.
    const bool is_brought = !op->copies() || input.array.kind == ArrayRef::Kind::dataset;
    if (is_brought) most = std::max(most, part.bringing_bytes);
  }
  const int64_t made = output_bytes(stage);
  const int64_t bytes = op->copies() ? copy_bytes(stage, made, read) : made + op->scratch_bytes(call, chunk) + read;
  return std::max(bytes, most);
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
