#include "quarry/io/saved_states.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace quarry::io {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

SavedBlock write(StateWriter& writer, int64_t state, const std::string& text, int64_t index) {
  StateWriter::Part part = writer.begin(state, std::ssize(text));
  const size_t half = text.size() / 2;
  part.put(bytes_of(text.substr(0, half)));
  part.put(bytes_of(text.substr(half)));
  SavedBlock block = part.end();
  block.index = index;
  return block;
}

SavedBlock without_data(int64_t index) {
  SavedBlock block;
  block.index = index;
  return block;
}

TEST(SavedStates, AreWholeWhenAllRanksHaveCommitted) {
  const test::TempDir directory;
  const std::string file = directory / "x.h5";
  StateWriter first(file, /*generation=*/0, /*rank=*/0, /*ranks=*/2), second(file, 0, 1, 2);
  first.commit(/*stage=*/3, /*state=*/0, std::vector{write(first, 0, "some tile", 5)});
  EXPECT_TRUE(saved_states(read_saved_states(file)).empty());
  second.commit(3, 0, std::vector{write(second, 0, "another", 6), without_data(7)});
  const std::vector<SavedState> states = saved_states(read_saved_states(file));
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].stage, 3);
  ASSERT_EQ(states[0].blocks.size(), 3U);
  for (const SavedBlock& block : states[0].blocks) {
    EXPECT_EQ(block.has_data(), block.index != 7);
    EXPECT_EQ(is_intact(file, block), block.has_data()) << block.index;
  }
}

TEST(SavedStates, TheLastTwoAreKeptAndWhatTheyName) {
  const test::TempDir directory;
  const std::string file = directory / "x.h5";
  StateWriter writer(file, 0, 0, 1);
  const SavedBlock kept = write(writer, SavedFile::kKept, "for ever", 0);
  for (int64_t state = 0; state < 4; ++state)
    writer.commit(/*stage=*/0, state, std::vector{kept, write(writer, state, "state " + std::to_string(state), 1)});
  std::vector<SavedState> states = saved_states(read_saved_states(file));
  ASSERT_EQ(states.size(), 2U);
  EXPECT_EQ(states[0].state, 3);
  EXPECT_EQ(states[1].state, 2);
  for (const SavedState& state : states)
    for (const SavedBlock& block : state.blocks) EXPECT_TRUE(is_intact(file, block));
  EXPECT_FALSE(std::filesystem::exists(saved_path(file, {0, 1, 0})));
  // Another run goes on, and names a block of an old one: that stays.
  StateWriter next(file, 1, 0, 1);
  for (int64_t state = 0; state < 3; ++state) next.commit(0, state, std::vector{kept, states[0].blocks[1]});
  states = saved_states(read_saved_states(file));
  ASSERT_EQ(states.size(), 2U);
  EXPECT_EQ(states[0].generation, 1);
  for (const SavedBlock& block : states[0].blocks) EXPECT_TRUE(is_intact(file, block));
}

TEST(SavedStates, DamageIsSeen) {
  const test::TempDir directory;
  const std::string file = directory / "x.h5";
  StateWriter writer(file, 0, 0, 1);
  const SavedBlock block = write(writer, 0, "some tile", 0);
  writer.commit(0, 0, std::vector{block});
  ASSERT_TRUE(is_intact(file, block));
  std::fstream(saved_path(file, block.file), std::ios::in | std::ios::out) << "Some";
  EXPECT_FALSE(is_intact(file, block));
  std::filesystem::remove(saved_path(file, block.file));
  EXPECT_FALSE(is_intact(file, block));
  // A table that ends early is none.
  const std::string table = file + ".partial.states/table.0.0.0";
  std::filesystem::resize_file(table, std::filesystem::file_size(table) - 1);
  EXPECT_TRUE(saved_states(read_saved_states(file)).empty());
}

TEST(SavedStates, ValuesAreOfUseOneByOne) {
  const test::TempDir directory;
  const std::string file = directory / "x.h5";
  StateWriter first(file, 0, 0, 2), second(file, 0, 1, 2);
  second.commit(0, SavedFile::kKept, std::vector{write(second, SavedFile::kKept, "a sum", 4)});
  const std::vector<SavedState> states = saved_states(read_saved_states(file));
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].state, SavedFile::kKept);
  EXPECT_TRUE(is_intact(file, states[0].blocks.at(0)));
  // And stay where a state of a later run is committed.
  StateWriter next(file, 1, 0, 1);
  for (int64_t state = 0; state < 3; ++state) next.commit(1, state, std::vector{write(next, state, "tile", 0)});
  for (const SavedState& state : saved_states(read_saved_states(file)))
    for (const SavedBlock& block : state.blocks) EXPECT_TRUE(is_intact(file, block));
}

}  // namespace
}  // namespace quarry::io
