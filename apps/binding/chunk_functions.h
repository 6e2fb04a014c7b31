// Functions of chunks in the language, by Dask's names and keywords. What the language calls per chunk, a lambda or a
// function by its name, gets the local arrays of the chunk; it is called by several threads at once.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "quarry/apps/binding/chunked_rows.h"
#include "quarry/chunked/api/explain.h"

namespace quarry::apps::expression {

// Any value, as it is.
template <>
struct Convert<Value> {
  static bool fits(const Value&) { return true; }
  static Value from(const Value& value, const std::string&, Keep&) { return value; }
};

namespace chunked_rows {

using Values = std::vector<Value>;
using MaybeText = Maybe<std::string>;
using MaybeInts = Maybe<Ints>;

// Arrays among the arguments give their chunks, other values are passed as they are. A function with a parameter
// `block_id` gets the chunk's coordinates.
Array map_blocks(const Value& func, const Values& args, Maybe<DType> dtype, const Value& chunks,
                 const MaybeInts& drop_axis, const MaybeInts& new_axis, const MaybeText& name);
Array map_blocks_method(const Array& x, const Value& func, const Values& args, Maybe<DType> dtype, const Value& chunks,
                        const MaybeInts& drop_axis, const MaybeInts& new_axis, const MaybeText& name);
Array map_overlap(const Value& func, const Values& args, const Value& depth, const Value& boundary, bool trim,
                  Maybe<DType> dtype, const MaybeText& name);
Array map_overlap_method(const Array& x, const Value& func, const Value& depth, const Value& boundary, bool trim,
                         Maybe<DType> dtype, const MaybeText& name);
Array blockwise(const Value& func, const Value& out_ind, const Values& args, Maybe<DType> dtype,
                const Value& adjust_chunks, const Value& new_axes, const MaybeText& name);
std::variant<Array, ChunkedTuple> apply_gufunc(const Value& func, const std::string& signature, const Values& args,
                                               const Value& output_dtypes, const Value& output_sizes, bool vectorize);
// chunk(block, axis=, keepdims=True) folds every chunk, aggregate() of the same form what they gave.
Array reduction(const Array& x, const Value& chunk, const Value& aggregate, const Axes& axis, bool keepdims,
                Maybe<DType> dtype, const MaybeText& name);
// reduction(blocks, axis=).
Array coarsen(const Value& reduction, const Array& x, const Value& axes, bool trim_excess);
// Their functions get chunked arrays.
Array apply_over_axes(const Value& func, const Array& a, const Ints& axes);
Array piecewise(const Array& x, const Value& condlist, const Values& funclist, const Values& args);

Array from_array(const Array& x, const Value& chunks);
Array reshape_blockwise(const Array& x, const Ints& shape, const Value& chunks);

Array assigned(const Array& x, const Value& index, const Operand& value);
Array vindex(const Array& x, const Value& index);
Array blocks(const Array& x, const Value& index);

inline Array compute(const Array& x) { return x.persist(); }
inline Array compute_chunk_sizes(const Array& x) { return x; }  // they are always known
void to_hdf5(const std::string& filename, const Values& args);
inline std::string explain_method(const Array& x) { return explain(x); }
inline std::string to_svg_method(const Array& x, double size) { return to_svg(x, size); }
inline void visualize_method(const Array& x, const std::string& filename) { visualize(x, filename); }
void to_hdf5_method(const Array& x, const std::string& filename, const std::string& datapath);
void store(const Value& sources, const Value& targets);
void store_method(const Array& x, const Value& target);

}  // namespace chunked_rows
}  // namespace quarry::apps::expression
