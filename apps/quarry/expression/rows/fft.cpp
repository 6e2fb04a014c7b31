#include "local/ops/fft.h"

#include "apps/quarry/expression/local_binding.h"

namespace quarry::apps::expression {

std::vector<Row> fft_rows() {
  return {
#define QUARRY_FUNCTION(symbol, names, signature, summary) QUARRY_BOUND_ROW(false, symbol, names, signature, summary)
#include "local/ops/functions/fft.def"
#undef QUARRY_FUNCTION
  };
}

}  // namespace quarry::apps::expression
