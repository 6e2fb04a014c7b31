// Zarr folders: what is written is read back, replaces whole folders or nothing, and keeps what is beside it.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "quarry/io/format.h"
#include "quarry/io/output.h"
#include "quarry/io/partial.h"
#include "quarry/io/zarr/metadata.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ZarrTest : public ::testing::Test {
 protected:
  std::string content(const std::string& name) {
    std::ifstream file(dir_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  nlohmann::json json(const std::string& name) { return nlohmann::json::parse(content(name)); }
  std::set<std::string> files(const std::string& folder) {
    std::set<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / folder))
      if (entry.is_regular_file()) out.insert(fs::relative(entry.path(), dir_ / folder).string());
    return out;
  }
  const test::TempDir dir_;
};

OutputSpec spec_of(const std::string& object, const Dims& shape, DType dtype, int version = 0) {
  OutputSpec spec{object, shape, dtype, {}, {}, {}};
  spec.version = version;
  return spec;
}

// Every second part by a writer that came from another rank; backwards, because no order is prescribed.
void write_all(OutputFile& output, size_t index, const Bytes& elements) {
  const auto here = output.writer(index), there = Writer::deserialize(here->serialize());
  const OutputSpec& spec = here->spec();
  const int64_t item = local::itemsize(spec.dtype);
  if (here->encode_scratch_bytes() == 0) {
    // Slabs that cut chunks.
    const int64_t rows = spec.shape.empty() ? 1 : spec.shape[0], step = 3;
    for (int64_t row = (std::max<int64_t>(rows, 1) - 1) / step * step; row >= 0; row -= step) {
      Region box = Region::whole(spec.shape);
      if (!spec.shape.empty()) {
        box.start[0] = row;
        box.count[0] = std::min(step, rows - row);
      }
      (row % 2 == 0 ? here : there)->write(box, pick(elements, spec.shape, item, box).data());
    }
    return;
  }
  EXPECT_TRUE(here->places_chunks());
  const Dims& block = *spec.chunks;
  Dims grid = block;
  for (int d = 0; d < grid.size(); ++d) grid[d] = (spec.shape[d] + block[d] - 1) / block[d];
  for (int64_t number = local::element_count(grid) - 1; number >= 0; --number) {
    Region box = Region::whole(spec.shape);
    Dims at = grid;
    int64_t rest = number;
    for (int d = grid.size() - 1; d >= 0; --d) {
      at[d] = rest % grid[d];
      rest /= grid[d];
      box.start[d] = at[d] * block[d];
      box.count[d] = std::min(block[d], spec.shape[d] - box.start[d]);
    }
    const Bytes part = pick(elements, spec.shape, item, box);
    Writer& writer = number % 2 == 0 ? *here : *there;
    EXPECT_EQ(writer.place(at, 0, writer.encode(at, part.data(), box.count)).number, number);
  }
}

void store(const std::string& file, std::vector<OutputSpec> specs, const std::vector<Bytes>& data,
           bool overwrite = false) {
  const auto output = OutputFile::create(file, std::move(specs), overwrite);
  for (size_t i = 0; i < data.size(); ++i) write_all(*output, i, data[i]);
  output->commit();
}

Bytes elements_of(const Dims& shape, DType dtype, unsigned seed) {
  Bytes out = random_bytes(static_cast<size_t>(local::element_count(shape) * local::itemsize(dtype)), seed);
  if (dtype == DType::bool_)
    for (std::byte& byte : out) byte &= std::byte{1};
  return out;
}

const std::vector<std::vector<Filter>>& filters_of(int version) {
  using Kind = Filter::Kind;
  static const std::vector<std::vector<Filter>> kTwo{
      {},
      {{Kind::deflate, 1, "deflate"}},
      {{Kind::shuffle, 0, "shuffle"}, {Kind::deflate, 9, "deflate"}},
      {{Kind::shuffle, 0, "shuffle"}},
      {{Kind::zstd, 3, "zstd"}},
      {{Kind::lz4, 0, "lz4"}},
      {{Kind::blosc, 5, "blosc"}},
      {{Kind::shuffle, 0, "shuffle"}, {Kind::lz4, 0, "lz4"}},
  };
  static const std::vector<std::vector<Filter>> kThree{
      {}, {{Kind::deflate, 1, "deflate"}}, {{Kind::zstd, 3, "zstd"}}, {{Kind::blosc, 5, "blosc"}}};
  return version == 2 ? kTwo : kThree;
}

