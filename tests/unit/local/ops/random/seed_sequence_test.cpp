// NumPy's SeedSequence, word by word, and generators that are spawned. More is in the oracle's chapter "language".
#include "quarry/local/ops/random/seed_sequence.h"

#include <gtest/gtest.h>

#include <set>

#include "quarry/local/ops/random/random.h"

namespace quarry::local {
namespace {

using Words = std::vector<uint32_t>;

TEST(SeedSequence, HasNumPysWords) {  // numpy 2.4: np.random.SeedSequence(...).generate_state(...)
  EXPECT_EQ(SeedSequence({1, 2}).generate_state(4), (Words{1596810411, 3615836353, 2321460393, 2364082729}));
  EXPECT_EQ(SeedSequence({1, 2}).spawn(2)[1].generate_state(3), (Words{4080285128, 3281416618, 3417281019}));
  EXPECT_EQ(SeedSequence(SeedSequence::Parts{{0, 0, 0, 16}, {}}).generate_state_64(2),  // of 2^100
            (std::vector<uint64_t>{5591249174690957987u, 2110498775340415078u}));
  EXPECT_EQ(SeedSequence(5).generate_state(2), SeedSequence({5}).generate_state(2));
  EXPECT_NE(SeedSequence({5, 0}).generate_state(1), SeedSequence({5, 1}).generate_state(1));
  EXPECT_TRUE(SeedSequence({1}).generate_state(0).empty());
}

TEST(SeedSequence, ChildrenAreCounted) {
  SeedSequence parent({7});
  const auto first = parent.spawn(2), second = parent.spawn(1);
  EXPECT_EQ(parent.children(), 3);
  EXPECT_EQ(second[0].spawn_key(), (Words{2}));
  EXPECT_EQ(SeedSequence({7}).spawn(3)[2].generate_state(4), second[0].generate_state(4));
  EXPECT_TRUE(parent.spawn(0).empty());
  EXPECT_EQ(SeedSequence(SeedSequence::Parts{{7}, {}, 4, 2}).spawn(1)[0].generate_state(2),
            second[0].generate_state(2));
  EXPECT_EQ(second[0].children(), 0);
  EXPECT_THROW(parent.spawn(-1), InvalidArgument);
  EXPECT_THROW(parent.generate_state(-1), InvalidArgument);
  EXPECT_THROW(SeedSequence(SeedSequence::Parts{{1}, {}, 3}), InvalidArgument);
  EXPECT_NE(SeedSequence().generate_state(4), SeedSequence().generate_state(4));
}

TEST(SeedSequence, GeneratorsTakeTheirSeedFromIt) {
  const SeedSequence sequence({1, 2});
  EXPECT_EQ(default_rng(sequence).seed(), sequence.generate_state_64(1)[0]);
  EXPECT_EQ(to_vector<double>(default_rng(sequence).random({4})), to_vector<double>(default_rng(sequence).random({4})));
}

TEST(SeedSequence, SpawnedGeneratorsDiffer) {
  Generator parent = default_rng(5);
  const NdArray before = Generator(default_rng(5)).random({3});
  const std::vector<Generator> children = parent.spawn(3);
  EXPECT_EQ(to_vector<double>(parent.random({3})), to_vector<double>(before));  // the parent goes on as it would
  std::set<uint64_t> seeds{parent.seed()};
  for (const Generator& child : children) seeds.insert(child.seed());
  EXPECT_EQ(seeds.size(), 4u);
  EXPECT_EQ(children[1].seed(), SeedSequence(5).spawn(2)[1].generate_state_64(1)[0]);
  EXPECT_EQ(parent.spawn(1)[0].seed(), SeedSequence(5).spawn(4)[3].generate_state_64(1)[0]);
  Generator drawn = default_rng(5);
  drawn.random({10});
  EXPECT_EQ(drawn.spawn(1)[0].bit_generator().offset, 0u);
  EXPECT_EQ(Generator(ScrambledSobol32(2, 3)).spawn(1)[0].bit_generator().kind, BitGenerator::Kind::scrambled_sobol32);
  EXPECT_THROW(Generator(Sobol32()).spawn(1), TypeError);
}

}  // namespace
}  // namespace quarry::local
