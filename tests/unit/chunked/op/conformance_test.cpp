// Every operator on random shapes and uneven cuts: values are those of whole arrays, bits those of any budget and
// number of threads. A row per operator (tests/support/operator_rows.h); tests/mpi/operators.cpp has the same on ranks.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/evaluate.h"
#include "tests/support/operator_rows.h"

namespace quarry {
namespace {

using testing::Choices;
using testing::OperatorCall;
using testing::OperatorRow;

constexpr uint64_t kSeeds = 12;

RuntimeOptions on(local::DeviceKind device, const char* memory, int threads) {
  RuntimeOptions options;
  options.device = device;
  options.memory = memory;
  if (device != local::DeviceKind::cpu) options.host_memory = memory;
  options.threads = threads;
  return options;
}

struct Setting {
  const char* name;
  local::DeviceKind device;
  const char* memory;
  int threads;
};
constexpr Setting kSettings[] = {{"cpu", local::DeviceKind::cpu, "64MiB", 2},
                                 {"cpu_in_little_memory", local::DeviceKind::cpu, "1MiB", 1},
                                 {"emulated", local::DeviceKind::emulated, "64MiB", 1}};

std::vector<local::NdArray> computed(const OperatorRow& row, uint64_t seed) {
  Choices choices(seed);
  return to_host(row.make(choices).chunked);
}

class Operators : public ::testing::TestWithParam<OperatorRow> {};

TEST_P(Operators, MeanWhatTheyMeanOnWholeArrays) {
  for (const Setting& setting : kSettings) {
    const Runtime runtime(on(setting.device, setting.memory, setting.threads));
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(std::string(setting.name) + ", seed " + std::to_string(seed));
      Choices choices(seed);
      const OperatorCall call = GetParam().make(choices);
      const std::vector<local::NdArray> values = to_host(call.chunked);
      ASSERT_EQ(values.size(), call.expected.size());
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(values[i].shape(), call.chunked[i].shape());
        EXPECT_TRUE(testing::close(values[i], call.expected[i], 1e-4, 1e-4))
            << "result " << i << "\nchunked: " << values[i].repr() << "\nwhole: " << call.expected[i].repr();
      }
    }
  }
}

TEST_P(Operators, LocalGivesTheSame) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Choices choices(seed);
    const OperatorCall call = GetParam().make(choices);
    for (size_t i = 0; i < call.chunked.size(); ++i) {
      for (const expr::NodePtr& node : expr::topological(std::array{call.chunked[i].node()})) {
        if (node->as<expr::Apply>() == nullptr) continue;
        const local::NdArray value = testing::evaluate(node);
        EXPECT_EQ(value.shape(), node->shape) << expr::to_string(node);
        EXPECT_EQ(value.dtype(), node->dtype) << expr::to_string(node);
      }
    }
  }
}

TEST_P(Operators, HaveTheSameBitsInAnyBudgetAndOnAnyThreads) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<local::NdArray> first;
    for (const Setting& setting : {kSettings[0], kSettings[1]}) {
      const Runtime runtime(on(setting.device, setting.memory, setting.threads));
      const std::vector<local::NdArray> values = computed(GetParam(), seed);
      if (first.empty()) first = values;
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(std::memcmp(values[i].raw(), first[i].raw(), static_cast<size_t>(values[i].nbytes())), 0)
            << "seed " << seed << ", result " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Operators, ::testing::ValuesIn(testing::operator_rows()),
                         [](const auto& info) { return std::string(info.param.name); });

// What a task for a chunk says that it reads lies inside the arguments.
TEST(OperatorNeeds, LieInsideTheArguments) {
  for (const OperatorRow& row : testing::operator_rows()) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Choices choices(seed);
      for (const Array& array : row.make(choices).chunked) {
        for (const expr::NodePtr& node : expr::topological(std::array{array.node()})) {
          const auto* applied = node->as<expr::Apply>();
          if (applied == nullptr) continue;
          const op::Call call{expr::specs_of(applied->args), applied->outputs};
          for (int64_t chunk = 0; chunk < node->grid.count(); ++chunk) {
            std::vector<op::Need> needs;
            applied->op->needs(call, chunk, needs);
            for (const op::Need& need : needs) {
              const Dims& shape = call.arguments.at(static_cast<size_t>(need.argument)).shape;
              ASSERT_EQ(need.box.ndim(), shape.size());
              for (int d = 0; d < shape.size(); ++d) {
                ASSERT_GE(need.box.start[d], 0) << row.name;
                ASSERT_GE(need.box.count[d], 0) << row.name;
                ASSERT_LE(need.box.start[d] + need.box.count[d], shape[d]) << row.name;
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quarry
