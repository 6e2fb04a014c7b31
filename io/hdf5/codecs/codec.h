// Compressors of chunks: one row each, by which files are read directly, written, and read by the HDF5 library too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quarry/io/filter.h"

namespace quarry::io::hdf5 {

struct Codec {
  using Values = std::span<const uint32_t>;  // parameters as a file holds them
  using Bytes = std::span<const std::byte>;

  Filter::Kind kind;
  int id;               // the number by which the HDF Group registered it
  size_t level_at = 0;  // where the level stands in the parameters of filters that have levels

  // Undoes what is stored into `out` and gives the number of bytes; nothing where they do not fit. Throws IoError where
  // the stream is damaged.
  std::optional<size_t> (*decode)(Values values, Bytes stored, std::span<std::byte> out);
  // How many bytes that will be, where parameters or stream say so. Not to be believed.
  std::optional<uint64_t> (*decoded_bytes)(Values values, Bytes stored);

  // Of those that quarry writes: the parameters of a new data set, the most bytes that its chunks take, and the
  // encoder, which writes to `out` of so many bytes and gives the number of bytes.
  std::vector<uint32_t> (*values)(const Filter& filter, int64_t itemsize, int64_t chunk_bytes) = nullptr;
  size_t (*most_bytes)(Values values, size_t chunk_bytes) = nullptr;
  size_t (*encode)(Values values, Bytes chunk, std::span<std::byte> out) = nullptr;
};

std::span<const Codec> codecs();
// Null for filters that do not compress.
const Codec* find_codec(Filter::Kind kind);
const Codec* find_codec_by_id(int id);

// Makes the HDF5 library use the codecs that neither itself nor a plugin has. Under a LibraryLock; once is enough.
void register_codecs();

// Of bitshuffle: bits of like place of a block's elements become neighbours, and blocks are compressed one by one.
std::optional<size_t> decode_bitshuffle(Codec::Values values, Codec::Bytes stored, std::span<std::byte> out);
std::optional<uint64_t> bitshuffle_bytes(Codec::Values values, Codec::Bytes stored);

// Shared by the codecs whose streams have big-endian heads.
uint64_t big_endian(Codec::Bytes bytes, size_t at, size_t width);

}  // namespace quarry::io::hdf5
