// What every transport has to do, on any number of ranks.
#include "quarry/comm/communicator.h"
#include "quarry/comm/world/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <thread>

#include "tests/support/mpi_job.h"

namespace quarry::comm {
namespace {

using test::job;

int next_rank() { return (job().rank() + 1) % job().size(); }
int previous_rank() { return (job().rank() + job().size() - 1) % job().size(); }

// Bytes that depend on who sends them and which message it is.
std::vector<uint8_t> pattern(int64_t bytes, uint64_t seed) {
  std::vector<uint8_t> data(static_cast<size_t>(bytes));
  uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (size_t i = 0; i < data.size(); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    data[i] = static_cast<uint8_t>(state >> 56);
  }
  return data;
}

std::span<const std::byte> bytes_of(const void* data, size_t bytes) {
  return {static_cast<const std::byte*>(data), bytes};
}

// Drives the communicator until the condition holds.
template <class Condition>
void progress_until(Condition condition) {
  while (!condition()) {
    if (!job().progress()) job().wait_for_event(1e-3);
  }
}

TEST(Communicator, RanksAndNodes) {
  EXPECT_GE(job().rank(), 0);
  EXPECT_LT(job().rank(), job().size());
  EXPECT_GE(job().node_rank(), 0);
  EXPECT_LT(job().node_rank(), job().node_size());
  EXPECT_LE(job().node_size(), job().size());
  const char* wanted = std::getenv("QUARRY_TRANSPORT");
  if (is_launched() && wanted && std::string(wanted) != "auto") {
    EXPECT_STREQ(job().transport(), wanted);
  }
  if (!is_launched()) {
    EXPECT_STREQ(job().transport(), "self");
  }
  if (const char* ranks = std::getenv("QUARRY_TEST_RANKS_PER_HOST")) {
    EXPECT_EQ(job().node_size(), std::atoi(ranks));
    EXPECT_EQ(job().node_rank(), job().rank() % std::atoi(ranks));
  }
}

class Sizes : public ::testing::TestWithParam<int64_t> {};

TEST_P(Sizes, RingOfMessages) {
  const int64_t bytes = GetParam();
  constexpr uint64_t kTag = 0xfedcba9876543210;
  const std::vector<uint8_t> out = pattern(bytes, static_cast<uint64_t>(job().rank()));
  std::vector<uint8_t> in(static_cast<size_t>(bytes), 0xcc);
  const auto receive = job().receive(in.data(), bytes, previous_rank(), kTag);
  const auto send = job().send(out.data(), bytes, next_rank(), kTag);
  receive->wait();
  send->wait();
  EXPECT_TRUE(receive->done());
  EXPECT_TRUE(in == pattern(bytes, static_cast<uint64_t>(previous_rank())));
}

TEST_P(Sizes, ArrivesBeforeItsReceive) {
  const int64_t bytes = GetParam();
  const std::vector<uint8_t> out = pattern(bytes, 7);
  const auto send = job().send(out.data(), bytes, next_rank(), 1);
  job().barrier();
  std::vector<uint8_t> in(static_cast<size_t>(bytes));
  job().receive(in.data(), bytes, previous_rank(), 1)->wait();
  send->wait();
  EXPECT_TRUE(in == out);
}

TEST_P(Sizes, Broadcast) {
  const int64_t bytes = GetParam();
  for (int root = 0; root < job().size(); ++root) {
    std::vector<uint8_t> data(static_cast<size_t>(bytes));
    if (job().rank() == root) data = pattern(bytes, static_cast<uint64_t>(root));
    job().broadcast(data.data(), bytes, root);
    EXPECT_TRUE(data == pattern(bytes, static_cast<uint64_t>(root)));
  }
}

TEST_P(Sizes, AllGather) {
  const int64_t bytes = GetParam();
  const std::vector<uint8_t> mine = pattern(bytes, static_cast<uint64_t>(job().rank()));
  std::vector<uint8_t> all(static_cast<size_t>(bytes) * static_cast<size_t>(job().size()));
  job().all_gather(mine.data(), bytes, all.data());
  for (int r = 0; r < job().size(); ++r) {
    const auto expected = pattern(bytes, static_cast<uint64_t>(r));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin() + r * bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Bytes, Sizes, ::testing::Values(0, 1, 7, 4095, 4096, 4097, 65536, 1000003, int64_t{16} << 20));

TEST(PointToPoint, SixtyFourMebibytes) {
  const int64_t bytes = int64_t{64} << 20;
  const std::vector<uint8_t> out = pattern(bytes, static_cast<uint64_t>(job().rank()));
  std::vector<uint8_t> in(static_cast<size_t>(bytes));
  const auto receive = job().receive(in.data(), bytes, previous_rank(), 5);
  const auto send = job().send(out.data(), bytes, next_rank(), 5);
  receive->wait();
  send->wait();
  EXPECT_TRUE(in == pattern(bytes, static_cast<uint64_t>(previous_rank())));
}

int64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (int64_t kibibytes = 0; file >> name; file.ignore(256, '\n')) {
    if (name == "MemAvailable:" && file >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

// Above what 31 bits count, and what one call of MPI takes; on two ranks, one way, so that memory is enough.
class Large : public ::testing::TestWithParam<int64_t> {};

TEST_P(Large, SendAndBroadcast) {
  const int64_t bytes = GetParam();
  if (std::getenv("QUARRY_SLOW_TESTS") == nullptr) GTEST_SKIP() << "QUARRY_SLOW_TESTS is not set";
  if (job().size() != 2) GTEST_SKIP() << "runs on two ranks";
  int64_t enough = available_memory_bytes() > 3 * bytes ? 1 : 0;
  job().all_reduce(std::span(&enough, 1), ReduceOp::min);
  if (!enough) GTEST_SKIP() << "needs " << 3 * bytes << " bytes of memory";
  std::vector<uint8_t> data(static_cast<size_t>(bytes));
  if (job().rank() == 0) {
    for (int64_t i = 0; i < bytes; i += 4093) data[static_cast<size_t>(i)] = static_cast<uint8_t>(i / 4093);
    job().send(data.data(), bytes, 1, 1)->wait();
    job().broadcast(data.data(), bytes, 0);
    return;
  }
  for (int round = 0; round < 2; ++round) {
    std::fill(data.begin(), data.end(), uint8_t{0});
    if (round == 0) {
      job().receive(data.data(), bytes, 0, 1)->wait();
    } else {
      job().broadcast(data.data(), bytes, 0);
    }
    int64_t wrong = 0;
    for (int64_t i = 0; i < bytes; i += 4093) wrong += data[static_cast<size_t>(i)] != static_cast<uint8_t>(i / 4093);
    EXPECT_EQ(wrong, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Bytes, Large,
                         ::testing::Values(int64_t{1} << 30, (int64_t{1} << 31) + 1, (int64_t{5} << 30) + 3));

TEST(PointToPoint, EveryBitOfATagCounts) {
  std::vector<uint64_t> tags{0, ~uint64_t{0}};
  for (int bit = 0; bit < 64; ++bit) tags.push_back(uint64_t{1} << bit);
  std::vector<std::unique_ptr<Request>> requests;
  for (const uint64_t& tag : tags) requests.push_back(job().send(&tag, sizeof tag, next_rank(), tag));
  for (size_t i = tags.size(); i-- > 0;) {
    uint64_t got = 1234567;
    job().receive(&got, sizeof got, previous_rank(), tags[i])->wait();
    EXPECT_EQ(got, tags[i]);
  }
  for (auto& request : requests) request->wait();
}

TEST(PointToPoint, ThousandsOfMessagesThatNobodyWaitsForYet) {
  // Small ones travel with their announcement, large ones stay where they are until the receive.
  constexpr int64_t kCount = 4000, kLarge = 8192;
  std::vector<int64_t> large(kLarge / sizeof(int64_t) * 16);
  std::iota(large.begin(), large.end(), int64_t{0});
  std::vector<std::unique_ptr<Request>> requests;
  for (int64_t i = 0; i < kCount; ++i) {
    const auto tag = static_cast<uint64_t>(i % 16);
    if (i % 8 == 0) {
      requests.push_back(job().send(large.data() + i % 16, kLarge, next_rank(), tag));
    } else {
      requests.push_back(job().send(&i, sizeof i, next_rank(), tag));
    }
  }
  job().barrier();
  int64_t wrong = 0;
  std::vector<int64_t> in(kLarge / sizeof(int64_t));
  for (int64_t i = 0; i < kCount; ++i) {
    const bool is_large = i % 8 == 0;
    job().receive(in.data(), is_large ? kLarge : 8, previous_rank(), static_cast<uint64_t>(i % 16))->wait();
    wrong += in[0] != (is_large ? i % 16 : i);
  }
  for (auto& request : requests) request->wait();
  EXPECT_EQ(wrong, 0);
}

TEST(PointToPoint, SameTagKeepsOrderAcrossSizes) {
  // Small messages travel another way than large ones; they must not overtake each other.
  std::vector<int64_t> sizes;
  for (int i = 0; i < 60; ++i) sizes.push_back(i % 3 == 0 ? 200000 + i : i % 3 == 1 ? 0 + i : 4096 + i);
  std::vector<std::vector<uint8_t>> out, in;
  std::vector<std::unique_ptr<Request>> requests;
  for (size_t i = 0; i < sizes.size(); ++i) {
    out.push_back(pattern(sizes[i], i));
    requests.push_back(job().send(out.back().data(), sizes[i], next_rank(), 9));
  }
  for (size_t i = 0; i < sizes.size(); ++i) in.emplace_back(static_cast<size_t>(sizes[i]));
  for (size_t i = 0; i < sizes.size(); ++i) {
    requests.push_back(job().receive(in[i].data(), sizes[i], previous_rank(), 9));
  }
  for (auto& request : requests) request->wait();
  for (size_t i = 0; i < sizes.size(); ++i) EXPECT_TRUE(in[i] == out[i]) << i;
}

TEST(PointToPoint, ManyInFlightToEveryone) {
  constexpr int kEach = 100;
  std::mt19937_64 random(5);  // the same on every rank
  std::vector<int64_t> sizes;
  for (int i = 0; i < kEach; ++i) sizes.push_back(static_cast<int64_t>(random() % 50000));
  std::vector<std::vector<uint8_t>> memory;
  std::vector<std::unique_ptr<Request>> requests;
  memory.reserve(2 * kEach * static_cast<size_t>(job().size()));
  const auto seed = [](int from, int to, int i) {
    return static_cast<uint64_t>(from * 64 + to) * 1000 + static_cast<uint64_t>(i);
  };
  for (int i = 0; i < kEach; ++i) {
    for (int peer = 0; peer < job().size(); ++peer) {
      memory.push_back(pattern(sizes[static_cast<size_t>(i)], seed(job().rank(), peer, i)));
      requests.push_back(
          job().send(memory.back().data(), sizes[static_cast<size_t>(i)], peer, static_cast<uint64_t>(i)));
    }
  }
  const size_t first = memory.size();
  for (int i = kEach - 1; i >= 0; --i) {
    for (int peer = 0; peer < job().size(); ++peer) {
      memory.emplace_back(static_cast<size_t>(sizes[static_cast<size_t>(i)]));
      requests.push_back(
          job().receive(memory.back().data(), sizes[static_cast<size_t>(i)], peer, static_cast<uint64_t>(i)));
    }
  }
  for (auto& request : requests) request->wait();
  size_t at = first;
  for (int i = kEach - 1; i >= 0; --i) {
    for (int peer = 0; peer < job().size(); ++peer, ++at) {
      EXPECT_TRUE(memory[at] == pattern(sizes[static_cast<size_t>(i)], seed(peer, job().rank(), i)));
    }
  }
}

TEST(PointToPoint, WrongSizeIsAnErrorThatNamesBoth) {
  for (const int64_t bytes : {int64_t{100}, int64_t{100000}}) {
    const std::vector<uint8_t> out(static_cast<size_t>(bytes));
    std::vector<uint8_t> in(static_cast<size_t>(bytes) * 2);
    const auto send = job().send(out.data(), bytes, next_rank(), 2);
    const auto receive = job().receive(in.data(), bytes * 2, previous_rank(), 2);
    try {
      receive->wait();
      ADD_FAILURE() << "no error";
    } catch (const local::CommError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(std::to_string(bytes)));
      EXPECT_THAT(error.what(), ::testing::HasSubstr(std::to_string(2 * bytes)));
    }
    send->wait();
  }
}

TEST(PointToPoint, UnmatchedReceiveCanBeDropped) {
  std::vector<uint8_t> in(1000, 1);
  job().receive(in.data(), 1000, previous_rank(), 77).reset();
  job().barrier();
  const std::vector<uint8_t> out(1000, 2);
  job().send(out.data(), 1000, next_rank(), 77)->wait();
  std::vector<uint8_t> again(1000);
  job().receive(again.data(), 1000, previous_rank(), 77)->wait();
  EXPECT_EQ(in[0], 1);
  EXPECT_EQ(again[999], 2);
}

TEST(PointToPoint, ADroppedRequestWaitsForWhatIsUnderWay) {
  const int64_t bytes = 3 << 20;
  std::vector<uint8_t> in(static_cast<size_t>(bytes));
  {
    const std::vector<uint8_t> out = pattern(bytes, static_cast<uint64_t>(job().rank()));
    const auto receive = job().receive(in.data(), bytes, previous_rank(), 78);
    job().send(out.data(), bytes, next_rank(), 78).reset();
    receive->wait();
  }
  EXPECT_TRUE(in == pattern(bytes, static_cast<uint64_t>(previous_rank())));
}

TEST(PointToPoint, ACommunicatorThatGoesFailsItsReceives) {
  auto part = job().split(0, job().rank());
  char byte = 0;
  const auto receive = part->receive(&byte, 1, previous_rank(), 79);
  part.reset();
  EXPECT_THROW(receive->wait(), local::CommError);
  job().barrier();
}

TEST(PointToPoint, RankOutOfRangeThrows) {
  char byte = 0;
  EXPECT_THROW(job().send(&byte, 1, job().size(), 0), local::InvalidArgument);
  EXPECT_THROW(job().receive(&byte, 1, -1, 0), local::InvalidArgument);
  EXPECT_THROW(job().broadcast(&byte, 1, job().size()), local::InvalidArgument);
}

TEST(Collectives, AllReduce) {
  const int n = job().size(), r = job().rank();
  std::vector<int64_t> sums{r, int64_t{1} << 40, -r};
  job().all_reduce(std::span(sums), ReduceOp::sum);
  EXPECT_THAT(sums, ::testing::ElementsAre(n * (n - 1) / 2, n * (int64_t{1} << 40), -n * (n - 1) / 2));
  std::vector<int64_t> lows{r + 5}, highs{r + 5};
  job().all_reduce(std::span(lows), ReduceOp::min);
  job().all_reduce(std::span(highs), ReduceOp::max);
  EXPECT_EQ(lows[0], 5);
  EXPECT_EQ(highs[0], n + 4);
  std::vector<double> low{0.5 + r}, high{0.5 + r};
  job().all_reduce(std::span(low), ReduceOp::min);
  job().all_reduce(std::span(high), ReduceOp::max);
  EXPECT_EQ(low[0], 0.5);
  EXPECT_EQ(high[0], n - 0.5);
  job().all_reduce(std::span<double>(), ReduceOp::sum);
}

TEST(Collectives, DoubleSumsHaveTheSameBitsEverywhere) {
  std::mt19937_64 random(static_cast<uint64_t>(job().rank()));
  std::vector<double> mine(70001);
  for (double& x : mine) x = std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 80));
  std::vector<double> sum = mine;
  job().all_reduce(std::span(sum), ReduceOp::sum);
  std::vector<double> all(mine.size() * static_cast<size_t>(job().size()));
  job().all_gather(mine.data(), static_cast<int64_t>(mine.size() * sizeof(double)), all.data());
  std::vector<double> expected(all.begin(), all.begin() + static_cast<int64_t>(mine.size()));
  for (size_t r = 1; r < static_cast<size_t>(job().size()); ++r) {
    for (size_t i = 0; i < mine.size(); ++i) expected[i] += all[r * mine.size() + i];
  }
  std::vector<double> first = sum;
  job().broadcast(first.data(), static_cast<int64_t>(first.size() * sizeof(double)), 0);
  EXPECT_TRUE(sum == first);
  for (size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], expected[i], expected[i] * job().size() * 1e-15) << i;
}

TEST(Collectives, AllToAllOfAnySizes) {
  // From r to q: some sizes are nothing, some travel with their announcement, some do not.
  const auto bytes_of_pair = [](int from, int to) { return int64_t{(from * 7 + to * 3) % 5} * 3001 * (to + 1); };
  std::vector<int64_t> out_bytes, in_bytes;
  std::vector<uint8_t> out, expected;
  for (int r = 0; r < job().size(); ++r) {
    out_bytes.push_back(bytes_of_pair(job().rank(), r));
    in_bytes.push_back(bytes_of_pair(r, job().rank()));
    const auto seed = [](int from, int to) { return static_cast<uint64_t>(from) * 100 + static_cast<uint64_t>(to); };
    const auto mine = pattern(out_bytes.back(), seed(job().rank(), r));
    const auto theirs = pattern(in_bytes.back(), seed(r, job().rank()));
    out.insert(out.end(), mine.begin(), mine.end());
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<uint8_t> in(expected.size(), 0xcc);
    job().all_to_all(out.data(), out_bytes, in.data(), in_bytes);
    EXPECT_TRUE(in == expected);
  }
  out_bytes.push_back(1);
  EXPECT_THROW(job().all_to_all(out.data(), out_bytes, out.data(), in_bytes), local::InvalidArgument);
  job().barrier();
}

TEST(Collectives, Strings) {
  const std::string mine(static_cast<size_t>(job().rank()) * 3, static_cast<char>('a' + job().rank()));
  const auto all = job().all_gather_strings(mine);
  ASSERT_EQ(all.size(), static_cast<size_t>(job().size()));
  for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(r * 3, static_cast<char>('a' + r)));
  const int last = job().size() - 1;
  EXPECT_EQ(job().broadcast_string(job().rank() == last ? "from the last" : "else", last), "from the last");
}

TEST(Collectives, TextsAreMergedInTheOrderOfRanks) {
  const auto join = [](std::string& mine, const std::string& next) { mine += "-" + next; };
  std::string expected;
  for (int r = 0; r < job().size(); ++r) expected += (r == 0 ? "" : "-") + std::to_string(r);
  const std::string joined = job().reduce_string(std::to_string(job().rank()), join);
  EXPECT_EQ(joined, job().rank() == 0 ? expected : "");
  const std::vector<std::string> all = job().gather_strings(std::string(9000, static_cast<char>('a' + job().rank())));
  ASSERT_EQ(all.size(), job().rank() == 0 ? static_cast<size_t>(job().size()) : 0);
  for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(9000, static_cast<char>('a' + r)));
}

TEST(Collectives, ExchangeOfParcels) {
  const int n = job().size();
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    // The same draws on all ranks: who sends how much to whom, this rank itself included.
    std::map<std::pair<int, int>, size_t> sizes;
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to)
        if (random() % 3 == 0 || round == 0) sizes[{from, to}] = random() % 4 == 0 ? 0 : random() % 20000;
    if (round == 1) sizes.clear();
    std::vector<Communicator::Parcel> out;
    std::vector<std::pair<int, std::vector<std::byte>>> expected;
    for (const auto& [pair, size] : sizes) {
      const auto fill = static_cast<std::byte>(pair.first * 16 + pair.second);
      if (pair.first == job().rank()) out.push_back({pair.second, std::vector<std::byte>(size, fill)});
      if (pair.second == job().rank()) expected.emplace_back(pair.first, std::vector<std::byte>(size, fill));
    }
    std::shuffle(out.begin(), out.end(), std::mt19937(static_cast<uint32_t>(round)));
    const std::vector<Communicator::Parcel> in = job().exchange(out);
    ASSERT_EQ(in.size(), expected.size());
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_EQ(in[i].rank, expected[i].first);
      EXPECT_TRUE(in[i].bytes == expected[i].second);
    }
  }
}

