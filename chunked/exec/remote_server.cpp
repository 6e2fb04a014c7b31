#include "quarry/chunked/exec/remote_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "quarry/chunked/exec/device_box.h"
#include "quarry/local/base/trace.h"

namespace quarry::exec {

namespace {

std::pair<uint64_t, int64_t> flat(const BlockKey& key) {
  return {static_cast<uint64_t>(key.stage) << 32 | key.part, key.chunk};
}

bool is_given(const BlockKey& key) { return (key.part & kGiven) != 0; }

}  // namespace

RemoteServer::RemoteServer(const ServiceLink& link) : link_(link) {
  const int count = link_.communicator.size() > 1 ? kBuffers + 1 : 0;
  for (int i = 0; i < count; ++i) {
    buffers_.push_back(std::make_unique<local::Buffer>(link_.piece_bytes, link_.executor.staging(), nullptr));
    if (i < kBuffers) free_buffers_.push_back(i);
  }
}

// A run of one rank has nobody to serve: the thread begins with the first job.
void RemoteServer::queue(Job job) {
  jobs_.push_back(std::move(job));
  if (!thread_.joinable() && !stop_) thread_ = std::thread([this] { loop(); });
}

RemoteServer::~RemoteServer() { stop(); }

void RemoteServer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  // All receives were posted: this ends.
  sending_.clear();
}

void RemoteServer::expose(const BlockKey& key, scheduler::BlockId block) { exposed_[flat(key)] = block; }

void RemoteServer::give(const BlockKey& key, std::shared_ptr<const std::byte> data) {
  ServePtr serve;
  {
    const std::lock_guard lock(mutex_);
    Given& given = given_[flat(key)];
    given.data = std::move(data);
    serve = given.serve;
    if (serve) serve->given = given.data;
  }
  if (serve) became_ready(serve);
}

void RemoteServer::read(const Serve& serve, int64_t offset, int64_t count, void* to) {
  if (is_given(serve.key)) {
    std::memcpy(to, serve.given.get() + offset, static_cast<size_t>(count));
  } else {
    link_.executor.read_block(serve.block, offset, count, to);
  }
}

int64_t RemoteServer::pieces_of(int64_t bytes) const { return (bytes + link_.piece_bytes - 1) / link_.piece_bytes; }

void RemoteServer::request(int from, Request request, MessageKind kind) {
  ServePtr serve;
  bool fresh = false;
  try {
    const std::lock_guard lock(mutex_);
    ServePtr& slot = serves_[{from, request.pull}];
    if (!slot) {
      fresh = true;
      slot = std::make_shared<Serve>();
      slot->to = from;
      slot->pull = request.pull;
      slot->key = request.key;
      serve = slot;
      const auto found = exposed_.find(flat(request.key));
      if (found != exposed_.end()) {
        slot->block = found->second;
      } else if (!is_given(request.key)) {
        throw local::InternalError(fmt::format("rank {} pulls block ({}, {}, {}), which this rank did not expose", from,
                                               request.key.stage, request.key.part, request.key.chunk));
      }
      slot->runs = std::make_unique<BoxRuns>(request.box);
      slot->pieces_left = pieces_of(slot->runs->bytes());
    }
    serve = slot;
    if (serve->declined) return;
    if (kind == MessageKind::fetch) {
      if (serve->runs->bytes() > kMostFetched) throw local::CommError("a fetched box does not fit into the answer");
      serve->fetch = true;
    } else if (kind == MessageKind::lease) {
      serve->lease_wanted = true;
    } else if (kind == MessageKind::direct) {
      if (serve->runs->bytes() != serve->runs->run_bytes()) throw local::CommError("a message of several runs");
      serve->direct_wanted = true;
    } else {
      serve->wanted.emplace_back(request.first_piece, request.first_piece + request.pieces);
    }
    if (declining_) {
      queue({serve, -1, -1});
    } else if (serve->ready) {
      queue({serve, 0, 0});
    }
  } catch (...) {
    // The failure first: the consumer must not hear that its pull is declined before this rank knows why.
    link_.fail(std::current_exception());
    if (serve) {
      const std::lock_guard lock(mutex_);
      queue({serve, -1, -1});
    }
    wake_.notify_one();
    return;
  }
  wake_.notify_one();
  if (fresh) add(serve);
}

void RemoteServer::add(const ServePtr& serve) {
  if (is_given(serve->key)) {
    add_given(serve);
    return;
  }
  link_.executor.when_ready(serve->block, [weak = weak_from_this(), serve] {
    if (const auto self = weak.lock()) self->became_ready(serve);
  });
}

