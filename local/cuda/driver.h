// The few driver API functions that load and launch compiled kernels. They are looked up in libcuda at run time, so
// that libquarry_cuda loads on machines without a driver.
#pragma once

#include <cuda.h>

namespace quarry::local::cuda {

struct Driver {
  decltype(&cuGetErrorString) get_error_string = nullptr;
  decltype(&cuLibraryLoadData) library_load_data = nullptr;
  decltype(&cuLibraryUnload) library_unload = nullptr;
  decltype(&cuLibraryGetKernel) library_get_kernel = nullptr;
  decltype(&cuLibraryGetGlobal) library_get_global = nullptr;
  decltype(&cuKernelGetFunction) kernel_get_function = nullptr;
  decltype(&cuKernelGetAttribute) kernel_get_attribute = nullptr;
  decltype(&cuKernelSetAttribute) kernel_set_attribute = nullptr;
  decltype(&cuKernelGetParamInfo) kernel_get_param_info = nullptr;
  decltype(&cuDeviceGet) device_get = nullptr;
  decltype(&cuLaunchKernel) launch_kernel = nullptr;
};

// Throws DeviceError where libcuda is absent or too old.
const Driver& driver();

}  // namespace quarry::local::cuda
