// Totals of a Runtime.
#include <algorithm>
#include <iterator>

#include "quarry/chunked/runtime/impl.h"
#include "quarry/io/direct_reads.h"

namespace quarry {

RunStatistics Runtime::statistics() const {
  const scheduler::Statistics from = impl_->executor->statistics();
  RunStatistics s;
  s.read_bytes = impl_->internals.read_bytes;
  s.written_bytes = impl_->internals.written_bytes;
  s.decoded_bytes = impl_->internals.decoded_bytes;
  s.reread_bytes = impl_->internals.reread_bytes;
  s.direct_bytes = io::direct_bytes() - impl_->direct_before;
  s.spilled_bytes = from.spilled_bytes;
  s.restored_bytes = from.restored_bytes;
  s.communicated_bytes = impl_->communicator->bytes_sent() - impl_->sent_before;
  s.tasks = from.tasks;
  s.stolen_chunks = impl_->internals.stolen_chunks;
  s.peak_device_bytes = from.peak_memory_bytes;
  s.peak_host_bytes = impl_->device.kind == local::DeviceKind::cpu ? from.peak_memory_bytes : from.peak_host_bytes;
  std::copy(std::begin(from.busy_seconds), std::end(from.busy_seconds), std::begin(s.queue_busy_seconds));
  return s;
}

RunStatistics Runtime::total_statistics() {
  comm::agree(communicator(), nullptr, {"total_statistics"});
  RunStatistics s = statistics();
  int64_t sums[] = {s.read_bytes, s.written_bytes, s.spilled_bytes, s.restored_bytes, s.communicated_bytes,
                    s.tasks,      s.stolen_chunks, s.decoded_bytes, s.reread_bytes,   s.direct_bytes};
  int64_t peaks[] = {s.peak_device_bytes, s.peak_host_bytes};
  communicator().all_reduce(std::span(sums), comm::ReduceOp::sum);
  communicator().all_reduce(std::span(peaks), comm::ReduceOp::max);
  communicator().all_reduce(std::span(s.queue_busy_seconds), comm::ReduceOp::sum);
  s.read_bytes = sums[0];
  s.written_bytes = sums[1];
  s.spilled_bytes = sums[2];
  s.restored_bytes = sums[3];
  s.communicated_bytes = sums[4];
  s.tasks = sums[5];
  s.stolen_chunks = sums[6];
  s.decoded_bytes = sums[7];
  s.reread_bytes = sums[8];
  s.direct_bytes = sums[9];
  s.peak_device_bytes = peaks[0];
  s.peak_host_bytes = peaks[1];
  return s;
}

}  // namespace quarry