TEST_F(ZarrTest, EveryDtypeCodecAndChunkShapeIsReadBack) {
  constexpr DType kDtypes[] = {DType::bool_,    DType::int8,    DType::int16,   DType::int32,     DType::int64,
                               DType::uint8,    DType::uint16,  DType::uint32,  DType::uint64,    DType::float16,
                               DType::bfloat16, DType::float32, DType::float64, DType::complex64, DType::complex128};
  struct Layout {
    Dims shape;
    std::optional<Dims> chunks;
  };
  const std::vector<Layout> layouts{{{11, 7}, Dims{4, 3}}, {{11, 7}, Dims{11, 7}},     {{11, 7}, Dims{20, 1}},
                                    {{13}, std::nullopt},  {{3, 4, 5}, Dims{2, 2, 2}}, {{0, 5}, Dims{1, 2}},
                                    {{}, std::nullopt},    {{6, 0}, std::nullopt}};
  std::mt19937 random(3);
  unsigned seed = 0;
  for (const int version : {2, 3}) {
    for (const DType dtype : kDtypes) {
      std::vector<OutputSpec> specs;
      std::vector<Bytes> data;
      // All layouts with all filters of one dtype; of others a few.
      const bool all = dtype == DType::float32;
      for (const std::vector<Filter>& filters : filters_of(version)) {
        for (const Layout& layout : layouts) {
          const bool is_first = &layout == &layouts.front() || &filters == &filters_of(version).front();
          if (!all && !is_first) continue;
          specs.push_back(spec_of("/x" + std::to_string(specs.size()), layout.shape, dtype, version));
          specs.back().chunks = layout.chunks;
          specs.back().filters = filters;
          data.push_back(elements_of(layout.shape, dtype, ++seed));
        }
      }
      const std::string file = dir_ / (std::string(local::name(dtype)) + std::to_string(version) + ".zarr");
      const std::vector<OutputSpec> wanted = specs;
      store(file, std::move(specs), data);
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto dataset = Dataset::open(file, wanted[i].object);
        const Dims& shape = wanted[i].shape;
        ASSERT_EQ(dataset->info().dtype, dtype);
        ASSERT_EQ(dataset->info().shape, shape);
        ASSERT_EQ(read_region(*dataset, Region::whole(shape)), data[i]) << file << wanted[i].object;
        if (shape.empty()) continue;
        if (wanted[i].filters.size() == 1) {
          ASSERT_EQ(dataset->info().filters.size(), 1u);
          EXPECT_EQ(dataset->info().filters[0].kind, wanted[i].filters[0].kind);
          EXPECT_EQ(dataset->info().filters[0].level, wanted[i].filters[0].level);
        }
        const Region region = random_region(shape, random);
        ASSERT_EQ(read_region(*Dataset::deserialize(dataset->serialize()), region),
                  pick(data[i], shape, local::itemsize(dtype), region));
      }
    }
  }
}

TEST_F(ZarrTest, FilesAreThoseOfTheSpecification) {
  OutputSpec spec = spec_of("/g/x", {5, 7}, DType::float32, 2);
  spec.chunks = Dims{3, 4};
  spec.filters = {{Filter::Kind::shuffle, 0, "shuffle"}, {Filter::Kind::deflate, 6, "deflate"}};
  spec.attributes = {{"units", "K"},
                     {"scale", 0.5},
                     {"count", int64_t{3}},
                     {"range", std::vector<double>{0, 1}},
                     {"nan", std::nan("")}};
  const Bytes data = random_bytes(5 * 7 * 4, 1);
  store(dir_ / "a.zarr", {spec}, {data});
  EXPECT_EQ(files("a.zarr"), (std::set<std::string>{".zgroup", "g/.zgroup", "g/x/.zarray", "g/x/.zattrs", "g/x/0.0",
                                                    "g/x/0.1", "g/x/1.0", "g/x/1.1"}));
  EXPECT_EQ(json("a.zarr/g/x/.zarray"), nlohmann::json::parse(R"({"zarr_format": 2, "shape": [5, 7], "chunks": [3, 4],
      "dtype": "<f4", "compressor": {"id": "zlib", "level": 6}, "fill_value": null, "order": "C",
      "filters": [{"id": "shuffle", "elementsize": 4}], "dimension_separator": "."})"));
  EXPECT_THAT(content("a.zarr/g/x/.zattrs"), HasSubstr("\"nan\": NaN"));
  auto attributes = Dataset::open(dir_ / "a.zarr", "/g/x")->info().attributes;
  EXPECT_TRUE(std::isnan(std::get<double>(attributes.at("nan"))));
  attributes.erase("nan");
  spec.attributes.erase("nan");
  EXPECT_EQ(attributes, spec.attributes);

  spec.version = 3;
  spec.filters = {{Filter::Kind::shuffle, 0, "shuffle"}, {Filter::Kind::blosc, 5, "blosc"}};
  spec.fill_value = local::Scalar(1.5);
  store(dir_ / "b.zarr", {spec}, {data});
  EXPECT_EQ(files("b.zarr"), (std::set<std::string>{"zarr.json", "g/zarr.json", "g/x/zarr.json", "g/x/c/0/0",
                                                    "g/x/c/0/1", "g/x/c/1/0", "g/x/c/1/1"}));
  const nlohmann::json root = json("b.zarr/g/x/zarr.json");
  EXPECT_EQ(root["fill_value"], 1.5);
  EXPECT_EQ(root["codecs"], nlohmann::json::parse(R"([{"name": "bytes", "configuration": {"endian": "little"}},
      {"name": "blosc", "configuration": {"typesize": 4, "cname": "lz4", "clevel": 5, "shuffle": "shuffle",
      "blocksize": 0}}])"));
  EXPECT_EQ(root["attributes"]["_FillValue"], "AAAAAAAA+D8=");  // xarray's text of 1.5
  EXPECT_EQ(std::get<double>(Dataset::open(dir_ / "b.zarr", "/g/x")->info().attributes.at("_FillValue")), 1.5);
}

