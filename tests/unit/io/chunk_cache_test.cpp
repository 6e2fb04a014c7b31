// Decoded chunks are kept for the reads that want other parts of them, within a limit, and each is decoded once where
// they fit.
#include "quarry/io/chunk_cache.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

using test::H5File;
using State = CachedChunks::Hold::State;
using Box = CachedChunks::Box;

constexpr int64_t kChunkBytes = 1024;

Box rows(int64_t begin, int64_t end) { return {{begin, 0}, {end, 10}, {10, 10}}; }
Box columns(int64_t begin, int64_t end) { return {{0, begin}, {10, end}, {10, 10}}; }

// Reads a part of a chunk; whether it had to be decoded.
bool read(CachedChunks& chunks, int64_t number, const Box& box) {
  CachedChunks::Hold hold = chunks.take(number, box, /*wait=*/true);
  if (hold.state() == State::ready) return false;
  if (hold.state() == State::open) hold.publish();
  return true;
}

TEST(ChunkCache, AChunkStaysUntilAllOfItWasRead) {
  const auto cache = std::make_shared<ChunkCache>(10 * kChunkBytes);
  const auto chunks = cache->add(kChunkBytes, /*chunks=*/100, {});
  EXPECT_FALSE(chunks->wants(7, rows(0, 10)));
  EXPECT_TRUE(chunks->wants(7, rows(0, 4)));
  EXPECT_TRUE(read(*chunks, 7, rows(0, 4)));
  EXPECT_FALSE(read(*chunks, 7, rows(4, 6)));
  EXPECT_FALSE(read(*chunks, 7, rows(6, 10)));
  EXPECT_TRUE(read(*chunks, 7, rows(0, 4)));
  EXPECT_LE(cache->used_bytes(), 2 * kChunkBytes);
}

TEST(ChunkCache, SeveralPassesReadAChunkOnce) {
  const auto cache = std::make_shared<ChunkCache>(10 * kChunkBytes);
  const auto chunks = cache->add(kChunkBytes, /*chunks=*/100, {.together = 1, .in_all = 3});
  EXPECT_TRUE(chunks->wants(7, rows(0, 10)));
  for (int pass = 0; pass < 3; ++pass)
    for (int64_t chunk = 0; chunk < 10; ++chunk) EXPECT_EQ(read(*chunks, chunk, rows(0, 10)), pass == 0);
  EXPECT_TRUE(read(*chunks, 0, rows(0, 10)));
}

TEST(ChunkCache, OfAPassThatDoesNotFitAPartStays) {
  constexpr int64_t kChunks = 40, kFit = 10;
  const auto cache = std::make_shared<ChunkCache>(kFit * kChunkBytes);
  const auto chunks = cache->add(kChunkBytes, kChunks, {.together = 1, .in_all = 5});
  for (int pass = 0; pass < 5; ++pass) {
    int64_t decoded = 0;
    for (int64_t chunk = 0; chunk < kChunks; ++chunk) decoded += read(*chunks, chunk, rows(0, 10)) ? 1 : 0;
    EXPECT_EQ(decoded, pass == 0 ? kChunks : kChunks - kFit) << pass;
    EXPECT_LE(cache->used_bytes(), kFit * kChunkBytes);
  }
}

TEST(ChunkCache, WhatIsWantedSoonerStays) {
  const auto cache = std::make_shared<ChunkCache>(2 * kChunkBytes);
  const auto chunks = cache->add(kChunkBytes, /*chunks=*/100, {});
  EXPECT_TRUE(read(*chunks, 0, rows(0, 4)));  // the next row of chunks wants the rest
  EXPECT_TRUE(read(*chunks, 1, rows(0, 4)));
  EXPECT_TRUE(read(*chunks, 2, columns(0, 4)));  // the next task
  EXPECT_FALSE(read(*chunks, 2, columns(4, 7)));
  EXPECT_FALSE(read(*chunks, 0, rows(4, 5)));
  EXPECT_TRUE(read(*chunks, 1, rows(4, 5)));
}

TEST(ChunkCache, WhatNobodyAsksForMakesWay) {
  const auto cache = std::make_shared<ChunkCache>(kChunkBytes);
  const auto chunks = cache->add(kChunkBytes, /*chunks=*/1000, {});
  EXPECT_TRUE(read(*chunks, 0, columns(0, 4)));  // the rest is never read
  int64_t decoded = 0;
  for (int64_t chunk = 1; chunk < 200; ++chunk)
    for (int part = 0; part < 2; ++part) decoded += read(*chunks, chunk, columns(5 * part, 5 * part + 5)) ? 1 : 0;
  EXPECT_LT(decoded, 199 + 40);
}