TEST(Collectives, SplitByParityReversed) {
  const int color = job().rank() % 2;
  const auto part = job().split(color, -job().rank());
  ASSERT_NE(part, nullptr);
  const int expected_size = (job().size() + 1 - color) / 2;
  EXPECT_EQ(part->size(), expected_size);
  EXPECT_EQ(part->rank(), expected_size - 1 - job().rank() / 2);
  std::vector<int64_t> sum{job().rank()};
  part->all_reduce(std::span(sum), ReduceOp::sum);
  int64_t expected = 0;
  for (int r = color; r < job().size(); r += 2) expected += r;
  EXPECT_EQ(sum[0], expected);
  // Messages of the parent with the same tag do not mix with the part's.
  const int64_t outer = 1000 + job().rank(), inner = 2000 + part->rank();
  const int inner_from = (part->rank() + 1) % part->size();
  const int inner_to = (part->rank() + part->size() - 1) % part->size();
  int64_t got_outer = 0, got_inner = 0;
  const auto s1 = job().send(&outer, 8, next_rank(), 4);
  const auto s2 = part->send(&inner, 8, inner_to, 4);
  part->receive(&got_inner, 8, inner_from, 4)->wait();
  job().receive(&got_outer, 8, previous_rank(), 4)->wait();
  EXPECT_EQ(got_outer, 1000 + previous_rank());
  EXPECT_EQ(got_inner, 2000 + inner_from);
}

