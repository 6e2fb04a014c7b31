// Lines of a text file: where its rows begin, and reading them one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/io/byte_file.h"

namespace quarry::io::csv {

// Where some rows begin, so that others are found near them. Lines without anything are no rows, and a line break
// inside quotes ends none.
struct RowIndex {
  int64_t rows = 0;
  int64_t longest_line = 0;  // bytes, with its end
  bool has_quotes = false;
  std::vector<int64_t> numbers;  // of rows, ascending from 0
  std::vector<int64_t> offsets;  // in the file, where these begin

  // The last of them at or before a row.
  size_t entry_before(int64_t row) const;
};

// Reads the file from `begin`, the first row, to its end on several threads. The index has an entry for 256 KiB of the
// file, or more where it would have more than 65536. Throws IoError where a quote does not end.
RowIndex index_rows(const ByteSource& file, int64_t begin, const std::string& name);

// The number of the line that a byte of the file is in, from 1; reads all before it.
int64_t line_number(const ByteSource& file, int64_t offset);

// Reads lines from a place on through a buffer, which holds the longest one.
class LineReader {
 public:
  LineReader(const ByteSource& file, int64_t begin, bool has_quotes, std::span<char> buffer);

  // The next line that is a row, without its end. False at the end of the file.
  bool next(std::string_view& line);
  int64_t offset_of(const char* place) const { return at_ + (place - buffer_.data()); }
  int64_t bytes_read() const { return bytes_read_; }

 private:
  bool fill();
  const char* line_end(const char* begin) const;  // null: not in the buffer

  const ByteSource& file_;
  const bool has_quotes_;
  const std::span<char> buffer_;
  int64_t at_;  // of the buffer in the file
  size_t used_ = 0, next_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace quarry::io::csv
