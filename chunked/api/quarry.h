// Everything that programs on chunked arrays need.
#pragma once

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/blocks.h"
#include "quarry/chunked/api/creation.h"
#include "quarry/chunked/api/linalg.h"
#include "quarry/chunked/api/manipulation.h"
#include "quarry/chunked/api/random.h"
#include "quarry/chunked/api/reductions.h"
#include "quarry/chunked/api/scans.h"
#include "quarry/chunked/api/selection.h"
#include "quarry/chunked/api/settle.h"
#include "quarry/chunked/api/ufuncs.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/local/api/names.h"

namespace quarry {
using namespace names;
}  // namespace quarry
