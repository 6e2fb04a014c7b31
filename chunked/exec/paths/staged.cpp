// Any hyperslab to device memory: a segment is asked for when a buffer in pinned memory is free for it, and copied from
// there on a stream of the path's own.
#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "quarry/chunked/exec/paths/segment_path.h"
#include "quarry/local/base/log.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::exec {
namespace {

class StagedClient final : public PathClient {
 public:
  StagedClient(FetchClient& client, const PathRow& row) : client_(client), link_(client.link()) {
    local::Backend& backend = local::backend(link_.device.kind);
    stream_ = backend.create_stream(link_.device.index, local::StreamRole::to_device);
    wake_stream_ = backend.create_stream(link_.device.index, local::StreamRole::to_device);
    for (int i = 0; i < row.buffers; ++i) {
      bounces_.push_back({std::make_unique<local::Buffer>(link_.segment_bytes, link_.executor.staging(), nullptr),
                          backend.create_event(link_.device.index), nullptr, 0, nullptr});
    }
  }
  ~StagedClient() override {
    try {
      stream_->synchronize();  // before the bounce buffers go
      wake_stream_->synchronize();
    } catch (const std::exception& error) {
      local::log(local::LogLevel::debug, error.what());
    }
  }

  void start(const FetchPtr& fetch) override {
    if (fetch->segments == 0) {
      client_.request(*fetch, 0, 0);
    } else {
      waiting_.push_back(fetch);
    }
  }

  bool poll() override {
    bool moved = poll_bounces();
    moved |= start_segments();
    return moved;
  }

  bool holds(const Fetch& fetch) const override {
    return std::ranges::any_of(bounces_, [&](const Bounce& bounce) { return bounce.fetch.get() == &fetch; });
  }

  void withdraw(const FetchPtr& fetch) override {
    for (Bounce& bounce : bounces_) {
      if (bounce.fetch == fetch && bounce.receive) {
        bounce.receive.reset();
        bounce.fetch.reset();
      }
    }
  }

  void fail() override { waiting_.clear(); }

 private:
  struct Bounce {  // one segment on its way
    std::unique_ptr<local::Buffer> memory;
    std::unique_ptr<local::DeviceEvent> copied;
    FetchPtr fetch;  // null: free
    int64_t segment = 0;
    std::unique_ptr<comm::Request> receive;  // null: being copied
  };

  bool poll_bounces() {
    bool moved = false;
    for (Bounce& bounce : bounces_) {
      if (!bounce.fetch) continue;
      const FetchPtr fetch = bounce.fetch;
      try {
        if (bounce.receive) {
          if (bounce.receive->pending()) continue;
          moved = true;
          bounce.receive->done();
          bounce.receive.reset();
          stream_->copy(fetch->to + bounce.segment * link_.segment_bytes, bounce.memory->data(),
                        client_.segment_size(*fetch, bounce.segment));
          stream_->record(*bounce.copied);
          wake_after(*bounce.copied);
          continue;
        }
        if (!bounce.copied->done()) continue;
        moved = true;
        bounce.copied->synchronize();  // throws what the copy threw
        client_.count_arrived(*fetch, 1);
      } catch (...) {
        bounce.receive.reset();
        client_.fail(fetch, std::current_exception());
      }
      bounce.fetch.reset();
      client_.examine(fetch);
    }
    return moved;
  }

  // Gives free buffers to the segments that wait, in the order of their fetches.
  bool start_segments() {
    bool moved = false;
    for (Bounce& bounce : bounces_) {
      if (bounce.fetch) continue;
      FetchPtr fetch;
      {
        const std::lock_guard lock(client_.mutex());
        if (waiting_.empty()) return moved;
        fetch = waiting_.front();
        bounce.segment = fetch->requested++;
        if (fetch->requested == fetch->segments) waiting_.pop_front();
      }
      try {
        bounce.fetch = fetch;
        bounce.receive = client_.receive_segment(*fetch, bounce.segment, bounce.memory->data());
        client_.request(*fetch, bounce.segment, /*count=*/1);
        moved = true;
      } catch (...) {
        bounce.receive.reset();
        bounce.fetch.reset();
        client_.fail(fetch, std::current_exception());
      }
    }
    return moved;
  }

  // Wakes the service's thread once the event is reached.
  void wake_after(local::DeviceEvent& event) {
    wake_stream_->wait(event);
    wake_stream_->host_callback([&communicator = link_.communicator] { communicator.wake(); });
  }

  FetchClient& client_;
  const ServiceLink& link_;
  std::unique_ptr<local::DeviceStream> stream_;
  std::unique_ptr<local::DeviceStream>
      wake_stream_;  // calls back to the host, which would hold up the copies behind them
  std::vector<Bounce> bounces_;
  std::deque<FetchPtr> waiting_;  // with segments to ask for; under the client's lock
};

}  // namespace

std::unique_ptr<Path> make_staged(const PathRow& row, comm::Communicator& communicator, local::Device /*device*/) {
  return std::make_unique<SegmentPath<StagedClient>>(row, communicator);
}

}  // namespace quarry::exec
