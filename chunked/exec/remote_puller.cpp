#include "quarry/chunked/exec/remote_puller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "quarry/local/base/log.h"
#include "quarry/local/base/trace.h"

namespace quarry::exec {

RemotePuller::RemotePuller(const ServiceLink& link)
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
    bounces_.push_back({std::make_unique<local::Buffer>(link_.piece_bytes, link_.executor.staging(), nullptr),
                        backend.create_event(link_.device.index), nullptr, 0, nullptr});
  }
}

RemotePuller::~RemotePuller() {
  if (!stream_) return;
  try {
    stream_->synchronize();  // before the bounce buffers go
    wake_stream_->synchronize();
  } catch (const std::exception& error) {
    local::log(local::LogLevel::debug, error.what());
  }
}

void RemotePuller::wake_after(local::Event& event) {
  wake_stream_->wait(event);
  wake_stream_->host_callback([&communicator = link_.communicator] { communicator.wake(); });
}

int64_t RemotePuller::pieces_of(int64_t bytes) const { return (bytes + link_.piece_bytes - 1) / link_.piece_bytes; }

int64_t RemotePuller::piece_size(const Pull& pull, int64_t piece) const {
  return std::min(link_.piece_bytes, pull.bytes - piece * link_.piece_bytes);
}

void RemotePuller::ask(const Pull& pull, int64_t first, int64_t count) {
  Message message;
  message.kind = MessageKind::request;
  message.epoch = link_.epoch;
  message.request = {pull.id, pull.key, pull.box, first, count};
  link_.communicator.post(pull.owner, encode(message));
}

void RemotePuller::pull(int owner, const BlockKey& key, const BlockBox& box, void* to,
                        std::function<void(std::exception_ptr)> done) {
  const auto pull = std::make_shared<Pull>();
  pull->owner = owner;
  pull->key = key;
  pull->box = box;
  pull->to = static_cast<std::byte*>(to);
  pull->done = std::move(done);
  pull->begin_ns = local::trace_clock_ns();
  ++open_;
  std::exception_ptr own_error;
  bool wake = on_device_;
  {
    // Held to the end: who drives the service must not see half a pull.
    const std::lock_guard lock(mutex_);
    pull->id = next_id_++;
    pull->error = failure_;
    pulls_[pull->id] = pull;
    try {
      const BoxRuns runs(box);
      pull->bytes = runs.bytes();
      pull->pieces = pieces_of(pull->bytes);
      if (!failure_) start(pull);
    } catch (...) {
      own_error = pull->error = std::current_exception();
      pull->pieces = -1;       // never complete
      pull->receives.clear();  // the owner never heard of it
    }
    // An answer announces itself.
    if (pull->error || pull->pieces == 0) {
      look_at(pull->id);
      wake = true;
    }
  }
  if (own_error) link_.fail(own_error);
  if (wake) link_.communicator.wake();
}

void RemotePuller::look_at(uint32_t pull) {
  to_look_.push_back(pull);
  any_look_ = true;
}

void RemotePuller::start(const PullPtr& pull) {
  if (reads_ && pull->pieces > 0 && link_.peers->peer(pull->owner).base != nullptr) {
    tell(*pull, MessageKind::lease);
    return;
  }
  if (on_device_ && pull->bytes >= kLeastDirect && link_.peers != nullptr && link_.peers->peer(pull->owner).messages &&
      pull->bytes == BoxRuns(pull->box).run_bytes()) {
    pull->receives.push_back(link_.communicator.receive_device(link_.device.kind, pull->to, pull->bytes, pull->owner,
                                                               data_tag(link_.epoch, pull->id)));
    pull->receives.back()->notify(completed_receives_, pull->id);
    pull->pieces = 1;
    tell(*pull, MessageKind::direct);
    return;
  }
  if (on_device_ && pull->pieces > 0) {
    waiting_.push_back(pull);
    return;
  }
  if (!on_device_ && pull->pieces == 1 && pull->bytes <= kMostFetched) {
    tell(*pull, MessageKind::fetch);
    return;
  }
  for (int64_t piece = 0; piece < pull->pieces; ++piece) {
    pull->receives.push_back(link_.communicator.receive(pull->to + piece * link_.piece_bytes, piece_size(*pull, piece),
                                                        pull->owner, data_tag(link_.epoch, pull->id)));
    pull->receives.back()->notify(completed_receives_, pull->id);
  }
  ask(*pull, 0, pull->pieces);
}

void RemotePuller::tell(const Pull& pull, MessageKind kind) {
  Message message;
  message.kind = kind;
  message.epoch = link_.epoch;
  message.request.pull = pull.id;
  message.request.key = pull.key;
  message.request.box = pull.box;
  link_.communicator.post(pull.owner, encode(message));
}

