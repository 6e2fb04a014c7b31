// NumPy's dtype functions, limits of dtypes, bit packing and tests of shared memory.
#pragma once

#include <string>
#include <tuple>

#include "quarry/local/ops/arguments.h"

namespace quarry::local::ops {

// --- Casts and promotion ---------------------------------------------------------------------------------------------

// An array stands for its dtype. Throws TypeError for a literal, whose cast would depend on its value.
bool can_cast(const std::variant<DType, Arg>& from_, DType to, std::string_view casting = "safe");
DType promote_types(DType type1, DType type2);
// Literals are weak. Throws InvalidArgument for no arguments.
DType result_type(const std::vector<std::variant<DType, Arg>>& arrays_and_dtypes);
// The smallest dtype that holds a number; an array of one dimension or more has its own (blocks for a 0-d array).
DType min_scalar_type(const NdArray& a);
// Whether arg1 is arg2 or below it in NumPy's hierarchy: generic > number > integer > signedinteger, unsignedinteger;
// number > inexact > floating, complexfloating. Throws TypeError for a name that is none.
bool issubdtype(const std::variant<DType, std::string_view>& arg1, const std::variant<DType, std::string_view>& arg2);
// `kind`: dtypes or 'bool', 'signed integer', 'unsigned integer', 'integral', 'real floating', 'complex floating',
// 'numeric'. Throws InvalidArgument for another name.
using DTypeKind = std::variant<std::string_view, DType, std::vector<std::variant<std::string_view, DType>>>;
bool isdtype(DType dtype, const DTypeKind& kind);

// --- Limits ----------------------------------------------------------------------------------------------------------

// Limits of a floating point type; of a complex one those of its parts. Values have that type.
struct FloatInfo {
  int64_t bits = 0;
  DType dtype = DType::float64;
  Scalar eps, epsneg;     // distance from 1 to its neighbours above and below
  Scalar max, min, tiny;  // tiny: smallest_normal
  Scalar smallest_normal, smallest_subnormal;
  Scalar resolution;              // 10 ** -precision
  int64_t precision = 0;          // decimal digits
  int64_t machep = 0, negep = 0;  // exponents of eps and epsneg
  int64_t maxexp = 0, minexp = 0, iexp = 0, nexp = 0, nmant = 0;
  static constexpr const char* kFields[] = {"bits",
                                            "dtype",
                                            "eps",
                                            "epsneg",
                                            "max",
                                            "min",
                                            "tiny",
                                            "smallest_normal",
                                            "smallest_subnormal",
                                            "resolution",
                                            "precision",
                                            "machep",
                                            "negep",
                                            "maxexp",
                                            "minexp",
                                            "iexp",
                                            "nexp",
                                            "nmant"};
  auto tie() const {
    return std::tie(bits, dtype, eps, epsneg, max, min, tiny, smallest_normal, smallest_subnormal, resolution,
                    precision, machep, negep, maxexp, minexp, iexp, nexp, nmant);
  }
};
// Throws InvalidArgument for other types.
FloatInfo finfo(const std::variant<DType, NdArray>& dtype);

struct IntInfo {
  int64_t bits = 0;
  DType dtype = DType::int64;
  Scalar max, min;  // Python integers in NumPy: weak
  std::string kind;
  static constexpr const char* kFields[] = {"bits", "dtype", "max", "min", "kind"};
  auto tie() const { return std::tie(bits, dtype, max, min, kind); }
};
// Throws InvalidArgument for other types.
IntInfo iinfo(const std::variant<DType, NdArray>& type);

// --- Bits ------------------------------------------------------------------------------------------------------------

// Whether eight neighbours along the axis (of the raveled array without one) are non-zero as the bits of a uint8, the
// first one highest for bitorder 'big'; missing ones are 0. Throws TypeError but for bool and integers.
NdArray packbits(const NdArray& a, std::optional<int64_t> axis = std::nullopt, std::string_view bitorder = "big");
// The bits of a uint8 array; `count` of them: more are 0, a negative number is left off at the end.
NdArray unpackbits(const NdArray& a, std::optional<int64_t> axis = std::nullopt,
                   std::optional<int64_t> count = std::nullopt, std::string_view bitorder = "big");

// --- Memory ----------------------------------------------------------------------------------------------------------

// Whether a byte belongs to elements of both: exactly, by solving for the indices; with max_work 0 by address ranges.
// Throws InvalidArgument where more than `max_work` candidates (-1: any number) would have to be looked at.
bool shares_memory(const NdArray& a, const NdArray& b, int64_t max_work = -1);
bool may_share_memory(const NdArray& a, const NdArray& b, int64_t max_work = 0);

}  // namespace quarry::local::ops
