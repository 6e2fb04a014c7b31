// Whether ranks use a path between them that only some machines have.
#pragma once

#include <cstdint>

namespace quarry::comm {

// In the order of the words of the options peer_copies and device_messages.
enum class PathUse : uint8_t {
  automatic,  // where it works
  required,   // as automatic, and that it does not work where it might is an error
  off,
};

}  // namespace quarry::comm
