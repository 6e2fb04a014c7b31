#include "quarry/local/cuda/codegen/kernel_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/local/base/error.h"

namespace quarry::local::cuda {
namespace {

std::vector<ValueId> roots_of(const Program& program) {
  std::vector<ValueId> roots = program.outputs();
  for (const ProgramReduction& reduction : program.reductions())
    roots.insert(roots.end(), reduction.args.begin(), reduction.args.end());
  return roots;
}

}  // namespace

KernelWriter::KernelWriter(const Program& program, const Plan& plan, std::string suffix)
    : program_(program), plan_(plan), suffix_(std::move(suffix)), needed_(reachable(program, roots_of(program))) {
  input_used_.assign(plan.inputs.size(), false);
  for (size_t id = 0; id < needed_.size(); ++id) {
    const Value& value = program.values()[id];
    if (!needed_[id]) continue;
    if (value.kind == Value::Kind::input) input_used_[static_cast<size_t>(value.slot)] = true;
    if (value.kind == Value::Kind::index) index_axes_.push_back(value.slot);
    if (is_lane_draw(value)) lane_draws_.push_back(id);
    if (plan.kind == Plan::Kind::map && is_prepared(program, value)) prepared_.push_back(id);
  }
  w_.line("namespace quarry::local::k{} {{", suffix_);
  write_parameter_struct("Params", plan_.slots);
  w_.line("using Index = {};", plan_.wide ? "uint64_t" : "uint32_t");
  w_.line("constexpr int V = {}, U = {}, G = {};", plan_.lanes, plan_.unroll, plan_.group);
  write_compute();
}

ModuleSource KernelWriter::finish() {
  w_.raw("}");
  ModuleSource source;
  source.text = w_.take();
  source.kernels.push_back("quarry_run" + suffix_);
  if (plan_.split) source.kernels.push_back("quarry_merge" + suffix_);
  return source;
}

// ---- Random numbers ----

// By how much an integer value grows from lane to lane, 0 or 1; nothing where that is not known.
std::optional<int> KernelWriter::lane_step(ValueId id) const {
  const Value& value = program_.values()[static_cast<size_t>(id)];
  switch (value.kind) {
    case Value::Kind::constant:
      return 0;
    case Value::Kind::input:
      return std::nullopt;
    case Value::Kind::index:
      return plan_.axis_of[static_cast<size_t>(value.slot)] == plan_.lane_axis() ? 1 : 0;
    case Value::Kind::op:
      break;
  }
  int sum = 0;
  for (int i = 0; i < value.nargs; ++i) {
    const std::optional<int> step = lane_step(value.args[i]);
    if (!step) return std::nullopt;
    sum += *step;
  }
  if (sum == 0 || (sum == 1 && value.op == "add"_op && value.loop == DType::int64)) return sum;
  return std::nullopt;
}

// Whether a thread's lanes have successive indices of one stream, so that they can share its blocks.
bool KernelWriter::is_lane_draw(const Value& value) const {
  return plan_.kind == Plan::Kind::map && value.kind == Value::Kind::op && info(value.op).rule == OpRule::random &&
         lane_step(value.args[0]) == 1 && lane_step(value.args[1]) == 0 && lane_step(value.args[2]) == 0;
}

void KernelWriter::write_lane_draws(const std::function<void()>& write_position) {
  if (lane_draws_.empty()) return;
  const auto at_first_lane = [this](const Value& value) {
    if (value.kind != Value::Kind::index) return leaf(value);
    const int own = plan_.axis_of[static_cast<size_t>(value.slot)];
    return fmt::format("x{}", value.slot) + (own >= 0 ? fmt::format(" + i{}", own) : "");
  };
  for (const size_t id : lane_draws_) {
    w_.line("int64_t b{}[U];", id);
    w_.line("{} d{}[U][V];", type_name(program_.values()[id].dtype), id);
  }
  w_.raw("#pragma unroll");
  w_.open("for (int u = 0; u < U; ++u)");
  write_position();
  for (const size_t id : lane_draws_) {
    const ValueId index = program_.values()[id].args[0];
    w_.open("");
    write_values(w_, program_, reachable(program_, {index}), at_first_lane);
    w_.line("b{}[u] = v{};", id, index);
    w_.close();
  }
  w_.close();
  for (const size_t id : lane_draws_) {
    const Value& value = program_.values()[id];
    w_.open("");
    write_values(w_, program_, reachable(program_, {value.args[1], value.args[2]}), at_first_lane);
    w_.line("draw_lanes<lanes_of_{}>(b{}, v{}, v{}, d{});", info(value.op).name, id, value.args[1], value.args[2], id);
    w_.close();
  }
}

void KernelWriter::write_prepared() {
  if (prepared_.empty()) return;
  std::vector<ValueId> parameters;
  for (const size_t id : prepared_) {
    const Value& value = program_.values()[id];
    parameters.insert(parameters.end(), value.args + 1, value.args + value.nargs);
  }
  write_values(w_, program_, reachable(program_, parameters), [this](const Value& value) { return leaf(value); });
  for (const size_t id : prepared_) {
    const Value& value = program_.values()[id];
    std::string text;
    for (int i = 1; i < value.nargs; ++i) text += fmt::format(", v{}", value.args[i]);
    w_.line("__shared__ prepared<fn::{}_sampler> s{};", info(value.op).name, id);
    w_.line("prepare(s{}{});", id, text);
  }
}

// ---- One element: inputs and positions to outputs and the values that are reduced ----

void KernelWriter::write_compute() {
  w_.open("struct Results");
  for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("{} o{};", out_type(i), i);
  for (size_t r = 0; r < program_.reductions().size(); ++r)
    for (size_t i = 0; i < program_.reductions()[r].args.size(); ++i)
      w_.line("{} m{}_{};", type_name(program_.dtype(program_.reductions()[r].args[i])), r, i);
  w_.close("};");
  std::string arguments = "const Params& p";
  for (size_t i = 0; i < plan_.inputs.size(); ++i)
    if (input_used_[i]) arguments += fmt::format(", {} a{}", in_type(i), i);
  for (const int axis : index_axes_) arguments += fmt::format(", int64_t g{}", axis);
  for (const size_t id : lane_draws_) arguments += fmt::format(", {} d{}", type_name(program_.values()[id].dtype), id);
  for (const size_t id : prepared_)
    arguments += fmt::format(", const prepared<fn::{}_sampler>& s{}", info(program_.values()[id].op).name, id);
  w_.open(fmt::format("QUARRY_FN Results compute({})", arguments));
  write_values(
      w_, program_, needed_, [this](const Value& value) { return leaf(value); },
      [this](size_t id) { return given(id); });
  w_.line("Results r;");
  for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("r.o{} = v{};", i, program_.outputs()[i]);
  for (size_t r = 0; r < program_.reductions().size(); ++r)
    for (size_t i = 0; i < program_.reductions()[r].args.size(); ++i)
      w_.line("r.m{}_{} = v{};", r, i, program_.reductions()[r].args[i]);
  w_.line("return r;");
  w_.close();
}

std::string KernelWriter::leaf(const Value& value) const {
  switch (value.kind) {
    case Value::Kind::input:
      return value.swapped ? fmt::format("swapped(a{})", value.slot) : fmt::format("a{}", value.slot);
    case Value::Kind::constant:
      return fmt::format("parameter<{}>(p.s + {})", type_name(value.dtype), slot_of(fmt::format("c{}", value.slot)));
    case Value::Kind::index:
      return fmt::format("g{}", value.slot);
    case Value::Kind::op:
      break;
  }
  return "";
}

std::string KernelWriter::given(size_t id) const {
  const auto among = [id](const std::vector<size_t>& ids) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  if (among(lane_draws_)) return fmt::format("d{}", id);
  const Value& value = program_.values()[id];
  if (!among(prepared_)) return "";
  return fmt::format("static_cast<{}>(draw(s{}, v{}))", type_name(value.dtype), id, value.args[0]);
}

size_t KernelWriter::slot_of(const std::string& name) const {
  const auto& names = plan_.slots.names();
  const auto place = std::find(names.begin(), names.end(), name);
  QUARRY_CHECK(place != names.end());
  return static_cast<size_t>(place - names.begin());
}

std::string KernelWriter::call_compute(const std::function<std::string(size_t)>& element,
                                       const std::function<std::string(int)>& coordinate,
                                       const std::string& lane) const {
  std::string text = "compute(p";
  for (size_t i = 0; i < plan_.inputs.size(); ++i)
    if (input_used_[i]) text += ", " + element(i);
  for (const int axis : index_axes_) {
    const int own = plan_.axis_of[static_cast<size_t>(axis)];
    text += fmt::format(", x{}", axis);
    if (own >= 0) text += " + " + coordinate(own);
    if (own >= 0 && own == plan_.lane_axis() && !lane.empty()) text += " + " + lane;
  }
  for (const size_t id : lane_draws_) text += fmt::format(", d{}[{}][{}]", id, plan_.unroll > 1 ? "u" : "0", lane);
  for (const size_t id : prepared_) text += fmt::format(", s{}", id);
  return text + ")";
}

// ---- Addresses ----

void KernelWriter::write_parameter_struct(const char* name, const Slots& slots) {
  const std::string table = plan_.several > 0 ? fmt::format(" int64_t v[{}][{}];", plan_.several,
                                                            std::max<size_t>(1, slots.differing().size()))
                                              : "";
  w_.line("struct {} {{ int64_t s[{}];{} }};", name, std::max<size_t>(1, slots.size()), table);
}

void KernelWriter::write_parameters(const Slots& slots) {
  const std::vector<size_t> differing = plan_.several > 0 ? slots.differing() : std::vector<size_t>();
  size_t next = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::string& name = slots.names()[i];
    if (name[0] == 'c' && name != "chunks") continue;  // constants are read by compute()
    const bool differs = next < differing.size() && differing[next] == i;
    const std::string value = differs ? fmt::format("p.v[blockIdx.z][{}]", next++) : fmt::format("p.s[{}]", i);
    w_.line("[[maybe_unused]] const int64_t {} = {};", name, value);
  }
}

