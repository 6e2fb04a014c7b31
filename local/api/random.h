// Random numbers: auto rng = ql::random::default_rng(1); rng.normal(0, 1, {1000, 8}). See local/ops/random/random.h.
#pragma once

#include "quarry/local/ops/random/random.h"

namespace quarry::local::random {

using local::default_rng;
using local::Generator;
using local::MRG32k3a;
using local::MT19937;
using local::MTGP32;
using local::Philox;
using local::ScrambledSobol32;
using local::ScrambledSobol64;
using local::Sobol32;
using local::Sobol64;
using local::XORWOW;

}  // namespace quarry::local::random
