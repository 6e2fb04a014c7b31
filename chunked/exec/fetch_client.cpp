#include "quarry/chunked/exec/fetch_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "quarry/local/base/log.h"
#include "quarry/local/base/trace.h"

namespace quarry::exec {

FetchClient::FetchClient(const ServiceLink& link)
    : link_(link), on_device_(link.device.kind != local::DeviceKind::cpu) {
  if (!on_device_ || link_.communicator.size() == 1) return;
  local::Backend& backend = local::backend(link_.device.kind);
  stream_ = backend.create_stream(link_.device.index, local::StreamRole::to_device);
  wake_stream_ = backend.create_stream(link_.device.index, local::StreamRole::to_device);
  if (link_.peers != nullptr) {
    reads_ = std::make_unique<PeerReads>(link_.device, link_.communicator.size(),
                                         [&communicator = link_.communicator] { communicator.wake(); });
  }
  for (int i = 0; i < kBuffers; ++i) {
    bounces_.push_back({std::make_unique<local::Buffer>(link_.segment_bytes, link_.executor.staging(), nullptr),
                        backend.create_event(link_.device.index), nullptr, 0, nullptr});
  }
}

FetchClient::~FetchClient() {
  if (!stream_) return;
  try {
    stream_->synchronize();  // before the bounce buffers go
    wake_stream_->synchronize();
  } catch (const std::exception& error) {
    local::log(local::LogLevel::debug, error.what());
  }
}

void FetchClient::wake_after(local::Event& event) {
  wake_stream_->wait(event);
  wake_stream_->host_callback([&communicator = link_.communicator] { communicator.wake(); });
}

int64_t FetchClient::segments_of(int64_t bytes) const {
  return (bytes + link_.segment_bytes - 1) / link_.segment_bytes;
}

int64_t FetchClient::segment_size(const Fetch& fetch, int64_t segment) const {
  return std::min(link_.segment_bytes, fetch.bytes - segment * link_.segment_bytes);
}

void FetchClient::request_segments(const Fetch& fetch, int64_t first, int64_t count) {
  Message message;
  message.kind = MessageKind::request;
  message.epoch = link_.epoch;
  message.request = {fetch.id, fetch.key, fetch.hyperslab, first, count};
  link_.communicator.post(fetch.owner, encode(message));
}

void FetchClient::fetch(int owner, const BlockKey& key, const Hyperslab& hyperslab, void* to,
                        std::function<void(std::exception_ptr)> done) {
  const auto fetch = std::make_shared<Fetch>();
  fetch->owner = owner;
  fetch->key = key;
  fetch->hyperslab = hyperslab;
  fetch->to = static_cast<std::byte*>(to);
  fetch->done = std::move(done);
  fetch->begin_ns = local::trace_clock_ns();
  ++open_;
  std::exception_ptr own_error;
  bool wake = on_device_;
  {
    // Held to the end: the thread that makes progress must not see half a fetch.
    const std::lock_guard lock(mutex_);
    fetch->id = next_id_++;
    fetch->error = failure_;
    fetches_[fetch->id] = fetch;
    try {
      const HyperslabRuns runs(hyperslab);
      fetch->bytes = runs.bytes();
      fetch->segments = segments_of(fetch->bytes);
      if (!failure_) start(fetch);
    } catch (...) {
      own_error = fetch->error = std::current_exception();
      fetch->segments = -1;     // never complete
      fetch->receives.clear();  // the owner never heard of it
    }
    // An answer announces itself.
    if (fetch->error || fetch->segments == 0) {
      mark(fetch->id);
      wake = true;
    }
  }
  if (own_error) link_.fail(own_error);
  if (wake) link_.communicator.wake();
}

void FetchClient::mark(uint32_t fetch) {
  marked_.push_back(fetch);
  any_marked_ = true;
}

void FetchClient::start(const FetchPtr& fetch) {
  if (reads_ && fetch->segments > 0 && link_.peers->peer(fetch->owner).base != nullptr) {
    post_request(*fetch, MessageKind::lease);
    return;
  }
  if (on_device_ && fetch->bytes >= kLeastDeviceMessage && link_.peers != nullptr &&
      link_.peers->peer(fetch->owner).messages && fetch->bytes == HyperslabRuns(fetch->hyperslab).run_bytes()) {
    fetch->receives.push_back(link_.communicator.receive_device(link_.device.kind, fetch->to, fetch->bytes,
                                                                fetch->owner, data_tag(link_.epoch, fetch->id)));
    fetch->receives.back()->notify(completed_receives_, fetch->id);
    fetch->segments = 1;
    post_request(*fetch, MessageKind::device);
    return;
  }
  if (on_device_ && fetch->segments > 0) {
    waiting_.push_back(fetch);
    return;
  }
  if (!on_device_ && fetch->segments == 1 && fetch->bytes <= kMostEager) {
    post_request(*fetch, MessageKind::eager);
    return;
  }
  for (int64_t segment = 0; segment < fetch->segments; ++segment) {
    fetch->receives.push_back(link_.communicator.receive(fetch->to + segment * link_.segment_bytes,
                                                         segment_size(*fetch, segment), fetch->owner,
                                                         data_tag(link_.epoch, fetch->id)));
    fetch->receives.back()->notify(completed_receives_, fetch->id);
  }
  request_segments(*fetch, 0, fetch->segments);
}

void FetchClient::post_request(const Fetch& fetch, MessageKind kind) {
  Message message;
  message.kind = kind;
  message.epoch = link_.epoch;
  message.request.fetch = fetch.id;
  message.request.key = fetch.key;
  message.request.hyperslab = fetch.hyperslab;
  link_.communicator.post(fetch.owner, encode(message));
}

FetchClient::FetchPtr FetchClient::find(int from, uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = fetches_.find(id);
  // One that has ended with its run's failure is unknown; its owner takes the block back by itself.
  return found == fetches_.end() || found->second->owner != from || failure_ ? nullptr : found->second;
}

void FetchClient::set_error(const FetchPtr& fetch, const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  fetch->error = error;
  mark(fetch->id);
}

void FetchClient::fail_fetch(const FetchPtr& fetch, const std::exception_ptr& error) {
  set_error(fetch, error);
  link_.fail(error);
}

void FetchClient::eager_data(int from, uint32_t id, std::span<const std::byte> data) {
  FetchPtr wrong;
  {
    // Held to the end: a fetch that ends with an error gives its memory back.
    const std::lock_guard lock(mutex_);
    const auto found = fetches_.find(id);
    if (found == fetches_.end() || found->second->owner != from || found->second->error) return;
    Fetch& fetch = *found->second;
    if (fetch.bytes == static_cast<int64_t>(data.size()) && fetch.segments == 1) {
      std::memcpy(fetch.to, data.data(), data.size());
      fetch.arrived = 1;
      ++arrived_segments_;
      mark(id);
      return;
    }
    wrong = found->second;
  }
  fail_fetch(wrong, std::make_exception_ptr(local::CommError(fmt::format(
                        "rank {} answers a fetch of {} bytes with {} bytes", from, wrong->bytes, data.size()))));
}

void FetchClient::rdma_ready(int from, uint32_t id, int64_t offset) {
  const FetchPtr fetch = find(from, id);
  if (!fetch) return;
  try {
    const comm::PeerMemory::Peer& peer = link_.peers->peer(from);
    if (offset < 0 || offset > peer.bytes - HyperslabRuns(fetch->hyperslab).block_bytes()) {
      throw local::CommError(fmt::format("rank {} rdma_ready a block outside its memory", from));
    }
    reads_->add(id, from, fetch->hyperslab, peer.base + offset, fetch->to);
  } catch (...) {
    fail_fetch(fetch, std::current_exception());
  }
}

void FetchClient::not_on_device(int from, uint32_t id) {
  const FetchPtr fetch = find(from, id);
  if (!fetch) return;
  fetch->receives.clear();
  const std::lock_guard lock(mutex_);
  fetch->segments = segments_of(fetch->bytes);
  waiting_.push_back(fetch);
}

bool FetchClient::poll_reads() {
  if (!reads_) return false;
  return reads_->poll([this](uint32_t id, const std::exception_ptr& error) {
    FetchPtr fetch;
    {
      const std::lock_guard lock(mutex_);
      fetch = fetches_.at(id);  // there until nothing is outstanding
    }
    if (error) {
      fail_fetch(fetch, error);
      return;
    }
    fetch->arrived = fetch->segments;
    arrived_segments_ += fetch->segments;
    post_request(*fetch, MessageKind::rdma_done);
    finish(fetch);
  });
}

void FetchClient::declined(int from, uint32_t id) {
  FetchPtr fetch;
  {
    const std::lock_guard lock(mutex_);
    const auto found = fetches_.find(id);
    if (found == fetches_.end() || found->second->owner != from) return;
    fetch = found->second;
    fetch->declined = true;
    if (!fetch->error) {
      fetch->error =
          failure_ ? failure_ : std::make_exception_ptr(local::Cancelled(fmt::format("rank {} gave up the run", from)));
    }
    mark(id);
  }
  // What was announced before has been matched by now and is waited for; the rest is withdrawn.
  fetch->receives.clear();
  for (Bounce& bounce : bounces_) {
    if (bounce.fetch == fetch && bounce.receive) {
      bounce.receive.reset();
      bounce.fetch.reset();
    }
  }
}

void FetchClient::fail_all(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  for (auto& [id, fetch] : fetches_) {
    if (!fetch->error) fetch->error = error;
    mark(id);
  }
  waiting_.clear();
}

void FetchClient::mark_now(const FetchPtr& fetch) {
  const std::lock_guard lock(mutex_);
  mark(fetch->id);
}

bool FetchClient::outstanding(const FetchPtr& fetch) const {
  const auto of_fetch = [&](const auto& part) { return part.fetch == fetch; };
  return !fetch->receives.empty() || std::ranges::any_of(bounces_, of_fetch) || (reads_ && reads_->holds(fetch->id));
}

void FetchClient::finish(const FetchPtr& fetch) {
  // A fetch whose last byte came counts as done even if the run has failed since.
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    fetches_.erase(fetch->id);
    complete = fetch->arrived == fetch->segments;
  }
  if (local::tracing()) {
    local::trace({fmt::format("fetch ({}, {})[{}] from rank {}", fetch->key.stage, fetch->key.part, fetch->key.chunk,
                              fetch->owner),
                  "comm", fetch->begin_ns, local::trace_clock_ns(), fetch->bytes, -1, 0,
                  link_.communicator.transport()});
  }
  const auto done = std::move(fetch->done);
  done(complete ? nullptr : fetch->error);
  --open_;
}

