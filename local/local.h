// All of one process's arrays: NdArray, devices, and NumPy's functions by their names.
//
//   #include <quarry/local.h>
//   namespace ql = quarry::local;
//   const ql::NdArray x = ql::arange(5), y = ql::cumsum(ql::sqrt(x) + 1);
//
// The functions are in local/api/, one header per chapter; sub-namespaces are NumPy's and SciPy's: ql::linalg, ql::fft,
// ql::random, ql::ma, ql::sparse. Names that are keywords of C++ end in an underscore (delete_, bool_).
#pragma once

#include "quarry/local/api/creation.h"
#include "quarry/local/api/elementwise.h"
#include "quarry/local/api/fft.h"
#include "quarry/local/api/host.h"
#include "quarry/local/api/indexing.h"
#include "quarry/local/api/linalg.h"
#include "quarry/local/api/ma.h"
#include "quarry/local/api/manipulation.h"
#include "quarry/local/api/math.h"
#include "quarry/local/api/names.h"
#include "quarry/local/api/random.h"
#include "quarry/local/api/reductions.h"
#include "quarry/local/api/sorting.h"
#include "quarry/local/api/special.h"
#include "quarry/local/api/statistics.h"
#include "quarry/local/api/structured.h"
#include "quarry/local/api/types.h"
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
#include "quarry/local/ndarray/trial.h"
#include "quarry/local/ops/fuse/fuse.h"
#include "quarry/local/sparse/sparse.h"
#include "quarry/local/tools/benchmark.h"