RemotePuller::PullPtr RemotePuller::find(int from, uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = pulls_.find(id);
  // One that has ended with its run's failure is unknown; its owner takes the block back by itself.
  return found == pulls_.end() || found->second->owner != from || failure_ ? nullptr : found->second;
}

void RemotePuller::set_error(const PullPtr& pull, const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  pull->error = error;
  look_at(pull->id);
}

void RemotePuller::fail_pull(const PullPtr& pull, const std::exception_ptr& error) {
  set_error(pull, error);
  link_.fail(error);
}

void RemotePuller::fetched(int from, uint32_t id, std::span<const std::byte> data) {
  PullPtr wrong;
  {
    // Held to the end: a pull that ends with an error gives its memory back.
    const std::lock_guard lock(mutex_);
    const auto found = pulls_.find(id);
    if (found == pulls_.end() || found->second->owner != from || found->second->error) return;
    Pull& pull = *found->second;
    if (pull.bytes == static_cast<int64_t>(data.size()) && pull.pieces == 1) {
      std::memcpy(pull.to, data.data(), data.size());
      pull.arrived = 1;
      ++arrived_pieces_;
      look_at(id);
      return;
    }
    wrong = found->second;
  }
  fail_pull(wrong, std::make_exception_ptr(local::CommError(fmt::format(
                       "rank {} answers a pull of {} bytes with {} bytes", from, wrong->bytes, data.size()))));
}

void RemotePuller::leased(int from, uint32_t id, int64_t offset) {
  const PullPtr pull = find(from, id);
  if (!pull) return;
  try {
    const comm::PeerMemory::Peer& peer = link_.peers->peer(from);
    if (offset < 0 || offset > peer.bytes - BoxRuns(pull->box).block_bytes()) {
      throw local::CommError(fmt::format("rank {} leased a block outside its memory", from));
    }
    reads_->add(id, from, pull->box, peer.base + offset, pull->to);
  } catch (...) {
    fail_pull(pull, std::current_exception());
  }
}

void RemotePuller::elsewhere(int from, uint32_t id) {
  const PullPtr pull = find(from, id);
  if (!pull) return;
  pull->receives.clear();
  const std::lock_guard lock(mutex_);
  pull->pieces = pieces_of(pull->bytes);
  waiting_.push_back(pull);
}

bool RemotePuller::poll_reads() {
  if (!reads_) return false;
  return reads_->poll([this](uint32_t id, const std::exception_ptr& error) {
    PullPtr pull;
    {
      const std::lock_guard lock(mutex_);
      pull = pulls_.at(id);  // there until nothing is outstanding
    }
    if (error) {
      fail_pull(pull, error);
      return;
    }
    pull->arrived = pull->pieces;
    arrived_pieces_ += pull->pieces;
    tell(*pull, MessageKind::returned);
    finish(pull);
  });
}

void RemotePuller::declined(int from, uint32_t id) {
  PullPtr pull;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pulls_.find(id);
    if (found == pulls_.end() || found->second->owner != from) return;
    pull = found->second;
    pull->declined = true;
    if (!pull->error) {
      pull->error =
          failure_ ? failure_ : std::make_exception_ptr(local::Cancelled(fmt::format("rank {} gave up the run", from)));
    }
    look_at(id);
  }
  // What was announced before has been matched by now and is waited for; the rest is withdrawn.
  pull->receives.clear();
  for (Bounce& bounce : bounces_) {
    if (bounce.pull == pull && bounce.receive) {
      bounce.receive.reset();
      bounce.pull.reset();
    }
  }
}

void RemotePuller::fail_all(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  for (auto& [id, pull] : pulls_) {
    if (!pull->error) pull->error = error;
    look_at(id);
  }
  waiting_.clear();
}

void RemotePuller::look(const PullPtr& pull) {
  const std::lock_guard lock(mutex_);
  look_at(pull->id);
}

bool RemotePuller::outstanding(const PullPtr& pull) const {
  const auto of_pull = [&](const auto& part) { return part.pull == pull; };
  return !pull->receives.empty() || std::ranges::any_of(bounces_, of_pull) || (reads_ && reads_->holds(pull->id));
}

void RemotePuller::finish(const PullPtr& pull) {
  // A pull whose last byte came counts as done even if the run has failed since.
  bool complete = false;
  {
    const std::lock_guard lock(mutex_);
    pulls_.erase(pull->id);
    complete = pull->arrived == pull->pieces;
  }
  if (local::tracing()) {
    local::trace(
        {fmt::format("pull ({}, {})[{}] from rank {}", pull->key.stage, pull->key.part, pull->key.chunk, pull->owner),
         "comm", pull->begin_ns, local::trace_clock_ns(), pull->bytes, -1, 0, link_.communicator.transport()});
  }
  const auto done = std::move(pull->done);
  done(complete ? nullptr : pull->error);
  --open_;
}

