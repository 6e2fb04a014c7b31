// Products of tiles and their sums.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "quarry/chunked/exec/access.h"
#include "quarry/local/program/precision.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// c += a b for some successive chunks of k. Inputs: the sum so far (unless it is the first task of its segment), then a
// and b blocks per chunk of k (syrk: b only). Output: the sum.
class MatMulBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  struct Operands {
    bool first;                              // no sum so far
    Dims shape;                              // (..., m, n)
    std::vector<Access> a, b;                // per chunk of k; a empty for syrk of a diagonal tile
    std::vector<Dims> a_strides, b_strides;  // over (..., m, k) and (..., k, n)
    std::vector<int64_t> k;
    bool conjugate_a = false;  // syrk off the diagonal: a is a transposed view of b's array
  };
  MatMulBody(std::string label, local::DType dtype, local::Precision precision, local::Device device,
             std::function<Operands(int64_t)> operands)
      : label_(std::move(label)),
        dtype_(dtype),
        precision_(precision),
        device_(device),
        operands_(std::move(operands)) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  Operations operations(int64_t index) const override;
  int64_t scratch_bytes(const Operands& operands) const;

 private:
  std::string label_;
  local::DType dtype_;
  local::Precision precision_;
  local::Device device_;
  std::function<Operands(int64_t)> operands_;
};

// The elementwise sum of two partial products.
class SumBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  SumBody(std::string label, local::DType dtype) : label_(std::move(label)), dtype_(dtype) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  int64_t scratch_bytes(int64_t bytes, const local::Device& device) const;

 private:
  local::Launch launch(int64_t bytes, void* a, void* b, void* sum) const;

  std::string label_;
  local::DType dtype_;
};

}  // namespace quarry::exec
