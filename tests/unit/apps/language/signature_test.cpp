// The signatures of the function tables against NumPy's (scripts/oracle/tables/signatures.py), but for the differences
// of tests/oracle/signature_differences.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>

#include "quarry/apps/language/library.h"
#include "tests/oracle/reader.h"

namespace quarry::apps::expression {
namespace {

struct Described {
  char kind = 'a';
  std::string name, value;
};

char kind_of(Parameter::Kind kind) {
  switch (kind) {
    case Parameter::Kind::positional_only:
      return 'p';
    case Parameter::Kind::positional:
      return 'a';
    case Parameter::Kind::variadic:
      return 'v';
    case Parameter::Kind::keyword_only:
      return 'k';
    case Parameter::Kind::keywords:
      return 'w';
  }
  return 'a';
}

std::vector<Described> parameters_of(const Function& function, bool without_self) {
  std::vector<Described> result;
  for (const Parameter& p : function.parameters()) {
    const bool named = p.kind != Parameter::Kind::variadic && p.kind != Parameter::Kind::keywords;
    const std::string value =
        named && p.default_value ? repr(*p.default_value, [](const Value&) { return std::string(); }) : "-";
    result.push_back({kind_of(p.kind), p.name, value});
  }
  if (without_self) result.erase(result.begin());
  return result;
}

// "axis: the default is 0, NumPy's is None" for each parameter, by its name.
std::map<std::string, std::string> differences(const std::vector<Described>& ours,
                                               const std::vector<Described>& numpys) {
  std::map<std::string, std::string> result;
  const auto find = [](const std::vector<Described>& list, const std::string& name) -> const Described* {
    for (const Described& one : list)
      if (one.name == name) return &one;
    return nullptr;
  };
  bool open = false;  // NumPy passes other keywords on
  for (const Described& p : numpys) {
    open = open || p.kind == 'w';
    if (p.kind == 'w') continue;
    const Described* mine = find(ours, p.name);
    if (mine == nullptr)
      result[p.name] = "is missing";
    else if (mine->kind != p.kind)
      result[p.name] = std::string("is of the kind ") + mine->kind + ", NumPy's of " + p.kind;
    else if (p.value != "?" && mine->value != p.value)
      result[p.name] = "has the default " + mine->value + ", NumPy's " + p.value;
  }
  for (const Described& p : ours)
    if (find(numpys, p.name) == nullptr && !open) result[p.name] = "is not NumPy's";
  // The order of what may be given by position.
  std::vector<std::string> order[2];
  for (const Described& p : ours)
    if (p.kind != 'k' && p.kind != 'w' && find(numpys, p.name)) order[0].push_back(p.name);
  for (const Described& p : numpys)
    if (p.kind != 'k' && p.kind != 'w' && find(ours, p.name)) order[1].push_back(p.name);
  if (order[0] != order[1]) result["order"] = "differs";
  return result;
}

TEST(Signatures, AreNumPys) {
  std::ifstream decided_list(oracle::file("signature_differences.txt"));
  ASSERT_TRUE(decided_list);
  std::set<std::pair<std::string, std::string>> decided, used;  // (function, parameter)
  for (std::string line; std::getline(decided_list, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string function, parameter;
    words >> function >> parameter;
    decided.emplace(function, parameter);
  }
  const Registry& local = local_library().registry();
  const Registry& chunked = chunked_library().registry();
  int count = 0;
  for (const std::vector<std::string>& row : oracle::table("signatures", "signatures")) {
    const std::string& name = row[0];
    const bool is_method = name[0] == '.';
    const auto in = [&](const Registry& registry) {
      return is_method ? registry.method(name.substr(1)) : registry.function(name);
    };
    const Function* function =
        in(local) != nullptr ? in(local) : in(chunked);  // random.normal is chunked arrays' alone
    const auto allowed = [&](const std::string& parameter) {
      for (const auto& key : {std::pair(name, parameter), std::pair(std::string("*"), parameter)}) {
        if (!decided.contains(key)) continue;
        used.insert(key);
        return true;
      }
      return false;
    };
    if (function == nullptr) {
      EXPECT_TRUE(allowed("-")) << name << " is missing";
      continue;
    }
    std::vector<Described> numpys;
    for (const std::string& field : std::span(row).subspan(1))
      numpys.push_back({field[0], field.substr(2, field.find(' ', 2) - 2), field.substr(field.find(' ', 2) + 1)});
    // numpy.ma passes "*args, **kwargs" on to the plain functions.
    const auto is_kind = [](char kind) { return [kind](const Described& p) { return p.kind == kind; }; };
    if (name.starts_with("ma.") && std::any_of(numpys.begin(), numpys.end(), is_kind('w')))
      numpys.erase(std::remove_if(numpys.begin(), numpys.end(), is_kind('v')), numpys.end());
    ++count;
    const bool has_self = is_method || name.starts_with("random.Generator.") || name.starts_with("ma.MaskedArray.");
    for (const auto& [parameter, what] : differences(parameters_of(*function, has_self), numpys))
      EXPECT_TRUE(allowed(parameter)) << name << function->signature.text() << ": " << parameter << " " << what;
  }
  EXPECT_GT(count, 400);
  for (const auto& key : decided)
    EXPECT_TRUE(used.contains(key)) << key.first << " " << key.second << " no longer differs";
}

}  // namespace
}  // namespace quarry::apps::expression
