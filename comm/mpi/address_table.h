// The transport's addresses of all ranks, in some twenty bytes each (address_list.h): kept once per host, in memory
// that its ranks share.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::comm::mpi {

class AddressTable {
 public:
  // Collective; `node`: the ranks of this host. Where memory cannot be shared every rank has a table of its own. Throws
  // CommError.
  AddressTable(MPI_Comm world, MPI_Comm node, const std::string& mine);
  ~AddressTable();
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  std::string operator[](int rank) const;
  bool is_shared() const { return mapped_ != nullptr; }

 private:
  void share(MPI_Comm node, const std::string& table);

  const std::byte* table_ = nullptr;  // of pack_addresses()
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::string own_;
};

}  // namespace quarry::comm::mpi
