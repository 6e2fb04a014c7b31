#include "quarry/local/program/bit_generators.h"

namespace quarry::local {

const char* name(BitGenerator::Kind kind) {
  switch (kind) {
    case BitGenerator::Kind::philox:
      return "Philox";
    case BitGenerator::Kind::xorwow:
      return "XORWOW";
    case BitGenerator::Kind::mrg32k3a:
      return "MRG32k3a";
    case BitGenerator::Kind::mt19937:
      return "MT19937";
    case BitGenerator::Kind::mtgp32:
      return "MTGP32";
    case BitGenerator::Kind::sobol32:
      return "Sobol32";
    case BitGenerator::Kind::scrambled_sobol32:
      return "ScrambledSobol32";
    case BitGenerator::Kind::sobol64:
      return "Sobol64";
    case BitGenerator::Kind::scrambled_sobol64:
      return "ScrambledSobol64";
  }
  return "?";
}

}  // namespace quarry::local
