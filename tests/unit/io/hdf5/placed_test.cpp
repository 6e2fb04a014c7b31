// Encoded chunks that lie anywhere in the file, with an index that quarry made: read by the library, by h5dump and by
// quarry's own parser, and changed by the library afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "quarry/io/format.h"
#include "quarry/io/output.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using test::h5;
using test::H5File;

const Filter kDeflate{Filter::Kind::deflate, 1, "deflate"};
const Filter kFletcher{Filter::Kind::fletcher32, 0, "fletcher32"};

struct Case {
  const char* name;
  Dims shape, chunk;
};
// The 64 entries of a node of a version 1 B-tree and the 1024 elements of a fixed array's page are boundaries.
const Case kCases[] = {
    {"one_chunk", {5, 7}, {5, 7}},      {"one_chunk_1d", {3}, {8}},   {"few", {20, 30}, {6, 7}},
    {"full_node", {64}, {1}},           {"two_nodes", {65}, {1}},     {"full_tree", {4096}, {1}},
    {"three_levels", {4097}, {1}},      {"one_page", {1024}, {1}},    {"more_than_a_page", {1025, 1}, {1, 1}},
    {"pages", {90, 80}, {1, 1}},        {"3d", {9, 8, 7}, {2, 3, 4}}, {"5d", {3, 4, 5, 2, 3}, {2, 2, 2, 2, 2}},
    {"whole_pages", {2048, 2}, {1, 2}},
};

struct There {
  const char* name;
  bool exists, latest = false;
  hsize_t user_block = 0;
  bool paged = false;
};
const There kThere[] = {{"fresh", false},
                        {"old_format", true},
                        {"latest_format", true, true},
                        {"user_block", true, false, 1024},
                        {"latest_format_behind_a_user_block", true, true, 512},
                        {"paged", true, true, 0, true}};

void make_file(const std::string& file, const There& there) {
  if (!there.exists) return;
  if (!there.paged) {
    H5File made(file, there.latest, there.user_block);
    const int32_t value = 17;
    made.write("/old", {}, H5T_STD_I32LE, H5T_STD_I32LE, &value);
    return;
  }
  const hid_t create = h5(H5Pcreate(H5P_FILE_CREATE));
  h5(H5Pset_file_space_strategy(create, H5F_FSPACE_STRATEGY_PAGE, /*persist=*/true, 1));
  h5(H5Fclose(h5(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, create, H5P_DEFAULT))));
  H5Pclose(create);
}

Bytes counted(const Dims& shape) {
  Bytes bytes(static_cast<size_t>(local::element_count(shape)) * sizeof(int32_t));
  for (size_t i = 0; i < bytes.size() / sizeof(int32_t); ++i) {
    const auto value = static_cast<int32_t>(i + 1);
    std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  }
  return bytes;
}

// Writes the chunks for which `wanted` is true in random order, with holes between them. Returns them. `adds`: the
// output learns of them.
std::vector<PlacedChunk> write_chunks(OutputFile& output, size_t index, const Bytes& data,
                                      const std::function<bool(int64_t)>& wanted, bool adds = true) {
  const auto writer = output.writer(index);
  const auto elsewhere = Writer::deserialize(writer->serialize());
  const OutputSpec& spec = writer->spec();
  Dims grid = spec.shape;
  for (int d = 0; d < grid.size(); ++d) grid[d] = (spec.shape[d] - 1) / (*spec.chunks)[d] + 1;
  std::vector<int64_t> numbers(static_cast<size_t>(local::element_count(grid)));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  std::mt19937 random(5);
  std::ranges::shuffle(numbers, random);
  std::vector<PlacedChunk> placed;
  for (const int64_t number : numbers) {
    if (!wanted(number)) continue;
    Dims chunk = grid, start = grid, count = grid;
    int64_t rest = number;
    for (int d = grid.size() - 1; d >= 0; --d) {
      chunk[d] = rest % grid[d];
      rest /= grid[d];
      start[d] = chunk[d] * (*spec.chunks)[d];
      count[d] = std::min((*spec.chunks)[d], spec.shape[d] - start[d]);
    }
    const Bytes box = pick(data, spec.shape, sizeof(int32_t), Region::box(start, count));
    const Bytes encoded = writer->encode(chunk, box.data(), count);
    if (!writer->places_chunks()) {
      output.write_encoded(index, chunk, encoded);
      continue;
    }
    const int64_t at = output.reserve(std::ssize(encoded) + static_cast<int64_t>(random() % 3));
    placed.push_back((number % 2 ? writer : elsewhere)->place(chunk, at, encoded));
    EXPECT_EQ(placed.back().number, number);
  }
  if (adds) output.add_placed(index, placed);
  return placed;
}

