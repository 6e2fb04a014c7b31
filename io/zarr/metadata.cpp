#include "quarry/io/zarr/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <complex>
#include <limits>
#include <nlohmann/json.hpp>

#include "quarry/io/npy/header.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::io::zarr {
namespace {

using local::Dims;
using local::DType;
using nlohmann::json;

constexpr int64_t kLargestChunk = int64_t{1} << 31;  // bytes, as Blosc's and LZ4's

[[noreturn]] void damaged(const std::string& what) { throw local::IoError("it is damaged: " + what); }

const json& member(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) damaged(fmt::format("it has no '{}'", key));
  return object[key];
}

std::string text(const json& value, const char* what) {
  if (!value.is_string()) damaged(fmt::format("its {} is no text", what));
  return value.get<std::string>();
}

Dims extents(const json& list, const char* what, int64_t least) {
  if (!list.is_array()) damaged(fmt::format("its {} is no list", what));
  if (list.size() > static_cast<size_t>(local::kMaxDims))
    throw local::NotSupported(
        fmt::format("it has {} axes, and quarry's arrays at most {}", list.size(), local::kMaxDims));
  Dims out;
  for (const json& extent : list) {
    if (!extent.is_number_integer() || (extent.is_number_unsigned() && extent.get<uint64_t>() > INT64_MAX) ||
        extent.get<int64_t>() < least)
      damaged(fmt::format("its {} has something that is no extent", what));
    out.push_back(extent.get<int64_t>());
  }
  return out;
}

Codec codec_of(const std::string& name) {
  constexpr std::pair<std::string_view, Codec> kCodecs[] = {{"zlib", Codec::zlib},   {"gzip", Codec::gzip},
                                                            {"zstd", Codec::zstd},   {"lz4", Codec::lz4},
                                                            {"blosc", Codec::blosc}, {"crc32c", Codec::crc32c}};
  for (const auto& [known, codec] : kCodecs)
    if (known == name) return codec;
  throw local::NotSupported(
      fmt::format("its codec '{}' is not one that quarry reads: zlib, gzip, zstd, lz4, blosc, crc32c", name));
}

double real_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string word = value.is_string() ? value.get<std::string>() : "";
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw local::NotSupported(fmt::format("its fill value {} is not understood", value.dump()));
}

void set_fill(Metadata& out, const json& value) {
  const DType dtype = out.info.dtype;
  out.fill.assign(static_cast<size_t>(local::itemsize(dtype)), std::byte{0});
  if (value.is_null()) return;
  local::Scalar fill;
  if (value.is_boolean())
    fill = value.get<bool>();
  else if (value.is_number_unsigned())
    fill = value.get<uint64_t>();
  else if (value.is_number_integer())
    fill = value.get<int64_t>();
  else if (value.is_array() && value.size() == 2)
    fill = std::complex<double>(real_of(value[0]), real_of(value[1]));
  else
    fill = real_of(value);
  fill.store(dtype, out.fill.data());
  if (!out.info.swapped) return;
  const auto part = static_cast<int64_t>(local::itemsize(local::real_type(dtype)));
  for (auto at = out.fill.begin(); at != out.fill.end(); at += part) std::reverse(at, at + part);
}

void parse_v2(const json& root, Metadata& out) {
  const json& type = member(root, "dtype");
  if (!type.is_string()) throw local::TypeError("its elements are records, for which quarry has no dtype");
  const npy::Field field = npy::parse_type(type.get<std::string>());
  if (!field.problem.empty())
    throw local::TypeError(fmt::format("it is of {}, for which quarry has no dtype", field.problem));
  out.info.dtype = field.dtype;
  out.info.swapped = field.swapped;
  out.info.attributes = field.attributes;
  out.info.chunks = extents(member(root, "chunks"), "chunks", 1);
  const std::string order = text(member(root, "order"), "order");
  if (order != "C" && order != "F") damaged("its order is neither C nor F");
  out.fortran_order = order == "F";
  if (root.contains("filters") && !root["filters"].is_null() && !root["filters"].empty())
    throw local::NotSupported(fmt::format("it has filters, which quarry does not read: {}", root["filters"].dump()));
  const json& compressor = member(root, "compressor");
  if (!compressor.is_null()) out.codecs.push_back(codec_of(text(member(compressor, "id"), "compressor")));
  if (root.contains("dimension_separator")) {
    const std::string separator = text(root["dimension_separator"], "dimension_separator");
    if (separator != "." && separator != "/") damaged("its dimension_separator is neither . nor /");
    out.separator = separator[0];
  }
}