TEST(Collectives, SplitWithoutSome) {
  const auto part = job().split(job().rank() == 0 ? 3 : -1, 0);
  EXPECT_EQ(part != nullptr, job().rank() == 0);
  if (part) {
    EXPECT_EQ(part->size(), 1);
    part->barrier();
  }
  job().barrier();
}

TEST(ActiveMessages, InOrderPerSender) {
  constexpr int kCount = 1000;
  struct Message {
    int from, number;
    char filler[64];
  };
  std::vector<int> next(static_cast<size_t>(job().size()), 0);
  int received = 0, wrong = 0;
  job().set_handler([&](int from, std::span<const std::byte> bytes) {
    Message message;
    std::memcpy(&message, bytes.data(), sizeof message);
    const size_t expected_size = message.number % 5 == 0 ? 4096 : sizeof(Message);
    wrong +=
        message.from != from || message.number != next[static_cast<size_t>(from)]++ || bytes.size() != expected_size;
    ++received;
  });
  std::vector<std::byte> large(4096);
  for (int i = 0; i < kCount; ++i) {
    for (int to = 0; to < job().size(); ++to) {
      const Message message{job().rank(), i, {}};
      std::memcpy(large.data(), &message, sizeof message);
      job().post(to, std::span<const std::byte>(large).first(i % 5 == 0 ? large.size() : sizeof message));
    }
    if (i % 100 == 0) job().progress();
  }
  progress_until([&] { return received == kCount * job().size(); });
  job().set_handler(nullptr);
  EXPECT_EQ(wrong, 0);
  job().barrier();
}

