// Sparse matrices: the rows of local/ops/functions/sparse.def.
#include "quarry/apps/binding/both.h"
#include "quarry/apps/binding/sparse_rows.h"

namespace quarry::apps::expression {

std::vector<Row> sparse_rows() {
  constexpr Memory chunked = Memory::streams, chunked_settles = Memory::settles;
  return {
#define QUARRY_FUNCTION(symbol, where, names, signature, summary) \
  Row{false,   #symbol,                                           \
      names,   signature,                                         \
      summary, parameter_count(&chunked_rows::matrices::symbol),  \
      {},      own_handler(&chunked_rows::matrices::symbol),      \
      where},
#define QUARRY_METHOD(symbol, where, name, signature, summary) \
  QUARRY_FUNCTION(symbol, where, "sparse.csr_array." name, signature, summary)
#include "quarry/local/ops/functions/sparse.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  };
}

}  // namespace quarry::apps::expression
