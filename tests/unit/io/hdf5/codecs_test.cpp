// The filters of chunks: files that others wrote (scripts/oracle/codecs.py), what quarry encodes, and damage.
#include <map>

#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/io/hdf5/filters.h"
#include "quarry/io/hdf5/library.h"
#include "tests/support/source_file.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using hdf5::Codec;
using Kind = Filter::Kind;
using test::h5;

const std::string kFile = test::source_file("tests/unit/io/hdf5/codecs.h5").string();

std::string last_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// A file may say that an element has 4 GiB: then nothing is shuffled, which takes no time.
TEST(CodecsTest, ElementsLargerThanTheirChunk) {
  const std::vector<Filter> filters{{Kind::shuffle, 0, "shuffle", {UINT32_MAX}}};
  const Bytes chunk = random_bytes(600, 1);
  const Bytes before(2 * chunk.size());
  for (int i = 0; i < 5000; ++i) {
    Bytes work = before, out(chunk.size());
    std::ranges::copy(chunk, work.begin());
    hdf5::decode_chunk(filters, 0, 4, hdf5::encode_chunk(filters, 4, std::ssize(chunk), work), out, {});
    ASSERT_EQ(out, chunk);
  }
}

TEST(CodecsTest, FilesOfOthers) {
  const std::string& file = kFile;
  std::map<std::string, Bytes> plain;
  const auto objects = list_objects(file);
  for (const ObjectInfo& object : objects)
    if (object.path.starts_with("/plain/"))
      plain[last_name(object.path)] =
          read_region(*Dataset::open(file, object.path), Region::whole(object.dataset->shape));
  int read = 0;
  std::map<Kind, int> seen;
  for (const ObjectInfo& object : objects) {
    if (object.is_group || object.path.starts_with("/plain/")) continue;
    SCOPED_TRACE(object.path);
    const auto dataset = Dataset::open(file, object.path);
    const DatasetInfo& info = dataset->info();
    EXPECT_TRUE(info.direct) << info.library_reason;
    const Bytes& expected = plain.at(last_name(object.path));
    const Region whole = Region::whole(info.shape);
    EXPECT_EQ(read_region(*dataset, whole), expected);
    EXPECT_EQ(visit_region(*dataset, whole), expected);
    std::mt19937 random(3);
    const Region region = random_region(info.shape, random);
    EXPECT_EQ(read_region(*Dataset::deserialize(dataset->serialize()), region),
              pick(expected, info.shape, local::itemsize(info.dtype), region));
    for (const Filter& filter : info.filters) ++seen[filter.kind];
    ++read;
  }
  EXPECT_GE(read, 150);
  for (const FilterKind& kind : filter_kinds()) EXPECT_GT(seen[kind.kind], 0) << kind.name;
}

// What the library reads by the codecs that it was given, which its own reader would decode one chunk at a time.
TEST(CodecsTest, TheLibraryReadsByThem) {
  for (const char* const object : {"/lzf/big", "/zstd/big", "/blosc_lz4_1/big", "/bitshuffle_lz4/big", "/lz4/big",
                                   "/bzip2/big", "/bitshuffle_none/big", "/zstd_shuffle_fletcher32/big"}) {
    SCOPED_TRACE(object);
    const Bytes expected = read_region(*Dataset::open(kFile, object), Region::whole({37, 41}));
    const hdf5::LibraryLock lock;
    const hdf5::Handle file = hdf5::open_file(kFile, H5F_ACC_RDONLY);
    const hdf5::Handle dataset(H5Dopen2(file, object, H5P_DEFAULT));
    Bytes out(expected.size());
    h5(H5Dread(dataset, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()));
    EXPECT_EQ(out, expected);
  }
}

Bytes chunk_of(size_t bytes, bool compressible) {
  Bytes chunk = random_bytes(bytes, 7);
  for (size_t i = 0; compressible && i < bytes; ++i) chunk[i] = static_cast<std::byte>(i / 16 % 11);
  return chunk;
}

