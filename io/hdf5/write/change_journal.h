// What is to change in a file, beside it until all of that has been done: NAME.changes.
//
// A change goes in steps, each of them on the device before the next. What lies behind the end that the superblock
// states is written; the journal gets what replaces bytes before it; the file's signature is made that of an unfinished
// one; the bytes are replaced; the signature is made whole again; the journal goes. A change that ends early is void
// where the file is marked whole, and is completed from the journal where it is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quarry/io/byte_file.h"
#include "quarry/io/hdf5/stored.h"
#include "quarry/io/hdf5/write/metadata.h"
#include "quarry/local/base/shape.h"

namespace quarry::io::hdf5 {

// Elements that wait in the journal: the box `region` of a data set, in C order from `at` on.
struct WaitingElements {
  StoredDataset stored;  // as it will be; every chunk that the box touches has its place
  local::Region region;
  int64_t at = 0;
};

struct FileChange {
  std::vector<WaitingElements> elements;
  std::vector<MetadataTarget::Patch> patches;  // in this order, after the elements
};

// Where elements may begin in a journal.
inline constexpr int64_t kJournalPageBytes = 4096;

// The journal of a file, symbolic links followed.
std::string changes_path(const std::string& target);
// The box as a data set of its own, in the journal.
StoredDataset waiting_dataset(const std::string& journal, const StoredDataset& stored, const local::Region& region,
                              int64_t at);
// Completes a journal in which the elements are already, from `end` on, and sends it to the device. Throws IoError.
void write_change(const std::string& journal, const FileChange& change, int64_t end);
// Replaces the bytes in the file, which is marked unfinished, and makes its signature whole. Throws IoError: it is then
// as before, unfinished.
void apply_change(const std::string& target, const std::string& journal, const FileChange& change);
// Keeps other processes away from an open file as long as it is open: those of quarry that change it, and those that
// have it open by the HDF5 library. False where one has it.
bool lock_for_change(int fd);

}  // namespace quarry::io::hdf5
