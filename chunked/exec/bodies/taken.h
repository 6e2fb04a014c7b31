// The tasks of a stage whose chunks may change hands between ranks (balance.h).
#pragma once

#include <cstdint>
#include <string>

#include "chunked/exec/bodies.h"

namespace quarry::exec {

// One of the own chunks: computed here, or pulled from the rank that took it.
class OwnedBody : public scheduler::TaskBody {
 public:
  // `key`: of the chunks' states. Both must outlive it; `service` is null when only planning.
  OwnedBody(FusedBody& fused, const BlockKey& key, Service* service, int rank)
      : fused_(fused), key_(key), service_(service), rank_(rank) {}
  std::string name(int64_t index) const override { return fused_.name(index); }
  void run(scheduler::TaskRun& run) override;

 private:
  FusedBody& fused_;
  const BlockKey key_;
  Service* service_;
  int rank_;
};

// Computes chunks of other ranks, one after the other, until there are none left to take or no room for what they give.
// Inputs: those of any chunk but the streamed one. Ends soon when the run is cancelled.
class TakeBody : public scheduler::TaskBody {
 public:
  // Of a stage with a regular grid.
  TakeBody(FusedBody& fused, const plan::Stage& stage, Service* service);
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  void compute(scheduler::TaskRun& run, int64_t chunk, void* scratch, void* states);
  int64_t input_bytes(int64_t chunk) const;

  FusedBody& fused_;
  const plan::Stage& stage_;
  Service* service_;
  int64_t scratch_bytes_ = 0, state_bytes_ = 0;  // of the largest chunk
};

}  // namespace quarry::exec
