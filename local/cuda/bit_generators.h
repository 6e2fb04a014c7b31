// Bit generators of cuRAND's host interface.
#pragma once

#include <curand.h>

#include "quarry/local/program/bit_generators.h"

namespace quarry::local::cuda {

RandomWords& cuda_random_words();

// ---- For tests, too: one of cuRAND's generators ----

// On the current device, or (Side::host) on the CPU, which needs no GPU. Not for several threads at once.
class VendorGenerator {
 public:
  enum class Side : uint8_t { device, host };

  // At the start of the sequence. Throws NotSupported for what cuRAND does not have.
  VendorGenerator(const BitGenerator& bits, Side side);
  ~VendorGenerator();
  VendorGenerator(const VendorGenerator&) = delete;
  VendorGenerator& operator=(const VendorGenerator&) = delete;

  void set_stream(cudaStream_t stream);
  // Of the next word, or point.
  uint64_t offset() const { return offset_; }
  // Whether the sequence can start anywhere.
  bool can_skip() const;
  void skip_to(uint64_t offset);
  // The next `count` words; whole points.
  void fill(void* words, int64_t count);

 private:
  const BitGenerator::Kind kind_;
  const int64_t dimensions_;
  curandGenerator_t generator_ = nullptr;
  uint64_t offset_ = 0;
};

}  // namespace quarry::local::cuda
