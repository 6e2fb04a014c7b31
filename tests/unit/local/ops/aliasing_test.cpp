// Seeded properties: views share memory with their array, and nothing else does.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>

#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

class AliasingOnDevices : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(AliasingOnDevices);

int64_t below(std::mt19937_64& random, int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

// 0, 1, 2 ... modulo 50, in C order or with its axes in another order and direction.
NdArray random_array(std::mt19937_64& random) {
  Dims shape;
  for (int d = 0; d < 3; ++d) shape.push_back(2 + below(random, 4));
  std::vector<int64_t> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) % 50;
  constexpr DType kDTypes[] = {DType::int8, DType::int64, DType::float16, DType::float32, DType::complex128};
  NdArray x = from_vector(values, shape).astype(kDTypes[below(random, std::ssize(kDTypes))]);
  if (below(random, 2) == 1) x = x.T().copy().T();
  if (below(random, 2) == 1) x = x[{Slice{{}, {}, -1}}];
  return x;
}

constexpr int kMark = 99;  // in no random array
int64_t marked(const NdArray& x) { return ops::count_nonzero(x == Scalar(kMark)).item<int64_t>(); }

TEST_P(AliasingOnDevices, Views) {
  std::mt19937_64 random(31);
  using View = std::function<NdArray(const NdArray&)>;
  const auto slice = [&] {
    const int64_t first = below(random, 2), step = 1 + below(random, 2);
    return below(random, 2) == 1 ? Slice{first, {}, step} : Slice{{}, {}, -step};
  };
  const std::pair<const char*, View> views[] = {
      {"slices",
       [&](const NdArray& x) {
         return ops::get(x, {slice(), ellipsis, slice()});
       }},
      {"integers",
       [&](const NdArray& x) {
         return ops::get(x, {-1, newaxis, slice(), 1});
       }},
      {"whole", [](const NdArray& x) { return ops::get(x, {ellipsis}); }},
      {"element",
       [](const NdArray& x) {
         return ops::get(x, {1, 0, -1, ellipsis});
       }},
      {"transpose", [](const NdArray& x) { return ops::transpose(x); }},
      {"moveaxis", [](const NdArray& x) { return ops::moveaxis(x, 0, 2); }},
      {"swapaxes", [](const NdArray& x) { return ops::swapaxes(x, 1, -1); }},
      {"flip", [](const NdArray& x) { return ops::flip(x); }},
      {"rot90", [](const NdArray& x) { return ops::rot90(x, 3); }},
      {"expand_dims",
       [](const NdArray& x) {
         return ops::expand_dims(x, {0, 3});
       }},
      {"squeeze", [](const NdArray& x) { return ops::squeeze(x[{newaxis}], 0); }},
      {"split", [](const NdArray& x) { return ops::array_split(x, 2, 1)[1]; }},
      {"unstack", [](const NdArray& x) { return ops::unstack(x, 2)[1]; }},
      {"diagonal", [](const NdArray& x) { return ops::diagonal(x, 0, 0, 2); }},
      {"reshape",
       [](const NdArray& x) {
         return ops::reshape(x, {x.shape(0), 1, x.shape(1), -1});
       }},
      {"broadcast",
       [](const NdArray& x) {
         return ops::broadcast_arrays({x, x[{0}]})[0];
       }},
  };
  for (int round = 0; round < 20; ++round) {
    for (const auto& [what, view_of] : views) {
      const NdArray x = random_array(random);
      NdArray view = view_of(x);
      view.set_writeable(true);  // a diagonal is read-only otherwise
      ASSERT_EQ(view.buffer(), x.buffer()) << what;
      view.fill(kMark);
      EXPECT_EQ(marked(x), view.size()) << what << " of " << to_string(x.shape());
      x.fill(0);
      EXPECT_EQ(marked(view), 0) << what;
    }
  }
}

