// The eigenproblem of a symmetric or Hermitian matrix: divide and conquer by LAPACK, by cuSOLVER or in two stages on a
// GPU (local/cuda/eigh), on the owner of chunk 0, about 9 n^3 operations. The owner receives what other ranks have of
// the n^2 elements; its one task holds matrix, eigenvectors and the solver's workspace, of about 2 n^2 elements.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/local/base/error.h"
#include "quarry/local/program/decompositions.h"

namespace quarry::algo {
namespace {

using local::NdArray;

class Eigh final : public op::Operator {
 public:
  explicit Eigh(local::Triangle triangle) : triangle_(triangle) {}
  std::string_view name() const override { return "eigh"; }
  void hash(op::Hash& hash) const override { hash.add(static_cast<int>(triangle_)); }

  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> arguments, int64_t /*room*/) const override {
    const op::ArraySpec& a = arguments[0];
    return {op::in_one_chunk({a.shape[0]}, local::real_type(a.dtype)), op::in_one_chunk(a.shape, a.dtype)};
  }
  // The solver takes rows or columns that are contiguous.
  std::optional<Grid> wants(int /*argument*/, const op::Call& call, int64_t /*room*/) const override {
    return Grid::single(call.arguments[0].shape);
  }

  std::vector<NdArray> local(std::span<const NdArray> arguments) const override {
    const Dims& shape = arguments[0].shape();
    const local::DType dtype = arguments[0].dtype();
    std::vector<NdArray> outputs{NdArray({shape[0]}, local::real_type(dtype)), NdArray(shape, dtype)};
    local_into(arguments, outputs);
    return outputs;
  }

  void local_into(std::span<const NdArray> arguments, std::span<const NdArray> outputs) const override {
    const NdArray& a = arguments[0];
    const int64_t n = a.shape()[0], itemsize = a.itemsize();
    if (n == 0) return;
    QUARRY_CHECK(n == 1 || a.strides()[1] == itemsize || a.strides()[0] == itemsize);
    const local::ExecContext& context = local::current_context();
    a.begin_read(context.stream);
    for (const NdArray& output : outputs) output.begin_write(context.stream);
    const local::MatrixView matrix{a.raw(), n, n, a.strides()[0] / itemsize, a.strides()[1] / itemsize};
    const local::MatrixView vectors{outputs[1].raw(), n, n, n, 1};
    local::engine(context.device)
        .decompositions()
        .eigh(a.dtype(), triangle_, matrix, outputs[0].raw(), vectors, context);
  }

  std::optional<int64_t> local_bytes(const op::Call& call, const local::Device& device) const override {
    return local::engine(device).decompositions().eigh_scratch_bytes(call.arguments[0].dtype,
                                                                     call.arguments[0].shape[0]);
  }
  // Matrix, eigenvectors, and about two more for the solver.
  int64_t local_task_bytes(const op::Call& call) const override {
    return 4 * (call.outputs[0].bytes() + call.outputs[1].bytes());
  }

 private:
  const local::Triangle triangle_;
};

}  // namespace

NodePtr eigh(const NodePtr& arg, local::Triangle triangle) {
  return expr::apply(std::make_shared<Eigh>(triangle), {arg});
}

}  // namespace quarry::algo
