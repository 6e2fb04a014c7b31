#include "quarry/chunked/grid/listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"
#include "quarry/local/base/sizes.h"

namespace quarry {

void check_listable(int64_t chunks) {
  constexpr int64_t kMost = int64_t{1} << 26;  // half a GiB of their extents, in less than a second
  constexpr int64_t kBytes = 128;              // of a task at least
  if (chunks <= kMost) return;
  throw local::BudgetError(
      fmt::format("the plan has at least {:.3g} tasks: an axis has {} chunks, of which at most {} are listed; larger "
                  "chunks make fewer, or take a part of the data",
                  static_cast<double>(chunks), local::format_count(chunks), local::format_count(kMost)),
      std::min(chunks, INT64_MAX / kBytes) * kBytes);
}

}  // namespace quarry
