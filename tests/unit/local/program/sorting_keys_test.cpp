// The key that is chosen at run time against the classes of keys.
#include "quarry/local/program/sorting_keys.h"

#include <gtest/gtest.h>

#include <random>

#include "quarry/local/base/detail.h"
#include "quarry/local/program/sorting_dispatch.h"

namespace quarry::local {
namespace {

TEST(SortingKeys, ThoseChosenAtRunTimeAreTheClasses) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (is_complex(dtype)) continue;
    keys::with_key(dtype, [&]<class Key>() {
      using Bits = typename Key::Bits;
      const auto encoding = keys::runtime_key<Bits>(dtype, /*ranked=*/false);
      const auto ranking = keys::runtime_key<Bits>(dtype, /*ranked=*/true);
      int64_t bad = 0;
      const auto check = [&](Bits x) {
        bad += encoding.key(x) != Key::encode(x);
        bad += ranking.key(x) != Key::rank(x);
        bad += encoding.decode(x) != Key::decode(x);
      };
      std::mt19937_64 random(3);
      const auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
      for (uint64_t i = 0; i < 65536; ++i) {
        // All values of 16 bits; of wider keys their first and last bits, so that infinities and NaNs are among them.
        const auto x = static_cast<Bits>(i);
        check(x);
        check(static_cast<Bits>(~x));
        check(static_cast<Bits>(i << (8 * sizeof(Bits) > 16 ? 8 * sizeof(Bits) - 16 : 0)));
        check(static_cast<Bits>(random()));
        check(static_cast<Bits>(x | sign));
      }
      EXPECT_EQ(bad, 0) << name(dtype);
    });
  }
  EXPECT_THROW(keys::runtime_key<uint32_t>(DType::float64, false), InternalError);
}

}  // namespace
}  // namespace quarry::local
