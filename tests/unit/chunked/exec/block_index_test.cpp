#include "quarry/chunked/exec/block_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::exec {
namespace {

TEST(BlockIndex, IsAMapForRowsAndForKeysInAnyOrder) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    BlockIndex index;
    std::map<std::tuple<uint32_t, uint32_t, int64_t>, int64_t> expected;
    const auto add = [&](uint32_t stage, uint32_t part, int64_t chunk) {
      const auto block = static_cast<int64_t>(random());
      index.emplace({stage, part, chunk}, block);
      expected.try_emplace({stage, part, chunk}, block);
    };
    for (int64_t chunk = 100; chunk < 160; ++chunk) add(1, 0, chunk);
    for (int i = 0; i < 300; ++i) {
      add(static_cast<uint32_t>(random() % 3), static_cast<uint32_t>(random() % 2),
          static_cast<int64_t>(random() % 200) - 20);
    }
    for (int64_t chunk = 0; chunk < 640; chunk += 64) add(2, 5, chunk);
    for (uint32_t stage = 0; stage < 4; ++stage) {
      for (uint32_t part = 0; part < 6; ++part) {
        for (int64_t chunk = -30; chunk < 700; ++chunk) {
          const auto want = expected.find({stage, part, chunk});
          const auto found = index.find({stage, part, chunk});
          ASSERT_EQ(found.has_value(), want != expected.end()) << stage << " " << part << " " << chunk;
          if (found) {
            ASSERT_EQ(*found, want->second);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quarry::exec
