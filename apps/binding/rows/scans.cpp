#include "quarry/local/ops/scans/scans.h"

#define QUARRY_CHAPTER_ROWS scans_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/scans.def"
#include "quarry/apps/binding/rows/chapter.inl"
