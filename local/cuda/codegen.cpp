#include "local/cuda/codegen.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "local/base/error.h"
#include "local/cuda/embedded.h"

namespace quarry::local::cuda {
const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::bool_:
      return "bool";
    case DType::int8:
      return "int8_t";
    case DType::int16:
      return "int16_t";
    case DType::int32:
      return "int32_t";
    case DType::int64:
      return "int64_t";
    case DType::uint8:
      return "uint8_t";
    case DType::uint16:
      return "uint16_t";
    case DType::uint32:
      return "uint32_t";
    case DType::uint64:
      return "uint64_t";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float32:
      return "float";
    case DType::float64:
      return "double";
    case DType::complex64:
      return "cx<float>";
    case DType::complex128:
      return "cx<double>";
  }
  QUARRY_CHECK(!"a dtype");
  return "";
}

namespace {

bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

class Writer {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    raw(fmt::format(text, std::forward<Args>(args)...));
  }
  void raw(const std::string& text) {
    text_.append(static_cast<size_t>(indent_) * 2, ' ');
    text_ += text;
    text_ += '\n';
  }
  void open(const std::string& text) {
    raw(text + " {");
    ++indent_;
  }
  void close(const char* text = "}") {
    --indent_;
    raw(text);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int indent_ = 0;
};

// The values that the given ones depend on.
std::vector<bool> reachable(const Program& program, const std::vector<ValueId>& roots) {
  std::vector<bool> needed(program.values().size(), false);
  std::vector<ValueId> open = roots;
  while (!open.empty()) {
    const auto id = static_cast<size_t>(open.back());
    open.pop_back();
    if (needed[id]) continue;
    needed[id] = true;
    const Value& value = program.values()[id];
    for (int i = 0; i < value.nargs; ++i) open.push_back(value.args[i]);
  }
  return needed;
}

std::vector<ValueId> roots_of(const Program& program) {
  std::vector<ValueId> roots = program.outputs();
  for (const ProgramReduction& reduction : program.reductions())
    roots.insert(roots.end(), reduction.args.begin(), reduction.args.end());
  return roots;
}

// Declares v0, v1, ... of the needed values; `leaf` gives the expression of an input, constant or index.
void write_values(Writer& w, const Program& program, const std::vector<bool>& needed,
                  const std::function<std::string(const Value&)>& leaf) {
  for (size_t id = 0; id < program.values().size(); ++id) {
    if (!needed[id]) continue;
    const Value& value = program.values()[id];
    if (value.kind != Value::Kind::op) {
      w.line("const {} v{} = {};", type_name(value.dtype), id, leaf(value));
      continue;
    }
    if (value.op == Op::cast) {
      w.line("const {} v{} = fn::convert<{}>::from(v{});", type_name(value.dtype), id, type_name(value.dtype),
             value.args[0]);
      continue;
    }
    // Half formats are computed in float and rounded after every operation, fused or not.
    const OpInfo& row = info(value.op);
    const bool in_storage = row.rule == OpRule::storage;
    w.line("{} v{};", type_name(value.dtype), id);
    w.open("");
    w.line("using T [[maybe_unused]] = {};", type_name(value.loop));
    constexpr const char* names[] = {"x", "y", "z"};
    for (int i = 0; i < value.nargs; ++i) {
      const bool widen = !in_storage && is_half(program.dtype(value.args[i]));
      w.line("const auto {} = {}v{}{};", names[i], widen ? "static_cast<float>(" : "", value.args[i], widen ? ")" : "");
    }
    if (is_half(value.dtype) && !in_storage)
      w.line("v{} = {}({});", id, type_name(value.dtype), row.expression);
    else
      w.line("v{} = {};", id, row.expression);
    w.close();
  }
}

// A constant of a combine program as a literal that the compiler can fold.
std::string literal(const Scalar& scalar) {
  uint64_t words[2] = {0, 0};
  scalar.store(scalar.dtype(), words);
  switch (itemsize(scalar.dtype())) {
    case 1:
      return fmt::format("bit_copy<{}>(static_cast<uint8_t>({}))", type_name(scalar.dtype()), words[0] & 0xff);
    case 2:
      return fmt::format("bit_copy<{}>(static_cast<uint16_t>({}))", type_name(scalar.dtype()), words[0] & 0xffff);
    case 4:
      return fmt::format("bit_copy<{}>(static_cast<uint32_t>({}u))", type_name(scalar.dtype()), words[0] & 0xffffffffu);
    default:
      if (scalar.dtype() == DType::int64) return fmt::format("static_cast<int64_t>({}ull)", words[0]);
      if (itemsize(scalar.dtype()) == 8)
        return fmt::format("bit_copy<{}>(static_cast<uint64_t>({}ull))", type_name(scalar.dtype()), words[0]);
      return fmt::format(
          "cx<double>{{bit_copy<double>(static_cast<uint64_t>({}ull)), "
          "bit_copy<double>(static_cast<uint64_t>({}ull))}}",
          words[0], words[1]);
  }
}

// First field of each reduction in the joint State.
std::vector<size_t> field_bases(const Program& program) {
  std::vector<size_t> bases;
  size_t next = 0;
  for (const ProgramReduction& reduction : program.reductions()) {
    bases.push_back(next);
    next += state_dtypes(reduction.reduction, reduction.accumulate).size();
  }
  return bases;
}

// Field values of no elements.
std::vector<std::string> start_values(const ProgramReduction& reduction, const std::vector<DType>& fields) {
  const std::string t0 = type_name(fields[0]);
  const auto number = [&fields](size_t i, const char* value) {
    return fmt::format("fn::convert<{}>::from(int64_t({}))", type_name(fields[i]), value);
  };
  switch (reduction.reduction) {
    case Reduction::sum:
      return {number(0, "0")};
    case Reduction::prod:
      return {number(0, "1")};
    case Reduction::min:
      return {fmt::format("extreme<{}>::highest()", t0)};
    case Reduction::max:
      return {fmt::format("extreme<{}>::lowest()", t0)};
    case Reduction::any:
      return {"false"};
    case Reduction::all:
      return {"true"};
    case Reduction::argmin:
    case Reduction::argmax:
      return {number(0, "0"), "-1"};
    case Reduction::count_nonzero:
      return {"0"};
    case Reduction::mean:
      return {number(0, "0"), "0"};
    case Reduction::var:
    case Reduction::std:
      return {"0", number(1, "0"), number(2, "0")};
  }
  return {};
}

// Field values of one element; `m` is the value and `position` its position.
std::vector<std::string> first_values(const ProgramReduction& reduction, const std::vector<DType>& fields,
                                      const std::string& m, const std::string& position) {
  const auto as = [&](size_t i) { return fmt::format("fn::convert<{}>::from({})", type_name(fields[i]), m); };
  switch (reduction.reduction) {
    case Reduction::sum:
    case Reduction::prod:
      return {as(0)};
    case Reduction::min:
    case Reduction::max:
      return {m};
    case Reduction::any:
    case Reduction::all:
      return {fmt::format("fn::truth({})", m)};
    case Reduction::argmin:
    case Reduction::argmax:
      return {m, position};
    case Reduction::count_nonzero:
      return {fmt::format("(fn::truth({}) ? 1 : 0)", m)};
    case Reduction::mean:
      return {as(0), "1"};
    case Reduction::var:
    case Reduction::std:
      return {"1", as(1), fmt::format("{}(0)", type_name(fields[2]))};
  }
  return {};
}

class Generator {
 public:
  Generator(const Program& program, const Plan& plan, std::string suffix)
      : program_(program), plan_(plan), suffix_(std::move(suffix)), needed_(reachable(program, roots_of(program))) {
    input_used_.assign(plan.inputs.size(), false);
    for (size_t id = 0; id < needed_.size(); ++id) {
      const Value& value = program.values()[id];
      if (!needed_[id]) continue;
      if (value.kind == Value::Kind::input) {
        input_used_[static_cast<size_t>(value.slot)] = true;
        if (value.swapped) swapped_.push_back(value.slot);
      }
      if (value.kind == Value::Kind::index) index_axes_.push_back(value.slot);
    }
  }