void RemoteServer::add_given(const ServePtr& serve) {
  {
    const std::lock_guard lock(mutex_);
    Given& given = given_[flat(serve->key)];
    given.serve = serve;
    if (!given.data) return;
    serve->given = given.data;
  }
  became_ready(serve);
}

void RemoteServer::became_ready(const ServePtr& serve) {
  if (serve->fetch && link_.device.kind == local::DeviceKind::cpu) {
    try {
      if (answer_from_memory(serve)) return;
    } catch (...) {
      link_.fail(std::current_exception());  // which declines all, this pull too
    }
  }
  {
    const std::lock_guard lock(mutex_);
    serve->ready = true;
    if (!declining_) queue({serve, 0, 0});
  }
  wake_.notify_one();
}

void RemoteServer::pull_own(const BlockKey& key, const BlockBox& box, void* to,
                            std::function<void(std::exception_ptr)> done) {
  auto serve = std::make_shared<Serve>();
  serve->to = link_.communicator.rank();
  serve->own = to;
  serve->key = key;
  serve->done = std::move(done);
  try {
    const auto found = exposed_.find(flat(key));
    if (found == exposed_.end()) {
      throw local::InternalError(
          fmt::format("pull of the own block ({}, {}, {}), which is not exposed", key.stage, key.part, key.chunk));
    }
    serve->block = found->second;
    serve->runs = std::make_unique<BoxRuns>(box);
    serve->box = box;
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    {
      const std::lock_guard lock(mutex_);
      finished_.push_back({std::move(serve->done), error});
      ++to_poll_;
    }
    link_.fail(error);
    link_.communicator.wake();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    serve->pull = own_pulls_++;
    serves_[{serve->to, serve->pull}] = serve;
    if (declining_) queue({serve, -1, -1});
  }
  wake_.notify_one();
  add(serve);
}

void RemoteServer::decline_all(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(mutex_);
    if (declining_) return;
    declining_ = error;
    for (const auto& [id, serve] : serves_) queue({serve, -1, -1});
  }
  wake_.notify_all();
}

std::string RemoteServer::describe() {
  struct Open {
    int64_t pulls = 0, unready = 0, leased = 0;
  };
  std::map<int, Open> ranks;
  std::string text;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, serve] : serves_) {
    Open& open = ranks[serve->to];
    ++open.pulls;
    open.unready += serve->ready ? 0 : 1;
    open.leased += serve->leased ? 1 : 0;
  }
  for (const auto& [rank, open] : ranks) {
    text += fmt::format("rank {} waits for {} block{} of this rank: {} not computed yet, {} being copied by it\n", rank,
                        open.pulls, open.pulls == 1 ? "" : "s", open.unready, open.leased);
  }
  return text;
}

bool RemoteServer::poll() {
  if (to_poll_.load() == 0) return false;
  std::vector<Finished> finished;
  std::vector<ServePtr> sent;  // out of device memory
  std::exception_ptr failure;
  bool moved = false;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
    to_poll_ -= static_cast<int64_t>(finished.size());
    std::erase_if(sending_, [&](Sending& sending) {
      if (sending.request->pending()) return false;
      try {
        sending.request->done();
      } catch (...) {
        failure = std::current_exception();
      }
      if (sending.serve) {
        sent.push_back(std::move(sending.serve));
      } else {
        free_buffers_.push_back(sending.buffer);
      }
      --to_poll_;
      moved = true;
      return true;
    });
  }
  if (moved) wake_.notify_all();
  if (failure) link_.fail(failure);
  for (const ServePtr& serve : sent) returned(serve->to, serve->pull);
  for (Finished& one : finished) one.done(one.error);
  return moved || !finished.empty();
}

void RemoteServer::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    try {
      work(job);
    } catch (...) {
      // The failure declines all, this pull too.
      link_.fail(std::current_exception());
      decline(job.serve);
    }
    lock.lock();
  }
}

