// The progress of all ranks, known on rank 0: every rank posts its own about ten times a second, on a communicator that
// nothing else uses.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "quarry/chunked/runtime/progress.h"
#include "quarry/comm/communicator.h"
#include "quarry/local/base/error.h"

namespace quarry {

class ProgressReports {
 public:
  // `mine`: what this rank's thread asks for at each tick. `failed`: takes what the callback throws. Collective.
  ProgressReports(comm::Communicator& communicator, std::function<Progress()> mine,
                  std::function<void(const local::ErrorRecord&)> failed);
  void start();  // the thread; throws OutOfMemory where there is none
  ~ProgressReports();
  ProgressReports(const ProgressReports&) = delete;
  ProgressReports& operator=(const ProgressReports&) = delete;

  // Rank 0: called with the sum over ranks when there is news, until it throws.
  void set_callback(std::function<void(const Progress&)> callback);
  // What each rank has posted last; on other ranks than 0 only their own is known. Any thread.
  std::vector<Progress> latest() const;

 private:
  void watch(const std::stop_token& token);
  void sample();

  const int rank_;
  const std::function<Progress()> mine_;
  const std::function<void(const local::ErrorRecord&)> failed_;
  std::unique_ptr<comm::Communicator> reports_;  // null for one rank
  mutable std::mutex latest_mutex_;              // of the two below; not held while the callback runs
  std::vector<Progress> latest_;
  bool news_ = false;
  std::mutex callback_mutex_;
  std::function<void(const Progress&)> callback_;
  Progress posted_;
  std::jthread watcher_;
};

}  // namespace quarry
