// Pages of memory from the system.
#pragma once

#include <cstdint>

namespace quarry::local {

inline constexpr int64_t kPageBytes = 4096;
inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// Fresh pages, zero when first touched; null, with errno, where the system refuses them. From two huge pages on they
// begin at one and are huge where the system has it so: one fault for 512 pages. unmap_pages() gives them back, with
// the same number of bytes.
void* map_pages(int64_t bytes);
void unmap_pages(void* data, int64_t bytes) noexcept;

}  // namespace quarry::local
