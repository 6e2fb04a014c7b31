// Every kind of chunk index, as the library writes it with libver="latest": read directly, equal to what was written.
#include <algorithm>
#include <fstream>
#include <numeric>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/parse/checksum.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using test::h5;
using test::H5File;
using test::H5Options;

constexpr int64_t kNone = -1;  // no limit

Bytes counted(const Dims& shape) {
  std::vector<int32_t> data(static_cast<size_t>(local::element_count(shape)));
  std::iota(data.begin(), data.end(), 1);
  Bytes bytes(data.size() * sizeof(int32_t));
  std::memcpy(bytes.data(), data.data(), bytes.size());
  return bytes;
}

int in_file = 0;  // indexes so far that stayed in their file

void expect_equal(const std::string& file, const Bytes& expected) {
  const auto dataset = Dataset::open(file, "/x");
  EXPECT_TRUE(dataset->info().direct) << dataset->info().library_reason;
  const Region whole = Region::whole(dataset->info().shape);
  EXPECT_EQ(read_region(*dataset, whole), expected);
  EXPECT_EQ(visit_region(*dataset, whole), expected);
  // The index stays in its file, or would, but for chunks in a row.
  hdf5::StoredDataset stored = hdf5::describe_dataset(file, "/x", /*most_index_bytes=*/0);
  const bool is_in_file = stored.storage.index.is_in_file();
  const int64_t count = hdf5::describe_dataset(file, "/x").storage.index.count();
  EXPECT_EQ(stored.storage.index.count(), count);
  ByteWriter bytes;
  hdf5::serialize(stored, bytes);
  const std::string text = bytes.take();
  ByteReader in(text);
  const auto parts = hdf5::dataset_of(hdf5::deserialize(in));
  EXPECT_EQ(read_region(*parts, whole), expected);
  int64_t met = 0;
  EXPECT_TRUE(hdf5::for_each_stored_chunk(*parts, [&](const Region&) { return ++met > 0; }));
  EXPECT_EQ(met, count);
  in_file += is_in_file;
  const auto sent = Dataset::deserialize(dataset->serialize());
  std::mt19937 random(3);
  for (int i = 0; i < 5; ++i) {
    const Region region = random_region(dataset->info().shape, random);
    EXPECT_EQ(read_region(*sent, region), pick(expected, dataset->info().shape, 4, region));
    EXPECT_EQ(read_region(*parts, region), pick(expected, dataset->info().shape, 4, region));
  }
}

struct Case {
  const char* name;
  Dims shape, limits, chunk;
  bool early = false;
};

const Case kCases[] = {
    {"single", {5, 7}, {5, 7}, {5, 7}},
    {"single_larger_than_the_shape", {5, 7}, {8, 8}, {8, 8}},
    {"row", {20, 30}, {20, 30}, {6, 7}, /*early=*/true},
    {"row_that_may_grow", {20, 30}, {50, 40}, {6, 7}, /*early=*/true},
    {"fixed", {20, 30}, {20, 30}, {6, 7}},
    {"fixed_that_may_grow", {20, 30}, {50, 64}, {6, 7}},
    {"fixed_1d", {1000}, {1000}, {3}},
    {"fixed_in_pages", {5000}, {5000}, {2}},
    {"fixed_in_pages_that_may_grow", {60, 50}, {90, 80}, {1, 1}},
    {"extensible_slowest", {50, 20}, {kNone, 20}, {3, 6}},
    {"extensible_fastest", {20, 50}, {20, kNone}, {6, 3}},
    {"extensible_middle_that_may_grow", {4, 50, 6}, {9, kNone, 8}, {2, 1, 3}},
    {"extensible_1d", {9000}, {kNone}, {1}},
    {"tree", {20, 30}, {kNone, kNone}, {6, 7}},
    {"tree_of_three_levels", {150, 100}, {kNone, kNone}, {1, 1}},
    {"tree_3d", {9, 8, 7}, {kNone, 12, kNone}, {2, 3, 4}},
};

class ChunkIndexKinds : public testing::TestWithParam<Case> {};

TEST_P(ChunkIndexKinds, ReadDirectly) {
  const Case& c = GetParam();
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Bytes data = counted(c.shape);
  const int before = in_file;
  const int64_t chunks = local::element_count(hdf5::chunk_grid(c.shape, c.chunk));
  for (const bool filtered : {false, true})
    for (const auto& [latest, plain_edges] : {std::pair(true, false), {true, true}, {false, false}}) {
      if ((plain_edges && !filtered) || (filtered && c.early)) continue;  // early allocation is for unfiltered chunks
      SCOPED_TRACE(filtered ? plain_edges ? "unfiltered edges" : "filtered" : "plain");
      SCOPED_TRACE(latest ? "latest" : "version 1 B-tree");
      H5Options options{.chunk = c.chunk, .limits = c.limits, .unfiltered_edges = plain_edges, .early = c.early};
      if (filtered) options.deflate = 1, options.shuffle = options.fletcher32 = true;
      H5File f(file, latest);
      f.write("/x", c.shape, H5T_STD_I32LE, H5T_STD_I32LE, data.data(), options);
      f.close();
      expect_equal(file, data);
    }
  // The filtered ones.
  if (!c.early && chunks > 1) {
    EXPECT_GE(in_file, before + 3);
  }
}

