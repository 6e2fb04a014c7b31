// Loops that are made of the rows of reduction.def agree with the engine's own.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "quarry/local/program/program.h"

#define QUARRY_LEVEL row_loops_test
#include "quarry/local/cpu/loops/rows.inl"

namespace quarry::local::cpu {
namespace {

constexpr int64_t kRows = 7, kColumns = 37;

constexpr Accumulator kAccumulators[] = {
#define QUARRY_REDUCTION(name, aliases, kinds, accumulate, result, empty, ufunc, loop, ...) Accumulator::loop,
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
};

const Loops& made() {
  static const Loops table = [] {
    Loops loops{};
#define QUARRY_REDUCTION(name, ...) row_loops_test::register_##name<true>(loops);
#include "quarry/local/program/reduction.def"
#undef QUARRY_REDUCTION
    return loops;
  }();
  return table;
}

// Small whole numbers with repeats, which all dtypes hold.
std::vector<char> tile(DType dtype) {
  std::vector<char> bytes(static_cast<size_t>(kRows * kColumns * itemsize(dtype)));
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    const int64_t value = i * i * 7 % 13 % 5;
    const Scalar scalar =
        is_complex(dtype) ? Scalar(std::complex<double>(double(value), double(i % 3))) : Scalar(value);
    scalar.store(dtype, bytes.data() + i * itemsize(dtype));
  }
  return bytes;
}

struct States {
  States(const States&) = delete;
  explicit States(Reduction reduction, DType dtype) : dtypes(state_dtypes(reduction, dtype)) {
    for (size_t f = 0; f < 3; ++f) {
      bytes[f].resize(16 * kColumns);
      fields[f] = bytes[f].data();
    }
  }
  void expect_near(const States& other, const std::string& what) const {
    for (size_t f = 0; f < dtypes.size(); ++f)
      for (int64_t i = 0; i < kColumns; ++i) {
        const auto at = [&](const States& s) {
          return Scalar::load(dtypes[f], s.bytes[f].data() + i * itemsize(dtypes[f])).as_complex();
        };
        // Products of many numbers overflow in both; means and distances round.
        const std::complex<double> a = at(*this), b = at(other);
        const bool same = a == b || (std::isnan(a.real()) && std::isnan(b.real()));
        EXPECT_TRUE(same || std::abs(a - b) <= 1e-5 * std::abs(b)) << what << ", field " << f << " of " << i;
      }
  }
  std::vector<DType> dtypes;
  std::array<std::vector<char>, 3> bytes;
  void* fields[3];
};

void fill_count(const ReductionInfo& row, const States& states, int64_t count) {
  if (row.count_field >= 0) std::fill_n(static_cast<int64_t*>(states.fields[row.count_field]), kColumns, count);
}

class RowLoops : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Reductions, RowLoops, testing::Range(0, reduction_count()), [](const auto& each) {
  return std::string(local::info(static_cast<Reduction>(each.param)).name);
});

TEST_P(RowLoops, AgreeWithTheEnginesOwn) {
  const auto reduction = static_cast<Reduction>(GetParam());
  const ReductionInfo& row = info(reduction);
  const Accumulator accumulator = kAccumulators[GetParam()];
  if (accumulator == Accumulator::row) return;  // nothing to compare with: its oracle rows test it
  const Loops& own = loops(Level::v2);
  const int ours = static_cast<int>(accumulator), theirs = row_loop(reduction);
  int compared = 0;
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (made().reduce_columns[theirs][d] == nullptr || own.reduce_columns[ours][d] == nullptr) continue;
    // bool sums and products are of wide integers.
    if (dtype == DType::bool_ && row.takes_dtype) continue;
    ++compared;
    const std::vector<char> x = tile(dtype);
    const int64_t row_bytes = kColumns * itemsize(dtype);
    States along(reduction, dtype), along_made(reduction, dtype), down(reduction, dtype), down_made(reduction, dtype);
    own.reduce_columns[ours][d](x.data(), nullptr, kRows, kColumns, row_bytes, along.fields);
    made().reduce_columns[theirs][d](x.data(), nullptr, kRows, kColumns, row_bytes, along_made.fields);
    fill_count(row, along, kColumns), fill_count(row, along_made, kColumns);
    along_made.expect_near(along, std::string("along rows of ") + name(dtype));

    own.reduce_rows[ours][d](x.data(), nullptr, kRows, kColumns, row_bytes, down.fields);
    made().reduce_rows[theirs][d](x.data(), nullptr, kRows, kColumns, row_bytes, down_made.fields);
    fill_count(row, down, kRows);
    down_made.expect_near(down, std::string("down columns of ") + name(dtype));

    // mean's own loop leaves its count to the interpreter.
    const void* const more[] = {along_made.bytes[0].data(), along_made.bytes[1].data(), along_made.bytes[2].data()};
    own.combine[ours][d](down.fields, more, kRows);
    made().combine[theirs][d](down_made.fields, more, kRows);
    if (row.count_field == 1) std::memcpy(down.fields[1], down_made.fields[1], 8 * kRows);
    down_made.expect_near(down, std::string("merged states of ") + name(dtype));
  }
  EXPECT_GE(compared, 2) << row.name;
}

TEST(RowPrograms, MapGivesEveryField) {
  for (int r = 0; r < reduction_count(); ++r) {
    const auto reduction = static_cast<Reduction>(r);
    for (const DType dtype : {DType::int32, DType::float64, DType::complex64}) {
      if (!strchr(info(reduction).kinds, kind(dtype))) continue;
      const DType accumulate = accumulate_dtype(reduction, dtype);
      const Program map = map_program(reduction, accumulate);
      const std::vector<DType> fields = state_dtypes(reduction, accumulate);
      ASSERT_EQ(map.outputs().size(), fields.size());
      for (size_t f = 0; f < fields.size(); ++f) EXPECT_EQ(map.dtype(map.outputs()[f]), fields[f]);
      EXPECT_EQ(map.inputs(), info(reduction).has_position ? 2 : 1);
    }
  }
}

}  // namespace
}  // namespace quarry::local::cpu
