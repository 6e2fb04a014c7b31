#include "quarry/local/ops/indexing/indexing.h"
#include "quarry/apps/binding/local_binding.h"

namespace quarry::apps::expression {

std::vector<Row> indexing_rows() {
  return {
#define QUARRY_FUNCTION(symbol, names, signature, summary) QUARRY_BOUND_ROW(false, symbol, names, signature, summary)
#define QUARRY_METHOD(symbol, names, signature, summary) QUARRY_BOUND_ROW(true, symbol, names, signature, summary)
#include "quarry/local/ops/functions/indexing.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  };
}

}  // namespace quarry::apps::expression
