#include "quarry/comm/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"

namespace quarry::comm {

using local::CommError;
using local::InvalidArgument;
using std::chrono::steady_clock;

namespace {

constexpr double kGraceSeconds = 2;  // after a rank's goodbye: it may have finished first what others still do
// An error that ends a rank alone is told before the others' complaints about that.
constexpr double kSayFirstSeconds = 0.3;

// How long a rank that an exception ends waits for the others, which may end alike. Less than the grace.
double patience_seconds() {
  constexpr double kMost = 1;
  const double silence = local::OptionValue(local::Option::rank_timeout).seconds();
  return silence > 0 ? std::min(silence, kMost) : kMost;
}

// A receive whose size did not fit what was sent: the data goes nowhere.
struct DrainTransfer : Transfer {
  std::vector<std::byte> memory;
};

std::string has_left(int rank) { return fmt::format("rank {} has left the job", rank); }

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

}  // namespace

enum class Endpoint::FrameKind : uint32_t {
  message,
  data,
  goodbye,  // the sender communicates no more
  leave,    // the same of one channel
  failed,   // the sender alone has failed within a collective call of a channel; the error follows in the frame
  gave_up,  // an error of the sender's own ended it, and it waits for nobody
  gone,     // of one channel, or 0: the sender has come to round `tag` of meet()
  count,    // how many frames the sender has sent before, in `bytes`
};

namespace {

// In a header's `bytes` of a frame that ends something.
constexpr int64_t kBroken = 1, kUnwinding = 2;

// The ranks that are a power of two away.
std::vector<int> circle(int rank, int size) {
  std::set<int> ranks;
  for (int away = 1; away < size; away *= 2) {
    ranks.insert((rank + away) % size);
    ranks.insert((rank - away + size) % size);
  }
  return {ranks.begin(), ranks.end()};
}

std::string has_left(int rank, const Endpoint::Leaving& how) {
  return has_left(rank) + (how.unwinding ? " with an error of its own" : " while others still communicate with it");
}

}  // namespace

struct Endpoint::FrameHeader {
  uint32_t channel;
  FrameKind kind;
  int32_t from;    // the sender's rank in the channel
  uint32_t eager;  // the data follows in this frame
  uint64_t tag;
  int64_t bytes;
  uint64_t id;
  uint64_t reserved;
};

void Backoff::pause() {
  constexpr int kYields = 50;  // at least: other threads may have the core for long
  constexpr auto kYieldTime = std::chrono::microseconds(150);
  constexpr int kDoublings = 7;
  if (rounds_ == 0) {
    yields_until_ = steady_clock::now() + kYieldTime;
    sleeps_ = 0;
  }
  ++rounds_;
  if (rounds_ <= kYields || steady_clock::now() < yields_until_) {
    std::this_thread::yield();
    return;
  }
  const int step = std::min(++sleeps_ / 4, kDoublings);
  std::this_thread::sleep_for(std::chrono::microseconds(8 << step));
}

// A request of any communicator; done() and wait() make progress on the endpoint.
class EndpointRequest : public Request {
 public:
  EndpointRequest(Endpoint& endpoint, uint32_t channel, TransferPtr transfer, int peer)
      : endpoint_(endpoint), channel_(channel), transfer_(std::move(transfer)), peer_(peer) {}

  // The memory must not be used after this, so a transfer under way is waited for, unless its peer is gone.
  ~EndpointRequest() override {
    if (!pending() || endpoint_.withdraw(channel_, transfer_)) return;
    Backoff backoff;
    while (pending()) {
      try {
        if (endpoint_.progress()) {
          backoff.reset();
          continue;
        }
        endpoint_.check_members(channel_);
      } catch (const local::Error& error) {
        local::log(local::LogLevel::error,
                   fmt::format("transfer with rank {} given up under way: {}", peer_, error.what()));
        return;
      }
      backoff.pause();
    }
  }

  bool done() override {
    if (pending()) endpoint_.progress();
    if (pending()) return false;
    if (transfer_->state.load(std::memory_order_acquire) == Transfer::State::failed)
      endpoint_.throw_cause(transfer_->error);
    return true;
  }

  void wait() override {
    // What is under way ends soon as a rule, and to be woken costs tens of microseconds on both sides.
    constexpr auto kSpin = std::chrono::microseconds(200);
    constexpr double kSleepSeconds = 1e-3;  // another thread's progress may finish the transfer, so sleep is bounded
    const auto begin = steady_clock::now();
    while (!done()) {
      if (steady_clock::now() - begin < kSpin) {
        std::this_thread::yield();
      } else {
        endpoint_.check_members(channel_);
        endpoint_.wait_for_event(kSleepSeconds);
      }
    }
  }

