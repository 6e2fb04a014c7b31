// Data sets of every type and layout, written by the HDF5 library, read by offset.
#include <cstddef>
#include <fstream>
#include <numeric>

#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using test::h5;
using test::H5File;
using test::H5Options;

const DType kPlain[] = {DType::int8,   DType::int16,  DType::int32,  DType::int64,   DType::uint8,
                        DType::uint16, DType::uint32, DType::uint64, DType::float32, DType::float64};

void expect_regions(const Dataset& dataset, const Bytes& data, int regions, unsigned seed) {
  const Dims& shape = dataset.info().shape;
  const int64_t item = local::itemsize(dataset.info().dtype);
  std::mt19937 random(seed);
  for (int i = 0; i < regions; ++i) {
    const Region region = i == 0 ? Region::whole(shape) : random_region(shape, random);
    const Bytes expected = pick(data, shape, item, region);
    SCOPED_TRACE(local::to_string(region.start) + " " + local::to_string(region.step) + " " +
                 local::to_string(region.count));
    ASSERT_EQ(read_region(dataset, region), expected);
    ASSERT_EQ(visit_region(dataset, region), expected);
  }
}

TEST(ReadTest, EveryPlainTypeInBothByteOrders) {
  const test::TempDir dir;
  const Dims shape{7, 9};
  unsigned seed = 1;
  for (DType dtype : kPlain)
    for (bool big : {false, true})
      for (bool chunked : {false, true}) {
        const Bytes data = random_bytes(static_cast<size_t>(63 * local::itemsize(dtype)), seed);
        const std::string file = dir / "a.h5";
        H5Options options;
        if (chunked) options = {.chunk = Dims{4, 4}, .deflate = 4, .shuffle = true, .fletcher32 = true};
        H5File(file).write("/x", shape, test::h5_type(dtype, big), test::h5_type(dtype), data.data(), options);
        const auto dataset = Dataset::open(file, "/x");
        EXPECT_EQ(dataset->info().dtype, dtype);
        EXPECT_EQ(dataset->info().swapped, big && local::itemsize(dtype) > 1);
        EXPECT_TRUE(dataset->info().direct) << dataset->info().library_reason;
        expect_regions(*dataset, data, 8, seed++);
      }
}

hid_t half_type(bool brain, bool big) {
  const hid_t type = h5(H5Tcopy(big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE));
  if (brain)
    h5(H5Tset_fields(type, 15, 7, 8, 0, 7));
  else
    h5(H5Tset_fields(type, 15, 10, 5, 0, 10));
  h5(H5Tset_size(type, 2));
  h5(H5Tset_ebias(type, brain ? 127 : 15));
  return type;
}

TEST(ReadTest, HalfBrainBoolAndComplex) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Bytes data = random_bytes(24 * 16, 5);
  Bytes bools(24);
  for (size_t i = 0; i < bools.size(); ++i) bools[i] = data[i] & std::byte{1};
  {
    H5File f(file);
    for (bool big : {false, true}) {
      const std::string tail = big ? "be" : "le";
      f.write("/half" + tail, {4, 6}, half_type(false, big), half_type(false, false), data.data());
      f.write("/brain" + tail, {4, 6}, half_type(true, big), half_type(true, false), data.data());
      for (DType part : {DType::float32, DType::float64}) {
        const auto bytes = static_cast<size_t>(local::itemsize(part));
        const hid_t stored = h5(H5Tcreate(H5T_COMPOUND, 2 * bytes)), memory = h5(H5Tcreate(H5T_COMPOUND, 2 * bytes));
        for (int i = 0; i < 2; ++i) {
          h5(H5Tinsert(stored, i ? "i" : "r", static_cast<size_t>(i) * bytes, test::h5_type(part, big)));
          h5(H5Tinsert(memory, i ? "i" : "r", static_cast<size_t>(i) * bytes, test::h5_type(part)));
        }
        f.write((part == DType::float32 ? "/c64" : "/c128") + tail, {4, 6}, stored, memory, data.data());
      }
    }
    const hid_t boolean = h5(H5Tenum_create(H5T_STD_I8LE));
    for (int8_t value : {0, 1}) h5(H5Tenum_insert(boolean, value ? "TRUE" : "FALSE", &value));
    f.write("/bool", {4, 6}, boolean, boolean, bools.data());
    f.write("/boolchunked", {4, 6}, boolean, boolean, bools.data(), {.chunk = Dims{3, 4}, .deflate = 1});
    f.write("/boolcompact", {4, 6}, boolean, boolean, bools.data(), {.compact = true});
  }
  const auto check = [&](const std::string& object, DType dtype, bool swapped, const Bytes& expected) {
    SCOPED_TRACE(object);
    const auto dataset = Dataset::open(file, object);
    EXPECT_EQ(dataset->info().dtype, dtype);
    EXPECT_EQ(dataset->info().swapped, swapped);
    EXPECT_TRUE(dataset->info().direct) << dataset->info().library_reason;
    Bytes head(expected.begin(), expected.begin() + 24 * local::itemsize(dtype));
    expect_regions(*dataset, head, 6, 3);
  };
  for (bool big : {false, true}) {
    const std::string tail = big ? "be" : "le";
    check("/half" + tail, DType::float16, big, data);
    check("/brain" + tail, DType::bfloat16, big, data);
    check("/c64" + tail, DType::complex64, big, data);
    check("/c128" + tail, DType::complex128, big, data);
  }
  for (const char* object : {"/bool", "/boolchunked", "/boolcompact"}) check(object, DType::bool_, false, bools);
}

