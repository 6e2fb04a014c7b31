#include "quarry/chunked/plan/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "quarry/local/program/op.h"

namespace quarry::plan {
namespace {

// What the time of an operator grows with.
enum class Growth : uint8_t { cubic, substitution, sorting };
// An operator, and its additions and multiplications for a matrix of m x n, or n x m, elements where m >= n: `tall`
// m n^2 + `square` n^3, and `sides` n^2 for each column of right-hand sides; all 0: they are not counted. Golub and Van
// Loan, Matrix Computations, 2013. Where a decomposition has another result beside its triangle, twice as many.
// Programs of tiles count their own tasks'.
struct Known {
  std::string_view name;
  Growth growth;
  double tall = 0, square = 0, sides = 0;
};
// Operators that are not named here take a time that is proportional to their elements.
constexpr std::array kKnown = {
    Known{"cholesky", Growth::cubic, 0, 1. / 3, 0},
    Known{"cond", Growth::cubic},
    Known{"det", Growth::cubic, 1, -1. / 3, 0},
    Known{"eig", Growth::cubic, 0, 25, 0},
    Known{"eigh", Growth::cubic, 0, 9, 0},
    Known{"eigh_some", Growth::cubic, 0, 9, 0},
    Known{"eigvals", Growth::cubic, 0, 10, 0},
    Known{"eigvalsh", Growth::cubic, 0, 4. / 3, 0},
    Known{"inv", Growth::cubic, 0, 2, 0},
    Known{"lstsq", Growth::cubic, 6, 20, 0},
    Known{"lu", Growth::cubic, 1, -1. / 3, 0},
    Known{"matrix_power", Growth::cubic},
    Known{"matrix_rank", Growth::cubic},
    Known{"pinv", Growth::cubic, 8, 20, 0},
    Known{"qr", Growth::cubic, 2, -2. / 3, 0},
    Known{"slogdet", Growth::cubic, 1, -1. / 3, 0},
    Known{"solve", Growth::cubic, 1, -1. / 3, 2},
    Known{"solve_triangular", Growth::substitution, 0, 0, 1},
    Known{"svd", Growth::cubic, 6, 20, 0},
    Known{"svdvals", Growth::cubic, 4, -4. / 3, 0},
    Known{"tsqr", Growth::cubic, 2, -2. / 3, 0},
    Known{"argsort", Growth::sorting},
    Known{"lexsort", Growth::sorting},
    Known{"median", Growth::sorting},
    Known{"sort", Growth::sorting},
    Known{"unique", Growth::sorting},
};

constexpr std::string_view kFolder = "linalg.";  // functions of the namespace; tiles' programs have none
std::string_view own_name(std::string_view name) {
  return name.starts_with(kFolder) ? name.substr(kFolder.size()) : name;
}

const Known* find_known(std::string_view name) {
  const auto* row = std::ranges::find(kKnown, own_name(name), &Known::name);
  return row == kKnown.end() ? nullptr : row;
}

using local::DType;

double elements_of(const Dims& shape) { return static_cast<double>(local::element_count(shape)); }

double bytes_of(const Stage::Output& output) { return elements_of(output.shape) * local::itemsize(output.dtype); }

// Multiplications of a decomposition of a stack of matrices, but for a factor that is measured.
double cubic_units(const Dims& shape) {
  if (shape.size() < 2) return elements_of(shape);
  const auto rows = static_cast<double>(shape[shape.size() - 2]),
             columns = static_cast<double>(shape[shape.size() - 1]);
  return elements_of(shape) * std::min(rows, columns);
}

// Operations of real numbers that one of these is (chunked/tiles/program.h).
double real_ones(DType dtype) { return local::is_complex(dtype) ? 4 : 1; }

double flops_of_call(const Applied& applied) {
  const op::Call& call = applied.call;
  if (applied.op->is_program() && !applied.one_chunk) return applied.op->program_flops(call);
  const Known* const row = find_known(applied.op->name());
  if (row == nullptr || call.arguments.empty() || call.arguments[0].shape.size() < 2) return 0;
  const Dims& shape = call.arguments[0].shape;
  const auto last = [](const Dims& of, int back) { return static_cast<double>(of[of.size() - back]); };
  const double m = std::max(last(shape, 1), last(shape, 2)), n = std::min(last(shape, 1), last(shape, 2));
  if (n == 0) return 0;
  double flops = row->tall * m * n * n + row->square * n * n * n;
  if ((row->name == "qr" || row->name == "tsqr") && call.outputs.size() > 1) flops *= 2;
  if (row->sides > 0 && call.arguments.size() > 1)  // columns of n elements, or rows
    flops += row->sides * n * elements_of(call.arguments.back().shape) * (m * n / elements_of(shape));
  return flops * elements_of(shape) / (m * n) * real_ones(call.arguments[0].dtype);
}

// Of the elements of the triangle for each right-hand side, the last argument.
double substitution_units(const std::vector<op::ArraySpec>& arguments) {
  if (arguments.size() < 2) return 0;
  const Dims &triangle = arguments[0].shape, &sides = arguments.back().shape;
  if (triangle.size() < 2) return elements_of(sides);
  const double columns = sides.size() < 2 ? 1 : static_cast<double>(sides[sides.size() - 1]);
  return elements_of(triangle) * columns;
}

void add_program(const local::Program& program, double elements, std::vector<Work>& works) {
  for (const local::Value& value : program.values()) {
    if (value.kind != local::Value::Kind::op) continue;
    Work work{.kind = Work::Kind::ufunc, .number = static_cast<int>(value.op), .dtype = value.dtype};
    work.value = &value;
    work.program = &program;
    work.units = elements;
    works.push_back(work);
  }
  for (const local::ProgramReduction& reduction : program.reductions()) {
    works.push_back({.kind = Work::Kind::reduction,
                     .number = static_cast<int>(reduction.reduction),
                     .dtype = reduction.accumulate,
                     .units = elements});
  }
}

void add_bytes(Work::Kind kind, double bytes, std::vector<Work>& works) {
  if (bytes > 0) works.push_back({.kind = kind, .dtype = DType::uint8, .units = bytes});
}

void add_call(const Applied& applied, std::vector<Work>& works) {
  if (applied.op->copies()) return;
  const std::vector<op::ArraySpec>& specs =
      applied.call.arguments.empty() ? applied.call.outputs : applied.call.arguments;
  Work work{.kind = Work::Kind::call, .dtype = specs.empty() ? DType::float64 : specs[0].dtype};
  work.applied = &applied;
  work.units = units_of_call(applied.op->name(), applied.call);
  works.push_back(work);
}

// What comes from blocks and files into the tasks of a stage, and the elementwise work in them beside its own.
void add_input(const Input& input, const Dims& shape, bool reads, std::vector<Work>& works) {
  const auto bytes = static_cast<double>(input.region_bytes(shape));
  if (input.array.kind != ArrayRef::Kind::dataset) return add_bytes(Work::Kind::copy, bytes, works);
  if (reads) add_bytes(Work::Kind::read, bytes, works);
  if (input.array.dataset->info().filters.empty() || bytes <= 0) return;
  add_bytes(Work::Kind::decode, bytes, works);
  works.back().dataset = input.array.dataset.get();
}

struct Adder {
  const Stage& stage;
  std::vector<Work>& works;
  bool reads;  // its tasks read files themselves

