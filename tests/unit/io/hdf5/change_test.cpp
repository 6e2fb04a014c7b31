// Data sets that are changed in place: the file is the old one until the commit, and an interrupted commit is completed
// by whoever opens the file next.
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "quarry/io/hdf5/describe.h"
#include "quarry/io/hdf5/parse/signature.h"
#include "quarry/io/hdf5/write/change_journal.h"
#include "quarry/io/output.h"
#include "tests/unit/io/hdf5/io_test.h"

namespace quarry::io {
namespace {

namespace fs = std::filesystem;
using test::H5File;
using test::H5Options;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ChangeTest : public testing::Test {
 protected:
  // x: 12 x 10 of int32, counted from 0.
  void make(const H5Options& options, bool latest = false) {
    H5File file(path_, latest);
    file.write("/g/x", kShape, H5T_STD_I32LE, H5T_NATIVE_INT32, old_.data(), options);
  }
  std::vector<int32_t> now() const {
    const auto dataset = Dataset::open(path_, "/g/x");
    const Bytes bytes = read_region(*dataset, Region::whole(dataset->info().shape));
    std::vector<int32_t> values(bytes.size() / sizeof(int32_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  ChangeSpec spec(const Dims& start, const Dims& count, std::optional<int> append = {}) const {
    return {"/g/x", kShape, DType::int32, Region::box(start, count), append};
  }
  // The values with -1 in the box.
  std::vector<int32_t> changed(const Dims& start, const Dims& count) const {
    std::vector<int32_t> values = old_;
    for (int64_t i = start[0]; i < start[0] + count[0]; ++i)
      for (int64_t j = start[1]; j < start[1] + count[1]; ++j) values[static_cast<size_t>(i * kShape[1] + j)] = -1;
    return values;
  }
  static void write(OutputFile& output, const Region& region) {
    const std::vector<int32_t> values(static_cast<size_t>(region.elements()), -1);
    const auto writer = Writer::deserialize(output.writer(0)->serialize());  // another rank's
    ASSERT_EQ(writer->encode_scratch_bytes(), 0);
    writer->write(region, values.data());
  }
  bool has_journal() const { return fs::exists(path_ + ".changes"); }

  static inline const Dims kShape{12, 10};
  static std::vector<int32_t> counted() {
    std::vector<int32_t> values(120);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
    return values;
  }
  const test::TempDir dir_;
  const std::string path_ = dir_ / "f.h5";
  const std::vector<int32_t> old_ = counted();
};

TEST_F(ChangeTest, the_file_is_the_old_one_until_the_commit) {
  for (const bool chunked : {false, true}) {
    make({.chunk = chunked ? std::optional(Dims{5, 4}) : std::nullopt});
    const std::string before = contents(path_);
    const Dims start{2, 3}, count{6, 7};
    const auto output = OutputFile::change(path_, {spec(start, count)});
    write(*output, Region::box(start, count));
    EXPECT_EQ(contents(path_), before);
    EXPECT_TRUE(has_journal());
    output->commit();
    EXPECT_EQ(now(), changed(start, count));
    EXPECT_FALSE(has_journal());
    EXPECT_EQ(contents(path_).size(), before.size());
  }
}

TEST_F(ChangeTest, what_is_not_committed_leaves_nothing) {
  for (const bool filtered : {false, true}) {
    make({.chunk = Dims{5, 4}, .deflate = filtered ? 1 : -1, .unlimited = true});
    const std::string before = contents(path_);
    {
      const auto output = OutputFile::change(path_, {spec({12, 0}, {30, 10}, 0)});
      if (!filtered) write(*output, Region::box({12, 0}, {30, 10}));
      EXPECT_EQ(now(), old_);
    }
    EXPECT_EQ(contents(path_), before);
    EXPECT_FALSE(has_journal());
  }
}

TEST_F(ChangeTest, an_interrupted_change_is_completed_by_the_next_who_opens_the_file) {
  make({});
  const Dims start{2, 3}, count{6, 7};
  const std::string journal = hdf5::changes_path(fs::canonical(path_).string());
  const hdf5::StoredDataset stored = hdf5::describe_dataset(path_, "/g/x");
  const std::vector<int32_t> values(42, -1);
  const auto write_journal = [&] {
    {
      const ByteFile file(journal, ByteFile::Mode::create);
      file.write_at(hdf5::kJournalPageBytes, std::as_bytes(std::span(values)));
    }
    hdf5::FileChange change;
    change.elements.push_back({stored, Region::box(start, count), hdf5::kJournalPageBytes});
    hdf5::write_change(journal, change, 2 * hdf5::kJournalPageBytes);
  };
  write_journal();
  EXPECT_EQ(now(), old_) << "the file was not marked: nothing of the change has begun";
  EXPECT_TRUE(has_journal());

  const ByteFile file(path_, ByteFile::Mode::write);
  const auto mark = [&] { hdf5::put_signature(file, {hdf5::FileState::unfinished, 0}); };
  mark();
  // Half of it has been done.
  file.write_at(stored.storage.offset + 23 * 4, std::as_bytes(std::span(values).first(3)));
  EXPECT_EQ(now(), changed(start, count));
  EXPECT_FALSE(has_journal());
  EXPECT_EQ(hdf5::find_signature(file)->state, hdf5::FileState::whole);

  // A journal that is not complete.
  write_journal();
  mark();
  fs::resize_file(journal, 2 * hdf5::kJournalPageBytes + 10);
  EXPECT_THROW(now(), local::IoError);
  EXPECT_THROW(OutputFile::change(path_, {spec(start, count)}), local::IoError);
  EXPECT_THROW(list_objects(path_), local::IoError);
  fs::remove(journal);
  EXPECT_THROW(now(), local::IoError);
}

TEST_F(ChangeTest, what_an_interrupted_change_left_behind_the_end_goes) {
  make({.chunk = Dims{5, 4}, .unlimited = true});
  const std::string before = contents(path_);
  {
    std::ofstream more(path_, std::ios::binary | std::ios::app);
    more << std::string(1 << 20, 'x');
  }
  EXPECT_EQ(now(), old_);
  const auto output = OutputFile::change(path_, {spec({12, 0}, {3, 10}, 0)});
  write(*output, Region::box({12, 0}, {3, 10}));
  output->commit();
  EXPECT_LT(contents(path_).size(), before.size() + (1 << 19));
  std::vector<int32_t> expected = old_;
  expected.resize(150, -1);
  EXPECT_EQ(now(), expected);
}

TEST_F(ChangeTest, what_was_appended_is_seen_beside_who_has_the_old_file_open) {
  make({.chunk = Dims{5, 4}, .unlimited = true});
  const auto old = Dataset::open(path_, "/g/x");
  const auto changed_at = fs::last_write_time(path_);
  const auto output = OutputFile::change(path_, {spec({12, 0}, {300, 10}, 0)});
  write(*output, Region::box({12, 0}, {300, 10}));
  output->commit();
  fs::last_write_time(path_, changed_at);  // as if the clock had not ticked meanwhile
  EXPECT_EQ(now().size(), 3120U);
  EXPECT_EQ(read_region(*old, Region::whole(kShape)).size(), 480U);
}

TEST_F(ChangeTest, a_file_that_another_program_has_open_is_refused) {
  make({});
  const int fd = ::open(path_.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(fd, LOCK_SH), 0);  // as the HDF5 library does that reads it
  EXPECT_THROW(OutputFile::change(path_, {spec({0, 0}, {1, 1})}), local::IoError);
  ::close(fd);
  const auto one = OutputFile::change(path_, {spec({0, 0}, {1, 1})});
  EXPECT_THROW(OutputFile::change(path_, {spec({0, 0}, {1, 1})}), local::IoError);
}

TEST_F(ChangeTest, a_file_that_was_replaced_meanwhile_stays) {
  make({});
  const auto output = OutputFile::change(path_, {spec({0, 0}, {1, 1})});
  write(*output, Region::box({0, 0}, {1, 1}));
  fs::copy_file(path_, dir_ / "other");
  fs::rename(dir_ / "other", path_);
  EXPECT_THROW(output->commit(), local::IoError);
  EXPECT_EQ(now(), old_);
}

TEST_F(ChangeTest, what_does_not_fit_is_refused) {
  make({.chunk = Dims{5, 4}, .limits = Dims{20, 10}});
  const auto refused = [&](ChangeSpec change, const std::string& reason) {
    try {
      OutputFile::change(path_, {std::move(change)});
      ADD_FAILURE() << reason;
    } catch (const local::InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  };
  refused(spec({0, 0}, {13, 10}), "does not fit its shape (12, 10)");
  refused(spec({12, 0}, {9, 10}, 0), "at most 20 elements, not 21");
  refused(spec({0, 10}, {12, 1}, 1), "cannot grow along axis 1");
  refused(spec({12, 0}, {1, 9}, 0), "does not fit");
  ChangeSpec other = spec({0, 0}, {1, 1});
  other.dtype = DType::int64;
  refused(other, "of dtype int32, not int64");
  other = spec({0, 0}, {1, 1});
  other.shape = {11, 10};
  refused(other, "its shape was (11, 10) and is (12, 10) now");
  EXPECT_FALSE(has_journal());
}

}  // namespace
}  // namespace quarry::io