TEST(ReadTest, BoolBytesOtherThanOneReadAsTrue) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  {
    H5File f(file);
    const hid_t boolean = h5(H5Tenum_create(H5T_STD_I8LE));
    for (int8_t value : {0, 1}) h5(H5Tenum_insert(boolean, value ? "TRUE" : "FALSE", &value));
    const int8_t data[6] = {0, 1, 2, -1, 0, 127};
    f.write("/plain", {6}, boolean, boolean, data);
    f.write("/chunked", {6}, boolean, boolean, data, {.chunk = Dims{4}});
    f.write("/filtered", {6}, boolean, boolean, data, {.chunk = Dims{4}, .deflate = 1});
  }
  const Bytes expected{std::byte{0}, std::byte{1}, std::byte{1}, std::byte{1}, std::byte{0}, std::byte{1}};
  for (const char* object : {"/plain", "/chunked", "/filtered"}) {
    const auto dataset = Dataset::open(file, object);
    EXPECT_EQ(read_region(*dataset, Region::whole({6})), expected) << object;
    EXPECT_EQ(visit_region(*dataset, Region::whole({6})), expected) << object;
  }
}

struct Layout {
  const char* name;
  H5Options options;
  bool latest = false;
  hsize_t user_block = 0;
};

TEST(ReadTest, RandomRegionsOfEveryLayout) {
  const test::TempDir dir;
  const Dims shape{37, 5, 41};
  const Dims chunk{8, 2, 16}, tiny{1, 1, 3}, whole{37, 5, 41};
  const Layout layouts[] = {
      {"contiguous", {}},
      {"user block", {}, false, 512},
      {"compact", {.compact = true}},
      {"chunked", {.chunk = chunk}},
      {"chunked, user block", {.chunk = chunk}, false, 1024},
      {"chunked early", {.chunk = chunk, .early = true}},
      {"chunked tiny", {.chunk = tiny}},
      {"one chunk", {.chunk = whole}},
      {"unlimited", {.chunk = chunk, .unlimited = true}},
      {"deflate", {.chunk = chunk, .deflate = 6}},
      {"shuffle", {.chunk = chunk, .shuffle = true}},
      {"fletcher32", {.chunk = chunk, .fletcher32 = true}},
      {"deflate shuffle", {.chunk = chunk, .deflate = 1, .shuffle = true}},
      {"all", {.chunk = chunk, .deflate = 9, .shuffle = true, .fletcher32 = true}},
      {"all tiny", {.chunk = tiny, .deflate = 1, .shuffle = true, .fletcher32 = true}},
      {"latest contiguous", {}, true},
      {"latest chunked", {.chunk = chunk}, true},
      {"latest filtered", {.chunk = chunk, .deflate = 2, .shuffle = true}, true},
      {"latest early", {.chunk = chunk, .early = true}, true},
      {"latest one chunk", {.chunk = whole}, true, 512},
      {"latest one filtered chunk", {.chunk = whole, .deflate = 2, .shuffle = true, .fletcher32 = true}, true},
      {"latest unlimited", {.chunk = chunk, .unlimited = true}, true},
  };
  for (DType dtype : {DType::uint8, DType::int16, DType::float64}) {
    Bytes data = random_bytes(static_cast<size_t>(37 * 5 * 41 * local::itemsize(dtype)), 11);
    for (size_t i = 0; i < data.size(); i += 3) data[i] = std::byte{7};  // something to compress
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(std::string(layout.name) + " " + local::name(dtype));
      const std::string file = dir / "a.h5";
      H5File(file, layout.latest, layout.user_block)
          .write("/g/x", shape, test::h5_type(dtype), test::h5_type(dtype), data.data(), layout.options);
      const auto dataset = Dataset::open(file, "/g/x");
      EXPECT_TRUE(dataset->info().direct) << dataset->info().library_reason;
      expect_regions(*dataset, data, 40, 17);
      const auto copy = Dataset::deserialize(dataset->serialize());
      EXPECT_EQ(copy->serialize(), dataset->serialize());
      EXPECT_EQ(copy->info().layout, dataset->info().layout);
      expect_regions(*copy, data, 3, 18);
      EXPECT_GT(copy->bytes_read() + (layout.options.compact ? 1 : 0), 0);
    }
  }
}

TEST(ReadTest, LargeChunksAreCutIntoPieces) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Dims shape{3000, 70};
  const Bytes data = random_bytes(3000 * 70 * 8, 23);
  {
    H5File f(file);
    f.write("/contiguous", shape, H5T_IEEE_F64LE, H5T_IEEE_F64LE, data.data());
    f.write("/chunked", shape, H5T_IEEE_F64LE, H5T_IEEE_F64LE, data.data(), {.chunk = Dims{2048, 64}});
    f.write("/filtered", shape, H5T_IEEE_F64LE, H5T_IEEE_F64LE, data.data(),
            {.chunk = Dims{2048, 64}, .deflate = 1, .shuffle = true});
  }
  for (const char* object : {"/contiguous", "/chunked", "/filtered"}) {
    SCOPED_TRACE(object);
    const auto dataset = Dataset::open(file, object);
    expect_regions(*dataset, data, 12, 29);
    int64_t pieces = 0;
    Bytes scratch(static_cast<size_t>(dataset->visit_scratch_bytes(Region::whole(shape))));
    dataset->visit(Region::whole(shape), scratch, [&](const Dataset::Piece& piece) {
      ++pieces;
      EXPECT_LE(local::element_count(piece.count) * 8, 256 << 10);
    });
    EXPECT_GE(pieces, 7);
    EXPECT_LE(pieces, 16);
  }
}

