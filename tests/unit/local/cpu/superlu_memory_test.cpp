// SuperLU gives up by an exception: the process goes on.
#include "quarry/local/cpu/superlu_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <string>

#include "quarry/local/local.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUARRY_SANITIZED 1
#else
#define QUARRY_SANITIZED 0
#endif

extern "C" {
void superlu_abort_and_exit(const char* message);
void* superlu_malloc(size_t bytes);
void superlu_free(void* memory);
}

namespace quarry::local::cpu {
namespace {

TEST(SuperLuMemory, GivingUpThrowsWithTheReason) {
  const auto message = [](const char* text) {
    const SuperLuScope scope;
    try {
      superlu_abort_and_exit(text);
    } catch (const OutOfMemory& e) {
      return std::string("memory: ") + e.what();
    } catch (const LinAlgError& e) {
      return std::string("singular: ") + e.what();
    } catch (const InternalError& e) {
      return std::string("internal: ") + e.what();
    }
    return std::string("nothing");
  };
  EXPECT_EQ(message("Malloc fails for A[] at line 3 in file x.c\n"),
            "memory: SuperLU ran out of memory: Malloc fails for A[] at line 3 in file x.c");
  EXPECT_NE(message("[1]: matrix is singular\n").find("singular: a: the matrix is singular"), std::string::npos);
  EXPECT_NE(message("COLAMD failed").find("internal: "), std::string::npos);
}

TEST(SuperLuMemory, WhatIsLiveWhenAnExceptionLeavesIsFreed) {
  // Leaks show under the address sanitizer; here that memory given back is not freed twice, and results stay.
  void* kept = nullptr;
  {
    const SuperLuScope scope;
    kept = superlu_malloc(100);
    superlu_free(superlu_malloc(10));
  }
  ASSERT_NE(kept, nullptr);
  superlu_free(kept);
  EXPECT_THROW(
      {
        const SuperLuScope scope;
        superlu_free(superlu_malloc(100));
        superlu_malloc(1000);
        superlu_abort_and_exit("Malloc fails for x");
      },
      OutOfMemory);
  EXPECT_EQ(SuperLuScope::current(), nullptr);
}

sparse::SparseArray laplacian(int64_t side) {
  const NdArray two = from_vector<double>({2}), minus = from_vector<double>({-1});
  const sparse::SparseArray line =
      sparse::diags_array({two, minus, minus}, {0, -1, 1}, Dims{side, side}, sparse::Format::csr);
  return sparse::kronsum(line, line, sparse::Format::csc);
}

// Whichever allocation is the one that fails.
TEST(SuperLuMemory, EveryFailedAllocationIsAnException) {
  const sparse::SparseArray a = laplacian(9);
  const NdArray b = ones({81});
  for (const char* order : {"NATURAL", "MMD_AT_PLUS_A", "COLAMD", "MMD_ATA"}) {
    int failures = 0;
    bool done = false;
    for (int64_t bytes = 0; !done; bytes += bytes / 50 + 16) {
      const SuperLuScope little(bytes);
      try {
        const NdArray x = sparse::linalg::splu(a, order).solve(b);
        EXPECT_LT(max(absolute(sparse::matmul(a, x) - b)).item().as_double(), 1e-10);
        done = true;
      } catch (const OutOfMemory&) {
        ++failures;
      }
      EXPECT_EQ(SuperLuScope::current(), &little);
    }
    EXPECT_GT(failures, 50) << order;
  }
}

enum { kOutOfMemory = 3, kOtherError = 4, kEnough = 5 };

// The exit code of a child that may use no more memory than it has now and `bytes`.
template <class F>
int in_little_memory(int64_t bytes, F&& f) {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  int64_t pages = 0;
  if (std::FILE* statm = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(statm, "%ld", &pages) != 1) pages = 0;
    std::fclose(statm);
  }
  limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + bytes);
  setrlimit(RLIMIT_AS, &limit);
  try {
    f();
  } catch (const OutOfMemory&) {
    return kOutOfMemory;
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  } catch (...) {
    return kOtherError;
  }
  return kEnough;
}

