// The names that examples of pages and headers take for granted (documents.py).
#pragma once

#include <quarry/local.h>
#include <quarry/quarry.h>

#include <iostream>
#include <utility>
#include <vector>

namespace ql = quarry::local;
namespace qy = quarry;

namespace examples {

struct Names {
  ql::NdArray x, y, z, a, b, dense;
  int n = 0, blocks = 0;
};

}  // namespace examples

void step(const ql::NdArray& x);

#define QUARRY_EXAMPLE_NAMES [[maybe_unused]] auto& [x, y, z, a, b, dense, n, blocks] = names;
