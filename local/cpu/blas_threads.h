// OpenBLAS's number of threads and its buffers, which are the whole process's.
#pragma once

#include <cstdint>
#include <functional>

namespace quarry::local::cpu {

// While one lives, BLAS and LAPACK functions run in the thread that calls them: how many threads would change the bits.
// OpenBLAS's number of threads is the process's, so the host program gets its own back with the last one.
//
// OpenBLAS takes a buffer for each call at a time, and asks the system again and again until it gets it. So buffers are
// reserved here before the calls: where there are fewer than calls, calls wait for each other.
class OneThreadPerCall {
 public:
  // `calls`: how many threads call those functions at the same time on behalf of this one. Blocks while other calls
  // have all the buffers. Throws OutOfMemory where there is none at all.
  explicit OneThreadPerCall(int calls = 1);
  ~OneThreadPerCall();
  OneThreadPerCall(const OneThreadPerCall&) = delete;
  OneThreadPerCall& operator=(const OneThreadPerCall&) = delete;
  // So many threads may: at least one, and perhaps fewer than asked for.
  int calls() const { return calls_; }

 private:
  int calls_ = 1;
  int added_ = 0;  // to those that this thread had
};

// for_each_unit(), for a body that calls BLAS or LAPACK functions; on fewer threads where there are fewer buffers.
void for_each_blas_unit(int64_t units, int slots, const std::function<void(int64_t unit, int slot)>& body);

}  // namespace quarry::local::cpu