void FetchClient::poll_host(const FetchPtr& fetch) {
  while (!fetch->receives.empty() && !fetch->receives.front()->pending()) {
    try {
      fetch->receives.front()->done();
      ++fetch->arrived;
      ++arrived_segments_;
      fetch->receives.pop_front();
    } catch (...) {
      set_error(fetch, std::current_exception());
      fetch->receives.clear();
      link_.fail(fetch->error);
    }
  }
}

bool FetchClient::poll_bounces() {
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
                      segment_size(*fetch, bounce.segment));
        stream_->record(*bounce.copied);
        wake_after(*bounce.copied);
        continue;
      }
      if (!bounce.copied->done()) continue;
      moved = true;
      bounce.copied->synchronize();  // throws what the copy threw
      ++fetch->arrived;
      ++arrived_segments_;
    } catch (...) {
      set_error(fetch, std::current_exception());
      bounce.receive.reset();
      link_.fail(fetch->error);
    }
    bounce.fetch.reset();
    mark_now(fetch);
  }
  return moved;
}

// Gives free bounce buffers to the segments that wait, in the order of their fetches.
bool FetchClient::start_segments() {
  bool moved = false;
  for (Bounce& bounce : bounces_) {
    if (bounce.fetch) continue;
    FetchPtr fetch;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return moved;
      fetch = waiting_.front();
      bounce.segment = fetch->requested++;
      if (fetch->requested == fetch->segments) waiting_.pop_front();
    }
    try {
      bounce.fetch = fetch;
      bounce.receive = link_.communicator.receive(bounce.memory->data(), segment_size(*fetch, bounce.segment),
                                                  fetch->owner, data_tag(link_.epoch, fetch->id));
      request_segments(*fetch, bounce.segment, 1);
      moved = true;
    } catch (...) {
      set_error(fetch, std::current_exception());
      bounce.receive.reset();
      bounce.fetch.reset();
      link_.fail(fetch->error);
    }
  }
  return moved;
}

