// Compressed chunks that the device decodes are those that the host decodes; damage is found there too.
#include "quarry/chunked/exec/bodies/device_decoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/io/encoded_chunks.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/local.h"
#include "tests/support/hdf5_file.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using exec::Decompress;
using exec::DeviceDecoding;
using local::DeviceKind;
using local::DType;
using local::NdArray;
using local::Region;
using test::H5File;
using test::H5Options;
using ::testing::HasSubstr;

// Values that deflate makes fewer bytes of, with runs of equal ones.
template <class T>
std::vector<T> values_of(int64_t count) {
  std::mt19937 generator(1);
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(i / 70 % 3 == 0 ? 7 : static_cast<int>(generator() % 2000) / 8.);
  return values;
}

struct Stored {
  std::string name;
  DType dtype;
  Dims shape, chunk;
  H5Options options;
  bool big = false;
};

std::vector<Stored> stored() {
  const auto with = [](const Dims& chunk, int level, bool shuffle, bool checked = false) {
    H5Options options{.chunk = chunk, .deflate = level, .shuffle = shuffle, .fletcher32 = checked};
    return options;
  };
  std::vector<Stored> all;
  const auto add = [&](std::string name, DType dtype, const Dims& shape, const Dims& chunk, int level, bool shuffle,
                       bool checked = false, bool big = false) {
    all.push_back({"/" + std::move(name), dtype, shape, chunk, with(chunk, level, shuffle, checked), big});
  };
  add("plain", DType::float64, {400, 300}, {64, 48}, 4, false);
  add("shuffled", DType::float64, {400, 300}, {64, 48}, 6, true);
  add("checked", DType::int32, {400, 300}, {100, 100}, 1, true, true);
  add("foreign", DType::int16, {401, 303}, {50, 60}, 9, true, false, true);
  add("bytes", DType::uint8, {500, 500}, {64, 64}, 5, true);
  add("stored", DType::float32, {200, 200}, {40, 40}, 0, false);
  add("line", DType::float32, {100003}, {1000}, 4, true);
  add("deep", DType::int64, {7, 6, 5, 9, 8}, {2, 3, 5, 4, 8}, 4, true);
  add("one", DType::float64, {3, 5}, {8, 8}, 4, true);
  all.back().options.unlimited = true;
  all.push_back({"/edges", DType::float64, {130, 70}, {32, 32}, with({32, 32}, 4, true), false});
  all.back().options.unfiltered_edges = true;
  return all;
}

// The calls of the device's decoder while `run` runs.
int64_t decodes(const std::function<void()>& run) {
  local::start_tracing();
  run();
  const std::vector<local::TraceEvent> events = local::stop_tracing();
  return std::ranges::count(events, std::string("on the device"), &local::TraceEvent::detail);
}

class DeviceDecodes : public ::testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
    H5File file(file_, /*latest=*/true);
    for (const Stored& one : stored()) {
      const std::vector<double> values = values_of<double>(local::element_count(one.shape));
      file.write(one.name, one.shape, test::h5_type(one.dtype, one.big), H5T_NATIVE_DOUBLE, values.data(), one.options);
    }
    // Chunks that nobody wrote.
    const double fill = 2.5;
    const hid_t empty =
        file.create("/gaps", {100, 100}, H5T_IEEE_F64LE,
                    {.chunk = Dims{10, 10}, .deflate = 4, .shuffle = true, .fill = &fill}, H5T_NATIVE_DOUBLE);
    const hsize_t start[] = {20, 30}, count[] = {50, 40};
    const hid_t space = test::h5(H5Dget_space(empty)), memory = test::h5(H5Screate_simple(2, count, nullptr));
    test::h5(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr));
    test::h5(H5Dwrite(empty, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values_of<double>(2000).data()));
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(empty);
  }
  void start(const std::string& decompress, const char* memory = "64MiB") {
    runtime_.reset();
    RuntimeOptions options = testing::runtime_on(GetParam(), memory);
    options.decompress = decompress;
    runtime_.emplace(options);
  }
  NdArray read(const std::string& object, const std::function<Array(const Array&)>& use = {}) {
    const Array x = open_hdf5(file_, object);
    return (use ? use(x) : x + 0.).to_host();
  }
  const test::TempDir folder_;
  const std::string file_ = folder_ / "f.h5";
  std::optional<Runtime> runtime_;
};