TEST(ReadTest, VisitIsTheSameEveryTime) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Bytes data = random_bytes(500 * 300 * 8, 3);
  H5File(file).write("/x", {500, 300}, H5T_IEEE_F64LE, H5T_IEEE_F64LE, data.data(), {.chunk = Dims{130, 70}});
  const auto dataset = Dataset::open(file, "/x");
  const Region region{{499, 3}, {100, 50}, {-4, 5}};
  const auto walk = [&](const Dataset& from, size_t shift) {
    Bytes scratch(static_cast<size_t>(from.visit_scratch_bytes(region)) + shift);
    std::vector<Dims> order;
    from.visit(region, std::span(scratch).subspan(shift), [&](const Dataset::Piece& piece) {
      order.push_back(piece.start);
      order.push_back(piece.count);
    });
    return order;
  };
  const auto first = walk(*dataset, 0);
  EXPECT_GT(first.size(), 2u);
  EXPECT_EQ(first, walk(*dataset, 8));
  EXPECT_EQ(first, walk(*Dataset::deserialize(dataset->serialize()), 0));
}

TEST(ReadTest, ScalarsAndEmptyAxes) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const double value = 2.5;
  {
    H5File f(file);
    f.write("/scalar", {}, H5T_IEEE_F64BE, H5T_IEEE_F64LE, &value);
    f.write("/compact", {}, H5T_IEEE_F64LE, H5T_IEEE_F64LE, &value, {.compact = true});
    f.write("/empty", {0}, H5T_IEEE_F64LE, H5T_IEEE_F64LE, nullptr);
    f.write("/partly", {3, 0, 2}, H5T_IEEE_F64LE, H5T_IEEE_F64LE, nullptr);
    f.write("/emptychunked", {0, 4}, H5T_IEEE_F64LE, H5T_IEEE_F64LE, nullptr,
            {.chunk = Dims{2, 2}, .deflate = 1, .unlimited = true});
    f.write("/one", {1, 1, 1}, H5T_IEEE_F64LE, H5T_IEEE_F64LE, &value, {.chunk = Dims{1, 1, 1}});
  }
  Bytes expected(8);
  std::memcpy(expected.data(), &value, 8);
  for (const char* object : {"/scalar", "/compact", "/one"}) {
    const auto dataset = Dataset::open(file, object);
    EXPECT_EQ(dataset->info().shape.size(), std::string(object) == "/one" ? 3 : 0);
    EXPECT_EQ(read_region(*dataset, Region::whole(dataset->info().shape)), expected) << object;
    EXPECT_EQ(visit_region(*dataset, Region::whole(dataset->info().shape)), expected) << object;
  }
  for (const char* object : {"/empty", "/partly", "/emptychunked"}) {
    const auto dataset = Dataset::open(file, object);
    EXPECT_TRUE(read_region(*dataset, Region::whole(dataset->info().shape)).empty()) << object;
    EXPECT_TRUE(visit_region(*dataset, Region::whole(dataset->info().shape)).empty()) << object;
  }
  EXPECT_EQ(Dataset::open(file, "/partly")->info().shape, (Dims{3, 0, 2}));
  EXPECT_EQ(Dataset::open(file, "/emptychunked")->info().shape, (Dims{0, 4}));
}

TEST(ReadTest, MissingChunksGiveTheFillValue) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const int32_t fill = 0x01020304;
  const int32_t patch[6] = {10, 11, 12, 13, 14, 15};
  {
    H5File f(file);
    for (bool filtered : {false, true})
      for (bool big : {false, true}) {
        H5Options options{.chunk = Dims{2, 3}, .deflate = filtered ? 1 : -1, .shuffle = filtered, .fill = &fill};
        const std::string name = std::string("/x") + (filtered ? "f" : "u") + (big ? "b" : "l");
        const hid_t dataset = f.create(name, {5, 7}, big ? H5T_STD_I32BE : H5T_STD_I32LE, options, H5T_STD_I32LE);
        // One chunk of nine is written.
        const hid_t space = h5(H5Dget_space(dataset));
        const hsize_t start[2] = {2, 3}, count[2] = {2, 3};
        h5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr));
        const hid_t memory = h5(H5Screate_simple(2, count, nullptr));
        h5(H5Dwrite(dataset, H5T_STD_I32LE, memory, space, H5P_DEFAULT, patch));
        H5Dclose(dataset);
      }
    f.write("/never", {5, 7}, H5T_STD_I32LE, H5T_STD_I32LE, nullptr, {.fill = &fill});
    f.write("/zeros", {5, 7}, H5T_STD_I32LE, H5T_STD_I32LE, nullptr);
  }
  std::vector<int32_t> expected(35, fill);
  Bytes data(35 * 4), zeros(35 * 4, std::byte{0});
  std::memcpy(data.data(), expected.data(), data.size());
  expect_regions(*Dataset::open(file, "/never"), data, 10, 1);
  expect_regions(*Dataset::open(file, "/zeros"), zeros, 10, 1);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      expected[static_cast<size_t>(2 + i) * 7 + 3 + static_cast<size_t>(j)] = patch[i * 3 + j];
  std::memcpy(data.data(), expected.data(), data.size());
  for (const char* object : {"/xul", "/xub", "/xfl", "/xfb"}) {
    SCOPED_TRACE(object);
    expect_regions(*Dataset::open(file, object), data, 20, 2);
  }
}

