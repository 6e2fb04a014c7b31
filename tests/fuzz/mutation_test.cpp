// Damaged files: seeded changes of a few bytes in small files, truncation, and the parsers on noise. Whatever the
// bytes, quarry ends with data or a typed error. Each batch of files is opened in a child process, so that a crash in
// the HDF5 library or in quarry is found and named by its seed instead of ending the tests.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "quarry/io/hdf5/parse/checksum.h"
#include "quarry/io/hdf5/parse/chunk_index.h"
#include "quarry/io/hdf5/parse/metadata.h"
#include "quarry/io/hdf5/parse/object.h"
#include "tests/fuzz/mutants.h"
#include "tests/fuzz/read_all.h"
#include "tests/fuzz/samples.h"
#include "tests/support/source_file.h"
#include "tests/unit/io/hdf5/io_test.h"

// The HDF5 library asks for as much memory as a damaged heap states and copes with getting none, as malloc() does but
// AddressSanitizer by default does not.
// NOLINTBEGIN(bugprone-reserved-identifier): the name is AddressSanitizer's
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
// NOLINTEND(bugprone-reserved-identifier)

namespace quarry::io {
namespace {

using test::checked_bytes;
using test::compare_parts;
using test::IndexedFile;
using test::IndexedKind;
using test::kNewerKinds;
using test::load;
using test::make_samples;
using test::Memory;
using test::Original;
using test::save;
using test::use_file;

// Beyond what the process has: data that is read, blocks of chunks, and 64 MiB for whatever else.
constexpr int64_t kMoreBytes = 128 << 20;

// Runs the seeds in [first, last) in a child; returns the seed at which it died, or -1.
int64_t run_batch(const Original& original, const std::string& place, unsigned first, unsigned last) {
  int channel[2];
  if (::pipe(channel) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(channel[0]);
    const int quiet = ::open("/dev/null", O_WRONLY);
    ::dup2(quiet, 2);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    test::limit_memory(kMoreBytes);
    for (unsigned seed = first; seed < last; ++seed) {
      ::alarm(10);  // a file that hangs ends the child
      if (::write(channel[1], &seed, sizeof seed) != sizeof seed) ::_exit(3);
      save(place, original.mutated(seed));
      use_file(place);
    }
    ::_exit(0);
  }
  ::close(channel[1]);
  unsigned last_seed = first;
  while (::read(channel[0], &last_seed, sizeof last_seed) == sizeof last_seed) {
  }
  ::close(channel[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? -1 : static_cast<int64_t>(last_seed);
}

void run_mutations(bool latest, hsize_t user_block, unsigned count) {
  const test::TempDir dir;
  const std::string sample = dir / "sample.h5", place = dir / "mutated.h5";
  make_samples(sample, latest, user_block);
  const Original original(load(sample));
  EXPECT_EQ(use_file(sample).read, 9);
  if (const char* more = std::getenv("QUARRY_FUZZ_ITERATIONS")) count = static_cast<unsigned>(std::atoi(more));
  if (const char* only = std::getenv("QUARRY_FUZZ_SEED")) {  // in this process, for a debugger
    const Bytes bytes = original.mutated(static_cast<unsigned>(std::atoi(only)));
    for (size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != original.bytes()[i])
        std::printf("byte %zu: %02x to %02x\n", i, std::to_integer<unsigned>(original.bytes()[i]),
                    std::to_integer<unsigned>(bytes[i]));
    std::fflush(stdout);
    save(place, bytes);
    use_file(place);
    return;
  }
  int deaths = 0;
  // A slow machine does fewer.
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(std::getenv("QUARRY_FUZZ_ITERATIONS") ? 3600 : 15);
  for (unsigned seed = 0; seed < count && deaths < 20 && std::chrono::steady_clock::now() < end;) {
    const unsigned last = std::min(seed + 250, count);
    const int64_t died = run_batch(original, place, seed, last);
    if (died < 0) {
      seed = last;
      continue;
    }
    ADD_FAILURE() << "seed " << died << " ended the process";
    ++deaths;
    seed = static_cast<unsigned>(died) + 1;
  }
}

// Files that others wrote, each in as many variants as the time allows.
TEST(MutationTest, FilesOfTheHdfGroup) {
  namespace fs = std::filesystem;
  const char* const named = std::getenv("QUARRY_TEST_DATA");
  const fs::path data = named ? fs::path(named) : test::source_file("../shared/data");
  if (!fs::exists(data / "hdf5/hdfgroup")) GTEST_SKIP() << "needs ../shared/data (hdf5/hdfgroup)";
  const char* const more = std::getenv("QUARRY_FUZZ_ITERATIONS");
  const unsigned count = more ? static_cast<unsigned>(std::atoi(more)) : 2;
  const char* const only = std::getenv("QUARRY_FUZZ_SEED");
  const test::TempDir dir;
  const std::string place = dir / "mutated.h5";
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(data / "hdf5/hdfgroup"))
    if (entry.path().extension() == ".h5") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const Original original(load(file.string()));
    if (original.bytes().empty()) continue;
    if (only) {
      std::printf("%s\n", file.c_str());
      std::fflush(stdout);
      save(place, original.mutated(static_cast<unsigned>(std::atoi(only))));
      use_file(place);
      continue;
    }
    for (unsigned seed = 0; seed < count;) {
      const int64_t died = run_batch(original, place, seed, count);
      if (died < 0) break;
      ADD_FAILURE() << "seed " << died << " of " << file << " ended the process";
      seed = static_cast<unsigned>(died) + 1;
    }
  }
}

TEST(MutationTest, OlderFormat) { run_mutations(false, 0, 3000); }
TEST(MutationTest, UserBlock) { run_mutations(false, 512, 500); }
TEST(MutationTest, NewerFormat) { run_mutations(true, 0, 500); }

void put(Bytes& bytes, size_t at, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) bytes.at(at + static_cast<size_t>(i)) = static_cast<std::byte>(value >> 8 * i);
}

// A B-tree node of a two-dimensional chunk index.
void put_node(Bytes& bytes, size_t at, int level, const std::vector<std::array<uint64_t, 5>>& entries) {
  std::memcpy(bytes.data() + at, "TREE", 4);
  put(bytes, at + 4, 1, 1);
  put(bytes, at + 5, static_cast<uint64_t>(level), 1);
  put(bytes, at + 6, entries.size(), 2);
  size_t to = at + 24;
  for (const auto& [stored, mask, row, column, child] : entries) {
    put(bytes, to, stored, 4);
    put(bytes, to + 4, mask, 4);
    put(bytes, to + 8, row, 8);
    put(bytes, to + 16, column, 8);
    put(bytes, to + 32, child, 8);
    to += 40;
  }
}

hdf5::IndexPlace place_of(int64_t root = 0) {
  hdf5::LayoutMessage layout;
  layout.kind = hdf5::LayoutMessage::Kind::chunked;
  layout.address = root;
  layout.chunk = {4, 4};
  return {{}, layout, {.shape = {8, 8}, .limits = {8, 8}, .chunk_bytes = 64}};
}
hdf5::ChunkIndex parse(const Bytes& bytes, int64_t root = 0) {
  return hdf5::read_chunk_index(Memory(bytes), place_of(root));
}

TEST(ChunkIndexTest, ReadsATreeAndRefusesDamagedOnes) {
  Bytes good(2048);
  put_node(good, 0, 1, {{64, 0, 0, 0, 512}, {64, 0, 4, 0, 1024}});
  put_node(good, 512, 0, {{64, 0, 0, 0, 1600}, {64, 0, 0, 4, 1664}});
  put_node(good, 1024, 0, {{64, 0, 4, 4, 1728}});
  const hdf5::ChunkIndex index = parse(good);
  EXPECT_EQ(index.count(), 3);
  EXPECT_EQ(index.find(1)->address, 1664);
  EXPECT_EQ(index.find(2), std::nullopt);
  EXPECT_EQ(index.stored_bytes(), 192);

  const auto refuses = [&](const char* what, const std::function<void(Bytes&)>& change, int64_t root = 0) {
    Bytes bad = good;
    change(bad);
    const std::string message = message_of<local::IoError>([&] { parse(bad, root); });
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  refuses(
      "outside of the file", [](Bytes&) {}, 1 << 20);
  refuses(
      "outside of the file", [](Bytes&) {}, -5);
  refuses("TREE", [](Bytes& b) { b[0] = std::byte{'t'}; });
  refuses("another kind", [](Bytes& b) { b[4] = std::byte{0}; });
  refuses("twice", [](Bytes& b) { put(b, 24 + 32 + 40, 512, 8); });                  // one child for two keys
  refuses("twice", [](Bytes& b) { put(b, 24 + 32, 0, 8); });                         // a cycle
  refuses("level", [](Bytes& b) { b[512 + 5] = std::byte{3}; });                     // children go down by one
  refuses("outside of the file", [](Bytes& b) { put(b, 512 + 24 + 32, 2000, 8); });  // a chunk past the end
  refuses("wild address", [](Bytes& b) { put(b, 512 + 24 + 32, ~uint64_t{0} - 9, 8); });
  refuses("instead of", [](Bytes& b) { put(b, 512 + 24, 65, 4); });  // stored bytes
  refuses("multiple", [](Bytes& b) { put(b, 512 + 24 + 8, 1, 8); });
  refuses("stored twice", [](Bytes& b) { put(b, 1024 + 24 + 8, 0, 8); });
  refuses("file", [](Bytes& b) { put(b, 6, 0xffff, 2); });  // entries past the end
  // Chunks outside of the shape are of a data set that has shrunk.
  Bytes shrunk = good;
  put(shrunk, 1024 + 24 + 8, 8, 8);
  EXPECT_EQ(parse(shrunk).count(), 2);
}

// The bitmap of a fixed array may say that a page is there that would begin beyond 64 bits.
TEST(ChunkIndexTest, RefusesPagesBeyond64Bits) {
  constexpr int64_t kPage = int64_t{1} << 40, kPages = 450000, kElementBytes = 8 + 8 + 4;
  constexpr size_t kHead = 4 + 1 + 1 + 1 + 1 + 8 + 8, kBlock = 64;
  constexpr size_t kBlockBytes = 4 + 1 + 1 + 8 + kPages / 8;
  Bytes file(kBlock + kBlockBytes + 4);
  std::memcpy(file.data(), "FAHD", 4);
  put(file, 5, /*filtered=*/1, 1);
  put(file, 6, kElementBytes, 1);
  put(file, 7, /*page_bits=*/40, 1);
  put(file, 8, kPages * kPage, 8);
  put(file, 16, kBlock, 8);
  put(file, kHead, hdf5::metadata_checksum(std::span(file).first(kHead)), 4);
  std::memcpy(file.data() + kBlock, "FADB", 4);
  put(file, kBlock + 5, 1, 1);
  file[kBlock + kBlockBytes - 1] = std::byte{1};  // the last page
  put(file, kBlock + kBlockBytes, hdf5::metadata_checksum(std::span(file).subspan(kBlock, kBlockBytes)), 4);
  hdf5::IndexPlace place = place_of();
  place.layout.index = hdf5::LayoutMessage::Index::fixed_array;
  place.layout.chunk = {1};
  place.data = {.shape = {kPages * kPage}, .limits = {kPages * kPage}, .chunk_bytes = 1, .filtered = true};
  const std::string message = message_of<local::IoError>([&] { hdf5::read_chunk_index(Memory(file), place); });
  EXPECT_NE(message.find("a chunk index of wild size"), std::string::npos) << message;
}

// Entries of any kind, by number or not, are found again, also after a way through bytes.
TEST(ChunkIndexTest, FindsWhatWasAdded) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int64_t chunks = seed < 6 ? seed : 1 + static_cast<int64_t>(random() % 400);
    const bool missing = seed % 3 == 1, in_row = seed % 4 == 0, filtered = !in_row;
    const local::Dims shape{chunks}, chunk{1};
    std::vector<hdf5::ChunkEntry> entries;
    int64_t address = 4096;
    for (int64_t i = 0; i < chunks; ++i) {
      if (missing && random() % 3 == 0) continue;
      const auto bytes = static_cast<uint32_t>(filtered ? 1 + random() % 5000 : 512);
      if (filtered && random() % 8 == 0) address += static_cast<int64_t>(random() % 100000) - 2000;
      entries.push_back({i, address, bytes, filtered ? static_cast<uint32_t>(random() % 4) : 0});
      address += bytes;
    }
    std::vector<hdf5::ChunkEntry> added = entries;
    if (seed % 5 == 2) std::ranges::shuffle(added, random);
    hdf5::ChunkIndex::Maker maker(shape, chunk);
    for (const hdf5::ChunkEntry& entry : added) maker.add(entry);
    const hdf5::ChunkIndex made = maker.take();
    ByteWriter out;
    made.serialize(out);
    const std::string bytes = out.take();
    ByteReader in(bytes);
    const hdf5::ChunkIndex sent = hdf5::ChunkIndex::deserialize(in, shape, chunk);
    EXPECT_EQ(in.left(), 0u);
    for (const hdf5::ChunkIndex* index : {&made, &sent}) {
      ASSERT_EQ(index->count(), std::ssize(entries));
      std::vector<hdf5::ChunkEntry> found;
      index->for_each([&](const hdf5::ChunkEntry& entry) { found.push_back(entry); });
      ASSERT_EQ(found, entries) << seed;
      size_t next = 0;
      int64_t stored = 0, largest = 0;
      for (int64_t i = 0; i < chunks; ++i) {
        const bool is_there = next < entries.size() && entries[next].number == i;
        ASSERT_EQ(index->find(i), is_there ? std::optional(entries[next]) : std::nullopt) << seed << ": " << i;
        if (!is_there) continue;
        stored += entries[next].bytes;
        largest = std::max<int64_t>(largest, entries[next++].bytes);
      }
      EXPECT_EQ(index->stored_bytes(), stored);
      EXPECT_EQ(index->largest(), largest);
    }
    if (in_row && !missing && chunks > 0) {
      EXPECT_LE(made.memory_bytes() + sent.memory_bytes(), 32);  // inside of the objects
    }
    EXPECT_LE(made.memory_bytes(), 10 * made.count() + 64);
  }
}

