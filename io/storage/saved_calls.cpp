#include "quarry/io/saved_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "quarry/io/byte_file.h"
#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/description.h"
#include "quarry/io/storage/journal.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"

namespace quarry::io {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieceBytes = int64_t{16} << 20;

fs::path folder_of(const std::string& file) { return unfinished_path(file) + ".steps"; }
fs::path table_path(const std::string& file, int64_t number) {
  return folder_of(file) / fmt::format("calls.{}", number);
}
std::string made_path(const std::string& file, int64_t number) { return saved_call_path(file, number) + ".made"; }
std::string states_of(const std::string& file, int64_t number) {
  return states_path(unfinished_path(saved_call_path(file, number)));
}

// NAME.NUMBER or NAME.NUMBER.MORE: the number.
std::optional<int64_t> number_in(const std::string& name, const char* kind) {
  long long number = 0;
  int end = 0;
  if (std::sscanf(name.c_str(), fmt::format("{}.%lld%n", kind).c_str(), &number, &end) != 1) return std::nullopt;
  if (end != std::ssize(name) && name[static_cast<size_t>(end)] != '.') return std::nullopt;
  return number;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  return entries;
}

// Numbers of tables, the last first.
std::vector<int64_t> tables_of(const std::string& file) {
  std::vector<int64_t> numbers;
  for (const fs::path& entry : entries_of(folder_of(file))) {
    const std::string name = entry.filename().string();
    const std::optional<int64_t> number = number_in(name, "calls");
    if (number && name == fmt::format("calls.{}", *number)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers, std::greater<>());
  return numbers;
}

// The only record of a file; none where it is not whole.
std::optional<std::string> record_in(const std::string& path) {
  std::vector<std::string> records = read_journal(path);
  if (records.size() != 1) return std::nullopt;
  return std::move(records[0]);
}

void put(const SavedResult& result, ByteWriter& out) {
  out.put(result.dtype);
  out.put_unsigned(result.chunks.size());
  for (const std::vector<int64_t>& extents : result.chunks) {
    out.put_unsigned(extents.size());
    for (const int64_t extent : extents) out.put_unsigned(static_cast<uint64_t>(extent));
  }
  out.put(result.value.has_value());
  if (result.value) out.put_string(*result.value);
  out.put(result.file);
  out.put_string(result.object);
}

SavedResult get_result(ByteReader& in) {
  SavedResult result;
  result.dtype = in.get<local::DType>();
  result.chunks.resize(in.get_unsigned());
  for (std::vector<int64_t>& extents : result.chunks) {
    extents.resize(in.get_unsigned());
    for (int64_t& extent : extents) extent = static_cast<int64_t>(in.get_unsigned());
  }
  if (in.get<bool>()) result.value = in.get_string();
  result.file = in.get<int64_t>();
  result.object = in.get_string();
  return result;
}

std::string bytes_of(const SavedCalls& calls) {
  ByteWriter out;
  out.put(calls.number);
  out.put_unsigned(calls.calls.size());
  for (const SavedCall& call : calls.calls) {
    put_description(call.description, out);
    out.put_unsigned(call.results.size());
    for (const SavedResult& result : call.results) put(result, out);
  }
  out.put_unsigned(calls.sums.size());
  for (const auto& [number, sums] : calls.sums) {
    out.put(number);
    out.put_bytes(std::as_bytes(std::span(sums)));
  }
  return out.take();
}

// Behind a table: what neither it nor the one before names, and what was begun before it.
void remove_unneeded(const std::string& file, const SavedCalls& last) {
  std::set<int64_t> tables{last.number}, arrays;
  const auto keep = [&](const SavedCalls& calls) {
    for (const auto& [number, sums] : calls.sums) arrays.insert(number);
  };
  keep(last);
  for (const int64_t number : tables_of(file)) {
    if (number >= last.number) continue;
    const std::optional<std::string> before = record_in(table_path(file, number));
    if (!before) continue;
    tables.insert(number);
    keep(saved_calls(*before));
    break;
  }
  std::error_code error;
  for (const fs::path& entry : entries_of(folder_of(file))) {
    const std::string name = entry.filename().string();
    const auto table = number_in(name, "calls"), of_arrays = number_in(name, "arrays"), call = number_in(name, "call");
    const bool is_needed = (table && tables.contains(*table)) || (of_arrays && arrays.contains(*of_arrays)) ||
                           (call && *call >= std::ssize(last.calls));
    if (!is_needed) fs::remove_all(entry, error);
  }
}

}  // namespace

std::string saved_arrays_path(const std::string& file, int64_t number) {
  return (folder_of(file) / fmt::format("arrays.{}.h5", number)).string();
}
std::string saved_call_path(const std::string& file, int64_t number) {
  return (folder_of(file) / fmt::format("call.{}", number)).string();
}

int64_t pieces_of(const std::string& path) {
  return (ByteFile(path, ByteFile::Mode::read).size() + kPieceBytes - 1) / kPieceBytes;
}

uint32_t sum_of_piece(const std::string& path, int64_t piece) {
  const ByteFile data(path, ByteFile::Mode::read);
  const int64_t begin = piece * kPieceBytes;
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(kPieceBytes, data.size() - begin)));
  data.read_at(begin, bytes);
  return crc32(bytes);
}

