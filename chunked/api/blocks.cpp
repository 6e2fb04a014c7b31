#include "quarry/chunked/api/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/grid/cuts.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/base/error.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/numerical/numerical.h"

namespace quarry {

using algo::Along;
using local::InvalidArgument;

void detail::check_count(size_t given, size_t wanted) {
  if (given != wanted) throw InvalidArgument(fmt::format("takes {} arrays, and {} were given", wanted, given));
}

namespace {

std::vector<Array> arrays_of(const std::vector<expr::NodePtr>& nodes) { return {nodes.begin(), nodes.end()}; }

// Of a function: the user's, else the number of the call that gives it, the same on every rank that makes the same
// calls with its Runtime.
uint64_t identity_of(const BlockOptions& options) {
  return options.identity ? op::Hash().add(*options.identity).value : ++Runtime::current().internals().functions;
}

// A spec with what the options say; axes and outputs are to come.
algo::MapSpec spec_of(BlockFunction function, const BlockOptions& options) {
  algo::MapSpec spec;
  spec.name = options.name;
  spec.identity = identity_of(options);
  spec.function = std::move(function);
  spec.scratch_bytes = options.scratch_bytes;
  spec.by_trial = options.by_trial;
  spec.calls_program = true;
  return spec;
}

// The dtypes of results of so many axes, found on arrays of these shapes where nobody says; in host memory.
std::vector<DType> dtypes_of(const algo::MapSpec& spec, const BlockOptions& options, std::span<const Array> arrays,
                             const std::vector<Dims>& shapes, const std::vector<int>& results) {
  std::vector<DType> dtypes = options.dtypes;
  if (dtypes.empty()) {
    const local::DeviceScope scope(local::kCpu);
    std::vector<NdArray> ones;
    ChunkPlace place{0, Dims::filled(results[0]), Dims::filled(results[0], 1), {}, {}};
    for (const int ndim : results) place.outputs.push_back(Region::whole(Dims::filled(ndim, 1)));
    for (size_t i = 0; i < arrays.size(); ++i) {
      const NdArray one(shapes[i], arrays[i].dtype());
      one.fill(1);
      ones.push_back(one.as_read_only());
      place.arguments.push_back(Region::whole(shapes[i]));
    }
    try {
      for (const NdArray& result : spec.function(ones, place)) dtypes.push_back(result.dtype());
    } catch (const std::exception& error) {
      throw InvalidArgument(
          fmt::format("{}: its dtypes cannot be found by a call on small arrays, so they have to be given: {}",
                      spec.name, error.what()));
    }
  }
  if (dtypes.size() != results.size())
    throw InvalidArgument(fmt::format("{}: {} dtypes for {} results", spec.name, dtypes.size(), results.size()));
  return dtypes;
}

// Of one index of a blockwise call: its extent and cuts, common to all arguments that have it.
struct Axis {
  int64_t extent = 1;
  std::optional<AxisChunks> cuts;  // none: of length 1 so far
};

void add_axis(Axis& axis, const Array& array, int d, const std::string& what) {
  const int64_t extent = array.shape()[d];
  if (extent == 1 && (axis.cuts || axis.extent != 1)) return;
  if (axis.cuts && axis.extent != 1 && extent != axis.extent)
    throw InvalidArgument(fmt::format("{} has {} and {} elements in different arguments", what, axis.extent, extent));
  const AxisChunks& cuts = array.chunks().axis(d);
  axis.cuts = axis.cuts && axis.extent == extent ? common_cuts(*axis.cuts, cuts) : cuts;
  axis.extent = extent;
}

bool any_chosen(std::span<const Array> arrays) {
  return std::ranges::any_of(arrays, [](const Array& array) { return array.node()->chosen_grid; });
}

Dims small_shape(const Array& array) { return Dims::filled(array.ndim(), 1); }

std::vector<Dims> small_shapes(std::span<const Array> arrays) {
  std::vector<Dims> shapes;
  for (const Array& array : arrays) shapes.push_back(small_shape(array));
  return shapes;
}

op::ArraySpec result_spec(std::vector<AxisChunks> axes, DType dtype, bool chosen) {
  Grid grid(std::move(axes));
  Dims shape = grid.shape();
  return {std::move(shape), dtype, std::move(grid), chosen};
}

}  // namespace

Array blockwise(BlockFunction function, const std::string& out, std::span<const Indexed> arguments,
                const BlockwiseOptions& how, const BlockOptions& options) {
  algo::MapSpec spec = spec_of(std::move(function), options);
  std::map<char, Axis> axes;
  std::vector<Array> arrays;
  for (const auto& [array, indices] : arguments) {
    if (std::ssize(indices) != array.ndim())
      throw InvalidArgument(fmt::format("{}: indices '{}' for an array of {} axes", spec.name, indices, array.ndim()));
    for (int d = 0; d < array.ndim(); ++d) {
      const char index = indices[static_cast<size_t>(d)];
      add_axis(axes[index], array, d, fmt::format("{}: index '{}'", spec.name, index));
    }
    arrays.push_back(array);
  }
  for (const auto& [index, extent] : how.new_axes) {
    if (axes.contains(index))
      throw InvalidArgument(fmt::format("{}: index '{}' is not new: an argument has it", spec.name, index));
    axes[index] = {extent, AxisChunks(extent, std::max<int64_t>(extent, 1))};
  }
  std::vector<AxisChunks> result;
  for (const char index : out) {
    const auto found = axes.find(index);
    if (found == axes.end())
      throw InvalidArgument(
          fmt::format("{}: no argument has index '{}', and it is not among the new axes", spec.name, index));
    if (std::ranges::count(out, index) > 1)
      throw InvalidArgument(fmt::format("{}: index '{}' stands twice in '{}'", spec.name, index, out));
    AxisChunks cuts = found->second.cuts.value_or(AxisChunks(1, 1));
    if (const auto adjust = how.adjust_chunks.find(index); adjust != how.adjust_chunks.end()) {
      std::vector<int64_t> extents;
      for (int64_t i = 0; i < cuts.count(); ++i) extents.push_back(adjust->second(cuts.size(i)));
      cuts = AxisChunks(extents);
    }
    result.push_back(std::move(cuts));
  }
  for (const auto& [array, indices] : arguments) {
    std::vector<Along> along;
    for (int d = 0; d < array.ndim(); ++d) {
      const Axis& axis = axes.at(indices[static_cast<size_t>(d)]);
      const size_t at = out.find(indices[static_cast<size_t>(d)]);
      const bool follows = at != std::string::npos && array.shape()[d] == axis.extent && axis.cuts;
      along.push_back(follows ? Along::following(static_cast<int>(at), *axis.cuts) : Along::whole());
    }
    spec.along.push_back(std::move(along));
  }
  const DType dtype = dtypes_of(spec, options, arrays, small_shapes(arrays), {static_cast<int>(out.size())})[0];
  spec.outputs = {result_spec(std::move(result), dtype, any_chosen(arrays))};
  return Array(algo::map(std::move(spec), nodes_of(arrays))[0]);
}

Array map_blocks(BlockFunction function, std::span<const Array> arrays, const MapBlocksOptions& how,
                 const BlockOptions& options) {
  algo::MapSpec spec = spec_of(std::move(function), options);
  int ndim = 0;
  for (const Array& array : arrays) ndim = std::max(ndim, array.ndim());
  std::vector<Axis> axes(static_cast<size_t>(ndim));
  for (const Array& array : arrays)
    for (int d = 0; d < array.ndim(); ++d) {
      const int axis = ndim - array.ndim() + d;
      add_axis(axes[static_cast<size_t>(axis)], array, d, fmt::format("{}: axis {}", spec.name, axis));
    }
  // The result's axes: those that are not dropped, with new ones between them.
  std::set<int> dropped, added;
  for (const int64_t axis : how.drop_axis) dropped.insert(local::normalize_axis(axis, ndim));
  const int result_ndim = ndim - static_cast<int>(dropped.size()) + static_cast<int>(how.new_axis.size());
  for (const int64_t axis : how.new_axis)
    if (!added.insert(local::normalize_axis(axis, result_ndim)).second)
      throw InvalidArgument(fmt::format("{}: new axis {} is named twice", spec.name, axis));
  std::vector<int> place(static_cast<size_t>(ndim), -1);  // of an axis in the result
  std::vector<AxisChunks> cuts;
  for (int d = 0, source = 0; d < result_ndim; ++d) {
    if (added.contains(d)) {
      cuts.emplace_back(1, 1);
      continue;
    }
    while (dropped.contains(source)) ++source;
    place[static_cast<size_t>(source)] = d;
    cuts.push_back(axes[static_cast<size_t>(source++)].cuts.value_or(AxisChunks(1, 1)));
  }
  if (how.chunks) {
    const Grid& given = *how.chunks;
    if (given.counts() != Grid(cuts).counts())
      throw InvalidArgument(fmt::format("{}: chunks {} are {} along the axes, and there are {} to compute", spec.name,
                                        given.to_string(), local::to_string(given.counts()),
                                        local::to_string(Grid(cuts).counts())));
    cuts = given.axes();
  }
  for (const Array& array : arrays) {
    std::vector<Along> along;
    for (int d = 0; d < array.ndim(); ++d) {
      const int own = ndim - array.ndim() + d;
      const Axis& axis = axes[static_cast<size_t>(own)];
      const int at = place[static_cast<size_t>(own)];
      const bool follows = at >= 0 && axis.cuts && array.shape()[d] == axis.extent;
      along.push_back(follows ? Along::following(at, *axis.cuts) : Along::whole());
    }
    spec.along.push_back(std::move(along));
  }
  const DType dtype = dtypes_of(spec, options, arrays, small_shapes(arrays), {result_ndim})[0];
  spec.outputs = {result_spec(std::move(cuts), dtype, how.chunks || any_chosen(arrays))};
  return Array(algo::map(std::move(spec), nodes_of(arrays))[0]);
}

Array map_overlap(BlockFunction function, const Array& array, const MapOverlapOptions& how,
                  const BlockOptions& options) {
  const int ndim = array.ndim();
  algo::MapSpec spec = spec_of(std::move(function), options);
  const auto per_axis = [&](size_t given, const char* what) {
    if (given > 1 && static_cast<int>(given) != ndim)
      throw InvalidArgument(fmt::format("{}: {} {} for {} axes", spec.name, given, what, ndim));
  };
  per_axis(how.depth.size(), "depths");
  per_axis(how.boundary.size(), "boundaries");
  std::vector<Along> along;
  for (int d = 0; d < ndim; ++d) {
    const auto i = static_cast<size_t>(d);
    Along axis = Along::following(d, array.chunks().axis(d));
    if (!how.depth.empty()) axis.before = axis.after = how.depth[how.depth.size() == 1 ? 0 : i];
    if (axis.before < 0) throw InvalidArgument(fmt::format("{}: depth {} is negative", spec.name, axis.before));
    if (!how.boundary.empty()) {
      const Boundary& boundary = how.boundary[how.boundary.size() == 1 ? 0 : i];
      axis.edge = boundary.edge;
      axis.fill = boundary.fill;
      const bool repeats = axis.edge == Edge::reflect || axis.edge == Edge::periodic;
      if (repeats && axis.before > array.shape()[d])
        throw InvalidArgument(fmt::format("{}: depth {} is longer than axis {} of {} elements, which it repeats",
                                          spec.name, axis.before, d, array.shape()[d]));
    }
    along.push_back(std::move(axis));
  }
  Dims small = small_shape(array);
  for (int d = 0; d < ndim; ++d) small[d] += 2 * along[static_cast<size_t>(d)].before;
  const DType dtype = dtypes_of(spec, options, std::span(&array, 1), {small}, {ndim})[0];
  spec.along = {std::move(along)};
  if (how.trim) {
    spec.function = [function = std::move(spec.function)](std::span<const NdArray> arrays, const ChunkPlace& place) {
      std::vector<NdArray> results = function(arrays, place);
      for (NdArray& result : results) {
        if (result.shape() != arrays[0].shape())
          throw InvalidArgument(
              fmt::format("gave an array of shape {} for one of shape {}: to take off the halo, it "
                          "must be the same",
                          local::to_string(result.shape()), local::to_string(arrays[0].shape())));
        int64_t offset = result.offset();
        for (int d = 0; d < result.ndim(); ++d)
          offset += result.strides()[d] * (place.outputs[0].start[d] - place.arguments[0].start[d]);
        result = result.restrided(place.outputs[0].count, result.strides(), offset);
      }
      return results;
    };
  }
  spec.outputs = {{array.shape(), dtype, array.chunks(), array.node()->chosen_grid}};
  return Array(algo::map(std::move(spec), {array.node()})[0]);
}

namespace {

struct Signature {
  std::vector<std::vector<std::string>> inputs, outputs;
};

// "(i,j),(j)->(i),()": names in brackets. Throws InvalidArgument with the place of an error.
Signature parse_signature(const std::string& text) {
  size_t at = 0;
  const auto skip = [&] {
    while (at < text.size() && text[at] == ' ') ++at;
  };
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(fmt::format("not a valid gufunc signature: {} at position {} of '{}'", what, at, text));
  };
  const auto list = [&] {
    std::vector<std::vector<std::string>> all;
    for (;;) {
      skip();
      if (at >= text.size() || text[at] != '(') fail("expected '('");
      ++at;
      std::vector<std::string> names;
      for (skip(); at < text.size() && text[at] != ')'; skip()) {
        const size_t begin = at;
        while (at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_')) ++at;
        if (at == begin) fail("expected the name of a dimension");
        names.push_back(text.substr(begin, at - begin));
        skip();
        if (at < text.size() && text[at] == ',')
          ++at;
        else if (at < text.size() && text[at] != ')')
          fail("expected ',' or ')'");
      }
      if (at >= text.size()) fail("expected ')'");
      ++at;
      all.push_back(std::move(names));
      skip();
      if (at >= text.size() || text[at] != ',') return all;
      ++at;
    }
  };
  Signature signature;
  signature.inputs = list();
  if (text.compare(at, 2, "->") != 0) fail("expected '->'");
  at += 2;
  signature.outputs = list();
  if (at != text.size()) fail("expected the end");
  return signature;
}

// A function of core axes alone as one of whole chunks.
BlockFunction over_loops(BlockFunction function, std::vector<int> cores) {
  return [function = std::move(function), cores = std::move(cores)](std::span<const NdArray> arrays,
                                                                    const ChunkPlace& place) {
    std::vector<Dims> loops;
    for (size_t i = 0; i < arrays.size(); ++i)
      loops.emplace_back(arrays[i].shape().begin(), arrays[i].shape().end() - cores[i]);
    const Dims loop = local::broadcast_shapes(loops);
    std::vector<NdArray> whole, results;
    for (size_t i = 0; i < arrays.size(); ++i) {
      Dims shape = loop;
      for (int d = loops[i].size(); d < arrays[i].ndim(); ++d) shape.push_back(arrays[i].shape()[d]);
      whole.push_back(arrays[i].broadcast_to(shape));
    }
    const int64_t count = local::element_count(loop);
    std::vector<local::IndexItem> at(static_cast<size_t>(loop.size()));
    for (int64_t k = 0; k < std::max<int64_t>(count, 1); ++k) {
      int64_t rest = k;
      for (int d = loop.size(); d-- > 0; rest /= std::max<int64_t>(loop[d], 1))
        at[static_cast<size_t>(d)] = rest % std::max<int64_t>(loop[d], 1);
      std::vector<NdArray> each;
      for (size_t i = 0; i < whole.size(); ++i) {
        if (count > 0) {
          each.push_back(whole[i][at].as_read_only());
          continue;
        }
        // Of no element the function says the shape of its results.
        const Dims core(whole[i].shape().begin() + loop.size(), whole[i].shape().end());
        each.emplace_back(core, whole[i].dtype()).fill(1);
      }
      const std::vector<NdArray> parts = function(each, place);
      for (size_t o = 0; o < parts.size(); ++o) {
        if (k == 0) {
          Dims shape = loop;
          for (const int64_t extent : parts[o].shape()) shape.push_back(extent);
          results.emplace_back(shape, parts[o].dtype());
        }
        if (count > 0) results.at(o)[at].assign(parts[o]);
      }
    }
    return results;
  };
}

}  // namespace

std::vector<Array> apply_gufunc(BlockFunction function, const std::string& text, std::span<const Array> arrays,
                                const GufuncOptions& how, const BlockOptions& options) {
  algo::MapSpec spec = spec_of(std::move(function), options);
  const Signature signature = parse_signature(text);
  if (signature.inputs.size() != arrays.size())
    throw InvalidArgument(fmt::format("{}: signature '{}' is for {} arrays, and {} were given", spec.name, text,
                                      signature.inputs.size(), arrays.size()));
  if (how.vectorize) {
    std::vector<int> cores;
    for (const auto& names : signature.inputs) cores.push_back(static_cast<int>(names.size()));
    spec.function = over_loops(std::move(spec.function), std::move(cores));
  }
  std::map<std::string, int64_t> sizes = how.output_sizes;
  int loops = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const int core = static_cast<int>(signature.inputs[i].size());
    if (arrays[i].ndim() < core)
      throw InvalidArgument(fmt::format("{}: argument {} has {} axes, and its core in '{}' has {}", spec.name, i,
                                        arrays[i].ndim(), text, core));
    loops = std::max(loops, arrays[i].ndim() - core);
    for (int d = 0; d < core; ++d) {
      const std::string& name = signature.inputs[i][static_cast<size_t>(d)];
      const int64_t extent = arrays[i].shape()[arrays[i].ndim() - core + d];
      const auto [known, is_new] = sizes.emplace(name, extent);
      if (!is_new && known->second != extent)
        throw InvalidArgument(fmt::format("{}: core dimension '{}' of '{}' has {} and {} elements", spec.name, name,
                                          text, known->second, extent));
    }
  }
  std::vector<Axis> axes(static_cast<size_t>(loops));
  for (size_t i = 0; i < arrays.size(); ++i) {
    const int own = arrays[i].ndim() - static_cast<int>(signature.inputs[i].size());
    for (int d = 0; d < own; ++d) {
      const int loop = loops - own + d;
      add_axis(axes[static_cast<size_t>(loop)], arrays[i], d, fmt::format("{}: loop axis {}", spec.name, loop));
    }
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const int own = arrays[i].ndim() - static_cast<int>(signature.inputs[i].size());
    std::vector<Along> along;
    for (int d = 0; d < arrays[i].ndim(); ++d) {
      const int loop = loops - own + d;
      const Axis* axis = d < own ? &axes[static_cast<size_t>(loop)] : nullptr;
      const bool follows = axis != nullptr && axis->cuts && arrays[i].shape()[d] == axis->extent;
      along.push_back(follows ? Along::following(loop, *axis->cuts) : Along::whole());
    }
    spec.along.push_back(std::move(along));
  }
  // Core extents are kept for the call on small arrays, since functions may need several elements.
  std::vector<Dims> small = small_shapes(arrays);
  for (size_t i = 0; i < arrays.size(); ++i)
    for (size_t d = 0; d < signature.inputs[i].size(); ++d)
      small[i][small[i].size() - static_cast<int>(signature.inputs[i].size() - d)] =
          std::min<int64_t>(sizes.at(signature.inputs[i][d]), 2);
  std::vector<int> ndims;
  for (const auto& output : signature.outputs) ndims.push_back(loops + static_cast<int>(output.size()));
  const std::vector<DType> dtypes = dtypes_of(spec, options, arrays, small, ndims);
  for (size_t o = 0; o < signature.outputs.size(); ++o) {
    std::vector<AxisChunks> cuts;
    for (const Axis& axis : axes) cuts.push_back(axis.cuts.value_or(AxisChunks(1, 1)));
    for (const std::string& name : signature.outputs[o]) {
      const auto found = sizes.find(name);
      if (found == sizes.end())
        throw InvalidArgument(
            fmt::format("{}: no argument has the core dimension '{}' of '{}'; give its extent in "
                        "output_sizes",
                        spec.name, name, text));
      cuts.emplace_back(found->second, std::max<int64_t>(found->second, 1));
    }
    spec.outputs.push_back(result_spec(std::move(cuts), dtypes[o], any_chosen(arrays)));
  }
  return arrays_of(algo::map(std::move(spec), nodes_of(arrays)));
}

