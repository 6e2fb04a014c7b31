// All of sparse matrices: quarry::local::sparse, with SciPy's sparse.linalg in quarry::local::sparse::linalg.
#pragma once

#include "quarry/local/sparse/arithmetic.h"
#include "quarry/local/sparse/construct.h"
#include "quarry/local/sparse/csgraph.h"
#include "quarry/local/sparse/direct.h"
#include "quarry/local/sparse/eigen.h"
#include "quarry/local/sparse/linear_operator.h"
#include "quarry/local/sparse/matrix_market.h"
#include "quarry/local/sparse/products.h"
#include "quarry/local/sparse/solvers.h"
#include "quarry/local/sparse/sparse_array.h"
#include "quarry/local/sparse/sparse_matrix.h"
