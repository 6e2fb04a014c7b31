// Which rank computes on what.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "quarry/local/device/device.h"

namespace quarry {

// What a rank asks for, and whether it has a GPU, where that matters.
struct DeviceWish {
  int32_t kind = -1;  // a DeviceKind; -1: to be chosen
  int32_t has_gpu = 0;

  bool wants(local::DeviceKind wanted) const { return kind == static_cast<int32_t>(wanted); }
  bool may_take_gpu() const { return kind < 0 || wants(local::DeviceKind::cuda); }
};

// The kind of device of each rank, from the wishes of all: the same on all ranks. With `cpu_ranks`, ranks without a GPU
// compute on the CPU beside those with one, and so do ranks that ask for the CPU. Throws InvalidArgument for wishes
// that do not go together, DeviceError, naming rank and host, where a GPU is missing; `host_of` is called on all ranks
// for that one.
std::vector<local::DeviceKind> choose_kinds(std::span<const DeviceWish> wishes, bool cpu_ranks,
                                            const std::function<std::string(int rank)>& host_of);

// The number of the device that `rank` takes among those it sees: how many ranks before it see the same ones. So ranks
// that share the devices of a host take one each, and those to whom a launcher shows devices of their own take the
// first. `views`: by rank, the hash of a text that says which devices it sees, on which host.
int choose_index(std::span<const uint64_t> views, int rank);

}  // namespace quarry
