#include "quarry/io/hdf5/serve/serve.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/process/messages.h"
#include "quarry/io/hdf5/read/library_dataset.h"
#include "quarry/io/hdf5/write/create.h"
#include "quarry/io/hdf5/write/scales.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/options.h"

namespace quarry::io::hdf5 {
namespace {

using local::Option;
using local::OptionValue;

class Server {
 public:
  explicit Server(std::span<std::byte> memory) : memory_(memory) {}

  std::string answer(LibraryCall call, ByteReader in) {
    ByteWriter out;
    switch (call) {
      case LibraryCall::get_shape: {
        const std::string path = in.get_string();
        for (const int64_t extent : library_shape(path, in.get<int64_t>())) out.put(extent);
        break;
      }
      case LibraryCall::read:
        read(in);
        break;
      case LibraryCall::close:
        datasets_.erase(in.get<uint64_t>());
        break;
      case LibraryCall::get_axis_names: {
        const std::string file = in.get_string(), object = in.get_string();
        for (const std::string& name : library_axis_names(file, object, in.get_dims())) out.put_string(name);
        break;
      }
      case LibraryCall::create:
        create_objects(deserialize_creation(in));
        break;
      case LibraryCall::store_chunk:
        store_chunk(in);
        break;
      case LibraryCall::finish:
        if (store_) store_->close();
        store_.reset();
        break;
      case LibraryCall::change: {
        const std::string path = in.get_string(), name = in.get_string();
        apply_changes(path, name, deserialize_changes(in), [] {
          restart_alarm();
          send_message(kLibrarySocket, static_cast<uint8_t>(LibraryReply::underway), {});
        });
        break;
      }
    }
    return out.take();
  }

  // Who started this waits so long, and then is gone or ends it: a little longer.
  static void restart_alarm() {
    constexpr double kMore = 5, kMost = 1e9;
    ::alarm(static_cast<unsigned>(std::min(std::ceil(OptionValue(Option::hdf5_seconds).seconds() + kMore), kMost)));
  }

 private:
  std::span<std::byte> half(int which) const {
    return which == 0 ? memory_.first(memory_.size() / 2) : memory_.last(memory_.size() / 2);
  }

  void read(ByteReader& in) {
    const auto number = in.get<uint64_t>();
    const std::string how = in.get_string();
    auto dataset = datasets_.find(number);
    if (dataset == datasets_.end()) dataset = datasets_.emplace(number, ByteReader(how)).first;
    const local::Dims low = in.get_dims(), step = in.get_dims(), count = in.get_dims();
    dataset->second.read(low, step, count, half(in.get<int32_t>()));
  }

  void store_chunk(ByteReader& in) {
    const std::string path = in.get_string(), name = in.get_string(), object = in.get_string();
    const local::Dims origin = in.get_dims();
    const auto total = in.get<int64_t>(), count = in.get<int64_t>();
    const std::span<const std::byte> part = half(0).first(static_cast<size_t>(count));
    if (path != store_path_) {
      store_.reset();
      chunk_.clear();
    }
    if (!store_) store_.emplace(path, name);
    store_path_ = path;
    if (chunk_.empty() && count == total) return store_->store(object, origin, part);
    chunk_.insert(chunk_.end(), part.begin(), part.end());
    if (std::ssize(chunk_) < total) return;
    const std::vector<std::byte> chunk = std::move(chunk_);
    chunk_.clear();
    store_->store(object, origin, chunk);
  }

  const std::span<std::byte> memory_;
  std::map<uint64_t, LibraryDataset> datasets_;  // by the numbers of their readers
  std::optional<ChunkStore> store_;
  std::string store_path_;
  std::vector<std::byte> chunk_;  // as far as it came
};

// So much more than there is now.
void limit_memory(int64_t more) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
  std::ifstream status("/proc/self/statm");
  int64_t pages = 0;
  status >> pages;
  const auto bytes = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + more);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
#else
  static_cast<void>(more);
#endif
}

// What QUARRY_FAULT_LIBRARY wants of the call of this number.
class Fault {
 public:
  Fault() {
    const std::string text = OptionValue(Option::fault_library).text();
    const size_t comma = text.find(',');
    if (comma == std::string::npos) return;
    how_ = text.substr(0, comma);
    at_ = local::parse_integer(text.substr(comma + 1)).value_or(0);
  }
  void happen() {
    if (++calls_ != at_) return;
    if (how_ == "crash") ::raise(SIGSEGV);
    if (how_ == "loop")
      for (volatile bool more = true; more;) more = true;
    if (how_ == "grow")
      for (std::vector<std::vector<char>> blocks;;) blocks.emplace_back(1 << 20, 'x');
  }

 private:
  std::string how_;
  int64_t at_ = 0, calls_ = 0;
};

}  // namespace

int serve_library(int argc, char** argv) {
  const std::string version = argc == 2 ? argv[1] : "";
  if (version != QUARRY_VERSION) {
    std::fputs("quarry starts this program where it reads files with the HDF5 library; it is of no use alone\n",
               stderr);
    return 2;
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(SIGXFSZ, SIG_IGN);  // then writing fails
  struct stat status;
  if (::fstat(kLibraryMemory, &status) != 0) return 1;
  const auto bytes = static_cast<size_t>(status.st_size);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, kLibraryMemory, 0);
  if (memory == MAP_FAILED) return 1;
  const OptionValue most(Option::hdf5_memory);
  limit_memory(most.bytes());
  // Leaked: what is open when this ends may be damaged, and needs no closing.
  auto& server = *new Server({static_cast<std::byte*>(memory), bytes});
  Fault fault;
  uint8_t call = 0;
  std::string request;
  using Clock = std::chrono::steady_clock;
  while (receive_message(kLibrarySocket, Clock::time_point::max(), call, request) == Receipt::message) {
    Server::restart_alarm();
    LibraryReply kind = LibraryReply::done;
    std::string reply;
    try {
      try {
        const LibraryLock lock;
        fault.happen();
        reply = server.answer(static_cast<LibraryCall>(call), ByteReader(request));
      } catch (const std::bad_alloc&) {
        throw local::IoError(fmt::format("the HDF5 library needs more memory than {}", most.shown()));
      }
    } catch (...) {
      const local::detail::ErrorRecord record = local::detail::to_record(std::current_exception());
      ByteWriter out;
      out.put(record.code);
      out.put(record.detail);
      out.put_string(record.message);
      kind = LibraryReply::failed;
      reply = out.take();
    }
    ::alarm(0);
    if (!send_message(kLibrarySocket, static_cast<uint8_t>(kind), reply)) break;
  }
  std::_Exit(0);
}

}  // namespace quarry::io::hdf5
