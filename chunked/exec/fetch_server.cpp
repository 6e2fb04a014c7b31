#include "quarry/chunked/exec/fetch_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "quarry/chunked/exec/device_pack.h"
#include "quarry/chunked/exec/paths/paths.h"
#include "quarry/local/base/thread.h"
#include "quarry/local/base/trace.h"

namespace quarry::exec {

namespace {

std::pair<uint64_t, int64_t> flat(const BlockKey& key) {
  return {static_cast<uint64_t>(key.stage) << 32 | key.part, key.chunk};
}

bool is_stolen(const BlockKey& key) { return (key.part & kStolen) != 0; }

}  // namespace

FetchServer::FetchServer(const ServiceLink& link) : link_(link) {
  const int count = link_.communicator.size() > 1 ? kBuffers + 1 : 0;
  for (int i = 0; i < count; ++i) {
    buffers_.push_back(std::make_unique<local::Buffer>(link_.segment_bytes, link_.executor.staging(), nullptr));
    if (i < kBuffers) free_buffers_.push_back(i);
  }
}

// A run of one rank has nobody to serve: the thread begins with the first job.
void FetchServer::queue(Job job) {
  jobs_.push_back(std::move(job));
  if (thread_.joinable() || stop_ || no_thread_) return;
  try {
    thread_ = local::start_thread("sending blocks", [this] { loop(); });
  } catch (...) {
    no_thread_ = std::current_exception();
    ++to_poll_;  // for good: poll() does what is left to do
  }
}

FetchServer::~FetchServer() { stop(); }

void FetchServer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  // All receives were posted: this ends.
  sending_.clear();
}

void FetchServer::expose(const BlockKey& key, scheduler::BlockId block) { exposed_[flat(key)] = block; }

void FetchServer::publish_stolen(const BlockKey& key, std::shared_ptr<const std::byte> data) {
  GetPtr get;
  {
    const std::lock_guard lock(mutex_);
    Stolen& stolen = stolen_[flat(key)];
    stolen.data = std::move(data);
    get = stolen.get;
    if (get) get->stolen = stolen.data;
  }
  if (get) on_ready(get);
}

void FetchServer::read_block(const Get& get, int64_t offset, int64_t count, void* to) {
  if (is_stolen(get.key)) {
    std::memcpy(to, get.stolen.get() + offset, static_cast<size_t>(count));
  } else {
    link_.executor.read_block(get.block, offset, count, to);
  }
}

void FetchServer::read(const Get& get, int64_t begin, int64_t bytes, std::byte* to) {
  get.runs->read(begin, bytes, to, scratch(),
                 [&](int64_t offset, int64_t count, void* part) { read_block(get, offset, count, part); });
}

bool FetchServer::visit(const Get& get, const std::function<void(const void*)>& use) {
  if (link_.device.kind != local::DeviceKind::cpu) return false;
  if (!is_stolen(get.key)) return link_.executor.visit_block(get.block, get.runs->block_bytes(), use);
  use(get.stolen.get());
  return true;
}

bool FetchServer::is_declining() {
  const std::lock_guard lock(mutex_);
  return declining_ != nullptr;
}

void FetchServer::request(int from, const Message& message) {
  const Request& request = message.request;
  GetPtr get;
  bool fresh = false;
  try {
    const std::lock_guard lock(mutex_);
    GetPtr& slot = gets_[{from, request.fetch}];
    if (!slot) {
      fresh = true;
      slot = std::make_shared<Get>();
      slot->to = from;
      slot->fetch = request.fetch;
      slot->key = request.key;
      get = slot;
      slot->path = &link_.paths.at(message.path);
      const auto found = exposed_.find(flat(request.key));
      if (found != exposed_.end()) {
        slot->block = found->second;
      } else if (!is_stolen(request.key)) {
        throw local::InternalError(fmt::format("rank {} fetches block ({}, {}, {}), which this rank did not expose",
                                               from, request.key.stage, request.key.part, request.key.chunk));
      }
      slot->runs = std::make_unique<HyperslabRuns>(request.hyperslab);
      slot->segments_left = link_.segments_of(slot->runs->bytes());
    }
    get = slot;
    if (get->declined) return;
    const Path& path = link_.paths.at(message.path);
    if (!path.fits(get->runs->bytes(), get->runs->run_bytes())) {
      throw local::CommError(fmt::format("rank {} asks for {} bytes in runs of {} by path {}", from, get->runs->bytes(),
                                         get->runs->run_bytes(), path.name()));
    }
    get->wanted.push_back({&path, request.first_segment, request.first_segment + request.segments});
    if (declining_) {
      queue({get, /*decline=*/true});
    } else if (get->ready) {
      queue({get, /*decline=*/false});
    }
  } catch (...) {
    // The failure first: the client must not hear that its fetch is declined before this rank knows why.
    link_.fail(std::current_exception());
    if (get) {
      const std::lock_guard lock(mutex_);
      queue({get, /*decline=*/true});
    }
    wake_.notify_one();
    return;
  }
  wake_.notify_one();
  if (fresh) wait_for_block(get);
}

