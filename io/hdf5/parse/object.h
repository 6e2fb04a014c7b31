// What an object is, by the messages of its header: a data set, a group with its links, or a named type. Nothing that
// the file says is believed: every count and size stays inside its message and fits the others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quarry/io/attribute.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/datatype.h"
#include "quarry/io/hdf5/parse/metadata.h"
#include "quarry/local/base/shape.h"

namespace quarry::io::hdf5 {

struct Dataspace {
  bool is_null = false, is_scalar = false;
  bool countable = true;                        // all extents and their product fit 63 bits
  std::vector<uint64_t> stated, stated_limits;  // extents as the file has them; limits: all ones without one
  local::Dims shape, limits;                    // where countable; limits: kUnlimited at most
  int64_t elements() const;
};

// A filter as the file names it.
struct StoredFilter {
  int id = 0;
  bool optional = false;
  std::string name;
  std::vector<uint32_t> values;
};

struct Link {
  enum class Kind : uint8_t { hard, soft, external, other };
  std::string name;
  Kind kind = Kind::hard;
  int64_t header = 0;            // hard: of the object, relative to the format's base
  std::string target_file = {};  // external
  std::string target = {};       // soft and external: the path
};

struct Object {
  enum class Kind : uint8_t { group, dataset, type, other };
  Kind kind = Kind::other;
  int64_t header = 0;  // relative to the format's base

  // Data sets; types have `type` alone.
  std::optional<Type> type;
  std::optional<Dataspace> space;
  std::optional<LayoutMessage> layout;
  std::vector<std::byte> compact;  // the data of a compact layout
  std::vector<std::byte> fill;     // one element as the file has it; empty: none was defined
  std::vector<StoredFilter> filters;
  std::optional<std::vector<std::string>> external;  // the other files that its data is in

  // Groups.
  struct SymbolTable {
    int64_t tree = kNoAddress, heap = kNoAddress;
  };
  std::optional<SymbolTable> symbols;
  struct Dense {  // links or attributes in a fractal heap
    int64_t heap = kNoAddress, tree = kNoAddress;
  };
  std::optional<Dense> dense_links, dense_attributes;
  std::vector<Link> compact_links;

  // Numbers, texts and arrays of numbers; others are left out, and so are damaged ones: `attributes_reason` then says
  // why the first one was.
  std::map<std::string, Attribute> attributes;
  std::string attributes_reason;
};

// Throws IoError where the header, or what describes a data set, is damaged.
Object read_object(const Metadata& file, int64_t header);
// The links of a group, by name. Throws IoError where they are damaged.
std::vector<Link> read_links(const Metadata& file, const Object& group);

}  // namespace quarry::io::hdf5
