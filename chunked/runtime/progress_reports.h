// The progress of all ranks, known on rank 0: about ten times a second every rank posts its own and that of the ranks
// below it to its parent in a tree, on a communicator that nothing else uses. Up to kChildren ranks post to rank 0
// itself.
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
  static constexpr int kChildren = 64;
  // Of rank 0: its own, then what each child has posted last, which in a larger job is the sum over the ranks from the
  // child downwards. On other ranks only their own and those below are known. Any thread.
  std::vector<Progress> latest() const;

 private:
  void watch(const std::stop_token& token);
  void sample();

  const int rank_;
  const std::function<Progress()> mine_;
  const std::function<void(const local::ErrorRecord&)> failed_;
  const int64_t first_child_;
  std::unique_ptr<comm::Communicator> reports_;  // null for one rank
  mutable std::mutex latest_mutex_;              // of the two below; not held while the callback runs
  std::vector<Progress> latest_;                 // this rank's, then the children's
  bool news_ = false;
  std::mutex callback_mutex_;
  std::function<void(const Progress&)> callback_;
  std::jthread watcher_;
};

}  // namespace quarry
