#include "quarry/chunked/op/operator.h"

#include <fmt/format.h>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/buffer.h"

namespace quarry::op {

ArraySpec in_one_chunk(const Dims& shape, DType dtype) { return {shape, dtype, Grid::single(shape)}; }

void Operator::local_into(std::span<const NdArray> arguments, std::span<const NdArray> outputs) const {
  assign_results(local(arguments), outputs);
}

int64_t Operator::local_task_bytes(const Call& call) const {
  return bytes_of(call) + estimated_peak_bytes(bytes_of(call));
}

namespace {

void check_count(size_t results, size_t outputs) {
  if (results != outputs) throw local::InvalidArgument(fmt::format("gave {} arrays instead of {}", results, outputs));
}

void check_result(const NdArray& result, size_t number, const Dims& shape, DType dtype) {
  if (result.shape() == shape && result.dtype() == dtype) return;
  throw local::InvalidArgument(
      fmt::format("gave an array of shape {} and dtype {} as result {} where shape {} and dtype {} were declared",
                  local::to_string(result.shape()), local::name(result.dtype()), number, local::to_string(shape),
                  local::name(dtype)));
}

// Without memory that nothing else counts.
bool is_own(const NdArray& result) {
  const local::ExecContext& context = local::current_context();
  const std::shared_ptr<local::Buffer>& buffer = result.buffer();
  return buffer && buffer->memory() == context.memory && result.offset() == 0 && result.is_contiguous() &&
         buffer->bytes() <= local::rounded_allocation(result.nbytes());
}

}  // namespace

void assign_results(const std::vector<NdArray>& results, std::span<const NdArray> outputs) {
  check_count(results.size(), outputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    check_result(results[i], i, outputs[i].shape(), outputs[i].dtype());
    outputs[i].assign(results[i]);
  }
}

std::vector<NdArray> taken_results(std::vector<NdArray> results, const Call& call, int64_t chunk) {
  check_count(results.size(), call.outputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const ArraySpec& output = call.outputs[i];
    const Dims shape = output.grid.chunk_shape(chunk);
    check_result(results[i], i, shape, output.dtype);
    if (is_own(results[i])) continue;
    NdArray copy(shape, output.dtype);
    copy.assign(results[i]);
    results[i] = std::move(copy);
  }
  return results;
}

void Operator::needs(const Call& call, int64_t /*chunk*/, std::vector<Need>& needs) const {
  for (size_t i = 0; i < call.arguments.size(); ++i)
    needs.push_back({static_cast<int>(i), Region::whole(call.arguments[i].shape)});
}

void Operator::make_chunk(const Call& /*call*/, int64_t /*chunk*/, std::span<const NdArray> /*pieces*/,
                          std::span<const NdArray> /*outputs*/) const {
  QUARRY_CHECK(!"an operator that makes chunks says how");
}

std::vector<NdArray> Operator::made_chunk(const Call& call, int64_t chunk, std::span<const NdArray> pieces) const {
  std::vector<NdArray> outputs;
  for (const ArraySpec& output : call.outputs) outputs.emplace_back(output.grid.chunk_shape(chunk), output.dtype);
  make_chunk(call, chunk, pieces, outputs);
  return outputs;
}

void Operator::lower(exec::Builder& /*builder*/, const plan::Applied& /*stage*/) const {
  QUARRY_CHECK(!"an operator that is chunked says how it is lowered");
}

int64_t bytes_of(const Call& call) {
  int64_t bytes = 0;
  for (const auto* specs : {&call.arguments, &call.outputs})
    for (const ArraySpec& spec : *specs) bytes += spec.bytes();
  return bytes;
}

int64_t estimated_peak_bytes(int64_t bytes) {
  constexpr int64_t kCopies = 3;         // of arguments and results: temporaries of compositions
  constexpr int64_t kSmall = 64 * 1024;  // what functions take for themselves, and rounding of small pieces
  return kCopies * bytes + kSmall;
}

int64_t element_task_bytes(int64_t bytes) { return bytes + estimated_peak_bytes(bytes) - estimated_peak_bytes(0); }

int64_t library_bytes(local::DeviceKind kind) {
  constexpr int64_t kLibraries = 4 << 20;  // cuBLAS has 1 MiB for products of any size
  return kind == local::DeviceKind::cuda ? kLibraries : 0;
}

int64_t function_peak_bytes(std::span<const ArraySpec> arguments, int64_t result_bytes) {
  int64_t bytes = result_bytes;
  for (const ArraySpec& argument : arguments) bytes += argument.bytes();
  return estimated_peak_bytes(bytes);
}

int64_t local_peak_bytes(const Operator& op, const Call& call, const local::Device& device) {
  if (const std::optional<int64_t> stated = op.local_bytes(call, device)) return *stated;
  int64_t result_bytes = 0;
  for (const ArraySpec& output : call.outputs) result_bytes += output.bytes();
  return function_peak_bytes(call.arguments, result_bytes) + (op.calls_program() ? library_bytes(device.kind) : 0);
}

}  // namespace quarry::op
