// Ctrl-C and SIGTERM: the run in progress ends cleanly.
#pragma once

namespace quarry {
class Runtime;
}

namespace quarry::apps {

// SIGINT and SIGTERM, unless they are ignored, are handed to a thread of their own. The first one interrupts
// the Runtime that watch_runtime() named; a second one, or a run that has not ended some seconds later, ends the
// process with status 128 + signal.
void start_signal_thread();
void watch_runtime(Runtime* runtime);  // null: none any more
int received_signal();                 // 0: none

}  // namespace quarry::apps
