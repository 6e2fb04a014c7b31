#include "quarry/local/cpu/update.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>

#include "quarry/local/base/error.h"
#include "quarry/local/program/device_math.h"

namespace quarry::local::cpu {
namespace {

template <class T, class Function>
void update_each(char* array, const int64_t* offsets, const char* values, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T element, value;
    std::memcpy(&element, array + offsets[i], sizeof element);
    std::memcpy(&value, values + i * step, sizeof value);
    element = Function{}(element, value);
    std::memcpy(array + offsets[i], &element, sizeof element);
  }
}

struct Add {
  template <class T>
  T operator()(T x, T y) const {
    return fn::add(x, y);
  }
  template <class T>
  std::complex<T> operator()(std::complex<T> x, std::complex<T> y) const {
    return {x.real() + y.real(), x.imag() + y.imag()};
  }
};
struct Subtract {
  template <class T>
  T operator()(T x, T y) const {
    return fn::subtract(x, y);
  }
  template <class T>
  std::complex<T> operator()(std::complex<T> x, std::complex<T> y) const {
    return {x.real() - y.real(), x.imag() - y.imag()};
  }
};
struct Multiply {
  template <class T>
  T operator()(T x, T y) const {
    return fn::multiply(x, y);
  }
};
struct Maximum {
  template <class T>
  T operator()(T x, T y) const {
    return fn::maximum(x, y);
  }
};
struct Minimum {
  template <class T>
  T operator()(T x, T y) const {
    return fn::minimum(x, y);
  }
};

template <class T>
auto loop_of(Op op) -> void (*)(char*, const int64_t*, const char*, int64_t, int64_t) {
  constexpr bool is_real = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
  if constexpr (is_real || std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    if (op == "add"_op) return update_each<T, Add>;
    if (op == "subtract"_op) return update_each<T, Subtract>;
  }
  if constexpr (is_real) {
    if (op == "multiply"_op) return update_each<T, Multiply>;
    if (op == "maximum"_op) return update_each<T, Maximum>;
    if (op == "minimum"_op) return update_each<T, Minimum>;
  }
  return nullptr;
}

}  // namespace

Updater::Updater(const Program& program) : itemsize_(itemsize(program.input_dtype(0))) {
  QUARRY_CHECK(program.outputs().size() == 1 && program.constants().empty() && program.reductions().empty());
  const Value& result = program.values()[static_cast<size_t>(program.outputs()[0])];
  const DType dtype = program.input_dtype(0);
  QUARRY_CHECK(result.dtype == dtype);
  const bool plain = program.inputs() == 2 && program.values().size() == 3 && result.kind == Value::Kind::op &&
                     result.loop == dtype && program.input_dtype(1) == dtype && result.args[0] == 0 &&
                     result.args[1] == 1;
  if (plain) direct_ = dispatch(dtype, [&]<class T>() { return loop_of<T>(result.op); });
  if (!direct_) code_ = lower(program, loops(cpu_level()));
}

void Updater::operator()(char* array, const int64_t* offsets, const char* values, int64_t step, int64_t n) const {
  if (direct_) return direct_(array, offsets, values, step, n);
  struct alignas(16) Cell {
    char bytes[16];
  };
  std::vector<Cell> cells(code_.values.size());
  std::vector<const void*> at(code_.values.size());
  for (size_t v = 0; v < cells.size(); ++v) at[v] = &cells[v];
  const void* const result = at[static_cast<size_t>(code_.outputs[0])];
  for (int64_t i = 0; i < n; ++i) {
    char* const element = array + offsets[i];
    for (const Instruction& instruction : code_.instructions) {
      const auto out = static_cast<size_t>(instruction.out);
      const CodeValue& value = code_.values[out];
      if (instruction.loop == nullptr) {
        std::memcpy(&cells[out], value.slot == 0 ? element : values + i * step,
                    static_cast<size_t>(itemsize(value.dtype)));
        continue;
      }
      const void* args[3] = {};
      for (int k = 0; k < instruction.nargs; ++k) args[k] = at[static_cast<size_t>(instruction.args[k])];
      instruction.loop(&cells[out], args, 1);
    }
    std::memcpy(element, result, static_cast<size_t>(itemsize_));
  }
}

}  // namespace quarry::local::cpu
