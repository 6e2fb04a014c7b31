// What fills the registry of the local library.
#pragma once

#include "quarry/apps/binding/local_binding.h"
#include "quarry/local/ops/indexing/indexing.h"

namespace quarry::apps::expression {

// The ufuncs of local/program/ufunc.def with their methods, and the reductions of local/program/reduction.def. A name
// that has a row in local/ops/functions/function.def is left to it.
void add_local_ufuncs(Registry& registry);
void add_local_reductions(Registry& registry);
// Python's own: len, slice, range, list ...; and the array's methods that are functions or have no row.
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

}  // namespace quarry::apps::expression
