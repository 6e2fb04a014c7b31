// Decoded chunks that are kept between the reads that take parts of them, so that a chunk of a file is read and decoded
// once however many reads want something of it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "quarry/local/base/shape.h"

namespace quarry::io {

// What a run will read of a data set.
struct PlannedReads {
  int64_t together = 1;  // how often each element is read at about the same time, by neighbours in the order of reads
  int64_t in_all = 1;    // and in the whole run: a multiple, where all of it is gone through several times
  // Along each axis, elements at the end of what a read takes that the next one along the axis takes too; or empty.
  local::Dims overlap = {};
};

class CachedChunks;

// Holds at most so many bytes of chunks of any number of data sets. Where they do not fit, those stay that are wanted
// soonest: reads go through a data set in C order, so a chunk of which the last axis is not yet done is wanted before
// one of which a row of chunks has to pass first, and that before one that waits for the next time through all; of
// equals the one read last is wanted last. What nobody has asked for in a long time goes. Thread-safe.
class ChunkCache : public std::enable_shared_from_this<ChunkCache> {
 public:
  explicit ChunkCache(int64_t limit_bytes) : limit_(limit_bytes) {}
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;
  ~ChunkCache();

  // For a data set whose decoded chunks all have `chunk_bytes`, `chunks` of them. Its chunks go when it does.
  std::shared_ptr<CachedChunks> add(int64_t chunk_bytes, int64_t chunks, const PlannedReads& reads);
  int64_t limit_bytes() const;
  // Lowers the limit by up to so many bytes: by room first, then by chunks that no read is at, those that stay the
  // shortest first. Returns by how many.
  int64_t reclaim(int64_t bytes);
  // That a decoded chunk takes here.
  static int64_t rounded_bytes(int64_t chunk_bytes);
  int64_t used_bytes() const;

 private:
  friend class CachedChunks;
  using Key = std::pair<const CachedChunks*, int64_t>;
  struct HashKey {
    size_t operator()(const Key& key) const {
      constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
      return static_cast<size_t>((reinterpret_cast<uintptr_t>(key.first) ^ static_cast<uint64_t>(key.second)) * kMix);
    }
  };
  struct Entry {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    bool is_made = false;
    int users = 0;         // reads that are at it
    int64_t consumed = 0;  // elements that were read of it
    int nearness = 0;      // the larger, the sooner it is wanted
    uint64_t touched = 0;
  };
  using Entries = std::unordered_map<Key, Entry, HashKey>;

  bool make_room(int64_t bytes, int nearness);
  bool free_spare();
  void drop_idle(Key key);
  void set_idle(const Key& key, Entry& entry);  // nobody is at it any more
  void set_busy(const Key& key, const Entry& entry);
  void drop(Entries::iterator entry);
  std::byte* allocate(int64_t bytes);
  void forget(const CachedChunks& chunks);

  mutable std::mutex mutex_;
  int64_t limit_;
  std::condition_variable made_;
  Entries entries_;
  std::set<std::tuple<int, uint64_t, Key>> by_nearness_;  // of idle ones: nearness, and the later touched the earlier
  std::map<uint64_t, Key> by_touch_;                      // of idle ones
  std::multimap<int64_t, std::byte*> spare_;              // memory for the next ones, by bytes
  int64_t used_ = 0;                                      // with what is spare
  uint64_t now_ = 0;
};

// Those of one data set.
class CachedChunks {
 public:
  CachedChunks(std::shared_ptr<ChunkCache> cache, int64_t chunk_bytes, int64_t chunks, const PlannedReads& reads);
  CachedChunks(const CachedChunks&) = delete;
  CachedChunks& operator=(const CachedChunks&) = delete;
  ~CachedChunks();

  // What a read takes of a chunk: elements [begin, end) of it, where the data set has elements [0, extent) of it.
  struct Box {
    local::Dims begin, end, extent;
  };
  const PlannedReads& reads() const { return reads_; }
  // Whether other reads take something of the chunk too, or have left it here.
  bool wants(int64_t number, const Box& box) const;

  // A read's hold on a chunk, until it dies.
  class Hold {
   public:
    enum class State : uint8_t {
      none,   // there is no room: the read decodes it for itself
      busy,   // another read decodes it just now
      ready,  // data() is the decoded chunk
      open,   // the read decodes it to data() and calls publish(); dies before that: others may try
    };
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { end(); }
    State state() const { return state_; }
    std::byte* data() const { return data_; }
    void publish();

   private:
    friend class CachedChunks;
    void end() noexcept;
    CachedChunks* chunks_ = nullptr;
    int64_t number_ = 0;
    Box box_;
    State state_ = State::none;
    std::byte* data_ = nullptr;
  };
  // `wait`: until another read has decoded it, which is why the caller has no open holds; else that is `busy`.
  Hold take(int64_t number, const Box& box, bool wait);

  // That so many stored bytes of a chunk were read.
  void note_read(int64_t number, int64_t stored_bytes);
  int64_t reread_bytes() const;   // stored bytes that were read again
  int64_t decoded_bytes() const;  // that were made of what was read

 private:
  friend class ChunkCache;
  int nearness_after(const Box& box, int64_t consumed) const;

  const std::shared_ptr<ChunkCache> cache_;
  const int64_t chunk_bytes_;
  const PlannedReads reads_;
  std::vector<uint64_t> seen_;  // a bit for each chunk; none where they are very many
  int64_t reread_bytes_ = 0, decoded_bytes_ = 0;
};

// Where a data set has those of the run that reads it just now. Thread-safe.
class AttachedChunks {
 public:
  void attach(std::shared_ptr<CachedChunks> chunks) {
    const std::lock_guard lock(mutex_);
    chunks_.swap(chunks);  // the old ones go without the lock
  }
  std::shared_ptr<CachedChunks> get() const {
    const std::lock_guard lock(mutex_);
    return chunks_;
  }
  // Whether a run reads the data set more than once.
  bool go_through_again() const {
    const std::shared_ptr<CachedChunks> chunks = get();
    return chunks && chunks->reads().in_all > 1;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<CachedChunks> chunks_;
};

}  // namespace quarry::io
