// NumPy's other names of ufuncs and reductions in the language and in its page of functions.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "quarry/apps/language/function.h"
#include "quarry/apps/language/library.h"
#include "quarry/local/program/op.h"
#include "tests/support/source_file.h"

namespace quarry::apps::expression {
namespace {

std::set<std::string> listed() {
  std::set<std::string> names;
  std::ifstream page(test::source_file("docs/functions.md"));
  EXPECT_TRUE(page);
  for (std::string line; std::getline(page, line);)
    if (line.starts_with("- `")) names.insert(line.substr(3, line.find('(') - 3));
  return names;
}

void expect_everywhere(const char* name, const char* aliases) {
  static const std::set<std::string> page = listed();
  std::istringstream words(aliases);
  for (std::string alias; words >> alias;) {
    for (const Library* library : {&chunked_library(), &local_library()}) {
      ASSERT_NE(library->registry().function(name), nullptr) << name;
      EXPECT_NE(library->registry().function(alias), nullptr) << alias;
    }
    EXPECT_TRUE(page.contains(alias)) << alias << ": run scripts/functions_page";
  }
}

TEST(Aliases, InTheLanguageAndItsPage) {
  for (int i = 0; i < local::op_count(); ++i) {
    const local::OpInfo& row = local::info(static_cast<local::Op>(i));
    expect_everywhere(row.name, row.aliases);
  }
  for (int i = 0; i < local::reduction_count(); ++i) {
    const local::ReductionInfo& row = local::info(static_cast<local::Reduction>(i));
    expect_everywhere(row.name, row.aliases);
  }
}

}  // namespace
}  // namespace quarry::apps::expression
