#include "quarry/local/ops/creation/creation.h"
#include "quarry/local/ops/manipulation/windows.h"

#define QUARRY_CHAPTER_ROWS creation_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/creation.def"
#include "quarry/apps/binding/rows/chapter.inl"
