// All of one process's arrays: NdArray, devices, and NumPy's functions by their names.
//
//   #include <quarry/local.h>
//   namespace ql = quarry::local;
//   const ql::NdArray x = ql::arange(5), y = ql::cumsum(ql::sqrt(x) + 1);
//
// The functions live in quarry::local::ops, one header per chapter in local/ops/; this header makes them members of
// quarry::local. Names that are keywords of C++ end in an underscore (delete_, bool_).
#pragma once

#include "quarry/local/device/range.h"
#include "quarry/local/kernel/kernel.h"
#include "quarry/local/memory/exec_context.h"
#include "quarry/local/memory/pools.h"
#include "quarry/local/memory/profile.h"
#include "quarry/local/memory/stream.h"
#include "quarry/local/ndarray/dlpack.h"
#include "quarry/local/ndarray/ndarray.h"
#include "quarry/local/ndarray/print.h"
#include "quarry/local/ndarray/transfer.h"
#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/fft/fft.h"
#include "quarry/local/ops/fuse/fuse.h"
#include "quarry/local/ops/fuse/fused.h"
#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/local/ops/linalg/linalg.h"
#include "quarry/local/ops/manipulation/manipulation.h"
#include "quarry/local/ops/manipulation/windows.h"
#include "quarry/local/ops/numerical/math.h"
#include "quarry/local/ops/random/random.h"
#include "quarry/local/ops/reduction/reduce.h"
#include "quarry/local/ops/scans/scans.h"
#include "quarry/local/ops/sorting/sorting.h"
#include "quarry/local/ops/statistics/statistics.h"
#include "quarry/local/ops/types/types.h"
#include "quarry/local/ops/ufunc/in_place.h"
#include "quarry/local/ops/ufunc/methods.h"
#include "quarry/local/ops/ufunc/operators.h"
#include "quarry/local/ops/ufunc/ufunc.h"
#include "quarry/local/ops/ufunc/ufuncs.h"
#include "quarry/local/program/op_enum.h"
#include "quarry/local/program/reduction_enum.h"
#include "quarry/local/sparse/sparse.h"
#include "quarry/local/tools/benchmark.h"

namespace quarry::local {

using namespace ops;

// These have relatives in quarry::local that would hide them. (promote_types is the same function in both.)
using ops::broadcast_shapes;
using ops::can_cast;
using ops::from_dlpack;
using ops::result_type;

}  // namespace quarry::local
