// Decoding Zstandard frames (RFC 8878), a warp for each stream of them. The four streams of a block's literals are
// decoded by a thread each, to the end of the room, whence they are taken: what is still to be written never has less
// room than the literals that are still there, so that nothing else is needed. All threads of the warp decode the same
// sequences and share what takes many steps: tables and copies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quarry/local/cuda/warp.cuh"
#include "quarry/local/device/stream_decoding.h"

namespace quarry::local::cuda::zstd {
namespace {

constexpr uint32_t kMostBlockBytes = 128 << 10;
constexpr int kMostWeights = 256;
constexpr int kHuffmanBits = 11;  // of the longest code
constexpr int kWeightLog = 6;     // of the codes that weights themselves have
constexpr int kMostLog = 9;       // of a table of states

// The three numbers of a sequence: in the order in which their tables are described.
enum Number : int { kLiteralLength, kOffset, kMatchLength, kNumbers };
__device__ constexpr int kLogs[kNumbers] = {9, 8, 9};
__device__ constexpr int kUsualLogs[kNumbers] = {6, 5, 6};
__device__ constexpr int kCodes[kNumbers] = {36, 32, 53};

// How often codes are expected where a block describes no table; -1: less than once.
__device__ const int8_t kUsualLiteralLengths[] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                                  2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
__device__ const int8_t kUsualOffsets[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                           1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
__device__ const int8_t kUsualMatchLengths[] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

// A state of a table. From the lowest bit on: 4 bits of how many bits the next state takes, 5 of how many follow the
// code, 7 of the code, 16 of what the next state counts from.
__device__ uint32_t state_of(int bits, int extra, int code, uint32_t base) {
  return static_cast<uint32_t>(bits) | static_cast<uint32_t>(extra) << 4 | static_cast<uint32_t>(code) << 9 |
         base << 16;
}
__device__ uint32_t bits_of(uint32_t state) { return state & 15; }
__device__ uint32_t extra_of(uint32_t state) { return state >> 4 & 31; }
__device__ uint32_t code_of(uint32_t state) { return state >> 9 & 127; }
__device__ uint32_t base_of(uint32_t state) { return state >> 16; }

struct Tables {
  uint32_t literal_lengths[1 << 9];
  uint32_t match_lengths[1 << 9];
  uint32_t offsets[1 << 8];
  union {
    uint16_t huffman[1 << kHuffmanBits];  // from the lowest bit on: 8 bits of the code's length, 8 of the byte
    uint32_t weight_states[1 << kWeightLog];
  };
  uint32_t least_literal_length[36], least_match_length[53];  // of codes
  uint8_t weights[kMostWeights];
  union {
    uint8_t by_weight[kMostWeights];  // bytes in the order of weights
    uint8_t spread[1 << kMostLog];    // codes as often as they are expected
  };
  int16_t counts[64];  // of codes
  uint16_t next[64];   // states while a table is made
  uint64_t sums[4];    // of the checksum
};

// What of a frame holds from block to block.
struct Held {
  int huffman_bits = 0;               // none yet
  int logs[kNumbers] = {-1, -1, -1};  // none yet
  uint32_t offsets[3] = {1, 4, 8};    // of the last matches
};

__device__ int highest_bit(uint32_t value) { return 31 - __clz(static_cast<int>(value)); }

// The bytes of a stream; behind its end are zeros.
class Source {
 public:
  __device__ Source(const std::byte* from, uint32_t bytes) : from_(from), bytes_(bytes) {}
  __device__ uint32_t bytes() const { return bytes_; }
  __device__ const std::byte* at(uint32_t byte) const { return from_ + byte; }
  __device__ uint32_t byte(uint32_t at) const { return at < bytes_ ? static_cast<uint32_t>(from_[at]) : 0; }
  __device__ uint32_t word(uint32_t at) const {
    return byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
  }

 private:
  const std::byte* from_;
  uint32_t bytes_;
};

// Bits from the first one on, as tables are described.
class Forward {
 public:
  __device__ Forward(const Source& source, uint32_t first, uint32_t end)
      : source_(source), first_(first), bits_((end - first) * 8) {}
  // Up to 25.
  __device__ uint32_t peek(int count) const {
    return source_.word(first_ + at_ / 8) >> (at_ % 8) & ((1u << count) - 1);
  }
  __device__ void skip(int count) { at_ += static_cast<uint32_t>(count); }
  __device__ uint32_t take(int count) {
    const uint32_t value = peek(count);
    skip(count);
    return value;
  }
  __device__ bool has_ended() const { return at_ > bits_; }
  __device__ uint32_t next_byte() const { return first_ + (at_ + 7) / 8; }

 private:
  const Source& source_;
  uint32_t first_, bits_, at_ = 0;
};

// Bits from the last one back, the first one taken highest; before the first are zeros. The highest bit of the last
// byte says where they end. Less than 2^28 bytes.
class Backward {
 public:
  // False where there is no such bit.
  __device__ bool open(const Source& source, uint32_t first, uint32_t bytes) {
    const uint32_t last = bytes == 0 ? 0 : source.byte(first + bytes - 1);
    if (last == 0) return false;
    left_ = static_cast<int>((bytes - 1) * 8) + highest_bit(last);
    const auto address = reinterpret_cast<uintptr_t>(source.at(first));
    words_ = reinterpret_cast<const uint32_t*>(address & ~uintptr_t{3});
    before_ = static_cast<int>(address & 3) * 8;
    const int end = before_ + left_;
    word_ = end / 32;
    there_ = end % 32;
    window_ = there_ == 0 ? 0 : static_cast<uint64_t>(load()) << (64 - there_);
    --word_;
    ahead_ = load();
    return true;
  }
  // At least 32 bits are there after it.
  __device__ void refill() {
    if (there_ > 32) return;
    window_ |= static_cast<uint64_t>(ahead_) << (32 - there_);
    there_ += 32;
    --word_;
    ahead_ = load();
  }
  // The next bits, 1 to 32.
  __device__ uint32_t peek(int count) const { return static_cast<uint32_t>(window_ >> (64 - count)); }
  // Up to 32.
  __device__ void skip(uint32_t count) {
    window_ <<= count;
    there_ -= static_cast<int>(count);
    left_ -= static_cast<int>(count);
  }
  __device__ uint32_t take(uint32_t count) {
    const auto value = static_cast<uint32_t>(window_ >> 1 >> (63 - count));
    skip(count);
    return value;
  }
  // Negative where more were taken than there are.
  __device__ int left() const { return left_; }

 private:
  __device__ uint32_t load() const {
    if (word_ < 0) return 0;
    const uint32_t value = __ldg(words_ + word_);
    return word_ == 0 ? value >> before_ << before_ : value;
  }
  const uint32_t* words_ = nullptr;
  uint64_t window_ = 0;
  uint32_t ahead_ = 0;
  int before_ = 0;  // bits before the first one in its word
  int word_ = 0, there_ = 0, left_ = 0;
};

__device__ int extra_bits(Number number, int code) {
  if (number == kOffset) return code;
  if (number == kLiteralLength)
    return code < 16 ? 0 : code < 20 ? 1 : code < 22 ? 2 : code < 24 ? 3 : code == 24 ? 4 : code - 19;
  return code < 32 ? 0 : code < 36 ? 1 : code < 38 ? 2 : code < 40 ? 3 : code < 42 ? 4 : code == 42 ? 5 : code - 36;
}

// The least lengths that codes stand for.
__device__ void make_lengths(Tables& tables) {
  if (threadIdx.x == 0) {
    uint32_t least = 0;
    for (int code = 0; code < kCodes[kLiteralLength]; ++code) {
      tables.least_literal_length[code] = least;
      least += 1u << extra_bits(kLiteralLength, code);
    }
    least = 3;
    for (int code = 0; code < kCodes[kMatchLength]; ++code) {
      tables.least_match_length[code] = least;
      least += 1u << extra_bits(kMatchLength, code);
    }
  }
  __syncwarp();
}

// The table of 2^log states of codes that are expected tables.counts times.
template <class Extra>
__device__ void make_states(Tables& tables, int codes, int log, uint32_t* states, const Extra& extra) {
  const auto lane = static_cast<int>(threadIdx.x);
  const int size = 1 << log;
  int end = size, spread = 0;
  __syncwarp();
  for (int code = 0; code < codes; ++code) {
    const int count = tables.counts[code];
    if (count < 0) --end;
    if (lane == 0) tables.next[code] = static_cast<uint16_t>(count < 0 ? 1 : count);
    if (lane == 0 && count < 0) states[end] = static_cast<uint32_t>(code);
    for (int i = lane; i < count; i += kWarp) tables.spread[spread + i] = static_cast<uint8_t>(code);
    if (count > 0) spread += count;
  }
  __syncwarp();
  const int step = size / 2 + size / 8 + 3;
  for (int first = 0, rank = 0; first < size; first += kWarp) {
    const int at = (first + lane) * step & (size - 1);
    const unsigned free = __ballot_sync(kAll, at < end);
    if (at < end) states[at] = tables.spread[rank + __popc(free & ((1u << lane) - 1))];
    rank += __popc(free);
  }
  __syncwarp();
  for (int first = 0; first < size; first += kWarp) {
    const auto code = static_cast<int>(states[first + lane]);
    const unsigned alike = __match_any_sync(kAll, code);
    const int before = __popc(alike & ((1u << lane) - 1));
    const auto next = static_cast<uint32_t>(tables.next[code] + before);
    const int bits = log - highest_bit(next);
    states[first + lane] = state_of(bits, extra(code), code, (next << bits) - static_cast<uint32_t>(size));
    __syncwarp();
    if (before == 0) tables.next[code] = static_cast<uint16_t>(tables.next[code] + __popc(alike));
    __syncwarp();
  }
}

// How often codes are expected, as a stream describes it from `at` on; moves `at` behind. The log, or 0 where it is no
// description.
__device__ int read_counts(const Source& source, uint32_t& at, uint32_t end, int most_log, int most_codes,
                           Tables& tables, int& codes) {
  Forward bits(source, at, end);
  const int log = static_cast<int>(bits.take(4)) + 5;
  if (log > most_log) return 0;
  int remaining = (1 << log) + 1, threshold = 1 << log, width = log + 1, code = 0;
  bool was_none = false;
  __syncwarp();
  const auto put = [&](int count) {
    if (threadIdx.x == 0) tables.counts[code] = static_cast<int16_t>(count);
    ++code;
  };
  while (remaining > 1) {
    if (was_none) {
      for (uint32_t more = 3; more == 3;) {
        more = bits.take(2);
        if (bits.has_ended() || code + static_cast<int>(more) > most_codes) return 0;
        for (uint32_t i = 0; i < more; ++i) put(0);
      }
    }
    if (code >= most_codes || bits.has_ended()) return 0;
    const int short_ones = 2 * threshold - 1 - remaining;
    int count = static_cast<int>(bits.peek(width - 1));
    if (count < short_ones) {
      bits.skip(width - 1);
    } else {
      count = static_cast<int>(bits.take(width));
      if (count >= threshold) count -= short_ones;
    }
    --count;
    remaining -= count < 0 ? 1 : count;
    put(count);
    was_none = count == 0;
    for (; remaining < threshold && threshold > 1; threshold /= 2) --width;
  }
  if (remaining != 1 || bits.has_ended()) return 0;
  codes = code;
  at = bits.next_byte();
  return log;
}

// --- literals ---

// The weights of a tree, of all bytes but the last one that has a code. How many, or 0.
__device__ int read_weights(const Source& source, uint32_t& at, uint32_t end, Tables& tables) {
  if (at >= end) return 0;
  const uint32_t head = source.byte(at++);
  if (head >= 128) {  // as they are
    const auto count = static_cast<int>(head - 127);
    const uint32_t bytes = (head - 126) / 2;
    if (bytes > end - at) return 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kWarp)
      tables.weights[i] =
          static_cast<uint8_t>(source.byte(at + static_cast<uint32_t>(i) / 2) >> (i % 2 == 0 ? 4 : 0) & 15);
    at += bytes;
    return count;
  }
  if (head > end - at) return 0;
  end = at + head;
  int codes = 0;
  const int log = read_counts(source, at, end, kWeightLog, /*most_codes=*/16, tables, codes);
  if (log == 0) return 0;
  uint32_t* const states = tables.weight_states;
  make_states(tables, codes, log, states, [](int) { return 0; });
  Backward bits;
  if (!bits.open(source, at, end - at)) return 0;
  bits.refill();
  uint32_t state[2];
  for (uint32_t& one : state) one = states[bits.take(static_cast<uint32_t>(log))];
  if (bits.left() < 0) return 0;
  at = end;
  for (int count = 0, turn = 0; count < kMostWeights - 2; turn = 1 - turn) {
    const uint32_t now = turn == 0 ? state[0] : state[1], other = turn == 0 ? state[1] : state[0];
    if (threadIdx.x == 0) tables.weights[count] = static_cast<uint8_t>(code_of(now));
    ++count;
    bits.refill();
    const uint32_t next = states[base_of(now) + bits.take(bits_of(now))];
    if (bits.left() < 0) {  // the other one is the last
      if (threadIdx.x == 0) tables.weights[count] = static_cast<uint8_t>(code_of(other));
      return count + 1;
    }
    (turn == 0 ? state[0] : state[1]) = next;
  }
  return 0;
}

// The table of a tree, which stands at `at`. False where it is none.
__device__ bool read_tree(const Source& source, uint32_t& at, uint32_t end, Tables& tables, Held& held) {
  const auto lane = static_cast<int>(threadIdx.x);
  held.huffman_bits = 0;
  __syncwarp();
  int count = read_weights(source, at, end, tables);
  if (count == 0) return false;
  __syncwarp();
  uint32_t sum = 0;
  bool is_bad = false;
  for (int i = lane; i < count; i += kWarp) {
    const int weight = tables.weights[i];
    if (weight > kHuffmanBits)
      is_bad = true;
    else
      sum += 1u << weight >> 1;
  }
  if (__ballot_sync(kAll, is_bad) != 0) return false;
  for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAll, sum, distance);
  if (sum == 0) return false;
  const int bits = highest_bit(sum) + 1;
  if (bits > kHuffmanBits) return false;
  const uint32_t rest = (1u << bits) - sum;  // what the last byte's weight leaves nothing of
  if ((rest & (rest - 1)) != 0) return false;
  const int last = highest_bit(rest) + 1;
  if (lane == 0) tables.weights[count] = static_cast<uint8_t>(last);
  ++count;
  __syncwarp();
  // Bytes in the order of weights, then of their values; and where those of each weight end.
  for (int w = 1, first = 0; w <= bits; ++w) {
    for (int i = 0; i < count; i += kWarp) {
      const bool is_one = i + lane < count && tables.weights[i + lane] == w;
      const unsigned ones = __ballot_sync(kAll, is_one);
      if (is_one) tables.by_weight[first + __popc(ones & ((1u << lane) - 1))] = static_cast<uint8_t>(i + lane);
      first += __popc(ones);
    }
    if (w == 1 && first < 2) return false;
    if (lane == 0) tables.next[w] = static_cast<uint16_t>(first);
  }
  __syncwarp();
  for (uint32_t i = threadIdx.x; i < 1u << bits; i += kWarp) {
    uint32_t begin = 0, first = 0;
    int weight = 1;
    for (; weight < bits; ++weight) {
      const uint32_t end_of_weight = tables.next[weight],
                     end_of_part = begin + ((end_of_weight - first) << weight >> 1);
      if (i < end_of_part) break;
      begin = end_of_part;
      first = end_of_weight;
    }
    const uint32_t byte = tables.by_weight[first + ((i - begin) >> (weight - 1))];
    tables.huffman[i] = static_cast<uint16_t>(byte << 8 | static_cast<uint32_t>(bits + 1 - weight));
  }
  __syncwarp();
  held.huffman_bits = bits;
  return true;
}

// One of a block's streams of literals, by one thread. False where its bits are not `count` codes.
__device__ bool decode_literals(const Source& source, uint32_t first, uint32_t bytes, const uint16_t* table, int width,
                                std::byte* to, uint32_t count) {
  Backward bits;
  if (!bits.open(source, first, bytes)) return false;
  const auto next = [&] {
    const uint32_t entry = table[bits.peek(width)];
    bits.skip(entry & 0xff);
    return entry >> 8;
  };
  std::byte* const end = to + count;
  const auto one = [&] {
    bits.refill();
    *to++ = static_cast<std::byte>(next());
  };
  while (to < end && (reinterpret_cast<uintptr_t>(to) & 3) != 0) one();
  for (; end - to >= 4; to += 4) {
    bits.refill();
    uint32_t word = next();
    word |= next() << 8;
    bits.refill();
    word |= next() << 16;
    word |= next() << 24;
    *reinterpret_cast<uint32_t*>(to) = word;
  }
  while (to < end) one();
  return bits.left() == 0;
}

// Where literals are: all the same byte where the step is 0.
struct Literals {
  const std::byte* from = nullptr;
  uint32_t count = 0, step = 1;
  __device__ std::byte operator[](uint32_t i) const { return from[i * step]; }
  __device__ void skip(uint32_t bytes) {
    from += static_cast<size_t>(bytes * step);
    count -= bytes;
  }
};

// Where a stream's bytes go.
class Output {
 public:
  __device__ Output(std::byte* to, uint32_t room) : to_(to), room_(room) {}
  __device__ uint32_t at() const { return at_; }
  __device__ uint32_t left() const { return room_ - at_; }
  __device__ std::byte* here() const { return to_ + at_; }
  __device__ std::byte* end() const { return to_ + room_; }