  void outputs() const {
    double bytes = 0;
    for (const Stage::Output& output : stage.outputs) bytes += bytes_of(output);
    add_bytes(Work::Kind::copy, bytes, works);
  }
  void operator()(const Fused& fused) const {
    add_program(fused.program, elements_of(stage.shape), works);
    for (size_t i = 0; i < fused.inputs.size(); ++i)
      if (fused.arrives(i)) add_input(fused.inputs[i], stage.shape, reads, works);
    for (const auto& applied : fused.made) (*this)(*applied);
    outputs();
  }
  void operator()(const Assemble& assemble) const {
    add_input(assemble.input, stage.shape, reads, works);
    outputs();
  }
  void operator()(const MatMul& product) const {
    const Input& b = product.b;
    const expr::View::Axis& k = b.map.axes[static_cast<size_t>(stage.shape.size()) - 2];
    const double depth = k.source < 0 ? 1 : static_cast<double>(b.shape[k.source]);
    works.push_back({.kind = Work::Kind::product,
                     .dtype = stage.outputs[0].dtype,
                     .units = elements_of(stage.shape) * depth / (product.syrk ? 2 : 1)});
    outputs();
  }
  void operator()(const Applied& applied) const {
    for (size_t i = 0; i < applied.inputs.size(); ++i) {
      const Dims& shape = applied.call.arguments[i].shape;
      if (const Fused* work = applied.prologue(static_cast<int>(i))) {
        add_program(work->program, elements_of(shape), works);
        for (const Input& input : work->inputs) add_input(input, shape, reads, works);
      } else {
        add_input(applied.inputs[i], shape, reads, works);
      }
    }
    add_call(applied, works);
    outputs();
  }
};

// Of a usual machine: seconds per unit where nothing was measured.
double usual_seconds(const Work& work) {
  constexpr double kCycle = 0.3e-9, kFewestCycles = 1;
  constexpr double kReduction = 0.5e-9, kProduct = 0.1e-9, kElement = 2e-9, kMultiplication = 1e-9, kSorted = 0.5e-9;
  constexpr double kCopy = 0.1e-9, kRead = 0.3e-9, kDecode = 4e-9, kWrite = 0.4e-9, kSync = 0.6e-9, kTask = 5e-6,
                   kFresh = 0.3e-9;
  switch (work.kind) {
    case Work::Kind::ufunc:
      return kCycle * std::max<double>(kFewestCycles, local::info(static_cast<local::Op>(work.number)).cost);
    case Work::Kind::reduction:
      return kReduction;
    case Work::Kind::product:
      return kProduct;
    case Work::Kind::call: {
      const Known* row = find_known(work.applied->op->name());
      if (row == nullptr) return work.applied->op->name().starts_with("fft.") ? kSorted : kElement;
      return row->growth == Growth::sorting ? kSorted : kMultiplication;
    }
    case Work::Kind::copy:
      return kCopy;
    case Work::Kind::read:
      return kRead;
    case Work::Kind::decode:
      return kDecode;
    case Work::Kind::write:
      return kWrite;
    case Work::Kind::sync:
      return kSync;
    case Work::Kind::fresh:
      return kFresh;
    case Work::Kind::task:
      return kTask;
  }
  return 0;
}

}  // namespace

std::string Work::name() const {
  switch (kind) {
    case Kind::ufunc:
      return fmt::format("ufunc {} {} {}", local::info(static_cast<local::Op>(number)).name, local::name(value->loop),
                         local::name(dtype));
    case Kind::reduction:
      return fmt::format("reduction {} {}", local::info(static_cast<local::Reduction>(number)).name,
                         local::name(dtype));
    case Kind::product:
      return fmt::format("product {}", local::name(dtype));
    case Kind::call:
      return fmt::format("call {} {}", applied->op->name(), local::name(dtype));
    case Kind::copy:
      return "copy";
    case Kind::read:
      return "read";
    case Kind::decode:
      return "decode";
    case Kind::write:
      return "write";
    case Kind::sync:
      return "sync";
    case Kind::fresh:
      return "fresh";
    case Kind::task:
      return "task";
  }
  return "";
}

double units_of_call(std::string_view name, const op::Call& call) {
  double elements = 0, largest = 0, cubic = 0;
  for (const std::vector<op::ArraySpec>* specs : {&call.arguments, &call.outputs}) {
    for (const op::ArraySpec& spec : *specs) {
      elements += elements_of(spec.shape);
      if (specs == &call.outputs && !call.arguments.empty()) continue;
      largest = std::max(largest, elements_of(spec.shape));
      cubic += cubic_units(spec.shape);
    }
  }
  const Known* row = find_known(name);
  if (row == nullptr) return name.starts_with("fft.") ? largest * std::log2(largest + 2) : elements;
  switch (row->growth) {
    case Growth::cubic:
      return cubic;
    case Growth::substitution:
      return substitution_units(call.arguments);
    case Growth::sorting:
      return largest * std::log2(largest + 2);
  }
  return elements;
}

std::vector<Work> work_of(const Stage& stage) {
  std::vector<Work> works;
  std::visit(Adder{stage, works, stage.device == local::DeviceKind::cpu}, stage.work);
  return works;
}

double matrix_flops(const Stage& stage) {
  if (const auto* applied = std::get_if<Applied>(&stage.work)) return flops_of_call(*applied);
  double flops = 0;
  for (const Work& work : work_of(stage))
    if (work.kind == Work::Kind::product) flops += 2 * work.units * real_ones(work.dtype);
  return flops;
}

bool is_cubic(std::string_view name) {
  const Known* row = find_known(name);
  return row != nullptr && row->growth != Growth::sorting;
}

double Rates::seconds_per_unit(const Work& work) const {
  if (known_.empty()) return usual_seconds(work);
  const auto found = known_.find(work.name());
  return found == known_.end() ? usual_seconds(work) : found->second;
}

double fresh_bytes(const Plan& plan, int threads) {
  constexpr double kTasksAhead = 2;  // admitted while one runs, for each thread
  double most = 0;
  for (const Stage& stage : plan.stages) {
    auto all = static_cast<double>(stage.file_bytes());
    for (const Stage::Output& output : stage.outputs) all += bytes_of(output);
    const auto task = static_cast<double>(stage.task_bytes());
    const double together = std::min<double>(kTasksAhead * threads, static_cast<double>(stage.grid.count())) * task;
    most = std::max(most, std::min(std::max(all, task), together));
  }
  return most;
}

double seconds_of(const Stage& stage, const Rates& rates) {
  double seconds = 0;
  for (const Work& work : work_of(stage)) seconds += work.units * rates.seconds_per_unit(work);
  return seconds;
}

}  // namespace quarry::plan
