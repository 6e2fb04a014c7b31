// Datatype messages: what the elements of a data set or attribute are, as the file says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/parser.h"

namespace quarry::io::hdf5 {

struct Type {
  enum class Kind : uint8_t {
    integer,
    real,
    time,
    text,  // of fixed length
    bitfield,
    opaque,
    compound,
    reference,
    enumeration,
    sequence,  // of variable length; of characters where `is_text`
    array,
    complex,  // two parts of one float type
  };
  enum class Order : uint8_t { little, big, other };
  enum class Padding : uint8_t { terminator, zeros, spaces };
  Kind kind = Kind::integer;
  int64_t bytes = 0;  // of a value in the file
  // Numbers and bit fields: `precision` bits from bit `offset` on.
  Order order = Order::little;
  int64_t offset = 0, precision = 0;
  bool is_signed = false;
  // Floats: where the parts are, in bits.
  int64_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0, bias = 0;
  bool implied = false;  // the mantissa's first bit is not stored
  // Text.
  Padding padding = Padding::terminator;
  bool is_text = false;
  std::vector<Type> parts;         // compound: its members; else the one type that it is of
  std::vector<std::string> names;  // compound: of its members; enumeration
  std::vector<int64_t> places;     // compound: offsets of its members, in bytes
  std::vector<std::byte> values;   // enumeration, one after the other
  std::vector<int64_t> extents;    // array

  const Type& part() const { return parts.at(0); }
};

// Reads a datatype message, or one inside of another. Throws IoError unless every count and size inside it stays inside
// its message and fits the others.
Type read_type(Cursor& in, const FileFormat& format);

}  // namespace quarry::io::hdf5