  // Literals, which may lie in the room, from here on.
  __device__ void put(Literals& literals, uint32_t count) {
    constexpr uint32_t kAtOnce = 8;  // bytes of a thread: they are read before any is written
    if (literals.from != here() || literals.step == 0) {
      for (uint32_t begin = 0; begin < count; begin += kAtOnce * kWarp) {
        std::byte bytes[kAtOnce];
        QUARRY_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) {
          const uint32_t i = begin + k * kWarp + threadIdx.x;
          if (i < count) bytes[k] = literals[i];
        }
        __syncwarp();
        QUARRY_UNROLL for (uint32_t k = 0; k < kAtOnce; ++k) {
          const uint32_t i = begin + k * kWarp + threadIdx.x;
          if (i < count) here()[i] = bytes[k];
        }
      }
    }
    literals.skip(count);
    at_ += count;
  }
  // Literals, and bytes that were there before, again. Of up to a warp's bytes each thread reads one, and writes it
  // when the next ones are to be read: reading takes longer than decoding the next sequence.
  __device__ void put(Literals& literals, uint32_t count, uint32_t offset, uint32_t length) {
    settle();
    if (count > kWarp || length > kWarp) {
      put(literals, count);
      __syncwarp();
      const std::byte* const from = here() - offset;
      QUARRY_UNROLL for (uint32_t i = threadIdx.x; i < length; i += kWarp) here()[i] =
          from[i < offset ? i : i % offset];
      at_ += length;
      return;
    }
    pending_at_ = at_;
    pending_literals_ = count;
    pending_ = length;
    if (threadIdx.x < count) literal_ = literals[threadIdx.x];
    if (threadIdx.x < length) {
      const uint32_t i = count + (threadIdx.x < offset ? threadIdx.x : threadIdx.x % offset);
      byte_ = i >= offset ? literals[i - offset] : *(here() + i - offset);
    }
    literals.skip(count);
    at_ += count + length;
  }
  // What was written by one thread of the warp is read by all after it. It goes where literals may have been that
  // others read.
  __device__ void settle() {
    __syncwarp();
    std::byte* const to = to_ + pending_at_;
    if (threadIdx.x < pending_literals_) to[threadIdx.x] = literal_;
    if (threadIdx.x < pending_) to[pending_literals_ + threadIdx.x] = byte_;
    pending_ = pending_literals_ = 0;
    __syncwarp();
  }

