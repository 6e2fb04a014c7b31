#include "quarry/io/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "quarry/local/base/error.h"

namespace quarry::io {

TextFile::TextFile(std::string path)
    : path_(std::move(path)), partial_(path_ + ".partial"), file_(std::fopen(partial_.c_str(), "wb")) {
  if (!file_) fail("making");
}

TextFile::~TextFile() {
  if (!file_) return;
  std::fclose(file_);
  std::remove(partial_.c_str());
}

void TextFile::fail(const char* what) {
  const int error = errno;
  if (file_) std::fclose(file_);
  file_ = nullptr;
  std::remove(partial_.c_str());
  throw local::IoError(fmt::format("{} '{}' failed: {}", what, path_, std::strerror(error)));
}

void TextFile::append(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail("writing");
}

void TextFile::commit() {
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  if (!closed || std::rename(partial_.c_str(), path_.c_str()) != 0) fail("writing");
}

void write_file(const std::string& path, const std::string& content) {
  TextFile file(path);
  file.append(content);
  file.commit();
}

}  // namespace quarry::io
