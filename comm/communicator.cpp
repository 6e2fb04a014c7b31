#include "quarry/comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <numeric>

namespace quarry::comm {

std::string Communicator::broadcast_string(const std::string& mine, int root) {
  int64_t bytes = static_cast<int64_t>(mine.size());
  broadcast(&bytes, sizeof bytes, root);
  std::string text = rank() == root ? mine : std::string(static_cast<size_t>(bytes), '\0');
  broadcast(text.data(), bytes, root);
  return text;
}

void Communicator::all_to_all(const void* send, std::span<const int64_t> send_bytes, void* receive,
                              std::span<const int64_t> receive_bytes) {
  const auto ranks = static_cast<size_t>(size());
  if (send_bytes.size() != ranks || receive_bytes.size() != ranks) {
    throw local::InvalidArgument(
        fmt::format("all-to-all of {} and {} segments over {} ranks", send_bytes.size(), receive_bytes.size(), ranks));
  }
  std::vector<int64_t> send_at(ranks), receive_at(ranks);
  std::exclusive_scan(send_bytes.begin(), send_bytes.end(), send_at.begin(), int64_t{0});
  std::exclusive_scan(receive_bytes.begin(), receive_bytes.end(), receive_at.begin(), int64_t{0});
  // In step s a rank sends to the one s places on: no rank has more than a few partners at a time.
  constexpr size_t kPartners = 4;
  std::deque<std::unique_ptr<Request>> open;
  const auto own = static_cast<size_t>(rank());
  for (size_t step = 0; step < ranks; ++step) {
    const size_t to = (own + step) % ranks, from = (own + ranks - step) % ranks;
    if (receive_bytes[from] > 0) {
      open.push_back(this->receive(static_cast<std::byte*>(receive) + receive_at[from], receive_bytes[from],
                                   static_cast<int>(from), kAllToAllTag));
    }
    if (send_bytes[to] > 0) {
      open.push_back(this->send(static_cast<const std::byte*>(send) + send_at[to], send_bytes[to], static_cast<int>(to),
                                kAllToAllTag));
    }
    for (; open.size() > 2 * kPartners; open.pop_front()) open.front()->wait();
  }
  for (const auto& request : open) request->wait();
}

std::unique_ptr<Request> Communicator::send_device(local::DeviceKind /*kind*/, const void* /*data*/, int64_t /*bytes*/,
                                                   int /*to*/, uint64_t /*tag*/) {
  throw local::NotSupported(fmt::format("{} does not move device memory", transport()));
}

std::unique_ptr<Request> Communicator::receive_device(local::DeviceKind /*kind*/, void* /*data*/, int64_t /*bytes*/,
                                                      int /*from*/, uint64_t /*tag*/) {
  throw local::NotSupported(fmt::format("{} does not move device memory", transport()));
}

std::vector<std::string> Communicator::all_gather_strings(const std::string& mine) {
  std::vector<int64_t> sizes(static_cast<size_t>(size()));
  const int64_t bytes = static_cast<int64_t>(mine.size());
  all_gather(&bytes, sizeof bytes, sizes.data());
  // Broadcast one by one: they may differ much in length.
  std::vector<std::string> all(sizes.size());
  for (size_t r = 0; r < sizes.size(); ++r) {
    all[r] = static_cast<int>(r) == rank() ? mine : std::string(static_cast<size_t>(sizes[r]), '\0');
    broadcast(all[r].data(), sizes[r], static_cast<int>(r));
  }
  return all;
}

namespace {

// "rank 2", "ranks 0-1, 3": of which `chosen` is true.
std::string list_ranks(const std::vector<bool>& chosen) {
  std::string text;
  size_t count = 0;
  for (size_t first = 0; first < chosen.size(); ++first) {
    if (!chosen[first]) continue;
    size_t last = first;
    while (last + 1 < chosen.size() && chosen[last + 1]) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
    count += last - first + 1;
    first = last;
  }
  return (count == 1 ? "rank " : "ranks ") + text;
}

// `what`: of each rank.
[[noreturn]] void throw_diverged(const std::vector<std::string>& what) {
  constexpr size_t kMostNamed = 4;
  std::vector<std::string> named;
  std::string text;
  for (const std::string& one : what) {
    if (std::ranges::find(named, one) != named.end()) continue;
    named.push_back(one);
    if (named.size() > kMostNamed) continue;
    std::vector<bool> same;
    for (const std::string& other : what) same.push_back(other == one);
    text += fmt::format("{}{} called {}", text.empty() ? "" : ", ", list_ranks(same), one);
  }
  if (named.size() > kMostNamed) text += ", and others other things";
  throw local::CommError("ranks diverged: " + text);
}

}  // namespace

size_t note_bytes(const Communicator& communicator) {
  constexpr int kMostRanks = 64;
  constexpr size_t kBytes = 96;
  return communicator.size() > 1 && communicator.size() <= kMostRanks ? kBytes : 0;
}

void agree(Communicator& communicator, const std::exception_ptr& mine, const Call& call, std::span<int64_t> largest,
           std::vector<std::byte>* notes) {
  struct Header {
    int64_t failed, code, detail;
    uint64_t hash;
    std::array<int64_t, kMostLargest> largest;
    std::array<char, Call::kNameBytes> name;
    std::string called() const { return {name.data(), strnlen(name.data(), name.size())}; }
  };
  QUARRY_CHECK(largest.size() <= kMostLargest);
  communicator.enter(call.name);
  const local::ErrorRecord record = mine ? local::to_record(mine) : local::ErrorRecord{};
  Header header{mine ? 1 : 0, static_cast<int64_t>(record.code), record.detail, call.hash, {}, {}};
  std::ranges::copy(largest, header.largest.begin());
  call.name.copy(header.name.data(), header.name.size());
  std::vector<Header> all(static_cast<size_t>(communicator.size()));
  const size_t noted = note_bytes(communicator), bytes = sizeof header + noted;
  QUARRY_CHECK(notes == nullptr || notes->size() == noted);
  std::vector<std::byte> sent(bytes), received(bytes * all.size());
  std::memcpy(sent.data(), &header, sizeof header);
  if (notes != nullptr) std::ranges::copy(*notes, sent.begin() + sizeof header);
  communicator.all_gather(sent.data(), std::ssize(sent), received.data());
  if (notes != nullptr) notes->resize(noted * all.size());
  for (size_t r = 0; r < all.size(); ++r) {
    const std::span from = std::span(received).subspan(r * bytes, bytes);
    std::memcpy(&all[r], from.data(), sizeof header);
    if (notes != nullptr && noted > 0) std::memcpy(&(*notes)[r * noted], &from[sizeof header], noted);
  }
  if (std::ranges::any_of(all, [&](const Header& other) { return other.name != header.name; })) {
    std::vector<std::string> called;
    for (const Header& other : all) called.push_back(other.called());
    throw_diverged(called);
  }
  for (size_t r = 0; r < all.size(); ++r) {
    if (!all[r].failed) continue;
    const std::string message = communicator.broadcast_string(record.message, static_cast<int>(r));
    local::throw_record({static_cast<local::ErrorCode>(all[r].code), message, all[r].detail});
  }
  if (std::ranges::any_of(all, [&](const Header& other) { return other.hash != header.hash; })) {
    std::string what = call.describe ? call.describe() : "";
    what = fmt::format("{}{}{} ({:016x})", call.name, what.empty() ? "" : " of ", what, call.hash);
    throw_diverged(communicator.all_gather_strings(what));
  }
  for (size_t i = 0; i < largest.size(); ++i) {
    for (const Header& other : all) largest[i] = std::max(largest[i], other.largest[i]);
  }
}

}  // namespace quarry::comm
