// Devices, streams and events, and the backend that a device kind plugs in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quarry::local {

enum class DeviceKind : uint8_t {
  cpu,
  cuda,
  emulated,  // tests: a pretend GPU in host memory with asynchronous streams and random delays
};

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};
inline constexpr Device kCpu{};
std::string to_string(const Device& device);  // "cpu", "cuda:0", "emulated:0"
const char* name(DeviceKind kind);
std::optional<DeviceKind> parse_device_kind(std::string_view text);

struct DeviceInfo {
  std::string name;
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
  std::string uuid;  // the same physical device has the same one in every process; empty where unknown
};

// A point in a stream's work. Reusable: record() moves it. Thread-safe to query.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  virtual bool done() = 0;         // true too if never recorded
  virtual void synchronize() = 0;  // blocks the host; throws what the work before it threw
  // Seconds on the device's clock from `earlier` to this event. Both must be timers of one backend (create_timer) that
  // have been recorded and reached. Throws InvalidArgument otherwise.
  virtual double seconds_since(DeviceEvent& earlier) = 0;
};

// An in-order queue of work on one device. The CPU's stream runs everything at once, in the calling thread. Not
// thread-safe, except host_callback's callee.
class DeviceStream {
 public:
  DeviceStream();
  virtual ~DeviceStream() { retire(); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  // Of this process, never given twice.
  uint64_t id() const { return id_; }
  // Calls `use` with the stream of that number, which cannot go meanwhile. False if it is gone, and its work done.
  static bool with_live(uint64_t id, const std::function<void(DeviceStream&)>& use);
  virtual Device device() const = 0;
  // Copies between this device and the host or inside this device; host memory should be pinned. The buffers must live
  // until the work is done.
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  // From this device to another one of its kind. The other device's streams must be made to wait for it.
  virtual void copy_to_peer(void* to, Device target, const void* from, int64_t bytes) = 0;
  virtual void fill(void* to, uint8_t value, int64_t bytes) = 0;
  virtual void record(DeviceEvent& event) = 0;
  virtual void wait(DeviceEvent& event) = 0;  // later work waits for the event; does not block the host
  virtual void host_callback(std::function<void()> function) = 0;  // must not call the device's API
  virtual void synchronize() = 0;                   // blocks; throws DeviceError, or what an emulated operation threw
  virtual void* native() const { return nullptr; }  // cudaStream_t on a GPU

 protected:
  // To begin every destructor with; one of a stream that works asynchronously ends by waiting for the work.
  void retire() noexcept;

 private:
  const uint64_t id_;
};

enum class StreamRole : uint8_t { compute, to_device, to_host };

class Engine;          // local/program/engine.h
class MemoryResource;  // local/memory/memory_resource.h

// What a device kind provides. One object per kind and process, made at first use.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceKind kind() const = 0;
  virtual int device_count() = 0;  // 0 where the kind cannot be used here
  virtual DeviceInfo info(int index) = 0;
  // Raw memory, for slabs only (slow, may synchronise). Throws OutOfMemory. On the CPU the pages are not touched.
  virtual void* allocate_slab(int index, int64_t bytes) = 0;
  virtual void free_slab(int index, void* data, int64_t bytes) noexcept = 0;
  // Host memory that copies to and from this device run asynchronously with.
  virtual void* allocate_pinned(int64_t bytes) = 0;
  virtual void free_pinned(void* data, int64_t bytes) noexcept = 0;
  virtual std::unique_ptr<DeviceStream> create_stream(int index, StreamRole role) = 0;
  virtual std::unique_ptr<DeviceEvent> create_event(int index) = 0;
  virtual std::unique_ptr<DeviceEvent> create_timer(int index) = 0;  // an event that knows when it was reached
  // For profilers that watch the process (local/device/range.h): named ranges of the calling thread, and the stretch of
  // the run that is to be recorded.
  virtual void push_range(const char*) {}
  virtual void pop_range() {}
  virtual void start_profiler() {}
  virtual void stop_profiler() {}
  virtual Engine& engine() = 0;
};

// Throws DeviceError, with the reason, where the kind cannot be used (no GPU, no driver, no libquarry_cuda beside
// libquarry_local).
Backend& backend(DeviceKind kind);
// Whether backend(kind) would succeed and has at least one device; never throws.
bool available(DeviceKind kind);

}  // namespace quarry::local