  void notify(std::shared_ptr<CompletionQueue> queue, uint64_t number) override {
    transfer_->notify(std::move(queue), number);
  }

  bool pending() const override { return transfer_->state.load(std::memory_order_acquire) == Transfer::State::pending; }

 private:
  Endpoint& endpoint_;
  uint32_t channel_;
  TransferPtr transfer_;
  int peer_;
};

Endpoint::Endpoint(int rank, int size, std::unique_ptr<Transport> transport)
    : rank_(rank),
      size_(size),
      transport_(std::move(transport)),
      patience_seconds_(patience_seconds()),
      frame_to_lose_(local::OptionValue(local::Option::fault_lose_message).integer()) {
  static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);
}

Endpoint::~Endpoint() = default;

Endpoint::Channel& Endpoint::channel(uint32_t id) {
  const auto it = channels_.find(id);
  QUARRY_CHECK(it != channels_.end());
  return it->second;
}

void Endpoint::open_channel(uint32_t id, std::vector<int> members, int rank) {
  const std::lock_guard lock(mutex_);
  QUARRY_CHECK(id > last_channel_);
  last_channel_ = id;
  Channel& opened = channels_[id];
  opened.members = std::move(members);
  opened.rank = rank;
  // What came early for a channel that this rank is no member of cannot be: such ids are skipped.
  std::vector<std::pair<int, std::vector<std::byte>>> frames;
  if (const auto it = early_.find(id); it != early_.end()) {
    frames = std::move(it->second);
    early_.erase(early_.begin(), std::next(it));
  }
  for (const auto& [from, bytes] : frames) {
    FrameHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    dispatch(from, header, std::span(bytes).subspan(sizeof header));
  }
}

void Endpoint::close_channel(uint32_t id, const Leaving& leaving) {
  set_handler(id, nullptr);
  if (transport_ && !leaving_) {
    try {
      tell_leaving(id, leaving);
    } catch (const local::Error& error) {
      local::log(local::LogLevel::info, fmt::format("leaving a communicator: {}", error.what()));
    }
  }
  const std::lock_guard lock(mutex_);
  Channel& closing = channel(id);
  waiting_messages_ -= static_cast<int64_t>(closing.inbox.size());
  for (auto& [key, queue] : closing.receives) {
    for (Receive& receive : queue) receive.transfer->fail("the communicator was closed");
  }
  channels_.erase(id);
}

std::string Endpoint::link_to(uint32_t channel_id, int rank) {
  int job_rank = 0;
  {
    const std::lock_guard lock(mutex_);
    job_rank = channel(channel_id).members.at(static_cast<size_t>(rank));
  }
  if (job_rank == rank_ || !transport_) return "the process itself";
  return transport_->link_to(job_rank);
}

const Endpoint::Peer* Endpoint::known(int job_rank) const {
  const auto found = peers_.find(job_rank);
  return found == peers_.end() ? nullptr : &found->second;
}

std::vector<int> Endpoint::known_ranks() const {
  std::vector<int> ranks;
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, peer] : peers_) ranks.push_back(rank);
  return ranks;
}

uint32_t Endpoint::last_channel() const {
  const std::lock_guard lock(mutex_);
  return last_channel_;
}

void Endpoint::check_memory(MemoryKind memory, int job_rank) const {
  if (memory == MemoryKind::host) return;
  if (job_rank == rank_) throw InvalidArgument("a message of device memory from a rank to itself");
  if (!moves(memory)) throw local::NotSupported(fmt::format("{} does not move device memory", transport()));
}

