// Decoding and encoding chunks of Zarr arrays.
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

// Bytes of scratch that encode() works in, of chunks of so many bytes.
int64_t encode_scratch_bytes(std::span<const Codec> codecs, int64_t chunk_bytes);
// Encodes a whole chunk, which is at the beginning of `scratch`. Returns where the encoded bytes are in it.
std::span<const std::byte> encode(std::span<const Codec> codecs, int64_t chunk_bytes, std::span<std::byte> scratch);

}  // namespace quarry::io::zarr