Bytes encoded(const std::vector<Filter>& filters, const Bytes& chunk) {
  const auto bytes = static_cast<int64_t>(chunk.size());
  Bytes scratch(static_cast<size_t>(hdf5::encode_scratch_bytes(filters, 8, bytes)));
  std::copy(chunk.begin(), chunk.end(), scratch.begin());
  const auto out = hdf5::encode_chunk(filters, 8, bytes, scratch);
  return {out.begin(), out.end()};
}

std::vector<Filter> all_of(Kind kind, int level) {
  return {{Kind::shuffle, 0, "shuffle"},
          {kind, level, std::string(find_kind(kind)->name)},
          {Kind::fletcher32, 0, "fletcher32"}};
}

TEST(CodecsTest, WhatIsWrittenReadsBack) {
  for (const FilterKind& kind : filter_kinds()) {
    if (!kind.written || kind.step != FilterKind::Step::compress) continue;
    for (const size_t bytes : {8u, 64u, 4096u, 100000u})
      for (const bool compressible : {false, true})
        for (const int level : {kind.least_level, kind.level}) {
          SCOPED_TRACE(std::string(kind.name) + ":" + std::to_string(level) + " " + std::to_string(bytes));
          const Bytes chunk = chunk_of(bytes, compressible);
          for (const auto& filters : {all_of(kind.kind, level), {all_of(kind.kind, level)[1]}}) {
            const Bytes stored = encoded(filters, chunk);
            if (compressible && bytes > 4096 && (level > 0 || kind.most_level == 0)) {
              EXPECT_LT(stored.size(), bytes / 4);
            }
            ASSERT_TRUE(hdf5::directly_decodable(filters));
            // Filters as a file gives them, with parameters.
            std::vector<Filter> from_file = filters;
            for (Filter& filter : from_file)
              if (const Codec* const codec = hdf5::find_codec(filter.kind))
                filter.values = codec->values(filter, 8, static_cast<int64_t>(bytes));
            Bytes out(bytes),
                scratch(static_cast<size_t>(hdf5::decode_scratch_bytes(from_file, static_cast<int64_t>(bytes))));
            hdf5::decode_chunk(from_file, 0, 8, stored, out, scratch);
            EXPECT_EQ(out, chunk);
          }
        }
  }
}

// PyTables appends the checksum before it compresses.
TEST(CodecsTest, AChecksumBelowTheCompressor) {
  const std::vector<Filter> filters = {
      {Kind::fletcher32, 0, "fletcher32"}, {Kind::shuffle, 0, "shuffle"}, {Kind::zstd, 3, "zstd"}};
  const Bytes chunk = chunk_of(1000, true);
  ASSERT_TRUE(hdf5::directly_decodable(filters));
  for (const uint32_t mask : {0u, 1u, 2u, 4u, 5u, 7u}) {
    std::vector<Filter> applied;
    for (size_t i = 0; i < filters.size(); ++i)
      if (!(mask >> i & 1u)) applied.push_back(filters[i]);
    const Bytes stored = encoded(applied, chunk);
    Bytes out(1000), scratch(static_cast<size_t>(hdf5::decode_scratch_bytes(filters, 1000)));
    hdf5::decode_chunk(filters, mask, 8, stored, out, scratch);
    EXPECT_EQ(out, chunk) << mask;
  }
  Bytes stored = encoded({filters[0]}, chunk);
  stored[17] ^= std::byte{1};
  Bytes out(1000), scratch(static_cast<size_t>(hdf5::decode_scratch_bytes(filters, 1000)));
  EXPECT_NE(
      message_of<local::IoError>([&] { hdf5::decode_chunk(filters, 6, 8, stored, out, scratch); }).find("checksum"),
      std::string::npos);
}

