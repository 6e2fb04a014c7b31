// Streams and events of devices, and the backend that a device kind plugs in.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "quarry/local/base/detail.h"
#include "quarry/local/device/kind.h"

namespace quarry::local {

class Engine;          // local/program/engine.h
class MemoryResource;  // local/memory/memory_resource.h

namespace detail {

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

class DeviceStream;
class CaptureLog;  // local/memory/buffer.h

// Says whether a stream is still there, and lives as long as anyone asks.
class StreamLife {
 public:
  StreamLife(DeviceStream& stream, uint64_t id) : stream_(&stream), id_(id) {}
  uint64_t id() const { return id_; }

 private:
  friend class DeviceStream;
  friend class StreamPin;
  DeviceStream* const stream_;
  const uint64_t id_;
  std::atomic<int> pins_ = 0;
  std::atomic<bool> gone_ = false;
};

// Keeps a stream from being destroyed: its destructor waits for the pins, so one is held for some calls at most.
class StreamPin {
 public:
  StreamPin() = default;
  explicit StreamPin(std::shared_ptr<StreamLife> life);
  StreamPin(StreamPin&&) noexcept = default;
  StreamPin& operator=(StreamPin&& other) noexcept {
    std::swap(life_, other.life_);
    return *this;
  }
  ~StreamPin();
  // Null where the stream is gone, and its work done.
  DeviceStream* get() const { return life_ ? life_->stream_ : nullptr; }

 private:
  std::shared_ptr<StreamLife> life_;
};

// What a stream's capture recorded.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Queues the recorded work. The stream is one of the same device.
  virtual void launch(DeviceStream& stream) = 0;
};

// An in-order queue of work on one device. The CPU's stream runs everything at once, in the calling thread. Not
// thread-safe, except host_callback's callee.
class DeviceStream : public std::enable_shared_from_this<DeviceStream> {
 public:
  DeviceStream();
  virtual ~DeviceStream() { retire(); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  // Of this process, never given twice.
  uint64_t id() const { return life_->id(); }
  const std::shared_ptr<StreamLife>& life() const { return life_; }
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

  // From here on work is recorded, not run, until end_capture(). Throws NotSupported where the device has no graphs.
  virtual void begin_capture();
  virtual std::unique_ptr<DeviceGraph> end_capture();
  // Who is told of the memory that captured work uses; null while nothing is captured.
  CaptureLog* capture_log() const { return capture_log_; }
  void set_capture_log(CaptureLog* log) { capture_log_ = log; }

 protected:
  // For every destructor, after the stream's work is done: until then others may wait for it.
  void retire() noexcept;

 private:
  const std::shared_ptr<StreamLife> life_;
  CaptureLog* capture_log_ = nullptr;
};

// Whether the calling thread captures a graph now.
bool capturing();
// Throws InvalidArgument if so: "`what` inside the capture of a graph: `why`".
void refuse_in_capture(std::string_view what, std::string_view why);
// The same where memory would have to be taken from the driver.
void refuse_slab_in_capture(int64_t bytes);
// Makes capturing() true in the calling thread.
class CaptureMark {
 public:
  CaptureMark();
  ~CaptureMark();
  CaptureMark(const CaptureMark&) = delete;
  CaptureMark& operator=(const CaptureMark&) = delete;
};

// An event recorded on the stream; null where the stream is gone. The event goes back to a store with its last holder.
std::shared_ptr<DeviceEvent> record_event(const std::shared_ptr<StreamLife>& life);

enum class StreamRole : uint8_t { compute, to_device, to_host };

// What a device kind provides. One object per kind and process, made at first use.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceKind kind() const = 0;
  virtual int device_count() = 0;  // 0 where the kind cannot be used here
  virtual DeviceInfo info(int index) = 0;
  // The same but for free_bytes, which may take tens of milliseconds to find out for the first time.
  virtual DeviceInfo identity(int index) { return info(index); }
  // Makes what all work on the device needs, a GPU's context: half a gigabyte. Then info() can ask the device itself.
  virtual void open(int /*index*/) {}
  // Raw memory, for slabs only (slow, may synchronise). Throws OutOfMemory. On the CPU the pages are not touched.
  virtual void* allocate_slab(int index, int64_t bytes) = 0;
  virtual void free_slab(int index, void* data, int64_t bytes) noexcept = 0;
  // Host memory that copies to and from this device run asynchronously with.
  virtual void* allocate_pinned(int64_t bytes) = 0;
  virtual void free_pinned(void* data, int64_t bytes) noexcept = 0;
  virtual std::unique_ptr<DeviceStream> create_stream(int index, StreamRole role) = 0;
  // A compute stream of the user's. The priority is one of stream_priorities().
  virtual std::unique_ptr<DeviceStream> create_stream_of_priority(int index, int priority);
  // A stream that was made elsewhere, and that lives longer than the result. Throws NotSupported.
  virtual std::unique_ptr<DeviceStream> wrap_stream(int index, void* native);
  // The least, which is 0, and the greatest: as CUDA counts, work of lower numbers goes first.
  virtual std::pair<int, int> stream_priorities(int /*index*/) { return {0, 0}; }
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

}  // namespace detail
}  // namespace quarry::local
