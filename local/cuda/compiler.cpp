#include "quarry/local/cuda/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string_view>

#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/options.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/driver.h"
#include "quarry/local/cuda/embedded.h"
#include "quarry/local/cuda/stream.h"
#include "quarry/local/device/unique_handle.h"

namespace quarry::local::cuda {
namespace {

struct DestroyProgram {
  void operator()(nvrtcProgram program) const { nvrtcDestroyProgram(&program); }
};
using ProgramHandle = unique_handle<nvrtcProgram, DestroyProgram>;

// No contraction: a fused program rounds where the eager operations do. Division and square root are IEEE's by default.
constexpr const char* kOptions[] = {"-std=c++20", "--fmad=false", "-default-device", "-w"};

// Headers of the toolkit for raw sources, where it is installed.
std::string toolkit_headers() {
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"})
    if (const std::string folder = environment(variable, ""); !folder.empty()) return folder + "/include";
  return "/usr/local/cuda/include";
}

// Options that a compilation has beside its target; those of the source win.
std::vector<std::string> options_of(const ModuleSource& source) {
  std::vector<std::string> options;
  const auto contradicted = [&source](std::string_view option) {
    const std::string_view key = option.substr(0, option.find('='));
    return std::any_of(source.options.begin(), source.options.end(), [&](const std::string& given) {
      const std::string_view bare =
          std::string_view(given).starts_with("--") ? std::string_view(given).substr(1) : given;
      const std::string_view wanted = key.starts_with("--") ? key.substr(1) : key;
      return bare.substr(0, bare.find('=')) == wanted;
    });
  };
  for (const std::string_view option : kOptions) {
    if (source.raw && option != "-std=c++20" && option != "-w") continue;
    if (!contradicted(option)) options.emplace_back(option);
  }
  if (source.raw) options.push_back("-I" + toolkit_headers());
  options.insert(options.end(), source.options.begin(), source.options.end());
  return options;
}

// What raw sources get by #include <quarry/kernel.h>.
const std::string& kernel_header() {
  static const std::string text = "#pragma once\n#define QUARRY_NO_SPECIAL_FUNCTIONS\n" + std::string(embedded_types) +
                                  embedded_op_functions + "\n#define QUARRY_KERNEL_COMPLEX\n" + embedded_kernel_types;
  return text;
}
constexpr const char* kKernelHeader = "quarry/kernel.h";

std::string log_of(nvrtcProgram program) {
  size_t size = 0;
  std::string log;
  if (nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 1) {
    log.resize(size);
    nvrtcGetProgramLog(program, log.data());
    log.resize(size - 1);
  }
  return log;
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

CompiledModule compile(const ModuleSource& source, Architecture architecture) {
  const TraceScope scope("compile kernel", "compute");
  const Target target = target_of(architecture);
  ProgramHandle program;
  // The user's lines are those of the file "source".
  // Half of the prelude is special functions, which few kernels have.
  const char* less =
      source.text.find("fn::special") == std::string::npos ? "#define QUARRY_NO_SPECIAL_FUNCTIONS\n" : "";
  const std::string text = source.raw ? "#line 1 \"source\"\n" + source.text : less + prelude() + source.text;
  const char* headers[] = {kernel_header().c_str()};
  const char* header_names[] = {kKernelHeader};
  QUARRY_CUDA_CALL(
      nvrtcCreateProgram(program.out(), text.c_str(), "quarry.cu", source.raw ? 1 : 0, headers, header_names));
  if (source.raw)
    for (const std::string& name : source.kernels)
      QUARRY_CUDA_CALL(nvrtcAddNameExpression(program.get(), name.c_str()));
  const std::vector<std::string> given = options_of(source);
  std::vector<const char*> options{target.option.c_str()};
  for (const std::string& option : given) options.push_back(option.c_str());
  const nvrtcResult result = nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS)
    throw SourceRefused(fmt::format("nvrtcCompileProgram: {}", nvrtcGetErrorString(result)), log_of(program.get()));
  CompiledModule compiled;
  compiled.names = source.kernels;
  if (source.raw) {
    for (std::string& name : compiled.names) {
      const char* lowered = nullptr;
      QUARRY_CUDA_CALL(nvrtcGetLoweredName(program.get(), name.c_str(), &lowered));
      name = lowered;
    }
  }
  size_t size = 0;
  if (target.machine_code) {
    QUARRY_CUDA_CALL(nvrtcGetCUBINSize(program.get(), &size));
    compiled.code.resize(size);
    QUARRY_CUDA_CALL(nvrtcGetCUBIN(program.get(), compiled.code.data()));
  } else {
    QUARRY_CUDA_CALL(nvrtcGetPTXSize(program.get(), &size));
    compiled.code.resize(size);
    QUARRY_CUDA_CALL(nvrtcGetPTX(program.get(), compiled.code.data()));
  }
  return compiled;
}

std::string compile(const std::string& source, Architecture architecture) {
  return compile(ModuleSource{source}, architecture).code;
}

std::string CompiledModule::packed(const ModuleSource& source) const {
  if (!source.raw) return code;
  std::string text;
  for (const std::string& name : names) text += name + '\n';
  return text + code;
}

CompiledModule CompiledModule::unpacked(const ModuleSource& source, const std::string& text) {
  if (!source.raw) return {text, source.kernels};
  CompiledModule compiled;
  size_t at = 0;
  for (size_t i = 0; i < source.kernels.size(); ++i) {
    const size_t end = std::min(text.find('\n', at), text.size());
    compiled.names.push_back(text.substr(at, end - at));
    at = std::min(end + 1, text.size());
  }
  compiled.code = text.substr(at);
  return compiled;
}

std::string cache_name(const ModuleSource& source, Architecture architecture) {
  std::string text = compiler_version() + target_of(architecture).option;
  for (const std::string& option : options_of(source)) text += option;
  text += source.raw ? kernel_header() : prelude();
  if (source.raw)
    for (const std::string& name : source.kernels) text += name + '\n';
  text += source.text;
  return content_name(text);
}

Module::Module(const CompiledModule& compiled, const ModuleSource& source) : names_(compiled.names) {
  QUARRY_CUDA_CALL(
      driver().library_load_data(&library_, compiled.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  for (size_t i = 0; i < names_.size(); ++i) {
    CUkernel kernel = nullptr;
    if (!source.raw || !source.kernels[i].starts_with('&'))
      QUARRY_CUDA_CALL(driver().library_get_kernel(&kernel, library_, names_[i].c_str()));
    // A kernel of a library is good in every context, and cuLaunchKernel takes it in place of a function.
    kernels_.push_back(reinterpret_cast<CUfunction>(kernel));
  }
}

const Module& ModuleCache::get(const std::string& key, int device, const std::function<ModuleSource()>& make_source) {
  const Architecture architecture = architecture_of(device);
  const std::string full_key = fmt::format("{}@{}", key, architecture);
  std::optional<std::promise<const Module*>> promise;
  std::shared_future<const Module*> found;
  {
    const std::lock_guard lock(mutex_);
    const auto place = modules_.find(full_key);
    if (place != modules_.end())
      found = place->second;
    else
      modules_.emplace(full_key, promise.emplace().get_future().share());
  }
  if (found.valid()) return *found.get();
  try {
    static const DiskCache disk(DiskCache::default_folder());
    const ModuleSource source = make_source();
    const std::string name = cache_name(source, architecture);
    std::string text;
    const Module* module = nullptr;
    if (disk.load(name, text)) {
      try {
        module = new Module(CompiledModule::unpacked(source, text), source);
      } catch (const DeviceError&) {
        module = nullptr;
        log(LogLevel::warn,
            fmt::format("a cached kernel that the driver does not take is compiled anew: {}/{}", disk.folder(), name));
      }
    }
    if (module == nullptr) {
      const CompiledModule compiled = compile(source, architecture);
      disk.store(name, compiled.packed(source));
      module = new Module(compiled, source);
    }
    promise->set_value(module);
    return *module;
  } catch (...) {
    promise->set_exception(std::current_exception());
    const std::lock_guard lock(mutex_);
    modules_.erase(full_key);  // whoever waits gets this error; the next call tries again
    throw;
  }
}

}  // namespace quarry::local::cuda
