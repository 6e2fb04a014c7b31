// M. E. O'Neill's seed_seq_fe ("Developing a seed_seq alternative", 2015) with the constants of NumPy's SeedSequence:
// multiplicative hashes with a multiplier that changes from word to word, all to all between the words of a pool.
#include "quarry/local/ops/random/seed_sequence.h"

#include <random>

#include "quarry/local/base/detail.h"
#include "quarry/local/base/error.h"

namespace quarry::local {

namespace {

constexpr int kShift = 16;
constexpr int kWordBits = 32;
constexpr size_t kLeastPool = 4;

// Words and the multiplier that goes on with each of them.
class Hash {
 public:
  Hash(uint32_t first, uint32_t multiplier) : constant_(first), multiplier_(multiplier) {}
  uint32_t operator()(uint32_t value) {
    value ^= constant_;
    constant_ *= multiplier_;
    value *= constant_;
    return value ^ value >> kShift;
  }

 private:
  uint32_t constant_, multiplier_;
};
Hash hash_of_entropy() { return {0x43b0d7e5, 0x931e8875}; }
Hash hash_of_output() { return {0x8b51f9dd, 0x58f38ded}; }

uint32_t mix(uint32_t x, uint32_t y) {
  const uint32_t mixed = 0xca01f9ddu * x - 0x4973f715u * y;
  return mixed ^ mixed >> kShift;
}

SeedSequence::Words words_of_all(std::span<const uint64_t> values) {
  SeedSequence::Words words;
  for (const uint64_t value : values) {
    for (const uint32_t word : SeedSequence::words_of(value)) words.push_back(word);
  }
  return words;
}

SeedSequence::Parts random_parts() {
  std::random_device device;
  SeedSequence::Parts parts;
  for (size_t i = 0; i < kLeastPool; ++i) parts.entropy.push_back(device());
  return parts;
}

void check_count(int64_t count, const char* what) {
  if (count < 0) throw InvalidArgument(std::string(what) + " must not be negative, found " + std::to_string(count));
}

}  // namespace

SeedSequence::SeedSequence() : SeedSequence(random_parts()) {}
SeedSequence::SeedSequence(std::initializer_list<uint64_t> entropy) : SeedSequence(std::vector<uint64_t>(entropy)) {}
SeedSequence::SeedSequence(const std::vector<uint64_t>& entropy, const std::vector<uint64_t>& spawn_key)
    : SeedSequence(Parts{words_of_all(entropy), words_of_all(spawn_key)}) {}

SeedSequence::SeedSequence(Parts parts) : parts_(std::move(parts)) {
  if (parts_.pool_size < static_cast<int64_t>(kLeastPool)) {
    throw InvalidArgument("The size of the entropy pool should be at least 4, found " +
                          std::to_string(parts_.pool_size));
  }
  constexpr int64_t kMostPool = 1 << 12;  // mixing costs its square
  if (parts_.pool_size > kMostPool)
    throw InvalidArgument("the entropy pool has at most " + std::to_string(kMostPool) + " words, not " +
                          std::to_string(parts_.pool_size));
  check_count(parts_.children, "n_children_spawned");
  // Zeros keep the key of a child apart from the entropy, so that no two sequences have the same words.
  const auto size = static_cast<size_t>(parts_.pool_size);
  Words words = parts_.entropy;
  if (!parts_.spawn_key.empty() && words.size() < size) words.resize(size, 0);
  words.insert(words.end(), parts_.spawn_key.begin(), parts_.spawn_key.end());

  Hash hash = hash_of_entropy();
  for (size_t i = 0; i < size; ++i) pool_.push_back(hash(i < words.size() ? words[i] : 0));
  for (size_t from = 0; from < size; ++from) {
    for (size_t to = 0; to < size; ++to) {
      if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
    }
  }
  for (size_t from = size; from < words.size(); ++from) {
    for (uint32_t& word : pool_) word = mix(word, hash(words[from]));
  }
}

SeedSequence::Words SeedSequence::words_of(uint64_t value) {
  Words words{static_cast<uint32_t>(value)};
  if (value >> kWordBits != 0) words.push_back(static_cast<uint32_t>(value >> kWordBits));
  return words;
}

std::vector<uint32_t> SeedSequence::generate_state(int64_t count) const {
  check_count(count, "generate_state(): n_words");
  Hash hash = hash_of_output();
  std::vector<uint32_t> state;
  state.reserve(static_cast<size_t>(count));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) state.push_back(hash(pool_[i % pool_.size()]));
  return state;
}

std::vector<uint64_t> SeedSequence::generate_state_64(int64_t count) const {
  check_count(count, "generate_state(): n_words");
  const std::vector<uint32_t> words = generate_state(2 * count);
  std::vector<uint64_t> state;
  for (size_t i = 0; i < words.size(); i += 2) state.push_back(words[i] | uint64_t{words[i + 1]} << kWordBits);
  return state;
}

std::vector<SeedSequence> SeedSequence::spawn(int64_t count) {
  check_count(count, "spawn(): n_children");
  std::vector<SeedSequence> result;
  for (int64_t i = 0; i < count; ++i) {
    Parts parts = parts_;
    parts.children = 0;
    for (const uint32_t word : words_of(static_cast<uint64_t>(parts_.children++))) parts.spawn_key.push_back(word);
    result.emplace_back(std::move(parts));
  }
  return result;
}

}  // namespace quarry::local