  ModuleSource make() {
    w_.line("namespace quarry::local::k{} {{", suffix_);
    w_.line("struct Params {{ int64_t s[{}]; }};", std::max<size_t>(1, plan_.slots.size()));
    w_.line("using Index = {};", plan_.wide ? "uint64_t" : "uint32_t");
    w_.line("constexpr int V = {}, U = {}, G = {};", plan_.lanes, plan_.unroll, plan_.group);
    write_compute();
    if (!program_.reductions().empty()) write_state();
    ModuleSource source;
    switch (plan_.kind) {
      case Plan::Kind::map:
        write_map();
        break;
      case Plan::Kind::tile:
        write_tile();
        break;
      case Plan::Kind::rows:
        write_rows();
        break;
      case Plan::Kind::columns:
        write_columns();
        break;
    }
    source.kernels.push_back("quarry_run" + suffix_);
    if (plan_.split) {
      write_merge();
      source.kernels.push_back("quarry_merge" + suffix_);
    }
    w_.raw("}");
    source.text = w_.take();
    return source;
  }

 private:
  std::string in(size_t i) const { return fmt::format("in{}", i); }
  bool is_swapped(size_t i) const {
    return std::find(swapped_.begin(), swapped_.end(), static_cast<int>(i)) != swapped_.end();
  }
  const char* in_type(size_t i) const { return type_name(plan_.inputs[i].dtype); }
  const char* out_type(size_t i) const { return type_name(plan_.outputs[i].dtype); }

  // ---- One element: inputs and positions to outputs and the values that are reduced ----

  void write_compute() {
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
    w_.open(fmt::format("QUARRY_FN Results compute({})", arguments));
    write_values(w_, program_, needed_, [this](const Value& value) -> std::string {
      switch (value.kind) {
        case Value::Kind::input:
          return value.swapped ? fmt::format("swapped(a{})", value.slot) : fmt::format("a{}", value.slot);
        case Value::Kind::constant:
          return fmt::format("parameter<{}>(p.s + {})", type_name(value.dtype),
                             slot_of(fmt::format("c{}", value.slot)));
        case Value::Kind::index:
          return fmt::format("g{}", value.slot);
        case Value::Kind::op:
          break;
      }
      return "";
    });
    w_.line("Results r;");
    for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("r.o{} = v{};", i, program_.outputs()[i]);
    for (size_t r = 0; r < program_.reductions().size(); ++r)
      for (size_t i = 0; i < program_.reductions()[r].args.size(); ++i)
        w_.line("r.m{}_{} = v{};", r, i, program_.reductions()[r].args[i]);
    w_.line("return r;");
    w_.close();
  }

