#include "quarry/chunked/runtime/probe_paths.h"

#include "quarry/chunked/exec/paths/paths.h"

namespace quarry::exec {

void probe_paths(const Runtime& runtime) {
  if (runtime.paths() != nullptr) runtime.paths()->probe();
}

}  // namespace quarry::exec
