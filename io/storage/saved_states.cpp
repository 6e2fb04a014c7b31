#include "quarry/io/saved_states.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <tuple>

#include "quarry/io/byte_file.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/storage/journal.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry::io {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& file) { return states_path(unfinished_path(file)); }

std::string data_name(const SavedFile& of) {
  const std::string state = of.state == SavedFile::kKept ? "kept" : std::to_string(of.state);
  return fmt::format("data.{}.{}.{}", of.generation, state, of.rank);
}
std::string table_name(const SavedFile& of) { return fmt::format("table.{}.{}.{}", of.generation, of.state, of.rank); }

struct Named {
  fs::path path;
  SavedFile of;
};
// The files of a folder whose names begin so.
std::vector<Named> files_of(const std::string& folder, const char* kind) {
  std::vector<Named> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    long long generation = 0, state = 0;
    int rank = 0, end = 0;
    if (std::sscanf(name.c_str(), fmt::format("{}.%lld.%lld.%d%n", kind).c_str(), &generation, &state, &rank, &end) ==
            3 &&
        end == std::ssize(name))
      found.push_back({entry.path(), {generation, state, rank}});
  }
  return found;
}

// A rank's table of one state.
struct Table {
  int32_t stage = 0, ranks = 0;
  std::vector<SavedBlock> blocks;
};
void put(ByteWriter& out, int32_t stage, int32_t ranks, std::span<const SavedBlock> blocks) {
  out.put(stage);
  out.put(ranks);
  out.put_bytes(std::as_bytes(blocks));
}
Table get(ByteReader& in) {
  Table table;
  table.stage = in.get<int32_t>();
  table.ranks = in.get<int32_t>();
  const std::span<const std::byte> bytes = in.get_bytes();
  table.blocks.resize(bytes.size() / sizeof(SavedBlock));
  std::memcpy(table.blocks.data(), bytes.data(), bytes.size());
  return table;
}

// The whole states of a folder, the last first; a damaged table makes its state one that is not whole, and is added to
// `damaged`.
std::vector<SavedState> whole_states(const std::string& folder, std::vector<Named>* damaged = nullptr) {
  std::map<std::pair<int64_t, int64_t>, std::vector<Table>> all;  // by generation and state
  std::vector<SavedState> states;
  for (const Named& table : files_of(folder, "table")) {
    const std::vector<std::string> records = read_journal(table.path.string());
    if (records.size() != 1) {
      if (damaged != nullptr) damaged->push_back(table);
      continue;
    }
    ByteReader in(records[0]);
    if (table.of.state == SavedFile::kKept) {
      Table values = get(in);
      states.push_back({values.stage, values.ranks, table.of.generation, table.of.state, std::move(values.blocks)});
      continue;
    }
    all[{table.of.generation, table.of.state}].push_back(get(in));
  }
  for (const auto& [name, tables] : all) {
    if (std::ssize(tables) != tables[0].ranks) continue;
    SavedState& state = states.emplace_back();
    std::tie(state.generation, state.state) = name;
    state.stage = tables[0].stage;
    state.ranks = tables[0].ranks;
    for (const Table& table : tables) state.blocks.insert(state.blocks.end(), table.blocks.begin(), table.blocks.end());
  }
  std::ranges::reverse(states);
  return states;
}

void remove_unneeded(const std::string& folder) {
  constexpr int kStatesKept = 2;  // of each stage
  std::map<int32_t, int> count;
  std::set<std::pair<int64_t, int64_t>> kept;
  std::set<SavedFile> named;
  std::pair<int64_t, int64_t> last{-1, -1};
  for (const SavedState& state : whole_states(folder)) {
    last = std::max(last, {state.generation, state.state});
    if (state.state != SavedFile::kKept && ++count[state.stage] > kStatesKept) continue;
    kept.insert({state.generation, state.state});
    for (const SavedBlock& block : state.blocks)
      if (block.has_data()) named.insert(block.file);
  }
  std::error_code error;
  // What is behind the last whole state is being written, and all that its run keeps.
  const auto is_old = [&](const SavedFile& of) {
    return of.generation < last.first ||
           (of.generation == last.first && of.state != SavedFile::kKept && of.state < last.second);
  };
  for (const Named& table : files_of(folder, "table"))
    if (is_old(table.of) && !kept.contains({table.of.generation, table.of.state})) fs::remove(table.path, error);
  for (const Named& data : files_of(folder, "data"))
    if (is_old(data.of) && !named.contains(data.of)) fs::remove(data.path, error);
}

}  // namespace

