#include "quarry/chunked/api/saved_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "quarry/chunked/api/array.h"
#include "quarry/chunked/api/files.h"
#include "quarry/chunked/api/job_description.h"
#include "quarry/chunked/exec/saved_states.h"
#include "quarry/chunked/expr/build.h"
#include "quarry/chunked/runtime/host_value.h"
#include "quarry/chunked/runtime/internals.h"
#include "quarry/chunked/runtime/run.h"
#include "quarry/chunked/runtime/runtime.h"
#include "quarry/comm/communicator.h"
#include "quarry/io/format.h"
#include "quarry/io/saved_calls.h"
#include "quarry/io/saved_states.h"
#include "quarry/local/base/error.h"
#include "quarry/local/base/log.h"
#include "quarry/local/base/trace.h"
#include "quarry/local/device/device.h"

namespace quarry {

using exec::Nodes;
using exec::StoredArray;

namespace {

using Results = std::vector<std::shared_ptr<StoredArray>>;
using Clock = std::chrono::steady_clock;

std::vector<std::vector<int64_t>> chunks_of(const Grid& grid) {
  std::vector<std::vector<int64_t>> chunks;
  for (const AxisChunks& axis : grid.axes()) {
    std::vector<int64_t>& extents = chunks.emplace_back();
    for (int64_t i = 0; i < axis.count(); ++i) extents.push_back(axis.size(i));
  }
  return chunks;
}
Grid grid_of(const io::SavedResult& result) {
  std::vector<AxisChunks> axes;
  for (const std::vector<int64_t>& extents : result.chunks) axes.emplace_back(extents);
  return Grid(std::move(axes));
}

io::JobDescription description_of(int64_t step, const Nodes& nodes) {
  io::JobDescription all = detail::description_of_run(nodes);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string of = fmt::format(" of step {}'s result {}", step + 1, i + 1);
    all.emplace_back("the shape" + of, local::to_string(nodes[i]->shape));
    all.emplace_back("the dtype" + of, local::name(nodes[i]->dtype));
    all.emplace_back("the chunks" + of, nodes[i]->grid.to_string());
    all.emplace_back("the expression" + of, fmt::format("{:016x}", nodes[i]->hash));
  }
  return all;
}

}  // namespace

struct SavedSteps::Impl {
  Runtime& runtime = Runtime::current();
  comm::Communicator& communicator = runtime.communicator();
  const std::string file;
  const double every = detail::seconds_between_states();
  io::SavedCalls calls;                                          // what earlier runs have done, and this one behind it
  int64_t found = 0;                                             // of them, of earlier runs
  std::vector<std::vector<std::weak_ptr<StoredArray>>> results;  // of the steps of this run so far
  int64_t next_file = 0;
  Clock::time_point last = Clock::now();
  double last_seconds = 0;
  bool is_over = false;
  bool is_of_other_run = false;  // what is there
  bool is_full = false;          // a host value is too large to be kept, and no later step can be saved

  explicit Impl(std::string output) : file(std::move(output)) { find(); }

  Results persist(const Nodes& nodes, std::string_view call, size_t to_host, exec::HostValues why);
  void end() {
    if (is_over) return;
    is_over = true;
    runtime.internals().persist_saving = nullptr;
    io::complete_unfinished_job();
  }

 private:
  template <class What>
  void on_rank_0(What what) {
    comm::on_rank_0(communicator, {"SavedSteps", std::hash<std::string>()(file)}, what);
  }
  // By rank 0, where there is something `before`.
  void check_same(const std::optional<io::JobDescription>& before, const io::JobDescription& now) {
    is_of_other_run = true;
    on_rank_0([&] {
      if (before) io::check_same_job(file, *before, now);
    });
    is_of_other_run = false;
  }
  void find();
  bool is_intact(const io::SavedCalls& saved);
  std::vector<uint32_t> sums_of(const std::string& path, int64_t pieces);
  std::unique_ptr<exec::SavedStates> states_of(int64_t step, io::JobDescription description, const plan::Plan& plan);
  Results found_results(const io::SavedCall& call);
  void add(int64_t step, io::JobDescription description, const Results& computed, size_t to_host);
  bool is_due();
  void save();
};

// The last table whose arrays are as their checksums say.
void SavedSteps::Impl::find() {
  std::vector<std::string> tables;
  on_rank_0([&] {
    io::format_to_write(file).check_resumable(file);
    tables = io::find_saved_calls(file);
  });
  std::array<int64_t, 1> count{std::ssize(tables)};
  communicator.all_reduce(count, comm::ReduceOp::max);
  tables.resize(static_cast<size_t>(count[0]));
  for (const std::string& mine : tables) {
    io::SavedCalls saved = io::saved_calls(communicator.broadcast_string(mine, /*root=*/0));
    if (!is_intact(saved)) {
      if (communicator.rank() == 0)
        local::log(local::LogLevel::warn,
                   fmt::format("the saved steps 1 to {} of '{}' are damaged, and what was saved before is used where "
                               "there is any",
                               saved.calls.size(), file));
      continue;
    }
    calls = std::move(saved);
    found = std::ssize(calls.calls);
    if (!calls.sums.empty()) next_file = calls.sums.rbegin()->first + 1;
    return;
  }
}

