#include "quarry/chunked/exec/bodies/device_decoding.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "quarry/chunked/exec/bodies/batch.h"
#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/chunked/exec/device_pack.h"
#include "quarry/io/encoded_chunks.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/device/stream_decoding.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {
namespace {

using local::Dims;
using local::EncodedStream;
using local::StreamStatus;

// A stream takes a device some fifteen times as long as a thread of the host, so that this many at once are faster than
// the thread that waits for them. Sixteen threads keep a thousand under way, which is what a GPU is good at
// (docs/adr/0047-devices-decode-streams.md).
constexpr int64_t kLeastStreams = 32;
// Longer streams take a device seconds.
constexpr int64_t kMostChunkBytes = int64_t{64} << 20;
// The copy out of shuffled bytes has one axis more.
constexpr int kMostAxes = local::kMaxDims - 1;

int64_t aligned(int64_t bytes) { return align_up(bytes, local::kAllocationAlignment); }

// What one chunk takes of the device's memory while its batch is decoded.
int64_t bytes_of_chunk(const io::EncodedChunks::Layout& layout) {
  return aligned(layout.chunk_bytes) + aligned(layout.stored_bytes) +
         static_cast<int64_t>(sizeof(EncodedStream) + sizeof(StreamStatus));
}

}  // namespace

// What is copied of a decoded chunk.
struct DeviceDecoding::Member {
  io::EncodedChunks::Part part;
  bool is_shuffled;
};

// The copy of a part of a decoded chunk to its place in the region, in elements or, where bytes are shuffled, in bytes
// with one axis more.
struct DeviceDecoding::Copy {
  local::Program program;
  local::Launch launch;  // but for addresses
  Dims from, to;         // bytes between neighbours along the axes of the region
};

DeviceDecoding::Copy DeviceDecoding::copy_of(const Dims& count, bool shuffled) const {
  const io::DatasetInfo& info = dataset_->info();
  const int64_t itemsize = local::itemsize(info.dtype);
  Copy copy;
  copy.from = local::contiguous_strides(*info.chunks, shuffled ? 1 : itemsize);
  copy.to = local::contiguous_strides(region_.count, itemsize);
  copy.program.output(copy.program.input(shuffled ? local::DType::uint8 : *dtype_of_bytes(itemsize)));
  copy.launch.shape = count;
  Dims from = copy.from, to = copy.to;
  if (shuffled) {
    copy.launch.shape.push_back(itemsize);
    from.push_back(local::element_count(*info.chunks));
    to.push_back(1);
  }
  copy.launch.inputs.push_back({nullptr, from});
  copy.launch.outputs.push_back({nullptr, to});
  return copy;
}

DeviceDecoding::DeviceDecoding(const io::Dataset& dataset, const local::Region& region, const local::Device& device)
    : dataset_(&dataset), region_(region) {
  const Dims& chunk = *dataset.info().chunks;
  Dims most = region.count;
  for (int d = 0; d < region.ndim(); ++d) {
    const int64_t first = region.start[d] / chunk[d], end = (region.start[d] + region.count[d] - 1) / chunk[d] + 1;
    chunks_ *= end - first;
    touched_ *= std::min(end * chunk[d], dataset.info().shape[d]) - first * chunk[d];
    most[d] = std::min(most[d], chunk[d]);
  }
  for (const bool shuffled : {false, true}) {
    if (shuffled && !dataset.encoded_chunks()->layout().shuffled) continue;
    const Copy copy = copy_of(most, shuffled);
    copy_scratch_bytes_ = std::max(copy_scratch_bytes_, run_scratch_bytes(device, copy.program, copy.launch));
  }
}

std::optional<DeviceDecoding> DeviceDecoding::of(const io::Dataset& dataset, const local::Region& region,
                                                 const local::Device& device, const DecodingPolicy& policy) {
  const io::EncodedChunks* const chunks = dataset.encoded_chunks();
  if (chunks == nullptr || policy.by == Decompress::host || region.elements() == 0) return std::nullopt;
  if (device.kind == local::DeviceKind::cpu || local::stream_decoder(device.kind) == nullptr) return std::nullopt;
  const io::EncodedChunks::Layout& layout = chunks->layout();
  if (layout.chunk_bytes > kMostChunkBytes || region.ndim() > kMostAxes) return std::nullopt;
  const auto is_one = [](int64_t step) { return step == 1; };
  if (!std::all_of(region.step.begin(), region.step.end(), is_one)) return std::nullopt;
  DeviceDecoding decoding(dataset, region, device);
  // What only parts of chunks are wanted of is decoded by others too, for whom the host keeps it.
  if (region.elements() < decoding.touched_ / 2) return std::nullopt;
  const int64_t room = local::memory_policy::decoding_bytes(policy.device_bytes) - decoding.copy_scratch_bytes_;
  decoding.batch_ = std::min(decoding.chunks_, room / bytes_of_chunk(layout));
  if (decoding.batch_ < (policy.by == Decompress::device ? 1 : kLeastStreams)) return std::nullopt;
  return decoding;
}

