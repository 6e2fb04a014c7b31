// Sparse matrices in SciPy's formats on any device: coordinates (COO), compressed rows (CSR) and columns (CSC), and
// diagonals (DIA).
//
//   namespace sp = quarry::local::sparse;
//   const sp::SparseArray a = sp::csr_array(dense), b = (a + a.T()).tocsc();
//   const NdArray y = sp::matmul(a, x);
//
// One class holds every format. SciPy's names of classes (coo_array, csr_array ...) are functions that make one. `*`
// multiplies element by element, as for SciPy's sparse arrays; matmul() is the matrix product. SciPy's matrix classes
// (csr_matrix ...), which multiply as matrices, are in sparse_matrix.h. Both have two dimensions; the formats BSR, DOK
// and LIL do not exist.
//
// Values are of any dtype but the 16-bit floats; index arrays are int32 where shape and number of elements allow
// (get_index_dtype), else int64, and lie on the values' device. Functions throw InvalidArgument for shapes, formats and
// index arrays that do not fit, naming the argument, IndexError for positions out of range, TypeError for dtypes,
// OutOfMemory. Where results have sizes that are data (sums of duplicates, differences, products), a call blocks.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "quarry/local/ops/arguments.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/program/op.h"

namespace quarry::local::sparse {

enum class Format : uint8_t { coo, csr, csc, dia };
const char* name(Format format);
// Throws InvalidArgument that lists the formats; NotSupported for "bsr", "dok" and "lil".
Format parse_format(std::string_view text);

// A handle, as NdArray: copies share values and indices. Methods that change a matrix in place (sum_duplicates(),
// set() ...) give it new arrays, so that copies made before keep theirs.
class SparseArray {
 public:
  // All zeros.
  SparseArray(Format format, const Dims& shape, DType dtype = DType::float64,
              const ExecContext& context = current_context());
  // The parts of a matrix, without checks. `first`: rows (COO), indptr (CSR, CSC) or offsets (DIA); `second`: columns
  // or indices, none for DIA. `canonical`: sorted, without duplicates; nothing if that is not known.
  SparseArray(Format format, const Dims& shape, NdArray data, NdArray first, NdArray second,
              std::optional<bool> canonical = std::nullopt);

  Format format() const { return format_; }
  const char* getformat() const { return name(format_); }
  const Dims& shape() const { return shape_; }
  const Dims& get_shape() const { return shape_; }
  int64_t rows() const { return shape_[0]; }
  int64_t columns() const { return shape_[1]; }
  int ndim() const { return 2; }
  DType dtype() const { return data_.dtype(); }
  Device device() const { return data_.device(); }
  // Stored elements, zeros and duplicates included; of DIA those inside the matrix. An axis: per column (0), per row.
  int64_t nnz() const;
  int64_t getnnz() const { return nnz(); }
  int64_t size() const { return nnz(); }
  NdArray getnnz(int64_t axis) const;
  int64_t maxprint() const { return 50; }
  int64_t getmaxprint() const { return maxprint(); }
  // Lines "  (row, column)<tab>value", at most maxprint() of them, below a header. Blocks.
  std::string to_string() const;

  const NdArray& data() const { return data_; }
  // Throw InvalidArgument for other formats.
  const NdArray& row() const;
  const NdArray& col() const;
  std::vector<NdArray> coords() const { return {row(), col()}; }
  const NdArray& indices() const;
  const NdArray& indptr() const;
  const NdArray& offsets() const;

  // Whether the lines are sorted (CSR, CSC), and no element is stored twice. The first call may block.
  bool has_sorted_indices() const;
  bool has_canonical_format() const;
  // Throws InvalidArgument naming the array that breaks the format: indptr that does not start at 0, decreases or ends
  // beyond the indices; with `full_check` also positions out of range. Blocks.
  void check_format(bool full_check = true) const;
  // Throws InvalidArgument unless indices are sorted and none occurs twice. Blocks.
  void check_canonical() const;

  SparseArray tocoo() const;
  SparseArray tocsr() const;  // sorted, duplicates summed, but where it is CSR already
  SparseArray tocsc() const;
  SparseArray todia() const;
  SparseArray asformat(Format format) const;
  SparseArray asformat(std::string_view format) const { return asformat(parse_format(format)); }
  // These throw NotSupported.
  [[noreturn]] SparseArray tobsr() const;
  [[noreturn]] SparseArray todok() const;
  [[noreturn]] SparseArray tolil() const;
  // order "C" or "F".
  NdArray toarray(std::string_view order = "C") const;
  NdArray todense(std::string_view order = "C") const { return toarray(order); }
  NdArray A() const { return toarray(); }
  SparseArray to(Device device) const;
  SparseArray get() const { return to(kCpu); }

  SparseArray copy() const;
  SparseArray astype(DType dtype) const;
  SparseArray asfptype() const;  // bool and integers as float64
  // The same structure with other values, as many as there are.
  SparseArray with_data(NdArray data) const;
  SparseArray conj() const;
  SparseArray conjugate() const { return conj(); }
  SparseArray real() const;
  SparseArray imag() const;
  // Shares values and indices: CSR becomes CSC.
  SparseArray transpose() const;
  SparseArray T() const { return transpose(); }
  SparseArray mT() const { return transpose(); }
  SparseArray H() const { return transpose().conj(); }
  SparseArray getH() const { return H(); }
  // order "C" or "F"; one extent may be -1. COO.
  SparseArray reshape(const Dims& shape, std::string_view order = "C") const;
  void set_shape(const Dims& shape) { *this = reshape(shape).asformat(format_); }

