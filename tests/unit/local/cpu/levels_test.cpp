// The same bits at every instruction-set level and thread count.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "quarry/local/base/dtype.h"
#include "quarry/local/cpu/code.h"
#include "quarry/local/cpu/interpreter.h"
#include "quarry/local/cpu/layout.h"

namespace quarry::local {
namespace {

using cpu::Level;

void run_at(Level level, const Program& program, const Launch& launch, int slots) {
  const cpu::Loops& loops = cpu::loops(level);
  const cpu::Code code = cpu::lower(program, loops);
  const cpu::Layout layout = cpu::make_layout(code, program.constants(), launch);
  const cpu::ScratchMap map(code, layout);
  std::vector<char> scratch(static_cast<size_t>(map.bytes(slots)) + 256);
  char* aligned = scratch.data() + (256 - reinterpret_cast<uintptr_t>(scratch.data()) % 256);
  cpu::interpret(code, layout, map, loops, program.constants(), launch, aligned, slots);
}

// Where two results first differ, for messages. NaN is NaN, whatever its sign and payload.
std::string difference(DType dtype, const std::vector<unsigned char>& a, const std::vector<unsigned char>& b) {
  const size_t size = static_cast<size_t>(itemsize(dtype));
  for (size_t i = 0; i + size <= a.size(); i += size)
    if (std::memcmp(&a[i], &b[i], size) != 0) {
      const std::complex<double> x = Scalar::load(dtype, &a[i]).as_complex(),
                                 y = Scalar::load(dtype, &b[i]).as_complex();
      const auto same = [](double u, double v) {
        return (std::isnan(u) && std::isnan(v)) || (u == v && std::signbit(u) == std::signbit(v));
      };
      if (is_complex(dtype) || is_float(dtype))
        if (same(x.real(), y.real()) && same(x.imag(), y.imag())) continue;
      return fmt::format("element {}: {} {} and {} {}", i / size, x.real(), x.imag(), y.real(), y.imag());
    }
  return "";
}

std::vector<Level> levels() {
  std::vector<Level> all;
  for (Level level : cpu::kLevels)
    if (level <= cpu::cpu_level()) all.push_back(level);
  return all;
}

// Numbers of all magnitudes, and the special ones of floats.
std::vector<unsigned char> awkward(DType dtype, int64_t n, uint64_t seed) {
  std::vector<unsigned char> bytes(static_cast<size_t>(n * itemsize(dtype)));
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  const auto next = [&] {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
  };
  const double special[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 1e-310, 1e300, 0.5, 65504.0, 2.0};
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t r = next();
    const double spread = std::ldexp(static_cast<double>(r >> 12) / 0x1p52 - 0.5, static_cast<int>(next() % 40) - 20);
    const double value = r % 7 == 0 ? special[next() % std::size(special)] : spread;
    unsigned char* out = bytes.data() + i * itemsize(dtype);
    if (is_complex(dtype))
      Scalar(std::complex<double>(value, std::ldexp(spread, static_cast<int>(next() % 5)))).store(dtype, out);
    else if (is_float(dtype))
      Scalar(value).store(dtype, out);
    else if (kind(dtype) == 'b')
      *out = r >> 40 & 1;
    else
      std::memcpy(out, &r, static_cast<size_t>(itemsize(dtype)));
  }
  return bytes;
}

// What the oldest level takes from libm.
bool vector_math(Op op, DType dtype) {
  static const std::set<Op> ops = {"exp"_op,           "exp2"_op,          "expm1"_op,         "log"_op,
                                   "log2"_op,          "log10"_op,         "log1p"_op,         "sin"_op,
                                   "cos"_op,           "tan"_op,           "arcsin"_op,        "arccos"_op,
                                   "arctan"_op,        "sinh"_op,          "cosh"_op,          "tanh"_op,
                                   "arcsinh"_op,       "arccosh"_op,       "cbrt"_op,          "arctanh"_op,
                                   "power"_op,         "hypot"_op,         "arctan2"_op,       "float_power"_op,
                                   "special.erf"_op,   "special.erfc"_op,  "special.gamma"_op, "special.gammaln"_op,
                                   "special.expit"_op, "special.logit"_op, "special.ndtr"_op};
  return ops.contains(op) || (op == "absolute"_op && is_complex(dtype));
}

TEST(CpuLevels, EveryLoopGivesTheSameBits) {
  const int64_t n = 1237;
  for (int o = 0; o < op_count(); ++o) {
    const Op op = static_cast<Op>(o);
    if (op == "cast"_op || info(op).rule == OpRule::random || info(op).rule == OpRule::bounded ||
        info(op).rule == OpRule::sampler)
      continue;
    for (int t = 0; t < kDTypeCount; ++t) {
      const DType dtype = static_cast<DType>(t);
      Program program;
      std::vector<ValueId> args;
      std::vector<std::vector<unsigned char>> memory;
      Launch launch;
      launch.shape = {n};
      for (int k = 0; k < info(op).arity; ++k) {
        const DType in = op == "ldexp"_op && k == 1 ? DType::int32 : dtype;
        args.push_back(program.input(in));
        memory.push_back(
            awkward(in, n, static_cast<uint64_t>(100) * static_cast<uint64_t>(o) + static_cast<uint64_t>(10 * t + k)));
        launch.inputs.push_back({memory.back().data(), {itemsize(in)}});
      }
      ValueId out;
      try {
        out = program.apply(op, args);
      } catch (const std::exception&) {
        continue;  // no such loop
      }
      program.output(out);
      const int64_t size = itemsize(program.dtype(out));
      std::vector<unsigned char> first;
      for (Level level : levels()) {
        if (level == cpu::kLevels[0] && vector_math(op, dtype)) continue;
        std::vector<unsigned char> result(static_cast<size_t>(n * size));
        launch.outputs = {{result.data(), {size}}};
        run_at(level, program, launch, 1);
        if (first.empty())
          first = result;
        else
          EXPECT_EQ(difference(program.dtype(out), first, result), "")
              << info(op).name << ' ' << name(dtype) << " level v" << static_cast<int>(level) + 2;
      }
    }
  }
}

TEST(CpuLevels, CastsGiveTheSameBits) {
  const int64_t n = 517;
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to) {
      const DType source = static_cast<DType>(from), target = static_cast<DType>(to);
      std::vector<unsigned char> in = awkward(source, n, static_cast<uint64_t>(from)), first;
      Program program;
      program.output(program.cast(program.input(source), target));
      Launch launch;
      launch.shape = {n};
      launch.inputs = {{in.data(), {itemsize(source)}}};
      for (Level level : levels()) {
        std::vector<unsigned char> result(static_cast<size_t>(n * itemsize(target)));
        launch.outputs = {{result.data(), {itemsize(target)}}};
        run_at(level, program, launch, 1);
        if (first.empty()) first = result;
        EXPECT_EQ(difference(target, first, result), "") << name(source) << " to " << name(target);
      }
    }
}

