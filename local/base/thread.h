// The one way in which quarry's threads start.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "quarry/local/base/detail.h"

namespace quarry::local {

// A thread that does `work`, which must not throw. `purpose`: what the thread is for, "tasks". Throws OutOfMemory,
// with the limits of this process, where the system starts no more threads (or QUARRY_FAULT_THREADS says so).
std::thread start_thread(std::string_view purpose, std::function<void()> work);
// The same, joined by its destructor.
std::jthread start_joined_thread(std::string_view purpose, std::function<void(const std::stop_token&)> work);

// " (ulimit -v: 300 MiB of address space, ulimit -u: 200 processes and threads of this user)": the limits that this
// process has; empty without any. For errors of a system that gives no more.
std::string process_limits();

}  // namespace quarry::local
