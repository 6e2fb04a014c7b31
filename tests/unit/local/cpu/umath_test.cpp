// NumPy's validation set of correctly rounded values, with its bounds in units in the last place.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "local/cpu/cpu_engine.h"
#include "local/memory/memory_resource.h"
#include "tests/support/shared_data.h"

namespace quarry::local {
namespace {

// Distance in representable values; NaN equals NaN.
template <class T, class Bits>
double distance(Bits got, Bits expected) {
  T a, b;
  std::memcpy(&a, &got, sizeof a);
  std::memcpy(&b, &expected, sizeof b);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : INFINITY;
  const auto order = [](Bits x) {
    const int64_t magnitude = static_cast<int64_t>(x & (~Bits{0} >> 1));
    return (x >> (sizeof(Bits) * 8 - 1)) ? -magnitude : magnitude;
  };
  return static_cast<double>(
      std::abs(static_cast<long double>(order(got)) - static_cast<long double>(order(expected))));
}

template <class T, class Bits>
void check(Op op, const std::vector<Bits>& inputs, const std::vector<Bits>& expected,
           const std::vector<double>& bounds) {
  if (inputs.empty()) return;
  Program program;
  const ValueId x[] = {program.input(dtype_of_v<T>)};
  program.output(program.apply(op, x));
  std::vector<Bits> out(inputs.size());
  Launch launch;
  launch.shape = {static_cast<int64_t>(inputs.size())};
  launch.inputs = {{const_cast<Bits*>(inputs.data()), {sizeof(T)}}};
  launch.outputs = {{out.data(), {sizeof(T)}}};
  ExecContext context;
  context.memory = &default_pool(kCpu);
  cpu_engine().run(program, launch, context);
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_LE((distance<T, Bits>(out[i], expected[i])), bounds[i])
        << info(op).name << " of 0x" << std::hex << inputs[i] << ": 0x" << out[i] << ", expected 0x" << expected[i];
}

TEST(CpuMath, UmathValidationSetSharedData) {
  const auto folder = test::shared_data() / "umath";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  for (const char* name : {"exp", "log", "sin", "log1p", "tanh", "arctan", "cbrt"}) {
    std::ifstream file(folder / ("umath-validation-set-" + std::string(name) + ".csv"));
    ASSERT_TRUE(file) << name;
    std::vector<uint32_t> in32, out32;
    std::vector<uint64_t> in64, out64;
    std::vector<double> bound32, bound64;
    std::string line;
    while (std::getline(file, line)) {
      if (line.rfind("np.float", 0) != 0) continue;
      std::istringstream fields(line);
      std::string type, input, output, bound;
      std::getline(fields, type, ',');
      std::getline(fields, input, ',');
      std::getline(fields, output, ',');
      std::getline(fields, bound, ',');
      // The design's bound is 4 for every function.
      const double limit = std::max(4.0, std::stod(bound));
      if (type == "np.float32") {
        in32.push_back(static_cast<uint32_t>(std::stoul(input, nullptr, 16)));
        out32.push_back(static_cast<uint32_t>(std::stoul(output, nullptr, 16)));
        bound32.push_back(limit);
      } else if (type == "np.float64") {
        in64.push_back(std::stoull(input, nullptr, 16));
        out64.push_back(std::stoull(output, nullptr, 16));
        bound64.push_back(limit);
      }
    }
    ASSERT_FALSE(in32.empty() && in64.empty()) << name;
    check<float>(*find_op(name), in32, out32, bound32);
    check<double>(*find_op(name), in64, out64, bound64);
  }
}

}  // namespace
}  // namespace quarry::local
