#include "quarry/io/hdf5/parse/record_tree.h"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <vector>

#include "quarry/local/base/detail.h"

namespace quarry::io::hdf5 {
namespace {

constexpr int kChecksumBytes = 4;
constexpr int64_t kNodeBegin = 4 + 1 + 1;

// Bytes that hold numbers up to `most`.
int width_of(uint64_t most) { return most == 0 ? 1 : (std::bit_width(most) - 1) / 8 + 1; }

class Tree {
 public:
  Tree(BlockReader& blocks, const FileFormat& format, unsigned type, const std::function<void(Cursor&)>& use,
       const std::function<RecordNeighbours(Cursor)>& neighbours)
      : blocks_(blocks), format_(format), type_(type), use_(use), neighbours_(neighbours) {}

  void read(int64_t address, const std::function<void(int64_t)>& begin) {
    constexpr const char* kWhat = "the head of a version 2 B-tree";
    const auto head = blocks_.read(
        address, 4 + 1 + 1 + 4 + 2 + 2 + 1 + 1 + format_.offset_bytes + 2 + format_.length_bytes + kChecksumBytes,
        kWhat);
    Cursor in(head, kWhat);
    in.signature("BTHD");
    if (in.u8() != 0) damaged("a version 2 B-tree of unknown version");
    if (in.u8() != type_) damaged("a version 2 B-tree of something else than expected");
    node_bytes_ = in.u32();
    record_bytes_ = in.u16();
    const int depth = in.u16();
    in.skip(2);  // when nodes are split and merged
    const int64_t root = in.address(format_);
    const int64_t records = in.u16();
    if (record_bytes_ == 0) damaged("records of no bytes in a version 2 B-tree");
    begin(record_bytes_);
    measure(depth);
    if (root != kNoAddress) node(root, depth, records);
  }

 private:
  // How many records nodes of every level can have decides how wide the counts in their parents are.
  void measure(int depth) {
    constexpr int kMostDepth = 64;
    const int64_t room = node_bytes_ - kNodeBegin - kChecksumBytes;
    if (depth > kMostDepth || room < record_bytes_) damaged("a version 2 B-tree of wild parameters");
    uint64_t most = static_cast<uint64_t>(room / record_bytes_), below = most;
    most_.push_back(static_cast<int64_t>(most));
    below_width_.push_back(0);
    count_width_ = width_of(most);
    for (int level = 1; level <= depth; ++level) {
      const int64_t pointer = format_.offset_bytes + count_width_ + below_width_.back();
      if (room < record_bytes_ + 2 * pointer) damaged("a version 2 B-tree of wild parameters");
      most = static_cast<uint64_t>((room - pointer) / (record_bytes_ + pointer));
      if (__builtin_mul_overflow(below, most + 1, &below) || __builtin_add_overflow(below, most, &below))
        damaged("a version 2 B-tree of wild parameters");
      most_.push_back(static_cast<int64_t>(most));
      below_width_.push_back(width_of(below));
    }
  }

  void node(int64_t address, int level, int64_t records) {
    constexpr const char* kWhat = "a node of a version 2 B-tree";
    const auto depth = static_cast<size_t>(level);
    if (records > most_[depth]) damaged(fmt::format("{} records in a node of a version 2 B-tree", records));
    // Levels below the children's: the sum of records under a child is not stored for leaves.
    const int below = level > 1 ? below_width_[depth - 1] : 0;
    const int64_t pointers = level > 0 ? (records + 1) * (format_.offset_bytes + count_width_ + below) : 0;
    const auto block = blocks_.read(address, kNodeBegin + records * record_bytes_ + pointers + kChecksumBytes, kWhat);
    Cursor in(block, kWhat);
    in.signature(level > 0 ? "BTIN" : "BTLF");
    if (in.u8() != 0) damaged("a node of a version 2 B-tree of unknown version");
    if (in.u8() != type_) damaged("a node of a version 2 B-tree is of another kind");
    Cursor stored(in.take(static_cast<size_t>(records * record_bytes_)), kWhat);
    for (int64_t i = 0; i <= records; ++i) {
      std::optional<Cursor> record;  // behind child i
      RecordNeighbours spared;
      if (i < records) {
        record.emplace(stored.take(static_cast<size_t>(record_bytes_)), "a record of a version 2 B-tree");
        if (neighbours_) spared = neighbours_(*record);
      }
      if (level > 0) {
        const int64_t child = in.address(format_);
        const auto count = static_cast<int64_t>(in.number(count_width_));
        in.skip(static_cast<size_t>(below));
        if (child == kNoAddress) damaged("an inner node of a version 2 B-tree has no child");
        if (!spared.skip_before) node(child, level - 1, count);
      }
      if (record) use_(*record);
      if (spared.skip_behind) return;
    }
  }

  BlockReader& blocks_;
  const FileFormat& format_;
  const unsigned type_;
  const std::function<void(Cursor&)>& use_;
  const std::function<RecordNeighbours(Cursor)>& neighbours_;
  int64_t node_bytes_ = 0, record_bytes_ = 0;
  int count_width_ = 0;
  std::vector<int64_t> most_;     // records in a node, by level from the leaves
  std::vector<int> below_width_;  // bytes of the number of records at and below a node; 0 of leaves
};

}  // namespace

void for_each_record(BlockReader& blocks, const FileFormat& format, int64_t address, unsigned type,
                     const std::function<void(int64_t)>& begin, const std::function<void(Cursor&)>& use,
                     const std::function<RecordNeighbours(Cursor)>& neighbours) {
  Tree(blocks, format, type, use, neighbours).read(address, begin);
}

}  // namespace quarry::io::hdf5