 private:
  std::byte* const to_;
  const uint32_t room_;
  uint32_t at_ = 0, pending_at_ = 0, pending_literals_ = 0, pending_ = 0;
  std::byte literal_{}, byte_{};
};

// The literals of a block, which begin at `at`; moves it behind.
__device__ StreamStatus read_literals(const Source& source, uint32_t& at, uint32_t end, uint32_t most, Tables& tables,
                                      Held& held, const Output& out, Literals& literals) {
  constexpr int kRaw = 0, kOneByte = 1, kWithTree = 2;
  const uint32_t head = source.word(at), kind = head & 3, format = head >> 2 & 3;
  if (kind <= kOneByte) {
    const uint32_t bytes = format == 1 ? 2 : format == 3 ? 3 : 1;
    literals.count = format == 1 ? head >> 4 & 0xfff : format == 3 ? head >> 4 & 0xfffff : head >> 3 & 0x1f;
    const uint32_t stored = kind == kRaw ? literals.count : 1;
    if (bytes > end - at || stored > end - at - bytes || literals.count > most) return StreamStatus::damaged;
    literals.from = source.at(at + bytes);
    literals.step = kind == kRaw ? 1 : 0;
    at += bytes + stored;
    return literals.count > out.left() ? StreamStatus::too_long : StreamStatus::good;
  }
  const int width = format < 2 ? 10 : format == 2 ? 14 : 18;  // of both sizes
  const auto bytes = static_cast<uint32_t>((4 + 2 * width + 7) / 8);
  const uint64_t sizes = (head | static_cast<uint64_t>(source.byte(at + 4)) << 32) >> 4;
  const uint32_t mask = (1u << width) - 1;
  literals.count = static_cast<uint32_t>(sizes) & mask;
  const uint32_t stored = static_cast<uint32_t>(sizes >> width) & mask;
  if (bytes > end - at || stored > end - at - bytes || literals.count > most || literals.count == 0)
    return StreamStatus::damaged;
  if (literals.count > out.left()) return StreamStatus::too_long;
  at += bytes;
  end = at + stored;
  if (kind == kWithTree ? !read_tree(source, at, end, tables, held) : held.huffman_bits == 0)
    return StreamStatus::damaged;
  // Where nothing else is in the block they belong where the room goes on.
  const bool is_alone = source.byte(end) == 0;
  std::byte* const to = is_alone ? out.here() : out.end() - literals.count;
  literals.from = to;
  literals.step = 1;
  bool is_good = false;
  if (format == 0) {
    in_threads(1, [&](uint32_t) {
      is_good = decode_literals(source, at, end - at, tables.huffman, held.huffman_bits, to, literals.count);
    });
    is_good = __ballot_sync(kAll, is_good) != 0;
  } else {
    constexpr uint32_t kStreams = 4, kHead = 6;
    const uint32_t part = (literals.count + kStreams - 1) / kStreams;
    if (kHead > end - at || part * (kStreams - 1) > literals.count) return StreamStatus::damaged;
    const uint32_t first = at + kHead;
    const uint32_t sizes_of[] = {source.word(at) & 0xffff, source.word(at) >> 16, source.word(at + 4) & 0xffff};
    const uint32_t before = sizes_of[0] + sizes_of[1] + sizes_of[2];
    if (before > end - first) return StreamStatus::damaged;
    bool is_bad = false;
    in_threads(kStreams, [&](uint32_t i) {
      const uint32_t begin = i == 0 ? 0 : i == 1 ? sizes_of[0] : i == 2 ? sizes_of[0] + sizes_of[1] : before;
      const uint32_t size = i == 0 ? sizes_of[0] : i == 1 ? sizes_of[1] : i == 2 ? sizes_of[2] : end - first - before;
      const uint32_t count = i + 1 < kStreams ? part : literals.count - part * (kStreams - 1);
      if (!decode_literals(source, first + begin, size, tables.huffman, held.huffman_bits, to + i * part, count))
        is_bad = true;
    });
    is_good = __ballot_sync(kAll, is_bad) == 0;
  }
  __syncwarp();
  at = end;
  return is_good ? StreamStatus::good : StreamStatus::damaged;
}

