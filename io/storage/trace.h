// Marks in the trace of a run for what formats read and write.
#pragma once

#include <cstdint>
#include <string>

#include "quarry/local/base/shape.h"

namespace quarry::io {

// From its making to its end, where the run is traced: "read /x(0, 0)" on the track "read" or "write".
class TraceCall {
 public:
  TraceCall(const char* track, const char* what, const std::string& object, const local::Dims& start, int64_t bytes,
            const char* detail);
  ~TraceCall();
  TraceCall(const TraceCall&) = delete;
  TraceCall& operator=(const TraceCall&) = delete;

 private:
  const char* const track_;
  const char* const what_;
  const std::string& object_;
  const local::Dims& start_;
  const int64_t bytes_, begin_ns_;
  const char* const detail_;
  const bool traced_;
};

}  // namespace quarry::io
