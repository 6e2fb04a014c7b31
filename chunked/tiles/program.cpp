#include "quarry/chunked/tiles/program.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "quarry/chunked/grid/chunking.h"
#include "quarry/local/base/sizes.h"

namespace quarry::tiles {
namespace {

constexpr int64_t kStep = 64;        // extents of tiles are multiples, for aligned rows
constexpr int64_t kMostTiles = 256;  // along an axis
// A budget that asks for more of them is refused instead: tasks are the third power of it.
constexpr int64_t kMostSmallTiles = 128;

int64_t rounded(int64_t extent) { return std::max<int64_t>(extent >= kStep ? extent / kStep * kStep : extent, 1); }

class FlopCounter final : public Program {
 public:
  explicit FlopCounter(const op::Call& call) : call_(call) {}
  double flops() const { return flops_; }

  Tiles argument(int number) override { return add(call_.arguments[static_cast<size_t>(number)]); }
  Tiles result(int output) override { return add(call_.outputs[static_cast<size_t>(output)]); }
  Tiles result_from(int output, int /*argument*/) override { return result(output); }
  Tiles workspace(const op::ArraySpec& spec) override { return add(spec); }
  Tiles workspace_from(int number) override { return argument(number); }
  using Program::task;
  void task(const TileKernel& kernel, std::span<const Use> uses, Parameters parameters, Urgency /*urgency*/) override {
    if (kernel.flops == nullptr) return;
    shapes_.clear();
    for (const auto& [tile, mode] : uses) {
      const Grid& grid = specs_[static_cast<size_t>(tile.matrix)].grid;
      shapes_.push_back({grid.axis(0).size(tile.row), grid.axis(1).size(tile.column)});
    }
    flops_ += flops_of(kernel, shapes_, parameters, specs_[static_cast<size_t>(uses[0].tile.matrix)].dtype);
  }

 private:
  Tiles add(const op::ArraySpec& spec) {
    specs_.push_back(spec);
    const Dims counts = spec.grid.counts();
    return {static_cast<int>(specs_.size()) - 1, counts[0], counts[1]};
  }
  const op::Call& call_;
  std::vector<op::ArraySpec> specs_;  // by matrix
  std::vector<Dims> shapes_;
  double flops_ = 0;
};

}  // namespace

double flops_of(const TileKernel& kernel, std::span<const Dims> shapes, const Parameters& parameters,
                local::DType dtype) {
  constexpr double kComplex = 4;
  if (kernel.flops == nullptr) return 0;
  return kernel.flops(shapes, parameters) * (local::is_complex(dtype) ? kComplex : 1);
}

double flops_of(const std::function<void(Program&)>& emit, const op::Call& call) {
  FlopCounter counter(call);
  emit(counter);
  return counter.flops();
}

int64_t tile_edge(int64_t n, local::DType dtype, int64_t together, int64_t room) {
  // Products of tiles of this size run at nearly the full rate of a core, or of a GPU.
  constexpr int64_t kCpuBytes = int64_t{2} << 20, kGpuBytes = int64_t{32} << 20;
  const detail::ChunkPolicy& policy = chunk_policy();
  int64_t bytes = policy.device == local::DeviceKind::cpu ? kCpuBytes : kGpuBytes;
  if (policy.target_bytes > 0) bytes = std::min(bytes, policy.target_bytes);
  const auto edge_of = [&](int64_t of_bytes) {
    const int64_t elements = of_bytes / local::itemsize(dtype);
    return rounded(static_cast<int64_t>(std::sqrt(static_cast<double>(elements))));
  };
  int64_t edge = std::max(edge_of(bytes), local::divided_up(n, kMostTiles));
  if (room > 0)
    edge =
        std::min(edge, std::max(edge_of(room / std::max<int64_t>(together, 1)), local::divided_up(n, kMostSmallTiles)));
  return std::max<int64_t>(std::min(edge, n), 1);
}

int64_t panel_width(int64_t rows, int64_t columns, local::DType dtype, int64_t together, int64_t room) {
  // Products with a panel of this width run at nearly the full rate; its own decomposition does not, and takes a part
  // of the work that grows with the width.
  constexpr int64_t kCpuColumns = 256, kGpuColumns = 512, kGpuColumnsOfLarge = 1024, kLargeRows = 24576;
  const detail::ChunkPolicy& policy = chunk_policy();
  const int64_t bytes = std::max<int64_t>(rows, 1) * local::itemsize(dtype);  // of a column
  const bool on_cpu = policy.device == local::DeviceKind::cpu;
  int64_t width = on_cpu ? kCpuColumns : rows >= kLargeRows ? kGpuColumnsOfLarge : kGpuColumns;
  if (policy.target_bytes > 0) width = std::min(width, rounded(policy.target_bytes / bytes));
  width = std::max(width, local::divided_up(columns, kMostTiles));
  if (room > 0) {
    const int64_t fits = rounded(room / std::max<int64_t>(together, 1) / bytes);
    width = std::min(width, std::max(fits, local::divided_up(columns, kMostSmallTiles)));
  }
  return std::max<int64_t>(std::min(width, columns), 1);
}

int64_t columns_at_once(int64_t count, int64_t bytes, int64_t memory) {
  const int64_t most = memory / 2 / std::max<int64_t>(bytes, 1);
  return memory == 0 || most >= count ? std::max<int64_t>(count, 1) : std::max<int64_t>(most, 1);
}

}  // namespace quarry::tiles