TEST(ActiveMessages, HandlersPostAndSend) {
  // A token goes round the ring ten times, each hop posted from a handler; the last hop sends data.
  constexpr int kRounds = 10;
  const int hops = kRounds * job().size();
  bool over = false;
  std::vector<std::unique_ptr<Request>> sends;
  const std::vector<uint8_t> data = pattern(100000, 3);
  job().set_handler([&](int, std::span<const std::byte> bytes) {
    int hop = 0;
    std::memcpy(&hop, bytes.data(), sizeof hop);
    ++hop;
    if (hop < hops) job().post(next_rank(), bytes_of(&hop, sizeof hop));
    if (hop > hops - job().size()) {
      sends.push_back(job().send(data.data(), 100000, next_rank(), 8));
      over = true;
    }
  });
  job().barrier();
  if (job().rank() == 0) {
    const int hop = 0;
    job().post(next_rank(), bytes_of(&hop, sizeof hop));
  }
  progress_until([&] { return over; });
  std::vector<uint8_t> in(100000);
  job().receive(in.data(), 100000, previous_rank(), 8)->wait();
  for (auto& send : sends) send->wait();
  EXPECT_TRUE(in == data);
  job().barrier();
  job().set_handler(nullptr);
}

TEST(ActiveMessages, WaitForAHandler) {
  const int value = 42 + job().rank();
  job().post(next_rank(), bytes_of(&value, sizeof value));
  job().barrier();
  int got = 0;
  job().set_handler([&](int, std::span<const std::byte> bytes) { std::memcpy(&got, bytes.data(), sizeof got); });
  progress_until([&] { return got != 0; });
  job().set_handler(nullptr);
  EXPECT_EQ(got, 42 + previous_rank());
  const std::vector<std::byte> too_long(4097);
  EXPECT_THROW(job().post(next_rank(), too_long), local::InvalidArgument);
  job().barrier();
}

