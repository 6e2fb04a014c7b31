// Runs a launch on the CPU and on the GPU and compares every byte or value that it wrote. What compares serves
// generated kernels on the host too (kernels_on_host.h).
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "quarry/local/base/dtype.h"
#include "quarry/local/base/shape.h"
#include "quarry/local/device/device.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/memory_resource.h"
#include "quarry/local/program/engine.h"
#include "quarry/local/program/program.h"

namespace quarry::local::cuda {

inline constexpr Device kGpu{DeviceKind::cuda, 0};

// Suites whose names contain Cuda; they are skipped where there is no GPU.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!available(DeviceKind::cuda)) GTEST_SKIP() << "no GPU on this machine";
  }
};

inline ExecContext gpu_context() {
  const DeviceScope scope(kGpu);
  return current_context();
}

// An array in host memory with its place inside its buffer.
struct HostArray {
  DType dtype = DType::float64;
  Dims strides;
  int64_t offset = 0;  // bytes, of element 0
  std::vector<char> bytes;

  Operand operand() { return {bytes.data() + offset, strides}; }
};

// Room for `shape` with the given strides, at a distance of `misalignment` bytes from an aligned address.
inline HostArray make_array(DType dtype, const Dims& shape, const Dims& strides, int64_t misalignment = 0) {
  HostArray array{dtype, strides, 0, {}};
  int64_t low = 0, high = 0;
  for (int d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) (strides[d] < 0 ? low : high) += (shape[d] - 1) * strides[d];
  array.offset = -low + misalignment;
  array.bytes.resize(static_cast<size_t>(high - low + itemsize(dtype) + misalignment));
  return array;
}
inline HostArray make_array(DType dtype, const Dims& shape) {
  return make_array(dtype, shape, contiguous_strides(shape, itemsize(dtype)));
}

// Values that break kernels, then random ones; `small` keeps integers small enough for shifts and powers.
template <class T>
T interesting(size_t i, std::mt19937_64& random, bool small) {
  if constexpr (std::is_same_v<T, bool>) {
    return random() % 2 == 0;
  } else if constexpr (std::is_integral_v<T>) {
    using L = std::numeric_limits<T>;
    const T special[] = {0, 1, static_cast<T>(-1), L::max(), L::lowest(), 2, 3, static_cast<T>(L::max() - 1), 7, 10};
    if (small) return static_cast<T>(random() % 12);
    return i % 3 == 0 ? special[random() % std::size(special)] : static_cast<T>(random() >> (random() % 60));
  } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return T(interesting<float>(i, random, small));
  } else if constexpr (std::is_floating_point_v<T>) {
    using L = std::numeric_limits<T>;
    const T special[] = {T(0),           T(-0.0),  T(1),        T(-1),    L::infinity(),   -L::infinity(),
                         L::quiet_NaN(), L::max(), L::lowest(), L::min(), L::denorm_min(), T(0.5),
                         T(-2.5),        T(1e-5)};
    if (i % 5 == 0) return special[random() % std::size(special)];
    const double u = static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    return static_cast<T>(i % 2 == 0 ? u * 4 : u * std::exp2(static_cast<double>(random() % 40) - 15));
  } else {
    return T(interesting<typename T::value_type>(i, random, small),
             interesting<typename T::value_type>(i + 1, random, small));
  }
}

inline void fill_interesting(HostArray& array, uint64_t seed, bool small = false) {
  std::mt19937_64 random(seed);
  dispatch(array.dtype, [&]<class T>() {
    const size_t count = (array.bytes.size() - static_cast<size_t>(array.offset) % sizeof(T)) / sizeof(T);
    for (size_t i = 0; i < count; ++i) {
      const T value = interesting<T>(i, random, small);
      std::memcpy(array.bytes.data() + static_cast<size_t>(array.offset) % sizeof(T) + i * sizeof(T), &value,
                  sizeof(T));
    }
  });
}

// Replaces finite floats within a factor of 16 of the largest one.
inline void limit_magnitude(HostArray& array) {
  dispatch(array.dtype, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      for (size_t i = 0; i < array.bytes.size() / sizeof(T); ++i) {
        T value;
        std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
        if (std::isfinite(value) && std::abs(value) > std::numeric_limits<T>::max() / 16) value /= 16;
        std::memcpy(array.bytes.data() + i * sizeof(T), &value, sizeof(T));
      }
  });
}

