// The CPU engine's family of local/program/indexing.h.
#pragma once

#include "quarry/local/program/indexing.h"

namespace quarry::local {

Indexing& cpu_indexing();

}  // namespace quarry::local
