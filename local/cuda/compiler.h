// CUDA C++ to machine code by NVRTC, with a cache in memory and one on disk.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace quarry::local::cuda {

// A compute capability as nvcc writes it: 90 for sm_90.
using Architecture = int;

// The device's own; asked from the runtime once per device.
Architecture architecture_of(int index);

// Machine code (a cubin), or PTX where NVRTC does not know the architecture yet. Needs no driver and no GPU. The
// source is preceded by prelude(). Throws DeviceError with the compiler's log.
std::string compile(const std::string& source, Architecture architecture);

// What every kernel starts with: the headers of embedded.h.
const std::string& prelude();

// Compiled code by name, one file each, written by rename. Entries that do not read back whole are ignored, as is a
// folder that cannot be written to; each is logged once as a warning.
class DiskCache {
 public:
  // Empty folder: no caching.
  explicit DiskCache(std::string folder);
  // QUARRY_CACHE_DIR, else $XDG_CACHE_HOME/quarry/kernels, else ~/.cache/quarry/kernels; made with mode 0700. Empty
  // where that cannot be, or where others could write there, which is logged.
  static std::string default_folder();
  // Changes with anything that changes the code: source, prelude, options, compiler version, architecture.
  static std::string name_of(const std::string& source, Architecture architecture);

  bool load(const std::string& name, std::string& code) const;
  void store(const std::string& name, const std::string& code) const noexcept;
  const std::string& folder() const { return folder_; }

 private:
  void warn_once(std::atomic_flag& warned, const std::string& message) const;

  std::string folder_;
  mutable std::atomic_flag warned_damaged_, warned_unwritable_;
};

// A loaded module: kernels by their extern "C" names. Lives as long as the process.
class Module {
 public:
  Module(const std::string& code, const std::vector<std::string>& kernels);
  CUfunction kernel(size_t i) const { return kernels_[i]; }

 private:
  std::vector<CUfunction> kernels_;
};

struct ModuleSource {
  std::string text;
  std::vector<std::string> kernels;  // in the order of Module::kernel()
};

// Modules by key. The first call with a key compiles (others with that key wait), later ones look up.
class ModuleCache {
 public:
  const Module& get(const std::string& key, int device, const std::function<ModuleSource()>& make_source);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_future<const Module*>> modules_;
};

}  // namespace quarry::local::cuda
