// Callbacks around the calls of pools, as CuPy's MemoryHook.
#pragma once

#include <cstdint>

#include "quarry/local/device/kind.h"

namespace quarry::local {

class MemoryResource;
namespace detail {
class MemoryHooks;
}

struct MemoryEvent {
  const MemoryResource* pool = nullptr;
  Device device;                // kCpu for pinned host memory
  int64_t requested_bytes = 0;  // what the caller asked for; of the device: the size of the slab
  int64_t bytes = 0;            // what it takes from the pool or from the device
  void* data = nullptr;         // null before an allocation
};

// What happens in the thread that registered it. A hook's own allocations are not reported. Before a call a hook may
// throw, and the call fails; after an allocation too, and the memory is given back.
//
// Memory is acquired from the device while the pool is locked: those two must not call the pool.
class MemoryHook {
 public:
  MemoryHook() = default;
  virtual ~MemoryHook() = default;
  MemoryHook(const MemoryHook&) = delete;
  MemoryHook& operator=(const MemoryHook&) = delete;
  virtual void before_acquire(const MemoryEvent&) {}   // a pool takes a slab from the device (CuPy: alloc_preprocess)
  virtual void after_acquire(const MemoryEvent&) {}    // alloc_postprocess; not called where there was none to be had
  virtual void before_allocate(const MemoryEvent&) {}  // memory is taken from a pool (malloc_preprocess)
  virtual void after_allocate(const MemoryEvent&) {}   // malloc_postprocess
  virtual void before_free(const MemoryEvent&) noexcept {}  // memory is given back to a pool (free_preprocess)
  virtual void after_free(const MemoryEvent&) noexcept {}   // free_postprocess
};

// Registers a hook for the calling thread until the end of the scope. Scopes end in the reverse order, in the thread
// that began them; hooks are called in the order of registration. Costs nothing where none is registered.
class MemoryHookScope {
 public:
  explicit MemoryHookScope(MemoryHook& hook);
  ~MemoryHookScope();
  MemoryHookScope(const MemoryHookScope&) = delete;
  MemoryHookScope& operator=(const MemoryHookScope&) = delete;

 private:
  friend class detail::MemoryHooks;
  MemoryHook& hook_;
  MemoryHookScope* const outer_;
};

namespace detail {

// For pools: calls the thread's hooks.
class MemoryHooks {
 public:
  using Callback = void (MemoryHook::*)(const MemoryEvent&);
  static bool any();
  static void call(Callback callback, const MemoryEvent& event);

 private:
  static void call_from(const MemoryHookScope* scope, Callback callback, const MemoryEvent& event);
};

}  // namespace detail

}  // namespace quarry::local
