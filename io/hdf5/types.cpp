#include "quarry/io/hdf5/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>

#include "quarry/local/base/message.h"

namespace quarry::io::hdf5 {
namespace {

using local::DType;

static_assert(std::endian::native == std::endian::little, "quarry keeps elements in little-endian order");

struct FloatFormat {
  int64_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0, bias = 0;
  friend bool operator==(const FloatFormat&, const FloatFormat&) = default;
};
constexpr FloatFormat kHalf{15, 10, 5, 0, 10, 15};
constexpr FloatFormat kBrain{15, 7, 8, 0, 7, 127};
constexpr FloatFormat kSingle{31, 23, 8, 0, 23, 127};
constexpr FloatFormat kDouble{63, 52, 11, 0, 52, 1023};

[[noreturn]] void refuse(const Type& type, const std::string& reason = "") {
  throw local::TypeError(fmt::format("its type is {}, which quarry has no dtype for{}{}", type_name(type),
                                     reason.empty() ? "" : ": ", reason));
}

FileType describe_integer(const Type& type) {
  const int64_t bits = type.precision;
  const auto bytes = static_cast<uint64_t>(type.bytes);
  if (bits > 64) refuse(type, "at most 64 bits");
  const bool plain = type.offset == 0 && bits == 8 * type.bytes && std::has_single_bit(bytes);
  FileType out;
  static constexpr DType kSigned[] = {DType::int8, DType::int16, DType::int32, DType::int64};
  static constexpr DType kUnsigned[] = {DType::uint8, DType::uint16, DType::uint32, DType::uint64};
  const size_t size_class = bits <= 8 ? 0 : bits <= 16 ? 1 : bits <= 32 ? 2 : 3;
  out.dtype = type.is_signed ? kSigned[size_class] : kUnsigned[size_class];
  out.swapped = bytes > 1 && type.order == Type::Order::big;
  if (plain) return out;
  if (!std::has_single_bit(bytes) || bytes > 8) {
    out.conversion = fmt::format("{} are converted", type_name(type));
    return out;
  }
  // As h5py, the dtype of the bytes.
  const auto which = static_cast<size_t>(std::countr_zero(bytes));
  out.dtype = type.is_signed ? kSigned[which] : kUnsigned[which];
  out.bits = {static_cast<uint8_t>(type.offset), static_cast<uint8_t>(bits), type.is_signed, out.swapped};
  out.swapped = false;
  return out;
}

FileType describe_float(const Type& type) {
  const FloatFormat format{type.sign, type.exponent, type.exponent_bits, type.mantissa, type.mantissa_bits, type.bias};
  FileType out;
  out.swapped = type.order == Type::Order::big;
  const bool plain =
      type.order != Type::Order::other && type.implied && type.offset == 0 && type.precision == 8 * type.bytes;
  struct Known {
    int64_t bytes;
    FloatFormat format;
    DType dtype;
  };
  static constexpr Known kKnown[] = {{2, kHalf, DType::float16},
                                     {2, kBrain, DType::bfloat16},
                                     {4, kSingle, DType::float32},
                                     {8, kDouble, DType::float64}};
  if (plain)
    for (const Known& known : kKnown)
      if (type.bytes == known.bytes && format == known.format) {
        out.dtype = known.dtype;
        return out;
      }
  if (format.exponent_bits <= 8 && format.mantissa_bits <= 23 && format.bias <= 127)
    out.dtype = DType::float32;
  else if (format.exponent_bits <= 11 && format.mantissa_bits <= 52 && format.bias <= 1023)
    out.dtype = DType::float64;
  else
    refuse(type, "it holds more than float64");
  out.conversion = fmt::format("{} are converted", type_name(type));
  return out;
}

// h5py's bool: an enum over integers with FALSE = 0 and TRUE = 1.
bool is_bool(const Type& type) {
  constexpr int64_t kMostBytes = 8;
  if (type.names.size() != 2 || type.bytes > kMostBytes || type.part().kind != Type::Kind::integer) return false;
  const bool big = type.part().order == Type::Order::big;
  const auto size = static_cast<size_t>(type.bytes);
  for (size_t i = 0; i < 2; ++i) {
    const std::span<const std::byte> bytes = std::span(type.values).subspan(i * size, size);
    uint64_t value = 0;
    for (size_t b = 0; b < size; ++b) value |= std::to_integer<uint64_t>(bytes[big ? size - 1 - b : b]) << 8 * b;
    const std::string& name = type.names[i];
    if (!(name == "FALSE" && value == 0) && !(name == "TRUE" && value == 1)) return false;
  }
  return true;
}

// Of parts of one float type behind each other: the format's own type, or the usual compound.
FileType describe_complex(const Type& type, const Type& real, const Type& imaginary, bool usual) {
  const FileType parts[2] = {describe_float(real), describe_float(imaginary)};
  if (parts[0].dtype != parts[1].dtype) refuse(type);
  FileType out;
  if (parts[0].dtype == DType::float32)
    out.dtype = DType::complex64;
  else if (parts[0].dtype == DType::float64)
    out.dtype = DType::complex128;
  else
    refuse(type, "complex numbers are of float32 or float64");
  out.swapped = parts[0].swapped;
  if (!usual || type.bytes != local::itemsize(out.dtype))
    out.conversion = "complex numbers of unusual layout are converted";
  else if (!parts[0].conversion.empty() || !parts[1].conversion.empty() || parts[0].swapped != parts[1].swapped)
    out.conversion = "complex numbers of unusual parts are converted";
  return out;
}

FileType describe_compound(const Type& type) {
  if (type.names.size() != 2) refuse(type);
  const size_t real = type.names[0] == "r" ? 0 : 1, imaginary = 1 - real;
  if (type.names[real] != "r" || type.names[imaginary] != "i") refuse(type);
  for (const Type& part : type.parts)
    if (part.kind != Type::Kind::real) refuse(type);
  if (type.places[0] == type.places[1]) refuse(type);
  const bool usual = type.places[real] == 0 && 2 * type.places[imaginary] == type.bytes;
  return describe_complex(type, type.parts[real], type.parts[imaginary], usual);
}

}  // namespace

std::string type_name(const Type& type) {
  switch (type.kind) {
    case Type::Kind::integer:
      return fmt::format("{}-bit {}integer{}", type.precision, type.is_signed ? "" : "unsigned ",
                         type.precision == 8 * type.bytes ? "s" : fmt::format("s in {} bytes", type.bytes));
    case Type::Kind::real:
      return fmt::format("{}-bit floats ({} exponent, {} mantissa bits)", type.precision, type.exponent_bits,
                         type.mantissa_bits);
    case Type::Kind::time:
      return "time";
    case Type::Kind::text:
      return fmt::format("{}-byte string", type.bytes);
    case Type::Kind::bitfield:
      return fmt::format("{}-bit bit fields", type.precision);
    case Type::Kind::opaque:
      return fmt::format("opaque ({} bytes)", type.bytes);
    case Type::Kind::compound: {
      constexpr size_t kMost = 8;
      std::string names;
      for (size_t i = 0; i < std::min(type.names.size(), kMost); ++i) names += (i ? ", " : "") + type.names[i];
      return "compound of " + names + (type.names.size() > kMost ? ", ..." : "");
    }
    case Type::Kind::reference:
      return "reference";
    case Type::Kind::enumeration:
      return "enum";
    case Type::Kind::sequence:
      return type.is_text ? "variable-length string" : "variable-length sequence";
    case Type::Kind::array:
      return "array within each element";
    case Type::Kind::complex:
      return fmt::format("complex numbers of {} bytes", type.bytes);
  }
  return "unknown type";
}

FileType describe_type(const Type& type) {
  // The library converts in buffers of whole elements; what could be a number is never this large.
  constexpr int64_t kMaxElementBytes = 1024;
  if (type.kind == Type::Kind::compound && type.bytes > kMaxElementBytes)
    refuse(type, fmt::format("its elements have {} bytes", type.bytes));
  switch (type.kind) {
    case Type::Kind::integer:
      return describe_integer(type);
    case Type::Kind::real:
      return describe_float(type);
    case Type::Kind::bitfield: {
      FileType out = describe_integer(type);
      if (!out.conversion.empty()) refuse(type, "the library cannot convert it");
      out.bitfield = out.bits.precision == 0;
      return out;
    }
    case Type::Kind::enumeration: {
      if (is_bool(type)) {
        FileType out;
        out.dtype = DType::bool_;
        if (type.bytes != 1) out.conversion = fmt::format("booleans of {} bytes are converted", type.bytes);
        return out;
      }
      if (type.part().kind != Type::Kind::integer) refuse(type);
      return describe_type(type.part());
    }
    case Type::Kind::compound:
      return describe_compound(type);
    case Type::Kind::complex: {
      FileType out = describe_complex(type, type.part(), type.part(), /*usual=*/true);
      if (!out.conversion.empty()) refuse(type, "no release of the library converts it");
      return out;
    }
    case Type::Kind::time:
    case Type::Kind::text:
    case Type::Kind::opaque:
    case Type::Kind::reference:
    case Type::Kind::sequence:
    case Type::Kind::array:
      break;
  }
  refuse(type);
}

Handle memory_type(DType dtype) {
  const auto copy = [](hid_t type) { return check_handle(H5Tcopy(type), "type"); };
  const auto small_float = [](const FloatFormat& f) {
    Handle type = check_handle(H5Tcopy(H5T_IEEE_F32LE), "type");
    const auto bits = [](int64_t value) { return static_cast<size_t>(value); };
    check_call(H5Tset_fields(type, bits(f.sign), bits(f.exponent), bits(f.exponent_bits), bits(f.mantissa),
                             bits(f.mantissa_bits)),
               "type");
    check_call(H5Tset_size(type, 2), "type");
    check_call(H5Tset_ebias(type, bits(f.bias)), "type");
    return type;
  };
  const auto complex = [](hid_t part, size_t bytes) {
    Handle type = check_handle(H5Tcreate(H5T_COMPOUND, 2 * bytes), "type");
    check_call(H5Tinsert(type, "r", 0, part), "type");
    check_call(H5Tinsert(type, "i", bytes, part), "type");
    return type;
  };
  switch (dtype) {
    case DType::bool_: {
      Handle type = check_handle(H5Tenum_create(H5T_STD_I8LE), "type");
      int8_t value = 0;
      check_call(H5Tenum_insert(type, "FALSE", &value), "type");
      value = 1;
      check_call(H5Tenum_insert(type, "TRUE", &value), "type");
      return type;
    }
    case DType::int8:
      return copy(H5T_STD_I8LE);
    case DType::int16:
      return copy(H5T_STD_I16LE);
    case DType::int32:
      return copy(H5T_STD_I32LE);
    case DType::int64:
      return copy(H5T_STD_I64LE);
    case DType::uint8:
      return copy(H5T_STD_U8LE);
    case DType::uint16:
      return copy(H5T_STD_U16LE);
    case DType::uint32:
      return copy(H5T_STD_U32LE);
    case DType::uint64:
      return copy(H5T_STD_U64LE);
    case DType::float16:
      return small_float(kHalf);
    case DType::bfloat16:
      return small_float(kBrain);
    case DType::float32:
      return copy(H5T_IEEE_F32LE);
    case DType::float64:
      return copy(H5T_IEEE_F64LE);
    case DType::complex64:
      return complex(H5T_IEEE_F32LE, 4);
    case DType::complex128:
      return complex(H5T_IEEE_F64LE, 8);
  }
  __builtin_unreachable();
}

Handle memory_type(DType dtype, bool bitfield, const std::vector<std::string>& fields) {
  const int64_t bytes = local::itemsize(dtype);
  Handle type = bitfield ? check_handle(H5Tcopy(bytes == 1   ? H5T_STD_B8LE
                                                : bytes == 2 ? H5T_STD_B16LE
                                                : bytes == 4 ? H5T_STD_B32LE
                                                             : H5T_STD_B64LE),
                                        "type")
                         : memory_type(dtype);
  for (size_t i = fields.size(); i-- > 0;) {
    Handle around = check_handle(H5Tcreate(H5T_COMPOUND, static_cast<size_t>(bytes)), "type");
    check_call(H5Tinsert(around, fields[i].c_str(), 0, type), "type");
    type = std::move(around);
  }
  return type;
}

ElementType describe_element(const Type& type, const std::vector<std::string>& fields) {
  ElementType out;
  out.bytes = type.bytes;
  const Type* now = &type;
  for (const std::string& field : fields) {
    if (now->kind != Type::Kind::compound)
      throw local::InvalidArgument(fmt::format("there is no field '{}' in its type, {}", field, type_name(*now)));
    const auto found = std::ranges::find(now->names, field);
    if (found == now->names.end())
      throw local::InvalidArgument(
          fmt::format("there is no field '{}'{}", field, local::suggestion(field, now->names)));
    const auto index = static_cast<size_t>(found - now->names.begin());
    out.offset += now->places[index];
    now = &now->parts[index];
  }
  for (; now->kind == Type::Kind::array; now = &now->part())
    for (const int64_t extent : now->extents) {
      if (out.array.size() == local::kMaxDims) refuse(*now, "too many axes");
      out.array.push_back(extent);
    }
  out.number = describe_type(*now);
  return out;
}

}  // namespace quarry::io::hdf5
