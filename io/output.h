// Writing data sets: created by one rank, written by all at their offsets, committed as a whole. In HDF5, bool is
// h5py's enum of FALSE and TRUE over int8, complex the compound of r and i, float16 IEEE half, bfloat16 a 16-bit float
// type of that format, 0-d a scalar dataspace; all little-endian.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quarry/io/dataset.h"

namespace quarry::io {

// A scalar of text instead of numbers: a variable-length UTF-8 string or, of bytes, a string of their length. Written
// with the data set, which has no writer.
struct OutputText {
  std::string value;
  bool is_bytes = false;
};

// An encoded chunk that has its place in the file. `number`: in C order of the grid of chunks.
struct PlacedChunk {
  int64_t number = 0, offset = 0, bytes = 0;
};

// Sorts them by their numbers; of those with one number only the last one stays.
void keep_last_of_each(std::vector<PlacedChunk>& chunks);

struct OutputSpec {
  std::string object;  // absolute path; missing groups are created
  local::Dims shape;
  local::DType dtype;
  // None: contiguous. Cut to the shape; ignored, with the filters, where the shape is 0-d. Filters need chunks; a chunk
  // has less than 4 GiB.
  std::optional<local::Dims> chunks;
  std::vector<Filter> filters;  // those that FilterKind::written marks
  std::map<std::string, Attribute> attributes;
  std::optional<OutputText> text = {};  // then shape and dtype do not count
  // What stands for missing elements: the attribute `_FillValue`, of the data set's dtype and one element, as netCDF's.
  std::optional<local::Scalar> fill_value = {};
  // A group with its attributes, made where there is none; then nothing else counts, and it has no writer. Of one that
  // is there other attributes stay, and with overwrite those of the same names are replaced. For Format::has_groups().
  bool is_group = false;
  int version = 0;  // of the format, where it has several: Zarr's 2 or 3; 0: that of what is there, else the usual one
  // Axes that can grow; for HDF5, where they need chunks.
  std::vector<int> unlimited = {};
  // Names of the axes, as many as those or none; for HDF5. In the data set's group, a data set of one axis and that
  // name becomes its scale, or an empty scale of that name is made.
  std::vector<std::string> dims = {};
};

// A box of a data set that exists, to be written anew; or one behind its end along an axis that can grow.
struct ChangeSpec {
  std::string object;
  local::Dims shape;  // of the data set, as it was found
  local::DType dtype;
  local::Region region;            // steps 1
  std::optional<int> append = {};  // the axis: then the region begins at its end and has the whole of the others
};

// Chunks of at most so many bytes, or of one element: the shape, its longest axis halved as often as that takes. No
// extent is 0.
local::Dims usual_chunks(const local::Dims& shape, local::DType dtype, int64_t bytes);

// Writes regions of one created data set; obtained from OutputFile::writer() on the creating rank, by deserialize()
// elsewhere. Thread-safe.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual const OutputSpec& spec() const = 0;
  std::string serialize() const;
  static std::shared_ptr<Writer> deserialize(const std::string& bytes);
  // The same for Format::writer() of the format.
  virtual const Format& format() const = 0;
  virtual std::string layout() const = 0;

