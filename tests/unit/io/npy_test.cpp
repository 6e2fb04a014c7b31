// NumPy's files: arrays of any order, dtype and header version, records, archives, and headers that lie.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "quarry/io/format.h"
#include "quarry/io/npy/zip.h"
#include "quarry/io/output.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using ::testing::HasSubstr;

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// A file with the header of the given version and then the data.
std::string npy(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string text = dictionary + "\n", out = "\x93NUMPY";
  out += {static_cast<char>(version), '\0'};
  const auto size = static_cast<uint32_t>(text.size());
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out.push_back(static_cast<char>(size >> (8 * i)));
  return out + text + data;
}

class NpyTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(dir_ / name, std::ios::binary) << content;
    return dir_ / name;
  }
  const test::TempDir dir_;
};

// The C-ordered elements of an array that lies in the order of `fortran`.
std::string stored(const Bytes& elements, const Dims& shape, int64_t item, bool fortran) {
  if (!fortran) return text_of(elements);
  std::string out;
  Dims index = Dims::filled(shape.size(), 0);
  const Dims strides = local::contiguous_strides(shape, item);
  for (size_t n = 0; n < elements.size() / static_cast<size_t>(item); ++n) {
    int64_t at = 0;
    for (int d = 0; d < shape.size(); ++d) at += index[d] * strides[d];
    out.append(reinterpret_cast<const char*>(elements.data()) + at, static_cast<size_t>(item));
    for (int d = 0; d < shape.size() && ++index[d] == shape[d]; ++d) index[d] = 0;
  }
  return out;
}

TEST_F(NpyTest, RegionsOfArraysOfEveryOrder) {
  std::mt19937 random(7);
  struct Case {
    Dims shape;
    std::string text, code;
    int64_t item;
  };
  for (const Case& c : {Case{{}, "()", "<f8", 8}, Case{{7}, "(7,)", ">i4", 4}, Case{{0, 3}, "(0, 3)", "<f4", 4},
                        Case{{37, 211}, "(37, 211)", "|b1", 1}, Case{{5, 1, 301, 23}, "(5, 1, 301, 23)", ">c16", 16},
                        Case{{700, 300}, "(700, 300)", "<u2", 2}, Case{{3, 1}, "(3, 1)", "=i8", 8}}) {
    for (const bool fortran : {false, true}) {
      Bytes elements = random_bytes(static_cast<size_t>(local::element_count(c.shape) * c.item), 3);
      if (c.code == "|b1")
        for (std::byte& byte : elements) byte &= std::byte{1};
      const std::string file =
          write("a.npy", npy("{'descr': '" + c.code + "', 'fortran_order': " + (fortran ? "True" : "False") +
                                 ", 'shape': " + c.text + ", }",
                             stored(elements, c.shape, c.item, fortran), fortran ? 3 : 2));
      const auto dataset = Dataset::open(file, "/");
      EXPECT_EQ(dataset->info().shape, c.shape);
      EXPECT_EQ(dataset->info().swapped, c.code[0] == '>');
      if (dataset->info().swapped) swap_elements(elements, dataset->info().dtype);
      const auto copy = Dataset::deserialize(dataset->serialize());
      for (int i = 0; i < 40; ++i) {
        const Region region = i == 0 ? Region::whole(c.shape) : random_region(c.shape, random);
        const Bytes expected = pick(elements, c.shape, c.item, region);
        EXPECT_EQ(read_region(*copy, region), expected) << file << c.text << i;
        EXPECT_EQ(visit_region(*dataset, region), expected) << file << c.text << i;
      }
    }
  }
}

