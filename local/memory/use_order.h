// The order of the uses of one piece of memory on several streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "quarry/local/device/device.h"

namespace quarry::local::detail {

// Work that writes runs after all earlier uses, work that reads after the last write. Another stream is ordered by an
// event, which it waits for and the host does not; reads of several streams do not wait for one another. As long as
// all uses are on one stream they cost a comparison. Streams may be destroyed meanwhile: their work is done then.
//
// The event is recorded when the stream changes, not at every use, so that it may cover later work of the first
// stream too. Thread-safe, as far as the uses themselves are: a write is not called beside another use.
class UseOrder {
 public:
  // Null: the memory is idle.
  explicit UseOrder(DeviceStream* first = nullptr) {
    if (first != nullptr) set_only(first->life());
  }
  UseOrder(const UseOrder&) = delete;
  UseOrder& operator=(const UseOrder&) = delete;

  // True: all uses since the last write were on this stream, and one more needs no order.
  bool only_on(const DeviceStream& stream) const { return only_.load(std::memory_order_acquire) == stream.id(); }
  // Before work is queued on the stream: makes it wait for what has to run before.
  void read(DeviceStream& stream);
  void write(DeviceStream& stream);
  // Makes the stream wait for all uses, without becoming one.
  void order_before(DeviceStream& stream);
  // As order_before(), for the host. Throws what failed on a stream.
  void synchronize();
  // The stream of the last use, which then waits for the others; none where all are done. For memory that nobody uses
  // any more.
  StreamPin last() noexcept;

 private:
  void set_only(std::shared_ptr<StreamLife> life) {
    only_.store(life->id(), std::memory_order_release);
    last_ = std::move(life);
  }
  // Of all uses since the last write, the writer's among them.
  std::vector<std::shared_ptr<StreamLife>> uses() const;

  std::atomic<uint64_t> only_ = 0;  // the stream of all uses since the last write; 0: none or several
  mutable std::mutex mutex_;
  std::shared_ptr<StreamLife> last_;  // the writer's
  // Where other streams have read since:
  std::shared_ptr<DeviceEvent> written_;              // comes after the write; null: that is done
  std::vector<std::shared_ptr<StreamLife>> readers_;  // and the writer, which may have read too
};

}  // namespace quarry::local::detail
