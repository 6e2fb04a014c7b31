#include "quarry/io/storage/trace.h"

#include <fmt/format.h>

#include <exception>

#include "quarry/local/base/trace.h"

namespace quarry::io {

TraceCall::TraceCall(const char* track, const char* what, const std::string& object, const local::Dims& start,
                     int64_t bytes, const char* detail)
    : track_(track),
      what_(what),
      object_(object),
      start_(start),
      bytes_(bytes),
      begin_ns_(local::tracing() ? local::trace_clock_ns() : 0),
      detail_(detail),
      traced_(local::tracing() && std::uncaught_exceptions() == 0) {}

TraceCall::~TraceCall() {
  if (!traced_ || std::uncaught_exceptions() > 0) return;
  try {
    local::TraceEvent event;
    event.name = fmt::format("{} {}{}", what_, object_, local::to_string(start_));
    event.track = track_;
    event.begin_ns = begin_ns_;
    event.end_ns = local::trace_clock_ns();
    event.bytes = bytes_;
    event.detail = detail_;
    local::trace(std::move(event));
  } catch (...) {  // a mark less
  }
}

}  // namespace quarry::io