TEST_P(AliasingOnDevices, Copies) {
  std::mt19937_64 random(32);
  using Copy = std::function<NdArray(const NdArray&)>;
  const auto rows = [&](const NdArray& x) {
    return from_vector(std::vector<int64_t>{below(random, x.shape(0)), -1, 0});
  };
  const auto every = [](const NdArray& x) { return x == x; };
  const std::pair<const char*, Copy> copies[] = {
      {"positions", [&](const NdArray& x) { return ops::get(x, {rows(x)}); }},
      {"positions and slices",
       [&](const NdArray& x) {
         return ops::get(x, {Slice{}, 0, rows(x).reshape({3, 1}) * 0});
       }},
      {"mask", [&](const NdArray& x) { return ops::get(x, {every(x)}); }},
      {"mask of one axis",
       [&](const NdArray& x) {
         return ops::get(x, {every(x)[{Slice{}, 0, 0}]});
       }},
      {"true", [](const NdArray& x) { return ops::get(x, {true}); }},
      {"take", [&](const NdArray& x) { return ops::take(x, rows(x), 0); }},
      {"take_along_axis", [](const NdArray& x) { return ops::take_along_axis(x, ops::argsort(x.real(), 1), 1); }},
      {"compress",
       [&](const NdArray& x) {
         return ops::compress(every(x)[{Slice{}, 0, 0}], x, 0);
       }},
      {"extract", [&](const NdArray& x) { return ops::extract(every(x), x); }},
      {"choose",
       [](const NdArray& x) {
         return ops::choose(from_vector(std::vector<int64_t>{0}).reshape({}), {x, x});
       }},
      {"select", [&](const NdArray& x) { return ops::select({every(x)}, {x}); }},
      {"where", [&](const NdArray& x) { return ops::where(every(x), x, x); }},
      {"positive", [](const NdArray& x) { return apply("positive"_op, {x}); }},
      {"copy", [](const NdArray& x) { return ops::copy(x); }},
      {"astype", [](const NdArray& x) { return ops::astype(x, x.dtype()); }},
      {"flatten", [](const NdArray& x) { return ops::flatten(x); }},
      {"concatenate", [](const NdArray& x) { return ops::concatenate({x}); }},
      {"stack", [](const NdArray& x) { return ops::stack({x}); }},
      {"append", [](const NdArray& x) { return ops::append(x, x); }},
      {"tile", [](const NdArray& x) { return ops::tile(x, 1); }},
      {"repeat", [](const NdArray& x) { return ops::repeat(x, int64_t{1}, 0); }},
      {"roll", [](const NdArray& x) { return ops::roll(x, 0); }},
      {"resize", [](const NdArray& x) { return ops::resize(x, x.shape()); }},
      {"pad", [](const NdArray& x) { return ops::pad(x, from_vector(std::vector<int64_t>{0})); }},
      {"delete",
       [](const NdArray& x) {
         return ops::delete_(x, Slice{0, 0, {}}, 0);
       }},
      {"tril", [](const NdArray& x) { return ops::tril(x, 9); }},
      {"sort", [](const NdArray& x) { return ops::sort(x); }},
      {"cumsum",
       [](const NdArray& x) {
         return ops::cumsum(x[{Slice{0, 1, {}}}], 0, x.dtype());
       }},
      {"max",
       [](const NdArray& x) {
         return ops::max(x.real()[{Slice{0, 1, {}}}], 0);
       }},
  };
  for (int round = 0; round < 10; ++round) {
    for (const auto& [what, copy_of] : copies) {
      const NdArray x = random_array(random);
      const NdArray copy = copy_of(x);
      ASSERT_GT(copy.size(), 0) << what;
      copy.fill(kMark);
      EXPECT_EQ(marked(x), 0) << what << " of " << to_string(x.shape());
      x.fill(0);
      EXPECT_EQ(marked(copy), copy.size()) << what;
    }
  }
}

}  // namespace
}  // namespace quarry::local
