#include "quarry/io/storage/inflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>

#include "quarry/local/base/error.h"

namespace quarry::io {
namespace {

constexpr int kWindow = 32 << 10;  // how far deflate looks back
constexpr int kRaw = -15;          // zlib's number for a stream without a header and such a window
constexpr int64_t kInput = 64 << 10;
constexpr int64_t kLeastSpan = 1 << 20;  // between points
constexpr int64_t kMostPoints = 1024;
constexpr size_t kIdle = 16;  // decoders that are kept
constexpr unsigned kBlockEnd = 128, kLastBlock = 64, kUnusedBits = 7;

}  // namespace

// A stream that is read on from some place.
class InflateDecoder {
 public:
  InflateDecoder(const ByteSource& file, const Deflated& stream, const std::string& name)
      : file_(file), stream_(stream), name_(name), input_(static_cast<size_t>(kInput)) {
    if (inflateInit2(&zlib_, kRaw) != Z_OK) throw local::OutOfMemory("zlib has no memory to decode");
  }
  ~InflateDecoder() { inflateEnd(&zlib_); }
  InflateDecoder(const InflateDecoder&) = delete;
  InflateDecoder& operator=(const InflateDecoder&) = delete;

  int64_t position() const { return at_; }

  void start(const InflatePoint& point) {
    at_ = point.at;
    next_input_ = point.stored;
    if (point.bits > 0) {
      std::byte before{};
      file_.read_at(stream_.offset + point.stored - 1, {&before, 1});
      inflatePrime(&zlib_, point.bits, static_cast<int>(before) >> (8 - point.bits));
    }
    if (!point.window.empty())
      inflateSetDictionary(&zlib_, reinterpret_cast<const Bytef*>(point.window.data()),
                           static_cast<uInt>(point.window.size()));
  }

  // Decodes into all of `to`, or, with `flush` Z_BLOCK, to the end of a block at most. Returns the bytes; fewer only
  // there or at the end of the stream.
  int64_t decode(std::span<std::byte> to, int flush) {
    zlib_.next_out = reinterpret_cast<Bytef*>(to.data());
    zlib_.avail_out = static_cast<uInt>(to.size());
    while (zlib_.avail_out > 0 && !ended_) {
      if (zlib_.avail_in == 0) fill();
      const int status = ::inflate(&zlib_, flush);
      if (status == Z_MEM_ERROR) throw local::OutOfMemory("zlib has no memory to decode");
      if (status == Z_BUF_ERROR && zlib_.avail_in == 0 && next_input_ >= stream_.stored_bytes) fail("it ends early");
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) fail("it is no deflated data");
      ended_ = status == Z_STREAM_END;
      if (flush == Z_BLOCK && (static_cast<unsigned>(zlib_.data_type) & kBlockEnd) != 0) break;
    }
    const auto bytes = static_cast<int64_t>(to.size() - zlib_.avail_out);
    at_ += bytes;
    return bytes;
  }

  bool ended() const { return ended_; }
  // After decode() with Z_BLOCK: whether a block begins here that is not the last's end.
  bool at_block() const {
    const auto type = static_cast<unsigned>(zlib_.data_type);
    return (type & kBlockEnd) != 0 && (type & kLastBlock) == 0 && !ended_;
  }
  int64_t stored_position() const { return next_input_ - zlib_.avail_in; }
  int32_t unused_bits() const { return static_cast<int32_t>(static_cast<unsigned>(zlib_.data_type) & kUnusedBits); }

  [[noreturn]] void fail(const std::string& what) const {
    throw local::IoError(fmt::format("'{}' is damaged at byte {} of its data: {}", name_, at_, what));
  }

 private:
  void fill() {
    const int64_t left = stream_.stored_bytes - next_input_;
    if (left <= 0) return;  // what is left may be in zlib's state
    const auto bytes = static_cast<size_t>(std::min(left, kInput));
    file_.read_at(stream_.offset + next_input_, std::span(input_).first(bytes));
    next_input_ += static_cast<int64_t>(bytes);
    zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
    zlib_.avail_in = static_cast<uInt>(bytes);
  }

  const ByteSource& file_;
  const Deflated& stream_;
  const std::string& name_;
  std::vector<std::byte> input_;
  z_stream zlib_{};
  int64_t at_ = 0, next_input_ = 0;
  bool ended_ = false;
};

