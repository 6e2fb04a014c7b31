// What ranks fetch from each other, told to the owners before a run.
#include <algorithm>
#include <functional>
#include <tuple>
#include <unordered_map>

#include "quarry/chunked/exec/lowering/lowering.h"
#include "quarry/chunked/exec/stored_array.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

namespace {

// A block of this rank. A chunk of a stored array that only other ranks read is not in the graph yet.
scheduler::BlockId block_of(Lowered& lowered, const BlockKey& key) {
  if (const auto found = lowered.blocks.find(key); found) return *found;
  QUARRY_CHECK(key.stage >= lowered.first_stored && key.stage - lowered.first_stored < lowered.stored.size());
  const StoredArray& array = *lowered.stored[key.stage - lowered.first_stored];
  const scheduler::BlockId block = lowered.graph.add_stored(array.block(key.chunk));
  lowered.blocks.emplace(key, block);
  return block;
}

}  // namespace

void drop_unneeded(Lowered& lowered, comm::Communicator& communicator) {
  scheduler::Graph& graph = lowered.graph;
  const auto ranks = static_cast<size_t>(communicator.size());
  std::vector<bool> needed(static_cast<size_t>(graph.task_count()), false);
  std::vector<scheduler::TaskId> open;
  const auto need = [&](scheduler::TaskId task) {
    if (task < 0 || needed[static_cast<size_t>(task)]) return;
    needed[static_cast<size_t>(task)] = true;
    open.push_back(task);
  };
  for (scheduler::TaskId id = 0; id < graph.task_count(); ++id) {
    const auto outputs = graph.outputs(graph.task(id));
    if (std::ranges::all_of(outputs, [&](scheduler::BlockId b) { return graph.block(b).keep; })) need(id);
  }
  std::vector<bool> asked(lowered.fetches ? static_cast<size_t>(lowered.fetches->size()) : 0, false);
  for (;;) {
    while (!open.empty()) {
      const scheduler::TaskId id = open.back();
      open.pop_back();
      for (const scheduler::BlockId input : graph.inputs(graph.task(id))) need(graph.block(input).producer);
    }
    // Owners learn of what this rank now fetches from them, until nothing new comes.
    std::vector<std::vector<BlockKey>> wanted(ranks);
    for (size_t i = 0; i < asked.size(); ++i) {
      const PartTable::Part& part = (*lowered.fetches)[static_cast<int64_t>(i)];
      const scheduler::TaskId task = graph.block(part.block).producer;
      if (asked[i] || task < 0 || !needed[static_cast<size_t>(task)]) continue;
      asked[i] = true;
      wanted[static_cast<size_t>(part.owner)].push_back(part.key);
    }
    constexpr auto kBytes = static_cast<int64_t>(sizeof(BlockKey));
    std::vector<int64_t> send_bytes(ranks), all_bytes(ranks * ranks), receive_bytes(ranks);
    std::vector<BlockKey> sent;
    for (size_t r = 0; r < ranks; ++r) {
      send_bytes[r] = std::ssize(wanted[r]) * kBytes;
      sent.insert(sent.end(), wanted[r].begin(), wanted[r].end());
    }
    communicator.all_gather(send_bytes.data(), std::ssize(send_bytes) * static_cast<int64_t>(sizeof(int64_t)),
                            all_bytes.data());
    if (std::ranges::all_of(all_bytes, [](int64_t bytes) { return bytes == 0; })) break;
    int64_t incoming = 0;
    for (size_t r = 0; r < ranks; ++r) {
      receive_bytes[r] = all_bytes[r * ranks + static_cast<size_t>(communicator.rank())];
      incoming += receive_bytes[r];
    }
    std::vector<BlockKey> received(static_cast<size_t>(incoming / kBytes));
    communicator.all_to_all(sent.data(), send_bytes, received.data(), receive_bytes);
    for (const BlockKey& key : received)
      if (const auto block = lowered.blocks.find(key)) need(graph.block(*block).producer);  // else of a stored array
  }
  graph.keep_only(needed);
}

void exchange_fetches(Lowered& lowered, comm::Communicator& communicator, Service& service) {
  // What this rank fetches, as (stage, part, chunk, times) per owner.
  struct Announcement {
    uint32_t stage, part;
    int64_t chunk, times;
    bool operator<(const Announcement& other) const {
      return std::tie(stage, part, chunk) < std::tie(other.stage, other.part, other.chunk);
    }
  };
  const int ranks = communicator.size();
  std::vector<std::vector<Announcement>> out(static_cast<size_t>(ranks)), in(static_cast<size_t>(ranks));
  for (int64_t i = 0; i < (lowered.fetches ? lowered.fetches->size() : 0); ++i) {
    const auto& [key, owner, hyperslab, block] = (*lowered.fetches)[i];
    if (lowered.graph.block(block).producer < 0) continue;  // drop_unneeded()
    out[static_cast<size_t>(owner)].push_back({key.stage, key.part, key.chunk, 1});
  }
  std::vector<int64_t> sizes(static_cast<size_t>(ranks)),
      all_sizes(static_cast<size_t>(ranks) * static_cast<size_t>(ranks));
  for (size_t r = 0; r < out.size(); ++r) {
    std::ranges::sort(out[r], std::less<>());
    size_t kept = 0;
    for (const Announcement& a : out[r]) {
      if (kept > 0 && !(out[r][kept - 1] < a)) {
        ++out[r][kept - 1].times;
      } else {
        out[r][kept++] = a;
      }
    }
    out[r].resize(kept);
    sizes[r] = static_cast<int64_t>(kept);
  }
  communicator.all_gather(sizes.data(), ranks * static_cast<int64_t>(sizeof(int64_t)), all_sizes.data());
  constexpr uint64_t kTag = 0x6665746368;  // "fetch"
  std::vector<std::unique_ptr<comm::Request>> requests;
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<size_t>(r);
    in[i].resize(
        static_cast<size_t>(all_sizes[i * static_cast<size_t>(ranks) + static_cast<size_t>(communicator.rank())]));
    if (r == communicator.rank()) continue;
    if (!in[i].empty())
      requests.push_back(
          communicator.receive(in[i].data(), static_cast<int64_t>(in[i].size() * sizeof(Announcement)), r, kTag));
    if (!out[i].empty())
      requests.push_back(
          communicator.send(out[i].data(), static_cast<int64_t>(out[i].size() * sizeof(Announcement)), r, kTag));
  }
  for (const auto& request : requests) request->wait();
  std::unordered_map<BlockKey, int64_t, BlockKeyHash> readers;
  for (const auto& from : in)
    for (const Announcement& a : from) readers[{a.stage, a.part, a.chunk}] += a.times;
  std::unordered_map<scheduler::BlockId, int64_t> per_block;  // one block may go by two keys
  for (const auto& [key, times] : readers) {
    const scheduler::BlockId block = block_of(lowered, key);
    per_block[block] += times;
    service.expose(key, block);
  }
  for (const auto& [block, times] : per_block) lowered.graph.set_remote_readers(block, static_cast<int32_t>(times));
}

}  // namespace quarry::exec
