// The paths of a rank to all others.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/chunked/exec/paths/path.h"

namespace quarry::exec {

class Paths {
 public:
  // Local: paths that need a connection have none yet.
  Paths(comm::Communicator& communicator, local::Device device);

  // Connects the paths. `uses`: by name of a path, automatic for those that it does not name. Collective, blocking.
  // Throws CommError on every rank where a path is required and does not work, and where the uses differ between ranks.
  void connect(const std::map<std::string, comm::PathUse>& uses = {});

  // Finds out by trying which ranks they reach, which else shows when something is first fetched. Collective, blocking.
  void probe() const;

  // The one that a fetch goes by.
  const Path& choose(int owner, int64_t bytes, int64_t run_bytes) const;
  // The one that it goes by when the block is not where that path needs it.
  const Path& fallback(int owner, const Path& from) const;

  // Of a row of a message. Throws CommError where there is none.
  const Path& at(uint32_t row) const;
  // Throws InternalError where there is none.
  const Path& find(std::string_view name) const;
  size_t size() const { return paths_.size(); }
  // See Path::recall(): by all paths.
  void recall(const ServiceLink& link, int64_t segment) const;
  bool fills_own_memory(const Path& path) const { return path.row().fills == fills_; }

  // For people: the usable paths from that rank in order of preference, with limits and links, and why others that fill
  // this rank's memory are not.
  std::string describe(int owner) const;

 private:
  void choose_usable();

  comm::Communicator& communicator_;
  const local::Device device_;
  const Fills fills_;
  std::vector<std::unique_ptr<Path>> paths_;  // by row
  bool is_usable(int owner, size_t row) const { return (usable_[static_cast<size_t>(owner)] >> row & 1u) != 0; }
  std::vector<uint8_t> usable_;  // by owner: a bit for each row
};

}  // namespace quarry::exec
