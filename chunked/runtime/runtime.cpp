#include "quarry/chunked/runtime/runtime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/chunked/runtime/device_choice.h"
#include "quarry/comm/monitor/watchdog.h"
#include "quarry/comm/world/world.h"
#include "quarry/local/base/log.h"

namespace quarry {

using local::DeviceKind;
using local::InvalidArgument;

namespace {

constexpr double kDefaultShare = 0.6;        // of a rank's free host memory, on the CPU
constexpr double kDefaultDeviceShare = 0.8;  // of free device memory
constexpr double kDefaultHostShare = 0.25;   // of a rank's free host memory, for pinned and staging memory
constexpr int64_t kDefaultHostBytes = int64_t{4} << 30;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Runs `part` on this rank; if it throws on any rank, every rank throws the lowest one's error.
template <class Part>
void together(comm::Communicator& communicator, uint64_t hash, Part part) {
  std::exception_ptr error;
  try {
    part();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, hash);
}

int parse_threads(const std::string& text) {
  int value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || value < 1) {
    throw InvalidArgument(fmt::format("QUARRY_THREADS={}: expected a positive number", text));
  }
  return value;
}

// What was asked for is looked at before hours of computing, the default only by runs that spill.
void check_spill_directory(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    throw InvalidArgument(fmt::format("spill directory: '{}' {}", path,
                                      std::filesystem::exists(path, error) ? "is no directory" : "does not exist"));
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    throw InvalidArgument(fmt::format("spill directory: '{}' cannot be written to", path));
  }
}

// Whether the text is the first of two.
bool parse_either(const char* name, const std::string& text, const char* first, const char* second) {
  if (text == first) return true;
  if (text == second) return false;
  throw InvalidArgument(fmt::format("{}: \"{}\": expected {} or {}", name, text, first, second));
}

// QUARRY_WEIGHT of this rank in thousandths; `otherwise` where it is not set.
int64_t rank_weight(double otherwise) {
  constexpr double kUnits = 1000, kMost = 1e5;
  const std::string text = environment("QUARRY_WEIGHT");
  if (text.empty()) return std::llround(otherwise * kUnits);
  char* end = nullptr;
  const double weight = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(weight >= 1 / kUnits && weight <= kMost)) {
    throw InvalidArgument(fmt::format("QUARRY_WEIGHT={}: expected a number from 0.001 to 100000", text));
  }
  return std::llround(weight * kUnits);
}

local::Dims parse_chunks(const std::string& text) {
  local::Dims chunks;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    int64_t value = 0;
    const auto result = std::from_chars(text.data() + at, text.data() + comma, value);
    if (result.ec != std::errc() || result.ptr != text.data() + comma || value < 1) {
      throw InvalidArgument(fmt::format("QUARRY_CHUNKS={}: expected positive extents as in 4096,512, or auto", text));
    }
    chunks.push_back(value);
    at = comma + 1;
  }
  return chunks;
}

// The CPUs of this process's affinity mask.
int affinity_count() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&mask);
}

// What Slurm was asked for by --cpus-per-task, where it started this rank: the affinity mask says so only where it
// binds tasks to cores.
int cpus_per_task() {
  int count = 0;
  const std::string text = comm::launched() ? environment("SLURM_CPUS_PER_TASK") : "";
  const auto result = std::from_chars(text.data(), text.data() + text.size(), count);
  return result.ec == std::errc() && count > 0 ? count : std::numeric_limits<int>::max();
}

// How many ranks of this node have the same affinity mask: they share its CPUs. Collective.
int sharing_ranks(comm::Communicator& communicator) {
  struct Place {
    char host[256];
    cpu_set_t mask;
  } mine = {};
  gethostname(mine.host, sizeof mine.host - 1);
  sched_getaffinity(0, sizeof mine.mask, &mine.mask);
  std::vector<Place> all(static_cast<size_t>(communicator.size()));
  communicator.all_gather(&mine, sizeof mine, all.data());
  return static_cast<int>(std::ranges::count_if(all, [&](const Place& other) {
    return std::strcmp(other.host, mine.host) == 0 && CPU_EQUAL(&other.mask, &mine.mask);
  }));
}

