// What a run computes before it begins its output (sorted runs, the matrices of an iteration, numbers that it goes on
// by), saved so that a later run of the same program goes on behind it.
//
// NAME.partial.steps/ holds files of arrays, arrays.NUMBER.h5, and tables of the computations so far, calls.NUMBER,
// each written when the arrays that it names are on the device. The last two tables are kept with what they name, so
// that one may be damaged. A computation that is behind the last table has states (io/saved_states.h) of an output
// call.NUMBER there, and call.NUMBER.made says what it is.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quarry/io/saved_job.h"
#include "quarry/local/base/dtype.h"

namespace quarry::io {

// An array: its bytes, where the program has it in host memory, or where it is in a file. Neither of what nothing
// needed any more.
struct SavedResult {
  local::DType dtype = local::DType::float64;
  std::vector<std::vector<int64_t>> chunks;  // extents along each axis
  std::optional<std::string> value = {};
  int64_t file = -1;  // number of the file of arrays
  std::string object = {};
};
struct SavedCall {
  JobDescription description;
  std::vector<SavedResult> results;
};
struct SavedCalls {
  int64_t number = 0;  // of the table
  std::vector<SavedCall> calls;
  std::map<int64_t, std::vector<uint32_t>> sums;  // of the files of arrays: CRC-32 of each piece
};

// Of the output `file`. All functions throw IoError.
std::string saved_arrays_path(const std::string& file, int64_t number);
std::string saved_call_path(const std::string& file, int64_t number);

// The pieces of a file, and the checksum of one.
int64_t pieces_of(const std::string& path);
uint32_t sum_of_piece(const std::string& path, int64_t piece);

// Writes the table and removes what neither it nor the one before needs.
void save_calls(const std::string& file, const SavedCalls& calls);
// The tables that are whole, the last first, as bytes for other ranks; damaged ones are named in warnings.
std::vector<std::string> find_saved_calls(const std::string& file);
SavedCalls saved_calls(const std::string& bytes);

// A computation begins, which may save states.
void begin_call(const std::string& file, int64_t number, const JobDescription& description);
// What a call is that has states; none where there are none, or it is not known what they are of.
std::optional<JobDescription> find_begun_call(const std::string& file, int64_t number);
// A computation is done: forgotten where it has saved no states.
void end_call(const std::string& file, int64_t number);

// Whether a later run can go on with anything.
bool has_saved_calls(const std::string& file);
// Takes away all of it, the tables first: what is left of it then belongs to no run.
void remove_saved_calls(const std::string& file);

}  // namespace quarry::io
