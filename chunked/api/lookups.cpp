#include "quarry/chunked/api/lookups.h"

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/ordering.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/ufuncs.h"

namespace quarry::ordering {

using namespace compose;

namespace {

// The table and the elements of v in order; of equal ones those of the table are first, or last.
struct Together {
  Array keys, positions, in_table;  // computed; positions in v, for elements of v
};
Together together(const Array& table, const Array& v, bool table_first, bool keeps_keys) {
  const Array both[] = {table, v};
  const DType dtype = promoted(both);
  const Array first = table.astype(dtype), second = ravel(v).astype(dtype);
  Request request{.keys = {joined(table_first ? std::vector{first, second} : std::vector{second, first}, 0)}};
  request.positions = true;
  request.keeps_keys = keeps_keys;
  const Ordered rows = ordered(request);
  const Array& at = rows.carried[0];
  std::vector<Array> wanted{table_first ? at - table.size() : at, table_first ? at < table.size() : at >= v.size()};
  if (keeps_keys) wanted.push_back(rows.keys[0]);
  const std::vector<Array> kept = persist(wanted);
  return {keeps_keys ? kept[2] : Array(), kept[0], kept[1]};
}

// What was found for the elements of v among all rows, in their places.
Array found(const Together& rows, const Array& values, const Array& v) {
  const Array is_wanted = logical_not(rows.in_table);
  return reshape(in_places(boolean_index(rows.positions, is_wanted), boolean_index(values, is_wanted)), v.shape());
}

}  // namespace

Array in_places(const Array& positions, const Array& values) {
  return ordered({.keys = {positions}, .carried = {values}, .keeps_keys = false}).carried[0];
}

Array places_by_order(const Array& table, const Array& v, bool right) {
  if (v.size() == 0) return constant(v.shape(), 0, DType::int64);
  const Together rows = together(table, v, /*table_first=*/right, /*keeps_keys=*/false);
  return found(rows, cumsum(rows.in_table, 0, DType::int64), v);
}

Array presence_by_order(const Array& table, const Array& v) {
  if (v.size() == 0) return constant(v.shape(), false, DType::bool_);
  const Together rows = together(table, v, /*table_first=*/true, /*keeps_keys=*/true);
  // An element is in the table where its equals, of which it may be the first, begin with one of the table.
  const Array starts(algo::starts_of_equals(rows.keys.node(), /*equal_nan=*/false));
  const Array up_to = cumsum(rows.in_table, 0, DType::int64);
  const Array before = where(starts, up_to - rows.in_table.astype(DType::int64), 0);
  const Array of_start(algo::accumulate("maximum"_op, before.node(), 0, DType::int64, /*skip_nan=*/false));
  return found(rows, up_to > of_start, v);
}

}  // namespace quarry::ordering
