#include "quarry/apps/quarry/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "quarry/apps/quarry/help.h"
#include "quarry/apps/quarry/progress.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/apps/quarry/tool.h"

namespace quarry::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

TEST(Options, TheCommandLineComesFirst) {
  CLI::App command;
  CommonOptions options;
  add_common_options(command, options);
  setenv("QUARRY_SEED", "5", /*replace=*/1);
  command.parse("--memory 1GiB --threads 3 --chunks 4,-1 --plan --out-filter shuffle");
  EXPECT_EQ(options.seed_value(), 5u);
  EXPECT_TRUE(options.plan());
  const RuntimeOptions runtime = options.runtime();
  EXPECT_EQ(runtime.memory, "1GiB");
  EXPECT_EQ(runtime.threads, 3);
  EXPECT_EQ(runtime.chunks, (Dims{4, -1}));
  EXPECT_TRUE(runtime.from_command_line);
  EXPECT_EQ(options.store(/*overwrite=*/true).filters.size(), 1u);
  setenv("QUARRY_SEED", "five", /*replace=*/1);
  EXPECT_THROW(command.parse("--memory 1GiB"), local::InvalidArgument);
  EXPECT_THROW(command.parse("--seed x"), local::InvalidArgument);
  unsetenv("QUARRY_SEED");
}

TEST(Options, HelpHasEveryRow) {
  const std::string text = options_text(), page = options_markdown();
  for (const local::OptionRow& row : local::option_table()) {
    for (const std::string_view part : {row.option, row.environment, row.help}) {
      EXPECT_THAT(text, HasSubstr(std::string(part)));
      if (part.find('|') == std::string_view::npos) {
        EXPECT_THAT(page, HasSubstr(std::string(part)));
      }
    }
  }
}

TEST(Options, FiltersAreInTheOrderHdf5AppliesThem) {
  const std::vector<io::Filter> filters = parse_filters("fletcher32,deflate:6,shuffle", "--filter");
  ASSERT_EQ(filters.size(), 3u);
  EXPECT_EQ(filters[0].kind, io::Filter::Kind::shuffle);
  EXPECT_EQ(filters[1].kind, io::Filter::Kind::deflate);
  EXPECT_EQ(filters[1].level, 6);
  EXPECT_EQ(filters[2].kind, io::Filter::Kind::fletcher32);
  EXPECT_THAT(parse_filters("none", "--filter"), IsEmpty());
  for (const char* const name : {"lz4", "zstd", "blosc", "gzip"}) {
    const std::vector<io::Filter> two = parse_filters(std::string("fletcher32,") + name, "--filter");
    ASSERT_EQ(two.size(), 2u);
    const io::FilterKind* const kind = io::find_kind(two[0].kind);
    EXPECT_EQ(kind->step, io::FilterKind::Step::compress);
    EXPECT_EQ(two[0].level, kind->level);
  }
  EXPECT_EQ(io::to_string(parse_filters("zstd:19,shuffle,fletcher32", "--filter")), "shuffle,zstd:19,fletcher32");
  EXPECT_EQ(io::to_string(parse_filters("lz4", "--filter")), "lz4");
  for (const char* text : {"lzf", "lz4:1", "zstd:0", "zstd:23", "blosc:10", "zstd,deflate", "zip", "deflate:10",
                           "deflate:x", "shuffle:1", "shuffle,shuffle", "deflate,", ","}) {
    EXPECT_THROW(parse_filters(text, "--filter"), local::InvalidArgument) << text;
  }
}

TEST(Options, TheLastColonSlashSeparatesFileAndObject) {
  EXPECT_EQ(parse_file_object("a.h5:/x/y").file, "a.h5");
  EXPECT_EQ(parse_file_object("a.h5:/x/y").object, "/x/y");
  EXPECT_EQ(parse_file_object("a.h5").object, "");
  EXPECT_EQ(parse_file_object("dir:/a.h5:/x").file, "dir:/a.h5");
  EXPECT_EQ(parse_file_object("a:b.h5").file, "a:b.h5");
}

