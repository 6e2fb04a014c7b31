// Arrays over files of a format that only this program knows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "quarry/chunked/api/quarry.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/local.h"
#include "tests/support/number_format.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

TEST(Formats, ArraysAreStoredInAndReadFromOneOfTheProgram) {
  testing::number_format();
  RuntimeOptions options;
  options.device = local::DeviceKind::cpu;
  options.memory = "16MiB";
  options.threads = 2;
  options.chunks = Dims{100};
  Runtime runtime(options);
  const std::string file =
      (std::filesystem::temp_directory_path() / ("quarry_" + std::to_string(::getpid()) + ".numbers")).string();
  store(file, {{"/x", arange(1000.0)}});
  const Array x = open_hdf5(file, "/x");
  EXPECT_EQ(x.shape(), (Dims{1000}));
  EXPECT_EQ(sum(x[{Slice{{}, {}, 3}}] * 2).to_host().item<double>(), 2.0 * 333 * 334 / 2 * 3);
  EXPECT_GE(runtime.statistics().read_bytes, 8000 / 3);
  EXPECT_EQ(runtime.statistics().written_bytes, 8000);
  std::filesystem::remove(file);
}

TEST(Formats, ArraysAreSavedAndLoadedByTheNamesOfFiles) {
  const test::TempDir folder;
  const Runtime runtime(testing::runtime_on(local::DeviceKind::cpu, "16MiB"));
  const Array x = (arange(600000.0) / 8).reshape({3000, 200});
  for (const std::string name : {"x.npy", "x.npz", "x.csv", "x.h5"}) {
    for (int again = 0; again < 2; ++again) save(folder / name, x);
    const Array y = load(folder / name, name == "x.npy" || name == "x.csv" ? "/" : "/data");
    EXPECT_EQ(y.shape(), x.shape()) << name;
    EXPECT_TRUE(local::array_equal((y[{Slice{{}, {}, -3}}] + 1).to_host(), (x[{Slice{{}, {}, -3}}] + 1).to_host()))
        << name;
  }
  EXPECT_EQ(load(folder / "x.csv", "/data.7").shape(), (Dims{3000}));
  EXPECT_THROW(load(folder / "x.npz"), local::InvalidArgument);
  EXPECT_THROW(save(folder / "y.csv", x.reshape({3000, 20, 10})), local::InvalidArgument);
}

}  // namespace
}  // namespace quarry
