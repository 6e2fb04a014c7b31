// Text files of columns: fields, dates, missing values, quotes, ragged lines, rows from anywhere, and what is written.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "quarry/io/csv/fields.h"
#include "quarry/io/csv/lines.h"
#include "quarry/io/format.h"
#include "quarry/io/output.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

class CsvTest : public ::testing::Test {
 protected:
  std::string write(const std::string& content, const std::string& name = "a.csv") {
    std::ofstream(dir_ / name, std::ios::binary) << content;
    return dir_ / name;
  }
  template <class T = double>
  std::vector<T> read(const std::string& file, const std::string& object) {
    const auto dataset = Dataset::open(file, object);
    EXPECT_EQ(dataset->info().dtype, local::dtype_of_v<T>);
    const Region whole = Region::whole(dataset->info().shape);
    const Bytes bytes = read_region(*dataset, whole);
    EXPECT_EQ(visit_region(*Dataset::deserialize(dataset->serialize()), whole), bytes);
    const auto* const begin = reinterpret_cast<const T*>(bytes.data());
    return std::vector<T>(begin, begin + bytes.size() / sizeof(T));
  }
  std::string text(const std::string& name) {
    std::ifstream stream(dir_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  const test::TempDir dir_;
};

TEST_F(CsvTest, ColumnsByName) {
  const std::string file = write("open,high,close\n1,2.5,3\n-4e2,+5,.6\n");
  EXPECT_THAT(read(file, "/"), ElementsAre(1, 2.5, 3, -400, 5, 0.6));
  EXPECT_THAT(read(file, "/high"), ElementsAre(2.5, 5));
  EXPECT_THAT(read(file, "/close,open"), ElementsAre(3, 1, 0.6, -400));
  EXPECT_EQ(Dataset::open(file, "/")->info().shape, (Dims{2, 3}));
  EXPECT_EQ(Dataset::open(file, "/close")->info().shape, (Dims{2}));
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { Dataset::open(file, "/clos"); }), HasSubstr("'/close'"));
  EXPECT_THAT(message_of<local::InvalidArgument>([&] { Dataset::open(file, "/open,open"); }), HasSubstr("twice"));
}

TEST_F(CsvTest, MissingValuesAreNaN) {
  const std::string file = write("a,b\n1,\n,NA\nnull,\"\"\n -  ,N/A\n");
  const std::vector<double> b = read(file, "/b");
  EXPECT_THAT(b, ElementsAre(IsNan(), IsNan(), IsNan(), IsNan()));
  EXPECT_THAT(message_of<local::TypeError>([&] { read(file, "/a"); }), HasSubstr("text"));
  EXPECT_THAT(read(file, "/a?missing=-"), ElementsAre(1, IsNan(), IsNan(), IsNan()));
  EXPECT_THAT(message_of<local::IoError>([&] { read<int64_t>(file, "/a?missing=-&dtype=int64"); }),
              HasSubstr("line 3, column 1 (a): a value is missing"));
}

