// Notices ranks that die or stop. Nothing of what carries messages can be trusted for that: shared memory says nothing
// about a process that is gone, and a stopped process keeps its connections. So every rank has a thread of its own and
// TCP connections along a tree, with its parent and at most kChildren children: the end of a connection without a
// goodbye is a death, known at once; silence for some seconds is a process that is stopped or a host that hangs.
// Neighbours of the lost rank tell theirs, and these the next ones. The ranks below a lost one hear of that one, and of
// no later loss elsewhere.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "quarry/comm/monitor/pulse.h"

namespace quarry::comm {

class Monitor {
 public:
  // From the monitor's thread, once per rank.
  using Lost = std::function<void(int rank, const std::string& reason)>;

  static constexpr int kChildren = 16;
  static int parent_of(int rank) { return (rank - 1) / kChildren; }  // of any but 0
  static std::vector<int> children_of(int rank, int size);

  // A rank with children listens from here on. `silence_seconds`: how long a rank may say nothing. Throws CommError
  // where no socket can be had, OutOfMemory without a thread.
  Monitor(int rank, int size, double silence_seconds, Lost lost);
  ~Monitor();  // without leave(): as if this process had died
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Of a rank with children: where they find it, and the secret that they show.
  const std::string& address() const { return address_; }
  // The thread begins. `address`: the parent's; ranks that cannot reach it are not watched, which is logged.
  void start(const std::string& address);
  // This rank ends in order.
  void leave();

 private:
  using Clock = std::chrono::steady_clock;
  struct Link {  // with another process
    int socket = -1;
    int rank = -1;     // -1: it has not said yet
    std::string name;  // "rank 2 (process 123 on host)"
    std::string received;
    Clock::time_point heard;
    PulseReport below;  // of a child: the ranks from it downwards
  };

  void stop();
  void begin();
  void close_files();
  void listen_here();
  bool connect_to(const std::string& address);
  void watch();
  void accept_links();
  // False once the connection has ended.
  bool read_link(Link& link);
  bool handle_frames(Link& link);
  // `from`: who said so, or the lost rank itself.
  void report(int rank, const std::string& reason, int from);
  void notify_others(int rank, const std::string& reason, int from);
  void beat(Clock::time_point now);
  bool is_parent(const Link& link) const { return rank_ != 0 && link.rank == parent_of(rank_); }
  std::string own_name() const;
  void close_link(Link& link);

  const int rank_, size_;
  const std::chrono::duration<double> silence_;
  const Lost lost_;
  std::string address_, secret_;
  int listener_ = -1;
  int wake_[2] = {-1, -1};
  std::atomic<bool> leaving_{false};
  std::vector<Link> links_;
  std::vector<bool> gone_;  // lost or left, per rank
  PulseBoard board_;        // of rank 0
  std::atomic<bool> begun_{false};
  std::thread thread_;
};

}  // namespace quarry::comm
