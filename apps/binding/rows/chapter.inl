// The rows of a chapter: QUARRY_CHAPTER_FILE as the function QUARRY_CHAPTER_ROWS. A chapter whose functions of chunked
// arrays are in a namespace of their own defines QUARRY_CHUNKED_ROWS.
#include "quarry/apps/binding/both.h"
#include "quarry/apps/binding/chunked_rows.h"

#ifndef QUARRY_CHUNKED_ROWS
#define QUARRY_CHUNKED_ROWS chunked_rows
#endif

namespace quarry::apps::expression {

std::vector<Row> QUARRY_CHAPTER_ROWS() {
  return {
#define QUARRY_FUNCTION(symbol, where, names, signature, summary) \
  QUARRY_ROW_##where(false, symbol, names, signature, summary)
#define QUARRY_METHOD(symbol, where, names, signature, summary) \
  QUARRY_ROW_##where(true, symbol, names, signature, summary)
#include QUARRY_CHAPTER_FILE
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD
  };
}

}  // namespace quarry::apps::expression
