#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/job_description.h"
#include "quarry/chunked/api/ma.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/api/outputs.h"
#include "quarry/chunked/api/sparse_files.h"
#include "quarry/chunked/api/stored_box.h"
#include "quarry/chunked/exec/encoded_chunks.h"
#include "quarry/chunked/exec/saved_output.h"
#include "quarry/chunked/exec/saved_states.h"
#include "quarry/chunked/runtime/host_value.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/format.h"
#include "quarry/io/saved_calls.h"
#include "quarry/io/saved_job.h"
#include "quarry/local/memory/policy.h"

namespace quarry {
namespace {

using detail::resolve_box;
using detail::StoredBox;
using exec::offset_of;
using exec::Sink;

constexpr int64_t kFilteredChunkBytes = 1 << 20;  // of a file's chunks that nobody specified
constexpr int64_t kGrowingChunkBytes = 64 << 10;  // and at least, of data sets that can grow

// Writes the file chunks that a box of the data set touches through the filters.
void write_filtered(const io::Writer& writer, const Region& box, const void* data, std::span<std::byte> scratch,
                    const std::function<void(const Dims&, std::span<const std::byte>)>& put) {
  if (box.elements() == 0) return;
  const Dims& file_chunk = *writer.spec().chunks;
  const Dims strides = local::contiguous_strides(box.count, local::itemsize(writer.spec().dtype));
  Dims first = box.start, counts = box.count;
  for (int d = 0; d < box.ndim(); ++d) {
    first[d] = box.start[d] / file_chunk[d];
    counts[d] = (box.start[d] + box.count[d] - 1) / file_chunk[d] - first[d] + 1;
  }
  const Grid touched = Grid::regular(counts, Dims::filled(counts.size(), 1));
  for (int64_t i = 0; i < touched.count(); ++i) {
    Dims chunk = touched.coordinates(i), start = chunk, count = chunk, from = chunk;  // from: in the box
    for (int d = 0; d < chunk.size(); ++d) {
      chunk[d] += first[d];
      const int64_t begin = chunk[d] * file_chunk[d], end = box.start[d] + box.count[d];
      start[d] = std::max<int64_t>(0, box.start[d] - begin);
      count[d] = std::min(begin + file_chunk[d], end) - begin - start[d];
      from[d] = begin + start[d] - box.start[d];
    }
    const auto* elements = static_cast<const std::byte*>(data) + offset_of(from, strides);
    put(chunk, writer.encode_part(chunk, start, elements, strides, count, scratch));
  }
}

// Chunks of the computation that hold whole file chunks, and which the planner does not cut: where nobody chose them,
// as many as leave room for others in the budget. `origin`: where the array begins in the data set.
Array aligned(const Array& array, const Dims& file_chunks, const Dims& origin) {
  const Dims largest = array.chunks().largest();
  Dims times = largest;  // how many of the file's
  for (int d = 0; d < times.size(); ++d) times[d] = std::max<int64_t>(1, largest[d] / file_chunks[d]);
  const int64_t room = Runtime::current().plan_bytes() / local::memory_policy::kTasksInBudget;
  const auto bytes = [&] {
    return local::element_count(times) * local::element_count(file_chunks) * local::itemsize(array.dtype());
  };
  while (!array.node()->chosen_grid && bytes() > room) {
    int64_t& most = *std::ranges::max_element(times);
    if (most == 1) break;
    most = (most + 1) / 2;
  }
  std::vector<AxisChunks> axes;
  for (int d = 0; d < times.size(); ++d) {
    const int64_t extent = array.shape(d), before = origin[d] % file_chunks[d];
    const int64_t chunk = std::min(times[d] * file_chunks[d], std::max<int64_t>(1, extent + file_chunks[d] - 1));
    if (before == 0 || extent == 0) {
      axes.emplace_back(extent, chunk);
      continue;
    }
    // The first one ends where a chunk of the file does.
    std::vector<int64_t> extents{std::min(extent, file_chunks[d] - before)};
    for (int64_t left = extent - extents[0]; left > 0; left -= extents.back()) extents.push_back(std::min(left, chunk));
    axes.emplace_back(extents);
  }
  return array.rechunk(Grid(std::move(axes)));
}

// What rank 0, which sees what is there, says that the file is written as.
const io::Format& format_on_rank_0(const std::string& file, comm::Communicator& communicator) {
  std::string name;
  comm::on_rank_0(communicator, {"store", std::hash<std::string>()(file)},
                  [&] { name = io::format_to_write(file).name(); });
  name = communicator.broadcast_string(name, 0);
  const std::vector<const io::Format*> formats = io::formats();
  const auto found = std::ranges::find(formats, name, &io::Format::name);
  QUARRY_CHECK(found != formats.end());
  return **found;
}

// What must be the same for one run to go on with the output of another: whatever the bits of the result depend on.
io::JobDescription description_of(const io::Format& format, const std::vector<io::OutputSpec>& specs,
                                  const std::vector<Array>& arrays, const plan::Plan& plan) {
  io::JobDescription all = detail::description_of_run(nodes_of(arrays));
  all.emplace_back("the format", format.name());
  for (size_t i = 0; i < specs.size(); ++i) {
    const io::OutputSpec& spec = specs[i];
    const std::string of = " of " + spec.object;
    all.emplace_back("the shape" + of, local::to_string(spec.shape));
    all.emplace_back("the dtype" + of, local::name(spec.dtype));
    all.emplace_back("the chunks in the file" + of, spec.chunks ? local::to_string(*spec.chunks) : "none");
    all.emplace_back("the filter" + of, spec.filters.empty() ? "none" : io::to_string(spec.filters));
    all.emplace_back("the format's version" + of, spec.version == 0 ? "the usual one" : std::to_string(spec.version));
    all.emplace_back("the chunks" + of, arrays[i].chunks().to_string());
    all.emplace_back("the expression" + of, fmt::format("{:016x}", arrays[i].node()->hash));
  }
  all.push_back(detail::description_of_plan(plan));
  return all;
}

// The specifications and, where the format has them, those of groups.
std::vector<io::OutputSpec> with_groups(std::vector<io::OutputSpec> specs, const detail::GroupAttributes& groups,
                                        const io::Format& format) {
  for (const auto& [path, attributes] : groups) {
    if (!format.has_groups()) break;
    io::OutputSpec& group = specs.emplace_back();
    group.object = path;
    group.attributes = attributes;
    group.is_group = true;
  }
  return specs;
}

// Opens `output` on rank 0 by `open`, whose error is everyone's; its writers on all ranks. Collective.
std::vector<std::shared_ptr<io::Writer>> open_writers(const std::unique_ptr<io::OutputFile>& output, size_t count,
                                                      const comm::Call& call, const std::function<void()>& open) {
  comm::Communicator& communicator = Runtime::current().communicator();
  std::vector<std::shared_ptr<io::Writer>> writers;
  std::vector<std::string> layouts(count);
  comm::on_rank_0(communicator, call, [&] {
    open();
    for (std::string& layout : layouts) {
      writers.push_back(output->writer(writers.size()));
      layout = writers.back()->serialize();
    }
  });
  for (const std::string& mine : layouts) {
    const std::string layout = communicator.broadcast_string(mine, 0);
    if (communicator.rank() != 0) writers.push_back(io::Writer::deserialize(layout));
  }
  return writers;
}

// What is written to an output that exists.
struct OutputRun {
  const comm::Call& call;
  const std::string& file;
  io::OutputFile* output;  // of rank 0, null elsewhere
  const std::vector<std::shared_ptr<io::Writer>>& writers;
  const std::vector<Array>& arrays;
  const plan::Plan& plan;
  std::vector<bool> encodes;       // whether chunks of the arrays are encoded
  std::vector<Dims> origins = {};  // where the arrays begin in their data sets; empty: all at the beginning
};

// Computes and writes the arrays, and commits.
void write_output(const OutputRun& run, exec::SavedOutput* saved, exec::SavedStates* states = nullptr) {
  Runtime& runtime = Runtime::current();
  comm::Communicator& communicator = runtime.communicator();
  const std::vector<std::shared_ptr<io::Writer>>& writers = run.writers;
  exec::EncodedChunks::Note note;
  if (saved != nullptr) {
    note = [&](size_t item, const io::PlacedChunk& placed, std::span<const std::byte> bytes) {
      saved->note(item, placed, bytes);
    };
  }
  exec::EncodedChunks encoded(communicator, run.output, run.file, writers, note);
  std::vector<Sink> sinks;
  for (size_t i = 0; i < writers.size(); ++i) {
    const std::shared_ptr<io::Writer>& writer = writers[i];
    const auto region_of = [origin = run.origins.empty() ? Dims() : run.origins[i]](Region box) {
      for (int d = 0; d < origin.size(); ++d) box.start[d] += origin[d];
      return box;
    };
    Sink sink{Sink::Kind::write, run.plan.results[i]};
    if (saved != nullptr) sink.done = saved->done(i);
    if (!run.encodes[i]) {
      sink.write = [&, i, writer, region_of](const Region& box, const void* data, std::span<std::byte> /*scratch*/) {
        if (box.elements() == 0) return;
        writer->write(region_of(box), data);
        const auto bytes = static_cast<size_t>(box.elements() * local::itemsize(writer->spec().dtype));
        if (saved != nullptr) saved->note(i, box, {static_cast<const std::byte*>(data), bytes});
      };
    } else {
      sink.whole = true;
      sink.scratch_bytes = writer->encode_scratch_bytes();
      sink.write = [&, i, writer, region_of](const Region& box, const void* data, std::span<std::byte> scratch) {
        write_filtered(*writer, region_of(box), data, scratch,
                       [&](const Dims& chunk, std::span<const std::byte> bytes) { encoded.put(i, chunk, bytes); });
      };
    }
    sinks.push_back(std::move(sink));
  }
  exec::execute(nodes_of(run.arrays), run.plan, sinks, run.call.name, /*to_host=*/0, states);

  // Every rank's data is in place before the creating rank commits; its failure is everyone's.
  std::exception_ptr error;
  try {
    encoded.flush();
    if (saved != nullptr) saved->flush();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, run.call);
  try {
    encoded.hand_over();
    // commit() sends what this node wrote to the device.
    if (communicator.node_of(runtime.rank()) != communicator.node_of(/*rank=*/0))
      for (const auto& writer : writers) writer->sync();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, run.call);
  try {
    if (run.output != nullptr) run.output->commit();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, run.call);
  if (saved != nullptr) saved->complete();
  for (const auto& writer : writers) runtime.internals().written_bytes += writer->bytes_written();
}

// Axes that can grow need chunks, which are large enough to be worth reading where the array is still small.
void make_growing(io::OutputSpec& spec, const std::vector<int>& axes, const io::Format& format) {
  if (!axes.empty() && format.name() != "HDF5")
    throw local::NotSupported(fmt::format("'{}' would be of the format {}: axes that can grow are made in HDF5 files",
                                          spec.object, format.name()));
  for (const int axis : axes) spec.unlimited.push_back(local::normalize_axis(axis, spec.shape.size()));
  if (axes.empty() || spec.chunks) return;
  Dims chunks = io::usual_chunks(spec.shape, spec.dtype, kFilteredChunkBytes);
  while (local::element_count(chunks) * local::itemsize(spec.dtype) < kGrowingChunkBytes) {
    for (const int axis : spec.unlimited) chunks[axis] *= 2;
  }
  spec.chunks = chunks;
}

// Names that no array takes are a mistake.
void check_dims(const std::vector<std::string>& dims, const std::vector<ma::FilledItem>& items,
                const io::Format& format) {
  if (dims.empty()) return;
  if (format.name() != "HDF5")
    throw local::NotSupported(
        fmt::format("names of axes are for HDF5, and the output is of the format {}", format.name()));
  if (std::ranges::any_of(items,
                          [&](const ma::FilledItem& filled) { return filled.item.array.ndim() == std::ssize(dims); }))
    return;
  throw local::InvalidArgument(fmt::format("there are {} names of axes, and no array of so many", dims.size()));
}

// `own` is empty, or has what belongs to each item.
void store_items(const std::string& file, const std::vector<ma::FilledItem>& items, const StoreOptions& options,
                 const std::vector<detail::OutputItem>& own = {}, const detail::GroupAttributes& groups = {}) {
  Runtime& runtime = Runtime::current();
  comm::Communicator& communicator = runtime.communicator();
  const io::Format& format = format_on_rank_0(file, communicator);
  bool resumed = false;

  check_dims(options.dims, items, format);
  if (options.resume) format.check_resumable(file);
  std::vector<io::OutputSpec> specs;
  std::vector<Array> arrays;
  for (const auto& [item, fill_value] : items) {
    io::OutputSpec spec{item.path, item.array.shape(), item.array.dtype(), {}, {}, {}};
    spec.fill_value = fill_value;
    const detail::OutputItem* const mine = own.empty() ? nullptr : &own[specs.size()];
    if (mine != nullptr) spec.attributes = mine->attributes;
    if (item.array.ndim() > 0) {
      const std::optional<Dims>& chunks = mine != nullptr ? mine->chunks : options.chunks;
      if (chunks && chunks->size() == item.array.ndim()) spec.chunks = chunks;
      spec.filters = mine != nullptr ? mine->filters : options.filters;
      make_growing(spec, options.unlimited, format);
      if (std::ssize(options.dims) == spec.shape.size()) spec.dims = options.dims;
      if (mine != nullptr) spec.dims = mine->dims;
      if (!spec.filters.empty() && !spec.chunks)
        spec.chunks = io::usual_chunks(spec.shape, spec.dtype, kFilteredChunkBytes);
    }
    spec.version = options.version;
    format.prepare(spec);
    // Where chunks are files, each is made by one rank.
    const bool whole = spec.chunks && (!spec.filters.empty() || format.has_chunk_files());
    arrays.push_back(whole ? aligned(item.array, *spec.chunks, Dims::filled(item.array.ndim(), 0)) : item.array);
    const std::map<std::string, std::string>& provenance = runtime.internals().provenance;
    spec.attributes.insert(provenance.begin(), provenance.end());
    if (!provenance.empty()) spec.attributes["quarry_chunks"] = local::to_string(arrays.back().chunks().largest());
    specs.push_back(std::move(spec));
  }

  exec::end_if_planned(nodes_of(arrays), /*write=*/true);
  // The plan is made before anything is created, so that its errors leave no trace.
  plan::Plan plan = exec::make_plan(nodes_of(arrays));
  const comm::Call call{"store", plan.hash + std::hash<std::string>()(file),
                        [&] { return fmt::format("{} to {}", exec::title_of(plan), file); }};
  const io::JobDescription description =
      options.resume && communicator.rank() == 0 ? description_of(format, specs, arrays, plan) : io::JobDescription();
  std::unique_ptr<io::OutputFile> output;
  const auto open = [&] {
    const auto saved = options.resume ? io::find_saved_job(file) : std::nullopt;
    if (saved) {
      io::check_same_job(file, saved->description, description);
      output = format.resume(file, saved->kept);
      resumed = true;
    } else {
      output = format.create(file, with_groups(specs, groups, format), options.overwrite);
      if (options.resume)
        io::save_job(file, {description, output->keep()});
      else
        io::remove_saved_calls(file);
    }
  };
  const std::vector<std::shared_ptr<io::Writer>> writers = open_writers(output, items.size(), call, open);

  std::optional<exec::SavedOutput> saved;
  std::optional<exec::SavedStates> states;
  if (options.resume) {
    std::vector<exec::SavedOutput::Item> saved_items;
    for (size_t i = 0; i < items.size(); ++i) {  // in the chunks of the plan, which may be others than the array's
      const plan::ArrayRef& result = plan.results[i];
      const plan::Stage& stage = plan.stages[static_cast<size_t>(result.stage)];
      saved_items.push_back({writers[i], stage.outputs[static_cast<size_t>(result.output)].grid});
    }
    saved.emplace(communicator, file, std::move(saved_items), output.get(), resumed);
    states.emplace(communicator, file, saved->generation(), exec::flop_rate_of_programs(plan),
                   detail::seconds_between_states(),
                   /*resumed=*/saved->generation() > 0);
  }
  std::vector<bool> encodes;
  for (const io::OutputSpec& spec : specs) encodes.push_back(!spec.filters.empty());
  write_output({call, file, output.get(), writers, arrays, plan, std::move(encodes)}, saved ? &*saved : nullptr,
               states ? &*states : nullptr);
}

// ---- data sets that are there ----

// What rank 0 finds of the items in the file, each as Dataset::serialize(); empty: it is not there.
std::vector<std::shared_ptr<io::Dataset>> datasets_there(const std::string& file,
                                                         const std::vector<ma::FilledItem>& items,
                                                         const StoreOptions& options) {
  comm::Communicator& communicator = Runtime::current().communicator();
  std::vector<std::shared_ptr<io::Dataset>> found(items.size());
  comm::on_rank_0(communicator, {"store", std::hash<std::string>()(file)}, [&] {
    std::set<std::string> paths;
    std::error_code none;
    if (options.append && std::filesystem::exists(file, none))
      for (const io::ObjectInfo& object : io::list_objects(file)) paths.insert(object.path);
    for (size_t i = 0; i < items.size(); ++i)
      if (options.region || paths.contains(items[i].item.path)) found[i] = io::Dataset::open(file, items[i].item.path);
    const auto count = std::ranges::count_if(found, [](const auto& dataset) { return dataset != nullptr; });
    const auto missing = std::ranges::find(found, nullptr);
    if (count > 0 && missing != found.end())
      throw local::InvalidArgument(
          fmt::format("cannot append to '{}': some of the data sets are there, and '{}' is not", file,
                      items[static_cast<size_t>(missing - found.begin())].item.path));
  });
  for (std::shared_ptr<io::Dataset>& dataset : found) {
    const std::string bytes = communicator.broadcast_string(dataset ? dataset->serialize() : "", 0);
    if (!dataset && !bytes.empty()) dataset = io::Dataset::deserialize(bytes);
  }
  return found;
}

// What masked elements are in the file is said by its attribute already.
void check_fill_value(const io::DatasetInfo& info, const std::optional<Scalar>& fill_value) {
  if (!fill_value) return;
  const auto bytes_of = [&](const Scalar& value) {
    std::array<std::byte, 16> bytes{};
    value.store(info.dtype, bytes.data());
    return bytes;
  };
  const auto stated = info.attributes.find("_FillValue");
  bool same = false;
  if (stated != info.attributes.end()) {
    if (const auto* integer = std::get_if<int64_t>(&stated->second)) same = bytes_of(*integer) == bytes_of(*fill_value);
    if (const auto* real = std::get_if<double>(&stated->second)) same = bytes_of(*real) == bytes_of(*fill_value);
  }
  if (same) return;
  throw local::InvalidArgument(
      fmt::format("'{}' in '{}' {}: masked elements cannot be written to it; fill them by ma.filled", info.object,
                  info.file, stated == info.attributes.end() ? "has no _FillValue" : "has another _FillValue"));
}

// The array as all axes of the data set have it, and what is changed.
std::pair<Array, io::ChangeSpec> change_of(const ma::FilledItem& item, const io::DatasetInfo& info,
                                           const StoreOptions& options) {
  Array array = item.item.array;
  io::ChangeSpec change{info.object, info.shape, info.dtype, {}};
  const auto fail = [&](const std::string& reason) {
    throw local::InvalidArgument(fmt::format("cannot {} '{}' in '{}': {}", options.append ? "append to" : "change",
                                             info.object, info.file, reason));
  };
  if (array.dtype() != info.dtype)
    fail(fmt::format("it is of dtype {}, and the array of {}; convert that by astype", local::name(info.dtype),
                     local::name(array.dtype())));
  check_fill_value(info, item.fill_value);
  if (options.append) {
    if (info.shape.empty()) fail("it has no axes");
    const int axis = local::normalize_axis(*options.append, info.shape.size());
    Dims wanted = info.shape;
    if (array.ndim() == info.shape.size()) wanted[axis] = array.shape(axis);
    if (wanted != array.shape())
      fail(fmt::format("its shape is {}, and the array's {}: they may differ along axis {} alone",
                       local::to_string(info.shape), local::to_string(array.shape()), axis));
    Dims start = Dims::filled(info.shape.size(), 0);
    start[axis] = info.shape[axis];
    change.append = axis;
    change.region = Region::box(start, wanted);
    return {array, change};
  }
  const StoredBox box = resolve_box(*options.region, info.shape);
  if (box.shape() != array.shape())
    fail(fmt::format("the region is of shape {}, and the array of {}", local::to_string(box.shape()),
                     local::to_string(array.shape())));
  change.region = box.region;
  // Axes that an integer picks from.
  std::vector<local::IndexItem> index;
  for (const bool is_kept : box.kept) {
    if (is_kept)
      index.emplace_back(Slice{});
    else
      index.emplace_back(local::newaxis);
  }
  if (array.ndim() < info.shape.size()) array = std::as_const(array)[std::span<const local::IndexItem>(index)];
  return {array, change};
}

void check_change_options(const StoreOptions& options) {
  const auto reject = [&](bool is_given, const char* what) {
    if (is_given)
      throw local::InvalidArgument(fmt::format("{} does not go with {}", options.append ? "append" : "region", what));
  };
  reject(options.append && options.region, "region");
  reject(options.overwrite, "overwrite: what is there is changed");
  reject(options.resume, "resume");
  reject(options.region && !options.unlimited.empty(), "unlimited axes: the data set is there");
  reject(options.region && !options.dims.empty(), "names of axes: the data set is there");
}

// False where none of the data sets is there that are appended to.
bool change_items(const std::string& file, const std::vector<ma::FilledItem>& items, const StoreOptions& options) {
  check_change_options(options);
  const std::vector<std::shared_ptr<io::Dataset>> found = datasets_there(file, items, options);
  if (items.empty() || !found[0]) return false;
  std::vector<Array> arrays;
  std::vector<io::ChangeSpec> changes;
  uint64_t hash = std::hash<std::string>()(file);
  for (size_t i = 0; i < items.size(); ++i) {
    auto [array, change] = change_of(items[i], found[i]->info(), options);
    for (const int64_t extent : change.region.start) hash = hash * 31 + static_cast<uint64_t>(extent);
    arrays.push_back(std::move(array));
    changes.push_back(std::move(change));
  }
  exec::end_if_planned(nodes_of(arrays), /*write=*/true);
  comm::Call call{"store", hash, [&] { return fmt::format("a change of {}", file); }};
  std::unique_ptr<io::OutputFile> output;
  const std::vector<std::shared_ptr<io::Writer>> writers =
      open_writers(output, items.size(), call, [&] { output = io::OutputFile::change(file, changes); });
  std::vector<bool> encodes;
  std::vector<Dims> origins;
  for (size_t i = 0; i < items.size(); ++i) {
    const io::OutputSpec& spec = writers[i]->spec();
    origins.push_back(changes[i].region.start);
    encodes.push_back(!spec.filters.empty());
    if (encodes[i]) arrays[i] = aligned(arrays[i], *spec.chunks, origins[i]);
  }
  const plan::Plan plan = exec::make_plan(nodes_of(arrays));
  call.hash = call.hash * 31 + plan.hash;
  write_output({call, file, output.get(), writers, arrays, plan, std::move(encodes), std::move(origins)}, nullptr);
  return true;
}

// A file of one matrix.
void store_matrix(const std::string& file, const std::vector<ma::FilledItem>& items, const StoreOptions& options) {
  if (items.size() != 1)
    throw local::InvalidArgument(
        fmt::format("'{}' is Matrix Market, which holds one matrix, and there are {} arrays", file, items.size()));
  if (items[0].fill_value)
    throw local::InvalidArgument(
        fmt::format("'{}' is Matrix Market, which has no masked elements; fill them by ma.filled", file));
  sparse::mmwrite(file, items[0].item.array, options);
}

// As the options say.
void store_as(const std::string& file, const std::vector<ma::FilledItem>& items, const StoreOptions& options) {
  if (sparse::is_matrix_market(file)) return store_matrix(file, items, options);
  if (!options.append && !options.region) return store_items(file, items, options);
  if (change_items(file, items, options)) return;
  StoreOptions first = options;
  first.unlimited.push_back(*options.append);
  for (const auto& [item, fill_value] : items)
    if (item.array.ndim() == 0) throw local::InvalidArgument("append: an array without axes cannot be appended to");
  store_items(file, items, first);
}

}  // namespace

void store(const std::string& file, const std::vector<StoreItem>& items, const StoreOptions& options) {
  std::vector<ma::FilledItem> all;
  for (const StoreItem& item : items) all.push_back({item});
  store_as(file, all, options);
}
void ma::store(const std::string& file, const std::vector<FilledItem>& items, const StoreOptions& options) {
  store_as(file, items, options);
}

void detail::store_outputs(const std::string& file, const std::vector<OutputItem>& items, const GroupAttributes& groups,
                           const StoreOptions& options) {
  std::vector<ma::FilledItem> filled;
  for (const OutputItem& item : items) filled.push_back(item.filled);
  if (sparse::is_matrix_market(file)) return store_matrix(file, filled, {.overwrite = options.overwrite});
  store_items(file, filled, options, items, groups);
}

void to_hdf5(const std::string& file, const std::string& object, const Array& array, const StoreOptions& options) {
  store(file, {{object, array}}, options);
}
void Array::to_hdf5(const std::string& file, const std::string& object) const { quarry::to_hdf5(file, object, *this); }

}  // namespace quarry
