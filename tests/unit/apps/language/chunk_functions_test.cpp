// Functions of chunks, chunks by their numbers and assignment in the language of chunked arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "quarry/apps/binding/local_values.h"
#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/display.h"
#include "quarry/apps/quarry/script.h"
#include "tests/support/temp_dir.h"

namespace quarry::apps::expression {
namespace {

using ::testing::HasSubstr;

// What is printed, or the error.
std::string shown(const std::string& text, Environment& environment) {
  environment.other = {&local_library(), "there it is"};
  const Source source{text, "", 0};
  try {
    const Value value = evaluate(source, *parse(source), environment);
    return display(std::span(&value, 1))[0];
  } catch (const local::Error& error) {
    return error.what();
  }
}
std::string shown(const std::string& text) {
  Environment environment;
  return shown(text, environment);
}

// An expression that uses x = arange(12) as a 3 x 4 matrix in chunks of 2 x 3, and v = arange(6) in chunks of 4.
struct Case {
  const char* text;
  const char* expected;
};
void check(std::span<const Case> cases) {
  for (const auto& [text, expected] : cases) {
    Environment environment;
    const auto define = [&](const char* name, const std::string& value) {
      const Source source{value, "", 0};
      environment.variables.emplace(name, evaluate(source, *parse(source), environment));
    };
    define("x", "arange(12).reshape(3, 4).rechunk((2, 3))");
    define("v", "arange(6).rechunk(4)");
    EXPECT_THAT(shown(text, environment), HasSubstr(expected)) << text;
  }
}

TEST(ChunkFunctions, AreCalledPerChunk) {
  constexpr Case kCases[] = {
      {"map_blocks(lambda b: b * 2, v)", "[ 0  2  4  6  8 10]"},
      {"v.map_blocks(lambda b: np.cumsum(b))", "[0 1 3 6 4 9]"},
      {"v.map_blocks(lambda b, c: b + c, v * 10)", "[ 0 11 22 33 44 55]"},
      {"map_blocks(lambda b, n: b * n, v, 3)", "[ 0  3  6  9 12 15]"},
      {"map_blocks(lambda b, n=1: b * n, v, n=4)", "[ 0  4  8 12 16 20]"},
      {"map_blocks(sqrt, v ** 2, dtype=float64)", "[0. 1. 2. 3. 4. 5.]"},
      {"v.map_blocks(lambda b, block_id: b * 0 + block_id[0])", "[0 0 0 0 1 1]"},
      {"v.map_blocks(lambda b: b.sum(keepdims=True), chunks=((1, 1),))", "[6 9]"},
      {"v.map_blocks(lambda b: b.max(keepdims=True), chunks=(1,))", "[3 5]"},
      {"x.map_blocks(lambda b: b.sum(axis=1), drop_axis=1)", "[ 6 22 38]"},
      {"v.map_blocks(lambda b: b[None], new_axis=0)", "[[0 1 2 3 4 5]]"},
      {"map_overlap(lambda b: b + np.roll(b, 1), v, depth=1)", "[4 1 3 5 7 9]"},
      {"v.map_overlap(lambda b: b + np.roll(b, 1), 1, boundary='periodic')", "[5 1 3 5 7 9]"},
      {"v.map_overlap(lambda b: b + np.roll(b, 1), {0: 1}, boundary={0: 100})", "[100   1   3   5   7   9]"},
      {"blockwise(lambda a, b: a[:, None] * b[None], 'ij', v[:3], 'i', v[:2], 'j')", "[[0 0]\n [0 1]\n [0 2]]"},
      {"blockwise(lambda a, n: a.sum(axis=1) + n, (0,), x, (0, 1), 100, None)", "[106 122 138]"},
      {"blockwise(lambda a: a[:1], 'i', v, 'i', adjust_chunks={'i': 1})", "[0 4]"},
      {"blockwise(lambda a: a[:, None] + np.zeros(2, dtype=int), 'iz', v[:2], 'i', new_axes={'z': 2})",
       "[[0 0]\n [1 1]]"},
      {"gufunc.apply_gufunc(lambda a: a.mean(axis=-1), '(i)->()', x)", "[1.5 5.5 9.5]"},
      {"apply_gufunc(lambda a: (a.min(axis=-1), a.max(axis=-1)), '(i)->(),()', x)[1]", "[ 3  7 11]"},
      {"apply_gufunc(lambda a: a.sum(), '(i)->()', x, vectorize=True)", "[ 6 22 38]"},
      {"reduction(v, lambda b, axis, keepdims: b.sum(axis=axis, keepdims=keepdims), "
       "lambda b, axis, keepdims: b.max(axis=axis, keepdims=keepdims))",
       "9"},
      {"coarsen(sum, v, {0: 2})", "[1 5 9]"},
      {"coarsen(lambda b, axis: b.max(axis=axis), x, {1: 3}, trim_excess=True)", "[[ 2]\n [ 6]\n [10]]"},
      {"apply_along_axis(lambda line: line.sum(), 1, x)", "[ 6 22 38]"},
      {"apply_along_axis(lambda line, n: line[:2] * n, 1, x, 10)", "[[ 0 10]\n [40 50]\n [80 90]]"},
      {"apply_over_axes(sum, x, [0, 1])", "[[66]]"},
      {"piecewise(v, [v < 2, v > 3], [lambda a: -a, 9, 7])", "[ 0 -1  7  7  9  9]"},
      {"piecewise(v, v < 2, [1])", "[1 1 0 0 0 0]"},
  };
  check(kCases);
}

TEST(ChunkFunctions, SayWhatIsWrong) {
  constexpr Case kCases[] = {
      {"map_blocks(lambda b: b[:2], v).sum()", "[(0,)]: gave an array of shape (2,)"},
      {"map_blocks(lambda b: b + missing, v)", "'missing' is not defined"},
      {"map_blocks(3, v)", "func must be a function, not int"},
      {"map_blocks(lambda: 1)", "no array among the arguments"},
      {"v.map_overlap(lambda b: b, 1, boundary='odd')", "boundary must be"},
      {"v.map_overlap(lambda b: b, 7, boundary='reflect')", "depth 7 is longer"},
      {"v.map_overlap(lambda b: b, (1, 2))", "depth has 2 entries for 1 axes"},
      {"blockwise(lambda a: a, 'k', v, 'i')", "no argument has index"},
      {"apply_gufunc(lambda a: a, '(i->()', v)", "not a valid gufunc signature"},
      {"v.store(3)", "to_hdf5(file, path, x)"},
      {"store([v], [v])", "to_hdf5(file, path, x)"},
      {"reduction(v, 3, sum)", "must be a function"},
      {"coarsen(sum, v, 2)", "axes must be a dict"},
  };
  check(kCases);
}

TEST(ChunkFunctions, ChunksAreChosenAndKept) {
  constexpr Case kCases[] = {
      {"x.blocks[0]", "[[0 1 2 3]\n [4 5 6 7]]"},
      {"x.blocks[1, 0]", "[[ 8  9 10]]"},
      {"x.partitions[:, [1]]", "[[ 3]\n [ 7]\n [11]]"},
      {"x.blocks[2]", "index 2 is out of bounds for axis 0 with 2 chunks"},
      {"x.vindex[[0, 2], [1, 3]]", "[ 1 11]"},
      {"x.vindex[:, [3, 0]]", "[[ 3  7 11]\n [ 0  4  8]]"},
      {"x.compute().chunks", "((2, 1), (3, 1))"},
      {"v.persist() + 1", "[1 2 3 4 5 6]"},
      {"v.compute_chunk_sizes().chunks", "((4, 2),)"},
      {"v.moment(2)", "2.9166"},
      {"from_array([1, 2, 3], chunks=2).chunks", "((2, 1),)"},
      {"from_dlpack(v)", "[0 1 2 3 4 5]"},
      {"reshape_blockwise(x, 12)", "[ 0  1  2  4  5  6  3  7  8  9 10 11]"},
      {"reshape_blockwise(v, (2, 3), chunks=((2,), (2, 1)))", "[[0 1 4]\n [2 3 5]]"},
      {"block([[x[:2, :2], x[:2, 2:]], [x[2:, :2], x[2:, 2:]]]) - x", "[[0 0 0 0]"},
  };
  check(kCases);
}

TEST(ChunkFunctions, AssignmentGivesNewArrays) {
  constexpr Case kCases[] = {
      {"assigned(v, s_[1:3], 9)", "[0 9 9 3 4 5]"},
      {"assigned(x, s_[:, ::-2], v[:2])", "[[ 0  1  2  0]\n [ 4  1  6  0]\n [ 8  1 10  0]]"},
      {"assigned(v, v % 2 == 0, [7, 8, 9])", "[7 1 8 3 9 5]"},
      {"assigned(v, [0, 0, -1], [7, 8, 9])", "[8 1 2 3 4 9]"},
      {"assigned(v, 6, 1)", "index 6 is out of bounds for axis 0 with size 6"},
      {"assigned(v, [6], 1)", "index 6 is out of bounds for axis 0 with size 6"},
      {"fill_diagonal(x, 9)", "[[ 9  1  2  3]\n [ 4  9  6  7]\n [ 8  9  9 11]]"},
      {"put_along_axis(x, x.argmax(axis=1).reshape(3, 1), 99, 1)", "[[ 0  1  2 99]\n [ 4  5  6 99]\n [ 8  9 10 99]]"},
      {"where(v > 3)", "[4, 5]"},
      {"x[True].shape", "(1, 3, 4)"},
  };
  check(kCases);
}

// The values of a script's names, or its first error.
std::string script(const Library& library, const std::string& text) {
  Environment environment;
  environment.library = &library;
  try {
    const Script result = evaluate_script("job", text, environment, /*keep_going=*/false, [](const Value&) {});
    std::string shown;
    for (const ScriptResult& each : result.results) {
      const std::string value =
          each.value.is<NdArray>() ? local_text(each.value) : display(std::span(&each.value, 1))[0];
      shown += each.name + " = " + value + "\n";
    }
    return shown;
  } catch (const local::Error& error) {
    return error.what();
  }
}

TEST(Scripts, AssignToElements) {
  const std::string text =
      "x = arange(12).reshape(3, 4) * 1.5\n"
      "y = x + 0\n"
      "y[0] = 7\n"
      "y[1:, ::-2] = [[1, 2], [3, 4]]\n"
      "y[y > 10] -= 10\n"
      "y[[0, 2], [1, 1]] = y[2, 2:]\n"
      "_i = array([1, 1, 0])\n"
      "y[_i, -1] = array([5, 6, 8])\n"
      "y[..., 0] //= 2\n"
      "n = arange(4)\n"
      "n[n % 2 == 0] |= 5\n";
  const std::string of_local = script(local_library(), text), of_chunked = script(chunked_library(), text);
  EXPECT_EQ(of_local, of_chunked);
  EXPECT_THAT(of_chunked, HasSubstr("x = [[ 0.   1.5  3.   4.5]"));
  EXPECT_THAT(of_chunked, HasSubstr("n = [5 1 7 3]"));
  for (const Library* library : {&local_library(), &chunked_library()}) {
    EXPECT_THAT(script(*library, "x = arange(3)\nx[3] = 1"),
                HasSubstr("job:2:1: index 3 is out of bounds for axis 0 with size 3"));
    EXPECT_THAT(script(*library, "x = arange(3)\nx[x > 0] += 0.5"), HasSubstr("same_kind"));
    EXPECT_THAT(script(*library, "x = 3\nx[0] = 1"), HasSubstr("'int' object does not support item assignment"));
    EXPECT_THAT(script(*library, "x[0] = 1"), HasSubstr("'x' is not defined"));
    EXPECT_THAT(script(*library, "x = arange(3)\nx[0] = 'a'"), HasSubstr("job:2:1"));
  }
}

TEST(ChunkFunctions, ArraysAreWrittenToFiles) {
  const test::TempDir folder;
  const std::string file = (folder.path() / "a.h5").string();
  EXPECT_EQ(shown("to_hdf5('" + file + "', '/v', arange(5))"), "None");
  EXPECT_EQ(shown("arange(3).to_hdf5('" + file + "', '/w')"), "None");
  EXPECT_EQ(open_hdf5(file, "/v").to_host().to_string(), "[0 1 2 3 4]");
  EXPECT_EQ(open_hdf5(file, "/w").to_host().to_string(), "[0 1 2]");
  EXPECT_THAT(shown("to_hdf5('" + file + "')"), HasSubstr("takes a file, a path and an array"));
  EXPECT_THAT(shown("to_hdf5('" + file + "', '/v', 1)"), HasSubstr("/v"));
}

}  // namespace
}  // namespace quarry::apps::expression
