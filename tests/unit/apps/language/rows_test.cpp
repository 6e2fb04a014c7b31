// Functions and methods over chunked arrays by the rows of local/ops/functions/*.def.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>

#include "quarry/apps/binding/both.h"
#include "quarry/apps/language/evaluator.h"
#include "quarry/apps/language/parser.h"
#include "quarry/apps/quarry/display.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/ufuncs.h"
#include "tests/support/runtime_on.h"
#include "tests/support/target_names.h"

namespace quarry::apps::expression {
namespace {

using ::testing::HasSubstr;

Value evaluated(const std::string& text, Environment& environment) {
  const Source source{text, "", 0};
  return evaluate(source, *parse(source), environment);
}

// What is printed, or the error.
std::string shown(const std::string& text) {
  Environment environment;
  environment.other = {&local_library(), "there it is"};
  try {
    const Value value = evaluated(text, environment);
    return display(std::span(&value, 1))[0];
  } catch (const local::Error& error) {
    return error.what();
  }
}

TEST(Rows, FitTheirFunctions) { EXPECT_EQ(table_problems(), ""); }

// Chunked functions take the parameters of local ones and give the same values.
TEST(Rows, ChunkedResultsAreLocalOnes) {
  const quarry::testing::CpuRuntime runtime;
  constexpr const char* kTexts[] = {"array([[1, 2], [3, 4]], dtype=float32)",
                                    "array([1, 2], ndmin=3)",
                                    "asarray(5)",
                                    "zeros(3)",
                                    "ones((2, 0))",
                                    "empty_like(array([1.5]), dtype=bool) & False",
                                    "full((2, 3), [1, 2, 3])",
                                    "full(2, 7, dtype=float32)",
                                    "zeros_like([[1, 2]], shape=(3,))",
                                    "ones_like(2.5)",
                                    "full_like([1, 2, 3], 2.7)",
                                    "arange(5)",
                                    "arange(1, 5)",
                                    "arange(1, 5, 2, dtype=float32)",
                                    "arange(5, step=2)",
                                    "linspace(0, 1, 5)",
                                    "linspace(0, 1, 5, retstep=True)",
                                    "linspace(0, 4, 4, endpoint=False, retstep=True)[1]",
                                    "eye(2, 3, 1)",
                                    "identity(2, dtype=int8)",
                                    "astype([1.7, -1.7], int32)",
                                    "transpose([[1, 2], [3, 4]])",
                                    "permute_dims([[1, 2], [3, 4]], (0, 1))",
                                    "arange(6).reshape(2, 3)",
                                    "arange(6).reshape((2, -1), order='F')",
                                    "reshape(arange(6), 6, 'C')",
                                    "arange(6).reshape(2, 3).ravel('F')",
                                    "arange(6).reshape(2, 3).flatten(order='F')",
                                    "ravel([[1, 2], [3, 4]], 'A')",
                                    "arange(24).reshape(2, 3, 4).transpose(2, 0, 1).shape",
                                    "arange(24).reshape(2, 3, 4).transpose((2, 0, 1)).shape",
                                    "arange(24).reshape(2, 3, 4).transpose().shape",
                                    "moveaxis(zeros((2, 3, 4)), 0, -1).shape",
                                    "moveaxis(zeros((2, 3, 4)), [0, 1], [-1, 0]).shape",
                                    "expand_dims([1, 2], (0, 2)).shape",
                                    "squeeze(zeros((1, 2, 1)), axis=0).shape",
                                    "zeros((1, 2, 1)).squeeze().shape",
                                    "flip([[1, 2], [3, 4]], 0)",
                                    "flip([[1, 2], [3, 4]])",
                                    "shape([[1, 2]])",
                                    "size([[1, 2]], axis=1)",
                                    "ndim(5)",
                                    "len(zeros((3, 2)))",
                                    "concatenate([[1, 2], [3.5]])",
                                    "concatenate(([[1], [2]], [[3]]), axis=None)",
                                    "concatenate(([1], [2]), dtype=float32)",
                                    "concat([arange(3), arange(2)], 0)",
                                    "stack([[1, 2], [3, 4]], axis=1)",
                                    "vstack(([1, 2], [3, 4]))",
                                    "hstack((1, [2, 3]))",
                                    "hstack(([[1], [2]], [[3], [4]]))",
                                    "concatenate(arange(4).reshape(2, 2))",
                                    "broadcast_to([1, 2], (2, 2))",
                                    "swapaxes([[1, 2]], 0, 1)",
                                    "matrix_transpose([[1, 2]])",
                                    "clip([1, 5, 9], 2, 7)",
                                    "clip([1, 5, 9], None, 7)",
                                    "clip([1, 5, 9], min=2)",
                                    "array([1, 5, 9]).clip(max=[3, 3, 3])",
                                    "clip([1, 5, 9], 2, 7, dtype=float32)",
                                    "round([1.25, 2.35], 1)",
                                    "around([1.5, 2.5])",
                                    "array([True]).round()",
                                    "where([True, False], 1, [2.5, 3])",
                                    "dot([1, 2], [3, 4])",
                                    "array([1, 2]).dot([3, 4])",
                                    "dot(2, [3, 4])",
                                    "matmul([[1, 2]], [[3], [4]])",
                                    "linalg.eigvalsh([[2.0, 0], [0, 1]])",
                                    "linalg.eigh([[2.0, 0], [0, 1]], 'U')[0]",
                                    "add([1, 2], [3, 4])",
                                    "add([1, 2], 1, where=[True, False])[0]",
                                    "add(1, 2, dtype=float32)",
                                    "divmod([7, -7], 2)",
                                    "frexp([8.0])",
                                    "real([1 + 2j])",
                                    "sum([[1, 2], [3, 4]], 0)",
                                    "array([[1, 2], [3, 4]]).sum(axis=1, keepdims=True)",
                                    "var([1.0, 2, 4], ddof=1)",
                                    "var([1.0, 2, 4], correction=1)",
                                    "argmax([[1, 5], [7, 2]], 1)",
                                    "count_nonzero([0, 1, 2])",
                                    "all([True, False])",
                                    "mean([1, 2], dtype=float32)",
                                    "can_cast(arange(2), float32)",
                                    "can_cast(int8, 'int64')",
                                    "result_type(arange(3), 1.5)",
                                    "result_type(float32, [1, 2], arange(2))",
                                    "promote_types('i4', float32)",
                                    "finfo(float32).bits",
                                    "iinfo(int8).max",
                                    "isdtype(int8, 'integral')",
                                    "issubdtype(int8, 'integer')",
                                    "iscomplexobj(ones(2) * 1j)",
                                    "isrealobj(arange(3))",
                                    "min_scalar_type(300)",
                                    "broadcast_shapes((2, 1), 3)",
                                    "arange(12).reshape(3, 4)[[2, 0], 1:]",
                                    "arange(12).reshape(3, 4)[[True, False, True]]",
                                    "arange(12).reshape(3, 4)[[2, -1], [0, 3]]",
                                    "arange(12)[arange(12) % 5 == 1]",
                                    "arange(12).reshape(3, 4)[arange(12).reshape(3, 4) > 7]",
                                    "arange(6)[[]]",
                                    "arange(24).reshape(2, 3, 4)[:, [0, 2], None, 1]",
                                    "take([5, 6, 7], [2, -1])",
                                    "take_along_axis([[3, 1, 2]], [[1, 2, 0]], 1)",
                                    "compress([True, False, True], [[1, 2, 3], [4, 5, 6]], axis=1)",
                                    "extract([1, 0, 1], [7, 8, 9])",
                                    "nonzero([[0, 1], [2, 0]])",
                                    "argwhere([[0, 1], [2, 0]])",
                                    "flatnonzero([0, 3, 0, 4])",
                                    "choose([0, 1, 0], [[1, 2, 3], [4, 5, 6]])",
                                    "select([[True, False], [True, True]], [[1, 2], [3, 4]], 9)",
                                    "tril_indices(3)",
                                    "unravel_index([5, 7], (2, 4))",
                                    "ravel_multi_index([[1, 0], [2, 3]], (2, 4))",
                                    "cumsum([[1, 2], [3, 4]], axis=1)",
                                    "array([1.0, 2, 3]).cumsum()",
                                    "cumprod([1, 2, 3])",
                                    "nancumsum([1, nan, 2])",
                                    "cumulative_sum([1, 2, 3], include_initial=True)",
                                    "diff([1, 4, 9, 16], n=2)",
                                    "ediff1d([1, 4, 9], to_end=7)",
                                    "gradient([1.0, 4, 9, 16])",
                                    "trapezoid([1, 2, 3], dx=0.5)",
                                    "median([[3.0, 1, 2], [6, 5, 4]], axis=1)",
                                    "percentile([1.0, 2, 3, 4], [25, 50])",
                                    "quantile([1.0, 2, 3, 4], 0.3, method='lower')",
                                    "nanmedian([1, nan, 3])",
                                    "average([1, 2, 3], weights=[3, 1, 1])",
                                    "average([1, 2, 3], returned=True)",
                                    "cov([[1.0, 2, 4], [3, 1, 0]])",
                                    "corrcoef([[1.0, 2, 4], [3, 1, 0]])",
                                    "histogram([1, 2, 1, 4], bins=3)",
                                    "histogram([1, 2, 1, 4], 3, (0, 6))",
                                    "histogram([1, 2, 1, 4], [0, 2, 5], density=True)",
                                    "histogram([1, 2, 1, 4], 2, weights=[1, 0.5, 2, 3])",
                                    "histogram([1.0, 2, 1, 4], 'sqrt', range=(0, 3))",
                                    "histogram_bin_edges([1, 2, 1, 4], 3, (0, 6))",
                                    "histogram_bin_edges([1, 2, 1, 4], 'fd')",
                                    "digitize([1.5, nan], [nan, nan])",
                                    "digitize([0.5, 2.5], [0, 1, 2])",
                                    "searchsorted([1, 3, 5], [2, 6])",
                                    "isin([1, 2, 3], [3, 1])",
                                    "sort([[3, 1], [2, 5]], axis=0)",
                                    "sort([3.0, nan, 1], kind='stable')",
                                    "argsort([[3, 1], [2, 5]], None)",
                                    "array([3, 1, 2]).argsort()",
                                    "partition([3, 1, 2], 1)",
                                    "argpartition([3, 1, 2], (0, 2))",
                                    "array([3, 1, 2]).argpartition(1)",
                                    "lexsort(([1, 0, 1], [2, 2, 1]))",
                                    "lexsort([[1, 0, 1], [2, 2, 1]])",
                                    "top_k([3, 1, 2], 2)",
                                    "top_k([[3, 1, 2]], 2, axis=1, largest=False)",
                                    "unique([3, 1, 3])",
                                    "unique([3, 1, 3], return_inverse=True, return_index=True)",
                                    "unique([[1, 2], [1, 2]], axis=0)",
                                    "unique([1, nan, nan], return_counts=True, equal_nan=False)",
                                    "unique_all([3, 1, 3])",
                                    "unique_counts([3, 1, 3]).counts",
                                    "unique_inverse([3, 1, 3])",
                                    "unique_values([3, 1, 3])",
                                    "union1d([1, 2], [2, 5])",
                                    "intersect1d([1, 2, 2], [2, 5])",
                                    "intersect1d([1, 2, 2], [2, 5], return_indices=True)",
                                    "setdiff1d([3, 1, 2], [2], assume_unique=True)",
                                    "setxor1d([1, 2], [2, 5])",
                                    "bincount([1, 1, 3])",
                                    "bincount([1, 1, 3], weights=[0.5, 1, 2], minlength=6)",
                                    "histogram2d([1, 2, 4], [0, 1, 1], bins=2)",
                                    "histogram2d([1, 2, 4], [0, 1, 1], bins=[[0, 3, 5], 2], range=[[0, 1], None])",
                                    "histogramdd([[1, 2], [3, 4], [5, 6]], bins=(2, 3, 2))",
                                    "histogramdd(arange(6).reshape(3, 2), bins=(2, [0, 2, 9]))",
                                    "histogramdd(([1, 2, 3], [3, 4, 5]), bins=2, density=True)",
                                    "interp([1.5, 9.5], [1, 2, 3], [3, 2, 0], period=4)",
                                    "nanmean([[1, nan], [3, 4]], axis=0)",
                                    "nanargmax([1, nan, 7])",
                                    "nan_to_num([nan, inf, 1.5], nan=9)",
                                    "ptp([[3, 9], [1, 2]], axis=1)",
                                    "allclose([1.0, 2], [1.0, 2 + 1e-12])",
                                    "isclose([1.0, 2], [1.0, 3])",
                                    "sinc([0.0, 0.5])",
                                    "angle([1j, -1], deg=True)",
                                    "append([1, 2], [[3], [4]])",
                                    "array_split(arange(5), 2)",
                                    "split(arange(6), [2, 3])",
                                    "hsplit(arange(8).reshape(2, 4), 2)",
                                    "unstack([[1, 2], [3, 4]])",
                                    "atleast_2d(3, [1, 2])",
                                    "column_stack(([1, 2], [3, 4]))",
                                    "dstack(([1, 2], [3, 4]))",
                                    "insert([1, 2, 3], 1, 9)",
                                    "delete([1, 2, 3], [0, -1])",
                                    "roll(arange(5), 2)",
                                    "rot90([[1, 2], [3, 4]])",
                                    "tile([1, 2], (2, 2))",
                                    "repeat([1, 2], 2)",
                                    "pad([1, 2, 3], 2, 'reflect')",
                                    "tri(2, 3)",
                                    "tril(ones((2, 2)))",
                                    "diag([1, 2])",
                                    "diagonal([[1, 2], [3, 4]])",
                                    "trace([[1, 2], [3, 4]])",
                                    "meshgrid([1, 2], [3, 4])",
                                    "logspace(0, 2, 3)",
                                    "geomspace(1, 8, 4)",
                                    "indices((2, 2))",
                                    "packbits([1, 0, 1])",
                                    "unpackbits(array([5], dtype=uint8))",
                                    "einsum('ij,jk', [[1, 2], [3, 4]], [[1, 0], [0, 1]])",
                                    "tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]], 1)",
                                    "kron([1, 2], [1, 10])",
                                    "outer([1, 2], [3, 4])",
                                    "inner([1, 2], [3, 4])",
                                    "cross([1, 0, 0], [0, 1, 0])",
                                    "vecdot([[1, 2], [3, 4]], [1, 1])",
                                    "convolve([1, 2, 3], [0, 1])",
                                    "interp(1.5, [1, 2], [10, 20])",
                                    "linalg.norm([3.0, 4])",
                                    "linalg.norm([[3.0, 4]], 'fro')",
                                    "linalg.matrix_power([[1, 1], [0, 1]], 3)",
                                    "linalg.multi_dot([[[1, 2]], [[1], [1]]])",
                                    "fft.fft([1, 2, 3, 4])",
                                    "fft.fft([1, 2, 3], 4, 0, 'ortho')",
                                    "fft.ifft([[1, 2], [3, 4]], axis=0, norm='forward')",
                                    "fft.rfft([1.0, 2, 4], n=2)",
                                    "fft.irfft([1, 2j, 3])",
                                    "fft.hfft([1, 2j, 3], n=5)",
                                    "fft.ihfft([1.0, 2, 4])",
                                    "fft.fft2([[1, 2], [3, 4]])",
                                    "fft.ifft2([[1, 2], [3, 4]], s=(2, 3))",
                                    "fft.rfft2([[1, 2], [3, 4]], axes=(0, 1))",
                                    "fft.irfft2([[1, 2], [3, 4]])",
                                    "fft.fftn([[1, 2], [3, 4]], axes=[0])",
                                    "fft.ifftn([[1, 2], [3, 4]])",
                                    "fft.rfftn([[1, 2], [3, 4]], (3, 4))",
                                    "fft.irfftn([[1, 2], [3, 4]], norm='ortho')",
                                    "linalg.cholesky([[4.0, 2], [2, 3]])",
                                    "linalg.cholesky([[4.0, 2], [2, 3]], upper=True)",
                                    "linalg.cond([[2.0, 0], [0, 1]])",
                                    "linalg.cond([[2.0, 0], [0, 1]], 1)",
                                    "linalg.cond([[2.0, 0], [0, 1]], 'fro')",
                                    "linalg.det([[2.0, 1], [1, 3]])",
                                    "linalg.eig([[2.0, 1], [0, 3]])",
                                    "linalg.eig([[2.0, 1], [0, 3]]).eigenvalues",
                                    "linalg.eigvals([[0.0, -1], [1, 0]])",
                                    "linalg.inv([[2.0, 1], [1, 3]])",
                                    "linalg.lstsq([[1.0, 0], [0, 2], [1, 1]], [1, 2, 3])",
                                    "linalg.lu([[2.0, 1], [4, 3]])",
                                    "linalg.lu([[2.0, 1], [4, 3]], p_indices=True)[0]",
                                    "linalg.lu([[2.0, 1], [4, 3]], True)[0]",
                                    "linalg.solve_triangular([[2.0, 1], [0, 3]], [1, 2])",
                                    "linalg.solve_triangular([[2.0, 0], [1, 3]], [1, 2], 'T', lower=True)",
                                    "linalg.matrix_rank([[1.0, 2], [2, 4]])",
                                    "linalg.matrix_rank([[1.0, 0], [0, 1e-3]], tol=1e-2)",
                                    "linalg.matrix_rank([[1.0, 0], [0, 1e-3]], rtol=[0.5])",
                                    "linalg.pinv([[2.0, 0], [0, 4]])",
                                    "linalg.pinv([[2.0, 0], [0, 4]], rcond=0.9)",
                                    "linalg.pinv([[2.0, 0], [0, 4]], rtol=0.1)",
                                    "linalg.pinv([[2.0, 0], [0, 4]], rtol=None)",
                                    "linalg.qr([[2.0, 1], [1, 3]])",
                                    "linalg.qr([[2.0, 1], [1, 3]], 'r')",
                                    "linalg.qr([[2.0, 1], [1, 3]], mode='raw')",
                                    "linalg.slogdet([[2.0, 1], [1, 3]])",
                                    "linalg.slogdet([[2.0, 1], [1, 3]]).logabsdet",
                                    "linalg.solve([[2.0, 1], [1, 3]], [1, 2])",
                                    "linalg.svd([[2.0, 0], [0, 3]])",
                                    "linalg.svd([[2.0, 0], [0, 3]], compute_uv=False)",
                                    "linalg.svd([[2.0, 1], [1, 3]], hermitian=True).S",
                                    "linalg.svdvals([[2.0, 0], [0, 3]])",
                                    "linalg.norm([[3.0, 4]], 'nuc')",
                                    "fft.fftfreq(4)",
                                    "fft.fftshift(arange(4))",
                                    "random.default_rng(3).gamma(2.5, size=3)",
                                    "random.default_rng([1, 2]).integers(99, size=4)",
                                    "random.default_rng(random.SeedSequence(5)).poisson(4.5, (2, 2))",
                                    "random.default_rng(2**70).standard_t(3, 2)",
                                    "range(4)",
                                    "list(arange(3))",
                                    "tuple([1, 2])",
                                    "arange(10)[slice(1, 7, 2)]",
                                    "array([1 + 2j]).conj()",
                                    "arange(3).conjugate()",
                                    "add.nin",
                                    "exp.types[0]"};
  for (const char* text : kTexts) {
    Environment chunked, local;
    local.library = &local_library();
    const Value mine = evaluated(text, chunked), theirs = evaluated(text, local);
    const auto plain = [](const Value& value) {
      return repr(value, [](const Value& item) {
        const Array* array = item.as<Array>();
        const NdArray host = array != nullptr ? array->to_host() : *item.as<NdArray>();
        return host.repr() + local::to_string(host.shape()) + local::name(host.dtype());
      });
    };
    EXPECT_EQ(plain(mine), plain(theirs)) << text;
  }
}

TEST(Rows, OutIsRefusedWithTheReason) {
  for (const char* text :
       {"add(1, 2, out=zeros(2))", "add(1, 2, zeros(2))", "divmod(1, 2, out=(zeros(1), None))",
        "sum([1, 2], out=zeros(1))", "zeros(2).sum(0, None, zeros(1))", "concatenate([[1], [2]], out=zeros(2))",
        "clip([1], 0, 1, out=zeros(1))", "zeros(2).round(0, zeros(2))", "dot([1], [2], out=zeros(1))",
        "random.random(3, out=zeros(3))"}) {
    EXPECT_THAT(shown(text), HasSubstr("takes no 'out' here: chunked arrays are computed later")) << text;
    Environment environment;
    EXPECT_THROW(
        try { evaluated(text, environment); } catch (const local::InvalidArgument& error) {
          EXPECT_EQ(error.code(), local::ErrorCode::type_error) << text;
          throw;
        },
        local::InvalidArgument);
  }
  EXPECT_EQ(shown("add([1], 2, out=None)"), "[3]");
  EXPECT_EQ(shown("add([1], 2, out=(None,))"), "[3]");
}

// What a chunked function lacks is refused only where the call asks for it.
TEST(Rows, ParametersThatChunkedFunctionsLack) {
  EXPECT_EQ(shown("zeros(2, order='C')"), "[0. 0.]");
  EXPECT_EQ(shown("array([1], copy=True, subok=False, order='A')"), "[1]");
  EXPECT_EQ(shown("add(1, 2, casting='same_kind', subok=True)"), "3");
  for (const char* text :
       {"zeros(2, device='cuda')", "modf(1.5, signature='d->dd')", "matmul([[1]], [[1]], axes=[(0, 1)] * 3)",
        "ravel_multi_index(([1], [2]), (2, 3), mode=('clip', 'wrap'))"})
    EXPECT_THAT(shown(text), HasSubstr("; there it is")) << text;
  EXPECT_THAT(shown("clip([1], 2)"), HasSubstr("clip() missing 1 required positional argument: 'a_max'"));
  EXPECT_THAT(shown("reshape([1, 2], (2, 1), order='X')"), HasSubstr("order must be one of"));
  EXPECT_THAT(shown("zeros(2).shape(3)"), HasSubstr("not callable"));
  EXPECT_THAT(shown("zeros('a')"), HasSubstr("zeros(): shape"));
  EXPECT_THAT(shown("transpose(zeros((2, 2)), 'a')"), HasSubstr("transpose(): axes"));
  EXPECT_EQ(shown("linspace([1, 2], 3, 3)"), "[[1.  2. ]\n [2.  2.5]\n [3.  3. ]]");
  EXPECT_THAT(shown("concatenate(5)"), HasSubstr("must be a sequence"));
}

// What chunked arrays alone have; the numbers are SciPy's.
TEST(Rows, StatisticsOfChunkedArrays) {
  Environment environment;
  environment.variables["a"] = evaluated("array([1.0, 2, 5, 3, 9, 4, 2, 8])", environment);
  environment.variables["b"] = evaluated("array([2.0, 1, 4, 4, 7, 5, 1, 9])", environment);
  for (const char* text :
       {"allclose(stats.skew(a), 0.6239712458763456)", "allclose(scipy.stats.kurtosis(a), -1.0285996751641833)",
        "allclose(stats.moment(a, 3), 12.65625)", "allclose(moment(a, 3), 12.65625)",
        "allclose(stats.skewtest(a), (1.045518378211424, 0.29578345109032833))",
        "allclose(stats.kurtosistest(a), (-0.4197778024676872, 0.6746477821985392))",
        "allclose(stats.normaltest(a).pvalue, 0.5301151450022019)",
        "allclose(stats.chisquare([16, 18, 16, 14, 12, 12]), (2.0, 0.8491450360846096))",
        "allclose(stats.power_divergence([16, 18, 16, 14, 12, 12], lambda_='log-likelihood')[1], 0.8482347677946377)",
        "allclose(stats.f_oneway(a, b), (0.007518796992481203, 0.9321292197458204))",
        "allclose(stats.ttest_1samp(a, 3.0), (1.212678125181665, 0.26458604674749614))",
        "allclose(stats.ttest_ind(a, b, equal_var=False), (0.086710996952412, 0.9321298379078765))",
        "allclose(stats.ttest_rel(a, b).statistic, 0.28365431446558775)",
        "all(isnull([1, nan]) == [False, True]) and all(notnull([1, nan]) == [True, False])",
        "all(push([1, nan, nan, 4], 1)[[0, 1, 3]] == [1, 1, 4]) and bool(isnan(push([1, nan, nan, 4], 1)[2]))"}) {
    const Value value = evaluated(text, environment);
    EXPECT_EQ(display(std::span(&value, 1))[0], "True") << text;
  }
}

// Dask's.
TEST(Rows, SelectionsOfChunkedArrays) {
  EXPECT_EQ(shown("topk([3, 1, 2], 2)"), "[3 2]");
  EXPECT_EQ(shown("array([3, 1, 2]).topk(-2)"), "[1 2]");
  EXPECT_EQ(shown("argtopk([[3, 1, 2]], 2, axis=1)"), "[[0 2]]");
  EXPECT_EQ(shown("array([3, 1, 2]).argtopk(1)"), "[0]");
  EXPECT_EQ(shown("shuffle([5, 6, 7, 8], [[3, 0], [1]], 0)"), "[8 5 6]");
}

TEST(Rows, GeneratorsOfChunkedArrays) {
  EXPECT_EQ(shown("random.default_rng(3).normal(size=(2, 3)).shape"), "(2, 3)");
  EXPECT_EQ(shown("all(random.default_rng(3).random(5) == random.default_rng(3).random(5))"), "True");
  EXPECT_EQ(shown("all(random.default_rng(3).random(5) == random.default_rng(4).random(5))"), "False");
  EXPECT_EQ(shown("all(random.default_rng().random(5) == random.default_rng().random(5))"), "False");
  EXPECT_EQ(shown("max(random.default_rng([1, 2]).integers(3, size=1000)) < 3"), "True");
  EXPECT_EQ(shown("max(random.default_rng(random.SeedSequence(5)).integers(1, 3, 1000, endpoint=True))"), "3");
  EXPECT_EQ(shown("random.default_rng(2**70).standard_normal(2, float32).dtype"), "float32");
  EXPECT_EQ(shown("random.SeedSequence(5).generate_state(2).dtype"), "uint32");
  EXPECT_THAT(shown("random.default_rng(-1)"), HasSubstr("non-negative"));
  EXPECT_THAT(shown("random.default_rng(1).permuted(3)"),
              HasSubstr("generators have no method 'permuted'; there it is"));
  EXPECT_EQ(shown("random.integers(2.5) < 3"), "True");
  EXPECT_EQ(shown("random.uniform(2, 2, size=2)"), "[2. 2.]");
  // Two draws of one generator are two streams; copies of the value share its state.
  Environment environment;
  environment.variables.emplace("g", evaluated("random.default_rng(7)", environment));
  const Value pair = evaluated("(g.random(3), g.random(3))", environment);
  EXPECT_NE(display(std::span(&pair.sequence()->items[0], 1)), display(std::span(&pair.sequence()->items[1], 1)));
}

// Functions with overloads and with missing parameters, as others may write them.
namespace given {
Array scaled(const Array& a, int64_t by) { return a * Scalar(by); }
Array scaled(const Array& a, const Array& by) { return a * by; }
std::vector<Array> halves(const Array& a) { return {a, a}; }
NdArray numbers(const NdArray& a) { return a; }
std::string kind(const Array&) { return "array"; }
std::string kind(const NdArray&) { return "numbers"; }
}  // namespace given
NdArray local_scaled(const NdArray& a, const std::variant<int64_t, std::string, NdArray>&,
                     const std::optional<NdArray>&) {
  return a;
}
local::ArrayTuple local_halves(const NdArray& a) { return {a, a}; }
NdArray local_numbers(const NdArray& a) { return a; }

Value called(const Handler& handler, const std::string& signature, std::vector<Value> args) {
  Function function{"f", Signature(signature), handler, ""};
  Session session;
  return handler(bind(function, std::move(args), {}), session);
}

std::string text_of(const Value& value) { return display(std::span(&value, 1))[0]; }

TEST(Rows, CallByForms) {
  constexpr const char kSignature[] = "(a, by, out=None)";
  const auto call = [](const auto&... args) -> decltype(given::scaled(args...)) { return given::scaled(args...); };
  const Handler scaled = chunked_handler<Text(kSignature)>(call, &local_scaled);
  const Value a = to_array(Value::list({Value(1), Value(2)}));
  EXPECT_EQ(text_of(called(scaled, kSignature, {a, Value(3)})), "[3 6]");
  EXPECT_EQ(text_of(called(scaled, kSignature, {a, Value::list({Value(3), Value(4)})})), "[3 8]");
  EXPECT_THROW(called(scaled, kSignature, {a, Value(std::string("x"))}), local::NotSupported);
  EXPECT_THROW(called(scaled, kSignature, {a, Value()}), local::TypeError);
  EXPECT_THROW(called(scaled, kSignature, {a, Value(3), a}), local::TypeError);

  const auto halve = [](const auto&... args) -> decltype(given::halves(args...)) { return given::halves(args...); };
  const Value halves = called(chunked_handler<Text("(a)")>(halve, &local_halves), "(a)", {a});
  ASSERT_NE(halves.sequence(), nullptr);
  EXPECT_FALSE(halves.sequence()->is_list);  // as the local function's ArrayTuple

  const auto number = [](const auto&... args) -> decltype(given::numbers(args...)) { return given::numbers(args...); };
  const Handler numbers = chunked_handler<Text("(a)")>(number, &local_numbers);
  const Value result = called(numbers, "(a)", {Value::list({Value(1)})});
  EXPECT_TRUE(result.is<Array>());
  const auto kind_of = [](const auto&... args) -> decltype(given::kind(args...)) { return given::kind(args...); };
  const Handler kind = chunked_handler<Text("(a)")>(kind_of, &local_numbers);
  EXPECT_EQ(text_of(called(kind, "(a)", {a})), "array");
  EXPECT_EQ(text_of(called(kind, "(a)", {Value(3)})), "numbers");
}

namespace given {
Array grown(const Dims& shape, DType dtype = DType::float32, int64_t by = 1) {
  return zeros(shape, dtype) + Scalar(by);
}
// These are only asked for their signatures.
[[maybe_unused]] Array averaged(const Array& a, bool keepdims) { return keepdims ? a : negative(a); }
[[maybe_unused]] Array swapped(const Array& a, double ord, bool keepdims) { return keepdims ? a : a * Scalar(ord); }
}  // namespace given

// None for a parameter that is not optional is the function's default, and nothing can follow it.
TEST(Rows, NoneIsTheDefaultOfCpp) {
  constexpr const char kSignature[] = "(shape, dtype=None, by=1)";
  using Types = List<local::Ints, std::optional<DType>, int64_t>;
  const auto call = [](const auto&... args) -> decltype(given::grown(args...)) { return given::grown(args...); };
  const Handler grown = handler_by_forms<Text(kSignature)>(call, Types(), false);
  EXPECT_EQ(called(grown, kSignature, {Value(2)}).as<Array>()->dtype(), DType::float32);
  EXPECT_EQ(called(grown, kSignature, {Value(2), Value()}).as<Array>()->dtype(), DType::float32);
  EXPECT_EQ(text_of(called(grown, kSignature, {Value(2), Value(DTypeValue{DType::int8}), Value(7)})), "[7 7]");
  EXPECT_THROW(called(grown, kSignature, {Value(2), Value(), Value(7)}), local::NotSupported);
}

// A function that may mean another parameter, or has another order, is not bound.
TEST(Rows, WhatMayMeanAnotherParameterIsNotBound) {
  using Types = List<Array, bool, bool>;
  const auto averaged = [](const auto&... args) -> decltype(given::averaged(args...)) {
    return given::averaged(args...);
  };
  static_assert(taken_mask<decltype(averaged), Types, Text("(a, returned=False, keepdims=False)")>() == kAmbiguous);
  static_assert(taken_mask<decltype(averaged), List<Array, bool>, Text("(a, keepdims=False)")>() == 0b11);
  const auto swapped = [](const auto&... args) -> decltype(given::swapped(args...)) { return given::swapped(args...); };
  using Order = List<Array, bool, double>;
  static_assert(taken_mask<decltype(swapped), Order, Text("(x, keepdims=False, ord=2.0)")>() == kNoCall);
  static_assert(taken_mask<decltype(swapped), List<Array, double, bool>, Text("(x, ord=2.0, keepdims=False)")>() ==
                0b111);
  SUCCEED();
}

// A function that chunked functions call with the local arrays of a chunk.
TEST(Rows, FunctionsOfChunksAreCalledWithLocalArrays) {
  Environment environment;
  Keep keep;
  const NdArray chunk = local::NdArray{{3, 1, 2}};
  for (const char* text : {"lambda b: sort(b) * 2", "lambda b: np.sort(b + b, axis=-1)"}) {
    const auto function = Convert<local::ArrayFunction>::from(evaluated(text, environment), "f", keep);
    EXPECT_EQ(function(std::span(&chunk, 1)).to_string(), "[[2 4 6]]") << text;
  }
  const auto negative = Convert<local::ArrayFunction>::from(evaluated("negative", environment), "f", keep);
  EXPECT_EQ(negative(std::span(&chunk, 1)).to_string(), "[[-3 -1 -2]]");
}

// Names that are wanted of chunked arrays and have no row are printed.
TEST(Rows, SharedTargetOfNames) {
  const auto target = test::chunked_target_names();
  if (!target) GTEST_SKIP() << "the list of names is absent";
  std::string missing;
  int count = 0, absent = 0;
  for (const test::TargetName& wanted : *target) {
    const std::string& name = wanted.name;
    const auto has = [&](const Library& library) {
      const std::string of_ufunc = "ufunc.", of_array = "Array.";
      if (name.starts_with(of_ufunc))
        return library.registry().function("add." + name.substr(of_ufunc.size())) != nullptr;
      if (name.starts_with(of_array)) {
        const std::string method = name.substr(of_array.size());
        const std::vector<std::string> attributes = library.attribute_names();
        return library.registry().method(method) != nullptr ||
               std::find(attributes.begin(), attributes.end(), method) != attributes.end();
      }
      return library.registry().function(name) != nullptr || library.constant(name) || dtype_name(name);
    };
    ++count;
    if (has(chunked_library())) continue;
    ++absent;
    missing += " " + name;
  }
  std::cout << absent << " of " << count << " names of chunked arrays have no row:" << missing << "\n";
  EXPECT_GT(count, 400);
  EXPECT_EQ(absent, 0);
}

}  // namespace
}  // namespace quarry::apps::expression
