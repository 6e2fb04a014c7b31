// C++ source to code of this process by the system's compiler, cached on disk.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace quarry::local::cpu {

// What the compiler said about a source that it refused.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The source as a loaded shared object, for dlsym(); it stays as long as the process. The compiler is $CXX, else c++;
// it makes code for this processor, without contraction of a * b + c. Machine code comes from the disk cache where that
// has it whole. `options` are those of NVRTC: -D, -U, -I, --use_fast_math and --fmad=true have their meaning, others
// none. Throws Refused, NotSupported where there is no compiler, IoError. Thread-safe.
void* compile_and_load(const std::string& source, const std::vector<std::string>& options);

}  // namespace quarry::local::cpu