TEST(ChunkIndexTest, SurvivesNoise) {
  Bytes base(4096);
  put_node(base, 0, 1, {{64, 0, 0, 0, 512}, {64, 0, 4, 0, 1024}});
  put_node(base, 512, 0, {{64, 0, 0, 0, 1600}, {64, 0, 0, 4, 1664}});
  put_node(base, 1024, 0, {{64, 0, 4, 4, 1728}});
  int read = 0, in_file = 0;
  for (unsigned seed = 0; seed < 20000; ++seed) {
    std::mt19937 random(seed);
    Bytes bytes = base;
    for (unsigned i = 0; i <= seed % 5; ++i) bytes[random() % 1200] = static_cast<std::byte>(random());
    try {
      read += parse(bytes).count() > 0;
      in_file += compare_parts(Memory(bytes), place_of());
    } catch (const local::IoError&) {
    }
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(in_file, 1000);
}

// The indexes of HDF5 1.10 are guarded by checksums, which damage by intent knows as well: here they are always right.
TEST(ChunkIndexTest, NewerKindsSurviveNoiseWithGoodChecksums) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  for (const IndexedKind& kind : kNewerKinds) {
    const IndexedFile indexed(file, kind);
    const Bytes& base = indexed.bytes;
    std::vector<std::pair<size_t, size_t>> blocks;
    const std::string text(reinterpret_cast<const char*>(base.data()), base.size());
    for (const char* const signature : {"FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB", "BTHD", "BTIN", "BTLF"})
      for (size_t at = text.find(signature); at != std::string::npos; at = text.find(signature, at + 1))
        if (const size_t bytes = checked_bytes(base, at)) blocks.emplace_back(at, bytes);
    ASSERT_GE(blocks.size(), 2u);
    int read = 0, in_file = 0;
    for (unsigned seed = 0; seed < 3000; ++seed) {
      std::mt19937 random(seed);
      Bytes bytes = base;
      for (unsigned i = 0; i <= seed % 3; ++i) {
        const auto [at, size] = blocks[random() % blocks.size()];
        bytes[at + random() % (size - 4)] = static_cast<std::byte>(random() % 4 ? random() : 0xff);
        put(bytes, at + size - 4, hdf5::metadata_checksum(std::span(bytes).subspan(at, size - 4)), 4);
      }
      try {
        const Memory source(bytes);
        const hdf5::IndexPlace place = indexed.place(source);
        read += hdf5::read_chunk_index(source, place).count() > 0;
        if (seed % 10 == 0) in_file += compare_parts(source, place);
      } catch (const local::IoError&) {
      }
    }
    EXPECT_GT(read, 100);
    EXPECT_GT(in_file, kind.filtered || kind.limits[0] < 0 ? 5 : 0);
  }
}

