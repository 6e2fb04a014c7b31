#include "quarry/chunked/api/sparse_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <map>
#include <sstream>

#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/algo/sparse.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/outputs.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/chunked/runtime/together.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/byte_file.h"
#include "quarry/io/dataset.h"
#include "quarry/io/shared_file.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/memory/policy.h"
#include "quarry/local/sparse/matrix_market.h"

namespace quarry::sparse {

using namespace compose;

namespace {

using local::IoError;

// What rank 0 finds out, on every rank. Throws on all where it throws.
template <class F>
std::string found_on_rank_0(const char* function, const std::string& what, const F& find) {
  comm::Communicator& communicator = Runtime::current().communicator();
  std::string found;
  comm::on_rank_0(communicator, {function, std::hash<std::string>()(what), [what] { return what; }},
                  [&] { found = find(); });
  return communicator.broadcast_string(found, 0);
}

std::optional<std::vector<double>> numbers_of(const std::map<std::string, io::Attribute>& attributes,
                                              const std::string& name) {
  const auto at = attributes.find(name);
  if (at == attributes.end()) return {};
  const auto* numbers = std::get_if<std::vector<double>>(&at->second);
  return numbers != nullptr ? std::optional(*numbers) : std::nullopt;
}

std::string text_of(const std::map<std::string, io::Attribute>& attributes, const std::string& name) {
  const auto at = attributes.find(name);
  if (at == attributes.end()) return {};
  const auto* text = std::get_if<std::string>(&at->second);
  return text != nullptr ? *text : std::string();
}

}  // namespace

bool is_matrix_market(const std::string& file) { return file.ends_with(".mtx"); }

namespace {

// "/" or "/a/b", without a slash at the end.
std::string group_path(const std::string& group) {
  return group.ends_with('/') && group.size() > 1 ? group.substr(0, group.size() - 1) : group;
}
std::string child_of(const std::string& group, const char* name) {
  const std::string path = group_path(group);
  return (path == "/" ? "" : path) + "/" + name;
}

// A few integers.
std::vector<int64_t> values_of(const io::Dataset& dataset) {
  const io::DatasetInfo& info = dataset.info();
  if (info.shape != Dims{2} || !local::is_integer(info.dtype)) return {};
  const local::Region region = local::Region::whole(info.shape);
  const int64_t size = local::itemsize(info.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(2 * size)), scratch;
  scratch.resize(static_cast<size_t>(dataset.read_scratch_bytes(region)));
  dataset.read(region, bytes.data(), scratch);
  if (info.swapped) {
    std::reverse(bytes.begin(), bytes.begin() + size);
    std::reverse(bytes.begin() + size, bytes.end());
  }
  return {Scalar::load(info.dtype, bytes.data()).as_int64(), Scalar::load(info.dtype, bytes.data() + size).as_int64()};
}

}  // namespace

std::optional<GroupInfo> group_info(const std::string& file, const std::string& group,
                                    std::span<const io::ObjectInfo> objects) {
  const std::string path = group_path(group);
  std::map<std::string, io::Attribute> attributes;
  for (const io::ObjectInfo& object : objects)
    if (object.path == path) attributes = object.attributes;
  const auto part = [&](const char* name) -> const io::DatasetInfo* {
    const std::string wanted = child_of(group, name);
    for (const io::ObjectInfo& object : objects)
      if (object.path == wanted && object.dataset && object.dataset->shape.size() == 1) return &*object.dataset;
    return nullptr;
  };
  const io::DatasetInfo *data = part("data"), *indptr = part("indptr");
  if (data == nullptr || indptr == nullptr || part("indices") == nullptr) return std::nullopt;
  GroupInfo info;
  info.major = indptr->shape[0] - 1;
  info.nnz = data->shape[0];
  info.dtype = data->dtype;
  info.format = text_of(attributes, "encoding-type");
  if (info.format.empty()) info.format = text_of(attributes, "h5sparse_format");
  std::optional<std::vector<double>> shape = numbers_of(attributes, "shape");
  if (!shape) shape = numbers_of(attributes, "h5sparse_shape");
  // Files of 10x, whose matrices are compressed by columns and have no attributes.
  if (info.format.empty()) info.format = part("shape") != nullptr && !shape ? "csc" : "csr";
  if (info.format != "csr" && info.format != "csr_matrix" && info.format != "csc" && info.format != "csc_matrix")
    throw local::InvalidArgument(
        fmt::format("'{}' in '{}' has the format '{}', not csr or csc", group, file, info.format));
  info.format.resize(3);
  if (shape && shape->size() == 2) {
    info.shape = Dims{static_cast<int64_t>((*shape)[0]), static_cast<int64_t>((*shape)[1])};
  } else if (part("shape") != nullptr) {
    const std::vector<int64_t> extents = values_of(*io::Dataset::open(file, child_of(group, "shape")));
    if (extents.size() == 2) info.shape = Dims{extents[0], extents[1]};
  }
  return info;
}

bool holds_matrix(const std::string& file, const std::string& group) {
  const std::string found = found_on_rank_0("sparse::holds_matrix", file + ":" + group, [&]() -> std::string {
    std::vector<io::ObjectInfo> objects;
    try {
      objects = io::list_objects(file, group_path(group));
    } catch (const local::InvalidArgument&) {  // who opens it says so
      return "";
    }
    return group_info(file, group, objects) ? "it does" : "";
  });
  return !found.empty();
}

SparseArray open_hdf5(const std::string& file, const std::string& group, const SparseOptions& options) {
  // "csr 30 20": the format, and the shape where the file has it.
  const std::string found = found_on_rank_0("sparse::open_hdf5", file + ":" + group, [&] {
    const std::optional<GroupInfo> info = group_info(file, group, io::list_objects(file, group_path(group)));
    if (!info)
      throw local::InvalidArgument(
          fmt::format("'{}' in '{}' is no group: a sparse matrix is one with data, indices and indptr", group, file));
    return info->shape ? fmt::format("{} {} {}", info->format, (*info->shape)[0], (*info->shape)[1]) : info->format;
  });
  std::istringstream in(found);
  std::string format;
  Dims shape{0, 0};
  in >> format;
  std::optional<Dims> given;
  if (in >> shape[0] >> shape[1]) given = shape;
  const Array data = quarry::open_hdf5(file, child_of(group, "data"));
  const Array indices = quarry::open_hdf5(file, child_of(group, "indices"));
  const Array indptr = quarry::open_hdf5(file, child_of(group, "indptr"));
  return format == "csr" ? csr_array(data, indices, indptr, given, options)
                         : csc_array(data, indices, indptr, given, options);
}

std::vector<StoreItem> group_items(const std::string& group, const SparseArray& a) {
  return {{child_of(group, "data"), a.data()},
          {child_of(group, "indices"), a.indices()},
          {child_of(group, "indptr"), a.indptr()}};
}

std::map<std::string, io::Attribute> group_attributes(const SparseArray& a) {
  return {{"encoding-type", "csr_matrix"},
          {"encoding-version", "0.1.0"},
          {"shape", std::vector<int64_t>{a.shape()[0], a.shape()[1]}}};
}

void to_hdf5(const std::string& file, const std::string& group, const SparseArray& a, const StoreOptions& options) {
  std::vector<detail::OutputItem> items;
  for (StoreItem& item : group_items(group, a)) items.push_back({.filled = {std::move(item)}});
  for (detail::OutputItem& item : items) item.chunks = options.chunks, item.filters = options.filters;
  detail::store_outputs(file, items, {{group_path(group), group_attributes(a)}}, options);
}

// ---- Matrix Market ----

namespace {

// A file in pieces of bytes: a line belongs to the piece that it begins in.
struct TextPieces {
  std::string file;
  local::sparse::MatrixMarketInfo info;
  int64_t end = 0, piece_bytes = 1;

