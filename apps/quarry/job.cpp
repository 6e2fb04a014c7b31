#include "quarry/apps/quarry/job.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "quarry/apps/quarry/failure.h"
#include "quarry/apps/quarry/signals.h"
#include "quarry/apps/quarry/text.h"
#include "quarry/chunked/api/nodes.h"
#include "quarry/chunked/api/sparse_files.h"
#include "quarry/chunked/report/ceilings.h"
#include "quarry/chunked/report/gather.h"
#include "quarry/chunked/report/thinning.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/machine_rates.h"
#include "quarry/chunked/runtime/resolve_options.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/comm/world/world.h"
#include "quarry/io/dataset.h"
#include "quarry/io/format.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/message.h"

namespace quarry::apps {

using local::InvalidArgument;
using local::Option;

namespace {

// As a shell would take it.
std::string command_line(int argc, char** argv) {
  std::string text = "quarry";
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word.starts_with("--dashboard-token=")) word = "--dashboard-token=...";
    if (i > 1 && std::string(argv[i - 1]) == "--dashboard-token") word = "...";
    const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\$`*?[]()<>|&;#!~{}") == std::string::npos;
    std::string quoted = word;
    for (size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 4) quoted.replace(at, 1, "'\\''");
    text += " " + (plain ? word : "'" + quoted + "'");
  }
  return text;
}

}  // namespace

Job::Job(const CommonOptions& options, int& argc, char**& argv) : Job(options) {
  bool show_progress = false;
  std::optional<DashboardOptions> dashboard;
  RuntimeOptions wanted;
  try {  // complains before anything starts
    show_progress = options_.show_progress();
    if (const local::OptionValue place = options_.value(Option::dashboard); place.is_given())
      dashboard = parse_dashboard(place, options_.value(Option::dashboard_token));
    wanted = options_.runtime();
  } catch (const local::Error&) {
    tell_others(std::current_exception(), argc, argv);
    throw;
  }
  runtime_ = std::make_unique<Runtime>(argc, argv, std::move(wanted));
  agree_on_options(runtime_->communicator(), options_.alike());
  root_ = runtime_->rank() == 0;
  watch_runtime(runtime_.get());
  if (root_) fmt::print(stderr, "quarry: {}\n", runtime_->banner());
  if (root_ && show_progress) {
    progress_ = std::make_unique<ProgressDisplay>(progress_width(options_.always_draws_bar()));
    runtime_->set_progress([this](const Progress& progress) { progress_->update(progress); });
  }
  on_root([&] { check_report_files(); });
  report_.command = command_line(argc, argv);
  report_.title = report_.command;
  report_.version = QUARRY_VERSION;
  report_.started = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
  report_.banner = runtime_->banner();
  Runtime::Internals& internals = runtime_->internals();
  constexpr size_t kLongestAttribute = 4096;
  internals.save_every = options_.value(local::Option::save_every).seconds();
  internals.provenance = {{"quarry_command", local::excerpt(report_.command, kLongestAttribute)},
                          {"quarry_version", QUARRY_VERSION}};
  internals.take_note = [this](const std::string& note) { show_note(note); };
  if (options_.plan()) {
    internals.instead_of_running = [this](const exec::Nodes& nodes, bool write, bool last) {
      plan_step(nodes, write, last);
    };
  } else if (show_progress || dashboard) {
    internals.rates = exec::known_rates(*runtime_);
  }
  if (wants_trace()) {
    // Two for reads and writes at least, one for messages, the one that starts and reports.
    constexpr size_t kOtherThreads = 6;
    const size_t threads = static_cast<size_t>(runtime_->threads()) + kOtherThreads;
    local::start_tracing(std::max(report::kMostRecorded / threads, report::kLeastKept), report::thin);
  }
  begin_ = step_begin_ = std::chrono::steady_clock::now();
  if (!dashboard) return;
  on_root([&] {
    dashboard_ = std::make_unique<Dashboard>(*dashboard, [this] { return status(); });
    fmt::print(stderr, "quarry: the run is shown at {}\n", dashboard_->url());
  });
}

namespace {

// Throws where `file`, which `what` names, cannot be made in its folder.
void check_folder(const std::string& what, const std::string& file) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(file).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  if (!std::filesystem::is_directory(directory, error)) {
    throw InvalidArgument(what + " cannot be written: there is no directory " + directory);
  }
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    throw InvalidArgument(what + " cannot be written: " + std::strerror(errno));
  }
}

}  // namespace

void Job::check_report_files() const {
  for (const Option option : {Option::trace, Option::report, Option::stats}) {
    const local::OptionValue file = options_.value(option);
    if (!file.is_given()) continue;
    const std::string what = file.source() + " " + file.text();
    std::error_code error;
    if (std::filesystem::is_directory(file.text(), error)) throw InvalidArgument(what + " is a directory");
    check_folder(what, file.text());
  }
}

DashboardStatus Job::status() {
  DashboardStatus now;
  now.title = report_.command;
  now.banner = report_.banner;
  now.ranks = runtime_->rank_progress();
  now.size = runtime_->size();
  const std::lock_guard lock(step_mutex_);
  now.step = step_;
  now.done = done_;
  now.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - step_begin_).count();
  return now;
}

Job::~Job() {
  watch_runtime(nullptr);
  dashboard_.reset();
  if (progress_) {
    runtime_->set_progress(nullptr);
    progress_->finish();
  }
}

// On the timeline of the report: from its beginning to that of the next one.
void Job::trace_step() {
  const int64_t now = local::trace_clock_ns();
  if (root_ && local::tracing() && !step_.empty()) {
    local::TraceEvent event;
    event.name = step_;
    event.track = report::kStepTrack;
    event.begin_ns = step_begin_ns_;
    event.end_ns = now;
    local::trace(std::move(event));
  }
  step_begin_ns_ = now;
}

void Job::step(const std::string& name) {
  trace_step();
  if (progress_) progress_->start(name);
  const std::lock_guard lock(step_mutex_);
  step_ = name;
  step_begin_ = std::chrono::steady_clock::now();
}

void Job::on_root(const std::function<void()>& check) {
  comm::on_rank_0(runtime_->communicator(), {"rank 0"}, [&] { check(); });
}

namespace {

// Thrown where --plan has said what it can.
struct PlanEnds {};

}  // namespace

void Job::print_plan(const std::string& title, const exec::PlanSummary& summary) {
  if (!root_) return;
  const auto print = [](const std::string& of, const exec::PlanSummary& plan) {
    fmt::print("plan of {}\n{}", of, exec::describe(plan));
    fmt::print("estimated time: {} (at the rates of this machine)\n", format_seconds(plan.seconds));
  };
  constexpr size_t kMostSteps = 8;  // that are listed; a spectrum that is divided has some hundred
  if (planned_steps_.size() <= kMostSteps)
    for (size_t i = 0; i < planned_steps_.size(); ++i)
      print(fmt::format("computation {}, before {}", i + 1, title), planned_steps_[i]);
  print(title, summary);
  if (planned_steps_.empty()) return;
  planned_steps_.push_back(summary);
  print(fmt::format("all {} computations, of which that is the last; what depends on values is guessed",
                    planned_steps_.size()),
        exec::total(planned_steps_));
}

void Job::print_plan(const std::string& title, std::span<const Array> arrays, bool write) {
  print_plan(title, exec::summarize_with_time(nodes_of(arrays), write));
}

void Job::read_inputs(const std::function<void()>& read) {
  reading_ = true;
  read();
  reading_ = false;
}

void Job::plan_step(const exec::Nodes& nodes, bool write, bool last) {
  const exec::PlanSummary summary = exec::summarize_with_time(nodes, write);
  if (!last) {
    planned_steps_.push_back(summary);
    return;
  }
  print_plan("what is computed first", summary);
  if (root_)
    fmt::print("what follows depends on its values; it may read, write and compute more, and need a larger budget\n");
  throw PlanEnds();
}

void Job::show_note(const std::string& note) {
  if (!root_ || !shown_notes_.insert(note).second) return;
  if (progress_) progress_->finish();
  fmt::print(stderr, "quarry: {}\n", note);
  note_fact("note", note);
}

void Job::warn_of_unused_chunks(std::span<const Array> inputs) const {
  const std::optional<Dims>& chunks = runtime_->options().chunks;
  if (!root_ || !chunks || inputs.empty()) return;
  if (std::ranges::any_of(inputs, [&](const Array& array) { return array.ndim() == chunks->size(); })) return;
  fmt::print(stderr,
             "quarry: chunks {} have {} {}, and no input has so many: their chunks are chosen as without them\n",
             local::to_string(*chunks), chunks->size(), chunks->size() == 1 ? "axis" : "axes");
}

void Job::note_inputs(std::span<const std::string> inputs) {
  constexpr size_t kLongestAttribute = 4096;
  if (inputs.empty()) return;
  runtime_->internals().provenance["quarry_inputs"] =
      local::excerpt(fmt::to_string(fmt::join(inputs, "\n")), kLongestAttribute);
}

namespace {

nlohmann::json statistics_json(const RunStatistics& totals, double wall_seconds) {
  nlohmann::json queues = nlohmann::json::object();
  for (int queue = 0; queue < kQueueCount; ++queue) {
    queues[queue_name(queue)] = totals.queue_busy_seconds[queue];
  }
  return {{"wall_seconds", wall_seconds},
          {"read_bytes", totals.read_bytes},
          {"decoded_bytes", totals.decoded_bytes},
          {"reread_bytes", totals.reread_bytes},
          {"direct_bytes", totals.direct_bytes},
          {"written_bytes", totals.written_bytes},
          {"spilled_bytes", totals.spilled_bytes},
          {"restored_bytes", totals.restored_bytes},
          {"communicated_bytes", totals.communicated_bytes},
          {"tasks", totals.tasks},
          {"stolen_chunks", totals.stolen_chunks},
          {"peak_device_bytes", totals.peak_device_bytes},
          {"peak_host_bytes", totals.peak_host_bytes},
          {"queues", queues}};
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw local::IoError("cannot write " + path);
}

}  // namespace

void Job::note_plan(const std::string& title, std::span<const Array> arrays, bool write) {
  if (!options_.value(Option::report).is_given() || arrays.empty()) return;
  report_.plan += title + "\n" + exec::summarize(nodes_of(arrays), write).stages;
  if (!report_.plan.ends_with('\n')) report_.plan += "\n";
}

void Job::note_fact(const std::string& name, const std::string& value) { report_.facts.emplace_back(name, value); }
void Job::note_result(report::Section section) { report_.results.push_back(std::move(section)); }

void Job::write_reports(double wall_seconds) {
  trace_step();
  report::RankTrace mine = report::rank_trace(*runtime_, local::stop_tracing());
  mine.ceilings = report::measure_ceilings(*runtime_);
  if (mine.flops > 0) {
    if (const double rate = exec::measured_flop_rate(*runtime_); rate > 0)
      mine.ceilings.push_back({std::string(report::kFlopsCeiling), rate});
  }
  std::vector<report::RankTrace> all = report::gather_traces(runtime_->communicator(), std::move(mine));
  on_root([&] {
    report_.ranks = std::move(all);
    report_.wall_seconds = wall_seconds;
    const local::OptionValue trace = options_.value(Option::trace), page = options_.value(Option::report);
    if (trace.is_given()) report::write_trace(trace.text(), report_);
    if (page.is_given()) report::write_report(page.text(), report_);
  });
}

void Job::note_reread(const RunStatistics& totals) {
  constexpr int64_t kLeastBytes = 16 << 20, kLeastPart = 20;
  if (totals.reread_bytes < std::max(kLeastBytes, totals.read_bytes / kLeastPart)) return;
  show_note(
      fmt::format("{} of the {} that were read had been read and decoded before: the file's chunks that several "
                  "tasks want did not all fit the budget; a larger --memory, or --chunks that are multiples of "
                  "the file's, may avoid that",
                  format_bytes(totals.reread_bytes), format_bytes(totals.read_bytes)));
}

void Job::finish() {
  if (progress_) progress_->finish();
  {
    const std::lock_guard lock(step_mutex_);
    done_ = true;
  }
  if (options_.plan()) return;  // nothing ran
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const RunStatistics totals = runtime_->total_statistics();  // before the ceilings are measured, which moves bytes too
  note_reread(totals);
  if (wants_trace()) write_reports(seconds);
  if (const local::OptionValue file = options_.value(Option::stats); file.is_given()) {
    on_root([&] { write_text(file.text(), statistics_json(totals, seconds).dump(2) + "\n"); });
  }
}

namespace {

int status_after_grace = 0;
std::string text_after_grace;

extern "C" void on_end_of_grace(int /*signal*/) {
  static_cast<void>(!write(STDERR_FILENO, text_after_grace.data(), text_after_grace.size()));
  _exit(status_after_grace);
}

// A rank whose peers are stuck in a call that cannot be cancelled must not wait for them for ever: the launcher ends
// the job when one process has gone. By a signal, because the error may be that no thread can be started.
void end_after_grace(int status, const std::string& unsaid, std::chrono::seconds grace) {
  status_after_grace = status;
  text_after_grace = unsaid.empty() ? "" : error_text(unsaid);
  std::signal(SIGALRM, on_end_of_grace);
  alarm(static_cast<unsigned>(grace.count()));
}

constexpr std::chrono::seconds kGrace{10}, kGraceWithoutAll{3};

}  // namespace

void tell_others(const std::exception_ptr& error, int& argc, char**& argv) {
  if (launcher_rank() == 0) return;
  end_after_grace(exit_status(error, /*computing=*/false), error_message(error), kGrace);
  comm::fail_world(&argc, &argv, error);
}

int run_job(const CommonOptions& options, int& argc, char**& argv, const std::function<int(Job&)>& body) {
  std::unique_ptr<Job> job;
  int status = 0;
  try {
    job = std::make_unique<Job>(options, argc, argv);
    status = body(*job);
    job->finish();
  } catch (const PlanEnds&) {
    status = 0;
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    status = exit_status(error, job != nullptr && job->is_computing());
    const std::string message = error_message(error);
    // The lowest rank that is there.
    std::vector<int> lost;
    if (job != nullptr) lost = job->runtime().communicator().lost_ranks();
    const auto lost_below = std::ranges::count_if(lost, [&](int r) { return r < job->runtime().rank(); });
    const bool speaks = job != nullptr ? lost_below == job->runtime().rank() : launcher_rank() == 0;
    if (job != nullptr) job->step("");  // takes the bar away
    if (speaks) print_error(message);
    end_after_grace(status, speaks ? "" : message, lost.empty() ? kGrace : kGraceWithoutAll);
    // Nothing waits for the other ranks any more, and the launcher ends them when the first has failed: the one that
    // speaks must have spoken.
    constexpr std::chrono::milliseconds kSpeaking{200};
    if (job == nullptr && !speaks && has_launcher()) std::this_thread::sleep_for(kSpeaking);
  }
  job.reset();
  return status;
}

namespace {

// Throws where the file's folder has no room for so many bytes.
void check_room(const std::string& file, double bytes) {
  const std::filesystem::path parent = std::filesystem::path(file).parent_path();
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(parent.empty() ? "." : parent, error);
  if (error || bytes <= static_cast<double>(space.available)) return;
  throw local::IoError(fmt::format("cannot write '{}': no space left on device: {} are needed, {} free", file,
                                   local::format_bytes(static_cast<int64_t>(std::min(bytes, 9e18))),
                                   local::format_bytes(static_cast<int64_t>(space.available))));
}

}  // namespace

void check_output(const std::string& file, std::span<const std::string> objects, bool overwrite, double bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  const bool is_folder = fs::is_directory(status);
  if (is_folder && !io::is_known_folder(file)) throw InvalidArgument("the output " + file + " is a directory");
  if (!fs::exists(status)) {
    check_folder("the output " + file, file);
    check_room(file, bytes);
    return;
  }
  if (const io::Format& format = io::format_to_write(file); !is_folder && format.has_chunk_files())
    throw InvalidArgument(fmt::format("the output {} is a file, and one of {} is a folder", file, format.name()));
  // The file, or folder, is replaced by another one beside it.
  fs::path target = fs::canonical(file, error);
  if (error) target = file;
  const std::string directory = target.has_parent_path() ? target.parent_path().string() : ".";
  if (access(file.c_str(), R_OK | W_OK | (is_folder ? X_OK : 0)) != 0 || access(directory.c_str(), W_OK | X_OK) != 0) {
    throw InvalidArgument("the output " + file + " cannot be written: " + std::strerror(errno));
  }
  check_room(target.string(), bytes);
  if (sparse::is_matrix_market(file)) {  // which is one matrix, whatever it is called
    if (!overwrite) throw InvalidArgument("the output " + file + " exists; --overwrite replaces it");
    return;
  }
  std::set<std::string> existing, groups;
  for (const io::ObjectInfo& object : io::list_objects(file)) {
    (object.is_group ? groups : existing).insert(object.path);
  }
  for (const std::string& object : objects) {
    if (groups.contains(object)) throw InvalidArgument("the output " + file + ":" + object + " is a group");
    if (!overwrite && existing.contains(object)) {
      throw InvalidArgument("the output " + file + ":" + object + " exists; --overwrite replaces it");
    }
  }
}

}  // namespace quarry::apps
