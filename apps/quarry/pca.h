// Principal components of a matrix larger than memory, with the public Array API only.
//
//   mean_j = sum_i x_ij / n,  std_j = sqrt(sum_i (x_ij - mean_j)^2 / (n - 1))
//   z = x - mean, standardised: z = (x - mean) / std
//   C = z' z / (n - 1) = V diag(w) V',  scores = z V_k
//
// n rows, m columns: reads x three times (means and deviations, C, scores; once more where NaN are replaced), 2 n m^2
// flops for C as a SYRK's half, 2 n m k for the scores; C and V, 16 m^2 bytes, fit one device. Everything is float64,
// as np.cov.
//
// With fewer rows than columns the small side does: G = z z' / (n - 1) has the eigenvalues of C that are not 0, and its
// eigenvectors u give those of C as z' u, made of length 1 (the snapshot method; Sirovich, Quarterly of Applied
// Mathematics 45, 1987). That is n^2 m flops in place of n m^2, and 16 n^2 bytes. A component of a variance that is a
// part v of the largest one is orthogonal to the others to about 1e-16 / v, so that components below kLeastShare take
// the large side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quarry/chunked/api/array.h"

namespace quarry::apps {

// Columns' statistics after the first pass.
struct ColumnStatistics {
  Array mean, deviation;  // (m,), float64, small local arrays; ddof 1
  int64_t missing = 0;    // NaN replaced
};
// Blocking, collective. `name` is the data's in messages. Throws InvalidArgument for fewer than 2 rows, NaN (their
// number and columns) unless replace_missing, columns of NaN alone, and infinite values.
ColumnStatistics column_statistics(const Array& data, const std::string& name, bool replace_missing);

// Throws InvalidArgument naming the columns whose deviation is 0.
void check_deviations(const ColumnStatistics& statistics, const std::string& name);

// z, lazy: NaN replaced by the column's mean where there were any.
Array standardised(const Array& data, const ColumnStatistics& statistics, bool standardise);

struct Components {
  Array variance;    // (k,), descending, not below 0
  Array ratio;       // (k,), of the sum of all variances
  Array components;  // (k, m), unit rows, the first entry of largest magnitude positive
};
// Lazy.
Components principal_components(const Array& z, int64_t k);
// The same by the small side; none where it would not do: as many components as rows, or one of too small a variance.
// Blocking, collective; `variance`, `ratio` and `components` are kept.
std::optional<Components> small_side_components(const Array& z, int64_t k);
// What computes them, lazy: for --plan.
Components planned_components(const Array& z, int64_t k);
Array scores(const Array& z, const Components& components);

}  // namespace quarry::apps
