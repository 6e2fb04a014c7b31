#include "quarry/io/hdf5/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "quarry/local/base/message.h"

namespace quarry::io::hdf5 {
namespace {

using local::DType;

static_assert(std::endian::native == std::endian::little, "quarry keeps elements in little-endian order");

struct FloatFormat {
  size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0, bias = 0;
  friend bool operator==(const FloatFormat&, const FloatFormat&) = default;
};
constexpr FloatFormat kHalf{15, 10, 5, 0, 10, 15};
constexpr FloatFormat kBrain{15, 7, 8, 0, 7, 127};
constexpr FloatFormat kSingle{31, 23, 8, 0, 23, 127};
constexpr FloatFormat kDouble{63, 52, 11, 0, 52, 1023};

std::string member_name(hid_t type, unsigned index) {
  char* const text = H5Tget_member_name(type, index);
  std::string name = text ? text : "";
  H5free_memory(text);
  return name;
}

[[noreturn]] void refuse(hid_t type, const std::string& reason = "") {
  throw local::TypeError(fmt::format("its type is {}, which quarry has no dtype for{}{}", type_name(type),
                                     reason.empty() ? "" : ": ", reason));
}

FileType describe_integer(hid_t type, bool is_signed) {
  const size_t bytes = H5Tget_size(type), bits = H5Tget_precision(type);
  const int offset = H5Tget_offset(type);
  const H5T_order_t order = H5Tget_order(type);
  if (bits == 0 || bits > 64) refuse(type, "at most 64 bits");
  const bool plain = offset == 0 && bits == 8 * bytes && std::has_single_bit(bytes);
  if (bytes > 1 && order != H5T_ORDER_LE && order != H5T_ORDER_BE) refuse(type, "its byte order");
  FileType out;
  static constexpr DType kSigned[] = {DType::int8, DType::int16, DType::int32, DType::int64};
  static constexpr DType kUnsigned[] = {DType::uint8, DType::uint16, DType::uint32, DType::uint64};
  const size_t size_class = bits <= 8 ? 0 : bits <= 16 ? 1 : bits <= 32 ? 2 : 3;
  out.dtype = is_signed ? kSigned[size_class] : kUnsigned[size_class];
  out.swapped = bytes > 1 && order == H5T_ORDER_BE;
  if (plain) return out;
  if (!std::has_single_bit(bytes) || bytes > 8) {
    out.conversion = fmt::format("{} are converted", type_name(type));
    return out;
  }
  // As h5py, the dtype of the bytes.
  const auto which = static_cast<size_t>(std::countr_zero(bytes));
  out.dtype = is_signed ? kSigned[which] : kUnsigned[which];
  out.bits = {static_cast<uint8_t>(offset), static_cast<uint8_t>(bits), is_signed, out.swapped};
  out.swapped = false;
  return out;
}

FileType describe_float(hid_t type) {
  const size_t bytes = H5Tget_size(type);
  const H5T_order_t order = H5Tget_order(type);
  FloatFormat format;
  if (H5Tget_fields(type, &format.sign, &format.exponent, &format.exponent_bits, &format.mantissa,
                    &format.mantissa_bits) < 0)
    throw_library_error("float type");
  format.bias = H5Tget_ebias(type);
  const bool order_known = order == H5T_ORDER_LE || order == H5T_ORDER_BE;
  const bool implied = H5Tget_norm(type) == H5T_NORM_IMPLIED;
  FileType out;
  out.swapped = order == H5T_ORDER_BE;
  const bool plain = order_known && implied && H5Tget_offset(type) == 0 && H5Tget_precision(type) == 8 * bytes;
  struct Known {
    size_t bytes;
    FloatFormat format;
    DType dtype;
  };
  static constexpr Known kKnown[] = {{2, kHalf, DType::float16},
                                     {2, kBrain, DType::bfloat16},
                                     {4, kSingle, DType::float32},
                                     {8, kDouble, DType::float64}};
  if (plain)
    for (const Known& known : kKnown)
      if (bytes == known.bytes && format == known.format) {
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
bool is_bool(hid_t type) {
  constexpr size_t kMostBytes = 8;
  if (H5Tget_nmembers(type) != 2 || H5Tget_size(type) > kMostBytes) return false;
  const bool big = H5Tget_order(type) == H5T_ORDER_BE;
  for (unsigned i = 0; i < 2; ++i) {
    std::array<std::byte, kMostBytes> bytes{};
    if (H5Tget_member_value(type, i, bytes.data()) < 0) return false;
    const size_t size = H5Tget_size(type);
    uint64_t value = 0;
    for (size_t b = 0; b < size; ++b) value |= std::to_integer<uint64_t>(bytes[big ? size - 1 - b : b]) << 8 * b;
    const std::string name = member_name(type, i);
    if (!(name == "FALSE" && value == 0) && !(name == "TRUE" && value == 1)) return false;
  }
  return true;
}

FileType describe_compound(hid_t type) {
  if (H5Tget_nmembers(type) != 2) refuse(type);
  size_t at[2] = {0, 0};
  FileType part[2];
  for (unsigned i = 0; i < 2; ++i) {
    const std::string name = member_name(type, i);
    if (name != "r" && name != "i") refuse(type);
    const int which = name == "i";
    const Handle member = check_handle(H5Tget_member_type(type, i), "compound member");
    if (H5Tget_class(member) != H5T_FLOAT) refuse(type);
    part[which] = describe_float(member);
    at[which] = H5Tget_member_offset(type, i);
  }
  if (at[0] == at[1] || part[0].dtype != part[1].dtype) refuse(type);
  FileType out;
  if (part[0].dtype == DType::float32)
    out.dtype = DType::complex64;
  else if (part[0].dtype == DType::float64)
    out.dtype = DType::complex128;
  else
    refuse(type, "complex numbers are of float32 or float64");
  out.swapped = part[0].swapped;
  const auto half = static_cast<size_t>(local::itemsize(out.dtype) / 2);
  if (at[0] != 0 || at[1] != half || H5Tget_size(type) != 2 * half)
    out.conversion = "complex numbers of unusual layout are converted";
  else if (!part[0].conversion.empty() || !part[1].conversion.empty() || part[0].swapped != part[1].swapped)
    out.conversion = "complex numbers of unusual parts are converted";
  return out;
}

}  // namespace

std::string type_name(hid_t type) {
  const size_t bits = H5Tget_precision(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("{}-bit {}integer{}", bits, H5Tget_sign(type) == H5T_SGN_NONE ? "unsigned " : "",
                         bits == 8 * H5Tget_size(type) ? "s" : fmt::format("s in {} bytes", H5Tget_size(type)));
    case H5T_FLOAT: {
      FloatFormat f;
      H5Tget_fields(type, &f.sign, &f.exponent, &f.exponent_bits, &f.mantissa, &f.mantissa_bits);
      return fmt::format("{}-bit floats ({} exponent, {} mantissa bits)", bits, f.exponent_bits, f.mantissa_bits);
    }
    case H5T_TIME:
      return "time";
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0 ? "variable-length string" : fmt::format("{}-byte string", H5Tget_size(type));
    case H5T_BITFIELD:
      return fmt::format("{}-bit bit fields", bits);
    case H5T_OPAQUE:
      return fmt::format("opaque ({} bytes)", H5Tget_size(type));
    case H5T_COMPOUND: {
      std::string names;
      const int members = H5Tget_nmembers(type);
      for (int i = 0; i < members && i < 8; ++i) names += (i ? ", " : "") + member_name(type, static_cast<unsigned>(i));
      return "compound of " + names + (members > 8 ? ", ..." : "");
    }
    case H5T_REFERENCE:
      return "reference";
    case H5T_ENUM:
      return "enum";
    case H5T_VLEN:
      return "variable-length sequence";
    case H5T_ARRAY:
      return "array within each element";
    case H5T_NO_CLASS:
    case H5T_NCLASSES:
      break;
  }
  return "unknown type";
}

FileType describe_type(hid_t type) {
  // The library converts in buffers of whole elements; what could be a number is never this large.
  constexpr size_t kMaxElementBytes = 1024;
  if (H5Tget_class(type) == H5T_COMPOUND && H5Tget_size(type) > kMaxElementBytes)
    refuse(type, fmt::format("its elements have {} bytes", H5Tget_size(type)));
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return describe_integer(type, H5Tget_sign(type) == H5T_SGN_2);
    case H5T_FLOAT:
      return describe_float(type);
    case H5T_BITFIELD: {
      FileType out = describe_integer(type, false);
      if (!out.conversion.empty()) refuse(type, "the library cannot convert it");
      out.bitfield = out.bits.precision == 0;
      return out;
    }
    case H5T_ENUM: {
      if (is_bool(type)) {
        FileType out;
        out.dtype = DType::bool_;
        if (const size_t bytes = H5Tget_size(type); bytes != 1)
          out.conversion = fmt::format("booleans of {} bytes are converted", bytes);
        return out;
      }
      const Handle base = check_handle(H5Tget_super(type), "enum type");
      if (H5Tget_class(base) != H5T_INTEGER) refuse(type);
      return describe_type(base);
    }
    case H5T_COMPOUND:
      return describe_compound(type);
    case H5T_TIME:
    case H5T_STRING:
    case H5T_OPAQUE:
    case H5T_REFERENCE:
    case H5T_VLEN:
    case H5T_ARRAY:
    case H5T_NO_CLASS:
    case H5T_NCLASSES:
      break;
  }
  refuse(type);
}

Handle memory_type(DType dtype) {
  const auto copy = [](hid_t type) { return check_handle(H5Tcopy(type), "type"); };
  const auto small_float = [](const FloatFormat& f) {
    Handle type = check_handle(H5Tcopy(H5T_IEEE_F32LE), "type");
    check_call(H5Tset_fields(type, f.sign, f.exponent, f.exponent_bits, f.mantissa, f.mantissa_bits), "type");
    check_call(H5Tset_size(type, 2), "type");
    check_call(H5Tset_ebias(type, f.bias), "type");
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

std::vector<std::string> member_names(hid_t type) {
  std::vector<std::string> names;
  if (H5Tget_class(type) != H5T_COMPOUND) return names;
  const int members = H5Tget_nmembers(type);
  for (int i = 0; i < members; ++i) names.push_back(member_name(type, static_cast<unsigned>(i)));
  return names;
}

namespace {

// Types whose values lie elsewhere have other sizes in memory, which the library reports, than in the file.
bool points_elsewhere(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0;
    case H5T_VLEN:
    case H5T_REFERENCE:
      return true;
    case H5T_ARRAY:
      return points_elsewhere(check_handle(H5Tget_super(type), "array type"));
    case H5T_COMPOUND: {
      const int members = H5Tget_nmembers(type);
      for (int i = 0; i < members; ++i)
        if (points_elsewhere(check_handle(H5Tget_member_type(type, static_cast<unsigned>(i)), "compound member")))
          return true;
      return false;
    }
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_TIME:
    case H5T_BITFIELD:
    case H5T_OPAQUE:
    case H5T_ENUM:
    case H5T_NO_CLASS:
    case H5T_NCLASSES:
      break;
  }
  return false;
}

}  // namespace

ElementType describe_element(hid_t type, const std::vector<std::string>& fields) {
  ElementType out;
  out.bytes = static_cast<int64_t>(H5Tget_size(type));
  Handle now = check_handle(H5Tcopy(type), "type");
  for (const std::string& field : fields) {
    const std::vector<std::string> names = member_names(now);
    const auto found = std::find(names.begin(), names.end(), field);
    if (names.empty())
      throw local::InvalidArgument(fmt::format("there is no field '{}' in its type, {}", field, type_name(now)));
    if (found == names.end())
      throw local::InvalidArgument(fmt::format("there is no field '{}'{}", field, local::suggestion(field, names)));
    const auto index = static_cast<unsigned>(found - names.begin());
    out.offset += static_cast<int64_t>(H5Tget_member_offset(now, index));
    now = check_handle(H5Tget_member_type(now, index), "compound member");
  }
  while (H5Tget_class(now) == H5T_ARRAY) {
    hsize_t extents[H5S_MAX_RANK];
    const int rank = check_call(H5Tget_array_dims2(now, extents), "array type");
    for (int d = 0; d < rank; ++d) {
      if (out.array.size() == local::kMaxDims) refuse(now, "too many axes");
      out.array.push_back(static_cast<int64_t>(extents[d]));
    }
    now = check_handle(H5Tget_super(now), "array type");
  }
  out.number = describe_type(now);
  if (!fields.empty() && out.number.conversion.empty() && points_elsewhere(type))
    out.number.conversion = "a field beside variable-length ones";
  return out;
}

}  // namespace quarry::io::hdf5