void RemoteServer::work(const Job& job) {
  const ServePtr& serve = job.serve;
  if (job.first < 0) {
    decline(serve);
    return;
  }
  if (serve->own != nullptr) {
    serve_own(serve);
    return;
  }
  bool wants_lease = false, wants_direct = false;
  {
    const std::lock_guard lock(mutex_);
    const bool given_up = serve->declined || declining_;
    wants_lease = std::exchange(serve->lease_wanted, false) && !given_up;
    wants_direct = std::exchange(serve->direct_wanted, false) && !given_up;
  }
  if (wants_lease) lease(serve);
  if (wants_direct) send_direct(serve);
  if (serve->fetch) {
    {
      const std::lock_guard lock(mutex_);
      if (serve->declined || declining_) return;
    }
    std::vector<std::byte> data(static_cast<size_t>(serve->runs->bytes()));
    serve->runs->read(0, serve->runs->bytes(), data.data(), scratch(),
                      [&](int64_t offset, int64_t count, void* to) { read(*serve, offset, count, to); });
    answer_fetch(serve, data);
    over(serve);
    return;
  }
  for (;;) {
    int64_t piece = 0;
    {
      const std::lock_guard lock(mutex_);
      if (serve->leased || serve->declined || declining_) return;  // a job that declines it is in the queue
      while (!serve->wanted.empty() && serve->wanted.front().first >= serve->wanted.front().second) {
        serve->wanted.pop_front();
      }
      if (serve->wanted.empty()) break;
      piece = serve->wanted.front().first++;
    }
    const int64_t begin = piece * link_.piece_bytes;
    const int64_t bytes = std::min(link_.piece_bytes, serve->runs->bytes() - begin);
    const int buffer = take_buffer();
    if (buffer < 0) return;
    auto* memory = static_cast<std::byte*>(buffers_[static_cast<size_t>(buffer)]->data());
    std::unique_ptr<comm::Request> request;
    try {
      local::TraceScope trace(
          fmt::format("send ({}, {})[{}] to rank {}", serve->key.stage, serve->key.part, serve->key.chunk, serve->to),
          "comm", bytes);
      serve->runs->read(begin, bytes, memory, scratch(),
                        [&](int64_t offset, int64_t count, void* to) { read(*serve, offset, count, to); });
      request = link_.communicator.send(memory, bytes, serve->to, data_tag(link_.epoch, serve->pull));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      free_buffers_.push_back(buffer);
      throw;
    }
    bytes_sent_ += bytes;
    --serve->pieces_left;
    {
      const std::lock_guard lock(mutex_);
      sending_.push_back({std::move(request), buffer, nullptr});
      ++to_poll_;
    }
    link_.communicator.wake();
  }
  if (serve->pieces_left == 0) over(serve);
}

// Whether the block lay in host memory; it is sent then.
bool RemoteServer::answer_from_memory(const ServePtr& serve) {
  {
    const std::lock_guard lock(mutex_);
    if (declining_) return false;
  }
  std::array<std::byte, kMostFetched> data;
  const auto copy = [&](const void* from) {
    serve->runs->read(0, serve->runs->bytes(), data.data(), {}, [from](int64_t offset, int64_t count, void* to) {
      std::memcpy(to, static_cast<const std::byte*>(from) + offset, static_cast<size_t>(count));
    });
  };
  if (is_given(serve->key)) {
    copy(serve->given.get());
  } else if (!link_.executor.visit_block(serve->block, serve->runs->block_bytes(), copy)) {
    return false;
  }
  answer_fetch(serve, std::span(data).first(static_cast<size_t>(serve->runs->bytes())));
  over(serve);
  return true;
}

void RemoteServer::answer_fetch(const ServePtr& serve, std::span<const std::byte> data) {
  Message message;
  message.kind = MessageKind::fetched;
  message.epoch = link_.epoch;
  message.request.pull = serve->pull;
  message.data = data;
  link_.communicator.post(serve->to, encode(message));
  bytes_sent_ += static_cast<int64_t>(data.size());
}

