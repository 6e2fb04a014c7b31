#include "quarry/io/storage/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libgen.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>

#include "quarry/io/saved_job.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry::io {
namespace {

using Clock = std::chrono::steady_clock;

// Before every record: its bytes and their CRC-32.
struct Head {
  uint32_t bytes = 0, sum = 0;
};

struct OpenJournals {
  std::mutex mutex;
  std::set<Journal*> all;
};

// Leaked on purpose: the thread that handles signals may outlive this file's statics.
OpenJournals& open_journals() {
  static auto* const journals = new OpenJournals;
  return *journals;
}

void make_empty(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) throw local::IoError(fmt::format("cannot write '{}': {}", path, system_reason(errno)));
  ::close(fd);
}

void sync_directory_of(std::string path) {
  const int fd = ::open(::dirname(path.data()), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

Journal::Journal(std::string path, std::function<void()> sync) : path_(std::move(path)), sync_(std::move(sync)) {
  make_empty(path_);
  file_ = std::make_unique<ByteFile>(path_, ByteFile::Mode::write);
  sync_directory_of(path_);
  thread_ = std::thread([this] { run(); });
  const std::lock_guard lock(open_journals().mutex);
  open_journals().all.insert(this);
}

void flush_journals() noexcept {
  const std::lock_guard lock(open_journals().mutex);
  for (Journal* const journal : open_journals().all) {
    try {
      journal->flush();
    } catch (const std::exception& error) {
      local::log(local::LogLevel::warn, error.what());
    }
  }
}

Journal::~Journal() {
  {
    const std::lock_guard lock(open_journals().mutex);
    open_journals().all.erase(this);
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  more_.notify_one();
  thread_.join();
  try {
    flush();
  } catch (const std::exception& error) {
    local::log(local::LogLevel::warn, error.what());
  }
}

std::string journal_record(std::string_view record) {
  const Head head{static_cast<uint32_t>(record.size()), checksum(0, std::as_bytes(std::span(record)))};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += record;
  return bytes;
}

void Journal::add(std::string_view record) {
  const std::string bytes = journal_record(record);
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    pending_ += bytes;
  }
  more_.notify_one();
}

void Journal::flush() {
  const std::lock_guard flushing(flush_mutex_);
  std::string records;
  {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    records.swap(pending_);
  }
  if (records.empty()) return;
  try {
    sync_();
    file_->write_at(end_, std::as_bytes(std::span(records)));
    file_->sync();
    end_ += std::ssize(records);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    throw;
  }
}

void Journal::run() {
  constexpr auto kLeast = std::chrono::milliseconds(100);
  constexpr int kPart = 10;  // of the time goes to flushing at most
  Clock::duration last = kLeast / kPart;
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [&] { return stop_ || !pending_.empty(); });
    more_.wait_for(lock, std::max<Clock::duration>(kLeast, kPart * last), [&] { return stop_; });
    if (stop_) return;
    lock.unlock();
    const auto begin = Clock::now();
    try {
      flush();
    } catch (...) {  // add() throws it
      return;
    }
    last = Clock::now() - begin;
    lock.lock();
  }
}

std::vector<std::string> read_journal(const std::string& path) {
  std::vector<std::string> records;
  if (::access(path.c_str(), F_OK) != 0) return records;
  const std::string all = read_whole(path);
  for (size_t at = 0; all.size() - at >= sizeof(Head);) {
    Head head;
    std::memcpy(&head, all.data() + at, sizeof head);
    at += sizeof head;
    if (head.bytes > all.size() - at) break;
    std::string record = all.substr(at, head.bytes);
    if (checksum(0, std::as_bytes(std::span(record))) != head.sum) break;
    records.push_back(std::move(record));
    at += head.bytes;
  }
  return records;
}

std::vector<JournalName> journals_of(const std::string& job) {
  namespace fs = std::filesystem;
  std::vector<JournalName> found;
  const fs::path path(job);
  std::error_code error;
  const std::string prefix = path.filename().string() + ".";
  for (const auto& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : ".", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    int64_t generation = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, status] = std::from_chars(name.data() + prefix.size(), end, generation);
    if (status == std::errc() && stop != end && *stop == '.') found.push_back({entry.path().string(), generation});
  }
  std::ranges::sort(found, {}, [](const JournalName& j) { return std::pair(j.generation, j.path); });
  return found;
}

void remove_job(const std::string& unfinished) {
  std::error_code error;
  std::filesystem::remove_all(states_path(unfinished), error);
  const std::string job = job_path(unfinished);
  if (::access(job.c_str(), F_OK) != 0) return;
  for (const JournalName& journal : journals_of(job)) ::unlink(journal.path.c_str());
  ::unlink(job.c_str());
}

void write_durably(const std::string& path, std::string_view content) {
  const std::string beside = path + ".new";
  make_empty(beside);
  const ByteFile file(beside, ByteFile::Mode::write);
  file.write_at(0, std::as_bytes(std::span(content)));
  file.sync();
  if (::rename(beside.c_str(), path.c_str()) != 0)
    throw local::IoError(fmt::format("cannot write '{}': {}", path, system_reason(errno)));
  sync_directory_of(path);
}

std::string read_whole(const std::string& path) {
  const ByteFile file(path, ByteFile::Mode::read);
  std::string content(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(content)));
  return content;
}

}  // namespace quarry::io