TEST_F(NpyTest, FieldsOfRecordsAreArrays) {
  // '<f8' at 0, padding, '>i2' of (2,) at 11: 15 bytes a record.
  std::string data;
  for (int i = 0; i < 6; ++i) {
    const double price = 1.5 * i;
    data.append(reinterpret_cast<const char*>(&price), sizeof price);
    data += std::string("xyz") + '\0' + static_cast<char>(i) + '\1' + static_cast<char>(i);
  }
  const std::string file =
      write("r.npy", npy("{'descr': [('price', '<f8'), ('', '|V3'), (('title', 'size'), '>i2', (2,))], "
                         "'fortran_order': False, 'shape': (2, 3)}",
                         data));
  const auto price = Dataset::open(file, "/price"), size = Dataset::open(file, "/size");
  EXPECT_EQ(price->info().shape, (Dims{2, 3}));
  EXPECT_EQ(size->info().shape, (Dims{2, 3, 2}));
  const Bytes prices = read_region(*price, Region{Dims{1, 2}, Dims{2, 3}, Dims{-1, -1}});
  double values[6];
  std::memcpy(values, prices.data(), sizeof values);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(values[i], 1.5 * (5 - i));
  const Bytes sizes = visit_region(*size, Region::whole(size->info().shape));
  int16_t counts[12];
  std::memcpy(counts, sizes.data(), sizeof counts);
  for (int16_t i = 0; i < 6; ++i) {
    EXPECT_EQ(counts[2 * i], i);
    EXPECT_EQ(counts[2 * i + 1], 256 + i);
  }
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { Dataset::open(file, "/"); }), HasSubstr("/price, /size"));
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { Dataset::open(file, "/prize"); }), HasSubstr("'/price'"));
  EXPECT_EQ(list_objects(file).size(), 3u);
}

TEST_F(NpyTest, DatesAreNumbersWithUnits) {
  const std::string day(8, '\0');
  const auto attributes = [&](const std::string& code) {
    return Dataset::open(write("d.npy", npy("{'descr': '" + code + "', 'fortran_order': False, 'shape': ()}", day)),
                         "/")
        ->info()
        .attributes;
  };
  EXPECT_EQ(std::get<std::string>(attributes("<M8[D]").at("units")), "days since 1970-01-01");
  EXPECT_EQ(std::get<std::string>(attributes(">m8[25us]").at("units")), "25 microseconds");
  EXPECT_EQ(std::get<int64_t>(attributes("<M8[ns]").at("_FillValue")), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(attributes("<m8").count("units"), 0u);
}

TEST_F(NpyTest, HeadersThatLieAreErrors) {
  const std::string eight(8, '\0');
  const auto header = [](const std::string& descr, const std::string& shape, const std::string& more = "") {
    return "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + more + "}";
  };
  for (const auto& [content, message] : std::vector<std::pair<std::string, std::string>>{
           {npy(header("'<f8'", "(2,)"), eight), "takes 16 bytes of data and 8 are there, 8 are missing"},
           {npy(header("'<f8'", "(4611686018427387904, 4)"), eight), "more bytes than 64 bits count"},
           {npy(header("'<f8'", "(0, 4611686018427387904, 4)"), eight), "more bytes than 64 bits count"},
           {npy(header("'<f8'", "(-1,)"), eight), "no extent"},
           {npy(header("'<f8'", "(99999999999999999999,)"), eight), "too large"},
           {npy(header("'<f8'", "(1)"), eight), "no tuple"},
           {npy(header("'<f8'", "[1]"), eight), "no tuple"},
           {npy(header("'<f8'", "(1.0,)"), eight), "not whole"},
           {npy(header("'<f8'", "__import__('os').abort()"), eight), "no literal"},
           {npy(header("'<f8'", "(1,), 'shape': (1,)"), eight), "other keys"},
           {npy(header("'<f8'", "(1,)", ", 'x': 1"), eight), "other keys"},
           {npy("{'descr': '<f8', 'shape': (1,)}", eight), "lacks"},
           {npy("{'descr': '<f8', 'fortran_order': 1, 'shape': (1,)}", eight), "neither True nor False"},
           {npy(header("'<q9'", "()"), eight), "is none"},
           {npy(header("'<f'", "()"), eight), "is none"},
           {npy(header("7", "()"), eight), "neither a text nor a list"},
           {npy(header("[('a', '<f8'), ('a', '<f8')]", "()"), eight + eight), "two fields"},
           {npy(header("[('a', '<i8', (4611686018427387904, 4))]", "()"), eight), "too large"},
           {npy(std::string(100, '['), eight), "too deep"},
           {npy("{'descr': '<f8", eight), "without an end"},
           {npy("{'descr': ", eight), "an end that is not expected"},
           {npy(header("'<f8", "()"), eight), "a missing comma"},
           {npy(header("'<f8'", "()") + " 1", eight), "text behind"},
           {std::string("\x93NUMPY\1\0\xff\xff{", 11), "ends inside its header"},
           {std::string("\x93NUMPY\2\0\xff\xff\xff\xff{", 13), "too long"},
           {std::string("\x93NUMPY\1", 7), "does not begin"},
       }) {
    const std::string file = write("bad.npy", content);
    EXPECT_THAT(message_of<local::IoError>([&] { Dataset::open(file, "/"); }), HasSubstr(message)) << content;
    EXPECT_THROW(list_objects(file), local::IoError);
  }
  // A field's path repeats the names around it.
  std::string fields;
  for (int i = 0; i < 60; ++i) fields += fmt::format("('{}', '|b1'), ", i);
  const std::string wide = "[('" + std::string(400000, 'n') + "', [" + fields + "])]";
  EXPECT_THAT(message_of<local::IoError>(
                  [&] { list_objects(write("w.npy", npy(header(wide, "()"), std::string(60, '\0'), 2))); }),
              HasSubstr("names of its fields are too long"));
  const std::string types = write("t.npy", npy(header("'<U2'", "()"), eight));
  EXPECT_THAT(message_of<local::TypeError>([&] { Dataset::open(types, "/"); }), HasSubstr("text ('<U2')"));
  EXPECT_THROW(Dataset::open(write("o.npy", npy(header("'|O'", "(9,)"), "")), "/"), local::TypeError);
  EXPECT_THROW(Dataset::open(write("g.npy", npy(header("'<f16'", "()"), eight + eight)), "/"), local::TypeError);
  EXPECT_THROW(Dataset::open(write("v.npy", npy(header("'<f8'", "()"), eight, 4)), "/"), local::NotSupported);
  std::string extents;
  for (int i = 0; i < 33; ++i) extents += "1, ";
  EXPECT_THROW(Dataset::open(write("n.npy", npy(header("'<f8'", "(" + extents + ")"), eight)), "/"),
               local::NotSupported);
}

