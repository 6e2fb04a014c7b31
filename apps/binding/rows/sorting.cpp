#include "quarry/local/ops/sorting/sorting.h"

#define QUARRY_CHAPTER_ROWS sorting_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/sorting.def"
#include "quarry/apps/binding/rows/chapter.inl"