std::string bytes_text(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

uint64_t hash_chunks(const std::optional<local::Dims>& chunks) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  if (!chunks) return hash;
  for (const int64_t extent : *chunks) hash = (hash ^ static_cast<uint64_t>(extent)) * 0x100000001b3ULL;
  return hash + 1;
}

}  // namespace

struct Runtime::Impl {
  explicit Impl(std::unique_ptr<comm::Communicator> made) : communicator(std::move(made)) {}
  ~Impl() { stop(); }

  void start(RuntimeOptions wanted);
  void choose_device();
  void take_gpu();
  void choose_budget();
  void start_progress();
  void stop() noexcept;
  void watch(const std::stop_token& token);
  void sample();

  std::unique_ptr<comm::Communicator> communicator;
  RuntimeOptions options;
  local::Device device;
  int64_t memory_bytes = 0, host_bytes = 0;
  bool balances = true;
  bool cpu_ranks = false;                        // ranks without a GPU compute on the CPU beside others
  std::vector<DeviceKind> kinds;                 // by rank
  local::DeviceKind job_kind = DeviceKind::cpu;  // what chunks are made for: that of the ranks with a device
  int64_t plan_bytes = 0;                        // that every rank has for tasks
  int node_count = 1;
  int visible_devices = 0;
  std::string device_name;
  std::unique_ptr<scheduler::Executor> executor;
  std::unique_ptr<comm::PeerMemory> peers;
  int64_t sent_before = 0;
  std::atomic<int64_t> read_bytes{0}, written_bytes{0}, taken_chunks{0};

  // Progress: every rank posts its own to rank 0 on a communicator that nothing else uses.
  std::unique_ptr<comm::Communicator> reports;
  std::mutex progress_mutex;  // of the two below; not held while the callback runs
  std::vector<scheduler::Progress> latest;
  bool news = false;
  std::mutex callback_mutex;
  std::function<void(const scheduler::Progress&)> callback;
  scheduler::Progress posted;
  std::jthread watcher;
};

