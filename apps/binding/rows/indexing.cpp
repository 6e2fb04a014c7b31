#include "quarry/local/ops/indexing/indexing.h"

#define QUARRY_CHAPTER_ROWS indexing_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/indexing.def"
#include "quarry/apps/binding/rows/chapter.inl"
