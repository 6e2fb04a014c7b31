// CUDA source of the user's own: loaded once per device, launched as the user says.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/driver.h"
#include "quarry/local/cuda/kernels.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/program/kernel_text.h"

namespace quarry::local::cuda {
namespace {

int device_attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  QUARRY_CUDA_CALL(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

// What a launch on a device may be.
struct Limits {
  int64_t grid[3], block[3];
  int64_t shared_bytes;  // of a block that opts in

  explicit Limits(int device)
      : grid{device_attribute(cudaDevAttrMaxGridDimX, device), device_attribute(cudaDevAttrMaxGridDimY, device),
             device_attribute(cudaDevAttrMaxGridDimZ, device)},
        block{device_attribute(cudaDevAttrMaxBlockDimX, device), device_attribute(cudaDevAttrMaxBlockDimY, device),
              device_attribute(cudaDevAttrMaxBlockDimZ, device)},
        shared_bytes(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device)) {}
};

class CudaRawCode final : public RawCode {
 public:
  CudaRawCode(const RawSource& source, const Module& module, int device)
      : names_(source.names), module_(module), device_(device), limits_(device) {
    QUARRY_CUDA_CALL(driver().device_get(&handle_, device));
  }

  RawAttributes attributes(const std::string& function) const override {
    const CUkernel kernel = find(function);
    RawAttributes all;
    all.max_threads_per_block = get(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    all.registers = get(kernel, CU_FUNC_ATTRIBUTE_NUM_REGS);
    all.static_shared_bytes = get(kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    all.local_bytes = get(kernel, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    all.const_bytes = get(kernel, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
    all.max_dynamic_shared_bytes = get(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    all.binary_version = get(kernel, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
    return all;
  }

  void allow_dynamic_shared(const std::string& function, int64_t bytes) const override {
    const CUkernel kernel = find(function);
    const int64_t available = limits_.shared_bytes - get(kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    if (bytes < 0 || bytes > available)
      throw InvalidArgument(fmt::format(
          "kernel '{}' asks for {} bytes of dynamic shared memory: cuda:{} has {} available to a block of it", function,
          bytes, device_, available));
    use_device(device_);
    QUARRY_CUDA_CALL(driver().kernel_set_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                   static_cast<int>(bytes), kernel, handle_));
  }

  void launch(const std::string& function, const RawLaunch& launch, const ExecContext& context) const override {
    const CUkernel kernel = find(function);
    CudaStream& stream = cuda_stream(context.stream);
    check_sizes(function, kernel, launch);
    check_grid(function, kernel, launch);
    if (launch.shared_bytes > get(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES))
      allow_dynamic_shared(function, launch.shared_bytes);
    use_device(device_);
    std::vector<void*> arguments = launch.arguments;
    QUARRY_CUDA_CALL(
        driver().launch_kernel(reinterpret_cast<CUfunction>(kernel), static_cast<unsigned>(launch.grid[0]),
                               static_cast<unsigned>(launch.grid[1]), static_cast<unsigned>(launch.grid[2]),
                               static_cast<unsigned>(launch.block[0]), static_cast<unsigned>(launch.block[1]),
                               static_cast<unsigned>(launch.block[2]), static_cast<unsigned>(launch.shared_bytes),
                               stream.handle(), arguments.empty() ? nullptr : arguments.data(), nullptr));
  }

  std::pair<void*, int64_t> variable(const std::string& name) const override {
    use_device(device_);
    CUdeviceptr address = 0;
    size_t bytes = 0;
    QUARRY_CUDA_CALL(
        driver().library_get_global(&address, &bytes, module_.library(), module_.name(position(name)).c_str()));
    return {reinterpret_cast<void*>(address), static_cast<int64_t>(bytes)};
  }

 private:
  size_t position(const std::string& name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) throw InvalidArgument(fmt::format("'{}' is not a name of this CUDA source", name));
    return static_cast<size_t>(found - names_.begin());
  }
  CUkernel find(const std::string& function) const {
    const CUfunction kernel = module_.kernel(position(function));
    if (kernel == nullptr) throw InvalidArgument(fmt::format("'{}' is a variable, not a kernel", function));
    return reinterpret_cast<CUkernel>(kernel);
  }
  int64_t get(CUkernel kernel, CUfunction_attribute attribute) const {
    use_device(device_);
    int value = 0;
    QUARRY_CUDA_CALL(driver().kernel_get_attribute(&value, attribute, kernel, handle_));
    return value;
  }

  // By number and size, which compiled code tells.
  static void check_sizes(const std::string& function, CUkernel kernel, const RawLaunch& launch) {
    if (driver().kernel_get_param_info == nullptr) return;
    const size_t given = launch.arguments.size();
    for (size_t a = 0; a <= given; ++a) {
      size_t offset = 0, bytes = 0;
      const bool exists = driver().kernel_get_param_info(kernel, a, &offset, &bytes) == CUDA_SUCCESS;
      if (a == given && exists)
        throw TypeError(fmt::format("kernel '{}' takes more than {} arguments", function, given));
      if (a == given) return;
      if (!exists) throw TypeError(fmt::format("kernel '{}' takes {} arguments, got {}", function, a, given));
      if (static_cast<int64_t>(bytes) != launch.bytes[a])
        throw TypeError(fmt::format("kernel '{}': argument {} is {} ({} bytes), the parameter has {} bytes", function,
                                    a, launch.text(a), launch.bytes[a], bytes));
    }
  }

  void check_grid(const std::string& function, CUkernel kernel, const RawLaunch& launch) const {
    for (int d = 0; d < 3; ++d) {
      if (launch.grid[d] > limits_.grid[d] || launch.block[d] > limits_.block[d])
        throw InvalidArgument(
            fmt::format("kernel '{}': {} blocks of {} threads along dimension {}: cuda:{} has at most {} of {}",
                        function, launch.grid[d], launch.block[d], d, device_, limits_.grid[d], limits_.block[d]));
    }
    const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
    const int64_t most = get(kernel, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    if (threads > most)
      throw InvalidArgument(
          fmt::format("kernel '{}': a block of {} threads, of which it takes at most {}", function, threads, most));
  }

  const std::vector<std::string> names_;
  const Module& module_;
  const int device_;
  const Limits limits_;
  CUdevice handle_ = 0;
};

std::string key_of(const RawSource& source) {
  std::string key = "raw\1" + source.text;
  for (const std::string& option : source.options) key += '\1' + option;
  key += '\2';
  for (const std::string& name : source.names) key += name + '\1';
  return key;
}

}  // namespace

ModuleSource make_raw_source(const RawSource& source) {
  ModuleSource made;
  made.text = source.text;
  made.kernels = source.names;
  made.options = source.options;
  made.raw = true;
  return made;
}

const RawCode& load_raw(const RawSource& source, Device device) {
  static std::mutex mutex;
  static auto* const codes = new std::map<std::pair<std::string, int>, std::unique_ptr<CudaRawCode>>();
  const std::string key = key_of(source);
  {
    const std::lock_guard lock(mutex);
    const auto found = codes->find({key, device.index});
    if (found != codes->end()) return *found->second;
  }
  use_device(device.index);
  const Module* module = nullptr;
  try {
    module = &module_cache().get(key, device.index, [&] { return make_raw_source(source); });
  } catch (const SourceRefused& refused) {
    std::string names;
    for (const std::string& name : source.names) names += (names.empty() ? "" : ", ") + name;
    refuse_source(names, source.text, refused.log());
  }
  auto made = std::make_unique<CudaRawCode>(source, *module, device.index);
  const std::lock_guard lock(mutex);
  return *codes->emplace(std::make_pair(key, device.index), std::move(made)).first->second;
}

}  // namespace quarry::local::cuda
