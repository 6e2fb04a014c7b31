#include "quarry/chunked/exec/bodies/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {
namespace {

std::string place(const Region& region) {
  std::string text;
  for (int d = 0; d < region.ndim(); ++d)
    text += fmt::format("{}{}:{}", d ? ", " : "", region.start[d], region.start[d] + region.count[d] * region.step[d]);
  return text;
}

// Pinned memory for one transfer, given back when it dies; the stream must be idle by then.
class Staging {
 public:
  Staging(scheduler::Executor& executor, int64_t bytes)
      : memory_(executor.staging()), bytes_(bytes), data_(memory_.allocate(bytes, nullptr)) {}
  ~Staging() { memory_.deallocate(data_, bytes_, nullptr); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  local::MemoryResource& memory_;
  int64_t bytes_;
  void* data_;
};

// Splits a region along its outermost non-trivial axis into parts of about `bytes`, whole file chunks where the data
// set has them; into no more than `most`, which then are the first ones. All but the first and the last are alike.
std::vector<Region> split(const Region& region, int64_t itemsize, int64_t bytes, const std::optional<Dims>& file_chunks,
                          size_t most = SIZE_MAX) {
  int axis = 0;
  while (axis < region.ndim() && region.count[axis] == 1) ++axis;
  const int64_t total = region.elements() * itemsize;
  if (axis == region.ndim() || total <= bytes) return {region};
  int64_t rows = std::max<int64_t>(1, bytes / (total / region.count[axis]));
  if (file_chunks && region.step[axis] == 1) {
    const int64_t chunk = (*file_chunks)[axis];
    rows = std::max(chunk, rows / chunk * chunk);
  }
  std::vector<Region> parts;
  for (int64_t first = 0; first < region.count[axis] && parts.size() < most;) {
    // The first part ends at a multiple of the file's chunks, so that no chunk is decoded twice.
    int64_t count = rows;
    if (first == 0 && file_chunks && region.step[axis] == 1) count -= region.start[axis] % (*file_chunks)[axis];
    count = std::min(count, region.count[axis] - first);
    Region part = region;
    part.start[axis] += first * region.step[axis];
    part.count[axis] = count;
    parts.push_back(std::move(part));
    first += count;
  }
  return parts;
}

using local::memory_policy::staging_piece_bytes;

// How a region is read to a device: two pieces of staging memory in turn, so that one is filled from the file while the
// other travels. Only compressed chunks have to be read whole. All of a task's staging memory is asked for at once:
// tasks that wait for it hold none.
struct StagedRead {
  std::vector<Region> parts;
  int64_t part_bytes = 0, scratch_bytes = 0;

  StagedRead(const io::Dataset& dataset, const Region& region, int64_t host_bytes, size_t most_parts = SIZE_MAX) {
    const io::DatasetInfo& info = dataset.info();
    const int64_t itemsize = local::itemsize(info.dtype);
    parts = split(region, itemsize, staging_piece_bytes(host_bytes), info.filters.empty() ? std::nullopt : info.chunks,
                  most_parts);
    for (const Region& part : parts) {
      part_bytes = std::max(part_bytes, align_up(part.elements() * itemsize, local::kAllocationAlignment));
      scratch_bytes = std::max(scratch_bytes, dataset.read_scratch_bytes(part));
    }
  }
  size_t halves() const { return std::min<size_t>(2, parts.size()); }
  int64_t bytes() const { return static_cast<int64_t>(halves()) * part_bytes + scratch_bytes; }
};

}  // namespace

std::string ReadBody::name(int64_t index) const {
  return fmt::format("read {}[{}]", dataset_->info().object, place(boxes_[static_cast<size_t>(index)].region));
}

int64_t ReadBody::Box::elements() const {
  int64_t elements = region.elements();
  for (const std::vector<int>& axes : together)
    for (size_t i = 1; i < axes.size(); ++i) elements /= std::max<int64_t>(region.count[axes[i]], 1);
  return elements;
}

// The elements of a diagonal one after the other, each with all of what the other axes hold. Elements are read one by
// one; where chunks of the file are decoded, those inside one are read as a box.
class ReadBody::Diagonal {
 public:
  Diagonal(const io::Dataset& dataset, const Box& box) : dataset_(dataset), region_(box.region), ties_(box.together) {
    Dims count = region_.count;
    for (const std::vector<int>& axes : ties_)
      for (const int axis : axes) count[axis] = 1;
    unit_bytes_ = local::element_count(count) * local::itemsize(dataset.info().dtype);
    for (const std::vector<int>& axes : ties_) units_ *= region_.count[axes[0]];
    if (!dataset.info().filters.empty() && dataset.info().chunks && ties_.size() == 1) {
      most_ = INT64_MAX;
      for (const int axis : ties_[0]) most_ = std::min(most_, (*dataset.info().chunks)[axis]);
      most_ = std::min(most_, units_);
    }
  }
  int64_t unit_bytes() const { return unit_bytes_; }
  int64_t units() const { return units_; }
  // That a staging piece takes.
  int64_t staged_units(int64_t host_bytes) const {
    return std::clamp<int64_t>(staging_piece_bytes(host_bytes) / std::max<int64_t>(unit_bytes_, 1), 1, units_);
  }

