// Every share of the memory budget, each named once. `quarry info --memory` prints what they come to.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quarry::local::memory_policy {

// --- the budgets, where the user names none ---

// Of a rank's share of free host memory, on the CPU: the rest is for the page cache, libraries and other programs.
inline constexpr double kHostShare = 0.6;
// Of the same, for the emulated device: its "device memory" is host memory beside the pinned one.
inline constexpr double kEmulatedShare = 0.3;
// Of free device memory: the rest is for kernels, libraries' workspaces and arrays beside the runtime.
inline constexpr double kDeviceShare = 0.8;
// Of a rank's share of free host memory, for the pinned tier of a device; pinning more takes seconds.
inline constexpr double kPinnedShare = 0.25;
inline constexpr int64_t kMostPinnedBytes = int64_t{4} << 30;
// Of free memory, for a program without ranks and chunks (`eval --local`).
inline constexpr double kLocalShare = 0.8;

// --- the compute tier: blocks and scratch of tasks ---

// The planner makes chunks so small that this many tasks fit: one computing per core or so, one being read, one being
// written.
inline constexpr int64_t kTasksInBudget = 6;
// Small chunks that share a task on a GPU are no larger together than this part, so that others still fit beside it ...
inline constexpr int64_t kSharedTaskPart = 16;
// ... and than this, which is enough to hide what a task costs.
inline constexpr int64_t kMostSharedTaskBytes = int64_t{64} << 20;
// States of all chunks of a reduction wait for being merged at the end where they take no more than this part.
inline constexpr int64_t kLateMergePart = 256;
// What tasks have given back stays reserved for the next ones up to so much, without a call to the budget; whoever
// wants staging memory takes it away.
inline constexpr int64_t kKeptReservedBytes = 64 << 10;
// Blocks smaller than this part of a device's budget lie in the shortest gap, large ones are placed first.
inline constexpr int64_t kSmallBlockPart = 4096;

// What a task that decodes compressed chunks on a device takes beside its block: up to sixteen are under way.
inline constexpr int64_t kDecodingPart = 64;
constexpr int64_t decoding_bytes(int64_t budget) { return budget / kDecodingPart; }

// --- the segments of device memory (scheduler/blocks/segments.h) ---

// The first one: small, as another process takes time to open it in proportion, but for the smallest budgets.
inline constexpr int64_t kFirstSegmentPart = 8;
inline constexpr int64_t kFirstSegmentBytes = int64_t{256} << 20;
constexpr int64_t first_segment_bytes(int64_t budget) {
  return std::min(budget / kFirstSegmentPart, kFirstSegmentBytes);
}
// Later ones are as large as all before them, up to so much: opening 4 GiB takes 0.1 s. Few, as blocks do not cross
// their ends.
inline constexpr int64_t kMostSegmentPart = 4;
inline constexpr int64_t kMostSegmentBytes = int64_t{4} << 30;
constexpr int64_t most_segment_bytes(int64_t budget) { return std::min(budget / kMostSegmentPart, kMostSegmentBytes); }
// In large budgets small pieces, what tasks take beside their blocks and short blocks, have segments for themselves.
inline constexpr int64_t kLeastWithSmall = int64_t{512} << 20;
inline constexpr int64_t kSmallSegmentPart = 128, kSmallPieces = 8;
constexpr int64_t small_segment_bytes(int64_t budget) {
  return std::min(budget, kMostSegmentBytes) / kSmallSegmentPart;
}
constexpr int64_t small_piece_bytes(int64_t budget) {
  return budget < kLeastWithSmall ? 0 : std::min(budget / kSmallBlockPart, small_segment_bytes(budget) / kSmallPieces);
}
// Beyond this part of the budget no segment is taken only to run further ahead of work that keeps every thread busy.
inline constexpr int64_t kAmplePart = 4;
constexpr int64_t ample_bytes(int64_t budget) { return budget / kAmplePart; }

// --- chunks that a rank has stolen from others ---

// The states that it has computed for them wait in its memory for being fetched: on the CPU in a part of the budget
// that no task needs, on a device in a part of the pinned tier, which is smaller and has more users.
inline constexpr int64_t kStolenPart = 16;
inline constexpr int64_t kStolenPinnedPart = 64;
// Of a budget that has so many bytes beside what the largest task needs.
constexpr int64_t stolen_bytes(int64_t budget, int64_t free_bytes, bool on_device) {
  const int64_t most = budget / (on_device ? kStolenPinnedPart : kStolenPart);
  return std::clamp<int64_t>(on_device ? most : free_bytes, 0, most);
}

