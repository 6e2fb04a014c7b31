// What every memory resource must do. A new one is tested by three lines:
//   struct MyResource { static std::shared_ptr<MemoryResource> make(Device device); };
//   INSTANTIATE_TYPED_TEST_SUITE_P(MyResource, MemoryConformance, ::testing::Types<On<MyResource, DeviceKind::cpu>>);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "quarry/local/base/error.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/memory_resource.h"

namespace quarry::local {

// The resource must be able to hand out this many bytes (and need not have more than twice as many).
inline constexpr int64_t kConformanceBytes = int64_t{4} << 20;

template <class Maker, DeviceKind kKind>
struct On {
  static std::shared_ptr<MemoryResource> make() { return Maker::make({kKind, 0}); }
  static constexpr DeviceKind kind = kKind;
};

template <class T>
class MemoryConformance : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!available(T::kind)) GTEST_SKIP() << "no device of kind " << name(T::kind);
    resource_ = T::make();
    first_ = backend(T::kind).create_stream(0, StreamRole::compute);
    second_ = backend(T::kind).create_stream(0, StreamRole::to_host);
  }
  std::shared_ptr<MemoryResource> resource_;  // dies last
  std::unique_ptr<DeviceStream> first_, second_;
};
TYPED_TEST_SUITE_P(MemoryConformance);

TYPED_TEST_P(MemoryConformance, AlignedDistinctAndCounted) {
  MemoryResource& resource = *this->resource_;
  const int64_t before = resource.used_bytes();
  std::vector<std::pair<char*, int64_t>> pieces;
  for (int64_t bytes : {int64_t{0}, int64_t{0}, int64_t{1}, int64_t{255}, int64_t{256}, int64_t{257}, int64_t{100000}})
    pieces.emplace_back(static_cast<char*>(resource.allocate(bytes, this->first_.get())), bytes);
  std::set<char*> addresses;
  int64_t total = 0;
  for (auto [data, bytes] : pieces) {
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kAllocationAlignment, 0u);
    EXPECT_TRUE(addresses.insert(data).second);
    total += bytes;
    for (auto [other, other_bytes] : pieces)
      EXPECT_TRUE(other == data || data + bytes <= other || other + other_bytes <= data);
  }
  EXPECT_GE(resource.used_bytes() - before, total);
  EXPECT_GE(resource.acquired_bytes(), resource.used_bytes());
  EXPECT_GE(resource.peak_bytes(), resource.used_bytes());
  while (!pieces.empty()) {
    resource.deallocate(pieces.back().first, pieces.back().second, this->first_.get());
    pieces.pop_back();
  }
  EXPECT_EQ(resource.used_bytes(), before);
  EXPECT_GE(resource.peak_bytes(), total);
  this->first_->synchronize();
}

TYPED_TEST_P(MemoryConformance, OutOfMemoryNamesTheNumbers) {
  MemoryResource& resource = *this->resource_;
  const int64_t before = resource.used_bytes();
  const int64_t absurd = int64_t{1} << 60;
  try {
    resource.allocate(absurd, this->first_.get());
    FAIL() << "no exception";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(absurd)), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("in use"), std::string::npos) << error.what();
  }
  EXPECT_EQ(resource.used_bytes(), before);
  void* data = resource.allocate(1024, this->first_.get());  // goes on working
  resource.deallocate(data, 1024, this->first_.get());
  this->first_->synchronize();
}

TYPED_TEST_P(MemoryConformance, WholeAgainAfterAnyOrderOfFrees) {
  MemoryResource& resource = *this->resource_;
  std::mt19937 random(7);
  for (int round = 0; round < 4; ++round) {
    std::vector<std::pair<void*, int64_t>> pieces;
    int64_t left = kConformanceBytes;
    while (left > 65536) {
      const int64_t bytes = 1 + static_cast<int64_t>(random() % 65536);
      pieces.emplace_back(resource.allocate(bytes, nullptr), bytes);
      left -= rounded_allocation(bytes);
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (auto [data, bytes] : pieces) resource.deallocate(data, bytes, nullptr);
  }
  void* data = resource.allocate(kConformanceBytes, nullptr);
  resource.deallocate(data, kConformanceBytes, nullptr);
  resource.free_unused();
  EXPECT_EQ(resource.used_bytes(), 0);
}

// Two streams write and check memory that passes between them; without the waits one overwrites what the other has
// still to read.
TYPED_TEST_P(MemoryConformance, ReuseIsStreamOrdered) {
  MemoryResource& resource = *this->resource_;
  constexpr int64_t kBytes = kConformanceBytes / 4;
  const Device device{TypeParam::kind, 0};
  std::vector<std::pair<unsigned char*, unsigned char>> copies;
  for (int round = 0; round < 24; ++round) {
    DeviceStream* stream = round % 3 == 0 ? this->second_.get() : this->first_.get();
    const auto value = static_cast<unsigned char>(round + 1);
    void* data = resource.allocate(kBytes, stream);
    auto* host = static_cast<unsigned char*>(backend(device.kind).allocate_pinned(kBytes));
    stream->fill(data, value, kBytes);
    stream->copy(host, data, kBytes);
    copies.emplace_back(host, value);
    resource.deallocate(data, kBytes, stream);
  }
  this->first_->synchronize();
  this->second_->synchronize();
  for (auto [host, value] : copies) {
    EXPECT_EQ(std::count(host, host + kBytes, value), kBytes);
    backend(device.kind).free_pinned(host, kBytes);
  }
}

TYPED_TEST_P(MemoryConformance, ThreadsShareIt) {
  MemoryResource& resource = *this->resource_;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&resource, t] {
      std::mt19937 random(t);
      std::vector<std::pair<void*, int64_t>> mine;
      for (int i = 0; i < 200; ++i) {
        if (mine.size() > 8 || (!mine.empty() && random() % 2)) {
          resource.deallocate(mine.back().first, mine.back().second, nullptr);
          mine.pop_back();
        } else {
          const int64_t bytes = static_cast<int64_t>(random() % 32768);
          mine.emplace_back(resource.allocate(bytes, nullptr), bytes);
        }
      }
      for (auto [data, bytes] : mine) resource.deallocate(data, bytes, nullptr);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(resource.used_bytes(), 0);
}

REGISTER_TYPED_TEST_SUITE_P(MemoryConformance, AlignedDistinctAndCounted, OutOfMemoryNamesTheNumbers,
                            WholeAgainAfterAnyOrderOfFrees, ReuseIsStreamOrdered, ThreadsShareIt);

}  // namespace quarry::local
