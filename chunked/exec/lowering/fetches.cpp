// What ranks fetch from each other, told to the owners before a run.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "quarry/chunked/exec/lowering/builder.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

namespace {

// A block of this rank. A chunk of a stored array that only other ranks read is not in the graph yet.
scheduler::BlockId block_of(Lowered& lowered, const BlockKey& key) {
  if (const auto found = lowered.blocks.find(key); found) return *found;
  return add_stored(lowered, key);
}

// Brings each rank what others have for it.
template <class T>
std::map<int, std::vector<T>> exchange_lists(comm::Communicator& communicator,
                                             const std::map<int, std::vector<T>>& lists) {
  std::vector<comm::Communicator::Parcel> parcels;
  for (const auto& [rank, list] : lists) {
    const auto bytes = std::as_bytes(std::span(list));
    parcels.push_back({rank, {bytes.begin(), bytes.end()}});
  }
  std::map<int, std::vector<T>> came;
  for (const auto& [rank, bytes] : communicator.exchange(parcels)) {
    std::vector<T>& list = came[rank];
    list.resize(bytes.size() / sizeof(T));
    std::memcpy(list.data(), bytes.data(), bytes.size());
  }
  return came;
}

}  // namespace

void drop_unneeded(Lowered& lowered, comm::Communicator& communicator) {
  scheduler::Graph& graph = lowered.graph;
  std::vector<bool> needed(static_cast<size_t>(graph.task_count()), false);
  std::vector<scheduler::TaskId> open;
  const auto need = [&](scheduler::TaskId task) {
    if (task < 0 || needed[static_cast<size_t>(task)]) return;
    needed[static_cast<size_t>(task)] = true;
    open.push_back(task);
  };
  const std::unordered_set<scheduler::TaskId> saves(lowered.value_saves.begin(), lowered.value_saves.end());
  for (scheduler::TaskId id = 0; id < graph.task_count(); ++id) {
    if (saves.contains(id)) continue;
    const auto outputs = graph.outputs(graph.task(id));
    if (outputs.empty() || std::ranges::any_of(outputs, [&](scheduler::BlockId b) { return graph.block(b).keep; }))
      need(id);
  }
  std::vector<bool> asked(lowered.fetches ? static_cast<size_t>(lowered.fetches->size()) : 0, false);
  for (;;) {
    while (!open.empty()) {
      const scheduler::TaskId id = open.back();
      open.pop_back();
      for (const scheduler::BlockId input : graph.inputs(graph.task(id))) need(graph.block(input).producer);
    }
    // Owners learn of what this rank now fetches from them, until nothing new comes.
    std::map<int, std::vector<BlockKey>> wanted;
    for (size_t i = 0; i < asked.size(); ++i) {
      const PartTable::Part& part = (*lowered.fetches)[static_cast<int64_t>(i)];
      const scheduler::TaskId task = graph.block(part.block).producer;
      if (asked[i] || task < 0 || !needed[static_cast<size_t>(task)]) continue;
      asked[i] = true;
      wanted[part.owner].push_back(part.key);
    }
    int64_t any[] = {wanted.empty() ? 0 : 1};
    communicator.all_reduce(any, comm::ReduceOp::max);
    if (any[0] == 0) break;
    for (const auto& [rank, keys] : exchange_lists(communicator, wanted)) {
      for (const BlockKey& key : keys)
        if (const auto block = lowered.blocks.find(key)) need(graph.block(*block).producer);  // else of a stored array
    }
  }
  for (const scheduler::TaskId id : saves) {
    const scheduler::TaskId producer = graph.block(graph.inputs(graph.task(id))[0]).producer;
    needed[static_cast<size_t>(id)] = producer >= 0 && needed[static_cast<size_t>(producer)];
  }
  graph.keep_only(needed);
}

namespace {

// What a rank fetches of an owner.
struct Announcement {
  uint32_t stage, part;
  int64_t chunk;
  int32_t owner, times;
  bool operator<(const Announcement& other) const {
    return std::tie(owner, stage, part, chunk) < std::tie(other.owner, other.stage, other.part, other.chunk);
  }
};

// This rank's, by owner, each block once.
std::vector<Announcement> announcements(const Lowered& lowered) {
  std::vector<Announcement> out;
  for (int64_t i = 0; i < (lowered.fetches ? lowered.fetches->size() : 0); ++i) {
    const auto& [key, owner, hyperslab, block] = (*lowered.fetches)[i];
    if (lowered.graph.block(block).producer < 0) continue;  // drop_unneeded()
    out.push_back({key.stage, key.part, key.chunk, owner, 1});
  }
  std::ranges::sort(out, std::less<>());
  size_t kept = 0;
  for (const Announcement& a : out) {
    if (kept > 0 && !(out[kept - 1] < a)) {
      ++out[kept - 1].times;
    } else {
      out[kept++] = a;
    }
  }
  out.resize(kept);
  return out;
}

// Sets remote readers on the blocks that others have announced.
void expect_readers(Lowered& lowered, std::span<const Announcement> in, Service& service) {
  std::unordered_map<BlockKey, int64_t, BlockKeyHash> readers;
  for (const Announcement& a : in) readers[{a.stage, a.part, a.chunk}] += a.times;
  std::unordered_map<scheduler::BlockId, int64_t> per_block;  // one block may go by two keys
  for (const auto& [key, times] : readers) {
    const scheduler::BlockId block = block_of(lowered, key);
    per_block[block] += times;
    service.expose(key, block);
  }
  for (const auto& [block, times] : per_block) lowered.graph.set_remote_readers(block, static_cast<int32_t>(times));
}

// In front of a rank's note; then come its announcements.
constexpr size_t kNoteCount = sizeof(int64_t);

}  // namespace

std::vector<std::byte> note_fetches(const Lowered& lowered, size_t bytes) {
  std::vector<std::byte> note(bytes);
  if (bytes == 0) return note;
  const std::vector<Announcement> mine = announcements(lowered);
  const int64_t count = std::ssize(mine);
  std::memcpy(note.data(), &count, sizeof count);
  const std::span<const std::byte> from = std::as_bytes(std::span(mine));
  if (from.size() <= bytes - kNoteCount) std::ranges::copy(from, note.begin() + kNoteCount);
  return note;
}

bool take_fetches(Lowered& lowered, std::span<const std::byte> notes, size_t bytes, int rank, Service& service) {
  std::vector<Announcement> in;
  for (size_t at = 0; at < notes.size(); at += bytes) {
    int64_t count = 0;
    std::memcpy(&count, &notes[at], sizeof count);
    if (static_cast<size_t>(count) > (bytes - kNoteCount) / sizeof(Announcement)) return false;
    for (int64_t i = 0; i < count; ++i) {
      Announcement one{};
      std::memcpy(&one, &notes[at + kNoteCount + static_cast<size_t>(i) * sizeof one], sizeof one);
      if (one.owner == rank) in.push_back(one);
    }
  }
  if (notes.empty()) return false;
  expect_readers(lowered, in, service);
  return true;
}

void exchange_fetches(Lowered& lowered, comm::Communicator& communicator, Service& service) {
  std::map<int, std::vector<Announcement>> out;
  for (const Announcement& a : announcements(lowered)) out[a.owner].push_back(a);
  std::vector<Announcement> in;
  for (const auto& [rank, list] : exchange_lists(communicator, out)) in.insert(in.end(), list.begin(), list.end());
  expect_readers(lowered, in, service);
}

}  // namespace quarry::exec