// --- decoded chunks of files, kept for reads that want other parts of them: on the CPU in the memory budget, on a
// device in the pinned tier ---

// Only while a run reads chunks again, and of bytes that no task needs, of which others get as many. Where all that is
// wanted does not fit, a part of the budget: what it saves is a part only, while fewer tasks run ahead.
inline constexpr int64_t kChunkCachePart = 4;
constexpr int64_t chunk_cache_bytes(int64_t budget, int64_t free_bytes, int64_t wanted_bytes) {
  const int64_t most = std::max<int64_t>(free_bytes / 2, 0);
  return wanted_bytes <= most ? wanted_bytes : std::min(most, budget / kChunkCachePart);
}

// --- messages between ranks: on the CPU in the memory budget, on a device in the pinned tier ---

// Pieces of large blocks; as small as a part of the budget so that the buffers stay below a few percent of it.
inline constexpr int64_t kMessagePiecePart = 128;
inline constexpr int64_t kLeastMessagePiece = int64_t{16} << 10;
inline constexpr int64_t kMostMessagePiece = int64_t{4} << 20;
constexpr int64_t message_piece_bytes(int64_t budget) {
  constexpr int64_t kPage = 4096;
  return std::clamp(budget / kMessagePiecePart / kPage * kPage, kLeastMessagePiece, kMostMessagePiece);
}
// Pieces under way out of a rank; one more is scratch for gathering short runs, and each path between ranks takes what
// its row in paths.def says.
inline constexpr int kMessageBuffers = 3;
constexpr int64_t message_bytes(int64_t budget, int buffers) { return buffers * message_piece_bytes(budget); }
// What they leave of a rank's memory budget for tasks; taken off for one rank too, so that chunks do not depend on the
// number of ranks.
constexpr int64_t task_bytes(int64_t budget, bool on_device, int buffers) {
  return on_device ? budget : budget - message_bytes(budget, buffers);
}

// --- the pinned tier of a device ---

// All bounce buffers between the device and the spill file together, one for each I/O thread: the rest is for blocks.
inline constexpr int64_t kBouncePart = 4;
inline constexpr int64_t kMostBounceBytes = int64_t{8} << 20;  // of a thread; larger copies are no faster
inline constexpr int64_t kBounceUnit = int64_t{64} << 10;      // the halves are multiples of it
// One thread's, two halves.
constexpr int64_t bounce_bytes(int64_t host_budget, int io_threads) {
  const int64_t half = host_budget / (2 * kBouncePart * io_threads);
  return 2 * std::clamp(half / kBounceUnit * kBounceUnit, kBounceUnit, kMostBounceBytes / 2);
}
// Threads that read and write files, of a rank's: eight do not reach what a GPU's wire takes, but in a small pinned
// tier there is no room for the buffers of more.
inline constexpr int64_t kManyIoThreadsBytes = int64_t{1} << 30;
constexpr int io_threads(int threads, int64_t host_budget) {
  return std::clamp(threads, 2, host_budget >= kManyIoThreadsBytes ? 16 : 8);
}
// How much one I/O thread stages of a file at a time: two pieces of each thread fit. They are filled from the page
// cache and taken by the device at once: the less they are together, the sooner they are pinned, and the more stays in
// the processor's caches (two ranks with 16 threads each read a half more a second with 2 MiB than with 4). Pieces of
// 1 MiB are slower again: the driver takes some 16 us for each, one after the other.
inline constexpr int64_t kStagingPiecePart = 16;
inline constexpr int64_t kLeastStagingPiece = int64_t{64} << 10;
inline constexpr int64_t kMostStagingPiece = int64_t{2} << 20;
constexpr int64_t staging_piece_bytes(int64_t host_budget) {
  return std::clamp(host_budget / kStagingPiecePart, kLeastStagingPiece, kMostStagingPiece);
}
// Small copies of a program without a runtime share a slab of pinned memory, which takes milliseconds to get.
inline constexpr int64_t kPinnedSlabBytes = int64_t{4} << 20;

}  // namespace quarry::local::memory_policy