// Ranks share the reading.
std::vector<uint32_t> SavedSteps::Impl::sums_of(const std::string& path, int64_t pieces) {
  std::vector<int64_t> sums(static_cast<size_t>(pieces), 0);
  comm::alone(communicator, [&] {
    for (int64_t i = communicator.rank(); i < pieces; i += communicator.size())
      sums[static_cast<size_t>(i)] = io::sum_of_piece(path, i);
  });
  communicator.all_reduce(sums, comm::ReduceOp::max);
  return {sums.begin(), sums.end()};
}

bool SavedSteps::Impl::is_intact(const io::SavedCalls& saved) {
  for (const auto& [number, sums] : saved.sums) {
    const std::string path = io::saved_arrays_path(file, number);
    std::array<int64_t, 1> pieces{0};
    if (communicator.rank() == 0) {
      try {
        pieces[0] = io::pieces_of(path);
      } catch (const local::IoError&) {  // it is not there
      }
    }
    communicator.all_reduce(pieces, comm::ReduceOp::max);
    if (pieces[0] != std::ssize(sums) || sums_of(path, pieces[0]) != sums) return false;
  }
  return true;
}

Results SavedSteps::Impl::persist(const Nodes& nodes, std::string_view call, size_t to_host, exec::HostValues why) {
  const int64_t step = std::ssize(results);
  io::JobDescription description;
  on_rank_0([&] { description = description_of(step, nodes); });
  if (step < found) check_same(calls.calls[static_cast<size_t>(step)].description, description);
  Results computed;
  if (step < found) {
    computed = found_results(calls.calls[static_cast<size_t>(step)]);
  } else {
    computed = exec::persist_with_states(nodes, call, to_host, why,
                                         [&](const plan::Plan& plan) { return states_of(step, description, plan); });
    add(step, std::move(description), computed, to_host);
  }
  results.emplace_back(computed.begin(), computed.end());
  if (step >= found && is_due()) save();
  return computed;
}

// Of the step's own computation. Collective.
std::unique_ptr<exec::SavedStates> SavedSteps::Impl::states_of(int64_t step, io::JobDescription description,
                                                               const plan::Plan& plan) {
  const std::string path = io::saved_call_path(file, step);
  std::array<int64_t, 1> generation{0};
  std::optional<io::JobDescription> begun;
  on_rank_0([&] {
    description.push_back(detail::description_of_plan(plan));
    begun = io::find_begun_call(file, step);
  });
  check_same(begun, description);
  on_rank_0([&] {
    io::begin_call(file, step, description);
    generation[0] = io::next_generation(path);
  });
  communicator.all_reduce(generation, comm::ReduceOp::max);
  return std::make_unique<exec::SavedStates>(communicator, path, generation[0], exec::flop_rate_of_programs(plan),
                                             every,
                                             /*resumed=*/generation[0] > 0);
}

Results SavedSteps::Impl::found_results(const io::SavedCall& call) {
  Results found_ones(call.results.size());
  Nodes in_files;
  std::vector<size_t> places;
  for (size_t i = 0; i < call.results.size(); ++i) {
    const io::SavedResult& result = call.results[i];
    const Grid grid = grid_of(result);
    if (result.value) {
      const local::DeviceScope scope(local::kCpu);
      NdArray value(grid.shape(), result.dtype);
      std::memcpy(value.raw(), result.value->data(), result.value->size());
      found_ones[i] = std::make_shared<StoredArray>(std::move(value));
    } else if (result.file >= 0) {
      places.push_back(i);
      in_files.push_back(open_hdf5(io::saved_arrays_path(file, result.file), result.object).rechunk(grid).node());
    } else {  // nothing reads it
      found_ones[i] =
          std::make_shared<StoredArray>(result.dtype, grid, Owners(), OwnedChunks(0, 0),
                                        std::vector<std::shared_ptr<scheduler::StoredBlock>>(), &runtime.executor());
    }
  }
  if (in_files.empty()) return found_ones;
  const auto none = [](const plan::Plan&) { return std::unique_ptr<exec::SavedStates>(); };
  const Results read = exec::persist_with_states(in_files, "SavedSteps", 0, exec::HostValues::asked, none);
  for (size_t i = 0; i < read.size(); ++i) found_ones[places[i]] = read[i];
  return found_ones;
}

