#include "quarry/io/hdf5/write/create.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/types.h"
#include "quarry/io/hdf5/write/scales.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

using local::Dims;
using local::Region;

// Data of at least this size begins at a page of the file: reads and writes then touch no page twice.
constexpr hsize_t kAlignedBytes = 64 << 10, kPageBytes = 4096;
constexpr int64_t kCopiedBytes = int64_t{8} << 20;  // from the journal at once

// h5py's types of str and of bytes.
Handle text_type(const OutputText& text) {
  Handle type = check_handle(H5Tcopy(H5T_C_S1), "string type");
  if (text.is_bytes) {
    check_call(H5Tset_size(type, std::max<size_t>(text.value.size(), 1)), "string type");
    check_call(H5Tset_strpad(type, H5T_STR_NULLPAD), "string type");
  } else {
    check_call(H5Tset_size(type, H5T_VARIABLE), "string type");
    check_call(H5Tset_cset(type, H5T_CSET_UTF8), "string type");
  }
  return type;
}

void write_text(hid_t dataset, hid_t type, const OutputText& text, const std::string& context) {
  const char* const pointer = text.value.c_str();  // ends with a zero, which is the value of no bytes
  check_call(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                      text.is_bytes ? static_cast<const void*>(pointer) : static_cast<const void*>(&pointer)),
             context);
}

Handle create_dataset(hid_t parent, const std::string& path, const OutputSpec& spec) {
  const std::string context = fmt::format("cannot create '{}'", spec.object);
  const Handle type = spec.text ? text_type(*spec.text) : memory_type(spec.dtype);
  hsize_t extents[local::kMaxDims], limits[local::kMaxDims], chunk[local::kMaxDims];
  const int rank = spec.shape.size();
  for (int d = 0; d < rank; ++d) extents[d] = limits[d] = static_cast<hsize_t>(spec.shape[d]);
  for (const int axis : spec.unlimited) limits[axis] = H5S_UNLIMITED;
  const Handle space =
      check_handle(rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, extents, limits), context);
  const Handle create = check_handle(H5Pcreate(H5P_DATASET_CREATE), context);
  // The library writes text itself.
  if (!spec.text) check_call(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), context);
  check_call(H5Pset_obj_track_times(create, false), context);
  if (!spec.text)
    check_call(H5Pset_alloc_time(create, spec.filters.empty() ? H5D_ALLOC_TIME_EARLY : H5D_ALLOC_TIME_INCR), context);
  if (spec.chunks) {
    for (int d = 0; d < rank; ++d) chunk[d] = static_cast<hsize_t>((*spec.chunks)[d]);
    check_call(H5Pset_chunk(create, rank, chunk), context);
  }
  for (const Filter& filter : spec.filters) {
    if (filter.kind == Filter::Kind::shuffle) {
      check_call(H5Pset_shuffle(create), context);
    } else if (filter.kind == Filter::Kind::fletcher32) {
      check_call(H5Pset_fletcher32(create), context);
    } else {
      const int64_t item = local::itemsize(spec.dtype), bytes = local::element_count(*spec.chunks) * item;
      const Codec* const codec = find_codec(filter.kind);
      const auto values = codec->values(filter, item, bytes);
      check_call(H5Pset_filter(create, codec->id, H5Z_FLAG_MANDATORY, values.size(), values.data()), context);
    }
  }
  const Handle links = check_handle(H5Pcreate(H5P_LINK_CREATE), context);
  check_call(H5Pset_create_intermediate_group(links, 1), context);
  Handle dataset = check_handle(H5Dcreate2(parent, path.c_str(), type, space, links, create, H5P_DEFAULT), context);
  if (spec.text) write_text(dataset, type, *spec.text, context);
  write_attributes(dataset, spec.attributes);
  if (spec.fill_value) {
    constexpr hsize_t kOne = 1;
    std::array<std::byte, 16> value{};
    spec.fill_value->store(spec.dtype, value.data());
    const Handle one = check_handle(H5Screate_simple(1, &kOne, nullptr), context);
    const Handle attribute =
        check_handle(H5Acreate2(dataset, "_FillValue", type, one, H5P_DEFAULT, H5P_DEFAULT), context);
    check_call(H5Awrite(attribute, type, value.data()), context);
  }
  return dataset;
}

void close_file(Handle& opened, const std::string& name) {
  H5Fflush(opened, H5F_SCOPE_GLOBAL);
  const std::string reason = library_error();
  if (!opened.reset()) throw local::IoError(fmt::format("cannot write '{}': {}", name, reason));
}

