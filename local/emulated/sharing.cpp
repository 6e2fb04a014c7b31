// A slab is an anonymous file of its own; its handle says which file descriptor of which process it is, so that nothing
// has a name that a crash would leave behind.
#include "quarry/local/emulated/sharing.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/cpu/cpu_backend.h"
#include "quarry/local/emulated/backend.h"

namespace quarry::local {
namespace {

struct Slab {
  int file = -1;  // -1: private memory
  int64_t bytes = 0;
};

class EmulatedSharing final : public MemorySharing {
 public:
  void* allocate(int64_t bytes) {
    const int file = memfd_create("quarry", MFD_CLOEXEC);
    void* data = MAP_FAILED;
    if (file >= 0 && ftruncate(file, bytes) == 0) {
      data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    }
    if (data == MAP_FAILED) {
      if (file >= 0) close_file(file);
      return cpu_backend().allocate_slab(0, bytes);
    }
    const std::lock_guard lock(mutex_);
    slabs_[data] = {file, bytes};
    return data;
  }

  void free(void* data, int64_t bytes) noexcept {
    int file = -1;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = slabs_.find(data); found != slabs_.end()) {
        file = found->second.file;
        slabs_.erase(found);
      }
    }
    cpu_backend().free_slab(0, data, bytes);
    if (file >= 0) close_file(file);
  }

  std::string export_slab(int /*index*/, void* slab, int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    const auto found = slabs_.find(slab);
    if (found == slabs_.end()) throw DeviceError("emulated: a slab that no other process can map");
    return fmt::format("{} {} {}", getpid(), found->second.file, bytes);
  }

  void* open(int /*index*/, const std::string& handle) override {
    int process = 0, number = -1;
    long long bytes = 0;
    if (std::sscanf(handle.c_str(), "%d %d %lld", &process, &number, &bytes) != 3 || bytes <= 0) {
      throw DeviceError("emulated: not the handle of a slab: " + handle);
    }
    const std::string path = fmt::format("/proc/{}/fd/{}", process, number);
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw DeviceError(fmt::format("emulated: {}: {}", path, std::strerror(errno)));
    // Only read: a pull must not write into its owner's memory.
    void* const data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_SHARED | MAP_NORESERVE, file, 0);
    const int error = errno;
    close_file(file);
    if (data == MAP_FAILED) throw DeviceError(fmt::format("emulated: {}: {}", path, std::strerror(error)));
    const std::lock_guard lock(mutex_);
    mapped_[data] = bytes;
    return data;
  }

  void close(int /*index*/, void* mapped) noexcept override {
    int64_t bytes = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = mapped_.find(mapped);
      if (found == mapped_.end()) return;
      bytes = found->second;
      mapped_.erase(found);
    }
    munmap(mapped, static_cast<size_t>(bytes));
  }

  void copy_boxes(std::span<const BoxCopy> boxes, DeviceStream& stream, CopyBy /*by*/) override {
    stream.host_callback([copies = std::vector<BoxCopy>(boxes.begin(), boxes.end())] {
      for (const BoxCopy& box : copies) pack(box, 0, box.from, box.to);
    });
  }

  std::string link(int /*index*/, const std::string& /*uuid*/) override { return "shared memory"; }

 private:
  static void close_file(int file) { ::close(file); }

  // What lies along the axes from `axis` on; gives the end of what was written.
  static std::byte* pack(const BoxCopy& box, int axis, const std::byte* from, std::byte* to) {
    if (axis == box.axes) {
      std::memcpy(to, from, static_cast<size_t>(box.run_bytes));
      return to + box.run_bytes;
    }
    const BoxCopy::Axis& outer = box.outer[static_cast<size_t>(axis)];
    for (int64_t i = 0; i < outer.count; ++i) to = pack(box, axis + 1, from + i * outer.stride, to);
    return to;
  }

  std::mutex mutex_;
  std::map<void*, Slab> slabs_;
  std::map<void*, int64_t> mapped_;
};

EmulatedSharing& sharing() {
  static EmulatedSharing& instance = *new EmulatedSharing;  // never destroyed: as the backend
  return instance;
}

}  // namespace

void* allocate_emulated_slab(int64_t bytes) { return sharing().allocate(bytes); }
void free_emulated_slab(void* data, int64_t bytes) noexcept { sharing().free(data, bytes); }
MemorySharing& emulated_sharing() { return sharing(); }

}  // namespace quarry::local
