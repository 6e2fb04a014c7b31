#include "quarry/chunked/runtime/host_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <vector>

#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/program/engine.h"

namespace quarry::exec {
namespace {

// Of a budget, one part in so many needs no second look.
constexpr int64_t kSurelyFits = 16;

}  // namespace

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

void check_host_values(std::span<const expr::NodePtr> nodes, HostValues why, const comm::Call& call) {
  int64_t values = 0;
  for (const expr::NodePtr& node : nodes) values += local::element_count(node->shape) * local::itemsize(node->dtype);
  Runtime& runtime = Runtime::current();
  if (values <= runtime.plan_bytes() / kSurelyFits) return;
  int64_t largest[] = {-(runtime.memory_bytes() + runtime.host_bytes())};
  comm::agree(runtime.communicator(), nullptr, call, largest);
  const int64_t bytes = -largest[0];
  if (values <= bytes) return;
  const std::string text =
      why == HostValues::asked
          ? fmt::format(
                "values of {} bytes ({}) do not fit in the memory of every rank, whose budget is {} bytes; "
                "store() writes arrays of any size to a file",
                values, local::format_bytes(values), bytes)
          : fmt::format(
                "the computation does not fit a memory budget of {} bytes per rank: what every rank has to know "
                "before it goes on takes {} bytes ({})",
                bytes, values, local::format_bytes(values));
  throw local::BudgetError(text, values);
}

namespace {

// A chunk in parts of whole rows of its first axis that is longer than one, so that each is one run of its block.
std::vector<Region> parts_of(const Region& box, int64_t itemsize) {
  constexpr int64_t kPartBytes = 1 << 20;
  int axis = 0;
  while (axis < box.ndim() - 1 && box.count[axis] == 1) ++axis;
  const int64_t bytes = box.elements() * itemsize;
  if (box.ndim() == 0 || bytes <= kPartBytes) return {box};
  const int64_t rows = std::max<int64_t>(1, kPartBytes / (bytes / box.count[axis]));
  std::vector<Region> parts;
  for (int64_t first = 0; first < box.count[axis]; first += rows) {
    parts.push_back(box);
    parts.back().start[axis] += first;
    parts.back().count[axis] = std::min(rows, box.count[axis] - first);
  }
  return parts;
}

// `reserve` and `drop` are called for the chunks in turn: before the bytes of one are written, and when this rank has
// read one of its own.
local::NdArray gathered(const StoredArray& array, const std::function<local::Reservation(int64_t bytes)>& reserve,
                        std::vector<local::Reservation>& reserved, const std::function<void(int64_t chunk)>& drop) {
  Runtime& runtime = Runtime::current();
  const Ownership& owners = runtime.internals().owners;
  const local::DeviceScope scope(local::kCpu);
  local::NdArray result(array.grid().shape(), array.dtype());
  const int64_t itemsize = local::itemsize(array.dtype());
  const Dims strides = local::contiguous_strides(result.shape(), itemsize);
  const int64_t chunks = array.grid().count();
  std::vector<std::byte> buffer;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const Region box = array.grid().chunk(chunk);
    const int64_t bytes = box.elements() * itemsize;
    if (bytes == 0) continue;
    const bool everywhere = array.owners().kind == Owners::Kind::everywhere;
    const int owner = everywhere ? runtime.rank() : owners.owner(array.owners(), array.grid(), chunk);
    reserved.push_back(reserve(bytes));
    for (const Region& part : parts_of(box, itemsize)) {
      const int64_t part_bytes = part.elements() * itemsize;
      // One that is contiguous in the result travels without a copy.
      const Dims part_strides = local::contiguous_strides(part.count, itemsize);
      const bool in_place = chunks == 1 || part.count.size() == 1;
      auto* const place = static_cast<std::byte*>(result.raw()) + offset_of(part.start, strides);
      buffer.resize(in_place ? 0 : static_cast<size_t>(part_bytes));
      void* const data = in_place ? place : buffer.data();
      if (owner == runtime.rank()) {
        Dims start = part.start;
        for (int d = 0; d < start.size(); ++d) start[d] -= box.start[d];
        const int64_t offset = offset_of(start, local::contiguous_strides(box.count, itemsize));
        runtime.executor().read_stored(*array.block(chunk), offset, part_bytes, data);
      }
      if (runtime.size() > 1 && !everywhere) runtime.communicator().broadcast(data, part_bytes, owner);
      if (!in_place) copy_region(place, strides, data, part_strides, part.count, array.dtype());
    }
    if (owner == runtime.rank()) drop(chunk);
  }
  return result;
}

}  // namespace

local::NdArray host_value(const StoredArray& array) {
  if (array.replicated()) return array.value();
  std::vector<local::Reservation> none;
  return comm::alone(Runtime::current().communicator(), [&] {
    return gathered(
        array, [](int64_t) { return local::Reservation(); }, none, [](int64_t) {});
  });
}

local::NdArray take_host_value(StoredArray& array, std::vector<local::Reservation>& reserved) {
  if (array.replicated()) return array.value();
  Runtime& runtime = Runtime::current();
  // The result's memory is taken as it is filled. From then on it is the budget's, and the chunk it comes from is given
  // up.
  const bool large =
      local::element_count(array.grid().shape()) * local::itemsize(array.dtype()) > runtime.plan_bytes() / kSurelyFits;
  std::exception_ptr error;
  const auto reserve = [&](int64_t bytes) {
    try {
      if (large && !error) return runtime.executor().reserve_outside(bytes);
    } catch (...) {
      error = std::current_exception();  // the other ranks go on
    }
    return local::Reservation();
  };
  local::NdArray result = comm::alone(runtime.communicator(), [&] {
    return gathered(array, reserve, reserved, [&](int64_t chunk) { array.drop_block(chunk); });
  });
  if (large) comm::agree(runtime.communicator(), error, {"to_host"});
  return result;
}

}  // namespace quarry::exec
