// A target of tests/fuzz/targets under libFuzzer; scripts/fuzz builds and runs it. Options of libFuzzer's come besides.
//
// usage: fuzz_target --target=NAME [OPTION...] [FOLDER|FILE...]
//        fuzz_target --list
//        fuzz_target --target=NAME --seeds=FOLDER
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include "quarry/io/hdf5/parse/checksum.h"
#include "tests/fuzz/mutants.h"
#include "tests/fuzz/read_all.h"
#include "tests/fuzz/targets/target.h"

// libFuzzer's names.
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed);
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using namespace quarry;

constexpr size_t kChecksumBytes = 4;

const test::Target* chosen = nullptr;

std::span<const std::byte> bytes_of(const uint8_t* data, size_t size) { return std::as_bytes(std::span(data, size)); }

// The last input, and what was read of it: libFuzzer mostly goes on with what it has just run.
struct Run {
  struct Range {
    size_t at, bytes;
  };
  std::vector<std::byte> input;
  std::vector<Range> reads;
};
Run last;

void run(std::span<const std::byte> input) {
  std::vector<std::span<const std::byte>> reads;
  if (chosen->checked) test::recorded_reads = &reads;
  chosen->run(input);
  test::recorded_reads = nullptr;
  if (!chosen->checked) return;
  last.input.assign(input.begin(), input.end());
  last.reads.clear();
  for (const auto& read : reads)  // others are of copies
    if (read.data() >= input.data() && read.data() + read.size() <= input.data() + input.size())
      last.reads.push_back({static_cast<size_t>(read.data() - input.data()), read.size()});
}

bool is_checked(std::span<const std::byte> block) {
  constexpr size_t kLeastBytes = 8;
  if (block.size() < kLeastBytes) return false;
  uint32_t stated = 0;
  std::memcpy(&stated, block.data() + block.size() - kChecksumBytes, kChecksumBytes);
  return io::hdf5::metadata_checksum(block.first(block.size() - kChecksumBytes)) == stated;
}

[[noreturn]] void write_seeds(const std::string& folder) {
  int number = 0;
  for (const auto& seed : chosen->seeds()) test::save(folder + "/seed-" + std::to_string(number++), seed);
  std::exit(0);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::string seeds;
  for (int i = 1; i < *argc; ++i) {
    const std::string word = (*argv)[i];
    if (word == "--list") {
      for (const test::Target& target : test::targets()) std::puts(std::string(target.name).c_str());
      std::exit(0);
    }
    if (word.starts_with("--seeds=")) seeds = word.substr(word.find('=') + 1);
    if (!word.starts_with("--target=")) continue;
    for (const test::Target& target : test::targets())
      if (target.name == word.substr(word.find('=') + 1)) chosen = &target;
  }
  if (!chosen) {
    std::fputs("fuzz_target: --target=NAME must name one of --list\n", stderr);
    std::exit(2);
  }
  if (!seeds.empty()) write_seeds(seeds);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run(bytes_of(data, size));
  return 0;
}

// Damage by intent makes checksums right, and chance never does: blocks whose checksum was right keep a right one, in
// most mutants, and most of the changes are made inside of one of them.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  if (!chosen->checked) return LLVMFuzzerMutate(data, size, most);
  std::minstd_rand random(seed);
  if (!std::ranges::equal(bytes_of(data, size), last.input)) run(bytes_of(data, size));
  std::vector<Run::Range> blocks;
  for (const Run::Range& read : last.reads)
    if (is_checked(bytes_of(data + read.at, read.bytes))) blocks.push_back(read);
  if (blocks.empty() || random() % 8 == 0) return LLVMFuzzerMutate(data, size, most);
  if (random() % 4 == 0) {
    size = LLVMFuzzerMutate(data, size, most);
  } else {
    // What becomes shorter keeps its end.
    const Run::Range& block = blocks[random() % blocks.size()];
    const size_t content = block.bytes - kChecksumBytes;
    LLVMFuzzerMutate(data + block.at, content, content);
  }
  for (const Run::Range& block : blocks) {
    if (block.at + block.bytes > size) continue;
    const uint32_t sum = io::hdf5::metadata_checksum(bytes_of(data + block.at, block.bytes - kChecksumBytes));
    std::memcpy(data + block.at + block.bytes - kChecksumBytes, &sum, kChecksumBytes);
  }
  return size;
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