  size_t slot_of(const std::string& name) const {
    const auto& names = plan_.slots.names();
    const auto place = std::find(names.begin(), names.end(), name);
    QUARRY_CHECK(place != names.end());
    return static_cast<size_t>(place - names.begin());
  }

  // compute(p, a0, ..., g0, ...) with element expressions; `lane` is added to positions along the lane axis.
  std::string call_compute(const std::function<std::string(size_t)>& element,
                           const std::function<std::string(int)>& coordinate, const std::string& lane) const {
    std::string text = "compute(p";
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (input_used_[i]) text += ", " + element(i);
    for (const int axis : index_axes_) {
      const int own = plan_.axis_of[static_cast<size_t>(axis)];
      text += fmt::format(", x{}", axis);
      if (own >= 0) text += " + " + coordinate(own);
      if (own >= 0 && own == plan_.lane_axis() && !lane.empty()) text += " + " + lane;
    }
    return text + ")";
  }

  // ---- States ----

  void write_state() {
    const auto bases = field_bases(program_);
    w_.open("struct State");
    for (size_t i = 0; i < plan_.states.size(); ++i) w_.line("{} f{};", type_name(plan_.states[i].dtype), i);
    w_.close("};");
    w_.open("QUARRY_FN State start()");
    w_.line("State s;");
    for_fields([&](size_t r, const std::vector<DType>& fields) {
      const auto values = start_values(program_.reductions()[r], fields);
      for (size_t i = 0; i < fields.size(); ++i) w_.line("s.f{} = {};", bases[r] + i, values[i]);
    });
    w_.line("return s;");
    w_.close();
    w_.open("QUARRY_FN State first(const Results& r)");
    w_.line("State s;");
    for_fields([&](size_t r, const std::vector<DType>& fields) {
      const auto values =
          first_values(program_.reductions()[r], fields, fmt::format("r.m{}_0", r), fmt::format("r.m{}_1", r));
      for (size_t i = 0; i < fields.size(); ++i) w_.line("s.f{} = {};", bases[r] + i, values[i]);
    });
    w_.line("return s;");
    w_.close();
    w_.open("QUARRY_FN State combine(const State& a, const State& b)");
    w_.line("State s;");
    for_fields([&](size_t r, const std::vector<DType>& fields) {
      const ProgramReduction& reduction = program_.reductions()[r];
      const Program merge = combine_program(reduction.reduction, reduction.accumulate);
      w_.open("");
      write_values(w_, merge, reachable(merge, merge.outputs()), [&](const Value& value) {
        if (value.kind == Value::Kind::constant) return literal(merge.constants()[static_cast<size_t>(value.slot)]);
        const size_t slot = static_cast<size_t>(value.slot);
        return slot < fields.size() ? fmt::format("a.f{}", bases[r] + slot)
                                    : fmt::format("b.f{}", bases[r] + slot - fields.size());
      });
      for (size_t i = 0; i < fields.size(); ++i) w_.line("s.f{} = v{};", bases[r] + i, merge.outputs()[i]);
      w_.close();
    });
    w_.line("return s;");
    w_.close();

    // Lane 0 of each group of W threads gets the group's state; all threads of the block take part.
    w_.raw("template <int W>");
    w_.open("QUARRY_FN State across(State s)");
    w_.raw("constexpr int warp = W < 32 ? W : 32;");
    w_.raw("#pragma unroll");
    w_.open("for (int distance = warp / 2; distance > 0; distance /= 2)");
    write_shuffle();
    w_.close();
    w_.open("if constexpr (W > 32)");
    w_.raw("__shared__ State warps[kBlock / 32];");
    w_.raw("if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;");
    w_.raw("__syncthreads();");
    w_.open("if (threadIdx.x < 32)");
    w_.raw("s = warps[threadIdx.x % (kBlock / 32)];");
    w_.raw("#pragma unroll");
    w_.open("for (int distance = kBlock / 64; distance > 0; distance /= 2)");
    w_.raw("constexpr int warp = kBlock / 32;");
    write_shuffle();
    w_.close();
    w_.close();
    w_.close();
    w_.raw("return s;");
    w_.close();
  }

  void write_shuffle() {
    w_.raw("State other;");
    for (size_t i = 0; i < plan_.states.size(); ++i) w_.line("other.f{0} = shuffle_down(s.f{0}, distance, warp);", i);
    w_.raw("s = combine(s, other);");
  }

  void for_fields(const std::function<void(size_t, const std::vector<DType>&)>& function) const {
    for (size_t r = 0; r < program_.reductions().size(); ++r) {
      const ProgramReduction& reduction = program_.reductions()[r];
      function(r, state_dtypes(reduction.reduction, reduction.accumulate));
    }
  }

