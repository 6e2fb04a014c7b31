#include "quarry/io/csv/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "quarry/local/base/error.h"
#include "quarry/local/base/thread.h"

namespace quarry::io::csv {
namespace {

constexpr int64_t kLeastBlock = 256 << 10;
constexpr int64_t kMostBlocks = 65536;
constexpr int64_t kReadBytes = 4 << 20;  // of each thread at once
constexpr unsigned kMostThreads = 8;

// What a block has, for a beginning outside of quotes or inside.
struct Block {
  int64_t rows = 0;                       // that begin behind a line end of the block
  int64_t first_row = 0;                  // where the first one does
  int64_t first_end = -1, last_end = -1;  // of lines
  int64_t longest = 0;                    // between two ends
};

struct Scanned {
  Block outside, inside;
  int64_t quotes = 0;
};

// The bytes [begin, end) of the file at `text`, and up to two behind them to see whether a line is empty.
class BlockScanner {
 public:
  BlockScanner(const char* text, int64_t begin, int64_t end, int64_t size)
      : text_(text), begin_(begin), end_(end), size_(size) {}

  Scanned scan() const {
    Scanned out;
    const char* const last = text_ + (end_ - begin_);
    if (!std::memchr(text_, '"', static_cast<size_t>(end_ - begin_))) {
      const char* at = text_;
      while (const void* found = std::memchr(at, '\n', static_cast<size_t>(last - at))) {
        at = static_cast<const char*>(found);
        add(out.outside, at++);
      }
      return out;
    }
    out.quotes = std::count(text_, last, '"');
    bool inside = false;  // of quotes, if it begins outside
    for (const char* at = text_; at < last; ++at) {
      if (*at == '"') inside = !inside;
      if (*at == '\n') add(inside ? out.inside : out.outside, at);
    }
    return out;
  }

 private:
  void add(Block& block, const char* line_end) const {
    const int64_t at = begin_ + (line_end - text_);
    if (block.first_end < 0)
      block.first_end = at;
    else
      block.longest = std::max(block.longest, at - block.last_end);
    block.last_end = at;
    if (at + 1 >= size_ || line_end[1] == '\n') return;
    if (line_end[1] == '\r' && (at + 2 >= size_ || line_end[2] == '\n')) return;
    if (block.rows++ == 0) block.first_row = at + 1;
  }

  const char* const text_;
  const int64_t begin_, end_, size_;
};

// Scans the blocks of a file on several threads.
std::vector<Scanned> scan_all(const ByteSource& file, int64_t begin, int64_t block) {
  const int64_t size = file.size(), count = (size - begin + block - 1) / block;
  std::vector<Scanned> out(static_cast<size_t>(count));
  const int64_t together = std::max<int64_t>(1, kReadBytes / block);
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      std::vector<char> text;
      for (int64_t first; (first = next.fetch_add(together)) < count;) {
        const int64_t last = std::min(first + together, count);
        const int64_t from = begin + first * block, to = std::min(begin + last * block + 2, size);
        text.resize(static_cast<size_t>(to - from));
        file.read_at(from, std::as_writable_bytes(std::span(text)));
        for (int64_t b = first; b < last; ++b) {
          const int64_t at = begin + b * block, end = std::min(at + block, size);
          out[static_cast<size_t>(b)] = BlockScanner(text.data() + (at - from), at, end, size).scan();
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next = count;
    }
  };
  {
    const int64_t most = std::min<int64_t>((count + together - 1) / together,
                                           std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads));
    std::vector<std::jthread> threads;
    for (int64_t i = 1; i < most; ++i) {
      threads.push_back(
          local::start_joined_thread("reading lines", [&work](const std::stop_token& /*stop*/) { work(); }));
    }
    work();
  }
  if (error) std::rethrow_exception(error);
  return out;
}

}  // namespace

size_t RowIndex::entry_before(int64_t row) const {
  return static_cast<size_t>(std::ranges::upper_bound(numbers, row) - numbers.begin()) - 1;
}

