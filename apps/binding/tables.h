// What fills the registries of the libraries.
#pragma once

#include "quarry/apps/binding/binding.h"
#include "quarry/local/ops/indexing/indexing.h"

namespace quarry::apps::expression {

// The rows of local/ops/functions/function.def that one kind of arrays has: NdArray's or Array's.
template <class A>
void add_rows(Registry& registry);
// Methods that are the functions of the same name.
void add_methods_of_functions(Registry& registry);

// The ufuncs of local/program/ufunc.def with their methods, and the reductions of local/program/reduction.def. A name
// that has a row in local/ops/functions/function.def is left to it.
void add_local_ufuncs(Registry& registry);
void add_local_reductions(Registry& registry);
// The same for chunked arrays.
void add_chunked_ufuncs(Registry& registry);
void add_chunked_reductions(Registry& registry);
// Python's own: len, slice, range, list ...; those of text and bytes for local arrays; and the local array's methods
// that have no row.
void add_python_functions(Registry& registry);
void add_local_builtins(Registry& registry);
void add_local_methods(Registry& registry);

// One ufunc of local/program/ufunc.def over values.
Value apply_local(local::Op op, std::span<const Value> args, const local::UfuncOptions& options = {});
// nin, nout, nargs, ntypes, types, identity, signature of a ufunc; nothing for other names and functions.
std::optional<Value> ufunc_attribute(std::string_view function, std::string_view name);
// The entries of an index: of a tuple one each, else one. Throws IndexError.
std::vector<local::IndexTerm> index_terms(const Value& index);
// x[index], with any index. Throws IndexError.
Value local_subscript(const NdArray& array, const Value& index);
// array[index] = value. Numbers in a list become elements one by one, as in NumPy. A part of the array cannot take more
// axes than it has.
void local_assign(const NdArray& array, const Value& index, Value value);

}  // namespace quarry::apps::expression
