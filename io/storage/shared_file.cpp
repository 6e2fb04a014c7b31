#include "quarry/io/shared_file.h"

#include "quarry/io/storage/replacement.h"

namespace quarry::io {

SharedFile::SharedFile(const std::string& file, double bytes)
    : place_(std::make_unique<Replacement>(file, bytes, Replacement::Content::nothing)) {}
SharedFile::~SharedFile() = default;

const std::string& SharedFile::path() const { return place_->path(); }
void SharedFile::commit() { place_->commit(); }

}  // namespace quarry::io