RowIndex index_rows(const ByteSource& file, int64_t begin, const std::string& name) {
  RowIndex index;
  const int64_t size = file.size();
  if (begin >= size) return index;
  const int64_t block = std::max(kLeastBlock, ((size - begin) / kMostBlocks / 4096 + 1) * 4096);
  const std::vector<Scanned> blocks = scan_all(file, begin, block);
  // The first line has no end before it; it is no row where it is empty.
  char head[2] = {};
  file.read_at(begin,
               std::as_writable_bytes(std::span(head).first(static_cast<size_t>(std::min<int64_t>(2, size - begin)))));
  const bool first_is_row = head[0] != '\n' && !(head[0] == '\r' && (head[1] == '\n' || size - begin == 1));
  if (first_is_row) {
    index.numbers.push_back(0);
    index.offsets.push_back(begin);
    index.rows = 1;
  }
  int64_t last_end = begin - 1, quotes = 0;
  for (const Scanned& scanned : blocks) {
    const bool starts_inside = quotes % 2 != 0;
    quotes += scanned.quotes;
    const Block& found = starts_inside ? scanned.inside : scanned.outside;
    if (found.first_end >= 0) {
      index.longest_line = std::max({index.longest_line, found.longest, found.first_end - last_end});
      last_end = found.last_end;
    }
    if (found.rows == 0) continue;
    index.numbers.push_back(index.rows);
    index.offsets.push_back(found.first_row);
    index.rows += found.rows;
  }
  index.longest_line = std::max(index.longest_line, size - 1 - last_end);
  index.has_quotes = quotes > 0;
  if (quotes % 2 != 0) {
    throw local::IoError(fmt::format("'{}' is damaged: a quote does not end; the last line that is complete is line {}",
                                     name, line_number(file, std::max<int64_t>(last_end, 0))));
  }
  return index;
}

int64_t line_number(const ByteSource& file, int64_t offset) {
  std::vector<char> text(static_cast<size_t>(std::min<int64_t>(offset, kReadBytes)));
  int64_t lines = 1;
  for (int64_t at = 0; at < offset;) {
    const auto part = std::span(text).first(static_cast<size_t>(std::min<int64_t>(offset - at, kReadBytes)));
    file.read_at(at, std::as_writable_bytes(part));
    lines += std::ranges::count(part, '\n');
    at += std::ssize(part);
  }
  return lines;
}

LineReader::LineReader(const ByteSource& file, int64_t begin, bool has_quotes, std::span<char> buffer)
    : file_(file), has_quotes_(has_quotes), buffer_(buffer), at_(begin) {}

// Moves what is left to the front and reads on; false where the file ends.
bool LineReader::fill() {
  const int64_t from = at_ + static_cast<int64_t>(used_);
  if (from >= file_.size()) return false;
  std::memmove(buffer_.data(), buffer_.data() + next_, used_ - next_);
  at_ += static_cast<int64_t>(next_);
  used_ -= next_;
  next_ = 0;
  const size_t room = std::min(buffer_.size() - used_, static_cast<size_t>(file_.size() - from));
  if (room == 0) throw local::IoError("it changed since it was opened: a line is longer");
  file_.read_at(from, std::as_writable_bytes(buffer_.subspan(used_, room)));
  used_ += room;
  bytes_read_ += static_cast<int64_t>(room);
  return true;
}

const char* LineReader::line_end(const char* begin) const {
  const char* const last = buffer_.data() + used_;
  const char* from = begin;
  bool inside = false;
  while (const void* found = std::memchr(from, '\n', static_cast<size_t>(last - from))) {
    const auto* end = static_cast<const char*>(found);
    if (!has_quotes_) return end;
    inside = inside != (std::count(from, end, '"') % 2 != 0);
    if (!inside) return end;
    from = end + 1;
  }
  return nullptr;
}

bool LineReader::next(std::string_view& line) {
  for (;;) {
    const char* begin = buffer_.data() + next_;
    const char* end = line_end(begin);
    while (!end) {
      const bool more = fill();
      begin = buffer_.data();
      if (!more) begin = buffer_.data() + next_;
      end = line_end(begin);
      if (!end && !more) end = buffer_.data() + used_;
    }
    const bool at_end = end == buffer_.data() + used_;
    next_ = static_cast<size_t>(end - buffer_.data()) + (at_end ? 0 : 1);
    if (end > begin && end[-1] == '\r') --end;
    line = {begin, static_cast<size_t>(end - begin)};
    if (!line.empty()) return true;
    if (at_end) return false;
  }
}

}  // namespace quarry::io::csv