void Runtime::Impl::start(RuntimeOptions wanted) {
  options = std::move(wanted);
  local::set_log_rank(communicator->rank());
  sent_before = communicator->bytes_sent();
  together(*communicator, 0, [this] {
    if (const std::string text = environment("QUARRY_DEVICE"); !options.device && !text.empty() && text != "auto") {
      options.device = local::parse_device_kind(text);
      if (!options.device) {
        throw InvalidArgument(fmt::format("QUARRY_DEVICE={}: expected auto, cpu, cuda or emulated", text));
      }
    }
    if (options.memory.empty()) options.memory = environment("QUARRY_MEMORY");
    if (options.host_memory.empty()) options.host_memory = environment("QUARRY_HOST_MEMORY");
    if (options.spill_dir.empty()) options.spill_dir = environment("QUARRY_SPILL_DIR");
    if (!options.spill_dir.empty()) check_spill_directory(options.spill_dir);
    if (options.spill_dir.empty()) options.spill_dir = environment("TMPDIR");
    if (options.spill_dir.empty()) options.spill_dir = "/tmp";
    static_cast<void>(comm::Watchdog());  // complains about QUARRY_WATCHDOG
    if (options.threads < 0) throw InvalidArgument(fmt::format("threads: {} is negative", options.threads));
    if (const std::string text = environment("QUARRY_THREADS"); options.threads == 0 && !text.empty()) {
      options.threads = parse_threads(text);
    }
    if (const std::string text = environment("QUARRY_CHUNKS"); !options.chunks && !text.empty() && text != "auto") {
      options.chunks = parse_chunks(text);
    }
    if (options.peer_copies.empty()) options.peer_copies = environment("QUARRY_PEER_COPIES");
    static_cast<void>(comm::parse_peer_copies(options.peer_copies));
    if (options.device_messages.empty()) options.device_messages = environment("QUARRY_DEVICE_MESSAGES");
    static_cast<void>(comm::parse_device_messages(options.device_messages));
    if (options.balance.empty()) options.balance = environment("QUARRY_BALANCE");
    balances = options.balance.empty() || parse_either("balance", options.balance, "on", "off");
    if (options.without_gpu.empty()) options.without_gpu = environment("QUARRY_WITHOUT_GPU");
    cpu_ranks = !options.without_gpu.empty() && parse_either("without GPU", options.without_gpu, "cpu", "error");
    if (options.chunks && std::ranges::any_of(*options.chunks, [](int64_t extent) { return extent < 1; })) {
      throw InvalidArgument(fmt::format("chunks {}: extents must be positive", local::to_string(*options.chunks)));
    }
  });
  // Grids and tasks follow from the options, so they must be the same on all ranks.
  together(*communicator, hash_chunks(options.chunks) + (balances ? 1 : 0) + (cpu_ranks ? 2 : 0), [] {});
  choose_device();
  set_chunk_policy({job_kind, options.chunks, 0});
  int64_t weight = 0;
  together(*communicator, 0, [&] {
    constexpr double kBesideDevices = 1.0 / 16;  // a CPU's memory against a GPU's
    weight = rank_weight(device.kind == job_kind ? 1 : kBesideDevices);
  });
  std::vector<int64_t> weights(static_cast<size_t>(communicator->size()));
  communicator->all_gather(&weight, sizeof weight, weights.data());
  plan::set_rank_weights(weights);
  int64_t first_on_node = communicator->node_rank() == 0 ? 1 : 0;
  communicator->all_reduce(std::span(&first_on_node, 1), comm::ReduceOp::sum);
  node_count = static_cast<int>(first_on_node);
  const int sharing = sharing_ranks(*communicator);
  if (options.threads == 0) options.threads = std::clamp(affinity_count() / std::max(1, sharing), 1, cpus_per_task());
  together(*communicator, 0, [this] {
    choose_budget();
    scheduler::ExecutorConfig config;
    config.device = device;
    config.memory_bytes = memory_bytes;
    config.host_bytes = host_bytes;
    config.spill_dir = options.spill_dir;
    config.compute_threads = options.threads;
    config.io_threads = std::clamp(options.threads, 2, 8);
    config.worker_threads = device.kind != DeviceKind::cpu && communicator->size() > 1 ? exec::kTakersOfDevice : 1;
    config.compute_streams = options.compute_streams;
    executor = scheduler::Executor::create(config);
  });
  plan_bytes = exec::Service::bytes_for_tasks(memory_bytes, device.kind != DeviceKind::cpu, communicator->size());
  communicator->all_reduce(std::span(&plan_bytes, 1), comm::ReduceOp::min);
  if (communicator->size() > 1 && job_kind != DeviceKind::cpu) {
    const auto [slab, bytes] = executor->device_slab();
    peers = comm::PeerMemory::connect(*communicator, device, slab, bytes, comm::parse_peer_copies(options.peer_copies),
                                      comm::parse_device_messages(options.device_messages));
  }
  start_progress();
}

void Runtime::Impl::choose_device() {
  DeviceWish mine;
  mine.kind = options.device ? static_cast<int32_t>(*options.device) : -1;
  mine.has_gpu = mine.may_take_gpu() && local::available(DeviceKind::cuda) ? 1 : 0;
  gethostname(mine.host, sizeof mine.host - 1);
  std::vector<DeviceWish> wishes(static_cast<size_t>(communicator->size()));
  communicator->all_gather(&mine, sizeof mine, wishes.data());
  device.kind = choose_kinds(wishes, cpu_ranks)[static_cast<size_t>(communicator->rank())];
  std::string view;  // none on the CPU
  together(*communicator, 0, [&] {
    if (device.kind == DeviceKind::cpu) return;
    local::Backend& backend = local::backend(device.kind);
    visible_devices = backend.device_count();
    view = mine.host;
    if (visible_devices == 1 || communicator->node_size() == 1) return;
    for (int i = 0; i < visible_devices; ++i) view += " " + backend.info(i).uuid;
  });
  const std::vector<std::string> views = communicator->all_gather_strings(view);
  together(*communicator, 0, [&] {
    const int number = choose_index(views, communicator->rank());
    switch (device.kind) {
      case DeviceKind::cpu:
        break;
      case DeviceKind::emulated:
        device.index = number % visible_devices;  // each process has its own, whatever their numbers
        break;
      case DeviceKind::cuda:
        // Ranks that see the same one only are told so by name.
        device.index = visible_devices == 1 ? 0 : number;
        if (device.index >= visible_devices && !cpu_ranks) {
          throw InvalidArgument(fmt::format(
              "{} ranks on {} see the same {} GPUs: every rank needs a GPU of its own; start {} ranks per node, "
              "or choose --device cpu, or --without-gpu cpu for CPU ranks beside those with one",
              std::ranges::count(views, view), mine.host, visible_devices, visible_devices));
        }
        break;
    }
  });
  if (std::ranges::any_of(wishes, [](const DeviceWish& wish) { return wish.has_gpu != 0; })) take_gpu();
  options.device = device.kind;
  const auto kind = static_cast<int64_t>(device.kind);
  std::vector<int64_t> all(static_cast<size_t>(communicator->size()));
  communicator->all_gather(&kind, sizeof kind, all.data());
  std::vector<size_t> on_cpu;
  for (size_t r = 0; r < all.size(); ++r) {
    kinds.push_back(static_cast<DeviceKind>(all[r]));
    if (kinds.back() == DeviceKind::cpu) on_cpu.push_back(r);
    if (kinds.back() != DeviceKind::cpu) job_kind = kinds.back();
  }
  if (job_kind != DeviceKind::cpu && !on_cpu.empty() && communicator->rank() == 0) {
    local::log(local::LogLevel::info,
               fmt::format("ranks that compute on the CPU beside others: {}", fmt::join(on_cpu, ", ")));
  }
}

