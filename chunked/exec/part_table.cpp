#include "quarry/chunked/exec/part_table.h"

#include <algorithm>
#include <span>

#include "quarry/local/base/error.h"

namespace quarry::exec {
namespace {

uint64_t mixed(uint64_t hash, uint64_t word) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
  hash = (hash ^ word) * kFactor;
  return hash ^ hash >> 32;
}

uint64_t hash_of(std::span<const int64_t> words) {
  uint64_t hash = words.size();
  for (const int64_t word : words) hash = mixed(hash, static_cast<uint64_t>(word));
  return hash;
}

uint64_t hash_of(const BlockKey& key, uint32_t hyperslab) {
  return mixed(mixed(uint64_t{key.stage} << 32 | key.part, static_cast<uint64_t>(key.chunk)), hyperslab);
}

}  // namespace

std::vector<int64_t> HyperslabTable::words_of(const Hyperslab& hyperslab) {
  std::vector<int64_t> words{hyperslab.itemsize, hyperslab.shape.size()};
  for (const local::Dims* const dims : {&hyperslab.shape, &hyperslab.start, &hyperslab.count})
    words.insert(words.end(), dims->begin(), dims->end());
  return words;
}

uint32_t HyperslabTable::add(const Hyperslab& hyperslab) {
  const std::vector<int64_t> words = words_of(hyperslab);
  const auto at = [this](uint32_t number) {
    const auto begin = static_cast<size_t>(begins_[number]);
    const size_t end = number + 1 < begins_.size() ? static_cast<size_t>(begins_[number + 1]) : words_.size();
    return std::span<const int64_t>(words_).subspan(begin, end - begin);
  };
  const auto [number, added] = numbers_.emplace(
      hash_of(words), [&](uint32_t other) { return std::ranges::equal(at(other), words); },
      [&](uint32_t other) { return hash_of(at(other)); });
  if (added) {
    begins_.push_back(static_cast<int64_t>(words_.size()));
    words_.insert(words_.end(), words.begin(), words.end());
  }
  return number;
}

Hyperslab HyperslabTable::operator[](uint32_t number) const {
  const int64_t* word = &words_[static_cast<size_t>(begins_[number])];
  Hyperslab hyperslab;
  hyperslab.itemsize = *word++;
  const int64_t axes = *word++;
  for (local::Dims* const dims : {&hyperslab.shape, &hyperslab.start, &hyperslab.count}) {
    *dims = local::Dims(word, word + axes);
    word += axes;
  }
  return hyperslab;
}

std::pair<int64_t, bool> PartTable::emplace(const BlockKey& key, int owner, const Hyperslab& hyperslab) {
  const uint32_t cut = hyperslabs_.add(hyperslab);
  const auto part = [this](uint32_t number) -> const Part& { return parts_[number]; };
  const auto [number, added] = numbers_.emplace(
      hash_of(key, cut), [&](uint32_t other) { return part(other).key == key && part(other).hyperslab == cut; },
      [&](uint32_t other) { return hash_of(part(other).key, part(other).hyperslab); });
  if (added) parts_.push_back({key, owner, cut, -1});
  return {number, added};
}

void PartTable::set_source(const BlockKey& key, const std::string& label, local::DType dtype) {
  const auto [found, added] = sources_.try_emplace({key.stage, key.part});
  if (added) found->second = {label, dtype};
}

const PartTable::Source& PartTable::source(int64_t part) const {
  const BlockKey& key = (*this)[part].key;
  return sources_.at({key.stage, key.part});
}

}  // namespace quarry::exec
