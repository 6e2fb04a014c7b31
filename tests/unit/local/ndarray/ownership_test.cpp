// Who may write to an array, and what happens where arrays share memory without knowing of each other.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "quarry/local.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/ndarray/launch.h"
#include "tests/support/on_devices.h"

namespace quarry::local {
namespace {

// The message of the InvalidArgument that `call` throws; empty where it throws none.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

// The same memory as another array, which does not know that it is ours: as DLPack gives it, on every device.
NdArray imported(const NdArray& x, bool read_only = false) {
  auto buffer = std::make_shared<Buffer>(
      x.buffer()->data(), x.buffer()->bytes(), x.device(), [keep = x.buffer()] {}, context_for(x.device()).stream);
  if (read_only) buffer->set_read_only();
  return NdArray(std::move(buffer), x.dtype(), x.shape(), x.strides(), x.offset());
}

class Ownership : public test::OnDevice {};
QUARRY_ON_EVERY_DEVICE(Ownership);

NdArray numbers(const Dims& shape) { return test::arange(shape).astype(DType::float64); }

// Every function that writes into an array it is given: a vector of 3 and a matrix of 3 by 3.
std::vector<std::pair<const char*, std::function<void(const NdArray&, const NdArray&)>>> writers() {
  using A = const NdArray&;
  const auto three = [] { return from_vector<double>({7, 8, 9}); };
  const auto position = [] { return from_vector<int64_t>({1}); };
  const auto mask = [] { return from_vector<bool>({true, false, true}); };
  return {
      {"assign", [=](A x, A) { x.assign(three()); }},
      {"fill", [](A x, A) { x.fill(5); }},
      {"ops::fill", [](A x, A) { ops::fill(x, 5); }},
      {"+=", [](A x, A) { x += 1; }},
      {"out=", [=](A x, A) { ops::add(three(), 1, {.out = x}); }},
      {"out=, where=", [=](A x, A) { ops::add(three(), 1, {.out = x, .where = mask()}); }},
      {"out= of another dtype", [=](A x, A) { ops::add(position(), 1, {.out = x}); }},
      {"two outputs",
       [=](A x, A) {
         const std::optional<NdArray> out[] = {std::nullopt, x};
         const NdArray in = three();
         const Arg args[] = {in};
         apply(*find_multi_output("modf"), args, {}, out);
       }},
      {"sum out=", [](A x, A m) { ops::sum(m + 0, 0, {.out = x}); }},
      {"cumsum out=", [=](A x, A) { ops::cumsum(three(), 0, std::nullopt, x); }},
      {"accumulate", [=](A x, A) { ops::ufunc_accumulate("add"_op, three(), 0, std::nullopt, x); }},
      {"ufunc.at", [=](A x, A) { ops::ufunc_at("add"_op, x, {position()}, Arg(1)); }},
      {"put", [=](A x, A) { ops::put(x, position(), 1); }},
      {"put_along_axis", [=](A x, A) { ops::put_along_axis(x, position(), 1, 0); }},
      {"put_along_axis, flat", [=](A, A m) { ops::put_along_axis(m, position(), 1, std::nullopt); }},
      {"place", [=](A x, A) { ops::place(x, mask(), three()); }},
      {"putmask", [=](A x, A) { ops::putmask(x, mask(), three()); }},
      {"copyto", [=](A x, A) { ops::copyto(x, three()); }},
      {"copyto, where=", [=](A x, A) { ops::copyto(x, three(), Casting::same_kind, mask()); }},
      {"fill_diagonal", [](A, A m) { ops::fill_diagonal(m, 1); }},
      {"x[1] =", [](A x, A) { ops::set(x, std::array<IndexTerm, 1>{1}, 5); }},
      {"x[:] =", [](A x, A) { ops::set(x, std::array<IndexTerm, 1>{Slice{}}, 5); }},
      {"x[[1]] =", [=](A x, A) { ops::set(x, std::array<IndexTerm, 1>{position()}, 5); }},
      {"x[mask] =", [=](A x, A) { ops::set(x, std::array<IndexTerm, 1>{mask()}, 5); }},
      {"x[[1]] +=", [=](A x, A) { ops::update(x, std::array<IndexTerm, 1>{position()}, "add"_op, 5); }},
      {"of a view",
       [](A x, A) {
         x[{Slice{1, {}, {}}}].fill(5);
       }},
      {"of a transpose", [](A, A m) { m.T().fill(5); }},
      {"of a reshape",
       [](A x, A) {
         x.reshape({3, 1}).fill(5);
       }},
      {"sort", [](A x, A) { ops::sort_in_place(x); }},
      {"sort, other axis", [](A, A m) { ops::sort_in_place(m, 0); }},
      {"partition", [](A x, A) { ops::partition_in_place(x, 1); }},
      {"shuffle", [](A x, A) { default_rng(1).shuffle(x); }},
      {"permuted out=", [=](A x, A) { default_rng(1).permuted(three(), std::nullopt, x); }},
      {"random out=", [](A x, A) { default_rng(1).random({}, DType::float64, x); }},
      {"nan_to_num", [](A x, A) { ops::nan_to_num(x, false); }},
      {"byteswap", [](A x, A) { ops::byteswap(x, true); }},
      {"setfield", [](A x, A) { ops::setfield(x, 1, DType::int32); }},
      {"matmul out=", [=](A x, A m) { ops::matmul(m + 0, three(), x); }},
      {"matmul out= of float32", [=](A x, A m) { ops::matmul((m + 0).astype(DType::float32), three(), x); }},
      {"dot out=", [=](A x, A m) { ops::dot(m + 0, three(), x); }},
      {"vecdot out=", [=](A x, A m) { ops::vecdot(m + 0, three(), x); }},
      {"outer out=", [=](A, A m) { ops::outer(three(), three(), m); }},
      {"multi_dot out=",
       [](A, A m) {
         ops::multi_dot({m + 0, m + 0}, m);
       }},
      {"einsum out=",
       [=](A x, A m) {
         ops::einsum({std::string("ij->i"), m + 0}, x);
       }},
      {"fft out=",
       [=](A x, A) {
         const NdArray out = x.astype(DType::complex128).as_read_only();
         ops::fft::fft(three(), std::nullopt, -1, {}, out);
       }},
      {"take out=",
       [=](A x, A) {
         ops::take(three(), from_vector<int64_t>({0, 1, 2}), std::nullopt, x);
       }},
      {"compress out=",
       [=](A x, A) {
         ops::compress(from_vector<bool>({true, true, true}), three(), std::nullopt, x);
       }},
      {"concatenate out=",
       [=](A x, A) {
         ops::concatenate({three()[{Slice{1, {}, {}}}], position() * 1.0}, 0, x);
       }},
      {"stack out=",
       [=](A, A m) {
         ops::stack({three(), three(), three()}, 0, m);
       }},
      {"median out=", [](A x, A m) { ops::median(m + 0, 0, x); }},
      {"a kernel's output",
       [=](A x, A) {
         ElementwiseKernel("float64 a", "float64 b", "b = a", "copy_of").call({three(), x});
       }},
      {"data<double>()", [](A x, A) { x.data<double>(); }},
  };
}

TEST_P(Ownership, WritesToReadOnlyArraysAreRefusedWithTheReason) {
  const NdArray row = numbers({3}), matrix = numbers({3, 3}), wide = numbers({3, 9});
  NdArray made = numbers({3}), square = numbers({3, 3});
  made.set_writeable(false);
  square.set_writeable(false);
  const NdArray diagonals = ops::diagonal(numbers({3, 3, 3}));
  struct Case {
    const char* reason;
    NdArray vector, matrix;
  };
  const Case cases[] = {
      {"broadcast view", row.broadcast_to({3}), row.broadcast_to({3, 3})},
      {"diagonal", ops::diagonal(matrix), diagonals},
      {"sliding windows", ops::sliding_window_view(row, 3)[{0}], ops::sliding_window_view(numbers({5}), 3)},
      {"imported read-only", imported(row, true), imported(matrix, true)},
      {"set_writeable", made, square},
  };
  for (const Case& each : cases) {
    ASSERT_EQ(each.vector.shape(), Dims{3}) << each.reason;
    ASSERT_EQ(each.matrix.shape(), (Dims{3, 3})) << each.reason;
    const NdArray vector = each.vector.copy(), whole = each.matrix.copy();
    EXPECT_TRUE(vector.writeable()) << "a copy of " << each.reason;
    for (const auto& [name, write] : writers()) {
      const std::string message = refusal([&, &write = write] { write(each.vector, each.matrix); });
      EXPECT_NE(message.find("read-only"), std::string::npos) << name << ", " << each.reason << ": " << message;
    }
    EXPECT_NE(refusal([&] { each.vector.fill(0); }).find(each.reason), std::string::npos) << each.reason;
    EXPECT_TRUE(ops::array_equal(each.vector, vector)) << each.reason;
    EXPECT_TRUE(ops::array_equal(each.matrix, whole)) << each.reason;
  }
  // The same calls write where they may.
  for (const auto& [name, write] : writers()) {
    if (std::string_view(name) == "fft out=") continue;  // has an output of its own, read-only
    EXPECT_EQ(refusal([&, &write = write] { write(numbers({3}), numbers({3, 3})); }), "") << name;
  }
}

TEST_P(Ownership, EmptyAndScalarArraysAreReadOnlyToo) {
  const NdArray empty = numbers({0}).broadcast_to({4, 0}), scalar = numbers({}).broadcast_to({});
  for (const NdArray& x : {empty, scalar}) {
    EXPECT_FALSE(x.writeable());
    EXPECT_NE(refusal([&] { x.fill(0); }), "");
    EXPECT_NE(refusal([&] { x.assign(x); }), "");
    EXPECT_NE(refusal([&] { x += 1; }), "");
    EXPECT_NE(refusal([&] { ops::copyto(x, 0); }), "");
  }
  EXPECT_NE(refusal([&] { ops::sort_in_place(empty); }), "");
}

TEST_P(Ownership, TheFlag) {
  NdArray x = numbers({3, 3});
  EXPECT_TRUE(x.writeable());
  x.set_writeable(false);
  EXPECT_FALSE(x.T().writeable());
  EXPECT_FALSE(x[{1}].writeable());
  EXPECT_FALSE(x.reshape({9}).writeable());
  EXPECT_TRUE(x.T().reshape({9}).writeable());  // a copy
  EXPECT_TRUE((x + 1).writeable());
  EXPECT_TRUE(x.astype(DType::float64).writeable());
  x.set_writeable(true);
  x.fill(2);
  NdArray diagonal = ops::diagonal(x);
  diagonal.set_writeable(true);  // as NumPy's
  diagonal.fill(5);
  EXPECT_EQ(ops::trace(x).item<double>(), 15);
  NdArray broadcast = x.broadcast_to({2, 3, 3});
  EXPECT_NE(refusal([&] { broadcast.set_writeable(true); }).find("share memory"), std::string::npos);
  NdArray import = imported(x, true);
  EXPECT_NE(refusal([&] { import.set_writeable(true); }).find("imported read-only"), std::string::npos);
  EXPECT_TRUE(ops::sliding_window_view(x, 2, 0, false, true).writeable());
  EXPECT_FALSE(ops::as_strided(x, Dims{3}, Dims{8}, false, false).writeable());
  EXPECT_EQ(*x.broadcast_to({2, 3, 3}).to(kCpu).copy(default_context(kCpu)).data<const double>(), 5);
}

TEST_P(Ownership, InputsMayBeReadOnly) {
  NdArray x = numbers({3, 4}), positions = from_vector<int64_t>({2, 0});
  x.set_writeable(false);
  positions.set_writeable(false);
  EXPECT_EQ(ops::sum(x).item<double>(), 66);
  EXPECT_EQ(test::doubles(ops::get(x, {1, positions})), (std::vector<double>{6, 4}));
  EXPECT_EQ(test::doubles(ops::bincount(positions)), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(test::doubles(ops::sort(positions)), (std::vector<double>{0, 2}));
  EXPECT_EQ(ops::matmul(x, x.T()).shape(), (Dims{3, 3}));
  EXPECT_EQ(to_vector<int64_t>(positions), (std::vector<int64_t>{2, 0}));
  NdArray square = numbers({2, 2}) + 1;
  square.set_writeable(false);
  EXPECT_NEAR(ops::det(square).item<double>(), -2, 1e-12);
  EXPECT_EQ(ops::searchsorted(ops::sort(positions), positions).shape(), Dims{2});
  EXPECT_EQ(ops::histogram(x, 3).first.shape(), Dims{3});
}

// What a loop in the order of memory would get wrong: every output lies on inputs that are read later.
TEST_P(Ownership, OverlapIsSeenThroughImports) {
  NdArray x = numbers({9}), other = imported(x);
  EXPECT_NE(x.buffer(), other.buffer());
  ops::add(x[{Slice{0, 8, {}}}], 1, {.out = other[{Slice{1, 9, {}}}]});
  EXPECT_EQ(test::doubles(x), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8}));

