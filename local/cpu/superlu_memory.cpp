#include "quarry/local/cpu/superlu_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "quarry/local/base/error.h"

namespace quarry::local::cpu {

namespace {

thread_local SuperLuScope* current_scope = nullptr;

// "Malloc fails for A[] at line 23 in file ./SRC/x.c".
[[noreturn]] void give_up(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  if (has("alloc") || has("ALLOC") || has("emory")) throw OutOfMemory("SuperLU ran out of memory: " + text);
  if (has("singular") || has("SINGULAR")) throw LinAlgError("a: the matrix is singular: " + text);
  throw InternalError("SuperLU: " + text);
}

}  // namespace

SuperLuScope::SuperLuScope(int64_t most_bytes)
    : outer_(current_scope),
      exceptions_(std::uncaught_exceptions()),
      left_(outer_ != nullptr ? std::min(outer_->left_, most_bytes) : most_bytes) {
  current_scope = this;
}
SuperLuScope::~SuperLuScope() {
  current_scope = outer_;
  if (std::uncaught_exceptions() <= exceptions_) return;
  for (const auto& [memory, bytes] : live_) std::free(memory);
}

void* SuperLuScope::allocate(size_t bytes) {
  if (bytes > static_cast<size_t>(left_)) return nullptr;
  // Zeros: a matrix that SuperLU left half made has null pointers then, which its destructor may free.
  void* const memory = std::calloc(1, std::max<size_t>(bytes, 1));
  if (memory == nullptr) return nullptr;
  try {
    live_.emplace(memory, static_cast<int64_t>(bytes));
  } catch (const std::bad_alloc&) {
    std::free(memory);
    return nullptr;
  }
  left_ -= static_cast<int64_t>(bytes);
  return memory;
}

void SuperLuScope::forget(void* memory) {
  const auto found = live_.find(memory);
  if (found == live_.end()) return;  // older than this scope
  left_ += found->second;
  live_.erase(found);
}

SuperLuScope* SuperLuScope::current() { return current_scope; }

}  // namespace quarry::local::cpu

using quarry::local::cpu::SuperLuScope;

// SuperLU's own names; its header is not included, whose declarations differ between versions.
extern "C" {

void superlu_abort_and_exit(const char* message);
void* superlu_malloc(size_t bytes);
void superlu_free(void* memory);

void superlu_abort_and_exit(const char* message) {
  if (SuperLuScope::current() != nullptr) quarry::local::cpu::give_up(message);
  std::fputs(message, stderr);
  std::abort();
}

void* superlu_malloc(size_t bytes) {
  SuperLuScope* const scope = SuperLuScope::current();
  return scope != nullptr ? scope->allocate(bytes) : std::malloc(bytes);
}

void superlu_free(void* memory) {
  if (SuperLuScope* const scope = SuperLuScope::current()) scope->forget(memory);
  std::free(memory);
}
}