void parse_codecs(const json& list, Metadata& out) {
  if (!list.is_array()) damaged("its codecs are no list");
  bool has_bytes = false;
  for (const json& codec : list) {
    const std::string name = codec.is_string() ? codec.get<std::string>() : text(member(codec, "name"), "codec");
    const json settings =
        codec.is_object() && codec.contains("configuration") ? codec["configuration"] : json::object();
    if (name == "bytes") {
      has_bytes = true;
      out.info.swapped = settings.is_object() && settings.value("endian", json("little")) == "big" &&
                         local::itemsize(out.info.dtype) > 1;
    } else if (name == "transpose" && !has_bytes) {
      const Dims order = extents(member(settings, "order"), "order", 0);
      bool same = order.size() == out.info.shape.size(), reversed = same;
      for (int d = 0; d < order.size(); ++d) {
        same = same && order[d] == d;
        reversed = reversed && order[d] == order.size() - 1 - d;
      }
      if (!same && !reversed)
        throw local::NotSupported("its chunks have an order of axes that is neither C's nor Fortran's");
      if (reversed && !same) out.fortran_order = !out.fortran_order;
    } else if (has_bytes) {
      out.codecs.push_back(codec_of(name));
    } else {
      throw local::NotSupported(fmt::format("its codec '{}' is not one that quarry reads", name));
    }
  }
  if (!has_bytes) damaged("its codecs do not have 'bytes'");
}

void parse_v3(const json& root, Metadata& out) {
  const json& type = member(root, "data_type");
  const auto dtype = type.is_string() ? local::parse_dtype(type.get<std::string>()) : std::nullopt;
  if (!dtype) throw local::TypeError(fmt::format("it is of type {}, for which quarry has no dtype", type.dump()));
  out.info.dtype = *dtype;
  const json& grid = member(root, "chunk_grid");
  if (text(member(grid, "name"), "chunk_grid") != "regular")
    throw local::NotSupported(fmt::format("its chunks are not regular: {}", grid["name"].dump()));
  out.info.chunks = extents(member(member(grid, "configuration"), "chunk_shape"), "chunk_shape", 1);
  out.prefix = "c";
  out.separator = '/';
  const json& keys = member(root, "chunk_key_encoding");
  const std::string kind = text(member(keys, "name"), "chunk_key_encoding");
  if (kind != "default" && kind != "v2") damaged("its chunk_key_encoding is neither default nor v2");
  if (kind == "v2") {
    out.prefix = "";
    out.separator = '.';
  }
  if (keys.contains("configuration") && keys["configuration"].contains("separator")) {
    const std::string separator = text(keys["configuration"]["separator"], "separator");
    if (separator != "." && separator != "/") damaged("its separator is neither . nor /");
    out.separator = separator[0];
  }
  parse_codecs(member(root, "codecs"), out);
}

void check_sizes(const Metadata& out) {
  const Dims &shape = out.info.shape, &chunks = *out.info.chunks;
  if (chunks.size() != shape.size()) damaged("its chunks have another number of axes than its shape");
  int64_t bytes = local::itemsize(out.info.dtype), chunk = bytes;
  for (int d = 0; d < shape.size(); ++d) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(shape[d], 1), &bytes))
      damaged(fmt::format("its shape {} is more bytes than 64 bits count", local::to_string(shape)));
    if (__builtin_mul_overflow(chunk, chunks[d], &chunk) || chunk >= kLargestChunk)
      throw local::NotSupported(fmt::format("its chunks {} have 2 GiB or more", local::to_string(chunks)));
  }
}

}  // namespace

Metadata parse_metadata(const std::string& content, int version, const std::string& name) {
  Metadata out;
  try {
    const json root = json::parse(content);
    if (!root.is_object()) damaged("it is no JSON object");
    out.info.shape = extents(member(root, "shape"), "shape", 0);
    version == 2 ? parse_v2(root, out) : parse_v3(root, out);
    check_sizes(out);
    set_fill(out, root.contains("fill_value") ? root["fill_value"] : json());
  } catch (const json::exception& error) {
    throw local::IoError(fmt::format("'{}' is damaged: {}", name, error.what()));
  } catch (const local::TypeError& error) {
    throw local::TypeError(fmt::format("'{}': {}", name, error.what()));
  } catch (const local::NotSupported& error) {
    throw local::NotSupported(fmt::format("'{}': {}", name, error.what()));
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("'{}': {}", name, error.what()));
  }
  constexpr const char* kNames[] = {"zlib", "gzip", "zstd", "lz4", "blosc", "crc32c"};
  for (const Codec codec : out.codecs)
    out.info.filters.push_back({Filter::Kind::other, 0, kNames[static_cast<int>(codec)]});
  out.info.layout = "chunked";
  out.info.direct = true;
  return out;
}

}  // namespace quarry::io::zarr