  int64_t scratch_bytes() const {
    const Region largest = box(0, most_);
    const int64_t read = dataset_.read_scratch_bytes(largest);
    return most_ > 1
               ? align_up(largest.elements() * local::itemsize(dataset_.info().dtype), local::kAllocationAlignment) +
                     read
               : read;
  }
  // Units [first, first + count) into host memory.
  void read(int64_t first, int64_t count, std::byte* to, std::span<std::byte> scratch) const {
    for (int64_t done = 0; done < count;) {
      const int64_t together = std::min(count - done, until_cut(first + done));
      const Region region = box(first + done, together);
      if (together == 1) {
        dataset_.read(region, to, scratch);
      } else {
        const int64_t itemsize = local::itemsize(dataset_.info().dtype);
        const int64_t bytes = align_up(region.elements() * itemsize, local::kAllocationAlignment);
        dataset_.read(region, scratch.data(), scratch.subspan(static_cast<size_t>(bytes)));
        pick(region, scratch.data(), to);
      }
      done += together;
      to += together * unit_bytes_;
    }
  }

 private:
  // Around some units.
  Region box(int64_t unit, int64_t count) const {
    Region region = region_;
    for (size_t g = ties_.size(); g-- > 0;) {
      const int64_t extent = region_.count[ties_[g][0]], at = unit % extent;
      unit /= extent;
      for (const int axis : ties_[g]) {
        region.start[axis] += at * region.step[axis];
        region.count[axis] = count;
      }
    }
    return region;
  }
  // Units that may be read as a box.
  int64_t until_cut(int64_t unit) const {
    if (most_ == 1) return 1;
    int64_t count = most_;
    for (const int axis : ties_[0]) {
      const int64_t step = region_.step[axis], chunk = (*dataset_.info().chunks)[axis];
      const int64_t at = region_.start[axis] + unit * step;
      count = std::min(count, step > 0 ? (chunk - 1 - at % chunk) / step + 1 : at % chunk / -step + 1);
    }
    return count;
  }
  // The units of a box of them.
  void pick(const Region& region, const std::byte* from, std::byte* to) const {
    const int64_t itemsize = local::itemsize(dataset_.info().dtype);
    const Dims strides = local::contiguous_strides(region.count, itemsize);
    Dims count = region.count;
    int64_t step = 0;
    for (const int axis : ties_[0]) {
      count[axis] = 1;
      step += strides[axis];
    }
    const int64_t units = region.count[ties_[0][0]], elements = local::element_count(count);
    const Dims inner = local::contiguous_strides(count, 1);
    for (int64_t unit = 0; unit < units; ++unit) {
      for (int64_t e = 0; e < elements; ++e, to += itemsize) {
        int64_t offset = unit * step;
        for (int d = 0; d < count.size(); ++d) offset += e / inner[d] % count[d] * strides[d];
        std::memcpy(to, from + offset, static_cast<size_t>(itemsize));
      }
    }
  }

