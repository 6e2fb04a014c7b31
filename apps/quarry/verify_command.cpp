// quarry verify FILE[:/OBJECT]: reads everything that a file holds and names what is damaged.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "quarry/apps/quarry/commands.h"
#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/objects.h"
#include "quarry/apps/quarry/options.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/api/sparse_files.h"
#include "quarry/io/format.h"
#include "quarry/local/sparse/matrix_market.h"

namespace quarry::apps {
namespace {

constexpr int64_t kPieceBytes = 4 << 20;

// Threads that read regions of one data set and gather what goes wrong.
class Verification {
 public:
  Verification(const io::Dataset& dataset, int threads, size_t most_errors)
      : dataset_(dataset), most_errors_(most_errors) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Verification() { finish(); }
  Verification(const Verification&) = delete;
  Verification& operator=(const Verification&) = delete;

  // Waits while enough is under way; false where more errors than are wanted were found.
  bool add(const local::Region& region) {
    constexpr size_t kAhead = 4;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < kAhead * threads_.size() || errors_.size() >= most_errors_; });
    if (errors_.size() >= most_errors_) return false;
    waiting_.push_back(region);
    ++pieces_;
    changed_.notify_all();
    return true;
  }
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  const std::vector<std::string>& errors() const { return errors_; }
  int64_t pieces() const { return pieces_; }

 private:
  void work() {
    std::vector<std::byte> data, scratch;
    for (;;) {
      local::Region region;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        region = waiting_.front();
        waiting_.pop_front();
        changed_.notify_all();
      }
      std::string error;
      try {
        scratch.resize(static_cast<size_t>(dataset_.read_scratch_bytes(region)));
        data.resize(static_cast<size_t>(region.elements() * local::itemsize(dataset_.info().dtype)));
        dataset_.read(region, data.data(), scratch);
      } catch (const std::bad_alloc&) {
        error = fmt::format("there is no memory for its chunk at {}", local::to_string(region.start));
      } catch (const std::exception& failure) {
        error = failure.what();
      }
      if (error.empty()) continue;
      const std::lock_guard lock(mutex_);
      errors_.push_back(error);
      changed_.notify_all();
    }
  }

  const io::Dataset& dataset_;
  const size_t most_errors_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<local::Region> waiting_;
  std::vector<std::string> errors_;
  std::atomic<int64_t> pieces_ = 0;
  bool done_ = false;
  std::vector<std::thread> threads_;
};

struct VerifyOptions {
  std::string target;
  int64_t threads = 0, most_errors = 1000;
};

int verify_matrix(const std::string& file) {
  const auto begin = std::chrono::steady_clock::now();
  local::sparse::mminfo(file);  // throws where it cannot be opened
  int64_t bytes = 0;
  std::string damage;
  try {
    bytes = sparse::verify_matrix_market(file);
  } catch (const local::IoError& error) {
    damage = error.what();
    fmt::print("{}\n", damage);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{}: 1 data set, {} read in {}; {}\n", file, format_bytes(bytes), format_seconds(seconds),
             damage.empty() ? "nothing is damaged" : "1 damaged");
  return damage.empty() ? 0 : kFailureStatus;
}

int verify(const VerifyOptions& options) {
  const FileObject place = parse_file_object(options.target);
  if (sparse::is_matrix_market(place.file)) return verify_matrix(place.file);
  const auto begin = std::chrono::steady_clock::now();
  const FileObjects objects = objects_of(place.file, place.object.empty() ? "/" : place.object);
  const io::Format& format = io::format_of(place.file);
  const int threads = options.threads > 0 ? static_cast<int>(options.threads)
                                          : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  int64_t damaged = 0, bytes = 0, unread = 0;
  const auto complain = [&](const std::string& path, const std::string& what) {
    const std::string named = what.find(place.file) == std::string::npos ? path + ": " + what : what;
    fmt::print("{}\n", named);
    ++damaged;
  };
  for (const auto& [path, reason] : objects.damaged) complain(path, reason);
  for (const io::DatasetInfo& info : objects.arrays) {
    std::shared_ptr<io::Dataset> dataset;
    try {
      dataset = io::Dataset::open(place.file, info.object);
    } catch (const local::IoError& error) {
      complain(info.object, error.what());
      continue;
    }
    Verification reading(*dataset, threads, static_cast<size_t>(options.most_errors));
    format.for_each_stored(*dataset, kPieceBytes, [&](const local::Region& region) { return reading.add(region); });
    reading.finish();
    std::vector<std::string> errors = reading.errors();
    std::ranges::sort(errors);
    for (const std::string& error : errors) complain(info.object, error);
    bytes += info.stored_bytes;
  }
  for (const auto& [path, reason] : objects.left_out) {
    fmt::print("{}: not read: {}\n", path, reason);
    ++unread;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{}: {} data set{}, {} read in {}{}; {}\n", place.file, objects.arrays.size(),
             objects.arrays.size() == 1 ? "" : "s", format_bytes(bytes), format_seconds(seconds),
             unread == 0 ? "" : fmt::format(", {} not read", unread),
             damaged == 0 ? "nothing is damaged" : fmt::format("{} damaged", damaged));
  return damaged == 0 ? 0 : kFailureStatus;
}

}  // namespace

RunCommand add_verify_command(CLI::App& parser) {
  CLI::App* command = parser.add_subcommand(
      "verify",
      "Read everything that a file holds, checksums of the format and of the filters too, and name what is damaged");
  command->footer("The exit status is 0 where nothing is damaged, 1 where something is, 2 where it cannot be opened.");
  const auto options = std::make_shared<VerifyOptions>();
  command->add_option("FILE[:/OBJECT]", options->target, "The file, and where to start in it")->required();
  add_integer_option(*command, "--threads", options->threads, "How many threads read [as many as cores]")
      ->type_name("N");
  add_integer_option(*command, "--most", options->most_errors,
                     "After how many damaged chunks a data set is left [1000]")
      ->type_name("N");
  return [options](int& /*argc*/, char**& /*argv*/) {
    if (options->threads < 0 || options->threads > 4096)
      throw local::InvalidArgument(fmt::format("--threads takes 1 to 4096, not {}", options->threads));
    if (options->most_errors < 1)
      throw local::InvalidArgument(fmt::format("--most takes at least 1, not {}", options->most_errors));
    return launcher_rank() == 0 ? verify(*options) : 0;
  };
}

}  // namespace quarry::apps