TEST(Threads, TransfersFromSeveralThreadsDuringCollectives) {
  constexpr int kThreads = 4, kRounds = 25;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const int64_t bytes = (i % 4) * 30000 + t;
        const auto out = pattern(bytes, static_cast<uint64_t>(t) * 1000 + static_cast<uint64_t>(i));
        std::vector<uint8_t> in(static_cast<size_t>(bytes));
        const auto receive = job().receive(in.data(), bytes, previous_rank(), static_cast<uint64_t>(t));
        const auto send = job().send(out.data(), bytes, next_rank(), static_cast<uint64_t>(t));
        receive->wait();
        send->wait();
        if (in != out) ++wrong;
      }
    });
  }
  for (int i = 0; i < kRounds; ++i) {
    std::vector<int64_t> one{1};
    job().all_reduce(std::span(one), ReduceOp::sum);
    if (one[0] != job().size()) ++wrong;
    job().barrier();
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  job().barrier();
}

TEST(Threads, CollectivesLetTransfersOfOtherThreadsThrough) {
  // Rank 0 reaches the barrier only after its other thread has received what the others send before they reach it.
  const int64_t bytes = 1 << 20;
  std::vector<uint8_t> data(static_cast<size_t>(bytes), 1);
  if (job().rank() == 0) {
    std::jthread receiver([&] {
      for (int r = 1; r < job().size(); ++r) job().receive(data.data(), bytes, r, 1)->wait();
      const int64_t go = 1;
      for (int r = 1; r < job().size(); ++r) job().send(&go, 8, r, 2)->wait();
    });
    job().barrier();
  } else {
    job().send(data.data(), bytes, 0, 1)->wait();
    int64_t go = 0;
    job().receive(&go, 8, 0, 2)->wait();
    EXPECT_EQ(go, 1);
    job().barrier();
  }
}

