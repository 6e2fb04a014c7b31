// Programs that compute in several steps and end early go on behind the last one that was saved.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/io/saved_calls.h"
#include "quarry/local/local.h"
#include "tests/support/runtime_on.h"
#include "tests/support/temp_dir.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;

using local::InvalidArgument;

class Stopped : public std::runtime_error {
 public:
  Stopped() : std::runtime_error("stopped") {}
};

std::atomic<int> calls{0};  // of the function of a chunk

// Runs of one program, each with a Runtime of its own.
class SavedStepsOn : public ::testing::TestWithParam<local::DeviceKind> {
 protected:
  void SetUp() override {
    if (!local::available(GetParam())) GTEST_SKIP() << "no device of kind " << local::name(GetParam());
    begin(/*every=*/0);
  }
  void begin(double every) {
    runtime_.reset();
    runtime_.emplace(testing::runtime_on(GetParam()));
    runtime_->internals().save_every = every;
    calls = 0;
  }
  std::string output() const { return dir_ / "out.h5"; }
  fs::path folder() const { return dir_ / "out.h5.partial.steps"; }
  int count(const std::string& kind) const {
    int found = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder(), error))
      found += entry.path().filename().string().starts_with(kind) ? 1 : 0;
    return found;
  }

  // Five steps and an output; ends early behind so many steps.
  void run(int steps, int64_t rows = 60) const {
    SavedSteps saved(output());
    const auto stop_behind = [&](int step) {
      if (step == steps) throw Stopped();
    };
    const Array start = arange(rows * 8).reshape({rows, 8}).astype(DType::float64).rechunk({7, 8});
    const auto twice = [](const NdArray& chunk) {
      ++calls;
      return chunk * 2.0;
    };
    const BlockOptions options{.name = "twice", .dtypes = {DType::float64}, .identity = 77};
    std::optional<Array> first = map_blocks(twice, start, {}, options).persist();
    stop_behind(1);
    const NdArray sums = sum(*first, 0).to_host();
    stop_behind(2);
    const Settled known = [&] {
      const std::vector<Array> numbers{max(*first)}, keep{*first + Array::from_local(sums)};
      return settle(numbers, keep);
    }();
    first.reset();
    stop_behind(3);
    const Array empty = known.kept[0][{local::Slice{0, 0, {}}}].persist();
    stop_behind(4);
    const Array last = (known.kept[0] / known.values[0].item().as_double()).persist();
    stop_behind(5);
    store(output(), {{"/x", last}, {"/empty", empty}}, {.overwrite = true, .resume = true});
    saved.complete();
  }
  struct Results {
    NdArray x;
    Dims empty;
  };
  Results results() const { return {open_hdf5(output(), "/x").to_host(), open_hdf5(output(), "/empty").shape()}; }

 private:
  const test::TempDir dir_;
  std::optional<Runtime> runtime_;
};

constexpr int kSteps = 5, kNever = 0;

bool same_bits(const NdArray& a, const NdArray& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

TEST_P(SavedStepsOn, GoOnBehindEachOfThem) {
  run(kNever);
  const Results expected = results();
  EXPECT_EQ(expected.empty, (Dims{0, 8}));
  const int all = calls;
  EXPECT_GT(all, 5);
  EXPECT_FALSE(fs::exists(folder()));
  for (int steps = 1; steps <= kSteps; ++steps) {
    begin(/*every=*/0);
    EXPECT_THROW(run(steps), Stopped);
    EXPECT_EQ(count("calls."), std::min(steps, 2));
    begin(/*every=*/0);
    run(kNever);
    EXPECT_EQ(calls, 0) << steps;
    EXPECT_TRUE(same_bits(results().x, expected.x)) << steps;
    EXPECT_EQ(results().empty, expected.empty);
    EXPECT_FALSE(fs::exists(folder()));
  }
}

TEST_P(SavedStepsOn, MayEndEarlyAgainAndAgain) {
  run(kNever);
  const Results expected = results();
  for (int steps = 1; steps <= kSteps; ++steps) {
    begin(/*every=*/0);
    EXPECT_THROW(run(steps), Stopped);
    EXPECT_EQ(calls == 0, steps > 1);
  }
  begin(/*every=*/0);
  run(kNever);
  EXPECT_TRUE(same_bits(results().x, expected.x));
}

TEST_P(SavedStepsOn, WhatNobodyNeedsIsInNoFile) {
  EXPECT_THROW(run(5), Stopped);
  const std::vector<std::string> tables = io::find_saved_calls(output());
  ASSERT_EQ(tables.size(), 2u);
  const io::SavedCalls saved = io::saved_calls(tables[0]);
  ASSERT_EQ(saved.calls.size(), 5u);
  const io::SavedResult& first = saved.calls[0].results[0];
  EXPECT_EQ(first.file, -1);
  EXPECT_FALSE(first.value.has_value());
  EXPECT_EQ(first.chunks[0].size(), 9u);
  EXPECT_EQ(saved.calls[1].results[0].value->size(), 8 * sizeof(double));
  EXPECT_TRUE(saved.calls[2].results[0].value.has_value());
  EXPECT_GE(saved.calls[2].results[1].file, 0);
  EXPECT_EQ(count("arrays."), static_cast<int>(saved.sums.size()));
}

TEST_P(SavedStepsOn, OfShortRunsAreNotSaved) {
  begin(/*every=*/1000);
  EXPECT_THROW(run(4), Stopped);
  EXPECT_FALSE(fs::exists(folder()));
}

// `saying`: of the message.
template <class Function>
void expect_refused(Function function, const std::string& saying) {
  try {
    function();
    ADD_FAILURE() << "it was not refused: " << saying;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(saying), std::string::npos) << error.what();
  }
}

