// Matrix Market files: coordinate and array format, fields real, integer, complex and pattern, symmetries general,
// symmetric, skew-symmetric and hermitian.
//
// Reading and writing are the host's work. Malformed text throws IoError with file, line and, of a word, column, which
// count from 1: a header that is none, numbers that are none or out of range, positions outside of the matrix, elements
// that the symmetry does not allow, too few or too many lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "quarry/local/sparse/sparse_array.h"

namespace quarry::local::sparse {

struct MatrixMarketInfo {
  int64_t rows = 0, columns = 0, entries = 0;  // entries: lines of numbers
  std::string format, field, symmetry;
  int64_t begin = 0, header_lines = 0;  // bytes and lines up to the entries

  DType dtype() const;  // of the values that mmread() makes
};
// Reads as much of the file as the line of sizes needs.
MatrixMarketInfo mminfo(const std::string& path);

// COO of float64, int64 or complex128 (pattern: ones of float64), both triangles of a symmetric matrix; a dense array
// for array format. On the current device.
std::variant<SparseArray, NdArray> mmread(const std::string& path);
std::variant<SparseArray, NdArray> mmread_text(std::string_view text, const std::string& name = "<text>");

// Parts of a file in coordinate format: whole lines behind the one of sizes, comments and blank ones among them.
struct MatrixMarketCounts {
  int64_t lines = 0, entries = 0;  // all that end in the text, and those of numbers
  int64_t elements = 0;            // entries and what mirrors them
};
// Reads no values and finds no mistakes.
MatrixMarketCounts mmcount(std::string_view text, const MatrixMarketInfo& info);
struct MatrixMarketElements {
  NdArray row, col, data;  // int64, int64, and values as mmread()'s
};
// The elements of both triangles, on the current device. Throws as mmread(), where the text begins with the line
// `first_line` of the file.
MatrixMarketElements mmread_lines(std::string_view text, const MatrixMarketInfo& info, const std::string& name,
                                  int64_t first_line);

struct MatrixMarketOptions {
  std::string comment = {};
  std::string field = {};            // by the dtype; "pattern" leaves values out
  int precision = -1;                // digits; by default as many as bring back the same number of the dtype
  std::string symmetry = "general";  // of another one only the lower triangle is written; not checked
};
// Coordinate format of a sparse matrix, array format of a dense one. Throws IoError where the file cannot be written,
// InvalidArgument for options that do not exist.
void mmwrite(const std::string& path, const SparseArray& a, const MatrixMarketOptions& options = {});
void mmwrite(const std::string& path, const NdArray& a, const MatrixMarketOptions& options = {});
std::string mmwrite_text(const SparseArray& a, const MatrixMarketOptions& options = {});
std::string mmwrite_text(const NdArray& a, const MatrixMarketOptions& options = {});

// Parts of such a text, without options: the lines before those of numbers (`entries`: none in array format), and the
// lines of elements at positions counted from 0, or of the values of an array, one column after the other. No line of
// numbers is longer than kLongestMatrixMarketLine.
std::string mmwrite_head(DType dtype, const Dims& shape, std::optional<int64_t> entries);
std::string mmwrite_lines(const MatrixMarketElements& elements);
std::string mmwrite_lines(const NdArray& values);
inline constexpr int64_t kLongestMatrixMarketLine = 2 * 20 + 2 * 25;  // two positions, and two numbers with their ends

}  // namespace quarry::local::sparse