  const io::Dataset& dataset_;
  const Region& region_;
  const std::vector<std::vector<int>>& ties_;
  int64_t unit_bytes_ = 0, units_ = 1, most_ = 1;
};

int64_t ReadBody::scratch_bytes(const Box& box, const local::Device& device) const {
  if (box.region.elements() == 0) return 0;
  if (device.kind != local::DeviceKind::cpu) {  // else it is staging memory
    if (!box.together.empty()) return 0;
    const auto decoding = DeviceDecoding::of(*dataset_, box.region, device, decoding_);
    return decoding ? decoding->scratch_bytes() : 0;
  }
  return box.together.empty() ? dataset_->read_scratch_bytes(box.region) : Diagonal(*dataset_, box).scratch_bytes();
}

int64_t ReadBody::staging_bytes(const Box& box, const local::Device& device, int64_t host_bytes) const {
  if (box.region.elements() == 0) return 0;
  if (box.together.empty()) {
    // By either way: a run that goes through the data set again keeps decoded chunks on the host.
    const int64_t staged = StagedRead(*dataset_, box.region, host_bytes, /*most_parts=*/2).bytes();
    const auto decoding = DeviceDecoding::of(*dataset_, box.region, device, decoding_);
    return decoding ? std::max(staged, decoding->staging_bytes(staging_piece_bytes(host_bytes))) : staged;
  }
  const Diagonal diagonal(*dataset_, box);
  return align_up(diagonal.staged_units(host_bytes) * diagonal.unit_bytes(), local::kAllocationAlignment) +
         diagonal.scratch_bytes();
}

void ReadBody::run(scheduler::TaskRun& run) {
  const Box& box = boxes_[static_cast<size_t>(run.index)];
  if (box.together.empty())
    read(box.region, run);
  else if (box.region.elements() > 0)
    read(Diagonal(*dataset_, box), run);
}

void ReadBody::read(const Diagonal& diagonal, scheduler::TaskRun& run) const {
  auto* const block = static_cast<std::byte*>(run.outputs[0].data);
  const int64_t scratch_bytes = diagonal.scratch_bytes();
  if (run.context.device.kind == local::DeviceKind::cpu) {
    auto* scratch = static_cast<std::byte*>(run.context.memory->allocate(scratch_bytes, run.context.stream));
    diagonal.read(0, diagonal.units(), block, {scratch, static_cast<size_t>(scratch_bytes)});
    return;
  }
  const int64_t together = diagonal.staged_units(executor_->host_budget().limit_bytes());
  const int64_t part_bytes = align_up(together * diagonal.unit_bytes(), local::kAllocationAlignment);
  const Staging staging(*executor_, part_bytes + scratch_bytes);
  for (int64_t done = 0; done < diagonal.units() && !run.is_cancelled(); done += together) {
    const int64_t count = std::min(together, diagonal.units() - done);
    diagonal.read(done, count, staging.data(), {staging.data() + part_bytes, static_cast<size_t>(scratch_bytes)});
    run.context.stream->copy(block + done * diagonal.unit_bytes(), staging.data(), count * diagonal.unit_bytes());
    run.context.stream->synchronize();
  }
}

void ReadBody::read(const Region& region, scheduler::TaskRun& run) const {
  void* const block = run.outputs[0].data;
  const int64_t itemsize = local::itemsize(dataset_->info().dtype);
  if (region.elements() == 0) return;
  if (run.context.device.kind == local::DeviceKind::cpu) {
    const int64_t scratch_bytes = dataset_->read_scratch_bytes(region);
    auto* scratch = static_cast<std::byte*>(run.context.memory->allocate(scratch_bytes, run.context.stream));
    dataset_->read(region, block, {scratch, static_cast<size_t>(scratch_bytes)});
    return;
  }
  const int64_t host_bytes = executor_->host_budget().limit_bytes();
  if (!dataset_->goes_through_again()) {
    if (const auto decoding = DeviceDecoding::of(*dataset_, region, run.context.device, decoding_)) {
      const Staging staging(*executor_, decoding->staging_bytes(staging_piece_bytes(host_bytes)));
      decoding->read(run, {staging.data(), static_cast<size_t>(staging.bytes())});
      return;
    }
  }
  const StagedRead staged(*dataset_, region, host_bytes);
  const auto& [parts, part_bytes, scratch_bytes] = staged;
  local::Backend& backend = local::backend(run.context.device.kind);
  const size_t halves_used = staged.halves();
  const Staging staging(*executor_, staged.bytes());
  struct Half {
    std::byte* data;
    std::unique_ptr<local::DeviceEvent> copied;
  };
  std::vector<Half> halves;
  for (size_t h = 0; h < halves_used; ++h) {
    halves.push_back(
        {staging.data() + static_cast<int64_t>(h) * part_bytes, backend.create_event(run.context.device.index)});
  }
  const std::span<std::byte> scratch{staging.data() + static_cast<int64_t>(halves_used) * part_bytes,
                                     static_cast<size_t>(scratch_bytes)};
  // Staging memory must outlive the copies, also when a read throws.
  struct Drain {
    local::DeviceStream& stream;
    ~Drain() {
      try {
        stream.synchronize();
      } catch (...) {  // the error that is already under way, or the next use of the stream, reports it
      }
    }
  } drain{*run.context.stream};
  int64_t done_bytes = 0;
  for (size_t i = 0; i < parts.size() && !run.is_cancelled(); ++i) {
    Half& half = halves[i % 2];
    half.copied->synchronize();
    dataset_->read(parts[i], half.data, scratch);
    const int64_t bytes = parts[i].elements() * itemsize;
    run.context.stream->copy(static_cast<std::byte*>(block) + done_bytes, half.data, bytes);
    run.context.stream->record(*half.copied);
    done_bytes += bytes;
  }
}

std::string ReceiveBody::name(int64_t index) const {
  const PartTable::Part& part = parts_[index];
  return fmt::format("receive {}[{}] from rank {}", parts_.source(index).label, part.key.chunk, part.owner);
}

void ReceiveBody::run(scheduler::TaskRun& run) {
  const PartTable::Part& part = parts_[run.index];
  fetch_output(*service_, run, part.owner, part.key, parts_.hyperslab(run.index));
}

std::string UploadBody::name(int64_t) const { return "upload"; }

void UploadBody::run(scheduler::TaskRun& run) {
  run.context.stream->copy(run.outputs[0].data, array_->value().raw(), array_->value().nbytes());
}

std::string WriteBody::name(int64_t index) const {
  return fmt::format("write {}[{}]", label_, place(grid_.chunk(index)));
}

int64_t WriteBody::scratch_bytes(const local::Device& device) const {
  return device.kind == local::DeviceKind::cpu ? scratch_bytes_ : 0;  // it is staging memory
}

std::vector<Region> WriteBody::parts(const Region& chunk, int64_t itemsize, int64_t host_bytes, size_t most) const {
  if (whole_ || chunk.elements() == 0) return {chunk};
  return split(chunk, itemsize, staging_piece_bytes(host_bytes), std::nullopt, most);
}

int64_t WriteBody::staging_bytes(int64_t chunk, int64_t itemsize, int64_t host_bytes) const {
  const Region first = parts(grid_.chunk(chunk), itemsize, host_bytes, /*most=*/1).front();
  return align_up(first.elements() * itemsize, local::kAllocationAlignment) + scratch_bytes_;
}

void WriteBody::run(scheduler::TaskRun& run) {
  const Region chunk = grid_.chunk(run.index);
  const auto scratch_size = static_cast<size_t>(scratch_bytes_);
  if (run.context.device.kind == local::DeviceKind::cpu) {
    void* const scratch =
        scratch_bytes_ > 0 ? run.context.memory->allocate(scratch_bytes_, run.context.stream) : nullptr;
    write_(chunk, run.inputs[0].data, {static_cast<std::byte*>(scratch), scratch_size});
    return;
  }
  const int64_t bytes = run.inputs[0].bytes;
  const int64_t elements = chunk.elements();
  if (elements == 0) return;
  const int64_t itemsize = bytes / elements;
  const std::vector<Region> all = parts(chunk, itemsize, executor_->host_budget().limit_bytes());
  const int64_t most_bytes = align_up(all.front().elements() * itemsize, local::kAllocationAlignment);
  const Staging host(*executor_, most_bytes + scratch_bytes_);
  const auto* from = static_cast<const std::byte*>(run.inputs[0].data);
  for (const Region& part : all) {
    const int64_t part_bytes = part.elements() * itemsize;
    run.context.stream->copy(host.data(), from, part_bytes);
    run.context.stream->synchronize();
    write_(part, host.data(), {host.data() + most_bytes, scratch_size});
    from += part_bytes;
  }
}

}  // namespace quarry::exec