  // ---- Addresses ----

  void write_parameters(const Slots& slots) {
    for (size_t i = 0; i < slots.size(); ++i) {
      const std::string& name = slots.names()[i];
      if (name[0] == 'c' && name != "chunks") continue;  // constants are read by compute()
      w_.line("[[maybe_unused]] const int64_t {} = p.s[{}];", name, i);
    }
  }

  // Splits `rest` into steps along `axes` (outermost first): q{axis}, and i{axis} where no scale applies.
  void write_split(const std::vector<int>& axes, const char* rest) {
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

  // " + i1 * in0_1 ..." over the given axes.
  static std::string offsets(const PlanOperand& operand, const std::string& name, const std::vector<int>& axes,
                             const char* coordinate = "i") {
    std::string text;
    for (const int axis : axes)
      if (operand.moves >> axis & 1u) text += fmt::format(" + {}{} * {}_{}", coordinate, axis, name, axis);
    return text;
  }

  std::vector<int> axes_where(bool reduced, bool with_lane_axis) const {
    std::vector<int> axes;
    for (int d = 0; d < plan_.ndim; ++d)
      if (plan_.is_reduced(d) == reduced && (with_lane_axis || d != plan_.lane_axis())) axes.push_back(d);
    return axes;
  }

  // Loads V elements of input i at `address` into `to`; `count` may be less than V unless `full`.
  void write_load(size_t i, const std::string& address, const std::string& to, bool full) {
    const std::string count = full ? "V" : "count";
    switch (plan_.inputs[i].access) {
      case Access::vector:
        if (full)
          w_.line("load_vector({}, {});", address, to);
        else
          w_.line("if (count == V) load_vector({0}, {1}); else load_strided({0}, sizeof({2}), count, {1});", address,
                  to, in_type(i));
        break;
      case Access::element:
        w_.line("load_strided({}, sizeof({}), {}, {});", address, in_type(i), count, to);
        break;
      case Access::strided:
        w_.line("load_strided({}, in{}_{}, {}, {});", address, i, plan_.lane_axis(), count, to);
        break;
      case Access::broadcast:
        w_.line("{}[0] = load_one<{}>({});", to, in_type(i), address);
        break;
      case Access::tiled:
        QUARRY_CHECK(!"a tiled operand outside of a tile kernel");
    }
  }
  void write_store(size_t i, const std::string& address, const std::string& from, bool full) {
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
  std::string lane_of(size_t i, const std::string& array, const std::string& lane) const {
    return plan_.inputs[i].access == Access::broadcast ? array + "[0]" : fmt::format("{}[{}]", array, lane);
  }

  void open_kernel(const char* name, const char* params) {
    w_.open(fmt::format("extern \"C\" __global__ void __launch_bounds__(kBlock) {}{}(const __grid_constant__ {} p)",
                        name, suffix_, params));
  }

  // ---- Elementwise ----

  void write_map() {
    open_kernel("quarry_run", "Params");
    write_parameters(plan_.slots);
    w_.raw("Index rest = static_cast<Index>(blockIdx.x) * kBlock + threadIdx.x;");
    w_.raw("if (rest >= static_cast<Index>(threads)) return;");
    std::vector<int> axes;
    for (int d = 0; d < plan_.ndim; ++d) axes.push_back(d);
    write_split(axes, "rest");
    const int lane = plan_.lane_axis();
    for (const int axis : axes)
      w_.line("[[maybe_unused]] const int64_t i{0} = static_cast<int64_t>(q{0}){1};", axis, axis == lane ? " * V" : "");
    w_.line("[[maybe_unused]] const int count = e{0} - i{0} < V ? static_cast<int>(e{0} - i{0}) : V;", lane);
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (!input_used_[i]) continue;
      w_.line("{} a{}[V] = {{}};", in_type(i), i);
      write_load(i, fmt::format("reinterpret_cast<const char*>(in{}){}", i, offsets(plan_.inputs[i], in(i), axes)),
                 fmt::format("a{}", i), false);
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("{} o{}[V];", out_type(i), i);
    w_.raw("#pragma unroll");
    w_.open("for (int v = 0; v < V; ++v)");
    w_.line("const Results r = {};", call_compute([this](size_t i) { return lane_of(i, fmt::format("a{}", i), "v"); },
                                                  [](int axis) { return fmt::format("i{}", axis); }, "v"));
    for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("o{}[v] = r.o{};", i, i);
    w_.close();
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      write_store(
          i,
          fmt::format("reinterpret_cast<char*>(out{}){}", i, offsets(plan_.outputs[i], fmt::format("out{}", i), axes)),
          fmt::format("o{}", i), false);
    w_.close();
  }

  // A block reads a kTile x kTile tile of each tiled operand along the operand's own contiguous axis and computes along
  // the outputs'. The odd row length keeps a warp's column in different banks.
  void write_tile() {
    const int lane = plan_.lane_axis(), other = plan_.tile_axis;
    open_kernel("quarry_run", "Params");
    write_parameters(plan_.slots);
    w_.raw("Index rest = blockIdx.x;");
    std::vector<int> axes;
    for (int d = 0; d < plan_.ndim; ++d)
      if (d != lane && d != other) axes.push_back(d);
    const std::vector<int> rest_axes = axes;
    axes.push_back(other);
    axes.push_back(lane);
    write_split(axes, "rest");
    for (const int axis : rest_axes) w_.line("[[maybe_unused]] const int64_t i{0} = static_cast<int64_t>(q{0});", axis);
    w_.line("const int64_t first_x = static_cast<int64_t>(q{}) * {}, first_y = static_cast<int64_t>(q{}) * {};", lane,
            kTile, other, kTile);
    w_.line("const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};", kTile);
    constexpr int kRows = kBlockThreads / kTile, kSteps = kTile / kRows;
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (!input_used_[i]) continue;
      w_.line("const char* const p{} = reinterpret_cast<const char*>(in{}){};", i, i,
              offsets(plan_.inputs[i], in(i), rest_axes));
      if (plan_.inputs[i].access != Access::tiled) continue;
      w_.line("__shared__ {} tile{}[{}][{}];", in_type(i), i, kTile, kTile + 1);
      w_.raw("#pragma unroll");
      w_.open(fmt::format("for (int k = 0; k < {}; ++k)", kSteps));
      w_.line("const int64_t i{} = first_x + ty + k * {}, i{} = first_y + tx;", lane, kRows, other);
      w_.line("if (i{0} < e{0} && i{1} < e{1}) tile{2}[ty + k * {3}][tx] = load_one<{4}>(p{2}{5});", lane, other, i,
              kRows, in_type(i), offsets(plan_.inputs[i], in(i), {other, lane}));
      w_.close();
    }
    w_.raw("__syncthreads();");
    w_.raw("#pragma unroll");
    w_.open(fmt::format("for (int k = 0; k < {}; ++k)", kSteps));
    w_.line("const int64_t i{} = first_x + tx, i{} = first_y + ty + k * {};", lane, other, kRows);
    w_.line("if (i{0} >= e{0} || i{1} >= e{1}) continue;", lane, other);
    w_.line(
        "const Results r = {};",
        call_compute(
            [&](size_t i) {
              if (plan_.inputs[i].access == Access::tiled) return fmt::format("tile{}[tx][ty + k * {}]", i, kRows);
              return fmt::format("load_one<{}>(p{}{})", in_type(i), i, offsets(plan_.inputs[i], in(i), {other, lane}));
            },
            [](int axis) { return fmt::format("i{}", axis); }, ""));
    std::vector<int> all;
    for (int d = 0; d < plan_.ndim; ++d) all.push_back(d);
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      w_.line("store_one(reinterpret_cast<char*>(out{}){}, r.o{});", i,
              offsets(plan_.outputs[i], fmt::format("out{}", i), all), i);
    w_.close();
    w_.close();
  }

  // ---- Reductions ----

  // s[0] becomes the state of s[0] ... s[count - 1], as a balanced tree in element order.
  void write_tree(int count) {
    for (int half = 1; half < count; half *= 2)
      for (int i = 0; i + half < count; i += 2 * half) w_.line("s[{0}] = combine(s[{0}], s[{1}]);", i, i + half);
  }

  // Each level holds at most 16 states of the level below, so that rounding errors grow with the depth, not the count.
  void write_cascade(const std::string& at) {
    if (!plan_.cascade) return;
    w_.open("if ((++steps & 15) == 0)");
    write_lanes(at, [&](const std::string& l) {
      w_.line("level1{0} = combine(level1{0}, level0{0});", l);
      w_.line("level0{} = start();", l);
    });
    w_.open("if ((steps & 255) == 0)");
    write_lanes(at, [&](const std::string& l) {
      w_.line("level2{0} = combine(level2{0}, level1{0});", l);
      w_.line("level1{} = start();", l);
    });
    w_.close();
    w_.close();
  }
  void write_lanes(const std::string& at, const std::function<void(const std::string&)>& body) {
    if (at.empty()) {
      body("");
      return;
    }
    w_.raw("#pragma unroll");
    w_.open("for (int v = 0; v < V; ++v)");
    body(at);
    w_.close();
  }
  void write_levels(const char* lanes) {
    w_.line("State level0{};", lanes);
    if (plan_.cascade) {
      w_.line("State level1{0}, level2{0};", lanes);
      w_.raw("int steps = 0;");
    }
    const std::string at = lanes[0] == '\0' ? "" : "[v]";
    write_lanes(at, [&](const std::string& l) {
      w_.line("level0{} = start();", l);
      if (plan_.cascade) w_.line("level1{0} = level2{0} = start();", l);
    });
  }
  std::string levels(const std::string& at) const {
    return plan_.cascade ? fmt::format("combine(level2{0}, combine(level1{0}, level0{0}))", at) : "level0" + at;
  }

  // Where the state `s` of result number `m` at coordinates i{axis} goes.
  void write_result() {
    if (plan_.split) {
      for (size_t i = 0; i < plan_.states.size(); ++i)
        w_.line("reinterpret_cast<{}*>(pt{})[m * segments + blockIdx.y] = s.f{};", type_name(plan_.states[i].dtype), i,
                i);
    } else {
      write_final();
    }
  }
  void write_final() {
    for (size_t i = 0; i < plan_.states.size(); ++i)
      w_.line("store_one(reinterpret_cast<char*>(st{}){}, s.f{});", i,
              offsets(plan_.states[i], fmt::format("st{}", i), axes_where(false, true)), i);
  }

  // Loads and computes `unroll` accesses whose reduced coordinates come from `step(u)`. Leaves results to `use`.
  struct Chunk {
    int unroll;
    bool full;         // every lane exists
    std::string step;  // expression in u: number of the access along the reduced axes
  };

  void write_chunk_loads(const Chunk& chunk, const std::vector<int>& reduced_axes, bool lane_in_step) {
    const int lane = plan_.lane_axis();
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (input_used_[i]) w_.line("{} a{}[{}][V] = {{}};", in_type(i), i, chunk.unroll);
    for (const int axis : reduced_axes) w_.line("[[maybe_unused]] int64_t k{}[{}];", axis, chunk.unroll);
    w_.raw("#pragma unroll");
    w_.open(fmt::format("for (int u = 0; u < {}; ++u)", chunk.unroll));
    w_.line("Index inner = {};", chunk.step);
    write_split(reduced_axes, "inner");
    for (const int axis : reduced_axes)
      w_.line("k{0}[u] = static_cast<int64_t>(q{0}){1};", axis, axis == lane && lane_in_step ? " * V" : "");
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (!input_used_[i]) continue;
      std::string address = fmt::format("p{}", i);
      for (const int axis : reduced_axes)
        if (plan_.inputs[i].moves >> axis & 1u) address += fmt::format(" + k{0}[u] * in{1}_{0}", axis, i);
      write_load(i, address, fmt::format("a{}[u]", i), chunk.full);
    }
    w_.close();
  }