std::unique_ptr<Request> Endpoint::send(uint32_t channel_id, const void* data, int64_t bytes, int to, uint64_t tag,
                                        MemoryKind memory) {
  const auto transfer = std::make_shared<Transfer>();
  FrameHeader header{channel_id, FrameKind::data, 0, 0, tag, bytes, 0, 0};
  int job_rank = 0;
  std::optional<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    Channel& ch = channel(channel_id);
    if (to < 0 || to >= static_cast<int>(ch.members.size()) || bytes < 0) {
      throw InvalidArgument(
          fmt::format("send of {} bytes to rank {} in a communicator of {} ranks", bytes, to, ch.members.size()));
    }
    job_rank = ch.members[static_cast<size_t>(to)];
    header.from = ch.rank;
    check_memory(memory, job_rank);
    if (job_rank == rank_) {
      // A small message is buffered, as it is between ranks; a large one is copied when its receive comes.
      Unexpected announced{bytes, 0, bytes <= kMaxMessageBytes, {}, nullptr, nullptr};
      if (announced.eager) {
        const auto* from = static_cast<const std::byte*>(data);
        announced.data.assign(from, from + bytes);
        transfer->finish();
      } else {
        announced.own = data;
        announced.sender = transfer;
      }
      auto& receives = ch.receives[{to, tag}];
      if (receives.empty()) {
        ch.receives.erase({to, tag});
        ch.unexpected[{to, tag}].push_back(std::move(announced));
      } else {
        const Receive receive = receives.front();
        receives.pop_front();
        if (receives.empty()) ch.receives.erase({to, tag});
        match(ch, announced, receive);
      }
    } else {
      gone = why_gone(ch, to);
      header.eager = bytes == 0 || (bytes <= kMaxMessageBytes && memory == MemoryKind::host);
      if (!gone && !header.eager) header.id = peers_[job_rank].next_id++;
      if (!gone) bytes_sent_ += bytes;
    }
  }
  if (gone) throw_cause(fmt::format("send to rank {}: {}", to, *gone));
  if (job_rank == rank_) {
    wake();
  } else {
    const int64_t inside = header.eager ? bytes : 0;
    std::byte frame[kMaxFrameBytes];
    std::memcpy(frame, &header, sizeof header);
    if (inside > 0) std::memcpy(frame + sizeof header, data, static_cast<size_t>(inside));
    put(job_rank, {frame, sizeof header + static_cast<size_t>(inside)});
    if (header.eager) {
      transfer->finish();
    } else {
      transport_->send(job_rank, header.id, data, bytes, memory, transfer);
    }
  }
  return std::make_unique<EndpointRequest>(*this, channel_id, transfer, to);
}

std::unique_ptr<Request> Endpoint::receive(uint32_t channel_id, void* data, int64_t bytes, int from, uint64_t tag,
                                           MemoryKind memory) {
  const auto transfer = std::make_shared<Transfer>();
  {
    const std::lock_guard lock(mutex_);
    Channel& ch = channel(channel_id);
    if (from < 0 || from >= static_cast<int>(ch.members.size()) || bytes < 0) {
      throw InvalidArgument(fmt::format("receive of {} bytes from rank {} in a communicator of {} ranks", bytes, from,
                                        ch.members.size()));
    }
    check_memory(memory, ch.members[static_cast<size_t>(from)]);
    const Receive receive{data, bytes, from, tag, memory, transfer};
    const auto it = ch.unexpected.find({from, tag});
    if (it != ch.unexpected.end()) {
      Unexpected announced = std::move(it->second.front());
      it->second.pop_front();
      if (it->second.empty()) ch.unexpected.erase(it);
      match(ch, announced, receive);
    } else if (const std::optional<std::string> gone = why_gone(ch, from)) {
      transfer->fail(fmt::format("receive from rank {}: {}", from, *gone));
    } else {
      ch.receives[{from, tag}].push_back(receive);
    }
  }
  start_matched();
  return std::make_unique<EndpointRequest>(*this, channel_id, transfer, from);
}

void Endpoint::match(Channel& ch, Unexpected& announced, const Receive& receive) {
  const bool fits = announced.bytes == receive.bytes;
  if (!fits) {
    receive.transfer->fail(fmt::format("receive from rank {} with tag {:#x}: expected {} bytes, the message has {}",
                                       receive.from, receive.tag, receive.bytes, announced.bytes));
  }
  if (announced.sender) {
    if (fits && receive.bytes > 0) std::memmove(receive.data, announced.own, static_cast<size_t>(receive.bytes));
    announced.sender->finish();
    if (fits) receive.transfer->finish();
  } else if (announced.eager) {
    if (!fits) return;
    if (receive.memory != MemoryKind::host && receive.bytes > 0) {
      receive.transfer->fail(
          fmt::format("receive from rank {} into device memory: the {} bytes were sent from the host", receive.from,
                      receive.bytes));
      return;
    }
    if (receive.bytes > 0) std::memcpy(receive.data, announced.data.data(), static_cast<size_t>(receive.bytes));
    receive.transfer->finish();
  } else {
    const int job_rank = ch.members[static_cast<size_t>(receive.from)];
    if (fits) {
      starts_.push_back({job_rank, announced.id, receive.data, receive.bytes, receive.memory, receive.transfer});
    } else {
      const auto drain = std::make_shared<DrainTransfer>();
      drain->memory.resize(static_cast<size_t>(announced.bytes));
      starts_.push_back({job_rank, announced.id, drain->memory.data(), announced.bytes, MemoryKind::host, drain});
    }
  }
}

bool Endpoint::start_matched() {
  std::vector<Start> starts;
  {
    const std::lock_guard lock(mutex_);
    if (starts_.empty()) return false;
    starts.swap(starts_);
  }
  for (Start& start : starts) {
    try {
      transport_->receive(start.from, start.id, start.data, start.bytes, start.memory, start.transfer);
    } catch (const local::Error& error) {
      start.transfer->fail(error.what());
    }
    // A rank that was lost since the two met has been abandoned before this was under way.
    if (const auto reason = loss_of(start.from)) transport_->abandon(start.from, *reason);
  }
  return true;
}

