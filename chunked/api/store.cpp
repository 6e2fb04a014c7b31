#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/ma.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/api/outputs.h"
#include "quarry/chunked/exec/encoded_chunks.h"
#include "quarry/chunked/exec/saved_output.h"
#include "quarry/chunked/runtime/host_value.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/format.h"
#include "quarry/io/saved_job.h"
#include "quarry/local/memory/policy.h"

namespace quarry {
namespace {

using exec::offset_of;
using exec::Sink;

constexpr int64_t kFilteredChunkBytes = 1 << 20;  // of a file's chunks that nobody specified

// Writes the file chunks inside a chunk of the computation through the filters.
void write_filtered(const io::Writer& writer, const Region& box, const void* data, std::span<std::byte> scratch,
                    const std::function<void(const Dims&, std::span<const std::byte>)>& put) {
  const Dims& file_chunk = *writer.spec().chunks;
  const Dims strides = local::contiguous_strides(box.count, local::itemsize(writer.spec().dtype));
  Dims first = Dims::filled(box.ndim());
  for (int d = 0; d < box.ndim(); ++d) {
    QUARRY_CHECK(box.start[d] % file_chunk[d] == 0);
    first[d] = box.start[d] / file_chunk[d];
  }
  const Grid inside = Grid::regular(box.count, file_chunk);
  for (int64_t i = 0; i < inside.count(); ++i) {
    const Region part = inside.chunk(i);
    if (part.elements() == 0) continue;
    Dims coordinates = inside.coordinates(i);
    for (int d = 0; d < coordinates.size(); ++d) coordinates[d] += first[d];
    const auto* from = static_cast<const std::byte*>(data) + offset_of(part.start, strides);
    put(coordinates, writer.encode(coordinates, from, strides, part.count, scratch));
  }
}

// Chunks of the computation that hold whole file chunks, and which the planner does not cut: where nobody chose them,
// as many as leave room for others in the budget.
Array aligned(const Array& array, const Dims& file_chunks) {
  const Dims largest = array.chunks().largest();
  Dims times = largest, chunk = largest;  // how many of the file's
  for (int d = 0; d < chunk.size(); ++d) times[d] = std::max<int64_t>(1, largest[d] / file_chunks[d]);
  const int64_t room = Runtime::current().plan_bytes() / local::memory_policy::kTasksInBudget;
  const auto bytes = [&] {
    return local::element_count(times) * local::element_count(file_chunks) * local::itemsize(array.dtype());
  };
  while (!array.node()->chosen_grid && bytes() > room) {
    int64_t& most = *std::ranges::max_element(times);
    if (most == 1) break;
    most = (most + 1) / 2;
  }
  for (int d = 0; d < chunk.size(); ++d) {
    chunk[d] = std::min(times[d] * file_chunks[d], std::max<int64_t>(1, array.shape(d) + file_chunks[d] - 1));
  }
  return array.rechunk(Grid::regular(array.shape(), chunk));
}

// What rank 0, which sees what is there, says that the file is written as.
const io::Format& format_on_rank_0(const std::string& file, comm::Communicator& communicator) {
  std::string name;
  std::exception_ptr error;
  if (communicator.rank() == 0) {
    try {
      name = io::format_to_write(file).name();
    } catch (...) {
      error = std::current_exception();
    }
  }
  comm::agree(communicator, error, {"store", std::hash<std::string>()(file)});
  name = communicator.broadcast_string(name, 0);
  const std::vector<const io::Format*> formats = io::formats();
  const auto found = std::ranges::find(formats, name, &io::Format::name);
  QUARRY_CHECK(found != formats.end());
  return **found;
}

// What must be the same for one run to go on with the output of another: whatever the bits of the result depend on.
io::JobDescription description_of(const std::vector<io::OutputSpec>& specs, const std::vector<Array>& arrays,
                                  const plan::Plan& plan) {
  io::JobDescription all;
  std::set<std::pair<std::string, std::string>> inputs;
  for (const plan::Stage& stage : plan.stages)
    for (const plan::Input* input : stage.reads())
      if (input->array.dataset) inputs.emplace(input->array.dataset->info().file, input->array.dataset->info().object);
  for (const auto& [file, object] : inputs) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file, error);
    const auto changed = std::filesystem::last_write_time(file, error).time_since_epoch().count();
    all.emplace_back("input " + file + ":" + object, fmt::format("{} bytes changed at {}", bytes, changed));
  }
  all.emplace_back("the kind of device", local::name(Runtime::current().device().kind));
  for (size_t i = 0; i < specs.size(); ++i) {
    const io::OutputSpec& spec = specs[i];
    const std::string of = " of " + spec.object;
    all.emplace_back("the shape" + of, local::to_string(spec.shape));
    all.emplace_back("the dtype" + of, local::name(spec.dtype));
    all.emplace_back("the chunks in the file" + of, spec.chunks ? local::to_string(*spec.chunks) : "none");
    all.emplace_back("the filter" + of, spec.filters.empty() ? "none" : io::to_string(spec.filters));
    all.emplace_back("the chunks" + of, arrays[i].chunks().to_string());
    all.emplace_back("the expression" + of, fmt::format("{:016x}", arrays[i].node()->hash));
  }
  // Results inside the plan have chunks too, which may depend on the budget.
  uint64_t chunks = 0;
  for (const plan::Stage& stage : plan.stages) chunks = (chunks ^ stage.grid.hash()) * 0x9e3779b97f4a7c15u + 1;
  all.emplace_back("the plan (of other chunks or another memory budget)", fmt::format("{:016x}", chunks));
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

// `own` is empty, or has what belongs to each item.
void store_items(const std::string& file, const std::vector<ma::FilledItem>& items, const StoreOptions& options,
                 const std::vector<detail::OutputItem>& own = {}, const detail::GroupAttributes& groups = {}) {
  Runtime& runtime = Runtime::current();
  comm::Communicator& communicator = runtime.communicator();
  const bool creator = runtime.rank() == 0;
  const io::Format& format = format_on_rank_0(file, communicator);
  bool resumed = false;

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
      if (!spec.filters.empty() && !spec.chunks)
        spec.chunks = io::usual_chunks(spec.shape, spec.dtype, kFilteredChunkBytes);
    }
    spec.version = options.version;
    format.prepare(spec);
    // Where chunks are files, each is made by one rank.
    const bool whole = spec.chunks && (!spec.filters.empty() || format.has_chunk_files());
    arrays.push_back(whole ? aligned(item.array, *spec.chunks) : item.array);
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
  std::unique_ptr<io::OutputFile> output;
  std::vector<std::string> layouts(items.size());
  std::exception_ptr error;
  std::vector<std::shared_ptr<io::Writer>> writers;
  if (creator) {
    try {
      const auto saved = options.resume ? io::find_saved_job(file) : std::nullopt;
      const io::JobDescription description = description_of(specs, arrays, plan);
      if (saved) {
        io::check_same_job(file, saved->description, description);
        output = format.resume(file, saved->kept);
        resumed = true;
      } else {
        output = format.create(file, with_groups(specs, groups, format), options.overwrite);
        if (options.resume) io::save_job(file, {description, output->keep()});
      }
      for (size_t i = 0; i < items.size(); ++i) {
        writers.push_back(output->writer(i));
        layouts[i] = writers.back()->serialize();
      }
    } catch (...) {
      error = std::current_exception();
    }
  }
  comm::agree(communicator, error, call);
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string layout = communicator.broadcast_string(layouts[i], 0);
    if (!creator) writers.push_back(io::Writer::deserialize(layout));
  }

  std::optional<exec::SavedOutput> saved;
  exec::EncodedChunks::Note note;
  if (options.resume) {
    std::vector<exec::SavedOutput::Item> saved_items;
    for (size_t i = 0; i < items.size(); ++i) saved_items.push_back({writers[i], arrays[i].chunks()});
    saved.emplace(communicator, file, std::move(saved_items), output.get(), resumed);
    note = [&](size_t item, const io::PlacedChunk& placed, std::span<const std::byte> bytes) {
      saved->note(item, placed, bytes);
    };
  }
  exec::EncodedChunks encoded(communicator, output.get(), file, writers, note);
  std::vector<Sink> sinks;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::shared_ptr<io::Writer>& writer = writers[i];
    Sink sink{Sink::Kind::write, plan.results[i]};
    if (saved) sink.done = saved->done(i);
    if (specs[i].filters.empty()) {
      sink.write = [&, i, writer](const Region& box, const void* data, std::span<std::byte> /*scratch*/) {
        if (box.elements() == 0) return;
        writer->write(box, data);
        const auto bytes = static_cast<size_t>(box.elements() * local::itemsize(writer->spec().dtype));
        if (saved) saved->note(i, box, {static_cast<const std::byte*>(data), bytes});
      };
    } else {
      sink.whole = true;
      sink.scratch_bytes = writer->encode_scratch_bytes();
      sink.write = [&, i, writer](const Region& box, const void* data, std::span<std::byte> scratch) {
        write_filtered(*writer, box, data, scratch,
                       [&](const Dims& chunk, std::span<const std::byte> bytes) { encoded.put(i, chunk, bytes); });
      };
    }
    sinks.push_back(std::move(sink));
  }
  exec::execute(nodes_of(arrays), plan, sinks, call.name);

  // Every rank's data is in place before the creating rank commits; its failure is everyone's.
  try {
    encoded.flush();
    if (saved) saved->flush();
    // commit() sends what this node wrote to the device.
    if (communicator.node_of(runtime.rank()) != communicator.node_of(/*rank=*/0))
      for (const auto& writer : writers) writer->sync();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, call);
  try {
    encoded.hand_over();
    if (creator) output->commit();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, call);
  if (saved) saved->complete();
  for (const auto& writer : writers) runtime.internals().written_bytes += writer->bytes_written();
}

}  // namespace

void store(const std::string& file, const std::vector<StoreItem>& items, const StoreOptions& options) {
  std::vector<ma::FilledItem> all;
  for (const StoreItem& item : items) all.push_back({item});
  store_items(file, all, options);
}
void ma::store(const std::string& file, const std::vector<FilledItem>& items, const StoreOptions& options) {
  store_items(file, items, options);
}

void detail::store_outputs(const std::string& file, const std::vector<OutputItem>& items, const GroupAttributes& groups,
                           const StoreOptions& options) {
  std::vector<ma::FilledItem> filled;
  for (const OutputItem& item : items) filled.push_back(item.filled);
  store_items(file, filled, options, items, groups);
}

void to_hdf5(const std::string& file, const std::string& object, const Array& array, const StoreOptions& options) {
  store(file, {{object, array}}, options);
}
void Array::to_hdf5(const std::string& file, const std::string& object) const { quarry::to_hdf5(file, object, *this); }

}  // namespace quarry
