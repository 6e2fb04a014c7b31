// The HDF5 library in a process of its own: what it reads and writes there is right, nothing is started for ordinary
// files, and a crash, a loop or too much memory there is an error here.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "quarry/io/format.h"
#include "quarry/io/output.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

namespace fs = std::filesystem;
using test::h5;
using test::H5File;

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Processes of the library that this one has started.
std::vector<pid_t> library_processes() {
  std::vector<pid_t> found;
  const std::string parent = fmt::format(" {} ", ::getpid());
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = text_of(entry.path() / "stat");
    if (stat.find("(quarry-hdf5) ") != std::string::npos && stat.find(parent) < stat.find(") ") + 10)
      found.push_back(std::stoi(name));
  }
  return found;
}

bool has_ended(pid_t process) {
  const std::string stat = text_of(fmt::format("/proc/{}/stat", process));
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

void end_library_processes() {
  for (const pid_t process : library_processes()) {
    ::kill(process, SIGKILL);
    while (!has_ended(process)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Sets a variable for the next process, and takes it back.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    end_library_processes();
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

Bytes counting(const Dims& shape) {
  std::vector<int32_t> data(static_cast<size_t>(local::element_count(shape)));
  std::iota(data.begin(), data.end(), 0);
  Bytes out(data.size() * sizeof(int32_t));
  std::memcpy(out.data(), data.data(), out.size());
  return out;
}

OutputSpec spec_of(const std::string& object, const Dims& shape, std::optional<Dims> chunks = std::nullopt,
                   std::vector<Filter> filters = {}) {
  OutputSpec spec;
  spec.object = object;
  spec.shape = shape;
  spec.dtype = DType::int32;
  spec.chunks = std::move(chunks);
  spec.filters = std::move(filters);
  return spec;
}

class ProcessTest : public ::testing::Test {
 protected:
  // A virtual data set /x of a file, and one that is read directly, /y; both count.
  std::string make_virtual(const Dims& shape, bool grows = false) {
    const std::string file = dir_ / "virtual.h5";
    const Bytes data = counting(shape);
    H5File f(file);
    f.write("/y", shape, H5T_STD_I32LE, H5T_STD_I32LE, data.data(),
            {.chunk = grows ? std::optional(shape) : std::nullopt, .unlimited = grows});
    hsize_t extents[local::kMaxDims], limits[local::kMaxDims], none[local::kMaxDims] = {};
    for (int d = 0; d < shape.size(); ++d) {
      extents[d] = static_cast<hsize_t>(shape[d]);
      limits[d] = grows && d == 0 ? H5S_UNLIMITED : extents[d];
    }
    const hid_t from = h5(H5Screate_simple(shape.size(), extents, limits)), to = h5(H5Scopy(from));
    if (grows) {
      hsize_t count[local::kMaxDims];
      std::fill(count, count + local::kMaxDims, 1);
      count[0] = H5S_UNLIMITED;
      hsize_t block[local::kMaxDims];
      std::copy(extents, extents + shape.size(), block);
      block[0] = 1;
      h5(H5Sselect_hyperslab(from, H5S_SELECT_SET, none, nullptr, count, block));
      h5(H5Sselect_hyperslab(to, H5S_SELECT_SET, none, nullptr, count, block));
    }
    const hid_t create = h5(H5Pcreate(H5P_DATASET_CREATE));
    h5(H5Pset_virtual(create, to, ".", "/y", from));
    H5Dclose(h5(H5Dcreate2(f.id(), "/x", H5T_STD_I32LE, to, H5P_DEFAULT, create, H5P_DEFAULT)));
    return file;
  }

  const test::TempDir dir_;
};

TEST_F(ProcessTest, ReadsWhatIsLargerThanTheMemoryTheyShare) {
  const Dims shape{3000, 4100};  // 47 MiB: three parts
  const Bytes expected = counting(shape);
  const auto dataset = Dataset::open(make_virtual(shape), "/x");
  EXPECT_FALSE(dataset->info().direct);
  EXPECT_EQ(read_region(*dataset, Region::whole(shape)), expected);
  Region region = Region::whole(shape);
  region.start = {2999, 3};
  region.step = {-1, 2};
  region.count = {3000, 2000};
  EXPECT_EQ(read_region(*dataset, region), pick(expected, shape, 4, region));
  EXPECT_EQ(library_processes().size(), 1u);
}

TEST_F(ProcessTest, FilteredChunksAreReadWhole) {
  const Dims shape{2500, 2300};  // 22 MiB in chunks that are cut at the edges
  const Bytes expected = counting(shape);
  const std::string file = dir_ / "a.h5";
  {
    H5File f(file);
    const hsize_t extents[2] = {2500, 2300}, chunk[2] = {700, 900};
    const hid_t create = h5(H5Pcreate(H5P_DATASET_CREATE));
    h5(H5Pset_chunk(create, 2, chunk));
    h5(H5Pset_scaleoffset(create, H5Z_SO_INT, 0));
    const hid_t dataset = h5(H5Dcreate2(f.id(), "/x", H5T_STD_I32LE, h5(H5Screate_simple(2, extents, nullptr)),
                                        H5P_DEFAULT, create, H5P_DEFAULT));
    h5(H5Dwrite(dataset, H5T_STD_I32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, expected.data()));
    H5Dclose(dataset);
  }
  const auto dataset = Dataset::open(file, "/x");
  EXPECT_EQ(read_region(*dataset, Region::whole(shape)), expected);
  EXPECT_EQ(visit_region(*dataset, Region::whole(shape)), expected);
}

TEST_F(ProcessTest, OrdinaryFilesStartNothing) {
  end_library_processes();
  const std::string file = make_virtual({50, 20});
  for (const ObjectInfo& object : list_objects(file)) EXPECT_TRUE(object.note.empty()) << object.note;
  const auto dataset = Dataset::open(file, "/y");
  read_region(*dataset, Region::whole({50, 20}));
  const std::string made = dir_ / "made.h5";
  OutputFile::create(made, {spec_of("/z", {3})}, false)->commit();
  const auto of_ours = [] {
    auto found = library_processes();
    std::erase_if(found, has_ended);
    return found;
  };
  EXPECT_TRUE(of_ours().empty());
  read_region(*Dataset::open(file, "/x"), Region::whole({50, 20}));
  EXPECT_EQ(of_ours().size(), 1u);
  const pid_t first = of_ours().at(0);
  read_region(*Dataset::open(file, "/x"), Region::whole({50, 20}));
  EXPECT_EQ(of_ours(), std::vector<pid_t>{first});
}

TEST_F(ProcessTest, AShapeWithoutLimitIsThatOfTheSources) {
  const auto dataset = Dataset::open(make_virtual({6, 5}, /*grows=*/true), "/x");
  EXPECT_EQ(dataset->info().shape, (Dims{6, 5}));
  EXPECT_EQ(read_region(*dataset, Region::whole({6, 5})), counting({6, 5}));
}

TEST_F(ProcessTest, ItsEndIsAnErrorThatNamesFileAndObject) {
  const Dims shape{50, 20};
  const std::string file = make_virtual(shape);
  const auto dataset = Dataset::open(file, "/x");
  const auto message = [&] { return message_of<local::IoError>([&] { read_region(*dataset, Region::whole(shape)); }); };
  struct Case {
    const char *fault, *says;
  };
  const Variable memory("QUARRY_HDF5_MEMORY", "64MiB");
  for (const auto& [fault, says] : {Case{"crash,1", "crashed"}, Case{"loop,1", "did not end within 0.5 s"},
                                    Case{"grow,1", "needs more memory than QUARRY_HDF5_MEMORY=64MiB"}}) {
    const auto begin = std::chrono::steady_clock::now();
    {
      // On a busy machine a start may take longer than that.
      const Variable seconds("QUARRY_HDF5_SECONDS", std::string_view(fault) == "loop,1" ? "0.5" : "15");
      const Variable variable("QUARRY_FAULT_LIBRARY", fault);
      const std::string text = message();
      EXPECT_NE(text.find(says), std::string::npos) << text;
      EXPECT_NE(text.find("'/x' in '" + file + "'"), std::string::npos) << text;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    // The next call finds another one, and the data set goes on.
    EXPECT_EQ(read_region(*dataset, Region::whole(shape)), counting(shape));
  }
}

// A part of a large read has an answer already, and another one is under way.
TEST_F(ProcessTest, ItsEndInTheMiddleOfARead) {
  const Dims shape{3000, 4100};
  const auto dataset = Dataset::open(make_virtual(shape), "/x");
  {
    const Variable variable("QUARRY_FAULT_LIBRARY", "crash,2");
    EXPECT_THROW(read_region(*dataset, Region::whole(shape)), local::IoError);
  }
  EXPECT_EQ(read_region(*dataset, Region::whole(shape)), counting(shape));
}

TEST_F(ProcessTest, ManyThreadsShareIt) {
  const Dims shape{400, 300};
  const Bytes expected = counting(shape);
  const auto dataset = Dataset::open(make_virtual(shape), "/x");
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 20; ++i) {
        const Region region = random_region(shape, random);
        right += read_region(*dataset, region) == pick(expected, shape, 4, region);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 80);
  EXPECT_EQ(library_processes().size(), 1u);
}

TEST_F(ProcessTest, WithoutTheProgramTheErrorSaysWhereItShouldBe) {
  const std::string file = make_virtual({5, 4});
  const Variable variable("QUARRY_HDF5_PROGRAM", "/nowhere/quarry-hdf5");
  const std::string text = message_of<local::NotSupported>([&] {
    read_region(*Dataset::open(file, "/x"), Region::whole({5, 4}));
  });
  EXPECT_NE(text.find("QUARRY_HDF5_PROGRAM=/nowhere/quarry-hdf5"), std::string::npos) << text;
  EXPECT_NE(text.find("'/x'"), std::string::npos) << text;
}

// What is added to a file that others wrote is written in the process too.
TEST_F(ProcessTest, AFileThatItCrashesOnStaysAsItWas) {
  const std::string file = make_virtual({5, 4});
  const std::string before = text_of(file);
  const auto add = [&] { OutputFile::create(file, {spec_of("/z", {3})}, false)->commit(); };
  {
    const Variable variable("QUARRY_FAULT_LIBRARY", "crash,1");
    const std::string text = message_of<local::IoError>(add);
    EXPECT_NE(text.find("'" + file + "'"), std::string::npos) << text;
  }
  EXPECT_EQ(text_of(file), before);
  EXPECT_FALSE(fs::exists(file + ".partial"));
  add();
  EXPECT_EQ(Dataset::open(file, "/z")->info().shape, (Dims{3}));
  EXPECT_EQ(read_region(*Dataset::open(file, "/x"), Region::whole({5, 4})), counting({5, 4}));
}

// The library stores chunks in files whose free space is managed; one chunk is more than the shared memory.
TEST_F(ProcessTest, StoresChunksOfAnySize) {
  const std::string file = dir_ / "paged.h5";
  const hid_t create = h5(H5Pcreate(H5P_FILE_CREATE));
  h5(H5Pset_file_space_strategy(create, H5F_FSPACE_STRATEGY_PAGE, /*persist=*/true, 1));
  h5(H5Fclose(h5(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, create, H5P_DEFAULT))));
  const Dims shape{2, 5000000};
  const Bytes data = random_bytes(40000000, 3);
  const auto output = OutputFile::create(
      file, {spec_of("/x", shape, Dims{1, 5000000}, {{Filter::Kind::deflate, 1, "deflate"}})}, false);
  const auto writer = output->writer(0);
  EXPECT_FALSE(writer->places_chunks());
  for (int64_t row : {0, 1})
    output->write_encoded(0, {row, 0}, writer->encode({row, 0}, data.data() + row * 20000000, {1, 5000000}));
  output->commit();
  EXPECT_EQ(library_read(file, "/x"), data);
}

}  // namespace
}  // namespace quarry::io
