#include "tests/fuzz/targets/target.h"

namespace quarry::test {

std::span<const Target> targets() {
  static const std::vector<Target> kAll = [] {
    std::vector<Target> out;
    for (const auto& table : {hdf5_targets(), decoder_targets(), format_targets()})
      out.insert(out.end(), table.begin(), table.end());
    return out;
  }();
  return kAll;
}

}  // namespace quarry::test
