#include "quarry/local/base/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

namespace quarry::local {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Sets a variable for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const auto value_before = environment(name)) before_ = *value_before;
    setenv(name, value, /*replace=*/1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), /*replace=*/1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

OptionValue given(Option option, const std::string& text) { return {option, text, OptionGiver::command_line}; }

template <class Body>
std::string message(Body body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(OptionTable, EveryRowIsWhole) {
  std::set<std::string_view> members, options, variables;
  for (const OptionRow& row : option_table()) {
    SCOPED_TRACE(row.member);
    EXPECT_EQ(option_row(row.id).member, row.member);
    EXPECT_GT(row.help.size(), 8u);
    EXPECT_FALSE(row.help.ends_with('.'));
    EXPECT_FALSE(row.default_text().empty());
    EXPECT_FALSE(row.layer.empty());
    EXPECT_TRUE(members.insert(row.member).second);
    if (!row.option.empty()) {
      EXPECT_TRUE(options.insert(row.option).second);
    }
    if (!row.environment.empty()) {
      EXPECT_TRUE(variables.insert(row.environment).second);
    }
    EXPECT_EQ(row.type == OptionType::flag, row.placeholder().empty());
    // The names follow from one another.
    std::string option = "--" + std::string(row.member), variable = "QUARRY_";
    for (char& c : option) c = c == '_' ? '-' : c;
    for (const char c : row.member) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (!row.option.empty()) {
      EXPECT_EQ(row.option, option);
    }
    if (!row.environment.empty()) {
      EXPECT_EQ(row.environment, variable);
    }
  }
  EXPECT_EQ(option_table().size(), kOptionCount);
}

TEST(OptionTable, EveryDefaultParses) {
  for (const OptionRow& row : option_table()) {
    SCOPED_TRACE(row.member);
    if (!row.otherwise.empty()) {
      EXPECT_NO_THROW(given(row.id, std::string(row.otherwise)).check());
    }
    if (row.shown.empty()) {
      EXPECT_FALSE(row.otherwise.empty());
    }
    // A flag, a choice and what has no words for "found out later" has a default that is a value.
    if (row.type == OptionType::flag || row.type == OptionType::choice) {
      EXPECT_FALSE(row.otherwise.empty());
    }
  }
}

TEST(OptionTable, BadTextsOfEveryType) {
  const auto bad_texts = [](OptionType type) -> std::vector<std::string> {
    switch (type) {
      case OptionType::flag:
        return {"maybe", "2", "ON"};
      case OptionType::integer:
        return {"x", "-1", "1.5", "1 ", "99999999999999999999", "0x10"};
      case OptionType::number:
        return {"heavy", "-1", "1e9", "nan", "inf", "0", "1,5"};
      case OptionType::size:
        return {"lots", "1Gibi", "-1", "", "1e300 B", "99999999999 TiB", "101%"};
      case OptionType::seconds:
        return {"soon", "-1", "5s", "nan"};
      case OptionType::choice:
        return {"maybe", "AUTO", "auto ", "aut"};
      case OptionType::extents:
        return {"0", "-2", "4,x", "4,,4", "1.5", ",", "99999999999999999999", "()"};
      case OptionType::path:
      case OptionType::text:
        break;
    }
    return {};
  };
  for (const OptionRow& row : option_table()) {
    for (const std::string& text : bad_texts(row.type)) {
      if (text.empty()) continue;  // says nothing
      SCOPED_TRACE(std::string(row.member) + " " + text);
      EXPECT_THROW(given(row.id, text).check(), InvalidArgument);
      EXPECT_THAT(message([&] { given(row.id, text).check(); }), HasSubstr(text));
    }
  }
}

TEST(OptionValue, GivenBeatsEnvironmentBeatsDefault) {
  EXPECT_EQ(OptionValue(Option::balance).text(), "on");
  EXPECT_EQ(OptionValue(Option::balance).giver(), OptionGiver::nobody);
  EXPECT_EQ(OptionValue(Option::balance).source(), "balance");
  const Variable variable("QUARRY_BALANCE", "off");
  EXPECT_EQ(OptionValue(Option::balance).word(), 1u);
  EXPECT_EQ(OptionValue(Option::balance).source(), "QUARRY_BALANCE");
  EXPECT_EQ(given(Option::balance, "on").word(), 0u);
  EXPECT_EQ(given(Option::balance, "on").source(), "--balance");
  EXPECT_EQ(given(Option::balance, "").source(), "QUARRY_BALANCE");
  const Variable empty("QUARRY_BALANCE", "");
  EXPECT_EQ(OptionValue(Option::balance).text(), "on");
}

TEST(OptionValue, ErrorsNameWhereTheTextCameFrom) {
  const Variable variable("QUARRY_THREADS", "many");
  const std::string expected = ": expected a whole number from 1 to 4096";
  EXPECT_EQ(message([] { OptionValue(Option::threads).check(); }), "QUARRY_THREADS=many" + expected);
  EXPECT_EQ(message([] { given(Option::threads, "all").check(); }), "--threads all" + expected);
  EXPECT_EQ(message([] { OptionValue(Option::threads, "all", OptionGiver::program).check(); }),
            "threads: \"all\"" + expected);
  EXPECT_EQ(message([] { OptionValue(Option::threads, "all", OptionGiver::file, "jobs.conf:3").check(); }),
            "jobs.conf:3: threads=all" + expected);
  const Variable memory("QUARRY_MEMORY", "1Gibi");
  EXPECT_THAT(message([] { OptionValue(Option::memory).check(); }), StartsWith("QUARRY_MEMORY: \"1Gibi\" is no size"));
  EXPECT_THAT(message([] { given(Option::memory, "x").check(); }), StartsWith("--memory: \"x\" is no size"));
  EXPECT_EQ(message([] { given(Option::device, "cdua").check(); }),
            "--device cdua: expected auto, cpu, cuda or emulated; did you mean 'cuda'?");
  EXPECT_EQ(message([] { given(Option::chunks, "4,x").check(); }),
            "--chunks 4,x: expected extents of at least 1 as in 4096,512 (-1: a whole axis), or auto");
  EXPECT_EQ(message([] { given(Option::plan, "maybe").check(); }), "--plan maybe: expected on or off");
}

TEST(OptionValue, AValuePerType) {
  EXPECT_EQ(given(Option::threads, "12").integer(), 12);
  EXPECT_EQ(given(Option::seed, "18446744073709551615").natural(), UINT64_MAX);
  EXPECT_EQ(OptionValue(Option::weight, "0.25", OptionGiver::program).number(), 0.25);
  EXPECT_EQ(given(Option::memory, "1.5 KiB").bytes(), 1536);
  EXPECT_EQ(given(Option::memory, "50%").bytes(1000), 500);
  EXPECT_THAT(message([] { static_cast<void>(given(Option::memory, "50%").bytes()); }), HasSubstr("a part of"));
  EXPECT_EQ(OptionValue(Option::watchdog, "2.5", OptionGiver::program).seconds(), 2.5);
  EXPECT_EQ(given(Option::peer_copies, "off").word(), 2u);
  EXPECT_TRUE(given(Option::plan, "1").flag());
  EXPECT_FALSE(given(Option::plan, "no").flag());
  EXPECT_THROW(static_cast<void>(given(Option::plan, "on").integer()), InternalError);
}

TEST(OptionValue, ExtentsOrNone) {
  EXPECT_FALSE(given(Option::chunks, "auto").extents());
  EXPECT_FALSE(given(Option::out_chunks, "none").extents());
  EXPECT_FALSE(OptionValue(Option::out_chunks).extents());
  EXPECT_EQ(given(Option::chunks, "4096,512").extents(), (Dims{4096, 512}));
  EXPECT_EQ(given(Option::chunks, "(16, -1,)").extents(), (Dims{16, -1}));
  EXPECT_THROW(static_cast<void>(given(Option::chunks, "none").extents()), InvalidArgument);
}

TEST(OptionValue, LongTextsAreNotEchoedWhole) {
  const std::string text(100000, 'a');
  for (const Option option : {Option::threads, Option::memory, Option::device, Option::chunks}) {
    EXPECT_LT(message([&] { given(option, text).check(); }).size(), 400u);
  }
}

TEST(Environment, SystemVariables) {
  EXPECT_EQ(environment("QUARRY_NOT_A_VARIABLE"), std::nullopt);
  EXPECT_EQ(environment("QUARRY_NOT_A_VARIABLE", "other"), "other");
  const Variable variable("SOME_VARIABLE", "");
  EXPECT_EQ(environment("SOME_VARIABLE"), "");
  EXPECT_EQ(environment("SOME_VARIABLE", "other"), "other");
  set_default_environment("SOME_VARIABLE", "value");
  EXPECT_EQ(environment("SOME_VARIABLE"), "");
  const std::vector<std::string> entries = environment_entries();
  EXPECT_NE(std::find(entries.begin(), entries.end(), "SOME_VARIABLE="), entries.end());
}

TEST(Environment, IsCheckedByScope) {
  const Variable watchdog("QUARRY_WATCHDOG", "soon"), progress("QUARRY_PROGRESS", "maybe");
  const OptionScope runtime[] = {OptionScope::runtime}, test[] = {OptionScope::test};
  EXPECT_EQ(message([&] { check_environment(runtime); }), "QUARRY_WATCHDOG=soon: expected seconds");
  EXPECT_EQ(message([&] { check_environment(test); }), "no error");
  const Option given[] = {Option::watchdog};
  EXPECT_EQ(message([&] { check_environment(runtime, given); }), "no error");
}

TEST(Environment, MisspeltVariablesAreNamedAndOthersLeftAlone) {
  EXPECT_THAT(misspelt_variables(), IsEmpty());
  const Variable slip("QUARRY_MEMROY", "1GiB"), own("QUARRY_HOME", "/opt/quarry"), right("QUARRY_MEMORY", "1GiB");
  EXPECT_THAT(misspelt_variables(), ElementsAre("QUARRY_MEMROY is no option; did you mean 'QUARRY_MEMORY'?"));
}

TEST(Suggestion, IsTheNearestName) {
  const std::vector<std::string> names = {"mean", "min", "max", "median", "arange"};
  EXPECT_EQ(suggestion("meen", names), "; did you mean 'mean'?");
  EXPECT_EQ(suggestion("maen", names), "; did you mean 'mean'?");
  EXPECT_EQ(suggestion("ARANGE", names), "; did you mean 'arange'?");
  EXPECT_EQ(suggestion("completely", names), "");
  EXPECT_EQ(suggestion("x", names), "");
  EXPECT_EQ(suggestion(std::string(100000, 'a'), names), "");
}

TEST(Excerpt, KeepsBothEndsAndWholeCharacters) {
  EXPECT_EQ(excerpt("short", 10), "short");
  EXPECT_EQ(excerpt("0123456789abcdef", 11), "012345...ef");
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\xc3\xa9";
  for (const size_t most : {3u, 4u, 20u, 21u, 22u, 23u, 199u}) {
    const std::string part = excerpt(accents, most);
    EXPECT_LE(part.size(), most);
    EXPECT_EQ((part.size() - 3) % 2, 0u) << part;
  }
}

}  // namespace
}  // namespace quarry::local
