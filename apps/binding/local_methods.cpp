// Python's built-in functions, and methods of arrays that have no row in local/ops/functions/function.def.
#include <algorithm>

#include "quarry/apps/binding/tables.h"
#include "quarry/apps/language/library.h"
#include "quarry/local/ndarray/print.h"
#include "quarry/local/ops/indexing/placement.h"
#include "quarry/local/ops/ufunc/apply.h"

namespace quarry::apps::expression {

using local::InvalidArgument;
using local::TypeError;

namespace {

Value length(const Arguments& args, Session&) {
  const Value& object = args["obj"];
  if (const SequenceValue* sequence = object.sequence()) return Value(static_cast<int64_t>(sequence->items.size()));
  if (const auto* text = object.as<std::string>()) return Value(static_cast<int64_t>(text->size()));
  const NdArray* local = object.as<NdArray>();
  const Array* chunked = object.as<Array>();
  if (local == nullptr && chunked == nullptr)
    throw TypeError("object of type '" + type_name(object) + "' has no len()");
  const Dims& shape = local != nullptr ? local->shape() : chunked->shape();
  if (shape.empty()) throw TypeError("len() of unsized object");
  return Value(shape[0]);
}

// slice(stop), slice(start, stop), slice(start, stop, step).
Value make_slice(const Arguments& args, Session&) {
  const std::vector<Value>& given = args["args"].sequence()->items;
  if (given.empty() || given.size() > 3) throw TypeError("slice expected 1 to 3 arguments");
  const auto bound = [](const Value& value) -> std::optional<int64_t> {
    if (value.is_none()) return std::nullopt;
    return to_index(value, "slice indices");
  };
  local::Slice slice;
  if (given.size() == 1) {
    slice.stop = bound(given[0]);
  } else {
    slice.start = bound(given[0]);
    slice.stop = bound(given[1]);
    if (given.size() == 3) slice.step = bound(given[2]);
  }
  return slice;
}

Value make_range(const Arguments& args, Session&) {
  constexpr int64_t kMostItems = 1 << 20;
  const std::vector<int64_t> given = to_indices(args["args"], "range()'s arguments");
  if (given.empty() || given.size() > 3) throw TypeError("range expected 1 to 3 arguments");
  const int64_t start = given.size() == 1 ? 0 : given[0], stop = given.size() == 1 ? given[0] : given[1];
  const int64_t step = given.size() == 3 ? given[2] : 1;
  if (step == 0) throw InvalidArgument("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (Int i = start; step > 0 ? i < stop : i > stop; i = i + step) {
    if (items.size() >= kMostItems) throw InvalidArgument("the range is too long");
    items.emplace_back(i);
  }
  return Value::list(std::move(items));
}

Value make_list(const Arguments& args, Session&) {
  return Value::list(items_of(args["iterable"], "list()'s argument"));
}
Value make_tuple(const Arguments& args, Session&) {
  return Value::tuple(items_of(args["iterable"], "tuple()'s argument"));
}

Value make_dtype(const Arguments& args, Session&) {
  if (args["dtype"].is_none()) return DTypeValue{DType::float64};
  const std::optional<DTypeValue> dtype = as_dtype(args["dtype"]);
  return DTypeValue{to_dtype(args["dtype"], "dtype"), false, dtype && dtype->swapped};
}

// The bytes in the machine's order, or in that of the dtype.
Value from_buffer(const Arguments& args, Session&) {
  const auto* buffer = args["buffer"].as<Bytes>();
  if (buffer == nullptr) throw TypeError("a bytes-like object is required, not '" + type_name(args["buffer"]) + "'");
  const bool is_default = args["dtype"].is_none();
  const DType dtype = is_default ? DType::float64 : to_dtype(args["dtype"], "dtype");
  const bool swapped = !is_default && as_dtype(args["dtype"])->swapped;
  const int64_t count = to_index(args["count"], "count"), offset = to_index(args["offset"], "offset");
  const auto size = static_cast<int64_t>(buffer->text.size());
  if (offset < 0 || offset > size) {
    throw InvalidArgument("offset must be non-negative and no greater than buffer length (" + std::to_string(size) +
                          ")");
  }
  const int64_t item = local::itemsize(dtype), left = size - offset;
  if (count < 0 && left % item != 0) throw InvalidArgument("buffer size must be a multiple of element size");
  if (count > left / item) throw InvalidArgument("buffer is smaller than requested size");
  std::string bytes = buffer->text.substr(static_cast<size_t>(offset));
  if (swapped) {
    const auto part = static_cast<std::ptrdiff_t>(local::itemsize(local::real_type(dtype)));
    for (auto at = bytes.begin(); bytes.end() - at >= part; at += part) std::reverse(at, at + part);
  }
  return local::from_bytes(bytes.data(), dtype, {count < 0 ? left / item : count});
}

Value nested_list(const NdArray& array) {
  if (array.ndim() == 0) {
    Scalar value = array.item();
    const DType dtype = value.dtype();
    if (dtype == DType::bool_) return value.as_bool();
    if (local::is_complex(dtype)) return value.as_complex();
    if (local::is_float(dtype)) return value.as_double();
    if (dtype == DType::uint64) return Int(value.as_uint64());
    return Int(value.as_int64());
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < array.shape()[0]; ++i) items.push_back(nested_list(array[{i}]));
  return Value::list(std::move(items));
}

const NdArray& self(const Arguments& args) { return *args.values()[0].as<NdArray>(); }

Value to_list(const Arguments& args, Session&) { return nested_list(self(args).to(local::kCpu)); }

// The elements in C order, or in Fortran's.
Value to_bytes(const Arguments& args, Session&) {
  const auto* order = args["order"].as<std::string>();
  const NdArray& array = self(args);
  const bool is_c = args["order"].is_none() || (order != nullptr && (*order == "C" || *order == "K"));
  const bool is_f = order != nullptr && *order == "F";
  const bool is_a = order != nullptr && *order == "A";
  if (!is_c && !is_f && !is_a) throw InvalidArgument("order must be one of 'C', 'F', 'A', or 'K'");
  const bool columns = is_f || (is_a && local::is_fortran_contiguous(array) && !array.is_contiguous());
  const NdArray host = (columns ? array.T() : array).to(local::kCpu);
  const NdArray packed = host.is_contiguous() ? host : host.copy(local::default_context(local::kCpu));
  if (packed.size() == 0) return Bytes{};
  return Bytes{std::string(static_cast<const char*>(packed.raw()), static_cast<size_t>(packed.nbytes()))};
}

// item(), item(i), item(i, j), item((i, j)).
Value item(const Arguments& args, Session&) {
  std::vector<Value> index = args["args"].sequence()->items;
  NdArray part = self(args);
  if (index.size() == 1 && index[0].sequence() != nullptr) index = index[0].sequence()->items;
  if (index.size() == 1) part = part.reshape({-1});
  if (!index.empty()) {
    if (static_cast<int>(index.size()) != part.ndim()) throw InvalidArgument("incorrect number of indices for array");
    part = *local_subscript(part, Value::tuple(std::move(index))).as<NdArray>();
  }
  if (part.size() != 1) throw InvalidArgument("can only convert an array of size 1 to a Python scalar");
  return nested_list(part.reshape({}).to(local::kCpu));
}

Value conjugate(const Arguments& args, Session&) { return apply_local("conjugate"_op, args.values()); }

// The axes of what a basic index names, or nothing for other indices.
std::optional<int> axes_of_basic(const Value& key, const NdArray& array) {
  const SequenceValue* tuple = key.sequence();
  const bool several = tuple != nullptr && !tuple->is_list;
  const std::span<const Value> parts = several ? std::span<const Value>(tuple->items) : std::span(&key, 1);
  const bool basic = std::all_of(parts.begin(), parts.end(), [](const Value& part) {
    return part.is<Int>() || part.is<local::Slice>() || part.is_none() || part.is<EllipsisValue>();
  });
  if (!basic) return std::nullopt;
  return local_subscript(array, key).as<NdArray>()->ndim();
}

Value get_item(const Arguments& args, Session&) { return local_subscript(self(args), args["key"]); }

Value set_item(const Arguments& args, Session&) {
  local_assign(self(args), args["key"], args["value"]);
  return Value();
}

// str() and repr().
Value as_text(const Arguments& args, Session&) { return local_text(args["object"]); }
Value as_representation(const Arguments& args, Session&) { return local_repr(args["object"]); }

Value printing(const Arguments&, Session&) {
  const local::PrintOptions& options = local::print_options();
  constexpr const char* kModes[] = {"fixed", "unique", "maxprec", "maxprec_equal"};
  constexpr const char* kVersions[] = {"1.13", "1.21", "1.25", "2.1", "2.2"};
  const auto text = [](const auto& value) { return Value(std::string(value)); };
  const bool current = options.legacy == local::PrintLegacy::none;
  return Value::dict({{text("edgeitems"), Value(options.edgeitems)},
                      {text("threshold"), Value(options.threshold)},
                      {text("floatmode"), text(kModes[static_cast<size_t>(options.floatmode)])},
                      {text("precision"), Value(options.precision)},
                      {text("suppress"), Value(options.suppress)},
                      {text("linewidth"), Value(options.linewidth)},
                      {text("nanstr"), text(options.nanstr)},
                      {text("infstr"), text(options.infstr)},
                      {text("sign"), text(std::string(1, options.sign))},
                      {text("legacy"), current ? Value(false) : text(kVersions[static_cast<size_t>(options.legacy)])}});
}

}  // namespace

void add_python_functions(Registry& registry) {
  registry.add_function("len", "(obj, /)", length, "The number of items, or the extent of the first axis.");
  registry.add_function("slice", "(*args)", make_slice, "Python's slice, as an index.");
  registry.add_function("range", "(*args)", make_range, "Python's range, as a list.");
  registry.add_function("list", "(iterable=(), /)", make_list, "The items as a list.");
  registry.add_function("tuple", "(iterable=(), /)", make_tuple, "The items as a tuple.");
  registry.add_function("dtype", "(dtype)", make_dtype, "The dtype of a name.");
}

void add_local_builtins(Registry& registry) {
  registry.add_function("frombuffer", "(buffer, dtype=None, count=-1, offset=0)", from_buffer,
                        "The elements that bytes hold, copied; '>i4' reads the other byte order.");
  registry.add_function("str", "(object='', /)", as_text, "The object as text.");
  registry.add_function("repr", "(object, /)", as_representation, "The object as Python writes it.");
  registry.add_function("get_printoptions", "()", printing, "How arrays are printed, without functions.");
}

void add_local_methods(Registry& registry) {
  const auto add = [&](const char* name, const char* signature, const Handler& handler) {
    if (registry.method(name) == nullptr) registry.add_method(name, signature, handler);
  };
  add("tolist", "(self, /)", to_list);
  add("tobytes", "(self, /, order='C')", to_bytes);
  add("item", "(self, /, *args)", item);
  add("conj", "(self, /)", conjugate);
  add("conjugate", "(self, /)", conjugate);
  add("__getitem__", "(self, key, /)", get_item);
  add("__setitem__", "(self, key, value, /)", set_item);
}

void add_methods_of_functions(Registry& registry) {
  // With the same parameters after the array.
  constexpr const char* kFunctions[] = {"all",      "any",     "argmax",   "argmin",       "argpartition", "argsort",
                                        "choose",   "clip",    "compress", "copy",         "cumprod",      "cumsum",
                                        "diagonal", "dot",     "nonzero",  "put",          "ravel",        "repeat",
                                        "round",    "squeeze", "swapaxes", "searchsorted", "take",         "trace"};
  for (const char* name : kFunctions) {
    const Function* function = registry.function(name);
    if (function == nullptr || registry.method(name) != nullptr) continue;
    const std::string& signature = function->signature.text();
    const size_t end = signature.find_first_of(",)=");
    registry.add_method(name, "(self, /" + signature.substr(end), function->handler, function->summary,
                        function->memory);
  }
}

void local_assign(const NdArray& array, const Value& index, Value value) {
  Keep keep;
  const std::vector<local::IndexTerm> terms = index_terms(index);
  if (value.sequence() != nullptr) {
    NdArray elements = to_ndarray(value, array.dtype());
    if (const std::optional<int> axes = axes_of_basic(index, array); axes && elements.ndim() > *axes)
      throw InvalidArgument("setting an array element with a sequence.");
    value = std::move(elements);
  }
  local::ops::set(array, terms, Convert<local::Arg>::from(value, "value", keep));
}

}  // namespace quarry::apps::expression
