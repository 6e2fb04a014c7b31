// quarry info --topology: which ranks run where, and how data travels between each two of them.
#pragma once

#include <string>

namespace quarry {
class Runtime;
}

namespace quarry::apps {

// The text, on rank 0; empty on the others. Collective: sends a message between each two ranks, so that connections
// exist.
std::string describe_topology(Runtime& runtime);

}  // namespace quarry::apps