void FetchServer::wait_for_block(const GetPtr& get) {
  if (is_stolen(get->key)) {
    wait_for_stolen(get);
    return;
  }
  link_.executor.when_ready(get->block, [weak = weak_from_this(), get] {
    if (const auto self = weak.lock()) self->on_ready(get);
  });
}

void FetchServer::wait_for_stolen(const GetPtr& get) {
  {
    const std::lock_guard lock(mutex_);
    Stolen& stolen = stolen_[flat(get->key)];
    stolen.get = get;
    if (!stolen.data) return;
    get->stolen = stolen.data;
  }
  on_ready(get);
}

void FetchServer::on_ready(const GetPtr& get) {
  if (get->own == nullptr) {
    try {
      if (get->path->serve_at_once(*this, get)) return;
    } catch (...) {
      link_.fail(std::current_exception());  // which declines all, this fetch too
    }
  }
  const Path* path = nullptr;
  {
    const std::lock_guard lock(mutex_);
    get->ready = true;
    if (declining_) return;  // a job that declines it is in the queue
    if (!get->wanted.empty() && get->wanted.front().path->serves_in_any_thread()) {
      path = get->wanted.front().path;
      get->wanted.pop_front();
    } else {
      queue({get, /*decline=*/false});
    }
  }
  if (path == nullptr) {
    wake_.notify_one();
    return;
  }
  try {
    path->serve(*this, get, /*segment=*/0);
  } catch (...) {
    link_.fail(std::current_exception());
    decline(get);
  }
}

void FetchServer::fetch_own(const BlockKey& key, const Hyperslab& hyperslab, void* to,
                            std::function<void(std::exception_ptr)> done) {
  auto get = std::make_shared<Get>();
  get->to = link_.communicator.rank();
  get->own = to;
  get->key = key;
  get->done = std::move(done);
  try {
    const auto found = exposed_.find(flat(key));
    if (found == exposed_.end()) {
      throw local::InternalError(
          fmt::format("fetch of the own block ({}, {}, {}), which is not exposed", key.stage, key.part, key.chunk));
    }
    get->block = found->second;
    get->runs = std::make_unique<HyperslabRuns>(hyperslab);
    get->hyperslab = hyperslab;
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    {
      const std::lock_guard lock(mutex_);
      completed_.push_back({std::move(get->done), error});
      ++to_poll_;
    }
    link_.fail(error);
    link_.communicator.wake();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    get->fetch = own_fetches_++;
    gets_[{get->to, get->fetch}] = get;
    if (declining_) queue({get, /*decline=*/true});
  }
  wake_.notify_one();
  wait_for_block(get);
}

void FetchServer::decline_all(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(mutex_);
    if (declining_) return;
    declining_ = error;
    for (const auto& [id, get] : gets_) queue({get, /*decline=*/true});
  }
  wake_.notify_all();
}

std::string FetchServer::describe() {
  struct Open {
    int64_t fetches = 0, unready = 0, leased = 0;
  };
  std::map<int, Open> ranks;
  std::string text;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, get] : gets_) {
    Open& open = ranks[get->to];
    ++open.fetches;
    open.unready += get->ready ? 0 : 1;
    open.leased += get->leased ? 1 : 0;
  }
  for (const auto& [rank, open] : ranks) {
    text += fmt::format("rank {} waits for {} block{} of this rank: {} not computed yet, {} being copied by it\n", rank,
                        open.fetches, open.fetches == 1 ? "" : "s", open.unready, open.leased);
  }
  return text;
}

// The run fails, and what the thread would have to decline is declined here.
bool FetchServer::decline_without_thread() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = no_thread_;
  }
  if (!error) return false;
  link_.fail(error);
  std::deque<Job> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
  }
  for (const Job& job : jobs) decline(job.get);
  return !jobs.empty();
}