// What the superblock says is where the file ends, by the library's own account.
void expect_end(const std::string& file) {
  const hid_t id = h5(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  hsize_t bytes = 0;
  h5(H5Fget_filesize(id, &bytes));
  h5(H5Fclose(id));
  EXPECT_EQ(bytes, std::filesystem::file_size(file));
}

class PlacedChunks : public testing::TestWithParam<std::tuple<Case, There>> {};

TEST_P(PlacedChunks, AreWhatTheLibraryReads) {
  const auto& [c, there] = GetParam();
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  make_file(file, there);
  const Bytes data = counted(c.shape);
  const auto all = [](int64_t) { return true; };
  const auto some = [](int64_t number) { return number % 7 != 3; };
  std::vector<PlacedChunk> placed;
  {
    std::vector<OutputSpec> specs;
    for (const char* const name : {"/x", "/group/with_holes", "/plain"})
      specs.push_back({name, c.shape, DType::int32, c.chunk, {kDeflate, kFletcher}, {{"units", "m"}}});
    specs[2].filters.clear();
    const auto output = OutputFile::create(file, specs, false);
    EXPECT_EQ(output->writer(0)->places_chunks(), !there.paged);
    EXPECT_FALSE(output->writer(2)->places_chunks());
    placed = write_chunks(*output, 0, data, all);
    write_chunks(*output, 1, data, some);
    output->writer(2)->write(Region::whole(c.shape), data.data());
    output->commit();
  }
  expect_end(file);
  const auto expect_data = [&, &c = c](const std::string& name, const Bytes& expected) {
    SCOPED_TRACE(name);
    EXPECT_EQ(library_read(file, name), expected);
    const auto dataset = Dataset::open(file, name);
    EXPECT_TRUE(dataset->info().direct) << dataset->info().library_reason;
    EXPECT_EQ(read_region(*dataset, Region::whole(c.shape)), expected);
    EXPECT_EQ(std::get<std::string>(dataset->info().attributes.at("units")), "m");
  };
  expect_data("/x", data);
  expect_data("/plain", data);
  const auto holes = Dataset::open(file, "/group/with_holes");
  const auto there_now = library_read(file, "/group/with_holes");
  EXPECT_EQ(read_region(*holes, Region::whole(c.shape)), there_now);
  if (placed.size() > 4) {
    EXPECT_NE(there_now, data);
  }

  // Every chunk is where it was put.
  hid_t id = h5(H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  hid_t dataset = h5(H5Dopen2(id, "/x", H5P_DEFAULT));
  const hid_t space = h5(H5Dget_space(dataset));
  hsize_t chunks = 0;
  h5(H5Dget_num_chunks(dataset, space, &chunks));
  if (!placed.empty()) {
    EXPECT_EQ(chunks, placed.size());
  }
  std::ranges::sort(placed, {}, &PlacedChunk::number);
  for (const PlacedChunk& one : placed) {
    if (placed.size() > 200 && one.number % 97 != 0) continue;
    hsize_t origin[local::kMaxDims], bytes = 0;
    int64_t rest = one.number;
    for (int d = c.shape.size() - 1; d >= 0; --d) {
      const int64_t extent = std::min(c.chunk[d], c.shape[d]), count = (c.shape[d] - 1) / extent + 1;
      origin[d] = static_cast<hsize_t>(rest % count) * static_cast<hsize_t>(extent);
      rest /= count;
    }
    haddr_t address = 0;
    unsigned mask = 1;
    h5(H5Dget_chunk_info_by_coord(dataset, origin, &mask, &address, &bytes));
    EXPECT_EQ(mask, 0u);
    EXPECT_EQ(address + there.user_block, static_cast<haddr_t>(one.offset));
    EXPECT_EQ(bytes, static_cast<hsize_t>(one.bytes));
  }

  // The library goes on with the file: it rewrites chunks, adds missing ones, and makes another data set.
  Bytes changed = data;
  for (std::byte& byte : changed) byte ^= std::byte{0x5a};
  for (const char* const name : {"/x", "/group/with_holes"}) {
    const hid_t target = h5(H5Dopen2(id, name, H5P_DEFAULT));
    h5(H5Dwrite(target, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, changed.data()));
    H5Dclose(target);
  }
  const hid_t one = h5(H5Screate(H5S_SCALAR));
  H5Dclose(h5(H5Dcreate2(id, "/later", H5T_STD_I32LE, one, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
  H5Sclose(one);
  H5Sclose(space);
  H5Dclose(dataset);
  h5(H5Fclose(id));
  for (const char* const name : {"/x", "/group/with_holes"}) expect_data(name, changed);
  expect_data("/plain", data);
  if (std::system("command -v h5dump > /dev/null") != 0) return;
  EXPECT_EQ(std::system(fmt::format("h5dump -p '{}' > '{}'", file, dir / "dump").c_str()), 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlacedChunks, testing::Combine(testing::ValuesIn(kCases), testing::ValuesIn(kThere)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param).name, std::get<1>(info.param).name);
                         });

// The last one of a number counts, as when a chunk is computed again after a failure.
// Several processes write the index: each the nodes of some chunks. It is the index that one writes, byte by byte.
TEST_P(PlacedChunks, HaveTheSameIndexFromSeveralWriters) {
  const auto& [c, there] = GetParam();
  const test::TempDir dir;
  const Bytes data = counted(c.shape);
  const auto all = [](int64_t) { return true; };
  const std::string before = dir / "before.h5";
  make_file(before, there);
  std::string files[2];
  int64_t begin = 0;  // of the chunks: what the library writes before them has the time of day
  for (const bool shared : {false, true}) {
    const std::string file = files[shared ? 1 : 0] = dir / (shared ? "shared.h5" : "alone.h5");
    if (there.exists) std::filesystem::copy_file(before, file);
    std::vector<OutputSpec> specs;
    for (const char* const name : {"/x", "/y"})
      specs.push_back({name, c.shape, DType::int32, c.chunk, {kDeflate, kFletcher}, {}});
    const auto output = OutputFile::create(file, specs, false);
    const int64_t node_chunks = output->writer(0)->index_node_chunks();
    if (there.paged) {
      EXPECT_EQ(node_chunks, 0);
      return;
    }
    std::vector<PlacedChunk> placed[2];
    for (const size_t i : {0, 1}) placed[i] = write_chunks(*output, i, data, all, /*adds=*/!shared || node_chunks == 0);
    EXPECT_TRUE(node_chunks == 64 || node_chunks == 1024 || (node_chunks == 0 && placed[0].size() == 1)) << node_chunks;
    int64_t end = 0;
    begin = placed[0].front().offset;
    for (const std::vector<PlacedChunk>& chunks : placed)
      for (const PlacedChunk& chunk : chunks) {
        begin = std::min(begin, chunk.offset);
        end = std::max(end, chunk.offset + chunk.bytes);
      }
    for (const size_t i : {0, 1}) {
      if (!shared || node_chunks == 0) break;
      keep_last_of_each(placed[i]);
      const int64_t at = output->reserve_index(i, end);
      const size_t count = placed[i].size();
      std::map<size_t, std::vector<PlacedChunk>> nodes;  // by where the range of a writer begins
      const size_t most = 3 * static_cast<size_t>(node_chunks);
      for (size_t last = count; last > 0;) {  // the last range first
        const size_t first = (last - 1) / most * most;
        const auto writer = Writer::deserialize(output->writer(i)->serialize());
        nodes[first] = writer->write_index(at, std::span(placed[i]).subspan(first, last - first),
                                           last < count ? &placed[i][last] : nullptr);
        last = first;
      }
      std::vector<PlacedChunk> every;
      for (const auto& [first, made] : nodes) every.insert(every.end(), made.begin(), made.end());
      output->finish_index(i, every);
    }
    output->commit();
    expect_end(file);
    for (const char* const name : {"/x", "/y"}) EXPECT_EQ(library_read(file, name), data);
  }
  const auto bytes_of = [&](const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    in.seekg(begin);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(bytes_of(files[0]), bytes_of(files[1]));
}

TEST(PlacedChunk, ReplacesAnEarlierOne) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Bytes data = counted({8});
  const auto output = OutputFile::create(file, {{"/x", {8}, DType::int32, Dims{4}, {kDeflate}, {}}}, false);
  const auto all = [](int64_t) { return true; };
  write_chunks(*output, 0, Bytes(32), all);
  write_chunks(*output, 0, data, all);
  output->commit();
  EXPECT_EQ(library_read(file, "/x"), data);
}

// An output that was kept when its run ended: another one goes on with it.
TEST(ResumedOutput, GoesOnWithWhatIsThere) {
  const test::TempDir dir;
  const Dims shape{40, 30};
  const Bytes data = counted(shape);
  for (const There& there : kThere) {
    SCOPED_TRACE(there.name);
    const std::string file = dir / (std::string(there.name) + ".h5");
    make_file(file, there);
    const std::vector<OutputSpec> specs = {{"/filtered", shape, DType::int32, Dims{8, 7}, {kDeflate}, {{"units", "m"}}},
                                           {"/chunked", shape, DType::int32, Dims{8, 7}, {}, {}},
                                           {"/contiguous", shape, DType::int32, {}, {}, {}}};
    std::string kept;
    std::vector<PlacedChunk> placed;
    {
      const auto output = OutputFile::create(file, specs, false);
      if (there.paged) {
        EXPECT_THROW(output->keep(), local::NotSupported);
        continue;
      }
      kept = output->keep();
      placed = write_chunks(*output, 0, data, [](int64_t number) { return number % 3 == 0; });
      for (const size_t i : {1, 2}) output->writer(i)->write(Region::box({0, 0}, {20, 30}), data.data());
    }
    ASSERT_TRUE(std::filesystem::exists(file + ".partial"));
    {
      const auto output = format_to_write(file).resume(file, kept);
      EXPECT_THROW(format_to_write(file).resume(file, kept), local::IoError) << "another one is writing it";
      const auto writer = output->writer(0);
      EXPECT_TRUE(writer->places_chunks());
      for (const PlacedChunk& chunk : placed) EXPECT_NE(writer->checksum_written(chunk), 0u);
      EXPECT_EQ(output->writer(1)->checksum_written(Region::box({2, 3}, {5, 9})),
                output->writer(2)->checksum_written(Region::box({2, 3}, {5, 9})));
      output->add_placed(0, placed);
      write_chunks(*output, 0, data, [](int64_t number) { return number % 3 != 0; });
      const Region rest = Region::box({20, 0}, {20, 30});
      for (const size_t i : {1, 2}) output->writer(i)->write(rest, pick(data, shape, sizeof(int32_t), rest).data());
      output->commit();
    }
    expect_end(file);
    for (const OutputSpec& spec : specs) EXPECT_EQ(library_read(file, spec.object), data) << spec.object;
    EXPECT_EQ(std::get<std::string>(Dataset::open(file, "/filtered")->info().attributes.at("units")), "m");
    EXPECT_FALSE(std::filesystem::exists(file + ".partial"));
    EXPECT_THROW(format_to_write(file).resume(file, kept), local::Error) << "it is complete";
  }
}

// Until it is committed no program takes the file for a whole one.
TEST(PlacedChunk, AnUnfinishedFileIsRefused) {
  const test::TempDir dir;
  for (const There& there : kThere) {
    const std::string file = dir / (std::string(there.name) + ".h5"), unfinished = file + ".copy.h5";
    make_file(file, there);
    const auto output = OutputFile::create(
        file, {{"/x", {8}, DType::int32, Dims{4}, {kDeflate}, {}}, {"/y", {8}, DType::int32, {}, {}, {}}}, false);
    write_chunks(*output, 0, counted({8}), [](int64_t number) { return number == 0; });
    std::filesystem::copy_file(file + ".partial", unfinished);
    for (const std::string& name : {file + ".partial", unfinished}) {
      if (there.paged) continue;  // the library has it open and needs its signature
      EXPECT_LT(H5Fis_hdf5(name.c_str()), 1);
      const std::string message = message_of<local::IoError>([&] { Dataset::open(name, "/x"); });
      EXPECT_NE(message.find("unfinished output"), std::string::npos) << message;
      EXPECT_THROW(list_objects(name), local::IoError);
    }
  }
}

}  // namespace
}  // namespace quarry::io
