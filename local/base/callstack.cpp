// Unwinding is the compiler's runtime library's; libbacktrace, which comes with GCC, reads symbols and DWARF. Without
// it functions are those of the dynamic symbol table and there are no lines.
#include "quarry/local/base/callstack.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unwind.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <unordered_map>

#ifdef QUARRY_HAVE_BACKTRACE
#include <backtrace.h>
#endif

namespace quarry::local {
namespace {

struct Unwinding {
  std::vector<uintptr_t>* addresses;
  int skip;
  size_t most;
};

_Unwind_Reason_Code collect(_Unwind_Context* context, void* data) {
  auto& unwinding = *static_cast<Unwinding*>(data);
  int before = 0;  // whether the address is the instruction's own and not the one after the call
  const uintptr_t address = _Unwind_GetIPInfo(context, &before);
  if (address == 0) return _URC_END_OF_STACK;
  if (unwinding.skip-- > 0) return _URC_NO_REASON;
  if (unwinding.addresses->size() == unwinding.most) return _URC_END_OF_STACK;
  unwinding.addresses->push_back(before != 0 ? address : address - 1);
  return _URC_NO_REASON;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return std::string(without_parameters(status == 0 ? text.get() : name));
}

bool is_own_file(const std::string& name) {
  constexpr std::string_view kRoot = QUARRY_SOURCE_ROOT "/";  // holds local/, chunked/ ... of this build
  const std::string file = std::filesystem::path(name).lexically_normal().string();
  if (file.find("/include/c++/") != std::string::npos || file.find("/include/quarry/") != std::string::npos)
    return true;
  std::string_view rest = file;
  if (rest.starts_with(kRoot))
    rest.remove_prefix(kRoot.size());
  else if (!rest.starts_with("../"))
    return false;
  while (rest.starts_with("../")) rest.remove_prefix(3);  // compilers behind a cache get relative paths
  for (std::string_view layer : {"local/", "comm/", "io/", "scheduler/", "chunked/"})
    if (rest.starts_with(layer)) return true;
  return false;
}

bool is_own_module(const void* base) {
  static const void* const own = [] {
    Dl_info info{};
    return dladdr(reinterpret_cast<void*>(&is_own_file), &info) != 0 ? info.dli_fbase : nullptr;
  }();
  static const bool shared = [] {  // else the library is part of its user's program
    Dl_info info{};
    return dladdr(reinterpret_cast<void*>(&is_own_file), &info) != 0 && info.dli_fname != nullptr &&
           std::filesystem::path(info.dli_fname).filename().string().starts_with("libquarry_");
  }();
  if (base == own) return shared;
  Dl_info info{};
  return dladdr(base, &info) != 0 && info.dli_fname != nullptr &&
         std::filesystem::path(info.dli_fname).filename().string().starts_with("libquarry_");
}

bool is_own_name(const std::string& function) {
  return function.starts_with("quarry::local::") || function.starts_with("std::") ||
         function.starts_with("__gnu_cxx::");
}

#ifdef QUARRY_HAVE_BACKTRACE

backtrace_state* state() {
  static backtrace_state* const made = backtrace_create_state(
      nullptr, /*threaded=*/1, [](void*, const char*, int) {}, nullptr);
  return made;
}

void ignore(void*, const char*, int) {}

// The symbol that covers the address; empty where there is none.
std::string symbol_at(uintptr_t address) {
  std::string name;
  backtrace_syminfo(
      state(), address,
      [](void* data, uintptr_t, const char* symbol, uintptr_t, uintptr_t) {
        if (symbol != nullptr) *static_cast<std::string*>(data) = demangled(symbol);
      },
      &ignore, &name);
  return name;
}

std::vector<Frame> read_frames(uintptr_t address) {
  std::vector<Frame> frames;
  backtrace_pcinfo(
      state(), address,
      [](void* data, uintptr_t, const char* file, int line, const char* function) {
        if (file == nullptr && function == nullptr) return 0;
        Frame frame;
        if (function != nullptr) frame.function = demangled(function);
        if (file != nullptr) frame.file = file;
        frame.line = line;
        static_cast<std::vector<Frame>*>(data)->push_back(std::move(frame));
        return 0;
      },
      &ignore, &frames);
  if (frames.empty()) frames.emplace_back();
  // Slim debug information has names without their namespaces; the symbol is that of the function that is not inlined.
  std::string symbol = symbol_at(address);
  if (!symbol.empty()) frames.back().function = std::move(symbol);
  return frames;
}

#else

std::vector<Frame> read_frames(uintptr_t address) {
  std::vector<Frame> frames(1);
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(address), &info) != 0 && info.dli_sname != nullptr)
    frames[0].function = demangled(info.dli_sname);
  return frames;
}

#endif

std::vector<Frame> made_frames(uintptr_t address) {
  std::vector<Frame> frames = read_frames(address);
  Dl_info info{};
  const bool known = dladdr(reinterpret_cast<void*>(address), &info) != 0 && info.dli_fname != nullptr;
  const bool own = known && is_own_module(info.dli_fbase);
  for (Frame& frame : frames) {
    if (frame.function.empty()) {
      const uintptr_t base = known ? reinterpret_cast<uintptr_t>(info.dli_fbase) : 0;
      const std::string module = known ? std::filesystem::path(info.dli_fname).filename().string() : std::string("?");
      frame.function = fmt::format("{}+{:#x}", module, address - base);
    }
    const bool header = frame.file.ends_with(".h") || frame.file.ends_with(".def");
    frame.library = own || (!frame.file.empty() && is_own_file(frame.file)) ||
                    ((frame.file.empty() || header) && is_own_name(frame.function));
  }
  return frames;
}

}  // namespace

std::vector<uintptr_t> call_stack(int skip, int most) {
  std::vector<uintptr_t> addresses;
  addresses.reserve(static_cast<size_t>(most));
  Unwinding unwinding{&addresses, skip + 1, static_cast<size_t>(most)};
  _Unwind_Backtrace(&collect, &unwinding);
  return addresses;
}

std::vector<Frame> frames_at(uintptr_t address) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::unordered_map<uintptr_t, std::vector<Frame>>;
  const std::lock_guard lock(mutex);
  const auto found = known.find(address);
  if (found != known.end()) return found->second;
  return known.emplace(address, made_frames(address)).first->second;
}

std::string_view without_parameters(std::string_view demangled) {
  std::string_view text = demangled;
  // Behind the parameters: "const", "[clone .isra.0]".
  size_t end = text.rfind(')');
  const size_t clone = text.find(" [clone");
  if (clone != std::string_view::npos) {
    text = text.substr(0, clone);
    end = text.rfind(')');
  }
  if (end == std::string_view::npos) return text;
  const std::string_view behind = text.substr(end + 1);
  if (!behind.empty() && behind != " const" && behind != " &" && behind != " &&" && behind != " const &") return text;
  int depth = 0;
  for (size_t i = end + 1; i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) return i == 0 ? text : text.substr(0, i);
  }
  return text;
}

}  // namespace quarry::local