  std::string chunk_compute(const std::vector<int>& reduced_axes) const {
    return call_compute([this](size_t i) { return lane_of(i, fmt::format("a{}[u]", i), "v"); },
                        [&](int axis) {
                          const bool stepped =
                              std::find(reduced_axes.begin(), reduced_axes.end(), axis) != reduced_axes.end();
                          return fmt::format("{}{}{}", stepped ? "k" : "i", axis, stepped ? "[u]" : "");
                        },
                        "v");
  }

  void write_output_arrays() {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("{} o{}[V];", out_type(i), i);
  }
  void write_chunk_outputs(const std::vector<int>& reduced_axes, bool full) {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      std::string address = fmt::format("po{}", i);
      for (const int axis : reduced_axes)
        if (plan_.outputs[i].moves >> axis & 1u) address += fmt::format(" + k{0}[u] * out{1}_{0}", axis, i);
      write_store(i, address, fmt::format("o{}", i), full);
    }
  }

  // p{i} and po{i}: operands at the kept coordinates.
  void write_bases(const std::vector<int>& axes) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (input_used_[i])
        w_.line("const char* const p{} = reinterpret_cast<const char*>(in{}){};", i, i,
                offsets(plan_.inputs[i], in(i), axes));
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      w_.line("char* const po{} = reinterpret_cast<char*>(out{}){};", i, i,
              offsets(plan_.outputs[i], fmt::format("out{}", i), axes));
  }

  void write_rows() {
    const auto kept = axes_where(false, true), reduced_axes = axes_where(true, true);
    open_kernel("quarry_run", "Params");
    write_parameters(plan_.slots);
    w_.raw("const int lane = threadIdx.x % G;");
    w_.raw("const int64_t m = static_cast<int64_t>(blockIdx.x) * (kBlock / G) + threadIdx.x / G;");
    w_.raw("Index rest = m < results ? static_cast<Index>(m) : 0;");
    write_split(kept, "rest");
    for (const int axis : kept) w_.line("[[maybe_unused]] const int64_t i{0} = static_cast<int64_t>(q{0});", axis);
    write_bases(kept);
    write_levels("");
    w_.open("if (m < results)");
    w_.raw("const int64_t begin = blockIdx.y * per_segment;");
    w_.raw("const int64_t last = begin + per_segment < chunks ? begin + per_segment : chunks;");
    w_.raw("const Index end = static_cast<Index>(last);");
    w_.raw("const Index full_end = static_cast<Index>(last < full_chunks ? last : full_chunks);");
    w_.raw("Index c = static_cast<Index>(begin) + lane;");

    w_.open("for (; c + (U - 1) * G < full_end; c += U * G)");
    const Chunk whole{plan_.unroll, true, "c + u * G"};
    write_chunk_loads(whole, reduced_axes, true);
    w_.line("State s[{}];", plan_.unroll * plan_.lanes);
    w_.raw("#pragma unroll");
    w_.open("for (int u = 0; u < U; ++u)");
    write_output_arrays();
    w_.raw("#pragma unroll");
    w_.open("for (int v = 0; v < V; ++v)");
    w_.line("const Results r = {};", chunk_compute(reduced_axes));
    w_.raw("s[u * V + v] = first(r);");
    for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("o{}[v] = r.o{};", i, i);
    w_.close();
    write_chunk_outputs(reduced_axes, true);
    w_.close();
    write_tree(plan_.unroll * plan_.lanes);
    w_.raw("level0 = combine(level0, s[0]);");
    write_cascade("");
    w_.close();

    w_.open("for (; c < end; c += G)");
    w_.raw("const int count = c < static_cast<Index>(full_chunks) ? V : static_cast<int>(tail);");
    const Chunk rest{1, false, "c"};
    write_chunk_loads(rest, reduced_axes, true);
    w_.raw("constexpr int u = 0;");
    write_output_arrays();
    w_.raw("#pragma unroll");
    w_.open("for (int v = 0; v < V; ++v)");
    w_.open("if (v < count)");
    w_.line("const Results r = {};", chunk_compute(reduced_axes));
    w_.raw("level0 = combine(level0, first(r));");
    for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("o{}[v] = r.o{};", i, i);
    w_.close();
    w_.close();
    write_chunk_outputs(reduced_axes, false);
    w_.close();
    w_.close();

    w_.line("const State s = across<G>({});", levels(""));
    w_.open("if (lane == 0 && m < results)");
    write_result();
    w_.close();
    w_.close();
  }

  void write_columns() {
    const auto kept = axes_where(false, true), reduced_axes = axes_where(true, true);
    const int lane_axis = plan_.lane_axis();
    open_kernel("quarry_run", "Params");
    write_parameters(plan_.slots);
    w_.raw("constexpr int down = kBlock / G;");
    w_.raw("const int tx = threadIdx.x % G, ty = threadIdx.x / G;");
    w_.raw("Index rest = blockIdx.x;");
    write_split(kept, "rest");
    w_.raw("int64_t m = 0;");
    for (const int axis : kept) {
      if (axis == lane_axis)
        w_.line("const int64_t i{0} = (static_cast<int64_t>(q{0}) * G + tx) * V;", axis);
      else
        w_.line("const int64_t i{0} = static_cast<int64_t>(q{0});", axis);
      w_.line("m = m * e{0} + i{0};", axis);
    }
    w_.line("const int64_t left = e{0} - i{0};", lane_axis);
    w_.raw("[[maybe_unused]] const int count = left < V ? (left < 0 ? 0 : static_cast<int>(left)) : V;");
    write_bases(kept);
    write_levels("[V]");
    w_.open("if (count > 0)");
    w_.raw("const int64_t begin = blockIdx.y * per_segment;");
    w_.raw("const Index end = static_cast<Index>(begin + per_segment < rows ? begin + per_segment : rows);");
    w_.raw("Index row = static_cast<Index>(begin) + ty;");
    for (const bool unrolled : {true, false}) {
      const int unroll = unrolled ? plan_.unroll : 1;
      if (unrolled)
        w_.open("for (; row + (U - 1) * down < end; row += U * down)");
      else
        w_.open("for (; row < end; row += down)");
      const Chunk chunk{unroll, false, unrolled ? "row + u * down" : "row"};
      write_chunk_loads(chunk, reduced_axes, false);
      if (plan_.outputs.empty()) {
        w_.raw("#pragma unroll");
        w_.open("for (int v = 0; v < V; ++v)");
        w_.line("State s[{}];", unroll);
        w_.raw("#pragma unroll");
        w_.line("for (int u = 0; u < {}; ++u) s[u] = first({});", unroll, chunk_compute(reduced_axes));
        write_tree(unroll);
        w_.raw("level0[v] = combine(level0[v], s[0]);");
        w_.close();
      } else {
        w_.line("State t[V][{}];", unroll);
        w_.raw("#pragma unroll");
        w_.open(fmt::format("for (int u = 0; u < {}; ++u)", unroll));
        write_output_arrays();
        w_.raw("#pragma unroll");
        w_.open("for (int v = 0; v < V; ++v)");
        w_.line("const Results r = {};", chunk_compute(reduced_axes));
        w_.raw("t[v][u] = first(r);");
        for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("o{}[v] = r.o{};", i, i);
        w_.close();
        write_chunk_outputs(reduced_axes, false);
        w_.close();
        w_.raw("#pragma unroll");
        w_.open("for (int v = 0; v < V; ++v)");
        w_.raw("auto& s = t[v];");
        write_tree(unroll);
        w_.raw("level0[v] = combine(level0[v], s[0]);");
        w_.close();
      }
      write_cascade("[v]");
      w_.close();
    }
    w_.close();

    w_.raw("__shared__ State column[kBlock];");
    w_.raw("#pragma unroll");
    w_.open("for (int v = 0; v < V; ++v)");
    w_.line("State s = {};", levels("[v]"));
    w_.open("if constexpr (down > 1)");
    w_.raw("__syncthreads();");
    w_.raw("column[threadIdx.x] = s;");
    w_.raw("__syncthreads();");
    w_.open("for (int half = down / 2; half > 0; half /= 2)");
    w_.raw("if (ty < half) column[threadIdx.x] = combine(column[threadIdx.x], column[threadIdx.x + half * G]);");
    w_.raw("__syncthreads();");
    w_.close();
    w_.raw("s = column[tx];");
    w_.close();
    w_.open("if (ty == 0 && v < count)");
    write_lane_result(lane_axis);
    w_.close();
    w_.close();
    w_.close();
  }

  // The result of column v of this thread's: coordinates move by v along the lane axis.
  void write_lane_result(int lane_axis) {
    if (plan_.split) {
      for (size_t i = 0; i < plan_.states.size(); ++i)
        w_.line("reinterpret_cast<{}*>(pt{})[(m + v) * segments + blockIdx.y] = s.f{};",
                type_name(plan_.states[i].dtype), i, i);
      return;
    }
    for (size_t i = 0; i < plan_.states.size(); ++i) {
      const std::string name = fmt::format("st{}", i);
      std::string address =
          fmt::format("reinterpret_cast<char*>({}){}", name, offsets(plan_.states[i], name, axes_where(false, true)));
      if (plan_.states[i].moves >> lane_axis & 1u) address += fmt::format(" + v * {}_{}", name, lane_axis);
      w_.line("store_one({}, s.f{});", address, i);
    }
  }

  void write_merge() {
    const auto kept = axes_where(false, true);
    w_.line("struct MergeParams {{ int64_t s[{}]; }};", std::max<size_t>(1, plan_.merge_slots.size()));
    open_kernel("quarry_merge", "MergeParams");
    write_parameters(plan_.merge_slots);
    w_.line("constexpr int M = {};", plan_.merge_group);
    w_.raw("const int lane = threadIdx.x % M;");
    w_.raw("const int64_t m = static_cast<int64_t>(blockIdx.x) * (kBlock / M) + threadIdx.x / M;");
    w_.raw("State s = start();");
    w_.open("if (m < results)");
    w_.open("for (int64_t segment = lane; segment < segments; segment += M)");
    w_.raw("State other;");
    for (size_t i = 0; i < plan_.states.size(); ++i)
      w_.line("other.f{} = reinterpret_cast<const {}*>(pt{})[m * segments + segment];", i,
              type_name(plan_.states[i].dtype), i);
    w_.raw("s = combine(s, other);");
    w_.close();
    w_.close();
    w_.raw("s = across<M>(s);");
    w_.open("if (lane == 0 && m < results)");
    w_.raw("Index rest = static_cast<Index>(m);");
    write_split(kept, "rest");
    for (const int axis : kept) w_.line("[[maybe_unused]] const int64_t i{0} = static_cast<int64_t>(q{0});", axis);
    write_final();
    w_.close();
    w_.close();
  }

  const Program& program_;
  const Plan& plan_;
  const std::string suffix_;
  const std::vector<bool> needed_;
  std::vector<bool> input_used_;
  std::vector<int> swapped_;
  std::vector<int> index_axes_;
  Writer w_;
};

}  // namespace

