#include "quarry/chunked/exec/paths/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quarry/local/base/error.h"
#include "quarry/local/memory/policy.h"

namespace quarry::exec {

#define QUARRY_PATH(file, name, fills, buffers) \
  std::unique_ptr<Path> make_##file(const PathRow&, comm::Communicator&, local::Device);
#include "quarry/chunked/exec/paths/paths.def"
#undef QUARRY_PATH

namespace {

constexpr auto kRows = std::to_array<PathRow>({
#define QUARRY_PATH(file, name, fills, buffers) {name, Fills::fills, buffers, make_##file},
#include "quarry/chunked/exec/paths/paths.def"
#undef QUARRY_PATH
});

}  // namespace

std::span<const PathRow> path_rows() { return kRows; }

uint32_t Path::number() const { return static_cast<uint32_t>(&row_ - kRows.data()); }

void PathClient::reply(const FetchPtr& fetch, const Message& /*message*/) {
  throw local::CommError(
      fmt::format("rank {} sends a reply that path {} has no use for", fetch->owner, fetch->path->name()));
}

Paths::Paths(comm::Communicator& communicator, local::Device device)
    : communicator_(communicator),
      device_(device),
      fills_(device.kind == local::DeviceKind::cpu ? Fills::host : Fills::device) {
  for (const PathRow& row : kRows) paths_.push_back(row.make(row, communicator, device));
  choose_usable();
}

void Paths::choose_usable() {
  static_assert(kRows.size() <= 8, "a byte has a bit for each");
  usable_.assign(static_cast<size_t>(communicator_.size()), 0);
  for (size_t owner = 0; owner < usable_.size(); ++owner) {
    for (size_t row = 0; row < paths_.size(); ++row) {
      const Path& path = *paths_[row];
      if (fills_own_memory(path) && path.obstacle(static_cast<int>(owner)).empty())
        usable_[owner] = static_cast<uint8_t>(usable_[owner] | 1u << row);
    }
  }
}

void Paths::connect(const std::map<std::string, comm::PathUse>& uses) {
  for (const auto& [name, use] : uses) static_cast<void>(find(name));
  std::vector<local::DeviceKind> kinds(static_cast<size_t>(communicator_.size()));
  communicator_.all_gather(&device_.kind, sizeof device_.kind, kinds.data());
  for (const auto& path : paths_) {
    const auto use = uses.find(path->name());
    path->connect({kinds, use == uses.end() ? comm::PathUse::automatic : use->second});
  }
  choose_usable();
}

void Paths::probe() const {
  for (const auto& path : paths_) path->probe();
}

const Path& Paths::choose(int owner, int64_t bytes, int64_t run_bytes) const {
  for (size_t row = 0; row < paths_.size(); ++row) {
    const Path& path = *paths_[row];
    if (is_usable(owner, row) && path.fits(bytes, run_bytes) && path.reaches(owner)) return path;
  }
  throw local::InternalError(fmt::format("no path takes {} bytes from rank {}", bytes, owner));
}

const Path& Paths::fallback(int owner, const Path& from) const {
  for (size_t row = from.number(); row < paths_.size(); ++row)
    if (is_usable(owner, row) && !paths_[row]->needs_block_on_device()) return *paths_[row];
  throw local::InternalError(fmt::format("no path after {}", from.name()));
}

void Paths::recall(const ServiceLink& link, int64_t segment) const {
  for (const auto& path : paths_) path->recall(link, segment);
}

const Path& Paths::at(uint32_t row) const {
  if (row >= paths_.size()) throw local::CommError("a control message of another rank names no known path");
  return *paths_[row];
}

const Path& Paths::find(std::string_view name) const {
  const auto found = std::ranges::find_if(paths_, [&](const auto& path) { return path->name() == name; });
  if (found == paths_.end()) throw local::InternalError(fmt::format("no path is called {}", name));
  return **found;
}

std::string Paths::describe(int owner) const {
  std::string usable, others;
  for (const auto& path : paths_) {
    if (!fills_own_memory(*path)) continue;
    const std::string obstacle = path->obstacle(owner);
    if (!obstacle.empty()) {
      others += fmt::format("; no {}: {}", path->name(), obstacle);
      continue;
    }
    const std::string limits = path->limits();
    usable += fmt::format("{}{} ({}{}{})", usable.empty() ? "" : ", else ", path->name(), limits,
                          limits.empty() ? "" : "; ", path->link(owner));
  }
  return usable + others;
}

}  // namespace quarry::exec
