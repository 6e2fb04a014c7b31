// Who gets what of a rank's memory budget: the constants of policy.h as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quarry/local/device/device.h"

namespace quarry::local {

struct RankMemory {
  DeviceKind kind = DeviceKind::cpu;
  int64_t memory_bytes = 0;  // budget of the compute tier
  int64_t host_bytes = 0;    // of the pinned tier; not on the CPU
  int ranks = 1;
  int message_buffers = 0;  // where there are several ranks
  int io_threads = 1;
  bool steals = true;  // takes chunks of other ranks when it is idle
};

struct MemoryShare {
  std::string name;
  int64_t bytes = 0;
  // Taken from what the shares before it leave, when it is needed; else it is kept for this purpose.
  bool at_most = false;
};

struct MemoryTier {
  std::string name;
  std::string option;  // that sets its budget
  int64_t bytes = 0;
  std::vector<MemoryShare> shares;  // those that are not at most so much add up to `bytes`
};

std::vector<MemoryTier> memory_tiers(const RankMemory& rank);

}  // namespace quarry::local