TEST(CpuLevels, ReductionsGiveTheSameBitsForAnyThreadCount) {
  const int64_t rows = 1531, columns = 97;
  for (int t = 0; t < kDTypeCount; ++t) {
    const DType dtype = static_cast<DType>(t);
    std::vector<unsigned char> in(static_cast<size_t>(rows * columns * itemsize(dtype)));
    for (int64_t i = 0; i < rows * columns; ++i) {
      const double value = static_cast<double>((i * 7919) % 1013) / 37.0 - 11.0;
      unsigned char* out = in.data() + i * itemsize(dtype);
      if (is_complex(dtype))
        Scalar(std::complex<double>(value, 3 - value)).store(dtype, out);
      else
        Scalar(value).store(dtype, out);
    }
    for (int r = 0; r < reduction_count(); ++r)
      for (uint32_t mask : {1u, 2u, 3u}) {
        const Reduction reduction = static_cast<Reduction>(r);
        const DType accumulate = accumulate_dtype(reduction, dtype);
        Program program;
        std::vector<ValueId> args = {program.input(dtype)};
        if (info(reduction).has_position) args.push_back(program.index(mask == 1 ? 0 : 1));
        program.reduce(reduction, args, accumulate);
        std::vector<std::vector<unsigned char>> first;
        for (Level level : levels())
          for (int slots : {1, 3}) {
            if (slots > 1 && level != levels().back()) continue;
            std::vector<std::vector<unsigned char>> states;
            Launch launch;
            launch.shape = {rows, columns};
            launch.inputs = {{in.data(), {columns * itemsize(dtype), itemsize(dtype)}}};
            launch.reduce_axes = mask;
            for (DType field : state_dtypes(reduction, accumulate)) {
              const int64_t size = itemsize(field);
              states.emplace_back(static_cast<size_t>(rows * columns * size));
              launch.states.push_back({states.back().data(),
                                       {mask & 1   ? 0
                                        : mask & 2 ? size
                                                   : columns * size,
                                        mask & 2 ? 0 : size}});
            }
            run_at(level, program, launch, slots);
            if (first.empty()) first = states;
            EXPECT_TRUE(first == states) << info(reduction).name << ' ' << name(dtype) << " mask " << mask << " level v"
                                         << static_cast<int>(level) + 2 << " slots " << slots;
          }
      }
  }
}

}  // namespace
}  // namespace quarry::local