  // Unfiltered: writes C-contiguous `from` into the box `region` (steps 1) at its file offsets. Throws IoError ("no
  // space left on device ...": a program under a file size limit must ignore SIGXFSZ to get that). Blocks.
  virtual void write(const local::Region& region, const void* from) = 0;
  // Filtered: the encoded bytes of one whole file chunk (edge chunks padded) at chunk coordinates. `from`: `count`
  // elements, `strides` apart (bytes). The result lies in `scratch`, which has encode_scratch_bytes(), more than two
  // chunks; nothing else is allocated that grows with the chunk.
  virtual std::span<const std::byte> encode(const local::Dims& chunk, const void* from, const local::Dims& strides,
                                            const local::Dims& count, std::span<std::byte> scratch) const = 0;
  virtual int64_t encode_scratch_bytes() const = 0;  // 0: not filtered
  // The same of a part of a chunk that begins at `start` in it; the rest is zeros or, where a data set is changed, what
  // it is in the file.
  virtual std::span<const std::byte> encode_part(const local::Dims& chunk, const local::Dims& start, const void* from,
                                                 const local::Dims& strides, const local::Dims& count,
                                                 std::span<std::byte> scratch) const;
  // The same of C-contiguous elements, in memory of its own.
  std::vector<std::byte> encode(const local::Dims& chunk, const void* from, const local::Dims& count) const;
  // Filtered: whether encoded chunks may lie anywhere in the file. Then any rank writes them by place(), into room of
  // OutputFile::reserve(), and the creating rank learns of them by OutputFile::add_placed(); else it stores them itself
  // by OutputFile::write_encoded(). Where Format::has_chunk_files() they need no room and nobody learns of them.
  virtual bool places_chunks() const { return false; }
  virtual PlacedChunk place(const local::Dims& chunk, int64_t offset, std::span<const std::byte> bytes);
  // Where all chunks of the data set have been placed, and they are many, every rank can write a part of their index in
  // place of OutputFile::add_placed(): the nodes of so many chunks each that the index has at its lowest level. 0:
  // none.
  virtual int64_t index_node_chunks() const { return 0; }
  // Writes the nodes of chunks with ascending numbers, without a gap from a multiple of index_node_chunks() on and up
  // to another one or the last chunk, into the index at `at`, which OutputFile::reserve_index() said. `next`: the chunk
  // behind the last one; null: there is none. Returns what OutputFile::finish_index() needs to know. Throws IoError.
  virtual std::vector<PlacedChunk> write_index(int64_t at, std::span<const PlacedChunk> chunks,
                                               const PlacedChunk* next);
  // Unfiltered: the CRC-32 of what is in the file in the box `region`, in C order.
  virtual uint32_t checksum_written(const local::Region& region) const;
  // Of an encoded chunk in its place.
  virtual uint32_t checksum_written(const PlacedChunk& placed) const;
  // Sends what this process wrote to the device. commit() does it for the creating rank's node; ranks on other nodes
  // call it after their last write. Blocks. Throws IoError.
  virtual void sync() const = 0;
  virtual int64_t bytes_written() const = 0;
};

// A file, or a folder, being written. Lives on one rank. All goes to NAME.partial, which begins as a copy of NAME where
// that exists and replaces it at commit(). Until then NAME is not touched, whatever happens, and who has it open goes
// on reading the old file afterwards too. Costs the room and, where the file system cannot share blocks, the time of
// the copy.
class OutputFile {
 public:
  // Throws InvalidArgument for text with a zero character, where an object exists and !overwrite (a group is never
  // replaced), paths contradict each other or a specification cannot be; IoError where the place is not writable, has
  // not the room, holds a file of another kind, or is being written by another process.
  static std::unique_ptr<OutputFile> create(const std::string& file, std::vector<OutputSpec> specs, bool overwrite);
  // The file itself is changed, where that needs no copy of it: until commit() it is what it was, and a commit that is
  // interrupted leaves a file that no program takes for whole until quarry opens it again and completes it. Writers
  // take regions and chunks of the whole data set. Throws InvalidArgument for what cannot be, IoError where another
  // program has the file open, NotSupported for formats other than HDF5 and what that cannot write.
  static std::unique_ptr<OutputFile> change(const std::string& file, const std::vector<ChangeSpec>& specs);
  virtual ~OutputFile() = default;
  virtual std::shared_ptr<Writer> writer(size_t index) = 0;  // null of a text or group
  // Stores one encoded chunk. Thread-safe; calls may wait for each other.
  virtual void write_encoded(size_t index, const local::Dims& chunk, std::span<const std::byte> bytes) = 0;
  // Room for that many bytes of encoded chunks, where writers place them. Thread-safe.
  virtual int64_t reserve(int64_t bytes);
  // Chunks that were placed. One that comes again replaces the first. Thread-safe.
  virtual void add_placed(size_t index, std::span<const PlacedChunk> chunks);
  // Room for an index that ranks write by Writer::write_index(), behind `end`, where the last of the chunks that were
  // placed ends, of any data set of the file. Returns where. After the last add_placed().
  virtual int64_t reserve_index(size_t index, int64_t end);
  // After all ranks' write_index(): what these returned, in the order of the chunks. Throws IoError.
  virtual void finish_index(size_t index, std::vector<PlacedChunk> nodes);
  // The file stays where it is not committed, and Format::resume() goes on with it from what this returns, as it is
  // now. Throws NotSupported.
  virtual std::string keep();
  virtual void commit() = 0;  // data synced, then renamed; after all ranks' writes have returned
};

}  // namespace quarry::io