void RemotePuller::poll_host(const PullPtr& pull) {
  while (!pull->receives.empty() && !pull->receives.front()->pending()) {
    try {
      pull->receives.front()->done();
      ++pull->arrived;
      ++arrived_pieces_;
      pull->receives.pop_front();
    } catch (...) {
      set_error(pull, std::current_exception());
      pull->receives.clear();
      link_.fail(pull->error);
    }
  }
}

bool RemotePuller::poll_bounces() {
  bool moved = false;
  for (Bounce& bounce : bounces_) {
    if (!bounce.pull) continue;
    const PullPtr pull = bounce.pull;
    try {
      if (bounce.receive) {
        if (bounce.receive->pending()) continue;
        moved = true;
        bounce.receive->done();
        bounce.receive.reset();
        stream_->copy(pull->to + bounce.piece * link_.piece_bytes, bounce.memory->data(),
                      piece_size(*pull, bounce.piece));
        stream_->record(*bounce.copied);
        wake_after(*bounce.copied);
        continue;
      }
      if (!bounce.copied->done()) continue;
      moved = true;
      bounce.copied->synchronize();  // throws what the copy threw
      ++pull->arrived;
      ++arrived_pieces_;
    } catch (...) {
      set_error(pull, std::current_exception());
      bounce.receive.reset();
      link_.fail(pull->error);
    }
    bounce.pull.reset();
    look(pull);
  }
  return moved;
}

// Gives free bounce buffers to the pieces that wait, in the order of their pulls.
bool RemotePuller::start_pieces() {
  bool moved = false;
  for (Bounce& bounce : bounces_) {
    if (bounce.pull) continue;
    PullPtr pull;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return moved;
      pull = waiting_.front();
      bounce.piece = pull->asked++;
      if (pull->asked == pull->pieces) waiting_.pop_front();
    }
    try {
      bounce.pull = pull;
      bounce.receive = link_.communicator.receive(bounce.memory->data(), piece_size(*pull, bounce.piece), pull->owner,
                                                  data_tag(link_.epoch, pull->id));
      ask(*pull, bounce.piece, 1);
      moved = true;
    } catch (...) {
      set_error(pull, std::current_exception());
      bounce.receive.reset();
      bounce.pull.reset();
      link_.fail(pull->error);
    }
  }
  return moved;
}

std::string RemotePuller::describe() {
  struct Open {
    int64_t pulls = 0;
    const Pull* first = nullptr;
  };
  std::map<int, Open> owners;
  std::string text;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, pull] : pulls_) {
    Open& open = owners[pull->owner];
    if (open.pulls++ == 0) open.first = pull.get();
  }
  for (const auto& [owner, open] : owners) {
    const BlockKey& key = open.first->key;
    text += fmt::format("{} pull{} from rank {}, the first of block ({}, {})[{}] for {:.3g} s\n", open.pulls,
                        open.pulls == 1 ? "" : "s", owner, key.stage, key.part, key.chunk,
                        static_cast<double>(local::trace_clock_ns() - open.first->begin_ns) * 1e-9);
  }
  return text;
}

// Those to which something happened: on the CPU that a piece arrived; empty ones and those that have failed.
bool RemotePuller::finish_others() {
  looked_at_.clear();
  completed_receives_->drain(looked_at_);
  if (any_look_) {
    const std::lock_guard lock(mutex_);
    looked_at_.insert(looked_at_.end(), to_look_.begin(), to_look_.end());
    to_look_.clear();
    any_look_ = false;
  }
  bool moved = false;
  for (const uint64_t id : looked_at_) {
    PullPtr pull;
    {
      const std::lock_guard lock(mutex_);
      const auto found = pulls_.find(static_cast<uint32_t>(id));
      if (found == pulls_.end()) continue;  // over already
      pull = found->second;
    }
    moved = true;
    poll_host(pull);
    bool over = false;
    {
      const std::lock_guard lock(mutex_);
      over = pull->arrived == pull->pieces || (pull->error && !outstanding(pull));
    }
    if (over) finish(pull);
  }
  return moved;
}

bool RemotePuller::poll() {
  if (open_ == 0) return false;
  bool moved = poll_bounces();
  moved |= poll_reads();
  moved |= finish_others();
  moved |= start_pieces();
  return moved;
}

}  // namespace quarry::exec
