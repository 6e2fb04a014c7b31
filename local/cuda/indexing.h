#pragma once

#include "local/program/indexing.h"

namespace quarry::local::cuda {

Indexing& cuda_indexing();

}  // namespace quarry::local::cuda
