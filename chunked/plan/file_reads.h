// What a plan reads of data sets whose chunks are decoded as a whole, and what of that it reads again: because the
// plan's chunks cut the file's, or because several inputs want the same elements.
#pragma once

#include <memory>
#include <vector>

#include "quarry/chunked/plan/stage.h"
#include "quarry/io/chunk_cache.h"
#include "quarry/io/dataset.h"

namespace quarry::plan {

struct FileReads {
  std::shared_ptr<io::Dataset> dataset;
  io::PlannedReads reads;
  // Chunks of the file, as numbers that need not be small: that are touched, each once; and each as often as a task
  // does.
  double chunks = 0, touches = 0;
  // Bytes of decoded chunks that have to be kept so that none is decoded again; 0: none is.
  double wanted_bytes = 0;

  // Stored bytes that are read again where so many decoded ones can be kept.
  double reread_bytes(double kept_bytes) const;
};

// Of each data set that has decoded_chunk_bytes(), in the order of the plan. Costs time in the number of cuts, not of
// chunks.
std::vector<FileReads> file_reads(const Plan& plan);

}  // namespace quarry::plan
