#include "quarry/comm/endpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/comm/transport.h"
#include "quarry/local/base/error.h"

namespace quarry::comm {
namespace {

// Two ranks: frames arrive with the receiver's next progress(), data never does.
struct Wires {
  struct Receive {
    int from;
    TransferPtr transfer;
  };
  std::array<std::vector<std::vector<std::byte>>, 2> frames;  // to each rank
  std::vector<Receive> receives;                              // under way
  std::function<void()> has_delivered;                        // in the receiver's progress()
};

class Wire : public Transport {
 public:
  Wire(Wires& wires, int rank) : wires_(wires), rank_(rank) {}
  const char* name() const override { return "wire"; }
  void post(int to, std::span<const std::byte> frame) override {
    wires_.frames[static_cast<size_t>(to)].emplace_back(frame.begin(), frame.end());
  }
  void send(int /*to*/, uint64_t /*id*/, const void* /*data*/, int64_t /*bytes*/, MemoryKind /*memory*/,
            const TransferPtr& transfer) override {
    transfer->finish();  // as if it were buffered
  }
  void receive(int from, uint64_t /*id*/, void* /*data*/, int64_t /*bytes*/, MemoryKind /*memory*/,
               const TransferPtr& transfer) override {
    wires_.receives.push_back({from, transfer});
  }
  void abandon(int rank, const std::string& reason) override {
    for (const Wires::Receive& receive : std::exchange(wires_.receives, {})) {
      if (receive.from == rank) receive.transfer->fail(reason);
    }
  }
  bool progress(TransportSink& sink) override {
    const auto arrived = std::exchange(wires_.frames[static_cast<size_t>(rank_)], {});
    for (const auto& frame : arrived) sink.receive_frame(1 - rank_, frame);
    if (!arrived.empty() && wires_.has_delivered) wires_.has_delivered();
    return !arrived.empty();
  }
  void wait_for_event(double /*seconds*/) override {}
  void wake() override {}
  void close(TransportSink& /*sink*/, double /*seconds*/) override {}

 private:
  Wires& wires_;
  const int rank_;
};

struct Ranks {
  static constexpr uint32_t kChannel = 1;
  static constexpr uint64_t kTag = 7;
  Wires wires;
  Endpoint first{0, 2, std::make_unique<Wire>(wires, 0)}, second{1, 2, std::make_unique<Wire>(wires, 1)};
  std::vector<std::byte> sent = std::vector<std::byte>(kMaxMessageBytes + 1), received = sent;

  Ranks() {
    first.open_channel(kChannel, {0, 1}, 0);
    second.open_channel(kChannel, {0, 1}, 1);
  }
  std::unique_ptr<Request> announce() { return first.send(kChannel, sent.data(), std::ssize(sent), /*to=*/1, kTag); }
  std::unique_ptr<Request> receive() {
    return second.receive(kChannel, received.data(), std::ssize(received), /*from=*/0, kTag);
  }
  // The second rank's request ends with the word that the first is lost.
  void fails(Request& request) {
    for (int turn = 0; turn < 3 && request.pending(); ++turn) second.progress();
    ASSERT_FALSE(request.pending());
    EXPECT_THROW(request.done(), local::CommError);
  }
};

TEST(EndpointLosses, ARankThatDiesAfterItsDataWereMatched) {
  Ranks ranks;
  const auto received = ranks.receive();
  const auto sent = ranks.announce();
  // Another thread hears of it between the arrival of the announcement and the beginning of the transfer.
  ranks.wires.has_delivered = [&] { ranks.second.peer_died(0, "rank 0 has died"); };
  ranks.fails(*received);
}

TEST(EndpointLosses, ARankThatDiedBeforeItsDataWereAskedFor) {
  Ranks ranks;
  const auto sent = ranks.announce();
  ranks.second.progress();
  ranks.second.peer_died(0, "rank 0 has died");
  const auto received = ranks.receive();
  ranks.fails(*received);
}

TEST(EndpointLosses, ARankThatDiesWhileItsDataTravel) {
  Ranks ranks;
  const auto received = ranks.receive();
  const auto sent = ranks.announce();
  ranks.second.progress();
  EXPECT_EQ(ranks.wires.receives.size(), 1);
  EXPECT_TRUE(received->pending());
  ranks.second.peer_died(0, "rank 0 has died");
  ranks.fails(*received);
}

}  // namespace
}  // namespace quarry::comm