std::optional<std::string> Endpoint::loss_of(int job_rank) const {
  const std::lock_guard lock(mutex_);
  const Peer* const peer = known(job_rank);
  if (peer == nullptr || !peer->lost) return std::nullopt;
  return peer->reason;
}

bool Endpoint::withdraw(uint32_t channel_id, const TransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(channel_id);
  if (found == channels_.end()) return false;
  Channel& ch = found->second;
  for (auto it = ch.receives.begin(); it != ch.receives.end(); ++it) {
    const auto same = std::ranges::find(it->second, transfer, &Receive::transfer);
    if (same == it->second.end()) continue;
    it->second.erase(same);
    if (it->second.empty()) ch.receives.erase(it);
    return true;
  }
  for (auto it = ch.unexpected.begin(); it != ch.unexpected.end(); ++it) {
    const auto same = std::ranges::find(it->second, transfer, &Unexpected::sender);
    if (same == it->second.end()) continue;
    it->second.erase(same);
    if (it->second.empty()) ch.unexpected.erase(it);
    return true;
  }
  return false;
}

void Endpoint::set_handler(uint32_t channel_id, Communicator::Handler handler) {
  auto shared = handler ? std::make_shared<Communicator::Handler>(std::move(handler)) : nullptr;
  // Once this returns the old handler does not run any more, unless it is itself the caller.
  std::unique_lock delivering(delivering_, std::defer_lock);
  if (deliverer_.load() != std::this_thread::get_id()) delivering.lock();
  const std::lock_guard lock(mutex_);
  channel(channel_id).handler = std::move(shared);
}

void Endpoint::post(uint32_t channel_id, int to, std::span<const std::byte> message) {
  if (static_cast<int64_t>(message.size()) > kMaxMessageBytes) {
    throw InvalidArgument(
        fmt::format("active message of {} bytes; at most {} are allowed", message.size(), kMaxMessageBytes));
  }
  FrameHeader header{channel_id, FrameKind::message, 0, 1, 0, static_cast<int64_t>(message.size()), 0, 0};
  int job_rank = 0;
  std::optional<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    Channel& ch = channel(channel_id);
    if (to < 0 || to >= static_cast<int>(ch.members.size())) {
      throw InvalidArgument(fmt::format("message to rank {} in a communicator of {} ranks", to, ch.members.size()));
    }
    job_rank = ch.members[static_cast<size_t>(to)];
    header.from = ch.rank;
    if (job_rank == rank_) {
      ch.inbox.push_back({to, {message.begin(), message.end()}});
      ++waiting_messages_;
    } else {
      gone = why_gone(ch, to);
    }
  }
  if (gone) throw_cause(fmt::format("message to rank {}: {}", to, *gone));
  if (job_rank == rank_) {
    wake();
    return;
  }
  std::byte frame[kMaxFrameBytes];
  std::memcpy(frame, &header, sizeof header);
  if (!message.empty()) std::memcpy(frame + sizeof header, message.data(), message.size());
  put(job_rank, {frame, sizeof header + message.size()});
}

