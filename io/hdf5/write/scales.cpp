#include "quarry/io/hdf5/write/scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/process/library_process.h"
#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {
namespace {

// One data set that a scale belongs to, as the attribute REFERENCE_LIST has it.
struct Reference {
  hobj_ref_t dataset = 0;
  int axis = 0;
};

constexpr const char* kReferences = "REFERENCE_LIST";
constexpr const char* kScales = "DIMENSION_LIST";

Handle reference_type() {
  Handle type = check_handle(H5Tcreate(H5T_COMPOUND, sizeof(Reference)), "dimension scale");
  check_call(H5Tinsert(type, "dataset", offsetof(Reference, dataset), H5T_STD_REF_OBJ), "dimension scale");
  check_call(H5Tinsert(type, "dimension", offsetof(Reference, axis), H5T_NATIVE_INT), "dimension scale");
  return type;
}

hobj_ref_t reference_to(hid_t file, const std::string& object) {
  hobj_ref_t reference = 0;
  check_call(H5Rcreate(&reference, file, object.c_str(), H5R_OBJECT, -1), fmt::format("dimension scale '{}'", object));
  return reference;
}

// A text of fixed size, as the format's description of scales wants it; one that is there stays.
void write_text(hid_t object, const char* name, const std::string& value) {
  if (H5Aexists(object, name) > 0) {
    const Handle there = check_handle(H5Aopen(object, name, H5P_DEFAULT), "dimension scale");
    const Handle type = check_handle(H5Aget_type(there), "dimension scale");
    if (H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) <= 0) return;
    check_call(H5Adelete(object, name), "dimension scale");
  }
  const Handle type = check_handle(H5Tcopy(H5T_C_S1), "dimension scale");
  check_call(H5Tset_size(type, value.size() + 1), "dimension scale");
  const Handle space = check_handle(H5Screate(H5S_SCALAR), "dimension scale");
  const Handle attribute =
      check_handle(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), "dimension scale");
  check_call(H5Awrite(attribute, type, value.c_str()), "dimension scale");
}

std::vector<Reference> references_of(hid_t scale) {
  if (H5Aexists(scale, kReferences) <= 0) return {};
  const Handle attribute = check_handle(H5Aopen(scale, kReferences, H5P_DEFAULT), "dimension scale");
  const Handle space = check_handle(H5Aget_space(attribute), "dimension scale");
  const auto count = check_call(H5Sget_simple_extent_npoints(space), "dimension scale");
  std::vector<Reference> references(static_cast<size_t>(count));
  const Handle type = reference_type();
  if (!references.empty()) check_call(H5Aread(attribute, type, references.data()), "dimension scale");
  return references;
}

void set_references(hid_t scale, const std::vector<Reference>& references) {
  if (H5Aexists(scale, kReferences) > 0) check_call(H5Adelete(scale, kReferences), "dimension scale");
  if (references.empty()) return;
  const Handle type = reference_type();
  const hsize_t count = references.size();
  const Handle space = check_handle(H5Screate_simple(1, &count, nullptr), "dimension scale");
  const Handle attribute =
      check_handle(H5Acreate2(scale, kReferences, type, space, H5P_DEFAULT, H5P_DEFAULT), "dimension scale");
  check_call(H5Awrite(attribute, type, references.data()), "dimension scale");
}

std::string path_beside(const std::string& object, const std::string& name) {
  return object.substr(0, object.rfind('/') + 1) + name;
}

// A dimension without coordinates.
void create_empty_scale(hid_t file, const std::string& path, int64_t extent, bool grows) {
  const std::string context = fmt::format("cannot create '{}'", path);
  constexpr hsize_t kChunk = 1024;
  const auto extents = static_cast<hsize_t>(extent);
  const hsize_t limit = grows ? H5S_UNLIMITED : extents;
  const Handle space = check_handle(H5Screate_simple(1, &extents, &limit), context);
  const Handle create = check_handle(H5Pcreate(H5P_DATASET_CREATE), context);
  check_call(H5Pset_obj_track_times(create, false), context);
  if (grows) check_call(H5Pset_chunk(create, 1, &kChunk), context);
  const Handle dataset =
      check_handle(H5Dcreate2(file, path.c_str(), H5T_IEEE_F32BE, space, H5P_DEFAULT, create, H5P_DEFAULT), context);
  write_text(dataset, "CLASS", "DIMENSION_SCALE");
  // By these words netCDF's library knows it.
  write_text(dataset, "NAME", fmt::format("This is a netCDF dimension but not a netCDF variable.{:10}", extent));
}

