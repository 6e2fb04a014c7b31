// The list of file formats: what is in a file decides, then its name; a format of the program's own is one more.
#include "quarry/io/format.h"

#include <fstream>

#include "tests/support/number_format.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using test::H5File;

class FormatTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::number_format(); }
  void write_h5(const std::string& file, hsize_t user_block = 0) {
    const int32_t data[4] = {1, 2, 3, 4};
    if (user_block == 0) {
      H5File(file).write("/x", {4}, H5T_STD_I32LE, H5T_STD_I32LE, data);
      return;
    }
    const hid_t create = H5Pcreate(H5P_FILE_CREATE);
    ASSERT_GE(H5Pset_userblock(create, user_block), 0);
    const hid_t made = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, create, H5P_DEFAULT);
    ASSERT_GE(made, 0);
    H5Fclose(made);
    H5Pclose(create);
  }
  const test::TempDir dir_;
};

TEST_F(FormatTest, AreRecognisedByWhatTheyHoldWhateverTheirName) {
  const std::string plain = dir_ / "plain.dat", blocked = dir_ / "blocked.numbers", numbers = dir_ / "n.h5";
  write_h5(plain);
  write_h5(blocked, 2048);
  std::ofstream(numbers, std::ios::binary) << "numbers\n";
  EXPECT_EQ(format_of(plain).name(), "HDF5");
  EXPECT_EQ(format_of(blocked).name(), "HDF5");
  EXPECT_EQ(format_of(numbers).name(), "numbers");
  EXPECT_EQ(format_to_write(numbers).name(), "numbers");
  EXPECT_EQ(Dataset::open(plain, "/x")->info().shape, (Dims{4}));
}

TEST_F(FormatTest, TheNameDecidesWhereNothingIsRecognised) {
  const std::string text = dir_ / "text.H5";
  std::ofstream(text) << "some text";
  EXPECT_EQ(format_of(text).name(), "HDF5");
  EXPECT_EQ(format_to_write(dir_ / "new.numbers").name(), "numbers");
  EXPECT_EQ(format_to_write(dir_ / "new.h5").name(), "HDF5");
  EXPECT_EQ(format_to_write(dir_ / "new.other").name(), "HDF5");
}

TEST_F(FormatTest, AnUnfinishedOutputIsNoFile) {
  for (const auto& [name, object] : {std::pair("a.npy", "/"), {"a.npz", "/x"}, {"a.csv", "/x"}, {"a.h5", "/x"}}) {
    const std::string file = dir_ / name;
    OutputSpec spec{object, {4}, DType::float64, {}, {}, {}};
    format_to_write(file).prepare(spec);
    const auto output = OutputFile::create(file, {spec}, false);
    const std::string message =
        message_of<local::IoError>([&, &object = object] { Dataset::open(file + ".partial", object); });
    EXPECT_NE(message.find("unfinished output"), std::string::npos) << message;
  }
}

TEST_F(FormatTest, AnUnknownFileListsTheFormats) {
  const std::string other = dir_ / "other.xyz";
  std::ofstream(other) << "some text";
  for (const std::string& message : {message_of<local::IoError>([&] { Dataset::open(other, "/x"); }),
                                     message_of<local::IoError>([&] { list_objects(other); })}) {
    EXPECT_NE(message.find(other), std::string::npos) << message;
    EXPECT_NE(message.find("HDF5 (.h5, .hdf5"), std::string::npos) << message;
    EXPECT_NE(message.find("numbers (.numbers)"), std::string::npos) << message;
  }
  EXPECT_THROW(Dataset::deserialize("nothing"), local::InvalidArgument);
  EXPECT_THROW(Dataset::deserialize("other\nbytes"), local::InvalidArgument);
  EXPECT_THROW(Writer::deserialize(""), local::InvalidArgument);
}

TEST_F(FormatTest, ANameIsTakenOnce) {
  const testing::NumberFormat again;
  EXPECT_THROW(add_format(again), local::InvalidArgument);
}

TEST_F(FormatTest, AFormatOfTheProgramReadsListsAndWrites) {
  const std::string file = dir_ / "a.numbers";
  const auto output = OutputFile::create(file, {{"/x", Dims{5}, local::DType::float64, {}, {}, {}}}, false);
  const double values[5] = {1, 2, 3, 4, 5};
  const auto writer = output->writer(0);
  const auto elsewhere = Writer::deserialize(writer->serialize());
  writer->write(Region::box({0}, {2}), values);
  elsewhere->write(Region::box({2}, {3}), values + 2);
  output->commit();
  const auto dataset = Dataset::open(file, "/x");
  EXPECT_EQ(dataset->info().shape, (Dims{5}));
  const auto copy = Dataset::deserialize(dataset->serialize());
  double read[2] = {};
  copy->read(Region{Dims{4}, Dims{2}, Dims{-2}}, read, {});
  EXPECT_EQ(read[0], 5);
  EXPECT_EQ(read[1], 3);
  const std::vector<ObjectInfo> objects = list_objects(file);
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_EQ(objects[1].dataset->stored_bytes, 40);
  EXPECT_THROW(Dataset::open(file, "/y"), local::InvalidArgument);
}

}  // namespace
}  // namespace quarry::io