Array sliding_window_view(const Array& x, const Dims& window_shape, const Axes& axis) {
  std::vector<int> windowed;
  if (axis.none())
    for (int d = 0; d < x.ndim(); ++d) windowed.push_back(d);
  else
    for (const int64_t d : axis.list()) windowed.push_back(local::normalize_axis(d, x.ndim()));
  if (std::ssize(windowed) != window_shape.size())
    throw InvalidArgument(fmt::format("a window of {} axes over {} axes", window_shape.size(), windowed.size()));
  std::vector<Along> along;
  for (int d = 0; d < x.ndim(); ++d) along.push_back(Along::following(d, x.chunks().axis(d)));
  std::vector<AxisChunks> cuts = x.chunks().axes();
  std::vector<int64_t> list;
  for (size_t i = 0; i < windowed.size(); ++i) {
    const auto d = static_cast<size_t>(windowed[i]);
    const int64_t window = window_shape[static_cast<int>(i)];
    if (window < 1) throw InvalidArgument("`window_shape` cannot contain values below 1");
    along[d].after += window - 1;
    list.push_back(windowed[i]);
  }
  for (size_t d = 0; d < cuts.size(); ++d) {
    // The windows that begin in a chunk belong to it; the last chunks may have none.
    const int64_t count = cuts[d].extent() - along[d].after;
    if (count < 1) throw InvalidArgument("window shape cannot be larger than input array shape");
    if (along[d].after == 0) continue;
    std::vector<int64_t> extents;
    for (int64_t i = 0; i < cuts[d].count() && cuts[d].start(i) < count; ++i)
      extents.push_back(std::min(cuts[d].start(i + 1), count) - cuts[d].start(i));
    cuts[d] = along[d].cuts = AxisChunks(extents);
  }
  for (const int64_t window : window_shape) cuts.emplace_back(window, window);
  algo::MapSpec spec;
  spec.name = "sliding_window_view";
  op::Hash identity;
  for (const int64_t d : list) identity.add(d);
  spec.identity = identity.add(window_shape).value;
  spec.along = {std::move(along)};
  spec.outputs = {result_spec(std::move(cuts), x.dtype(), x.node()->chosen_grid)};
  spec.function = [window_shape, list](std::span<const NdArray> arrays, const ChunkPlace&) {
    return std::vector<NdArray>{local::ops::sliding_window_view(arrays[0], window_shape, Axes(std::vector(list)))};
  };
  return Array(algo::map(std::move(spec), {x.node()})[0]);
}