  int64_t count() const { return std::max<int64_t>((end - info.begin + piece_bytes - 1) / piece_bytes, 1); }
  std::string read(int64_t from, int64_t to) const {
    std::string text(static_cast<size_t>(to - from), '\0');
    io::ByteFile::shared(file)->read_at(from, std::as_writable_bytes(std::span(text)));
    return text;
  }
  std::string piece(int64_t number) const {
    constexpr int64_t kLine = 256;  // bytes that are read for the end of a line
    const int64_t from = info.begin + number * piece_bytes, to = std::min(from + piece_bytes, end);
    // With the byte before it, which ends a line or does not.
    std::string text = read(std::max(from - 1, info.begin), to);
    for (int64_t at = to; at < end && !text.empty() && text.back() != '\n'; at += kLine) {
      const std::string more = read(at, std::min(at + kLine, end));
      const size_t line = more.find('\n');
      text += more.substr(0, line == std::string::npos ? line : line + 1);
    }
    if (number == 0) return text;
    const size_t first = text.find('\n');
    return first == std::string::npos ? std::string() : text.substr(first + 1);
  }
};

constexpr int64_t kPieceBytes = 4 << 20;

void check_entries(const TextPieces& pieces, int64_t found) {
  if (found == pieces.info.entries) return;
  throw IoError(fmt::format("{}:{}: the header tells of {} entries, and {} follow", pieces.file,
                            pieces.info.header_lines, pieces.info.entries, found));
}

local::sparse::MatrixMarketInfo info_on_rank_0(const std::string& file, int64_t& end) {
  const std::string found = found_on_rank_0("sparse::mmread", file, [&] {
    const local::sparse::MatrixMarketInfo info = local::sparse::mminfo(file);
    return fmt::format("{} {} {} {} {} {} {} {} {}", info.rows, info.columns, info.entries, info.format, info.field,
                       info.symmetry, info.begin, info.header_lines,
                       io::ByteFile(file, io::ByteFile::Mode::read).size());
  });
  std::istringstream in(found);
  local::sparse::MatrixMarketInfo info;
  in >> info.rows >> info.columns >> info.entries >> info.format >> info.field >> info.symmetry >> info.begin >>
      info.header_lines >> end;
  return info;
}

// A task of a piece, which has a chunk of `outputs`.
algo::MapSpec map_of(const char* name, const TextPieces& pieces, std::vector<int64_t> which,
                     std::vector<op::ArraySpec> outputs, int64_t most_elements) {
  constexpr int64_t kElementBytes = 3 * sizeof(int64_t) + sizeof(double);  // a complex value and its place
  algo::MapSpec spec;
  spec.name = name;
  spec.identity = op::Hash().add(std::string_view(pieces.file)).add(pieces.end).add(pieces.piece_bytes).value;
  algo::Along along = algo::Along::following(0, AxisChunks(pieces.count(), 1));
  along.chunks = std::move(which);
  spec.along = {{std::move(along)}};
  spec.outputs = std::move(outputs);
  // The text, once more while it is cut, and elements as they come, for twice as many, and as arrays.
  spec.scratch_bytes = 3 * pieces.piece_bytes + 3 * kElementBytes * most_elements + (1 << 16);
  return spec;
}

}  // namespace

bool is_dense_matrix_market(const std::string& file) {
  int64_t end = 0;
  return info_on_rank_0(file, end).format == "array";
}

Array mmread_dense(const std::string& file) {
  const local::DeviceScope host(local::kCpu);
  return Array::from_local(std::get<NdArray>(local::sparse::mmread(file)));
}

SparseArray mmread(const std::string& file, const SparseOptions& options) {
  TextPieces pieces;
  pieces.file = file;
  pieces.info = info_on_rank_0(file, pieces.end);
  if (pieces.info.format == "array") return csr_array(mmread_dense(file));
  pieces.piece_bytes = std::clamp<int64_t>(pieces.end - pieces.info.begin, 1,
                                           chunk_policy().target_bytes > 0 ? chunk_policy().target_bytes : kPieceBytes);
  // The numbers of lines say how large the arrays are, and which lines a piece has.
  const Array numbers = positions(pieces.count()).rechunk(Grid({AxisChunks(pieces.count(), 1)}));
  const Grid of_counts({AxisChunks(pieces.count(), 1), AxisChunks(3, 3)});
  algo::MapSpec counting =
      map_of("Matrix Market, counts", pieces, {}, {{of_counts.shape(), DType::int64, of_counts, true}}, 0);
  counting.function = [pieces](std::span<const NdArray>, const ChunkPlace& place) {
    const auto counts = local::sparse::mmcount(pieces.piece(place.chunk), pieces.info);
    return std::vector<NdArray>{
        local::from_vector<int64_t>({counts.lines, counts.entries, counts.elements}, Dims{1, 3})};
  };
  const std::vector<int64_t> counts = settled(Array(algo::map(std::move(counting), {numbers.node()})[0]));
  int64_t line = pieces.info.header_lines + 1, entries = 0;
  std::vector<int64_t> which, extents, first_lines;
  for (size_t i = 0; i < counts.size(); i += 3) {
    if (counts[i + 2] > 0) {
      which.push_back(static_cast<int64_t>(i / 3));
      extents.push_back(counts[i + 2]);
      first_lines.push_back(line);
    }
    line += counts[i];
    entries += counts[i + 1];
  }
  check_entries(pieces, entries);
  const DType dtype = pieces.info.dtype();
  const Dims shape{pieces.info.rows, pieces.info.columns};
  if (which.empty())
    return quarry::sparse::csr_array(local::sparse::SparseArray(local::sparse::Format::csr, shape, dtype), options);
  const Grid grid({AxisChunks(extents)});
  const auto of = [&](DType type) { return op::ArraySpec{grid.shape(), type, grid, true}; };
  algo::MapSpec reading = map_of("Matrix Market", pieces, which, {of(dtype), of(DType::int64), of(DType::int64)},
                                 *std::ranges::max_element(extents));
  reading.function = [pieces, which, first_lines](std::span<const NdArray>, const ChunkPlace& place) {
    const auto k = static_cast<size_t>(place.chunk);
    const local::Device device = local::current_context().device;
    const local::DeviceScope host(local::kCpu);
    const auto found = local::sparse::mmread_lines(pieces.piece(which[k]), pieces.info, pieces.file, first_lines[k]);
    return std::vector<NdArray>{found.data.to(device), found.row.to(device), found.col.to(device)};
  };
  std::vector<Array> made;
  for (const expr::NodePtr& node : algo::map(std::move(reading), {numbers.node()})) made.emplace_back(node);
  made = persist(made);  // what puts elements in order reads them several times
  return coo_array(made[0], made[1], made[2], shape, options);
}

int64_t verify_matrix_market(const std::string& file) {
  TextPieces pieces;
  pieces.file = file;
  pieces.info = local::sparse::mminfo(file);
  pieces.end = io::ByteFile(file, io::ByteFile::Mode::read).size();
  pieces.piece_bytes = kPieceBytes;
  const local::DeviceScope host(local::kCpu);
  if (pieces.info.format == "array") {
    local::sparse::mmread(file);
    return pieces.end;
  }
  int64_t line = pieces.info.header_lines + 1, entries = 0;
  for (int64_t number = 0; number < pieces.count(); ++number) {
    const std::string text = pieces.piece(number);
    const local::sparse::MatrixMarketCounts counts = local::sparse::mmcount(text, pieces.info);
    local::sparse::mmread_lines(text, pieces.info, file, line);
    line += counts.lines;
    entries += counts.entries;
  }
  check_entries(pieces, entries);
  return pieces.end;
}

// ---- Writing Matrix Market ----
//
// The text is an array of bytes whose chunks are parts of the lines: how long they are is settled first, and then every
// rank writes its own to their places.

namespace {

constexpr int64_t kLinesBytes = 1 << 20;  // of a part
constexpr int64_t kTaskLines = 6;

struct Lines {
  std::string head;
  std::vector<Array> of;  // of one axis and extent: element i of each makes line i
  std::function<std::string(std::span<const NdArray>)> text;
};

// A task of each part of the lines, which has a chunk of the output.
Array map_lines(const char* name, const Lines& lines, const AxisChunks& parts, op::ArraySpec output,
                std::function<NdArray(const std::string& text)> result) {
  algo::MapSpec spec;
  spec.name = name;
  spec.identity = op::Hash().add(parts.hash()).value;
  std::vector<expr::NodePtr> arguments;
  int64_t element_bytes = 0;
  for (const Array& each : lines.of) {
    spec.along.push_back({algo::Along::following(0, parts)});
    arguments.push_back(each.node());
    element_bytes += local::itemsize(each.dtype());
  }
  spec.outputs = {std::move(output)};
  // Elements once more on the host; the text as it grows, twice; as bytes; and as an array.
  spec.scratch_bytes = parts.largest() * (2 * element_bytes + 5 * local::sparse::kLongestMatrixMarketLine) + (1 << 16);
  spec.function = [text = lines.text, result = std::move(result)](std::span<const NdArray> pieces, const ChunkPlace&) {
    const local::Device device = local::current_context().device;
    const local::DeviceScope host(local::kCpu);
    return std::vector<NdArray>{result(text(pieces)).to(device)};
  };
  return Array(algo::map(std::move(spec), std::move(arguments))[0]);
}

// Before anything is computed.
void check_to_write(const std::string& file, const StoreOptions& options) {
  const auto reject = [&](bool is_given, const char* what) {
    if (is_given) throw local::NotSupported(fmt::format("'{}' is Matrix Market, which has no {}", file, what));
  };
  reject(!options.filters.empty(), "filters");
  reject(options.resume, "runs that can be resumed: that is for HDF5");
  reject(!options.unlimited.empty() || options.append, "axes that can grow: that is for HDF5");
  reject(options.region.has_value(), "regions that are written: that is for HDF5");
  reject(!options.dims.empty(), "names of axes: that is for HDF5");
  found_on_rank_0("sparse::mmwrite", file, [&]() -> std::string {
    if (std::error_code none; !options.overwrite && std::filesystem::exists(file, none))
      throw local::InvalidArgument(fmt::format("'{}' exists; it is replaced only with overwrite", file));
    return "";
  });
}

void write_lines(const std::string& file, const Lines& lines) {
  Runtime& runtime = Runtime::current();
  comm::Communicator& communicator = runtime.communicator();
  // What a task takes is kTaskLines times its lines at most.
  const int64_t room = runtime.plan_bytes() / (local::memory_policy::kTasksInBudget * kTaskLines);
  const int64_t target = chunk_policy().target_bytes > 0 ? chunk_policy().target_bytes : std::min(kLinesBytes, room);
  const AxisChunks parts(lines.of[0].size(), std::max<int64_t>(target / local::sparse::kLongestMatrixMarketLine, 1));
  std::vector<int64_t> lengths;
  if (parts.extent() > 0) {
    const Grid grid({AxisChunks(parts.count(), 1)});
    lengths =
        settled(map_lines("Matrix Market, lengths", lines, parts, {grid.shape(), DType::int64, grid, true},
                          [](const std::string& text) { return local::from_vector<int64_t>({std::ssize(text)}); }));
  }
  const Grid grid({AxisChunks(lengths)});
  const auto head = std::ssize(lines.head), bytes = grid.shape()[0];
  exec::Nodes nodes;
  plan::Plan plan;
  if (bytes > 0) {
    nodes = {map_lines("Matrix Market, lines", lines, parts, {grid.shape(), DType::uint8, grid, true},
                       [](const std::string& text) {
                         return local::from_vector(std::vector<uint8_t>(text.begin(), text.end()));
                       })
                 .node()};
    exec::end_if_planned(nodes, /*write=*/true);
    plan = exec::make_plan(nodes);
  }
  std::optional<io::SharedFile> place;
  const std::string path = found_on_rank_0("sparse::mmwrite", file, [&] {
    place.emplace(file, static_cast<double>(head + bytes));
    io::ByteFile(place->path(), io::ByteFile::Mode::write).write_at(0, std::as_bytes(std::span(lines.head)));
    return place->path();
  });
  const comm::Call call{"sparse::mmwrite", std::hash<std::string>()(file), [&] { return file; }};
  std::optional<io::ByteFile> made;
  std::atomic<int64_t> written{0};
  together(communicator, call, [&] { made.emplace(path, io::ByteFile::Mode::write); });
  if (bytes > 0) {
    exec::Sink sink{exec::Sink::Kind::write, plan.results[0]};
    sink.write = [&](const Region& box, const void* data, std::span<std::byte> /*scratch*/) {
      made->write_at(head + box.start[0], {static_cast<const std::byte*>(data), static_cast<size_t>(box.elements())});
      written += box.elements();
    };
    exec::execute(nodes, plan, {std::move(sink)}, call.name);
  }
  // Every rank's text is in place, and on the device, before the file gets its name.
  together(communicator, call, [&] {
    if (communicator.node_of(runtime.rank()) != communicator.node_of(/*rank=*/0)) made->sync();
  });
  together(communicator, call, [&] {
    if (place) place->commit();
  });
  runtime.internals().written_bytes += written + (runtime.rank() == 0 ? head : 0);
}

}  // namespace

void mmwrite(const std::string& file, const SparseArray& a, const StoreOptions& options) {
  check_to_write(file, options);
  const SparseArray sorted = a.sum_duplicates();
  Lines lines{local::sparse::mmwrite_head(a.dtype(), a.shape(), sorted.nnz()), {}, {}};
  for (const expr::NodePtr& node : algo::sparse_coordinates(sorted.nodes(), sorted.structure()))
    lines.of.emplace_back(node);
  lines.text = [](std::span<const NdArray> parts) {
    return local::sparse::mmwrite_lines({parts[0], parts[1], parts[2]});
  };
  write_lines(file, lines);
}

void mmwrite(const std::string& file, const Array& a, const StoreOptions& options) {
  if (a.ndim() < 1 || a.ndim() > 2)
    throw local::InvalidArgument(
        fmt::format("'{}' is Matrix Market, which holds matrices and vectors, not an array of shape {}", file,
                    local::to_string(a.shape())));
  if (local::is_half(a.dtype()))
    throw local::TypeError(
        fmt::format("'{}' is Matrix Market, which has no {}: write astype(float32)", file, local::name(a.dtype())));
  check_to_write(file, options);
  const Array kept = a.persist();  // it is read twice
  Lines lines{local::sparse::mmwrite_head(a.dtype(), {a.shape(0), a.ndim() == 2 ? a.shape(1) : 1}, {}),
              {a.ndim() == 2 ? ravel(kept.T()) : kept},
              [](std::span<const NdArray> parts) { return local::sparse::mmwrite_lines(parts[0]); }};
  write_lines(file, lines);
}

}  // namespace quarry::sparse
