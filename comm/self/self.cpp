#include "quarry/comm/self/self.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace quarry::comm {

namespace {

constexpr uint32_t kChannel = 1;

void check_root(int root) {
  if (root != 0) throw local::InvalidArgument(fmt::format("root {} in a communicator of 1 rank", root));
}

}  // namespace

SelfCommunicator::SelfCommunicator() : endpoint_(/*rank=*/0, /*size=*/1, nullptr) {
  endpoint_.open_channel(kChannel, {0}, 0);
}

SelfCommunicator::~SelfCommunicator() { endpoint_.close_channel(kChannel, {}); }

std::unique_ptr<Communicator> SelfCommunicator::split(int color, int /*key*/) {
  if (color < 0) return nullptr;
  return std::make_unique<SelfCommunicator>();
}

void SelfCommunicator::broadcast(void* /*data*/, int64_t /*bytes*/, int root) { check_root(root); }

void SelfCommunicator::all_gather(const void* mine, int64_t bytes_each, void* all) {
  if (bytes_each > 0 && mine != all) std::memmove(all, mine, static_cast<size_t>(bytes_each));
}

void SelfCommunicator::all_reduce(std::span<int64_t> /*values*/, ReduceOp /*op*/) {}
void SelfCommunicator::all_reduce(std::span<double> /*values*/, ReduceOp /*op*/) {}

std::unique_ptr<Request> SelfCommunicator::send(const void* data, int64_t bytes, int to, uint64_t tag) {
  return endpoint_.send(kChannel, data, bytes, to, tag);
}

std::unique_ptr<Request> SelfCommunicator::receive(void* data, int64_t bytes, int from, uint64_t tag) {
  return endpoint_.receive(kChannel, data, bytes, from, tag);
}

void SelfCommunicator::set_handler(Handler handler) { endpoint_.set_handler(kChannel, std::move(handler)); }
void SelfCommunicator::post(int to, std::span<const std::byte> message) { endpoint_.post(kChannel, to, message); }

void SelfCommunicator::abort(int status) {
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace quarry::comm