// The GPU of this rank's number, unless there is none left for it or a lower rank has it. Collective.
void Runtime::Impl::take_gpu() {
  std::string mine;
  if (device.kind == DeviceKind::cuda && device.index < visible_devices) {
    const local::DeviceInfo info = local::backend(device.kind).info(device.index);
    mine = info.uuid;
    device_name = info.name;
  } else if (device.kind == DeviceKind::cuda) {
    device = local::kCpu;
  }
  // Each rank saw one GPU: was it the same one?
  const std::vector<std::string> all = communicator->all_gather_strings(mine);
  const auto sharing = mine.empty() ? 0 : std::ranges::count(all, mine);
  together(*communicator, 0, [&] {
    if (sharing <= 1 || cpu_ranks) return;
    throw InvalidArgument(
        fmt::format("{} ranks share the GPU {}: every rank needs one of its own; start one rank per "
                    "GPU, or choose --device cpu",
                    sharing, mine));
  });
  if (sharing > 1 && std::ranges::find(all, mine) - all.begin() < communicator->rank()) {
    device = local::kCpu;
    device_name.clear();
  }
}

void Runtime::Impl::choose_budget() {
  const int64_t share = free_host_bytes() / communicator->node_size();
  const auto chosen = [](const std::string& text, const char* what, int64_t free, int64_t otherwise) {
    int64_t bytes = otherwise;
    try {
      if (!text.empty()) bytes = parse_size(text, free);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}: {}", what, error.what()));
    }
    if (bytes < 1) throw InvalidArgument(fmt::format("{}: \"{}\" is nothing", what, text));
    return bytes;
  };
  const auto part = [](double fraction, int64_t of) {
    return static_cast<int64_t>(fraction * static_cast<double>(of));
  };
  switch (device.kind) {
    case DeviceKind::cpu:
      memory_bytes = chosen(options.memory, "memory", share, part(kDefaultShare, share));
      host_bytes = 0;
      return;
    case DeviceKind::emulated:
      memory_bytes = chosen(options.memory, "memory", share, part(kDefaultShare / 2, share));
      break;
    case DeviceKind::cuda: {
      const local::DeviceInfo info = local::backend(device.kind).info(device.index);
      memory_bytes = chosen(options.memory, "memory", info.free_bytes, part(kDefaultDeviceShare, info.free_bytes));
      if (memory_bytes > info.free_bytes) {
        throw InvalidArgument(fmt::format("memory: {} asked for, {} of {} are free on {} ({})",
                                          bytes_text(memory_bytes), bytes_text(info.free_bytes),
                                          bytes_text(info.total_bytes), local::to_string(device), info.name));
      }
      break;
    }
  }
  host_bytes =
      chosen(options.host_memory, "host memory", share, std::min(kDefaultHostBytes, part(kDefaultHostShare, share)));
}

void Runtime::Impl::start_progress() {
  latest.resize(static_cast<size_t>(communicator->size()));
  if (communicator->size() > 1) {
    reports = communicator->split(/*color=*/0, communicator->rank());
    if (reports->rank() == 0) {
      reports->set_handler([this](int from, std::span<const std::byte> message) {
        const std::lock_guard lock(progress_mutex);
        if (message.size() != sizeof(scheduler::Progress)) return;
        std::memcpy(&latest[static_cast<size_t>(from)], message.data(), message.size());
        news = true;
      });
    }
  }
  watcher = std::jthread([this](const std::stop_token& token) { watch(token); });
}

