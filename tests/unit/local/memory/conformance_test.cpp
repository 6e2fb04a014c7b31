#include "quarry/local/memory/adaptors.h"
#include "quarry/local/memory/slab_pool.h"
#include "tests/conformance/memory_resource.h"

namespace quarry::local {
namespace {

template <class Maker>
using Kinds =
    ::testing::Types<On<Maker, DeviceKind::cpu>, On<Maker, DeviceKind::emulated>, On<Maker, DeviceKind::cuda>>;

struct FixedPool {
  static std::shared_ptr<MemoryResource> make(Device device) { return SlabPool::fixed(device, 2 * kConformanceBytes); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(FixedPool, MemoryConformance, Kinds<FixedPool>);

struct GrowingPool {
  static std::shared_ptr<MemoryResource> make(Device device) { return SlabPool::growing(device, 1 << 20); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(GrowingPool, MemoryConformance, Kinds<GrowingPool>);

struct PinnedPool {
  static std::shared_ptr<MemoryResource> make(Device device) {
    return SlabPool::pinned(device.kind, 2 * kConformanceBytes);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(PinnedPool, MemoryConformance, Kinds<PinnedPool>);

struct GrowingPinnedPool {
  static std::shared_ptr<MemoryResource> make(Device device) {
    return SlabPool::pinned(device.kind, 2 * kConformanceBytes, 1 << 20);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(GrowingPinnedPool, MemoryConformance, Kinds<GrowingPinnedPool>);

// An adaptor in front of a pool that it owns.
template <class Adaptor, class... Arguments>
std::shared_ptr<MemoryResource> stacked(Device device, Arguments... arguments) {
  struct Stack {
    std::unique_ptr<SlabPool> pool;
    std::unique_ptr<Adaptor> adaptor;
  };
  auto stack = std::make_shared<Stack>();
  stack->pool = SlabPool::growing(device, 1 << 20);
  stack->adaptor = std::make_unique<Adaptor>(*stack->pool, arguments...);
  return {stack, stack->adaptor.get()};
}

struct Limit {
  static std::shared_ptr<MemoryResource> make(Device device) {
    return stacked<LimitResource>(device, 2 * kConformanceBytes);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Limit, MemoryConformance, Kinds<Limit>);

struct Statistics {
  static std::shared_ptr<MemoryResource> make(Device device) { return stacked<StatisticsResource>(device); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Statistics, MemoryConformance, Kinds<Statistics>);

struct Hooked {
  static std::shared_ptr<MemoryResource> make(Device device) {
    struct Stack {
      std::unique_ptr<SlabPool> pool;
      MemoryHook hook;
      MemoryHookScope scope{hook};
    };
    auto stack = std::make_shared<Stack>();
    stack->pool = SlabPool::growing(device, 1 << 20);
    return {stack, stack->pool.get()};
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Hooked, MemoryConformance, Kinds<Hooked>);

struct Fault {
  static std::shared_ptr<MemoryResource> make(Device device) { return stacked<FaultResource>(device, /*fail_at=*/-1); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Fault, MemoryConformance, Kinds<Fault>);

}  // namespace
}  // namespace quarry::local
