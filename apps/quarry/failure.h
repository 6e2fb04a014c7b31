// From an exception to the one line on stderr and the exit status.
#pragma once

#include <exception>
#include <string>

namespace quarry::apps {

inline constexpr int kUsageStatus = 2;    // wrong before computing starts
inline constexpr int kFailureStatus = 1;  // went wrong later

// The status of an error: `computing` tells whether work had begun. Interrupted runs end with 128 + signal.
int exit_status(const std::exception_ptr& error, bool computing);
std::string error_message(const std::exception_ptr& error);
// "quarry: error: MESSAGE"; control characters of the first line are escaped.
void print_error(const std::string& message);

// The rank that the launcher gave this process, before MPI starts; 0 without a launcher.
int launcher_rank();
bool has_launcher();

}  // namespace quarry::apps