void check_scale(hid_t file, const OutputSpec& spec, int axis, const std::string& path) {
  const auto fail = [&](const std::string& reason) {
    throw local::InvalidArgument(
        fmt::format("axis {} of '{}' cannot have the scale '{}': {}", axis, spec.object, path, reason));
  };
  H5O_info_t info;
  check_call(H5Oget_info_by_name2(file, path.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT), path);
  if (info.type != H5O_TYPE_DATASET) fail("it is no data set");
  const Handle dataset = check_handle(H5Dopen2(file, path.c_str(), H5P_DEFAULT), path);
  const Handle space = check_handle(H5Dget_space(dataset), path);
  hsize_t extent = 0;
  if (H5Sget_simple_extent_ndims(space) != 1) fail("it has not one axis");
  check_call(H5Sget_simple_extent_dims(space, &extent, nullptr), path);
  if (extent != static_cast<hsize_t>(spec.shape[axis]))
    fail(fmt::format("it has {} elements, and the axis {}", extent, spec.shape[axis]));
  if (H5Aexists(dataset, kScales) > 0) fail("it has a scale itself");
}

}  // namespace

void check_dims(const OutputSpec& spec) {
  const auto fail = [&](const std::string& reason) {
    throw local::InvalidArgument(fmt::format("cannot name the axes of '{}': {}", spec.object, reason));
  };
  if (spec.dims.empty()) return;
  if (std::ssize(spec.dims) != spec.shape.size())
    fail(fmt::format("{} names, and the shape is {}", spec.dims.size(), local::to_string(spec.shape)));
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    const std::string& name = spec.dims[i];
    if (name.empty() || name == "." || name.find('/') != std::string::npos)
      fail(fmt::format("'{}' can be no name", name));
    if (std::find(spec.dims.begin(), spec.dims.begin() + static_cast<std::ptrdiff_t>(i), name) !=
        spec.dims.begin() + static_cast<std::ptrdiff_t>(i))
      fail(fmt::format("'{}' is there twice", name));
    if (path_beside(spec.object, name) == spec.object && spec.dims.size() > 1)
      fail(fmt::format("'{}' is the name of the data set, which has more than one axis", name));
  }
}

void attach_scales(hid_t file, const std::vector<OutputSpec>& specs) {
  for (const OutputSpec& spec : specs) {
    if (spec.dims.empty() || spec.text || spec.is_group) continue;
    const std::string context = fmt::format("naming the axes of '{}'", spec.object);
    std::vector<hobj_ref_t> scales(spec.dims.size());
    bool attaches = true;
    for (int axis = 0; axis < spec.shape.size(); ++axis) {
      const std::string& name = spec.dims[static_cast<size_t>(axis)];
      const std::string path = path_beside(spec.object, name);
      const bool grows = std::ranges::find(spec.unlimited, axis) != spec.unlimited.end();
      if (!object_exists(file, path)) create_empty_scale(file, path, spec.shape[axis], grows);
      check_scale(file, spec, axis, path);
      const Handle scale = check_handle(H5Dopen2(file, path.c_str(), H5P_DEFAULT), context);
      write_text(scale, "CLASS", "DIMENSION_SCALE");
      write_text(scale, "NAME", name);
      attaches = path != spec.object;  // its own scale
      if (!attaches) break;
      scales[static_cast<size_t>(axis)] = reference_to(file, path);
      std::vector<Reference> references = references_of(scale);
      references.push_back({reference_to(file, spec.object), axis});
      set_references(scale, references);
    }
    if (!attaches) continue;
    std::vector<hvl_t> lists;
    for (hobj_ref_t& scale : scales) lists.push_back({1, &scale});
    const Handle type = check_handle(H5Tvlen_create(H5T_STD_REF_OBJ), context);
    const hsize_t count = lists.size();
    const Handle space = check_handle(H5Screate_simple(1, &count, nullptr), context);
    const Handle dataset = check_handle(H5Dopen2(file, spec.object.c_str(), H5P_DEFAULT), context);
    const Handle attribute = check_handle(H5Acreate2(dataset, kScales, type, space, H5P_DEFAULT, H5P_DEFAULT), context);
    check_call(H5Awrite(attribute, type, lists.data()), context);
  }
}