// Attributes that are there stay, unless they are to be replaced.
void create_group(hid_t opened, const OutputSpec& spec, const Creation& creation) {
  const std::string context = fmt::format("cannot create '{}' in '{}'", spec.object, creation.name);
  const Handle links = check_handle(H5Pcreate(H5P_LINK_CREATE), context);
  check_call(H5Pset_create_intermediate_group(links, 1), context);
  const bool is_there = spec.object == "/" || object_exists(opened, spec.object);
  const Handle group = check_handle(is_there ? H5Gopen2(opened, spec.object.c_str(), H5P_DEFAULT)
                                             : H5Gcreate2(opened, spec.object.c_str(), links, H5P_DEFAULT, H5P_DEFAULT),
                                    context);
  std::map<std::string, Attribute> attributes = spec.attributes;
  for (const auto& [name, value] : spec.attributes) {
    if (H5Aexists(group, name.c_str()) <= 0) continue;
    if (creation.overwrite)
      check_call(H5Adelete(group, name.c_str()), context);
    else
      attributes.erase(name);
  }
  write_attributes(group, attributes);
}

void put_spec(const OutputSpec& spec, ByteWriter& out) {
  out.put_string(spec.object);
  out.put_dims(spec.shape);
  out.put(spec.dtype);
  out.put(spec.chunks.has_value());
  if (spec.chunks) out.put_dims(*spec.chunks);
  put_filters(spec.filters, out);
  put_attributes(spec.attributes, out);
  out.put(spec.text.has_value());
  if (spec.text) {
    out.put_string(spec.text->value);
    out.put(spec.text->is_bytes);
  }
  out.put(spec.fill_value.has_value());
  if (spec.fill_value) out.put(*spec.fill_value);
  out.put(spec.is_group);
  out.put<int32_t>(static_cast<int32_t>(spec.unlimited.size()));
  for (const int axis : spec.unlimited) out.put<int32_t>(axis);
  out.put<int32_t>(static_cast<int32_t>(spec.dims.size()));
  for (const std::string& name : spec.dims) out.put_string(name);
}

OutputSpec get_spec(ByteReader& in) {
  OutputSpec spec;
  spec.object = in.get_string();
  spec.shape = in.get_dims();
  spec.dtype = in.get<local::DType>();
  if (in.get<bool>()) spec.chunks = in.get_dims();
  spec.filters = get_filters(in);
  spec.attributes = get_attributes(in);
  if (in.get<bool>()) {
    spec.text.emplace();
    spec.text->value = in.get_string();
    spec.text->is_bytes = in.get<bool>();
  }
  if (in.get<bool>()) spec.fill_value = in.get<local::Scalar>();
  spec.is_group = in.get<bool>();
  for (auto left = in.get<int32_t>(); left > 0; --left) spec.unlimited.push_back(in.get<int32_t>());
  for (auto left = in.get<int32_t>(); left > 0; --left) spec.dims.push_back(in.get_string());
  return spec;
}

void apply_change(hid_t opened, const std::string& name, const LibraryChange& change,
                  const std::function<void()>& underway) {
  const std::string context = fmt::format("writing '{}' to '{}'", change.object, name);
  const Handle dataset = check_handle(H5Dopen2(opened, change.object.c_str(), H5P_DEFAULT), context);
  const Region& region = change.region;
  std::vector<hsize_t> start(static_cast<size_t>(change.shape.size())), count(start.size());
  if (change.appends) {
    for (int d = 0; d < change.shape.size(); ++d) count[static_cast<size_t>(d)] = static_cast<hsize_t>(change.shape[d]);
    check_call(H5Dset_extent(dataset, count.data()), context);
  }
  if (region.elements() == 0) return;
  const local::DType dtype = change.elements.info.dtype;
  const Handle type = memory_type(dtype, change.bitfield, {});
  const Handle space = check_handle(H5Dget_space(dataset), context);
  const std::shared_ptr<Dataset> from = dataset_of(change.elements);
  std::vector<std::byte> elements, scratch;
  hdf5::format().for_each_stored(*from, kCopiedBytes, [&](const Region& part) {
    elements.resize(static_cast<size_t>(part.elements() * local::itemsize(dtype)));
    scratch.resize(static_cast<size_t>(from->read_scratch_bytes(part)));
    from->read(part, elements.data(), scratch);
    for (int d = 0; d < part.ndim(); ++d) {
      start[static_cast<size_t>(d)] = static_cast<hsize_t>(region.start[d]) + static_cast<hsize_t>(part.start[d]);
      count[static_cast<size_t>(d)] = static_cast<hsize_t>(part.count[d]);
    }
    if (part.ndim() > 0)
      check_call(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), context);
    const Handle memory = check_handle(
        part.ndim() == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(part.ndim(), count.data(), nullptr), context);
    check_call(H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, elements.data()), context);
    underway();
    return true;
  });
}

}  // namespace

