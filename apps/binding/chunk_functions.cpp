#include "quarry/apps/binding/chunk_functions.h"

#include <algorithm>
#include <map>

namespace quarry::apps::expression::chunked_rows {

using local::InvalidArgument;
using local::NotSupported;
using local::TypeError;

namespace {

const Function* function_of(const Value& value, const char* what) {
  if (const auto* function = value.as<FunctionValue>()) return function->function;
  if (value.is<DTypeValue>()) return nullptr;
  throw TypeError(std::string(what) + " must be a function, not " + type_name(value));
}

std::string name_of(const Value& func, const MaybeText& name) {
  if (name) return *name;
  const Function* function = function_of(func, "func");
  return function == nullptr ? "astype" : function->name;
}

bool has_parameter(const Value& func, std::string_view name) {
  const Function* function = function_of(func, "func");
  return function != nullptr && std::ranges::any_of(function->parameters(),
                                                    [&](const Parameter& parameter) { return parameter.name == name; });
}

BlockOptions options_of(const Value& func, const MaybeText& name, Maybe<DType> dtype) {
  BlockOptions options;
  options.name = name_of(func, name);
  if (dtype) options.dtypes = {*dtype};
  return options;
}

// Chunked arrays among the arguments, and the function of the chunks that take their places.
struct ChunkCall {
  std::vector<Array> arrays;
  BlockFunction function;
};
ChunkCall chunk_call(const Value& func, const Values& args, size_t results = 1) {
  ChunkCall call;
  for (const Value& arg : args)
    if (const auto* array = arg.as<Array>()) call.arrays.push_back(*array);
  const bool with_id = has_parameter(func, "block_id");
  call.function = [func, args, with_id, results](std::span<const NdArray> chunks, const ChunkPlace& place) {
    Values values;
    size_t next = 0;
    for (const Value& arg : args) values.push_back(arg.is<Array>() ? Value(chunks[next++]) : arg);
    std::vector<KeywordValue> keywords;
    if (with_id) keywords.push_back({"block_id", Value::tuple(place.coordinates)});
    const Value result = call_function(func, std::move(values), std::move(keywords));
    if (results == 1) return std::vector<NdArray>{to_ndarray(result)};
    const SequenceValue* sequence = result.sequence();
    if (sequence == nullptr || sequence->items.size() != results)
      throw TypeError("gave a " + type_name(result) + " where " + std::to_string(results) + " arrays are wanted");
    std::vector<NdArray> arrays;
    for (const Value& item : sequence->items) arrays.push_back(to_ndarray(item));
    return arrays;
  };
  if (call.arrays.empty()) throw TypeError("there is no array among the arguments");
  return call;
}

Values with_first(const Array& x, const Values& args) {
  Values all{x};
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

std::vector<int64_t> list_of(const MaybeInts& ints) { return ints ? ints->values() : std::vector<int64_t>(); }

// An axis of `count` chunks: one extent for each of them, or all extents.
AxisChunks axis_chunks(const Value& entry, int64_t count) {
  if (entry.sequence() != nullptr) return AxisChunks(to_indices(entry, "chunks"));
  return AxisChunks(std::vector<int64_t>(static_cast<size_t>(count), to_index(entry, "chunks")));
}

// chunks= of map_blocks(): per axis of the result an extent of every chunk, or the extents.
std::optional<Grid> grid_of(const Value& chunks, std::span<const Array> arrays, const MapBlocksOptions& how) {
  if (chunks.is_none()) return std::nullopt;
  int ndim = 0;
  for (const Array& array : arrays) ndim = std::max(ndim, array.ndim());
  std::vector<int64_t> counts(static_cast<size_t>(ndim), 1);
  for (const Array& array : arrays)
    for (int d = 0; d < array.ndim(); ++d) {
      const int axis = ndim - array.ndim() + d;
      int64_t& count = counts[static_cast<size_t>(axis)];
      count = std::max(count, array.chunks().axis(d).count());
    }
  std::vector<int64_t> dropped;
  for (const int64_t axis : how.drop_axis) dropped.push_back(local::normalize_axis(axis, ndim));
  std::ranges::sort(dropped, std::greater());
  for (const int64_t axis : dropped) counts.erase(counts.begin() + axis);
  const int result_ndim = static_cast<int>(counts.size() + how.new_axis.size());
  std::vector<int64_t> added;
  for (const int64_t axis : how.new_axis) added.push_back(local::normalize_axis(axis, result_ndim));
  std::ranges::sort(added);
  for (const int64_t axis : added) counts.insert(counts.begin() + std::min<int64_t>(axis, std::ssize(counts)), 1);
  const std::vector<Value> entries = items_of(chunks, "chunks");
  if (entries.size() != counts.size())
    throw InvalidArgument("chunks has " + std::to_string(entries.size()) + " entries for a result of " +
                          std::to_string(counts.size()) + " axes");
  std::vector<AxisChunks> axes;
  for (size_t d = 0; d < counts.size(); ++d) axes.push_back(axis_chunks(entries[d], counts[d]));
  return Grid(std::move(axes));
}

// One value for all axes, one for each, or a dict of axes; absent axes are None.
std::vector<Value> per_axis(const Value& given, int ndim, const char* what) {
  if (const DictValue* dict = given.dict()) {
    std::vector<Value> values(static_cast<size_t>(ndim));
    for (const auto& [axis, value] : dict->items)
      values[static_cast<size_t>(local::normalize_axis(to_index(axis, what), ndim))] = value;
    return values;
  }
  if (const SequenceValue* sequence = given.sequence()) {
    if (static_cast<int>(sequence->items.size()) != ndim)
      throw InvalidArgument(std::string(what) + " has " + std::to_string(sequence->items.size()) + " entries for " +
                            std::to_string(ndim) + " axes");
    return sequence->items;
  }
  return std::vector<Value>(static_cast<size_t>(ndim), given);
}

Boundary boundary_of(const Value& value) {
  if (value.is_none()) return {};
  if (const auto* text = value.as<std::string>()) {
    constexpr std::pair<std::string_view, Edge> kEdges[] = {
        {"none", Edge::clip}, {"reflect", Edge::reflect}, {"periodic", Edge::periodic}, {"nearest", Edge::nearest}};
    for (const auto& [name, edge] : kEdges)
      if (*text == name) return {edge};
    throw InvalidArgument("boundary must be 'none', 'reflect', 'periodic', 'nearest' or a number, not '" + *text + "'");
  }
  return {Edge::constant, to_local_scalar(value, "boundary")};
}

// Labels of axes, which are characters or any numbers, as the characters of blockwise().
class Labels {
 public:
  std::string text(const Value& indices) {
    if (indices.is_none()) return "";
    if (const auto* text = indices.as<std::string>()) {
      std::string result;
      for (const std::string& one : characters(*text)) result += character(one);
      return result;
    }
    std::string result;
    for (const Value& label : items_of(indices, "indices")) result += character(label);
    return result;
  }
  char character(const Value& label) {
    for (size_t i = 0; i < labels_.size(); ++i)
      if (same_value(labels_[i], label)) return static_cast<char>('a' + i);
    constexpr size_t kMostLabels = 26;
    if (labels_.size() == kMostLabels) throw InvalidArgument("blockwise: more than 26 indices");
    labels_.push_back(label);
    return static_cast<char>('a' + labels_.size() - 1);
  }

 private:
  std::vector<Value> labels_;
};

}  // namespace

Array map_blocks(const Value& func, const Values& args, Maybe<DType> dtype, const Value& chunks,
                 const MaybeInts& drop_axis, const MaybeInts& new_axis, const MaybeText& name) {
  const ChunkCall call = chunk_call(func, args);
  MapBlocksOptions how{{}, list_of(drop_axis), list_of(new_axis)};
  how.chunks = grid_of(chunks, call.arrays, how);
  return quarry::map_blocks(call.function, std::span<const Array>(call.arrays), how, options_of(func, name, dtype));
}
Array map_blocks_method(const Array& x, const Value& func, const Values& args, Maybe<DType> dtype, const Value& chunks,
                        const MaybeInts& drop_axis, const MaybeInts& new_axis, const MaybeText& name) {
  return map_blocks(func, with_first(x, args), dtype, chunks, drop_axis, new_axis, name);
}

Array map_overlap(const Value& func, const Values& args, const Value& depth, const Value& boundary, bool trim,
                  Maybe<DType> dtype, const MaybeText& name) {
  const ChunkCall call = chunk_call(func, args);
  if (call.arrays.size() != 1) throw NotSupported("map_overlap() takes one array here");
  const int ndim = call.arrays[0].ndim();
  MapOverlapOptions how;
  how.trim = trim;
  for (const Value& value : per_axis(depth, ndim, "depth")) {
    if (value.sequence() != nullptr) throw NotSupported("map_overlap() takes one depth for both sides of an axis");
    how.depth.push_back(value.is_none() ? 0 : to_index(value, "depth"));
  }
  for (const Value& value : per_axis(boundary, ndim, "boundary")) how.boundary.push_back(boundary_of(value));
  return quarry::map_overlap(call.function, call.arrays[0], how, options_of(func, name, dtype));
}
Array map_overlap_method(const Array& x, const Value& func, const Value& depth, const Value& boundary, bool trim,
                         Maybe<DType> dtype, const MaybeText& name) {
  return map_overlap(func, {x}, depth, boundary, trim, dtype, name);
}

Array blockwise(const Value& func, const Value& out_ind, const Values& args, Maybe<DType> dtype,
                const Value& adjust_chunks, const Value& new_axes, const MaybeText& name) {
  if (args.size() % 2 != 0) throw TypeError("blockwise() takes pairs of arguments and their indices");
  Labels labels;
  const std::string out = labels.text(out_ind);
  Values values;
  std::vector<Indexed> indexed;
  for (size_t i = 0; i < args.size(); i += 2) {
    // Without indices a value is passed as it is.
    if (args[i + 1].is_none()) {
      if (args[i].is<Array>()) throw TypeError("blockwise(): an array needs indices");
      values.push_back(args[i]);
      continue;
    }
    values.emplace_back(to_array(args[i]));
    indexed.push_back({to_array(args[i]), labels.text(args[i + 1])});
  }
  BlockwiseOptions how;
  if (const DictValue* dict = new_axes.dict())
    for (const auto& [label, extent] : dict->items)
      how.new_axes[labels.character(label)] = to_index(extent, "new_axes");
  if (const DictValue* dict = adjust_chunks.dict())
    for (const auto& [label, rule] : dict->items) {
      const bool is_function = rule.is<FunctionValue>();
      const int64_t fixed = is_function ? 0 : to_index(rule, "adjust_chunks");
      how.adjust_chunks[labels.character(label)] = [rule = rule, is_function, fixed](int64_t extent) {
        return is_function ? to_index(call_function(rule, {Value(extent)}), "adjust_chunks") : fixed;
      };
    }
  const ChunkCall call = chunk_call(func, values);
  return quarry::blockwise(call.function, out, std::span<const Indexed>(indexed), how, options_of(func, name, dtype));
}

std::variant<Array, ChunkedTuple> apply_gufunc(const Value& func, const std::string& signature, const Values& args,
                                               const Value& output_dtypes, const Value& output_sizes, bool vectorize) {
  Values values;
  for (const Value& arg : args) values.emplace_back(to_array(arg));
  const size_t arrow = signature.find("->");
  const auto results =
      arrow == std::string::npos ? 1 : static_cast<size_t>(std::ranges::count(signature.substr(arrow), '('));
  const ChunkCall call = chunk_call(func, values, std::max<size_t>(results, 1));
  BlockOptions options = options_of(func, std::nullopt, std::nullopt);
  if (!output_dtypes.is_none()) {
    if (as_dtype(output_dtypes))
      options.dtypes.assign(results, to_dtype(output_dtypes, "output_dtypes"));
    else
      for (const Value& dtype : items_of(output_dtypes, "output_dtypes"))
        options.dtypes.push_back(to_dtype(dtype, "output_dtypes"));
  }
  GufuncOptions how;
  how.vectorize = vectorize;
  if (const DictValue* dict = output_sizes.dict())
    for (const auto& [name, extent] : dict->items) {
      const auto* text = name.as<std::string>();
      if (text == nullptr) throw TypeError("output_sizes names core dimensions, not a " + type_name(name));
      how.output_sizes[*text] = to_index(extent, "output_sizes");
    }
  const std::vector<Array> arrays =
      quarry::apply_gufunc(call.function, signature, std::span<const Array>(call.arrays), how, options);
  if (arrays.size() == 1) return arrays[0];
  return ChunkedTuple(arrays.begin(), arrays.end());
}

namespace {

Value axes_value(const Axes& axes) {
  Values items;
  for (const int64_t axis : axes.list()) items.emplace_back(axis);
  return Value::tuple(std::move(items));
}

}  // namespace

Array reduction(const Array& x, const Value& chunk, const Value& aggregate, const Axes& axis, bool keepdims,
                Maybe<DType> dtype, const MaybeText& name) {
  const auto fold = [](const Value& func) -> FoldFunction {
    function_of(func, "a fold");
    return [func](const NdArray& array, const Axes& axes) {
      return to_ndarray(call_function(func, {Value(array)}, {{"axis", axes_value(axes)}, {"keepdims", Value(true)}}));
    };
  };
  const Array result =
      quarry::reduction(x, fold(chunk), fold(aggregate), axis, keepdims, options_of(chunk, name, std::nullopt));
  return dtype ? result.astype(*dtype) : result;
}

Array coarsen(const Value& func, const Array& x, const Value& axes, bool trim_excess) {
  const DictValue* dict = axes.dict();
  if (dict == nullptr) throw TypeError("axes must be a dict of axes and factors, not " + type_name(axes));
  std::map<int64_t, int64_t> factors;
  for (const auto& [axis, factor] : dict->items) factors[to_index(axis, "axes")] = to_index(factor, "axes");
  const auto reduce = [func](const NdArray& array, const Axes& reduced) {
    return to_ndarray(call_function(func, {Value(array)}, {{"axis", axes_value(reduced)}}));
  };
  return quarry::coarsen(reduce, x, factors, trim_excess, options_of(func, std::nullopt, std::nullopt));
}

Array apply_along_axis(const local::ArrayFunction& func1d, int64_t axis, const Array& arr,
                       const std::vector<Array>& args) {
  const std::vector<NdArray> more = args.empty() ? std::vector<NdArray>() : settle(args, {}).values;
  const auto function = [func1d, more](const NdArray& line) {
    std::vector<NdArray> all{line};
    for (const NdArray& array : more) all.push_back(array.to(line.device()));
    return func1d(all);
  };
  return quarry::apply_along_axis(function, axis, arr, {}, {.name = "apply_along_axis"});
}

Array apply_over_axes(const Value& func, const Array& a, const Ints& axes) {
  const auto function = [&](const Array& array, int64_t axis) -> Array {
    return to_array(call_function(func, {Value(array), Value(axis)}));
  };
  return quarry::apply_over_axes(function, a, axes);
}

Array piecewise(const Array& x, const Value& condlist, const Values& funclist, const Values& args) {
  // One condition, a list of them, or an array of them, whose first axis counts where x has one axis less.
  std::vector<Array> conditions;
  const SequenceValue* list = condlist.sequence();
  const bool is_one = list == nullptr
                          ? to_array(condlist).ndim() <= x.ndim()
                          : std::ranges::all_of(list->items, [](const Value& item) { return item.is<bool>(); });
  if (is_one) {
    conditions.push_back(to_array(condlist));
  } else {
    for (const Value& condition : items_of(condlist, "condlist")) conditions.push_back(to_array(condition));
  }
  std::vector<Piece> pieces;
  for (const Value& func : funclist) {
    if (func.is<FunctionValue>()) {
      pieces.emplace_back([func, args](const Array& array) {
        Values values = with_first(array, args);
        return to_array(call_function(func, std::move(values)));
      });
    } else {
      const Array value = to_array(func);
      pieces.emplace_back([value](const Array&) { return Array(value); });
    }
  }
  return quarry::piecewise(x, conditions, pieces);
}

Array from_array(const Array& x, const Value& chunks) {
  if (const auto* text = chunks.as<std::string>()) {
    if (*text != "auto") throw InvalidArgument("chunks must be 'auto', an extent, or extents per axis");
    return x;
  }
  Keep keep;
  return rechunk(x, Convert<std::variant<int64_t, std::vector<AxisExtents>>>::from(chunks, "chunks", keep));
}

Array reshape_blockwise(const Array& x, const Ints& shape, const Value& chunks) {
  if (chunks.is_none()) return quarry::reshape_blockwise(x, Dims(shape.values()));
  std::vector<AxisChunks> axes;
  for (const Value& entry : items_of(chunks, "chunks")) axes.push_back(axis_chunks(entry, 1));
  return quarry::reshape_blockwise(x, Dims(shape.values()), Grid(std::move(axes)));
}

Array assigned(const Array& x, const Value& index, const Operand& value) {
  return quarry::assigned(x, array_index_terms(index), value);
}
Array vindex(const Array& x, const Value& index) { return quarry::vindex(x, array_index_terms(index)); }
Array blocks(const Array& x, const Value& index) { return quarry::blocks(x, array_index_terms(index)); }

void to_hdf5(const std::string& filename, const Values& args) {
  std::vector<StoreItem> items;
  const auto add = [&](const Value& path, const Value& array) {
    const auto* text = path.as<std::string>();
    if (text == nullptr) throw TypeError("to_hdf5() takes paths in the file, not a " + type_name(path));
    items.push_back({*text, to_array(array)});
  };
  if (args.size() == 1 && args[0].dict() != nullptr) {
    for (const auto& [path, array] : args[0].dict()->items) add(path, array);
  } else if (args.size() == 2) {
    add(args[0], args[1]);
  } else {
    throw TypeError("to_hdf5() takes a file, a path and an array, or a file and a dict of paths and arrays");
  }
  quarry::store(filename, items);
}
void to_hdf5_method(const Array& x, const std::string& filename, const std::string& datapath) {
  quarry::store(filename, {{datapath, x}});
}

void store(const Value&, const Value&) {
  throw NotSupported(
      "store() writes into arrays of other libraries, which an expression does not have: to_hdf5(file, path, x) writes "
      "a file, and so does -o");
}
void store_method(const Array&, const Value&) { store({}, {}); }

}  // namespace quarry::apps::expression::chunked_rows
