// The handlers named in functions.def.
#pragma once

#include "quarry/apps/language/function.h"
#include "quarry/chunked/api/operand.h"

namespace quarry::apps::expression {

#define QUARRY_FUNCTION(name, aliases, signature, handler) Value handler(const Arguments& args, Session& session);
#define QUARRY_METHOD(name, signature, handler) Value handler(const Arguments& args, Session& session);
#include "quarry/apps/binding/functions.def"
#undef QUARRY_FUNCTION
#undef QUARRY_METHOD

// NumPy's axis argument. Throws TypeError.
Axes to_axes(const Value& value);

}  // namespace quarry::apps::expression
