#pragma once

#include "local/program/sorting.h"

namespace quarry::local {

Sorting& cpu_sorting();

}  // namespace quarry::local
