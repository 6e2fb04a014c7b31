#include "quarry/io/zarr/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <complex>
#include <limits>

#include "quarry/io/npy/header.h"
#include "quarry/io/zarr/json.h"
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

using Kind = Codec::Kind;

// `settings`: where a codec's parameters are, the level under either name.
Codec codec_of(std::string name, const json& settings, const DType dtype) {
  constexpr std::pair<std::string_view, Kind> kCodecs[] = {
      {"zlib", Kind::zlib},   {"gzip", Kind::gzip},     {"zstd", Kind::zstd},      {"lz4", Kind::lz4},
      {"blosc", Kind::blosc}, {"crc32c", Kind::crc32c}, {"shuffle", Kind::shuffle}};
  constexpr std::string_view kPackage = "numcodecs.";  // which those of version 2 have in version 3
  if (name.starts_with(kPackage)) name.erase(0, kPackage.size());
  const auto number = [&](const char* key, int otherwise) {
    const json value = settings.is_object() ? settings.value(key, json(otherwise)) : json(otherwise);
    if (!value.is_number_integer()) damaged(fmt::format("the {} of its codec {} is no number", key, name));
    return std::clamp<int64_t>(value.get<int64_t>(), INT16_MIN, INT16_MAX);
  };
  for (const auto& [known, kind] : kCodecs) {
    if (known != name) continue;
    Codec out{kind, static_cast<int>(number(kind == Kind::blosc ? "clevel" : "level", 1)),
              static_cast<size_t>(local::itemsize(dtype))};
    if (kind != Kind::shuffle) return out;
    constexpr int kUsual = 4;  // as numcodecs has it
    const auto element = number("elementsize", kUsual);
    if (element < 1) damaged("its shuffle has elements of no bytes");
    out.element = static_cast<size_t>(element);
    return out;
  }
  throw local::NotSupported(
      fmt::format("its codec '{}' is not one that quarry reads: zlib, gzip, zstd, lz4, blosc, crc32c, shuffle", name));
}