void Runtime::Impl::stop() noexcept {
  if (watcher.joinable()) {
    watcher.request_stop();
    watcher.join();
  }
  if (reports) reports->set_handler(nullptr);
  reports.reset();
  if (peers) {
    // Nobody frees memory that another rank has open.
    peers.reset();
    try {
      communicator->barrier();
    } catch (const std::exception& error) {
      local::log(local::LogLevel::debug, error.what());
    }
  }
  executor.reset();
}

void Runtime::Impl::watch(const std::stop_token& token) {
  constexpr auto kPeriod = std::chrono::milliseconds(100);
  std::mutex sleep_mutex;
  std::condition_variable_any sleeper;
  while (!token.stop_requested()) {
    {
      std::unique_lock lock(sleep_mutex);
      sleeper.wait_for(lock, token, kPeriod, [] { return false; });
    }
    if (token.stop_requested()) return;
    try {
      sample();
    } catch (const std::exception& error) {
      local::log(local::LogLevel::info, fmt::format("progress is not reported any more: {}", error.what()));
      return;
    }
  }
}

// One tick: this rank's progress to rank 0; there, the sum to the callback.
void Runtime::Impl::sample() {
  scheduler::Progress mine = executor->progress();
  mine.taken_chunks = taken_chunks;
  if (!(mine == posted)) {
    posted = mine;
    if (communicator->rank() == 0) {
      const std::lock_guard lock(progress_mutex);
      latest[0] = mine;
      news = true;
    } else {
      reports->post(/*to=*/0, std::as_bytes(std::span(&mine, 1)));
    }
  }
  if (communicator->rank() != 0) return;
  if (reports) reports->progress();
  scheduler::Progress sum;
  {
    const std::lock_guard lock(progress_mutex);
    if (!news) return;
    news = false;
    sum = scheduler::sum(latest);
  }
  const std::lock_guard lock(callback_mutex);
  if (callback) callback(sum);
}

namespace {

std::atomic<Runtime*> the_runtime{nullptr};

}  // namespace

Runtime::Runtime(int& argc, char**& argv, RuntimeOptions options)
    : impl_(std::make_unique<Impl>(comm::world(&argc, &argv, options.transport))) {
  impl_->start(std::move(options));
  the_runtime = this;
}

Runtime::Runtime(RuntimeOptions options)
    : impl_(std::make_unique<Impl>(comm::world(nullptr, nullptr, options.transport))) {
  impl_->start(std::move(options));
  the_runtime = this;
}

Runtime::~Runtime() {
  Runtime* self = this;
  the_runtime.compare_exchange_strong(self, nullptr);
}

Runtime& Runtime::current() {
  if (Runtime* runtime = the_runtime) return *runtime;
  static std::unique_ptr<Runtime> alone = [] {
    // Made beside the launcher's environment, if any: a program that wants ranks makes its Runtime itself.
    std::unique_ptr<Runtime> runtime(new Runtime(std::make_unique<Impl>(comm::self_communicator())));
    runtime->impl_->start({});
    return runtime;
  }();
  return *alone;
}

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

int Runtime::rank() const { return impl_->communicator->rank(); }
int Runtime::size() const { return impl_->communicator->size(); }
comm::Communicator& Runtime::communicator() { return *impl_->communicator; }
local::Device Runtime::device() const { return impl_->device; }
int64_t Runtime::memory_bytes() const { return impl_->memory_bytes; }
int64_t Runtime::host_bytes() const { return impl_->host_bytes; }
int Runtime::threads() const { return impl_->options.threads; }
bool Runtime::balances() const { return impl_->balances; }
const std::vector<local::DeviceKind>& Runtime::device_kinds() const { return impl_->kinds; }
local::DeviceKind Runtime::job_device_kind() const { return impl_->job_kind; }
int64_t Runtime::plan_bytes() const { return impl_->plan_bytes; }
const RuntimeOptions& Runtime::options() const { return impl_->options; }
scheduler::Executor& Runtime::executor() { return *impl_->executor; }
const comm::PeerMemory* Runtime::peers() const { return impl_->peers.get(); }