void serialize(const Creation& creation, ByteWriter& out) {
  out.put_string(creation.path);
  out.put_string(creation.name);
  out.put(creation.fresh);
  out.put(creation.overwrite);
  out.put<int32_t>(static_cast<int32_t>(creation.specs.size()));
  for (const OutputSpec& spec : creation.specs) put_spec(spec, out);
}

Creation deserialize_creation(ByteReader& in) {
  Creation creation;
  creation.path = in.get_string();
  creation.name = in.get_string();
  creation.fresh = in.get<bool>();
  creation.overwrite = in.get<bool>();
  for (auto left = in.get<int32_t>(); left > 0; --left) creation.specs.push_back(get_spec(in));
  return creation;
}

void create_objects(const Creation& creation) {
  const LibraryLock lock;
  Handle opened;
  if (creation.fresh) {
    const Handle access = file_access();
    check_call(H5Pset_alignment(access, kAlignedBytes, kPageBytes), "alignment");
    opened = check_handle(H5Fcreate(creation.path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access),
                          fmt::format("cannot create '{}'", creation.name));
  } else {
    opened = open_file(creation.path, H5F_ACC_RDWR);
  }
  for (const OutputSpec& spec : creation.specs) {
    if (spec.is_group) {
      create_group(opened, spec, creation);
      continue;
    }
    if (!creation.fresh && object_exists(opened, spec.object)) {
      detach_scales(opened, spec.object);
      check_call(H5Ldelete(opened, spec.object.c_str(), H5P_DEFAULT),
                 fmt::format("cannot replace '{}' in '{}'", spec.object, creation.name));
    }
    create_dataset(opened, spec.object, spec);
  }
  attach_scales(opened, creation.specs);
  close_file(opened, creation.name);
}

void serialize(const std::vector<LibraryChange>& changes, ByteWriter& out) {
  out.put<int32_t>(static_cast<int32_t>(changes.size()));
  for (const LibraryChange& change : changes) {
    out.put_string(change.object);
    out.put(change.appends);
    out.put_dims(change.shape);
    out.put_dims(change.region.start);
    out.put_dims(change.region.count);
    out.put(change.bitfield);
    serialize(change.elements, out);
  }
}

std::vector<LibraryChange> deserialize_changes(ByteReader& in) {
  std::vector<LibraryChange> changes(static_cast<size_t>(in.get<int32_t>()));
  for (LibraryChange& change : changes) {
    change.object = in.get_string();
    change.appends = in.get<bool>();
    change.shape = in.get_dims();
    const Dims start = in.get_dims(), count = in.get_dims();
    change.region = Region::box(start, count);
    change.bitfield = in.get<bool>();
    change.elements = deserialize(in);
  }
  return changes;
}

void apply_changes(const std::string& path, const std::string& name, const std::vector<LibraryChange>& changes,
                   const std::function<void()>& underway) {
  const LibraryLock lock;
  Handle opened = open_file(path, H5F_ACC_RDWR);
  for (const LibraryChange& change : changes) apply_change(opened, name, change, underway);
  close_file(opened, name);
}

ChunkStore::ChunkStore(const std::string& path, std::string name)
    : name_(std::move(name)), file_(open_file(path, H5F_ACC_RDWR)) {}

void ChunkStore::store(const std::string& object, const Dims& origin, std::span<const std::byte> bytes) {
  const LibraryLock lock;
  const std::string context = fmt::format("writing '{}' to '{}'", object, name_);
  const Handle dataset = check_handle(H5Dopen2(file_, object.c_str(), H5P_DEFAULT), context);
  hsize_t at[local::kMaxDims];
  for (int d = 0; d < origin.size(); ++d) at[d] = static_cast<hsize_t>(origin[d]);
  check_call(H5Dwrite_chunk(dataset, H5P_DEFAULT, /*filters=*/0, at, bytes.size(), bytes.data()), context);
}

void ChunkStore::close() {
  const LibraryLock lock;
  close_file(file_, name_);
}

}  // namespace quarry::io::hdf5
