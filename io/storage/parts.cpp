#include "quarry/io/storage/parts.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>

#include "quarry/local/base/error.h"

namespace quarry::io {

OrderedParts::OrderedParts(std::string path) : partial_(std::move(path)) {}

void OrderedParts::add(int64_t number, std::span<const std::byte> bytes) {
  int64_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!file_) {  // over what a killed run left
      std::FILE* const made = std::fopen(partial_.path().c_str(), "wb");
      if (!made) throw local::IoError(fmt::format("cannot write '{}': {}", partial_.path(), system_reason(errno)));
      std::fclose(made);
      file_ = std::make_unique<ByteFile>(partial_.path(), ByteFile::Mode::write);
    }
    offset = end_;
    end_ += std::ssize(bytes);
  }
  file_->write_at(offset, bytes);
  const std::lock_guard lock(mutex_);
  places_[number] = {offset, std::ssize(bytes)};
}

int64_t OrderedParts::count() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(places_);
}

int64_t OrderedParts::bytes() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

OrderedParts::Place OrderedParts::place(int64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(number);
  QUARRY_CHECK(found != places_.end());
  return found->second;
}

int64_t OrderedParts::size(int64_t number) const { return place(number).bytes; }

void OrderedParts::read(int64_t number, int64_t from, std::span<std::byte> to) const {
  const Place at = place(number);
  QUARRY_CHECK(from >= 0 && from + std::ssize(to) <= at.bytes);
  file_->read_at(at.offset + from, to);
}

}  // namespace quarry::io
