// For tests that name the chunks quarry chooses: those for CPUs, also where a GPU's Runtime is current.
#pragma once

#include <gtest/gtest.h>

#include "quarry/chunked/grid/chunking.h"

namespace quarry::testing {

class CpuChunks : public ::testing::Test {
 private:
  const ChunkPolicyScope policy_{{.device = local::DeviceKind::cpu, .chunks = {}, .target_bytes = 0}};
};

}  // namespace quarry::testing
