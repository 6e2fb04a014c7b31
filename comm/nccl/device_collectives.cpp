#include "quarry/comm/device_collectives.h"

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "quarry/comm/nccl/nccl_api.h"
#include "quarry/local/base/log.h"

namespace quarry::comm {
namespace {

constexpr double kConnectTimeoutSeconds = 120;

// The library beside the one that holds this function; null, with a line in the log, where it cannot be loaded.
NcclApi* load_api() {
  Dl_info self{};
  std::filesystem::path folder;
  if (dladdr(reinterpret_cast<void*>(&load_api), &self) != 0 && self.dli_fname != nullptr)
    folder = std::filesystem::path(self.dli_fname).parent_path();
  for (const char* name : {"libquarry_nccl.so.0", "libquarry_nccl.so"}) {
    void* library = nullptr;
    if (!folder.empty()) library = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    if (void* factory = dlsym(library, "quarry_nccl_api"); factory != nullptr)
      return reinterpret_cast<NcclApi* (*)()>(factory)();
  }
  if (const char* reason = dlerror(); reason != nullptr && local::log_enabled(local::LogLevel::info))
    local::log(local::LogLevel::info, std::string("device collectives are staged through the host: ") + reason);
  return nullptr;
}

NcclApi* nccl_api() {
  static NcclApi* const api = load_api();
  return api;
}

// The error of whichever rank failed, on every rank: nobody goes on to wait for a rank that left.
void all_or_none(Communicator& communicator, const std::exception_ptr& mine, const char* step) {
  int64_t failed[1] = {mine ? 1 : 0};
  communicator.all_reduce(std::span<int64_t>(failed), ReduceOp::max);
  if (mine) std::rethrow_exception(mine);
  if (failed[0] != 0) throw local::CommError(std::string("NCCL: ") + step + " failed on another rank");
}

}  // namespace

std::string device_collectives_obstacle(Communicator& communicator, local::Device device) {
  std::string uuid;
  if (device.kind == local::DeviceKind::cuda && nccl_api() != nullptr) {
    try {
      uuid = local::backend(device.kind).identity(device.index).uuid;
    } catch (const local::Error&) {
      uuid.clear();  // this rank says that it cannot; the error itself appears when the device is used
    }
  }
  auto uuids = communicator.all_gather_strings(uuid);
  std::sort(uuids.begin(), uuids.end());
  if (uuids.front().empty()) return "a rank has no GPU or no libquarry_nccl";
  if (std::adjacent_find(uuids.begin(), uuids.end()) != uuids.end()) return "two ranks share a GPU";
  return "";
}

std::unique_ptr<DeviceCollectives> make_device_collectives(Communicator& communicator, local::Device device) {
  if (!device_collectives_obstacle(communicator, device).empty()) return nullptr;

  std::string id(kNcclIdBytes, '\0');
  std::exception_ptr error;
  try {
    if (communicator.rank() == 0) id = nccl_api()->make_id();
  } catch (...) {
    error = std::current_exception();
  }
  all_or_none(communicator, error, "making the unique id");
  communicator.broadcast(id.data(), kNcclIdBytes, /*root=*/0);

  std::unique_ptr<DeviceCollectives> collectives;
  try {
    collectives = nccl_api()->connect(id, communicator.rank(), communicator.size(), device, kConnectTimeoutSeconds);
  } catch (...) {
    error = std::current_exception();
  }
  all_or_none(communicator, error, "connecting");
  return collectives;
}

}  // namespace quarry::comm
