// Values of attributes as numbers and texts.
#pragma once

#include <optional>
#include <span>

#include "quarry/io/attribute.h"
#include "quarry/io/hdf5/parse/datatype.h"
#include "quarry/io/hdf5/parse/metadata.h"

namespace quarry::io::hdf5 {

// `elements` values of a type, one after the other. Nothing for types and amounts that attributes are not given of.
// Throws IoError where values of variable length are damaged.
std::optional<Attribute> read_attribute_value(const Metadata& file, const Type& type, int64_t elements, bool is_scalar,
                                              std::span<const std::byte> bytes);

// Text of a fixed length, without what it is padded with.
std::string fixed_text(std::span<const std::byte> bytes, Type::Padding padding);

}  // namespace quarry::io::hdf5