void KernelWriter::write_split(const std::vector<int>& axes, const char* rest) {
  for (size_t k = axes.size(); k-- > 0;) {
    const int axis = axes[k];
    if (k == 0) {
      w_.line("const Index q{} = {};", axis, rest);
    } else {
      w_.line("const Index r{} = divide_by({}, d{});", axis, rest, axis);
      w_.line("const Index q{} = {} - r{} * static_cast<Index>(n{});", axis, rest, axis, axis);
      w_.line("{} = r{};", rest, axis);
    }
  }
}

std::string KernelWriter::offsets(const PlanOperand& operand, const std::string& name, const std::vector<int>& axes,
                                  const char* coordinate, const char* at) {
  std::string text;
  for (const int axis : axes)
    if (operand.moves >> axis & 1u) text += fmt::format(" + {}{}{} * {}_{}", coordinate, axis, at, name, axis);
  return text;
}

std::vector<int> KernelWriter::axes_where(bool reduced, bool with_lane_axis) const {
  std::vector<int> axes;
  for (int d = 0; d < plan_.ndim; ++d)
    if (plan_.is_reduced(d) == reduced && (with_lane_axis || d != plan_.lane_axis())) axes.push_back(d);
  return axes;
}

// ---- Loads and stores ----

void KernelWriter::write_load(size_t i, const std::string& address, const std::string& to, bool full) {
  full = full || plan_.whole;
  const std::string count = full ? "V" : "count";
  switch (plan_.inputs[i].access) {
    case Access::vector:
      if (full)
        w_.line("load_vector({}, {});", address, to);
      else
        w_.line("if (count == V) load_vector({0}, {1}); else load_strided({0}, sizeof({2}), count, {1});", address, to,
                in_type(i));
      break;
    case Access::element:
      w_.line("load_strided({}, sizeof({}), {}, {});", address, in_type(i), count, to);
      break;
    case Access::strided:
      w_.line("load_strided({}, {}_{}, {}, {});", address, in(i), plan_.lane_axis(), count, to);
      break;
    case Access::broadcast:
      w_.line("{}[0] = load_one<{}>({});", to, in_type(i), address);
      break;
    case Access::tiled:
      QUARRY_CHECK(!"a tiled operand outside of a tile kernel");
  }
}