TEST(ReadTest, ChunksWithSkippedFiltersAndDamagedOnes) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const int32_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  {
    H5File f(file);
    const hid_t dataset =
        f.create("/x", {8}, H5T_STD_I32LE, {.chunk = Dims{4}, .deflate = 1, .shuffle = true, .fletcher32 = true});
    const hsize_t origin[2] = {0, 4};
    h5(H5Dwrite_chunk(dataset, H5P_DEFAULT, /*filters skipped=*/7, &origin[0], 16, data));
    h5(H5Dwrite_chunk(dataset, H5P_DEFAULT, 7, &origin[1], 16, data + 4));
    H5Dclose(dataset);
    const hid_t sum = f.create("/sum", {8}, H5T_STD_I32LE, {.chunk = Dims{4}, .fletcher32 = true});
    h5(H5Dwrite(sum, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    h5(H5Dwrite_chunk(sum, H5P_DEFAULT, 0, &origin[1], 20, data));  // no checksum of this
    H5Dclose(sum);
    const hid_t deflate = f.create("/deflate", {8}, H5T_STD_I32LE, {.chunk = Dims{4}, .deflate = 1});
    h5(H5Dwrite(deflate, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    h5(H5Dwrite_chunk(deflate, H5P_DEFAULT, 0, &origin[1], 20, data));
    H5Dclose(deflate);
  }
  Bytes expected(32);
  std::memcpy(expected.data(), data, 32);
  EXPECT_EQ(read_region(*Dataset::open(file, "/x"), Region::whole({8})), expected);
  expected.resize(16);
  for (const char* object : {"/sum", "/deflate"}) {
    const auto dataset = Dataset::open(file, object);
    EXPECT_EQ(read_region(*dataset, Region::box({0}, {4})), expected);
    const std::string message = message_of<local::IoError>([&] { read_region(*dataset, Region::whole({8})); });
    EXPECT_NE(message.find(object), std::string::npos) << message;
    EXPECT_NE(message.find(file), std::string::npos) << message;
    EXPECT_NE(message.find("(4,)"), std::string::npos) << message;
  }
}

TEST(ReadTest, UnusualNumbers) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const int32_t ints[4] = {-8388608, -1, 5, 8388607};
  const uint16_t bits[4] = {0, 1, 0xff00, 0xffff};
  const float reals[4] = {0.5f, -2, 1.5f, 24};
  {
    H5File f(file);
    const hid_t three = h5(H5Tcopy(H5T_STD_I32LE));
    h5(H5Tset_precision(three, 24));
    h5(H5Tset_size(three, 3));
    f.write("/int24", {4}, three, H5T_STD_I32LE, ints);
    const hid_t shifted = h5(H5Tcopy(H5T_STD_I32BE));
    h5(H5Tset_precision(shifted, 24));
    h5(H5Tset_offset(shifted, 4));
    f.write("/shifted", {4}, shifted, H5T_STD_I32LE, ints, {.chunk = Dims{3}, .deflate = 1});
    const hid_t fp8 = h5(H5Tcopy(H5T_IEEE_F32LE));
    h5(H5Tset_fields(fp8, 7, 3, 4, 0, 3));
    h5(H5Tset_size(fp8, 1));
    h5(H5Tset_ebias(fp8, 7));
    f.write("/fp8", {4}, fp8, H5T_IEEE_F32LE, reals);
    f.write("/bits", {4}, H5T_STD_B16BE, H5T_STD_B16LE, bits);
    const hid_t paper = h5(H5Tenum_create(H5T_STD_I32LE));
    for (int32_t value : {5, 7}) h5(H5Tenum_insert(paper, value == 5 ? "five" : "seven", &value));
    const int32_t values[4] = {5, 7, 7, 5};
    f.write("/enum", {4}, paper, paper, values);
    const hid_t wide = h5(H5Tcreate(H5T_COMPOUND, 24));
    h5(H5Tinsert(wide, "i", 0, H5T_IEEE_F32BE));
    h5(H5Tinsert(wide, "r", 8, H5T_IEEE_F32LE));
    const hid_t memory = h5(H5Tcreate(H5T_COMPOUND, 8));
    h5(H5Tinsert(memory, "r", 0, H5T_IEEE_F32LE));
    h5(H5Tinsert(memory, "i", 4, H5T_IEEE_F32LE));
    f.write("/complex", {2}, wide, memory, reals);
  }
  const auto check = [&](const char* object, DType dtype, const void* data, size_t bytes, bool direct) {
    SCOPED_TRACE(object);
    const auto dataset = Dataset::open(file, object);
    EXPECT_EQ(dataset->info().dtype, dtype);
    EXPECT_EQ(dataset->info().direct, direct);
    EXPECT_EQ(dataset->info().library_reason.empty(), direct);
    Bytes expected(bytes);
    std::memcpy(expected.data(), data, bytes);
    expect_regions(*dataset, expected, 6, 7);
    expect_regions(*Dataset::deserialize(dataset->serialize()), expected, 2, 7);
  };
  check("/int24", DType::int32, ints, sizeof ints, false);
  check("/shifted", DType::int32, ints, sizeof ints, true);
  check("/fp8", DType::float32, reals, sizeof reals, false);
  check("/bits", DType::uint16, bits, sizeof bits, true);
  const int32_t values[4] = {5, 7, 7, 5};
  check("/enum", DType::int32, values, sizeof values, true);
  check("/complex", DType::complex64, reals, sizeof reals, false);
}

// Integers that fill a part of their bytes, as written byte by byte: quarry puts them together itself.
TEST(ReadTest, IntegersOfFewerBitsThanTheirBytes) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  struct Case {
    std::string object;
    DType dtype;
    Bytes expected;
  };
  std::vector<Case> cases;
  {
    H5File f(file);
    for (const DType dtype : {DType::int8, DType::uint8, DType::int16, DType::uint16, DType::int32, DType::uint32,
                              DType::int64, DType::uint64})
      for (const bool big : {false, true})
        for (const int bits : {1, 3, 8, 12, 24, 31, 40, 63})
          for (const int offset : {0, 5}) {
            const auto item = static_cast<int>(local::itemsize(dtype));
            if (bits + offset > 8 * item || (bits == 8 * item && offset == 0)) continue;
            const bool is_signed = local::name(dtype)[0] == 'i';
            const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
            const int64_t high = is_signed ? -(low + 1) : static_cast<int64_t>((uint64_t{1} << bits) - 1);
            Bytes stored, expected;
            for (const int64_t value : {low, low / 2, int64_t{0}, high / 3, high}) {
              const uint64_t field = (static_cast<uint64_t>(value) & ((uint64_t{1} << bits) - 1)) << offset;
              for (int b = 0; b < item; ++b) {
                stored.push_back(static_cast<std::byte>(field >> 8 * (big ? item - 1 - b : b)));
                expected.push_back(static_cast<std::byte>(static_cast<uint64_t>(value) >> 8 * b));
              }
            }
            const hid_t type = h5(H5Tcopy(test::h5_type(dtype, big)));
            h5(H5Tset_precision(type, static_cast<size_t>(bits)));
            h5(H5Tset_offset(type, static_cast<size_t>(offset)));
            for (const char* const layout : {"plain", "chunked", "packed", "compact"}) {
              const std::string object = "/" + std::string(local::name(dtype)) + (big ? "be" : "le") +
                                         std::to_string(bits) + "_" + std::to_string(offset) + layout;
              H5Options options;
              options.compact = object.ends_with("compact");
              if (!object.ends_with("plain") && !options.compact) options.chunk = Dims{2};
              if (object.ends_with("packed")) options.deflate = 1, options.shuffle = true;
              f.write(object, {5}, type, type, stored.data(), options);
              cases.push_back({object, dtype, expected});
            }
          }
  }
  ASSERT_GT(cases.size(), 300u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.object);
    const auto dataset = Dataset::open(file, c.object);
    EXPECT_EQ(dataset->info().dtype, c.dtype);
    EXPECT_TRUE(dataset->info().direct);
    expect_regions(*dataset, c.expected, 3, 7);
    expect_regions(*Dataset::deserialize(dataset->serialize()), c.expected, 1, 8);
  }
}