// Finite values of moderate size, for reductions whose result depends on rounding.
inline void fill_moderate(HostArray& array, uint64_t seed) {
  std::mt19937_64 random(seed);
  dispatch(array.dtype, [&]<class T>() {
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53 + 0.25; };
    for (size_t i = 0; i < array.bytes.size() / sizeof(T); ++i) {
      T value;
      if constexpr (std::is_same_v<T, bool>)
        value = random() % 3 == 0;
      else if constexpr (std::is_integral_v<T>)
        value = static_cast<T>(random() % 100);
      else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
        value = T(static_cast<float>(uniform()));
      else
        value = T(static_cast<typename T::value_type>(uniform()), static_cast<typename T::value_type>(uniform()));
      std::memcpy(array.bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
}

template <class T>
double epsilon() {
  if constexpr (std::is_same_v<T, float16>)
    return 0x1p-10;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return 0x1p-7;
  else
    return static_cast<double>(std::numeric_limits<T>::epsilon());
}

template <class T>
bool close_real(T a, T b, double ulps, double scale) {
  const double x = static_cast<double>(a), y = static_cast<double>(b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (x == y) return ulps > 0 || std::signbit(x) == std::signbit(y);
  if (std::isinf(x) || std::isinf(y)) return false;
  double least = 0;  // spacing of subnormals
  if constexpr (std::is_floating_point_v<T>) least = static_cast<double>(std::numeric_limits<T>::denorm_min());
  if constexpr (std::is_same_v<T, float16>) least = 0x1p-24;
  return std::abs(x - y) <= ulps * std::max(epsilon<T>() * std::max(scale, std::max(std::abs(x), std::abs(y))), least);
}

// `ulps` 0: the same value, signed zeros told apart (NaNs are alike).
template <class T>
bool close(T a, T b, double ulps) {
  if constexpr (std::is_integral_v<T>) {
    return a == b;
  } else if constexpr (requires { a.imag(); }) {
    // Which of several NaNs a reduction keeps depends on the order, and which part of a number is NaN with it.
    if (ulps > 0 && (std::isnan(a.real()) || std::isnan(a.imag())) && (std::isnan(b.real()) || std::isnan(b.imag())))
      return true;
    // An error in one part of a complex result is judged against the whole.
    double scale =
        ulps > 0 ? std::max(std::abs(static_cast<double>(b.real())), std::abs(static_cast<double>(b.imag()))) : 0;
    if (!std::isfinite(scale)) scale = 0;
    return close_real(a.real(), b.real(), ulps, scale) && close_real(a.imag(), b.imag(), ulps, scale);
  } else {
    return close_real(a, b, ulps, 0);
  }
}

template <class T>
std::string show(T x) {
  if constexpr (requires { x.imag(); })
    return fmt::format("({:.17g}, {:.17g})", static_cast<double>(x.real()), static_cast<double>(x.imag()));
  else if constexpr (std::is_integral_v<T>)
    return fmt::format("{}", x);
  else
    return fmt::format("{:.17g}", static_cast<double>(x));
}

// Calls f(offset in bytes) for every element.
template <class F>
void for_each_element(const Dims& shape, const Dims& strides, const F& f) {
  if (element_count(shape) == 0) return;
  Dims at = Dims::filled(shape.size());
  while (true) {
    int64_t offset = 0;
    for (int d = 0; d < shape.size(); ++d) offset += at[d] * strides[d];
    f(at, offset);
    int d = shape.size();
    while (d-- > 0) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

struct Comparison {
  Program program;
  Dims shape;
  Dims index_offset = {};
  uint32_t reduce_axes = 0;
  std::vector<HostArray> inputs, outputs, states = {};
};

// Device copies of host arrays at the same alignment.
class DeviceArrays {
 public:
  explicit DeviceArrays(const ExecContext& context) : context_(context) {}
  ~DeviceArrays() {
    context_.stream->synchronize();
    for (auto& [data, bytes] : blocks_) context_.memory->deallocate(data, bytes, context_.stream);
  }
  Operand upload(HostArray& array) {
    const auto bytes = static_cast<int64_t>(array.bytes.size());
    void* data = context_.memory->allocate(bytes, context_.stream);
    blocks_.emplace_back(data, bytes);
    context_.stream->copy(data, array.bytes.data(), bytes);
    return {static_cast<char*>(data) + array.offset, array.strides};
  }
  void download(size_t block, std::vector<char>& to) {
    context_.stream->copy(to.data(), blocks_[block].first, blocks_[block].second);
    context_.stream->synchronize();
  }

 private:
  const ExecContext& context_;
  std::vector<std::pair<void*, int64_t>> blocks_;
};

// What no kernel writes: bytes of outputs and states that must stay where they are no elements.
inline void clear_results(Comparison& c) {
  for (auto* group : {&c.outputs, &c.states})
    for (HostArray& array : *group) std::memset(array.bytes.data(), 0xa5, array.bytes.size());
}

// Over the host's arrays.
inline Launch launch_of(Comparison& c) {
  Launch launch;
  launch.shape = c.shape;
  launch.index_offset = c.index_offset;
  launch.reduce_axes = c.reduce_axes;
  for (HostArray& array : c.inputs) launch.inputs.push_back(array.operand());
  for (HostArray& array : c.outputs) launch.outputs.push_back(array.operand());
  for (HostArray& array : c.states) launch.states.push_back(array.operand());
  return launch;
}

// Runs the cleared `c` on the CPU. Whether `results`, the bytes of outputs and states after a kernel ran, are the same
// within `ulps`; elements that are not written must stay as they were.
inline ::testing::AssertionResult same_as_cpu(Comparison& c, std::vector<std::vector<char>> results, double ulps) {
  Dims state_shape = c.shape;
  for (int d = 0; d < c.shape.size(); ++d)
    if (c.reduce_axes >> d & 1u) state_shape[d] = 1;
  engine(kCpu).run(c.program, launch_of(c), current_context());

  size_t number = 0;
  for (auto* group : {&c.outputs, &c.states})
    for (HostArray& array : *group) {
      std::vector<char>& got = results[number++];
      std::string message;
      int wrong = 0;
      dispatch(array.dtype, [&]<class T>() {
        for_each_element(group == &c.states ? state_shape : c.shape, array.strides,
                         [&](const Dims& at, int64_t offset) {
                           T expected, actual;
                           std::memcpy(&expected, array.bytes.data() + array.offset + offset, sizeof(T));
                           std::memcpy(&actual, got.data() + array.offset + offset, sizeof(T));
                           std::memcpy(got.data() + array.offset + offset, &expected, sizeof(T));
                           if (close(actual, expected, ulps)) return;
                           if (++wrong > 4) return;
                           message += fmt::format("\n  at {}: {} by the kernel, {} on the CPU", to_string(at),
                                                  show(actual), show(expected));
                           if (group == &c.states) return;
                           for (HostArray& input : c.inputs)
                             dispatch(input.dtype, [&]<class S>() {
                               int64_t place = input.offset;
                               for (int d = 0; d < c.shape.size(); ++d) place += at[d] * input.strides[d];
                               S value;
                               std::memcpy(&value, input.bytes.data() + place, sizeof(S));
                               message += fmt::format(" [{}]", show(value));
                             });
                         });
      });
      if (wrong > 0)
        return ::testing::AssertionFailure() << "output " << number - 1 << ": " << wrong << " differ" << message;
      if (got != array.bytes)
        return ::testing::AssertionFailure() << "output " << number - 1 << " wrote outside its elements";
    }
  return ::testing::AssertionSuccess();
}

// Whether both engines write the same, within `ulps`.
inline ::testing::AssertionResult same_on_gpu(Comparison c, double ulps) {
  clear_results(c);
  Launch launch = launch_of(c);
  launch.inputs.clear();
  launch.outputs.clear();
  launch.states.clear();
  const ExecContext gpu = gpu_context();
  std::vector<std::vector<char>> results;
  {
    DeviceArrays arrays(gpu);
    for (auto* group : {&c.inputs, &c.outputs, &c.states}) {
      auto& to = group == &c.inputs ? launch.inputs : group == &c.outputs ? launch.outputs : launch.states;
      for (HostArray& array : *group) to.push_back(arrays.upload(array));
    }
    const int64_t before = gpu.memory->used_bytes();
    engine(kGpu).run(c.program, launch, gpu);
    gpu.stream->synchronize();
    if (gpu.memory->used_bytes() != before) return ::testing::AssertionFailure() << "scratch is not given back";
    size_t block = c.inputs.size();
    for (auto* group : {&c.outputs, &c.states})
      for (HostArray& array : *group) {
        results.emplace_back(array.bytes.size());
        arrays.download(block++, results.back());
      }
  }
  return same_as_cpu(c, std::move(results), ulps);
}

}  // namespace quarry::local::cuda
