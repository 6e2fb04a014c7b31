// Arrays over files of a format that only this program knows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "quarry/chunked/api/quarry.h"
#include "tests/support/number_format.h"

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

}  // namespace
}  // namespace quarry