// h5py calls every enum of FALSE and TRUE bool, whatever its integers.
TEST(ReadTest, BooleansOfAnyBase) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const uint8_t expected[4] = {1, 0, 0, 1};
  {
    H5File f(file);
    for (const DType dtype : {DType::int8, DType::uint8, DType::int16, DType::uint32, DType::int64})
      for (const bool big : {false, true}) {
        const hid_t base = test::h5_type(dtype, big), type = h5(H5Tenum_create(base));
        const auto item = static_cast<size_t>(local::itemsize(dtype));
        const auto stored = [&](uint8_t value) {
          Bytes bytes(item);
          bytes[big ? item - 1 : 0] = static_cast<std::byte>(value);
          return bytes;
        };
        for (const uint8_t value : {0, 1}) h5(H5Tenum_insert(type, value ? "TRUE" : "FALSE", stored(value).data()));
        Bytes data;
        for (const uint8_t value : expected)
          for (const std::byte byte : stored(value)) data.push_back(byte);
        f.write("/" + std::string(local::name(dtype)) + (big ? "be" : "le"), {4}, type, type, data.data());
      }
  }
  int seen = 0;
  for (const ObjectInfo& object : list_objects(file)) {
    if (object.is_group) continue;
    SCOPED_TRACE(object.path);
    ASSERT_TRUE(object.dataset.has_value()) << object.note;
    EXPECT_EQ(object.dataset->dtype, DType::bool_);
    Bytes bytes(4);
    std::memcpy(bytes.data(), expected, 4);
    expect_regions(*Dataset::open(file, object.path), bytes, 3, 7);
    ++seen;
  }
  EXPECT_EQ(seen, 10);
}

