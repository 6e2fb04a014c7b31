#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/ma.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/runtime/host_value.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/byte_file.h"
#include "quarry/io/format.h"
#include "quarry/io/partial.h"
#include "quarry/local/memory/policy.h"

namespace quarry {
namespace {

using exec::offset_of;
using exec::Sink;

// Chunks of a file that nobody specified: about a mebibyte, halving the longest axis.
Dims default_file_chunks(const Dims& shape, local::DType dtype) {
  constexpr int64_t kBytes = 1 << 20;
  Dims chunks = shape;
  for (int64_t& extent : chunks) extent = std::max<int64_t>(extent, 1);
  while (local::element_count(chunks) * local::itemsize(dtype) > kBytes) {
    int64_t& longest = *std::max_element(chunks.begin(), chunks.end());
    longest = (longest + 1) / 2;
  }
  return chunks;
}

// Encoded chunks of this rank, kept in a file beside the output until the creating rank registers them.
class Spool {
 public:
  explicit Spool(std::string path) : partial_(std::move(path)) {}
  ~Spool() {
    if (file_) std::fclose(file_);
  }
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  void append(const Dims& chunk, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    if (!file_) file_ = std::fopen(partial_.path().c_str(), "wb");  // over what a killed run left
    std::vector<int64_t> record{static_cast<int64_t>(bytes.size())};
    record.insert(record.end(), chunk.begin(), chunk.end());
    if (!file_ || std::fwrite(record.data(), sizeof(int64_t), record.size(), file_) != record.size() ||
        std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
      throw local::IoError(fmt::format("cannot write '{}': {}", partial_.path(), io::system_reason(errno)));
    }
  }
  void flush() {
    if (file_ && std::fflush(file_) != 0)
      throw local::IoError(fmt::format("cannot write '{}': {}", partial_.path(), io::system_reason(errno)));
  }

 private:
  io::Partial partial_;
  std::mutex mutex_;
  std::FILE* file_ = nullptr;
};

// The creating rank reads another rank's spool.
void register_spool(const std::string& path, int ndim,
                    const std::function<void(const Dims&, std::span<const std::byte>)>& add) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (!file) return;  // that rank had no chunk
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> closer(file, std::fclose);
  std::vector<int64_t> record(static_cast<size_t>(ndim) + 1);
  std::vector<std::byte> bytes;
  while (std::fread(record.data(), sizeof(int64_t), record.size(), file) == record.size()) {
    bytes.resize(static_cast<size_t>(record[0]));
    if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size())
      throw local::IoError(fmt::format("'{}' is incomplete", path));
    add(Dims(record.begin() + 1, record.end()), bytes);
  }
}

std::string spool_path(const std::string& file, size_t item, int rank) {
  return fmt::format("{}.partial.{}.{}", file, item, rank);
}

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

void store_items(const std::string& file, const std::vector<ma::FilledItem>& items, const StoreOptions& options) {
  Runtime& runtime = Runtime::current();
  comm::Communicator& communicator = runtime.communicator();
  const bool creator = runtime.rank() == 0;
  const io::Format& format = format_on_rank_0(file, communicator);

  std::vector<io::OutputSpec> specs;
  std::vector<Array> arrays;
  for (const auto& [item, fill_value] : items) {
    io::OutputSpec spec{item.path, item.array.shape(), item.array.dtype(), {}, {}, {}};
    spec.fill_value = fill_value;
    if (item.array.ndim() > 0) {
      if (options.chunks && options.chunks->size() == item.array.ndim()) spec.chunks = options.chunks;
      spec.filters = options.filters;
      if (!spec.filters.empty() && !spec.chunks) spec.chunks = default_file_chunks(spec.shape, spec.dtype);
    }
    format.prepare(spec);
    arrays.push_back(spec.filters.empty() ? item.array : aligned(item.array, *spec.chunks));
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
      output = format.create(file, specs, options.overwrite);
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

  std::vector<std::unique_ptr<Spool>> spools;
  std::mutex registering;
  std::vector<Sink> sinks;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::shared_ptr<io::Writer>& writer = writers[i];
    spools.push_back(std::make_unique<Spool>(spool_path(file, i, runtime.rank())));
    Spool* const spool = spools.back().get();
    Sink sink{Sink::Kind::write, plan.results[i]};
    if (specs[i].filters.empty()) {
      sink.write = [writer](const Region& box, const void* data, std::span<std::byte> /*scratch*/) {
        if (box.elements() > 0) writer->write(box, data);
      };
    } else {
      sink.whole = true;
      sink.scratch_bytes = writer->encode_scratch_bytes();
      sink.write = [&, i, writer, spool](const Region& box, const void* data, std::span<std::byte> scratch) {
        write_filtered(*writer, box, data, scratch, [&](const Dims& chunk, std::span<const std::byte> bytes) {
          if (!output) return spool->append(chunk, bytes);
          const std::lock_guard lock(registering);
          output->write_encoded(i, chunk, bytes);
        });
      };
    }
    sinks.push_back(std::move(sink));
  }
  exec::execute(nodes_of(arrays), plan, sinks, call.name);

  // Every rank's data is in place before the creating rank commits; its failure is everyone's.
  try {
    for (const auto& spool : spools) spool->flush();
  } catch (...) {
    error = std::current_exception();
  }
  comm::agree(communicator, error, call);
  if (creator) {
    try {
      for (size_t i = 0; i < items.size(); ++i) {
        if (specs[i].filters.empty()) continue;
        for (int rank = 1; rank < runtime.size(); ++rank) {
          register_spool(
              spool_path(file, i, rank), specs[i].shape.size(),
              [&](const Dims& chunk, std::span<const std::byte> bytes) { output->write_encoded(i, chunk, bytes); });
        }
      }
      output->commit();
    } catch (...) {
      error = std::current_exception();
    }
  }
  comm::agree(communicator, error, call);
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

void to_hdf5(const std::string& file, const std::string& object, const Array& array, const StoreOptions& options) {
  store(file, {{object, array}}, options);
}
void Array::to_hdf5(const std::string& file, const std::string& object) const { quarry::to_hdf5(file, object, *this); }

}  // namespace quarry
