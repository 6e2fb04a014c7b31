#include "quarry/chunked/runtime/host_value.h"

#include <vector>

#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/local/program/engine.h"

namespace quarry::exec {

void copy_region(void* to, const Dims& to_strides, const void* from, const Dims& from_strides, const Dims& count,
                 local::DType dtype) {
  local::Program program;
  program.output(program.input(dtype));
  local::Launch launch;
  launch.shape = count;
  launch.inputs.push_back({const_cast<void*>(from), from_strides});
  launch.outputs.push_back({to, to_strides});
  const local::DeviceScope scope(local::kCpu);
  local::engine(local::kCpu).run(program, launch, local::current_context());
}

int64_t offset_of(const Dims& start, const Dims& strides) {
  int64_t offset = 0;
  for (int d = 0; d < start.size(); ++d) offset += start[d] * strides[d];
  return offset;
}

local::NdArray host_value(const StoredArray& array) {
  if (array.replicated()) return array.value();
  Runtime& runtime = Runtime::current();
  const Ownership& owners = runtime.internals().owners;
  const local::DeviceScope scope(local::kCpu);
  local::NdArray result(array.grid().shape(), array.dtype());
  const int64_t itemsize = local::itemsize(array.dtype());
  const Dims strides = local::contiguous_strides(result.shape(), itemsize);
  const int64_t chunks = array.grid().count();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const Region box = array.grid().chunk(chunk);
    const int64_t bytes = box.elements() * itemsize;
    if (bytes == 0) continue;
    const int owner = owners.owner(chunk, chunks);
    // A chunk that is contiguous in the result travels without a copy.
    const Dims box_strides = local::contiguous_strides(box.count, itemsize);
    const bool in_place = chunks == 1 || box.count.size() == 1;
    auto* const place = static_cast<std::byte*>(result.raw()) + offset_of(box.start, strides);
    std::vector<std::byte> buffer(in_place ? 0 : static_cast<size_t>(bytes));
    void* const data = in_place ? place : buffer.data();
    if (owner == runtime.rank()) runtime.executor().read_stored(*array.block(chunk), 0, bytes, data);
    if (runtime.size() > 1) runtime.communicator().broadcast(data, bytes, owner);
    if (!in_place) copy_region(place, strides, data, box_strides, box.count, array.dtype());
  }
  return result;
}

}  // namespace quarry::exec
