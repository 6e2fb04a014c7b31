// The codecs as filters of the HDF5 library, for what only the library reads: virtual data sets, types that it
// converts.
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/local/base/error.h"

namespace quarry::io::hdf5 {
namespace {

// The library frees what it is given.
struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Free>;

constexpr uint64_t kMostBytes = UINT32_MAX;  // of a chunk

Memory allocated(size_t bytes) {
  Memory memory(std::malloc(std::max<size_t>(bytes, 1)));
  if (!memory) throw local::OutOfMemory("the host has no memory left for a chunk");
  return memory;
}

// Where nothing says how large a chunk becomes, room is doubled until it is enough.
std::pair<Memory, size_t> decoded(const Codec& codec, Codec::Values values, Codec::Bytes stored) {
  constexpr uint64_t kGuess = 4;
  uint64_t room = codec.decoded_bytes(values, stored).value_or(kGuess * stored.size());
  for (;; room *= 2) {
    if (room > kMostBytes) throw local::IoError("a chunk of more than 4 GiB");
    Memory memory = allocated(room);
    if (const auto bytes = codec.decode(values, stored, {static_cast<std::byte*>(memory.get()), room}))
      return {std::move(memory), *bytes};
  }
}

template <size_t I>
size_t filter(unsigned flags, size_t count, const unsigned* values, size_t bytes, size_t* room, void** buffer) {
  try {
    const Codec& codec = codecs()[I];
    const Codec::Bytes given(static_cast<const std::byte*>(*buffer), bytes);
    std::pair<Memory, size_t> made;
    if (flags & H5Z_FLAG_REVERSE) {
      made = decoded(codec, {values, count}, given);
    } else {
      const size_t most = codec.most_bytes({values, count}, bytes);
      made.first = allocated(most);
      made.second = codec.encode({values, count}, given, {static_cast<std::byte*>(made.first.get()), most});
    }
    std::free(*buffer);
    *buffer = made.first.release();
    *room = made.second;
    return made.second;
  } catch (const std::exception& error) {
    H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_PLINE, H5E_CANTFILTER, "%s", error.what());
    return 0;
  }
}

template <size_t... I>
constexpr std::array<H5Z_func_t, sizeof...(I)> filters_of(std::index_sequence<I...>) {
  return {filter<I>...};
}

}  // namespace

void register_codecs() {
  constexpr size_t kCount = 8;
  static constexpr auto kFilters = filters_of(std::make_index_sequence<kCount>());
  const auto all = codecs();
  QUARRY_CHECK(all.size() == kCount);
  for (size_t i = 0; i < kCount; ++i) {
    if (H5Zfilter_avail(all[i].id) > 0) continue;  // the library's own, and those that others gave it
    const H5Z_class2_t row{H5Z_CLASS_T_VERS,
                           all[i].id,
                           /*encoder_present=*/all[i].encode != nullptr,
                           /*decoder_present=*/1,
                           find_kind(all[i].kind)->name.data(),
                           /*can_apply=*/nullptr,
                           /*set_local=*/nullptr,
                           kFilters[i]};
    H5Zregister(&row);
  }
}

}  // namespace quarry::io::hdf5
