// Output files: written by offset or as encoded chunks, read back with the HDF5 library, committed as a whole.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "quarry/io/output.h"
#include "quarry/io/partial.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using test::h5;
using test::H5File;

const Filter kDeflate{Filter::Kind::deflate, 4, "deflate"};
const Filter kShuffle{Filter::Kind::shuffle, 0, "shuffle"};
const Filter kFletcher{Filter::Kind::fletcher32, 0, "fletcher32"};

OutputSpec spec_of(std::string object, Dims shape, DType dtype, std::optional<Dims> chunks = std::nullopt,
                   std::vector<Filter> filters = {}) {
  return {std::move(object), std::move(shape), dtype, std::move(chunks), std::move(filters), {}};
}

// Cuts the shape into boxes of `tile` and writes them through `writers` in turn.
void write_tiles(const std::vector<std::shared_ptr<Writer>>& writers, const Dims& tile, const Bytes& data) {
  const OutputSpec& spec = writers[0]->spec();
  const int64_t item = local::itemsize(spec.dtype);
  if (local::element_count(spec.shape) == 0) return;
  Dims start = Dims::filled(spec.shape.size(), 0);
  for (size_t turn = 0;; ++turn) {
    Dims count = Dims::filled(spec.shape.size());
    for (int d = 0; d < count.size(); ++d) count[d] = std::min(tile[d], spec.shape[d] - start[d]);
    const Region region = Region::box(start, count);
    const Bytes box = pick(data, spec.shape, item, region);
    writers[turn % writers.size()]->write(region, box.data());
    int d = count.size() - 1;
    for (; d >= 0; --d) {
      start[d] += tile[d];
      if (start[d] < spec.shape[d]) break;
      start[d] = 0;
    }
    if (d < 0) return;
  }
}

void write_encoded(OutputFile& output, size_t index, const Bytes& data) {
  const auto writer = output.writer(index);
  const OutputSpec& spec = writer->spec();
  const auto copy = Writer::deserialize(writer->serialize());
  const int64_t item = local::itemsize(spec.dtype);
  Dims chunk = Dims::filled(spec.shape.size(), 0);
  for (;;) {
    Dims start(chunk), count(chunk);
    for (int d = 0; d < chunk.size(); ++d) {
      start[d] = chunk[d] * (*spec.chunks)[d];
      count[d] = std::min((*spec.chunks)[d], spec.shape[d] - start[d]);
    }
    const Bytes box = pick(data, spec.shape, item, Region::box(start, count));
    output.write_encoded(index, chunk, copy->encode(chunk, box.data(), count));
    int d = chunk.size() - 1;
    for (; d >= 0; --d) {
      if (++chunk[d] * (*spec.chunks)[d] < spec.shape[d]) break;
      chunk[d] = 0;
    }
    if (d < 0) return;
  }
}

Bytes values_of(DType dtype, const Dims& shape, unsigned seed) {
  Bytes data = random_bytes(static_cast<size_t>(local::element_count(shape) * local::itemsize(dtype)), seed);
  if (dtype == DType::bool_)
    for (std::byte& byte : data) byte &= std::byte{1};
  return data;
}

std::vector<DType> all_dtypes() {
  std::vector<DType> out;
  for (int i = 0; i < local::kDTypeCount; ++i) out.push_back(static_cast<DType>(i));
  return out;
}

