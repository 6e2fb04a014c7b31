// Everything that programs on chunked arrays need.
#pragma once

#include "chunked/array.h"
#include "chunked/functions/creation.h"
#include "chunked/functions/manipulation.h"
#include "chunked/functions/reductions.h"
#include "chunked/functions/ufuncs.h"
#include "chunked/linalg/linalg.h"
#include "chunked/random/random.h"
#include "chunked/runtime.h"
