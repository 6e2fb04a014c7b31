#include "quarry/chunked/grid/cuts.h"

#include <iterator>
#include <set>

namespace quarry {

AxisChunks common_cuts(const AxisChunks& a, const AxisChunks& b) {
  if (a == b || b.count() == 1) return a;
  if (a.count() == 1) return b;
  std::set<int64_t> starts;
  for (const AxisChunks* axis : {&a, &b})
    for (int64_t i = 0; i <= axis->count(); ++i) starts.insert(axis->start(i));
  std::vector<int64_t> extents;
  for (auto at = starts.begin(); std::next(at) != starts.end(); ++at) extents.push_back(*std::next(at) - *at);
  return AxisChunks(extents);
}

}  // namespace quarry
