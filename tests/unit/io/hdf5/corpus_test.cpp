// Files that others wrote: every data set of the HDF Group's test files and a netCDF-4 file, against H5Dread.
#include <cstdlib>
#include <filesystem>
#include <map>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/types.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

namespace fs = std::filesystem;
using test::h5;

fs::path test_data() {
  if (const char* named = std::getenv("QUARRY_TEST_DATA")) return named;
  for (fs::path at = fs::current_path(); at != at.root_path(); at = at.parent_path())
    if (fs::exists(at / "../shared/data")) return at / "../shared/data";
  return {};
}

// All elements as the library converts them; nothing where it fails.
std::optional<Bytes> reference(const std::string& file, const std::string& object, DType dtype) {
  const hdf5::LibraryLock lock;
  const hdf5::Handle access = hdf5::file_access();
  const hdf5::Handle id(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access));
  if (!id) return std::nullopt;
  std::string path = object;
  std::vector<std::string> fields;
  for (size_t colon; !hdf5::object_exists(id, path) && (colon = path.rfind(':')) != std::string::npos;) {
    fields.insert(fields.begin(), path.substr(colon + 1));
    path.resize(colon);
  }
  const hdf5::Handle dataset(H5Dopen2(id, path.c_str(), H5P_DEFAULT));
  const hdf5::Handle type(H5Dget_type(dataset)), space(H5Dget_space(dataset));
  const hdf5::ElementType element = hdf5::describe_element(type, fields);
  // Around the number: arrays of it, and the compounds that it is a field of.
  hdf5::Handle memory = hdf5::memory_type(dtype, element.number.bitfield, {});
  std::vector<hsize_t> extents(element.array.begin(), element.array.end());
  if (!extents.empty())
    memory = hdf5::Handle(h5(H5Tarray_create2(memory, static_cast<unsigned>(extents.size()), extents.data())));
  for (size_t i = fields.size(); i-- > 0;) {
    hdf5::Handle around(h5(H5Tcreate(H5T_COMPOUND, H5Tget_size(memory))));
    h5(H5Tinsert(around, fields[i].c_str(), 0, memory));
    memory = std::move(around);
  }
  Bytes out(static_cast<size_t>(H5Sget_simple_extent_npoints(space)) * H5Tget_size(memory));
  if (H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()) < 0) return std::nullopt;
  return out;
}

struct Counts {
  int files = 0, rejected = 0, read = 0, direct = 0, refused = 0, too_large = 0, unreadable = 0;
};

void check_dataset(const std::string& file, const std::string& object, Counts& counts) {
  SCOPED_TRACE(object);
  std::shared_ptr<Dataset> dataset;
  try {
    dataset = Dataset::open(file, object);
  } catch (const local::Error&) {
    ++counts.refused;
    return;
  }
  const Dims& shape = dataset->info().shape;
  const double bytes =
      static_cast<double>(local::element_count(shape)) * static_cast<double>(local::itemsize(dataset->info().dtype));
  if (bytes > 64 << 20) {
    // Files of a few KiB with shapes of GiB: a corner must do.
    ++counts.too_large;
    Region corner = Region::whole(shape);
    for (int64_t& count : corner.count) count = std::min<int64_t>(count, 3);
    EXPECT_EQ(read_region(*dataset, corner), visit_region(*dataset, corner));
    return;
  }
  const std::optional<Bytes> expected = reference(file, object, dataset->info().dtype);
  if (!expected) {
    ++counts.unreadable;
    try {
      read_region(*dataset, Region::whole(shape));  // quarry may read what the library cannot; it must not crash
    } catch (const local::IoError&) {
    }
    return;
  }
  EXPECT_EQ(read_region(*dataset, Region::whole(shape)), *expected);
  EXPECT_EQ(visit_region(*dataset, Region::whole(shape)), *expected);
  std::mt19937 random(5);
  const Region region = random_region(shape, random);
  EXPECT_EQ(read_region(*Dataset::deserialize(dataset->serialize()), region),
            pick(*expected, shape, local::itemsize(dataset->info().dtype), region));
  ++counts.read;
  counts.direct += dataset->info().direct;
}

TEST(CorpusTest, EveryDataSetOfTheHdfGroupsTestFiles) {
  const fs::path folder = test_data() / "hdf5/hdfgroup";
  if (!fs::exists(folder)) GTEST_SKIP() << "needs ../shared/data (hdf5/hdfgroup)";
  Counts counts;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".h5") continue;
    const std::string file = entry.path().string();
    SCOPED_TRACE(file);
    ++counts.files;
    std::vector<ObjectInfo> objects;
    try {
      objects = list_objects(file);
    } catch (const local::IoError& error) {
      // What the library rejects is rejected with a reason that names the file.
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
      const hdf5::LibraryLock lock;
      EXPECT_LT(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), 0);
      ++counts.rejected;
      continue;
    }
    for (const ObjectInfo& object : objects)
      if (!object.is_group) check_dataset(file, object.path, counts);
  }
  RecordProperty("files", counts.files);
  std::printf("%d files, %d rejected; data sets: %d read (%d directly), %d refused, %d too large, %d unreadable\n",
              counts.files, counts.rejected, counts.read, counts.direct, counts.refused, counts.too_large,
              counts.unreadable);
  EXPECT_GE(counts.files, 170);
  EXPECT_GE(counts.read, 300);
  EXPECT_GE(counts.direct, counts.read / 2);
}

TEST(CorpusTest, SeaSurfaceTemperature) {
  const fs::path file = test_data() / "climate/sst.mnmean.nc";
  if (!fs::exists(file)) GTEST_SKIP() << "needs ../shared/data (climate/sst.mnmean.nc)";
  Counts counts;
  for (const ObjectInfo& object : list_objects(file.string()))
    if (object.dataset) check_dataset(file.string(), object.path, counts);
  EXPECT_GE(counts.read, 4);
  const auto sst = Dataset::open(file.string(), "/sst");
  EXPECT_EQ(sst->info().shape.size(), 3);
  EXPECT_TRUE(sst->info().attributes.contains("units"));
}

}  // namespace
}  // namespace quarry::io
