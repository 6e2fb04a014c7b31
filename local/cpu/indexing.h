#pragma once

#include "local/program/indexing.h"

namespace quarry::local {

Indexing& cpu_indexing();

}  // namespace quarry::local