TEST(SuperLuMemoryDeathTest, TooLittleMemoryDoesNotEndTheProcess) {
  if (QUARRY_SANITIZED) GTEST_SKIP() << "sanitizers reserve address space";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the children have threads of their own
  const auto says_so = [](int status) {
    return WIFEXITED(status) && (WEXITSTATUS(status) == kOutOfMemory || WEXITSTATUS(status) == kEnough);
  };
  const sparse::SparseArray a = laplacian(200);
  for (const char* order : {"MMD_AT_PLUS_A", "COLAMD", "MMD_ATA"}) {
    EXPECT_EXIT(_exit(in_little_memory(16 << 20, [&] { sparse::linalg::splu(a, order); })), says_so, "") << order;
  }
}

TEST(SuperLuMemory, MatricesOnWhichIncompleteFactorsGiveUp) {
  using sparse::csc_array;
  const auto outcome = [](const sparse::SparseArray& a, double tolerance, double fill) {
    try {
      const NdArray x = sparse::linalg::spilu(a, tolerance, fill).solve(ones({a.rows()}));
      return std::string("solved");
    } catch (const LinAlgError&) {
      return std::string("singular");
    } catch (const OutOfMemory&) {
      return std::string("out of memory");
    }
  };
  // Stored zeros, rows that cancel, tiny and huge values, all dropped.
  const NdArray zeros_2 = from_vector<double>({0, 0, 0, 0}).reshape({2, 2});
  const std::vector<NdArray> cases = {
      from_vector<double>({1, 1, 1, 1}).reshape({2, 2}), from_vector<double>({1e-300, 0, 0, 1e300}).reshape({2, 2}),
      from_vector<double>({1, 2, 3, 2, 4, 6, 3, 6, 9}).reshape({3, 3}),
      from_vector<double>({0, 1, 1, 0}).reshape({2, 2}), from_vector<double>({1}).reshape({1, 1})};
  for (const NdArray& dense : cases) {
    for (const double tolerance : {0.0, 1e-4, 1.0, 1e300}) {
      for (const double fill : {1.0, 10.0, 1e9, 1e300}) {
        const std::string result = outcome(csc_array(dense), tolerance, fill);
        EXPECT_TRUE(result == "solved" || result == "singular" || (fill > 1e6 && result == "out of memory"))
            << result << ' ' << tolerance << ' ' << fill;
      }
    }
  }
  const sparse::SparseArray stored(sparse::Format::csc, {2, 2}, from_vector<double>({0, 0}),
                                   from_vector<int32_t>({0, 1, 2}), from_vector<int32_t>({0, 1}), true);
  EXPECT_THROW(sparse::linalg::splu(stored), LinAlgError);
  EXPECT_NO_THROW(outcome(stored, 1e-4, 10));
}

TEST(SuperLuMemory, ANormalMatrixOfTooManyElementsIsRefused) {
  constexpr int64_t kSide = 65537;  // whose square is 131073 in 32 bits
  std::vector<int64_t> rows, columns;
  for (int64_t i = 0; i < kSide; ++i) {
    rows.push_back(i), columns.push_back(i);
    if (i > 0) rows.push_back(0), columns.push_back(i);
  }
  const auto count = static_cast<int64_t>(rows.size());
  const sparse::SparseArray a =
      sparse::coo_array(ones({count}), from_vector(rows), from_vector(columns), Dims{kSide, kSide}).tocsc();
  EXPECT_THROW(sparse::linalg::splu(a, "MMD_ATA"), NotSupported);
  EXPECT_NO_THROW(sparse::linalg::splu(a, "NATURAL"));
}

}  // namespace
}  // namespace quarry::local::cpu
