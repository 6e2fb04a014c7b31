// Journals: records that are on the device, and what is left of them after a crash.
#include "quarry/io/storage/journal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "quarry/local/base/error.h"
#include "tests/support/temp_dir.h"

namespace quarry::io {
namespace {

using Records = std::vector<std::string>;

TEST(JournalTest, RecordsAreReadBack) {
  const test::TempDir dir;
  const std::string path = dir / "j";
  std::atomic<int> syncs{0};
  {
    Journal journal(path, [&] { ++syncs; });
    journal.add("one");
    journal.add("");
    journal.flush();
    EXPECT_EQ(read_journal(path), (Records{"one", ""}));
    EXPECT_EQ(syncs, 1);
    journal.flush();  // nothing new
    EXPECT_EQ(syncs, 1);
    journal.add(std::string(100000, 'x'));
  }
  EXPECT_EQ(read_journal(path), (Records{"one", "", std::string(100000, 'x')}));
  EXPECT_EQ(syncs, 2);
  EXPECT_EQ(read_journal(dir / "none"), Records());
}

// Nothing is flushed by hand: it comes to the device by itself.
TEST(JournalTest, FlushesByItself) {
  const test::TempDir dir;
  const std::string path = dir / "j";
  Journal journal(path, [] {});
  journal.add("one");
  for (int tries = 0; tries < 1000 && read_journal(path).empty(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(read_journal(path), Records{"one"});
}

TEST(JournalTest, ReadsUpToWhatIsNotWhole) {
  const test::TempDir dir;
  const std::string path = dir / "j";
  Journal(path, [] {}).add("first");
  const auto one = std::filesystem::file_size(path);
  {
    Journal journal(path, [] {});
    journal.add("first");
    journal.add("second");
  }
  const auto two = std::filesystem::file_size(path);
  const std::string whole = read_whole(path);
  for (auto bytes = two; bytes > 0; --bytes) {
    std::filesystem::resize_file(path, bytes);
    EXPECT_EQ(read_journal(path).size(), bytes == two ? 2u : bytes >= one ? 1u : 0u) << bytes;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    write_durably(path, changed);
    const Records records = read_journal(path);
    EXPECT_LT(records.size(), 2u) << at;
    if (records.size() == 1) {
      EXPECT_EQ(records[0], "first") << at;
    }
  }
}

// Records follow what they are of: where that cannot be synced, none is written.
TEST(JournalTest, AFailedSyncLeavesNoRecord) {
  const test::TempDir dir;
  const std::string path = dir / "j";
  std::atomic<bool> fails{true};
  {
    Journal journal(path, [&] {
      if (fails) throw local::IoError("the disk is full");
    });
    journal.add("one");
    EXPECT_THROW(journal.flush(), local::IoError);
    fails = false;
    EXPECT_THROW(journal.add("two"), local::IoError);  // what follows is not to be relied upon
    EXPECT_THROW(journal.flush(), local::IoError);
  }
  EXPECT_EQ(read_journal(path), Records());
}

// Killed at any moment, every record that flush() returned for is there.
TEST(JournalTest, FlushedRecordsOutliveTheProcess) {
  const test::TempDir dir;
  const std::string path = dir / "j";
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    Journal journal(path, [] {});
    for (int i = 0;; ++i) {
      journal.add(std::to_string(i));
      journal.flush();
      if (write(told[1], &i, sizeof i) != sizeof i) _exit(1);
    }
  }
  int last = -1;
  while (last < 50) ASSERT_EQ(read(told[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(told[1]);
  while (read(told[0], &last, sizeof last) == static_cast<ssize_t>(sizeof last)) {
  }
  close(told[0]);
  const Records records = read_journal(path);
  ASSERT_GT(std::ssize(records), last);
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i], std::to_string(i));
}

TEST(JournalTest, JobsAndTheirJournals) {
  const test::TempDir dir;
  const std::string job = dir / "o.h5.partial.job";
  write_durably(job, "job");
  for (const char* const name : {".2.0", ".10.1", ".10.0", ".x", ".3"}) write_durably(job + name, "");
  write_durably(dir / "other.h5.partial.job.1.0", "");
  const std::vector<JournalName> found = journals_of(job);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].path, job + ".2.0");
  EXPECT_EQ(found[1].path, job + ".10.0");
  EXPECT_EQ(found[2].generation, 10);
  const std::string states = dir / "o.h5.partial.states";
  std::filesystem::create_directory(states);
  write_durably(states + "/table.1.0.0", "");
  remove_job(dir / "o.h5.partial");
  EXPECT_FALSE(std::filesystem::exists(job));
  EXPECT_FALSE(std::filesystem::exists(states));
  EXPECT_TRUE(journals_of(job).empty());
  EXPECT_EQ(journals_of(dir / "other.h5.partial.job").size(), 1u);
  remove_job(dir / "other.h5.partial");  // without the job file journals mean nothing, and stay
  EXPECT_EQ(journals_of(dir / "other.h5.partial.job").size(), 1u);
}

}  // namespace
}  // namespace quarry::io
