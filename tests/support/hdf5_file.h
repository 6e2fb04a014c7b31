// HDF5 files for tests, written and read with the HDF5 library itself.
#pragma once

#include <hdf5.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"

namespace quarry::test {

inline hid_t h5(hid_t id, const char* what = "HDF5 call") {
  if (id < 0) throw std::runtime_error(std::string(what) + " failed");
  return id;
}

struct H5Options {
  std::optional<local::Dims> chunk = std::nullopt;
  int deflate = -1;  // level
  bool shuffle = false, fletcher32 = false;
  bool compact = false;
  bool unlimited = false;
  std::optional<local::Dims> limits = std::nullopt;  // what axes may grow to; -1: without limit
  bool unfiltered_edges = false;
  const void* fill = nullptr;  // one element of the memory type
  bool early = false;
};

// A file open for writing; data sets are added with the library.
class H5File {
 public:
  explicit H5File(const std::string& path, bool latest = false, hsize_t user_block = 0) {
    const hid_t create = h5(H5Pcreate(H5P_FILE_CREATE)), access = h5(H5Pcreate(H5P_FILE_ACCESS));
    h5(H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));  // whatever a test left open
    if (user_block) h5(H5Pset_userblock(create, user_block));
    if (latest) h5(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
    id_ = h5(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, create, access), "creating a file");
    H5Pclose(create);
    H5Pclose(access);
  }
  ~H5File() { close(); }
  H5File(const H5File&) = delete;
  H5File& operator=(const H5File&) = delete;
  hid_t id() const { return id_; }
  void close() {
    if (id_ >= 0) H5Fclose(id_);
    id_ = -1;
  }

  // Creates a data set; `data` (of memory_type, may be null: nothing is written). Returns it open.
  hid_t create(const std::string& object, const local::Dims& shape, hid_t file_type, const H5Options& options = {},
               hid_t memory_type = H5I_INVALID_HID) {
    hsize_t extents[local::kMaxDims], limits[local::kMaxDims], chunk[local::kMaxDims];
    for (int d = 0; d < shape.size(); ++d) {
      extents[d] = static_cast<hsize_t>(shape[d]);
      limits[d] = options.unlimited ? H5S_UNLIMITED : extents[d];
      if (options.limits) limits[d] = static_cast<hsize_t>((*options.limits)[d]);
    }
    const hid_t space = h5(shape.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(shape.size(), extents, limits));
    const hid_t create = h5(H5Pcreate(H5P_DATASET_CREATE)), links = h5(H5Pcreate(H5P_LINK_CREATE));
    h5(H5Pset_create_intermediate_group(links, 1));
    if (options.compact) h5(H5Pset_layout(create, H5D_COMPACT));
    if (options.early) h5(H5Pset_alloc_time(create, H5D_ALLOC_TIME_EARLY));
    if (options.chunk) {
      for (int d = 0; d < shape.size(); ++d) chunk[d] = static_cast<hsize_t>((*options.chunk)[d]);
      h5(H5Pset_chunk(create, shape.size(), chunk));
    }
    if (options.unfiltered_edges) h5(H5Pset_chunk_opts(create, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS));
    if (options.shuffle) h5(H5Pset_shuffle(create));
    if (options.deflate >= 0) h5(H5Pset_deflate(create, static_cast<unsigned>(options.deflate)));
    if (options.fletcher32) h5(H5Pset_fletcher32(create));
    if (options.fill) h5(H5Pset_fill_value(create, memory_type, options.fill));
    const hid_t dataset =
        h5(H5Dcreate2(id_, object.c_str(), file_type, space, links, create, H5P_DEFAULT), "creating a data set");
    H5Sclose(space);
    H5Pclose(create);
    H5Pclose(links);
    return dataset;
  }

  void write(const std::string& object, const local::Dims& shape, hid_t file_type, hid_t memory_type, const void* data,
             const H5Options& options = {}) {
    const hid_t dataset = create(object, shape, file_type, options, memory_type);
    if (data) h5(H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "writing");
    H5Dclose(dataset);
  }

 private:
  hid_t id_ = -1;
};

// The library's types of the plain dtypes, little- or big-endian.
inline hid_t h5_type(local::DType dtype, bool big = false) {
  using local::DType;
  switch (dtype) {
    case DType::int8:
      return big ? H5T_STD_I8BE : H5T_STD_I8LE;
    case DType::int16:
      return big ? H5T_STD_I16BE : H5T_STD_I16LE;
    case DType::int32:
      return big ? H5T_STD_I32BE : H5T_STD_I32LE;
    case DType::int64:
      return big ? H5T_STD_I64BE : H5T_STD_I64LE;
    case DType::uint8:
      return big ? H5T_STD_U8BE : H5T_STD_U8LE;
    case DType::uint16:
      return big ? H5T_STD_U16BE : H5T_STD_U16LE;
    case DType::uint32:
      return big ? H5T_STD_U32BE : H5T_STD_U32LE;
    case DType::uint64:
      return big ? H5T_STD_U64BE : H5T_STD_U64LE;
    case DType::float32:
      return big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE;
    case DType::float64:
      return big ? H5T_IEEE_F64BE : H5T_IEEE_F64LE;
    case DType::bool_:
    case DType::float16:
    case DType::bfloat16:
    case DType::complex64:
    case DType::complex128:
      break;
  }
  throw std::runtime_error("h5_type: not a plain type");
}

}  // namespace quarry::test
