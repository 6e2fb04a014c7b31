#include "quarry/io/hdf5/process/library_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "quarry/io/storage/bytes.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/options.h"

namespace quarry::io::hdf5 {
namespace {

namespace fs = std::filesystem;
using local::Option;
using local::OptionValue;

constexpr const char* kProgram = "quarry-hdf5";

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_to_start(const char* what) {
  throw local::IoError(fmt::format("the program {} cannot be started: {}: {}", kProgram, what, std::strerror(errno)));
}

// Above those that the program gets.
Descriptor moved_up(int fd) {
  constexpr int kLowest = 10;
  const Descriptor old(fd);
  Descriptor moved(::fcntl(fd, F_DUPFD_CLOEXEC, kLowest));
  if (moved.get() < 0) fail_to_start("fcntl");
  return moved;
}

std::vector<std::string> places() {
  std::vector<std::string> out;
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&moved_up), &info) && info.dli_fname) {
    const fs::path folder = fs::path(info.dli_fname).parent_path();
    for (const char* const from : {".", "../bin", "../../bin"}) out.push_back((folder / from / kProgram).string());
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) out.push_back((self.parent_path() / kProgram).string());
  return out;
}

std::string find_program() {
  const OptionValue given(Option::hdf5_program);
  if (given.is_given()) {
    if (::access(given.text().c_str(), X_OK) == 0) return given.text();
    throw local::NotSupported(
        fmt::format("the HDF5 library reads it in the program {}, which cannot be started: {}: {}", kProgram,
                    given.shown(), std::strerror(errno)));
  }
  const std::vector<std::string> tried = places();
  for (const std::string& place : tried)
    if (::access(place.c_str(), X_OK) == 0) return place;
  throw local::NotSupported(
      fmt::format("the HDF5 library reads it in the program {}, which is not there (looked for in {}); install it, or "
                  "name it by the environment variable {}",
                  kProgram, fmt::join(tried, ", "), given.row().environment));
}

// A running program. Guarded by the mutex of sessions.
class Process {
 public:
  Process() {
    const std::string program = find_program();
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail_to_start("socketpair");
    socket_ = moved_up(pair[0]);
    const Descriptor other = moved_up(pair[1]);
    const Descriptor memory = moved_up(::memfd_create("quarry-hdf5", MFD_CLOEXEC));
    // A file size limit (ulimit -f) counts for it too.
    constexpr int64_t kLeast = 64 << 10;
    int64_t bytes = 2 * kLibraryHalf;
    while (::ftruncate(memory.get(), bytes) != 0) {
      if (errno != EFBIG || bytes <= kLeast) fail_to_start("ftruncate");
      bytes /= 2;
    }
    void* const mapped = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                                memory.get(), 0);
    if (mapped == MAP_FAILED) fail_to_start("mmap");
    memory_ = {static_cast<std::byte*>(mapped), static_cast<size_t>(bytes)};
    try {
      start(program, other.get(), memory.get());
    } catch (...) {
      ::munmap(memory_.data(), memory_.size());
      throw;
    }
  }
  ~Process() {
    stop();
    ::munmap(memory_.data(), memory_.size());
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int socket() const { return socket_.get(); }
  std::span<std::byte> memory() const { return memory_; }

  // Whether it is there, as far as one sees without asking.
  bool is_there() const {
    char byte;
    return ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
  }

  // Ends it; why it had ended, in words, empty where it had not or nobody knows.
  std::string stop() {
    if (child_ <= 0) return "";
    int status = 0;
    const pid_t child = std::exchange(child_, -1);
    socket_ = Descriptor();  // it ends where it waits for the next call
    for (int i = 0; i < 100; ++i) {
      const pid_t ended = ::waitpid(child, &status, WNOHANG);
      if (ended == child) return reason_of(status);
      if (ended < 0 && errno != EINTR) return "";
      ::usleep(1000);
    }
    ::kill(child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return "";
  }

 private:
  static std::string reason_of(int status) {
    if (WIFSIGNALED(status)) return fmt::format("it was ended by signal {}", ::strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0) return fmt::format("it ended with status {}", WEXITSTATUS(status));
    return "";
  }

  // By vfork() and exec(): no handlers of fork() run, and no page of this process is copied, which MPI, UCX and CUDA
  // would not bear.
  void start(const std::string& program, int socket, int memory) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);  // what the C library says of its crash
    posix_spawn_file_actions_adddup2(&actions, socket, kLibrarySocket);
    posix_spawn_file_actions_adddup2(&actions, memory, kLibraryMemory);
    posix_spawn_file_actions_addclosefrom_np(&actions, kLibraryMemory + 1);
    // Of its own group: Ctrl-C is for this process, which then says what is to be done.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    std::vector<std::string> words{program, QUARRY_VERSION}, variables = local::environment_entries();
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> list;
      for (std::string& text : texts) list.push_back(text.data());
      list.push_back(nullptr);
      return list;
    };
    const int failed = ::posix_spawn(&child_, program.c_str(), &actions, &attributes, pointers(words).data(),
                                     pointers(variables).data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed == 0) return;
    child_ = -1;
    errno = failed;
    fail_to_start(program.c_str());
  }

  Descriptor socket_;
  std::span<std::byte> memory_;
  pid_t child_ = -1;
};

