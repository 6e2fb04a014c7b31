// A thousand and ten thousand ranks over a pretended network: no rank sends, receives or keeps more than grows with the
// logarithm of the job or is its own share, and the steps that all ranks take together are logarithmic in number.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/paths/paths.h"
#include "quarry/chunked/exec/plan_owners.h"
#include "quarry/chunked/exec/stealing.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/report/gather.h"
#include "quarry/chunked/runtime/cpu_share.h"
#include "quarry/comm/monitor/monitor.h"
#include "tests/support/memory_dataset.h"
#include "tests/support/pretended_job.h"

namespace quarry {
namespace {

using local::DType;
using testing::PretendedCommunicator;
using testing::PretendedJob;
using testing::Traffic;

int64_t log2_of(int ranks) { return std::bit_width(static_cast<unsigned>(ranks) - 1); }

int64_t memory_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// Learns of its blocks that others fetch, and runs nothing.
class NoService : public exec::Service {
 public:
  void expose(const exec::BlockKey& /*key*/, scheduler::BlockId /*block*/) override { ++exposed; }
  void fetch(int /*owner*/, const exec::BlockKey& /*key*/, const exec::Hyperslab& /*hyperslab*/, void* /*to*/,
             std::function<void(std::exception_ptr)> /*done*/) override {
    QUARRY_CHECK(false);
  }
  exec::WorkStealing& stealing() override { return stealing_; }
  void publish_stolen(const exec::BlockKey& /*key*/, std::shared_ptr<const std::byte> /*data*/) override {}
  void run(scheduler::Graph& /*graph*/, bool /*is_short*/, exec::LastWords* /*words*/) override {}
  int64_t bytes_sent() const override { return 0; }
  int64_t exposed = 0;

 private:
  exec::WorkStealing stealing_{0, 1, [](int, const exec::Message&) {}};
};

class ManyRanks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    for (int rank = 0; rank < ranks_; ++rank)
      communicators_.push_back(std::make_unique<PretendedCommunicator>(job_, rank));
  }
  comm::Communicator& of(int rank) { return *communicators_[static_cast<size_t>(rank)]; }

  // Runs a step on all ranks; `check` gets what each has sent and received for it.
  void step(const std::string& what, const std::function<void(int rank)>& part,
            const std::function<void(int rank, const Traffic&)>& check) {
    SCOPED_TRACE(what);
    std::vector<Traffic> before;
    for (int rank = 0; rank < ranks_; ++rank) before.push_back(job_.traffic(rank));
    const int64_t first_round = job_.rounds();
    job_.run(part);
    rounds_ = job_.rounds() - first_round;
    Traffic most;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Traffic traffic = job_.traffic(rank) - before[static_cast<size_t>(rank)];
      check(rank, traffic);
      most = {std::max(most.sent, traffic.sent), std::max(most.received, traffic.received),
              std::max(most.bytes, traffic.bytes)};
    }
    fmt::print("{} ranks, {}: {} rounds; a rank sends {} messages, gets {}, in all {} bytes, at most\n", ranks_, what,
               rounds_, most.sent, most.received, most.bytes);
  }
  // Steps of so many trees or rounds of log2(ranks) messages of at most so many bytes, and a table of some bytes a
  // rank, which a tree brings to one rank and then to all.
  std::function<void(int, const Traffic&)> logarithmic(int64_t steps, int64_t bytes, int64_t table_bytes = 0) {
    return [=, this](int rank, const Traffic& traffic) {
      const int64_t most = steps * (log2_of(ranks_) + 1);
      ASSERT_LE(traffic.sent, most) << "rank " << rank;
      ASSERT_LE(traffic.received, most) << "rank " << rank;
      ASSERT_LE(rounds_, most);
      ASSERT_LE(traffic.bytes,
                2 * most * (bytes + comm::kFrameHeaderBytes) + table_bytes * ranks_ * (log2_of(ranks_) + 1))
          << "rank " << rank;
    };
  }

  const int ranks_ = GetParam();
  PretendedJob job_{ranks_};
  int64_t rounds_ = 0;  // of the last step
  std::vector<std::unique_ptr<PretendedCommunicator>> communicators_;
};

