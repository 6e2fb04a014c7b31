// The other formats: files of one piece as a whole, and Zarr's metadata with a chunk.
#include <optional>

#include "quarry/io/npy/header.h"
#include "quarry/io/npy/zip.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/zarr/codecs.h"
#include "quarry/io/zarr/metadata.h"
#include "tests/fuzz/mutants.h"
#include "tests/fuzz/targets/target.h"
#include "tests/support/temp_dir.h"

namespace quarry::test {
namespace {

using Bytes = std::span<const std::byte>;
using Seeds = std::vector<Content>;

// What `info` and `eval` do with a file of that name.
bool use_as(const char* name, Bytes bytes) {
  const TempDir dir;
  const std::string file = dir / name;
  save(file, bytes);
  try {
    const Use use = use_file(file);
    return use.read > 0 && use.refused == 0;
  } catch (const local::Error&) {
    return false;
  }
}

Content content_of(std::string_view text) { return Output().append(text).take(); }

// --- NumPy ---

bool run_npy(Bytes bytes) { return use_as("a.npy", bytes); }
bool run_npz(Bytes bytes) { return use_as("a.npz", bytes); }

std::string numbers(local::DType dtype, const local::Dims& shape) {
  std::string out = io::npy::header_text(dtype, shape);
  for (int64_t i = 0; i < local::element_count(shape) * local::itemsize(dtype); ++i) out += static_cast<char>(i % 50);
  return out;
}

std::string with_header(std::string header, size_t data_bytes) {
  constexpr size_t kHead = 10;
  header.resize(128 - kHead - 1, ' ');
  header += '\n';
  std::string out = "\x93NUMPY";
  out += {'\1', '\0', static_cast<char>(header.size()), '\0'};
  return out + header + std::string(data_bytes, 'x');
}

Seeds npy_seeds() {
  return {content_of(numbers(local::DType::float64, {3, 4})), content_of(numbers(local::DType::complex64, {})),
          content_of(with_header("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3)}", 12)),
          content_of(with_header("{'descr': '<M8[us]', 'fortran_order': False, 'shape': (2,)}", 16)),
          content_of(with_header(
              "{'descr': [('a', '<f4', (2,)), ('b', [('c', '|b1')])], 'fortran_order': False, 'shape': (3,)}", 27))};
}

// Stored, and deflated.
Seeds npz_seeds() {
  Seeds out;
  for (const bool deflated : {false, true}) {
    std::vector<io::npy::ZipMember> members;
    std::string file;
    for (const char* const name : {"x.npy", "folder/y.npy"}) {
      const std::string data = numbers(local::DType::int32, {5, static_cast<int64_t>(members.size()) + 1});
      const Content bytes = content_of(data);
      const std::string stored = deflated ? io::deflate_part(bytes, 6) + std::string(io::deflate_end()) : data;
      members.push_back({.name = name,
                         .method = deflated ? io::npy::ZipMember::kDeflated : io::npy::ZipMember::kStored,
                         .crc32 = io::checksum(0, bytes),
                         .stored_bytes = std::ssize(stored),
                         .bytes = std::ssize(data),
                         .header_offset = std::ssize(file)});
      file += io::npy::zip_local_header(members.back(), /*is_large=*/false) + stored;
    }
    out.push_back(content_of(file + io::npy::zip_directory(members, std::ssize(file))));
  }
  return out;
}

// --- CSV ---

bool run_csv(Bytes bytes) { return use_as("a.csv", bytes); }

Seeds csv_seeds() {
  return {content_of("a,b\n1,2\n3,-4.5e3\n"), content_of("date;x\r\n2020-01-31;1\r\n2020-02-01T12:30:59.25+01:00;\r\n"),
          content_of("\"a\"\"b\"\t\"c\nd\"\n1\tNaN\ninf\tnull\n"), content_of("1,True\n2,False\n\n3,True"),
          content_of("\xef\xbb\xbfx y,\n-0.5,1e300\n,3")};
}

// --- Zarr: the version, the lengths of the metadata and of the attributes, both, then an encoded chunk ---

bool run_zarr(Bytes bytes) {
  constexpr int64_t kMostChunkBytes = 1 << 16;
  Input in(bytes);
  const int version = in.u8() % 2 == 0 ? 2 : 3;
  const size_t json_bytes = in.u16(), attribute_bytes = in.u16();
  const Bytes rest = in.rest(), json = rest.first(std::min(json_bytes, rest.size()));
  const Bytes behind = rest.subspan(json.size());
  const Bytes attributes = behind.first(std::min(attribute_bytes, behind.size()));
  const Bytes stored = behind.subspan(attributes.size());
  const auto text = [](Bytes part) { return std::string(reinterpret_cast<const char*>(part.data()), part.size()); };
  try {
    io::zarr::parse_group_attributes(version == 2 ? text(attributes) : text(json), version, "a");
  } catch (const local::Error&) {  // it may be an array
  }
  try {
    const io::zarr::Metadata metadata = io::zarr::parse_metadata(text(json), text(attributes), version, "a");
    metadata.keys.of(local::Dims::filled(metadata.info.shape.size(), 1));
    const int64_t item = local::itemsize(metadata.info.dtype);
    QUARRY_CHECK(std::ssize(metadata.fill) == item);
    int64_t chunk_bytes = item;
    for (const int64_t extent : *metadata.info.chunks)
      if (__builtin_mul_overflow(chunk_bytes, extent, &chunk_bytes)) return false;
    if (chunk_bytes > kMostChunkBytes || std::ssize(stored) > io::zarr::most_stored_bytes(chunk_bytes)) return true;
    const auto room = static_cast<size_t>(io::zarr::most_stored_bytes(chunk_bytes));
    Content out(static_cast<size_t>(chunk_bytes)), work(2 * room);
    io::zarr::decode(metadata.codecs, stored, out, work);
    return true;
  } catch (const local::Error&) {
    return false;
  }
}

Content zarr_seed(int version, std::string_view json, std::string_view attributes, Bytes chunk) {
  return Output()
      .u8(version == 2 ? 0 : 1)
      .u16(json.size())
      .u16(attributes.size())
      .append(json)
      .append(attributes)
      .append(chunk)
      .take();
}

Seeds zarr_seeds() {
  const Content plain(48, std::byte{7});
  const std::vector<io::zarr::Codec> codecs{{io::zarr::Codec::Kind::shuffle, 0, 4},
                                            {io::zarr::Codec::Kind::zlib, 1, 4}};
  Content work(static_cast<size_t>(io::zarr::encode_scratch_bytes(codecs, std::ssize(plain))));
  std::ranges::copy(plain, work.begin());
  const auto encoded = io::zarr::encode(codecs, std::ssize(plain), work);
  return {
      zarr_seed(2,
                R"({"zarr_format": 2, "shape": [5, 8], "chunks": [3, 4], "dtype": "<f4", "compressor": null, )"
                R"("fill_value": "NaN", "order": "C", "filters": null, "dimension_separator": "/"})",
                R"({"_ARRAY_DIMENSIONS": ["x", "y"], "units": "m", "scale": [1.5, 2]})", plain),
      zarr_seed(2,
                R"({"zarr_format": 2, "shape": [12], "chunks": [12], "dtype": ">i4", "compressor": {"id": "zlib", )"
                R"("level": 1}, "fill_value": 0, "order": "F", "filters": [{"id": "shuffle", "elementsize": 4}]})",
                "{}", encoded),
      zarr_seed(3,
                R"({"zarr_format": 3, "node_type": "array", "shape": [5, 8], "data_type": "int32", "chunk_grid": )"
                R"({"name": "regular", "configuration": {"chunk_shape": [3, 4]}}, "chunk_key_encoding": {"name": )"
                R"("default", "configuration": {"separator": "/"}}, "fill_value": 0, "codecs": [{"name": "bytes", )"
                R"("configuration": {"endian": "little"}}], "attributes": {"a": 1}, "dimension_names": ["x", null]})",
                "", plain)};
}

}  // namespace

std::span<const Target> format_targets() {
  static constexpr Target kTargets[] = {{"npy", run_npy, npy_seeds},
                                        {"npz", run_npz, npz_seeds},
                                        {"csv", run_csv, csv_seeds},
                                        {"zarr", run_zarr, zarr_seeds}};
  return kTargets;
}

}  // namespace quarry::test
