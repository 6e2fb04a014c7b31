#include "quarry/local/ops/numerical/math.h"

#define QUARRY_CHAPTER_ROWS math_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/math.def"
#include "quarry/apps/binding/rows/chapter.inl"
