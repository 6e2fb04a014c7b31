// quarry info --memory: who gets what of each rank's memory.
#pragma once

#include <string>

namespace quarry {
class Runtime;
}

namespace quarry::apps {

// The text, on rank 0; empty on the others. Collective.
std::string describe_memory(Runtime& runtime);

}  // namespace quarry::apps
