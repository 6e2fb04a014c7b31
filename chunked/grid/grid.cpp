#include "quarry/chunked/grid/grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry {

using local::InvalidArgument;

namespace {

constexpr int kShownExtents = 8;  // of an axis in Grid::to_string()

// The finaliser of splitmix64 over a running value.
uint64_t mixed(uint64_t hash, uint64_t value) {
  uint64_t z = hash ^ (value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2));
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

AxisChunks::AxisChunks(int64_t extent, int64_t chunk) : extent_(extent) {
  if (extent < 0) throw InvalidArgument(fmt::format("an axis cannot have the negative extent {}", extent));
  if (chunk < 1 && extent > 0)
    throw InvalidArgument(fmt::format("a chunk must have at least 1 element, not {}", chunk));
  chunk_ = std::max<int64_t>(std::min(chunk, extent), 1);
  count_ = extent == 0 ? 1 : (extent - 1) / chunk_ + 1;
  hash_ = cuts_hash();
}

AxisChunks::AxisChunks(const std::vector<int64_t>& extents) {
  starts_.reserve(extents.size() + 1);
  starts_.push_back(0);
  for (int64_t extent : extents) {
    if (extent < 0) throw InvalidArgument(fmt::format("a chunk cannot have the negative extent {}", extent));
    if (extent > 0) starts_.push_back(starts_.back() + extent);
  }
  extent_ = starts_.back();
  const size_t count = starts_.size() - 1;
  chunk_ = count > 0 ? starts_[1] : 1;
  // One spelling for each cut, so that equal grids compare equal.
  bool regular = true;
  for (size_t i = 1; i + 1 <= count && regular; ++i) {
    const int64_t size = starts_[i + 1] - starts_[i];
    regular = i + 1 == count ? size <= chunk_ : size == chunk_;
  }
  count_ = std::max<int64_t>(static_cast<int64_t>(count), 1);
  if (regular) starts_.clear();
  hash_ = cuts_hash();
}

uint64_t AxisChunks::cuts_hash() const {
  uint64_t hash = mixed(static_cast<uint64_t>(extent_), static_cast<uint64_t>(chunk_));
  for (const int64_t start : starts_) hash = mixed(hash, static_cast<uint64_t>(start));
  return hash;
}

int64_t AxisChunks::start(int64_t i) const {
  QUARRY_CHECK(i >= 0 && i <= count());
  if (!starts_.empty()) return starts_[static_cast<size_t>(i)];
  return i == count() ? extent_ : i * chunk_;
}

int64_t AxisChunks::find(int64_t position) const {
  QUARRY_CHECK(position >= 0 && position < std::max<int64_t>(extent_, 1));
  if (starts_.empty()) return position / chunk_;
  return std::upper_bound(starts_.begin(), starts_.end(), position) - starts_.begin() - 1;
}

int64_t AxisChunks::largest() const {
  if (starts_.empty()) return std::min(chunk_, extent_);
  int64_t largest = 0;
  for (int64_t i = 0; i < count(); ++i) largest = std::max(largest, size(i));
  return largest;
}

Grid Grid::regular(const Dims& shape, const Dims& chunk) {
  if (shape.size() != chunk.size())
    throw InvalidArgument(fmt::format("chunks {} have {} axes, the array's shape {} has {}", local::to_string(chunk),
                                      chunk.size(), local::to_string(shape), shape.size()));
  std::vector<AxisChunks> axes;
  axes.reserve(static_cast<size_t>(shape.size()));
  for (int d = 0; d < shape.size(); ++d) axes.emplace_back(shape[d], std::max<int64_t>(chunk[d], shape[d] == 0));
  return Grid(std::move(axes));
}

const std::vector<AxisChunks> Grid::kNoAxes;

Grid::Grid(std::vector<AxisChunks> axes) {
  if (axes.empty()) return;
  auto cuts = std::make_shared<Cuts>();
  cuts->axes = std::move(axes);
  cuts->hash = cuts->axes.size();
  for (const AxisChunks& axis : cuts->axes) cuts->hash = mixed(cuts->hash, axis.hash());
  cuts_ = cuts;
  cuts->count = local::element_count(counts());  // throws where it does not fit 64 bits
}

Dims Grid::shape() const {
  Dims shape = Dims::filled(ndim());
  for (int d = 0; d < ndim(); ++d) shape[d] = axis(d).extent();
  return shape;
}

Dims Grid::counts() const {
  Dims counts = Dims::filled(ndim());
  for (int d = 0; d < ndim(); ++d) counts[d] = axis(d).count();
  return counts;
}

Dims Grid::coordinates(int64_t i) const {
  QUARRY_CHECK(i >= 0 && i < count());
  Dims coordinates = Dims::filled(ndim());
  for (int d = ndim() - 1; d >= 0; --d) {
    const int64_t n = axis(d).count();
    coordinates[d] = i % n;
    i /= n;
  }
  return coordinates;
}

int64_t Grid::flat(const Dims& coordinates) const {
  QUARRY_CHECK(coordinates.size() == ndim());
  int64_t i = 0;
  for (int d = 0; d < ndim(); ++d) i = i * axis(d).count() + coordinates[d];
  return i;
}

Region Grid::chunk(int64_t i) const {
  QUARRY_CHECK(i >= 0 && i < count());
  Region box{Dims::filled(ndim()), Dims::filled(ndim()), Dims::filled(ndim(), 1)};
  for (int d = ndim() - 1; d >= 0; --d) {
    const int64_t n = axis(d).count(), at = i % n;
    box.start[d] = axis(d).start(at);
    box.count[d] = axis(d).start(at + 1) - box.start[d];
    i /= n;
  }
  return box;
}

Dims Grid::chunk_shape(int64_t i) const {
  Dims shape = coordinates(i);
  for (int d = 0; d < ndim(); ++d) shape[d] = axis(d).size(shape[d]);
  return shape;
}

bool Grid::same_shape(int64_t i, int64_t j) const {
  QUARRY_CHECK(i >= 0 && i < count() && j >= 0 && j < count());
  for (int d = ndim() - 1; d >= 0; --d) {
    const int64_t n = axis(d).count();
    if (axis(d).size(i % n) != axis(d).size(j % n)) return false;
    i /= n;
    j /= n;
  }
  return true;
}

int64_t Grid::chunk_elements(int64_t i) const {
  QUARRY_CHECK(i >= 0 && i < count());
  int64_t elements = 1;
  for (int d = ndim() - 1; d >= 0; --d) {
    elements *= axis(d).size(i % axis(d).count());
    i /= axis(d).count();
  }
  return elements;
}

Dims Grid::largest() const {
  Dims largest = Dims::filled(ndim());
  for (int d = 0; d < ndim(); ++d) largest[d] = axis(d).largest();
  return largest;
}

std::string Grid::to_string() const {
  std::string text = "(";
  for (int d = 0; d < ndim(); ++d) {
    const AxisChunks& chunks = axis(d);
    const int64_t count = chunks.count();
    text += d ? ", (" : "(";
    for (int64_t i = 0; i < count; ++i) {
      if (i == kShownExtents / 2 && count > kShownExtents) {
        text += ", ...";
        i = count - kShownExtents / 2;
      }
      text += fmt::format("{}{}", i ? ", " : "", chunks.size(i));
    }
    text += count == 1 ? ",)" : ")";
  }
  return text + (ndim() == 1 ? ",)" : ")");
}

}  // namespace quarry