// Whatever the bytes: a typed error or bytes, and nothing outside of the buffers (which a sanitizer sees).
TEST(CodecsTest, NoiseIsAnError) {
  std::vector<std::pair<std::vector<Filter>, Bytes>> samples;
  const auto raw_chunk = [&](const std::string& object) {
    const hdf5::LibraryLock lock;
    const hdf5::Handle file = hdf5::open_file(kFile, H5F_ACC_RDONLY);
    const hdf5::Handle dataset(H5Dopen2(file, object.c_str(), H5P_DEFAULT));
    const hsize_t origin[] = {0, 0};
    hsize_t bytes = 0;
    h5(H5Dget_chunk_storage_size(dataset, origin, &bytes));
    Bytes out(bytes);
    uint32_t mask = 0;
    h5(H5Dread_chunk(dataset, H5P_DEFAULT, origin, &mask, out.data()));
    return out;
  };
  for (const char* const group :
       {"lzf", "szip_nn", "szip_ec", "bzip2", "lz4", "lz4_small_blocks", "zstd", "bitshuffle_none", "bitshuffle_lz4",
        "bitshuffle_zstd", "blosc_blosclz_1", "blosc_lz4_2", "blosc_zlib_0", "blosc_zstd_1", "deflate_shuffle"}) {
    const std::string object = std::string("/") + group + "/big";
    samples.emplace_back(Dataset::open(kFile, object)->info().filters, raw_chunk(object));
  }
  constexpr int64_t kBytes = 8 * 16 * 4;
  for (const auto& [filters, stored] : samples) {
    SCOPED_TRACE(to_string(filters));
    Bytes out(kBytes), scratch(static_cast<size_t>(hdf5::decode_scratch_bytes(filters, kBytes)));
    hdf5::decode_chunk(filters, 0, 4, stored, out, scratch);
    int failed = 0;
    for (unsigned seed = 0; seed < 3000; ++seed) {
      std::mt19937 random(seed);
      Bytes bad = stored;
      if (seed % 8 == 0) bad.resize(random() % bad.size());
      for (unsigned i = 0; i <= seed % 4 && !bad.empty(); ++i)
        bad[random() % (seed % 3 ? std::min<size_t>(bad.size(), 24) : bad.size())] =
            static_cast<std::byte>(random() % 3 ? random() : 0xff);
      try {
        hdf5::decode_chunk(filters, 0, 4, bad, out, scratch);
      } catch (const local::IoError&) {
        ++failed;
      }
    }
    EXPECT_GT(failed, 300);
  }
}

TEST(CodecsTest, WrongParametersAreErrors) {
  const Bytes stored = random_bytes(200, 3);
  Bytes out(64);
  for (const Codec& codec : hdf5::codecs())
    for (const std::vector<uint32_t>& values : {std::vector<uint32_t>{},
                                                {0},
                                                {0, 0, 0, 0, 0},
                                                {9, 9, 0xffffffff, 0xffffffff, 0xffffffff, 7, 7},
                                                {0, 4, 4, 5, 2},
                                                {0, 4, 4, 8, 9},
                                                {128, 33, 32, 64},
                                                {128, 32, 65, 64},
                                                {128, 32, 32, 5000}}) {
      try {
        const auto bytes = codec.decode(values, stored, out);
        EXPECT_LE(bytes.value_or(0), out.size());
      } catch (const local::IoError&) {
      }
    }
}

// What libaec takes: it writes behind blocks of an odd number of pixels, and counts padded lines that were never there.
TEST(CodecsTest, SzipThatLibaecTakes) {
  const Codec& szip = *hdf5::find_codec(Kind::szip);
  constexpr uint32_t kNearest = 32;
  const auto decode = [&](uint32_t block, uint32_t bits, uint32_t line, size_t payload) {
    Bytes stored(4 + payload, std::byte{0x4c}), out(64);
    stored[0] = std::byte{40};
    stored[1] = stored[2] = stored[3] = std::byte{0};
    return szip.decode(std::vector<uint32_t>{kNearest, block, bits, line}, stored, out);
  };
  EXPECT_EQ(decode(8, 8, 16, 200), 40U);
  EXPECT_THROW(decode(7, 8, 14, 200), local::IoError);
  for (const uint32_t bits : {8, 16, 32, 64}) EXPECT_THROW(decode(8, bits, 199, 0), local::IoError) << bits;
  EXPECT_THROW(decode(8, 64, 16, 3), local::IoError);
}

}  // namespace
}  // namespace quarry::io
