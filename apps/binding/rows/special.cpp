#include "quarry/local/ops/special/special.h"

#include "quarry/apps/binding/local_binding.h"

namespace quarry::apps::expression {

std::vector<Row> special_rows() {
  return {
#define QUARRY_FUNCTION(symbol, names, signature, summary) QUARRY_BOUND_ROW(false, symbol, names, signature, summary)
#include "quarry/local/ops/functions/special.def"
#undef QUARRY_FUNCTION
  };
}

}  // namespace quarry::apps::expression
