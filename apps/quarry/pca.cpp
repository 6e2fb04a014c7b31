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

Components principal_components(const Array& z, int64_t k) {
  const int64_t columns = z.shape(1);
  const Array c = matmul(z.T(), z) / Scalar(static_cast<double>(z.shape(0) - 1));
  const auto [values, vectors] = linalg::eigh(c);
  // eigh's values ascend; rounding may leave those of a rank-deficient matrix just below 0.
  const Array spectrum = maximum(values, 0.0);
  const local::Slice largest_first{std::nullopt, std::nullopt, -1}, first_k{std::nullopt, k, std::nullopt};
  const Array rows = vectors.T()[{largest_first}][{first_k}];

  const Array peak = expand_dims(argmax(absolute(rows), 1), 1);
  const Array at_peak = sum(where(equal(arange(columns), peak), rows, 0.0), 1, {.keepdims = true});

  Components result;
  result.variance = spectrum[{largest_first}][{first_k}];
  result.ratio = result.variance / sum(spectrum);
  result.components = where(less(at_peak, 0.0), negative(rows), rows);
  return result;
}

Array scores(const Array& z, const Components& components) { return matmul(z, components.components.T()); }

}  // namespace quarry::apps
