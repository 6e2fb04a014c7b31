// A file that several processes write by offset, and that appears, or replaces another, when all of it is written.
#pragma once

#include <memory>
#include <string>

namespace quarry::io {

class Replacement;

// Lives on one process; the others write by ByteFile to path(). Without commit() nothing is left of it.
class SharedFile {
 public:
  // Makes NAME.partial, empty. Throws IoError where the place is not writable, has not the room for so many bytes, or
  // is being written by another process.
  SharedFile(const std::string& file, double bytes);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& path() const;
  // Data synced, of this process's node, then renamed. Throws IoError.
  void commit();

 private:
  std::unique_ptr<Replacement> place_;
};

}  // namespace quarry::io