// Fields of compounds are data sets, arrays inside of elements are their last axes.
TEST(ReadTest, FieldsOfCompoundsAndArraysInElements) {
  struct Quote {
    float bid, ask;
  };
  struct Tick {
    int64_t day;
    char name[5];
    double price;
    Quote quote;
    int16_t sizes[3][2];
  };
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Dims shape{7, 11};
  std::vector<Tick> ticks(77);
  for (size_t i = 0; i < ticks.size(); ++i) {
    const auto n = static_cast<int>(i);
    Tick& tick = ticks[i];
    std::memset(&tick, 0, sizeof tick);
    tick.day = 1000 + n, tick.price = n / 8.0, tick.quote = {static_cast<float>(n), static_cast<float>(-n)};
    for (int j = 0; j < 6; ++j) tick.sizes[j / 2][j % 2] = static_cast<int16_t>(10 * n + j);
  }
  const Tick fill = ticks[5];
  {
    H5File f(file);
    const hid_t quote = h5(H5Tcreate(H5T_COMPOUND, sizeof(Quote))), tick = h5(H5Tcreate(H5T_COMPOUND, sizeof(Tick)));
    h5(H5Tinsert(quote, "bid", offsetof(Quote, bid), H5T_IEEE_F32LE));
    h5(H5Tinsert(quote, "ask", offsetof(Quote, ask), H5T_IEEE_F32LE));
    const hid_t text = h5(H5Tcopy(H5T_C_S1));
    h5(H5Tset_size(text, 5));
    const hsize_t extents[] = {3, 2};
    const hid_t sizes = h5(H5Tarray_create2(H5T_STD_I16LE, 2, extents));
    h5(H5Tinsert(tick, "day", offsetof(Tick, day), H5T_STD_I64LE));
    h5(H5Tinsert(tick, "name", offsetof(Tick, name), text));
    h5(H5Tinsert(tick, "price", offsetof(Tick, price), H5T_IEEE_F64LE));
    h5(H5Tinsert(tick, "quote", offsetof(Tick, quote), quote));
    h5(H5Tinsert(tick, "sizes", offsetof(Tick, sizes), sizes));
    f.write("/plain", shape, tick, tick, ticks.data());
    f.write("/chunked", shape, tick, tick, ticks.data(), {.chunk = Dims{3, 4}});
    f.write("/packed", shape, tick, tick, ticks.data(),
            {.chunk = Dims{3, 4}, .deflate = 1, .shuffle = true, .fletcher32 = true});
    f.write("/compact", shape, tick, tick, ticks.data(), {.compact = true});
    f.write("/never", shape, tick, tick, nullptr, {.chunk = Dims{3, 4}, .fill = &fill});
    f.write("/g/a:b", {3}, H5T_STD_I64LE, H5T_STD_I64LE, ticks.data());  // a name with a colon
    std::vector<int16_t> values(77 * 6);
    std::iota(values.begin(), values.end(), int16_t{3});
    for (const bool packed : {false, true}) {
      H5Options options;
      if (packed) options = {.chunk = Dims{3, 4}, .deflate = 1, .shuffle = true};
      f.write(packed ? "/arrays_packed" : "/arrays", shape, sizes, sizes, values.data(), options);
    }
  }
  const auto column = [&](auto&& field, const Tick* all = nullptr) {
    Bytes bytes;
    for (const Tick& tick : ticks) {
      const auto value = field(all ? *all : tick);
      const auto part = std::as_bytes(std::span(&value, 1));
      bytes.insert(bytes.end(), part.begin(), part.end());
    }
    return bytes;
  };
  struct Sizes {
    int16_t values[3][2];
  };
  const auto sizes_of = [](const Tick& tick) {
    Sizes out;
    std::memcpy(&out, tick.sizes, sizeof out);
    return out;
  };
  for (const char* const object : {"/plain", "/chunked", "/packed", "/compact", "/never"}) {
    const Tick* const all = std::string(object) == "/never" ? &fill : nullptr;
    const auto check = [&](const std::string& field, DType dtype, const Dims& whole, const Bytes& expected) {
      SCOPED_TRACE(object + field);
      const auto dataset = Dataset::open(file, object + field);
      EXPECT_TRUE(dataset->info().direct) << dataset->info().library_reason;
      EXPECT_EQ(dataset->info().dtype, dtype);
      ASSERT_EQ(dataset->info().shape, whole);
      expect_regions(*dataset, expected, 12, 5);
      expect_regions(*Dataset::deserialize(dataset->serialize()), expected, 2, 6);
    };
    check(":day", DType::int64, shape, column([](const Tick& t) { return t.day; }, all));
    check(":price", DType::float64, shape, column([](const Tick& t) { return t.price; }, all));
    check(":quote:ask", DType::float32, shape, column([](const Tick& t) { return t.quote.ask; }, all));
    if (!all) check(":sizes", DType::int16, {7, 11, 3, 2}, column(sizes_of));
    EXPECT_NE(message_of<local::InvalidArgument>([&] {
                Dataset::open(file, object + std::string(":prise"));
              }).find("did you mean 'price'"),
              std::string::npos);
    EXPECT_NE(message_of<local::InvalidArgument>([&] {
                Dataset::open(file, object + std::string(":day:x"));
              }).find("no field 'x'"),
              std::string::npos);
    EXPECT_NE(
        message_of<local::TypeError>([&] { Dataset::open(file, object + std::string(":name")); }).find("5-byte string"),
        std::string::npos);
    EXPECT_NE(message_of<local::TypeError>([&] { Dataset::open(file, object); }).find("compound of day"),
              std::string::npos);
  }
  for (const char* const object : {"/arrays", "/arrays_packed"}) {
    std::vector<int16_t> values(77 * 6);
    std::iota(values.begin(), values.end(), int16_t{3});
    Bytes expected(values.size() * 2);
    std::memcpy(expected.data(), values.data(), expected.size());
    const auto dataset = Dataset::open(file, object);
    EXPECT_EQ(dataset->info().shape, (Dims{7, 11, 3, 2}));
    expect_regions(*dataset, expected, 12, 5);
  }
  EXPECT_EQ(Dataset::open(file, "/g/a:b")->info().shape, (Dims{3}));
  std::vector<std::string> listed;
  for (const ObjectInfo& object : list_objects(file))
    if (object.dataset && object.path.starts_with("/packed")) listed.push_back(object.path);
  EXPECT_EQ(listed, (std::vector<std::string>{"/packed:day", "/packed:price", "/packed:quote:bid", "/packed:quote:ask",
                                              "/packed:sizes"}));
}

