// Decoding zlib streams (RFC 1950 and 1951), a warp for each. A stream is read bit by bit, so what counts is how long a
// symbol takes: its code is looked up in a table in shared memory, which gives two literals at once where both fit.
// All threads of the warp decode the same symbols and share what takes many steps: tables, copies and the checksum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quarry/local/cuda/warp.cuh"
#include "quarry/local/device/stream_decoding.h"

namespace quarry::local::cuda {
namespace {

constexpr int kMostBits = 15;     // of a code
constexpr int kLiteralBits = 10;  // that index a table; longer codes are seldom
constexpr int kDistanceBits = 8;
constexpr int kLiterals = 288, kDistances = 32, kLengthCodes = 19;
constexpr int kEndOfBlock = 256;

// An entry of a table: what the bits begin with. From the lowest bit on: 5 bits of the code's length, 4 of how many
// bits follow the code, 3 of the kind, 4 unused, 16 of the value.
enum Kind : uint32_t {
  kLiteral,  // the value is a byte, or a symbol that is no literal of anything
  kPair,     // two bytes
  kMatch,    // the value is the least length or distance
  kEnd,
  kLong,  // the code is longer than the table's index
  kNoCode,
};
__device__ uint32_t entry_of(Kind kind, int length, int extra, uint32_t value) {
  return static_cast<uint32_t>(length) | static_cast<uint32_t>(extra) << 5 | kind << 9 | value << 16;
}
__device__ uint32_t length_of(uint32_t entry) { return entry & 31; }
__device__ uint32_t extra_of(uint32_t entry) { return entry >> 5 & 15; }
__device__ uint32_t kind_of(uint32_t entry) { return entry >> 9 & 7; }
__device__ uint32_t value_of(uint32_t entry) { return entry >> 16; }

// A canonical code: symbols in the order of their codes, and for every length how many codes have it.
struct Code {
  uint16_t counts[kMostBits + 1];
  uint16_t next[kMostBits + 1];  // while it is made
  uint16_t symbols[kLiterals];
};

struct Tables {
  uint32_t literals[1 << kLiteralBits];
  uint32_t distances[1 << kDistanceBits];
  Code literal_code, distance_code;
  uint8_t lengths[kLiterals + kDistances];
};

enum class Alphabet : uint8_t { lengths, literals, distances };

template <Alphabet kAlphabet>
__device__ uint32_t entry_of_symbol(int symbol, int length) {
  if (kAlphabet == Alphabet::lengths || (kAlphabet == Alphabet::literals && symbol < kEndOfBlock))
    return entry_of(kLiteral, length, 0, static_cast<uint32_t>(symbol));
  if (kAlphabet == Alphabet::literals) {
    if (symbol == kEndOfBlock) return entry_of(kEnd, length, 0, 0);
    const int s = symbol - kEndOfBlock - 1;
    if (s > 28) return entry_of(kNoCode, length, 0, 0);
    if (s == 28) return entry_of(kMatch, length, 0, 258);
    if (s < 8) return entry_of(kMatch, length, 0, static_cast<uint32_t>(3 + s));
    const int extra = s / 4 - 1;
    return entry_of(kMatch, length, extra, static_cast<uint32_t>(3 + ((4 + s % 4) << extra)));
  }
  if (symbol > 29) return entry_of(kNoCode, length, 0, 0);
  if (symbol < 4) return entry_of(kMatch, length, 0, static_cast<uint32_t>(1 + symbol));
  const int extra = symbol / 2 - 1;
  return entry_of(kMatch, length, extra, static_cast<uint32_t>(1 + ((2 + symbol % 2) << extra)));
}

// The symbol whose code `bits` begin with, of at most `most` bits, by its entry; kLong where there is none.
template <Alphabet kAlphabet>
__device__ uint32_t search(const Code& code, uint32_t bits, int most) {
  int value = 0, first = 0, index = 0;
  for (int length = 1; length <= most; ++length) {
    value |= static_cast<int>(bits & 1);
    bits >>= 1;
    const int count = code.counts[length];
    if (value - first < count) return entry_of_symbol<kAlphabet>(code.symbols[index + value - first], length);
    index += count;
    first = (first + count) << 1;
    value <<= 1;
  }
  return entry_of(kLong, 0, 0, 0);
}

// The stream's bits, the first one lowest. Each thread of the warp holds a word of the 32 that are being read, and one
// of the 32 after them, so that nobody waits for memory. Behind the end are zeros.
class Bits {
 public:
  __device__ Bits(const std::byte* from, int64_t bytes) : bytes_(static_cast<uint32_t>(bytes)) {
    const auto address = reinterpret_cast<uintptr_t>(from);
    words_ = reinterpret_cast<const uint32_t*>(address & ~uintptr_t{3});
    skipped_ = static_cast<uint32_t>(address & 3);
    end_ = (bytes_ + skipped_ + 3) / 4;
    seek(0);
  }
  // Goes on at a byte of the stream.
  __device__ void seek(uint32_t byte) {
    byte += skipped_;
    word_ = byte / 4;
    const uint32_t window = word_ / kWindow * kWindow;
    words_now_ = load(window + threadIdx.x);
    words_next_ = load(window + kWindow + threadIdx.x);
    low_ = fetch() >> (byte % 4 * 8);
    high_ = 0;
    count_ = 32 - static_cast<int>(byte % 4 * 8);
    ahead_ = fetch();
  }
  // At least 32 bits are there after it.
  __device__ void refill() {
    if (count_ >= 32) return;
    low_ |= ahead_ << count_;
    high_ = __funnelshift_l(ahead_, 0, static_cast<uint32_t>(count_));
    count_ += 32;
    ahead_ = fetch();
  }
  __device__ uint32_t peek() const { return low_; }
  // Less than 32; of more only the lowest five bits count.
  __device__ void skip(uint32_t count) {
    low_ = __funnelshift_r(low_, high_, count);
    high_ = __funnelshift_r(high_, 0, count);
    count_ -= static_cast<int>(count & 31);
  }
  __device__ uint32_t take(uint32_t count) {
    const uint32_t value = low_ & ((1u << count) - 1);
    skip(count);
    return value;
  }
  // Of the next bit, from the stream's beginning.
  __device__ int64_t position() const {
    return static_cast<int64_t>(word_ - 1) * 32 - count_ - static_cast<int64_t>(skipped_) * 8;
  }
  __device__ uint32_t bytes() const { return bytes_; }
  __device__ bool has_ended() const { return position() > static_cast<int64_t>(bytes_) * 8; }

