// Byte shuffling, as HDF5's filter and numcodecs' codec do it.
#pragma once

#include <cstddef>

namespace quarry::io {

// Byte b of element e goes to b * elements + e; bytes beyond the last whole element are copied.
void shuffle(const std::byte* from, std::byte* to, size_t bytes, size_t itemsize);
void unshuffle(const std::byte* from, std::byte* to, size_t bytes, size_t itemsize);

}  // namespace quarry::io
