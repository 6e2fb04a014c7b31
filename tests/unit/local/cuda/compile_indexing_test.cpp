// The kernels of local/cuda/indexing.cpp and masks.cpp compile, on machines without a GPU too.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/indexing.h"
#include "tests/unit/local/cuda/kernels_on_host.h"

namespace quarry::local::cuda {
namespace {

constexpr Architecture kArchitecture = 90;

void expect_compiles(const ModuleSource& source, const std::string& what) {
  try {
    EXPECT_NE(compile(source.text, kArchitecture).find("run"), std::string::npos) << what;
  } catch (const DeviceError& error) {
    ADD_FAILURE() << what << "\n" << std::string(error.what()).substr(0, 3000);
  }
}

TEST(CompileIndexing, ElementKernels) {
  using Kind = ElementKernel::Kind;
  for (const Kind kind : {Kind::gather, Kind::scatter, Kind::claim, Kind::check}) {
    for (const bool wide : {false, true}) {
      ElementKernel kernel;
      kernel.kind = kind;
      kernel.width = wide ? 16 : 4;
      kernel.axes = wide ? 3 : 1;
      kernel.indices = wide && kind != Kind::check ? 2 : 1;
      kernel.mode = wide ? IndexMode::wrap : IndexMode::raise;
      kernel.wide = kernel.wide_rank = kernel.hashed = wide;
      expect_compiles(kernel.source(), kernel.key());
    }
  }
  for (const int width : {1, 2, 4, 8, 16}) {
    ElementKernel lines;
    lines.kind = Kind::gather_lines;
    lines.axes = 2;
    lines.width = width;
    lines.mode = width == 4 ? IndexMode::clip : IndexMode::raise;
    expect_compiles(lines.source(), lines.key());
  }
  ElementKernel none;  // of a single element without indices
  none.axes = 0;
  none.indices = 0;
  none.width = 1;
  none.mode = IndexMode::clip;
  expect_compiles(none.source(), none.key());
  ElementKernel many;
  many.axes = kMaxDims;
  many.indices = kMaxDims;
  many.mode = IndexMode::unchecked;
  many.width = 2;
  expect_compiles(many.source(), many.key());
}

Program update_program(Op op, DType element, DType value) {
  Program program;
  const ValueId x = program.input(element);
  std::vector<ValueId> args{x};
  if (info(op).arity == 2) args.push_back(program.input(value));
  program.output(program.cast(program.apply(op, args), element));
  return program;
}

TEST(CompileIndexing, Updates) {
  struct Case {
    Op op;
    DType element, value;
    ElementKernel::Kind kind;
  };
  constexpr auto kAtomic = ElementKernel::Kind::update, kOrdered = ElementKernel::Kind::update_in_order;
  const Case cases[] = {{"add"_op, DType::float32, DType::float32, kAtomic},
                        {"add"_op, DType::float16, DType::float16, kAtomic},
                        {"add"_op, DType::bool_, DType::bool_, kAtomic},
                        {"add"_op, DType::complex128, DType::complex128, kAtomic},
                        {"subtract"_op, DType::complex64, DType::complex64, kAtomic},
                        {"subtract"_op, DType::int32, DType::int32, kAtomic},
                        {"subtract"_op, DType::uint64, DType::uint64, kAtomic},
                        {"maximum"_op, DType::int8, DType::int64, kAtomic},
                        {"multiply"_op, DType::complex64, DType::float64, kAtomic},
                        {"minimum"_op, DType::bfloat16, DType::float32, kAtomic},
                        {"bitwise_xor"_op, DType::uint16, DType::uint16, kAtomic},
                        {"logical_or"_op, DType::int8, DType::float32, kAtomic},
                        {"logical_and"_op, DType::float64, DType::float64, kAtomic},
                        {"add"_op, DType::int32, DType::float64, kOrdered},
                        {"remainder"_op, DType::int64, DType::int8, kOrdered},
                        {"power"_op, DType::float64, DType::float64, kOrdered},
                        {"less"_op, DType::int64, DType::uint64, kOrdered},
                        {"negative"_op, DType::complex128, DType::complex128, kOrdered},
                        {"multiply"_op, DType::complex128, DType::complex128, kOrdered}};
  for (const Case& c : cases) {
    const Program program = update_program(c.op, c.element, c.value);
    ElementKernel kernel;
    kernel.kind = c.kind;
    kernel.axes = 2;
    kernel.program = &program;
    kernel.wide_key = c.element == DType::float64;
    kernel.wide_rank = c.element == DType::int64;
    expect_compiles(kernel.source(), kernel.key());
    kernel.kind = ElementKernel::Kind::update_keys;
    if (c.kind == kOrdered) expect_compiles(kernel.source(), kernel.key());
    kernel.kind = kAtomic;
    kernel.distinct = true;
    expect_compiles(kernel.source(), kernel.key());
    if ((c.op != "add"_op && c.op != "subtract"_op) || c.element != c.value || itemsize(c.element) < 4) continue;
    kernel.kind = ElementKernel::Kind::update_shared;
    kernel.distinct = false;
    expect_compiles(kernel.source(), kernel.key());
  }
}

// The kernels of an update in order, on the host, with std::stable_sort between them: rows of three elements at
// positions that repeat, backwards in memory.
template <class T, class V>
void expect_updates_in_order(Op op, DType element, DType value, const std::function<T(T, V)>& reference, bool wide) {
  constexpr int64_t kRows = 50, kColumns = 3;
  const Program program = update_program(op, element, value);
  const int64_t points = 1500, value_step = info(op).arity == 2 ? static_cast<int64_t>(sizeof(V)) : 0;
  std::vector<int64_t> positions(static_cast<size_t>(points));
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = i % 3 == 0 ? 7 : static_cast<int64_t>(i * i % 23) - kRows / 2;
  std::vector<T> target(static_cast<size_t>(kRows * kColumns)), expected;
  std::vector<V> values(static_cast<size_t>(points));
  for (size_t i = 0; i < target.size(); ++i) target[i] = static_cast<T>(static_cast<float>(i % 11) + 2);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<V>(static_cast<float>(i % 5) / 4 + 1);
  expected = target;
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t row = positions[i] < 0 ? positions[i] + kRows : positions[i];
    for (int64_t c = 0; c < kColumns; ++c) {
      T& x = expected[static_cast<size_t>((kRows - 1 - row) * kColumns + c)];
      x = reference(x, values[i]);
    }
  }
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  const int64_t low = -(kRows - 1) * kColumns * kItem, n = points * kColumns;
  std::vector<uint64_t> keys(static_cast<size_t>(n)), order(keys.size());
  uint64_t record = ~uint64_t{0};
  const auto address = [](const void* p) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(p)); };
  const auto run = [&](ElementKernel::Kind kind) {
    ElementKernel kernel;
    kernel.kind = kind;
    kernel.axes = 2;
    kernel.program = &program;
    kernel.wide_key = kernel.wide_rank = wide;
    KernelsOnHost kernels;
    kernels.add(kernel.source(), "indexing");
    kernels.compile();
    const std::vector<int64_t> slots = {n, address(&target[(kRows - 1) * kColumns]),
                                        value_step == 0 ? address(target.data()) : address(values.data()),
                                        address(&record), address(keys.data()), address(order.data()), low,
                                        std::countr_zero(static_cast<uint64_t>(kItem)),
                                        // per axis
                                        points, position_divider(points, false), 0, value_step, 0, 0, 8, kColumns,
                                        position_divider(kColumns, false), kItem, 0, 0, 0, 0,
                                        // the index
                                        address(positions.data()), kRows, -kColumns * kItem, 0};
    EXPECT_EQ(kernels.call("run_elements", (n + 255) / 256, 1, slots), "");
  };
  run(ElementKernel::Kind::update_keys);
  EXPECT_EQ(record, ~uint64_t{0});
  const auto sort = [&]<class Word>() {
    auto* k = reinterpret_cast<Word*>(keys.data());
    auto* p = reinterpret_cast<Word*>(order.data());
    std::vector<std::pair<Word, Word>> pairs;
    for (int64_t i = 0; i < n; ++i) pairs.emplace_back(k[i], p[i]);
    std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (int64_t i = 0; i < n; ++i) std::tie(k[i], p[i]) = pairs[static_cast<size_t>(i)];
    EXPECT_LT(pairs.back().first, kRows * kColumns);
  };
  wide ? sort.template operator()<uint64_t>() : sort.template operator()<uint32_t>();
  run(ElementKernel::Kind::update_in_order);
  EXPECT_EQ(target, expected) << info(op).name;
}

