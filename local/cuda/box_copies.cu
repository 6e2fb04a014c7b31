// Packing boxes. Loads over NVLink take about two microseconds, so what matters is how many bytes are asked for at a
// time: a block of threads copies a slice of a box with eight words of up to 16 bytes in flight per thread. Few blocks
// of many threads, going on to the next slice when they are done, leave multiprocessors to others. Slices are taken
// from the boxes in turn.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "local/cuda/box_copies.h"
#include "local/cuda/check.h"

namespace quarry::local::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kInFlight = 8;  // words of a thread
constexpr int kSliceWords = kThreads * kInFlight;
constexpr int kMostBoxes = 24;  // their descriptions are the kernel's arguments: at most 4 KiB
constexpr int64_t kMostBlocks = 132;

struct Box {
  const char* from;
  char* to;
  int64_t words, row_words;  // of all, and of a run
  int axes;
  BoxCopy::Axis outer[BoxCopy::kMostAxes];
};

struct Batch {
  int boxes;
  int64_t slices;  // of the largest box
  Box box[kMostBoxes];
};
static_assert(sizeof(Batch) <= 4096);

__device__ inline const char* run_address(const Box& box, int64_t run) {
  const char* from = box.from;
  for (int a = box.axes - 1; a > 0; --a) {
    const int64_t count = box.outer[a].count;
    from += run % count * box.outer[a].stride;
    run /= count;
  }
  return box.axes > 0 ? from + run * box.outer[0].stride : from;
}

template <class Word>
__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ Batch batch) {
  for (int64_t s = blockIdx.x; s < batch.slices * batch.boxes; s += gridDim.x) {
    const Box& box = batch.box[s % batch.boxes];
    const int64_t begin = s / batch.boxes * kSliceWords;
    if (begin >= box.words) continue;
    const int64_t first_run = begin / box.row_words, first_column = begin % box.row_words;
    const auto count = static_cast<int>(min(box.words - begin, static_cast<int64_t>(kSliceWords)));
    Word* const to = reinterpret_cast<Word*>(box.to) + begin;
    Word words[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * kThreads;
      if (i >= count) continue;
      int64_t run = first_run, column = first_column + i;
      if (box.row_words >= kSliceWords) {  // a slice meets two runs at most
        if (column >= box.row_words) {
          column -= box.row_words;
          ++run;
        }
      } else {
        const auto small = static_cast<uint32_t>(column), row = static_cast<uint32_t>(box.row_words);
        run += small / row;
        column = small % row;
      }
      words[k] = reinterpret_cast<const Word*>(run_address(box, run))[column];
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * kThreads;
      if (i < count) to[i] = words[k];
    }
  }
}

// The same by bulk copies through shared memory, for runs of at least kLeastBulkRun and multiples of 16 bytes: a warp
// keeps kAhead stages of up to kStageBytes on their way in, and two on their way out. A stage is contiguous in the
// destination; a lane asks for every 32nd of its runs.
constexpr int kStages = 12, kAhead = 9, kStageBytes = 16 << 10;
constexpr int64_t kLeastBulkRun = 1024;

__device__ inline uint32_t shared_address(const void* data) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(data));
}

struct Stage {  // bytes [begin, end) of the packed box
  const Box* box;
  int64_t begin, end;
};

__device__ inline Stage stage_of(const Batch& batch, int64_t number) {
  const Box& box = batch.box[number % batch.boxes];
  const int64_t begin = number / batch.boxes * kStageBytes, all = box.words * 16;
  return {&box, min(begin, all), min(begin + kStageBytes, all)};
}

__global__ void __launch_bounds__(32) bulk_kernel(const __grid_constant__ Batch batch, int64_t stages) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char memory[];
  __shared__ uint64_t arrived[kStages];
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < kStages) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived[lane])) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncwarp();
  const int64_t first = blockIdx.x, step = gridDim.x;
  const int64_t count = first < stages ? (stages - first + step - 1) / step : 0;
  for (int64_t i = 0; i < count + kAhead; ++i) {
    if (i < count) {
      // The stage's last content has been read: it is not among the last kStages - kAhead - 1 that were sent.
      if (lane == 0) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kStages - kAhead - 1) : "memory");
      __syncwarp();
      const Stage stage = stage_of(batch, first + i * step);
      const uint32_t barrier = shared_address(&arrived[i % kStages]);
      const uint32_t to = shared_address(memory + i % kStages * kStageBytes);
      if (lane == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                     "r"(static_cast<uint32_t>(stage.end - stage.begin))
                     : "memory");
      }
      __syncwarp();
      const int64_t run_bytes = stage.box->row_words * 16;
      for (int64_t run = stage.begin / run_bytes + lane; run * run_bytes < stage.end; run += 32) {
        const int64_t begin = max(stage.begin, run * run_bytes), end = min(stage.end, (run + 1) * run_bytes);
        const char* const from = run_address(*stage.box, run) + (begin - run * run_bytes);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         to + static_cast<uint32_t>(begin - stage.begin)),
                     "l"(__cvta_generic_to_global(from)), "r"(static_cast<uint32_t>(end - begin)), "r"(barrier)
                     : "memory");
      }
    }
    const int64_t j = i - kAhead;
    if (j < 0 || j >= count) continue;
    const uint32_t barrier = shared_address(&arrived[j % kStages]);
    const auto parity = static_cast<uint32_t>(j / kStages & 1);
    for (uint32_t done = 0; done == 0;) {
      asm volatile(
          "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}\n"
          : "=r"(done)
          : "r"(barrier), "r"(parity)
          : "memory");
    }
    const Stage stage = stage_of(batch, first + j * step);
    if (lane == 0) {
      if (stage.begin < stage.end) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                         __cvta_generic_to_global(stage.box->to + stage.begin)),
                     "r"(shared_address(memory + j % kStages * kStageBytes)),
                     "r"(static_cast<uint32_t>(stage.end - stage.begin))
                     : "memory");
      }
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
    __syncwarp();
  }
  if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#else
  static_cast<void>(stages);
