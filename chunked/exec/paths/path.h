// One way by which the bytes of a block come from the rank that owns it, the server, to the rank that fetches them, the
// client. paths.def lists all of them in order of preference; a new one is a file here and a row there. Messages
// between the two name the path by its row, so both sides have all rows, whichever of them they can use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/exec/fetch.h"
#include "quarry/comm/path_use.h"

namespace quarry::exec {

class FetchClient;
class FetchServer;
struct Message;
class Path;

// Where the client of a path gets the bytes.
enum class Fills : uint8_t { host, device };

struct PathRow {
  const char* name;  // in info --topology, traces and reports
  Fills fills;
  int buffers;  // segments of staging memory that its client takes, at most, for a run
  std::unique_ptr<Path> (*make)(const PathRow&, comm::Communicator&, local::Device);
};

// In order of preference.
std::span<const PathRow> path_rows();

// What a path may connect ranks by.
struct PathSetup {
  const std::vector<local::DeviceKind>& kinds;  // of the ranks' devices
  comm::PathUse use;
};

// What a path keeps on the client's side during a run.
class PathClient {
 public:
  virtual ~PathClient() = default;
  // Asks the owner for the fetch, which fits. With the client's lock, from any thread.
  virtual void start(const FetchPtr& fetch) = 0;
  // The rest: from the thread that makes progress.
  // The path's word from the server.
  virtual void reply(const FetchPtr& fetch, const Message& message);
  // True if something happened.
  virtual bool poll() { return false; }
  // Whether a copy into the fetch's memory may be under way, beside its receives.
  virtual bool holds(const Fetch& /*fetch*/) const { return false; }
  // Whether something is under way of which nothing but poll() tells. Any thread.
  virtual bool must_be_polled() const { return false; }
  // The server will send nothing more for it.
  virtual void withdraw(const FetchPtr& /*fetch*/) {}
  // The run has failed: what no server has been asked for need not be. With the client's lock, from any thread.
  virtual void fail() {}
};

class Path {
 public:
  explicit Path(const PathRow& row) : row_(row) {}
  virtual ~Path() = default;
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  const char* name() const { return row_.name; }
  const PathRow& row() const { return row_; }
  uint32_t number() const;  // of the row

  // Finds out which ranks it reaches. Collective, blocking. Throws CommError on every rank where it is required and
  // does not work.
  virtual void connect(const PathSetup& /*setup*/) {}
  // Finds out by trying what connect() believed. Collective, blocking.
  virtual void probe() const {}
  // Why this rank cannot fetch from `owner` by it; empty where it can.
  virtual std::string obstacle(int /*owner*/) const { return {}; }
  // The same in short. A path that worked for all that was known may turn out not to.
  virtual bool reaches(int /*owner*/) const { return true; }
  // What it goes over: "NVLink", "ucx".
  virtual std::string link(int owner) const = 0;
  // Its limits: whether it takes a hyperslab of so many bytes in runs of `run_bytes`.
  virtual bool fits(int64_t bytes, int64_t run_bytes) const = 0;
  // The limits for people; empty where there are none.
  virtual std::string limits() const { return {}; }
  // Whether the block must lie in the memory of the server's device. Where it does not, the client takes the next path
  // that has no such need.
  virtual bool needs_block_on_device() const { return false; }

  virtual std::unique_ptr<PathClient> client(FetchClient& client) const = 0;

  // The server's side. In the thread that has just made the block, or has heard of the request: true if it is served.
  virtual bool serve_at_once(FetchServer& /*server*/, const GetPtr& /*get*/) const { return false; }
  // Whether serve() answers a request, of one segment, without waiting for anything, and so needs no thread of its own.
  virtual bool serves_in_any_thread() const { return false; }
  // In the server's own thread, or any: false if there is nothing more to be done for the request at present.
  virtual bool serve(FetchServer& server, const GetPtr& get, int64_t segment) const = 0;

  // A segment of this rank's device memory, of Executor::share_segment(), is to be closed by all who have it open; the
  // path then calls Executor::end_sharing(). From the thread that makes progress, as the messages for it.
  virtual void recall(const ServiceLink& /*link*/, int64_t /*segment*/) const {}
  virtual void handle_recall(const ServiceLink& /*link*/, int /*from*/, const Message& /*message*/) const {}

 private:
  const PathRow& row_;
};

}  // namespace quarry::exec
