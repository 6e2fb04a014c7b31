#include "quarry/local/ops/ufunc/ufuncs.h"

#define QUARRY_CHAPTER_ROWS ufuncs_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/ufuncs.def"
#include "quarry/apps/binding/rows/chapter.inl"