TEST(ReadTest, ExternalVirtualAndLinkedDataSets) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5", other = dir / "b.h5", raw = dir / "raw.bin";
  const int32_t data[6] = {1, 2, 3, 4, 5, 6};
  H5File(other).write("/y", {6}, H5T_STD_I32LE, H5T_STD_I32LE, data);
  {
    H5File f(file);
    const hsize_t extent = 6;
    const hid_t space = h5(H5Screate_simple(1, &extent, nullptr));
    hid_t create = h5(H5Pcreate(H5P_DATASET_CREATE));
    h5(H5Pset_external(create, raw.c_str(), 0, sizeof data));
    hid_t dataset = h5(H5Dcreate2(f.id(), "/external", H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT));
    h5(H5Dwrite(dataset, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data));
    H5Dclose(dataset);
    create = h5(H5Pcreate(H5P_DATASET_CREATE));
    h5(H5Pset_virtual(create, space, other.c_str(), "/y", space));
    dataset = h5(H5Dcreate2(f.id(), "/virtual", H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT));
    H5Dclose(dataset);
    h5(H5Lcreate_external(other.c_str(), "/y", f.id(), "/linked", H5P_DEFAULT, H5P_DEFAULT));
    h5(H5Lcreate_soft("/external", f.id(), "/soft", H5P_DEFAULT, H5P_DEFAULT));
  }
  Bytes expected(sizeof data);
  std::memcpy(expected.data(), data, sizeof data);
  for (const char* object : {"/external", "/virtual", "/linked", "/soft"}) {
    SCOPED_TRACE(object);
    const auto dataset = Dataset::open(file, object);
    const bool direct = object == std::string("/linked");
    EXPECT_EQ(dataset->info().direct, direct);
    EXPECT_EQ(dataset->info().library_reason.empty(), direct);
    expect_regions(*dataset, expected, 8, 3);
    expect_regions(*Dataset::deserialize(dataset->serialize()), expected, 8, 3);
  }
  EXPECT_EQ(Dataset::open(file, "/external")->info().layout, "external");
  EXPECT_EQ(Dataset::open(file, "/virtual")->info().layout, "virtual");
}

TEST(ReadTest, FiltersOnlyTheLibraryKnows) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  std::vector<int32_t> data(50 * 20);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int32_t>(i % 97);
  {
    H5File f(file);
    const hsize_t extents[2] = {50, 20}, chunk[2] = {16, 16};
    const hid_t space = h5(H5Screate_simple(2, extents, nullptr));
    const auto write = [&](const char* name, auto set) {
      const hid_t create = h5(H5Pcreate(H5P_DATASET_CREATE));
      h5(H5Pset_chunk(create, 2, chunk));
      set(create);
      const hid_t dataset = h5(H5Dcreate2(f.id(), name, H5T_STD_I32LE, space, H5P_DEFAULT, create, H5P_DEFAULT));
      h5(H5Dwrite(dataset, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()));
      H5Dclose(dataset);
    };
    write("/scaleoffset", [](hid_t create) { h5(H5Pset_scaleoffset(create, H5Z_SO_INT, 0)); });
    write("/nbit", [](hid_t create) { h5(H5Pset_nbit(create)); });
    write("/order", [](hid_t create) {
      h5(H5Pset_deflate(create, 1));
      h5(H5Pset_shuffle(create));
    });
  }
  Bytes expected(data.size() * 4);
  std::memcpy(expected.data(), data.data(), expected.size());
  for (const char* object : {"/scaleoffset", "/nbit", "/order"}) {
    SCOPED_TRACE(object);
    const auto dataset = Dataset::open(file, object);
    EXPECT_FALSE(dataset->info().direct);
    expect_regions(*dataset, expected, 12, 5);
  }
}

