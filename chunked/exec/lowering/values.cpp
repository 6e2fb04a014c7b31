#include "quarry/chunked/exec/lowering/values.h"

#include <tuple>

namespace quarry::exec {

using scheduler::BlockId;

SavedValues::SavedValues(Builder& builder)
    : builder_(builder), states_(builder.context().states), stage_(static_cast<int>(builder.key(0, 0).stage)) {}

std::optional<BlockId> SavedValues::restore(int64_t index, int64_t bytes, Builder::Priority priority, bool keep) {
  const io::SavedBlock* const saved = states_ == nullptr ? nullptr : states_->saved(stage_, /*matrix=*/0, index);
  if (saved == nullptr || saved->bytes != bytes) return std::nullopt;
  if (restore_body_ == nullptr)
    std::tie(restore_, restore_body_) =
        builder_.add_body<RestoreBody>(*states_, builder_.stage().label, builder_.context().executor);
  const BlockId block = builder_.add_block(bytes, keep);
  builder_.add_task(scheduler::TaskKind::read, scheduler::QueueKind::io, restore_, restore_body_->add(*saved), priority,
                    {.traffic_bytes = bytes}, {}, {block});
  note_state_staging(builder_, bytes);
  return block;
}

void SavedValues::save(int64_t index, int64_t bytes, Builder::Priority priority, BlockId block) {
  if (states_ == nullptr || bytes == 0) return;
  if (save_body_ == nullptr)
    std::tie(save_, save_body_) =
        builder_.add_body<SaveBody>(*states_, stage_, builder_.stage().label, builder_.context().executor);
  const bool visits = builder_.device().kind == local::DeviceKind::cpu;
  const int64_t scratch = visits ? SaveBody::visit_scratch_bytes(bytes) : 0;
  builder_.result().value_saves.push_back(builder_.result().graph.task_count());
  builder_.add_task(scheduler::TaskKind::write, scheduler::QueueKind::io, save_,
                    save_body_->add({SaveBody::kValue, index, bytes, /*is_kept=*/true}), priority,
                    {.scratch_bytes = scratch, .traffic_bytes = bytes, .visits = visits}, {block}, {});
  note_state_staging(builder_, bytes);
}

}  // namespace quarry::exec
