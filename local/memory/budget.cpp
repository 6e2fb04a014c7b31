#include "quarry/local/memory/budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"

namespace quarry::local {

void Reservation::release() noexcept {
  if (budget_) budget_->give_back(bytes_);
  budget_ = nullptr;
  bytes_ = 0;
}

Reservation Reservation::split(int64_t bytes) {
  QUARRY_CHECK(bytes >= 0 && bytes <= bytes_);
  bytes_ -= bytes;
  return {budget_, bytes};
}

Reservation Budget::try_reserve(int64_t bytes) {
  QUARRY_CHECK(bytes >= 0);
  const std::lock_guard lock(mutex_);
  if (bytes > limit_ - reserved_) return {};
  reserved_ += bytes;
  peak_ = std::max(peak_, reserved_);
  return {this, bytes};
}

Reservation Budget::reserve(int64_t bytes) {
  Reservation reservation = try_reserve(bytes);
  if (!reservation) {
    throw OutOfMemory(
        fmt::format("{} memory: {} bytes do not fit: {} of {} are reserved", tier_, bytes, reserved_bytes(), limit_));
  }
  return reservation;
}

int64_t Budget::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

int64_t Budget::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void Budget::give_back(int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  reserved_ -= bytes;
}

}  // namespace quarry::local
