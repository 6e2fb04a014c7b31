#include "quarry/chunked/runtime/current.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "quarry/chunked/runtime/internals.h"

namespace quarry {

namespace {

std::atomic<Runtime*> latest_runtime{nullptr};
thread_local Runtime* scoped_runtime = nullptr;

// All that were made and are alive, the latest last.
class Alive {
 public:
  static Alive& instance() {
    static auto* const alive = new Alive;  // leaked: Runtimes with static lifetime may come here late
    return *alive;
  }
  void add(Runtime& runtime) {
    const std::lock_guard lock(mutex_);
    runtimes_.push_back(&runtime);
    update();
  }
  void remove(Runtime& runtime) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(runtimes_, &runtime);
    update();
  }

 private:
  void update() noexcept {
    latest_runtime = runtimes_.empty() ? nullptr : runtimes_.back();
    set_chunk_policy(runtimes_.empty() ? nullptr : &runtimes_.back()->internals().chunk_policy);
  }

  std::mutex mutex_;
  std::vector<Runtime*> runtimes_;
};

}  // namespace

void make_current(Runtime& runtime) { Alive::instance().add(runtime); }
void forget(Runtime& runtime) noexcept { Alive::instance().remove(runtime); }

Runtime& Runtime::current() {
  if (scoped_runtime != nullptr) return *scoped_runtime;
  if (Runtime* runtime = latest_runtime) return *runtime;
  // Made beside the launcher's environment, if any: a program that wants ranks makes its Runtime itself.
  static const std::unique_ptr<Runtime> only = [] {
    std::unique_ptr<Runtime> runtime = alone();
    make_current(*runtime);
    return runtime;
  }();
  return *only;
}

RuntimeScope::RuntimeScope(Runtime& runtime)
    : before_(scoped_runtime), policy_before_(scope_chunk_policy(&runtime.internals().chunk_policy)) {
  scoped_runtime = &runtime;
}

RuntimeScope::~RuntimeScope() {
  scoped_runtime = before_;
  scope_chunk_policy(policy_before_);
}

}  // namespace quarry
