// The limit of a memory tier, and reservations under it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace quarry::local {

class Budget;

// Bytes promised by a Budget; given back when it dies.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept {
    if (this != &other) {
      release();
      budget_ = std::exchange(other.budget_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~Reservation() { release(); }
  int64_t bytes() const { return bytes_; }
  explicit operator bool() const { return budget_ != nullptr; }
  void release() noexcept;
  // Takes `bytes` of this reservation, which must hold as many, into one of its own.
  Reservation split(int64_t bytes);

 private:
  friend class Budget;
  Reservation(Budget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
  Budget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

// The hard limit of one memory tier of a rank. Reserved bytes never exceed the limit. Thread-safe.
class Budget {
 public:
  Budget(std::string tier, int64_t limit_bytes) : tier_(std::move(tier)), limit_(limit_bytes) {}
  // An empty Reservation if it does not fit now.
  Reservation try_reserve(int64_t bytes);
  // Throws OutOfMemory naming tier, request, limit and reserved bytes.
  Reservation reserve(int64_t bytes);
  const std::string& tier() const { return tier_; }
  int64_t limit_bytes() const { return limit_; }
  int64_t reserved_bytes() const;
  int64_t peak_bytes() const;

 private:
  friend class Reservation;
  void give_back(int64_t bytes) noexcept;
  const std::string tier_;
  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t reserved_ = 0;
  int64_t peak_ = 0;
};

}  // namespace quarry::local