namespace {

// Calls use(axis, scale) for every scale of an open data set that is still there.
void for_each_scale(hid_t dataset, const auto& use) {
  constexpr const char* kContext = "dimension scales";
  if (H5Aexists(dataset, kScales) <= 0) return;
  const Handle attribute = check_handle(H5Aopen(dataset, kScales, H5P_DEFAULT), kContext);
  const Handle space = check_handle(H5Aget_space(attribute), kContext);
  const Handle type = check_handle(H5Tvlen_create(H5T_STD_REF_OBJ), kContext);
  std::vector<hvl_t> lists(static_cast<size_t>(check_call(H5Sget_simple_extent_npoints(space), kContext)));
  check_call(H5Aread(attribute, type, lists.data()), kContext);
  for (size_t axis = 0; axis < lists.size(); ++axis) {
    for (size_t i = 0; i < lists[axis].len; ++i) {
      const Handle scale(
          H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, static_cast<hobj_ref_t*>(lists[axis].p) + i));
      H5Eclear2(H5E_DEFAULT);
      if (scale) use(axis, scale);
    }
  }
  check_call(H5Dvlen_reclaim(type, space, H5P_DEFAULT, lists.data()), kContext);
}

std::string path_of(hid_t object) {
  const auto length = check_call(H5Iget_name(object, nullptr, 0), "a name");
  std::string path(static_cast<size_t>(length) + 1, '\0');
  check_call(H5Iget_name(object, path.data(), path.size()), "a name");
  path.pop_back();
  return path;
}

}  // namespace

std::vector<std::string> axis_names_of(const std::string& file, const std::string& object) {
  const StoredDataset stored = describe_dataset(file, object);
  if (!stored.storage.file.empty() || !stored.storage.fields.empty() || stored.storage.array_axes > 0) return {};
  ByteWriter request;
  request.put_string(file);
  request.put_string(stored.info.object);
  request.put_dims(stored.info.shape);
  const std::string reply =
      call_library(LibraryCall::get_axis_names, request.take(), fmt::format("'{}' in '{}'", stored.info.object, file));
  ByteReader in(reply);
  std::vector<std::string> names(static_cast<size_t>(stored.info.shape.size()));
  for (std::string& name : names) name = in.get_string();
  const auto known = stored.info.attributes.find("CLASS");
  if (names.size() == 1 && known != stored.info.attributes.end() && known->second == Attribute("DIMENSION_SCALE"))
    names[0] = stored.info.object.substr(stored.info.object.rfind('/') + 1);
  const bool all = std::ranges::none_of(names, [](const std::string& name) { return name.empty(); });
  return all ? names : std::vector<std::string>();
}

std::vector<std::string> library_axis_names(const std::string& file, const std::string& path,
                                            const local::Dims& shape) {
  const LibraryLock lock;
  const Handle opened = open_file(file, H5F_ACC_RDONLY);
  const Handle dataset = check_handle(H5Dopen2(opened, path.c_str(), H5P_DEFAULT), fmt::format("'{}'", path));
  std::vector<std::string> names(static_cast<size_t>(shape.size()));
  for_each_scale(dataset, [&](size_t axis, const Handle& scale) {
    const std::string at = path_of(scale), name = at.substr(at.rfind('/') + 1);
    const Handle space = check_handle(H5Dget_space(scale), "dimension scales");
    const bool fits = axis < names.size() && path_beside(path, name) == at && at != path &&
                      H5Sget_simple_extent_ndims(space) == 1 &&
                      H5Sget_simple_extent_npoints(space) == shape[static_cast<int>(axis)];
    if (fits && std::ranges::find(names, name) == names.end()) names[axis] = name;
  });
  return names;
}

void detach_scales(hid_t file, const std::string& object) {
  const Handle dataset(H5Dopen2(file, object.c_str(), H5P_DEFAULT));
  H5Eclear2(H5E_DEFAULT);
  if (!dataset) return;
  const hobj_ref_t self = reference_to(file, object);
  for_each_scale(dataset, [&](size_t /*axis*/, const Handle& scale) {
    std::vector<Reference> references = references_of(scale);
    std::erase_if(references, [&](const Reference& reference) { return reference.dataset == self; });
    set_references(scale, references);
  });
}

}  // namespace quarry::io::hdf5
