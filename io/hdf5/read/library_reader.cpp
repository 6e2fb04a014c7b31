#include "quarry/io/hdf5/read/library_reader.h"

#include <fmt/format.h>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/types.h"

namespace quarry::io::hdf5 {

LibraryReader::LibraryReader(const StoredDataset& stored)
    : path_(data_file(stored)),
      header_(stored.storage.header),
      dtype_(stored.info.dtype),
      bitfield_(stored.storage.bitfield),
      fields_(stored.storage.fields) {}

LibraryReader::~LibraryReader() {
  const LibraryLock lock;
  close();
}

void LibraryReader::close() noexcept {
  type_.reset();
  dataset_.reset();
  file_.reset();
}

void LibraryReader::open() {
  if (dataset_) return;
  close();
  // The library crashes on some damaged files: what it will read is looked at before, also where the file is another
  // one by now.
  const auto checked = MetadataFile::open(path_);
  check_for_library(*checked, read_object(checked->metadata, header_));
  file_ = open_file(path_, H5F_ACC_RDONLY);
  dataset_ = check_handle(H5Oopen_by_addr(file_, static_cast<haddr_t>(header_)), "cannot be opened");
  if (H5Iget_type(dataset_) != H5I_DATASET) throw local::IoError("it is a data set no more");
  type_ = memory_type(dtype_, bitfield_, fields_);
}

void LibraryReader::read(const local::Dims& low, const local::Dims& step, const local::Dims& count, void* to) {
  const LibraryLock lock;
  open();
  const Handle space = check_handle(H5Dget_space(dataset_), "dataspace");
  const int rank = count.size();
  if (H5Sget_simple_extent_ndims(space) != rank) throw local::IoError("its shape has changed since it was opened");
  if (rank == 0) {
    check_call(H5Dread(dataset_, type_, H5S_ALL, H5S_ALL, H5P_DEFAULT, to), "cannot be read");
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
  check_call(H5Dread(dataset_, type_, memory, space, H5P_DEFAULT, to), "cannot be read");
}

}  // namespace quarry::io::hdf5