int64_t DeviceDecoding::scratch_bytes() const {
  return batch_ * bytes_of_chunk(dataset_->encoded_chunks()->layout()) + 4 * local::kAllocationAlignment +
         copy_scratch_bytes_;
}

int64_t DeviceDecoding::half_bytes(int64_t piece_bytes) const {
  return std::max(aligned(piece_bytes), aligned(dataset_->encoded_chunks()->room_bytes()));
}

int64_t DeviceDecoding::staging_bytes(int64_t piece_bytes) const {
  return 2 * half_bytes(piece_bytes) + aligned(batch_ * static_cast<int64_t>(sizeof(EncodedStream))) +
         aligned(batch_ * static_cast<int64_t>(sizeof(StreamStatus)));
}

// Brings stored chunks to the device through two halves of pinned memory: while one travels the other is filled. What
// lies one after the other in a half goes in one copy.
class DeviceDecoding::Load {
 public:
  Load(const io::EncodedChunks& chunks, scheduler::TaskRun& run, std::span<std::byte> staging)
      : chunks_(chunks), stream_(*run.context.stream), half_bytes_(staging.size() / 2) {
    local::Backend& backend = local::backend(run.context.device.kind);
    for (size_t h = 0; h < 2; ++h) {
      halves_[h].data = staging.subspan(h * half_bytes_, half_bytes_);
      halves_[h].copied = backend.create_event(run.context.device.index);
    }
  }
  // Staging memory outlives the copies, also when a read throws.
  ~Load() {
    try {
      stream_.synchronize();
    } catch (...) {  // the error that is already under way, or the next use of the stream, reports it
    }
  }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // The next streams go there.
  void begin(std::byte* to) { to_ = to; }
  // The chunk's stream on its way to the device; or its elements, which go to `decoded`: then there is none.
  std::optional<EncodedStream> bring(int64_t number, std::byte* decoded) {
    const auto room_bytes = static_cast<size_t>(chunks_.room_bytes());
    if (used_ + room_bytes > half_bytes_) turn();
    const std::span<std::byte> room = halves_[now_].data.subspan(used_, room_bytes);
    const io::EncodedChunks::Stored stored = chunks_.read(number, room);
    const auto bytes = static_cast<int64_t>(stored.bytes.size());
    const auto next = static_cast<size_t>(aligned(stored.bytes.data() + bytes - halves_[now_].data.data()));
    if (!stored.is_stream) {
      flush();
      stream_.copy(decoded, stored.bytes.data(), bytes);
      used_ = begin_ = next;
      return std::nullopt;
    }
    const std::byte* const on_device = to_ + (stored.bytes.data() - halves_[now_].data.data() - begin_);
    used_ = next;
    return EncodedStream{on_device, bytes, decoded, chunks_.layout().chunk_bytes};
  }
  // Queues what is still in a half.
  void flush() {
    if (used_ == begin_) return;
    stream_.copy(to_, halves_[now_].data.data() + begin_, static_cast<int64_t>(used_ - begin_));
    to_ += used_ - begin_;
    begin_ = used_;
  }

 private:
  struct Half {
    std::span<std::byte> data;
    std::unique_ptr<local::DeviceEvent> copied;
  };
  void turn() {
    flush();
    stream_.record(*halves_[now_].copied);
    now_ = 1 - now_;
    halves_[now_].copied->synchronize();
    used_ = begin_ = 0;
  }

  const io::EncodedChunks& chunks_;
  local::DeviceStream& stream_;
  const size_t half_bytes_;
  Half halves_[2];
  size_t now_ = 0, begin_ = 0, used_ = 0;  // of the half that is filled: what is queued ends, what is read ends
  std::byte* to_ = nullptr;
};

