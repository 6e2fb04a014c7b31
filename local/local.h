// All of one process's arrays: NdArray, devices, and NumPy's functions by their names.
//
//   #include <quarry/local.h>
//   namespace ql = quarry::local;
//   const ql::NdArray x = ql::linspace(0, 1, 5), y = ql::cumsum(ql::sqrt(x) + 1);
//
// The functions live in quarry::local::ops, one header per chapter in local/ops/; this header makes them members of
// quarry::local. Names that are keywords of C++ end in an underscore (delete_, bool_).
#pragma once

#include "local/device/benchmark.h"
#include "local/device/exec_context.h"
#include "local/device/range.h"
#include "local/kernel/kernel.h"
#include "local/memory/pools.h"
#include "local/memory/profile.h"
#include "local/ndarray/dlpack.h"
#include "local/ndarray/ndarray.h"
#include "local/ndarray/print.h"
#include "local/ndarray/transfer.h"
#include "local/ops/creation.h"
#include "local/ops/fft.h"
#include "local/ops/fuse.h"
#include "local/ops/fused.h"
#include "local/ops/in_place.h"
#include "local/ops/indexing.h"
#include "local/ops/linalg.h"
#include "local/ops/manipulation.h"
#include "local/ops/math.h"
#include "local/ops/random.h"
#include "local/ops/reduce.h"
#include "local/ops/scans.h"
#include "local/ops/sorting.h"
#include "local/ops/statistics.h"
#include "local/ops/types.h"
#include "local/ops/ufunc.h"
#include "local/ops/ufunc_methods.h"
#include "local/ops/ufuncs.h"
#include "local/ops/windows.h"
#include "local/sparse/sparse.h"

namespace quarry::local {

using namespace ops;

// These have relatives in quarry::local that would hide them. (promote_types is the same function in both.)
using ops::broadcast_shapes;
using ops::can_cast;
using ops::from_dlpack;
using ops::result_type;

}  // namespace quarry::local
