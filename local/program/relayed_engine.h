// An engine in terms of another one: each of its calls goes to one function, with the scratch that the call takes.
#pragma once

#include <functional>
#include <memory>

#include "quarry/local/program/engine.h"
#include "quarry/local/program/kernels.h"

namespace quarry::local {

// What becomes of the calls.
class Relay {
 public:
  virtual ~Relay() = default;
  virtual Engine& engine() = 0;  // the one behind, whose scratch is asked for
  // `call` makes the call in the engine behind, with copies of its arguments; it takes at most `scratch_bytes` from the
  // context that it is given.
  virtual void issue(const ExecContext& context, int64_t scratch_bytes,
                     std::function<void(const ExecContext&)> call) = 0;
  // Before a user's kernel is issued: throws what is wrong with it.
  virtual void prepare(const KernelCode&, const KernelLaunch&) {}
  virtual SparseProducts& sparse() = 0;  // which does not state all of its scratch
};

// The relay lives longer than the engine.
std::unique_ptr<Engine> make_relayed_engine(Relay& relay);

}  // namespace quarry::local