TEST(ChunkCache, AFailedReadLetsTheNextOneTry) {
  const auto cache = std::make_shared<ChunkCache>(10 * kChunkBytes);
  const auto chunks = cache->add(kChunkBytes, /*chunks=*/100, {});
  std::atomic<bool> decodes{false};
  std::thread other;
  {
    const CachedChunks::Hold hold = chunks->take(3, rows(0, 4), /*wait=*/true);
    ASSERT_EQ(hold.state(), State::open);
    EXPECT_EQ(chunks->take(3, rows(4, 5), /*wait=*/false).state(), State::busy);
    other = std::thread([&] { decodes = read(*chunks, 3, rows(4, 5)); });
  }
  other.join();
  EXPECT_TRUE(decodes);
}

TEST(ChunkCache, WhatIsReclaimedIsNoLongerThere) {
  const auto cache = std::make_shared<ChunkCache>(4 * kChunkBytes);
  const auto chunks = cache->add(kChunkBytes, /*chunks=*/100, {.together = 1, .in_all = 9});
  EXPECT_TRUE(read(*chunks, 0, columns(0, 4)));  // wanted soon
  EXPECT_TRUE(read(*chunks, 1, rows(0, 10)));
  EXPECT_EQ(cache->reclaim(2 * kChunkBytes), 2 * kChunkBytes);  // room
  EXPECT_FALSE(read(*chunks, 1, rows(0, 10)));
  EXPECT_EQ(cache->reclaim(100), 100);  // the whole of the one that waits longest
  EXPECT_EQ(cache->used_bytes(), kChunkBytes);
  EXPECT_FALSE(read(*chunks, 0, columns(4, 6)));
  EXPECT_TRUE(read(*chunks, 1, rows(0, 10)));  // for itself: nothing fits beside the other
  {
    const CachedChunks::Hold hold = chunks->take(0, columns(6, 8), /*wait=*/true);
    ASSERT_EQ(hold.state(), State::ready);
    EXPECT_EQ(cache->reclaim(4 * kChunkBytes), kChunkBytes - 100);  // a read is at the other one
    EXPECT_EQ(cache->limit_bytes(), kChunkBytes);
  }
  EXPECT_EQ(cache->reclaim(4 * kChunkBytes), kChunkBytes);
  EXPECT_EQ(cache->used_bytes(), 0);
  EXPECT_TRUE(read(*chunks, 0, columns(8, 10)));
  EXPECT_EQ(cache->used_bytes(), 0);
}

TEST(ChunkCache, NoRoomAtAll) {
  const auto cache = std::make_shared<ChunkCache>(0);
  const auto chunks = cache->add(kChunkBytes, /*chunks=*/100, {});
  EXPECT_EQ(chunks->take(3, rows(0, 4), /*wait=*/true).state(), State::none);
  EXPECT_EQ(cache->used_bytes(), 0);
}

// A filtered data set of 330 x 270 in chunks of 100 x 100 (16 of them, which the grid's edges cut), read in boxes of
// 150 x 150.
class FilteredReads : public testing::Test {
 protected:
  static constexpr int64_t kRows = 330, kColumns = 270, kChunk = 100, kBox = 150;
  void SetUp() override {
    for (size_t i = 0; i < data_.size(); i += 3) data_[i] = std::byte{5};
    H5File file(dir_ / "a.h5");
    file.write("/x", {kRows, kColumns}, H5T_IEEE_F64LE, H5T_IEEE_F64LE, data_.data(),
               {.chunk = Dims{kChunk, kChunk}, .deflate = 1, .shuffle = true});
    file.close();
    dataset_ = Dataset::open(dir_ / "a.h5", "/x");
  }
  std::shared_ptr<CachedChunks> keep(int64_t limit, const PlannedReads& reads = {}) {
    auto chunks = std::make_shared<ChunkCache>(limit)->add(dataset_->decoded_chunk_bytes(), kChunks, reads);
    dataset_->keep_chunks(chunks);
    return chunks;
  }
  void expect_boxes(int64_t step = 1, bool visits = false) {
    for (int64_t row = 0; row < kRows; row += kBox) {
      for (int64_t column = 0; column < kColumns; column += kBox) {
        Region region{{row, column}, {std::min(kBox, kRows - row), std::min(kBox, kColumns - column)}, {step, step}};
        for (int64_t& count : region.count) count = (count - 1) / step + 1;
        EXPECT_EQ(visits ? visit_region(*dataset_, region) : read_region(*dataset_, region),
                  pick(data_, {kRows, kColumns}, 8, region));
      }
    }
  }

