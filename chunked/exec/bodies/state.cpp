#include "quarry/chunked/exec/bodies/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "quarry/io/byte_file.h"
#include "quarry/local/memory/buffer.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {

int64_t SaveBody::visit_scratch_bytes(int64_t bytes) {
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  return std::min(bytes, kPieceBytes);
}

std::string SaveBody::name(int64_t index) const {
  const Work& work = works_[static_cast<size_t>(index)];
  return work.state == kValue ? fmt::format("save value {} of {}", work.entry, label_)
                              : fmt::format("save state {} of {}", work.state, label_);
}

void SaveBody::run(scheduler::TaskRun& run) {
  const Work& work = works_[static_cast<size_t>(run.index)];
  if (work.state == kValue && !states_.is_due()) return;
  if (!run.inputs.empty()) save(work, run);
  if (work.state != kValue) states_.finish(work.state);
}

void SaveBody::save(const Work& work, scheduler::TaskRun& run) {
  const scheduler::BlockView& block = run.inputs[0];
  io::StateWriter::Part part = states_.begin(work.state, work.is_kept, work.bytes);
  const auto put_pieces = [&](std::byte* piece, int64_t piece_bytes, const auto& read) {
    for (int64_t at = 0; at < work.bytes; at += piece_bytes) {
      const int64_t bytes = std::min(piece_bytes, work.bytes - at);
      read(at, bytes, piece);
      part.put({piece, static_cast<size_t>(bytes)});
    }
  };
  const auto* const data = static_cast<const std::byte*>(block.data);
  if (run.context.device.kind != local::DeviceKind::cpu) {
    const int64_t piece_bytes = local::memory_policy::staging_piece_bytes(executor_->host_budget().limit_bytes());
    const local::Buffer staging(std::min(piece_bytes, work.bytes), executor_->staging(), nullptr);
    put_pieces(static_cast<std::byte*>(staging.data()), staging.bytes(),
               [&](int64_t offset, int64_t bytes, std::byte* to) {
                 run.context.stream->copy(to, data + offset, bytes);
                 run.context.stream->synchronize();
               });
  } else if (data != nullptr) {
    part.put({data, static_cast<size_t>(work.bytes)});
  } else {
    const int64_t piece_bytes = visit_scratch_bytes(work.bytes);
    auto* const piece = static_cast<std::byte*>(run.context.memory->allocate(piece_bytes, run.context.stream));
    put_pieces(piece, piece_bytes,
               [&](int64_t offset, int64_t bytes, std::byte* to) { run.read_visited(/*input=*/0, offset, bytes, to); });
  }
  if (!run.outputs.empty() && run.outputs[0].data != block.data)
    run.context.stream->copy(run.outputs[0].data, block.data, work.bytes);
  if (work.state == kValue)
    states_.put_value(stage_, work.entry, part.end());
  else
    states_.put(work.state, static_cast<size_t>(work.entry), part.end(), work.is_kept);
}

std::string RestoreBody::name(int64_t index) const {
  const io::SavedBlock& block = blocks_[static_cast<size_t>(index)];
  return fmt::format("read saved tile {} of {}", block.index, label_);
}

void RestoreBody::run(scheduler::TaskRun& run) {
  const io::SavedBlock& block = blocks_[static_cast<size_t>(run.index)];
  const auto file = io::ByteFile::shared(io::saved_path(states_.file(), block.file));
  auto* const data = static_cast<std::byte*>(run.outputs[0].data);
  if (run.context.device.kind == local::DeviceKind::cpu) {
    file->read_at(block.offset, {data, static_cast<size_t>(block.bytes)});
    return;
  }
  const int64_t piece_bytes = local::memory_policy::staging_piece_bytes(executor_->host_budget().limit_bytes());
  const local::Buffer staging(std::min(piece_bytes, block.bytes), executor_->staging(), nullptr);
  for (int64_t at = 0; at < block.bytes; at += staging.bytes()) {
    const int64_t bytes = std::min(staging.bytes(), block.bytes - at);
    file->read_at(block.offset + at, {static_cast<std::byte*>(staging.data()), static_cast<size_t>(bytes)});
    run.context.stream->copy(data + at, staging.data(), bytes);
    run.context.stream->synchronize();
  }
}

}  // namespace quarry::exec
