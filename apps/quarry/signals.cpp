#include "quarry/apps/quarry/signals.h"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <mutex>

#include "quarry/apps/quarry/failure.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/io/partial.h"
#include "quarry/io/saved_job.h"
#include "quarry/local/base/thread.h"

namespace quarry::apps {

namespace {

constexpr int kGraceSeconds = 10;

std::atomic<int> signal_received{0};
std::mutex runtime_mutex;
Runtime* watched_runtime = nullptr;

sem_t arrived;  // once per signal
std::atomic<int> latest_signal{0};

// In whichever thread the signal finds: libraries start threads before main() that block nothing.
extern "C" void on_ending_signal(int signal) {
  latest_signal = signal;
  sem_post(&arrived);
}

void wait_for_signals() {
  while (sem_wait(&arrived) != 0) {
  }
  const int signal = latest_signal;
  signal_received = signal;
  {
    const std::lock_guard lock(runtime_mutex);
    if (watched_runtime != nullptr) watched_runtime->interrupt();
  }
  // A launcher kills its ranks a second after it has asked them to end: what is done is saved, and what must not be
  // left goes, at once.
  io::flush_journals();
  io::discard_partial_files();
  {
    const std::lock_guard lock(runtime_mutex);
    if (watched_runtime == nullptr) _exit(interrupted_status(signal));  // nothing runs that would have to be ended
  }
  timespec end{};
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += kGraceSeconds;
  while (sem_timedwait(&arrived, &end) != 0 && errno == EINTR) {
  }
  _exit(interrupted_status(latest_signal));
}

}  // namespace

void start_signal_thread() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error of the write, as a full disk is
  sem_init(&arrived, /*pshared=*/0, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // as a shell starts background jobs
    struct sigaction action {};
    action.sa_handler = on_ending_signal;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
  local::start_thread("signals", wait_for_signals).detach();
}

void watch_runtime(Runtime* runtime) {
  const std::lock_guard lock(runtime_mutex);
  watched_runtime = runtime;
  if (runtime != nullptr && signal_received != 0) runtime->interrupt();
}

int received_signal() { return signal_received; }

}  // namespace quarry::apps
