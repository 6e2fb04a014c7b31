// Parts of an output whose sizes are known only when they are made, and which are made in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "quarry/io/byte_file.h"
#include "quarry/io/partial.h"

namespace quarry::io {

// They wait in a file of their own until all are there. Thread-safe.
class OrderedParts {
 public:
  explicit OrderedParts(std::string path);
  // A part that comes again replaces the first one. Throws IoError.
  void add(int64_t number, std::span<const std::byte> bytes);
  int64_t count() const;
  int64_t bytes() const;
  // Bytes of a part, and some of them from its byte `from` on.
  int64_t size(int64_t number) const;
  void read(int64_t number, int64_t from, std::span<std::byte> to) const;

 private:
  struct Place {
    int64_t offset, bytes;
  };
  Place place(int64_t number) const;

  const Partial partial_;
  mutable std::mutex mutex_;
  std::unique_ptr<ByteFile> file_;
  std::map<int64_t, Place> places_;
  int64_t end_ = 0;
};

}  // namespace quarry::io
