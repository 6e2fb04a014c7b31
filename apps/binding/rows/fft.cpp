#include "quarry/local/ops/fft/fft.h"

#define QUARRY_CHAPTER_ROWS fft_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/fft.def"
#include "quarry/apps/binding/rows/chapter.inl"
