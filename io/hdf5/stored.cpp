#include "quarry/io/hdf5/stored.h"

#include "quarry/io/storage/pieces.h"

namespace quarry::io::hdf5 {
namespace {

std::vector<std::byte> to_vector(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

// Makes whole little-endian integers of `size` bytes of them.
void widen_bits(std::span<std::byte> bytes, size_t size, const IntegerBits& bits) {
  const int left = 64 - bits.precision;
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    std::byte* const element = bytes.data() + at;
    uint64_t value = 0;
    for (size_t b = 0; b < size; ++b)
      value |= std::to_integer<uint64_t>(element[bits.big_endian ? size - 1 - b : b]) << 8 * b;
    value = value >> bits.offset << left;
    value = bits.is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) >> left) : value >> left;
    std::memcpy(element, &value, size);
  }
}

}  // namespace

void fix_elements(const StoredDataset& stored, std::span<std::byte> elements) {
  const local::DType dtype = stored.info.dtype;
  if (dtype == local::DType::bool_) normalize_bools(elements.data(), static_cast<int64_t>(elements.size()));
  const IntegerBits& bits = stored.storage.bits;
  if (bits.precision > 0) widen_bits(elements, static_cast<size_t>(local::itemsize(dtype)), bits);
}

const std::string& data_file(const StoredDataset& stored) {
  return stored.storage.file.empty() ? stored.info.file : stored.storage.file;
}

namespace {

void put_attribute(ByteWriter& out, const Attribute& attribute) {
  out.put<uint8_t>(static_cast<uint8_t>(attribute.index()));
  if (const auto* integer = std::get_if<int64_t>(&attribute)) out.put(*integer);
  if (const auto* real = std::get_if<double>(&attribute)) out.put(*real);
  if (const auto* text = std::get_if<std::string>(&attribute)) out.put_string(*text);
  if (const auto* values = std::get_if<std::vector<double>>(&attribute))
    out.put_bytes(std::as_bytes(std::span(*values)));
  if (const auto* values = std::get_if<std::vector<int64_t>>(&attribute))
    out.put_bytes(std::as_bytes(std::span(*values)));
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) {
    out.put<int64_t>(std::ssize(*texts));
    for (const std::string& text : *texts) out.put_string(text);
  }
}

template <class T>
std::vector<T> get_numbers(ByteReader& in) {
  const auto bytes = in.get_bytes();
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

Attribute get_attribute(ByteReader& in) {
  switch (in.get<uint8_t>()) {
    case 0:
      return in.get<int64_t>();
    case 1:
      return in.get<double>();
    case 2:
      return in.get_string();
    case 3:
      return get_numbers<double>(in);
    case 5:
      return get_numbers<int64_t>(in);
    default: {
      std::vector<std::string> texts(static_cast<size_t>(in.get<int64_t>()));
      for (std::string& text : texts) text = in.get_string();
      return texts;
    }
  }
}

}  // namespace

void put_filters(const std::vector<Filter>& filters, ByteWriter& out) {
  out.put<int32_t>(static_cast<int32_t>(filters.size()));
  for (const Filter& filter : filters) {
    out.put(filter.kind);
    out.put<int32_t>(filter.level);
    out.put_string(filter.name);
    out.put_bytes(std::as_bytes(std::span(filter.values)));
  }
}

std::vector<Filter> get_filters(ByteReader& in) {
  std::vector<Filter> filters(static_cast<size_t>(in.get<int32_t>()));
  for (Filter& filter : filters) {
    filter.kind = in.get<Filter::Kind>();
    filter.level = in.get<int32_t>();
    filter.name = in.get_string();
    const auto values = in.get_bytes();
    filter.values.resize(values.size() / sizeof(uint32_t));
    if (!values.empty()) std::memcpy(filter.values.data(), values.data(), filter.values.size() * sizeof(uint32_t));
  }
  return filters;
}

void put_attributes(const std::map<std::string, Attribute>& attributes, ByteWriter& out) {
  out.put<int32_t>(static_cast<int32_t>(attributes.size()));
  for (const auto& [name, value] : attributes) {
    out.put_string(name);
    put_attribute(out, value);
  }
}

std::map<std::string, Attribute> get_attributes(ByteReader& in) {
  std::map<std::string, Attribute> attributes;
  for (auto left = in.get<int32_t>(); left > 0; --left) {
    std::string name = in.get_string();
    attributes.emplace(std::move(name), get_attribute(in));
  }
  return attributes;
}

void serialize(const StoredDataset& stored, ByteWriter& out) {
  const DatasetInfo& info = stored.info;
  out.put_string(info.file);
  out.put_string(info.object);
  out.put_dims(info.shape);
  out.put(info.dtype);
  out.put(info.swapped);
  out.put(info.chunks.has_value());
  if (info.chunks) out.put_dims(*info.chunks);
  put_filters(info.filters, out);
  out.put_string(info.layout);
  out.put(info.direct);
  out.put_string(info.library_reason);
  out.put(info.stored_bytes);
  put_attributes(info.attributes, out);
  const Storage& storage = stored.storage;
  out.put(storage.kind);
  out.put(storage.offset);
  if (storage.kind == Storage::Kind::chunked) storage.index.serialize(out);
  out.put_bytes(storage.data);
  out.put_bytes(storage.fill);
  out.put(storage.bitfield);
  out.put(storage.bits);
  out.put(storage.record_bytes);
  out.put(storage.field_offset);
  out.put<int32_t>(storage.array_axes);
  out.put<int32_t>(static_cast<int32_t>(storage.fields.size()));
  for (const std::string& field : storage.fields) out.put_string(field);
  out.put(storage.file_bytes);
  out.put_string(storage.file);
  out.put(storage.header);
  out.put_string(stored.unreadable);
}

StoredDataset deserialize(ByteReader& in) {
  StoredDataset stored;
  DatasetInfo& info = stored.info;
  info.file = in.get_string();
  info.object = in.get_string();
  info.shape = in.get_dims();
  info.dtype = in.get<local::DType>();
  info.swapped = in.get<bool>();
  if (in.get<bool>()) info.chunks = in.get_dims();
  info.filters = get_filters(in);
  info.layout = in.get_string();
  info.direct = in.get<bool>();
  info.library_reason = in.get_string();
  info.stored_bytes = in.get<int64_t>();
  info.attributes = get_attributes(in);
  Storage& storage = stored.storage;
  storage.kind = in.get<Storage::Kind>();
  storage.offset = in.get<int64_t>();
  if (storage.kind == Storage::Kind::chunked) storage.index = ChunkIndex::deserialize(in, info.shape, *info.chunks);
  storage.data = to_vector(in.get_bytes());
  storage.fill = to_vector(in.get_bytes());
  storage.bitfield = in.get<bool>();
  storage.bits = in.get<IntegerBits>();
  storage.record_bytes = in.get<int64_t>();
  storage.field_offset = in.get<int64_t>();
  storage.array_axes = in.get<int32_t>();
  storage.fields.resize(static_cast<size_t>(in.get<int32_t>()));
  for (std::string& field : storage.fields) field = in.get_string();
  storage.file_bytes = in.get<int64_t>();
  storage.file = in.get_string();
  storage.header = in.get<int64_t>();
  stored.unreadable = in.get_string();
  return stored;
}

}  // namespace quarry::io::hdf5
