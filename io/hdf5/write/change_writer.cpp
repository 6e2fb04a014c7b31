#include "quarry/io/hdf5/write/change_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "quarry/io/hdf5/filters.h"
#include "quarry/io/hdf5/write/change_journal.h"
#include "quarry/io/storage/pieces.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/sizes.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;
using local::Region;

constexpr int64_t kAlignment = 64;

OutputSpec spec_of(const ChangePlan& plan) {
  const DatasetInfo& info = plan.after.info;
  return {info.object, info.shape, info.dtype, info.chunks, plan.encodes ? info.filters : std::vector<Filter>(), {}};
}

// What two boxes share.
Region common(const Region& a, const Region& b) {
  Region out = a;
  for (int d = 0; d < a.ndim(); ++d) {
    out.start[d] = std::max(a.start[d], b.start[d]);
    out.count[d] = std::max<int64_t>(0, std::min(a.start[d] + a.count[d], b.start[d] + b.count[d]) - out.start[d]);
  }
  return out;
}

Region moved(Region region, const Dims& origin) {
  for (int d = 0; d < region.ndim(); ++d) region.start[d] -= origin[d];
  return region;
}

}  // namespace

ChangeWriter::ChangeWriter(ChangePlan plan) : plan_(std::move(plan)), spec_(spec_of(plan_)) {
  const std::optional<Region>& waiting = plan_.waiting;
  const bool all_wait = waiting && plan_.after.storage.kind == Storage::Kind::library;
  if (!all_wait) file_ = std::make_unique<Hdf5Writer>(spec_, plan_.after, plan_.name, plan_.encodes);
  if (waiting) {
    OutputSpec spec = spec_;
    spec.shape = waiting->count;
    spec.chunks.reset();
    waiting_ = std::make_unique<Hdf5Writer>(
        std::move(spec), waiting_dataset(plan_.journal, plan_.after, *waiting, plan_.waiting_at), plan_.name,
        /*places=*/false);
  }
  if (plan_.encodes) old_ = dataset_of(plan_.before);
}

std::string ChangeWriter::layout() const {
  ByteWriter out;
  out.put(WriterKind::change);
  hdf5::serialize(plan_.before, out);
  hdf5::serialize(plan_.after, out);
  out.put(plan_.encodes);
  out.put(plan_.waiting.has_value());
  if (plan_.waiting) {
    out.put_dims(plan_.waiting->start);
    out.put_dims(plan_.waiting->count);
  }
  out.put(plan_.waiting_at);
  out.put_string(plan_.journal);
  out.put_string(plan_.name);
  return out.take();
}

std::shared_ptr<Writer> change_writer_of(ByteReader& in) {
  ChangePlan plan;
  plan.before = deserialize(in);
  plan.after = deserialize(in);
  plan.encodes = in.get<bool>();
  if (in.get<bool>()) {
    const Dims start = in.get_dims();
    plan.waiting = Region::box(start, in.get_dims());
  }
  plan.waiting_at = in.get<int64_t>();
  plan.journal = in.get_string();
  plan.name = in.get_string();
  return std::make_shared<ChangeWriter>(std::move(plan));
}

// Elements that wait lie at the beginning of what is written, along one axis at most.
void ChangeWriter::write(const Region& region, const void* from) {
  QUARRY_CHECK(!plan_.encodes);
  if (region.elements() == 0) return;
  if (!waiting_) return file_->write(region, from);
  const Region waits = common(region, *plan_.waiting);
  if (waits == region) return waiting_->write(moved(region, plan_.waiting->start), from);
  if (waits.elements() == 0) return file_->write(region, from);
  int axis = 0;
  while (waits.count[axis] == region.count[axis]) ++axis;
  // Both parts are contiguous below each index of the axes before.
  Dims outer = region.count;
  for (int d = axis; d < outer.size(); ++d) outer[d] = 1;
  const int64_t item = local::itemsize(spec_.dtype), slabs = local::element_count(outer);
  const int64_t slab_bytes = region.elements() / slabs * item;
  const int64_t waiting_bytes = slab_bytes / region.count[axis] * waits.count[axis];
  Region first = waits, second = region;
  second.start[axis] += waits.count[axis];
  second.count[axis] -= waits.count[axis];
  for (int d = 0; d < axis; ++d) first.count[d] = second.count[d] = 1;
  const auto* data = static_cast<const std::byte*>(from);
  for (int64_t i = 0; i < slabs; ++i, data += slab_bytes) {
    int64_t rest = i;
    for (int d = axis - 1; d >= 0; --d) {
      first.start[d] = second.start[d] = region.start[d] + rest % region.count[d];
      rest /= region.count[d];
    }
    waiting_->write(moved(first, plan_.waiting->start), data);
    file_->write(second, data + waiting_bytes);
  }
}

