// Axes whose chunks are gone through one by one. A file of a few hundred bytes may say that it has 10^14.
#pragma once

#include <cstdint>

namespace quarry {

// Throws BudgetError where so many chunks of an axis, which are about to be listed, are too many to be listed at all.
void check_listable(int64_t chunks);

}  // namespace quarry
