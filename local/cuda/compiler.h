// CUDA C++ to machine code by NVRTC, with a cache in memory and one on disk.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/program/disk_cache.h"

namespace quarry::local::cuda {

// A compute capability as nvcc writes it: 90 for sm_90.
using Architecture = int;

// The device's own; asked from the runtime once per device.
Architecture architecture_of(int index);

struct ModuleSource {
  std::string text;
  std::vector<std::string> kernels = {};  // in the order of Module::kernel()
  std::vector<std::string> options = {};  // beside the usual ones, which they may contradict
  // CUDA source as the user wrote it: no prelude, contraction as CUDA's; `kernels` are functions and variables
  // ("&name") as C++ names them.
  bool raw = false;
};

// What the compiler refused, with its log.
class SourceRefused : public DeviceError {
 public:
  explicit SourceRefused(const std::string& result, std::string log)
      : DeviceError(result + '\n' + log), log_(std::move(log)) {}
  const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};

struct CompiledModule {
  std::string code;                // machine code (a cubin), or PTX where NVRTC does not know the architecture yet
  std::vector<std::string> names;  // of the kernels in it

  // As one text for the disk cache. Machine code alone where the source has the kernels' names.
  std::string packed(const ModuleSource& source) const;
  static CompiledModule unpacked(const ModuleSource& source, const std::string& text);
};

// Needs no driver and no GPU. Throws SourceRefused.
CompiledModule compile(const ModuleSource& source, Architecture architecture);
// The code alone.
std::string compile(const std::string& source, Architecture architecture);

// What every kernel but raw ones starts with: the headers of embedded.h.
const std::string& prelude();

// The name in the disk cache. Changes with anything that changes the code: source, prelude, options, compiler version,
// architecture.
std::string cache_name(const ModuleSource& source, Architecture architecture);
inline std::string cache_name(const std::string& source, Architecture architecture) {
  return cache_name(ModuleSource{source}, architecture);
}

// A loaded module: kernels by their names in it. Lives as long as the process.
class Module {
 public:
  Module(const CompiledModule& compiled, const ModuleSource& source);
  CUfunction kernel(size_t i) const { return kernels_[i]; }  // null for a variable
  const std::string& name(size_t i) const { return names_[i]; }
  CUlibrary library() const { return library_; }

 private:
  CUlibrary library_ = nullptr;
  std::vector<std::string> names_;
  std::vector<CUfunction> kernels_;
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