struct Place {
  std::mutex mutex;
  std::unique_ptr<Process> process;
  pid_t owner = 0;  // a child of fork() has no process yet
};

// Leaked: data sets with static lifetime may be closed late. The process sees that its socket is closed.
Place& place() {
  static auto* const place = new Place;
  return *place;
}

}  // namespace

LibrarySession::LibrarySession(std::string context) : context_(std::move(context)) {
  Place& here = place();
  here.mutex.lock();
  try {
    if (here.process && here.owner != ::getpid()) {
      static_cast<void>(here.process.release());  // the parent's, which goes on with it
    }
    if (here.process && !here.process->is_there()) here.process.reset();
    if (!here.process) here.process = std::make_unique<Process>();
    here.owner = ::getpid();
  } catch (const local::NotSupported& error) {
    here.mutex.unlock();
    throw local::NotSupported(in_context(error.what()));
  } catch (const local::IoError& error) {
    here.mutex.unlock();
    throw local::IoError(in_context(error.what()));
  } catch (...) {
    here.mutex.unlock();
    throw;
  }
}

std::string LibrarySession::in_context(const std::string& reason) const {
  return context_.empty() ? reason : fmt::format("{}: {}", context_, reason);
}

LibrarySession::~LibrarySession() {
  while (waiting_ > 0) {
    try {
      receive();
    } catch (const std::exception&) {  // another error is under way
    }
  }
  place().mutex.unlock();
}

void LibrarySession::give_up(const std::string& reason) {
  waiting_ = 0;
  const std::string why = place().process->stop();
  place().process.reset();
  throw local::IoError(in_context(why.empty() ? reason : fmt::format("{} ({})", reason, why)));
}

void LibrarySession::send(LibraryCall call, std::string_view request) {
  // After an error within a session there may be none.
  if (!place().process) place().process = std::make_unique<Process>();
  ++waiting_;
  // An answer that is there says more than that nobody listens any more.
  static_cast<void>(send_message(place().process->socket(), static_cast<uint8_t>(call), request));
}

std::string LibrarySession::receive() {
  QUARRY_CHECK(waiting_ > 0);
  --waiting_;
  const double seconds = OptionValue(Option::hdf5_seconds).seconds();
  const auto limit = std::chrono::milliseconds(std::llround(seconds * 1e3));
  std::string bytes;
  for (;;) {
    uint8_t kind = 0;
    switch (receive_message(place().process->socket(), std::chrono::steady_clock::now() + limit, kind, bytes)) {
      case Receipt::gone:
        give_up("the HDF5 library crashed: the file may be damaged");
      case Receipt::late:
        give_up(fmt::format("the HDF5 library did not end within {} s (QUARRY_HDF5_SECONDS)", seconds));
      case Receipt::message:
        break;
    }
    switch (static_cast<LibraryReply>(kind)) {
      case LibraryReply::underway:
        continue;
      case LibraryReply::done:
        return bytes;
      case LibraryReply::failed: {
        ByteReader in(bytes);
        local::detail::ErrorRecord record;
        record.code = in.get<local::ErrorCode>();
        record.detail = in.get<int64_t>();
        record.message = in.get_string();
        local::detail::throw_record(record);
      }
    }
    give_up("the HDF5 library crashed: its answer makes no sense");
  }
}

std::span<std::byte> LibrarySession::half(int which) const {
  const std::span<std::byte> all = place().process->memory();
  return which == 0 ? all.first(all.size() / 2) : all.last(all.size() / 2);
}

std::string call_library(LibraryCall call, std::string_view request, const std::string& context) {
  LibrarySession session(context);
  session.send(call, request);
  return session.receive();
}

void close_in_library(std::string_view request) noexcept {
  Place& here = place();
  try {
    {
      const std::lock_guard lock(here.mutex);
      if (!here.process || here.owner != ::getpid() || !here.process->is_there()) return;
    }
    call_library(LibraryCall::close, request);
  } catch (const std::exception&) {  // then it is closed
  }
}

}  // namespace quarry::io::hdf5