// What a program writes, with every other row by a writer that came from another rank.
void write_rows(OutputFile& output, size_t index, const Dims& shape, int64_t item, const Bytes& elements) {
  const auto here = output.writer(index), there = Writer::deserialize(here->serialize());
  const Dims& chunk = here->spec().chunks ? *here->spec().chunks : shape;
  const int64_t rows = here->spec().filters.empty() ? 3 : chunk[0];
  const int64_t row_bytes = local::element_count(shape) / shape[0] * item;
  // Backwards: no order is prescribed.
  for (int64_t number = (shape[0] - 1) / rows; number >= 0; --number) {
    Region box = Region::whole(shape);
    box.start[0] = number * rows;
    box.count[0] = std::min(rows, shape[0] - box.start[0]);
    const std::byte* from = elements.data() + box.start[0] * row_bytes;
    Writer& writer = number % 2 == 0 ? *here : *there;
    if (here->spec().filters.empty()) {
      writer.write(box, from);
      continue;
    }
    Dims at = Dims::filled(shape.size(), 0);
    at[0] = number;
    output.write_encoded(index, at, writer.encode(at, from, box.count));
  }
}

TEST_F(NpyTest, AnArrayThatAllRanksWroteIsReadBack) {
  const std::string file = dir_ / "o.npy";
  const Dims shape{50, 7, 3};
  const Bytes elements = random_bytes(50 * 7 * 3 * 4, 5);
  const auto make = [&](bool overwrite) {
    return OutputFile::create(file, {{"/any", shape, DType::int32, {}, {}, {}}}, overwrite);
  };
  auto output = make(false);
  write_rows(*output, 0, shape, 4, elements);
  EXPECT_FALSE(std::filesystem::exists(file));
  output->commit();
  const auto dataset = Dataset::open(file, "/");
  EXPECT_EQ(read_region(*dataset, Region::whole(shape)), elements);
  EXPECT_THROW(make(false), local::InvalidArgument);
  make(true).reset();  // given up
  EXPECT_EQ(read_region(*Dataset::open(file, "/"), Region::whole(shape)), elements);
  EXPECT_FALSE(std::filesystem::exists(file + ".partial"));
  EXPECT_THROW(
      OutputFile::create(dir_ / "p.npy",
                         {{"/a", shape, DType::int8, {}, {}, {}}, {"/b", shape, DType::int8, {}, {}, {}}}, false),
      local::InvalidArgument);
  EXPECT_THROW(OutputFile::create(dir_ / "p.npy",
                                  {{"/a", shape, DType::int8, shape, {{Filter::Kind::deflate, 1, ""}}, {}}}, false),
               local::InvalidArgument);
}

