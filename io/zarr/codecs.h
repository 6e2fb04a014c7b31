// Decoding chunks of Zarr arrays.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "quarry/io/zarr/metadata.h"

namespace quarry::io::zarr {

// What an encoded chunk of so many bytes may take; more is damaged.
int64_t most_stored_bytes(int64_t chunk_bytes);

// Decodes `stored` into `out`, which it fills. Both buffers of `work` have most_stored_bytes() each. Throws IoError
// saying what is wrong.
void decode(std::span<const Codec> codecs, std::span<const std::byte> stored, std::span<std::byte> out,
            std::span<std::byte> work);

}  // namespace quarry::io::zarr