StateWriter::StateWriter(const std::string& file, int64_t generation, int rank, int ranks)
    : folder_(folder_of(file)), generation_(generation), rank_(rank), ranks_(ranks) {}
StateWriter::~StateWriter() = default;

void StateWriter::Part::put(std::span<const std::byte> bytes) {
  file_->write_at(block_.offset + block_.bytes, bytes);
  block_.bytes += std::ssize(bytes);
  block_.sum = checksum(block_.sum, bytes);
}

StateWriter::Part StateWriter::begin(int64_t state, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Open& open = open_[state];
  const SavedFile of{generation_, state, rank_};
  if (!open.file) {
    std::error_code error;
    fs::create_directory(folder_, error);
    open.file = std::make_shared<ByteFile>((fs::path(folder_) / data_name(of)).string(), ByteFile::Mode::create);
  }
  Part part;
  part.file_ = open.file;
  part.block_.file = of;
  part.block_.offset = open.end;
  open.end += bytes;
  return part;
}

void StateWriter::commit(int32_t stage, int64_t state, std::span<const SavedBlock> blocks) {
  std::vector<std::shared_ptr<const ByteFile>> written;
  {
    const std::lock_guard lock(mutex_);
    for (const int64_t of : std::set<int64_t>{state, SavedFile::kKept})
      if (const auto found = open_.find(of); found != open_.end()) written.push_back(found->second.file);
    if (state != SavedFile::kKept) open_.erase(state);
  }
  for (const auto& file : written) file->sync();
  std::error_code error;
  fs::create_directory(folder_, error);
  ByteWriter out;
  put(out, stage, ranks_, blocks);
  write_durably((fs::path(folder_) / table_name({generation_, state, rank_})).string(), journal_record(out.take()));
  if (rank_ != 0) return;
  const std::lock_guard lock(remove_mutex_);  // a table that is being looked at stays
  remove_unneeded(folder_);
}

std::string read_saved_states(const std::string& file) {
  ByteWriter out;
  std::vector<Named> damaged;
  const std::vector<SavedState> states = whole_states(folder_of(file), &damaged);
  for (const Named& table : damaged)
    local::log(local::LogLevel::warn,
               fmt::format("the saved state {} of run {} is damaged, and an earlier one is used where there is one: "
                           "'{}' is not what was written",
                           table.of.state, table.of.generation, table.path.string()));
  for (const SavedState& state : states) {
    out.put(state.generation);
    out.put(state.state);
    put(out, state.stage, state.ranks, state.blocks);
  }
  return out.take();
}

std::vector<SavedState> saved_states(const std::string& bytes) {
  std::vector<SavedState> states;
  for (ByteReader in(bytes); in.left() > 0;) {
    SavedState& state = states.emplace_back();
    state.generation = in.get<int64_t>();
    state.state = in.get<int64_t>();
    Table table = get(in);
    state.stage = table.stage;
    state.ranks = table.ranks;
    state.blocks = std::move(table.blocks);
  }
  return states;
}

int64_t next_generation(const std::string& file) {
  int64_t next = 0;
  for (const char* kind : {"data", "table"})
    for (const Named& named : files_of(folder_of(file), kind)) next = std::max(next, named.of.generation + 1);
  return next;
}

std::string saved_path(const std::string& file, const SavedFile& of) {
  return (fs::path(folder_of(file)) / data_name(of)).string();
}

bool is_intact(const std::string& file, const SavedBlock& block) {
  try {
    const ByteFile data(saved_path(file, block.file), ByteFile::Mode::read);
    if (block.offset + block.bytes > data.size()) return false;
    constexpr int64_t kPieceBytes = int64_t{1} << 20;
    std::vector<std::byte> piece(static_cast<size_t>(std::min(block.bytes, kPieceBytes)));
    uint32_t sum = 0;
    for (int64_t at = 0; at < block.bytes; at += kPieceBytes) {
      const auto part = std::span(piece).first(static_cast<size_t>(std::min(kPieceBytes, block.bytes - at)));
      data.read_at(block.offset + at, part);
      sum = checksum(sum, part);
    }
    return sum == block.sum;
  } catch (const local::IoError&) {
    return false;
  }
}

}  // namespace quarry::io
