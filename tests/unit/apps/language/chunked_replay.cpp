#include "tests/unit/apps/language/chunked_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string_view>
#include <utility>

#include "quarry/apps/binding/binding.h"
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/quarry/local_eval.h"
#include "quarry/chunked/api/quarry.h"
#include "quarry/chunked/runtime/budget.h"
#include "tests/support/cuts.h"

namespace quarry::apps::oracle_cases {

using expression::chunked_library;
using expression::local_library;
using expression::SequenceValue;

namespace {

// FNV-1a, which is the same everywhere.
class Hash {
 public:
  uint64_t value() const { return value_; }
  Hash& add(std::string_view bytes) {
    constexpr uint64_t kPrime = 1099511628211U;
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * kPrime;
    return *this;
  }
  void add_array(const local::NdArray& array) {
    const local::NdArray packed = array.to(local::kCpu).copy();
    add(fmt::format("{}{}", local::name(packed.dtype()), local::to_string(packed.shape())));
    add({static_cast<const char*>(packed.raw()), static_cast<size_t>(packed.nbytes())});
  }
  // A value whose arrays are local ones.
  void add_value(const ExpressionValue& value) {
    if (const auto* array = value.as<local::NdArray>()) {
      add_array(*array);
    } else if (const expression::LocalMasked* masked = expression::masked_in<local::ma::Local>(value)) {
      add_array(masked->mask());
      add_array(masked->filled(local::ma::Operand(0)));
    } else if (const SequenceValue* sequence = value.sequence()) {
      add(sequence->is_list ? "[" : "(");
      for (const ExpressionValue& item : sequence->items) add_value(item);
      add(")");
    } else {
      add(expression::type_name(value) + " " + display_local(value));
    }
  }

 private:
  uint64_t value_ = 14695981039346656037U;
};
uint64_t hash_of(std::string_view text) { return Hash().add(text).value(); }

Array cut_anyhow(const local::NdArray& array, std::mt19937& random) {
  constexpr int64_t kMostOfOne = 40;  // chunks of one element
  const auto way = random() % 4;
  if (way == 0) return Array::from_local(array);
  if (way == 1 && array.size() <= kMostOfOne) return Array::from_local(array).rechunk(Dims::filled(array.ndim(), 1));
  return testing::cut(array, random);
}

const char* only() { return std::getenv("QUARRY_ORACLE_ONLY"); }

}  // namespace

bool is_local_only(const std::string& text) {
  std::set<std::string> names;
  collect_names(text, names);
  const auto& here = local_library().registry();
  const auto& chunked = chunked_library().registry();
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    if (!name.starts_with("."))
      return here.function(name) != nullptr && chunked.function(name) == nullptr && !local_library().is_module(name);
    const std::string method = name.substr(1);
    const bool of_module = std::any_of(names.begin(), names.end(), [&](const std::string& other) {
      return other != name && other.ends_with(name) && chunked.function(other) != nullptr;
    });
    return !of_module && here.method(method) != nullptr && chunked.method(method) == nullptr;
  });
}

std::set<std::string> chunked_names(const std::string& text) {
  const auto& registry = chunked_library().registry();
  std::set<std::string> names;
  collect_names(text, names);
  std::erase_if(names, [&](const std::string& name) {
    return name.starts_with(".") ? registry.method(name.substr(1)) == nullptr : registry.function(name) == nullptr;
  });
  return names;
}

Differences::Differences(const std::string& chapter) {
  std::ifstream file(oracle::file("chunked_differences.txt"));
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t first = line.find(" | "), second = line.find(" | ", first + 1);
    if (second == std::string::npos) throw local::InvalidArgument("chunked_differences.txt: " + line);
    const std::string where = line.substr(0, first);
    if (where == "*" || where == chapter) needed_.emplace(line.substr(first + 3, second - first - 3), where == "*");
  }
}

bool Differences::allows(const std::string& text) {
  bool found = false;
  for (auto& [part, needed] : needed_) {
    if (text.find(part) == std::string::npos) continue;
    found = needed = true;
  }
  return found;
}

std::string Differences::unneeded() const {
  std::string text;
  for (const auto& [part, needed] : needed_)
    if (!needed) text += part + "\n";
  return text;
}

