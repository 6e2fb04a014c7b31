// Reads tests/oracle/CHAPTER.h5, which scripts/oracle/generate.py writes; scripts/oracle/format.py says what they hold.
#pragma once

#include <hdf5.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/ndarray/ndarray.h"
#include "tests/support/source_file.h"

namespace quarry::oracle {

enum class Kind : uint8_t { ufunc, reduction, print, promote, can_cast, astype, index, matmul, result_type };

// An array as bytes and a view of them.
struct HostArray {
  local::DType dtype{};
  local::Dims shape, strides;
  int64_t offset = 0;
  const unsigned char* bytes = nullptr;
  int64_t byte_count = 0;

  int64_t size() const { return local::element_count(shape); }
  // The same layout on the current device.
  local::NdArray upload() const {
    const local::NdArray flat = local::from_bytes(bytes, local::DType::uint8, {byte_count});
    return {flat.buffer(), dtype, shape, strides, offset};
  }
  // Element number i in C order.
  const unsigned char* element(int64_t i) const {
    int64_t at = offset;
    for (int d = shape.size() - 1; d >= 0; --d) {
      at += i % shape[d] * strides[d];
      i /= shape[d];
    }
    return bytes + at;
  }
};

// An argument: a pool array or a literal.
struct Argument {
  int array = -1;
  local::Scalar literal;
};

// NumPy's answer: arrays, or the class of the exception.
struct Expected {
  enum class Error : uint8_t { none, type_error, value_error, index_error } error = Error::none;
  std::vector<HostArray> arrays;
};

class Reader {
 public:
  static constexpr struct NoPool {
  } no_pool{};
  explicit Reader(std::vector<unsigned char> bytes) : bytes_(std::move(bytes)) {
    const auto count = number<uint32_t>();
    for (uint32_t i = 0; i < count; ++i) pool_.push_back(array());
  }
  // A table has no pool of arrays.
  Reader(std::vector<unsigned char> bytes, NoPool) : bytes_(std::move(bytes)) {}
  bool done() const { return at_ == bytes_.size(); }
  const std::vector<HostArray>& pool() const { return pool_; }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto length = number<uint32_t>();
    const auto* first = reinterpret_cast<const char*>(take(length));
    return {first, length};
  }
  local::DType dtype() { return static_cast<local::DType>(kDTypes[number<uint8_t>()]); }
  std::optional<local::DType> optional_dtype() {
    const auto code = number<uint8_t>();
    if (code == 255) return std::nullopt;
    return kDTypes[code];
  }
  HostArray array() {
    HostArray result;
    result.dtype = dtype();
    const int ndim = number<uint8_t>();
    result.shape = result.strides = local::Dims::filled(ndim);
    for (int64_t& extent : result.shape) extent = number<int64_t>();
    for (int64_t& stride : result.strides) stride = number<int64_t>();
    result.offset = number<int64_t>();
    result.byte_count = number<int64_t>();
    result.bytes = take(static_cast<size_t>(result.byte_count));
    return result;
  }
  Argument argument() {
    Argument result;
    switch (number<uint8_t>()) {
      case 0:
        result.array = static_cast<int>(number<uint32_t>());
        break;
      case 1:
        result.literal = number<uint8_t>() != 0;
        break;
      case 2:
        result.literal = number<int64_t>();
        break;
      case 3:
        result.literal = number<double>();
        break;
      default: {
        const auto real = number<double>();
        result.literal = std::complex<double>(real, number<double>());
      }
    }
    return result;
  }
  Expected expected() {
    Expected result;
    result.error = static_cast<Expected::Error>(number<uint8_t>());
    if (result.error != Expected::Error::none) return result;
    const int count = number<uint8_t>();
    for (int i = 0; i < count; ++i) result.arrays.push_back(array());
    return result;
  }

 private:
  // The codes of the file, by name: the order of the enum may change.
  static constexpr local::DType kDTypes[] = {local::DType::bool_,   local::DType::int8,      local::DType::int16,
                                             local::DType::int32,   local::DType::int64,     local::DType::uint8,
                                             local::DType::uint16,  local::DType::uint32,    local::DType::uint64,
                                             local::DType::float16, local::DType::bfloat16,  local::DType::float32,
                                             local::DType::float64, local::DType::complex64, local::DType::complex128};
  const unsigned char* take(size_t count) {
    if (count > bytes_.size() - at_) throw local::IoError("the oracle file is truncated");
    const unsigned char* first = bytes_.data() + at_;
    at_ += count;
    return first;
  }
  const std::vector<unsigned char> bytes_;
  size_t at_ = 0;
  std::vector<HostArray> pool_;
};

// ---- files ----

// A file of tests/oracle. QUARRY_TEST_SOURCE says where the sources are on a machine that did not build the tests.
inline std::filesystem::path file(const std::string& name) {
  const char* source = std::getenv("QUARRY_TEST_SOURCE");
  const std::filesystem::path relative = "tests/oracle/" + name;
  return source ? source / relative : test::source_file(relative);
}

// The bytes of a section of a file; none where it has no such section.
inline std::optional<std::vector<unsigned char>> section_of(const std::filesystem::path& path,
                                                            const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) throw local::IoError("cannot open " + path.string());
  std::optional<std::vector<unsigned char>> bytes;
  herr_t status = 0;
  if (H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0) {
    const hid_t dataset = H5Dopen2(file, name.c_str(), H5P_DEFAULT), space = H5Dget_space(dataset);
    bytes.emplace(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
    status = H5Dread(dataset, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes->data());
    H5Sclose(space);
    H5Dclose(dataset);
  }
  H5Fclose(file);
  if (status < 0) throw local::IoError("cannot read " + path.string());
  return bytes;
}

// Of a chapter, which must have the section.
inline std::vector<unsigned char> section(const std::string& chapter, const std::string& name) {
  std::optional<std::vector<unsigned char>> bytes = section_of(file(chapter + ".h5"), name);
  if (!bytes) throw local::IoError("chapter " + chapter + " of the oracle has no " + name);
  return *std::move(bytes);
}

// The chapters that have a section, in the order of their names; none where the sources are not found.
inline std::vector<std::string> chapters_with(const std::string& name) {
  std::vector<std::string> chapters;
  if (!std::filesystem::exists(file(""))) return chapters;
  for (const auto& entry : std::filesystem::directory_iterator(file(""))) {
    if (entry.path().extension() != ".h5") continue;
    const hid_t opened = H5Fopen(entry.path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    if (opened < 0) throw local::IoError("cannot open " + entry.path().string());
    if (H5Lexists(opened, name.c_str(), H5P_DEFAULT) > 0) chapters.push_back(entry.path().stem());
    H5Fclose(opened);
  }
  std::sort(chapters.begin(), chapters.end());
  return chapters;
}

// The rows of a table: its fields each.
inline std::vector<std::vector<std::string>> table(const std::string& chapter, const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  for (Reader reader(section(chapter, name), Reader::no_pool); !reader.done();) {
    std::vector<std::string>& row = rows.emplace_back(reader.number<uint32_t>());
    for (std::string& field : row) field = reader.text();
  }
  return rows;
}

}  // namespace quarry::oracle