TEST_P(DeviceDecodes, AsTheHostDoes) {
  std::vector<std::string> names{"/gaps"};
  for (const Stored& one : stored()) names.push_back(one.name);
  const auto half = [](const Array& x) { return x[{Slice{x.shape()[0] / 3, {}, {}}}] + 0.; };
  std::map<std::string, std::pair<NdArray, NdArray>> expected;
  start("host");
  EXPECT_EQ(decodes([&] {
              for (const std::string& name : names) expected[name] = {read(name), read(name, half)};
            }),
            0);
  start("device");
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    NdArray whole, part;
    EXPECT_GT(decodes([&] { whole = read(name); }), 0);
    EXPECT_TRUE(local::array_equal(whole, expected[name].first));
    part = read(name, half);
    EXPECT_TRUE(local::array_equal(part, expected[name].second));
  }
}

// Several batches of a region: less memory than its chunks take.
TEST_P(DeviceDecodes, InBatches) {
  start("host");
  const NdArray expected = read("/bytes");
  start("device", "4MiB");
  NdArray found;
  EXPECT_GT(decodes([&] { found = read("/bytes"); }), 1);
  EXPECT_TRUE(local::array_equal(found, expected));
}

// What quarry itself writes, of every format of streams.
TEST_P(DeviceDecodes, EveryFormatOfStreams) {
  using io::Filter;
  const Filter shuffle{Filter::Kind::shuffle, 0, "shuffle"}, deflate{Filter::Kind::deflate, 5, "deflate"};
  const auto zstd = [](int level) { return Filter{Filter::Kind::zstd, level, "zstd"}; };
  const Filter check{Filter::Kind::fletcher32, 0, "fletcher32"}, lz4{Filter::Kind::lz4, 0, "lz4"};
  struct Case {
    std::string file;
    std::vector<Filter> filters;
    int version = 0;
    bool by_device = true;
  };
  const Case cases[] = {
      {"a.h5", {zstd(1)}},       {"b.h5", {shuffle, zstd(3)}},   {"c.h5", {shuffle, zstd(19), check}},
      {"a.zarr", {zstd(3)}},     {"b.zarr", {shuffle, zstd(9)}}, {"c.zarr", {shuffle, deflate}},
      {"d.zarr", {deflate}},     {"e.zarr", {zstd(3)}, 3},       {"f.zarr", {deflate}, 3, false},  // gzip
      {"d.h5", {lz4}, 0, false}, {"g.zarr", {lz4}, 2, false},    {"h.zarr", {}, 2, false},
  };
  struct Values {
    DType dtype;
    Dims shape, chunk;
  };
  const Values values[] = {{DType::float32, {300, 257}, {64, 50}},   {DType::float64, {70001}, {7000}},
                           {DType::uint8, {17, 18, 19}, {5, 18, 7}}, {DType::complex64, {90, 40}, {32, 32}},
                           {DType::complex128, {90, 40}, {32, 32}},  {DType::bool_, {500}, {100}}};
  const auto name_of = [&](const Case& one, const Values& of) {
    return folder_ / (std::string(local::name(of.dtype)) + one.file);
  };
  const auto read_it = [](const std::string& file) { return (open_hdf5(file, "/x") * 1).to_host(); };
  std::map<std::string, NdArray> expected;
  start("host");
  for (const Case& one : cases)
    for (const Values& of : values) {
      const NdArray plain = local::from_vector(values_of<double>(local::element_count(of.shape)), of.shape);
      const std::string file = name_of(one, of);
      store(file, {{"/x", Array::from_local(plain).astype(of.dtype)}},
            {.chunks = of.chunk, .filters = one.filters, .version = one.version});
      expected[file] = read_it(file);
    }
  start("device");
  for (const Case& one : cases)
    for (const Values& of : values) {
      const std::string file = name_of(one, of);
      SCOPED_TRACE(file);
      NdArray found;
      const int64_t times = decodes([&] { found = read_it(file); });
      EXPECT_EQ(times > 0, one.by_device && of.dtype != DType::bool_);  // booleans are looked at
      EXPECT_TRUE(local::array_equal(found, expected[file]));
    }
}

