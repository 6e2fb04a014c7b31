// What is compiled once per instruction set.
#pragma once

#include "quarry/local/cpu/loops.h"

namespace quarry::local::cpu {

template <class T>
T of_level(Level level, T v2, T v3, T v4) {
  switch (level) {
    case Level::v2:
      return v2;
    case Level::v3:
      return v3;
    case Level::v4:
      return v4;
  }
  return v2;
}

}  // namespace quarry::local::cpu
