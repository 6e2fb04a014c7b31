// Writes that fail, as a full or a broken disk's do. A library for LD_PRELOAD in front of any program of quarry, whose
// files are written by pwritev().
//
// FAULTY_WRITES=HOW,NUMBER,END: of the writes to files whose names end with END the one of that number (from 1) and all
// behind it fail; HOW is "full" (ENOSPC, after half of its bytes), "broken" (EIO), or "count": none fails. Where
// FAULTY_WRITES_COUNT names a file, their number is written to it when a program ends that
// has done some.
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using Write = ssize_t (*)(int, const iovec*, int, off_t);

struct Fault {
  std::string how, end;
  long number = 0;
};

// Leaked: threads may write when the program ends.
const Fault* fault() {
  static const Fault* const found = []() -> const Fault* {
    const char* const text = std::getenv("FAULTY_WRITES");
    if (text == nullptr) return nullptr;
    const std::string_view all(text);
    const size_t first = all.find(','), second = all.find(',', first + 1);
    if (second == std::string_view::npos) return nullptr;
    return new Fault{std::string(all.substr(0, first)), std::string(all.substr(second + 1)),
                     std::atol(std::string(all.substr(first + 1)).c_str())};
  }();
  return found;
}

std::atomic<long> writes{0};

bool is_meant(int fd, const std::string& end) {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  return length > 0 && std::string_view(path.data(), static_cast<size_t>(length)).ends_with(end);
}

struct AtEnd {
  ~AtEnd() {
    const char* const name = std::getenv("FAULTY_WRITES_COUNT");
    if (name == nullptr || writes == 0) return;
    if (std::FILE* const file = std::fopen(name, "w")) {
      std::fprintf(file, "%ld\n", writes.load());
      std::fclose(file);
    }
  }
} at_end;

}  // namespace

extern "C" ssize_t pwritev(int fd, const iovec* buffers, int count, off_t offset) {
  static const auto write = reinterpret_cast<Write>(dlsym(RTLD_NEXT, "pwritev"));
  const Fault* const wanted = fault();
  if (wanted == nullptr || !is_meant(fd, wanted->end)) return write(fd, buffers, count, offset);
  const long number = ++writes;
  if (wanted->how == "count" || number < wanted->number) return write(fd, buffers, count, offset);
  if (wanted->how == "full" && number == wanted->number && buffers[0].iov_len > 1) {
    const iovec half{buffers[0].iov_base, buffers[0].iov_len / 2};
    return write(fd, &half, 1, offset);
  }
  errno = wanted->how == "full" ? ENOSPC : EIO;
  return -1;
}