void Endpoint::receive_frame(int from, std::span<const std::byte> bytes) {
  FrameHeader header;
  QUARRY_CHECK(bytes.size() >= sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[from];
  if (header.kind == FrameKind::count) {
    if (peer.frames_in < static_cast<uint64_t>(header.bytes)) {
      lose(from, fmt::format("a message from rank {} was lost", from));
    }
    return;
  }
  ++peer.frames_in;
  const bool of_job = header.kind == FrameKind::goodbye || header.kind == FrameKind::gave_up || header.channel == 0;
  if (!of_job && !channels_.contains(header.channel)) {
    // Of a closed channel: nobody waits for it. Of one that this rank is about to open: kept.
    if (header.channel > last_channel_)
      early_[header.channel].emplace_back(from, std::vector(bytes.begin(), bytes.end()));
    return;
  }
  dispatch(from, header, bytes.subspan(sizeof header));
}

void Endpoint::dispatch(int from, const FrameHeader& header, std::span<const std::byte> payload) {
  switch (header.kind) {
    case FrameKind::message:
      channel(header.channel).inbox.push_back({header.from, {payload.begin(), payload.end()}});
      ++waiting_messages_;
      break;
    case FrameKind::data:
      announce(channel(header.channel), header.from, header, payload);
      break;
    case FrameKind::goodbye: {  // of header.from: others tell it where it came too early
      if (header.from == rank_) break;
      Peer& peer = peers_[header.from];
      if (peer.left) break;
      peer.left = true;
      peer.broken = (header.bytes & kBroken) != 0;
      peer.left_at = steady_clock::now() - std::chrono::nanoseconds(header.tag);
      last_leave_ = steady_clock::now();
      peer.is_told = header.from != from;
      peer.reason = has_left(header.from);
      fail_receives(header.from, peer.reason);
      trouble_ = true;
      break;
    }
    case FrameKind::leave: {
      Channel& ch = channel(header.channel);
      const Leaving how{static_cast<int64_t>(header.id), (header.bytes & kUnwinding) != 0};
      if (header.from == ch.rank) break;
      const auto age = std::chrono::nanoseconds(header.tag);
      const bool is_told = ch.members[static_cast<size_t>(header.from)] != from;
      last_leave_ = steady_clock::now();
      ch.left.try_emplace(header.from, Left{steady_clock::now() - age, how, is_told});
      fail_receives(ch, header.from, has_left(header.from));
      trouble_ = true;
      break;
    }
    case FrameKind::failed: {
      Channel& ch = channel(header.channel);
      const auto* const text = reinterpret_cast<const char*>(payload.data());
      if (!ch.failure) {
        ch.failure = {
            static_cast<local::ErrorCode>(header.tag), {text, payload.size()}, static_cast<int64_t>(header.id)};
      }
      fail_receives(ch, header.from, {text, payload.size()});
      trouble_ = true;
      break;
    }
    case FrameKind::gave_up: {
      Peer& peer = peers_[from];
      given_up_.push_back(from);
      peer.gave_up = !peer.lost;
      lose(from, has_left(from, {0, /*unwinding=*/true}));
      break;
    }
    case FrameKind::gone:
      if ((header.bytes & kBroken) != 0) broken_elsewhere_ = true;
      rounds_of(header.channel).insert(static_cast<int>(header.tag));
      break;
    case FrameKind::count:
      break;
  }
}

void Endpoint::put(int job_rank, std::span<const std::byte> frame) {
  if (frame_to_lose_ == 0 || ++frames_put_ != frame_to_lose_) transport_->post(job_rank, frame);
  // Counted after it has been posted: a count never runs ahead of what it counts.
  const std::lock_guard lock(mutex_);
  ++peers_[job_rank].frames_out;
}

void Endpoint::send_counts() {
  const int64_t now = steady_clock::now().time_since_epoch().count();
  int64_t last = last_counts_ns_.load(std::memory_order_relaxed);
  if (now - last < std::chrono::nanoseconds(count_period_).count()) return;
  if (!last_counts_ns_.compare_exchange_strong(last, now)) return;
  for (const int r : known_ranks()) send_count(r, /*last=*/false);
}

void Endpoint::send_count(int job_rank, bool last) {
  FrameHeader header{0, FrameKind::count, rank_, 0, 0, 0, 0, 0};
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[job_rank];
    const uint64_t sent = peer.frames_out;
    if (job_rank == rank_ || peer.lost || (!last && (leaving_ || peer.left)) || peer.frames_counted == sent) return;
    peer.frames_counted = sent;
    header.bytes = static_cast<int64_t>(sent);
  }
  transport_->post(job_rank, {reinterpret_cast<const std::byte*>(&header), sizeof header});
}

void Endpoint::announce(Channel& ch, int from, const FrameHeader& header, std::span<const std::byte> payload) {
  Unexpected announced{header.bytes, header.id, header.eager != 0, {}, nullptr, nullptr};
  if (announced.eager) announced.data.assign(payload.begin(), payload.end());
  const auto it = ch.receives.find({from, header.tag});
  if (it == ch.receives.end()) {
    ch.unexpected[{from, header.tag}].push_back(std::move(announced));
    return;
  }
  const Receive receive = it->second.front();
  it->second.pop_front();
  if (it->second.empty()) ch.receives.erase(it);
  match(ch, announced, receive);
}

void Endpoint::report_lost(int rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (peers_[rank].left || leaving_) return;
  lose(rank, fmt::format("rank {} cannot be reached any more: {}", rank, reason));
}

void Endpoint::lose(int job_rank, const std::string& reason) {
  Peer& peer = peers_[job_rank];
  if (peer.lost) return;
  peer.lost = true;
  peer.lost_at = steady_clock::now();
  peer.reason = reason;
  fail_receives(job_rank, reason);
  trouble_ = true;
}

void Endpoint::peer_died(int rank, const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (peers_[rank].left) return;  // it had nothing more to say
    lose(rank, reason);
  }
  transport_->abandon(rank, reason);
  wake();
}

std::optional<std::string> Endpoint::why_gone(const Channel& ch, int member) const {
  const Peer* const peer = known(ch.members[static_cast<size_t>(member)]);
  if (peer != nullptr && (peer->lost || peer->left)) return peer->reason;
  if (ch.left.contains(member)) return has_left(member);
  return std::nullopt;
}

