// The messages of an object header, and the check that they are what the format allows before the HDF5 library decodes
// them: releases of the 1.10 line trust counts and sizes inside messages and crash on damaged ones.
#pragma once

#include <functional>
#include <span>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/parse/chunk_index.h"

namespace quarry::io::hdf5 {

struct HeaderMessage {
  static constexpr unsigned kDataspace = 0x01, kDatatype = 0x03, kOldFill = 0x04, kFill = 0x05, kExternal = 0x07,
                            kLayout = 0x08, kFilters = 0x0b, kAttribute = 0x0c, kContinuation = 0x10;
  unsigned type = 0;
  bool shared = false;  // the body is a reference to where the message is
  std::span<const std::byte> body;
};

// Calls use() for every message but continuations until it returns false. `header` is relative to format.base. Throws
// IoError where the header is damaged.
void for_each_message(const ByteSource& file, const FileFormat& format, int64_t header,
                      const std::function<bool(const HeaderMessage&)>& use);

// The content of a layout message.
LayoutMessage parse_layout(std::span<const std::byte> message, const FileFormat& format);

// Throws IoError unless the messages that describe a data set or named type are well-formed: every count and size
// inside them stays inside its message. Returns whether the same is true of its attributes.
bool check_object_header(const ByteSource& file, const FileFormat& format, int64_t header);

}  // namespace quarry::io::hdf5