TEST(WriteTest, EveryDTypeInEveryLayout) {
  const test::TempDir dir;
  const std::string file = dir / "out.h5";
  const Dims shape{11, 13};
  std::vector<OutputSpec> specs;
  std::vector<Bytes> data;
  for (DType dtype : all_dtypes()) {
    const std::string name = std::string("/") + local::name(dtype);
    specs.push_back(spec_of(name + "/contiguous", shape, dtype));
    specs.push_back(spec_of(name + "/chunked", shape, dtype, Dims{4, 5}));
    specs.push_back(spec_of(name + "/filtered", shape, dtype, Dims{4, 5}, {kShuffle, kDeflate, kFletcher}));
    specs.push_back(spec_of(name + "/scalar", {}, dtype));
    specs.push_back(spec_of(name + "/empty", {3, 0}, dtype, Dims{2, 1}, {kDeflate}));
  }
  {
    const auto output = OutputFile::create(file, specs, false);
    for (size_t i = 0; i < specs.size(); ++i) {
      data.push_back(values_of(specs[i].dtype, specs[i].shape, static_cast<unsigned>(i)));
      const auto writer = output->writer(i);
      if (!writer->spec().filters.empty() && !data[i].empty())
        write_encoded(*output, i, data[i]);
      else
        write_tiles({writer, Writer::deserialize(writer->serialize())}, specs[i].shape.empty() ? Dims{} : Dims{3, 7},
                    data[i]);
      EXPECT_EQ(writer->bytes_written() > 0, !data[i].empty());
    }
    EXPECT_FALSE(std::filesystem::exists(file));
    output->commit();
  }
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_FALSE(std::filesystem::exists(file + ".partial"));
  for (size_t i = 0; i < specs.size(); ++i) {
    SCOPED_TRACE(specs[i].object);
    EXPECT_EQ(library_read(file, specs[i].object), data[i]);
    const auto dataset = Dataset::open(file, specs[i].object);
    EXPECT_EQ(dataset->info().dtype, specs[i].dtype);
    EXPECT_EQ(dataset->info().shape, specs[i].shape);
    EXPECT_TRUE(dataset->info().direct);
    EXPECT_EQ(read_region(*dataset, Region::whole(specs[i].shape)), data[i]);
    EXPECT_EQ(dataset->info().filters.size(), specs[i].filters.size());
    EXPECT_EQ(dataset->info().chunks, specs[i].chunks);
  }
}

TEST(WriteTest, H5pyReadsWhatWasWritten) {
  const char* const python = "/usr/bin/python3";
  if (std::system((std::string(python) + " -c 'import h5py, numpy' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "needs python3 with h5py";
  const test::TempDir dir;
  const std::string file = dir / "out.h5", script = dir / "check.py";
  const Dims shape{6, 4};
  std::vector<OutputSpec> specs;
  for (DType dtype : all_dtypes())
    specs.push_back(spec_of(std::string("/") + local::name(dtype), shape, dtype, Dims{4, 3},
                            dtype == DType::int32 ? std::vector<Filter>{kShuffle, kDeflate} : std::vector<Filter>{}));
  specs[0].attributes = {{"n", int64_t{3}}, {"x", 0.5}, {"s", std::string("text")}, {"v", std::vector<double>{1, 2}}};
  const auto output = OutputFile::create(file, specs, false);
  for (size_t i = 0; i < specs.size(); ++i) {
    Bytes data(static_cast<size_t>(24 * local::itemsize(specs[i].dtype)));
    for (int64_t e = 0; e < 24; ++e)
      local::Scalar(e).store(specs[i].dtype, data.data() + e * local::itemsize(specs[i].dtype));
    if (specs[i].filters.empty())
      write_tiles({output->writer(i)}, {6, 4}, data);
    else
      write_encoded(*output, i, data);
  }
  output->commit();
  std::ofstream(script) << R"(
import h5py, numpy as np, sys
f = h5py.File(sys.argv[1], 'r')
want = np.arange(24).reshape(6, 4)
for name in f:
    d = f[name]
    if name == 'bfloat16':
        t = d.id.get_type()
        assert t.get_size() == 2 and t.get_fields() == (15, 7, 8, 0, 7) and t.get_ebias() == 127
        got = np.empty((6, 4), np.float32)
        d.id.read(h5py.h5s.ALL, h5py.h5s.ALL, got)
    else:
        assert d.dtype == np.dtype(name), (name, d.dtype)
        got = d[...]
    assert np.array_equal(got, want.astype(got.dtype)), (name, got)
a = f['bool'].attrs
assert a['n'] == 3 and a['x'] == 0.5 and a['s'] == 'text' and list(a['v']) == [1, 2]
)";
  EXPECT_EQ(std::system((std::string(python) + " " + script + " " + file).c_str()), 0);
}

TEST(WriteTest, ManyThreadsWriteOneDataSet) {
  const test::TempDir dir;
  const std::string file = dir / "out.h5";
  const Dims shape{600, 90};
  const Bytes data = random_bytes(600 * 90 * 8, 4);
  const auto output = OutputFile::create(
      file, {spec_of("/a", shape, DType::float64), spec_of("/b", shape, DType::float64, Dims{128, 64})}, false);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 2; ++i) {
        const auto writer = Writer::deserialize(output->writer(i)->serialize());
        for (int64_t row = t * 50; row < 600; row += 200) {
          const Region region = Region::box({row, 0}, {50, 90});
          writer->write(region, pick(data, shape, 8, region).data());
        }
        writer->sync();
      }
    });
  for (std::thread& thread : threads) thread.join();
  output->commit();
  EXPECT_EQ(library_read(file, "/a"), data);
  EXPECT_EQ(library_read(file, "/b"), data);
}

