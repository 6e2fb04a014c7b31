#include "quarry/io/saved_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "quarry/io/storage/bytes.h"
#include "quarry/io/storage/description.h"
#include "quarry/io/storage/inflate.h"
#include "quarry/io/storage/journal.h"
#include "quarry/io/storage/replacement.h"
#include "quarry/local/base/error.h"

namespace quarry::io {

using local::Dims;

namespace {

std::atomic<int> unfinished{0};  // jobs of this process

std::string job_of(const std::string& file) { return job_path(unfinished_path(file)); }

std::string encode(const WrittenChunk& written) {
  ByteWriter out;
  constexpr bool kIsBox = false;
  out.put(kIsBox);
  out.put(written);
  return out.take();
}

std::string encode(const WrittenBox& written) {
  ByteWriter out;
  constexpr bool kIsBox = true;
  out.put(kIsBox);
  out.put(written.item);
  out.put(written.sum);
  out.put(written.generation);
  out.put_dims(written.box.start);
  out.put_dims(written.box.count);
  return out.take();
}

void decode(ByteReader in, WrittenParts& parts) {
  if (!in.get<bool>()) {
    parts.chunks.push_back(in.get<WrittenChunk>());
    return;
  }
  WrittenBox& written = parts.boxes.emplace_back();
  written.item = in.get<uint32_t>();
  written.sum = in.get<uint32_t>();
  written.generation = in.get<int64_t>();
  const Dims start = in.get_dims(), count = in.get_dims();
  written.box = local::Region::box(start, count);
}

}  // namespace

void put_description(const JobDescription& description, ByteWriter& out) {
  out.put<int64_t>(std::ssize(description));
  for (const auto& [name, value] : description) {
    out.put_string(name);
    out.put_string(value);
  }
}

JobDescription get_description(ByteReader& in) {
  JobDescription description;
  for (auto left = in.get<int64_t>(); left > 0; --left) {
    std::string name = in.get_string();
    description.emplace_back(std::move(name), in.get_string());
  }
  return description;
}

std::string saved_job_version() { return QUARRY_VERSION; }

std::optional<SavedJob> find_saved_job(const std::string& file) {
  const std::string job = job_of(file);
  if (::access(job.c_str(), F_OK) != 0 || ::access(unfinished_path(file).c_str(), F_OK) != 0) return std::nullopt;
  const std::vector<std::string> records = read_journal(job);
  if (records.size() != 1) throw local::IoError(fmt::format("'{}' is damaged: '{}' cannot be resumed", job, file));
  ByteReader in(records[0]);
  SavedJob saved;
  saved.kept = in.get_string();
  saved.description = get_description(in);
  return saved;
}

void save_job(const std::string& file, const SavedJob& job) {
  ByteWriter out;
  out.put_string(job.kept);
  put_description(job.description, out);
  write_durably(job_of(file), journal_record(out.take()));
}

void remove_saved_job(const std::string& file) { remove_job(unfinished_path(file)); }

void check_same_job(const std::string& file, const JobDescription& before, const JobDescription& now) {
  const auto fail = [&](const std::string& what) {
    throw local::InvalidArgument(fmt::format("the unfinished output '{}' is of another run: {}", file, what));
  };
  const auto value_in = [](const JobDescription& all, const std::string& name) -> const std::string* {
    const auto found = std::ranges::find(all, name, &std::pair<std::string, std::string>::first);
    return found == all.end() ? nullptr : &found->second;
  };
  for (const auto& [name, value] : now) {
    const std::string* const old = value_in(before, name);
    if (!old) fail(fmt::format("{} is {} and was not there", name, value));
    if (*old != value) fail(fmt::format("{} is {} and was {}", name, value, *old));
  }
  for (const auto& [name, value] : before)
    if (!value_in(now, name)) fail(fmt::format("{} was {} and is not there", name, value));
}

uint32_t crc32(std::span<const std::byte> bytes) { return checksum(0, bytes); }

std::string read_job_journals(const std::string& file) {
  int64_t generation = 0;
  ByteWriter records;
  for (const JournalName& journal : journals_of(job_of(file))) {
    generation = std::max(generation, journal.generation + 1);
    for (const std::string& record : read_journal(journal.path)) records.put_string(record);
  }
  ByteWriter out;
  out.put(generation);
  out.put_view(records.take());
  return out.take();
}

std::string no_job_journals(const std::string& file) {
  for (const JournalName& journal : journals_of(job_of(file))) ::unlink(journal.path.c_str());
  ByteWriter out;
  out.put<int64_t>(0);
  return out.take();
}

WrittenParts written_parts(const std::string& bytes) {
  ByteReader in(bytes);
  WrittenParts parts;
  parts.generation = in.get<int64_t>();
  while (in.left() > 0) {
    const std::span<const std::byte> record = in.get_bytes();
    decode(ByteReader({reinterpret_cast<const char*>(record.data()), record.size()}), parts);
  }
  return parts;
}

JobJournal::JobJournal(const std::string& file, int64_t generation, int rank, std::function<void()> sync)
    : journal_(std::make_unique<Journal>(fmt::format("{}.{}.{}", job_of(file), generation, rank), std::move(sync))) {
  begin_unfinished_job();
}

JobJournal::~JobJournal() = default;
void JobJournal::add(const WrittenChunk& written) { journal_->add(encode(written)); }
void JobJournal::add(const WrittenBox& written) { journal_->add(encode(written)); }
void JobJournal::flush() { journal_->flush(); }
void JobJournal::complete() { complete_unfinished_job(); }

void begin_unfinished_job() { ++unfinished; }
void complete_unfinished_job() { --unfinished; }

bool is_any_job_unfinished() { return unfinished > 0; }

}  // namespace quarry::io
