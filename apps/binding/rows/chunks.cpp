#include "quarry/apps/binding/chunk_functions.h"

#define QUARRY_CHAPTER_ROWS chunks_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/chunks.def"
#include "quarry/apps/binding/rows/chapter.inl"
