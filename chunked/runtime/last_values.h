// Small results that become host values: every rank has them when the run ends, without another round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/grid/ownership.h"
#include "quarry/local/base/dtype.h"

namespace quarry::exec {

// The values of some results of a plan, which ranks tell each other at the end of its run: chunk after chunk, each from
// its owner.
class LastValues {
 public:
  struct Result {
    local::DType dtype;
    Grid grid;
    Owners owners;
  };
  // All are a few bytes together, in a few chunks, and the ranks are few, or none is told: the same on every rank.
  LastValues(std::vector<Result> results, const Ownership& owners);

  size_t size() const { return results_.size(); }  // how many results are told
  int64_t bytes() const { return words_.bytes; }   // that each rank says; the same on every rank
  // What this rank says; reads its chunks from the executor. Null where there is nothing to say. `owned`: per result,
  // this rank's chunks in order. Both must outlive the run.
  LastWords* words(int rank, scheduler::Executor& executor, const std::vector<std::vector<scheduler::BlockId>>& owned);
  // After the run: the arrays, on every rank.
  std::vector<std::shared_ptr<StoredArray>> values() const;

 private:
  // Who tells a chunk: of chunks that are everywhere, one rank each.
  static const Owners& speakers(const Result& result);

  std::vector<Result> results_;
  const Ownership& owners_;
  LastWords words_;
};

}  // namespace quarry::exec
