#include "quarry/comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

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

namespace {

constexpr uint64_t kTreeTag = 0x74726565;        // "tree"
constexpr uint64_t kRouteTag = 0x726f757465;     // "route"
constexpr uint64_t kParcelTag = 0x70617263656c;  // "parcel"

void append_number(std::string& text, int64_t number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

int64_t take_number(std::string_view& text) {
  int64_t number = 0;
  QUARRY_CHECK(text.size() >= sizeof number);
  std::memcpy(&number, text.data(), sizeof number);
  text.remove_prefix(sizeof number);
  return number;
}

// Texts one behind the other, each with its length.
void append_text(std::string& packed, std::string_view text) {
  append_number(packed, std::ssize(text));
  packed += text;
}

std::string_view take_text(std::string_view& packed) {
  const auto bytes = static_cast<size_t>(take_number(packed));
  QUARRY_CHECK(packed.size() >= bytes);
  const std::string_view text = packed.substr(0, bytes);
  packed.remove_prefix(bytes);
  return text;
}

std::string packed_text(std::string_view text) {
  std::string packed;
  append_text(packed, text);
  return packed;
}

std::vector<std::string> unpacked_texts(std::string_view packed) {
  std::vector<std::string> texts;
  while (!packed.empty()) texts.emplace_back(take_text(packed));
  return texts;
}

}  // namespace

std::string Communicator::reduce_string(std::string mine,
                                        const std::function<void(std::string&, const std::string&)>& merge) {
  for (int step = 1; step < size(); step *= 2) {
    if ((rank() & step) != 0) {
      const int64_t bytes = std::ssize(mine);
      const auto size_sent = send(&bytes, sizeof bytes, rank() - step, kTreeTag);
      const auto sent = send(mine.data(), bytes, rank() - step, kTreeTag);
      size_sent->wait();
      sent->wait();
      return "";
    }
    if (rank() + step >= size()) continue;
    int64_t bytes = 0;
    receive(&bytes, sizeof bytes, rank() + step, kTreeTag)->wait();
    std::string next(static_cast<size_t>(bytes), '\0');
    receive(next.data(), bytes, rank() + step, kTreeTag)->wait();
    merge(mine, next);
  }
  return mine;
}

std::vector<std::string> Communicator::gather_strings(const std::string& mine) {
  const auto append = [](std::string& packed, const std::string& next) { packed += next; };
  return unpacked_texts(reduce_string(packed_text(mine), append));
}

std::vector<std::string> Communicator::all_gather_strings(const std::string& mine) {
  const auto append = [](std::string& packed, const std::string& next) { packed += next; };
  return unpacked_texts(broadcast_string(reduce_string(packed_text(mine), append), /*root=*/0));
}

// The numbers of bytes go as in Bruck's all-to-all: in round k every rank hands those with bit k in the distance that
// they still have to go to the rank 2^k on.
std::vector<Communicator::Parcel> Communicator::exchange(const std::vector<Parcel>& out) {
  struct Route {
    int32_t to, from;
    int64_t bytes;
  };
  constexpr size_t kFew = 15;  // that go with their number in one small message
  struct Routes {
    int64_t count;
    std::array<Route, kFew> first;
  };
  const int ranks = size();
  std::vector<Route> routes;
  for (const Parcel& parcel : out) routes.push_back({parcel.rank, rank(), std::ssize(parcel.bytes)});
  for (int step = 1; step < ranks; step *= 2) {
    const int to = (rank() + step) % ranks, from = (rank() - step + ranks) % ranks;
    const auto stays = [&](const Route& route) { return ((route.to - rank() + ranks) % ranks & step) == 0; };
    const auto first_leaving = std::partition(routes.begin(), routes.end(), stays);
    const std::vector<Route> leaving(first_leaving, routes.end());
    routes.erase(first_leaving, routes.end());
    Routes sent{std::ssize(leaving), {}}, came{};
    std::copy_n(leaving.begin(), std::min(leaving.size(), kFew), sent.first.begin());
    const auto arrives = receive(&came, sizeof came, from, kRouteTag);
    const auto leaves = send(&sent, sizeof sent, to, kRouteTag);
    std::unique_ptr<Request> rest;
    constexpr auto kBytes = static_cast<int64_t>(sizeof(Route));
    if (leaving.size() > kFew)
      rest = send(leaving.data() + kFew, (std::ssize(leaving) - static_cast<int64_t>(kFew)) * kBytes, to, kRouteTag);
    arrives->wait();
    const auto count = static_cast<size_t>(came.count);
    routes.insert(routes.end(), came.first.begin(), came.first.begin() + std::min(count, kFew));
    if (count > kFew) {
      const size_t known = routes.size();
      routes.resize(known + count - kFew);
      receive(routes.data() + known, static_cast<int64_t>(count - kFew) * kBytes, from, kRouteTag)->wait();
    }
    leaves->wait();
    if (rest) rest->wait();
  }
  std::ranges::sort(routes, {}, &Route::from);
  std::vector<Parcel> in;
  in.reserve(routes.size());
  for (const Route& route : routes)
    in.push_back({route.from, std::vector<std::byte>(static_cast<size_t>(route.bytes))});
  std::vector<std::unique_ptr<Request>> requests;
  for (Parcel& parcel : in)
    requests.push_back(receive(parcel.bytes.data(), std::ssize(parcel.bytes), parcel.rank, kParcelTag));
  for (const Parcel& parcel : out)
    requests.push_back(send(parcel.bytes.data(), std::ssize(parcel.bytes), parcel.rank, kParcelTag));
  for (const auto& request : requests) request->wait();
  return in;
}

namespace {

// What some ranks say alike, and which; ranges [first, last], ascending.
struct Said {
  std::string what;
  std::vector<std::pair<int64_t, int64_t>> ranks;
};
constexpr size_t kMostNamed = 4;    // of what is said
constexpr size_t kMostRanges = 64;  // of ranks that say it

std::string pack(const std::vector<Said>& all) {
  std::string packed;
  for (const Said& said : all) {
    append_text(packed, said.what);
    append_number(packed, std::ssize(said.ranks));
    for (const auto& [first, last] : said.ranks) {
      append_number(packed, first);
      append_number(packed, last);
    }
  }
  return packed;
}

std::vector<Said> unpack(std::string_view packed) {
  std::vector<Said> all;
  while (!packed.empty()) {
    Said& said = all.emplace_back();
    said.what = take_text(packed);
    for (int64_t left = take_number(packed); left > 0; --left) {
      const int64_t first = take_number(packed);
      said.ranks.emplace_back(first, take_number(packed));
    }
  }
  return all;
}

// `next`: what the ranks behind say.
void merge_said(std::string& packed, const std::string& next) {
  std::vector<Said> all = unpack(packed);
  for (Said& more : unpack(next)) {
    const auto same = std::ranges::find(all, more.what, &Said::what);
    if (same == all.end()) {
      if (all.size() <= kMostNamed) all.push_back(std::move(more));  // one more than are named
      continue;
    }
    for (const auto& [first, last] : more.ranks) {
      if (same->ranks.back().second + 1 == first)
        same->ranks.back().second = last;
      else if (same->ranks.size() < kMostRanges)
        same->ranks.emplace_back(first, last);
    }
  }
  packed = pack(all);
}

// "rank 2", "ranks 0-1, 3".
std::string list_ranks(const Said& said) {
  std::string text;
  for (const auto& [first, last] : said.ranks) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  const bool one = said.ranks.size() == 1 && said.ranks[0].first == said.ranks[0].second;
  if (said.ranks.size() == kMostRanges) text += " and perhaps others";
  return (one ? "rank " : "ranks ") + text;
}

// Collective, on every rank.
[[noreturn]] void throw_diverged(Communicator& communicator, std::string what) {
  const int64_t rank = communicator.rank();
  const std::string packed = communicator.reduce_string(pack({{std::move(what), {{rank, rank}}}}), merge_said);
  std::string text;
  if (rank == 0) {
    const std::vector<Said> all = unpack(packed);
    for (size_t i = 0; i < std::min(all.size(), kMostNamed); ++i)
      text += fmt::format("{}{} called {}", i == 0 ? "" : ", ", list_ranks(all[i]), all[i].what);
    if (all.size() > kMostNamed) text += ", and others other things";
  }
  throw local::CommError("ranks diverged: " + communicator.broadcast_string(text, /*root=*/0));
}

}  // namespace

size_t note_bytes(const Communicator& communicator) {
  constexpr int kMostRanks = 64;
  constexpr size_t kBytes = 96;
  return communicator.size() > 1 && communicator.size() <= kMostRanks ? kBytes : 0;
}

namespace {

// Each of the words becomes the largest of all ranks; notes of the same size everywhere become those of all.
void exchange_words(Communicator& communicator, std::span<int64_t> words, std::vector<std::byte>* notes) {
  const size_t noted = note_bytes(communicator), bytes = words.size_bytes() + noted;
  QUARRY_CHECK(notes == nullptr || notes->size() == noted);
  if (noted == 0) {
    communicator.all_reduce(words, ReduceOp::max);
    return;
  }
  const auto ranks = static_cast<size_t>(communicator.size());
  std::vector<std::byte> sent(bytes), received(bytes * ranks);
  std::memcpy(sent.data(), words.data(), words.size_bytes());
  if (notes != nullptr) std::memcpy(&sent[words.size_bytes()], notes->data(), noted);
  communicator.all_gather(sent.data(), std::ssize(sent), received.data());
  if (notes != nullptr) notes->resize(noted * ranks);
  std::vector<int64_t> others(words.size());
  for (size_t r = 0; r < ranks; ++r) {
    const std::byte* const from = &received[r * bytes];
    std::memcpy(others.data(), from, words.size_bytes());
    for (size_t i = 0; i < words.size(); ++i) words[i] = std::max(words[i], others[i]);
    if (notes != nullptr) std::memcpy(&(*notes)[r * noted], from + words.size_bytes(), noted);
  }
}

}  // namespace

// All in one exchange of largest numbers, the same number whatever the call and on any number of ranks: of what must be
// equal each word and its complement, whose largest ones belong together where all words are equal.
void agree(Communicator& communicator, const std::exception_ptr& mine, const Call& call, std::span<int64_t> largest,
           std::vector<std::byte>* notes) {
  constexpr size_t kNameWords = Call::kNameBytes / sizeof(int64_t);
  enum : size_t { name, name_complement = kNameWords, hash = 2 * kNameWords, hash_complement, failing, others };
  constexpr int64_t kNone = -1, kMostRanks = INT32_MAX;
  QUARRY_CHECK(largest.size() <= kMostLargest);
  communicator.enter(call.name);
  std::array<int64_t, others + kMostLargest> words{};
  std::memcpy(words.data(), call.name.data(), std::min(call.name.size(), Call::kNameBytes));
  words[hash] = static_cast<int64_t>(call.hash);
  words[failing] = mine ? kMostRanks - communicator.rank() : kNone;  // the largest is the lowest rank's
  for (size_t i = 0; i < kNameWords; ++i) words[name_complement + i] = ~words[name + i];
  words[hash_complement] = ~words[hash];
  std::fill(words.begin() + others, words.end(), INT64_MIN);
  std::ranges::copy(largest, words.begin() + others);
  exchange_words(communicator, words, notes);
  bool same_name = true;
  for (size_t i = 0; i < kNameWords; ++i) same_name &= words[name + i] == ~words[name_complement + i];
  const bool same_hash = words[hash] == ~words[hash_complement];
  if (!same_name || !same_hash || words[failing] != kNone) communicator.note_failed_call();
  if (!same_name) throw_diverged(communicator, std::string(call.name.substr(0, Call::kNameBytes)));
  if (words[failing] != kNone) {
    const int first = static_cast<int>(kMostRanks - words[failing]);
    std::string packed;
    if (communicator.rank() == first) {
      const local::ErrorRecord record = local::to_record(mine);
      append_number(packed, static_cast<int64_t>(record.code));
      append_number(packed, record.detail);
      packed += record.message;
    }
    packed = communicator.broadcast_string(packed, first);
    std::string_view rest = packed;
    const auto code = static_cast<local::ErrorCode>(take_number(rest));
    const int64_t detail = take_number(rest);
    local::throw_record({code, std::string(rest), detail});
  }
  if (!same_hash) {
    const std::string what = call.describe ? call.describe() : "";
    throw_diverged(communicator,
                   fmt::format("{}{}{} ({:016x})", call.name, what.empty() ? "" : " of ", what, call.hash));
  }
  std::ranges::copy(std::span(words).subspan(others, largest.size()), largest.begin());
}

}  // namespace quarry::comm
