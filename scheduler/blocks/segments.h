// Device memory of the compute tier, in segments that are taken from the device when they are first needed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "quarry/scheduler/blocks/block_memory.h"
#include "quarry/scheduler/executor.h"

namespace quarry::scheduler {

// Blocks and scratch lie in segments, best fit over all of them. Where no gap is long enough a segment more is taken,
// each as large as all before it within limits (local/memory/policy.h), a whole number of pieces as long as the one
// that asks for it; a longer piece gets a segment of its own. All segments together stay within the limit. Where the
// rest of the limit is too small, segments in which nothing lies go back to the device for a longer one.
//
// Small pieces have segments of their own in large budgets, where these can be had: one of them in a gap that a block
// left would keep the next block of that size out of it.
//
// Other processes may have a segment open, which was shared then. It goes back only when they have closed it: it is
// recalled, nothing is put into it meanwhile, and end_sharing() says that they have.
//
// Not thread-safe: the executor's lock guards it.
class DeviceSegments {
 public:
  struct Source {
    std::function<void*(int64_t bytes)> take;  // throws OutOfMemory
    std::function<void(void* data, int64_t bytes)> give_back;
    std::string name;           // of the device, for messages
    int64_t granule_bytes = 1;  // sizes asked of the source are multiples, but for the end of the limit
  };

  DeviceSegments(Source source, int64_t limit_bytes);
  // Nobody may have a segment open any more.
  ~DeviceSegments();
  DeviceSegments(const DeviceSegments&) = delete;
  DeviceSegments& operator=(const DeviceSegments&) = delete;

  // Null where no gap is long enough and no segment can be had, or is not wanted: nothing that lies there makes way.
  // Short-lived pieces (scratch) go to the top, so that they do not split what blocks leave behind. Throws OutOfMemory
  // where the device does not have what the limit allows.
  void* allocate(int64_t bytes, bool at_top, bool may_grow = true);
  void deallocate(void* data, int64_t bytes);
  // Gives segments in which nothing lies back for one of so many bytes, whose pieces then fit in any order; false where
  // they are too few, or others have them open: see is_recalling(). Throws as allocate() does.
  bool make_room(int64_t bytes);

  // The segment in which `data` lies, which other processes are to open.
  SharedSegment share(const void* data);
  // Whether anybody would hear of a recall; at first nobody, and shared segments stay.
  void allow_recalls(bool allowed) { may_recall_ = allowed; }
  // Segments that were recalled since the last call: their numbers.
  std::vector<int64_t> take_recalls() { return std::exchange(recalls_, {}); }
  bool is_recalling() const { return recalled_ > 0; }
  // No other process has it open.
  void end_sharing(int64_t number);
  // Nobody answers any more: what was recalled is of use again, and shared as before.
  void cancel_recalls();

  int64_t limit_bytes() const { return limit_; }
  int64_t taken_bytes() const { return taken_; }  // from the device
  int64_t count() const { return count_; }        // of segments

 private:
  struct Segment {
    int64_t number = 0;
    char* data = nullptr;  // null: the slot is free
    int64_t bytes = 0;
    bool small = false;  // for small pieces
    bool shared = false;
    bool recalled = false;  // its gap is taken out meanwhile
  };
  // Segments are apart by so much, so that gaps of two never touch.
  static constexpr int kSlotShift = 44;
  static int64_t position_of(size_t slot) { return static_cast<int64_t>(slot) << kSlotShift; }

  size_t slot_of(const void* data) const;
  bool is_empty(size_t slot) const;
  Gaps& gaps_of(size_t slot) { return slots_[slot].small ? small_gaps_ : gaps_; }
  const Gaps& gaps_of(size_t slot) const { return slots_[slot].small ? small_gaps_ : gaps_; }
  void* address_of(int64_t position) const;
  void* allocate_small(int64_t bytes, bool may_grow);
  bool grow(int64_t bytes);
  // Returns segments until so many bytes of the limit are not taken. False where it is not so now.
  bool return_for(int64_t bytes);
  void* try_take(int64_t bytes, std::string& refusal);
  void add_segment(void* data, int64_t bytes, bool small = false);
  void return_segment(size_t slot);
  void recall(size_t slot);
  // A segment for a piece of so many bytes where `rest` are not taken.
  int64_t segment_bytes(int64_t bytes, int64_t rest) const;

  const Source source_;
  const int64_t limit_;
  int64_t taken_ = 0, count_ = 0, recalled_ = 0, next_number_ = 0;
  std::vector<Segment> slots_;
  std::vector<std::pair<const char*, size_t>> by_address_;  // (begin, slot), in order
  Gaps gaps_, small_gaps_;                                  // positions in slots
  std::vector<int64_t> recalls_;
  bool may_recall_ = false;
};

}  // namespace quarry::scheduler
