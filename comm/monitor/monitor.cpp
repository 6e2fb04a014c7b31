#include "quarry/comm/monitor/monitor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>

#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"
#include "quarry/local/base/thread.h"

namespace quarry::comm {
namespace {

constexpr int kTickMilliseconds = 250;
constexpr auto kConnectPatience = std::chrono::seconds(2);
constexpr auto kGreetingPatience = std::chrono::seconds(10);
constexpr size_t kLongestText = 1000;

enum class FrameKind : uint32_t {
  hello,  // the secret, then the sender's name
  beat,
  bye,
  lost,  // of `rank`, with the reason
};

struct FrameHeader {
  FrameKind kind;
  int32_t rank;
  uint32_t bytes;  // of text
};

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Whether all of it went; a peer that does not read is as good as gone.
bool send_frame(int socket, FrameKind kind, int rank, const std::string& text = {}) {
  const FrameHeader header{kind, rank, static_cast<uint32_t>(std::min(text.size(), kLongestText))};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(text, 0, header.bytes);
  return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

void prepare(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

std::string random_secret() {
  std::random_device source;
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("{:08x}", source());
  return text;
}

// The addresses of this machine, as text; the loopback one first, which is right for ranks of the same host only.
std::vector<std::string> own_addresses() {
  std::vector<std::string> found{"127.0.0.1"};
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    if (std::ranges::find(found, std::string(text.data())) == found.end()) found.emplace_back(text.data());
  }
  freeifaddrs(list);
  return found;
}

std::string name_of(int rank, const std::string& process, const std::string& host) {
  return rank == 0 ? "rank 0 on " + host : fmt::format("rank {} (process {} on {})", rank, process, host);
}

// A connected socket, or -1.
int connect_socket(const std::string& host, uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  prepare(socket);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  int error = 0;
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    error = errno;
    pollfd wait{socket, POLLOUT, 0};
    socklen_t size = sizeof error;
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kConnectPatience);
    if (error == EINPROGRESS && poll(&wait, 1, static_cast<int>(patience.count())) == 1) {
      getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error == 0) return socket;
  ::close(socket);
  return -1;
}

}  // namespace

Monitor::Monitor(int rank, int size, double silence_seconds, Lost lost)
    : rank_(rank),
      size_(size),
      silence_(silence_seconds),
      lost_(std::move(lost)),
      gone_(static_cast<size_t>(size)),
      board_(local::OptionValue(local::Option::watchdog).seconds()) {
  try {
    if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) {
      throw local::CommError(fmt::format("watching ranks: pipe: {}", std::strerror(errno)));
    }
    if (!children_of(rank, size).empty()) listen_here();
    // It waits for start(): whether there is a thread is known before other ranks rely on it.
    thread_ = local::start_thread("watching ranks", [this] {
      begun_.wait(false);
      watch();
    });
  } catch (...) {
    close_files();
    throw;
  }
}

void Monitor::close_files() {
  for (Link& link : links_) close_link(link);
  for (const int file : {listener_, wake_[0], wake_[1]}) {
    if (file >= 0) ::close(file);
  }
}

void Monitor::stop() {
  leaving_ = true;
  const char byte = 0;
  static_cast<void>(!write(wake_[1], &byte, 1));
  begin();
  if (thread_.joinable()) thread_.join();
}

void Monitor::begin() {
  begun_ = true;
  begun_.notify_all();
}

Monitor::~Monitor() {
  stop();
  close_files();
}

void Monitor::leave() {
  stop();
  for (const Link& link : links_) {
    if (link.socket >= 0) send_frame(link.socket, FrameKind::bye, rank_);
  }
}

void Monitor::listen_here() {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || bind(listener_, generic, size) != 0 || listen(listener_, SOMAXCONN) != 0 ||
      getsockname(listener_, generic, &size) != 0) {
    throw local::CommError(fmt::format("watching ranks: {}", std::strerror(errno)));
  }
  secret_ = random_secret();
  address_ = fmt::format("{} {} {} {}", secret_, host_name(), ntohs(address.sin_port), getpid());
  for (const std::string& own : own_addresses()) address_ += " " + own;
}

bool Monitor::connect_to(const std::string& address) {
  std::istringstream words(address);
  std::string secret, host, process;
  uint16_t port = 0;
  words >> secret >> host >> port >> process;
  const int parent = parent_of(rank_);
  const bool same_host = host == host_name();
  std::vector<std::string> candidates;
  for (std::string candidate; words >> candidate;) {
    const bool loopback = candidate.starts_with("127.");
    if (loopback == same_host)
      candidates.insert(candidates.begin(), candidate);
    else
      candidates.push_back(candidate);
  }
  for (const std::string& candidate : candidates) {
    Link link;
    link.socket = connect_socket(candidate, port);
    if (link.socket < 0) continue;
    link.rank = parent;
    link.name = name_of(parent, process, host);
    link.heard = Clock::now();
    if (!send_frame(link.socket, FrameKind::hello, rank_, secret + own_name())) {
      close_link(link);
      continue;
    }
    links_.push_back(std::move(link));
    return true;
  }
  return false;
}

