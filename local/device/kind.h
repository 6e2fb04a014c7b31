// Kinds of devices, and which device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quarry::local {

enum class DeviceKind : uint8_t {
  cpu,
  cuda,
  emulated,  // tests: a pretend GPU in host memory with asynchronous streams and random delays
  trial,  // arrays have shape, dtype and addresses, but no data; what is asked for is counted (local/ndarray/trial.h)
};

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};
inline constexpr Device kCpu{};
std::string to_string(const Device& device);  // "cpu", "cuda:0", "emulated:0", "trial:cpu"
const char* name(DeviceKind kind);
// Of the kinds that programs run on: not of "trial".
std::optional<DeviceKind> parse_device_kind(std::string_view text);
// Whether the kind can be used and has at least one device; never throws.
bool available(DeviceKind kind);
// How many devices there are of the kind, none where it cannot be used; never throws.
int device_count(DeviceKind kind);

namespace detail {

// The trial device that stands for a kind: its index says for which one.
constexpr Device trial_of(DeviceKind kind) { return {DeviceKind::trial, static_cast<int>(kind)}; }
// By which functions choose their method: the kind, or the one that a trial stands for.
constexpr DeviceKind acts_as(const Device& device) {
  return device.kind == DeviceKind::trial ? static_cast<DeviceKind>(device.index) : device.kind;
}

}  // namespace detail
}  // namespace quarry::local