int64_t ChangeWriter::encode_scratch_bytes() const {
  if (!plan_.encodes) return 0;
  const int64_t chunk = local::element_count(*spec_.chunks) * local::itemsize(spec_.dtype);
  return local::align_up(file_->encode_scratch_bytes(), kAlignment) + local::align_up(chunk, kAlignment) +
         old_->read_scratch_bytes(Region::whole(plan_.before.info.shape));
}

std::span<const std::byte> ChangeWriter::encode(const Dims& chunk, const void* from, const Dims& strides,
                                                const Dims& count, std::span<std::byte> scratch) const {
  return encode_part(chunk, Dims::filled(chunk.size(), 0), from, strides, count, scratch);
}

std::span<const std::byte> ChangeWriter::encode_part(const Dims& chunk, const Dims& start, const void* from,
                                                     const Dims& strides, const Dims& count,
                                                     std::span<std::byte> scratch) const {
  const Dims& extents = *spec_.chunks;
  const Dims& shape = spec_.shape;
  const int64_t item = local::itemsize(spec_.dtype), bytes = local::element_count(extents) * item;
  QUARRY_CHECK(std::ssize(scratch) >= encode_scratch_bytes());
  const Dims to_strides = local::contiguous_strides(extents, item);
  const std::span<std::byte> working = scratch.first(static_cast<size_t>(file_->encode_scratch_bytes()));
  if (count != extents) {
    const std::vector<std::byte>& fill = plan_.before.storage.fill;
    for (int64_t at = 0; at < bytes; at += item)
      std::memcpy(working.data() + at, fill.data(), static_cast<size_t>(item));
  }
  Region there = Region::box(Dims::filled(shape.size(), 0), Dims::filled(shape.size(), 0));
  bool replaces_all = true;
  for (int d = 0; d < shape.size(); ++d) {
    there.start[d] = chunk[d] * extents[d];
    const auto in_chunk = [&](int64_t extent) { return std::clamp<int64_t>(extent - there.start[d], 0, extents[d]); };
    there.count[d] = in_chunk(plan_.before.info.shape[d]);
    replaces_all = replaces_all && start[d] == 0 && count[d] >= in_chunk(shape[d]);
  }
  if (!replaces_all && there.elements() > 0) {
    std::span<std::byte> rest =
        scratch.subspan(static_cast<size_t>(local::align_up(file_->encode_scratch_bytes(), kAlignment)));
    std::byte* const old = rest.data();
    old_->read(there, old, rest.subspan(static_cast<size_t>(local::align_up(bytes, kAlignment))));
    copy_box(there.count, item, old, local::contiguous_strides(there.count, item), working.data(), to_strides);
  }
  copy_box(count, item, static_cast<const std::byte*>(from), strides, working.data() + dot(start, to_strides),
           to_strides);
  return encode_chunk(spec_.filters, item, bytes, working);
}

PlacedChunk ChangeWriter::place(const Dims& chunk, int64_t offset, std::span<const std::byte> bytes) {
  return file_->place(chunk, offset, bytes);
}

void ChangeWriter::sync() const {
  if (file_) file_->sync();
  if (waiting_) waiting_->sync();
}

int64_t ChangeWriter::bytes_written() const {
  return (file_ ? file_->bytes_written() : 0) + (waiting_ ? waiting_->bytes_written() : 0);
}

}  // namespace quarry::io::hdf5
