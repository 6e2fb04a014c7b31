// One run of a command on this rank: the Runtime, progress, and what is written at the end.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "quarry/apps/quarry/dashboard.h"
#include "quarry/apps/quarry/options.h"
#include "quarry/apps/quarry/progress.h"
#include "quarry/chunked/report/report.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/chunked/runtime/runtime.h"

namespace quarry::apps {

class Job {
 public:
  // Makes the Runtime and prints its banner on rank 0. Collective. Throws as Runtime.
  Job(const CommonOptions& options, int& argc, char**& argv);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Runtime& runtime() { return *runtime_; }
  const CommonOptions& options() const { return options_; }
  bool root() const { return root_; }
  // Names what is computed next in the progress display.
  void step(const std::string& name);
  // Attributes of what is written name the command and these.
  void note_inputs(std::span<const std::string> inputs);
  // Says on rank 0 where --chunks fits none of the arrays that the command reads.
  void warn_of_unused_chunks(std::span<const Array> inputs) const;
  // For --plan: prints on rank 0 what computing (and writing) the arrays would run. Collective.
  void print_plan(const std::string& title, std::span<const Array> arrays, bool write);
  // For --report: adds what computing the arrays runs to the page. Collective.
  void note_plan(const std::string& title, std::span<const Array> arrays, bool write);
  // Adds to the report's page; ignored where none is wanted.
  void note_fact(const std::string& name, const std::string& value);
  void note_result(report::Section section);
  // Runs `check` on rank 0; its exception is thrown on every rank. Collective.
  void on_root(const std::function<void()>& check);
  // Runs `read`, which may compute: what it throws counts as wrong before computing starts.
  void read_inputs(const std::function<void()>& read);
  bool is_computing() const { return !reading_ && runtime_->any_run_started(); }
  // Writes statistics, trace and report. Collective.
  void finish();

 private:
  // For the other constructor: what it throws after this one has ended runs ~Job, which takes back what threads know of
  // the Runtime and of this.
  explicit Job(const CommonOptions& options) : options_(options) {}
  // Of --plan, in place of every computation before the command's last one; ends with the `last` that it can know of.
  void plan_step(const exec::Nodes& nodes, bool write, bool last);
  void print_plan(const std::string& title, const exec::PlanSummary& summary);
  void show_note(const std::string& note);
  void trace_step();
  DashboardStatus status();
  bool wants_trace() const {
    return options_.value(local::Option::trace).is_given() || options_.value(local::Option::report).is_given();
  }
  // Complains about files of --trace, --report and --stats that could not be made.
  void check_report_files() const;
  // Writes the files of --trace and --report. Collective.
  void write_reports(double wall_seconds);
  void note_reread(const RunStatistics& totals);

  CommonOptions options_;
  report::RunReport report_;
  bool root_ = false, reading_ = false;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<ProgressDisplay> progress_;
  std::chrono::steady_clock::time_point begin_;
  // The dashboard's threads read them.
  std::mutex step_mutex_;
  std::string step_;
  std::chrono::steady_clock::time_point step_begin_;
  int64_t step_begin_ns_ = 0;  // of the trace's clock
  bool done_ = false;
  std::set<std::string> shown_notes_;
  std::vector<exec::PlanSummary> planned_steps_;  // what is computed before that which is printed
  std::unique_ptr<Dashboard> dashboard_;
};

// Where this rank knows of an error before it has a Job: rank 0, which says errors, may know of none and wait for this
// rank in its own. Ends its wait with the error; after some seconds in which it has not come, says the error and ends
// the process. Returns at once on rank 0.
void tell_others(const std::exception_ptr& error, int& argc, char**& argv);

// Makes a Job and runs `body` in it; an error becomes one line on stderr and the returned exit status.
int run_job(const CommonOptions& options, int& argc, char**& argv, const std::function<int(Job&)>& body);

// Throws, before anything is computed, where the objects cannot be written to `file`: InvalidArgument where one exists
// without `overwrite` or is a group, or the place is no writable file; IoError where the file is no HDF5 file, and
// where the disk has no room for so many bytes.
void check_output(const std::string& file, std::span<const std::string> objects, bool overwrite, double bytes = 0);

}  // namespace quarry::apps