void Endpoint::throw_cause(const std::string& error) const {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const auto died = std::ranges::find_if(peers_, [](const auto& p) { return p.second.lost && !p.second.gave_up; });
      if (died != peers_.end()) throw CommError(died->second.reason);
      if (seconds_since(last_leave_) > kSayFirstSeconds) throw CommError(error);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

std::vector<int> Endpoint::lost_members(uint32_t channel_id) const {
  std::vector<int> lost;
  const std::lock_guard lock(mutex_);
  const Channel& ch = channels_.at(channel_id);
  for (size_t r = 0; r < ch.members.size(); ++r) {
    if (const Peer* peer = known(ch.members[r]); peer != nullptr && peer->lost) lost.push_back(static_cast<int>(r));
  }
  return lost;
}

bool Endpoint::is_any_lost() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(peers_, [](const auto& peer) { return peer.second.lost; });
}

void Endpoint::fail_receives(int job_rank, const std::string& reason) {
  for (auto& [id, ch] : channels_) {
    const auto member = std::ranges::find(ch.members, job_rank);
    if (member != ch.members.end()) fail_receives(ch, static_cast<int>(member - ch.members.begin()), reason);
  }
}

void Endpoint::fail_receives(Channel& ch, int from, const std::string& reason) {
  const auto begin = ch.receives.lower_bound({from, 0});
  const auto end = ch.receives.lower_bound({from + 1, 0});
  for (auto it = begin; it != end; ++it) {
    for (Receive& receive : it->second) receive.transfer->fail(reason);
  }
  ch.receives.erase(begin, end);
}

bool Endpoint::progress() {
  bool moved = false;
  if (transport_) {
    moved = transport_->progress(*this);
    std::vector<int> given_up;
    {
      const std::lock_guard lock(mutex_);
      given_up.swap(given_up_);
    }
    for (const int rank : given_up) transport_->abandon(rank, has_left(rank));
    moved |= start_matched();
    if (!moved) send_counts();
  }
  moved |= deliver();
  return moved;
}

bool Endpoint::deliver() {
  bool any = false;
  while (waiting_messages_ > 0 && deliverer_.load() != std::this_thread::get_id()) {
    const std::unique_lock delivering(delivering_, std::try_to_lock);
    if (!delivering) break;
    std::shared_ptr<Communicator::Handler> handler;
    Message message;
    {
      const std::lock_guard lock(mutex_);
      for (auto& [id, ch] : channels_) {
        if (!ch.handler || ch.inbox.empty()) continue;
        handler = ch.handler;
        message = std::move(ch.inbox.front());
        ch.inbox.pop_front();
        --waiting_messages_;
        break;
      }
    }
    if (!handler) break;
    any = true;
    struct Mark {
      std::atomic<std::thread::id>& owner;
      ~Mark() { owner = std::thread::id{}; }
    } mark{deliverer_};
    deliverer_ = std::this_thread::get_id();
    (*handler)(message.from, message.bytes);
  }
  return any;
}

bool Endpoint::deliverable() const {
  if (waiting_messages_ == 0) return false;
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(channels_,
                             [](const auto& entry) { return entry.second.handler && !entry.second.inbox.empty(); });
}

void Endpoint::wait_for_event(double seconds) {
  if (deliverable() && deliverer_.load() != std::this_thread::get_id()) return;
  if (transport_) {
    transport_->wait_for_event(seconds);
    return;
  }
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return woken_; });
  woken_ = false;
}

