// The tasks of a stage whose chunks other ranks may steal (stealing.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quarry/chunked/exec/bodies/aggregate.h"
#include "quarry/chunked/exec/bodies/fused.h"
#include "quarry/chunked/exec/bodies/transfer.h"

namespace quarry::exec {

// One of the own chunks: computed here, or fetched from the thief.
class StealableBody : public scheduler::TaskBody {
 public:
  // `key`: of the chunks' states. Both must outlive it; `service` is null when only planning.
  StealableBody(FusedBody& fused, const BlockKey& key, Service* service, int rank)
      : fused_(fused), key_(key), service_(service), rank_(rank) {}
  std::string name(int64_t index) const override { return fused_.name(index); }
  void run(scheduler::TaskRun& run) override;

 private:
  FusedBody& fused_;
  const BlockKey key_;
  Service* service_;
  int rank_;
};

// On a device: brings what one of the own chunks reads from the file, unless another rank has stolen it.
class StealableReadBody : public scheduler::TaskBody {
 public:
  StealableReadBody(FusedBody& fused, const plan::Input& input, uint32_t stage, Service* service,
                    scheduler::Executor* executor, DecodingPolicy decoding, int rank)
      : fused_(fused),
        reader_(input.array.dataset, executor, decoding),
        stage_(stage),
        service_(service),
        rank_(rank) {}
  std::string name(int64_t index) const override { return "read for " + fused_.name(index); }
  void run(scheduler::TaskRun& run) override;
  const ReadBody& reader() const { return reader_; }

 private:
  FusedBody& fused_;
  ReadBody reader_;
  uint32_t stage_;
  Service* service_;
  int rank_;
};

// Computes chunks of other ranks, one after the other, until none are left to steal or too many states wait for
// their victims. Inputs: those of any chunk but what it reads from the file. Ends soon when the run is cancelled. On a
// device it waits for each chunk: a task for a lane of its own.
class StealBody : public scheduler::TaskBody {
 public:
  // Of stage number `number`, which has a regular grid.
  StealBody(FusedBody& fused, const local::Device& device, uint32_t number, Service* service,
            scheduler::Executor* executor);
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  int64_t scratch_bytes() const;

 private:
  const plan::Input& file_input() const;
  int64_t input_bytes(int64_t chunk) const;
  int64_t state_bytes(int64_t chunk) const;
  void compute(scheduler::TaskRun& run, int64_t chunk, void* scratch, void* states) const;
  void compute_on_device(scheduler::TaskRun& run, int64_t chunk, void* memory, void* states) const;

  FusedBody& fused_;
  const local::Device device_;
  const uint32_t number_;
  Service* service_;
  ReadBody reader_;
  int64_t scratch_bytes_ = 0;  // of a chunk at most
};

}  // namespace quarry::exec
