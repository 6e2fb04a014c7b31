// Files that others wrote: every data set of the HDF Group's test files and a netCDF-4 file, against H5Dread.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/library.h"
#include "quarry/io/hdf5/types.h"
#include "tests/support/source_file.h"
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
  const hdf5::StoredDataset stored = hdf5::describe_dataset(file, object);
  const std::vector<std::string>& fields = stored.storage.fields;
  std::string path = object;
  for (const std::string& field : fields) path.resize(path.size() - field.size() - 1);
  const hdf5::Handle dataset(H5Dopen2(id, path.c_str(), H5P_DEFAULT));
  if (!dataset) return std::nullopt;
  const hdf5::Handle space(H5Dget_space(dataset));
  // Around the number: arrays of it, and the compounds that it is a field of.
  hdf5::Handle memory = hdf5::memory_type(dtype, stored.storage.bitfield, {});
  std::vector<hsize_t> extents(stored.info.shape.end() - stored.storage.array_axes, stored.info.shape.end());
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
  std::string list;  // of what was not read, and why
};

// Without what depends on where the files are.
std::string reason_of(std::string text, const std::string& file) {
  for (size_t at = text.find(file); at != std::string::npos; at = text.find(file, at))
    text.replace(at, file.size(), fs::path(file).filename().string());
  std::ranges::replace(text, '\n', ' ');
  return text;
}

void check_dataset(const std::string& file, const std::string& object, Counts& counts) {
  SCOPED_TRACE(object);
  std::shared_ptr<Dataset> dataset;
  try {
    dataset = Dataset::open(file, object);
  } catch (const local::Error& error) {
    ++counts.refused;
    counts.list += fmt::format("  {}\n", reason_of(error.what(), file));
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
    counts.list += fmt::format("  '{}': not compared, the library does not read it\n", object);
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
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".h5") paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    const std::string file = path.string();
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
      counts.list += fmt::format("{}: {}\n", path.filename().string(), reason_of(error.what(), file));
      continue;
    }
    const int read = counts.read + counts.too_large;
    const std::string before = std::exchange(counts.list, "");
    for (const ObjectInfo& object : objects) {
      if (object.note.starts_with("an attribute is left out")) continue;  // beside the object itself
      if (!object.is_group) check_dataset(file, object.path, counts);
      if (object.is_group && object.note.find("damaged") != std::string::npos)
        counts.list += fmt::format("  '{}': {}\n", object.path, object.note);
    }
    counts.list = before +
                  fmt::format("{}: {} read\n", path.filename().string(), counts.read + counts.too_large - read) +
                  counts.list;
  }
  // What becomes of every object is known; where this list is right and the committed one is not, it takes its place.
  std::ifstream committed(test::source_file("tests/unit/io/hdf5/hdfgroup.txt"));
  const std::string expected((std::istreambuf_iterator<char>(committed)), {});
  if (counts.list != expected) {
    const std::string made = ::testing::TempDir() + "hdfgroup.txt";
    std::ofstream(made) << counts.list;
    ADD_FAILURE() << made << " is not tests/unit/io/hdf5/hdfgroup.txt";
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
