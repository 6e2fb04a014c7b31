#include "quarry/local/memory/pages.h"

#include <sys/mman.h>

namespace quarry::local {

void* map_pages(int64_t bytes) {
  const auto map = [](int64_t length) {
    return mmap(nullptr, static_cast<size_t>(length), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  if (bytes < 2 * kHugePageBytes) {
    void* data = map(bytes);
    return data == MAP_FAILED ? nullptr : data;
  }
  void* raw = map(bytes + kHugePageBytes);
  if (raw == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (aligned > begin) munmap(raw, aligned - begin);
  const uintptr_t end = begin + static_cast<uintptr_t>(bytes + kHugePageBytes);
  const uintptr_t used_end = aligned + static_cast<uintptr_t>(bytes);
  if (end > used_end) munmap(reinterpret_cast<void*>(used_end), end - used_end);
  void* data = reinterpret_cast<void*>(aligned);
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return data;
}

void unmap_pages(void* data, int64_t bytes) noexcept { munmap(data, static_cast<size_t>(bytes)); }

}  // namespace quarry::local