std::string FetchClient::describe() {
  struct Open {
    int64_t fetches = 0;
    const Fetch* first = nullptr;
  };
  std::map<int, Open> owners;
  std::string text;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, fetch] : fetches_) {
    Open& open = owners[fetch->owner];
    if (open.fetches++ == 0) open.first = fetch.get();
  }
  for (const auto& [owner, open] : owners) {
    const BlockKey& key = open.first->key;
    text += fmt::format("{} fetch{} from rank {}, the first of block ({}, {})[{}] for {:.3g} s\n", open.fetches,
                        open.fetches == 1 ? "" : "s", owner, key.stage, key.part, key.chunk,
                        static_cast<double>(local::trace_clock_ns() - open.first->begin_ns) * 1e-9);
  }
  return text;
}

// Those to which something happened: on the CPU that a segment arrived; empty ones and those that have failed.
bool FetchClient::finish_others() {
  examined_.clear();
  completed_receives_->drain(examined_);
  if (any_marked_) {
    const std::lock_guard lock(mutex_);
    examined_.insert(examined_.end(), marked_.begin(), marked_.end());
    marked_.clear();
    any_marked_ = false;
  }
  bool moved = false;
  for (const uint64_t id : examined_) {
    FetchPtr fetch;
    {
      const std::lock_guard lock(mutex_);
      const auto found = fetches_.find(static_cast<uint32_t>(id));
      if (found == fetches_.end()) continue;  // over already
      fetch = found->second;
    }
    moved = true;
    poll_host(fetch);
    bool over = false;
    {
      const std::lock_guard lock(mutex_);
      over = fetch->arrived == fetch->segments || (fetch->error && !outstanding(fetch));
    }
    if (over) finish(fetch);
  }
  return moved;
}

bool FetchClient::poll() {
  if (open_ == 0) return false;
  bool moved = poll_bounces();
  moved |= poll_reads();
  moved |= finish_others();
  moved |= start_segments();
  return moved;
}

}  // namespace quarry::exec
