// The filters of chunks, undone and applied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quarry/io/dataset.h"
#include "quarry/io/encoded_chunks.h"

namespace quarry::io::hdf5 {

// Whether decode_chunk() can undo them: known ones, of which at most one compresses, and shuffling comes before that.
bool directly_decodable(const std::vector<Filter>& filters);

// Bytes of scratch that decode_chunk() wants beside `out`; the same for every chunk of the data set.
int64_t decode_scratch_bytes(const std::vector<Filter>& filters, int64_t chunk_bytes);

// Undoes `filters` (in the order applied when writing; bit i of `mask` says that filter i was skipped) from `stored`
// into `out`, the whole chunk; itemsize is what shuffle works on where the filter does not say. Scratch as
// decode_scratch_bytes() says. Throws IoError with the reason (no file or object name).
void decode_chunk(const std::vector<Filter>& filters, uint32_t mask, int64_t itemsize,
                  std::span<const std::byte> stored, std::span<std::byte> out, std::span<std::byte> scratch);

// What chunks are for a device that decodes streams.
struct StreamFilters {
  local::StreamFormat format;
  int64_t shuffled = 1;  // bytes that were shuffled together before; 1 where none were
};
// Where one of such formats compresses, at most elements' bytes were shuffled before, and checksums are of compressed
// bytes. Nothing for other filters.
std::optional<StreamFilters> stream_filters(const std::vector<Filter>& filters, int64_t itemsize);
// The compressed bytes of such a chunk, none of whose filters was skipped. Throws IoError where a checksum differs.
std::span<const std::byte> without_checksums(const std::vector<Filter>& filters, std::span<const std::byte> stored);

// Bytes of scratch that encode_chunk() works in; the same for every chunk of the data set.
int64_t encode_scratch_bytes(const std::vector<Filter>& filters, int64_t itemsize, int64_t chunk_bytes);

// Applies `filters` to a whole chunk, which is at the beginning of `scratch`, of as many bytes as
// encode_scratch_bytes() says. Returns where the encoded bytes are in it.
std::span<const std::byte> encode_chunk(const std::vector<Filter>& filters, int64_t itemsize, int64_t chunk_bytes,
                                        std::span<std::byte> scratch);

// Fletcher's checksum over big-endian 16-bit words, as HDF5 stores it.
uint32_t fletcher32(std::span<const std::byte> bytes);

}  // namespace quarry::io::hdf5