ModuleSource make_source(const Program& program, const Plan& plan) { return make_source(program, plan, "0"); }

ModuleSource make_source(const Program& program, const Plan& plan, const std::string& suffix) {
  return Generator(program, plan, suffix).make();
}

std::string make_function(const Program& program, const std::string& name) {
  const ValueId result = program.outputs()[0];
  std::string parameters;
  for (int i = 0; i < program.inputs(); ++i)
    parameters += fmt::format("{}{} a{}", i > 0 ? ", " : "", type_name(program.input_dtype(i)), i);
  Writer w;
  w.open(fmt::format("QUARRY_FN {} {}({})", type_name(program.dtype(result)), name, parameters));
  write_values(w, program, reachable(program, {result}), [](const Value& value) {
    QUARRY_CHECK(value.kind == Value::Kind::input && !value.swapped);
    return fmt::format("a{}", value.slot);
  });
  w.line("return v{};", result);
  w.close();
  return w.take();
}

ModuleSource make_scan_source(ScanKernel kernel, Op op, DType input, DType dtype) {
  const auto [name, function] = [kernel]() -> std::pair<const char*, const char*> {
    switch (kernel) {
      case ScanKernel::lines:
        return {"quarry_scan_lines", "run_lines"};
      case ScanKernel::warps:
        return {"quarry_scan_warps", "run_warps"};
      case ScanKernel::look:
        return {"quarry_scan_look", "run_look"};
      case ScanKernel::fold:
        return {"quarry_fold", "run_fold<1>"};
      case ScanKernel::fold_warp:
        return {"quarry_fold_warp", "run_fold<32>"};
    }
    return {};
  }();
  const OpInfo& row = info(op);
  const bool widened = is_half(dtype) && row.rule != OpRule::storage;
  Writer w;
  w.raw("namespace quarry::local::scan {");
  w.line("using In = {};", type_name(input));
  w.line("using T = {};", type_name(dtype));
  w.line("using W = {};", widened ? "float" : type_name(dtype));
  w.open("QUARRY_FN W combine(W x, W y)");
  w.raw("using T [[maybe_unused]] = W;");
  w.line("return {};", row.expression);
  w.close();
  ModuleSource source;
  source.text = w.take() + embedded_scan +
                fmt::format("QUARRY_KERNEL({}, {})\n}}  // namespace quarry::local::scan\n", name, function);
  source.kernels = {name};
  return source;
}

}  // namespace quarry::local::cuda