TEST_F(CsvTest, LineEndsQuotesAndEmptyLines) {
  const std::string file = write("\xef\xbb\xbf\"a,1\",\"b \"\"c\"\"\"\r\n\r\n1,\"2\"\r\n\r\n 3 ,\t4\r\n\n\"5\",\"6\"");
  EXPECT_THAT(read(file, "/"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(read(file, "/a,1"), ElementsAre(1, 3, 5));  // the name before the list
  EXPECT_THAT(read(file, "/b \"c\""), ElementsAre(2, 4, 6));
  EXPECT_THAT(read(write("x,note,y\n1,\"two\nlines, \"\"3\"\"\",2\n3,,4\n"), "/y"), ElementsAre(2, 4));
  EXPECT_THAT(message_of<local::IoError>([&] { read(write("x,y\n1,\"2\n3,4\n"), "/x"); }),
              HasSubstr("a quote does not end"));
}

TEST_F(CsvTest, TheFirstLineIsAHeaderUnlessItIsNumbers) {
  EXPECT_THAT(read(write("1,2\n3,4\n"), "/"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(read(write("1,2\n3,4\n"), "/1"), ElementsAre(2, 4));
  EXPECT_THAT(read(write("1,2\n3,4\n"), "/?header=yes"), ElementsAre(3, 4));
  EXPECT_THAT(read(write("1,2\n3,4\n"), "/2?header=yes"), ElementsAre(4));
  EXPECT_THAT(read(write("a,a,\n1,2,3\n"), "/a.1,Unnamed: 2"), ElementsAre(2, 3));
  EXPECT_THAT(read(write("2020-01-31,5\n2020-02-29,6\n"), "/1"), ElementsAre(5, 6));
  EXPECT_EQ(Dataset::open(write("a,b\n"), "/")->info().shape, (Dims{0, 2}));
  EXPECT_THAT(read(write("a,b\n"), "/b"), ElementsAre());
  EXPECT_THROW(Dataset::open(write(""), "/"), local::IoError);
  EXPECT_THROW(Dataset::open(write("\n\n"), "/"), local::IoError);
  EXPECT_THROW(Dataset::open(write(std::string("a\0b\n", 4)), "/"), local::IoError);
}

TEST_F(CsvTest, DelimitersAndDecimalPoints) {
  EXPECT_THAT(read(write("a;b\n1;2\n"), "/b"), ElementsAre(2));
  EXPECT_THAT(read(write("a\tb\n1\t2\n"), "/b"), ElementsAre(2));
  EXPECT_THAT(read(write("a b\t2,5\n", "a.tsv"), "/?header=no&missing=a b&decimal=,"), ElementsAre(IsNan(), 2.5));
  EXPECT_THAT(read(write("a;b\n1,5;2,25\n"), "/?decimal=,"), ElementsAre(1.5, 2.25));
  EXPECT_THAT(read(write("a:b\n1:2\n"), "/a?delimiter=:"), ElementsAre(1));
  EXPECT_THAT(read<float>(write("a\n0.1\n"), "/a?dtype=float32"), ElementsAre(0.1F));
  EXPECT_THAT(read<int64_t>(write("a\n9007199254740993\n"), "/a?dtype=int64"), ElementsAre(9007199254740993));
  EXPECT_THAT(message_of<local::IoError>([&] { read<int8_t>(write("a\n128\n"), "/a?dtype=int8"); }),
              HasSubstr("'128'"));
  for (const std::string options : {"delimiter=ab", "decimal=", "header=maybe", "dtype=complex128", "dtype=x",
                                    "dates=weeks", "delimeter=,", "header=yes&x"})
    EXPECT_THROW(Dataset::open(write("a\n1\n"), "/a?" + options), local::InvalidArgument) << options;
}

TEST_F(CsvTest, DatesAreNumbersWithUnits) {
  const std::string file =
      write("day,time,value\n1970-01-02,2020-01-31 12:30:00.5,1\n1969/12/31,1970-01-01T01:00+01:00,2\n,1970-01-01,3\n");
  EXPECT_THAT(read<int64_t>(file, "/day"), ElementsAre(1, -1, csv::kNoDate));
  EXPECT_THAT(read<int64_t>(file, "/time"), ElementsAre(1580473800500000, 0, 0));
  EXPECT_THAT(read<int64_t>(file, "/time?dates=ms"), ElementsAre(1580473800500, 0, 0));
  EXPECT_THAT(read<int64_t>(file, "/day,time?dates=ms"),
              ElementsAre(86400000, 1580473800500, -86400000, 0, csv::kNoDate, 0));
  const auto attributes = Dataset::open(file, "/day")->info().attributes;
  EXPECT_EQ(std::get<std::string>(attributes.at("units")), "days since 1970-01-01");
  EXPECT_EQ(std::get<int64_t>(attributes.at("_FillValue")), csv::kNoDate);
  EXPECT_THAT(message_of<local::TypeError>([&] { Dataset::open(file, "/"); }), HasSubstr("day (dates), time (dates)"));
  EXPECT_THAT(message_of<local::IoError>([&] { read<int64_t>(file, "/time?dates=days"); }),
              HasSubstr("line 2, column 2 (time): '2020-01-31 12:30:00.5' is no whole number of days"));
  for (const std::string bad : {"2020-02-30", "2021-02-29", "2020-13-01", "2020-1-1", "2020-01-01x", "2020-01-01T24:00",
                                "2020-01-01T12", "2020-01-01T12:00:00.", "2020/01-01", "1.1.2020"})
    EXPECT_FALSE(csv::parse_date(bad)) << bad;
  EXPECT_EQ(csv::parse_date("0001-01-01")->days, -719162);
  EXPECT_EQ(csv::parse_date("9999-12-31")->days, 2932896);
  EXPECT_FALSE(csv::in_unit(*csv::parse_date("2262-04-12"), csv::DateUnit::nanoseconds));
  EXPECT_TRUE(csv::in_unit(*csv::parse_date("2262-04-11"), csv::DateUnit::nanoseconds));
}

TEST_F(CsvTest, WhatDoesNotFitHasALineAndAColumn) {
  for (const auto& [content, message] : std::vector<std::pair<std::string, std::string>>{
           {"a,b\n1,2\n\n3\n", "line 4, column 2 (b): the line has 1 fields, the first one has 2"},
           {"a,b\n1,2\n3,4,5\n", "line 3, column 3: the line has 3 fields, the first one has 2"},
           {"a,b\n1,2\n3,\"4\",\n", "line 3, column 3: the line has 3 fields"}}) {
    const std::string file = write(content);
    for (const std::string object : {"/a", "/b", "/", "/b,a"})
      EXPECT_THAT(message_of<local::IoError>([&] { read(file, object); }), HasSubstr(message)) << content << object;
  }
  std::string late = "a,b\n";
  for (int i = 0; i < 300; ++i) late += "1,2\n";
  EXPECT_THAT(message_of<local::IoError>([&] { read(write(late + "1,1e\n"), "/b"); }),
              HasSubstr("line 302, column 2 (b): '1e' is no number"));
  EXPECT_THAT(message_of<local::IoError>([&] { read(write(late + "1,2020-01-01\n"), "/b"); }),
              HasSubstr("is no number"));
  EXPECT_THAT(read<bool>(write("t\nTrue\nFalse\n"), "/t"), ElementsAre(true, false));
  EXPECT_THAT(read(write("t\nTrue\n\"\"\n0\n"), "/t"), ElementsAre(1, IsNan(), 0));
}

TEST_F(CsvTest, ThousandsOfColumns) {
  constexpr int64_t kColumns = 40000;
  std::string names, row;
  for (int64_t c = 0; c < kColumns; ++c) {
    names += c % 2 == 0 ? fmt::format("c{},", c) : "twice,";
    row += fmt::format("{}.25,", c);
  }
  names.back() = row.back() = '\n';
  const std::string file = write(names + row + row + row);
  EXPECT_EQ(Dataset::open(file, "/")->info().shape, (Dims{3, kColumns}));
  EXPECT_THAT(read(file, "/c39998,twice.2"), ElementsAre(39998.25, 5.25, 39998.25, 5.25, 39998.25, 5.25));
  EXPECT_EQ(list_objects(file).size(), 1U + kColumns);
  EXPECT_THROW(Dataset::open(write(std::string(1 << 19, ',')), "/"), local::NotSupported);
  EXPECT_THROW(Dataset::open(write(std::string(1 << 25, 'x') + ",1\n"), "/"), local::IoError);
}

// Rows of all lengths, found from anywhere, whatever the blocks of the index cut.
TEST_F(CsvTest, RegionsAreParsedFromAnywhere) {
  std::mt19937 random(5);
  for (const bool quotes : {false, true}) {
    constexpr int64_t kRows = 30000, kColumns = 9;
    std::string content = "c0,c1,c2,c3,c4,c5,c6,c7,c8,text\n";
    std::vector<double> values;
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t c = 0; c < kColumns; ++c) {
        values.push_back(static_cast<double>(random()) / (random() % 2 == 0 ? 1 : 997));
        content += fmt::format("{},", values.back());
      }
      if (quotes && random() % 3 == 0) content += random() % 2 == 0 ? "\"a\n\n,\"\"b\"" : "\"\"";
      content += random() % 7 == 0 ? "\r\n" : "\n";
      if (random() % 11 == 0) content += random() % 2 == 0 ? "\r\n\n" : "\n";
    }
    const std::string file = write(content);
    const auto opened = Dataset::open(file, "/c0,c1,c2,c3,c4,c5,c6,c7,c8");
    const auto dataset = Dataset::deserialize(opened->serialize());
    const Dims shape{kRows, kColumns};
    ASSERT_EQ(dataset->info().shape, shape);
    const auto* const begin = reinterpret_cast<const std::byte*>(values.data());
    const Bytes all(begin, begin + values.size() * sizeof(double));
    for (int i = 0; i < 30; ++i) {
      const Region region = i == 0 ? Region::whole(shape) : random_region(shape, random);
      const Bytes expected = pick(all, shape, 8, region);
      EXPECT_EQ(read_region(*dataset, region), expected) << i;
      EXPECT_EQ(visit_region(*dataset, region), expected) << i;
    }
  }
}

TEST_F(CsvTest, ColumnsThatRanksFormattedAreJoined) {
  const std::string file = dir_ / "o.csv";
  constexpr int64_t kRows = 1'000'000;
  std::vector<double> x(kRows);
  std::vector<int32_t> y(2 * kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    x[static_cast<size_t>(i)] = i % 5 == 0 ? std::nan("") : static_cast<double>(i) / 8;
    y[static_cast<size_t>(2 * i)] = static_cast<int32_t>(i);
    y[static_cast<size_t>(2 * i + 1)] = -1;
  }
  std::vector<OutputSpec> specs{{"/x", Dims{kRows}, DType::float64, {}, {}, {}},
                                {"/y", Dims{kRows, 2}, DType::int32, {}, {}, {}}};
  specs[1].fill_value = local::Scalar::strong(-1, DType::int32);
  auto output = OutputFile::create(file, specs, false);
  for (size_t item = 0; item < 2; ++item) {
    const auto here = output->writer(item), there = Writer::deserialize(here->serialize());
    const int64_t rows = (*here->spec().chunks)[0];
    ASSERT_LT(rows, kRows);
    for (int64_t number = (kRows - 1) / rows; number >= 0; --number) {
      Dims at = Dims::filled(here->spec().shape.size(), 0), count = here->spec().shape;
      at[0] = number;
      count[0] = std::min(rows, kRows - number * rows);
      const void* const from =
          item == 0 ? static_cast<const void*>(x.data() + number * rows) : y.data() + 2 * number * rows;
      output->write_encoded(item, at, (number % 2 == 0 ? here : there)->encode(at, from, count));
    }
  }
  output->commit();
  EXPECT_THAT(text("o.csv"), ::testing::StartsWith("x,y.0,y.1\n,0,\n0.125,1,\n0.25,2,\n"));
  const std::vector<double> back = read(file, "/x"), numbers = read(file, "/y.0");
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % 5 == 0)
      ASSERT_TRUE(std::isnan(back[i]));
    else
      ASSERT_EQ(back[i], x[i]);
    ASSERT_EQ(numbers[i], static_cast<double>(i));
  }
  EXPECT_THROW(OutputFile::create(file, specs, false), local::InvalidArgument);
  OutputFile::create(file, specs, true).reset();  // given up
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 1);
}

