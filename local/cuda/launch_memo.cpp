#include "quarry/local/cuda/launch_memo.h"

#include <algorithm>
#include <functional>

namespace quarry::local::cuda {
namespace {

// A plan knows of an address only whether wide accesses are aligned.
uintptr_t misalignment(const Operand& operand) { return reinterpret_cast<uintptr_t>(operand.data) % kVectorBytes; }

bool same(const std::vector<Operand>& a, const std::vector<Operand>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Operand& x, const Operand& y) {
    return misalignment(x) == misalignment(y) && x.strides == y.strides;
  });
}

}  // namespace

bool same_geometry(const Launch& a, const Launch& b) {
  return a.reduce_axes == b.reduce_axes && a.shape == b.shape && same(a.inputs, b.inputs) &&
         same(a.outputs, b.outputs) && same(a.states, b.states);
}

size_t LaunchMemo::place(const std::string& key, const Launch& launch, int device) {
  size_t hash = std::hash<std::string>()(key) + static_cast<size_t>(device);
  const auto mix = [&hash](int64_t value) {
    constexpr size_t kFactor = 0x9e3779b97f4a7c15;
    hash = (hash ^ static_cast<size_t>(value)) * kFactor;
  };
  for (const int64_t extent : launch.shape) mix(extent);
  for (const std::vector<Operand>* operands : {&launch.inputs, &launch.outputs, &launch.states})
    for (const Operand& operand : *operands) {
      for (const int64_t stride : operand.strides) mix(stride);
      mix(static_cast<int64_t>(misalignment(operand)));
    }
  return hash >> 32 & (kEntries - 1);
}

LaunchMemo::Entry* LaunchMemo::find(const std::string& key, const Program& program, const Launch& launch, int device) {
  Entry* entry = entries_[place(key, launch, device)].get();
  if (entry == nullptr || entry->device != device || entry->key != key || !same_geometry(entry->launch, launch))
    return nullptr;
  entry->plan.slots.refresh(program, launch);
  entry->plan.merge_slots.refresh(program, launch);
  return entry;
}

LaunchMemo::Entry& LaunchMemo::keep(Entry entry) {
  std::unique_ptr<Entry>& place_of = entries_[place(entry.key, entry.launch, entry.device)];
  place_of = std::make_unique<Entry>(std::move(entry));
  return *place_of;
}

}  // namespace quarry::local::cuda