INSTANTIATE_TEST_SUITE_P(Sizes, ManyRanks, ::testing::Values(1000, 10000));

TEST_P(ManyRanks, StartAndEndInLogarithmicRounds) {
  const auto wait = [](comm::Communicator& communicator) { comm::agree(communicator, nullptr, {"Runtime"}); };
  step(
      "agree on a call", [&](int rank) { wait(of(rank)); }, logarithmic(2, 256));
  step(
      "share the processors of hosts", [&](int rank) { ASSERT_GE(thread_share(of(rank)), 1); },
      logarithmic(4, 0, sizeof(uint64_t)));
  step(
      "texts of all ranks at rank 0",
      [&](int rank) {
        const auto texts = of(rank).gather_strings(std::to_string(rank));
        ASSERT_EQ(texts.size(), rank == 0 ? static_cast<size_t>(ranks_) : 0u);
        for (size_t r = 0; r < texts.size(); ++r) ASSERT_EQ(texts[r], std::to_string(r));
      },
      logarithmic(3, 0, 16));
  step(
      "leave", [&](int rank) { ASSERT_TRUE(communicators_[static_cast<size_t>(rank)]->leave_job()); },
      // A goodbye to those at each distance both ways, a round of the barrier, and counts of frames.
      logarithmic(6, 0));
}

TEST_P(ManyRanks, ErrorsAreThoseOfTheLowestRankAndNamesOfAllThatDiffer) {
  step(
      "one rank fails",
      [&](int rank) {
        std::exception_ptr mine;
        if (rank >= 77) mine = std::make_exception_ptr(local::IoError(fmt::format("disk of {} is full", rank)));
        try {
          comm::agree(of(rank), mine, {"store"});
          FAIL();
        } catch (const local::IoError& error) {
          ASSERT_EQ(std::string(error.what()), "disk of 77 is full");
        }
      },
      logarithmic(4, 256));
  step(
      "ranks diverge",
      [&](int rank) {
        try {
          comm::agree(of(rank), nullptr, {rank == 5 || rank > 990 ? "to_host" : "store"});
          FAIL();
        } catch (const local::CommError& error) {
          ASSERT_EQ(
              std::string(error.what()),
              fmt::format("ranks diverged: ranks 0-4, 6-990 called store, ranks 5, 991-{} called to_host", ranks_ - 1));
        }
      },
      logarithmic(6, 1024));
}

TEST_P(ManyRanks, ExchangeWithNeighboursOnly) {
  // Every rank has something for its next ones, and all for rank 3: that one's share.
  const auto parcels_of = [&](int rank) {
    std::vector<comm::Communicator::Parcel> out;
    for (int away = 1; away <= 3; ++away)
      out.push_back({(rank + away) % ranks_, std::vector<std::byte>(static_cast<size_t>(away))});
    return out;
  };
  step(
      "exchange",
      [&](int rank) {
        const auto in = of(rank).exchange(parcels_of(rank));
        ASSERT_EQ(in.size(), 3u);
        for (const auto& [from, bytes] : in) ASSERT_EQ(std::ssize(bytes), (rank - from + ranks_) % ranks_);
        ASSERT_TRUE(std::ranges::is_sorted(in, {}, &comm::Communicator::Parcel::rank));
      },
      logarithmic(3, 512));
}