// As --out-filter would ask for it.
Filter filter_of(const Codec& codec) {
  constexpr std::pair<Kind, Filter::Kind> kFilters[] = {
      {Kind::shuffle, Filter::Kind::shuffle}, {Kind::zlib, Filter::Kind::deflate}, {Kind::gzip, Filter::Kind::deflate},
      {Kind::zstd, Filter::Kind::zstd},       {Kind::lz4, Filter::Kind::lz4},      {Kind::blosc, Filter::Kind::blosc}};
  for (const auto& [kind, filter] : kFilters) {
    if (kind != codec.kind) continue;
    const FilterKind& row = *find_kind(filter);
    const bool usual = filter == Filter::Kind::zstd && codec.level == 0;  // Zstandard's word for it
    return {filter, usual ? row.level : std::clamp(codec.level, row.least_level, row.most_level),
            std::string(row.name)};
  }
  return {Filter::Kind::other, 0, "crc32c"};
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

// NumPy has no code for it; TensorStore and ml_dtypes write this.
constexpr const char* kBfloat16 = "bfloat16";

void parse_type_v2(const json& root, Metadata& out) {
  const json& type = member(root, "dtype");
  if (type == kBfloat16) {
    out.info.dtype = DType::bfloat16;
    return;
  }
  if (!type.is_string()) throw local::TypeError("its elements are records, for which quarry has no dtype");
  const npy::Field field = npy::parse_type(type.get<std::string>());
  if (!field.problem.empty())
    throw local::TypeError(fmt::format("it is of {}, for which quarry has no dtype", field.problem));
  out.info.dtype = field.dtype;
  out.info.swapped = field.swapped;
  out.info.attributes = field.attributes;
}

void parse_v2(const json& root, Metadata& out) {
  parse_type_v2(root, out);
  out.info.chunks = extents(member(root, "chunks"), "chunks", 1);
  const std::string order = text(member(root, "order"), "order");
  if (order != "C" && order != "F") damaged("its order is neither C nor F");
  out.fortran_order = order == "F";
  const json filters = root.value("filters", json());
  for (const json& filter : filters.is_array() ? filters : json::array()) {
    if (filter.value("id", json()) != "shuffle")
      throw local::NotSupported(fmt::format("it has filters, which quarry does not read: {}", filters.dump()));
    out.codecs.push_back(codec_of("shuffle", filter, out.info.dtype));
  }
  const json& compressor = member(root, "compressor");
  if (!compressor.is_null())
    out.codecs.push_back(codec_of(text(member(compressor, "id"), "compressor"), compressor, out.info.dtype));
  if (root.contains("dimension_separator")) {
    const std::string separator = text(root["dimension_separator"], "dimension_separator");
    if (separator != "." && separator != "/") damaged("its dimension_separator is neither . nor /");
    out.keys.separator = separator[0];
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
      out.codecs.push_back(codec_of(name, settings, out.info.dtype));
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
  out.keys = {"c", '/'};
  const json& keys = member(root, "chunk_key_encoding");
  const std::string kind = text(member(keys, "name"), "chunk_key_encoding");
  if (kind != "default" && kind != "v2") damaged("its chunk_key_encoding is neither default nor v2");
  if (kind == "v2") {
    out.keys = {"", '.'};
  }
  if (keys.contains("configuration") && keys["configuration"].contains("separator")) {
    const std::string separator = text(keys["configuration"]["separator"], "separator");
    if (separator != "." && separator != "/") damaged("its separator is neither . nor /");
    out.keys.separator = separator[0];
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

// xarray's _FillValue of floats in version 3.
void decode_fill_attribute(DatasetInfo& info) {
  const auto fill = info.attributes.find("_FillValue");
  if (fill == info.attributes.end() || !local::is_float(info.dtype)) return;
  const auto* const word = std::get_if<std::string>(&fill->second);
  if (const std::optional<double> value = word ? real_of_text(*word) : std::nullopt) fill->second = *value;
}

std::map<std::string, Attribute> attributes_of_root(const json& root) {
  return attributes_of(root.value("attributes", json::object()));
}

// --- of outputs ---

json fill_of(const local::Scalar& value, DType dtype) {
  if (dtype == DType::bool_) return value.as_bool();
  if (local::is_complex(dtype)) {
    const std::complex<double> number = value.as_complex();
    return json::array({json_of_real(number.real()), json_of_real(number.imag())});
  }
  if (local::is_float(dtype)) return json_of_real(value.as_double());
  if (dtype == DType::uint64) return value.as_uint64();
  return value.as_int64();
}

// As netCDF's, besides the fill value of the format, which other programs need not take for it.
json fill_attribute(const local::Scalar& value, DType dtype, int version) {
  if (!local::is_float(dtype)) return fill_of(value, dtype);
  if (version == 3) return real_text(value.as_double());
  return json_of(value.as_double());
}

json attributes_json(const std::map<std::string, Attribute>& attributes) {
  json out = json::object();
  for (const auto& [name, value] : attributes) out[name] = json_of(value);
  return out;
}

json extents_json(const Dims& extents) {
  json out = json::array();
  for (const int64_t extent : extents) out.push_back(extent);
  return out;
}

json blosc_v2(const Codec& codec) {
  return {{"id", "blosc"}, {"cname", "lz4"}, {"clevel", codec.level}, {"shuffle", 1}, {"blocksize", 0}};
}

json codec_v2(const Codec& codec) {
  switch (codec.kind) {
    case Kind::shuffle:
      return {{"id", "shuffle"}, {"elementsize", codec.element}};
    case Kind::zlib:
      return {{"id", "zlib"}, {"level", codec.level}};
    case Kind::zstd:
      return {{"id", "zstd"}, {"level", codec.level}};
    case Kind::lz4:
      return {{"id", "lz4"}, {"acceleration", 1}};
    case Kind::blosc:
      return blosc_v2(codec);
    case Kind::gzip:
    case Kind::crc32c:
      break;
  }
  QUARRY_CHECK(false);
}

json codec_v3(const Codec& codec) {
  const auto named = [](const char* name, json settings) {
    return json{{"name", name}, {"configuration", std::move(settings)}};
  };
  switch (codec.kind) {
    case Kind::gzip:
      return named("gzip", {{"level", codec.level}});
    case Kind::zstd:
      return named("zstd", {{"level", codec.level}, {"checksum", false}});
    case Kind::blosc:
      return named("blosc", {{"typesize", codec.element},
                             {"cname", "lz4"},
                             {"clevel", codec.level},
                             {"shuffle", codec.element > 1 ? "shuffle" : "noshuffle"},
                             {"blocksize", 0}});
    case Kind::shuffle:
    case Kind::zlib:
    case Kind::lz4:
    case Kind::crc32c:
      break;
  }
  QUARRY_CHECK(false);
}

json array_v2(const OutputSpec& spec) {
  json type = spec.dtype == DType::bfloat16 ? kBfloat16 : npy::type_code(spec.dtype);
  if (spec.text) {
    const int64_t bytes = std::ssize(npy::text_element(spec.text->value, spec.text->is_bytes));
    constexpr int64_t kCharacter = 4;
    type = npy::text_code(spec.text->is_bytes, spec.text->is_bytes ? bytes : bytes / kCharacter);
  }
  json filters = json::array(), compressor;
  for (const Codec& codec : codecs_of(spec, /*version=*/2)) {
    if (codec.kind == Kind::shuffle)
      filters.push_back(codec_v2(codec));
    else
      compressor = codec_v2(codec);
  }
  return {{"zarr_format", 2},
          {"shape", extents_json(spec.shape)},
          {"chunks", extents_json(spec.chunks.value_or(Dims{}))},
          {"dtype", type},
          {"compressor", compressor},
          // None: xarray would take any for missing values.
          {"fill_value", spec.fill_value ? fill_of(*spec.fill_value, spec.dtype) : json()},
          {"order", "C"},
          {"filters", filters.empty() ? json() : filters},
          {"dimension_separator", "."}};
}

json array_v3(const OutputSpec& spec) {
  json bytes{{"name", "bytes"}};
  if (local::itemsize(spec.dtype) > 1) bytes["configuration"] = {{"endian", "little"}};
  json codecs = json::array({bytes});
  for (const Codec& codec : codecs_of(spec, /*version=*/3)) codecs.push_back(codec_v3(codec));
  return {{"zarr_format", 3},
          {"node_type", "array"},
          {"shape", extents_json(spec.shape)},
          {"data_type", local::name(spec.dtype)},
          {"chunk_grid",
           {{"name", "regular"}, {"configuration", {{"chunk_shape", extents_json(spec.chunks.value_or(Dims{}))}}}}},
          {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
          {"fill_value", fill_of(spec.fill_value.value_or(local::Scalar(0)), spec.dtype)},
          {"codecs", codecs}};
}

}  // namespace

std::string ChunkKeys::of(const Dims& at) const {
  std::string out = prefix;
  for (const int64_t coordinate : at) {
    if (!out.empty()) out.push_back(separator);
    out += std::to_string(coordinate);
  }
  return out.empty() ? "0" : out;
}

Metadata parse_metadata(const std::string& content, const std::string& attributes, int version,
                        const std::string& name) {
  Metadata out;
  const json root = parse_object(content, name);
  const json beside = attributes.empty() ? json() : parse_object(attributes, name);
  try {
    out.info.shape = extents(member(root, "shape"), "shape", 0);
    version == 2 ? parse_v2(root, out) : parse_v3(root, out);
    check_sizes(out);
    set_fill(out, root.value("fill_value", json()));
    auto given = version == 2 ? attributes_of(beside) : attributes_of_root(root);
    given.merge(out.info.attributes);
    out.info.attributes = std::move(given);
    decode_fill_attribute(out.info);
  } catch (const json::exception& error) {
    throw local::IoError(fmt::format("'{}' is damaged: {}", name, error.what()));
  } catch (const local::TypeError& error) {
    throw local::TypeError(fmt::format("'{}': {}", name, error.what()));
  } catch (const local::NotSupported& error) {
    throw local::NotSupported(fmt::format("'{}': {}", name, error.what()));
  } catch (const local::IoError& error) {
    throw local::IoError(fmt::format("'{}': {}", name, error.what()));
  }
  for (const Codec& codec : out.codecs) out.info.filters.push_back(filter_of(codec));
  out.info.layout = "chunked";
  out.info.direct = true;
  return out;
}

std::map<std::string, Attribute> parse_group_attributes(const std::string& content, int version,
                                                        const std::string& name) {
  const json root = parse_object(content, name);
  return version == 2 ? attributes_of(root) : attributes_of_root(root);
}

std::vector<Codec> codecs_of(const OutputSpec& spec, int version) {
  const bool has_blosc = std::ranges::find(spec.filters, Filter::Kind::blosc, &Filter::kind) != spec.filters.end();
  const auto item = static_cast<size_t>(local::itemsize(spec.dtype));
  const bool is_2 = version == 2;
  std::vector<Codec> out;
  for (const Filter& filter : spec.filters) {
    std::optional<Kind> kind;
    if (filter.kind == Filter::Kind::deflate) kind = is_2 ? Kind::zlib : Kind::gzip;
    if (filter.kind == Filter::Kind::zstd) kind = Kind::zstd;
    if (filter.kind == Filter::Kind::blosc) kind = Kind::blosc;
    if (filter.kind == Filter::Kind::lz4 && is_2) kind = Kind::lz4;
    if (filter.kind == Filter::Kind::shuffle && is_2) kind = Kind::shuffle;
    if (filter.kind == Filter::Kind::shuffle && has_blosc) continue;  // which shuffles itself
    if (!kind) {
      throw local::InvalidArgument(fmt::format(
          "cannot create '{}': a Zarr array of version {} has the filters {}, and not {}", spec.object, version,
          is_2 ? "deflate, zstd, blosc, lz4 and shuffle" : "deflate, zstd and blosc", filter.name));
    }
    out.push_back({*kind, filter.level, item});
  }
  return out;
}

ChunkKeys usual_keys(int version) { return version == 2 ? ChunkKeys{"", '.'} : ChunkKeys{"c", '/'}; }

MetadataFiles array_files(const OutputSpec& spec, int version) {
  json attributes = attributes_json(spec.attributes);
  if (spec.fill_value) attributes["_FillValue"] = fill_attribute(*spec.fill_value, spec.dtype, version);
  if (version == 2) return {{".zattrs", to_text(attributes)}, {".zarray", to_text(array_v2(spec))}};
  json root = array_v3(spec);
  root["attributes"] = attributes;
  return {{"zarr.json", to_text(root)}};
}

MetadataFiles group_files(const std::map<std::string, Attribute>& attributes, int version) {
  if (version == 2) {
    MetadataFiles out;
    if (!attributes.empty()) out.emplace_back(".zattrs", to_text(attributes_json(attributes)));
    out.emplace_back(".zgroup", to_text({{"zarr_format", 2}}));
    return out;
  }
  const json root{{"zarr_format", 3}, {"node_type", "group"}, {"attributes", attributes_json(attributes)}};
  return {{"zarr.json", to_text(root)}};
}

MetadataFiles changed_group(const MetadataFiles& files, const std::map<std::string, Attribute>& attributes,
                            bool overwrite, const std::string& name) {
  MetadataFiles out;
  const auto add = [&](json& to) {
    if (!to.is_object()) to = json::object();
    for (const auto& [key, value] : attributes)
      if (overwrite || !to.contains(key)) to[key] = json_of(value);
  };
  json beside = json::object();
  for (const auto& [file, content] : files) {
    if (file == "zarr.json") {
      json root = parse_object(content, name);
      if (root.erase("consolidated_metadata") == 0 && attributes.empty()) return files;
      add(root["attributes"]);
      return {{file, to_text(root)}};
    }
    if (file == ".zattrs")
      beside = parse_object(content, name);
    else
      out.emplace_back(file, content);
  }
  if (attributes.empty()) return files;
  add(beside);
  if (!beside.empty()) out.emplace(out.begin(), ".zattrs", to_text(beside));
  return out;
}

}  // namespace quarry::io::zarr
