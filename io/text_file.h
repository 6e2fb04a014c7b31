// Files written whole: reports, traces, drawings.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace quarry::io {

// Written piece by piece beside the path, renamed by commit(); without it nothing is left. All throw IoError.
class TextFile {
 public:
  explicit TextFile(std::string path);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  void append(std::string_view text);
  void commit();

 private:
  [[noreturn]] void fail(const char* what);
  const std::string path_, partial_;
  std::FILE* file_ = nullptr;
};

// All at once.
void write_file(const std::string& path, const std::string& content);

}  // namespace quarry::io
