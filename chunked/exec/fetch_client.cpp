#include "quarry/chunked/exec/fetch_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "quarry/chunked/exec/paths/paths.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/trace.h"

namespace quarry::exec {

FetchClient::FetchClient(const ServiceLink& link)
    : link_(link), on_device_(link.device.kind != local::DeviceKind::cpu), clients_(link.paths.size()) {
  if (link_.communicator.size() == 1) return;
  for (uint32_t row = 0; row < clients_.size(); ++row) {
    const Path& path = link_.paths.at(row);
    if (link_.paths.fills_own_memory(path)) clients_[row] = path.client(*this);
  }
}

FetchClient::~FetchClient() = default;

int64_t FetchClient::segment_size(const Fetch& fetch, int64_t segment) const {
  return std::min(link_.segment_bytes, fetch.bytes - segment * link_.segment_bytes);
}

void FetchClient::request(const Fetch& fetch, int64_t first, int64_t count) {
  Message message;
  message.kind = MessageKind::fetch;
  message.path = static_cast<uint16_t>(fetch.path->number());
  message.epoch = link_.epoch;
  message.request = {fetch.id, fetch.key, fetch.hyperslab, first, count};
  link_.communicator.post(fetch.owner, encode(message));
}

void FetchClient::post(const Fetch& fetch, MessageKind kind) {
  Message message;
  message.kind = kind;
  message.epoch = link_.epoch;
  message.request.fetch = fetch.id;
  link_.communicator.post(fetch.owner, encode(message));
}

std::unique_ptr<comm::Request> FetchClient::receive_segment(const Fetch& fetch, int64_t segment, void* to) {
  return link_.communicator.receive(to, segment_size(fetch, segment), fetch.owner, data_tag(link_.epoch, fetch.id));
}

void FetchClient::expect(Fetch& fetch, std::unique_ptr<comm::Request> receive) {
  fetch.receives.push_back(std::move(receive));
  fetch.receives.back()->notify(completed_receives_, fetch.id);
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
      fetch->run_bytes = runs.run_bytes();
      fetch->segments = link_.segments_of(fetch->bytes);
      fetch->path = &link_.paths.choose(owner, fetch->bytes, fetch->run_bytes);
      if (!failure_) client_of(*fetch).start(fetch);
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

FetchPtr FetchClient::find(int from, uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = fetches_.find(id);
  // One that has ended with its run's failure is unknown; its owner takes the block back by itself.
  return found == fetches_.end() || found->second->owner != from || failure_ ? nullptr : found->second;
}

FetchPtr FetchClient::find(uint32_t id) {
  const std::lock_guard lock(mutex_);
  return fetches_.at(id);
}

void FetchClient::count_arrived(Fetch& fetch, int64_t segments) {
  fetch.arrived += segments;
  arrived_segments_ += segments;
  link_.executor.note_arrival();
}

void FetchClient::set_error(const FetchPtr& fetch, const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  fetch->error = error;
  mark(fetch->id);
}

void FetchClient::fail(const FetchPtr& fetch, const std::exception_ptr& error) {
  set_error(fetch, error);
  link_.fail(error);
}

void FetchClient::receive_data(int from, uint32_t id, std::span<const std::byte> data) {
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
  fail(wrong, std::make_exception_ptr(local::CommError(
                  fmt::format("rank {} answers a fetch of {} bytes with {} bytes", from, wrong->bytes, data.size()))));
}

void FetchClient::reply(int from, const Message& message) {
  const FetchPtr fetch = find(from, message.request.fetch);
  if (!fetch) return;
  try {
    client_of(*fetch).reply(fetch, message);
  } catch (...) {
    fail(fetch, std::current_exception());
  }
}

void FetchClient::fall_back(int from, uint32_t id) {
  const FetchPtr fetch = find(from, id);
  if (!fetch) return;
  fetch->receives.clear();
  try {
    const std::lock_guard lock(mutex_);
    fetch->segments = link_.segments_of(fetch->bytes);
    fetch->path = &link_.paths.fallback(from, *fetch->path);
    client_of(*fetch).start(fetch);
  } catch (...) {
    fail(fetch, std::current_exception());
  }
}

void FetchClient::handle_decline(int from, uint32_t id) {
  FetchPtr fetch;
  {
    const std::lock_guard lock(mutex_);
    const auto found = fetches_.find(id);
    if (found == fetches_.end() || found->second->owner != from) return;
    fetch = found->second;
    if (!fetch->error) {
      fetch->error =
          failure_ ? failure_ : std::make_exception_ptr(local::Cancelled(fmt::format("rank {} gave up the run", from)));
    }
    mark(id);
  }
  // What was announced before has been matched by now and is waited for; the rest is withdrawn.
  fetch->receives.clear();
  client_of(*fetch).withdraw(fetch);
}

void FetchClient::fail_all(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  for (auto& [id, fetch] : fetches_) {
    if (!fetch->error) fetch->error = error;
    mark(id);
  }
  for (const auto& client : clients_) {
    if (client) client->fail();
  }
}

void FetchClient::examine(const FetchPtr& fetch) {
  const std::lock_guard lock(mutex_);
  mark(fetch->id);
}

bool FetchClient::is_outstanding(const Fetch& fetch) {
  return !fetch.receives.empty() || (fetch.path != nullptr && client_of(fetch).holds(fetch));
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
    local::trace(
        {fmt::format("fetch ({}, {})[{}] from rank {}", fetch->key.stage, fetch->key.part, fetch->key.chunk,
                     fetch->owner),
         "comm", fetch->begin_ns, local::trace_clock_ns(), fetch->bytes, -1, 0,
         fetch->path == nullptr ? "" : fmt::format("{} ({})", fetch->path->name(), fetch->path->link(fetch->owner))});
  }
  const auto done = std::move(fetch->done);
  done(complete ? nullptr : fetch->error);
  --open_;
}

void FetchClient::complete_receives(const FetchPtr& fetch) {
  while (!fetch->receives.empty() && !fetch->receives.front()->pending()) {
    try {
      fetch->receives.front()->done();
      count_arrived(*fetch, 1);
      fetch->receives.pop_front();
    } catch (...) {
      fetch->receives.clear();
      fail(fetch, std::current_exception());
    }
  }
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
                        open.fetches == 1 ? "" : "es", owner, key.stage, key.part, key.chunk,
                        static_cast<double>(local::trace_clock_ns() - open.first->begin_ns) * 1e-9);
  }
  return text;
}

// Those to which something happened: that a receive is over; empty ones and those that have failed.
bool FetchClient::finish_examined() {
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
    complete_receives(fetch);
    bool over = false;
    {
      const std::lock_guard lock(mutex_);
      over = fetch->arrived == fetch->segments || (fetch->error && !is_outstanding(*fetch));
    }
    if (over) finish(fetch);
  }
  return moved;
}

bool FetchClient::must_be_polled() const {
  return open_ > 0 && std::ranges::any_of(clients_, [](const auto& each) { return each && each->must_be_polled(); });
}

bool FetchClient::poll() {
  if (open_ == 0) return false;
  bool moved = false;
  for (const auto& client : clients_) {
    if (client) moved |= client->poll();
  }
  moved |= finish_examined();
  return moved;
}

}  // namespace quarry::exec
