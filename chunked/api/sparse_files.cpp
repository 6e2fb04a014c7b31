#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <sstream>

#include "quarry/chunked/algo/map.h"
#include "quarry/chunked/api/compose.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/sparse.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/byte_file.h"
#include "quarry/io/dataset.h"
#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"
#include "quarry/local/sparse/matrix_market.h"

namespace quarry::sparse {

using namespace compose;

namespace {

using local::IoError;

// What rank 0 finds out, on every rank. Throws on all where it throws.
template <class F>
std::string on_rank_0(const char* function, const std::string& what, const F& find) {
  comm::Communicator& communicator = Runtime::current().communicator();
  std::string found;
  std::exception_ptr error;
  if (communicator.rank() == 0) {
    try {
      found = find();
    } catch (...) {
      error = std::current_exception();
    }
  }
  comm::agree(communicator, error, {function, std::hash<std::string>()(what), [what] { return what; }});
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

SparseArray open_hdf5(const std::string& file, const std::string& group, const SparseOptions& options) {
  const std::string path = group.ends_with('/') && group.size() > 1 ? group.substr(0, group.size() - 1) : group;
  const auto child = [&](const char* name) { return (path == "/" ? "" : path) + "/" + name; };
  // "csr 30 20": the format, and the shape where attributes have it.
  const std::string found = on_rank_0("sparse::open_hdf5", file + ":" + group, [&] {
    bool has_shape = false;
    std::map<std::string, io::Attribute> attributes;
    bool is_group = false;
    for (const io::ObjectInfo& object : io::list_objects(file, path)) {
      has_shape = has_shape || object.path == child("shape");
      if (object.path != path) continue;
      attributes = object.attributes;
      is_group = object.is_group;
    }
    if (!is_group)
      throw local::InvalidArgument(
          fmt::format("'{}' in '{}' is no group: a sparse matrix is one with data, indices and indptr", group, file));
    std::string format = text_of(attributes, "encoding-type");
    if (format.empty()) format = text_of(attributes, "h5sparse_format");
    std::optional<std::vector<double>> shape = numbers_of(attributes, "shape");
    if (!shape) shape = numbers_of(attributes, "h5sparse_shape");
    // Files of 10x, whose matrices are compressed by columns and have no attributes.
    if (format.empty()) format = has_shape && !shape ? "csc" : "csr";
    if (format != "csr" && format != "csr_matrix" && format != "csc" && format != "csc_matrix")
      throw local::InvalidArgument(
          fmt::format("'{}' in '{}' has the format '{}', not csr or csc", group, file, format));
    std::string text = format.substr(0, 3);
    if (shape && shape->size() == 2)
      text += fmt::format(" {} {}", static_cast<int64_t>((*shape)[0]), static_cast<int64_t>((*shape)[1]));
    else if (has_shape)
      text += " data set";
    return text;
  });
  std::istringstream in(found);
  std::string format;
  Dims shape{0, 0};
  in >> format;
  std::optional<Dims> given;
  if (in >> shape[0] >> shape[1]) given = shape;
  if (!given && found.ends_with("data set")) {
    const std::vector<int64_t> extents = settled(quarry::open_hdf5(file, child("shape")));
    if (extents.size() == 2) given = Dims{extents[0], extents[1]};
  }
  const Array data = quarry::open_hdf5(file, child("data")), indices = quarry::open_hdf5(file, child("indices"));
  const Array indptr = quarry::open_hdf5(file, child("indptr"));
  return format == "csr" ? csr_array(data, indices, indptr, given, options)
                         : csc_array(data, indices, indptr, given, options);
}

// ---- Matrix Market ----

namespace {

// A file in pieces of bytes: a line belongs to the piece that it begins in.
struct TextPieces {
  std::string file, header;  // its first line
  int64_t rows = 0, columns = 0, entries = 0, begin = 0, end = 0;
  int64_t piece_bytes = 1;
  bool is_array = false;

  int64_t count() const { return std::max<int64_t>((end - begin + piece_bytes - 1) / piece_bytes, 1); }
  std::string read(int64_t from, int64_t to) const {
    std::string text(static_cast<size_t>(to - from), '\0');
    io::ByteFile::shared(file)->read_at(from, std::as_writable_bytes(std::span(text)));
    return text;
  }
  std::string piece(int64_t number) const {
    constexpr int64_t kLine = 256;  // bytes that are read for the end of a line
    const int64_t from = begin + number * piece_bytes, to = std::min(from + piece_bytes, end);
    // With the byte before it, which ends a line or does not.
    std::string text = read(std::max(from - 1, begin), to);
    for (int64_t at = to; at < end && !text.empty() && text.back() != '\n'; at += kLine) {
      const std::string more = read(at, std::min(at + kLine, end));
      const size_t line = more.find('\n');
      text += more.substr(0, line == std::string::npos ? line : line + 1);
    }
    if (number == 0) return text;
    const size_t first = text.find('\n');
    return first == std::string::npos ? std::string() : text.substr(first + 1);
  }
  int64_t lines(const std::string& text) const {
    int64_t lines = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end_of_line = std::min(text.find('\n', at), text.size());
      const size_t word = text.find_first_not_of(" \t\r", at);
      if (word < end_of_line) ++lines;
      at = end_of_line + 1;
    }
    return lines;
  }
  // Both triangles of a symmetric matrix.
  local::sparse::SparseArray elements(int64_t number) const {
    const local::DeviceScope host(local::kCpu);
    const std::string text = piece(number);
    const std::string all = fmt::format("{}\n{} {} {}\n{}", header, rows, columns, lines(text), text);
    const std::string name = fmt::format("{} (lines counted from byte {})", file, begin + number * piece_bytes);
    return std::get<local::sparse::SparseArray>(local::sparse::mmread_text(all, name));
  }
};

constexpr int64_t kPieceBytes = 4 << 20;

TextPieces described(const std::string& file) {
  // Sizes, where the numbers begin and end, and the first line.
  const std::string found = on_rank_0("sparse::mmread", file, [&] {
    const local::sparse::MatrixMarketInfo info = local::sparse::mminfo(file);
    const io::ByteFile bytes(file, io::ByteFile::Mode::read);
    std::string text(static_cast<size_t>(std::min<int64_t>(bytes.size(), 1 << 20)), '\0');
    bytes.read_at(0, std::as_writable_bytes(std::span(text)));
    size_t at = 0;
    const auto line = [&] {
      const size_t end = text.find('\n', at);
      if (end == std::string::npos && bytes.size() > std::ssize(text))
        throw IoError(fmt::format("'{}': the comments are longer than {} bytes", file, text.size()));
      const std::string one = text.substr(at, end == std::string::npos ? end : end - at);
      at = std::min(end, text.size() - 1) + 1;
      return one;
    };
    const std::string header = line();
    for (;;) {
      const std::string sizes = line();
      const size_t word = sizes.find_first_not_of(" \t\r");
      if (word != std::string::npos && sizes[word] != '%') break;
    }
    return fmt::format("{} {} {} {} {} {}\n{}", info.rows, info.columns, info.entries, at, bytes.size(),
                       info.format == "array" ? 1 : 0, header);
  });
  TextPieces pieces;
  pieces.file = file;
  const size_t end = found.find('\n');
  std::istringstream in(found.substr(0, end));
  in >> pieces.rows >> pieces.columns >> pieces.entries >> pieces.begin >> pieces.end >> pieces.is_array;
  pieces.header = found.substr(end + 1);
  while (!pieces.header.empty() && pieces.header.back() == '\r') pieces.header.pop_back();
  pieces.piece_bytes = chunk_policy().target_bytes > 0 ? chunk_policy().target_bytes : kPieceBytes;
  return pieces;
}

// A task of a piece, which has a chunk of `outputs`.
algo::MapSpec map_of(const char* name, const TextPieces& pieces, std::vector<int64_t> which,
                     std::vector<op::ArraySpec> outputs) {
  algo::MapSpec spec;
  spec.name = name;
  spec.identity = op::Hash().add(std::string_view(pieces.file)).add(pieces.end).add(pieces.piece_bytes).value;
  algo::Along along = algo::Along::following(0, AxisChunks(pieces.count(), 1));
  along.chunks = std::move(which);
  spec.along = {{std::move(along)}};
  spec.outputs = std::move(outputs);
  // The text twice, and of every number (two bytes at least, three to a line) its value, twice for both triangles.
  spec.scratch_bytes = 24 * pieces.piece_bytes + (1 << 16);
  return spec;
}

}  // namespace

SparseArray mmread(const std::string& file, const SparseOptions& options) {
  const TextPieces pieces = described(file);
  if (pieces.is_array) {
    // Dense text has as many numbers as the matrix: each rank reads it.
    const local::DeviceScope host(local::kCpu);
    return csr_array(Array::from_local(std::get<NdArray>(local::sparse::mmread(file))));
  }
  const Array numbers = positions(pieces.count()).rechunk(Grid({AxisChunks(pieces.count(), 1)}));
  const AxisChunks each(pieces.count(), 1);
  const Grid of_counts({each, AxisChunks(2, 2)});
  algo::MapSpec counting =
      map_of("Matrix Market, counts", pieces, {}, {{of_counts.shape(), DType::int64, of_counts, true}});
  counting.function = [pieces](std::span<const NdArray>, const ChunkPlace& place) {
    const int64_t lines = pieces.lines(pieces.piece(place.chunk));
    return std::vector<NdArray>{local::from_vector<int64_t>({lines, pieces.elements(place.chunk).nnz()}, Dims{1, 2})};
  };
  const std::vector<int64_t> counts = settled(Array(algo::map(std::move(counting), {numbers.node()})[0]));
  int64_t lines = 0;
  std::vector<int64_t> which, extents;
  for (size_t i = 0; i < counts.size(); i += 2) {
    lines += counts[i];
    if (counts[i + 1] == 0) continue;
    which.push_back(static_cast<int64_t>(i / 2));
    extents.push_back(counts[i + 1]);
  }
  if (lines != pieces.entries)
    throw IoError(
        fmt::format("'{}': the header tells of {} entries, and {} lines follow", file, pieces.entries, lines));
  const DType dtype = pieces.header.find("omplex") != std::string::npos   ? DType::complex128
                      : pieces.header.find("nteger") != std::string::npos ? DType::int64
                                                                          : DType::float64;
  const Dims shape{pieces.rows, pieces.columns};
  if (which.empty())
    return quarry::sparse::csr_array(local::sparse::SparseArray(local::sparse::Format::csr, shape, dtype), options);
  const Grid grid({AxisChunks(extents)});
  const auto of = [&](DType type) { return op::ArraySpec{grid.shape(), type, grid, true}; };
  algo::MapSpec reading = map_of("Matrix Market", pieces, which, {of(dtype), of(DType::int64), of(DType::int64)});
  reading.function = [pieces, which, dtype](std::span<const NdArray>, const ChunkPlace& place) {
    const local::sparse::SparseArray a = pieces.elements(which[static_cast<size_t>(place.chunk)]);
    const local::Device device = local::current_context().device;
    return std::vector<NdArray>{a.data().to(device).astype(dtype), a.row().to(device).astype(DType::int64),
                                a.col().to(device).astype(DType::int64)};
  };
  std::vector<Array> made;
  for (const expr::NodePtr& node : algo::map(std::move(reading), {numbers.node()})) made.emplace_back(node);
  return coo_array(made[0], made[1], made[2], shape, options);
}

}  // namespace quarry::sparse