// Columns of a matrix, some of them bad, by the kernel that takes a line at a time.
TEST(CompileIndexing, GathersOfLinesRunOnTheHost) {
  constexpr int64_t kLines = 5, kExtent = 40, kPlaces = 1300;
  ElementKernel kernel;
  kernel.kind = ElementKernel::Kind::gather_lines;
  kernel.axes = 2;
  kernel.width = 4;
  KernelsOnHost kernels;
  kernels.add(kernel.source(), "indexing");
  try {
    kernels.compile();
  } catch (const NotSupported&) {
    GTEST_SKIP() << "no compiler";
  }
  std::vector<float> from(kLines * kExtent), to(kLines * kPlaces, -1);
  std::iota(from.begin(), from.end(), 0.0f);
  std::vector<int64_t> positions(kPlaces);
  for (int64_t i = 0; i < kPlaces; ++i) positions[static_cast<size_t>(i)] = (i * 7) % (2 * kExtent) - kExtent;
  const auto address = [](const void* p) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(p)); };
  for (const int64_t bad : {int64_t{-1}, int64_t{1100}}) {
    if (bad >= 0) positions[static_cast<size_t>(bad)] = kExtent;
    uint64_t record = ~uint64_t{0};
    const std::vector<int64_t> slots = {kLines * kPlaces, address(from.data()), address(to.data()), address(&record), 0,
                                        0, 0, 0,
                                        // per axis
                                        kLines, 0, 4 * kExtent, 4 * kPlaces, 0, 0, 0,  //
                                        kPlaces, 0, 0, 4, 0, 0, 8,
                                        // the index
                                        address(positions.data()), kExtent, 4, 0};
    EXPECT_EQ(kernels.call("run_elements", kLines, 1, slots), "");
    EXPECT_EQ(record, bad >= 0 ? static_cast<uint64_t>(bad) : ~uint64_t{0});
    for (int64_t line = 0; line < kLines; ++line) {
      for (int64_t i = 0; i < kPlaces; ++i) {
        const int64_t at = positions[static_cast<size_t>(i)], column = at < 0 ? at + kExtent : at;
        if (i == bad) continue;
        ASSERT_EQ(to[static_cast<size_t>(line * kPlaces + i)], from[static_cast<size_t>(line * kExtent + column)]);
      }
    }
  }
}