TEST_F(NpyTest, ArchivesKeepWhatIsNotReplaced) {
  const std::string file = dir_ / "o.npz";
  const Dims big{2000, 500}, small{7};
  Bytes elements = random_bytes(2000 * 500 * 8, 6);
  for (size_t i = 0; i < elements.size(); i += 2) elements[i] = std::byte{0};  // something to compress
  const Bytes few = random_bytes(7 * 2, 8);
  const std::vector<Filter> deflate{{Filter::Kind::deflate, 4, "deflate"}};
  auto output = OutputFile::create(
      file, {{"/g/big", big, DType::float64, big, deflate, {}}, {"/small", small, DType::int16, {}, {}, {}}}, false);
  EXPECT_GT((big[0] - 1) / (*output->writer(0)->spec().chunks)[0], 0);  // several parts
  write_rows(*output, 0, big, 8, elements);
  write_rows(*output, 1, small, 2, few);
  output->commit();
  std::mt19937 random(11);
  const auto check = [&] {
    const auto dataset = Dataset::open(file, "/g/big"), copy = Dataset::deserialize(dataset->serialize());
    EXPECT_EQ(dataset->info().filters.size(), 1u);
    EXPECT_LT(dataset->info().stored_bytes, 8 * 1000 * 1000);
    for (int i = 0; i < 12; ++i) {
      const Region region = i == 0 ? Region::whole(big) : random_region(big, random);
      EXPECT_EQ(read_region(i % 2 == 0 ? *dataset : *copy, region), pick(elements, big, 8, region)) << i;
    }
    EXPECT_EQ(visit_region(*copy, Region::whole(big)), elements);
  };
  check();
  EXPECT_EQ(read_region(*Dataset::open(file, "/small"), Region::whole(small)), few);
  const std::vector<OutputSpec> again{{"/small", Dims{}, DType::int16, {}, {}, {}}};
  EXPECT_THROW(OutputFile::create(file, again, false), local::InvalidArgument);
  output = OutputFile::create(file, again, true);
  output->writer(0)->write(Region::whole(Dims{}), few.data());
  output->commit();
  check();
  EXPECT_EQ(Dataset::open(file, "/small")->info().shape, Dims{});
  EXPECT_EQ(list_objects(file).size(), 3u);
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { Dataset::open(file, "/smal"); }), HasSubstr("'/small'"));
  EXPECT_THROW(Dataset::open(file, "/"), local::InvalidArgument);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
    EXPECT_EQ(entry.path().filename(), "o.npz");
}

