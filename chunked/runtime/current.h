// Which Runtime is current.
#pragma once

#include "quarry/chunked/runtime/runtime.h"

namespace quarry {

// From here on the Runtime is the current one of all threads that have no RuntimeScope, until another one is made.
void make_current(Runtime& runtime);
// It is not current any more; the one before it is again. Does nothing for one that never was.
void forget(Runtime& runtime) noexcept;

}  // namespace quarry