Array coarsen(const std::function<NdArray(const NdArray&, const Axes&)>& reduction, const Array& x,
              const std::map<int64_t, int64_t>& axes, bool trim_excess, const BlockOptions& options) {
  Dims factors = Dims::filled(x.ndim(), 1);
  for (const auto& [axis, factor] : axes) {
    const int d = local::normalize_axis(axis, x.ndim());
    if (factor < 1) throw InvalidArgument(fmt::format("coarsen by {} along axis {}", factor, axis));
    if (!trim_excess && x.shape()[d] % factor != 0)
      throw InvalidArgument(
          fmt::format("axis {} of {} elements is no multiple of {}: pass trim_excess", d, x.shape()[d], factor));
    factors[d] = factor;
  }
  std::vector<int64_t> reduced;
  for (int d = 0, axis = 1; d < x.ndim(); ++d, ++axis)
    if (factors[d] > 1) reduced.push_back(axis++);
  algo::MapSpec spec = spec_of(
      [reduction, factors, reduced](std::span<const NdArray> arrays, const ChunkPlace&) {
        Dims split;
        for (int d = 0; d < factors.size(); ++d) {
          split.push_back(arrays[0].shape()[d] / factors[d]);
          if (factors[d] > 1) split.push_back(factors[d]);
        }
        const NdArray blocks = arrays[0].reshape(split);
        return std::vector<NdArray>{reduced.empty() ? blocks : reduction(blocks, Axes(std::vector<int64_t>(reduced)))};
      },
      options);
  const DType dtype = dtypes_of(spec, options, std::span(&x, 1), {factors}, {x.ndim()})[0];
  std::vector<AxisChunks> cuts = x.chunks().axes();
  std::vector<Along> along;
  for (int d = 0; d < x.ndim(); ++d) {
    AxisChunks& axis = cuts[static_cast<size_t>(d)];
    if (factors[d] > 1) {
      // Blocks that begin in a chunk belong to it.
      const int64_t count = axis.extent() / factors[d];
      std::vector<int64_t> result, read;
      for (int64_t i = 0, from = 0; i < axis.count(); ++i) {
        const int64_t end = std::min((axis.start(i + 1) + factors[d] - 1) / factors[d], count);
        if (end > from || (count == 0 && i == 0)) {
          result.push_back(end - from);
          read.push_back((end - from) * factors[d]);
        }
        from = end;
      }
      axis = AxisChunks(result);
      along.push_back(Along::following(d, AxisChunks(read)));
    } else {
      along.push_back(Along::following(d, axis));
    }
  }
  spec.along = {std::move(along)};
  spec.outputs = {result_spec(std::move(cuts), dtype, x.node()->chosen_grid)};
  return Array(algo::map(std::move(spec), {x.node()})[0]);
}