#endif
}

// The largest word that all addresses, strides and lengths are multiples of.
int64_t word_bytes(std::span<const BoxCopy> boxes) {
  uint64_t bits = 16;
  for (const BoxCopy& box : boxes) {
    bits |= reinterpret_cast<uintptr_t>(box.from) | reinterpret_cast<uintptr_t>(box.to) |
            static_cast<uint64_t>(box.run_bytes);
    for (int a = 0; a < box.axes; ++a) bits |= static_cast<uint64_t>(box.outer[static_cast<size_t>(a)].stride);
  }
  return static_cast<int64_t>(bits & (~bits + 1));
}

int64_t most_blocks(int64_t usual) {
  static const int64_t blocks = [] {
    const char* const text = std::getenv("QUARRY_PEER_BLOCKS");
    return text == nullptr ? 0 : std::max<int64_t>(1, std::atoll(text));
  }();
  return blocks == 0 ? usual : blocks;
}

// Bulk copies came with Hopper.
bool bulk_copies(std::span<const BoxCopy> boxes) {
  static const bool wanted = [] {
    const char* const text = std::getenv("QUARRY_PEER_KERNEL");
    return text != nullptr && std::string_view(text) == "bulk";
  }();
  int device = 0, major = 0;
  return wanted && std::ranges::all_of(boxes, [](const BoxCopy& box) { return box.run_bytes >= kLeastBulkRun; }) &&
         cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

void launch_bulk(const Batch& batch, cudaStream_t stream) {
  constexpr int64_t kBulkBlocks = 32;
  int64_t most = 0;  // stages of a box
  for (int b = 0; b < batch.boxes; ++b)
    most = std::max(most, (batch.box[b].words * 16 + kStageBytes - 1) / kStageBytes);
  const int64_t stages = most * batch.boxes;
  const auto blocks = static_cast<unsigned>(std::min(stages, most_blocks(kBulkBlocks)));
  constexpr int kMemory = kStages * kStageBytes;
  QUARRY_CUDA_CALL(cudaFuncSetAttribute(bulk_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMemory));
  bulk_kernel<<<blocks, 32, kMemory, stream>>>(batch, stages);
  check(cudaGetLastError(), "copying boxes");
}

template <class Word>
void launch(const Batch& batch, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min(batch.slices * batch.boxes, most_blocks(kMostBlocks)));
  copy_kernel<Word><<<blocks, kThreads, 0, stream>>>(batch);
  check(cudaGetLastError(), "copying boxes");
}

void copy_batch(std::span<const BoxCopy> boxes, cudaStream_t stream) {
  const int64_t word = word_bytes(boxes);
  Batch batch{};
  for (const BoxCopy& copy : boxes) {
    Box& box = batch.box[batch.boxes++];
    box.from = reinterpret_cast<const char*>(copy.from);
    box.to = reinterpret_cast<char*>(copy.to);
    box.row_words = copy.run_bytes / word;
    box.words = box.row_words * copy.runs();
    box.axes = copy.axes;
    std::copy(copy.outer.begin(), copy.outer.begin() + copy.axes, box.outer);
    batch.slices = std::max(batch.slices, (box.words + kSliceWords - 1) / kSliceWords);
  }
  if (batch.slices == 0) return;
  if (word == 16 && bulk_copies(boxes)) return launch_bulk(batch, stream);
  switch (word) {
    case 16:
      return launch<uint4>(batch, stream);
    case 8:
      return launch<uint2>(batch, stream);
    case 4:
      return launch<uint32_t>(batch, stream);
    case 2:
      return launch<uint16_t>(batch, stream);
    default:
      return launch<uint8_t>(batch, stream);
  }
}

}  // namespace

void copy_box_by_engines(const BoxCopy& box, cudaStream_t stream) {
  // The last axis goes by a call, which takes a pitch below 2 GiB; the others one by one.
  constexpr int64_t kMostPitch = (int64_t{1} << 31) - 1;
  size_t axes = static_cast<size_t>(box.axes);
  BoxCopy::Axis rows{1, box.run_bytes};
  if (axes > 0 && box.outer[axes - 1].stride <= kMostPitch) rows = box.outer[--axes];
  const auto run = static_cast<size_t>(box.run_bytes);
  const int64_t bytes = box.run_bytes * rows.count;  // of a call
  int64_t calls = 1;
  for (size_t a = 0; a < axes; ++a) calls *= box.outer[a].count;
  for (int64_t call = 0; call < calls; ++call) {
    const std::byte* from = box.from;
    int64_t rest = call;
    for (size_t a = axes; a-- > 0;) {
      from += rest % box.outer[a].count * box.outer[a].stride;
      rest /= box.outer[a].count;
    }
    std::byte* const to = box.to + call * bytes;
    if (rows.count == 1) {
      QUARRY_CUDA_CALL(cudaMemcpyAsync(to, from, run, cudaMemcpyDefault, stream));
    } else {
      QUARRY_CUDA_CALL(cudaMemcpy2DAsync(to, run, from, static_cast<size_t>(rows.stride), run,
                                         static_cast<size_t>(rows.count), cudaMemcpyDefault, stream));
    }
  }
}

void copy_boxes_by_kernel(std::span<const BoxCopy> boxes, cudaStream_t stream) {
  while (!boxes.empty()) {
    const size_t count = std::min<size_t>(boxes.size(), kMostBoxes);
    copy_batch(boxes.first(count), stream);
    boxes = boxes.subspan(count);
  }
}

}  // namespace quarry::local::cuda