TEST(CompileIndexing, UpdatesInOrderRunOnTheHost) {
  try {
    expect_updates_in_order<double, double>(
        "divide"_op, DType::float64, DType::float64, [](double x, double y) { return x / y; }, false);
    expect_updates_in_order<double, float>(
        "subtract"_op, DType::float64, DType::float32, [](double x, float y) { return x - static_cast<double>(y); },
        true);
    expect_updates_in_order<int32_t, double>(
        "multiply"_op, DType::int32, DType::float64,
        [](int32_t x, double y) {
          const double z = x * y;  // out of range it is the lowest number
          return z < 0x1p31 && z >= -0x1p31 ? static_cast<int32_t>(z) : std::numeric_limits<int32_t>::min();
        },
        false);
    expect_updates_in_order<int16_t, char>(
        "negative"_op, DType::int16, DType::int16, [](int16_t x, char) { return static_cast<int16_t>(-x); }, true);
  } catch (const NotSupported&) {
    GTEST_SKIP() << "no compiler";
  }
}

TEST(CompileIndexing, Masks) {
  using Kind = MaskKernel::Kind;
  for (const Kind kind : {Kind::count, Kind::scan, Kind::positions, Kind::select, Kind::expand, Kind::copy_where}) {
    for (const int axes : {0, 1, 3}) {
      MaskKernel kernel;
      kernel.kind = kind;
      kernel.axes = axes;
      kernel.width = axes == 3 ? 16 : 1 << axes;
      kernel.halves = axes == 3;
      kernel.wide = axes == 3;
      expect_compiles(kernel.source(), kernel.key());
    }
  }
}

}  // namespace
}  // namespace quarry::local::cuda