void save_calls(const std::string& file, const SavedCalls& calls) {
  std::error_code error;
  fs::create_directory(folder_of(file), error);
  write_durably(table_path(file, calls.number).string(), journal_record(bytes_of(calls)));
  remove_unneeded(file, calls);
}

std::vector<std::string> find_saved_calls(const std::string& file) {
  std::vector<std::string> found;
  for (const int64_t number : tables_of(file)) {
    std::optional<std::string> table = record_in(table_path(file, number));
    if (table)
      found.push_back(std::move(*table));
    else
      local::log(local::LogLevel::warn, fmt::format("'{}' is damaged, and what was saved before it is used",
                                                    table_path(file, number).string()));
  }
  return found;
}

SavedCalls saved_calls(const std::string& bytes) {
  ByteReader in(bytes);
  SavedCalls calls;
  calls.number = in.get<int64_t>();
  calls.calls.resize(in.get_unsigned());
  for (SavedCall& call : calls.calls) {
    call.description = get_description(in);
    call.results.resize(in.get_unsigned());
    for (SavedResult& result : call.results) result = get_result(in);
  }
  for (uint64_t left = in.get_unsigned(); left > 0; --left) {
    std::vector<uint32_t>& sums = calls.sums[in.get<int64_t>()];
    const std::span<const std::byte> of_pieces = in.get_bytes();
    sums.resize(of_pieces.size() / sizeof(uint32_t));
    std::memcpy(sums.data(), of_pieces.data(), of_pieces.size());
  }
  return calls;
}

void begin_call(const std::string& file, int64_t number, const JobDescription& description) {
  std::error_code error;
  const fs::path folder = folder_of(file);
  fs::create_directory(folder, error);
  if (error) throw local::IoError(fmt::format("cannot make '{}': {}", folder.string(), system_reason(error.value())));
  ByteWriter out;
  put_description(description, out);
  const std::string record = journal_record(out.take());
  const ByteFile made(made_path(file, number), ByteFile::Mode::create);
  made.resize(std::ssize(record));
  made.write_at(0, std::as_bytes(std::span(record)));
}

std::optional<JobDescription> find_begun_call(const std::string& file, int64_t number) {
  std::error_code error;
  if (!fs::exists(states_of(file, number), error)) return std::nullopt;
  const std::optional<std::string> made = record_in(made_path(file, number));
  if (!made) {  // it is not sent to the device: computations may be short and many
    local::log(local::LogLevel::warn,
               fmt::format("'{}' is damaged, and what was computed of it is computed again", made_path(file, number)));
    fs::remove_all(states_of(file, number), error);
    return std::nullopt;
  }
  ByteReader in(*made);
  return get_description(in);
}

void end_call(const std::string& file, int64_t number) {
  std::error_code error;
  if (!fs::exists(states_of(file, number), error)) fs::remove(made_path(file, number), error);
}

bool has_saved_calls(const std::string& file) {
  return std::ranges::any_of(entries_of(folder_of(file)), [](const fs::path& entry) {
    const std::string name = entry.filename().string();
    return number_in(name, "calls") || name.ends_with(".states");
  });
}

void remove_saved_calls(const std::string& file) {
  std::error_code error;
  for (const int64_t number : tables_of(file)) fs::remove(table_path(file, number), error);
  // What made a call stays longer than its states: else they would be taken for damaged ones.
  for (const fs::path& entry : entries_of(folder_of(file)))
    if (entry.extension() != ".made") fs::remove_all(entry, error);
  fs::remove_all(folder_of(file), error);
}

}  // namespace quarry::io
