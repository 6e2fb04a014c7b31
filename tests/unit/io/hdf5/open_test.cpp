// What cannot be opened, and the listing of a file.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using test::h5;
using test::H5File;

void expect_parts(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << " lacks " << part;
}

template <class E>
void refuses(const std::string& file, const std::string& object, std::initializer_list<std::string> parts) {
  expect_parts(message_of<E>([&] { Dataset::open(file, object); }), parts);
}

class OpenTest : public ::testing::Test {
 protected:
  OpenTest() : file_(dir_ / "a.h5") {
    const int32_t data[4] = {1, 2, 3, 4};
    H5File f(file_);
    const hid_t i32 = H5T_STD_I32LE;
    f.write("/returns", {4}, i32, i32, data);
    f.write("/group/prices", {2, 2}, i32, i32, data, {.chunk = Dims{2, 1}, .deflate = 3, .shuffle = true});
    h5(H5Lcreate_soft("/group/prices", f.id(), "/soft", H5P_DEFAULT, H5P_DEFAULT));
    h5(H5Lcreate_soft("/nothing", f.id(), "/dangling", H5P_DEFAULT, H5P_DEFAULT));
    h5(H5Lcreate_external("other.h5", "/x", f.id(), "/external", H5P_DEFAULT, H5P_DEFAULT));
    h5(H5Lcreate_hard(f.id(), "/group", f.id(), "/group/again", H5P_DEFAULT, H5P_DEFAULT));
    const hid_t text = h5(H5Tcopy(H5T_C_S1)), variable = h5(H5Tcopy(H5T_C_S1));
    h5(H5Tset_size(text, 6));
    h5(H5Tset_size(variable, H5T_VARIABLE));
    f.write("/text", {2}, text, text, nullptr);
    f.write("/variable", {2}, variable, variable, nullptr);
    const hid_t pair = h5(H5Tcreate(H5T_COMPOUND, 12));
    h5(H5Tinsert(pair, "price", 0, H5T_IEEE_F64LE));
    h5(H5Tinsert(pair, "day", 8, i32));
    f.write("/pairs", {2}, pair, pair, nullptr);
    f.write("/long", {2}, H5T_NATIVE_LDOUBLE, H5T_NATIVE_LDOUBLE, nullptr);
    h5(H5Tcommit2(f.id(), "/type", text, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const hid_t null = h5(H5Screate(H5S_NULL));
    H5Dclose(h5(H5Dcreate2(f.id(), "/null", i32, null, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
  }

  const test::TempDir dir_;
  const std::string file_;
};

TEST_F(OpenTest, MissingFilesAreTheUsersMistake) {
  refuses<local::InvalidArgument>(dir_ / "none.h5", "/x", {"none.h5", "No such file or directory"});
  refuses<local::InvalidArgument>(dir_.path().string(), "/x", {"directory"});
  const std::string pipe = dir_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  refuses<local::InvalidArgument>(pipe, "/x", {"not a regular file"});
  EXPECT_THROW(list_objects(dir_ / "none.h5"), local::InvalidArgument);
}

TEST_F(OpenTest, OtherAndTruncatedFilesAreInputErrors) {
  const std::string text = dir_ / "text.h5", empty = dir_ / "empty.h5", cut = dir_ / "cut.h5";
  std::ofstream(text) << std::string(5000, 'x');
  std::ofstream(empty) << "";
  refuses<local::IoError>(text, "/x", {text, "not an HDF5 file"});
  refuses<local::IoError>(empty, "/x", {empty});
  const auto size = std::filesystem::file_size(file_);
  for (uintmax_t keep : {size - 1, size / 2, uintmax_t{100}}) {
    std::filesystem::copy_file(file_, cut, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(cut, keep);
    refuses<local::IoError>(cut, "/returns", {cut});
    EXPECT_THROW(list_objects(cut), local::IoError);
  }
}

TEST_F(OpenTest, AFileThatShrinksWhileOpen) {
  const std::string file = dir_ / "b.h5";
  const Bytes data = random_bytes(1 << 20, 1);
  H5File(file).write("/x", {1 << 20}, H5T_STD_U8LE, H5T_STD_U8LE, data.data());
  const auto dataset = Dataset::open(file, "/x");
  EXPECT_EQ(read_region(*dataset, Region::box({0}, {10})).size(), 10u);
  std::filesystem::resize_file(file, 1 << 19);
  const std::string message = message_of<local::IoError>([&] { read_region(*dataset, Region::whole({1 << 20})); });
  expect_parts(message, {"/x", file, "ends early"});
  // Another rank opens what is left.
  const auto copy = Dataset::deserialize(dataset->serialize());
  EXPECT_THROW(read_region(*copy, Region::box({0}, {10})), local::IoError);
}

TEST_F(OpenTest, MissingObjectsNameTheNearest) {
  refuses<local::InvalidArgument>(file_, "/retuns", {"'/retuns'", file_, "did you mean '/returns'"});
  refuses<local::InvalidArgument>(file_, "prices", {"'/prices'", "did you mean '/group/prices'"});
  refuses<local::InvalidArgument>(file_, "/group/price", {"did you mean '/group/prices'"});
  const std::string far = message_of<local::InvalidArgument>([&] { Dataset::open(file_, "/qqqqqqqqqqqq"); });
  EXPECT_EQ(far.find("did you mean"), std::string::npos) << far;
  refuses<local::InvalidArgument>(file_, "/returns/x", {"no object '/returns/x'"});
  refuses<local::InvalidArgument>(file_, "/dangling", {"link", "nowhere"});
  refuses<local::InvalidArgument>(file_, "/external", {"link", "nowhere"});
}

TEST_F(OpenTest, OtherObjectsAndTypes) {
  refuses<local::InvalidArgument>(file_, "/group", {"'/group'", "is a group"});
  refuses<local::InvalidArgument>(file_, "/", {"is a group"});
  refuses<local::InvalidArgument>(file_, "", {"is a group"});
  refuses<local::InvalidArgument>(file_, "/type", {"named type"});
  refuses<local::TypeError>(file_, "/text", {"'/text'", file_, "6-byte string"});
  refuses<local::TypeError>(file_, "/variable", {"variable-length string"});
  refuses<local::TypeError>(file_, "/pairs", {"compound of price, day"});
  refuses<local::TypeError>(file_, "/long", {"floats", "more than float64"});
  refuses<local::TypeError>(file_, "/null", {"null"});
}

TEST_F(OpenTest, PathsAreNormalised) {
  EXPECT_EQ(Dataset::open(file_, "group//prices/")->info().object, "/group/prices");
  EXPECT_EQ(Dataset::open(file_, "returns")->info().object, "/returns");
}

TEST_F(OpenTest, DescribesLayoutAndFilters) {
  const auto dataset = Dataset::open(file_, "/group/prices");
  const DatasetInfo& info = dataset->info();
  EXPECT_EQ(info.layout, "chunked");
  EXPECT_EQ(info.chunks, (Dims{2, 1}));
  ASSERT_EQ(info.filters.size(), 2u);
  EXPECT_EQ(info.filters[0].kind, Filter::Kind::shuffle);
  EXPECT_EQ(info.filters[1].kind, Filter::Kind::deflate);
  EXPECT_EQ(info.filters[1].level, 3);
  EXPECT_GT(info.stored_bytes, 0);
  EXPECT_EQ(Dataset::open(file_, "/returns")->info().stored_bytes, 16);
}

TEST_F(OpenTest, ListsEverything) {
  const std::vector<ObjectInfo> objects = list_objects(file_);
  const auto find = [&](const std::string& path) -> const ObjectInfo& {
    const auto at = std::find_if(objects.begin(), objects.end(), [&](const ObjectInfo& o) { return o.path == path; });
    if (at == objects.end()) throw std::runtime_error("no " + path);
    return *at;
  };
  EXPECT_EQ(objects.front().path, "/");
  EXPECT_TRUE(find("/group").is_group);
  EXPECT_TRUE(find("/group/prices").dataset.has_value());
  EXPECT_EQ(find("/returns").dataset->shape, (Dims{4}));
  EXPECT_EQ(find("/soft").note, "soft link to /group/prices");
  EXPECT_EQ(find("/dangling").note, "soft link to /nothing");
  EXPECT_EQ(find("/external").note, "external link to other.h5:/x");
  EXPECT_EQ(find("/group/again").note, "the same group as /group");
  EXPECT_FALSE(find("/text").dataset.has_value());
  expect_parts(find("/text").note, {"6-byte string"});
  expect_parts(find("/null").note, {"null"});
  EXPECT_EQ(find("/type").note, "named type");
  EXPECT_EQ(list_objects(file_, "/group").size(), 3u);
  EXPECT_EQ(list_objects(file_, "returns").size(), 1u);
  expect_parts(message_of<local::InvalidArgument>([&] { list_objects(file_, "/grup"); }), {"did you mean '/group'"});
}

// A filter that no library here knows.
TEST_F(OpenTest, AMissingFilterIsNamed) {
  const std::string file = dir_ / "zfp.h5";
  {
    H5File f(file);
    const hsize_t extent = 8, chunk = 4;
    const hid_t space = h5(H5Screate_simple(1, &extent, nullptr)), create = h5(H5Pcreate(H5P_DATASET_CREATE));
    h5(H5Pset_chunk(create, 1, &chunk));
    h5(H5Pset_filter(create, 32013, H5Z_FLAG_OPTIONAL, 0, nullptr));
    H5Dclose(h5(H5Dcreate2(f.id(), "/x", H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT)));
  }
  refuses<local::NotSupported>(file, "/x", {"/x", file, "zfp", "32013", "HDF5_PLUGIN_PATH"});
  const auto objects = list_objects(file);
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_TRUE(objects[1].dataset.has_value());
  expect_parts(objects[1].note, {"zfp"});
}

// A shape of more elements than memory holds opens and reads where it is asked to.
TEST_F(OpenTest, MoreThanTwoToThe31Elements) {
  const std::string file = dir_ / "huge.h5";
  const int64_t rows = int64_t{3} << 31;
  const uint8_t value = 42;
  {
    H5File f(file);
    const hid_t dataset = f.create("/x", {rows, 2}, H5T_STD_U8LE, {.chunk = Dims{1 << 20, 2}});
    const hid_t space = h5(H5Dget_space(dataset)), memory = h5(H5Screate(H5S_SCALAR));
    const hsize_t point[2] = {static_cast<hsize_t>(rows - 1), 1};
    h5(H5Sselect_elements(space, H5S_SELECT_SET, 1, point));
    h5(H5Dwrite(dataset, H5T_STD_U8LE, memory, space, H5P_DEFAULT, &value));
    H5Dclose(dataset);
  }
  const auto dataset = Dataset::open(file, "/x");
  EXPECT_EQ(dataset->info().shape, (Dims{rows, 2}));
  const Bytes tail = read_region(*dataset, {{rows - 1, 1}, {3, 2}, {-(rows / 3), -1}});
  EXPECT_EQ(tail, (Bytes{std::byte{42}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}}));
}

}  // namespace
}  // namespace quarry::io
