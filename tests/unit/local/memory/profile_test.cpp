// Compiled with -g1: the profile finds its lines.
#include "quarry/local/memory/profile.h"

#include <gmock/gmock.h>

#include "quarry/local/base/callstack.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/slab_pool.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

using quarry::local::NdArray;

namespace profiled {  // a user's program

[[gnu::noinline]] NdArray doubled(const NdArray& x) { return x + x; }
inline int line_of_doubled() { return __LINE__ - 1; }

[[gnu::always_inline]] inline NdArray negated(const NdArray& x) { return quarry::local::ops::negative(x); }

[[gnu::noinline]] NdArray chain(const NdArray& x) {
  const NdArray y = doubled(x);
  return negated(doubled(y));
}

}  // namespace profiled

namespace quarry::local {
namespace {

using ::testing::HasSubstr;

class Profile : public test::OnDevice {
 protected:
  void SetUp() override {
    test::OnDevice::SetUp();
    if (frames_at(call_stack(0, 1)[0])[0].line == 0) GTEST_SKIP() << "this program was stripped";
  }
};
QUARRY_ON_EVERY_DEVICE(Profile);

const MemoryUse* find(const std::vector<MemoryUse>& uses, std::string_view part) {
  for (const MemoryUse& use : uses)
    if (use.name.find(part) != std::string::npos) return &use;
  return nullptr;
}

TEST_P(Profile, NamesFunctionsLinesAndOperations) {
  const auto pool = SlabPool::growing({GetParam(), 0}, 1 << 20);
  const auto stream = backend(GetParam()).create_stream(0, StreamRole::compute);
  const DeviceScope device(ExecContext{{GetParam(), 0}, stream.get(), pool.get(), 1});
  const NdArray x = from_vector(std::vector<double>(1000, 1.0));
  MemoryProfile profile;
  {
    const MemoryHookScope scope(profile);
    profiled::chain(x);
    const Range range("largest");
    ops::max(x, 0);
  }
  profiled::chain(x);  // not seen
  stream->synchronize();

  const std::vector<MemoryUse> functions = profile.by_function();
  const MemoryUse* doubled = find(functions, "profiled::doubled");
  ASSERT_NE(doubled, nullptr) << profile.function_table();
  EXPECT_GE(doubled->used_bytes, 2 * 8192);  // two results, and what the engine needs meanwhile
  EXPECT_LE(doubled->used_bytes, 2 * 65536);
  EXPECT_GE(doubled->allocations, 2);
  EXPECT_EQ(doubled->acquired_bytes, 0);  // x brought the slab
  const MemoryUse* negated = find(functions, "negated");
  ASSERT_NE(negated, nullptr) << profile.function_table();
  EXPECT_GE(negated->used_bytes, 8192);
  EXPECT_LT(negated->used_bytes, doubled->used_bytes);
  EXPECT_EQ(find(functions, "chain"), nullptr);  // allocates nothing itself

  const std::string line = "profile_test.cpp:" + std::to_string(profiled::line_of_doubled()) + " ";
  const std::vector<MemoryUse> lines = profile.by_line();
  ASSERT_NE(find(lines, line), nullptr) << profile.line_table();
  EXPECT_EQ(find(lines, line)->used_bytes, doubled->used_bytes);

  ASSERT_NE(find(profile.by_operation(), "quarry::local::ops::max"), nullptr) << profile.operation_table();
  const std::vector<MemoryUse> ranges = profile.by_range();
  ASSERT_NE(find(ranges, "largest"), nullptr) << profile.range_table();

  const std::string tree = profile.tree();
  const size_t outer = tree.find("profiled::chain"), inner = tree.find("profiled::doubled");
  ASSERT_NE(outer, std::string::npos) << tree;
  ASSERT_NE(inner, std::string::npos) << tree;
  EXPECT_LT(outer, inner);
  int64_t used = 0, allocations = 0;
  for (const MemoryUse& use : functions) {
    used += use.used_bytes;
    allocations += use.allocations;
  }
  EXPECT_THAT(tree, HasSubstr("          0 B " + std::string(11, ' ') + std::to_string(allocations) + "  all\n"));
  EXPECT_GE(used, 3 * 8192);
  EXPECT_THAT(profile.function_table(), HasSubstr("used     acquired  allocations  function\n"));
  profile.clear();
  EXPECT_TRUE(profile.by_line().empty());
}

TEST_P(Profile, CountsWhatTheDeviceGave) {
  const auto pool = SlabPool::growing({GetParam(), 0}, 1 << 20);
  const auto stream = backend(GetParam()).create_stream(0, StreamRole::compute);
  const DeviceScope device(ExecContext{{GetParam(), 0}, stream.get(), pool.get(), 1});
  MemoryProfile profile;
  {
    const MemoryHookScope scope(profile);
    const NdArray x({1000}, DType::float64);
    const NdArray y({1000}, DType::float64);
  }
  int64_t used = 0, acquired = 0;
  for (const MemoryUse& use : profile.by_line()) {
    used += use.used_bytes;
    acquired += use.acquired_bytes;
  }
  EXPECT_EQ(used, 2 * 8192);
  EXPECT_EQ(acquired, 1 << 20);
}

TEST(CallStack, NamesWithoutParameters) {
  EXPECT_EQ(without_parameters("f"), "f");
  EXPECT_EQ(without_parameters("f()"), "f");
  EXPECT_EQ(without_parameters("a::(anonymous namespace)::f(int, void (*)(int))"), "a::(anonymous namespace)::f");
  EXPECT_EQ(without_parameters("a::X::f(b::Y const&) const"), "a::X::f");
  EXPECT_EQ(without_parameters("a::f(int) [clone .isra.0]"), "a::f");
  EXPECT_EQ(without_parameters("main::{lambda(int)#1}::operator()(int) const"), "main::{lambda(int)#1}::operator()");
  EXPECT_EQ(without_parameters("a::(anonymous namespace)::value"), "a::(anonymous namespace)::value");
  EXPECT_EQ(without_parameters(""), "");
}

TEST(CallStack, SkipsAndEnds) {
  const std::vector<uintptr_t> all = call_stack(), fewer = call_stack(1), two = call_stack(0, 2);
  EXPECT_EQ(fewer.size() + 1, all.size());
  EXPECT_EQ(two.size(), 2u);
  const std::vector<Frame> frames = frames_at(all[0]);
  ASSERT_FALSE(frames.empty());
  if (frames[0].line == 0) GTEST_SKIP() << "this program was stripped";
  EXPECT_THAT(frames.back().function, HasSubstr("SkipsAndEnds"));
  EXPECT_FALSE(frames.back().library);
  EXPECT_FALSE(frames_at(1).empty());  // no code there: a name all the same
}

}  // namespace
}  // namespace quarry::local