void make_existing(const std::string& file, bool latest = false) {
  const int32_t old[4] = {1, 2, 3, 4};
  H5File f(file, latest);
  f.write("/x", {4}, H5T_STD_I32LE, H5T_STD_I32LE, old);
  f.write("/g/y", {4}, H5T_STD_I32LE, H5T_STD_I32LE, old, {.chunk = Dims{3}});
}

Bytes ints(std::vector<int32_t> values) {
  Bytes out(values.size() * 4);
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(WriteTest, AddsToAndReplacesInAnExistingFile) {
  for (bool latest : {false, true}) {
    const test::TempDir dir;
    const std::string file = dir / "out.h5";
    make_existing(file, latest);
    const Bytes fresh = ints({9, 8, 7, 6, 5});
    {
      const auto output = OutputFile::create(
          file,
          {spec_of("/x", {5}, DType::int32), spec_of("/g/new/z", {5}, DType::int32, Dims{2}, {kDeflate}),
           spec_of("/c", {5}, DType::int32, Dims{2})},
          true);
      write_tiles({output->writer(0)}, {2}, fresh);
      // Until the commit the old content is what readers see.
      EXPECT_EQ(read_region(*Dataset::open(file, "/x"), Region::whole({4})), ints({1, 2, 3, 4}));
      write_encoded(*output, 1, fresh);
      write_tiles({output->writer(2)}, {5}, fresh);
      output->commit();
    }
    for (const char* object : {"/x", "/g/new/z", "/c"}) EXPECT_EQ(library_read(file, object), fresh) << object;
    EXPECT_EQ(library_read(file, "/g/y"), ints({1, 2, 3, 4}));
    for (const ObjectInfo& info : list_objects(file)) EXPECT_EQ(info.path.find("partial"), std::string::npos);
  }
}

TEST(WriteTest, WithoutCommitNothingChanges) {
  const test::TempDir dir;
  const std::string file = dir / "out.h5", fresh = dir / "fresh.h5";
  make_existing(file);
  const std::string before = contents(file);
  const Bytes data = ints({9, 8, 7, 6, 5});
  {
    const auto output = OutputFile::create(
        file, {spec_of("/x", {5}, DType::int32), spec_of("/new/z", {5}, DType::int32, Dims{2}, {kDeflate})}, true);
    write_tiles({output->writer(0)}, {2}, data);
    write_encoded(*output, 1, data);
  }
  EXPECT_EQ(library_read(file, "/x"), ints({1, 2, 3, 4}));
  EXPECT_EQ(library_read(file, "/g/y"), ints({1, 2, 3, 4}));
  EXPECT_EQ(list_objects(file).size(), 4u);
  EXPECT_TRUE(contents(file) == before);
  EXPECT_FALSE(std::filesystem::exists(file + ".partial"));
  {
    const auto output = OutputFile::create(fresh, {spec_of("/x", {5}, DType::int32)}, false);
    EXPECT_TRUE(std::filesystem::exists(fresh + ".partial"));
  }
  EXPECT_FALSE(std::filesystem::exists(fresh));
  EXPECT_FALSE(std::filesystem::exists(fresh + ".partial"));
}

TEST(WriteTest, RemainsOfAKilledRunAreReplaced) {
  const test::TempDir dir;
  const std::string file = dir / "out.h5", fresh = dir / "fresh.h5";
  make_existing(file);
  std::ofstream(fresh + ".partial") << "not HDF5";
  std::ofstream(file + ".partial") << std::string(1 << 20, 'x');
  for (const std::string& to : {file, fresh}) {
    const auto output = OutputFile::create(to, {spec_of("/n", {2}, DType::int32)}, false);
    write_tiles({output->writer(0)}, {2}, ints({5, 6}));
    output->commit();
    EXPECT_EQ(library_read(to, "/n"), ints({5, 6}));
  }
}

TEST(WriteTest, OneFileIsInputAndOutput) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const Bytes data = random_bytes(100 * 30 * 4, 8);
  {
    H5File f(file, true);
    const hid_t padded = h5(H5Tcopy(H5T_STD_I64LE));  // 32 bits in 5 bytes: converted by the library
    h5(H5Tset_precision(padded, 32));
    h5(H5Tset_size(padded, 5));
    f.write("/library", {100, 30}, padded, H5T_STD_I32LE, data.data(), {.chunk = Dims{16, 16}});
    f.write("/direct", {100, 30}, H5T_STD_I32BE, H5T_STD_I32LE, data.data());
  }
  auto library = Dataset::open(file, "/library");
  const auto direct = Dataset::open(file, "/direct");
  EXPECT_FALSE(library->info().direct);
  EXPECT_EQ(read_region(*library, Region::whole({100, 30})), data);
  const auto output = OutputFile::create(
      file,
      {spec_of("/o1", {100, 30}, DType::int32), spec_of("/o2", {100, 30}, DType::int32, Dims{16, 16}, {kDeflate})},
      false);
  for (int64_t row = 0; row < 100; row += 10) {
    const Region region = Region::box({row, 0}, {10, 30});
    output->writer(0)->write(region, read_region(*library, region).data());
    EXPECT_EQ(read_region(*direct, region), pick(data, {100, 30}, 4, region));
  }
  write_encoded(*output, 1, data);
  EXPECT_EQ(read_region(*library, Region::whole({100, 30})), data);
  output->commit();
  EXPECT_EQ(read_region(*library, Region::whole({100, 30})), data);
  library.reset();  // it holds the file open without locks, which the library does not mix with its default
  for (const char* object : {"/o1", "/o2"}) EXPECT_EQ(library_read(file, object), data) << object;
}

