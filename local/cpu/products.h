// The CPU engine's family of local/program/products.h.
#pragma once

#include "quarry/local/program/products.h"

namespace quarry::local {

Products& cpu_products();

}  // namespace quarry::local