// --- sequences ---

__device__ uint32_t* states_of(Tables& tables, Number number) {
  return number == kLiteralLength ? tables.literal_lengths : number == kOffset ? tables.offsets : tables.match_lengths;
}

// The table of one of the numbers, in one of the four ways that a block has.
__device__ bool read_states(const Source& source, uint32_t& at, uint32_t end, Tables& tables, Held& held, Number number,
                            uint32_t way) {
  constexpr uint32_t kUsual = 0, kOneCode = 1, kAsBefore = 3;
  const auto extra = [number](int code) { return extra_bits(number, code); };
  uint32_t* const states = states_of(tables, number);
  if (way == kAsBefore) return held.logs[number] >= 0;
  __syncwarp();
  if (way == kOneCode) {
    const auto code = static_cast<int>(source.byte(at));
    if (at >= end || code >= kCodes[number]) return false;
    ++at;
    if (threadIdx.x == 0) states[0] = state_of(0, extra(code), code, 0);
    __syncwarp();
    held.logs[number] = 0;
    return true;
  }
  int codes = 0, log = 0;
  if (way == kUsual) {
    const int8_t* const counts = number == kLiteralLength ? kUsualLiteralLengths
                                 : number == kOffset      ? kUsualOffsets
                                                          : kUsualMatchLengths;
    codes = number == kOffset ? 29 : kCodes[number];
    log = kUsualLogs[number];
    for (int i = static_cast<int>(threadIdx.x); i < codes; i += kWarp) tables.counts[i] = counts[i];
  } else {
    log = read_counts(source, at, end, kLogs[number], kCodes[number], tables, codes);
    if (log == 0) return false;
  }
  make_states(tables, codes, log, states, extra);
  held.logs[number] = log;
  return true;
}

