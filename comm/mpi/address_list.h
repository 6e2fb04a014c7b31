// The transport's addresses of many ranks in few bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace quarry::comm::mpi {

// Addresses of one job are much alike: as long as each other, with the same bytes at most places. What differs is kept
// for each rank, what does not once for all of one length.
std::string pack_addresses(std::span<const std::string_view> addresses);
// That of a rank, out of what pack_addresses() returned, anywhere in memory.
std::string unpack_address(const std::byte* packed, int rank);

}  // namespace quarry::comm::mpi
