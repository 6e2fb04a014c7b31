// Named stretches of a thread's work: for profilers on request, and as the names of who holds memory.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "quarry/local/device/kind.h"

namespace quarry::local {
namespace detail {
class Backend;  // local/device/device.h
}

// Names the calling thread's work for its lifetime. Ranges nest. The functions of quarry open one of their own, so that
// a range of the caller's is seen as "layer 1 / matmul". Costs some nanoseconds where ranges are not shown.
class Range {
 public:
  // `name` must live as long as the process, as a literal does; by default that of the function which makes the range.
  explicit Range(const char* name = __builtin_FUNCTION());
  // Any text; it is kept.
  explicit Range(const std::string& name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  detail::Backend* shown_by_ = nullptr;
};

namespace detail {

// The names of the calling thread's ranges, outermost first; those further in than `kNamedRanges` are left out.
inline constexpr int kNamedRanges = 3;
using RangeNames = std::array<const char*, kNamedRanges>;  // null where there are fewer
RangeNames current_ranges();
std::string to_string(const RangeNames& names);  // "layer 1 / matmul"; empty for none

}  // namespace detail

// Shows ranges that begin from now on to the profilers that the device kind knows: NVTX ranges (Nsight Systems) for
// cuda; events of the trace (local/base/trace.h) for emulated. None by default; the environment variable QUARRY_NVTX=1
// stands for cuda. Throws DeviceError where the kind cannot be used.
void show_ranges(std::optional<DeviceKind> kind);

// A profiler that was told to wait (nsys profile -c cudaProfilerApi) records during its lifetime. Throws DeviceError
// where the kind cannot be used.
class ProfilerScope {
 public:
  explicit ProfilerScope(DeviceKind kind = DeviceKind::cuda);
  ~ProfilerScope();
  ProfilerScope(const ProfilerScope&) = delete;
  ProfilerScope& operator=(const ProfilerScope&) = delete;

 private:
  detail::Backend& backend_;
};

}  // namespace quarry::local