// The offset that a value stands for, which becomes the last one. 0 where there is none.
__device__ uint32_t offset_of(uint32_t value, bool no_literals, uint32_t (&last)[3]) {
  if (value > 3) {
    last[2] = last[1];
    last[1] = last[0];
    return last[0] = value - 3;
  }
  const uint32_t which = value - 1 + (no_literals ? 1 : 0);
  if (which == 0) return last[0];
  const uint32_t offset = which == 1 ? last[1] : which == 2 ? last[2] : last[0] - 1;
  if (which > 1) last[2] = last[1];
  last[1] = last[0];
  return last[0] = offset;
}

__device__ StreamStatus decode_sequences(Backward& bits, const Tables& tables, Held& held, uint32_t count,
                                         uint32_t before, uint32_t most, Literals& literals, Output& out) {
  // Of the room that this block may fill, literals are taken first.
  uint32_t left = (out.left() < most ? out.left() : most) - literals.count;
  const StreamStatus overflow = out.left() < most ? StreamStatus::too_long : StreamStatus::damaged;
  uint32_t last[3] = {held.offsets[0], held.offsets[1], held.offsets[2]};
  bits.refill();
  uint32_t literal_state = tables.literal_lengths[bits.take(static_cast<uint32_t>(held.logs[kLiteralLength]))];
  uint32_t offset_state = tables.offsets[bits.take(static_cast<uint32_t>(held.logs[kOffset]))];
  bits.refill();
  uint32_t match_state = tables.match_lengths[bits.take(static_cast<uint32_t>(held.logs[kMatchLength]))];
  for (uint32_t i = 0;;) {
    bits.refill();
    const uint32_t value = (1u << code_of(offset_state)) + bits.take(extra_of(offset_state));
    bits.refill();
    const uint32_t length = tables.least_match_length[code_of(match_state)] + bits.take(extra_of(match_state));
    const uint32_t taken = tables.least_literal_length[code_of(literal_state)] + bits.take(extra_of(literal_state));
    if (bits.left() < 0) return StreamStatus::damaged;
    if (++i < count) {
      bits.refill();
      literal_state = tables.literal_lengths[base_of(literal_state) + bits.take(bits_of(literal_state))];
      match_state = tables.match_lengths[base_of(match_state) + bits.take(bits_of(match_state))];
      offset_state = tables.offsets[base_of(offset_state) + bits.take(bits_of(offset_state))];
    }
    const uint32_t offset = offset_of(value, taken == 0, last);
    if (taken > literals.count || offset == 0 || offset > out.at() - before + taken) return StreamStatus::damaged;
    if (length > left) return overflow;
    left -= length;
    out.put(literals, taken, offset, length);
    if (i == count) break;
  }
  out.settle();
  for (int i = 0; i < 3; ++i) held.offsets[i] = last[i];
  return bits.left() == 0 ? StreamStatus::good : StreamStatus::damaged;
}

