// Direct factorisations of sparse matrices in host memory: what SparseProducts::factorise() takes and gives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/dtype.h"

namespace quarry::local {

struct LuOptions {
  std::string column_order = "COLAMD";  // or NATURAL, MMD_ATA, MMD_AT_PLUS_A
  double pivot_threshold = 1;           // a diagonal element at least that part of its column's largest is the pivot
  bool symmetric_mode = false;
  bool incomplete = false;  // an incomplete factorisation: drop_tolerance, fill_factor
  double drop_tolerance = 1e-4, fill_factor = 10;
};

// Compressed columns of a square matrix.
struct LuMatrix {
  DType dtype = DType::float64;  // float32, float64, complex64, complex128
  int64_t n = 0;
  const int32_t* offsets = nullptr;
  const int32_t* rows = nullptr;  // sorted, none twice
  const void* values = nullptr;
};

// Compressed columns, unsorted.
struct LuFactor {
  std::vector<int32_t> offsets, rows;
  std::vector<char> values;
};

namespace detail {

// Pr a Pc = L U; row i of a is row row_order()[i] of Pr a, column j is column column_order()[j] of a Pc.
class LuFactors {
 public:
  virtual ~LuFactors() = default;
  // x holds n x columns right sides, by columns, and gets the solutions. trans: 'N', 'T' or 'H'. Thread-safe.
  virtual void solve(void* x, int64_t columns, char trans) const = 0;
  virtual const std::vector<int32_t>& row_order() const = 0;
  virtual const std::vector<int32_t>& column_order() const = 0;
  virtual LuFactor lower() const = 0;
  virtual LuFactor upper() const = 0;
  virtual int64_t nonzeros() const = 0;  // of both, with L's diagonal
};

}  // namespace detail

}  // namespace quarry::local
