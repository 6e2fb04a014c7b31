#include "quarry/chunked/runtime/runtime.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>
#include <vector>

#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/runtime/cpu_share.h"
#include "quarry/chunked/runtime/current.h"
#include "quarry/chunked/runtime/impl.h"
#include "quarry/chunked/runtime/together.h"
#include "quarry/comm/world/world.h"
#include "quarry/io/direct_reads.h"
#include "quarry/local/base/log.h"
#include "quarry/local/memory/policy.h"

namespace quarry {

using local::DeviceKind;

namespace {

Progress progress_of(const scheduler::Progress& from, int64_t stolen_chunks) {
  Progress p;
  p.tasks_done = from.tasks_done;
  p.tasks_total = from.tasks_total;
  p.bytes_done = from.bytes_done;
  p.bytes_total = from.bytes_total;
  p.work_done = from.work_done;
  p.work_total = from.work_total;
  p.memory_used = from.memory_used;
  p.memory_limit = from.memory_limit;
  p.host_used = from.host_used;
  p.host_limit = from.host_limit;
  p.disk_used = from.disk_used;
  p.spilled_bytes = from.spilled_bytes;
  p.restored_bytes = from.restored_bytes;
  std::copy(std::begin(from.busy_seconds), std::end(from.busy_seconds), std::begin(p.busy_seconds));
  p.active = from.active;
  p.stolen_chunks = stolen_chunks;
  return p;
}

// A number of a Runtime, the same on every rank and larger than that of any Runtime made before by a process of it.
uint64_t next_number(comm::Communicator& communicator) {
  static std::atomic<int64_t> latest{0};
  int64_t number = latest + 1;
  communicator.all_reduce(std::span(&number, 1), comm::ReduceOp::max);
  for (int64_t seen = latest; seen < number && !latest.compare_exchange_weak(seen, number);) {
  }
  return static_cast<uint64_t>(number);
}

}  // namespace

void Runtime::Impl::start(RuntimeOptions wanted) {
  options = std::move(wanted);
  local::set_log_rank(communicator->rank());
  sent_before = communicator->bytes_sent();
  direct_before = io::direct_bytes();
  if (communicator->rank() == 0) warn_of_misspelt_variables();
  together(*communicator, kStart, [this] { resolved = resolve_options(options); });
  agree_on_options(*communicator, resolved.alike);
  choose_device();
  internals.chunk_policy = {job_kind, options.chunks, 0};
  internals.passes_off = resolved.passes_off;
  internals.decompress = resolved.decompress;
  constexpr int kFunctionBits = 32;
  internals.functions = next_number(*communicator) << kFunctionBits;
  choose_owners();
  int64_t first_on_node = communicator->node_rank() == 0 ? 1 : 0;
  communicator->all_reduce(std::span(&first_on_node, 1), comm::ReduceOp::sum);
  node_count = static_cast<int>(first_on_node);
  const int share = thread_share(*communicator);
  if (options.threads == 0) options.threads = share;
  together(*communicator, kStart, [this] {
    choose_budget();
    make_executor();
  });
  internals.message_piece_bytes = exec::Service::agree_on_pieces(*communicator, *executor);
  plan_bytes = exec::Service::bytes_for_tasks(memory_bytes, device.kind != DeviceKind::cpu);
  communicator->all_reduce(std::span(&plan_bytes, 1), comm::ReduceOp::min);
  if (communicator->size() > 1) {
    paths = std::make_unique<exec::Paths>(*communicator, device);
    if (job_kind != DeviceKind::cpu) {
      paths->connect({{"peer-copy", resolved.peer_copies}, {"device-message", resolved.device_messages}});
    }
  }
  progress = std::make_unique<ProgressReports>(
      *communicator, [this] { return progress_of(executor->progress(), internals.stolen_chunks); },
      [this](const local::ErrorRecord& error) {
        {
          const std::lock_guard lock(internals.failure_mutex);
          internals.failure = error;
        }
        executor->cancel(error);  // a run that ends by itself just now clears this
      });
  comm::alone(*communicator, [this] { progress->start(); });
}

void Runtime::Impl::choose_owners() {
  int64_t weight = 0;
  together(*communicator, kStart, [&] {
    constexpr double kBesideDevices = 1.0 / 16;  // a CPU's memory against a GPU's
    weight = rank_weight(device.kind == job_kind ? 1 : kBesideDevices);
  });
  std::vector<int64_t> weights(static_cast<size_t>(communicator->size()));
  communicator->all_gather(&weight, sizeof weight, weights.data());
  internals.owners = Ownership(weights);
}

void Runtime::Impl::make_executor() {
  scheduler::ExecutorConfig config;
  config.device = device;
  config.memory_bytes = memory_bytes;
  config.host_bytes = host_bytes;
  config.spill_dir = options.spill_dir;
  config.compute_threads = options.threads;
  config.io_threads =
      options.io_threads > 0 ? options.io_threads : local::memory_policy::io_threads(options.threads, host_bytes);
  config.worker_threads = device.kind != DeviceKind::cpu && communicator->size() > 1 ? exec::kThievesOfDevice : 1;
  config.compute_streams = options.compute_streams;
  config.panels_alone = communicator->size() > 1;
  executor = scheduler::Executor::create(config);
}

void Runtime::Impl::stop() noexcept {
  progress.reset();
  const bool connected = paths && job_kind != DeviceKind::cpu;
  paths.reset();
  // Nobody frees memory that another rank has open. No barrier: other ranks may be in a collective call for which this
  // one has no time left.
  if (connected) communicator->leave(/*unwinding=*/std::uncaught_exceptions() > exceptions);
  executor.reset();
}

Runtime::Runtime(int& argc, char**& argv, RuntimeOptions options)
    : impl_(std::make_unique<Impl>(comm::world(&argc, &argv, option_value(options, local::Option::transport)))) {
  impl_->start(std::move(options));
  make_current(*this);
}

Runtime::Runtime(RuntimeOptions options)
    : impl_(std::make_unique<Impl>(comm::world(nullptr, nullptr, option_value(options, local::Option::transport)))) {
  impl_->start(std::move(options));
  make_current(*this);
}

Runtime::Runtime(std::unique_ptr<Impl> impl, RuntimeOptions options) : impl_(std::move(impl)) {
  impl_->start(std::move(options));
}

Runtime::~Runtime() { forget(*this); }

std::unique_ptr<Runtime> Runtime::alone() {
  return std::unique_ptr<Runtime>(new Runtime(std::make_unique<Impl>(comm::self_communicator()), {}));
}

int Runtime::rank() const { return impl_->communicator->rank(); }
int Runtime::size() const { return impl_->communicator->size(); }
comm::Communicator& Runtime::communicator() { return *impl_->communicator; }
local::Device Runtime::device() const { return impl_->device; }
int64_t Runtime::memory_bytes() const { return impl_->memory_bytes; }
int64_t Runtime::host_bytes() const { return impl_->host_bytes; }
int Runtime::threads() const { return impl_->options.threads; }
bool Runtime::is_stealing() const { return impl_->resolved.steals_work; }
const std::vector<local::DeviceKind>& Runtime::device_kinds() const { return impl_->kinds; }
local::DeviceKind Runtime::job_device_kind() const { return impl_->job_kind; }
int64_t Runtime::plan_bytes() const { return impl_->plan_bytes; }
const RuntimeOptions& Runtime::options() const { return impl_->options; }
scheduler::Executor& Runtime::executor() { return *impl_->executor; }
const exec::Paths* Runtime::paths() const { return impl_->paths.get(); }
std::string Runtime::describe_paths(int from) const { return impl_->paths ? impl_->paths->describe(from) : ""; }
Runtime::Internals& Runtime::internals() { return impl_->internals; }
bool Runtime::any_run_started() const { return impl_->internals.any_run_started; }

void Runtime::set_progress(std::function<void(const Progress&)> callback) {
  impl_->progress->set_callback(std::move(callback));
}

std::vector<Progress> Runtime::rank_progress() const { return impl_->progress->latest(); }

void Runtime::interrupt() { impl_->internals.interrupt = true; }

}  // namespace quarry
