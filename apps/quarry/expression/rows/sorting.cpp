#include "apps/quarry/expression/local_binding.h"
#if __has_include("local/ops/sorting.h")
#include "local/ops/sorting.h"
#endif

namespace quarry::apps::expression {

std::vector<Row> sorting_rows() {
  return {
#define QUARRY_FUNCTION(symbol, names, signature, summary) QUARRY_BOUND_ROW(false, symbol, names, signature, summary)
#define QUARRY_METHOD(symbol, names, signature, summary) QUARRY_BOUND_ROW(true, symbol, names, signature, summary)
#include "local/ops/functions/sorting.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  };
}

}  // namespace quarry::apps::expression
