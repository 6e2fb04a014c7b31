#include "local/cuda/compiler.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "local/base/error.h"
#include "local/base/log.h"
#include "local/base/trace.h"
#include "local/cuda/check.h"
#include "local/cuda/driver.h"
#include "local/cuda/embedded.h"
#include "local/cuda/stream.h"
#include "local/device/unique_handle.h"

namespace quarry::local::cuda {
namespace {

struct DestroyProgram {
  void operator()(nvrtcProgram program) const { nvrtcDestroyProgram(&program); }
};
using ProgramHandle = unique_handle<nvrtcProgram, DestroyProgram>;

// No contraction: a fused program rounds where the eager operations do. Division and square root are IEEE's by default.
const std::vector<std::string>& common_options() {
  static const std::vector<std::string> options = {"-std=c++20", "--fmad=false", "-default-device", "-w"};
  return options;
}

std::string compiler_version() {
  int major = 0, minor = 0;
  QUARRY_CUDA_CALL(nvrtcVersion(&major, &minor));
  return fmt::format("nvrtc {}.{}", major, minor);
}

struct Target {
  std::string option;
  bool machine_code;
};

Target target_of(Architecture architecture) {
  int count = 0;
  QUARRY_CUDA_CALL(nvrtcGetNumSupportedArchs(&count));
  std::vector<int> known(static_cast<size_t>(count));
  QUARRY_CUDA_CALL(nvrtcGetSupportedArchs(known.data()));
  if (std::find(known.begin(), known.end(), architecture) != known.end())
    return {fmt::format("-arch=sm_{}", architecture), true};
  int best = 0;
  for (const int candidate : known)
    if (candidate <= architecture) best = std::max(best, candidate);
  if (best == 0) throw DeviceError(fmt::format("NVRTC cannot compile for compute capability {}", architecture));
  return {fmt::format("-arch=compute_{}", best), false};
}

// 64 bits of a text; two seeds give independent values.
uint64_t hash(const std::string& text, uint64_t seed) {
  uint64_t h = seed ^ (text.size() * 0x9e3779b97f4a7c15u);
  const auto mix = [&h](uint64_t word) {
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
    h *= 0xc4ceb9fe1a85ec53u;
    h ^= h >> 29;
  };
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    mix(word);
  }
  uint64_t last = 0;
  std::memcpy(&last, text.data() + i, text.size() - i);
  mix(last);
  return h;
}

constexpr char kMagic[8] = {'q', 'r', 'y', 'k', 'e', 'r', 'n', '1'};
constexpr uint64_t kChecksumSeed = 0x51f15eed;

struct EntryHeader {
  char magic[8];
  uint64_t bytes;
  uint64_t checksum;
};

}  // namespace

Architecture architecture_of(int index) {
  static std::atomic<int> known[64];
  auto& entry = known[static_cast<size_t>(index) % 64];
  if (entry == 0) {
    int major = 0, minor = 0;
    QUARRY_CUDA_CALL(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    QUARRY_CUDA_CALL(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    entry = major * 10 + minor;
  }
  return entry;
}

const std::string& prelude() {
  static const std::string text = std::string(embedded_types) + embedded_op_functions + embedded_support;
  return text;
}

std::string compile(const std::string& source, Architecture architecture) {
  const TraceScope scope("compile kernel", "compute");
  const Target target = target_of(architecture);
  ProgramHandle program;
  const std::string text = prelude() + source;
  QUARRY_CUDA_CALL(nvrtcCreateProgram(program.out(), text.c_str(), "quarry.cu", 0, nullptr, nullptr));
  std::vector<const char*> options{target.option.c_str()};
  for (const std::string& option : common_options()) options.push_back(option.c_str());
  const nvrtcResult result = nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS) {
    size_t size = 0;
    std::string log;
    if (nvrtcGetProgramLogSize(program.get(), &size) == NVRTC_SUCCESS && size > 1) {
      log.resize(size);
      nvrtcGetProgramLog(program.get(), log.data());
    }
    throw DeviceError(fmt::format("nvrtcCompileProgram: {}\n{}", nvrtcGetErrorString(result), log));
  }
  size_t size = 0;
  std::string code;
  if (target.machine_code) {
    QUARRY_CUDA_CALL(nvrtcGetCUBINSize(program.get(), &size));
    code.resize(size);
    QUARRY_CUDA_CALL(nvrtcGetCUBIN(program.get(), code.data()));
  } else {
    QUARRY_CUDA_CALL(nvrtcGetPTXSize(program.get(), &size));
    code.resize(size);
    QUARRY_CUDA_CALL(nvrtcGetPTX(program.get(), code.data()));
  }
  return code;
}

DiskCache::DiskCache(std::string folder) : folder_(std::move(folder)) {}

std::string DiskCache::default_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::filesystem::path folder;
  if (const std::string own = variable("QUARRY_CACHE_DIR"); !own.empty())
    folder = own;
  else if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    folder = std::filesystem::path(cache) / "quarry" / "kernels";
  else if (const std::string home = variable("HOME"); !home.empty())
    folder = std::filesystem::path(home) / ".cache" / "quarry" / "kernels";
  else {
    log(LogLevel::warn, "kernels are not cached: none of QUARRY_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    return "";
  }
  std::error_code error;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  ::mkdir(folder.c_str(), 0700);  // whether it was there already or cannot be made shows below
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    log(LogLevel::warn, fmt::format("kernels are not cached: the folder {} cannot be made", folder.string()));
    return "";
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    // Code from a folder that others can write to would be theirs.
    log(LogLevel::warn, fmt::format("kernels are not cached: {} is writable by others", folder.string()));
    return "";
  }
  return folder.string();
}

