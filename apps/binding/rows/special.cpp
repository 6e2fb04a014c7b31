#include "quarry/local/ops/special/special.h"

#define QUARRY_CHAPTER_ROWS special_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/special.def"
#include "quarry/apps/binding/rows/chapter.inl"