// A block of codes, of bytes at..end. The frame began at `before` in the room.
__device__ StreamStatus decode_block(const Source& source, uint32_t at, uint32_t end, uint32_t before, uint32_t most,
                                     Tables& tables, Held& held, Output& out) {
  Literals literals;
  if (at == end) return StreamStatus::damaged;
  const StreamStatus status = read_literals(source, at, end, most, tables, held, out, literals);
  if (status != StreamStatus::good) return status;
  if (at >= end) return StreamStatus::damaged;
  uint32_t count = source.byte(at++);
  if (count == 0) {
    if (at != end) return StreamStatus::damaged;
    out.put(literals, literals.count);
    __syncwarp();
    return StreamStatus::good;
  }
  if (count == 255) {
    count = source.byte(at) + (source.byte(at + 1) << 8) + 0x7f00;
    at += 2;
  } else if (count >= 128) {
    count = ((count - 128) << 8) + source.byte(at++);
  }
  if (at >= end || count == 0) return StreamStatus::damaged;
  const uint32_t ways = source.byte(at++);
  if ((ways & 3) != 0) return StreamStatus::damaged;
  for (const Number number : {kLiteralLength, kOffset, kMatchLength})
    if (!read_states(source, at, end, tables, held, number, ways >> (6 - 2 * number) & 3)) return StreamStatus::damaged;
  Backward bits;
  if (at >= end || !bits.open(source, at, end - at)) return StreamStatus::damaged;
  const StreamStatus sequences = decode_sequences(bits, tables, held, count, before, most, literals, out);
  if (sequences != StreamStatus::good) return sequences;
  out.put(literals, literals.count);
  __syncwarp();
  return StreamStatus::good;
}

