#include "apps/quarry/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "chunked/runtime.h"

namespace quarry::apps {

namespace {

constexpr int kGraceSeconds = 10;
constexpr int kStatusBase = 128;

std::atomic<int> signal_received{0};
std::mutex runtime_mutex;
Runtime* watched_runtime = nullptr;

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void wait_for_signals() {
  const sigset_t set = ending_signals();
  int signal = 0;
  if (sigwait(&set, &signal) != 0) return;
  signal_received = signal;
  {
    const std::lock_guard lock(runtime_mutex);
    if (watched_runtime == nullptr) _exit(kStatusBase + signal);  // nothing runs that would have to be ended
    watched_runtime->interrupt();
  }
  const timespec grace{kGraceSeconds, 0};
  const int second = sigtimedwait(&set, nullptr, &grace);
  _exit(kStatusBase + (second > 0 ? second : signal));
}

}  // namespace

void start_signal_thread() {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread(wait_for_signals).detach();
}

void watch_runtime(Runtime* runtime) {
  const std::lock_guard lock(runtime_mutex);
  watched_runtime = runtime;
  if (runtime != nullptr && signal_received != 0) runtime->interrupt();
}

int received_signal() { return signal_received; }

}  // namespace quarry::apps