  NdArray w = numbers({64, 64});
  const NdArray before = w.copy();
  imported(w).assign(w.T());
  EXPECT_TRUE(ops::array_equal(w, before.T()));

  NdArray p = numbers({64, 64});
  p += imported(p).T();
  EXPECT_TRUE(ops::array_equal(p, before + before.T()));

  NdArray q = numbers({8});
  ops::copyto(imported(q), q[{Slice{{}, {}, -1}}]);
  EXPECT_EQ(test::doubles(q), (std::vector<double>{7, 6, 5, 4, 3, 2, 1, 0}));

  NdArray r = numbers({8});
  ops::cumsum(r[{Slice{0, 7, {}}}], 0, std::nullopt, imported(r)[{Slice{1, 8, {}}}]);
  EXPECT_EQ(test::doubles(r), (std::vector<double>{0, 0, 1, 3, 6, 10, 15, 21}));

  NdArray s = numbers({4, 4});
  ops::matmul(s, s, imported(s));
  EXPECT_TRUE(ops::array_equal(s, ops::matmul(numbers({4, 4}), numbers({4, 4}))));

  NdArray t = numbers({8});
  ops::set(t, std::array<IndexTerm, 1>{from_vector<int64_t>({7, 6, 5, 4, 3, 2, 1, 0})}, imported(t));
  EXPECT_EQ(test::doubles(t), (std::vector<double>{7, 6, 5, 4, 3, 2, 1, 0}));