TEST_F(CsvTest, SmallTablesAndWhatIsNone) {
  const auto make = [&](std::vector<OutputSpec> specs, std::vector<const void*> data) {
    auto output = OutputFile::create(dir_ / "s.csv", specs, true);
    for (size_t i = 0; i < data.size(); ++i) output->writer(i)->write(Region::whole(specs[i].shape), data[i]);
    output->commit();
    return text("s.csv");
  };
  const double value = 1e22, values[] = {1, std::nan(""), -HUGE_VAL};
  const bool truths[] = {true, false, true};
  const local::float16 half(0.1F);
  EXPECT_EQ(make({{"/v", {}, DType::float64, {}, {}, {}}}, {&value}), "v\n1e+22\n");
  EXPECT_EQ(make({{"/v", {}, DType::float16, {}, {}, {}}}, {&half}), "v\n0.099975586\n");
  EXPECT_EQ(make({{"/v", Dims{3}, DType::float64, {}, {}, {}}}, {values}), "v\n1.0\n\"\"\n-inf\n");
  EXPECT_EQ(make({{"/v", Dims{3}, DType::float64, {}, {}, {}}, {"/a b", Dims{3}, DType::bool_, {}, {}, {}}},
                 {values, truths}),
            "v,\"a b\"\n1.0,True\n,False\n-inf,True\n");
  EXPECT_EQ(make({{"/v?delimiter=;&header=no", Dims{1, 3}, DType::float64, {}, {}, {}}}, {values}), "1.0;;-inf\n");
  EXPECT_EQ(make({{"/v", Dims{0, 2}, DType::float64, {}, {}, {}}}, {values}), "v.0,v.1\n");
  for (const std::vector<OutputSpec>& bad : std::vector<std::vector<OutputSpec>>{
           {},
           {{"/v", Dims{1, 1, 1}, DType::int8, {}, {}, {}}},
           {{"/v", Dims{1}, DType::complex64, {}, {}, {}}},
           {{"/v", Dims{3, 0}, DType::int8, {}, {}, {}}},
           {{"/v", Dims{1}, DType::int8, {}, {}, {}}, {"/w", Dims{2}, DType::int8, {}, {}, {}}},
           {{"/v", Dims{1}, DType::int8, Dims{1}, {{Filter::Kind::deflate, 1, "deflate"}}, {}}}})
    EXPECT_THROW(OutputFile::create(dir_ / "s.csv", bad, true), local::InvalidArgument);
}

}  // namespace
}  // namespace quarry::io