class TakeExpressions : public ::testing::Test {
 protected:
  TakeExpressions() {
    command_.add_option("-i,--input", inputs_);
    command_.add_option("-o,--output", text_);
    command_.add_option("--memory", text_);
    command_.add_flag("--overwrite", flag_);
  }
  Words take(Words arguments) {
    rest_ = std::move(arguments);
    return take_expressions(command_, rest_);
  }
  CLI::App command_;
  Words inputs_, rest_;
  std::string text_;
  bool flag_ = false;
};

TEST_F(TakeExpressions, StandAnywhere) {
  EXPECT_THAT(take({"x", "-i", "x=f:/x", "--overwrite"}), ElementsAre("x"));
  EXPECT_THAT(rest_, ElementsAre("-i", "x=f:/x", "--overwrite"));
  EXPECT_THAT(take({"-i", "x=f:/x", "--memory=1GiB", "-x"}), ElementsAre("-x"));
  EXPECT_THAT(take({"--overwrite", "x"}), ElementsAre("x"));
  EXPECT_THAT(take({"-o", "f.h5", "--", "-o"}), ElementsAre("-o"));
  EXPECT_THAT(take({"-inf"}), ElementsAre("-inf"));
  EXPECT_THAT(take({"-i", "-i", "i=f:/x"}), ElementsAre("-i"));
  EXPECT_THAT(rest_, ElementsAre("-i", "i=f:/x"));
  EXPECT_THAT(take({"--x", "-i", "x=f:/x"}), ElementsAre("--x"));
  EXPECT_THAT(take({"-i", "x=f:/x"}), IsEmpty());
  EXPECT_THAT(take({"a", "b"}), ElementsAre("a", "b"));
}

TEST_F(TakeExpressions, MisspeltOptionsAreNone) {
  try {
    take({"x", "--memroy", "1GiB"});
    FAIL();
  } catch (const local::InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "unknown option --memroy; did you mean '--memory'?");
  }
}

TEST(Text, NumbersForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(int64_t{256} << 20), "256 MiB");
  EXPECT_EQ(format_bytes(INT64_MAX), "8.00 EiB");
  EXPECT_EQ(format_seconds(0.346), "0.35 s");
  EXPECT_EQ(format_seconds(185), "3:05");
  EXPECT_EQ(format_seconds(7650), "2:07:30");
  EXPECT_EQ(format_seconds(INFINITY), "unknown");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-999), "-999");
}

TEST(Progress, SaysRateMemoryAndTimeLeft) {
  const ProgressDisplay display(/*width=*/80);
  Progress progress;
  progress.tasks_done = 25;
  progress.tasks_total = 100;
  progress.bytes_done = 1 << 30;
  progress.bytes_total = int64_t{4} << 30;
  progress.memory_used = 64 << 20;
  progress.memory_limit = 256 << 20;
  const std::string line = display.line(progress, 2);
  // At 80 columns there is room for a bar.
  EXPECT_EQ(line, " 25%  512 MiB/s  memory 64.0 MiB of 256 MiB  6.00 s left");
  const std::string whole = ProgressDisplay(/*width=*/120).line(progress, 2);
  for (const char* part : {"25%", "25 of 100 tasks", "512 MiB/s", "memory 64.0 MiB of 256 MiB", "6.00 s left"}) {
    EXPECT_THAT(whole, HasSubstr(part));
  }
  EXPECT_NO_THROW(display.line({}, 0));
  // What does not fit goes whole, the time left last.
  EXPECT_EQ(ProgressDisplay(/*width=*/60).line(progress, 2), " 25%  512 MiB/s  6.00 s left");
  EXPECT_EQ(ProgressDisplay(/*width=*/40).line(progress, 2), " 25%  512 MiB/s  6.00 s left");
  EXPECT_EQ(ProgressDisplay(/*width=*/20).line(progress, 2), " 25%  6.00 s left");
  EXPECT_EQ(ProgressDisplay(/*width=*/0).line(progress, 2), whole);
}

TEST(Progress, FollowsTheWorkWhereItIsKnown) {
  Progress progress;
  progress.tasks_total = 1;  // a product, of which no bytes move
  progress.work_total = 20;
  progress.work_done = 5;
  EXPECT_THAT(ProgressDisplay(/*width=*/0).line(progress, 5), AllOf(HasSubstr(" 25%"), HasSubstr("15 s left")));
}

}  // namespace
}  // namespace quarry::apps
