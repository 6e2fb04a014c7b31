// From an exception to the one line on stderr and the exit status.
#pragma once

#include <exception>
#include <string>

namespace quarry::apps {

inline constexpr int kUsageStatus = 2;    // wrong before computing starts
inline constexpr int kFailureStatus = 1;  // went wrong later
// Was told to end, and what is done is saved: the same command goes on with it (EX_TEMPFAIL of sysexits.h).
inline constexpr int kSavedStatus = 75;
// The status of a run that the signal ended: kSavedStatus, or 128 and its number.
int interrupted_status(int signal);

// The status of an error: `computing` tells whether work had begun. Interrupted runs end with kSavedStatus or 128 +
// signal.
int exit_status(const std::exception_ptr& error, bool computing);
std::string error_message(const std::exception_ptr& error);
// "quarry: error: MESSAGE" and the end of the line, for stderr; control characters are escaped.
std::string error_text(const std::string& message);
void print_error(const std::string& message);

// From now on memory that runs out, and an exception that nothing catches, end in a line of error, too: some memory is
// kept aside for it, and std::terminate() writes it.
void prepare_for_failure();

// The rank that the launcher gave this process, before MPI starts; 0 without a launcher.
int launcher_rank();
bool has_launcher();

}  // namespace quarry::apps