bool FetchServer::poll() {
  if (to_poll_.load() == 0) return false;
  if (decline_without_thread()) return true;
  std::vector<Completed> finished;
  std::vector<GetPtr> sent;  // out of device memory
  std::exception_ptr failure;
  bool moved = false;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(completed_);
    to_poll_ -= static_cast<int64_t>(finished.size());
    std::erase_if(sending_, [&](Sending& sending) {
      if (sending.request->pending()) return false;
      try {
        sending.request->done();
      } catch (...) {
        failure = std::current_exception();
      }
      if (sending.get) {
        sent.push_back(std::move(sending.get));
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
  for (const GetPtr& get : sent) end_lease(get->to, get->fetch);
  for (Completed& one : finished) one.done(one.error);
  return moved || !finished.empty();
}

void FetchServer::loop() {
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
      // The failure declines all, this fetch too.
      link_.fail(std::current_exception());
      decline(job.get);
    }
    lock.lock();
  }
}

void FetchServer::work(const Job& job) {
  const GetPtr& get = job.get;
  if (job.decline) {
    decline(get);
    return;
  }
  if (get->own != nullptr) {
    get_own(get);
    return;
  }
  for (;;) {
    const Path* path = nullptr;
    int64_t segment = 0;
    {
      const std::lock_guard lock(mutex_);
      if (get->leased || get->declined || declining_) return;  // a job that declines it is in the queue
      auto& wanted = get->wanted;
      while (!wanted.empty() && wanted.front().first >= wanted.front().last) wanted.pop_front();
      if (wanted.empty()) break;
      path = wanted.front().path;
      segment = wanted.front().first++;
    }
    if (!path->serve(*this, get, segment)) return;
  }
  if (get->segments_left == 0) finish(get);
}

bool FetchServer::send_segment(const GetPtr& get, int64_t segment) {
  const int64_t begin = segment * link_.segment_bytes;
  const int64_t bytes = std::min(link_.segment_bytes, get->runs->bytes() - begin);
  const int buffer = take_buffer();
  if (buffer < 0) return false;
  auto* memory = static_cast<std::byte*>(buffers_[static_cast<size_t>(buffer)]->data());
  std::unique_ptr<comm::Request> request;
  try {
    local::TraceScope trace(
        fmt::format("send ({}, {})[{}] to rank {}", get->key.stage, get->key.part, get->key.chunk, get->to), "comm",
        bytes);
    read(*get, begin, bytes, memory);
    request = link_.communicator.send(memory, bytes, get->to, data_tag(link_.epoch, get->fetch));
  } catch (...) {
    const std::lock_guard lock(mutex_);
    free_buffers_.push_back(buffer);
    throw;
  }
  --get->segments_left;
  add_sending({std::move(request), buffer, nullptr}, bytes);
  return true;
}

void FetchServer::add_sending(Sending sending, int64_t bytes) {
  bytes_sent_ += bytes;
  {
    const std::lock_guard lock(mutex_);
    sending_.push_back(std::move(sending));
    ++to_poll_;
  }
  link_.communicator.wake();
}

const std::byte* FetchServer::lease(const GetPtr& get) {
  const void* const at = is_stolen(get->key) ? nullptr : link_.executor.lease_block(get->block);
  if (at == nullptr) {
    send_elsewhere(*get);
    return nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    get->leased = !get->declined;
    if (get->leased) return static_cast<const std::byte*>(at);
  }
  link_.executor.end_lease(get->block);  // the run failed meanwhile, and the client knows
  return nullptr;
}

void FetchServer::send_elsewhere(const Get& get) {
  Message message;
  message.kind = MessageKind::not_on_device;
  reply(get, message);
}

void FetchServer::take_back(const GetPtr& get) {
  {
    const std::lock_guard lock(mutex_);
    if (!get->leased) return;
    get->leased = false;
  }
  link_.executor.end_lease(get->block);
  send_elsewhere(*get);
}

// A device is a thread's current one once the thread has made anything of it.
void FetchServer::make_device_current() {
  if (!on_this_device_) on_this_device_ = local::backend(link_.device.kind).create_event(link_.device.index);
}

// Null where it has been taken back since: the run has failed.
GetPtr FetchServer::take_leased(int from, uint32_t fetch) {
  const std::lock_guard lock(mutex_);
  const auto found = gets_.find({from, fetch});
  if (found == gets_.end() || !std::exchange(found->second->leased, false)) return nullptr;
  return gets_.extract(found).mapped();
}

void FetchServer::end_lease(int from, uint32_t fetch) {
  const GetPtr get = take_leased(from, fetch);
  if (!get) return;
  link_.executor.end_lease(get->block);
  link_.executor.release_remote(get->block);
}

void FetchServer::forget_lease(int from, uint32_t fetch) {
  const GetPtr get = take_leased(from, fetch);
  if (get) link_.executor.end_lease(get->block);
}

void FetchServer::reply(const Get& get, Message message) {
  message.epoch = link_.epoch;
  message.request.fetch = get.fetch;
  link_.communicator.post(get.to, encode(message));
}

// A client whose lease is of no use to it asks anew by the same number: then another one stands there.
bool FetchServer::remove(const GetPtr& get) {
  const auto found = gets_.find({get->to, get->fetch});
  if (found == gets_.end() || found->second != get) return false;
  gets_.erase(found);
  return true;
}

void FetchServer::finish(const GetPtr& get) {
  {
    const std::lock_guard lock(mutex_);
    if (!remove(get)) return;
    if (is_stolen(get->key)) {
      stolen_.erase(flat(get->key));
      return;
    }
  }
  link_.executor.release_remote(get->block);
}

// In the thread that sends, so that it comes after the segments that were sent.
void FetchServer::decline(const GetPtr& get) {
  std::exception_ptr error;
  bool leased = false;
  {
    const std::lock_guard lock(mutex_);
    if (get->declined || !remove(get)) return;
    get->declined = true;
    leased = std::exchange(get->leased, false);  // take_back() may be about to end it as well
    error = declining_ ? declining_ : std::make_exception_ptr(local::Cancelled("the run failed"));
    if (get->own != nullptr) {
      completed_.push_back({std::move(get->done), error});
      ++to_poll_;
    }
  }
  if (get->own != nullptr) {
    link_.communicator.wake();
    return;
  }
  // A copy under way may go on: what it yields is thrown away, and the segment stays until nobody has it open.
  if (leased) link_.executor.end_lease(get->block);
  try {
    Message message;
    message.kind = MessageKind::declined;
    reply(*get, message);
  } catch (...) {
    link_.fail(std::current_exception());
  }
}

void FetchServer::get_own(const GetPtr& get) {
  const auto read = [&](int64_t offset, int64_t count, void* to) {
    link_.executor.read_block(get->block, offset, count, to);
  };
  auto* to = static_cast<std::byte*>(get->own);
  if (link_.device.kind == local::DeviceKind::cpu) {
    get->runs->read(0, get->runs->bytes(), to, scratch(), read);
  } else {
    if (!own_stream_) {
      own_stream_ = local::backend(link_.device.kind).create_stream(link_.device.index, local::StreamRole::to_device);
    }
    const void* const at = link_.executor.lease_block(get->block);
    if (at != nullptr) {
      struct Lease {
        scheduler::Executor& executor;
        scheduler::BlockId block;
        ~Lease() { executor.end_lease(block); }
      } lease{link_.executor, get->block};
      pack_on_device(get->hyperslab, at, to, *own_stream_);
      own_stream_->synchronize();
    } else {
      const local::Buffer bounce(link_.segment_bytes, link_.executor.staging(), nullptr);
      for (int64_t begin = 0; begin < get->runs->bytes(); begin += link_.segment_bytes) {
        const int64_t bytes = std::min(link_.segment_bytes, get->runs->bytes() - begin);
        get->runs->read(begin, bytes, static_cast<std::byte*>(bounce.data()), scratch(), read);
        own_stream_->copy(to + begin, bounce.data(), bytes);
        own_stream_->synchronize();
      }
    }
  }
  {
    const std::lock_guard lock(mutex_);
    completed_.push_back({std::move(get->done), nullptr});
    ++to_poll_;
  }
  finish(get);
  link_.communicator.wake();
}

int FetchServer::take_buffer() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stop_ || !free_buffers_.empty(); });
  if (free_buffers_.empty()) return -1;
  const int buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

std::span<std::byte> FetchServer::scratch() {
  if (buffers_.empty()) return {};
  return {static_cast<std::byte*>(buffers_.back()->data()), static_cast<size_t>(link_.segment_bytes)};
}

}  // namespace quarry::exec