Array apply_along_axis(std::function<NdArray(const NdArray&)> function, int64_t axis, const Array& x,
                       const std::optional<LocalResult>& result, const BlockOptions& options) {
  const int along = local::normalize_axis(axis, x.ndim());
  LocalResult line;
  if (result) {
    line = *result;
  } else {
    if (x.shape()[along] == 0) throw InvalidArgument("Cannot apply_along_axis when any iteration dimensions are 0");
    const local::DeviceScope scope(local::kCpu);
    const NdArray ones({x.shape()[along]}, x.dtype());
    ones.fill(1);
    const NdArray found = function(ones);
    line = {found.shape(), found.dtype()};
  }
  const int added = line.shape.size();
  algo::MapSpec spec = spec_of(
      [function = std::move(function), along](std::span<const NdArray> arrays, const ChunkPlace&) {
        const auto each = [&](std::span<const NdArray> lines) { return function(lines[0]); };
        return std::vector<NdArray>{local::ops::apply_along_axis(each, along, arrays[0])};
      },
      options);
  std::vector<AxisChunks> cuts;
  std::vector<Along> axes;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == along) {
      for (const int64_t extent : line.shape) cuts.emplace_back(extent, std::max<int64_t>(extent, 1));
      axes.push_back(Along::whole());
      continue;
    }
    axes.push_back(Along::following(d < along ? d : d - 1 + added, x.chunks().axis(d)));
    cuts.push_back(x.chunks().axis(d));
  }
  spec.along = {std::move(axes)};
  spec.outputs = {result_spec(std::move(cuts), line.dtype, x.node()->chosen_grid)};
  return Array(algo::map(std::move(spec), {x.node()})[0]);
}

