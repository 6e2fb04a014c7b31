// quarry eval --local: expressions over local arrays on one device.
#pragma once

#include "quarry/apps/language/value.h"
#include "quarry/apps/quarry/eval_input.h"

namespace quarry::apps {

// Evaluates at once on this process's device and prints or stores the results; returns the exit status. Under a
// launcher, rank 0 does it and the others have nothing to do. Throws InvalidArgument for options that need a plan.
int run_local_eval(const EvalOptions& options);

// As print() of the value in Python. Blocks.
std::string display_local(const expression::Value& value);

}  // namespace quarry::apps
