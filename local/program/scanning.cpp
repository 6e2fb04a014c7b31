#include "quarry/local/program/scanning.h"

#include <cstring>

namespace quarry::local {

Dims output_strides(const ScanLaunch& launch) {
  return launch.only_last ? contiguous_strides(launch.shape, itemsize(launch.dtype)) : launch.output.strides;
}

bool is_associative(Op op) { return info(op).grouping != OpInfo::Grouping::in_order; }

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
    case OpRule::part:
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