// --- frames ---

constexpr uint64_t kPrime1 = 11400714785074694791u, kPrime2 = 14029467366897019727u, kPrime3 = 1609587929392839161u,
                   kPrime4 = 9650029242287828579u, kPrime5 = 2870177450012600261u;

__device__ uint64_t rotated(uint64_t value, int bits) { return value << bits | value >> (64 - bits); }
__device__ uint64_t round_of(uint64_t sum, uint64_t word) { return rotated(sum + word * kPrime2, 31) * kPrime1; }
__device__ uint64_t word_at(const std::byte* from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(from[i]) << (8 * i);
  return value;
}

// XXH64, of which a frame has the low half.
__device__ uint32_t checksum(const std::byte* bytes, uint32_t count, Tables& tables) {
  constexpr uint32_t kSums = 4, kStripe = 32;
  uint64_t sum = kPrime5;
  const std::byte* const end = bytes + count;
  if (count >= kStripe) {
    in_threads(kSums, [&](uint32_t i) {
      uint64_t mine = i == 0 ? kPrime1 + kPrime2 : i == 1 ? kPrime2 : i == 2 ? 0 : 0 - kPrime1;
      const std::byte* from = bytes + static_cast<size_t>(i) * 8;
      const uint32_t stripes = count / kStripe;
      if (reinterpret_cast<uintptr_t>(from) % 8 == 0) {
        QUARRY_UNROLL for (uint32_t s = 0; s < stripes; ++s) mine =
            round_of(mine, reinterpret_cast<const uint64_t*>(from)[static_cast<size_t>(s) * 4]);
      } else {
        for (uint32_t s = 0; s < stripes; ++s)
          mine = round_of(mine, word_at(from + static_cast<size_t>(s) * kStripe, 8));
      }
      tables.sums[i] = mine;
    });
    __syncwarp();
    const uint64_t* const sums = tables.sums;
    sum = rotated(sums[0], 1) + rotated(sums[1], 7) + rotated(sums[2], 12) + rotated(sums[3], 18);
    for (uint32_t i = 0; i < kSums; ++i) sum = (sum ^ round_of(0, sums[i])) * kPrime1 + kPrime4;
    bytes += count / kStripe * kStripe;
    __syncwarp();
  }
  sum += count;
  for (; end - bytes >= 8; bytes += 8) sum = rotated(sum ^ round_of(0, word_at(bytes, 8)), 27) * kPrime1 + kPrime4;
  if (end - bytes >= 4) {
    sum = rotated(sum ^ word_at(bytes, 4) * kPrime1, 23) * kPrime2 + kPrime3;
    bytes += 4;
  }
  for (; bytes < end; ++bytes) sum = rotated(sum ^ word_at(bytes, 1) * kPrime5, 11) * kPrime1;
  sum = (sum ^ sum >> 33) * kPrime2;
  sum = (sum ^ sum >> 29) * kPrime3;
  return static_cast<uint32_t>(sum ^ sum >> 32);
}

