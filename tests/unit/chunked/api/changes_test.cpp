// store() into data sets that are there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quarry/chunked/api/quarry.h"
#include "quarry/io/filter.h"
#include "quarry/local/base/error.h"
#include "quarry/local/local.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

using local::NdArray;
using ::testing::HasSubstr;

class Changes : public ::testing::Test {
 protected:
  void write(const std::string& object, const Array& array, StoreOptions options = {}) {
    store(file_, {{object, array}}, options);
  }
  NdArray now(const std::string& object = "/x") { return open_hdf5(file_, object).to_host(); }
  template <class Error>
  std::string error_of(const std::string& object, const Array& array, const StoreOptions& options) {
    try {
      write(object, array, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error, or another";
  }
  const test::TempDir folder_;
  const std::string file_ = folder_ / "f.h5";
  const Runtime runtime_{testing::runtime_on(local::DeviceKind::cpu, "16MiB")};
};

TEST_F(Changes, RegionsByIntegersSlicesAndAnEllipsis) {
  const Array x = arange(240.).reshape({6, 5, 8});
  for (const bool filtered : {false, true}) {
    StoreOptions options{.overwrite = true, .chunks = Dims{4, 2, 3}};
    if (filtered) options.filters = {{io::Filter::Kind::deflate, 1, "deflate"}};
    write("/x", x, options);
    NdArray expected = x.to_host();
    write("/x", full({5, 3}, -1.), {.region = {{2, Slice{}, Slice{-4, 7, {}}}}});
    expected[{2, Slice{}, Slice{-4, 7, {}}}] = -1.;
    EXPECT_TRUE(local::array_equal(now(), expected));
    // What is replaced is read.
    write("/x", open_hdf5(file_, "/x")[{local::ellipsis, 0}] * 2., {.region = {{local::ellipsis, 7}}});
    expected[{local::ellipsis, 7}] = expected[{local::ellipsis, 0}] * 2.;
    EXPECT_TRUE(local::array_equal(now(), expected));
    write("/x", full({6, 0, 8}, 3.), {.region = {{Slice{}, Slice{2, 2, {}}}}});
    EXPECT_TRUE(local::array_equal(now(), expected));
  }
}

TEST_F(Changes, AppendingMakesTheDataSetFirst) {
  const NdArray part = local::arange(12.).reshape({3, 4});
  for (int i = 0; i < 3; ++i) write("/g/x", Array::from_local(part) + double(i), {.append = -1});
  EXPECT_TRUE(local::array_equal(now("/g/x"), local::concatenate({part, part + 1., part + 2.}, 1)));
  EXPECT_THAT(error_of<local::InvalidArgument>("/g/x", Array::from_local(part), {.append = 0}),
              HasSubstr("they may differ along axis 0 alone"));
}

TEST_F(Changes, MaskedArraysNeedTheirFillValueThere) {
  const ma::MaskedArray x = ma::masked_array(arange(4.), arange(4.) > 2.);
  const std::vector<ma::FilledItem> items{ma::filled_item("/x", x)};
  for (int i = 0; i < 2; ++i) ma::store(file_, items, {.append = 0});
  EXPECT_EQ(ma::open_hdf5(file_, "/x").mask().sum().item<int64_t>(), 2);
  EXPECT_EQ(now().shape(), (Dims{8}));
  write("/y", zeros({8}));
  const std::vector<ma::FilledItem> other{ma::filled_item("/y", x)};
  EXPECT_THROW(ma::store(file_, other, {.region = {{Slice{0, 4, {}}}}}), local::InvalidArgument);
}

TEST_F(Changes, MistakesChangeNothing) {
  write("/x", zeros({4, 3}));
  const auto region = [&](std::vector<local::IndexItem> index) {
    StoreOptions options;
    options.region = std::move(index);
    return options;
  };
  const Array two = ones({2, 3});
  EXPECT_THAT(error_of<local::InvalidArgument>("/x", two, region({Slice{0, 4, 2}})), HasSubstr("steps of 1, not 2"));
  EXPECT_THAT(error_of<local::InvalidArgument>("/x", two, region({local::newaxis})), HasSubstr("no new axes"));
  EXPECT_THAT(error_of<local::InvalidArgument>("/x", two, region({local::ellipsis, local::ellipsis})),
              HasSubstr("one ellipsis"));
  EXPECT_THAT(error_of<local::IndexError>("/x", two, region({Slice{3, 5, {}}})), HasSubstr("index 5 is outside"));
  EXPECT_THAT(error_of<local::IndexError>("/x", two, region({-5})), HasSubstr("index -5 is outside"));
  EXPECT_THAT(error_of<local::IndexError>("/x", two, region({0, 0, 0})), HasSubstr("3 indices"));
  EXPECT_THAT(error_of<local::InvalidArgument>("/x", two.astype(DType::int64), region({Slice{0, 2, {}}})),
              HasSubstr("of dtype float64, and the array of int64"));
  EXPECT_THAT(error_of<local::InvalidArgument>("/x", two, {.append = 0}), HasSubstr("cannot grow along axis 0"));
  EXPECT_THAT(error_of<local::IndexError>("/x", two, {.append = 2}), HasSubstr("axis 2 is out of bounds"));
  EXPECT_THAT(error_of<local::InvalidArgument>("/x", two, {.overwrite = true, .append = 0}), HasSubstr("overwrite"));
  EXPECT_THAT(error_of<local::InvalidArgument>("/s", sum(ones({2})), {.append = 0}), HasSubstr("without axes"));
  EXPECT_TRUE(local::array_equal(now(), local::zeros({4, 3})));
}

}  // namespace
}  // namespace quarry