void Endpoint::wake() {
  if (transport_) {
    transport_->wake();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_all();
}

void Endpoint::check_present() {
  if (!trouble_) return;
  std::unique_lock lock(mutex_);
  check_known([](int) { return true; }, lock);
}

void Endpoint::check_known(const std::function<bool(int)>& concerns, std::unique_lock<std::mutex>& lock) {
  for (auto& [rank, peer] : peers_) {
    if ((!peer.lost && !peer.left) || !concerns(rank)) continue;
    if (peer.lost && !(peer.gave_up && seconds_since(peer.lost_at) <= kSayFirstSeconds)) throw CommError(peer.reason);
    if (!peer.left || peer.lost || seconds_since(peer.left_at) <= kGraceSeconds) continue;
    if (!std::exchange(peer.is_told, true)) {
      FrameHeader header{0, FrameKind::goodbye, rank, 0, 0, peer.broken ? kBroken : 0, 0, 0};
      header.tag = static_cast<uint64_t>((steady_clock::now() - peer.left_at) / std::chrono::nanoseconds(1));
      const int who = rank;
      lock.unlock();
      std::vector<int> others;
      for (int r = 0; r < size_; ++r)
        if (r != who) others.push_back(r);
      tell_early(others, header);
      throw CommError(has_left(who, {}));
    }
    throw CommError(has_left(rank, {}));
  }
}

// What is known of a rank says more than that an earlier call failed.
void Endpoint::check_members(uint32_t channel_id, std::optional<int64_t> calls) {
  if (trouble_) {
    std::unique_lock lock(mutex_);
    Channel& ch = channel(channel_id);
    if (ch.failure) local::throw_record(*ch.failure);
    const bool of_all = static_cast<int>(ch.members.size()) == size_;
    check_known([&](int rank) { return of_all || std::ranges::find(ch.members, rank) != ch.members.end(); }, lock);
    for (auto& [member, left] : ch.left) {
      if (calls && left.how.calls >= *calls) continue;
      const bool at_once = calls && !left.how.unwinding;
      if (!at_once && seconds_since(left.at) <= kGraceSeconds) continue;
      const Leaving how = left.how;
      const int who = member;
      if (!std::exchange(left.is_told, true)) {
        FrameHeader header{
            channel_id, FrameKind::leave, who, 0, 0, how.unwinding ? kUnwinding : 0, static_cast<uint64_t>(how.calls),
            0};
        header.tag = static_cast<uint64_t>((steady_clock::now() - left.at) / std::chrono::nanoseconds(1));
        std::vector<int> others = ch.members;
        others.erase(others.begin() + who);
        lock.unlock();
        tell_early(others, header);
      }
      throw CommError(has_left(who, how));
    }
  }
  if (broken_) throw CommError("an earlier collective call failed; the job can only end");
}

void Endpoint::tell(const std::vector<int>& job_ranks, FrameKind kind, uint32_t channel_id, int from,
                    const Leaving& leaving, std::span<const std::byte> text) {
  const int64_t state = (broken_ ? kBroken : 0) | (leaving.unwinding ? kUnwinding : 0);
  tell(job_ranks, {channel_id, kind, from, 0, 0, state, static_cast<uint64_t>(leaving.calls), 0}, text);
}

void Endpoint::tell(const std::vector<int>& job_ranks, const FrameHeader& header, std::span<const std::byte> text) {
  std::byte frame[kMaxFrameBytes];
  std::memcpy(frame, &header, sizeof header);
  if (!text.empty()) std::memcpy(frame + sizeof header, text.data(), text.size());
  for (const int r : job_ranks) {
    // A rank that left first still waits for this one's word.
    const bool lost = [&] {
      const std::lock_guard lock(mutex_);
      const Peer* const peer = known(r);
      return peer != nullptr && peer->lost;
    }();
    if (r == rank_ || lost) continue;
    put(r, {frame, sizeof header + text.size()});
  }
}

// Of a rank that has left while others still communicate, of which its neighbours alone know.
void Endpoint::tell_early(const std::vector<int>& job_ranks, const FrameHeader& header) noexcept try {
  tell(job_ranks, header, {});
} catch (const std::exception& error) {
  local::log(local::LogLevel::info, fmt::format("telling others of a rank that has left: {}", error.what()));
}

void Endpoint::tell_leaving(uint32_t channel_id, const Leaving& leaving) {
  std::vector<int> members;
  int rank = 0;
  {
    const std::lock_guard lock(mutex_);
    Channel& ch = channel(channel_id);
    if (std::exchange(ch.has_told, true)) return;
    for (const int member : circle(ch.rank, static_cast<int>(ch.members.size())))
      members.push_back(ch.members[static_cast<size_t>(member)]);
    rank = ch.rank;
  }
  tell(members, FrameKind::leave, channel_id, rank, leaving);
}

void Endpoint::fail_channel(uint32_t channel_id, const std::string& call, const local::ErrorRecord& error) noexcept
    try {
  if (!transport_ || broken_) return;
  std::vector<int> members;
  FrameHeader header{
      channel_id, FrameKind::failed, 0, 0, static_cast<uint64_t>(error.code), 0, static_cast<uint64_t>(error.detail),
      0};
  {
    const std::lock_guard lock(mutex_);
    members = channel(channel_id).members;
    header.from = channel(channel_id).rank;
  }
  broken_ = true;
  std::string text = fmt::format("{} [rank {} alone, in {}]", error.message, header.from, call);
  text.resize(std::min(text.size(), static_cast<size_t>(kMaxMessageBytes)));
  tell(members, header, std::as_bytes(std::span(text)));
} catch (const std::exception& failure) {
  local::log(local::LogLevel::error, fmt::format("telling others of an error: {}", failure.what()));
}

bool Endpoint::meet(uint32_t channel_id, const std::vector<int>& members, int rank,
                    const std::function<bool(int)>& has_left, bool unwinding, const std::function<void()>& meanwhile) {
  const auto begin = steady_clock::now();
  Backoff backoff;
  // Whether it came true in time.
  const auto wait_until = [&](const auto& is_over) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        if (is_over()) return true;
      }
      if (unwinding && seconds_since(begin) > patience_seconds_) return false;
      meanwhile();
      if (transport_->progress(*this)) backoff.reset();
      backoff.pause();
    }
  };
  const auto is_gone = [&](int member) {
    const Peer* const peer = known(members[static_cast<size_t>(member)]);
    return (peer != nullptr && (peer->left || peer->lost)) || has_left(member);
  };
  const int size = static_cast<int>(members.size());
  const std::vector<int> near = circle(rank, size);
  const auto is_any_lost_here = [&] {
    return std::ranges::any_of(peers_, [](const auto& peer) { return peer.second.lost; });
  };
  bool came = wait_until([&] { return std::ranges::all_of(near, is_gone); });
  // Then a barrier: in round k each rank tells the one 2^k on that all before have come, and whether all is in order
  // there. Who has lost a rank waits for nobody any more.
  for (int round = 0; came && 1 << round < size; ++round) {
    const bool is_broken = [&] {
      const std::lock_guard lock(mutex_);
      const bool near_broken = std::ranges::any_of(peers_, [](const auto& peer) { return peer.second.broken; });
      return broken_ || broken_elsewhere_ || near_broken || is_any_lost_here();
    }();
    const int next = members[static_cast<size_t>((rank + (1 << round)) % size)];
    const int64_t state = is_broken ? kBroken : 0;
    tell({next}, {channel_id, FrameKind::gone, rank, 0, static_cast<uint64_t>(round), state, 0, 0}, {});
    // Whose message is lost is waited for otherwise.
    send_count(next, /*last=*/true);
    came = wait_until([&] { return rounds_of(channel_id).contains(round) || is_any_lost_here(); });
  }
  if (came) return true;
  std::vector<int> all(static_cast<size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  tell(all, FrameKind::gave_up, 0, rank_, {0, /*unwinding=*/true});
  const std::lock_guard lock(mutex_);
  bool named = false;
  for (const int member : near) {
    if (is_gone(member)) continue;
    const int r = members[static_cast<size_t>(member)];
    lose(r, fmt::format("rank {} did not come to the end of the job", r));
    named = true;
  }
  if (!named) {  // one farther away
    const int r = members[static_cast<size_t>((rank + size - 1) % size)];
    lose(r, fmt::format("rank {}, or one before it, did not come to the end of the job", r));
  }
  return false;
}

