// The CPU engine's family of local/program/scanning.h.
#pragma once

#include "quarry/local/program/scanning.h"

namespace quarry::local {

Scanning& cpu_scanning();

}  // namespace quarry::local
