#include "quarry/local/cuda/pinned.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/memory/pages.h"

namespace quarry::local::cuda {
namespace {

constexpr int64_t kLeastRegistered = 2 * kHugePageBytes;
// Where the host has not enough for larger ones, cudaHostAlloc() refuses; touching pages would have the process killed.
constexpr int64_t kMostRegistered = int64_t{4} << 30;

}  // namespace

// Null where the pages cannot be had or registered: then cudaHostAlloc() says why.
void* PinnedMemory::register_pages(int64_t bytes) {
  auto* const data = static_cast<volatile char*>(map_pages(bytes));
  if (data == nullptr) return nullptr;
  void* const pages = const_cast<char*>(data);
  // A child between fork() and exec() must not be given copies of pages that a GPU writes.
  madvise(pages, static_cast<size_t>(bytes), MADV_DONTFORK);
  for (int64_t at = 0; at < bytes; at += kPageBytes) data[at] = 0;
  if (cudaHostRegister(pages, static_cast<size_t>(bytes), cudaHostRegisterPortable) != cudaSuccess) {
    cudaGetLastError();
    unmap_pages(pages, bytes);
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  registered_.emplace(pages, bytes);
  return pages;
}

void* PinnedMemory::allocate(int64_t bytes) {
  if (bytes >= kLeastRegistered && bytes <= kMostRegistered) {
    if (void* const data = register_pages(align_up(bytes, kPageBytes)); data != nullptr) return data;
  }
  void* data = nullptr;
  const cudaError_t status = cudaHostAlloc(&data, static_cast<size_t>(bytes), cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw OutOfMemory(fmt::format("cudaHostAlloc: no {} bytes of pinned host memory", bytes));
  }
  check(status, "cudaHostAlloc");
  return data;
}

void PinnedMemory::free(void* data) noexcept {
  if (data == nullptr) return;
  int64_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = registered_.find(data); found != registered_.end()) {
      bytes = found->second;
      registered_.erase(found);
    }
  }
  if (bytes == 0) {
    cudaFreeHost(data);
    return;
  }
  // As cudaFreeHost() does: what is under way with it is done first.
  cudaDeviceSynchronize();
  cudaHostUnregister(data);
  unmap_pages(data, bytes);
}

}  // namespace quarry::local::cuda
