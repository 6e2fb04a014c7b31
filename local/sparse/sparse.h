// All of sparse matrices: quarry::local::sparse, with SciPy's sparse.linalg in quarry::local::sparse::linalg.
#pragma once

#include "local/sparse/arithmetic.h"
#include "local/sparse/construct.h"
#include "local/sparse/csgraph.h"
#include "local/sparse/direct.h"
#include "local/sparse/eigen.h"
#include "local/sparse/linear_operator.h"
#include "local/sparse/matrix_market.h"
#include "local/sparse/products.h"
#include "local/sparse/solvers.h"
#include "local/sparse/sparse_array.h"
