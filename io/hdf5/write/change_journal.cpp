#include "quarry/io/hdf5/write/change_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "quarry/io/hdf5/format.h"
#include "quarry/io/hdf5/parse/signature.h"
#include "quarry/io/hdf5/write/hdf5_writer.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry::io::hdf5 {
namespace {

using local::Region;

constexpr int64_t kCopiedBytes = int64_t{8} << 20;  // from the journal to the file at once

// At the beginning of a journal: where it says what is to change.
struct Head {
  std::array<char, 8> magic{};
  int64_t at = 0, bytes = 0;
  uint32_t sum = 0, padding = 0;
};
constexpr std::array<char, 8> kMagic = {'Q', 'R', 'Y', 'C', 'H', 'G', '1', '\n'};

std::string describe(const FileChange& change) {
  ByteWriter out;
  out.put<int64_t>(std::ssize(change.elements));
  for (const WaitingElements& waiting : change.elements) {
    serialize(waiting.stored, out);
    out.put_dims(waiting.region.start);
    out.put_dims(waiting.region.count);
    out.put(waiting.at);
  }
  out.put<int64_t>(std::ssize(change.patches));
  for (const MetadataTarget::Patch& patch : change.patches) {
    out.put(patch.at);
    out.put_bytes(patch.bytes);
  }
  return out.take();
}

// None where the journal is not complete.
std::optional<FileChange> read_change(const std::string& journal) {
  const ByteFile file(journal, ByteFile::Mode::read);
  Head head;
  if (file.size() < static_cast<int64_t>(sizeof head)) return std::nullopt;
  file.read_at(0, std::as_writable_bytes(std::span(&head, 1)));
  if (head.magic != kMagic || head.at < 0 || head.bytes < 0 || head.at > file.size() ||
      head.bytes > file.size() - head.at)
    return std::nullopt;
  std::string text(static_cast<size_t>(head.bytes), '\0');
  file.read_at(head.at, std::as_writable_bytes(std::span(text)));
  if (checksum(0, std::as_bytes(std::span(text))) != head.sum) return std::nullopt;
  FileChange change;
  ByteReader in(text);
  const auto elements = in.get<int64_t>();
  for (int64_t i = 0; i < elements; ++i) {
    WaitingElements& waiting = change.elements.emplace_back();
    waiting.stored = deserialize(in);
    const local::Dims start = in.get_dims();
    waiting.region = Region::box(start, in.get_dims());
    waiting.at = in.get<int64_t>();
  }
  const auto patches = in.get<int64_t>();
  for (int64_t i = 0; i < patches; ++i) {
    MetadataTarget::Patch& patch = change.patches.emplace_back();
    patch.at = in.get<int64_t>();
    const auto bytes = in.get_bytes();
    patch.bytes.assign(bytes.begin(), bytes.end());
  }
  return change;
}

void replace_elements(const std::string& target, const std::string& journal, const WaitingElements& waiting) {
  const std::shared_ptr<Dataset> from =
      dataset_of(waiting_dataset(journal, waiting.stored, waiting.region, waiting.at));
  StoredDataset stored = waiting.stored;
  stored.info.file = target;
  const OutputSpec spec{stored.info.object, stored.info.shape, stored.info.dtype, stored.info.chunks, {}, {}};
  Hdf5Writer to(spec, std::move(stored), target, /*places=*/false);
  std::vector<std::byte> elements, scratch;
  format().for_each_stored(*from, kCopiedBytes, [&](const Region& part) {
    elements.resize(static_cast<size_t>(part.elements() * local::itemsize(spec.dtype)));
    scratch.resize(static_cast<size_t>(from->read_scratch_bytes(part)));
    from->read(part, elements.data(), scratch);
    Region region = part;
    for (int d = 0; d < region.ndim(); ++d) region.start[d] += waiting.region.start[d];
    to.write(region, elements.data());
    return true;
  });
}

bool is_unfinished(const ByteSource& file) {
  const std::optional<Signature> signature = find_signature(file);
  return signature && signature->state == FileState::unfinished;
}

}  // namespace

std::string changes_path(const std::string& target) { return target + ".changes"; }

StoredDataset waiting_dataset(const std::string& journal, const StoredDataset& stored, const Region& region,
                              int64_t at) {
  StoredDataset out;
  DatasetInfo& info = out.info;
  info.file = journal;
  info.object = stored.info.object;
  info.shape = region.count;
  info.dtype = stored.info.dtype;
  info.layout = "contiguous";
  info.direct = true;
  info.stored_bytes = region.elements() * local::itemsize(info.dtype);
  out.storage.kind = Storage::Kind::contiguous;
  out.storage.offset = at;
  out.storage.fill.assign(static_cast<size_t>(local::itemsize(info.dtype)), std::byte{0});
  out.storage.record_bytes = local::itemsize(info.dtype);
  return out;
}

void write_change(const std::string& journal, const FileChange& change, int64_t end) {
  const std::string text = describe(change);
  const Head head{kMagic, end, std::ssize(text), checksum(0, std::as_bytes(std::span(text)))};
  const ByteFile file(journal, ByteFile::Mode::write);
  file.write_at(end, std::as_bytes(std::span(text)));
  file.write_at(0, std::as_bytes(std::span(&head, 1)));
  file.sync();
  sync_folder_of(journal);
}

void apply_change(const std::string& target, const std::string& journal, const FileChange& change) {
  const ByteFile file(target, ByteFile::Mode::write);
  std::optional<Signature> signature = find_signature(file);
  QUARRY_CHECK(signature && signature->state == FileState::unfinished);
  for (const WaitingElements& waiting : change.elements) replace_elements(target, journal, waiting);
  for (const MetadataTarget::Patch& patch : change.patches) file.write_at(patch.at, patch.bytes);
  file.sync();
  signature->state = FileState::whole;
  put_signature(file, *signature);
  file.sync();
}

bool lock_for_change(int fd) {
  // The library's locks are of another kind than quarry's, which network file systems have too.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return lock_alone(fd);
}

void finish_change(const std::string& file) {
  const std::optional<std::string> target = real_path(file);
  if (!target) return;
  const std::string journal = changes_path(*target);
  if (::access(journal.c_str(), F_OK) != 0) return;
  if (!is_unfinished(ByteFile(*target, ByteFile::Mode::read))) return;
  const auto fail = [&](const std::string& reason) {
    throw local::IoError(
        fmt::format("'{}' is unfinished: a change of it was interrupted, and is not completed: {}", file, reason));
  };
  const int fd = ::open(target->c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail(system_reason(errno));
  const std::unique_ptr<const int, void (*)(const int*)> closer(&fd, [](const int* open) { ::close(*open); });
  constexpr int kTries = 300;
  constexpr auto kPause = std::chrono::milliseconds(100);
  for (int i = 0; !lock_for_change(fd); ++i) {
    if (i == kTries) fail("another process has it open");
    std::this_thread::sleep_for(kPause);
  }
  if (!is_unfinished(ByteFile(*target, ByteFile::Mode::read))) return;  // who changed it has come to the end
  std::optional<FileChange> change;
  if (::access(journal.c_str(), F_OK) == 0) change = read_change(journal);
  if (!change) fail(fmt::format("'{}' is damaged", journal));
  local::log(local::LogLevel::warn, fmt::format("completing the interrupted change of '{}'", file));
  apply_change(*target, journal, *change);
  ::unlink(journal.c_str());
}

}  // namespace quarry::io::hdf5