TEST(WriteTest, PaddingOfReusedSpaceIsCleared) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  // A file that remembers its free space, with a hole full of 0xee.
  {
    const hid_t create = h5(H5Pcreate(H5P_FILE_CREATE));
    h5(H5Pset_file_space_strategy(create, H5F_FSPACE_STRATEGY_FSM_AGGR, true, 1));
    const hid_t id = h5(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, create, H5P_DEFAULT));
    const hsize_t extent = 1 << 16;
    const hid_t space = h5(H5Screate_simple(1, &extent, nullptr));
    const Bytes noise(extent, std::byte{0xee});
    for (const char* name : {"/hole", "/tail"}) {
      const hid_t dataset = h5(H5Dcreate2(id, name, H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      h5(H5Dwrite(dataset, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, noise.data()));
      H5Dclose(dataset);
    }
    h5(H5Ldelete(id, "/hole", H5P_DEFAULT));
    H5Fclose(id);
  }
  const auto output = OutputFile::create(file, {spec_of("/x", {100, 100}, DType::uint8, Dims{64, 64})}, false);
  const Bytes data(100 * 100, std::byte{0x11});
  write_tiles({output->writer(0)}, {100, 100}, data);
  output->commit();
  EXPECT_EQ(library_read(file, "/x"), data);
  const hid_t id = h5(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const hid_t dataset = h5(H5Dopen2(id, "/x", H5P_DEFAULT));
  const hsize_t origin[2] = {64, 64};
  Bytes chunk(64 * 64);
  uint32_t mask = 0;
  h5(H5Dread_chunk(dataset, H5P_DEFAULT, origin, &mask, chunk.data()));
  H5Dclose(dataset);
  H5Fclose(id);
  for (size_t i = 0; i < chunk.size(); ++i)
    ASSERT_EQ(chunk[i], i / 64 < 36 && i % 64 < 36 ? std::byte{0x11} : std::byte{0}) << i;
}

TEST(WriteTest, BadOutputsFailBeforeAnythingIsWritten) {
  const test::TempDir dir;
  const std::string file = dir / "out.h5", text = dir / "text.h5";
  make_existing(file);
  std::ofstream(text) << "this is no HDF5 file";
  const auto create = [&](const std::string& to, OutputSpec spec, bool overwrite = false) {
    return OutputFile::create(to, {std::move(spec)}, overwrite);
  };
  const auto plain = [](const char* object) { return spec_of(object, {4}, DType::int32); };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message_of<local::InvalidArgument>([&] { create(file, plain("/x")); }), "'/x' exists");
  has(message_of<local::InvalidArgument>([&] { create(file, plain("/g"), true); }), "is a group");
  has(message_of<local::InvalidArgument>([&] { create(file, plain("/x/below"), true); }), "'/x' is no group");
  has(message_of<local::InvalidArgument>([&] { create(file, plain("/"), true); }), "needs a name");
  has(message_of<local::InvalidArgument>([&] {
        OutputFile::create(file, {plain("/n"), plain("n/")}, false);
      }),
      "written twice");
  has(message_of<local::InvalidArgument>([&] {
        OutputFile::create(file, {plain("/n"), plain("/n/m")}, false);
      }),
      "'/n'");
  has(message_of<local::InvalidArgument>([&] {
        create(file, spec_of("/n", {4}, DType::int32, Dims{2, 2}));
      }),
      "do not fit");
  has(message_of<local::InvalidArgument>([&] { create(file, spec_of("/n", {4}, DType::int32, Dims{0})); }),
      "not positive");
  has(message_of<local::InvalidArgument>(
          [&] { create(file, spec_of("/n", {4}, DType::int32, std::nullopt, {kDeflate})); }),
      "filters need chunks");
  has(message_of<local::InvalidArgument>([&] {
        create(dir / "big.h5", spec_of("/n", {1 << 20, 1 << 20}, DType::float64, Dims{1 << 20, 1 << 20}));
      }),
      "4 GiB");
  has(message_of<local::IoError>([&] { create(dir / "no/such/out.h5", plain("/n")); }), "No such file or directory");
  has(message_of<local::InvalidArgument>([&] { create(dir.path().string(), plain("/n")); }), "directory");
  has(message_of<local::IoError>([&] { create(text, plain("/n"), true); }), "not an HDF5 file");
  has(message_of<local::IoError>([&] { create(file + "/out.h5", plain("/n")); }), "Not a directory");
  has(message_of<local::IoError>([&] { create(dir / "huge.h5", spec_of("/n", {int64_t{1} << 50}, DType::float64)); }),
      "no space left on device");
  EXPECT_EQ(library_read(file, "/x"), ints({1, 2, 3, 4}));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) files += entry.is_regular_file();
  EXPECT_EQ(files, 2u);
  if (::geteuid() != 0) {
    std::filesystem::permissions(dir.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    has(message_of<local::IoError>([&] { create(dir / "n.h5", plain("/n")); }), "Permission denied");
    std::filesystem::permissions(dir.path(), std::filesystem::perms::owner_all);
  }
}

