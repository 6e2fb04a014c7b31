// Where the calling thread is: return addresses now, functions and source lines later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::local {

// A place in the source. Names of functions come from the symbol table and so are always there unless it was stripped;
// lines and inlined functions need debug information of the module (-g1 is enough).
struct Frame {
  std::string function;  // demangled, without its parameters; "module+0x1f" where nothing is known
  std::string file;      // empty where unknown
  int line = 0;
  bool library = false;  // quarry's own code or the C++ library's, not its caller's
};

// Addresses inside the calls that lead here, innermost first, at most `most`; the `skip` innermost are left out. Costs
// some microseconds.
std::vector<uintptr_t> call_stack(int skip = 0, int most = 64);

// The frames of one of these addresses, innermost first: more than one where functions were inlined. Thread-safe; the
// first call reads the debug information of all loaded modules.
std::vector<Frame> frames_at(uintptr_t address);

// "quarry::local::ops::sum(...) const" without the parameters: "quarry::local::ops::sum".
std::string_view without_parameters(std::string_view demangled);

}  // namespace quarry::local
