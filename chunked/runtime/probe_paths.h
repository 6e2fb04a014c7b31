// Which paths between ranks work, found out by trying.
#pragma once

#include "quarry/chunked/runtime/runtime.h"

namespace quarry::exec {

// After it Runtime::describe_paths() tells what is, not what seems so from the options and the machine. Collective,
// blocking.
void probe_paths(const Runtime& runtime);

}  // namespace quarry::exec