TEST(WriteTest, ReadersStayWithTheFileThatTheyOpened) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  make_existing(file);
  const auto before = Dataset::open(file, "/x");
  const auto elsewhere = Dataset::deserialize(before->serialize());
  const auto output = OutputFile::create(file, {spec_of("/x", {4}, DType::int32)}, /*overwrite=*/true);
  write_tiles({output->writer(0)}, {4}, ints({9, 9, 9, 9}));
  output->commit();
  for (const auto& dataset : {before, elsewhere})
    EXPECT_EQ(read_region(*dataset, Region::whole({4})), ints({1, 2, 3, 4}));
  EXPECT_EQ(read_region(*Dataset::open(file, "/x"), Region::whole({4})), ints({9, 9, 9, 9}));
}

TEST(WriteTest, AReplacedFileKeepsModeLinkAndHoles) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5", link = dir / "link.h5";
  {
    H5File f(file);
    const Bytes data = ints({1, 2, 3, 4});
    f.write("/x", {4}, H5T_STD_I32LE, H5T_STD_I32LE, data.data());
  }
  constexpr int64_t kHole = int64_t{64} << 20;
  std::filesystem::resize_file(file, std::filesystem::file_size(file) + kHole);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all | std::filesystem::perms::others_read);
  std::filesystem::create_symlink("a.h5", link);
  const auto output = OutputFile::create(link, {spec_of("/y", {4}, DType::int32)}, false);
  write_tiles({output->writer(0)}, {4}, ints({5, 6, 7, 8}));
  output->commit();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(library_read(file, "/y"), ints({5, 6, 7, 8}));
  EXPECT_EQ(library_read(file, "/x"), ints({1, 2, 3, 4}));
  struct stat status {};
  ASSERT_EQ(::stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0704u);
  EXPECT_LT(status.st_blocks * 512, kHole / 2);
}

