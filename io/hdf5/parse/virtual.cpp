#include "quarry/io/hdf5/parse/virtual.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/io/hdf5/parse/blocks.h"
#include "quarry/io/hdf5/parse/parser.h"
#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

constexpr const char* kWhat = "the list of a virtual data set's sources";

std::string name(Cursor& in) {
  std::string out;
  for (uint8_t c = in.u8(); c != 0; c = in.u8()) out += static_cast<char>(c);
  return out;
}

// `expected` 0: of any number of axes.
void check_rank(uint32_t rank, size_t expected) {
  if (rank < 1 || rank > static_cast<uint32_t>(local::kMaxDims) || (expected > 0 && rank != expected))
    damaged(fmt::format("a selection of {} axes in {}", rank, kWhat));
}

void hyperslab(Cursor& in, unsigned version, size_t rank_expected) {
  constexpr unsigned kRegular = 0x01;
  if (version == 1) {
    in.skip(4);
    const uint32_t bytes = in.u32();
    Cursor body(in.take(bytes), kWhat);
    const uint32_t rank = body.u32();
    check_rank(rank, rank_expected);
    const uint64_t blocks = body.u32();
    if (body.left() != blocks * 8 * rank) damaged(fmt::format("a selection of wild size in {}", kWhat));
    return;
  }
  const unsigned flags = in.u8();
  int width = 8;
  if (version == 2)
    in.skip(4);  // its length
  else
    width = in.u8();
  if (width != 2 && width != 4 && width != 8) damaged(fmt::format("numbers of {} bytes in {}", width, kWhat));
  const uint32_t rank = in.u32();
  check_rank(rank, rank_expected);
  if (flags & kRegular) {
    for (uint32_t d = 0; d < rank; ++d) {
      in.skip(static_cast<size_t>(width));
      const uint64_t stride = in.number(width), count = in.number(width), block = in.number(width);
      if (stride == 0 || count == 0 || block == 0) damaged(fmt::format("an empty hyperslab in {}", kWhat));
    }
    return;
  }
  const uint64_t blocks = in.number(width);
  if (blocks > in.left()) damaged(fmt::format("{} blocks in {}", blocks, kWhat));
  in.skip(blocks * 2 * rank * static_cast<uint64_t>(width));
}

void points(Cursor& in, unsigned version, size_t rank_expected) {
  int width = 4;
  if (version == 1)
    in.skip(8);
  else
    width = in.u8();
  if (width != 2 && width != 4 && width != 8) damaged(fmt::format("numbers of {} bytes in {}", width, kWhat));
  const uint32_t rank = in.u32();
  check_rank(rank, rank_expected);
  const uint64_t count = in.number(width);
  if (count > in.left()) damaged(fmt::format("{} points in {}", count, kWhat));
  in.skip(count * rank * static_cast<uint64_t>(width));
}

void selection(Cursor& in, size_t rank) {
  enum : unsigned { kNone = 0, kPoints = 1, kHyperslab = 2, kAll = 3 };
  const uint32_t kind = in.u32(), version = in.u32();
  if (version < 1 || version > 3) damaged(fmt::format("a selection of version {} in {}", version, kWhat));
  if (kind == kNone || kind == kAll)
    in.skip(8);
  else if (kind == kPoints)
    points(in, version, rank);
  else if (kind == kHyperslab)
    hyperslab(in, version, rank);
  else
    damaged(fmt::format("a selection of kind {} in {}", kind, kWhat));
}

}  // namespace

std::vector<VirtualSource> read_virtual_sources(const Metadata& file, const Object& object) {
  std::vector<VirtualSource> out;
  const LayoutMessage& layout = *object.layout;
  if (layout.address == kNoAddress) return out;
  const auto block = file.global_heap().object(layout.address, layout.heap_index);
  check_checksum(block, layout.address, kWhat);
  Cursor in(block.first(block.size() - 4), kWhat);
  const unsigned version = in.u8();
  if (version != 0) throw local::NotSupported(fmt::format("{} is of version {}", kWhat, version));
  const int64_t count = in.length(file.format());
  if (static_cast<uint64_t>(count) > in.left()) damaged(fmt::format("{} entries in {}", count, kWhat));
  for (int64_t i = 0; i < count; ++i) {
    VirtualSource source;
    source.file = name(in);
    source.object = name(in);
    selection(in, 0);
    selection(in, object.space->stated.size());
    out.push_back(std::move(source));
  }
  return out;
}

}  // namespace quarry::io::hdf5