  void sum_duplicates();
  void sort_indices();
  SparseArray sorted_indices() const;
  void eliminate_zeros();
  void prune();  // drops what lies behind the last element of indices and data

  // The elements on diagonal k, dense.
  NdArray diagonal(int64_t k = 0) const;
  Scalar trace(int64_t offset = 0) const;
  // One value, or as many as the diagonal has (fewer: only the first ones are set).
  void setdiag(const Arg& values, int64_t k = 0);
  // Row and column numbers of the elements that are not zero, in the order of rows.
  ArrayTuple nonzero() const;
  int64_t count_nonzero() const;
  NdArray count_nonzero(int64_t axis) const;

  // a[i, j] for integers, slices, integer vectors and masks of each axis; an integer leaves an axis of one element.
  SparseArray index(const IndexTerm& row, const IndexTerm& column = IndexTerm(detail::full_slice)) const;
  // Several pairs (rows[k], columns[k]), broadcast against each other: a dense array of values.
  NdArray values_at(const NdArray& rows, const NdArray& columns) const;
  // The elements where a mask of the matrix's shape is true, dense, in C order.
  NdArray values_where(const NdArray& mask) const;
  Scalar item(int64_t row, int64_t column) const;
  SparseArray getrow(int64_t i) const { return index(IndexTerm(i)); }
  SparseArray getcol(int64_t j) const { return index(IndexTerm(detail::full_slice), IndexTerm(j)); }
  // a[i, j] = values, which broadcast to the indexed shape, dense or sparse. Where positions repeat, the last counts.
  void set(const IndexTerm& row, const IndexTerm& column, const Arg& values);
  void set(const IndexTerm& row, const IndexTerm& column, const SparseArray& values);
  void set_at(const NdArray& rows, const NdArray& columns, const Arg& values);

  // Over all elements or one axis; zeros count. Dense, with one axis less. dtype as NumPy's.
  NdArray sum(std::optional<int64_t> axis = {}, std::optional<DType> dtype = {}) const;
  NdArray mean(std::optional<int64_t> axis = {}, std::optional<DType> dtype = {}) const;
  NdArray max(std::optional<int64_t> axis = {}) const;
  NdArray min(std::optional<int64_t> axis = {}) const;
  NdArray argmax(std::optional<int64_t> axis = {}) const;  // flat positions in C order without an axis
  NdArray argmin(std::optional<int64_t> axis = {}) const;

  // Element by element; see arithmetic.h.
  SparseArray multiply(const SparseArray& other) const;
  SparseArray multiply(const Arg& other) const;
  SparseArray maximum(const SparseArray& other) const;
  SparseArray maximum(const Scalar& other) const;
  SparseArray minimum(const SparseArray& other) const;
  SparseArray minimum(const Scalar& other) const;
  SparseArray power(const Scalar& exponent, std::optional<DType> dtype = {}) const;
  // The matrix products; see products.h.
  SparseArray dot(const SparseArray& other) const;
  NdArray dot(const NdArray& other) const;

  // For the functions of this folder: the arrays by position, and what is known of them.
  const NdArray& first() const { return first_; }
  const NdArray& second() const { return second_; }
  DType index_dtype() const { return first_.dtype(); }

 private:
  Format format_;
  Dims shape_;
  NdArray data_, first_, second_;
  mutable std::optional<bool> canonical_;
};
// Makers. The shape may be left out where the indices tell the least one. They check their arguments, which blocks.
SparseArray coo_array(const NdArray& dense);
SparseArray coo_array(const SparseArray& other);
SparseArray coo_array(const NdArray& data, const NdArray& row, const NdArray& col,
                      const std::optional<Dims>& shape = {});
SparseArray csr_array(const NdArray& dense);
SparseArray csr_array(const SparseArray& other);
SparseArray csr_array(const NdArray& data, const NdArray& indices, const NdArray& indptr,
                      const std::optional<Dims>& shape = {});
SparseArray csc_array(const NdArray& dense);
SparseArray csc_array(const SparseArray& other);
SparseArray csc_array(const NdArray& data, const NdArray& indices, const NdArray& indptr,
                      const std::optional<Dims>& shape = {});
SparseArray dia_array(const NdArray& dense);
SparseArray dia_array(const SparseArray& other);
// data[k, j] is the element of column j on diagonal offsets[k]; no offset twice.
SparseArray dia_array(const NdArray& data, const NdArray& offsets, const Dims& shape);
// int32 where positions up to `maxval` and the dtypes of the arrays allow, else int64; with `check_contents` wider
// arrays whose values fit count as int32 (blocks).
DType get_index_dtype(const std::vector<NdArray>& arrays = {}, std::optional<int64_t> maxval = {},
                      bool check_contents = false);
// The index arrays in another dtype. Throws InvalidArgument where a position does not fit. Blocks.
std::vector<NdArray> safely_cast_index_arrays(const SparseArray& a, DType index_dtype = DType::int32);

// Two axes: transposes, or the matrix itself.
SparseArray matrix_transpose(const SparseArray& a);
SparseArray swapaxes(const SparseArray& a, int64_t axis1, int64_t axis2);
SparseArray permute_dims(const SparseArray& a, const Axes& axes = {});

}  // namespace quarry::local::sparse