Sample sample_of_cases(uint64_t every) {
  Sample sample;
  std::set<std::string> named;
  struct First {
    std::string chapter;
    int number;
  };
  std::map<std::string, First> firsts;  // of each name
  for (const std::string& chapter : chapters()) {
    oracle::Reader reader(load_cases(chapter));
    for (int number = 0; !reader.done(); ++number) {
      const Case one = read_case(reader);
      if (is_local_only(one.expression)) continue;
      const bool is_chosen = hash_of(one.expression) % every == 0;
      if (is_chosen) sample[chapter].insert(number);
      for (const std::string& name : chunked_names(one.expression)) {
        if (is_chosen) named.insert(name);
        if (one.failure == Failure::none) firsts.try_emplace(name, First{chapter, number});
      }
    }
  }
  for (const auto& [name, first] : firsts)
    if (!named.contains(name)) sample[first.chapter].insert(first.number);
  return sample;
}

ChunkedCases::ChunkedCases(const std::string& chapter, const std::function<bool(int number)>& is_chosen)
    : reader_(load_cases(chapter)) {
  const Shard shard;
  int chosen = 0;
  for (int number = 0; !reader_.done(); ++number) {
    Case one = read_case(reader_);
    if (!is_chosen(number) || !shard.has(chosen++)) continue;
    if (only() != nullptr && one.expression.find(only()) == std::string::npos) continue;
    if (is_local_only(one.expression))
      ++of_one_process_;
    else
      cases_.push_back({number, std::move(one)});
  }
}

bool is_part() { return only() != nullptr || Shard().count > 1; }

ChunkedReplay::ChunkedReplay(ReplaySettings settings) : settings_(std::move(settings)) {
  if (!settings_.least_budget) runtime_.emplace(settings_.runtime);
}

Answer ChunkedReplay::answer_here(const oracle::Reader& reader, const ChunkedCases::Numbered& given, bool is_tight) {
  std::mt19937 random(static_cast<unsigned>(given.number));
  const auto cut = [&](const local::NdArray& array) {
    const Array result = cut_anyhow(array, random);
    return settings_.stores_inputs ? result.persist() : result;
  };
  Answer answer;
  std::optional<uint64_t> bits;
  const auto taken = [&](const ExpressionValue& value) {
    ExpressionValue here = localised(value);
    Hash hash;
    hash.add_value(here);
    bits = hash.value();
    return here;
  };
  const int64_t spilled_before = runtime_->statistics().spilled_bytes;
  answer.wrong = outcome(reader, given.one,
                         {&chunked_library(), cut, taken, /*other_sums=*/true,
                          /*throws_refusals=*/is_tight});
  answer.bits = bits ? *bits : hash_of(answer.wrong);
  answer.spilled_bytes = runtime_->statistics().spilled_bytes - spilled_before;
  return answer;
}

Answer ChunkedReplay::answer(const oracle::Reader& reader, const ChunkedCases::Numbered& given) {
  if (!settings_.least_budget) {
    Answer answer = answer_here(reader, given, /*is_tight=*/false);
    if (answer.wrong.starts_with("threw")) {  // ranks may be at odds
      runtime_.reset();
      runtime_.emplace(settings_.runtime);
    }
    return answer;
  }
  // Every BudgetError names the least that its computation needs; a case has several. What is too large for a task of
  // the budget is not supported: the budget is doubled, up to one that any case fits.
  constexpr int64_t kLeast = int64_t{64} << 10, kMost = int64_t{2} << 20, kLeastHost = int64_t{512} << 10;
  constexpr int kMostTries = 100;
  const bool on_cpu = settings_.runtime.device == local::DeviceKind::cpu;
  int64_t memory = 1, host_memory = kLeastHost;
  const auto raise = [](int64_t& budget, int64_t least) { budget = std::max(budget + 1, least); };
  std::string refusal;
  for (int i = 0; i < kMostTries; ++i) {
    settings_.runtime.memory = std::to_string(memory);
    settings_.runtime.host_memory = std::to_string(host_memory);
    runtime_.reset();
    try {
      runtime_.emplace(settings_.runtime);
      return answer_here(reader, given, memory < kMost);
    } catch (const local::BudgetError& error) {
      const bool of_host = !runtime_ || dynamic_cast<const exec::HostBudgetError*>(&error) != nullptr;
      raise(of_host && !on_cpu ? host_memory : memory, error.least_bytes());
      refusal = error.what();
    } catch (const local::InvalidArgument&) {
      raise(memory, std::max(kLeast, 2 * memory));
    }
  }
  const std::string wrong = fmt::format("no budget works: {}", short_text(refusal));
  return {wrong, hash_of(wrong), 0};
}

}  // namespace quarry::apps::oracle_cases
