#include "quarry/local/ops/statistics/statistics.h"

#define QUARRY_CHAPTER_ROWS statistics_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/statistics.def"
#include "quarry/apps/binding/rows/chapter.inl"
