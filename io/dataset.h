// Data sets in files of any format: what a file holds, and reading any hyperslab of it, by offset where the format and
// the layout allow.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "quarry/io/attribute.h"
#include "quarry/io/filter.h"
#include "quarry/local/base/dtype.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/shape.h"

namespace quarry::io {

class Format;         // io/format.h
class CachedChunks;   // io/chunk_cache.h
class EncodedChunks;  // io/encoded_chunks.h

struct DatasetInfo {
  std::string file;    // path as given
  std::string object;  // absolute path inside the file
  local::Dims shape;   // empty: 0-d
  local::DType dtype = local::DType::float64;
  bool swapped = false;               // elements are stored in foreign byte order
  std::optional<local::Dims> chunks;  // of the file; none: contiguous or compact
  std::vector<Filter> filters;        // in the order applied when writing
  std::string layout;                 // contiguous, chunked, compact, virtual, external
  bool direct = false;                // read by offset
  std::string library_reason;         // why not, where !direct
  int64_t stored_bytes = 0;           // on disk
  std::map<std::string, Attribute> attributes;
};

// Thread-safe once open. Throws on open: InvalidArgument (no such file, no regular file; no such object, with the
// nearest name; a group), IoError (of no known format; truncated; damaged: with file, object and reason), TypeError (a
// type quarry has no dtype for; a null dataspace), NotSupported (a filter that is not installed). Reading throws
// IoError.
//
// In HDF5 bool is h5py's enum of FALSE and TRUE over one byte (other values read as true), complex the compound of r
// and i; other enums read as their integers, bit fields as unsigned integers. An attribute array of one element
// (netCDF-4) is given as a number.
class Dataset {
 public:
  static std::shared_ptr<Dataset> open(const std::string& file, const std::string& object);
  virtual ~Dataset() = default;
  virtual const DatasetInfo& info() const = 0;

  // Everything another rank needs to read directly (metadata and chunk index) without opening the file through the
  // format's library.
  std::string serialize() const;
  static std::shared_ptr<Dataset> deserialize(const std::string& bytes);
  // The same for Format::dataset() of the format.
  virtual const Format& format() const = 0;
  virtual std::string layout() const = 0;

  // Reads `region` into C-contiguous host memory of region.elements() * itemsize bytes. On the direct path the bytes
  // stay in the file's byte order (info().swapped); the library path converts and reports swapped = false. `scratch` of
  // read_scratch_bytes(region) bytes. Blocks.
  virtual int64_t read_scratch_bytes(const local::Region& region) const = 0;
  virtual void read(const local::Region& region, void* to, std::span<std::byte> scratch) const = 0;

  // One piece of a visited region: the box [start, start + count) in the region's own coordinates, elements at data
  // with byte strides.
  struct Piece {
    local::Dims start, count;
    const std::byte* data;
    local::Dims strides;
  };
  // Reads `region` piece by piece through L2-sized pieces of `scratch` and hands each to `consume`, in an order and
  // partition that depend only on the file's layout and the region. For computing while reading without a region-sized
  // buffer. Where nothing was written, all elements of a piece are one fill value: its strides are 0. Blocks.
  virtual int64_t visit_scratch_bytes(const local::Region& region) const = 0;
  virtual void visit(const local::Region& region, std::span<std::byte> scratch,
                     const std::function<void(const Piece&)>& consume) const = 0;

  // Bytes read from the file by this object so far.
  virtual int64_t bytes_read() const = 0;

  // Where a part of a chunk costs reading and decoding all of it: the bytes of a decoded chunk; else 0.
  virtual int64_t decoded_chunk_bytes() const { return 0; }
  // From here on reads keep decoded chunks there for each other; null: no more. Reads that are under way end as they
  // began. Of data sets that have decoded_chunk_bytes().
  virtual void keep_chunks(const std::shared_ptr<CachedChunks>& /*cache*/) {}
  // Whether the run that keeps them wants them several times.
  virtual bool goes_through_again() const { return false; }

  // The chunks as they are stored, where a device can decode them; else null.
  virtual const EncodedChunks* encoded_chunks() const { return nullptr; }
};

// One object of a file, for `quarry info`.
struct ObjectInfo {
  std::string path;
  bool is_group = false;
  std::optional<DatasetInfo> dataset;                // absent where the type or layout is not readable
  std::string note;                                  // then: why; for links: where they point
  std::map<std::string, Attribute> attributes = {};  // of a group; a data set's are in `dataset`
};
// Every object at or below `object`, depth first, names in order; cycles are cut.
std::vector<ObjectInfo> list_objects(const std::string& file, const std::string& object = "/");

}  // namespace quarry::io
