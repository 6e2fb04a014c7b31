// What each rank computes on.
#include "quarry/chunked/runtime/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>

#include "quarry/local/base/error.h"

namespace quarry {
namespace {

using local::DeviceKind;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kAuto = -1;
constexpr auto kCpu = static_cast<int32_t>(DeviceKind::cpu);
constexpr auto kCuda = static_cast<int32_t>(DeviceKind::cuda);
constexpr auto kEmulated = static_cast<int32_t>(DeviceKind::emulated);

std::vector<DeviceKind> choose(std::initializer_list<std::pair<int32_t, bool>> ranks, bool cpu_ranks = false) {
  std::vector<DeviceWish> wishes;
  for (const auto& [kind, has_gpu] : ranks) {
    DeviceWish& wish = wishes.emplace_back();
    wish.kind = kind;
    wish.has_gpu = has_gpu ? 1 : 0;
  }
  return choose_kinds(wishes, cpu_ranks, [](int rank) { return "node" + std::to_string(rank); });
}

template <class Error, class... Args>
std::string message(Args... args) {
  try {
    choose(args...);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

using Ranks = std::initializer_list<std::pair<int32_t, bool>>;

TEST(DeviceChoice, TheSameForAll) {
  EXPECT_THAT(choose({{kAuto, true}, {kAuto, true}}), ElementsAre(DeviceKind::cuda, DeviceKind::cuda));
  EXPECT_THAT(choose({{kCuda, true}}), ElementsAre(DeviceKind::cuda));
  EXPECT_THAT(choose({{kEmulated, false}, {kEmulated, false}}),
              ElementsAre(DeviceKind::emulated, DeviceKind::emulated));
  for (const bool cpu_ranks : {false, true}) {
    EXPECT_THAT(choose({{kAuto, false}, {kAuto, false}}, cpu_ranks), ElementsAre(DeviceKind::cpu, DeviceKind::cpu));
    EXPECT_THAT(choose({{kCpu, false}, {kCpu, false}}, cpu_ranks), ElementsAre(DeviceKind::cpu, DeviceKind::cpu));
  }
}

TEST(DeviceChoice, ARankWithoutAGpuIsNamed) {
  for (const int32_t kind : {kAuto, kCuda}) {
    EXPECT_THAT((message<local::DeviceError, Ranks>({{kind, true}, {kind, false}})),
                testing::AllOf(HasSubstr("rank 1 on node1, but to others"), HasSubstr("--without-gpu cpu")));
  }
  // Nobody has one.
  for (const bool cpu_ranks : {false, true}) {
    EXPECT_THAT((message<local::DeviceError, Ranks, bool>({{kCuda, false}, {kCuda, false}}, cpu_ranks)),
                HasSubstr("no GPU is visible to rank 0 on node0; --device cpu"));
  }
}

TEST(DeviceChoice, CpuRanksBesideOthers) {
  for (const int32_t kind : {kAuto, kCuda}) {
    EXPECT_THAT(choose({{kind, true}, {kind, false}, {kCpu, false}}, true),
                ElementsAre(DeviceKind::cuda, DeviceKind::cpu, DeviceKind::cpu));
  }
  EXPECT_THAT(choose({{kCpu, false}, {kEmulated, false}}, true), ElementsAre(DeviceKind::cpu, DeviceKind::emulated));
}

TEST(DeviceChoice, WishesThatDoNotGoTogether) {
  EXPECT_THAT((message<local::InvalidArgument, Ranks>({{kCpu, false}, {kEmulated, false}})),
              HasSubstr("different kinds"));
  EXPECT_THAT((message<local::InvalidArgument, Ranks, bool>({{kCuda, true}, {kEmulated, false}}, true)),
              HasSubstr("different kinds"));
}

TEST(DeviceChoice, RanksThatSeeTheSameDevicesTakeOneEach) {
  const auto indices = [](const std::vector<std::string>& texts) {
    std::vector<uint64_t> views;
    for (const std::string& text : texts) views.push_back(std::hash<std::string>()(text));
    std::vector<int> taken;
    for (size_t rank = 0; rank < views.size(); ++rank) taken.push_back(choose_index(views, static_cast<int>(rank)));
    return taken;
  };
  EXPECT_THAT(indices({"a 0 1", "a 0 1", "b 0 1", "b 0 1"}), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(indices({"a 0 1", "b 0 1", "a 0 1", "b 0 1"}), ElementsAre(0, 0, 1, 1));  // ranks dealt out in turn
  EXPECT_THAT(indices({"a 0 1", "a 2 3", "a 4 5"}), ElementsAre(0, 0, 0));              // --gpus-per-task=2
  EXPECT_THAT(indices({"", "a 0 1", ""}), ElementsAre(0, 0, 1));                        // CPU ranks see none
}

}  // namespace
}  // namespace quarry
