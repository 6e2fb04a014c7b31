// A remembered launch gives the slots that planning anew would give.
#include "quarry/local/cuda/launch_memo.h"

#include <gtest/gtest.h>

#include "quarry/local/cuda/layout.h"
#include "tests/unit/local/cuda/launches.h"

namespace quarry::local::cuda {
namespace {

constexpr int kDevice = 0;

Program chain(double factor) {
  Program program;
  const ValueId scaled[] = {program.input(DType::float64), program.constant(Scalar(factor), DType::float64)};
  const ValueId terms[] = {program.apply("multiply"_op, scaled), program.input(DType::float64)};
  program.output(program.apply("add"_op, terms));
  return program;
}
Program sum_of(DType dtype) {
  Program program;
  const ValueId x[] = {program.input(dtype)};
  program.reduce("sum"_reduction, x, dtype);
  return program;
}

Launch moved(Launch launch, int64_t offset) {
  for (std::vector<Operand>* operands : {&launch.inputs, &launch.outputs, &launch.states})
    for (Operand& operand : *operands) {
      operand.data = static_cast<char*>(operand.data) + offset;
      offset += 4096;  // another distance for each
    }
  return launch;
}

Plan planned(const Program& program, const Launch& launch) {
  return make_plan(program, make_layout(program, launch), /*naming=*/false);
}
void keep(LaunchMemo& memo, const Program& program, const Launch& launch) {
  memo.keep({program.key(), kDevice, launch, planned(program, launch), nullptr});
}

// `later` is found by `first`'s plan and needs no other.
void expect_found(const Program& program, const Launch& first, const Program& later_program, const Launch& later) {
  LaunchMemo memo;
  keep(memo, program, first);
  LaunchMemo::Entry* entry = memo.find(later_program.key(), later_program, later, kDevice);
  ASSERT_NE(entry, nullptr);
  const Plan anew = planned(later_program, later);
  EXPECT_EQ(entry->plan.key(), anew.key());
  EXPECT_EQ(entry->plan.slots.values(), anew.slots.values());
  EXPECT_EQ(entry->plan.merge_slots.values(), anew.merge_slots.values());
  EXPECT_EQ(entry->plan.split, anew.split);
  EXPECT_EQ(entry->plan.grid_x, anew.grid_x);
}
void expect_missed(const Program& program, const Launch& first, const Program& later_program, const Launch& later,
                   int device = kDevice) {
  LaunchMemo memo;
  keep(memo, program, first);
  EXPECT_EQ(memo.find(later_program.key(), later_program, later, device), nullptr);
}

TEST(LaunchMemo, OtherAddressesAndConstants) {
  const Program program = chain(2), other = chain(-7.5);
  for (const Dims& shape : {Dims{10}, Dims{3, 5}, Dims{1000, 1000}, Dims{7, 1, 129}}) {
    const Launch launch = contiguous_launch(program, shape);
    for (const int64_t offset : {0, 16, 256, 1 << 20}) expect_found(program, launch, program, moved(launch, offset));
    expect_found(program, launch, other, moved(launch, 512));
  }
}

TEST(LaunchMemo, Reductions) {
  for (const DType dtype : {DType::float64, DType::float16, DType::complex128, DType::int64}) {
    const Program program = sum_of(dtype);
    for (const uint32_t axes : {1u, 2u, 3u}) {
      for (const Dims& shape : {Dims{4, 6}, Dims{100000, 8}, Dims{8, 100000}}) {  // one kernel and two
        const Launch launch = contiguous_launch(program, shape, axes);
        expect_found(program, launch, program, moved(launch, 4096));
      }
    }
  }
}

TEST(LaunchMemo, WhatChangesThePlanIsNotFound) {
  const Program program = chain(2);
  const Launch launch = contiguous_launch(program, {8, 16});
  expect_missed(program, launch, program, moved(launch, 8));  // not aligned to 16 bytes
  expect_missed(program, launch, program, contiguous_launch(program, {16, 8}));
  expect_missed(program, launch, program, contiguous_launch(program, {128}));
  expect_missed(program, launch, program, launch, kDevice + 1);
  Launch strided = launch;
  strided.inputs[1].strides = {8, 64};
  expect_missed(program, launch, program, strided);
  strided = launch;
  strided.outputs[0].strides = {256, 16};
  expect_missed(program, launch, program, strided);
  Launch further = launch;
  further.index_offset = {0, 16};
  expect_found(program, launch, program, further);
  Program numbered;
  numbered.output(numbered.index(0));
  const Launch first = contiguous_launch(numbered, {8, 16});
  further = first;
  further.index_offset = {3, 16};
  expect_found(numbered, first, numbered, further);
  Program other;
  const ValueId terms[] = {other.input(DType::float64), other.input(DType::float64)};
  other.output(other.apply("add"_op, terms));
  expect_missed(program, launch, other, launch);

  const Program sum = sum_of(DType::float64);
  const Launch rows = contiguous_launch(sum, {8, 8}, 1);
  Launch columns = rows;
  columns.reduce_axes = 2;
  expect_missed(sum, rows, sum, columns);
}

TEST(LaunchMemo, ManyLaunchesTakeEachOthersPlaces) {
  const Program program = chain(2);
  LaunchMemo memo;
  int found = 0;
  for (int64_t round = 0; round < 2; ++round) {
    for (int64_t n = 1; n <= 100; ++n) {
      const Launch launch = contiguous_launch(program, {n});
      if (LaunchMemo::Entry* entry = memo.find(program.key(), program, launch, kDevice)) {
        EXPECT_EQ(entry->plan.slots.values(), planned(program, launch).slots.values());
        ++found;
      } else {
        keep(memo, program, launch);
      }
    }
  }
  EXPECT_GT(found, 20);
  EXPECT_LT(found, 100);
}

}  // namespace
}  // namespace quarry::local::cuda