bool Endpoint::leave_channel(uint32_t channel_id, const Leaving& leaving,
                             const std::function<void()>& meanwhile) noexcept try {
  if (!transport_) return true;
  if (broken_) return false;
  std::vector<int> members;
  int rank = 0;
  {
    const std::lock_guard lock(mutex_);
    members = channel(channel_id).members;
    rank = channel(channel_id).rank;
  }
  tell_leaving(channel_id, leaving);
  const auto has_left_channel = [&](int member) { return channel(channel_id).left.contains(member); };
  return meet(channel_id, members, rank, has_left_channel, leaving.unwinding, meanwhile);
} catch (const std::exception& error) {
  local::log(local::LogLevel::error, fmt::format("leaving a communicator: {}", error.what()));
  return false;
}

// Of an end that was a good one until then: no call is left that could throw it.
void Endpoint::log_lost() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, peer] : peers_)
    if (peer.lost) local::log(local::LogLevel::error, fmt::format("leaving the job: {}", peer.reason));
}

bool Endpoint::leave(bool unwinding, const std::function<void()>& meanwhile) noexcept try {
  if (!transport_) return true;
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  std::vector<int> all(static_cast<size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  tell(circle(rank_, size_), FrameKind::goodbye, 0, rank_, {0, unwinding});
  // Whose goodbye is lost is waited for otherwise: this rank ends as soon as it has those of the others.
  for (const int r : known_ranks()) send_count(r, /*last=*/true);
  const bool all_here = !is_any_lost();
  meet(
      /*channel=*/0, all, rank_, [](int) { return false; }, unwinding, meanwhile);
  if (all_here && !unwinding) log_lost();
  constexpr double kCloseSeconds = 3, kCloseWithoutAllSeconds = 0.5;
  transport_->close(*this, is_any_lost() ? kCloseWithoutAllSeconds : kCloseSeconds);
  const std::lock_guard lock(mutex_);
  return !broken_ && !broken_elsewhere_ &&
         std::ranges::none_of(peers_, [](const auto& peer) { return peer.second.lost || peer.second.broken; });
} catch (const std::exception& error) {
  local::log(local::LogLevel::error, fmt::format("leaving the job: {}", error.what()));
  return false;
}

}  // namespace quarry::comm