// Where the block lies in device memory; null if it does not, which the consumer is told.
const std::byte* RemoteServer::lease_for(const ServePtr& serve) {
  const void* const at = is_given(serve->key) ? nullptr : link_.executor.lease_block(serve->block);
  if (at == nullptr) {
    answer(serve, MessageKind::elsewhere, 0);
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  serve->leased = true;
  return static_cast<const std::byte*>(at);
}

void RemoteServer::lease(const ServePtr& serve) {
  const std::byte* const at = lease_for(serve);
  if (at == nullptr) return;
  answer(serve, MessageKind::leased, at - static_cast<const std::byte*>(link_.executor.device_slab().first));
}

void RemoteServer::send_direct(const ServePtr& serve) {
  const std::byte* const at = lease_for(serve);
  if (at == nullptr) return;
  // The transport may need the device to be this thread's current one, which making anything of the device does.
  if (!on_this_device_) on_this_device_ = local::backend(link_.device.kind).create_event(link_.device.index);
  const int64_t bytes = serve->runs->bytes();
  local::TraceScope trace(fmt::format("send ({}, {})[{}] from device memory to rank {}", serve->key.stage,
                                      serve->key.part, serve->key.chunk, serve->to),
                          "comm", bytes);
  auto request = link_.communicator.send_device(link_.device.kind, at + serve->runs->begin(), bytes, serve->to,
                                                data_tag(link_.epoch, serve->pull));
  bytes_sent_ += bytes;
  {
    const std::lock_guard lock(mutex_);
    sending_.push_back({std::move(request), -1, serve});
    ++to_poll_;
  }
  link_.communicator.wake();
}

void RemoteServer::returned(int from, uint32_t pull) {
  ServePtr serve;
  {
    const std::lock_guard lock(mutex_);
    const auto found = serves_.find({from, pull});
    if (found == serves_.end() || !found->second->leased) return;  // taken back since: the run has failed
    serve = found->second;
    serves_.erase(found);
  }
  link_.executor.end_lease(serve->block);
  link_.executor.release_remote(serve->block);
}

void RemoteServer::answer(const ServePtr& serve, MessageKind kind, int64_t offset) {
  Message message;
  message.kind = kind;
  message.epoch = link_.epoch;
  message.request.pull = serve->pull;
  message.request.offset = offset;
  link_.communicator.post(serve->to, encode(message));
}

// The last byte has been read: the block may go.
void RemoteServer::over(const ServePtr& serve) {
  {
    const std::lock_guard lock(mutex_);
    if (serves_.erase({serve->to, serve->pull}) == 0) return;
    if (is_given(serve->key)) {
      given_.erase(flat(serve->key));
      return;
    }
  }
  link_.executor.release_remote(serve->block);
}

// In the thread that sends, so that it comes after the pieces that were sent.
void RemoteServer::decline(const ServePtr& serve) {
  std::exception_ptr error;
  bool leased = false;
  {
    const std::lock_guard lock(mutex_);
    if (serve->declined || serves_.erase({serve->to, serve->pull}) == 0) return;
    serve->declined = true;
    leased = serve->leased;
    error = declining_ ? declining_ : std::make_exception_ptr(local::Cancelled("the run failed"));
    if (serve->own != nullptr) {
      finished_.push_back({std::move(serve->done), error});
      ++to_poll_;
    }
  }
  if (serve->own != nullptr) {
    link_.communicator.wake();
    return;
  }
  // A copy under way may go on: what it yields is thrown away, and the slab stays until no rank has it open.
  if (leased) link_.executor.end_lease(serve->block);
  try {
    answer(serve, MessageKind::declined, 0);
  } catch (...) {
    link_.fail(std::current_exception());
  }
}

void RemoteServer::serve_own(const ServePtr& serve) {
  const auto read = [&](int64_t offset, int64_t count, void* to) {
    link_.executor.read_block(serve->block, offset, count, to);
  };
  auto* to = static_cast<std::byte*>(serve->own);
  if (link_.device.kind == local::DeviceKind::cpu) {
    serve->runs->read(0, serve->runs->bytes(), to, scratch(), read);
  } else {
    if (!own_stream_) {
      own_stream_ = local::backend(link_.device.kind).create_stream(link_.device.index, local::StreamRole::to_device);
    }
    const void* const at = link_.executor.lease_block(serve->block);
    if (at != nullptr) {
      struct Lease {
        scheduler::Executor& executor;
        scheduler::BlockId block;
        ~Lease() { executor.end_lease(block); }
      } lease{link_.executor, serve->block};
      copy_box_on_device(serve->box, at, to, *own_stream_);
      own_stream_->synchronize();
    } else {
      const local::Buffer bounce(link_.piece_bytes, link_.executor.staging(), nullptr);
      for (int64_t begin = 0; begin < serve->runs->bytes(); begin += link_.piece_bytes) {
        const int64_t bytes = std::min(link_.piece_bytes, serve->runs->bytes() - begin);
        serve->runs->read(begin, bytes, static_cast<std::byte*>(bounce.data()), scratch(), read);
        own_stream_->copy(to + begin, bounce.data(), bytes);
        own_stream_->synchronize();
      }
    }
  }
  {
    const std::lock_guard lock(mutex_);
    finished_.push_back({std::move(serve->done), nullptr});
    ++to_poll_;
  }
  over(serve);
  link_.communicator.wake();
}

int RemoteServer::take_buffer() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stop_ || !free_buffers_.empty(); });
  if (free_buffers_.empty()) return -1;
  const int buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

std::span<std::byte> RemoteServer::scratch() {
  if (buffers_.empty()) return {};
  return {static_cast<std::byte*>(buffers_.back()->data()), static_cast<size_t>(link_.piece_bytes)};
}

}  // namespace quarry::exec
