// Durations that the environment sets.
#pragma once

namespace quarry::comm {

// Of the variable `name`: seconds, at least 0; `otherwise` where it is unset or empty. Throws InvalidArgument.
double seconds_from_environment(const char* name, double otherwise);

}  // namespace quarry::comm