void KernelWriter::write_store(size_t i, const std::string& address, const std::string& from, bool full) {
  full = full || plan_.whole;
  const std::string count = full ? "V" : "count";
  switch (plan_.outputs[i].access) {
    case Access::vector:
      if (full)
        w_.line("store_vector({}, {});", address, from);
      else
        w_.line("if (count == V) store_vector({0}, {1}); else store_strided({0}, sizeof({2}), count, {1});", address,
                from, out_type(i));
      break;
    case Access::element:
      w_.line("store_strided({}, sizeof({}), {}, {});", address, out_type(i), count, from);
      break;
    case Access::strided:
      w_.line("store_strided({}, out{}_{}, {}, {});", address, i, plan_.lane_axis(), count, from);
      break;
    case Access::broadcast:  // an axis of extent 1
      w_.line("store_one({}, {}[0]);", address, from);
      break;
    case Access::tiled:
      QUARRY_CHECK(!"outputs are never tiled");
  }
}

void KernelWriter::open_kernel(const char* name, const char* params, int blocks) {
  const std::string bounds = blocks > 0 ? fmt::format("kBlock, {}", blocks) : "kBlock";
  w_.open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}{}(const __grid_constant__ {} p)", bounds,
                      name, suffix_, params));
}

}  // namespace quarry::local::cuda
