#include "quarry/io/hdf5/read/library_dataset.h"

#include <algorithm>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/types.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {

std::string library_dataset_of(const StoredDataset& stored) {
  ByteWriter out;
  out.put_string(data_file(stored));
  out.put(stored.storage.header);
  out.put(stored.info.dtype);
  out.put(stored.storage.bitfield);
  out.put<int32_t>(static_cast<int32_t>(stored.storage.fields.size()));
  for (const std::string& field : stored.storage.fields) out.put_string(field);
  return out.take();
}

LibraryDataset::LibraryDataset(ByteReader in) {
  const std::string path = in.get_string();
  const auto header = in.get<int64_t>();
  const auto dtype = in.get<local::DType>();
  const auto bitfield = in.get<bool>();
  std::vector<std::string> fields(static_cast<size_t>(in.get<int32_t>()));
  for (std::string& field : fields) field = in.get_string();
  // The library crashes on some damaged files: what it will read is looked at before, also where the file is another
  // one by now. That says better what is wrong than how the library ends.
  const auto checked = MetadataFile::open(path);
  check_for_library(*checked, read_object(checked->metadata, header));
  file_ = open_file(path, H5F_ACC_RDONLY);
  dataset_ = check_handle(H5Oopen_by_addr(file_, static_cast<haddr_t>(header)), "cannot be opened");
  if (H5Iget_type(dataset_) != H5I_DATASET) throw local::IoError("it is a data set no more");
  type_ = memory_type(dtype, bitfield, fields);
  item_ = local::itemsize(dtype);
}

void LibraryDataset::read(const local::Dims& low, const local::Dims& step, const local::Dims& count,
                          std::span<std::byte> to) const {
  QUARRY_CHECK(local::element_count(count) * item_ <= std::ssize(to));
  const Handle space = check_handle(H5Dget_space(dataset_), "dataspace");
  const int rank = count.size();
  if (H5Sget_simple_extent_ndims(space) != rank) throw local::IoError("its shape has changed since it was opened");
  if (rank == 0) {
    check_call(H5Dread(dataset_, type_, H5S_ALL, H5S_ALL, H5P_DEFAULT, to.data()), "cannot be read");
    return;
  }
  hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], extent[H5S_MAX_RANK];
  for (int d = 0; d < rank; ++d) {
    start[d] = static_cast<hsize_t>(low[d]);
    stride[d] = static_cast<hsize_t>(step[d]);
    extent[d] = static_cast<hsize_t>(count[d]);
  }
  check_call(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, extent, nullptr), "selection");
  const Handle memory = check_handle(H5Screate_simple(rank, extent, nullptr), "selection");
  check_call(H5Dread(dataset_, type_, memory, space, H5P_DEFAULT, to.data()), "cannot be read");
}

}  // namespace quarry::io::hdf5