// What lowering, its fetches and their announcement cost a rank of a job whose arrays grow with it.
TEST_P(ManyRanks, RunsCostARankItsShare) {
  constexpr int64_t kChunksOfRank = 4;
  const int64_t rows = kChunksOfRank * ranks_;
  const Array file(
      expr::source(std::make_shared<testing::MemoryDataset>("/x", Dims{rows, 64}, DType::float64, Dims{1, 64})));
  const Array x = file.rechunk(Grid::regular({rows, 64}, {1, 64}));
  const Array y = x.rechunk(Grid::regular({rows, 64}, {3, 64}));
  plan::Plan plan =
      plan::make_plan({sum(x).node(), var(x, 0).node(), (y * 2).node(), sum(exp(x - mean(x, 0))).node()}, {});
  const Ownership owners(ranks_);
  exec::settle_owners(plan, owners);
  std::vector<exec::Sink> sinks(plan.results.size());
  for (size_t i = 0; i < sinks.size(); ++i) sinks[i].array = plan.results[i];
  std::vector<int64_t> fetched(static_cast<size_t>(ranks_)), exposed(static_cast<size_t>(ranks_));
  int64_t most_tasks = 0;
  step(
      "lower and announce fetches",
      [&](int rank) {
        exec::LoweringContext context;
        context.rank = rank;
        context.owners = owners;
        const auto lowered = exec::lower(plan, sinks, context);
        most_tasks = std::max<int64_t>(most_tasks, lowered->graph.task_count());
        NoService service;
        fetched[static_cast<size_t>(rank)] = lowered->fetches == nullptr ? 0 : lowered->fetches->size();
        exec::exchange_fetches(*lowered, of(rank), service);
        exposed[static_cast<size_t>(rank)] = service.exposed;
      },
      [&](int rank, const Traffic& traffic) {
        const int64_t partners = fetched[static_cast<size_t>(rank)] + exposed[static_cast<size_t>(rank)];
        ASSERT_LE(traffic.sent, 2 * (log2_of(ranks_) + 1) + partners);
        ASSERT_LE(traffic.received, 2 * (log2_of(ranks_) + 1) + partners);
        ASSERT_LE(rounds_, 2 * (log2_of(ranks_) + 1));
      });
  const int64_t share = 8 * kChunksOfRank + 4 * log2_of(ranks_);
  fmt::print("{} ranks: at most {} tasks, {} fetches, {} blocks for others\n", ranks_, most_tasks,
             *std::ranges::max_element(fetched), *std::ranges::max_element(exposed));
  EXPECT_LE(most_tasks, 8 * share);
  EXPECT_LE(*std::ranges::max_element(fetched), share);
  EXPECT_LE(*std::ranges::max_element(exposed), share);
}

// A panel of a factorisation is read by all ranks that have columns behind it: its owner sends it to two of them, and
// each of those that have it to two others.
TEST_P(ManyRanks, PassOnWhatManyOfThemRead) {
  constexpr int64_t n = 60;  // columns, one a panel
  const ChunkPolicyScope small({local::DeviceKind::cpu, {}, /*target_bytes=*/n * 8});
  const Array a(expr::source(std::make_shared<testing::MemoryDataset>("/a", Dims{n, n}, DType::float64, Dims{n, 1})));
  const auto [p, l, u] = linalg::lu(a);
  plan::Plan plan = plan::make_plan({l.node(), u.node()}, {});
  const Ownership owners(ranks_);
  exec::settle_owners(plan, owners);
  std::vector<exec::Sink> sinks(plan.results.size());
  for (size_t i = 0; i < sinks.size(); ++i) sinks[i].array = plan.results[i];
  std::map<std::tuple<uint32_t, uint32_t, int64_t>, int> readers;  // by key
  int most_sent = 0;
  step(
      "pass on",
      [&](int rank) {
        exec::LoweringContext context;
        context.rank = rank;
        context.owners = owners;
        const auto lowered = exec::lower(plan, sinks, context);
        for (int64_t i = 0; lowered->fetches != nullptr && i < lowered->fetches->size(); ++i) {
          const exec::BlockKey& key = (*lowered->fetches)[i].key;
          ++readers[{key.stage, key.part, key.chunk}];
        }
        NoService service;
        exec::exchange_fetches(*lowered, of(rank), service);
        const scheduler::Graph& graph = lowered->graph;
        for (scheduler::BlockId block = 0; block < graph.block_count(); ++block)
          most_sent = std::max(most_sent, static_cast<int>(graph.block(block).remote_readers));
      },
      [](int /*rank*/, const Traffic& /*traffic*/) {});
  int most_readers = 0;
  for (const auto& [key, count] : readers) most_readers = std::max(most_readers, count);
  fmt::print("{} ranks: a panel has up to {} readers, a rank sends it to at most {}\n", ranks_, most_readers,
             most_sent);
  EXPECT_GE(most_readers, n / 2);
  EXPECT_EQ(most_sent, 2);
}