TEST(WriteTest, AFileChangedByOthersMeanwhileIsLeftAlone) {
  const test::TempDir dir;
  for (bool exists : {false, true}) {
    const std::string file = dir / (exists ? "old.h5" : "new.h5");
    if (exists) make_existing(file);
    const auto output = OutputFile::create(file, {spec_of("/n", {4}, DType::int32)}, false);
    write_tiles({output->writer(0)}, {4}, ints({5, 6, 7, 8}));
    std::ofstream(file, std::ios::app) << "by another program";
    const std::string now = contents(file);
    EXPECT_NE(message_of<local::IoError>([&] { output->commit(); }).find(exists ? "changed" : "made"),
              std::string::npos);
    EXPECT_TRUE(contents(file) == now);
  }
}

TEST(WriteTest, OneWriterAtATime) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  const auto output = OutputFile::create(file, {spec_of("/n", {4}, DType::int32)}, false);
  EXPECT_NE(message_of<local::IoError>([&] {
              OutputFile::create(file, {spec_of("/m", {4}, DType::int32)}, false);
            }).find("another process is writing"),
            std::string::npos);
  write_tiles({output->writer(0)}, {4}, ints({5, 6, 7, 8}));
  output->commit();
  EXPECT_EQ(library_read(file, "/n"), ints({5, 6, 7, 8}));
}

TEST(WriteTest, DiscardedFilesAreNotCommitted) {
  const test::TempDir dir;
  const std::string file = dir / "old.h5";
  make_existing(file);
  const std::string before = contents(file);
  // For good, so in a process of its own.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int good = 0;
    const auto output = OutputFile::create(file, {spec_of("/n", {4}, DType::int32)}, false);
    discard_partial_files();
    good += !std::filesystem::exists(file + ".partial");
    write_tiles({output->writer(0)}, {4}, ints({5, 6, 7, 8}));  // who has it open does not notice
    for (int i = 0; i < 2; ++i) {
      try {
        if (i == 0) output->commit();
        if (i == 1) OutputFile::create(dir / "other.h5", {spec_of("/n", {4}, DType::int32)}, false);
      } catch (const local::Cancelled&) {
        ++good;
      }
    }
    std::_Exit(good);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_TRUE(contents(file) == before);
  EXPECT_FALSE(std::filesystem::exists(dir / "other.h5"));
}

// A file size limit stands in for a full disk: the system refuses the write in the same place.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit now{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_;
  void (*old_handler_)(int);
};

TEST(WriteTest, AFullDiskIsAnErrorAndLeavesTheOldContent) {
  const test::TempDir dir;
  const std::string file = dir / "old.h5", fresh = dir / "fresh.h5";
  make_existing(file);
  const std::string before = contents(file);
  const Bytes data = random_bytes(1 << 20, 3);
  for (const std::string& to : {fresh, file})
    for (bool filtered : {false, true}) {
      SCOPED_TRACE(to + (filtered ? " filtered" : ""));
      std::unique_ptr<OutputFile> output;
      // Incompressible, so that the encoded chunks are as large.
      const OutputSpec spec = filtered ? spec_of("/n", {1 << 20}, DType::uint8, Dims{1 << 18}, {kDeflate})
                                       : spec_of("/n", {1 << 20}, DType::uint8);
      output = OutputFile::create(to, {spec}, false);
      {
        const FileSizeLimit limit(1 << 18);
        const std::string message = message_of<local::IoError>([&] {
          if (filtered)
            write_encoded(*output, 0, data);
          else
            write_tiles({output->writer(0)}, {1 << 20}, data);
          output->commit();
        });
        EXPECT_NE(message.find("no space left on device"), std::string::npos) << message;
        EXPECT_NE(message.find(to), std::string::npos) << message;
      }
      output.reset();
      EXPECT_FALSE(std::filesystem::exists(fresh));
      EXPECT_FALSE(std::filesystem::exists(fresh + ".partial"));
      EXPECT_FALSE(std::filesystem::exists(file + ".partial"));
      EXPECT_TRUE(contents(file) == before);
    }
  // Afterwards the same names can be written.
  const auto output = OutputFile::create(fresh, {spec_of("/n", {1 << 20}, DType::uint8)}, false);
  write_tiles({output->writer(0)}, {1 << 20}, data);
  output->commit();
  EXPECT_EQ(library_read(fresh, "/n"), data);
}

}  // namespace
}  // namespace quarry::io
