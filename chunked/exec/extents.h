// Room in an output file for what ranks write there at sizes that nobody knows before.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "quarry/comm/communicator.h"

namespace quarry::exec {

// Rank 0 gives room away. Others ask it by messages of their own, for small pieces together by slabs that grow with
// what they have taken. What a rank leaves of its slabs are holes of the file.
class Extents {
 public:
  // `reserve`: of rank 0, from any thread. Collective.
  Extents(comm::Communicator& communicator, std::function<int64_t(int64_t bytes)> reserve);
  ~Extents();
  Extents(const Extents&) = delete;
  Extents& operator=(const Extents&) = delete;

  // Where so many bytes may be written. Any thread; blocks where another rank must be asked, and throws CommError when
  // one is lost.
  int64_t take(int64_t bytes);

 private:
  struct Room {
    int64_t at, bytes;
  };
  int64_t ask(int64_t bytes);

  const int rank_;
  const std::function<int64_t(int64_t)> reserve_;
  std::unique_ptr<comm::Communicator> messages_;  // of this alone; null with one rank
  std::mutex mutex_;                              // of who takes
  std::vector<Room> rooms_;
  int64_t taken_ = 0;
  std::mutex reply_mutex_;
  std::condition_variable replied_;
  int64_t reply_ = -1;
};

}  // namespace quarry::exec
