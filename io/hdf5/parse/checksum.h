// The checksum of the format's newer metadata blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quarry::io::hdf5 {

// Bob Jenkins's lookup3 ("hashlittle", 2006) with a start value of 0.
uint32_t metadata_checksum(std::span<const std::byte> bytes);

}  // namespace quarry::io::hdf5