std::string Runtime::banner() const {
  const Impl& r = *impl_;
  const auto plural = [](int n, const char* noun) { return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s"); };
  const int ranks = r.communicator->size();
  std::string text = plural(ranks, "rank");
  if (ranks > 1) text += fmt::format(" on {} over {}", plural(r.node_count, "node"), r.communicator->transport());
  const std::string each = ranks > 1 ? " per rank" : "";
  switch (r.device.kind) {
    case DeviceKind::cpu:
      text += fmt::format(", CPU, {}{}, {} of memory{}", plural(r.options.threads, "thread"), each,
                          bytes_text(r.memory_bytes), each);
      break;
    case DeviceKind::cuda:
    case DeviceKind::emulated:
      text += fmt::format(", {}{}{}, {}{}, {} of device and {} of host memory{}", local::to_string(r.device),
                          r.device_name.empty() ? "" : " (" + r.device_name + ")", ranks > 1 ? " on rank 0" : "",
                          plural(r.options.threads, "thread"), each, bytes_text(r.memory_bytes),
                          bytes_text(r.host_bytes), each);
      break;
  }
  if (const auto others = std::ranges::count_if(r.kinds, [&](DeviceKind kind) { return kind != r.device.kind; })) {
    text += fmt::format("; {} {}", plural(static_cast<int>(others), "rank"),
                        r.device.kind == DeviceKind::cpu ? "on devices" : "on the CPU");
  }
  if (ranks == 1 && r.device.kind == DeviceKind::cuda && r.visible_devices > 1) {
    text += fmt::format("; {0} GPUs are visible, this process uses one: start one rank per GPU with mpirun -n {0}",
                        r.visible_devices);
  }
  return text;
}

void Runtime::set_progress(std::function<void(const scheduler::Progress&)> callback) {
  const std::lock_guard lock(impl_->callback_mutex);
  impl_->callback = std::move(callback);
}

void Runtime::interrupt() { exec::request_interrupt(); }

void Runtime::count_taken() { ++impl_->taken_chunks; }

void Runtime::count_io(int64_t read_bytes, int64_t written_bytes) {
  impl_->read_bytes += read_bytes;
  impl_->written_bytes += written_bytes;
}

std::vector<scheduler::Progress> Runtime::rank_progress() const {
  const std::lock_guard lock(impl_->progress_mutex);
  return impl_->latest;
}

RunStatistics Runtime::statistics() const {
  const scheduler::Statistics from = impl_->executor->statistics();
  RunStatistics s;
  s.read_bytes = impl_->read_bytes;
  s.written_bytes = impl_->written_bytes;
  s.spilled_bytes = from.spilled_bytes;
  s.restored_bytes = from.restored_bytes;
  s.communicated_bytes = impl_->communicator->bytes_sent() - impl_->sent_before;
  s.tasks = from.tasks;
  s.taken_chunks = impl_->taken_chunks;
  s.peak_device_bytes = from.peak_memory_bytes;
  s.peak_host_bytes = impl_->device.kind == DeviceKind::cpu ? from.peak_memory_bytes : from.peak_host_bytes;
  std::copy(std::begin(from.busy_seconds), std::end(from.busy_seconds), std::begin(s.lane_busy_seconds));
  return s;
}

RunStatistics Runtime::total_statistics() {
  RunStatistics s = statistics();
  int64_t sums[] = {s.read_bytes,         s.written_bytes, s.spilled_bytes, s.restored_bytes,
                    s.communicated_bytes, s.tasks,         s.taken_chunks};
  int64_t peaks[] = {s.peak_device_bytes, s.peak_host_bytes};
  communicator().all_reduce(std::span(sums), comm::ReduceOp::sum);
  communicator().all_reduce(std::span(peaks), comm::ReduceOp::max);
  communicator().all_reduce(std::span(s.lane_busy_seconds), comm::ReduceOp::sum);
  s.read_bytes = sums[0];
  s.written_bytes = sums[1];
  s.spilled_bytes = sums[2];
  s.restored_bytes = sums[3];
  s.communicated_bytes = sums[4];
  s.tasks = sums[5];
  s.taken_chunks = sums[6];
  s.peak_device_bytes = peaks[0];
  s.peak_host_bytes = peaks[1];
  return s;
}

}  // namespace quarry
