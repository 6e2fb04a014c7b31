// What a run has done so far, kept in files that outlive it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "quarry/io/byte_file.h"

namespace quarry::io {

// Records of things that are on the device: a thread of its own sends what they are of there, and the records behind
// it, as often as that takes a small part of its time. Every record has a checksum.
class Journal {
 public:
  // Makes the file; replaces one of that name. `sync`: sends all that was written before it to the device. Throws
  // IoError.
  Journal(std::string path, std::function<void()> sync);
  // Ends with a last flush(), whose error is logged.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Of what has been written. Any thread. Throws the error of an earlier flush.
  void add(std::string_view record);
  // Returns when every record so far is on the device. Any thread. Throws IoError.
  void flush();

 private:
  void run();

  const std::string path_;
  const std::function<void()> sync_;
  std::unique_ptr<ByteFile> file_;
  std::mutex flush_mutex_;  // of who flushes; before mutex_
  int64_t end_ = 0;
  std::mutex mutex_;
  std::condition_variable more_;
  std::string pending_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

// A record as it is in a journal.
std::string journal_record(std::string_view record);
// The records of a file up to the first that is not whole. None where there is no file.
std::vector<std::string> read_journal(const std::string& path);

// The journals that belong to a job file: JOB.GENERATION.RANK, in order of generations.
struct JournalName {
  std::string path;
  int64_t generation = 0;
};
std::vector<JournalName> journals_of(const std::string& job);
// Removes what runs that can be resumed have kept beside an unfinished output: saved states, journals, the job file.
void remove_job(const std::string& unfinished);

// Gives a file its content as a whole: it has the old one, or none, until the new one is on the device. Throws IoError.
void write_durably(const std::string& path, std::string_view content);
// Throws IoError.
std::string read_whole(const std::string& path);

}  // namespace quarry::io
