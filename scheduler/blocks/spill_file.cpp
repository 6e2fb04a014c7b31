#include "quarry/scheduler/blocks/spill_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/base/nameless_file.h"
#include "quarry/local/base/sizes.h"

namespace quarry::scheduler {
namespace {

constexpr int64_t kFileAlignment = 4096;
constexpr int64_t kCallBytes = 8 << 20;  // of one system call; a multiple of the pieces

// Every step is a bijection of the lane for a fixed word and of the word for a fixed lane.
uint64_t mix(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * 0x9E3779B97F4A7C15u;
  return lane ^ (lane >> 32);
}

}  // namespace

uint64_t checksum(const void* data, int64_t bytes) {
  constexpr int kLanes = 8;
  constexpr int64_t kStep = kLanes * 8;
  uint64_t lanes[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  const char* at = static_cast<const char*>(data);
  int64_t left = bytes;
  for (; left >= kStep; left -= kStep, at += kStep) {
    uint64_t words[kLanes];
    std::memcpy(words, at, sizeof words);
    for (int i = 0; i < kLanes; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  if (left > 0) {
    uint64_t words[kLanes] = {};
    std::memcpy(words, at, static_cast<size_t>(left));
    for (int i = 0; i < kLanes; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  auto sum = static_cast<uint64_t>(bytes);
  for (const uint64_t lane : lanes) sum = mix(sum, lane);
  return sum;
}

SpillFile::SpillFile(std::string directory, int64_t limit_bytes)
    : directory_(std::move(directory)), limit_(limit_bytes) {}

SpillFile::~SpillFile() {
  if (file_ >= 0) close(file_);
}

void SpillFile::open_file() {
  if (file_ >= 0) return;
  file_ = local::open_nameless_file(directory_, "spill");
  if (file_ < 0) {
    const int error = errno;
    throw local::IoError(
        fmt::format("cannot make a spill file in directory '{}': {}", directory_, std::strerror(error)));
  }
}

SpillFile::Slot SpillFile::reserve(int64_t bytes) {
  const int64_t need = std::max(local::align_up(bytes, kFileAlignment), kFileAlignment);
  if (!is_enabled())
    throw local::IoError(fmt::format("{} bytes do not fit memory and there is no spill directory", bytes));
  const std::lock_guard lock(mutex_);
  if (limit_ >= 0 && need > limit_ - used_) {
    throw local::IoError(
        fmt::format("no space left in spill directory '{}': {} bytes do not fit, {} of the limit of {} are used",
                    directory_, bytes, used_, limit_));
  }
  open_file();
  Slot slot;
  slot.bytes = bytes;
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second >= need && (best == gaps_.end() || gap->second < best->second)) best = gap;
  }
  if (best != gaps_.end()) {
    const auto [offset, length] = *best;
    gaps_.erase(best);
    if (length > need) gaps_.emplace(offset + need, length - need);
    slot.offset = offset;
  } else {
    slot.offset = end_;
    end_ += need;
  }
  used_ += need;
  slot.checksums.resize(static_cast<size_t>((bytes + kPieceBytes - 1) / kPieceBytes));
  return slot;
}

void SpillFile::write(Slot& slot, int64_t offset, const void* data, int64_t bytes) {
  QUARRY_CHECK(slot && offset % kPieceBytes == 0 && offset >= 0 && offset + bytes <= slot.bytes);
  static std::atomic<uint64_t> writings{0};
  slot.writing = ++writings;
  const char* from = static_cast<const char*>(data);
  for (int64_t done = 0; done < bytes; done += kPieceBytes) {
    slot.checksums[static_cast<size_t>((offset + done) / kPieceBytes)] =
        checksum(from + done, std::min(kPieceBytes, bytes - done));
  }
  for (int64_t done = 0; done < bytes;) {
    const auto length = static_cast<size_t>(std::min(kCallBytes, bytes - done));
    const ssize_t written = pwrite(file_, from + done, length, slot.offset + offset + done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      const bool full = error == ENOSPC || error == EDQUOT;
      throw local::IoError(fmt::format("{} in spill directory '{}': writing {} bytes: {}",
                                       full ? "no space left" : "write failed", directory_, slot.bytes,
                                       std::strerror(error)));
    }
    done += written;
  }
}

void SpillFile::read(const Slot& slot, int64_t offset, int64_t bytes, void* to) const {
  QUARRY_CHECK(slot && offset >= 0 && bytes >= 0 && offset + bytes <= slot.bytes);
  // A piece that is not wanted whole is verified all the same.
  struct Piece {
    uint64_t writing = 0;  // 0: none
    int64_t begin = 0;
    std::vector<char> bytes;
  };
  static thread_local Piece partial;
  char* out = static_cast<char*>(to);
  const int64_t end = offset + bytes;
  for (int64_t at = offset; at < end;) {
    // As many whole pieces as one system call takes, or a part of one piece.
    const int64_t begin = at / kPieceBytes * kPieceBytes;
    int64_t length = std::min(kPieceBytes, slot.bytes - begin);
    const bool whole = at == begin && end - at >= length;
    char* target = out + (at - offset);
    int64_t wanted = std::min(begin + length, end) - at;
    if (whole) {
      length = end == slot.bytes ? end - at : (end - at) / kPieceBytes * kPieceBytes;
      wanted = length = std::min(length, kCallBytes);
    } else if (partial.writing == slot.writing && partial.begin == begin) {
      std::memcpy(target, partial.bytes.data() + (at - begin), static_cast<size_t>(wanted));
      at += wanted;
      continue;
    } else {
      partial.writing = 0;
      partial.bytes.resize(static_cast<size_t>(length));
      target = partial.bytes.data();
    }
    for (int64_t done = 0; done < length;) {
      const ssize_t got = pread(file_, target + done, static_cast<size_t>(length - done), slot.offset + begin + done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw local::IoError(fmt::format("reading back from the spill file in '{}' failed: {}", directory_,
                                         got < 0 ? std::strerror(errno) : "the file is too short"));
      }
      done += got;
    }
    for (int64_t done = 0; done < length; done += kPieceBytes) {
      if (checksum(target + done, std::min(kPieceBytes, length - done)) !=
          slot.checksums[static_cast<size_t>((begin + done) / kPieceBytes)]) {
        throw local::IoError(
            fmt::format("the spill file in '{}' does not hold what was written (checksum at offset {})", directory_,
                        slot.offset + begin + done));
      }
    }
    if (!whole) {
      std::memcpy(out + (at - offset), target + (at - begin), static_cast<size_t>(wanted));
      partial.writing = slot.writing;
      partial.begin = begin;
    }
    at += wanted;
  }
}

void SpillFile::release(Slot& slot) noexcept {
  if (!slot) return;
  const std::lock_guard lock(mutex_);
  int64_t offset = slot.offset;
  int64_t length = std::max(local::align_up(slot.bytes, kFileAlignment), kFileAlignment);
  slot = Slot{};
  used_ -= length;
  if (const auto next = gaps_.find(offset + length); next != gaps_.end()) {
    length += next->second;
    gaps_.erase(next);
  }
  if (auto previous = gaps_.lower_bound(offset); previous != gaps_.begin()) {
    --previous;
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      length += previous->second;
      gaps_.erase(previous);
    }
  }
  if (offset + length < end_) {
    gaps_.emplace(offset, length);
    return;
  }
  end_ = offset;
  // Nothing is left: the disk gets its room back.
  if (end_ == 0 && ftruncate(file_, 0) != 0) return;
}

int64_t SpillFile::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace quarry::scheduler
