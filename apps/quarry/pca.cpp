#include "quarry/apps/quarry/pca.h"

#include <cmath>
#include <vector>

#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/local/base/error.h"

namespace quarry::apps {

using local::InvalidArgument;

namespace {

const ReduceOptions kSample{.ddof = 1};

// "column 3", "columns 1, 4, 9 and 12 more".
std::string column_list(const std::vector<int64_t>& columns) {
  constexpr size_t kMost = 10;
  std::string text = columns.size() == 1 ? "column " : "columns ";
  for (size_t i = 0; i < std::min(columns.size(), kMost); ++i) text += (i > 0 ? ", " : "") + std::to_string(columns[i]);
  return columns.size() > kMost ? text + " and " + std::to_string(columns.size() - kMost) + " more" : text;
}

template <class F>
std::vector<int64_t> columns_where(int64_t count, F&& condition) {
  std::vector<int64_t> columns;
  for (int64_t j = 0; j < count; ++j) {
    if (condition(j)) columns.push_back(j);
  }
  return columns;
}

Array replaced(const Array& x, const Array& mean) { return where(isnan(x), mean, x); }

}  // namespace

ColumnStatistics column_statistics(const Array& data, const std::string& name, bool replace_missing) {
  const Array x = data.astype(DType::float64);
  const int64_t rows = x.shape(0), columns = x.shape(1);
  if (rows < 2) throw InvalidArgument(name + " has " + std::to_string(rows) + " rows; at least 2 are needed");

  const Array missing_of = count_nonzero(isnan(x), 0);
  std::vector<Array> wanted = {missing_of, mean(x, 0), std(x, 0, kSample)};
  if (replace_missing) wanted.push_back(sum(where(isnan(x), 0.0, x), 0));  // serves only where there are NaN
  std::vector<NdArray> pass = to_host(wanted);
  const int64_t* missing = pass[0].data<int64_t>();
  const std::vector<int64_t> holes = columns_where(columns, [&](int64_t j) { return missing[j] > 0; });

  ColumnStatistics result;
  for (const int64_t j : holes) result.missing += missing[j];
  if (!holes.empty()) {
    if (!replace_missing) {
      throw InvalidArgument(name + " has " + std::to_string(result.missing) + " NaN, in " + column_list(holes) +
                            "; --missing mean replaces them by their column's mean");
    }
    const std::vector<int64_t> empty = columns_where(columns, [&](int64_t j) { return missing[j] == rows; });
    if (!empty.empty()) throw InvalidArgument(name + " has nothing but NaN in " + column_list(empty));
    std::vector<double> means(static_cast<size_t>(columns));
    for (int64_t j = 0; j < columns; ++j) {
      means[static_cast<size_t>(j)] = pass[3].data<double>()[j] / static_cast<double>(rows - missing[j]);
    }
    pass[1] = local::from_vector(means, Dims{columns});
    pass[2] = std(replaced(x, Array::from_local(pass[1])), 0, kSample).to_host();
  }
  const std::vector<int64_t> infinite = columns_where(columns, [&](int64_t j) {
    return !std::isfinite(pass[1].data<double>()[j]) || !std::isfinite(pass[2].data<double>()[j]);
  });
  if (!infinite.empty()) {
    throw InvalidArgument(name + " has infinite values, or values too large to square, in " + column_list(infinite));
  }
  result.mean = Array::from_local(pass[1]);
  result.deviation = Array::from_local(pass[2]);
  return result;
}

void check_deviations(const ColumnStatistics& statistics, const std::string& name) {
  const NdArray deviation = statistics.deviation.to_host();
  const std::vector<int64_t> constant =
      columns_where(deviation.size(), [&](int64_t j) { return deviation.data<double>()[j] == 0; });
  if (constant.empty()) return;
  throw InvalidArgument(name + " is constant in " + column_list(constant) +
                        ": a standard deviation of 0 cannot be standardised");
}

Array standardised(const Array& data, const ColumnStatistics& statistics, bool standardise) {
  Array x = data.astype(DType::float64);
  if (statistics.missing > 0) x = replaced(x, statistics.mean);
  const Array centred = x - statistics.mean;
  return standardise ? centred / statistics.deviation : centred;
}

namespace {

constexpr double kLeastShare = 1e-6;  // of the largest variance, for the small side

const local::Slice kLargestFirst{std::nullopt, std::nullopt, -1};  // eigh's values ascend

struct Eigenpairs {
  Array variance, ratio;  // (k,), descending
  Array rows;             // (k, n), eigenvectors
};
Eigenpairs leading(const Array& matrix, int64_t k) {
  const auto [values, vectors] = linalg::eigh(matrix);
  // Rounding may leave those of a rank-deficient matrix just below 0.
  const Array spectrum = maximum(values, 0.0);
  const local::Slice first_k{std::nullopt, k, std::nullopt};
  const Array variance = spectrum[{kLargestFirst}][{first_k}];
  return {variance, variance / sum(spectrum), vectors.T()[{kLargestFirst}][{first_k}]};
}

// Rows of which the first entry of largest magnitude is positive.
Array with_positive_peaks(const Array& rows) {
  const Array peak = expand_dims(argmax(absolute(rows), 1), 1);
  const Array at_peak = sum(where(equal(arange(rows.shape(1)), peak), rows, 0.0), 1, {.keepdims = true});
  return where(less(at_peak, 0.0), negative(rows), rows);
}

Array scaled_product(const Array& a, const Array& b, const Array& z) {
  return matmul(a, b) / Scalar(static_cast<double>(z.shape(0) - 1));
}

// C's eigenvectors from those of the small side.
Array lifted(const Array& rows, const Array& z) {
  const Array long_rows = matmul(rows, z);
  return with_positive_peaks(long_rows / sqrt(sum(square(long_rows), 1, {.keepdims = true})));
}

// Whether the small side is to be tried for so many components.
bool has_small_side(const Array& z, int64_t k) { return z.shape(0) < z.shape(1) && k < z.shape(0); }

}  // namespace

Components principal_components(const Array& z, int64_t k) {
  const Eigenpairs pairs = leading(scaled_product(z.T(), z, z), k);
  return {pairs.variance, pairs.ratio, with_positive_peaks(pairs.rows)};
}

std::optional<Components> small_side_components(const Array& z, int64_t k) {
  if (!has_small_side(z, k)) return std::nullopt;
  const Eigenpairs pairs = leading(scaled_product(z, z.T(), z), k);
  const std::vector<Array> kept = persist(std::vector<Array>{pairs.variance, pairs.ratio, pairs.rows});
  const NdArray variance = kept[0].to_host();
  const double* values = variance.data<double>();
  if (!(values[k - 1] > kLeastShare * values[0])) return std::nullopt;
  return Components{kept[0], kept[1], lifted(kept[2], z).persist()};
}

Components planned_components(const Array& z, int64_t k) {
  if (!has_small_side(z, k)) return principal_components(z, k);
  const Eigenpairs pairs = leading(scaled_product(z, z.T(), z), k);
  return {pairs.variance, pairs.ratio, lifted(pairs.rows, z)};
}

Array scores(const Array& z, const Components& components) { return matmul(z, components.components.T()); }

}  // namespace quarry::apps
