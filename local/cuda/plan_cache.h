// Plans of a library, kept for later calls: making one locks its key alone, and a plan that is forgotten is destroyed
// when the device is done with it, without a wait.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace quarry::local::cuda {

// What was given up while a device may still use it. Object: bool idle(), which does not wait. Thread-safe.
template <class Object>
class Retired {
 public:
  void add(std::unique_ptr<Object> object) {
    {
      const std::lock_guard lock(mutex_);
      objects_.push_back(std::move(object));
    }
    sweep();
  }
  // Destroys those that are idle.
  void sweep() {
    std::vector<std::unique_ptr<Object>> idle;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    const auto busy =
        std::partition(objects_.begin(), objects_.end(), [](const auto& object) { return !object->idle(); });
    std::move(busy, objects_.end(), std::back_inserter(idle));
    objects_.erase(busy, objects_.end());
  }
  int64_t count() {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(objects_.size());
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Object>> objects_;
};

// At most `most` plans; the one that was used least recently goes. Plan: bool idle(). Thread-safe. Outlives the plans
// that it gives away.
template <class Key, class Plan>
class PlanCache {
 public:
  explicit PlanCache(int64_t most) : most_(most) {}

  // make() is called with the key locked, and nothing else: a std::unique_ptr<Plan>. What it throws is passed on, and
  // the next call tries again.
  template <class Make>
  std::shared_ptr<Plan> get(const Key& key, Make&& make) {
    std::shared_ptr<Entry> dropped;  // its plan is retired after the lock is released
    const std::shared_ptr<Entry> entry = entry_of(key, dropped);
    const std::lock_guard lock(entry->mutex);
    if (!entry->plan) {
      retired_.sweep();
      std::unique_ptr<Plan> made = make();
      entry->plan =
          std::shared_ptr<Plan>(made.release(), [this](Plan* plan) { retired_.add(std::unique_ptr<Plan>(plan)); });
      const std::lock_guard counting(mutex_);
      ++made_;
    }
    return entry->plan;
  }
  int64_t plans() {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(entries_.size());
  }
  int64_t made() {
    const std::lock_guard lock(mutex_);
    return made_;
  }
  int64_t retired() { return retired_.count(); }

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<Plan> plan;
    uint64_t last_use = 0;
  };
  std::shared_ptr<Entry> entry_of(const Key& key, std::shared_ptr<Entry>& dropped) {
    const std::lock_guard lock(mutex_);
    auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (static_cast<int64_t>(entries_.size()) >= most_) {
        const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& x, const auto& y) {
          return x.second->last_use < y.second->last_use;
        });
        dropped = std::move(oldest->second);
        entries_.erase(oldest);
      }
      found = entries_.emplace(key, std::make_shared<Entry>()).first;
    }
    found->second->last_use = ++clock_;
    return found->second;
  }

  const int64_t most_;
  Retired<Plan> retired_;
  std::mutex mutex_;  // of what follows; held for no longer than a look-up
  std::map<Key, std::shared_ptr<Entry>> entries_;
  int64_t made_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace quarry::local::cuda