Array reduction(const Array& x, const FoldFunction& chunk, const FoldFunction& aggregate, const Axes& axis,
                bool keepdims, const BlockOptions& options) {
  const uint32_t mask = axis.mask(x.ndim());
  std::vector<int64_t> reduced;
  std::vector<AxisChunks> partial, folded;
  std::vector<Along> of_x, of_partial;
  for (int d = 0; d < x.ndim(); ++d) {
    const AxisChunks& cuts = x.chunks().axis(d);
    const bool folds = mask >> d & 1;
    if (folds) reduced.push_back(d);
    partial.push_back(folds ? AxisChunks(cuts.count(), 1) : cuts);
    folded.push_back(folds ? AxisChunks(1, 1) : cuts);
    of_x.push_back(Along::following(d, cuts));
    of_partial.push_back(folds ? Along::whole() : Along::following(d, cuts));
  }
  // A fold that drops its axes is taken as one that keeps them.
  const auto fold = [reduced](const FoldFunction& function) {
    return [function, reduced](std::span<const NdArray> arrays, const ChunkPlace&) {
      Dims shape = arrays[0].shape();
      for (const int64_t d : reduced) shape[static_cast<int>(d)] = 1;
      return std::vector<NdArray>{function(arrays[0], Axes(std::vector<int64_t>(reduced))).reshape(shape)};
    };
  };
  BlockOptions first = options, second = options;
  if (options.dtypes.size() == 2) first.dtypes = {options.dtypes[0]}, second.dtypes = {options.dtypes[1]};
  algo::MapSpec of_chunks = spec_of(fold(chunk), first);
  const DType dtype = dtypes_of(of_chunks, first, std::span(&x, 1), {small_shape(x)}, {x.ndim()})[0];
  of_chunks.along = {std::move(of_x)};
  of_chunks.outputs = {result_spec(std::move(partial), dtype, x.node()->chosen_grid)};
  const Array states(algo::map(std::move(of_chunks), {x.node()})[0]);
  algo::MapSpec of_all = spec_of(fold(aggregate), second);
  of_all.name += " aggregate";
  const DType result = dtypes_of(of_all, second, std::span(&states, 1), {small_shape(states)}, {x.ndim()})[0];
  of_all.along = {std::move(of_partial)};
  of_all.outputs = {result_spec(std::move(folded), result, x.node()->chosen_grid)};
  const Array kept(algo::map(std::move(of_all), {states.node()})[0]);
  return keepdims || reduced.empty() ? kept : squeeze(kept, Axes(std::move(reduced)));
}

std::vector<Array> local_call(const std::string& name, std::span<const Array> arrays,
                              const std::function<std::vector<LocalResult>(std::span<const Array>)>& infer,
                              std::function<std::vector<NdArray>(std::span<const NdArray>)> function,
                              const BlockOptions& options) {
  algo::LocalCall call;
  call.name = name;
  call.identity = identity_of(options);
  for (const LocalResult& result : infer(arrays)) call.outputs.push_back(op::in_one_chunk(result.shape, result.dtype));
  call.function = std::move(function);
  call.scratch_bytes = options.scratch_bytes;
  call.by_trial = options.by_trial;
  call.calls_program = true;
  return arrays_of(algo::local_call(std::move(call), nodes_of(arrays)));
}

}  // namespace quarry