TEST(Events, WakeEndsAWait) {
  std::jthread waker([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    job().wake();
  });
  const auto begin = std::chrono::steady_clock::now();
  // Events may be left over from earlier tests, and a wait may end early; a wake must not be lost.
  double waited = 0;
  while (waited < 0.045) {
    job().progress();
    job().wait_for_event(60);
    waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  EXPECT_LT(waited, 30);
}

TEST(Events, AMessageEndsAWait) {
  job().barrier();
  int got = 0;
  job().set_handler([&](int, std::span<const std::byte>) { ++got; });
  const auto begin = std::chrono::steady_clock::now();
  std::jthread sender;
  if (job().rank() == 0) {
    sender = std::jthread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const int value = 1;
      for (int r = 0; r < job().size(); ++r) job().post(r, bytes_of(&value, sizeof value));
    });
  }
  while (got == 0) {
    if (!job().progress()) job().wait_for_event(60);
  }
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 30);
  job().barrier();
  job().set_handler(nullptr);
}

TEST(Agree, NobodyFailed) { EXPECT_NO_THROW(agree(job(), nullptr, {"test", 123})); }

TEST(Agree, EveryRankThrowsTheLowestRanksError) {
  std::exception_ptr mine;
  const int culprit = job().size() > 1 ? 1 : 0;
  if (job().rank() == culprit) mine = std::make_exception_ptr(local::BudgetError("needs 77 bytes", 77));
  if (job().rank() > culprit) mine = std::make_exception_ptr(local::IoError("another"));
  try {
    agree(job(), mine, {"test", 1});
    ADD_FAILURE() << "no error";
  } catch (const local::BudgetError& error) {
    EXPECT_STREQ(error.what(), "needs 77 bytes");
    EXPECT_EQ(error.least_bytes(), 77);
  }
}

