// The CPU engine's family of local/program/sorting.h.
#pragma once

#include "quarry/local/program/sorting.h"

namespace quarry::local {

Sorting& cpu_sorting();

}  // namespace quarry::local