std::vector<InflatePoint> index_deflated(const ByteSource& file, const Deflated& stream, const std::string& name) {
  InflateDecoder decoder(file, stream, name);
  std::vector<InflatePoint> points;
  const int64_t span = std::max(kLeastSpan, stream.bytes / kMostPoints);
  // The window goes round in the buffer.
  std::array<std::byte, kWindow> buffer;
  uint32_t crc = 0;
  int64_t next_point = span;
  while (!decoder.ended()) {
    const auto begin = static_cast<size_t>(decoder.position() % kWindow);
    const std::span<std::byte> room = std::span(buffer).subspan(begin);
    const int64_t bytes = decoder.decode(room, Z_BLOCK);
    crc = checksum(crc, room.first(static_cast<size_t>(bytes)));
    if (decoder.position() > stream.bytes) decoder.fail(fmt::format("it has more than {} bytes", stream.bytes));
    if (!decoder.at_block() || decoder.position() < next_point) continue;
    InflatePoint point{decoder.position(), decoder.stored_position(), decoder.unused_bits(), {}};
    const auto cut = static_cast<size_t>(decoder.position() % kWindow);
    const auto text = [&](std::span<const std::byte> part) {
      return std::string_view(reinterpret_cast<const char*>(part.data()), part.size());
    };
    point.window = text(std::span(buffer).subspan(cut));  // full: the first point is behind more than a window
    point.window += text(std::span(buffer).first(cut));
    points.push_back(std::move(point));
    next_point = decoder.position() + span;
  }
  if (decoder.position() != stream.bytes)
    decoder.fail(fmt::format("it ends {} bytes early", stream.bytes - decoder.position()));
  if (crc != stream.crc32) decoder.fail("its checksum is another");
  return points;
}

InflatedSource::InflatedSource(std::shared_ptr<const ByteSource> file, Deflated stream,
                               std::vector<InflatePoint> points, std::string name)
    : file_(std::move(file)), stream_(stream), points_(std::move(points)), name_(std::move(name)) {}
InflatedSource::~InflatedSource() = default;

// One that stands at the offset or before it, behind every point that does.
std::unique_ptr<InflateDecoder> InflatedSource::decoder_near(int64_t offset) const {
  const auto behind = std::ranges::upper_bound(points_, offset, {}, &InflatePoint::at);
  const InflatePoint* const point = behind == points_.begin() ? nullptr : &*(behind - 1);
  const int64_t at = point ? point->at : 0;
  {
    const std::lock_guard lock(mutex_);
    auto best = idle_.end();
    for (auto i = idle_.begin(); i != idle_.end(); ++i) {
      const int64_t position = (*i)->position();
      if (position >= at && position <= offset && (best == idle_.end() || position > (*best)->position())) best = i;
    }
    if (best != idle_.end()) {
      std::unique_ptr<InflateDecoder> found = std::move(*best);
      idle_.erase(best);
      return found;
    }
  }
  auto decoder = std::make_unique<InflateDecoder>(*file_, stream_, name_);
  if (point) decoder->start(*point);
  return decoder;
}

void InflatedSource::read_at(int64_t offset, std::span<std::byte> to) const {
  std::unique_ptr<InflateDecoder> decoder = decoder_near(offset);
  constexpr int64_t kSkipped = 32 << 10;
  std::vector<std::byte> skipped;
  const auto decode = [&](std::span<std::byte> place) {
    constexpr size_t kMost = size_t{1} << 30;  // zlib counts in 32 bits
    while (!place.empty()) {
      const auto part = place.first(std::min(place.size(), kMost));
      if (decoder->decode(part, Z_NO_FLUSH) != std::ssize(part)) decoder->fail("it ends early");
      place = place.subspan(part.size());
    }
  };
  while (decoder->position() < offset) {
    skipped.resize(static_cast<size_t>(kSkipped));
    decode(std::span(skipped).first(static_cast<size_t>(std::min(kSkipped, offset - decoder->position()))));
  }
  decode(to);
  const std::lock_guard lock(mutex_);
  if (idle_.size() == kIdle) idle_.erase(idle_.begin());
  idle_.push_back(std::move(decoder));
}

std::string deflate_part(std::span<const std::byte> bytes, int level) {
  z_stream zlib{};
  constexpr int kMemory = 8;  // zlib's default
  if (deflateInit2(&zlib, level, Z_DEFLATED, kRaw, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw local::OutOfMemory("zlib has no memory to encode");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&zlib, deflateEnd);
  std::string out;
  constexpr size_t kStep = 256 << 10, kInputStep = size_t{1} << 30;
  size_t used = 0, given = 0;
  bool done = false;
  while (!done) {
    if (zlib.avail_in == 0 && given < bytes.size()) {
      const size_t part = std::min(kInputStep, bytes.size() - given);
      zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + given));
      zlib.avail_in = static_cast<uInt>(part);
      given += part;
    }
    if (used == out.size()) out.resize(out.size() + kStep);
    zlib.next_out = reinterpret_cast<Bytef*>(out.data() + used);
    zlib.avail_out = static_cast<uInt>(out.size() - used);
    const bool is_last = given == bytes.size();
    const int status = ::deflate(&zlib, is_last ? Z_SYNC_FLUSH : Z_NO_FLUSH);
    QUARRY_CHECK(status == Z_OK || status == Z_BUF_ERROR);
    used = out.size() - zlib.avail_out;
    done = is_last && zlib.avail_in == 0 && zlib.avail_out > 0;
  }
  out.resize(used);
  return out;
}

std::string_view deflate_end() {
  static constexpr char kEmptyLastBlock[] = {3, 0};
  return {kEmptyLastBlock, sizeof kEmptyLastBlock};
}

uint32_t checksum(uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t checksum_of_both(uint32_t first, uint32_t second, int64_t second_bytes) {
  return static_cast<uint32_t>(::crc32_combine(first, second, second_bytes));
}

}  // namespace quarry::io
