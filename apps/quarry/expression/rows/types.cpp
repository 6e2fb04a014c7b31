#include "local/ops/types.h"
#include "apps/quarry/expression/local_binding.h"
#include "local/ndarray/print.h"

namespace quarry::apps::expression {

std::vector<Row> types_rows() {
  return {
#define QUARRY_FUNCTION(symbol, names, signature, summary) QUARRY_BOUND_ROW(false, symbol, names, signature, summary)
#define QUARRY_METHOD(symbol, names, signature, summary) QUARRY_BOUND_ROW(true, symbol, names, signature, summary)
#include "local/ops/functions/types.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  };
}

}  // namespace quarry::apps::expression