  EXPECT_TRUE(ops::shares_memory(x, other));
  EXPECT_TRUE(may_overlap(x, other));
  EXPECT_FALSE(may_overlap(x[{Slice{0, 4, {}}}], other[{Slice{4, 9, {}}}]));
  EXPECT_FALSE(may_overlap(x, w));
}

TEST_P(Ownership, ADefaultConstructedArrayIsAnError) {
  const NdArray none;
  const std::function<void()> calls[] = {
      [&] { none.item(); },
      [&] { none.copy(); },
      [&] { none.astype(DType::int32); },
      [&] { none.fill(1); },
      [&] { none.assign(numbers({})); },
      [&] { numbers({}).assign(none); },
      [&] {
        none.to(Device{DeviceKind::emulated, 0});
      },
      [&] { none.to_string(); },
      [&] { to_vector<double>(none); },
      [&] { none + 1; },
      [&] { none + none; },
      [&] { none += 1; },
      [&] { ops::sum(none); },
      [&] { ops::sort(none.reshape({1})); },
      [&] {
        ops::get(none, {ellipsis, newaxis}).copy();
      },
      [&] { ops::set(none, std::array<IndexTerm, 1>{Ellipsis{}}, 1); },
      [&] { ops::take(none, numbers({1}).astype(DType::int64)); },
      [&] {
        ops::concatenate({none.reshape({1}), none.reshape({1})});
      },
      [&] {
        ops::matmul(none.reshape({1, 1}), none.reshape({1, 1}));
      },
      [&] { ops::cumsum(none); },
      [&] { ops::fft::fft(none.reshape({1})); },
      [&] { ops::add(numbers({}), 1, {.out = none}); },
      [&] {
        ops::diagonal(none.reshape({1, 1}));
      },
      [&] { none.restrided({}, {}, 0); },
      [&] { none.data<double>(); },
      [&] { none.raw(); },
      [&] { default_rng(1).random({}, DType::float64, none); },
      [&] { to_dlpack(none); },
      [&] { ops::nonzero(none.reshape({1})); },
      [&] { ops::unique(none.reshape({1})); },
      [&] { RawKernel("extern \"C\" __global__ void f(double* x) {}", "f")({1}, {1}, {none}); },
  };
  int at = 0;
  for (const auto& call : calls) {
    EXPECT_THROW(call(), Error) << "call " << at;
    ++at;
  }
  NdArray copy = none;  // may be copied and assigned to
  copy = numbers({2});
  EXPECT_EQ(copy.size(), 2);
}

TEST(DimsTest, HasNoCountInParentheses) {
  static_assert(!std::is_constructible_v<Dims, int>);
  static_assert(!std::is_constructible_v<Dims, int, int>);
  EXPECT_EQ(Dims{3}, (Dims::filled(1, 3)));
  EXPECT_EQ(Dims::filled(3), (Dims{0, 0, 0}));
  EXPECT_THROW(Dims::filled(kMaxDims + 1), Error);
}

}  // namespace
}  // namespace quarry::local
