// quarry doctor: what of this machine and installation quarry finds, how fast it is, and how to mend what is missing.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/job.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/report/ceilings.h"
#include "quarry/comm/communicator.h"
#include "quarry/comm/device_collectives.h"
#include "quarry/io/format.h"
#include "quarry/local/base/nameless_file.h"
#include "quarry/local/device/device.h"
#include "quarry/scheduler/executor.h"

namespace quarry::apps {
namespace {

namespace fs = std::filesystem;

enum class State { good, missing, slow };

struct Finding {
  State state = State::good;
  std::string what, advice;  // advice: how to mend it; empty where nothing is to be done
};

std::string line(const Finding& finding) {
  constexpr const char* kStates[] = {"ok", "missing", "slow"};
  std::string text = fmt::format("{:<8} {}\n", kStates[static_cast<int>(finding.state)], finding.what);
  if (!finding.advice.empty()) text += fmt::format("{:<8}   -> {}\n", "", finding.advice);
  return text;
}

std::string rate_text(double bytes_per_second) {
  return format_bytes(static_cast<int64_t>(std::min(bytes_per_second, 9e18))) + "/s";
}

Finding device_finding(Runtime& runtime) {
  const local::Device device = runtime.device();
  if (device.kind == local::DeviceKind::cuda) {
    const local::DeviceInfo info = local::backend(device.kind).info(device.index);
    return {State::good,
            fmt::format("GPU {}: {}, {} of {} free", local::to_string(device), info.name, format_bytes(info.free_bytes),
                        format_bytes(info.total_bytes)),
            ""};
  }
  std::error_code none;
  const bool driver = fs::exists("/proc/driver/nvidia", none) || fs::exists("/dev/nvidiactl", none);
  try {
    local::backend(local::DeviceKind::cuda);
    return {State::good, fmt::format("computing on {} beside a GPU (--device)", local::to_string(device)), ""};
  } catch (const local::Error& error) {
    if (!driver) return {State::good, fmt::format("computing on the CPU: {}", error.what()), ""};
    return {State::missing, fmt::format("GPU: {}", error.what()),
            "a driver of NVIDIA is there: libquarry_cuda has to lie beside the program, and the driver has to be new "
            "enough for its CUDA"};
  }
}

Finding thread_finding(Runtime& runtime) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const int ranks = runtime.communicator().node_size(), used = runtime.threads() * ranks;
  const std::string what =
      fmt::format("{} of {} cores: {} rank{} of {} thread{} on this host", std::min(used, cores), cores, ranks,
                  ranks == 1 ? "" : "s", runtime.threads(), runtime.threads() == 1 ? "" : "s");
  if (used > cores)
    return {State::slow, what + ", more threads than cores", "--threads or fewer ranks; mpirun --bind-to none"};
  if (2 * used < cores)
    return {State::slow, what, "the affinity mask leaves cores unused: mpirun --bind-to none, or --threads"};
  return {State::good, what, ""};
}

Finding limit_finding() {
  constexpr rlim_t kFiles = 1024;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const std::string what =
      fmt::format("{} open files at most",
                  files.rlim_cur == RLIM_INFINITY ? std::string("any number of") : std::to_string(files.rlim_cur));
  if (files.rlim_cur < kFiles) return {State::slow, what, fmt::format("ulimit -n {}", kFiles)};
  return {State::good, what, ""};
}

std::vector<Finding> rank_findings(Runtime& runtime) {
  comm::Communicator& communicator = runtime.communicator();
  std::vector<Finding> out;
  if (runtime.size() == 1) {
    out.push_back({State::good,
                   has_launcher() ? "MPI: one rank"
                                  : "one process; under mpirun -n N this command looks at messages between ranks too",
                   ""});
    return out;
  }
  const bool ucx = std::string_view(communicator.transport()) == "ucx";
  const std::string what = fmt::format("MPI: {} ranks, {} of them on this host; messages by {}, to the next rank: {}",
                                       runtime.size(), communicator.node_size(), communicator.transport(),
                                       communicator.link_to((runtime.rank() + 1) % runtime.size()));
  if (ucx)
    out.push_back({State::good, what, ""});
  else
    out.push_back({State::slow, what, "UCX carries messages faster: --transport ucx says why it is not used"});
  const std::string obstacle = comm::device_collectives_obstacle(communicator, runtime.device());
  if (runtime.device().kind == local::DeviceKind::cuda) {
    out.push_back(obstacle.empty()
                      ? Finding{State::good, "NCCL: collectives on device memory", ""}
                      : Finding{State::missing, "NCCL: " + obstacle,
                                "chunked arrays do without it: it serves programs with device memory of their own"});
  }
  return out;
}

Finding filter_finding() {
  std::string read, written;
  for (const io::FilterKind& kind : io::filter_kinds()) {
    read += fmt::format("{}{}", read.empty() ? "" : ", ", kind.name);
    if (kind.written) written += fmt::format("{}{}", written.empty() ? "" : ", ", kind.name);
  }
  std::string formats;
  for (const io::Format* format : io::formats())
    formats += fmt::format("{}{}", formats.empty() ? "" : ", ", format->name());
  return {State::good, fmt::format("formats: {}; filters read: {}; written: {}", formats, read, written), ""};
}

struct DiskRates {
  double write = 0, read = 0;
};

// A file of `bytes`, sent to the device, and read again after the cache was asked to forget it; nothing where the
// folder takes no file.
std::optional<DiskRates> measure_disk(const std::string& folder, int64_t bytes) {
  constexpr size_t kPiece = 4 << 20;
  const int file = local::open_nameless_file(folder, "doctor");
  if (file < 0) return std::nullopt;
  const std::unique_ptr<const int, void (*)(const int*)> closer(&file, [](const int* f) { close(*f); });
  std::vector<char> piece(kPiece);
  for (size_t i = 0; i < kPiece; ++i) piece[i] = static_cast<char>(i * 2654435761u >> 13);
  auto clock = [begin = std::chrono::steady_clock::now()]() mutable {
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double>(now - begin).count();
    begin = now;
    return std::max(passed, 1e-9);
  };
  for (int64_t done = 0; done < bytes; done += kPiece)
    if (pwrite(file, piece.data(), kPiece, done) != static_cast<ssize_t>(kPiece)) return std::nullopt;
  if (fsync(file) != 0) return std::nullopt;
  DiskRates out;
  out.write = static_cast<double>(bytes) / clock();
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  clock();
  for (int64_t done = 0; done < bytes; done += kPiece)
    if (pread(file, piece.data(), kPiece, done) != static_cast<ssize_t>(kPiece)) return std::nullopt;
  out.read = static_cast<double>(bytes) / clock();
  return out;
}

Finding disk_finding(const std::string& name, const std::string& folder, const std::string& option) {
  constexpr int64_t kBytes = 128 << 20;
  constexpr double kSlow = 200e6;
  constexpr long kNfs = 0x6969, kTmpfs = 0x01021994;
  const std::string advice = option.empty() ? "" : option + " names another folder";
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return {State::missing, fmt::format("{} {}: {}", name, folder, error.message()), advice};
  const std::string free = format_bytes(static_cast<int64_t>(space.available));
  if (space.available < 4 * static_cast<uintmax_t>(kBytes))
    return {State::slow, fmt::format("{} {}: only {} are free", name, folder, free), advice};
  const std::optional<DiskRates> rates = measure_disk(folder, kBytes);
  if (!rates) return {State::missing, fmt::format("{} {}: no file can be written there", name, folder), advice};
  struct statfs kind {};
  statfs(folder.c_str(), &kind);
  const bool nfs = kind.f_type == kNfs, memory = kind.f_type == kTmpfs;
  const std::string what = fmt::format("{} {}: {} free, writes {} to the device, reads {}{}", name, folder, free,
                                       rate_text(rates->write), rate_text(rates->read),
                                       nfs      ? "; NFS"
                                       : memory ? "; memory"
                                                : "");
  if (memory && !option.empty())
    return {State::slow, what, "spilling to memory saves none: " + option + " names a folder on a disk"};
  if (nfs || rates->write < kSlow) return {State::slow, what, advice};
  return {State::good, what, ""};
}

std::string track_name(const std::string& track) {
  if (track == "h2d") return "copies from pinned memory to the device";
  if (track == "d2h") return "copies from the device to pinned memory";
  if (track == "compute") return "copies in the memory that is computed in";
  if (track == "comm") return "messages to the next rank";
  if (track == "read") return "reads from the page cache";
  if (track == "write") return "writes to the page cache";
  return track;
}

std::vector<Finding> rate_findings(Runtime& runtime) {
  constexpr double kPcieOfToday = 10e9;  // bytes a second of sixteen lanes of the third generation, with losses
  std::vector<Finding> out;
  for (const report::TrackCeiling& ceiling : report::measure_ceilings(runtime)) {
    if (ceiling.track == "spill") continue;
    const bool link = ceiling.track == "h2d" || ceiling.track == "d2h";
    Finding finding{State::good, track_name(ceiling.track) + ": " + rate_text(ceiling.bytes_per_second), ""};
    if (link && runtime.device().kind == local::DeviceKind::cuda && ceiling.bytes_per_second < kPcieOfToday) {
      finding.state = State::slow;
      finding.advice =
          "less than PCIe 3.0 of 16 lanes gives: nvidia-smi topo -m and nvidia-smi -q -d PCIE show the link and whose "
          "cores are near; bind the rank to those";
    }
    out.push_back(std::move(finding));
  }
  return out;
}

int doctor(Job& job) {
  Runtime& runtime = job.runtime();
  const std::vector<Finding> ranks = rank_findings(runtime), rates = rate_findings(runtime);
  std::vector<std::string> devices = runtime.communicator().all_gather_strings(line(device_finding(runtime)));
  if (!job.root()) return 0;
  std::string text = fmt::format("quarry {}\n", QUARRY_VERSION);
  std::ranges::sort(devices);
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  for (const std::string& device : devices) text += device;
  std::vector<Finding> all = {thread_finding(runtime), limit_finding()};
  all.insert(all.end(), ranks.begin(), ranks.end());
  all.push_back(filter_finding());
  all.push_back(disk_finding("spill folder", runtime.executor().config().spill_dir, "--spill-dir"));
  all.push_back(disk_finding("this folder", ".", ""));
  all.insert(all.end(), rates.begin(), rates.end());
  int64_t wrong = 0;
  for (const Finding& finding : all) {
    text += line(finding);
    wrong += finding.state != State::good ? 1 : 0;
  }
  for (const std::string& device : devices) wrong += device.starts_with("ok") ? 0 : 1;
  text += wrong == 0 ? "nothing is missing or slow\n" : fmt::format("{} to look at\n", wrong);
  fmt::print("{}", text);
  return 0;
}

}  // namespace

RunCommand add_doctor_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand(
      "doctor",
      "Look at devices, ranks, filters, folders and their rates: what is missing or slow, and how to mend it");
  const auto options = std::make_shared<CommonOptions>();
  add_common_options(*command, *options);
  return [options](int& argc, char**& argv) {
    return run_job(*options, argc, argv, [](Job& job) { return doctor(job); });
  };
}

}  // namespace quarry::apps
