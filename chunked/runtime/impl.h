// The parts of a Runtime. Made in the order of start(); runtime.cpp, devices.cpp and shares.cpp define them.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "quarry/chunked/exec/paths/paths.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/progress_reports.h"
#include "quarry/chunked/runtime/resolve_options.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/scheduler/executor.h"

namespace quarry {

// The steps of a Runtime's start, as collective calls.
inline const comm::Call kStart{"Runtime"};

struct Runtime::Impl {
  explicit Impl(std::unique_ptr<comm::Communicator> made) : communicator(std::move(made)) {}
  ~Impl() { stop(); }

  void start(RuntimeOptions wanted);
  void choose_device();
  void take_gpu();
  void choose_owners();
  void choose_budget();
  void make_executor();
  void stop() noexcept;

  std::unique_ptr<comm::Communicator> communicator;
  RuntimeOptions options;
  ResolvedOptions resolved;
  Internals internals;
  local::Device device;
  int64_t memory_bytes = 0, host_bytes = 0;
  std::vector<local::DeviceKind> kinds;                 // by rank
  local::DeviceKind job_kind = local::DeviceKind::cpu;  // what chunks are made for: that of the ranks with a device
  int64_t plan_bytes = 0;                               // that every rank has for tasks
  int node_count = 1;
  int visible_devices = 0;
  std::string device_name;
  std::unique_ptr<scheduler::Executor> executor;
  std::unique_ptr<exec::Paths> paths;
  int64_t sent_before = 0, direct_before = 0;
  std::unique_ptr<ProgressReports> progress;
  const int exceptions = std::uncaught_exceptions();
};

}  // namespace quarry
