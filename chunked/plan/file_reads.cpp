#include "quarry/chunked/plan/file_reads.h"
#include "quarry/chunked/grid/listing.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_map>

namespace quarry::plan {
namespace {

// Along one axis of the data set: chunks of the file that are touched, and how often by tasks; equal where no chunk is
// touched by two of them.
struct Touched {
  double chunks = 0, touches = 0;
};

// The chunks that `count` elements `step` apart are in: the first one's number, and the last one's.
struct Span {
  int64_t first = 0, last = -1;
};
Span span_of(int64_t start, int64_t step, int64_t count, int64_t chunk) {
  if (count <= 0) return {};
  const int64_t end = start + (count - 1) * step;
  return {std::min(start, end) / chunk, std::max(start, end) / chunk};
}

int64_t chunks_of(int64_t start, int64_t step, int64_t count, int64_t chunk) {
  if (std::abs(step) >= chunk) return std::max<int64_t>(count, 0);
  const Span span = span_of(start, step, count, chunk);
  return span.last - span.first + 1;
}

Touched touched(const AxisChunks& cuts, const expr::View::Axis& map, int64_t reach, int64_t chunk) {
  check_listable(cuts.count());
  Touched out;
  const int64_t step = map.step == 0 ? 1 : map.step;
  for (int64_t i = 0; i < cuts.count(); ++i) {
    const int64_t begin = map.start + cuts.start(i) * step;
    out.touches += static_cast<double>(chunks_of(begin, step, cuts.size(i) + reach, chunk));
  }
  out.chunks = static_cast<double>(chunks_of(map.start, step, cuts.extent() + reach, chunk));
  return out;
}

// What one input adds.
struct Reading {
  double chunks = 0, touches = 0;  // as FileReads
  double kept = 0;                 // chunks that wait for other tasks at a time
  int64_t often = 1;               // of an element
};

// Of tasks that each read what the map says of their chunk of the space.
Reading reading_by_space(const Grid& grid, const Input& input, const Dims& chunk) {
  Reading out{1, 1, 1, 1};
  bool cut = false;
  for (size_t d = 0; d < input.map.axes.size(); ++d) {
    const expr::View::Axis& map = input.map.axes[d];
    const AxisChunks& cuts = grid.axis(static_cast<int>(d));
    if (map.source < 0) {
      out.often *= cuts.count();
      continue;
    }
    const int64_t reach = input.is_window() ? input.reach[map.source] : 0;
    const Touched axis = touched(cuts, map, reach, chunk[map.source]);
    out.chunks *= axis.chunks;
    out.touches *= axis.touches;
    // A chunk that several tasks cut along this axis waits while they go through the axes behind it.
    if (cut) out.kept *= axis.chunks;
    cut = cut || axis.touches > axis.chunks;
  }
  if (out.often > 1)
    out.kept = out.chunks;
  else if (!cut)
    out.kept = 0;
  out.touches *= static_cast<double>(out.often);
  return out;
}

// Of an operator's tasks, by the boxes that they say they read; of very many, the first ones stand for all.
class BoxReading {
 public:
  BoxReading(const Input& input, const Dims& chunk) : input_(input), chunk_(chunk) {}

  bool is_enough() const { return touches_ > kMostTouches; }
  void add(const Region& box, int64_t task) {
    const Region region = input_.region(box);
    if (region.elements() == 0) return;
    std::vector<Span> spans;
    Dims at = Dims::filled(region.ndim());
    for (int d = 0; d < region.ndim(); ++d) {
      spans.push_back(span_of(region.start[d], region.step[d], region.count[d], chunk_[d]));
      at[d] = spans.back().first;
    }
    for (bool more = true; more && !is_enough();) {
      int64_t number = 0;
      for (int d = 0; d < region.ndim(); ++d)
        number = number * (input_.shape[d] / chunk_[d] + (input_.shape[d] % chunk_[d] != 0)) + at[d];
      Uses& uses = uses_.try_emplace(number, Uses{task, task, 0}).first->second;
      uses.last = task;
      ++uses.count;
      ++touches_;
      more = false;
      for (int d = region.ndim() - 1; d >= 0 && !more; --d) {
        more = at[d] < spans[static_cast<size_t>(d)].last;
        at[d] = more ? at[d] + 1 : spans[static_cast<size_t>(d)].first;
      }
    }
  }
  Reading reading(double tasks_in_all, double tasks_seen) const {
    const double scale = tasks_in_all / std::max(tasks_seen, 1.0);
    Reading out{scale * static_cast<double>(uses_.size()), scale * static_cast<double>(touches_), 0, 1};
    std::map<int64_t, int64_t> changes;  // of the chunks that wait, by task
    for (const auto& [number, uses] : uses_) {
      out.often = std::max(out.often, uses.count);
      if (uses.count == 1) continue;
      ++changes[uses.first];
      --changes[uses.last + 1];
    }
    int64_t waiting = 0;
    for (const auto& [task, change] : changes) out.kept = std::max(out.kept, static_cast<double>(waiting += change));
    return out;
  }

