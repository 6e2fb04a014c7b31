// Elements looked up in tables of many chunks, by sorting both together: what histogram.h does where looking into every
// chunk of the table for every element would take longer. Private to this folder.
#pragma once

#include "quarry/chunked/api/array.h"

namespace quarry::ordering {

// Rows that stand in order, in their places again: row i of the result is that of `values` whose position is i, of
// positions that are all of [0, n). Collective, blocking.
Array in_places(const Array& positions, const Array& values);

// For each element of v how many elements of the 1-d table precede it, or with `right` do not follow it. Of v's shape.
// Collective, blocking.
Array places_by_order(const Array& table, const Array& v, bool right);
// Whether each element of v is in the table; NaN never is. Collective, blocking.
Array presence_by_order(const Array& table, const Array& v);

}  // namespace quarry::ordering
