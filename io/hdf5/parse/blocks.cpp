#include "quarry/io/hdf5/parse/blocks.h"

#include <fmt/format.h>

#include "quarry/io/hdf5/parse/checksum.h"
#include "quarry/io/hdf5/parse/parser.h"

namespace quarry::io::hdf5 {
namespace {
constexpr size_t kChecksumBytes = 4;
}

void BlockReader::count(int64_t address, int64_t bytes) {
  if (!seen_.insert(address).second) damaged(fmt::format("the block of metadata at {} is met twice", address));
  if (bytes > file_.size() - bytes_) damaged("blocks of metadata are larger than the file");
  bytes_ += bytes;
}

std::vector<std::byte> BlockReader::read(int64_t address, int64_t bytes, const char* what) {
  QUARRY_CHECK(bytes >= static_cast<int64_t>(kChecksumBytes));
  count(address, bytes);
  std::vector<std::byte> block = read_range(file_, address, bytes, what);
  check_checksum(block, address, what);
  block.resize(block.size() - kChecksumBytes);
  return block;
}

void check_checksum(std::span<const std::byte> block, int64_t address, const char* what) {
  if (block.size() < kChecksumBytes) damaged(fmt::format("{} at {} has no checksum", what, address));
  const uint32_t stated = Cursor(block.last(kChecksumBytes), what).u32();
  if (metadata_checksum(block.first(block.size() - kChecksumBytes)) != stated)
    damaged(fmt::format("the checksum of {} at {} is wrong", what, address));
}

}  // namespace quarry::io::hdf5
