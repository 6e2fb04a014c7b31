// Decoders of chunks: every compressor, and rows of filters both ways.
#include <bzlib.h>
#include <liblzf/lzf.h>
#include <lz4.h>

#include <array>
#include <memory>

#include "quarry/io/codecs/streams.h"
#include "quarry/io/hdf5/codecs/codec.h"
#include "quarry/io/hdf5/filters.h"
#include "tests/fuzz/read_all.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets/target.h"
#include "tests/support/one_thread_warp.h"

// After what stands for CUDA.
#include "quarry/local/cuda/inflate.cuh"
#include "quarry/local/cuda/zstd.cuh"

extern "C" {  // Debian 12's header does not say it
#include <szlib.h>
}

namespace quarry::test {
namespace {

using io::Filter;
using io::hdf5::Codec;
using Bytes = std::span<const std::byte>;

constexpr size_t kMostValues = 8;

std::vector<uint32_t> take_values(Input& in) {
  std::vector<uint32_t> out(in.u8() % (kMostValues + 1));
  for (uint32_t& value : out) value = in.u32();
  return out;
}

void put_values(std::span<const uint32_t> values, Output& out) {
  out.u8(values.size());
  for (const uint32_t value : values) out.u32(value);
}

// Decodes into memory of two contents, which must not matter: what the decoder does not write is nobody's.
template <class Decode>
bool decodes(size_t bytes, const Decode& decode) {
  std::array<Content, 2> out{Content(bytes, std::byte{0}), Content(bytes, std::byte{0xff})};
  std::array<std::optional<size_t>, 2> made;
  try {
    for (size_t i = 0; i < out.size(); ++i) made[i] = decode(std::span(out[i]));
  } catch (const local::Error&) {
    return false;
  }
  QUARRY_CHECK(made[0] == made[1]);
  if (!made[0]) return false;
  QUARRY_CHECK(*made[0] <= bytes);
  QUARRY_CHECK(std::ranges::equal(std::span(out[0]).first(*made[0]), std::span(out[1]).first(*made[0])));
  return true;
}

// --- one compressor: parameters, the size of the chunk, the stream ---

template <Filter::Kind kKind>
bool run_codec(Bytes bytes) {
  Input in(bytes);
  const std::vector<uint32_t> values = take_values(in);
  const size_t size = std::max(in.u16(), 1u);
  const Codec& codec = *io::hdf5::find_codec(kKind);
  try {
    codec.decoded_bytes(values, in.rest());
  } catch (const local::Error&) {  // decode() says so too
  }
  return decodes(size, [&](std::span<std::byte> out) { return codec.decode(values, in.rest(), out); });
}

// A decoder of a device, a warp of one thread, beside the host's: what it takes for right is. The input is that of the
// codec, so that words of the stream begin anywhere.
template <class Tables>
bool run_device(Bytes bytes, local::StreamStatus (*decode)(const local::EncodedStream&, Tables&),
                std::optional<size_t> (*decode_on_host)(Bytes, std::span<std::byte>)) {
  Input in(bytes);
  take_values(in);
  const size_t size = std::max(in.u16(), 1u);
  const Bytes stream = in.rest();
  const size_t shift = stream.size() % 4;
  std::vector<uint32_t> words((shift + stream.size() + 3) / 4);
  auto* const from = reinterpret_cast<std::byte*>(words.data()) + shift;
  std::copy(stream.begin(), stream.end(), from);
  Content out(size), expected(size);
  const auto tables = std::make_unique<Tables>();
  const local::EncodedStream encoded{from, static_cast<int64_t>(stream.size()), out.data(), static_cast<int64_t>(size)};
  if (decode(encoded, *tables) != local::StreamStatus::good) return false;
  const auto made = decode_on_host(stream, expected);
  QUARRY_CHECK(made == size);
  QUARRY_CHECK(out == expected);
  return true;
}

bool run_device_deflate(Bytes bytes) {
  return run_device<local::cuda::Tables>(bytes, local::cuda::decode, io::decode_zlib);
}
bool run_device_zstd(Bytes bytes) {
  return run_device<local::cuda::zstd::Tables>(bytes, local::cuda::zstd::decode, io::decode_zstd);
}

Content sample_chunk() {
  Content out(600);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i % 4 == 0 ? i / 4 * i : i % 4 == 1);
  return out;
}

Content seed_of(std::span<const uint32_t> values, size_t chunk_bytes, Bytes stream) {
  Output out;
  put_values(values, out);
  return out.u16(chunk_bytes).append(stream).take();
}

// What quarry itself writes.
template <Filter::Kind kKind>
std::vector<Content> codec_seeds() {
  const Codec& codec = *io::hdf5::find_codec(kKind);
  const Content chunk = sample_chunk();
  std::vector<Content> out;
  for (const int level : {1, 9}) {
    const auto values = codec.values({kKind, level, ""}, /*itemsize=*/4, std::ssize(chunk));
    Content stream(codec.most_bytes(values, chunk.size()));
    stream.resize(codec.encode(values, chunk, stream));
    out.push_back(seed_of(values, chunk.size(), stream));
  }
  return out;
}

std::vector<Content> blosc_seeds() {
  const Content chunk = sample_chunk();
  std::vector<Content> out;
  for (const int shuffle : {0, 1, 2})
    for (const int compressor : {0, 1, 2, 4, 5}) {
      Content stream(io::most_blosc_bytes(chunk.size()));
      stream.resize(io::encode_blosc({.shuffle = shuffle, .compressor = compressor, .element = 4}, chunk, stream));
      out.push_back(seed_of({}, chunk.size(), stream));
    }
  return out;
}

std::vector<Content> lzf_seeds() {
  const Content chunk = sample_chunk();
  Content stream(chunk.size());
  stream.resize(lzf_compress(chunk.data(), static_cast<unsigned>(chunk.size()), stream.data(),
                             static_cast<unsigned>(stream.size())));
  const std::array values = {uint32_t{4}, uint32_t{0x105}, static_cast<uint32_t>(chunk.size())};
  return {seed_of(values, chunk.size(), stream)};
}

std::vector<Content> bzip2_seeds() {
  Content chunk = sample_chunk(), stream(2 * chunk.size());
  auto bytes = static_cast<unsigned>(stream.size());
  QUARRY_CHECK(BZ2_bzBuffToBuffCompress(reinterpret_cast<char*>(stream.data()), &bytes,
                                        reinterpret_cast<char*>(chunk.data()), static_cast<unsigned>(chunk.size()),
                                        /*blockSize100k=*/1, /*verbosity=*/0, /*workFactor=*/0) == BZ_OK);
  return {seed_of({}, chunk.size(), Bytes(stream).first(bytes))};
}

std::vector<Content> szip_seeds() {
  const Content chunk = sample_chunk();
  std::vector<Content> out;
  for (const uint32_t mask : {SZ_NN_OPTION_MASK, SZ_EC_OPTION_MASK, SZ_NN_OPTION_MASK | SZ_MSB_OPTION_MASK})
    for (const uint32_t bits : {8, 16, 32, 64}) {
      const std::array values = {uint32_t{mask}, uint32_t{8}, bits, uint32_t{64}};
      SZ_com_t parameters{static_cast<int>(mask), static_cast<int>(bits), 8, 64};
      Content stream(2 * chunk.size());
      size_t bytes = stream.size();
      QUARRY_CHECK(SZ_BufftoBuffCompress(stream.data(), &bytes, chunk.data(), chunk.size(), &parameters) == SZ_OK);
      Output head;
      const auto whole = head.u32(chunk.size()).append(Bytes(stream).first(bytes)).take();
      out.push_back(seed_of(values, chunk.size(), whole));
    }
  return out;
}

void put_big_endian(Output& out, uint64_t value, size_t width) {
  for (size_t i = width; i-- > 0;) out.u8(value >> 8 * i & 0xff);
}

std::vector<Content> bitshuffle_seeds() {
  const Content chunk = sample_chunk();
  constexpr uint32_t kItem = 4, kBlock = 64, kPlain = 0, kLz4 = 2, kZstd = 3;
  std::vector<Content> out{seed_of(std::array{uint32_t{0}, uint32_t{2}, kItem, kBlock, kPlain}, chunk.size(), chunk)};
  for (const uint32_t compressor : {kLz4, kZstd}) {
    Output stream;
    put_big_endian(stream, chunk.size(), 8);
    put_big_endian(stream, kBlock * kItem, 4);
    const size_t whole = chunk.size() / (8 * kItem) * (8 * kItem);  // the rest is stored as it is
    for (size_t at = 0; at < whole; at += kBlock * kItem) {
      const Bytes part = Bytes(chunk).subspan(at, std::min<size_t>(kBlock * kItem, whole - at));
      Content packed(2 * part.size() + 64);
      packed.resize(compressor == kZstd
                        ? io::encode_zstd(3, part, packed)
                        : static_cast<size_t>(LZ4_compress_default(
                              reinterpret_cast<const char*>(part.data()), reinterpret_cast<char*>(packed.data()),
                              static_cast<int>(part.size()), static_cast<int>(packed.size()))));
      put_big_endian(stream, packed.size(), 4);
      stream.append(packed);
    }
    stream.append(Bytes(chunk).subspan(whole));
    out.push_back(
        seed_of(std::array{uint32_t{0}, uint32_t{2}, kItem, kBlock, compressor}, chunk.size(), stream.take()));
  }
  return out;
}

// --- gzip, which Zarr has ---

bool run_gzip(Bytes bytes) {
  Input in(bytes);
  const size_t size = std::max(in.u16(), 1u);
  return decodes(size, [&](std::span<std::byte> out) { return io::decode_gzip(in.rest(), out); });
}

std::vector<Content> gzip_seeds() {
  const Content chunk = sample_chunk();
  Content stream(io::most_gzip_bytes(5, chunk.size()));
  stream.resize(io::encode_gzip(5, chunk, stream));
  return {Output().u16(chunk.size()).append(stream).take()};
}

// --- rows of filters: how many, and each kind, level and parameters; which were skipped; the element, the chunk ---

struct Chunk {
  std::vector<Filter> filters;
  uint32_t mask = 0;
  int64_t itemsize = 1;
  size_t bytes = 0;
};

Chunk take_chunk(Input& in) {
  constexpr uint32_t kMostFilters = 4;
  const auto kinds = io::filter_kinds();
  Chunk out;
  out.filters.resize(in.u8() % (kMostFilters + 1));
  for (Filter& filter : out.filters) {
    const io::FilterKind& kind = kinds[in.u8() % kinds.size()];
    filter = {kind.kind, static_cast<int>(in.u8()), std::string(kind.name)};
    filter.values = take_values(in);
  }
  out.mask = in.u8();
  out.itemsize = 1 + in.u8();
  out.bytes = std::max(in.u16(), 1u);  // no chunk is empty
  return out;
}

Output put_chunk(const Chunk& chunk) {
  const auto kinds = io::filter_kinds();
  Output out;
  out.u8(chunk.filters.size());
  for (const Filter& filter : chunk.filters) {
    out.u8(static_cast<uint64_t>(std::ranges::find(kinds, filter.kind, &io::FilterKind::kind) - kinds.begin()));
    out.u8(static_cast<uint64_t>(filter.level));
    put_values(filter.values, out);
  }
  out.u8(chunk.mask).u8(static_cast<uint64_t>(chunk.itemsize - 1)).u16(chunk.bytes);
  return out;
}

bool run_filters(Bytes bytes) {
  Input in(bytes);
  const auto [filters, mask, itemsize, size] = take_chunk(in);
  if (!io::hdf5::directly_decodable(filters)) return false;
  Content scratch(static_cast<size_t>(io::hdf5::decode_scratch_bytes(filters, static_cast<int64_t>(size))));
  return decodes(size, [&, &filters = filters, mask = mask, itemsize = itemsize](std::span<std::byte> out) {
    io::hdf5::decode_chunk(filters, mask, itemsize, in.rest(), out, scratch);
    return std::optional(out.size());
  });
}

// A chunk that could be encoded is decoded to what it was; its parameters may be those of a file that is changed.
bool run_encoders(Bytes bytes) {
  Input in(bytes);
  auto [filters, mask, itemsize, size] = take_chunk(in);
  Content chunk(in.rest().begin(), in.rest().end());
  constexpr size_t kMostBytes = 4096;
  chunk.resize(std::min(chunk.size(), kMostBytes) / static_cast<size_t>(itemsize) * static_cast<size_t>(itemsize));
  if (chunk.empty() || !io::hdf5::directly_decodable(filters)) return false;
  const auto chunk_bytes = std::ssize(chunk);
  try {
    Content work(static_cast<size_t>(io::hdf5::encode_scratch_bytes(filters, itemsize, chunk_bytes)));
    work.resize(std::max(work.size(), chunk.size()));
    std::ranges::copy(chunk, work.begin());
    const auto stored = io::hdf5::encode_chunk(filters, itemsize, chunk_bytes, work);
    Content out(chunk.size()), scratch(static_cast<size_t>(io::hdf5::decode_scratch_bytes(filters, chunk_bytes)));
    io::hdf5::decode_chunk(filters, 0, itemsize, stored, out, scratch);
    QUARRY_CHECK(out == chunk);
    return true;
  } catch (const local::Error&) {
    return false;
  }
}

std::vector<Chunk> sample_chunks() {
  using Kind = Filter::Kind;
  std::vector<Chunk> out;
  for (const Kind kind : {Kind::deflate, Kind::lz4, Kind::zstd, Kind::blosc}) {
    const Filter filter{kind, 3, ""}, shuffle{Kind::shuffle, 0, ""}, check{Kind::fletcher32, 0, ""};
    out.push_back({{filter}, 0, 4, 600});
    out.push_back({{shuffle, filter, check}, 0, 4, 600});
    out.push_back({{check, shuffle, filter}, 0, 1, 600});
  }
  return out;
}

std::vector<Content> filter_seeds() {
  std::vector<Content> out;
  for (const Chunk& chunk : sample_chunks()) {
    const Content content = sample_chunk();
    Content work(static_cast<size_t>(io::hdf5::encode_scratch_bytes(chunk.filters, chunk.itemsize, 600)));
    std::ranges::copy(content, work.begin());
    out.push_back(put_chunk(chunk).append(io::hdf5::encode_chunk(chunk.filters, chunk.itemsize, 600, work)).take());
  }
  return out;
}

std::vector<Content> encoder_seeds() {
  std::vector<Content> out;
  for (const Chunk& chunk : sample_chunks()) out.push_back(put_chunk(chunk).append(sample_chunk()).take());
  return out;
}

}  // namespace

std::span<const Target> decoder_targets() {
  using Kind = Filter::Kind;
  static constexpr Target kTargets[] = {
      {"deflate", run_codec<Kind::deflate>, codec_seeds<Kind::deflate>},
      {"device_deflate", run_device_deflate, codec_seeds<Kind::deflate>},
      {"device_zstd", run_device_zstd, codec_seeds<Kind::zstd>},
      {"gzip", run_gzip, gzip_seeds},
      {"szip", run_codec<Kind::szip>, szip_seeds},
      {"bzip2", run_codec<Kind::bzip2>, bzip2_seeds},
      {"lzf", run_codec<Kind::lzf>, lzf_seeds},
      {"blosc", run_codec<Kind::blosc>, blosc_seeds},
      {"lz4", run_codec<Kind::lz4>, codec_seeds<Kind::lz4>},
      {"bitshuffle", run_codec<Kind::bitshuffle>, bitshuffle_seeds},
      {"zstd", run_codec<Kind::zstd>, codec_seeds<Kind::zstd>},
      {"filters", run_filters, filter_seeds},
      {"encoders", run_encoders, encoder_seeds},
  };
  return kTargets;
}

}  // namespace quarry::test