// Reports of who waits go up the monitors' tree: a rank gets one of each child, and all are of bounded size.
TEST_P(ManyRanks, PulsesGoUpTheMonitorsTree) {
  using comm::Monitor;
  constexpr size_t kMostBytes = 1000;  // of a frame's text
  const int stuck = ranks_ - 3;
  std::vector<std::string> sent(static_cast<size_t>(ranks_));
  int levels = 0;
  for (int rank = ranks_ - 1; rank >= 0; --rank) {
    comm::Pulse pulse;
    pulse.silent_ns = rank == stuck ? int64_t{11'000'000'000} : 0;
    pulse.running = rank == stuck ? 1 : 0;
    comm::PulseReport report(rank, fmt::format("rank {}", rank), pulse);
    const std::vector<int> children = Monitor::children_of(rank, ranks_);
    ASSERT_LE(std::ssize(children), Monitor::kChildren);
    for (const int child : children) report.add(comm::PulseReport::from_bytes(sent[static_cast<size_t>(child)]));
    sent[static_cast<size_t>(rank)] = report.to_bytes();
    ASSERT_LE(sent[static_cast<size_t>(rank)].size(), kMostBytes);
    int level = 0;
    for (int up = rank; up != 0; up = Monitor::parent_of(up)) ++level;
    levels = std::max(levels, level);
  }
  EXPECT_LE(levels, log2_of(ranks_) / 4 + 1);
  comm::PulseBoard board(10);
  const auto begin = comm::PulseBoard::Clock::now();
  board.note(comm::PulseReport::from_bytes(sent[0]), begin);
  board.note(comm::PulseReport::from_bytes(sent[0]), begin + std::chrono::seconds(12));
  EXPECT_NE(board.standstill(begin + std::chrono::seconds(12)).find(fmt::format("rank {}", stuck)), std::string::npos);
}

// One rank of sixteen has all the work, and the others take it: who asks whom, and how often.
TEST_P(ManyRanks, ThievesAskFewRanks) {
  constexpr uint32_t kStage = 7;
  constexpr int kSlow = 16, kChunks = 40;
  const auto at = [](int rank) { return static_cast<size_t>(rank); };
  std::vector<std::unique_ptr<exec::WorkStealing>> thieves;
  std::vector<int64_t> asked(at(ranks_)), was_asked(at(ranks_)), stolen(at(ranks_)), lost(at(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    thieves.push_back(std::make_unique<exec::WorkStealing>(rank, ranks_, [&, rank](int to, const exec::Message& sent) {
      if (sent.kind == exec::MessageKind::steal_reply) return thieves[at(to)]->handle_reply(rank, sent);
      ++asked[at(rank)];
      ++was_asked[at(to)];
      thieves[at(to)]->handle_request(rank, sent.request.key.stage, sent.request.fetch);
    }));
    exec::WorkStealing::Settings settings;
    settings.is_victim = [](int) { return true; };
    thieves.back()->configure(std::move(settings));
    if (rank % kSlow == 0) thieves.back()->make_stealable({kStage, 0, 0}, rank * kChunks, (rank + 1) * kChunks);
  }
  std::vector<bool> taken(at(ranks_ * kChunks));
  std::vector<int> looking;
  for (int rank = 0; rank < ranks_; ++rank)
    if (rank % kSlow != 0) looking.push_back(rank);
  while (!looking.empty()) {  // in turn, a chunk at a time
    std::erase_if(looking, [&](int rank) {
      const auto chunk = thieves[at(rank)]->steal(kStage, [] { return false; });
      if (!chunk) return true;
      EXPECT_FALSE(taken[static_cast<size_t>(chunk->key.chunk)]) << "twice";
      taken[static_cast<size_t>(chunk->key.chunk)] = true;
      ++stolen[at(rank)];
      ++lost[at(chunk->victim)];
      return false;
    });
  }
  const int64_t known = 2 * log2_of(ranks_);
  for (int rank = 0; rank < ranks_; ++rank) {
    // Once more than it gets chunks of each that it knows, and those that know it are as many.
    ASSERT_LE(asked[at(rank)], known + stolen[at(rank)]);
    ASSERT_LE(was_asked[at(rank)], known + lost[at(rank)]);
    ASSERT_EQ(lost[at(rank)], rank % kSlow == 0 ? kChunks : 0);
    for (int64_t chunk = rank * kChunks; rank % kSlow == 0 && chunk < (rank + 1) * kChunks; ++chunk)
      ASSERT_NE(thieves[at(rank)]->claim(kStage, chunk), rank);
  }
  fmt::print("{} ranks, stealing: a rank asks {} times, is asked {} times and steals {} chunks at most\n", ranks_,
             *std::ranges::max_element(asked), *std::ranges::max_element(was_asked), *std::ranges::max_element(stolen));
}

TEST_P(ManyRanks, TracesAreReducedAlongATree) {
  constexpr int64_t kMostParts = 384;  // of the report
  int64_t bytes_of_part = 0;
  step(
      "traces",
      [&](int rank) {
        report::RankTrace mine;
        mine.rank = rank;
        mine.read_bytes = rank;
        mine.memory_peak_bytes = rank;
        mine.events.resize(4);
        bytes_of_part = std::ssize(report::serialize(mine));
        const auto all = report::gather_traces(of(rank), std::move(mine));
        if (rank != 0) {
          ASSERT_TRUE(all.empty());
          return;
        }
        ASSERT_LE(std::ssize(all), kMostParts);
        int64_t next = 0, read = 0;
        for (const report::RankTrace& part : all) {
          ASSERT_EQ(part.rank, next);
          ASSERT_EQ(part.events.size(), 4u);
          next += part.ranks;
          read += part.read_bytes;
          ASSERT_EQ(part.memory_peak_bytes, next - 1);
        }
        ASSERT_EQ(next, ranks_);
        ASSERT_EQ(read, int64_t{ranks_} * (ranks_ - 1) / 2);
      },
      [&](int rank, const Traffic& traffic) {
        // The clocks of those next in the tree are asked eight times; then come the parts of all behind them.
        const int64_t most = 24 * (log2_of(ranks_) + 1);
        ASSERT_LE(traffic.sent, most) << "rank " << rank;
        ASSERT_LE(traffic.received, most) << "rank " << rank;
        ASSERT_LE(traffic.bytes, 2 * (most * 256 + (kMostParts + log2_of(ranks_)) * bytes_of_part)) << "rank " << rank;
      });
}

// Tables of a rank per rank of the job, of all that it keeps after it has talked to every kind of partner.
TEST(ManyRanksMemory, GrowsByFewBytesARank) {
  const auto bytes_of = [](int ranks) {
    PretendedJob job(ranks);
    std::vector<std::unique_ptr<PretendedCommunicator>> communicators;
    std::vector<std::unique_ptr<exec::Paths>> paths;
    const int64_t before = memory_in_use();
    for (int rank = 0; rank < ranks; ++rank)
      communicators.push_back(std::make_unique<PretendedCommunicator>(job, rank));
    job.run([&](int rank) {
      comm::Communicator& mine = *communicators[static_cast<size_t>(rank)];
      comm::agree(mine, nullptr, {"Runtime"});
      mine.exchange({{(rank + 1) % ranks, std::vector<std::byte>(10)}});
    });
    for (int rank = 0; rank < ranks; ++rank)
      paths.push_back(std::make_unique<exec::Paths>(*communicators[static_cast<size_t>(rank)], local::kCpu));
    return static_cast<double>(memory_in_use() - before) / ranks;
  };
  constexpr int kFew = 1000, kMany = 4000;
  const double few = bytes_of(kFew), many = bytes_of(kMany);
  const double of_rank = (many - few) / (kMany - kFew);
  fmt::print("a rank of {} keeps {:.0f} bytes, one of {} keeps {:.0f}: {:.1f} bytes a rank\n", kFew, few, kMany, many,
             of_rank);
  EXPECT_LE(of_rank, 64);
}

}  // namespace
}  // namespace quarry
