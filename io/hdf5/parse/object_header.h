// The messages of an object header.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/parse/chunk_index.h"

namespace quarry::io::hdf5 {

struct HeaderMessage {
  static constexpr unsigned kDataspace = 0x01, kLinkInfo = 0x02, kDatatype = 0x03, kOldFill = 0x04, kFill = 0x05,
                            kLink = 0x06, kExternal = 0x07, kLayout = 0x08, kFilters = 0x0b, kAttribute = 0x0c,
                            kContinuation = 0x10, kSymbolTable = 0x11, kAttributeInfo = 0x15, kLast = 0x18;
  unsigned type = 0;
  bool shared = false;  // the body is a reference to where the message is
  std::span<const std::byte> body;
  int64_t at = 0;  // where the body is in the file
  // Headers of version 2: the bytes of the file that the checksum is of which stands behind them.
  std::optional<std::pair<int64_t, int64_t>> checked;
};

// Calls use() for every message but continuations until it returns false. `header` is relative to format.base. Throws
// IoError where the header is damaged, NotSupported for a newer message that readers have to know.
void for_each_message(const ByteSource& file, const FileFormat& format, int64_t header,
                      const std::function<bool(const HeaderMessage&)>& use);

// The content of a layout message.
LayoutMessage parse_layout(std::span<const std::byte> message, const FileFormat& format);

}  // namespace quarry::io::hdf5