// A step that has been computed.
void SavedSteps::Impl::add(int64_t step, io::JobDescription description, const Results& computed, size_t to_host) {
  io::SavedCall call{std::move(description), {}};
  for (size_t i = 0; i < computed.size(); ++i) {
    io::SavedResult& result = call.results.emplace_back();
    result.dtype = computed[i]->dtype();
    result.chunks = chunks_of(computed[i]->grid());
    if (i >= to_host) continue;
    constexpr int64_t kPart = 16;  // of the budget
    const int64_t bytes = local::element_count(computed[i]->grid().shape()) * local::itemsize(result.dtype);
    is_full = is_full || bytes > runtime.plan_bytes() / kPart;
    if (is_full) continue;
    const NdArray value = exec::host_value(*computed[i]);
    result.value.emplace(static_cast<const char*>(value.raw()), static_cast<size_t>(value.nbytes()));
  }
  calls.calls.push_back(std::move(call));
  if (communicator.rank() == 0) io::end_call(file, step);
}

bool SavedSteps::Impl::is_due() {
  if (is_full) return false;
  const double seconds = std::chrono::duration<double>(Clock::now() - last).count();
  const bool is_time = every == 0 || seconds >= std::max(every, last_seconds);
  std::array<int64_t, 1> due{communicator.rank() == 0 && is_time ? 1 : 0};
  communicator.all_reduce(due, comm::ReduceOp::max);
  return due[0] != 0;
}

// What the program still has is written, if it is not in a file already; then a table that names it.
void SavedSteps::Impl::save() {
  const local::TraceScope trace("save steps", "plan");
  const Clock::time_point begin = Clock::now();
  std::vector<std::shared_ptr<StoredArray>> held;
  std::vector<int64_t> is_held;
  for (const auto& of_step : results)
    for (const std::weak_ptr<StoredArray>& result : of_step) {
      held.push_back(result.lock());
      is_held.push_back(held.back() != nullptr ? 1 : 0);
    }
  communicator.all_reduce(is_held, comm::ReduceOp::min);
  std::vector<StoreItem> items;
  size_t number = 0;
  for (size_t step = 0; step < calls.calls.size(); ++step) {
    for (size_t i = 0; i < calls.calls[step].results.size(); ++i, ++number) {
      io::SavedResult& result = calls.calls[step].results[i];
      if (result.value) continue;
      if (is_held[number] == 0) {
        result.file = -1;
        continue;
      }
      if (result.file >= 0) continue;
      result.file = next_file;
      result.object = fmt::format("/step{}.{}", step + 1, i + 1);
      const StoredArray& array = *held[number];
      constexpr uint64_t kNotOfPrograms = uint64_t{1} << 63;  // as the identities of what they persist
      items.push_back({result.object, Array(expr::stored(held[number], kNotOfPrograms + number, array.grid().shape(),
                                                         array.dtype(), array.grid(), /*chosen_grid=*/true))});
    }
  }
  std::set<int64_t> named;
  for (const io::SavedCall& call : calls.calls)
    for (const io::SavedResult& result : call.results)
      if (result.file >= 0) named.insert(result.file);
  std::erase_if(calls.sums, [&](const auto& of_file) { return !named.contains(of_file.first); });
  if (!items.empty()) {
    const std::string path = io::saved_arrays_path(file, next_file);
    on_rank_0([&] {  // one that was damaged, or of a run that ended before its table
      std::error_code error;
      std::filesystem::remove(path, error);
    });
    store(path, items);
    std::array<int64_t, 1> pieces{0};
    on_rank_0([&] { pieces[0] = io::pieces_of(path); });
    communicator.all_reduce(pieces, comm::ReduceOp::max);
    calls.sums[next_file++] = sums_of(path, pieces[0]);
  }
  ++calls.number;
  on_rank_0([&] { io::save_calls(file, calls); });
  last = Clock::now();
  last_seconds = std::chrono::duration<double>(last - begin).count();
}

SavedSteps::SavedSteps(std::string file) {
  Runtime::Internals& internals = Runtime::current().internals();
  if (internals.persist_saving)
    throw local::InvalidArgument(fmt::format("steps of '{}' cannot be saved: those of another output are", file));
  impl_ = std::make_unique<Impl>(std::move(file));
  internals.persist_saving = [impl = impl_.get()](const Nodes& nodes, std::string_view call, size_t to_host,
                                                  exec::HostValues why) {
    return impl->persist(nodes, call, to_host, why);
  };
  io::begin_unfinished_job();
}

SavedSteps::~SavedSteps() {
  Impl& impl = *impl_;
  if (impl.is_over) return;
  if (io::has_saved_calls(impl.file)) {  // the job stays unfinished
    impl.runtime.internals().persist_saving = nullptr;
    return;
  }
  impl.end();
  if (impl.communicator.rank() == 0) io::remove_saved_calls(impl.file);
}

void SavedSteps::complete() { impl_->end(); }

void SavedSteps::discard() {
  if (impl_->is_of_other_run) return;
  impl_->end();
  if (impl_->communicator.rank() == 0) io::remove_saved_calls(impl_->file);
}

}  // namespace quarry
