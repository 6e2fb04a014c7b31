// Times expressions over local arrays, as a co-process of scripts/bench/local: one request a line on standard input,
// its fields separated by tabs, one JSON object a line on standard output.
//   set NAME EXPR            makes a variable
//   time EXPR SECONDS        median time of a call, from five batches of about SECONDS each: {"seconds": 0.001}; of
//                            "@NAME EXPR EXPR ..." of the kernel of that name (kernel_calls.h) on these arrays
//   first EXPR               times of the first call and of a later one: {"first": 0.09, "later": 4e-6}
//   clear                    forgets all variables and gives unused memory back
// usage: bench_local cpu|cuda|emulated THREADS
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/local/cpu/cpu_engine.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/memory_resource.h"
#include "tests/bench/kernel_calls.h"

namespace quarry {
namespace {

using apps::expression::Environment;
using apps::expression::Source;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median_seconds(const std::function<void()>& call, double seconds_each) {
  local::DeviceStream& stream = *local::current_context().stream;
  const auto batch = [&](int count) {
    const double begin = now();
    for (int i = 0; i < count; ++i) call();
    stream.synchronize();
    return (now() - begin) / count;
  };
  constexpr double kLongEnough = 2;  // seconds: such a call is timed once
  constexpr int kBatches = 5, kMostCalls = 1000;
  batch(1);  // kernels are compiled, memory is taken
  const double once = batch(1);
  if (once > kLongEnough) return once;
  const int count = std::clamp(static_cast<int>(seconds_each / std::max(once, 1e-7)), 1, kMostCalls);
  std::vector<double> times;
  for (int i = 0; i < kBatches; ++i) times.push_back(batch(count));
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return times[kBatches / 2];
}

// What a program sees that uses a function for the first time, and later on.
nlohmann::json first_and_later(const std::function<void()>& call) {
  local::DeviceStream& stream = *local::current_context().stream;
  const auto seconds = [&] {
    const double begin = now();
    call();
    stream.synchronize();
    return now() - begin;
  };
  const double first = seconds();
  constexpr int kCalls = 9;
  std::vector<double> times;
  for (int i = 0; i < kCalls; ++i) times.push_back(seconds());
  std::nth_element(times.begin(), times.begin() + kCalls / 2, times.end());
  return {{"first", first}, {"later", times[kCalls / 2]}};
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (size_t begin = 0; begin <= line.size();) {
    const size_t end = std::min(line.find('\t', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

// "@NAME EXPR EXPR ..." as a call; the expressions have no blanks.
std::function<void()> named_call(const std::string& text, Environment& environment) {
  std::istringstream words(text.substr(1));
  std::string name;
  words >> name;
  std::vector<local::NdArray> arrays;
  for (std::string word; words >> word;) {
    const Source source{word, "", 0};
    const apps::expression::Value value = evaluate(source, *apps::expression::parse(source), environment);
    if (value.as<local::NdArray>() == nullptr) throw local::TypeError(word + " is no array");
    arrays.push_back(*value.as<local::NdArray>());
  }
  return [&call = kernel_call(name), arrays = std::move(arrays)] { call(arrays); };
}

nlohmann::json answer(const std::vector<std::string>& fields, Environment& environment) {
  if (fields[0] == "clear") {
    environment.variables.clear();
    local::current_context().stream->synchronize();
    local::current_context().memory->free_unused();
    return nlohmann::json::object();
  }
  const bool first = fields[0] == "first", timed = first || fields[0] == "time";
  const auto times = [&](const std::function<void()>& call) -> nlohmann::json {
    if (first) return first_and_later(call);
    return {{"seconds", median_seconds(call, std::stod(fields.at(2)))}};
  };
  if (timed && fields.at(1).starts_with('@')) return times(named_call(fields[1], environment));
  const Source source{fields.at(timed ? 1 : 2), "", 0};
  const apps::expression::ExprPtr expr = apps::expression::parse(source);
  if (timed) return times([&] { evaluate(source, *expr, environment); });
  environment.variables[fields.at(1)] = evaluate(source, *expr, environment);
  return nlohmann::json::object();
}

int run(int argc, char** argv) {
  if (argc != 3 || !local::parse_device_kind(argv[1])) {
    fmt::print(stderr, "usage: bench_local cpu|cuda|emulated THREADS < requests\n");
    return 2;
  }
  local::set_cpu_threads(std::atoi(argv[2]));
  const local::DeviceScope scope(local::Device{*local::parse_device_kind(argv[1]), 0});
  Environment environment;
  environment.library = &apps::expression::local_library();
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json reply;
    try {
      reply = answer(fields_of(line), environment);
    } catch (const std::exception& e) {
      const std::string text = e.what();
      reply = {{"error", text.substr(0, text.find('\n'))}};
    }
    std::cout << reply.dump() << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace quarry

int main(int argc, char** argv) { return quarry::run(argc, argv); }
