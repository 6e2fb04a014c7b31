// Random arrays by element index: Philox4x32-10 with key (seed, stream), counter = C-order element index. Lazy; they
// take no storage, and their values do not depend on chunks, ranks or device. Every call draws from a stream of its
// own.
#pragma once

#include "quarry/chunked/api/array.h"

namespace quarry::random {

class Generator {
 public:
  explicit Generator(uint64_t seed) : seed_(seed) {}
  // [low, high); float32 or float64.
  Array uniform(const Dims& shape, double low = 0, double high = 1, DType dtype = DType::float64);
  // float32 or float64. Throws InvalidArgument for a negative scale.
  Array normal(const Dims& shape, double mean = 0, double scale = 1, DType dtype = DType::float64);
  // [low, high) of any integer dtype. Throws InvalidArgument where that is empty or does not fit the dtype.
  Array integers(const Dims& shape, int64_t low, int64_t high, DType dtype = DType::int64);
  uint64_t seed() const { return seed_; }

 private:
  uint64_t seed_;
  uint64_t stream_ = 0;  // of the next call
};

// The generator of the functions below: seeded with 0 unless seed() was called, so that every rank draws the same.
Generator& default_generator();
void seed(uint64_t value);

Array uniform(const Dims& shape, double low = 0, double high = 1, DType dtype = DType::float64);
Array normal(const Dims& shape, double mean = 0, double scale = 1, DType dtype = DType::float64);
Array integers(const Dims& shape, int64_t low, int64_t high, DType dtype = DType::int64);

}  // namespace quarry::random
