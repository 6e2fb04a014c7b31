// OpenBLAS's number of threads, which is one for the whole process.
#pragma once

namespace quarry::local::cpu {

// While one lives, BLAS and LAPACK functions run in the thread that calls them: how many threads would change the bits.
// OpenBLAS's number of threads is the process's, so the host program gets its own back with the last one.
class OneThreadPerCall {
 public:
  OneThreadPerCall();
  ~OneThreadPerCall();
  OneThreadPerCall(const OneThreadPerCall&) = delete;
  OneThreadPerCall& operator=(const OneThreadPerCall&) = delete;
};

}  // namespace quarry::local::cpu
