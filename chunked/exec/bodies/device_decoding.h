// Reading compressed chunks of a file that the device decodes: what travels to it are the streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "quarry/io/dataset.h"
#include "quarry/local/base/shape.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// Who decodes compressed chunks: in the order of the words of the option decompress.
enum class Decompress : uint8_t {
  automatic,  // the device, where enough of a task's chunks are decoded at once to be faster than a thread of the host
  host,
  device,  // wherever it can
};

// What ReadBody goes by.
struct DecodingPolicy {
  Decompress by = Decompress::host;
  int64_t device_bytes = 0;  // budget of device memory
};

// Of one region, which lies in whole chunks of the file but for its borders.
class DeviceDecoding {
 public:
  // Nothing where the host decodes.
  static std::optional<DeviceDecoding> of(const io::Dataset& dataset, const local::Region& region,
                                          const local::Device& device, const DecodingPolicy& policy);
  // On the device.
  int64_t scratch_bytes() const;
  // Pinned memory, in pieces of about so many bytes.
  int64_t staging_bytes(int64_t piece_bytes) const;
  // Reads the region to the first output of `run`, and waits for it. `staging` of staging_bytes(). Throws IoError.
  void read(scheduler::TaskRun& run, std::span<std::byte> staging) const;

 private:
  class Load;
  DeviceDecoding(const io::Dataset& dataset, const local::Region& region, const local::Device& device);
  int64_t half_bytes(int64_t piece_bytes) const;
  struct Copy;
  Copy copy_of(const local::Dims& count, bool shuffled) const;
  struct Member;
  void copy_out(std::span<const Member> members, std::byte* decoded, scheduler::TaskRun& run) const;

  const io::Dataset* dataset_;
  local::Region region_;
  int64_t chunks_ = 1, touched_ = 1;  // that the region touches, and the elements in them
  int64_t batch_ = 0;                 // how many of them are decoded at once
  int64_t copy_scratch_bytes_ = 0;
};

}  // namespace quarry::exec
