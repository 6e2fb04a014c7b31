// Packing boxes. Loads over NVLink take about two microseconds, so what matters is how many bytes are asked for at a
// time: a block of threads copies a slice of a box with eight words of up to 16 bytes in flight per thread. Few blocks
// of many threads, going on to the next slice when they are done, leave multiprocessors to others. Slices are taken
// from the boxes in turn.
#include <algorithm>

#include "quarry/local/cuda/box_copies.h"
#include "quarry/local/cuda/check.h"
#include "quarry/local/cuda/multiprocessors.h"

namespace quarry::local::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kInFlight = 8;  // words of a thread
constexpr int kSliceWords = kThreads * kInFlight;
// NVLink brings about as much in two microseconds. More blocks would keep out kernels of the device's own work.
constexpr int64_t kBytesInFlight = int64_t{1} << 20;
constexpr int kMostBoxes = 24;  // their descriptions are the kernel's arguments: at most 4 KiB

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

template <class Word>
void launch(const Batch& batch, cudaStream_t stream) {
  constexpr int64_t kEnough = kBytesInFlight / static_cast<int64_t>(kSliceWords * sizeof(Word));
  const auto blocks = static_cast<unsigned>(std::min({batch.slices * batch.boxes, kEnough, multiprocessor_count()}));
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
