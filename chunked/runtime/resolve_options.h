// What the program and the environment ask of a Runtime, looked at before anything starts.
#pragma once

#include <cstdint>
#include <string>

#include "quarry/chunked/exec/bodies/device_decoding.h"
#include "quarry/chunked/plan/stage.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/comm/path_use.h"
#include "quarry/local/base/options.h"

namespace quarry {

// What follows from the options.
struct ResolvedOptions {
  bool steals_work = true;
  bool cpu_ranks = false;  // ranks without a GPU compute on the CPU beside others
  comm::PathUse peer_copies = comm::PathUse::automatic, device_messages = comm::PathUse::automatic;
  exec::Decompress decompress = exec::Decompress::automatic;
  plan::PassNames passes_off;
  // For choose_budget(), which knows of what they are a part.
  local::OptionValue memory{local::Option::memory}, host_memory{local::Option::host_memory};
  // What must be the same on all ranks, since grids and tasks follow from it: "balance (QUARRY_BALANCE) on", a line
  // each.
  std::string alike;
};

// `alike`: as in ResolvedOptions, with a line for the same options on every rank. Throws InvalidArgument, which names
// the option and ranks, where values differ. Collective.
void agree_on_options(comm::Communicator& communicator, const std::string& alike);

// The field of `options` that is text and this option, else what the environment says, else the option's default.
local::OptionValue option_value(const RuntimeOptions& options, local::Option option);

// Fills in what the program leaves to the environment and to the options' defaults. Throws InvalidArgument, which names
// the option and who gave it, for all that this rank's environment says of how jobs run.
ResolvedOptions resolve_options(RuntimeOptions& options);

// The weight of this rank in thousandths; `otherwise` where nobody says anything. Throws InvalidArgument.
int64_t rank_weight(double otherwise);

// Logs a warning for each variable of the environment that is spelt nearly as an option, once in the process.
void warn_of_misspelt_variables();

}  // namespace quarry