TEST(ReadTest, AttributesAreNumbersAndStrings) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  {
    H5File f(file);
    const hid_t dataset = f.create("/x", {2}, H5T_STD_I32LE);
    const auto attribute = [&](const char* name, hid_t type, hid_t space, hid_t memory, const void* value) {
      const hid_t id = h5(H5Acreate2(dataset, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
      h5(H5Awrite(id, memory, value));
      H5Aclose(id);
    };
    const hid_t scalar = h5(H5Screate(H5S_SCALAR));
    const hsize_t one = 1, three = 3;
    const hid_t single = h5(H5Screate_simple(1, &one, nullptr)), triple = h5(H5Screate_simple(1, &three, nullptr));
    const int64_t integer = -7;
    const double reals[3] = {0.5, 1, 1e300};
    attribute("integer", H5T_STD_I16BE, scalar, H5T_STD_I64LE, &integer);
    attribute("scale_factor", H5T_IEEE_F32LE, single, H5T_IEEE_F64LE, reals);
    attribute("array", H5T_IEEE_F64BE, triple, H5T_IEEE_F64LE, reals);
    const hid_t fixed = h5(H5Tcopy(H5T_C_S1)), text = h5(H5Tcopy(H5T_C_S1));
    h5(H5Tset_size(fixed, 8));
    h5(H5Tset_size(text, H5T_VARIABLE));
    const char* const words = "degrees C";
    const char padded[8] = {'a', 'b', 'c'};
    attribute("fixed", fixed, scalar, fixed, padded);
    attribute("text", text, scalar, text, &words);
    H5Dclose(dataset);
  }
  const auto dataset = Dataset::deserialize(Dataset::open(file, "/x")->serialize());
  const auto& attributes = dataset->info().attributes;
  ASSERT_EQ(attributes.size(), 5u);
  EXPECT_EQ(std::get<int64_t>(attributes.at("integer")), -7);
  EXPECT_EQ(std::get<double>(attributes.at("scale_factor")), 0.5);
  EXPECT_EQ(std::get<std::vector<double>>(attributes.at("array")), (std::vector<double>{0.5, 1, 1e300}));
  EXPECT_EQ(std::get<std::string>(attributes.at("fixed")), "abc");
  EXPECT_EQ(std::get<std::string>(attributes.at("text")), "degrees C");
}

// Calls of the system that read, of this process.
int64_t read_calls() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  int64_t value = 0;
  while (counters >> name >> value)
    if (name == "syscr:") return value;
  return -1;
}

TEST(ReadTest, ChunksNearEachOtherInTheFileAreReadTogether) {
  if (read_calls() < 0) GTEST_SKIP() << "the kernel does not count reads";
  constexpr int64_t kChunks = 64, kChunkBytes = 2048, kOwn = 8;  // reads of the counters, and of the piece that is cut
  const test::TempDir dir;
  const Bytes data = random_bytes(kChunks * kChunkBytes, 3);
  const auto shape = [](int64_t chunks) { return Dims{chunks * kChunkBytes}; };
  {
    H5File file(dir / "a.h5");
    file.write("/plain", shape(kChunks), H5T_STD_U8LE, H5T_STD_U8LE, data.data(), {.chunk = Dims{kChunkBytes}});
    file.write("/filtered", shape(kChunks), H5T_STD_U8LE, H5T_STD_U8LE, data.data(),
               {.chunk = Dims{kChunkBytes}, .deflate = 1});
    // Two that grow in turn: the chunks of one are as far apart as a chunk of the other is long.
    const H5Options options{.chunk = Dims{kChunkBytes}, .deflate = 1};
    const hid_t both[] = {file.create("/first", shape(kChunks), H5T_STD_U8LE, options),
                          file.create("/second", shape(kChunks), H5T_STD_U8LE, options)};
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
      const auto origin = static_cast<hsize_t>(chunk * kChunkBytes);
      for (const hid_t dataset : both)
        h5(H5Dwrite_chunk(dataset, H5P_DEFAULT, /*skipped filters=*/1, &origin, kChunkBytes, data.data() + origin));
    }
    for (const hid_t dataset : both) H5Dclose(dataset);
  }
  for (const char* const name : {"/plain", "/filtered", "/first"}) {
    SCOPED_TRACE(name);
    const auto dataset = Dataset::open(dir / "a.h5", name);
    const Region whole = Region::whole(dataset->info().shape);
    for (const bool visits : {true, false}) {
      const int64_t before = read_calls();
      EXPECT_EQ(visits ? visit_region(*dataset, whole) : read_region(*dataset, whole), data);
      EXPECT_LE(read_calls() - before, kChunks / 8 + kOwn);
    }
  }
}

TEST(ReadTest, RegionsOutsideOfTheShapeAreRefused) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const int32_t data[4] = {1, 2, 3, 4};
  H5File(file).write("/x", {4}, H5T_STD_I32LE, H5T_STD_I32LE, data);
  const auto dataset = Dataset::open(file, "/x");
  EXPECT_THROW(read_region(*dataset, {{1}, {4}, {1}}), local::IndexError);
  EXPECT_THROW(read_region(*dataset, {{-1}, {2}, {1}}), local::IndexError);
  EXPECT_THROW(read_region(*dataset, {{1}, {3}, {-1}}), local::IndexError);
}

}  // namespace
}  // namespace quarry::io
