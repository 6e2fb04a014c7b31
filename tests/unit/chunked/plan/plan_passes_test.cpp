// Each pass before and after, as text.
#include <gtest/gtest.h>

#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/products.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/grid/chunking.h"
#include "quarry/chunked/plan/passes.h"
#include "tests/support/cpu_chunks.h"
#include "tests/support/memory_dataset.h"

namespace quarry {
namespace {

using expr::NodePtr;
using local::full_slice;
using local::Slice;
using testing::MemoryDataset;

Array dataset(const std::string& name, const Dims& shape, const std::optional<Dims>& chunks = std::nullopt,
              DType dtype = DType::float64) {
  return Array(expr::source(std::make_shared<MemoryDataset>(name, shape, dtype, chunks)));
}

std::string text(const NodePtr& node) { return expr::to_string(node, 1000); }
std::string pushed(const Array& x) { return text(plan::push_views({x.node()})[0]); }
size_t nodes(const std::vector<NodePtr>& roots) { return expr::topological(roots).size(); }

// --- common subexpressions ---

TEST(PassCse, RepeatedTextBecomesOneNode) {
  const Array x = dataset("/x", {100, 4});
  const Array a = (x - mean(x, 0)) / std(x, 0), b = (x - mean(x, 0)) / std(x, 0);
  const std::vector<NodePtr> before{a.node(), b.node()};
  EXPECT_EQ(nodes(before), 9u);  // only x is shared
  const std::vector<NodePtr> after = plan::eliminate_common(before);
  EXPECT_EQ(nodes(after), 5u);
  EXPECT_EQ(after[0], after[1]);
}

TEST(PassCse, TheSameFileOpenedTwiceIsOneSource) {
  const Array a = dataset("/x", {10}), b = dataset("/x", {10}), other = dataset("/y", {10});
  EXPECT_EQ(nodes(plan::eliminate_common({(a + b).node(), (a * other).node()})), 4u);
}

TEST(PassCse, DifferentConstantsStayApart) {
  const Array x = dataset("/x", {10});
  EXPECT_EQ(nodes(plan::eliminate_common({(x + 1).node(), (x + 2).node()})), 5u);
}

// --- view push-down ---

TEST(PassViews, MoveThroughElementwiseToTheSource) {
  const Array x = dataset("/x", {100, 20}), m = dataset("/m", {20});
  const Array y = (sqrt(x) - m)[{Slice{10, 20, 2}, 3}];
  EXPECT_EQ(text(y.node()), "subtract(sqrt(/x), /m)[10:20:2, 3]");
  EXPECT_EQ(pushed(y), "subtract(sqrt(/x[10:20:2, 3]), /m[3])");
}

TEST(PassViews, Compose) {
  const Array x = dataset("/x", {100});
  EXPECT_EQ(text(x[{Slice{10, 90, {}}}][{Slice{{}, {}, -2}}][{Slice{1, 4, {}}}].node()), "/x[87:81:-2]");
  EXPECT_EQ(text(x[{Slice{5, {}, {}}}][{Slice{}}].T().node()), "/x[5:100]");
  EXPECT_EQ(x[{full_slice}].node(), x.node());
}

TEST(PassViews, SliceAReductionsKeptAxes) {
  const Array x = dataset("/x", {100, 20, 30});
  EXPECT_EQ(pushed(mean(x, 1)[{4, Slice{0, 10, {}}}]), "mean(/x[4:5, :, 0:10], axis=1)[0, :]");
  EXPECT_EQ(pushed(sum(x * 2, 0).T()[{full_slice, 7}]), "sum(multiply(/x[:, 7:8, :], 2), axis=0)[0, :]");
}

TEST(PassViews, AReductionThatOthersReadIsNotRepeated) {
  const Array x = dataset("/x", {100, 20});
  const Array m = mean(x, 0);
  const auto after = plan::push_views({m.node(), m[{Slice{0, 5, {}}}].node()});
  EXPECT_EQ(text(after[1]), "mean(/x, axis=0)[0:5]");
}

TEST(PassViews, SliceAConcatenation) {
  const Array a = dataset("/a", {10}), b = dataset("/b", {10}), c = dataset("/c", {10});
  const Array y = concatenate({a, b, c});
  EXPECT_EQ(pushed(y[{Slice{2, 8, {}}}]), "/a[2:8]");
  EXPECT_EQ(pushed(y[{Slice{8, 21, 4}}]), "concatenate(/a[8:9], /b[2:10:4], /c[0:1], axis=0)");
  EXPECT_EQ(pushed(y[{Slice{21, 8, -6}}]), "concatenate(/c[1:2], /b[5:6], /a[9:10], axis=0)");
}

TEST(PassViews, SliceAProduct) {
  const Array a = dataset("/a", {100, 20}), b = dataset("/b", {20, 50});
  EXPECT_EQ(pushed(matmul(a, b)[{3, Slice{0, 10, {}}}]), "matmul(/a[3:4, :], /b[:, 0:10])[0, :]");
}

TEST(PassViews, IndicesBecomeArithmetic) {
  EXPECT_EQ(pushed(arange(100)[{Slice{50, 0, -10}}]),
            "add(multiply(add(multiply(index0, -10), 50), 1), 0)");  // start + step * (50 - 10 i)
  EXPECT_EQ(pushed(arange(100)[{7}]), "add(multiply(7, 1), 0)");
}

TEST(PassViews, SharedArgumentsAreWalkedOnce) {
  Array x = dataset("/x", {64});
  for (int i = 0; i < 60; ++i) x = x * x;
  EXPECT_EQ(nodes(plan::push_views({x[{Slice{{}, {}, 2}}].node()})), 62u);  // 2^60 paths
}

TEST(PassViews, DeepChainsNeedNoStack) {
  Array x = dataset("/x", {64});
  for (int i = 0; i < 20000; ++i) x = x + 1;
  const std::vector<NodePtr> roots{x[{Slice{{}, {}, 2}}].node()};
  const plan::Plan plan = plan::make_plan(roots, {});
  EXPECT_GT(plan.stages.size(), 20000u / 300);  // programs of bounded length
  EXPECT_LT(plan.stages.size(), 20000u / 100);
}

TEST(Nodes, DeepChainsEndWithoutStack) {
  const Array x = dataset("/x", {64});
  Array deep = x;
  for (int i = 0; i < 300000; ++i) deep = i % 3 == 0 ? deep + deep : deep + x;
  const std::weak_ptr<const expr::Node> last = deep.node();
  deep = x;
  EXPECT_TRUE(last.expired());
  EXPECT_EQ(x.node().use_count(), 2);
}

// --- SYRK ---

std::string syrk_text(const Array& x) {
  return text(plan::detect_syrk(plan::eliminate_common(plan::push_views(plan::eliminate_common({x.node()}))))[0]);
}

TEST(PassSyrk, FoundHoweverSpelled) {
  const Array x = dataset("/x", {100, 4});
  const Array z = x - mean(x, 0), again = x - mean(x, 0);
  const std::string expected = "syrk(subtract(/x, mean(/x, axis=0)))";
  EXPECT_EQ(syrk_text(matmul(z.T(), z)), expected);
  EXPECT_EQ(syrk_text(matmul(z.T(), again)), expected);
  EXPECT_EQ(syrk_text(matmul(transpose(again), z)), expected);
  EXPECT_EQ(syrk_text(matmul(x, x.T())), "syrk(/x{1[:], 0[:]})");
}

TEST(PassSyrk, ComplexNeedsTheConjugate) {
  const Array x = dataset("/x", {100, 4}, std::nullopt, DType::complex128);
  EXPECT_EQ(syrk_text(matmul(conj(x.T()), x)), "syrk(/x)");
  EXPECT_EQ(syrk_text(matmul(conj(x).T(), x)), "syrk(/x)");
  EXPECT_TRUE(syrk_text(matmul(x.T(), x)).starts_with("matmul"));
}

TEST(PassSyrk, NotWhereTheOperandsDifferOrAreIntegers) {
  const Array x = dataset("/x", {100, 4}), i = dataset("/i", {100, 4}, std::nullopt, DType::int64);
  EXPECT_TRUE(syrk_text(matmul(x.T(), x + 1)).starts_with("matmul"));
  EXPECT_TRUE(syrk_text(matmul(i.T(), i)).starts_with("matmul"));
}

// What was asked for of a product stays with it, tells it from others, and is kept for float32 alone.
TEST(ProductPrecision, GoesThroughThePasses) {
  using local::Precision;
  const Array x = dataset("/x", {100, 4}, std::nullopt, DType::float32);
  const Array b = dataset("/b", {4, 50}, std::nullopt, DType::float32);
  const Array fast = matmul(x, b, Precision::tf32);
  EXPECT_EQ(text(fast.node()), "matmul(/x, /b, precision=tf32)");
  EXPECT_NE(fast.node()->hash, matmul(x, b).node()->hash);
  EXPECT_NE(fast.node()->hash, matmul(x, b, Precision::bf16x3).node()->hash);
  EXPECT_EQ(pushed(fast[{3, Slice{0, 10, {}}}]), "matmul(/x[3:4, :], /b[:, 0:10], precision=tf32)[0, :]");
  EXPECT_EQ(syrk_text(matmul(x.T(), x, Precision::bf16x3)), "syrk(/x, precision=bf16x3)");
  EXPECT_EQ(text(dot(x, b, Precision::tf32).node()), text(fast.node()));
  EXPECT_EQ(text(tensordot(x, b, 1, Precision::tf32).node()), text(fast.node()));
  EXPECT_EQ(text(einsum(Precision::tf32, "ij,jk->ik", x, b).node()), text(fast.node()));
  EXPECT_EQ(text(inner(x, b.T(), Precision::tf32).node()), text(fast.node()));
  const Array wide = x.astype(DType::float64);
  EXPECT_EQ(text(matmul(wide, b, Precision::tf32).node()), text(matmul(wide, b).node()));
  const plan::Plan plan = plan::make_plan({fast.node(), matmul(x, b).node()}, {});
  int products = 0, rounded = 0;
  for (const plan::Stage& stage : plan.stages) {
    const auto* product = std::get_if<plan::MatMul>(&stage.work);
    if (product == nullptr) continue;
    ++products;
    rounded += product->precision == Precision::tf32 ? 1 : 0;
  }
  EXPECT_EQ(products, 2);
  EXPECT_EQ(rounded, 1);
  EXPECT_NE(plan::describe(plan).find("precision=tf32"), std::string::npos);
}

// --- passes that have nothing to do ---

TEST(PassesOfRoots, GiveTheSameNodesWhereNothingChanges) {
  const Array x = dataset("/x", {100, 4}), y = dataset("/y", {100});
  const std::vector<NodePtr> roots{matmul(x.T(), exp(x)).node(), mean(x * x, 0)[{Slice{}}].node(),
                                   (x + expand_dims(y, 1)).node()};
  const std::vector<NodePtr> common = plan::eliminate_common(roots);
  EXPECT_EQ(plan::eliminate_common(common), common);
  EXPECT_EQ(plan::push_views(common), common);
  EXPECT_EQ(plan::find_contractions(common), common);
  EXPECT_EQ(plan::reduce_where_selected(common), common);
  EXPECT_EQ(plan::detect_syrk(common), common);
}

TEST(PassesOfRoots, AViewThatStaysIsTheSameNode) {
  const Array x = dataset("/x", {100, 4}), b = dataset("/b", {4});
  // A product's last axis of one element is dropped above it; the other view moves to b.
  const std::vector<NodePtr> roots{matmul(x, b).node(), (b + 1)[{Slice{1, 3, {}}}].node()};
  const std::vector<NodePtr> pushed = plan::push_views(roots);
  EXPECT_EQ(pushed[0], roots[0]);
  EXPECT_EQ(text(pushed[1]), "add(/b[1:3], 1)");
}

// --- what gets storage ---

std::vector<std::string> materialised(std::initializer_list<Array> arrays) {
  std::vector<NodePtr> roots;
  for (const Array& array : arrays) roots.push_back(array.node());
  std::vector<std::string> texts;
  for (const NodePtr& node : plan::choose_materialised(plan::eliminate_common(roots))) texts.push_back(text(node));
  return texts;
}

TEST(PassMaterialise, SmallBroadcastExpressionsAreComputedOnce) {
  const Array x = dataset("/x", {100000, 4}), v = dataset("/v", {4});
  EXPECT_EQ(materialised({x / sqrt(v + 1e-9)}), (std::vector<std::string>{"sqrt(add(/v, 1e-09))"}));
  EXPECT_TRUE(materialised({x * (v + 1)}).empty());  // cheap
  EXPECT_TRUE(materialised({x * arange(4)}).empty());
}

TEST(PassMaterialise, DataSizedIntermediatesNever) {
  const Array x = dataset("/x", {1 << 20, 512});
  const Array y = sin(cos(tan(exp(x))));
  EXPECT_TRUE(materialised({sum(y, 0), sum(y, 1), y * 2}).empty());
}

TEST(PassMaterialise, SmallExpensiveSharedOnes) {
  const Array x = dataset("/x", {1000});
  const Array y = sin(cos(tan(exp(x))));
  EXPECT_EQ(materialised({sum(y), matmul(y, y)}).size(), 1u);
}

// --- chunks ---

plan::Plan plan_of(std::initializer_list<Array> arrays, int64_t memory = 0) {
  std::vector<NodePtr> roots;
  for (const Array& array : arrays) roots.push_back(array.node());
  plan::PlanOptions options;
  options.memory_bytes = memory;
  return plan::make_plan(roots, options);
}

plan::Plan plan_without(const std::string& off, const std::vector<Array>& arrays, int64_t memory_bytes = 0) {
  std::vector<NodePtr> roots;
  for (const Array& array : arrays) roots.push_back(array.node());
  plan::PlanOptions options;
  options.memory_bytes = memory_bytes;
  options.passes_off = plan::parse_passes(off);
  return plan::make_plan(roots, options);
}

class PassGrids : public testing::CpuChunks {};
class PassBudget : public testing::CpuChunks {};

TEST_F(PassGrids, DataSetsAreReadInTheStagesChunks) {
  const Array x = dataset("/x", {100000, 512}, Dims{8192, 64}), y = dataset("/y", {100000, 512}, Dims{100, 512});
  const plan::Plan plan = plan_of({x + y});
  EXPECT_EQ(plan.stages.size(), 1u) << describe(plan);
}

TEST_F(PassGrids, ComputedInputsAreRechunked) {
  const Array x = dataset("/x", {524288, 512}, Dims{8192, 64});
  const plan::Plan plan = plan_of({x.rechunk({1024, -1}) - mean(x.rechunk({8192, 64}), 0)});
  ASSERT_EQ(plan.stages.size(), 3u) << describe(plan);
  const auto& assemble = std::get<plan::Assemble>(plan.stages[1].work);
  EXPECT_EQ(assemble.input.grid.largest(), Dims{64});
  EXPECT_EQ(plan.stages[1].grid.largest(), Dims{512});
  EXPECT_EQ(plan.stages[2].grid.largest(), (Dims{1024, 512}));
}

TEST_F(PassGrids, ReshapesKeepChunksConsecutive) {
  const Array x = dataset("/x", {1 << 12, 1 << 12});
  const plan::Plan plan = plan_of({(x + 1).reshape({1 << 6, 1 << 6, 1 << 12})});
  EXPECT_EQ(plan.stages[1].kind(), "reshape");
  EXPECT_EQ(plan.stages[1].grid.largest(), (Dims{8, 64, 4096}));
}

TEST_F(PassGrids, ReshapesKeepTheChunksOfAxesThatTheyDoNotCut) {
  const Array x = dataset("/x", {60, 40, 100}).rechunk({20, 40, 30});
  EXPECT_EQ(x.reshape({2400, 100}).chunks(), Grid::regular({2400, 100}, {800, 30}));
  EXPECT_EQ(x.reshape({6, 10, 40, 100}).chunks(), Grid::regular({6, 10, 40, 100}, {2, 10, 40, 30}));
  EXPECT_EQ(x.reshape({1, 60, 1, 4, 10, 100}).chunks(), Grid::regular({1, 60, 1, 4, 10, 100}, {1, 20, 1, 4, 10, 30}));
  // Chunks of 20 do not end with rows of 12, and are cut anew.
  EXPECT_EQ(x.reshape({5, 12, 40, 100}).chunks(), Grid::regular({5, 12, 40, 100}, {1, 12, 40, 30}));
  // Chunks that cut inside consecutive elements are put together first.
  EXPECT_EQ(x.reshape({60, 4000}).chunks(), Grid::regular({60, 4000}, {20, 1000}));
  const Grid uneven({AxisChunks(std::vector<int64_t>{10, 45, 5}), AxisChunks(4000, 4000)});
  EXPECT_EQ(x.reshape({60, 4000}).rechunk(uneven).reshape({12, 5, 4000}).chunks(),
            Grid({AxisChunks(std::vector<int64_t>{2, 9, 1}), AxisChunks(5, 5), AxisChunks(4000, 4000)}));
}

TEST_F(PassBudget, HalvesAutomaticChunksAndSaysSo) {
  const Array x = dataset("/x", {524288, 512}, Dims{8192, 64});
  const plan::Plan roomy = plan_of({sum(x, 0)}, int64_t{1} << 30), tight = plan_of({sum(x, 0)}, int64_t{32} << 20);
  EXPECT_EQ(roomy.note, "");
  EXPECT_EQ(roomy.stages[0].grid.largest(), (Dims{8192, 256}));
  EXPECT_EQ(tight.stages[0].grid.largest(), (Dims{8192, 64}));  // columns of the file's chunks first
  EXPECT_NE(tight.note.find("halved to fit the budget of 32.0 MiB"), std::string::npos) << tight.note;
  EXPECT_NE(tight.hash, roomy.hash);
}

TEST_F(PassGrids, CompressedChunksAreDecodedOnceInAProduct) {
  const auto plain = std::make_shared<MemoryDataset>("/x", Dims{524288, 512}, DType::float64, Dims{8192, 64});
  const auto packed = std::make_shared<MemoryDataset>("/p", Dims{524288, 512}, DType::float64, Dims{8192, 64});
  packed->set_filters({{io::Filter::Kind::deflate, 4, "deflate"}});
  for (const auto& file : {plain, packed}) {
    const Array x = Array(expr::source(file)) - 1;
    const plan::Plan plan = plan_of({matmul(x.T(), x)});
    EXPECT_EQ(plan.stages[0].grid.largest(), (Dims{file == packed ? 8192 : 4096, 512}));
  }
}

TEST_F(PassBudget, LeavesTheUsersChunksAlone) {
  const Array x = dataset("/x", {524288, 512}, Dims{8192, 64});
  const plan::Plan plan = plan_of({sum(x.rechunk({65536, 64}), 0)}, int64_t{32} << 20);
  EXPECT_EQ(plan.stages[0].grid.largest(), (Dims{65536, 64}));
  EXPECT_EQ(plan.note, "");
}

TEST_F(PassBudget, ChosenChunksGiveTheSameCutsForEveryBudget) {
  const Array x = dataset("/x", {524288, 512}, Dims{8192, 64}).rechunk({2000, 512});
  const Array z = x - mean(x, 0);
  const std::initializer_list<Array> arrays{matmul(z.T(), z), sum(reshape(x, {-1, 1024}), 0),
                                            matmul(z, z[{Slice{0, 512, {}}}])};
  const plan::Plan roomy = plan_of(arrays, int64_t{1} << 34), tight = plan_of(arrays, int64_t{16} << 20);
  ASSERT_EQ(roomy.stages.size(), tight.stages.size());
  for (size_t s = 0; s < roomy.stages.size(); ++s) EXPECT_EQ(roomy.stages[s].grid, tight.stages[s].grid) << s;
  EXPECT_EQ(roomy.hash, tight.hash);
}

TEST(PassSiblings, OutputsAndReductionsOfOneSpace) {
  const Array x = dataset("/x", {1000, 8});
  const plan::Plan plan = plan_of({exp(x), sum(exp(x), 0), min(x, 0)});
  ASSERT_EQ(plan.stages.size(), 1u) << describe(plan);
  const auto& fused = std::get<plan::Fused>(plan.stages[0].work);
  EXPECT_EQ(fused.inputs.size(), 1u);
  int exps = 0;
  for (const local::Value& value : fused.program.values())
    exps += value.kind == local::Value::Kind::op && value.op == "exp"_op;
  EXPECT_EQ(exps, 1);
}

TEST(PassSiblings, NotOverOtherAxesOrOtherData) {
  const Array x = dataset("/x", {1000, 8}), y = dataset("/y", {1000, 8});
  EXPECT_EQ(plan_without("-reads", {sum(x, 0), sum(x, 1)}).stages.size(), 2u);
  EXPECT_EQ(plan_of({sum(x, 0), sum(y, 0)}).stages.size(), 2u);
}

// --- the table of passes ---

TEST(Passes, EachChangesThePlanThatItIsFor) {
  const Array x = dataset("/x", {1000, 8}), big = dataset("/big", {1 << 20, 8});
  const auto stages = [](const plan::Plan& plan) { return plan.stages.size(); };
  EXPECT_LT(stages(plan_of({sum(exp(x), 0) + sum(exp(x), 0)})),
            stages(plan_without("-cse,-siblings", {sum(exp(x), 0) + sum(exp(x), 0)})));
  EXPECT_LT(stages(plan_of({sum(x, 0), max(x, 0)})), stages(plan_without("-siblings", {sum(x, 0), max(x, 0)})));
  const auto has = [](const plan::Plan& plan, const std::string& kind) {
    return std::ranges::any_of(plan.stages, [&](const plan::Stage& stage) { return stage.kind() == kind; });
  };
  EXPECT_TRUE(has(plan_of({matmul(x.T(), x)}), "syrk"));
  EXPECT_FALSE(has(plan_without("-syrk", {matmul(x.T(), x)}), "syrk"));
  const Array few = sum(x, 0)[{Slice{0, 2, {}}}];
  EXPECT_EQ(plan_of({few}).stages[0].shape, (Dims{1000, 2}));
  EXPECT_EQ(plan_without("-views", {few}).stages[0].shape, (Dims{1000, 8}));
  const Array broadcast = x / sqrt(var(x, 0) + 1e-9);
  EXPECT_LT(stages(plan_without("-materialise", {broadcast})), stages(plan_of({broadcast})));
  const auto itself = [](const NdArray& chunk) { return chunk; };
  const Array made = map_blocks(itself, x.rechunk({100, 8}), {}, {.dtypes = {DType::float64}});
  const Array steps = made[{Slice{1, {}, {}}}] - made[{Slice{{}, -1, {}}}];
  EXPECT_LT(stages(plan_of({steps})), stages(plan_without("-offsets", {steps})));
  const Array product = sum(dataset("/l", {50, 40, 1}) * dataset("/r", {1, 40, 30}), 1);
  EXPECT_TRUE(has(plan_of({product}), "matmul"));
  EXPECT_FALSE(has(plan_without("-contractions", {product}), "matmul"));
  EXPECT_EQ(plan_of({sum(x, 0), sum(x, 1)}).stages[0].label, "read /x");
  EXPECT_EQ(stages(plan_without("-reads", {sum(x, 0), sum(x, 1)})), 2u);
  const Array mapped = map_blocks(itself, x * 2, {}, {.dtypes = {DType::float64}});
  EXPECT_LT(stages(plan_of({mapped})), stages(plan_without("-prologues", {mapped})));
  EXPECT_LT(stages(plan_of({mapped + 1})), stages(plan_without("-epilogues", {mapped + 1})));
  const int64_t small = 1 << 20;
  EXPECT_FALSE(plan_without("", {sum(big, 0)}, small).note.empty());
  EXPECT_TRUE(plan_without("-fit", {sum(big, 0)}, small).note.empty());
}

TEST(Passes, AreNamedTimedAndPartOfTheHash) {
  const Array x = dataset("/x", {1000, 8});
  const plan::Plan all = plan_of({sum(x, 0)}), without = plan_without("-views,-cse", {sum(x, 0)});
  EXPECT_EQ(all.passes.size(), plan::passes().size());
  EXPECT_EQ(without.passes.size(), plan::passes().size() - 4);
  for (const plan::PassTime& pass : all.passes) EXPECT_GE(pass.seconds, 0);
  const std::string text = describe_passes(without);
  EXPECT_TRUE(text.starts_with("selections ")) << text;
  EXPECT_EQ(text.find("cse"), std::string::npos) << text;
  EXPECT_NE(all.hash, without.hash);
}

TEST(Passes, AWrongNameIsAnErrorThatListsThem) {
  EXPECT_TRUE(plan::parse_passes("").empty());
  EXPECT_EQ(plan::parse_passes("-syrk,-cse"), (plan::PassNames{"cse", "syrk"}));
  for (const char* text : {"-sirk", "cse", "-stages", "-cse,,-syrk", "-", "-cse -syrk"}) {
    try {
      plan::parse_passes(text);
      ADD_FAILURE() << text;
    } catch (const local::InvalidArgument& error) {
      EXPECT_NE(std::string(error.what())
                    .find("cse, views, selections, contractions, syrk, materialise, siblings, offsets, reads, "
                          "prologues, epilogues, fit"),
                std::string::npos)
          << error.what();
    }
  }
}

// --- shared offsets ---

const plan::Fused& only_fused(const plan::Plan& plan) {
  EXPECT_EQ(plan.stages.size(), 1u) << describe(plan);
  return std::get<plan::Fused>(plan.stages.at(0).work);
}

TEST(PassOffsets, ViewsThatBeginElsewhereAreOneInput) {
  const Array x = dataset("/x", {1000, 8}, Dims{100, 8});
  const plan::Plan plan = plan_of({x[{Slice{{}, -2, {}}}] + x[{Slice{2, {}, {}}}] * x[{Slice{1, -1, {}}}]});
  const plan::Fused& fused = only_fused(plan);
  ASSERT_EQ(fused.inputs.size(), 1u);
  EXPECT_EQ(fused.program.inputs(), 3);
  EXPECT_EQ(fused.inputs[0].reach, (Dims{2, 0}));
  EXPECT_EQ(fused.inputs[0].region(Region::box({100, 0}, {50, 8})).start, (Dims{100, 0}));
  EXPECT_EQ(fused.inputs[0].region(Region::box({100, 0}, {50, 8})).count, (Dims{52, 8}));
  EXPECT_NE(describe_changes(plan).find("pass offsets: 3 views"), std::string::npos) << describe_changes(plan);
}

TEST(PassOffsets, ViewsFurtherApartThanAChunkStayApart) {
  const Array x = dataset("/x", {1000}).rechunk({100});
  const auto distance = [&](int64_t by) {
    return only_fused(plan_of({x[{Slice{{}, -by, {}}}] + x[{Slice{by, {}, {}}}]})).inputs.size();
  };
  EXPECT_EQ(distance(1), 1u);
  EXPECT_EQ(distance(100), 1u);
  EXPECT_EQ(distance(101), 2u);
}

TEST(PassOffsets, OtherAxesStepsAndArraysStayApart) {
  const Array x = dataset("/x", {100, 100}), y = dataset("/y", {100, 100});
  EXPECT_EQ(only_fused(plan_of({x + x.T()})).inputs.size(), 2u);
  EXPECT_EQ(only_fused(plan_of({x[{Slice{0, 50, {}}}] + x[{Slice{0, 100, 2}}]})).inputs.size(), 2u);
  EXPECT_EQ(only_fused(plan_of({x[{Slice{1, {}, {}}}] + y[{Slice{{}, -1, {}}}]})).inputs.size(), 2u);
}

// --- chunks ---

// The axis of `extent` in chunks of 1, but for one chunk of 2 after `at` chunks.
AxisChunks cuts_with_one_wider(int64_t extent, int64_t at) {
  std::vector<int64_t> extents(static_cast<size_t>(extent) - 1, 1);
  extents[static_cast<size_t>(at)] = 2;
  return AxisChunks(extents);
}

TEST(PassCse, KeepsChunksThatDifferAfterManyCuts) {
  const Array x = dataset("/x", {1000});
  const Grid a({cuts_with_one_wider(1000, 700)}), b({cuts_with_one_wider(1000, 701)});
  ASSERT_EQ(a.count(), b.count());
  EXPECT_NE(a.hash(), b.hash());
  EXPECT_EQ(a.hash(), Grid({cuts_with_one_wider(1000, 700)}).hash());
  const Array left = x.rechunk(a), right = x.rechunk(b);
  EXPECT_NE(left.node()->hash, right.node()->hash);
  const plan::Plan plan = plan_of({left + 1, right + 1, x.rechunk(a) + 1});
  const auto grid = [&](size_t result) {
    const plan::ArrayRef& array = plan.results[result];
    return plan.stages[static_cast<size_t>(array.stage)].outputs[static_cast<size_t>(array.output)].grid;
  };
  EXPECT_EQ(grid(0), a);
  EXPECT_EQ(grid(1), b);
  EXPECT_EQ(grid(2), a);
}

TEST(PassCse, ComparesChunksWhereHashesMeet) {
  // Nodes of one hash, as a collision would make them.
  const auto node = [](const Grid& grid, bool chosen) {
    auto made = std::make_shared<expr::Node>();
    made->payload = expr::Constant{local::Scalar(1)};
    made->shape = grid.shape();
    made->dtype = DType::float64;
    made->grid = grid;
    made->hash = 7;
    made->chosen_grid = chosen;
    return NodePtr(made);
  };
  const Grid coarse = Grid::regular(Dims{10}, Dims{5}), fine = Grid::regular(Dims{10}, Dims{2});
  const std::vector<NodePtr> after = plan::eliminate_common(
      {node(coarse, false), node(fine, false), node(coarse, true), node(coarse, false), node(fine, false)});
  EXPECT_EQ(after[0], after[3]);
  EXPECT_EQ(after[1], after[4]);
  EXPECT_NE(after[0], after[1]);
  EXPECT_NE(after[0], after[2]);
}

TEST(PassHash, IsThatOfTheGraph) {
  const Array x = dataset("/x", {1000, 8}), again = dataset("/x", {1000, 8});
  EXPECT_EQ(plan_of({sum(x, 0)}).hash, plan_of({sum(again, 0)}).hash);
  EXPECT_NE(plan_of({sum(x, 0)}).hash, plan_of({sum(x, 1)}).hash);
  EXPECT_NE(plan_of({x + 1, x + 2}).hash, plan_of({x + 2, x + 1}).hash);
}

}  // namespace
}  // namespace quarry