// Arrays of Zarr: chunks that nobody wrote, a chunk that is damaged, one of another length.
TEST_P(DeviceDecodes, FoldersOfChunks) {
  start("host");
  const NdArray values = local::from_vector(values_of<double>(200 * 100), Dims{200, 100});
  const std::string file = folder_ / "x.zarr";
  store(file, {{"/x", Array::from_local(values)}},
        {.chunks = Dims{50, 50}, .filters = {{io::Filter::Kind::zstd, 3, "zstd"}}});
  std::filesystem::remove(std::filesystem::path(file) / "x" / "1.1");
  const NdArray expected = (open_hdf5(file, "/x") + 0.).to_host();
  start("device");
  NdArray found;
  EXPECT_GT(decodes([&] { found = (open_hdf5(file, "/x") + 0.).to_host(); }), 0);
  EXPECT_TRUE(local::array_equal(found, expected));

  const std::string chunk = std::filesystem::path(file) / "x" / "2.0";
  const auto refused = [&](const std::string& bytes, const char* reason) {
    std::ofstream(chunk, std::ios::binary) << bytes;
    EXPECT_THAT([&] { (open_hdf5(file, "/x") + 0.).to_host(); },
                ::testing::ThrowsMessage<local::IoError>(AllOf(HasSubstr("2.0'"), HasSubstr(reason))));
  };
  refused("no frame at all", "its zstd stream is damaged");
  refused("", "it decodes to fewer bytes than a chunk has");
  refused(std::string(1 << 20, 'x'), "it has 1048576 bytes, of a chunk of 20000");
  // An empty raw block of a frame that asks for dictionary 7.
  refused(std::string("\x28\xb5\x2f\xfd\x21\x07\x00\x01\x00\x00", 10),
          GetParam() == DeviceKind::cuda ? "its zstd stream needs a dictionary" : "zstd stream");
}

TEST_P(DeviceDecodes, OnlyWhatPays) {
  const local::Device device{GetParam(), 0};
  const auto of = [&](const std::string& object, const Region& region, Decompress by, int64_t budget = 1 << 30) {
    return DeviceDecoding::of(*io::Dataset::open(file_, object), region, device, {by, budget}).has_value();
  };
  const auto whole = [](const Dims& shape) { return Region::whole(shape); };
  EXPECT_TRUE(of("/shuffled", whole({400, 300}), Decompress::automatic));  // 49 chunks
  EXPECT_FALSE(of("/shuffled", whole({400, 300}), Decompress::host));
  EXPECT_FALSE(of("/checked", whole({400, 300}), Decompress::automatic));  // 12 chunks
  EXPECT_TRUE(of("/checked", whole({400, 300}), Decompress::device));
  EXPECT_FALSE(of("/shuffled", whole({400, 300}), Decompress::device, 1 << 20));  // no room for a chunk
  // A row of each chunk; every second row.
  EXPECT_FALSE(of("/shuffled", Region::box({0, 0}, {1, 300}), Decompress::device));
  Region steps = whole({400, 300});
  steps.step[0] = 2;
  steps.count[0] = 200;
  EXPECT_FALSE(of("/shuffled", steps, Decompress::device));
  EXPECT_FALSE(of("/shuffled", Region::box({0, 0}, {0, 300}), Decompress::device));
}

TEST_P(DeviceDecodes, DamagedChunksAreNamed) {
  const Dims shape{400, 300};
  const auto stored = io::Dataset::open(file_, "/plain");
  std::vector<std::byte> room(static_cast<size_t>(stored->encoded_chunks()->room_bytes()));
  const io::EncodedChunks::Stored chunk = stored->encoded_chunks()->read(/*number=*/8, room);
  ASSERT_TRUE(chunk.is_stream);
  std::string bytes;
  {
    std::ifstream in(file_, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const size_t at = bytes.find(std::string(reinterpret_cast<const char*>(chunk.bytes.data()), chunk.bytes.size()));
  ASSERT_NE(at, std::string::npos);
  // The checksum at the end; the head; codes in the middle.
  for (const size_t where : {chunk.bytes.size() - 1, size_t{0}, chunk.bytes.size() / 2}) {
    std::string damaged = bytes;
    damaged[at + where] = static_cast<char>(damaged[at + where] ^ 0x15);
    const std::string name = folder_ / ("damaged" + std::to_string(where) + ".h5");
    std::ofstream(name, std::ios::binary) << damaged;
    start("device");
    const Array x = open_hdf5(name, "/plain");
    EXPECT_THAT([&] { (x + 0.).to_host(); },
                ::testing::ThrowsMessage<local::IoError>(HasSubstr("damaged chunk at (64, 48)")));
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceDecodes, ::testing::Values(DeviceKind::emulated, DeviceKind::cuda),
                         [](const auto& info) { return std::string(local::name(info.param)); });

}  // namespace
}  // namespace quarry
