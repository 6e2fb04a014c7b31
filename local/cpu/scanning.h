#pragma once

#include "local/program/scanning.h"

namespace quarry::local {

Scanning& cpu_scanning();

}  // namespace quarry::local
