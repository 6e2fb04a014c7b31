// Bodies that bring data to a task and take it away: file to block, rank to rank, host to block, block to sink.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/exec/bodies/device_decoding.h"
#include "quarry/chunked/exec/part_table.h"
#include "quarry/chunked/exec/service.h"
#include "quarry/chunked/exec/stored_array.h"
#include "quarry/chunked/grid/grid.h"
#include "quarry/io/dataset.h"
#include "quarry/scheduler/executor.h"
#include "quarry/scheduler/task.h"

namespace quarry::exec {

// Reads regions of a data set into packed blocks.
class ReadBody : public scheduler::TaskBody {
 public:
  ReadBody(std::shared_ptr<io::Dataset> dataset, scheduler::Executor* executor, DecodingPolicy decoding)
      : dataset_(std::move(dataset)), executor_(executor), decoding_(decoding) {}
  // A region, or of axes that move together (Access::together) the diagonals in it.
  struct Box {
    Region region;
    std::vector<std::vector<int>> together = {};
    int64_t elements() const;
  };
  // The index of the task that reads a box. Before the run only.
  int64_t add(Box box) {
    boxes_.push_back(std::move(box));
    return static_cast<int64_t>(boxes_.size()) - 1;
  }
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  // A region that need not be one of those added, into the first output of `run`.
  void read(const Region& region, scheduler::TaskRun& run) const;
  int64_t scratch_bytes(const Box& box, const local::Device& device) const;
  // Of a task on a device with a host budget of so many bytes.
  int64_t staging_bytes(const Box& box, const local::Device& device, int64_t host_bytes) const;

 private:
  class Diagonal;
  void read(const Diagonal& diagonal, scheduler::TaskRun& run) const;

  std::shared_ptr<io::Dataset> dataset_;
  scheduler::Executor* executor_;
  DecodingPolicy decoding_;
  std::vector<Box> boxes_;
};

// Fetches hyperslabs from other ranks.
class ReceiveBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  explicit ReceiveBody(Service* service) : service_(service) {}
  void set_service(Service* service) { service_ = service; }
  // Task i brings part i. Changes before the run only.
  PartTable& parts() { return parts_; }
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;

 private:
  Service* service_;
  PartTable parts_;
};

// Host data that every rank has, as a block.
class UploadBody : public scheduler::TaskBody {
 public:
  static constexpr bool kRunsAgain = true;
  explicit UploadBody(std::shared_ptr<StoredArray> array) : array_(std::move(array)) {}
  // Null between runs.
  void set_array(std::shared_ptr<StoredArray> array) { array_ = std::move(array); }
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;

 private:
  std::shared_ptr<StoredArray> array_;
};

// Hands a finished chunk to a sink, in host memory; on a GPU in parts, unless the sink wants chunks whole.
class WriteBody : public scheduler::TaskBody {
 public:
  // Of one sink. `whole` and `scratch_bytes` are what it wants, `write` what it does (lowering.h).
  using Write = std::function<void(const Region&, const void*, std::span<std::byte> scratch)>;
  WriteBody(Grid grid, std::string label, scheduler::Executor* executor, bool whole, int64_t scratch_bytes, Write write)
      : grid_(std::move(grid)),
        label_(std::move(label)),
        executor_(executor),
        whole_(whole),
        scratch_bytes_(scratch_bytes),
        write_(std::move(write)) {}
  std::string name(int64_t index) const override;
  void run(scheduler::TaskRun& run) override;
  int64_t scratch_bytes(const local::Device& device) const;
  // Of the task of that chunk, on a device with a host budget of so many bytes.
  int64_t staging_bytes(int64_t chunk, int64_t itemsize, int64_t host_bytes) const;

 private:
  std::vector<Region> parts(const Region& chunk, int64_t itemsize, int64_t host_bytes, size_t most = SIZE_MAX) const;

  Grid grid_;
  std::string label_;
  scheduler::Executor* executor_;
  bool whole_;
  int64_t scratch_bytes_;
  Write write_;
};

}  // namespace quarry::exec
