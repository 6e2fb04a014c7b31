#include "quarry/local/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "quarry/local/base/error.h"

namespace quarry::local::cuda {
namespace {

Driver load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw DeviceError(fmt::format("no CUDA driver: {}", dlerror()));
  const auto find = [library](auto& function, const char* name) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) throw DeviceError(fmt::format("the CUDA driver is too old: it has no {}", name));
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  Driver driver;
  find(driver.get_error_string, "cuGetErrorString");
  find(driver.library_load_data, "cuLibraryLoadData");
  find(driver.library_unload, "cuLibraryUnload");
  find(driver.library_get_kernel, "cuLibraryGetKernel");
  find(driver.library_get_global, "cuLibraryGetGlobal");
  find(driver.kernel_get_function, "cuKernelGetFunction");
  find(driver.kernel_get_attribute, "cuKernelGetAttribute");
  find(driver.kernel_set_attribute, "cuKernelSetAttribute");
  find(driver.device_get, "cuDeviceGet");
  find(driver.launch_kernel, "cuLaunchKernel");
  // Of CUDA 12.4; without it the sizes of a raw kernel's arguments go unchecked.
  driver.kernel_get_param_info =
      reinterpret_cast<decltype(driver.kernel_get_param_info)>(dlsym(library, "cuKernelGetParamInfo"));
  return driver;
}

}  // namespace

const Driver& driver() {
  static const Driver driver = load();
  return driver;
}

}  // namespace quarry::local::cuda
