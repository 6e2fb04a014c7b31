// The live page of a run: an HTTP server on rank 0 with one page and the progress behind it as JSON.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quarry/chunked/runtime/progress.h"
#include "quarry/local/base/options.h"

namespace quarry::apps {

struct DashboardOptions {
  std::string address = "127.0.0.1";
  int port = 0;       // 0: a free one
  std::string token;  // asked of every request; must not be empty unless the address is this machine's own
};

// "8080" or "ADDRESS:8080". Throws InvalidArgument for anything else, and for another address than 127.0.0.1, ::1 and
// localhost without a token.
DashboardOptions parse_dashboard(const local::OptionValue& place, const local::OptionValue& token);

// What the page shows.
struct DashboardStatus {
  std::string title, banner, step;
  double seconds = 0;  // since the step began
  bool done = false;
  std::vector<Progress> ranks;
  int size = 0;  // of the job; more than `ranks`: all but the first are sums of several ranks
};
// As JSON: the sum over ranks, its share done and the time left, and each rank.
std::string status_json(const DashboardStatus& status);

// Serves until it dies. `status` is called from the server's threads.
class Dashboard {
 public:
  // Throws IoError where the port cannot be had, InvalidArgument where the program was built without an HTTP library.
  Dashboard(const DashboardOptions& options, std::function<DashboardStatus()> status);
  ~Dashboard();
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  int port() const;
  std::string url() const;  // with the token, if there is one

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quarry::apps