void DeviceDecoding::copy_out(std::span<const Member> members, std::byte* decoded, scheduler::TaskRun& run) const {
  const int64_t chunk_bytes = aligned(dataset_->encoded_chunks()->layout().chunk_bytes);
  auto* const block = static_cast<std::byte*>(run.outputs[0].data);
  const auto dot = [](const Dims& a, const Dims& b) {
    int64_t sum = 0;
    for (int d = 0; d < a.size(); ++d) sum += a[d] * b[d];
    return sum;
  };
  for (size_t i = 0; i < members.size();) {
    const Member& first = members[i];
    const Copy copy = copy_of(first.part.count, first.is_shuffled);
    Batch& batch = Batch::mine();
    for (; i < members.size(); ++i) {
      const auto& [part, is_shuffled] = members[i];
      if (part.count != first.part.count || is_shuffled != first.is_shuffled) break;
      local::Launch& launch = batch.add(run.context) = copy.launch;
      launch.inputs[0].data = decoded + static_cast<int64_t>(i) * chunk_bytes + dot(part.first, copy.from);
      launch.outputs[0].data = block + dot(part.at, copy.to);
    }
    batch.run(copy.program);
  }
}

void DeviceDecoding::read(scheduler::TaskRun& run, std::span<std::byte> staging) const {
  const io::EncodedChunks& chunks = *dataset_->encoded_chunks();
  const io::EncodedChunks::Layout& layout = chunks.layout();
  const auto batch = static_cast<size_t>(batch_);
  local::DeviceStream& stream = *run.context.stream;
  const auto allocate = [&](int64_t bytes) {
    return static_cast<std::byte*>(run.context.memory->allocate(aligned(bytes), &stream));
  };
  std::byte* const stored = allocate(batch_ * aligned(layout.stored_bytes));
  std::byte* const decoded = allocate(batch_ * aligned(layout.chunk_bytes));
  auto* const streams =
      reinterpret_cast<EncodedStream*>(allocate(batch_ * static_cast<int64_t>(sizeof(EncodedStream))));
  auto* const statuses = reinterpret_cast<StreamStatus*>(allocate(batch_ * static_cast<int64_t>(sizeof(StreamStatus))));
  const auto take = [&](size_t bytes) {
    std::byte* const last = staging.data() + staging.size() - static_cast<size_t>(aligned(static_cast<int64_t>(bytes)));
    staging = staging.first(static_cast<size_t>(last - staging.data()));
    return last;
  };
  auto* const host_statuses = reinterpret_cast<StreamStatus*>(take(batch * sizeof(StreamStatus)));
  auto* const host_streams = reinterpret_cast<EncodedStream*>(take(batch * sizeof(EncodedStream)));

  const std::string name = dataset_->info().object + local::to_string(region_.start);
  std::vector<Member> members;
  std::vector<int64_t> numbers;  // of streams
  Load load(chunks, run, staging);
  const std::vector<io::EncodedChunks::Part> parts = chunks.parts(region_);
  for (size_t begin = 0; begin < parts.size() && !run.is_cancelled(); begin += batch) {
    members.clear();
    numbers.clear();
    load.begin(stored);
    {
      const local::TraceScope trace("read " + name, "read");
      for (const io::EncodedChunks::Part& part :
           std::span(parts).subspan(begin, std::min(batch, parts.size() - begin))) {
        std::byte* const to = decoded + static_cast<int64_t>(members.size()) * aligned(layout.chunk_bytes);
        const std::optional<EncodedStream> encoded = load.bring(part.number, to);
        if (encoded) {
          host_streams[numbers.size()] = *encoded;
          numbers.push_back(part.number);
        }
        members.push_back({part, encoded && layout.shuffled});
      }
    }
    local::TraceScope trace("decode " + name, "decode", static_cast<int64_t>(numbers.size()) * layout.chunk_bytes);
    trace.set_detail("on the device");
    load.flush();
    const auto count = static_cast<int64_t>(numbers.size());
    if (count > 0) {
      stream.copy(streams, host_streams, count * static_cast<int64_t>(sizeof(EncodedStream)));
      local::stream_decoder(run.context.device.kind)
          ->decode(layout.format, streams, count, statuses, io::decoder_on_host(layout.format), stream);
      stream.copy(host_statuses, statuses, count * static_cast<int64_t>(sizeof(StreamStatus)));
    }
    copy_out(members, decoded, run);
    stream.synchronize();
    for (size_t i = 0; i < numbers.size(); ++i)
      if (host_statuses[i] != StreamStatus::good) chunks.refuse(numbers[i], host_statuses[i]);
  }
}

}  // namespace quarry::exec
