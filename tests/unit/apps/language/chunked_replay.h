// Replays the oracle's expressions on chunked arrays that are cut in many ways: in one process
// (chunked_oracle_test.cpp), and on ranks and with budgets that spill (tests/mpi/oracle.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "quarry/chunked/runtime/runtime.h"
#include "tests/unit/apps/language/oracle_cases.h"

namespace quarry::apps::oracle_cases {

// Whether the expression names a function or method that arrays of one process have and chunked ones do not.
bool is_local_only(const std::string& text);

// The functions and methods of chunked arrays that a text names.
std::set<std::string> chunked_names(const std::string& text);

// The lines of chunked_differences.txt that count for a chapter, and which of them were needed.
class Differences {
 public:
  explicit Differences(const std::string& chapter);
  bool allows(const std::string& text);
  std::string unneeded() const;

 private:
  std::map<std::string, bool> needed_;
};

// Numbers of cases, by chapter.
using Sample = std::map<std::string, std::set<int>>;
// One case in `every` by a hash of its text, and for each function and method of chunked arrays that none of these
// names the first one that does. Reads all chapters.
Sample sample_of_cases(uint64_t every);

// The cases of a chapter that are replayed: the chosen ones that QUARRY_ORACLE_SHARD and QUARRY_ORACLE_ONLY leave, but
// not those of functions of one process.
class ChunkedCases {
 public:
  struct Numbered {
    int number = 0;  // in the chapter
    Case one;
  };
  ChunkedCases(const std::string& chapter, const std::function<bool(int number)>& is_chosen);
  const oracle::Reader& reader() const { return reader_; }
  const std::vector<Numbered>& cases() const { return cases_; }
  int of_one_process() const { return of_one_process_; }

 private:
  oracle::Reader reader_;
  std::vector<Numbered> cases_;
  int of_one_process_ = 0;
};
// Whether QUARRY_ORACLE_SHARD or QUARRY_ORACLE_ONLY leave cases out.
bool is_part();

// What chunked arrays gave.
struct Answer {
  std::string wrong;          // empty: as NumPy
  uint64_t bits = 0;          // a hash of the result's types, shapes and elements; of `wrong` where there is none
  int64_t spilled_bytes = 0;  // by this rank
};

struct ReplaySettings {
  RuntimeOptions runtime;
  bool stores_inputs = false;  // they are computed and kept before the expression is
  bool least_budget = false;   // each case has the least budget that works, whatever the options say
};

class ChunkedReplay {
 public:
  explicit ChunkedReplay(ReplaySettings settings);
  // How the inputs are cut follows from the case's number alone. Collective over the ranks of the Runtime.
  Answer answer(const oracle::Reader& reader, const ChunkedCases::Numbered& given);

 private:
  // With what Runtime there is. Throws what refuses the budget, where that is tight.
  Answer answer_here(const oracle::Reader& reader, const ChunkedCases::Numbered& given, bool is_tight);
  ReplaySettings settings_;
  std::optional<Runtime> runtime_;
};

}  // namespace quarry::apps::oracle_cases
