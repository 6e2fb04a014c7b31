// Many files as one array.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/local.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using local::NdArray;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  void write(const std::string& name, const NdArray& array) { Array::from_local(array).to_hdf5(folder_ / name, "/x"); }
  template <class F>
  std::string error_of(F&& call) {
    try {
      call();
    } catch (const local::Error& error) {
      return error.what();
    }
    return "no error";
  }
  const test::TempDir folder_;
  const Runtime runtime_{testing::runtime_on(local::DeviceKind::cpu, "16MiB")};
};

TEST_F(Files, FollowEachOtherInTheOrderOfTheirNames) {
  const NdArray whole = local::arange(60.).reshape({10, 6});
  write("day-2.h5", whole[{Slice{3, 4, {}}}]);
  write("day-1.h5", whole[{Slice{0, 3, {}}}]);
  write("day-3.h5", whole[{Slice{4, 4, {}}}]);  // none on that day
  write("day-4.h5", whole[{Slice{4, 10, {}}}]);
  write("night-1.h5", whole);
  const Array x = open_hdf5(folder_ / "day-?.h5", "/x", 0), part = x[{Slice{2, 5, {}}}];
  EXPECT_EQ(x.shape(), (Dims{10, 6}));
  EXPECT_TRUE(local::array_equal(x.to_host(), whole));
  EXPECT_EQ((part * 2).sum().item<double>(), 2 * (12 + 29) * 18 / 2);
  EXPECT_TRUE(local::array_equal(open_hdf5(folder_ / "day-[12].h5", "/x", -2).to_host(), whole[{Slice{0, 4, {}}}]));
  EXPECT_TRUE(local::array_equal(open_hdf5(folder_ / "night*", "/x", 1).to_host(), whole));
  EXPECT_TRUE(local::array_equal(open_hdf5(folder_ / "night-1.h5", "/x", 0).to_host(), whole));
}

TEST_F(Files, AlongAnyAxisAndOfSeveralDtypes) {
  const NdArray whole = local::arange(24.).reshape({2, 3, 4});
  write("a", whole[{local::full_slice, local::full_slice, Slice{0, 1, {}}}].astype(DType::int16));
  write("b", whole[{local::full_slice, local::full_slice, Slice{1, 4, {}}}].astype(DType::float32));
  const Array x = open_hdf5(folder_ / "*", "/x", -1);
  EXPECT_EQ(x.dtype(), DType::float32);
  EXPECT_TRUE(local::array_equal(x.to_host(), whole.astype(DType::float32)));
}

// A chunk is read in pieces; states of all rows are made before the first, which takes more than a piece does.
TEST_F(Files, ReductionsOfManyRowsStateTheirScratch) {
  const NdArray whole = local::arange(16384. * 48).reshape({16384, 48});
  write("x.h5", whole);
  const Array x = open_hdf5(folder_ / "x.h5", "/x").rechunk({16384, 48});
  EXPECT_TRUE(local::array_equal(sum(x, 1).to_host(), local::sum(whole, 1)));
  EXPECT_TRUE(local::array_equal(max(x, 1).to_host(), local::max(whole, 1)));
  EXPECT_TRUE(local::allclose(std(x, 1).to_host(), local::std(whole, 1)));
}

TEST_F(Files, MistakesNameTheFile) {
  write("a.h5", local::ones({2, 3}));
  write("b.h5", local::ones({2, 4}));
  write("c.h5", local::ones({2}));
  const auto open = [&](const std::string& pattern, int64_t axis) {
    return error_of([&] { open_hdf5(folder_ / pattern, "/x", axis); });
  };
  EXPECT_THAT(open("[ab].h5", 0), HasSubstr("b.h5' of shape (2, 4) does not continue that in '"));
  EXPECT_THAT(open("[ab].h5", 0), HasSubstr("they differ along axis 1"));
  EXPECT_EQ(open("[ab].h5", 1), "no error");
  EXPECT_THAT(open("[ac].h5", 0), HasSubstr("different numbers of axes"));
  EXPECT_THAT(open("z*.h5", 0), HasSubstr("no file matches"));
  EXPECT_THROW(open_hdf5(folder_ / "a*", "/x", 2), local::IndexError);
  EXPECT_THAT(error_of([&] { open_hdf5(folder_ / "a*", "/y", 0); }), HasSubstr("/y"));
  to_hdf5(folder_ / "d.txt", "/x", ones({1}));
  EXPECT_THAT(open("*", 0), HasSubstr("does not continue"));
}

}  // namespace
}  // namespace quarry
