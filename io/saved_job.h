// What outlives a run that ends before its output is complete: what it computes, and which parts of the output are
// written and on the device.
//
// NAME.partial.job says what the run computes, by names, and how to go on with NAME.partial. Beside it every rank has a
// journal, NAME.partial.job.GENERATION.RANK, of what it has written; a run that goes on begins a new generation. They
// are removed when the output is complete or begins anew, the journals first: no job file has journals of another job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quarry/io/output.h"

namespace quarry::io {

// What must be the same for a run to go on with another's output: names and values.
using JobDescription = std::vector<std::pair<std::string, std::string>>;

// For the description: another version may compute and save otherwise.
std::string saved_job_version();

struct SavedJob {
  JobDescription description;
  std::string kept;  // of OutputFile::keep()
};
// Of the output `file`; none where no run has kept it. Throws IoError where the job file is damaged.
std::optional<SavedJob> find_saved_job(const std::string& file);
void save_job(const std::string& file, const SavedJob& job);
void remove_saved_job(const std::string& file);
// Throws InvalidArgument with what is not the same.
void check_same_job(const std::string& file, const JobDescription& before, const JobDescription& now);

// What has been written of data set number `item`; `sum`: the CRC-32 of its bytes.
struct WrittenChunk {
  uint32_t item = 0, sum = 0;
  PlacedChunk placed;
};
struct WrittenBox {
  uint32_t item = 0, sum = 0;
  int64_t generation = 0;
  local::Region box;
};
uint32_t crc32(std::span<const std::byte> bytes);

// Chunks are many, boxes large.
struct WrittenParts {
  int64_t generation = 0;  // the next one
  std::vector<WrittenChunk> chunks;
  std::vector<WrittenBox> boxes;
};
// What the journals of an output say, as bytes for other ranks: of every journal up to the first record that is not
// whole. Throws IoError.
std::string read_job_journals(const std::string& file);
// None of a job that begins: removes journals that somebody left without their job file.
std::string no_job_journals(const std::string& file);
WrittenParts written_parts(const std::string& bytes);

class Journal;  // io/storage/journal.h

// One rank's notes of what it has written. They are on the device soon after the data: a thread of the journal's own
// sends both there, as often as that takes a small part of its time.
class JobJournal {
 public:
  // `sync`: sends all that was written before it to the device. Throws IoError.
  JobJournal(const std::string& file, int64_t generation, int rank, std::function<void()> sync);
  // Flushes; errors are logged.
  ~JobJournal();
  JobJournal(const JobJournal&) = delete;
  JobJournal& operator=(const JobJournal&) = delete;

  // Any thread. Throw the error of an earlier flush.
  void add(const WrittenChunk& written);
  void add(const WrittenBox& written);
  // Returns when every note so far is on the device. Throws IoError.
  void flush();
  // The output is complete: this process has one less that can be resumed.
  void complete();

 private:
  std::unique_ptr<Journal> journal_;
};

// All journals of this process; errors are logged. For one that has been told to end and may be killed soon.
void flush_journals() noexcept;
// Whether this process has begun outputs that are not complete and that a later run can go on with.
bool is_any_job_unfinished();
// Of a job that is more than its journals.
void begin_unfinished_job();
void complete_unfinished_job();

}  // namespace quarry::io
