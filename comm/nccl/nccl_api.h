// What libquarry_nccl exports to the loader in libquarry_comm.
#pragma once

#include <cstdint>
#include <string>

#include "quarry/comm/device_collectives.h"

namespace quarry::comm {

inline constexpr int64_t kNcclIdBytes = 128;

class NcclApi {
 public:
  virtual ~NcclApi() = default;
  virtual std::string make_id() = 0;  // kNcclIdBytes bytes for every rank's connect()
  // Collective over the `size` ranks that hold the same id. Throws CommError; gives up after `timeout_seconds`.
  virtual std::unique_ptr<DeviceCollectives> connect(const std::string& id, int rank, int size, local::Device device,
                                                     double timeout_seconds) = 0;
};

}  // namespace quarry::comm

extern "C" quarry::comm::NcclApi* quarry_nccl_api();
