#include "quarry/local/memory/hook.h"

#include <utility>

#include "quarry/local/base/detail.h"

namespace quarry::local {
namespace {

thread_local constinit MemoryHookScope* innermost = nullptr;

// No hooks while one runs.
class Silence {
 public:
  Silence() : saved_(std::exchange(innermost, nullptr)) {}
  ~Silence() { innermost = saved_; }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  const MemoryHookScope* saved() const { return saved_; }

 private:
  MemoryHookScope* const saved_;
};

}  // namespace

MemoryHookScope::MemoryHookScope(MemoryHook& hook) : hook_(hook), outer_(innermost) { innermost = this; }

MemoryHookScope::~MemoryHookScope() { innermost = outer_; }

bool MemoryHooks::any() { return innermost != nullptr; }

void MemoryHooks::call(Callback callback, const MemoryEvent& event) {
  const Silence silence;
  call_from(silence.saved(), callback, event);
}

void MemoryHooks::call_from(const MemoryHookScope* scope, Callback callback, const MemoryEvent& event) {
  if (scope == nullptr) return;
  call_from(scope->outer_, callback, event);
  (scope->hook_.*callback)(event);
}

}  // namespace quarry::local