TEST(Agree, DivergedRanksThrowEverywhere) {
  if (job().size() == 1) {
    EXPECT_NO_THROW(agree(job(), nullptr, {"test", 5}));
    return;
  }
  EXPECT_THROW(agree(job(), nullptr, {"test", job().rank() == job().size() - 1 ? 5U : 6U}), local::CommError);
}

// Messages out of and into device memory, as far as the transport moves it.
class DeviceMemory : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no GPU on this machine";
    if (job().size() == 1) GTEST_SKIP() << "one rank";
    if (!job().moves_memory_of(GetParam())) GTEST_SKIP() << job().transport() << " has no CUDA memory here";
    local::Backend& backend = local::backend(GetParam());
    index_ = job().node_rank() % backend.device_count();
    stream_ = backend.create_stream(index_, local::StreamRole::to_device);
    slab_ = static_cast<uint8_t*>(backend.allocate_slab(index_, 2 * kMost));
  }
  void TearDown() override {
    if (slab_ != nullptr) local::backend(GetParam()).free_slab(index_, slab_, 2 * kMost);
  }
  void put(uint8_t* to, const std::vector<uint8_t>& data) {
    stream_->copy(to, data.data(), static_cast<int64_t>(data.size()));
    stream_->synchronize();
  }
  std::vector<uint8_t> get(const uint8_t* from, int64_t bytes) {
    std::vector<uint8_t> data(static_cast<size_t>(bytes));
    stream_->copy(data.data(), from, bytes);
    stream_->synchronize();
    return data;
  }

  static constexpr int64_t kMost = int64_t{17} << 20;
  int index_ = 0;
  std::unique_ptr<local::DeviceStream> stream_;
  uint8_t* slab_ = nullptr;
};

