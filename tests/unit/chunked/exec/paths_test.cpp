// The list of paths between ranks; tests/mpi/service.cpp has the transfers.
#include "quarry/chunked/exec/paths/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "quarry/comm/world/world.h"
#include "quarry/local/base/options.h"

namespace quarry::exec {
namespace {

using local::DeviceKind;

TEST(Paths, EveryRowHasAPathOfItsOwnName) {
  const auto job = comm::self_communicator();
  const Paths paths(*job, {DeviceKind::cpu, 0});
  ASSERT_EQ(paths.size(), path_rows().size());
  std::set<std::string> names;
  for (uint32_t row = 0; row < paths.size(); ++row) {
    EXPECT_EQ(paths.at(row).number(), row);
    EXPECT_EQ(&paths.find(paths.at(row).name()), &paths.at(row));
    names.insert(paths.at(row).name());
  }
  EXPECT_EQ(names.size(), paths.size());
  EXPECT_THROW(paths.at(static_cast<uint32_t>(paths.size())), local::CommError);
  EXPECT_THROW(paths.find("pigeon"), local::InternalError);
}

TEST(Paths, ToHostMemorySmallHyperslabsAreEager) {
  const auto job = comm::self_communicator();
  const Paths paths(*job, {DeviceKind::cpu, 0});
  EXPECT_STREQ(paths.choose(0, 1, 1).name(), "eager");
  EXPECT_STREQ(paths.choose(0, 4000, 8).name(), "eager");
  EXPECT_STREQ(paths.choose(0, 4001, 4001).name(), "rendezvous");
  EXPECT_STREQ(paths.choose(0, 0, 0).name(), "rendezvous");  // the owner still has to hear of it
  EXPECT_STREQ(paths.fallback(0, paths.find("eager")).name(), "eager");
}

TEST(Paths, ToDeviceMemoryWithoutAConnectionAllIsStaged) {
  const auto job = comm::self_communicator();
  Paths paths(*job, {DeviceKind::emulated, 0});
  for (const int64_t bytes : {0, 100, 1 << 20}) EXPECT_STREQ(paths.choose(0, bytes, bytes).name(), "staged");
  EXPECT_EQ(paths.find("peer-copy").obstacle(0), "not connected");
  paths.connect({{"peer-copy", comm::PathUse::off}});
  EXPECT_STREQ(paths.choose(0, 1 << 20, 1 << 20).name(), "staged");
  EXPECT_THROW(paths.connect({{"pigeon", comm::PathUse::off}}), local::InternalError);
}

TEST(Paths, AreDescribedInOrderOfPreference) {
  const auto job = comm::self_communicator();
  EXPECT_EQ(Paths(*job, {DeviceKind::cpu, 0}).describe(0), "eager (at most 4000 bytes; self), else rendezvous (self)");
  EXPECT_EQ(Paths(*job, {DeviceKind::emulated, 0}).describe(0),
            "staged (self); no peer-copy: not connected; no device-message: not connected");
}

TEST(Paths, LimitsAreThoseOfTheirRuns) {
  const auto job = comm::self_communicator();
  const Paths paths(*job, {DeviceKind::emulated, 0});
  const Path& message = paths.find("device-message");
  EXPECT_TRUE(message.fits(64 << 10, 64 << 10));
  EXPECT_FALSE(message.fits((64 << 10) - 1, (64 << 10) - 1));
  EXPECT_FALSE(message.fits(128 << 10, 64 << 10));
  EXPECT_FALSE(paths.find("peer-copy").fits(0, 0));
}

TEST(PathUse, IsInTheOrderOfItsOptionsWords) {
  const auto use = [](const char* word) {
    return local::OptionValue(local::Option::peer_copies, word, local::OptionGiver::command_line)
        .choice<comm::PathUse>();
  };
  EXPECT_EQ(use("auto"), comm::PathUse::automatic);
  EXPECT_EQ(use("on"), comm::PathUse::required);
  EXPECT_EQ(use("off"), comm::PathUse::off);
  EXPECT_THROW(static_cast<void>(use("maybe")), local::InvalidArgument);
}

}  // namespace
}  // namespace quarry::exec
