#include "quarry/local/ops/linalg/linalg.h"

#include "quarry/apps/binding/factor_rows.h"
#include "quarry/apps/binding/iterative_rows.h"
#include "quarry/chunked/api/matrix_functions.h"
#include "quarry/local/ops/linalg/structured.h"

#define QUARRY_CHAPTER_ROWS linalg_rows
#define QUARRY_CHAPTER_FILE "quarry/local/ops/functions/linalg.def"
#define QUARRY_CHUNKED_ROWS chunked_rows::linalg
#include "quarry/apps/binding/rows/chapter.inl"