// A frame, whose magic number ends at `at`; moves it behind.
__device__ StreamStatus decode_frame(const Source& source, uint32_t& at, Tables& tables, Output& out) {
  constexpr uint32_t kMostWindowLog = 31;  // as elsewhere
  if (at >= source.bytes()) return StreamStatus::damaged;
  const uint32_t head = source.byte(at++), dictionary_bytes = (1u << (head & 3)) >> 1;
  const bool is_checked = (head & 4) != 0, is_single = (head & 0x20) != 0;
  if ((head & 8) != 0) return StreamStatus::damaged;
  uint64_t window = 0;
  if (!is_single) {
    const uint32_t byte = source.byte(at++), log = 10 + (byte >> 3);
    if (log > kMostWindowLog) return StreamStatus::damaged;
    window = (uint64_t{1} << log) + ((uint64_t{1} << log) >> 3) * (byte & 7);
  }
  uint32_t dictionary = 0;
  for (uint32_t i = 0; i < dictionary_bytes; ++i) dictionary |= source.byte(at + i);
  if (dictionary != 0) return StreamStatus::dictionary;
  at += dictionary_bytes;
  const uint32_t flag = head >> 6, size_bytes = flag == 0 ? (is_single ? 1 : 0) : 1u << flag;
  uint64_t size = 0;
  for (uint32_t i = 0; i < size_bytes; ++i) size |= static_cast<uint64_t>(source.byte(at + i)) << (8 * i);
  if (size_bytes == 2) size += 256;
  at += size_bytes;
  if (at > source.bytes()) return StreamStatus::damaged;
  if (size > out.left()) return StreamStatus::too_long;
  if (is_single) window = size;
  const uint32_t most = window < kMostBlockBytes ? static_cast<uint32_t>(window) : kMostBlockBytes;

  const uint32_t before = out.at();
  Held held;
  for (bool is_last = false; !is_last;) {
    constexpr uint32_t kHead = 3, kRaw = 0, kOneByte = 1, kCodes = 2;
    if (source.bytes() - at < kHead) return StreamStatus::damaged;
    const uint32_t block = source.word(at) & 0xffffff, kind = block >> 1 & 3, bytes = block >> 3;
    is_last = (block & 1) != 0;
    at += kHead;
    const uint32_t stored = kind == kOneByte ? 1 : bytes;
    if (kind > kCodes || stored > source.bytes() - at || bytes > most) return StreamStatus::damaged;
    if (kind == kCodes) {
      const StreamStatus status = decode_block(source, at, at + stored, before, most, tables, held, out);
      if (status != StreamStatus::good) return status;
    } else {
      if (bytes > out.left()) return StreamStatus::too_long;
      Literals literals{source.at(at), bytes, kind == kRaw ? 1u : 0u};
      out.put(literals, bytes);
      __syncwarp();
    }
    at += stored;
  }
  const uint32_t made = out.at() - before;
  if (size_bytes > 0 && made != size) return StreamStatus::damaged;
  if (!is_checked) return StreamStatus::good;
  if (source.bytes() - at < 4) return StreamStatus::damaged;
  const uint32_t expected = source.word(at);
  at += 4;
  return checksum(out.here() - made, made, tables) == expected ? StreamStatus::good : StreamStatus::wrong_checksum;
}

__device__ StreamStatus decode(const EncodedStream& stream, Tables& tables) {
  constexpr uint32_t kMagic = 0xfd2fb528, kSkipped = 0x184d2a50;
  const Source source(stream.from, static_cast<uint32_t>(stream.bytes));
  Output out(stream.to, static_cast<uint32_t>(stream.to_bytes));
  make_lengths(tables);
  for (uint32_t at = 0; at < source.bytes();) {
    if (source.bytes() - at < 8) return StreamStatus::damaged;  // no frame is shorter
    const uint32_t magic = source.word(at);
    at += 4;
    if ((magic & ~15u) == kSkipped) {
      const uint32_t bytes = source.word(at);
      at += 4;
      if (bytes > source.bytes() - at) return StreamStatus::damaged;
      at += bytes;
      continue;
    }
    if (magic != kMagic) return StreamStatus::damaged;
    const StreamStatus status = decode_frame(source, at, tables, out);
    if (status != StreamStatus::good) return status;
  }
  return out.left() > 0 ? StreamStatus::too_short : StreamStatus::good;
}

}  // namespace
}  // namespace quarry::local::cuda::zstd