 private:
  static constexpr int64_t kMostTouches = 1 << 16;
  struct Uses {
    int64_t first, last, count;
  };
  const Input& input_;
  const Dims& chunk_;
  std::unordered_map<int64_t, Uses> uses_;
  int64_t touches_ = 0;
};

// `argument`: that the input is, or that elementwise work before the operator makes of it.
Reading reading_by_needs(const Applied& applied, int argument, const Input& input, const Dims& chunk) {
  if (applied.one_chunk || !applied.op->is_chunked()) {
    BoxReading whole(input, chunk);
    whole.add(Region::whole(applied.call.arguments[static_cast<size_t>(argument)].shape), 0);
    return whole.reading(1, 1);
  }
  BoxReading boxes(input, chunk);
  constexpr int64_t kMostTasks = 1 << 16;
  const int64_t tasks = applied.call.outputs[0].grid.count();
  int64_t task = 0;
  std::vector<op::Need> needs;
  for (; task < std::min(tasks, kMostTasks) && !boxes.is_enough(); ++task) {
    needs.clear();
    applied.op->needs(applied.call, task, needs);
    for (const op::Need& need : needs)
      if (need.argument == argument) boxes.add(need.box, task);
  }
  return boxes.reading(static_cast<double>(tasks), static_cast<double>(task));
}

class AllReads {
 public:
  void add_stage(const Stage& stage) {
    together_.clear();
    if (const auto* fused = std::get_if<Fused>(&stage.work)) {
      add(*fused, stage.grid);
      for (const auto& made : fused->made) add(*made);
    } else if (const auto* assemble = std::get_if<Assemble>(&stage.work)) {
      add(assemble->input, [&](const Dims& chunk) { return reading_by_space(stage.grid, assemble->input, chunk); });
    } else if (const auto* applied = std::get_if<Applied>(&stage.work)) {
      add(*applied);
    }
  }
  std::vector<FileReads> take() {
    for (FileReads& all : reads_) {
      if (all.reads.in_all > 1) all.wanted_bytes = std::max(all.wanted_bytes, all.chunks * chunk_bytes(all));
    }
    return std::move(reads_);
  }

 private:
  static double chunk_bytes(const FileReads& all) {
    return static_cast<double>(io::ChunkCache::rounded_bytes(all.dataset->decoded_chunk_bytes()));
  }
  void add(const Fused& fused, const Grid& grid) {
    for (const Input& input : fused.inputs) {
      add(input, [&](const Dims& chunk) {
        Reading reading = reading_by_space(grid, input, chunk);
        if (!input.map.beside.empty()) reading.kept = reading.chunks;
        return reading;
      });
    }
  }
  void add(const Applied& applied) {
    for (int i = 0; i < static_cast<int>(applied.inputs.size()); ++i) {
      const auto add_input = [&](const Input& input) {
        add(input, [&](const Dims& chunk) { return reading_by_needs(applied, i, input, chunk); });
      };
      if (const Fused* work = applied.prologue(i))
        std::ranges::for_each(work->inputs, add_input);
      else
        add_input(applied.inputs[static_cast<size_t>(i)]);
    }
  }
  template <class Read>
  void add(const Input& input, Read&& read) {
    const std::shared_ptr<io::Dataset>& dataset = input.array.dataset;
    if (input.array.kind != ArrayRef::Kind::dataset || dataset->decoded_chunk_bytes() == 0) return;
    if (local::element_count(input.shape) == 0) return;
    const auto [at, is_new] = known_.try_emplace(dataset.get(), reads_.size());
    if (is_new) {
      reads_.push_back({dataset, {}});
      reads_.back().reads.in_all = 0;
    }
    FileReads& all = reads_[at->second];
    const Reading reading = read(*dataset->info().chunks);
    all.touches += reading.touches;
    all.chunks = std::max(all.chunks, reading.chunks);
    all.wanted_bytes = std::max(all.wanted_bytes, reading.kept * chunk_bytes(all));
    constexpr int64_t kOften = 1 << 20;
    all.reads.in_all = std::min(all.reads.in_all + reading.often, kOften);
    all.reads.together = std::max(all.reads.together, ++together_[dataset.get()]);
    if (input.is_window()) all.reads.overlap = input.reach;
  }

  std::vector<FileReads> reads_;
  std::map<const io::Dataset*, size_t> known_;
  std::map<const io::Dataset*, int64_t> together_;  // inputs of the stage
};

}  // namespace

double FileReads::reread_bytes(double kept_bytes) const {
  const io::DatasetInfo& info = dataset->info();
  const double again = touches - chunks;
  if (again <= 0 || wanted_bytes <= kept_bytes) return 0;
  double grid = 1;
  for (int d = 0; d < info.shape.size(); ++d)
    grid *= static_cast<double>(chunks_of(0, 1, info.shape[d], std::max<int64_t>((*info.chunks)[d], 1)));
  return again * (1 - kept_bytes / wanted_bytes) * static_cast<double>(info.stored_bytes) / std::max(grid, 1.0);
}

std::vector<FileReads> file_reads(const Plan& plan) {
  AllReads all;
  for (const Stage& stage : plan.stages) all.add_stage(stage);
  return all.take();
}

}  // namespace quarry::plan