 private:
  static constexpr uint32_t kWindow = kWarp;
  __device__ uint32_t load(uint32_t word) const { return word < end_ ? __ldg(words_ + word) : 0; }
  __device__ uint32_t fetch() {
    const uint32_t value = __shfl_sync(kAll, words_now_, static_cast<int>(word_ % kWindow));
    if (++word_ % kWindow == 0) {
      words_now_ = words_next_;
      words_next_ = load(word_ + kWindow + threadIdx.x);
    }
    return value;
  }
  const uint32_t* words_;
  uint32_t bytes_, skipped_;  // skipped: before the stream in its first word
  uint32_t end_, word_;       // words: of the stream, and to be fetched next
  uint32_t words_now_, words_next_;
  uint32_t low_, high_, ahead_;
  int count_;
};

// Makes code and table of the lengths of `symbols` symbols. False where they are no code: more than fit, or fewer,
// except that there may be one alone of one bit, and no distance.
template <Alphabet kAlphabet>
__device__ bool make(const uint8_t* lengths, int symbols, Code& code, uint32_t* table, int table_bits) {
  const int lane = static_cast<int>(threadIdx.x);
  __syncwarp();
  in_threads(kMostBits + 1, [&](uint32_t i) { code.counts[i] = 0; });
  __syncwarp();
  // Symbols in the order of lengths, then of symbols: those of one length in a group of 32 know each other.
  for (int first = 0; first < symbols; first += kWarp) {
    const int length = first + lane < symbols ? lengths[first + lane] : 0;
    const unsigned alike = __match_any_sync(kAll, length);
    if (__ffs(static_cast<int>(alike)) - 1 == lane)
      code.counts[length] = static_cast<uint16_t>(code.counts[length] + __popc(alike));
    __syncwarp();
  }
  int left = 1, used = 0;
  for (int length = 1; length <= kMostBits; ++length) {
    const int count = code.counts[length];
    if (lane == 0) code.next[length] = static_cast<uint16_t>(used);
    used += count;
    left = left * 2 - count;
    if (left < 0) return false;
  }
  const bool one_alone = used == 1 && code.counts[1] == 1;
  if (left > 0 && (kAlphabet == Alphabet::lengths || (used > 0 && !one_alone))) return false;
  __syncwarp();
  for (int first = 0; first < symbols; first += kWarp) {
    const int length = first + lane < symbols ? lengths[first + lane] : 0;
    const unsigned alike = __match_any_sync(kAll, length);
    const int before = __popc(alike & ((1u << lane) - 1));
    if (length > 0) code.symbols[code.next[length] + before] = static_cast<uint16_t>(first + lane);
    __syncwarp();
    if (length > 0 && before == 0) code.next[length] = static_cast<uint16_t>(code.next[length] + __popc(alike));
    __syncwarp();
  }
  const int entries = 1 << table_bits;
  for (int i = lane; i < entries; i += kWarp) table[i] = search<kAlphabet>(code, static_cast<uint32_t>(i), table_bits);
  __syncwarp();
  // Two literals at once, from the last entry on: what an entry's other bits index stands before it.
  if constexpr (kAlphabet == Alphabet::literals) {
    for (int first = entries - kWarp; first >= 0; first -= kWarp) {
      const int i = first + lane;
      const uint32_t one = table[i], two = table[i >> length_of(one)];
      __syncwarp();
      const auto length = static_cast<int>(length_of(one) + length_of(two));
      if (kind_of(one) == kLiteral && kind_of(two) == kLiteral && length <= table_bits)
        table[i] = entry_of(kPair, length, 0, value_of(one) | value_of(two) << 8);
      __syncwarp();
    }
  }
  return true;
}

// The lengths of a block's two codes, which are themselves encoded.
__device__ bool read_lengths(Bits& bits, Tables& tables) {
  constexpr uint8_t kOrder[kLengthCodes] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  constexpr int kBits = 7;
  const int lane = static_cast<int>(threadIdx.x);
  bits.refill();
  const int literals = 257 + static_cast<int>(bits.take(5)), distances = 1 + static_cast<int>(bits.take(5));
  const int codes = 4 + static_cast<int>(bits.take(4));
  __syncwarp();
  in_threads(kLengthCodes, [&](uint32_t i) { tables.lengths[i] = 0; });
  __syncwarp();
  for (int i = 0; i < codes; ++i) {
    bits.refill();
    const uint32_t length = bits.take(3);
    if (lane == 0) tables.lengths[kOrder[i]] = static_cast<uint8_t>(length);
  }
  if (!make<Alphabet::lengths>(tables.lengths, kLengthCodes, tables.distance_code, tables.distances, kBits))
    return false;
  const int all = literals + distances;
  int before = 0;  // the length of the symbol before
  for (int at = 0; at < all;) {
    bits.refill();
    const uint32_t entry = tables.distances[bits.peek() & ((1 << kBits) - 1)];
    if (kind_of(entry) != kLiteral) return false;
    bits.skip(entry);
    const auto symbol = static_cast<int>(value_of(entry));
    int repeats = 1, length = symbol;
    if (symbol == 16) {
      if (at == 0) return false;
      repeats = 3 + static_cast<int>(bits.take(2));
      length = before;
    } else if (symbol == 17) {
      repeats = 3 + static_cast<int>(bits.take(3));
      length = 0;
    } else if (symbol == 18) {
      repeats = 11 + static_cast<int>(bits.take(7));
      length = 0;
    }
    if (repeats > all - at) return false;
    for (int i = lane; i < repeats; i += kWarp) tables.lengths[at + i] = static_cast<uint8_t>(length);
    at += repeats;
    before = length;
  }
  __syncwarp();
  if (tables.lengths[kEndOfBlock] == 0) return false;
  return make<Alphabet::literals>(tables.lengths, literals, tables.literal_code, tables.literals, kLiteralBits) &&
         make<Alphabet::distances>(tables.lengths + literals, distances, tables.distance_code, tables.distances,
                                   kDistanceBits);
}

__device__ bool make_fixed(Tables& tables) {
  const int lane = static_cast<int>(threadIdx.x);
  __syncwarp();
  for (int i = lane; i < kLiterals; i += kWarp)
    tables.lengths[i] = static_cast<uint8_t>(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
  for (int i = lane; i < kDistances; i += kWarp) tables.lengths[kLiterals + i] = 5;
  return make<Alphabet::literals>(tables.lengths, kLiterals, tables.literal_code, tables.literals, kLiteralBits) &&
         make<Alphabet::distances>(tables.lengths + kLiterals, kDistances, tables.distance_code, tables.distances,
                                   kDistanceBits);
}

// Where a stream's bytes go.
class Output {
 public:
  __device__ Output(std::byte* to, uint32_t room) : to_(to), room_(room) {}
  __device__ uint32_t at() const { return at_; }
  __device__ uint32_t left() const { return room_ - at_; }

  // The bytes of an entry of one or two literals.
  __device__ void put(uint32_t entry, uint32_t count) {
    in_threads(count, [&](uint32_t i) { to_[at_ + i] = static_cast<std::byte>(value_of(entry) >> (8 * i)); });
    at_ += count;
  }
  // At most 258 bytes that were there before, again. Of up to 32 each thread reads one, and writes it when the next
  // ones are to be read: reading takes longer than decoding the next symbol.
  __device__ void repeat(uint32_t distance, uint32_t length) {
    settle();
    const std::byte* const from = to_ + at_ - distance;
    if (length <= kWarp) {
      pending_ = length;
      pending_at_ = at_;
      if (threadIdx.x < length) byte_ = from[distance >= length ? threadIdx.x : threadIdx.x % distance];
    } else if (distance >= length) {
      for (uint32_t i = threadIdx.x; i < length; i += kWarp) to_[at_ + i] = from[i];
    } else {  // it repeats itself
      for (uint32_t i = threadIdx.x; i < length; i += kWarp) to_[at_ + i] = from[i % distance];
    }
    at_ += length;
  }
  __device__ void copy(const std::byte* from, uint32_t bytes) {
    QUARRY_UNROLL for (uint32_t i = threadIdx.x; i < bytes; i += kWarp) to_[at_ + i] = from[i];
    at_ += bytes;
  }
  // What was written by one thread of the warp is read by all after it.
  __device__ void settle() {
    if (threadIdx.x < pending_) to_[pending_at_ + threadIdx.x] = byte_;
    pending_ = 0;
    __syncwarp();
  }

 private:
  std::byte* const to_;
  const uint32_t room_;
  uint32_t at_ = 0, pending_ = 0, pending_at_ = 0;
  std::byte byte_{};
};

// A block of bytes as they are.
__device__ StreamStatus copy_stored(Bits& bits, const std::byte* stream, Output& out) {
  bits.seek(static_cast<uint32_t>((bits.position() + 7) / 8));
  bits.refill();
  const uint32_t bytes = bits.take(16);
  bits.refill();
  const uint32_t inverse = bits.take(16);
  if ((bytes ^ inverse) != 0xffff || bits.has_ended()) return StreamStatus::damaged;
  const auto from = static_cast<uint32_t>(bits.position() / 8);
  if (bytes > bits.bytes() - from) return StreamStatus::damaged;
  if (bytes > out.left()) return StreamStatus::too_long;
  out.copy(stream + from, bytes);
  bits.seek(from + bytes);
  return StreamStatus::good;
}

// A block of codes, whose tables are made.
__device__ StreamStatus decode_block(Bits& bits, const Tables& tables, Output& out) {
  constexpr uint32_t kLiteralMask = (1 << kLiteralBits) - 1, kDistanceMask = (1 << kDistanceBits) - 1;
  constexpr int kLookups = 32 / kLiteralBits;  // without a refill between
  for (;;) {
    bits.refill();
    uint32_t entry = tables.literals[bits.peek() & kLiteralMask];
    QUARRY_UNROLL for (int lookup = 1; lookup <= kLookups; ++lookup) {
      if (kind_of(entry) > kPair) break;
      const uint32_t literals = entry, count = kind_of(entry) + 1;
      bits.skip(entry);
      // Before this one is written, so that nothing waits for it.
      if (lookup < kLookups) entry = tables.literals[bits.peek() & kLiteralMask];
      if (out.left() < count) return StreamStatus::too_long;
      out.put(literals, count);
    }
    if (kind_of(entry) <= kPair) continue;
    if (kind_of(entry) == kLong) {
      bits.refill();
      entry = search<Alphabet::literals>(tables.literal_code, bits.peek(), kMostBits);
      if (kind_of(entry) == kLiteral) {
        if (out.left() == 0) return StreamStatus::too_long;
        bits.skip(entry);
        out.put(entry, 1);
        continue;
      }
    }
    bits.skip(entry);
    if (kind_of(entry) == kEnd) return StreamStatus::good;
    if (kind_of(entry) != kMatch) return StreamStatus::damaged;
    bits.refill();
    const uint32_t length = value_of(entry) + bits.take(extra_of(entry));
    bits.refill();
    entry = tables.distances[bits.peek() & kDistanceMask];
    if (kind_of(entry) == kLong) entry = search<Alphabet::distances>(tables.distance_code, bits.peek(), kMostBits);
    if (kind_of(entry) != kMatch) return StreamStatus::damaged;
    bits.skip(entry);
    const uint32_t distance = value_of(entry) + bits.take(extra_of(entry));
    if (distance > out.at()) return StreamStatus::damaged;
    if (length > out.left()) return StreamStatus::too_long;
    out.repeat(distance, length);
  }
}

// Adler-32 (RFC 1950): the sum of the bytes, from 1, and the sum of these sums.
__device__ uint32_t checksum(const std::byte* bytes, int64_t count) {
  constexpr uint64_t kBase = 65521;
  uint64_t sum = 0, sums = 0;
  int64_t rounds = 0;
  QUARRY_UNROLL for (int64_t i = threadIdx.x; i < count; i += kWarp) {
    const auto byte = static_cast<uint64_t>(bytes[i]);
    sum += byte;
    sums += static_cast<uint64_t>(count - i) * byte;
    if ((++rounds & 0xffff) == 0) sums %= kBase;  // a product has at most 40 bits
  }
  sum %= kBase;
  sums %= kBase;
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAll, sum, distance);
    sums += __shfl_xor_sync(kAll, sums, distance);
  }
  const uint64_t low = (1 + sum) % kBase, high = (static_cast<uint64_t>(count) + sums) % kBase;
  return static_cast<uint32_t>(high << 16 | low);
}

__device__ StreamStatus decode(const EncodedStream& stream, Tables& tables) {
  Bits bits(stream.from, stream.bytes);
  bits.refill();
  const uint32_t head = bits.take(16);
  constexpr uint32_t kDictionary = 0x2000;
  if ((head & 0xf) != 8 || ((head & 0xff) << 8 | head >> 8) % 31 != 0 || (head & kDictionary) != 0)
    return StreamStatus::damaged;
  Output out(stream.to, static_cast<uint32_t>(stream.to_bytes));
  for (bool last = false; !last;) {
    if (bits.has_ended()) return StreamStatus::damaged;
    bits.refill();
    last = bits.take(1) != 0;
    const uint32_t kind = bits.take(2);
    StreamStatus status = StreamStatus::damaged;
    if (kind == 0) {
      status = copy_stored(bits, stream.from, out);
    } else if (kind < 3 && (kind == 1 ? make_fixed(tables) : read_lengths(bits, tables))) {
      status = decode_block(bits, tables, out);
    }
    if (status != StreamStatus::good) return status;
  }
  const int64_t trailer = (bits.position() + 7) / 8;
  if (trailer + 4 > stream.bytes) return StreamStatus::damaged;
  if (out.left() > 0) return StreamStatus::too_short;
  uint32_t expected = 0;
  for (int i = 0; i < 4; ++i) expected = expected << 8 | static_cast<uint32_t>(stream.from[trailer + i]);
  out.settle();
  return checksum(stream.to, out.at()) == expected ? StreamStatus::good : StreamStatus::wrong_checksum;
}

}  // namespace
}  // namespace quarry::local::cuda
