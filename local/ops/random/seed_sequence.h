// NumPy's SeedSequence: entropy of any length becomes as many well mixed words as are wanted, and seeds that depend on
// each other in no visible way. The words are NumPy's, bit by bit.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace quarry::local {

class SeedSequence {
 public:
  using Words = std::vector<uint32_t>;  // of a large integer the lowest first

  // 128 bits of entropy from the operating system.
  SeedSequence();
  // An integer, or several in a row: SeedSequence({1, 2}) is NumPy's SeedSequence([1, 2]).
  explicit SeedSequence(uint64_t entropy) : SeedSequence(std::vector<uint64_t>{entropy}) {}
  explicit SeedSequence(std::initializer_list<uint64_t> entropy);
  explicit SeedSequence(const std::vector<uint64_t>& entropy, const std::vector<uint64_t>& spawn_key = {});
  // The words of all integers of the entropy and of the key. A pool of fewer than four words and a negative count of
  // children throw InvalidArgument.
  struct Parts {
    Words entropy, spawn_key;
    int64_t pool_size = 4;
    int64_t children = 0;  // made already
  };
  explicit SeedSequence(Parts parts);
  // The words of an integer as NumPy counts them: one for 0.
  static Words words_of(uint64_t value);

  std::vector<uint32_t> generate_state(int64_t count) const;
  std::vector<uint64_t> generate_state_64(int64_t count) const;
  // Sequences with this one's entropy and a key of one more number, the count of children made before. Throws
  // InvalidArgument for a negative number.
  std::vector<SeedSequence> spawn(int64_t count);

  const Words& entropy() const { return parts_.entropy; }
  const Words& spawn_key() const { return parts_.spawn_key; }
  int64_t pool_size() const { return parts_.pool_size; }
  int64_t children() const { return parts_.children; }  // made so far
  std::span<const uint32_t> pool() const { return pool_; }

 private:
  Parts parts_;
  Words pool_;
};

}  // namespace quarry::local
