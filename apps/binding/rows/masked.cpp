// Masked arrays: the rows of local/ops/functions/ma.def, one adapter for both kinds of arrays.
#include "quarry/apps/binding/masked.h"
#include "quarry/apps/binding/both.h"

namespace quarry::apps::expression {
namespace local_masked {

using namespace quarry::local::ma;
using K = quarry::local::ma::Local;
using MaskedArray = LocalMasked;
using Operand = quarry::local::ma::Operand;
using Array = NdArray;
using Tuple = local::ArrayTuple;
using local::Axes;
#include "quarry/apps/binding/rows/masked_adapters.inl"

}  // namespace local_masked
namespace chunked_masked {

using namespace quarry::ma;
using K = quarry::ma::Chunked;
using MaskedArray = ChunkedMasked;
using Operand = quarry::ma::Operand;
using Array = quarry::Array;
using Tuple = ChunkedTuple;
using local::Axes;
#include "quarry/apps/binding/rows/masked_adapters.inl"

}  // namespace chunked_masked

std::vector<Row> masked_rows() {
  constexpr Memory both = Memory::streams, both_settles = Memory::settles;
  return {
#define QUARRY_ROW(symbol, where, names, signature, summary) \
  Row{false,                                                 \
      #symbol,                                               \
      names,                                                 \
      signature,                                             \
      summary,                                               \
      parameter_count(&local_masked::symbol),                \
      bound_handler(&local_masked::symbol),                  \
      own_handler(&chunked_masked::symbol),                  \
      where},
#define QUARRY_FUNCTION QUARRY_ROW
#define QUARRY_METHOD(symbol, where, name, signature, summary) \
  QUARRY_ROW(symbol, where, "ma.MaskedArray." name, signature, summary)
#include "quarry/local/ops/functions/ma.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
#undef QUARRY_ROW
  };
}

}  // namespace quarry::apps::expression