// Most chunks were never written: pages and blocks of the index are missing.
TEST_P(ChunkIndexKinds, WithHoles) {
  const Case& c = GetParam();
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  Bytes expected(static_cast<size_t>(local::element_count(c.shape) * 4));
  const int32_t fill = -7;
  for (size_t i = 0; i < expected.size(); i += 4) std::memcpy(&expected[i], &fill, 4);
  for (const bool filtered : {false, true}) {
    if (filtered && c.early) continue;
    H5Options options{.chunk = c.chunk, .limits = c.limits, .fill = &fill, .early = c.early};
    if (filtered) options.deflate = 1;
    Bytes now = expected;
    H5File f(file, /*latest=*/true);
    const hid_t dataset = f.create("/x", c.shape, H5T_STD_I32LE, options, H5T_STD_I32LE);
    std::mt19937 random(11);
    for (int i = 0; i < 7; ++i) {
      int64_t at = static_cast<int64_t>(random() % static_cast<uint64_t>(local::element_count(c.shape))), rest = at;
      hsize_t start[3] = {}, count[3] = {1, 1, 1};
      for (int d = c.shape.size() - 1; d >= 0; --d) {
        start[d] = static_cast<hsize_t>(rest % c.shape[d]);
        rest /= c.shape[d];
      }
      const hid_t space = h5(H5Dget_space(dataset)), one = h5(H5Screate_simple(c.shape.size(), count, nullptr));
      h5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr));
      h5(H5Dwrite(dataset, H5T_STD_I32LE, one, space, H5P_DEFAULT, &i));
      H5Sclose(space);
      H5Sclose(one);
      std::memcpy(&now[static_cast<size_t>(at) * 4], &i, 4);
    }
    H5Dclose(dataset);
    f.close();
    expect_equal(file, now);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ChunkIndexKinds, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// Data blocks of the extensible array's later super blocks come in pages.
TEST(ExtensibleArrayTest, BlocksInPages) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Dims shape{400000};
  Bytes expected(static_cast<size_t>(shape[0]) * 4);
  H5File f(file, /*latest=*/true);
  const hid_t dataset = f.create("/x", shape, H5T_STD_I32LE, {.chunk = Dims{1}, .limits = Dims{kNone}}, H5T_STD_I32LE);
  int32_t value = 0;
  for (const hsize_t at : {hsize_t{0}, hsize_t{3}, hsize_t{131055}, hsize_t{131056}, hsize_t{131999}, hsize_t{200000},
                           hsize_t{262127}, hsize_t{262128}, hsize_t{301234}, hsize_t{399999}}) {
    ++value;
    const hsize_t one = 1;
    const hid_t space = h5(H5Dget_space(dataset)), memory = h5(H5Screate_simple(1, &one, nullptr));
    h5(H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, nullptr, &one, nullptr));
    h5(H5Dwrite(dataset, H5T_STD_I32LE, memory, space, H5P_DEFAULT, &value));
    H5Sclose(space);
    H5Sclose(memory);
    std::memcpy(&expected[at * 4], &value, 4);
  }
  H5Dclose(dataset);
  f.close();
  const auto opened = Dataset::open(file, "/x");
  EXPECT_TRUE(opened->info().direct) << opened->info().library_reason;
  EXPECT_EQ(opened->info().stored_bytes, 4 * value);
  EXPECT_EQ(read_region(*opened, Region::whole(shape)), expected);
}

// A data set that has shrunk keeps chunks outside of its shape, or parts of them.
TEST(ChunkIndexTest, ShrunkDataSets) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Dims shape{30, 40};
  const Bytes data = counted(shape);
  for (const Dims& limits : {Dims{30, 40}, Dims{kNone, 40}, Dims{kNone, kNone}}) {
    H5File f(file, /*latest=*/true);
    const hid_t dataset = f.create("/x", shape, H5T_STD_I32LE, {.chunk = Dims{4, 6}, .limits = limits}, H5T_STD_I32LE);
    h5(H5Dwrite(dataset, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()));
    const hsize_t smaller[] = {17, 25};
    h5(H5Dset_extent(dataset, smaller));
    H5Dclose(dataset);
    f.close();
    expect_equal(file, pick(data, shape, 4, {.start = {0, 0}, .count = {17, 25}, .step = {1, 1}}));
  }
}

// One changed byte anywhere in the index is noticed by its checksum, or does no harm.
TEST(ChunkIndexTest, DamagedBlocksAreNoticed) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  for (const Case& c : kCases) {
    if (c.early || std::string(c.name).starts_with("single")) continue;
    H5File f(file, /*latest=*/true);
    const Bytes data = counted(c.shape);
    f.write("/x", c.shape, H5T_STD_I32LE, H5T_STD_I32LE, data.data(), {.chunk = c.chunk, .limits = c.limits});
    f.close();
    std::ifstream in(file, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    int blocks = 0;
    for (const char* const signature : {"FAHD", "FADB", "EAHD", "EAIB", "EADB", "BTHD", "BTIN", "BTLF"}) {
      const size_t at = bytes.find(signature);
      if (at == std::string::npos) continue;
      ++blocks;
      std::string bad = bytes;
      bad[at + 7] = static_cast<char>(bad[at + 7] ^ 1);
      std::ofstream(file, std::ios::binary) << bad;
      const std::string message = message_of<local::IoError>([&] { Dataset::open(file, "/x"); });
      EXPECT_NE(message.find("checksum"), std::string::npos) << c.name << ", " << signature << ": " << message;
    }
    EXPECT_GE(blocks, 2) << c.name;
  }
}

// The examples of the function's author.
TEST(MetadataChecksumTest, KnownValues) {
  const auto sum = [](std::string_view text) { return hdf5::metadata_checksum(std::as_bytes(std::span(text))); };
  EXPECT_EQ(sum(""), 0xdeadbeefu);
  EXPECT_EQ(sum("Four score and seven years ago"), 0x17770551u);
}

}  // namespace
}  // namespace quarry::io
