// The way of encoded chunks from the ranks that made them into an output file.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/chunked/exec/extents.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/output.h"

namespace quarry::exec {

// Where the format lets chunks lie anywhere, every rank writes its own into room that it reserved, and the creating
// rank learns at the end where they are; where chunks are files, without either. Else it stores its own at once, and
// those of other ranks wait in spool files beside the output.
class EncodedChunks {
 public:
  // Takes note of a chunk that has been placed.
  using Note = std::function<void(size_t item, const io::PlacedChunk& placed, std::span<const std::byte> bytes)>;
  // `output`: of rank 0, null elsewhere; lives longer. Data sets whose writer does not encode come for their numbers.
  // Collective.
  EncodedChunks(comm::Communicator& communicator, io::OutputFile* output, const std::string& file,
                std::vector<std::shared_ptr<io::Writer>> writers, Note note = nullptr);
  ~EncodedChunks();
  EncodedChunks(const EncodedChunks&) = delete;
  EncodedChunks& operator=(const EncodedChunks&) = delete;

  // Any thread. Throws IoError, CommError.
  void put(size_t item, const local::Dims& chunk, std::span<const std::byte> bytes);
  // After the last put() of this rank. Throws IoError.
  void flush();
  // After all ranks' flush(): rank 0's output knows all chunks. Collective; throws on rank 0 alone where its file
  // cannot be written.
  void hand_over();

 private:
  class Spool;
  std::string spool_path(size_t item, int rank) const;
  void store_spool(size_t item, int rank);

  comm::Communicator& communicator_;
  io::OutputFile* const output_;
  const std::string file_;
  const std::vector<std::shared_ptr<io::Writer>> writers_;
  const Note note_;
  std::optional<Extents> extents_;
  std::mutex mutex_;
  std::vector<std::vector<io::PlacedChunk>> placed_;  // by item: of this rank
  std::vector<std::unique_ptr<Spool>> spools_;        // by item; null where chunks are placed
};

}  // namespace quarry::exec
