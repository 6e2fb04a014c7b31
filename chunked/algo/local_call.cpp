// Any function of local arrays on chunked ones. Its arguments are one chunk each, or several that fit one task together
// with results and scratch: then they are brought together on the owner of chunk 0. Larger ones are an error when the
// computation is planned.
#include "quarry/chunked/algo/algo.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/op/trial.h"

namespace quarry::algo {
namespace {

class Call final : public op::Operator {
 public:
  explicit Call(LocalCall call) : call_(std::move(call)) {}
  std::string_view name() const override { return call_.name; }
  void hash(op::Hash& hash) const override {
    hash.add(call_.identity).add(call_.scratch_bytes.value_or(-1));
    for (const op::ArraySpec& output : call_.outputs) hash.add(output.shape).add(static_cast<int>(output.dtype));
  }
  std::vector<op::ArraySpec> infer(std::span<const op::ArraySpec> /*arguments*/, int64_t /*room*/) const override {
    return call_.outputs;
  }
  std::vector<local::NdArray> local(std::span<const local::NdArray> arguments) const override {
    return call_.function(arguments);
  }
  bool calls_program() const override { return call_.calls_program; }
  std::optional<int64_t> local_bytes(const op::Call& call, const local::Device& device) const override {
    if (call_.scratch_bytes || !call_.by_trial) return call_.scratch_bytes;
    int64_t result_bytes = 0;
    for (const op::ArraySpec& output : call.outputs) result_bytes += output.bytes();
    return op::tried_peak_bytes(call_.function, call.arguments, result_bytes, device.kind);
  }
  int64_t local_task_bytes(const op::Call& call) const override {
    return call_.scratch_bytes ? op::bytes_of(call) + *call_.scratch_bytes : Operator::local_task_bytes(call);
  }

 private:
  const LocalCall call_;
};

}  // namespace

std::vector<NodePtr> local_call(LocalCall call, std::vector<NodePtr> args) {
  for (op::ArraySpec& output : call.outputs) output = op::in_one_chunk(output.shape, output.dtype);
  const size_t outputs = call.outputs.size();
  const NodePtr node = expr::apply(std::make_shared<Call>(std::move(call)), std::move(args));
  std::vector<NodePtr> nodes;
  for (size_t i = 0; i < outputs; ++i) nodes.push_back(expr::item(node, static_cast<int>(i)));
  return nodes;
}

}  // namespace quarry::algo
