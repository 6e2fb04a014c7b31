#include "local/ops/linalg.h"
#include "apps/quarry/expression/local_binding.h"

namespace quarry::apps::expression {

std::vector<Row> linalg_rows() {
  return {
#define QUARRY_FUNCTION(symbol, names, signature, summary) QUARRY_BOUND_ROW(false, symbol, names, signature, summary)
#define QUARRY_METHOD(symbol, names, signature, summary) QUARRY_BOUND_ROW(true, symbol, names, signature, summary)
#include "local/ops/functions/linalg.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  };
}

}  // namespace quarry::apps::expression
