// File formats: what reads and writes one kind of file, and the list of those that there are.
//
// A new format is a folder with a Format and a row in formats.cpp (or a call of add_format() by the program that has
// it).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/dataset.h"
#include "quarry/io/output.h"

namespace quarry::io {

// Thread-safe; lives as long as the process.
class Format {
 public:
  virtual ~Format() = default;
  virtual std::string_view name() const = 0;                         // "HDF5"; no two formats have the same
  virtual std::span<const std::string_view> extensions() const = 0;  // ".h5", lower case
  virtual bool recognises(const ByteSource& file) const = 0;         // by what is in the file; does not throw

  // The same of a folder.
  virtual bool recognises_folder(const std::string& /*path*/) const { return false; }
  // Whether arrays of a file are in groups, which have attributes of their own.
  virtual bool has_groups() const { return false; }
  // Whether a file is one array, so that `/` is the only object that needs to be named.
  virtual bool is_one_array() const { return false; }

  // Whether a file is a folder where every chunk has a file of its own: then chunks of a computation hold whole ones.
  virtual bool has_chunk_files() const { return false; }

  // As Dataset::open() and list_objects(), of a regular file or a folder that is recognised.
  virtual std::shared_ptr<Dataset> open(const std::string& file, const std::string& object) const = 0;
  virtual std::vector<ObjectInfo> list(const std::string& file, const std::string& object) const = 0;
  // The names of a data set's axes where each has one, else none. Throws as open().
  virtual std::vector<std::string> axis_names(const std::string& /*file*/, const std::string& /*object*/) const {
    return {};
  }
  // Calls `use` with regions that together are what the file holds of a data set of this format, each no more than a
  // chunk or about `bytes`, until it returns false. What was never written may be left out.
  virtual void for_each_stored(const Dataset& dataset, int64_t bytes,
                               const std::function<bool(const local::Region&)>& use) const;
  // What Dataset::layout() of this format gave.
  virtual std::shared_ptr<Dataset> dataset(const std::string& layout) const = 0;

  // What will be written of a specification, before anything is planned: chunks and filters as this format needs them,
  // so that ranks encode whole ones. Throws InvalidArgument.
  virtual void prepare(OutputSpec& /*spec*/) const {}
  // As OutputFile::create(), of prepared specifications or others. Throws NotSupported where the format is only read.
  virtual std::unique_ptr<OutputFile> create(const std::string& file, std::vector<OutputSpec> specs,
                                             bool overwrite) const = 0;
  // As OutputFile::change().
  virtual std::unique_ptr<OutputFile> change(const std::string& file, const std::vector<ChangeSpec>& specs) const;
  // Whether arrays of such a file can be written with OutputFile::keep().
  virtual bool can_resume() const { return false; }
  // Throws NotSupported, which names the file and the formats that can, where it cannot.
  void check_resumable(const std::string& file) const;
  // Goes on with an output that was kept. Throws NotSupported; InvalidArgument where it, or the file that it is to
  // replace, is not any more what it was.
  virtual std::unique_ptr<OutputFile> resume(const std::string& file, const std::string& kept) const;
  // What Writer::layout() of this format gave.
  virtual std::shared_ptr<Writer> writer(const std::string& layout) const = 0;
};

// In the order in which they are asked.
std::vector<const Format*> formats();
// Adds one to the end. Throws InvalidArgument for a name that is taken.
void add_format(const Format& format);

// The format of a file or folder that exists: the one that recognises it, else the one of its extension, which then
// says what is wrong with it. Throws InvalidArgument (no such file, no regular file), IoError where it is of no known
// format, naming them.
const Format& format_of(const std::string& file);
// Whether a format has the extension of the name, and whether one recognises the file or folder that is there, or the
// folder.
bool knows_extension(const std::string& file);
bool is_known(const std::string& file);
bool is_known_folder(const std::string& file);
// The format of a file to be written: that of the file that is there, else of the extension, else the first of
// formats().
const Format& format_to_write(const std::string& file);

}  // namespace quarry::io