std::string DiskCache::name_of(const std::string& source, Architecture architecture) {
  std::string text = compiler_version() + target_of(architecture).option;
  for (const std::string& option : common_options()) text += option;
  text += prelude();
  text += source;
  return fmt::format("{:016x}{:016x}", hash(text, 1), hash(text, 2));
}

void DiskCache::warn_once(std::atomic_flag& warned, const std::string& message) const {
  if (!warned.test_and_set()) log(LogLevel::warn, message);
}

bool DiskCache::load(const std::string& name, std::string& code) const {
  if (folder_.empty()) return false;
  const auto damaged = [&] {
    warn_once(warned_damaged_, fmt::format("a cached kernel is damaged and compiled anew: {}/{}", folder_, name));
    return false;
  };
  std::ifstream file(folder_ + "/" + name, std::ios::binary);
  if (!file) return false;
  std::stringstream content;
  content << file.rdbuf();
  const std::string all = content.str();
  EntryHeader header;
  if (all.size() < sizeof header) return damaged();
  std::memcpy(&header, all.data(), sizeof header);
  std::string payload = all.substr(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.bytes != payload.size() ||
      header.checksum != hash(payload, kChecksumSeed))
    return damaged();
  code = std::move(payload);
  return true;
}

// A cache that cannot be written costs time, not correctness: nothing here throws.
void DiskCache::store(const std::string& name, const std::string& code) const noexcept try {
  if (folder_.empty()) return;
  static std::atomic<int> serial = 0;
  const std::string path = folder_ + "/" + name;
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, ::getpid(), serial++);
  EntryHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.bytes = code.size();
  header.checksum = hash(code, kChecksumSeed);
  bool whole = false;
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(code.data(), static_cast<std::streamsize>(code.size()));
    file.close();
    whole = file.good();
  }
  if (whole && ::rename(temporary.c_str(), path.c_str()) == 0) return;
  ::unlink(temporary.c_str());
  warn_once(warned_unwritable_, fmt::format("kernels are not cached: cannot write to {}", folder_));
} catch (...) {
}

Module::Module(const std::string& code, const std::vector<std::string>& kernels) {
  CUlibrary library = nullptr;
  QUARRY_CUDA_CALL(driver().library_load_data(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  for (const std::string& name : kernels) {
    CUkernel kernel = nullptr;
    QUARRY_CUDA_CALL(driver().library_get_kernel(&kernel, library, name.c_str()));
    // A kernel of a library is good in every context, and cuLaunchKernel takes it in place of a function.
    kernels_.push_back(reinterpret_cast<CUfunction>(kernel));
  }
}

const Module& ModuleCache::get(const std::string& key, int device, const std::function<ModuleSource()>& make_source) {
  const Architecture architecture = architecture_of(device);
  const std::string full_key = fmt::format("{}@{}", key, architecture);
  std::promise<const Module*> promise;
  std::shared_future<const Module*> found;
  {
    const std::lock_guard lock(mutex_);
    const auto place = modules_.find(full_key);
    if (place != modules_.end())
      found = place->second;
    else
      modules_.emplace(full_key, promise.get_future().share());
  }
  if (found.valid()) return *found.get();
  try {
    static const DiskCache disk(DiskCache::default_folder());
    const ModuleSource source = make_source();
    const std::string name = DiskCache::name_of(source.text, architecture);
    std::string code;
    const Module* module = nullptr;
    if (disk.load(name, code)) {
      try {
        module = new Module(code, source.kernels);
      } catch (const DeviceError&) {
        module = nullptr;
        log(LogLevel::warn,
            fmt::format("a cached kernel that the driver does not take is compiled anew: {}/{}", disk.folder(), name));
      }
    }
    if (module == nullptr) {
      code = compile(source.text, architecture);
      disk.store(name, code);
      module = new Module(code, source.kernels);
    }
    promise.set_value(module);
    return *module;
  } catch (...) {
    promise.set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    modules_.erase(full_key);  // whoever waits gets this error; the next call tries again
    throw;
  }
}

}  // namespace quarry::local::cuda