TEST_P(SavedStepsOn, OfAnotherProgramAreRefusedAndStay) {
  EXPECT_THROW(run(3), Stopped);
  begin(/*every=*/0);
  expect_refused([&] { run(kNever, 61); }, "of another run: the shape of step 1's result 1 is (61, 8) and was (60, 8)");
  begin(/*every=*/0);
  expect_refused(
      [&] {
        const SavedSteps saved(output());
        ones({3}).persist();
      },
      "of another run: the shape of step 1's result 1");
  EXPECT_EQ(count("calls."), 2);
  begin(/*every=*/0);
  run(kNever);
  EXPECT_EQ(calls, 0);
}

TEST_P(SavedStepsOn, OfAnotherVersionAreRefused) {
  EXPECT_THROW(run(2), Stopped);
  io::SavedCalls saved = io::saved_calls(io::find_saved_calls(output())[0]);
  for (auto& [name, value] : saved.calls[0].description)
    if (name == "the version of quarry") value = "0.0.1";
  io::save_calls(output(), saved);
  begin(/*every=*/0);
  expect_refused([&] { run(kNever); }, "the version of quarry is");
}

TEST_P(SavedStepsOn, DamagedOnesAreNamedAndTheOnesBeforeAreUsed) {
  run(kNever);
  const Results expected = results();
  const auto damage = [](const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(path)) - 9);
    file << "damaged";
  };
  for (const std::string kind : {"arrays.", "calls."}) {
    begin(/*every=*/0);
    EXPECT_THROW(run(1), Stopped);
    begin(/*every=*/0);
    EXPECT_THROW(run(3), Stopped);
    int64_t last = 0;
    for (const auto& entry : fs::directory_iterator(folder())) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(kind)) last = std::max<int64_t>(last, std::stoll(name.substr(kind.size())));
    }
    damage(folder() / (kind + std::to_string(last) + (kind == "arrays." ? ".h5" : "")));
    begin(/*every=*/0);
    ::testing::internal::CaptureStderr();
    run(kNever);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("damaged"), std::string::npos) << kind;
    EXPECT_EQ(calls, 0) << kind;
    EXPECT_TRUE(same_bits(results().x, expected.x)) << kind;
    EXPECT_FALSE(fs::exists(folder()));
  }
  // All of them.
  begin(/*every=*/0);
  EXPECT_THROW(run(4), Stopped);
  for (const auto& entry : fs::directory_iterator(folder()))
    if (entry.path().extension() == ".h5") fs::resize_file(entry.path(), 10);
  begin(/*every=*/0);
  run(kNever);
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(same_bits(results().x, expected.x));
}

TEST_P(SavedStepsOn, NoneIsSavedBehindALargeHostValue) {
  SavedSteps saved(output());
  const Array kept = ones({10}).persist();
  EXPECT_EQ(count("calls."), 1);
  EXPECT_EQ(arange(3'000'000).to_host().size(), 3'000'000);
  static_cast<void>((kept + 1).persist());
  EXPECT_EQ(count("calls."), 1);
  EXPECT_EQ(io::saved_calls(io::find_saved_calls(output())[0]).calls.size(), 1u);
  saved.discard();
}

TEST_P(SavedStepsOn, AreOfOneOutputAtATime) {
  SavedSteps saved(output());
  expect_refused([&] { const SavedSteps other(output() + ".h5"); }, "those of another output are");
  saved.discard();
  expect_refused([&] { const SavedSteps archive(output() + ".npz"); }, "cannot be");
}

TEST_P(SavedStepsOn, DiscardTakesThemAway) {
  {
    SavedSteps saved(output());
    const Array kept = ones({10}).persist();
    EXPECT_EQ(count("calls."), 1);
    saved.discard();
    EXPECT_FALSE(fs::exists(folder()));
    static_cast<void>((kept + 1).persist());
  }
  EXPECT_FALSE(fs::exists(folder()));
}

QUARRY_ON_EVERY_DEVICE(SavedStepsOn);

}  // namespace
}  // namespace quarry