TEST(ObjectHeaderTest, SurvivesNoise) {
  const test::TempDir dir;
  const std::string file = dir / "a.h5";
  make_samples(file, false, 0);
  const Bytes base = load(file);
  // Object headers of version 1 begin with 1, 0, a small count of messages and a reference count of 1.
  std::vector<size_t> headers;
  for (size_t at = 0; at + 16 < base.size(); at += 8)
    if (base[at] == std::byte{1} && base[at + 1] == std::byte{0} && base[at + 4] == std::byte{1} &&
        base[at + 5] == std::byte{0} && base[at + 2] != std::byte{0})
      headers.push_back(at);
  ASSERT_GE(headers.size(), 9u);
  int accepted = 0;
  for (unsigned seed = 0; seed < 20000; ++seed) {
    std::mt19937 random(seed);
    Bytes bytes = base;
    const size_t header = headers[random() % headers.size()];
    for (unsigned i = 0; i <= seed % 4; ++i)
      bytes[std::min(header + random() % 320, bytes.size() - 1)] = static_cast<std::byte>(random());
    try {
      const hdf5::Metadata metadata(std::make_shared<Memory>(bytes));
      hdf5::read_object(metadata, static_cast<int64_t>(header));
      ++accepted;
    } catch (const local::Error&) {
    }
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace quarry::io