TEST_F(NpyTest, DamagedArchivesAreErrors) {
  const std::string file = dir_ / "o.npz";
  const Dims shape{1000};
  const Bytes elements(8000, std::byte{1});
  auto output = OutputFile::create(file,
                                   {{"/x", shape, DType::float64, shape, {{Filter::Kind::deflate, 4, "deflate"}}, {}},
                                    {"/y", shape, DType::float64, {}, {}, {}}},
                                   false);
  write_rows(*output, 0, shape, 8, elements);
  write_rows(*output, 1, shape, 8, elements);
  output->commit();
  std::ifstream stream(file, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(stream), {}};
  // Every byte changed once, and every length: an error with a type or an array, never anything else.
  std::mt19937 random(3);
  const std::string bad = dir_ / "bad.npz";
  int errors = 0;
  for (size_t i = 0; i < 600; ++i) {
    std::string changed = content;
    if (i % 3 == 0)
      changed.resize(random() % content.size());
    else
      changed[i < 300 ? random() % content.size() : content.size() - 1 - random() % 300] ^=
          static_cast<char>(1 + random() % 255);
    std::ofstream(bad, std::ios::binary) << changed;
    try {
      for (const ObjectInfo& object : list_objects(bad)) {
        if (!object.dataset) continue;
        const auto dataset = Dataset::open(bad, object.path);
        ASSERT_LE(dataset->info().stored_bytes, 1 << 20);
        read_region(*dataset, Region::whole(dataset->info().shape));
      }
    } catch (const local::InvalidArgument&) {
      ++errors;
    } catch (const local::IoError&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 200);
  // The checksum of what is deflated is looked at.
  const size_t at = content.find("PK\1\2");
  std::string changed = content;
  changed[changed.find("PK\1\2", at + 1) + 16] ^= 1;
  changed[at + 16] ^= 1;
  std::ofstream(bad, std::ios::binary) << changed;
  EXPECT_THAT(message_of<local::IoError>([&] { Dataset::open(bad, "/x"); }), HasSubstr("checksum"));
}

TEST_F(NpyTest, SmallArchivesDoNotBecomeLongLists) {
  std::string fields;
  for (int i = 0; i < 300; ++i) fields += fmt::format("('{}', '|b1'), ", i);
  const std::string array =
      npy("{'descr': [" + fields + "], 'fortran_order': False, 'shape': ()}", std::string(300, '\0'));
  npy::ZipMember member{.name = std::string(60000, 'n'),
                        .stored_bytes = std::ssize(array),
                        .bytes = std::ssize(array),
                        .header_offset = 0};
  const std::string content = npy::zip_local_header(member, false) + array;
  const auto archive = [&](const std::vector<npy::ZipMember>& members) {
    return write("a.npz", content + npy::zip_directory(members, std::ssize(content)));
  };
  const auto objects = list_objects(archive({member}));
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_THAT(objects[1].note, HasSubstr("names of its fields are too long"));
  EXPECT_THROW(Dataset::open(dir_ / "a.npz", "/" + member.name + "/none"), local::IoError);
  EXPECT_THAT(message_of<local::IoError>([&] { list_objects(archive(std::vector(20, member))); }),
              HasSubstr("its members overlap"));
}

TEST_F(NpyTest, ArchivesOfManyFieldsAreListedInPart) {
  std::string fields, content;
  constexpr int kFields = 20000;
  for (int i = 0; i < kFields; ++i) fields += fmt::format("('{}', '|b1'), ", i);
  const std::string array =
      npy("{'descr': [" + fields + "], 'fortran_order': False, 'shape': ()}", std::string(kFields, '\0'), 2);
  std::vector<npy::ZipMember> members;
  for (int i = 0; i < 8; ++i) {
    members.push_back({.name = fmt::format("{}.npy", i),
                       .stored_bytes = std::ssize(array),
                       .bytes = std::ssize(array),
                       .header_offset = std::ssize(content)});
    content += npy::zip_local_header(members.back(), false) + array;
  }
  const auto objects = list_objects(write("a.npz", content + npy::zip_directory(members, std::ssize(content))));
  EXPECT_THAT(objects.back().note, HasSubstr("too many fields"));
  EXPECT_EQ(std::ssize(objects), 2 + 5 * (1 + kFields));
}

}  // namespace
}  // namespace quarry::io