TEST_F(ZarrTest, AFolderAppearsAsAWholeAndKeepsWhatIsBesideIt) {
  const std::string file = dir_ / "o.zarr";
  const Dims shape{10, 4};
  const Bytes one = random_bytes(10 * 4 * 4, 1), two = random_bytes(10 * 4 * 8, 2);
  auto output = OutputFile::create(file, {spec_of("/a", shape, DType::int32)}, false);
  write_all(*output, 0, one);
  EXPECT_FALSE(fs::exists(file));
  // Without its metadata it is no Zarr folder to anybody.
  for (const std::string& name : files("o.zarr.partial")) EXPECT_THAT(name, testing::Not(HasSubstr(".z"))) << name;
  EXPECT_THAT(message_of<local::Error>([&] { Dataset::open(file + ".partial", "/a"); }), HasSubstr("o.zarr.partial"));
  EXPECT_THAT(
      message_of<local::IoError>([&] { OutputFile::create(file, {spec_of("/b", shape, DType::int32)}, false); }),
      HasSubstr("another process"));
  output.reset();  // given up
  EXPECT_FALSE(fs::exists(file + ".partial"));

  store(file, {spec_of("/a", shape, DType::int32)}, {one});
  std::ofstream(file + "/.zmetadata") << "{}";
  EXPECT_THAT(
      message_of<local::InvalidArgument>([&] { OutputFile::create(file, {spec_of("/a", shape, DType::int8)}, false); }),
      HasSubstr("'/a' exists"));
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat((file + "/a/0.0").c_str(), &before), 0);
  store(file, {spec_of("/g/b", shape, DType::float64)}, {two});
  ASSERT_EQ(::stat((file + "/a/0.0").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "it is not copied";
  EXPECT_EQ(read_region(*Dataset::open(file, "/a"), Region::whole(shape)), one);
  EXPECT_EQ(read_region(*Dataset::open(file, "/g/b"), Region::whole(shape)), two);
  EXPECT_FALSE(fs::exists(file + "/.zmetadata")) << "it would lack /g/b";
  EXPECT_EQ(list_objects(file).size(), 4u);

  // What is replaced goes as a whole, its other chunks too.
  OutputSpec again = spec_of("/a", {3}, DType::float64);
  store(file, {again}, {Bytes(two.begin(), two.begin() + 24)}, /*overwrite=*/true);
  EXPECT_EQ(Dataset::open(file, "/a")->info().shape, Dims{3});
  EXPECT_FALSE(fs::exists(file + "/a/0.0"));
  EXPECT_EQ(read_region(*Dataset::open(file, "/g/b"), Region::whole(shape)), two);
  for (const std::string& name : files("."))
    EXPECT_THAT(name, testing::Not(testing::AnyOf(HasSubstr("partial"), HasSubstr("lock")))) << name;
}

TEST_F(ZarrTest, WhatCannotBeIsRefusedByName) {
  const std::string file = dir_ / "o.zarr";
  const auto refused = [&](const std::string& name, std::vector<OutputSpec> specs, const std::string& why) {
    EXPECT_THAT(message_of<local::Error>([&] { format_to_write(dir_ / "n.zarr").create(dir_ / name, specs, true); }),
                HasSubstr(why));
    EXPECT_FALSE(fs::exists(dir_ / (name + ".partial")));
  };
  OutputSpec x = spec_of("/x", {4}, DType::int32);
  store(file, {x, spec_of("/g/y", {4}, DType::int32)}, {random_bytes(16, 1), random_bytes(16, 2)});
  const auto filtered = [&](Filter::Kind kind, const std::string& name, int version) {
    OutputSpec spec = x;
    spec.filters = {{kind, 0, name}};
    spec.version = version;
    return spec;
  };
  refused("p.zarr", {filtered(Filter::Kind::fletcher32, "fletcher32", 2)}, "and not fletcher32");
  refused("p.zarr", {filtered(Filter::Kind::lz4, "lz4", 3)}, "and not lz4");
  refused("p.zarr", {filtered(Filter::Kind::shuffle, "shuffle", 3)}, "and not shuffle");
  refused("p.zarr", {spec_of("/x", {4}, DType::int32, 4)}, "versions 2 and 3, not 4");
  refused("p.zarr", {spec_of("/x/../y", {4}, DType::int32)}, "'..' is no name");
  refused("p.zarr", {spec_of("/.zgroup", {4}, DType::int32)}, "'.zgroup' is no name");
  refused("p.zarr", {spec_of("/x", {-1}, DType::int32)}, "negative");
  refused("p.zarr", {x, x}, "to be written twice");
  refused("p.zarr", {x, spec_of("/x/y", {4}, DType::int32)}, "the group of");
  refused("p.zarr", {spec_of("/", {4}, DType::int32), x}, "the group of");
  OutputSpec large = spec_of("/x", {int64_t{1} << 31}, DType::int8);
  large.chunks = large.shape;
  refused("p.zarr", {large}, "2 GiB");
  refused("o.zarr", {spec_of("/g", {4}, DType::int32)}, "is a group");
  refused("o.zarr", {spec_of("/", {4}, DType::int32)}, "is a group");
  refused("o.zarr", {spec_of("/x/z", {4}, DType::int32)}, "'/x' is no group");
  refused("o.zarr", {spec_of("/z", {4}, DType::int32, 3)}, "version 2");
  fs::create_directory(dir_ / "d");
  refused("d", {x}, "no Zarr group");
  std::ofstream(dir_ / "f") << "text";
  refused("f", {x}, "it is a file");
  refused("none/o.zarr", {x}, "No such file");
  refused("p.zarr", {spec_of("/x", {int64_t{1} << 58}, DType::float64)}, "no space left");
  OutputSpec text = spec_of("/t", {}, DType::uint8, 3);
  text.text = OutputText{"words"};
  refused("p.zarr", {text}, "no text");
  EXPECT_EQ(list_objects(file).size(), 4u);
}

// Values are copied and shown recursively.
TEST(ZarrMetadata, DeepBracketsAreRefused) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const auto attributes = [&](size_t depth) {
    return zarr::parse_group_attributes(R"({"text": "[[[\"[[[", "deep": )" + nested(depth) + "}", /*version=*/2, "a");
  };
  EXPECT_EQ(attributes(200).size(), 1u);  // lists of lists are left out
  EXPECT_THAT(message_of<local::IoError>([&] { attributes(1000000); }), HasSubstr("too deep"));
  EXPECT_THROW(zarr::parse_metadata(R"({"shape": [1], "data_type": )" + nested(1000000) + "}", "", 3, "a"),
               local::IoError);
}

TEST_F(ZarrTest, ARootArrayAndText) {
  const Bytes data = random_bytes(12, 1);
  store(dir_ / "r.zarr", {spec_of("/", {3}, DType::int32)}, {data});
  EXPECT_EQ(read_region(*Dataset::open(dir_ / "r.zarr", "/"), Region::whole({3})), data);
  store(dir_ / "r.zarr/", {spec_of("/", {3}, DType::float32, 2)}, {data}, /*overwrite=*/true);
  EXPECT_EQ(Dataset::open(dir_ / "r.zarr", "/")->info().dtype, DType::float32);
  EXPECT_FALSE(fs::exists(dir_ / "r.zarr/.partial"));
  OutputSpec text = spec_of("/t", {}, DType::uint8);
  text.text = OutputText{"a\u00e4"};
  OutputSpec bytes = spec_of("/b", {}, DType::uint8);
  bytes.text = OutputText{"abc", /*is_bytes=*/true};
  store(dir_ / "t.zarr", {text, bytes}, {});
  EXPECT_EQ(json("t.zarr/t/.zarray")["dtype"], "<U2");
  EXPECT_EQ(content("t.zarr/t/0"), std::string("a\0\0\0\xe4\0\0\0", 8));
  EXPECT_EQ(json("t.zarr/b/.zarray")["dtype"], "|S3");
  EXPECT_EQ(content("t.zarr/b/0"), "abc");
}

OutputSpec group_of(const std::string& object, std::map<std::string, Attribute> attributes) {
  OutputSpec spec;
  spec.object = object;
  spec.attributes = std::move(attributes);
  spec.is_group = true;
  return spec;
}

TEST_F(ZarrTest, GroupsOfBothFormatsHaveAttributes) {
  using Attributes = std::map<std::string, Attribute>;
  using Texts = std::vector<std::string>;
  const Attributes first{{"a", int64_t{1}}, {"b", "text"}, {"c", Texts{"x", "yy"}}};
  for (const std::string name : {"o.zarr", "o.h5"}) {
    const std::string file = dir_ / name;
    const auto attributes_of = [&](const std::string& group) {
      for (const ObjectInfo& entry : list_objects(file))
        if (entry.path == group && entry.is_group) return entry.attributes;
      ADD_FAILURE() << "no group " << group;
      return Attributes{};
    };
    const Bytes data = random_bytes(12, 1);
    store(file,
          {spec_of("/g/x", {3}, DType::int32), group_of("/", {{"r", 0.5}}), group_of("/g", first),
           group_of("/empty", {})},
          {data});
    EXPECT_EQ(attributes_of("/"), (Attributes{{"r", 0.5}})) << name;
    EXPECT_EQ(attributes_of("/g"), first) << name;
    EXPECT_EQ(attributes_of("/empty"), Attributes{}) << name;
    const Attributes second{{"a", int64_t{2}}, {"d", int64_t{3}}};
    Attributes both = first;
    both["d"] = int64_t{3};
    store(file, {spec_of("/g/y", {3}, DType::int32), group_of("/g", second)}, {data});
    EXPECT_EQ(attributes_of("/g"), both) << name << ": what is there stays";
    store(file, {spec_of("/g/y", {3}, DType::int32), group_of("/g", second)}, {data}, /*overwrite=*/true);
    both["a"] = int64_t{2};
    EXPECT_EQ(attributes_of("/g"), both) << name;
    EXPECT_EQ(attributes_of("/"), (Attributes{{"r", 0.5}})) << name;
    EXPECT_EQ(read_region(*Dataset::open(file, "/g/x"), Region::whole({3})), data);
    EXPECT_THAT(message_of<local::InvalidArgument>([&] {
                  OutputFile::create(file, {spec_of("/z", {3}, DType::int32), group_of("/g/x", first)}, true);
                }),
                HasSubstr("it is no group"));
  }
}

TEST_F(ZarrTest, ALinkIsFollowedAndTheModeStays) {
  store(dir_ / "real.zarr", {spec_of("/a", {3}, DType::int32)}, {random_bytes(12, 1)});
  fs::permissions(dir_ / "real.zarr", fs::perms::owner_all | fs::perms::group_read);
  fs::create_directory_symlink("real.zarr", dir_ / "link.zarr");
  store(dir_ / "link.zarr", {spec_of("/b", {3}, DType::int32)}, {random_bytes(12, 2)});
  EXPECT_TRUE(fs::is_symlink(dir_ / "link.zarr"));
  EXPECT_EQ(list_objects(dir_ / "real.zarr").size(), 3u);
  EXPECT_EQ(fs::status(dir_ / "real.zarr").permissions(), fs::perms::owner_all | fs::perms::group_read);
}

TEST_F(ZarrTest, AVersion3GroupLosesCopiesOfMetadata) {
  store(dir_ / "o.zarr", {spec_of("/a", {3}, DType::int32, 3)}, {random_bytes(12, 1)});
  std::ofstream(dir_ / "o.zarr/zarr.json") << R"({"zarr_format": 3, "node_type": "group", "attributes": {"k": 1},
      "consolidated_metadata": {"metadata": {"a": {"chunk_grid": {}}}}})";
  store(dir_ / "o.zarr", {spec_of("/b", {3}, DType::int32)}, {random_bytes(12, 2)});  // the version that is there
  const std::vector<ObjectInfo> objects = list_objects(dir_ / "o.zarr");
  EXPECT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects[0].attributes, (std::map<std::string, Attribute>{{"k", int64_t{1}}}));
  EXPECT_TRUE(fs::exists(dir_ / "o.zarr/b/zarr.json"));
  EXPECT_FALSE(json("o.zarr/zarr.json").contains("consolidated_metadata"));
}

}  // namespace
}  // namespace quarry::io
