// Streams, events and graphs: in what order the work of devices runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "quarry/local/memory/exec_context.h"

namespace quarry::local {
namespace detail {
class DeviceEvent;  // local/device/device.h
}

class Event;
class Graph;

// A queue of work of one device. Work on one stream runs in order, work on two of them in any order, but for arrays:
// a function that uses an array makes its stream wait for work on others that has to come first, so that results are
// those of one stream. The host is never blocked by that. On the CPU work is done when a function returns.
//
// A handle: copies are the same stream. The last one waits for the stream's work. Arrays may live longer. To be used by
// one thread at a time.
//
//   const ql::Stream side(x.device());
//   ql::NdArray y;
//   {
//     const ql::StreamScope scope(side);
//     y = ql::exp(x);  // on `side`
//   }
//   z = y + 1;  // on the thread's own stream, which waits for `side`
class Stream {
 public:
  // Work of streams with a lower number goes first where the device has a choice; 0 is the least urgent. Throws
  // InvalidArgument for a number outside of priorities(), DeviceError where the device cannot be used.
  explicit Stream(Device device = current_device(), int priority = 0);
  // The one that the calling thread's work goes to.
  static Stream current();
  // A cudaStream_t that was made elsewhere, also cudaStreamLegacy or cudaStreamPerThread, and that has to live as long
  // as the handles. The last handle waits for quarry's work only. Throws InvalidArgument for a stream of another
  // device, NotSupported on the CPU.
  static Stream wrap(Device device, void* native);
  // The least urgent number, 0, and the most urgent one, which is below or the same.
  static std::pair<int, int> priorities(Device device = current_device());

  Device device() const;
  void* native() const;  // the cudaStream_t; null on the CPU
  // Blocks until what is queued is done. Throws what failed there.
  void synchronize() const;
  // An event after what is queued now.
  Event record() const;
  // Later work waits for the event, or for what is queued on the other stream now. Does not block, unless the two are
  // of different kinds of device.
  void wait(const Event& event) const;
  void wait(const Stream& other) const;

  // Calls the function once, without running what it queues on this device, and returns that work as a graph. What the
  // function does on the host happens, and work on arrays of the CPU runs. Arrays that it makes have their values after
  // a launch. Their memory, scratch and the arrays that are read stay reserved for the graph.
  //
  // What would block the host (item(), to(), nonzero()) or take memory from the driver throws InvalidArgument that says
  // so: call the function once before, so that kernels are compiled and the pool has the memory. The same is thrown for
  // a capture inside the function and for work on other streams. If the function throws there is no graph, and the
  // stream is as before. Throws NotSupported on the CPU, which queues nothing.
  Graph capture(const std::function<void()>& function) const;

  // Work goes here, and memory comes from the current context or the device's default pool.
  ExecContext context() const;
  const std::shared_ptr<detail::DeviceStream>& handle() const { return stream_; }
  friend bool operator==(const Stream& a, const Stream& b) {
    return a.device() == b.device() && a.native() == b.native();
  }

 private:
  explicit Stream(std::shared_ptr<detail::DeviceStream> stream) : stream_(std::move(stream)) {}
  std::shared_ptr<detail::DeviceStream> stream_;
};

// Functions of the calling thread queue on the stream for the lifetime of the scope, on whose device new arrays live.
class StreamScope {
 public:
  explicit StreamScope(const Stream& stream) : stream_(stream), scope_(stream.context()) {}

 private:
  const Stream stream_;
  const DeviceScope scope_;
};

// A point in the work of a stream, and the time when it was reached. A handle: copies are the same event.
class Event {
 public:
  // Throws DeviceError where the device cannot be used.
  explicit Event(Device device = current_device());
  // Moves it behind what is queued on the stream now. Throws InvalidArgument for a stream of another device, and inside
  // a capture.
  void record(const Stream& stream = Stream::current());
  Device device() const { return device_; }
  bool done() const;         // true too if never recorded
  void synchronize() const;  // blocks until the point is reached; throws what failed before it
  // Milliseconds on the device's clock from `earlier` to this event. Throws InvalidArgument unless both were recorded
  // and reached, on one device.
  double elapsed_ms(const Event& earlier) const;

 private:
  friend class Stream;
  Device device_;
  std::shared_ptr<detail::DeviceEvent> event_;
};

// Work that Stream::capture() recorded. A handle; the last one blocks until launches are done.
class Graph {
 public:
  // Queues the work on a stream of the graph's device. It reads and writes the arrays of the capture, in whose order
  // with other work it takes part like any function. Does not block. Throws InvalidArgument for another device and
  // inside a capture.
  void launch(const Stream& stream = Stream::current()) const;
  Device device() const;
  int64_t reserved_bytes() const;  // of the graph's own memory: results and scratch

 private:
  friend class Stream;
  struct State;
  explicit Graph(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace quarry::local