  static constexpr int64_t kChunks = 4 * 3, kDecoded = kChunk * kChunk * 8, kAligned = 80'128;
  const test::TempDir dir_;
  Bytes data_ = random_bytes(kRows * kColumns * 8, 7);
  std::shared_ptr<Dataset> dataset_;
};

TEST_F(FilteredReads, EachChunkIsReadAndDecodedOnce) {
  for (const bool visits : {false, true}) {
    const auto chunks = keep(kChunks * kAligned);
    const int64_t before = dataset_->bytes_read();
    expect_boxes(/*step=*/1, visits);
    EXPECT_EQ(chunks->decoded_bytes(), kChunks * kAligned);
    EXPECT_EQ(chunks->reread_bytes(), 0);
    EXPECT_LE(dataset_->bytes_read() - before, dataset_->info().stored_bytes + kChunks * 4096);
  }
}

TEST_F(FilteredReads, WithoutRoomWhatIsReadAgainIsCounted) {
  const auto chunks = keep(0);
  expect_boxes();
  EXPECT_GT(chunks->decoded_bytes(), kChunks * kAligned * 3 / 2);
  EXPECT_GT(chunks->reread_bytes(), dataset_->info().stored_bytes / 2);
  dataset_->keep_chunks(nullptr);
  expect_boxes();
}

TEST_F(FilteredReads, ARowOfChunksIsEnough) {
  const auto chunks = keep(4 * kAligned);
  expect_boxes();
  EXPECT_EQ(chunks->decoded_bytes(), kChunks * kAligned);
}

TEST_F(FilteredReads, StepsLeaveNothingBehind) {
  const auto cache = std::make_shared<ChunkCache>(kChunks * kAligned);
  const auto chunks = cache->add(dataset_->decoded_chunk_bytes(), kChunks, {});
  dataset_->keep_chunks(chunks);
  expect_boxes(/*step=*/7);
  EXPECT_EQ(chunks->decoded_bytes(), kChunks * kAligned);
}

TEST_F(FilteredReads, ReadsThatOverlapShareChunks) {
  const auto chunks = keep(4 * kAligned, {.overlap = {20, 0}});
  for (int64_t row = 0; row < kRows; row += kChunk) {  // boxes that end 20 rows inside the next chunks
    const Region region{{row, 0}, {std::min(kChunk + 20, kRows - row), kColumns}, {1, 1}};
    EXPECT_EQ(read_region(*dataset_, region), pick(data_, {kRows, kColumns}, 8, region));
  }
  EXPECT_EQ(chunks->decoded_bytes(), kChunks * kAligned);
}

TEST_F(FilteredReads, RandomRegionsAreTheSame) {
  std::mt19937 random(5);
  for (const int64_t limit : {int64_t{0}, 2 * kAligned, kChunks * kAligned}) {
    const auto chunks = keep(limit, {.together = 2, .in_all = 4});
    for (int i = 0; i < 60; ++i) {
      const Region region = random_region({kRows, kColumns}, random);
      const Bytes expected = pick(data_, {kRows, kColumns}, 8, region);
      EXPECT_EQ(read_region(*dataset_, region), expected);
      EXPECT_EQ(visit_region(*dataset_, region), expected);
    }
  }
}

TEST_F(FilteredReads, ThreadsWaitForEachOther) {
  const auto chunks = keep(kChunks * kAligned, {.together = 8, .in_all = 8});
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([this] { expect_boxes(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(chunks->decoded_bytes(), kChunks * kAligned);
}

TEST_F(FilteredReads, ADamagedChunkIsNoEndlessWait) {
  {
    H5File file(dir_ / "b.h5");
    const hid_t x = file.create("/x", {8}, H5T_STD_I32LE, {.chunk = Dims{8}, .deflate = 1});
    const hsize_t origin = 0;
    test::h5(H5Dwrite_chunk(x, H5P_DEFAULT, 0, &origin, 20, data_.data()));
    H5Dclose(x);
  }
  dataset_ = Dataset::open(dir_ / "b.h5", "/x");
  const auto chunks = keep(1 << 20);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] { EXPECT_THROW(read_region(*dataset_, Region::box({i}, {1})), local::IoError); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace quarry::io
