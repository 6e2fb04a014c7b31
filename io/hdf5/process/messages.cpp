#include "quarry/io/hdf5/process/messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

namespace quarry::io::hdf5 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostBytes = int64_t{1} << 30;  // who says more is out of his mind

struct Head {
  int64_t bytes = 0;
  uint8_t kind = 0;
};

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

Receipt receive_all(int socket, Clock::time_point deadline, std::span<char> to) {
  while (!to.empty()) {
    const ssize_t got = ::recv(socket, to.data(), to.size(), MSG_DONTWAIT);
    if (got > 0) {
      to = to.subspan(static_cast<size_t>(got));
      continue;
    }
    if (got == 0) return Receipt::gone;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return Receipt::gone;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Receipt::late;
    pollfd waiting{socket, POLLIN, 0};
    constexpr int64_t kLongest = 1 << 30;
    ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, kLongest)));
  }
  return Receipt::message;
}

}  // namespace

bool send_message(int socket, uint8_t kind, std::string_view bytes) {
  Head head;
  head.bytes = static_cast<int64_t>(bytes.size());
  head.kind = kind;
  char raw[sizeof head] = {};
  std::memcpy(raw, &head, sizeof head);
  return send_all(socket, {raw, sizeof raw}) && send_all(socket, bytes);
}

Receipt receive_message(int socket, Clock::time_point deadline, uint8_t& kind, std::string& bytes) {
  char raw[sizeof(Head)];
  if (const Receipt receipt = receive_all(socket, deadline, raw); receipt != Receipt::message) return receipt;
  Head head;
  std::memcpy(&head, raw, sizeof head);
  if (head.bytes < 0 || head.bytes > kMostBytes) return Receipt::gone;
  kind = head.kind;
  bytes.resize(static_cast<size_t>(head.bytes));
  return receive_all(socket, deadline, bytes);
}

}  // namespace quarry::io::hdf5
