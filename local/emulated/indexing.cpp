#include "quarry/local/cpu/indexing.h"
#include "quarry/local/emulated/engine.h"

namespace quarry::local {
namespace {

// Queues the CPU's calls.
class EmulatedIndexing final : public Indexing {
 public:
  int64_t gather_scratch_bytes(const IndexedElements& from, const Operand& to, int64_t itemsize) override {
    return cpu_indexing().gather_scratch_bytes(from, to, itemsize);
  }
  void gather(const IndexedElements& from, const Operand& to, int64_t itemsize, const ExecContext& context) override {
    queue_emulated(context, gather_scratch_bytes(from, to, itemsize),
                   [=](const ExecContext& host) { cpu_indexing().gather(from, to, itemsize, host); });
    finish(from, context);
  }
  int64_t scatter_scratch_bytes(const IndexedElements& to, const Operand& from, int64_t itemsize) override {
    return cpu_indexing().scatter_scratch_bytes(to, from, itemsize);
  }
  void scatter(const IndexedElements& to, const Operand& from, int64_t itemsize, const ExecContext& context) override {
    queue_emulated(context, scatter_scratch_bytes(to, from, itemsize),
                   [=](const ExecContext& host) { cpu_indexing().scatter(to, from, itemsize, host); });
    finish(to, context);
  }
  int64_t update_scratch_bytes(const IndexedElements& to, const Program& program, const Operand& value) override {
    return cpu_indexing().update_scratch_bytes(to, program, value);
  }
  void update(const IndexedElements& to, const Program& program, const Operand& value,
              const ExecContext& context) override {
    queue_emulated(context, update_scratch_bytes(to, program, value),
                   [=](const ExecContext& host) { cpu_indexing().update(to, program, value, host); });
    finish(to, context);
  }

  int64_t count_scratch_bytes(const Mask& mask) override { return cpu_indexing().count_scratch_bytes(mask); }
  void count(const Mask& mask, int64_t* offsets, const ExecContext& context) override {
    queue_emulated(context, count_scratch_bytes(mask),
                   [=](const ExecContext& host) { cpu_indexing().count(mask, offsets, host); });
  }
  void positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, const ExecContext& context) override {
    queue_emulated(context, 0,
                   [=](const ExecContext& host) { cpu_indexing().positions(mask, to, step, axis_step, host); });
  }
  void select(const Mask& mask, const Operand& from, void* to, int64_t itemsize, const ExecContext& context) override {
    queue_emulated(context, 0, [=](const ExecContext& host) { cpu_indexing().select(mask, from, to, itemsize, host); });
  }
  void expand(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to, int64_t itemsize,
              const ExecContext& context) override {
    queue_emulated(context, 0, [=](const ExecContext& host) {
      cpu_indexing().expand(mask, from, step, period, to, itemsize, host);
    });
  }
  void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize,
                  const ExecContext& context) override {
    queue_emulated(context, 0,
                   [=](const ExecContext& host) { cpu_indexing().copy_where(mask, from, to, itemsize, host); });
  }

 private:
  // The error of a position is the caller's.
  static void finish(const IndexedElements& elements, const ExecContext& context) {
    if (elements.mode == IndexMode::raise) context.stream->synchronize();
  }
};

}  // namespace

Indexing& emulated_indexing() {
  static EmulatedIndexing& instance = *new EmulatedIndexing;
  return instance;
}

}  // namespace quarry::local
