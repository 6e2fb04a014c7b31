#include "quarry/local/program/scanning.h"

#include <algorithm>
#include <cstring>

namespace quarry::local {

bool is_associative(Op op) {
  static constexpr Op kOps[] = {
      Op::add,        Op::multiply,    Op::maximum,     Op::minimum,    Op::fmax,        Op::fmin,
      Op::logical_or, Op::logical_and, Op::logical_xor, Op::bitwise_or, Op::bitwise_and, Op::bitwise_xor,
      Op::gcd,        Op::lcm,         Op::hypot,       Op::logaddexp,  Op::logaddexp2,
  };
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

bool Scanning::supports(Op op, DType dtype) {
  const OpInfo& row = info(op);
  const char letter = kind(dtype) == 'u' ? 'i' : kind(dtype);
  if (row.arity != 2 || !std::strchr(row.kinds, letter)) return false;
  switch (row.rule) {
    case OpRule::cast:
    case OpRule::random:
    case OpRule::bounded:
    case OpRule::sampler:
    case OpRule::scale:
    case OpRule::select:
      return false;
    case OpRule::double_only:
      if (dtype != DType::float64 && dtype != DType::complex128) return false;
      break;
    case OpRule::plain:
    case OpRule::no_bool:
    case OpRule::true_divide:
    case OpRule::comparison:
    case OpRule::logical:
    case OpRule::storage:
      break;
  }
  switch (row.result) {
    case OpInfo::Result::same:
      return true;
    case OpInfo::Result::boolean:
      return dtype == DType::bool_;
    case OpInfo::Result::real:
      return !is_complex(dtype);
    case OpInfo::Result::count:
    case OpInfo::Result::exponent:
      return false;
  }
  return false;
}

}  // namespace quarry::local