void Monitor::start(const std::string& address) {
  if (rank_ != 0 && !connect_to(address)) {
    local::log(local::LogLevel::warn,
               fmt::format("rank {} cannot be reached by TCP: a rank that dies or stops is noticed late or not at all",
                           parent_of(rank_)));
    return;
  }
  begin();
}

void Monitor::close_link(Link& link) {
  if (link.socket >= 0) ::close(link.socket);
  link.socket = -1;
}

void Monitor::watch() {
  auto last_beat = Clock::time_point{}, last_tick = Clock::now();
  while (!leaving_) {
    std::vector<pollfd> files{{wake_[0], POLLIN, 0}};
    if (listener_ >= 0) files.push_back({listener_, POLLIN, 0});
    for (const Link& link : links_) files.push_back({link.socket, POLLIN, 0});
    poll(files.data(), files.size(), kTickMilliseconds);
    if (leaving_) return;
    const auto now = Clock::now();
    // A process that was stopped itself has heard nothing meanwhile.
    if (now - last_tick > silence_ / 2) {
      for (Link& link : links_) link.heard = now;
    }
    last_tick = now;
    if (now - last_beat >= std::chrono::milliseconds(2 * kTickMilliseconds)) {
      last_beat = now;
      beat(now);
    }
    if (listener_ >= 0) accept_links();
    for (Link& link : links_) {
      const bool open = read_link(link);
      const bool known = link.rank >= 0 && !gone_[static_cast<size_t>(link.rank)];
      if (!open && known) {
        report(link.rank, link.name + " has died", link.rank);
      } else if (open && known && silence_.count() > 0 && now - link.heard > silence_) {
        report(
            link.rank,
            fmt::format("{} has said nothing for {:g} s: it is stopped or its host hangs", link.name, silence_.count()),
            link.rank);
      }
      const bool stranger = link.rank < 0 && now - link.heard > kGreetingPatience;
      if (!open || stranger) close_link(link);
    }
    std::erase_if(links_, [](const Link& link) { return link.socket < 0; });
  }
}

void Monitor::accept_links() {
  for (;;) {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) return;
    prepare(socket);
    Link link;
    link.socket = socket;
    link.heard = Clock::now();
    links_.push_back(std::move(link));
  }
}

bool Monitor::read_link(Link& link) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t count = recv(link.socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      link.heard = Clock::now();
      link.received.append(bytes.data(), static_cast<size_t>(count));
      if (!handle_frames(link)) return false;
      continue;
    }
    if (count == 0) return false;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK;
  }
}

bool Monitor::handle_frames(Link& link) {
  FrameHeader header;
  while (link.received.size() >= sizeof header) {
    std::memcpy(&header, link.received.data(), sizeof header);
    if (header.bytes > kLongestText || header.rank < 0 || header.rank >= size_) return false;
    if (link.received.size() < sizeof header + header.bytes) return true;
    const std::string text = link.received.substr(sizeof header, header.bytes);
    link.received.erase(0, sizeof header + header.bytes);
    if (header.kind == FrameKind::hello) {
      // Whoever does not know the secret is no rank of this job.
      const bool is_child = header.rank != 0 && parent_of(header.rank) == rank_;
      if (secret_.empty() || !text.starts_with(secret_) || !is_child) return false;
      link.rank = header.rank;
      link.name = text.substr(secret_.size());
      continue;
    }
    if (link.rank < 0) return false;
    if (header.kind == FrameKind::beat) link.below = PulseReport::from_bytes(text);
    if (header.kind == FrameKind::bye) gone_[static_cast<size_t>(link.rank)] = true;
    if (header.kind == FrameKind::lost && header.rank != rank_) report(header.rank, text, link.rank);
  }
  return true;
}

void Monitor::report(int rank, const std::string& reason, int from) {
  if (gone_[static_cast<size_t>(rank)]) return;
  gone_[static_cast<size_t>(rank)] = true;
  notify_others(rank, reason, from);
  lost_(rank, reason);
}

void Monitor::notify_others(int rank, const std::string& reason, int from) {
  for (const Link& link : links_) {
    if (link.rank >= 0 && link.rank != rank && link.rank != from)
      send_frame(link.socket, FrameKind::lost, rank, reason);
  }
}

std::string Monitor::own_name() const { return name_of(rank_, std::to_string(getpid()), host_name()); }

std::vector<int> Monitor::children_of(int rank, int size) {
  std::vector<int> children;
  const int64_t first = int64_t{rank} * kChildren + 1;
  for (int64_t child = first; child < std::min<int64_t>(first + kChildren, size); ++child)
    children.push_back(static_cast<int>(child));
  return children;
}

// What is known of the ranks from here downwards goes to the parent; to children that this one lives.
void Monitor::beat(Clock::time_point now) {
  PulseReport report(rank_, own_name(), Pulse::of_this_process());
  for (const Link& link : links_)
    if (link.rank >= 0 && !is_parent(link)) report.add(link.below);
  for (const Link& link : links_)
    send_frame(link.socket, FrameKind::beat, rank_, is_parent(link) ? report.to_bytes() : std::string());
  if (rank_ != 0) return;
  board_.note(report, now);
  if (const std::string text = board_.standstill(now); !text.empty()) local::log(local::LogLevel::warn, text);
}

}  // namespace quarry::comm
