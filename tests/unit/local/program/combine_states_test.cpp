// Many states merged by one program have the bits of states merged one after the other.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "quarry/local/local.h"
#include "quarry/local/program/combining.h"
#include "quarry/local/program/engine.h"

namespace quarry::local {
namespace {

constexpr int64_t kElements = 37;
constexpr int kStates = 9;

using Field = std::vector<std::byte>;
using State = std::vector<Field>;  // of all reductions

std::vector<DType> fields_of(const std::vector<ProgramReduction>& reductions) {
  std::vector<DType> dtypes;
  for (const auto& r : reductions) {
    for (const DType dtype : state_dtypes(r.reduction, r.accumulate)) dtypes.push_back(dtype);
  }
  return dtypes;
}

// Counts, positions and values that mean something; some states of no elements.
State random_state(const std::vector<DType>& dtypes, std::mt19937& random) {
  State state;
  for (const DType dtype : dtypes) {
    Field field(static_cast<size_t>(kElements * itemsize(dtype)));
    for (int64_t i = 0; i < kElements; ++i) {
      std::byte* const at = field.data() + i * itemsize(dtype);
      const int value = static_cast<int>(random() % 2000) - 200;
      if (dtype == DType::float64) {
        const double number = value * 0.37;
        std::memcpy(at, &number, sizeof number);
      } else if (dtype == DType::float32) {
        const float number = static_cast<float>(value) * 0.37F;
        std::memcpy(at, &number, sizeof number);
      } else if (dtype == DType::int64) {
        const int64_t number = value < 0 ? 0 : value;
        std::memcpy(at, &number, sizeof number);
      } else {
        *at = static_cast<std::byte>(value & 1);
      }
    }
    state.push_back(std::move(field));
  }
  return state;
}

void run(const Program& program, const std::vector<DType>& dtypes, const std::vector<State*>& from, State& to) {
  Launch launch;
  launch.shape = Dims{kElements};
  for (State* state : from) {
    for (size_t f = 0; f < dtypes.size(); ++f) launch.inputs.push_back({(*state)[f].data(), Dims{itemsize(dtypes[f])}});
  }
  for (size_t f = 0; f < dtypes.size(); ++f) launch.outputs.push_back({to[f].data(), Dims{itemsize(dtypes[f])}});
  engine(kCpu).run(program, launch, default_context(kCpu));
}

// One combine_program() of each reduction: a and b merged.
State combined(const std::vector<ProgramReduction>& reductions, const State& a, const State& b) {
  State result = a;
  size_t first = 0;
  for (const auto& r : reductions) {
    const std::vector<DType> own = state_dtypes(r.reduction, r.accumulate);
    const auto part = [&](const State& state) {
      const auto begin = state.begin() + static_cast<std::ptrdiff_t>(first);
      return State(begin, begin + static_cast<std::ptrdiff_t>(own.size()));
    };
    State left = part(a), right = part(b), merged = left;
    run(combine_program(r.reduction, r.accumulate), own, {&left, &right}, merged);
    std::ranges::copy(merged, result.begin() + static_cast<std::ptrdiff_t>(first));
    first += own.size();
  }
  return result;
}

class CombineStates : public ::testing::Test {
 protected:
  CombineStates() {
    std::mt19937 random(11);
    for (int s = 0; s < kStates; ++s) states_.push_back(random_state(dtypes_, random));
  }
  // The first states by one program.
  State together(int count, MergeOrder order) {
    State result = states_[0];
    std::vector<State*> inputs;
    for (int s = 0; s < count; ++s) inputs.push_back(&states_[static_cast<size_t>(s)]);
    run(combine_states_program(reductions_, count, order), dtypes_, inputs, result);
    return result;
  }

  const std::vector<ProgramReduction> reductions_ = {
      {"sum"_reduction, DType::float32, {}},    {"var"_reduction, DType::float64, {}},
      {"argmax"_reduction, DType::float64, {}}, {"prod"_reduction, DType::float64, {}},
      {"max"_reduction, DType::float32, {}},    {"any"_reduction, DType::bool_, {}}};
  const std::vector<DType> dtypes_ = fields_of(reductions_);
  std::vector<State> states_;
};

TEST_F(CombineStates, InAChainOneGoesAfterTheOther) {
  for (const int count : {1, 2, 3, kStates}) {
    State apart = states_[0];
    for (int s = 1; s < count; ++s) apart = combined(reductions_, apart, states_[static_cast<size_t>(s)]);
    EXPECT_EQ(together(count, MergeOrder::chain), apart) << count;
  }
}

TEST_F(CombineStates, InPairsLevelByLevel) {
  for (int count = 1; count <= kStates; ++count) {
    std::vector<State> level(states_.begin(), states_.begin() + count);
    while (level.size() > 1) {
      std::vector<State> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(combined(reductions_, level[i], level[i + 1]));
      if (level.size() % 2 != 0) next.push_back(level.back());
      level = std::move(next);
    }
    EXPECT_EQ(together(count, MergeOrder::pairs), level[0]) << count;
  }
}

}  // namespace
}  // namespace quarry::local
