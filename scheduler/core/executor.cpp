#include "quarry/scheduler/executor.h"
#include "quarry/local/memory/policy.h"

#include <fmt/format.h>

#include "quarry/scheduler/core/core.h"

namespace quarry::scheduler {

std::unique_ptr<Executor> Executor::create(const ExecutorConfig& config) {
  if (config.memory_bytes < 0 || config.host_bytes < 0) {
    throw local::InvalidArgument(fmt::format("memory budgets are not negative: {} and {} bytes of host memory",
                                             config.memory_bytes, config.host_bytes));
  }
  if (config.io_threads < 1 || config.compute_threads < 1 || config.worker_threads < 1) {
    throw local::InvalidArgument(fmt::format("every queue needs a worker thread: io {}, compute {}, worker {}",
                                             config.io_threads, config.compute_threads, config.worker_threads));
  }
  if (config.compute_streams < 1) {
    throw local::InvalidArgument(fmt::format("a device needs a compute stream, not {}", config.compute_streams));
  }
  if (config.device.kind != local::DeviceKind::cpu) {
    const int64_t least = 2 * local::memory_policy::kBounceUnit * config.io_threads;
    if (config.host_bytes < least) {
      throw local::BudgetError(fmt::format("the host memory budget is {} bytes; {} I/O threads need at least {}",
                                           config.host_bytes, config.io_threads, least),
                               least);
    }
  }
  return std::unique_ptr<Executor>(new Executor(config));
}

Executor::Executor(const ExecutorConfig& config) : core_(std::make_unique<Core>(config)) {}

Executor::~Executor() = default;

void Executor::run(Graph& graph, const std::function<void()>& watch, const ShortRun* as_short) {
  core_->run(graph, watch, as_short);
}
void Executor::cancel(const local::ErrorRecord& error) { core_->cancel(error); }
void Executor::clear_cancel() { core_->clear_cancel(); }
void Executor::set_failure_handler(std::function<void(const local::ErrorRecord&)> handler) {
  core_->set_failure_handler(std::move(handler));
}
void Executor::expect_run() { core_->expect_run(); }
void Executor::set_idle_work(std::function<void()> work) { core_->set_idle_work(std::move(work)); }
std::shared_ptr<StoredBlock> Executor::stored_block(BlockId block) { return core_->stored_block(block); }

void Executor::when_ready(BlockId block, std::function<void()> callback) {
  core_->when_ready(block, std::move(callback));
}
void Executor::read_block(BlockId block, int64_t offset, int64_t bytes, void* to) {
  core_->read_block(block, offset, bytes, to);
}
bool Executor::visit_block(BlockId block, int64_t bytes, const std::function<void(const void*)>& visit) {
  return core_->visit_block(block, bytes, visit);
}
void Executor::release_remote(BlockId block) { core_->release_remote(block); }
const void* Executor::lease_block(BlockId block) { return core_->lease_block(block); }
void Executor::end_lease(BlockId block) { core_->end_lease(block); }
SharedSegment Executor::share_segment(const void* block) { return core_->share_segment(block); }
void Executor::set_recall_handler(std::function<void(int64_t number)> recall) {
  core_->set_recall_handler(std::move(recall));
}
void Executor::end_sharing(int64_t number) { core_->end_sharing(number); }
int64_t Executor::device_bytes() const { return core_->device_bytes(); }
void Executor::read_stored(const StoredBlock& block, int64_t offset, int64_t bytes, void* to) {
  core_->read_stored(block, offset, bytes, to);
}

Progress Executor::progress() const { return core_->progress(); }
Statistics Executor::statistics() const { return core_->statistics(); }
const ExecutorConfig& Executor::config() const { return core_->config(); }
local::Device Executor::device() const { return core_->config().device; }
local::Budget& Executor::memory_budget() { return core_->tiers().memory_budget; }
local::Budget& Executor::host_budget() { return core_->tiers().host_budget; }
local::MemoryResource& Executor::staging() { return core_->staging(); }
void Executor::forget_blocks() { core_->forget_blocks(); }
local::Reservation Executor::reserve_outside(int64_t bytes) { return core_->reserve_outside(bytes); }
local::Reservation Executor::try_reserve_outside(int64_t bytes) { return core_->try_reserve_outside(bytes); }
void Executor::set_reclaim(std::function<int64_t(int64_t bytes)> reclaim) { core_->set_reclaim(std::move(reclaim)); }
void Executor::note_arrival() { core_->note_arrival(); }
std::string Executor::describe_waits() const { return core_->describe_waits(); }

}  // namespace quarry::scheduler