TEST_P(DeviceMemory, RingOfMessages) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{65537}, int64_t{16} << 20}) {
    put(slab_, pattern(bytes, static_cast<uint64_t>(job().rank())));
    const auto receive = job().receive_device(GetParam(), slab_ + kMost, bytes, previous_rank(), 5);
    const auto send = job().send_device(GetParam(), slab_, bytes, next_rank(), 5);
    receive->wait();
    send->wait();
    EXPECT_TRUE(get(slab_ + kMost, bytes) == pattern(bytes, static_cast<uint64_t>(previous_rank()))) << bytes;
  }
}

TEST_P(DeviceMemory, HostMemoryAtTheOtherEnd) {
  constexpr int64_t kBytes = 1000003;
  const std::vector<uint8_t> mine = pattern(kBytes, static_cast<uint64_t>(job().rank()));
  const std::vector<uint8_t> expected = pattern(kBytes, static_cast<uint64_t>(previous_rank()));
  put(slab_, mine);
  std::vector<uint8_t> in(kBytes);
  {
    const auto receive = job().receive(in.data(), kBytes, previous_rank(), 6);
    job().send_device(GetParam(), slab_, kBytes, next_rank(), 6)->wait();
    receive->wait();
  }
  EXPECT_TRUE(in == expected);
  const auto receive = job().receive_device(GetParam(), slab_ + kMost, kBytes, previous_rank(), 7);
  job().send(mine.data(), kBytes, next_rank(), 7)->wait();
  receive->wait();
  EXPECT_TRUE(get(slab_ + kMost, kBytes) == expected);
}

TEST_P(DeviceMemory, ManyAtATimeAndBeforeTheirReceives) {
  constexpr int64_t kBytes = 300001;
  constexpr int kCount = 40;
  std::vector<std::unique_ptr<Request>> requests;
  for (int i = 0; i < kCount; ++i) {
    const int seed = i * 100 + job().rank();
    put(slab_ + i * kBytes, pattern(kBytes, static_cast<uint64_t>(seed)));
    requests.push_back(job().send_device(GetParam(), slab_ + i * kBytes, kBytes, next_rank(), 8));
  }
  job().barrier();
  for (int i = 0; i < kCount; ++i) {
    requests.push_back(job().receive_device(GetParam(), slab_ + kMost + i * kBytes, kBytes, previous_rank(), 8));
  }
  for (const auto& request : requests) request->wait();
  for (int i = 0; i < kCount; ++i) {
    EXPECT_TRUE(get(slab_ + kMost + i * kBytes, kBytes) ==
                pattern(kBytes, static_cast<uint64_t>(i * 100 + previous_rank())));
  }
}

TEST_P(DeviceMemory, MistakesAreErrors) {
  EXPECT_THROW(job().send_device(GetParam(), slab_, 8, job().rank(), 9), local::InvalidArgument);
  EXPECT_THROW(job().receive_device(GetParam(), slab_, 8, job().rank(), 9), local::InvalidArgument);
  // A short message of host memory travels with its announcement, which no device reads.
  const uint8_t byte = 1;
  const auto short_one = job().receive_device(GetParam(), slab_, 1, previous_rank(), 10);
  job().send(&byte, 1, next_rank(), 10)->wait();
  EXPECT_THROW(short_one->wait(), local::CommError);
  const auto wrong_size = job().receive_device(GetParam(), slab_, 10000, previous_rank(), 11);
  job().send_device(GetParam(), slab_ + kMost, 20000, next_rank(), 11)->wait();
  EXPECT_THROW(wrong_size->wait(), local::CommError);
  // One that nothing was sent for is withdrawn.
  job().receive_device(GetParam(), slab_, 100, previous_rank(), 12).reset();
  job().barrier();
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeviceMemory, ::testing::Values(local::DeviceKind::emulated, local::DeviceKind::cuda),
                         [](const auto& kind) { return local::name(kind.param); });

TEST(World, AnotherOneSharesTheJob) {
  const auto again = world(nullptr, nullptr);
  EXPECT_EQ(again->rank(), job().rank());
  EXPECT_EQ(again->size(), job().size());
  again->barrier();
}

}  // namespace
}  // namespace quarry::comm
