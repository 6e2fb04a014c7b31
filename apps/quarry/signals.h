// Ctrl-C, SIGTERM and SIGHUP (the terminal has gone): the run in progress ends cleanly.
#pragma once

namespace quarry {
class Runtime;
}

namespace quarry::apps {

// SIGINT, SIGTERM and SIGHUP, unless they are ignored (nohup), are handed to a thread of their own. The first one
// interrupts the Runtime that watch_runtime() named; a second one, or a run that has not ended some seconds later, ends
// the process with status 128 + signal.
void start_signal_thread();
void watch_runtime(Runtime* runtime);  // null: none any more
int received_signal();                 // 0: none

}  // namespace quarry::apps
