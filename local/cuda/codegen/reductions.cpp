// Programs that end in reductions: states, their combination in fixed trees, and the kernels that reduce rows, columns
// and partial states.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/codegen/kernel_writer.h"
#include "quarry/local/program/combining.h"

namespace quarry::local::cuda {
namespace {

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

// The field of the state of no elements.
std::string start_text(const ReductionInfo& row, size_t field, DType dtype) {
  const auto number = [&](int n) {
    if (row.dtype[field] == FieldDType::boolean) return std::string(n == 0 ? "false" : "true");
    if (row.dtype[field] == FieldDType::position) return fmt::format("{}", n);
    return fmt::format("fn::convert<{}>::from(int64_t({}))", type_name(dtype), n);
  };
  switch (row.start[field]) {
    case FieldStart::none:
      break;
    case FieldStart::zero:
      return number(0);
    case FieldStart::one:
      return number(1);
    case FieldStart::nowhere:
      return number(-1);
    case FieldStart::lowest:
      return fmt::format("extreme<{}>::lowest()", type_name(dtype));
    case FieldStart::highest:
      return fmt::format("extreme<{}>::highest()", type_name(dtype));
  }
  return "";
}

// A value of a map program as an expression of the element `m` and its position; "" for what is more than numbers and
// casts.
std::string leaf_text(const Program& map, ValueId id, const std::string& m, const std::string& position) {
  const Value& value = map.values()[static_cast<size_t>(id)];
  switch (value.kind) {
    case Value::Kind::input:
      return value.slot == 0 ? m : position;
    case Value::Kind::constant: {
      const std::string number = fmt::format("{}", map.constants()[static_cast<size_t>(value.slot)].as_double());
      return value.dtype == DType::int64 ? number : fmt::format("{}({})", type_name(value.dtype), number);
    }
    case Value::Kind::index:
      return "";
    case Value::Kind::op:
      break;
  }
  if (value.op != "cast"_op) return "";
  const std::string from = leaf_text(map, value.args[0], m, position);
  if (from.empty()) return "";
  if (value.dtype == DType::bool_) return fmt::format("fn::truth({})", from);
  if (value.loop == DType::bool_ && value.dtype == DType::int64) return fmt::format("({} ? 1 : 0)", from);
  return fmt::format("fn::convert<{}>::from({})", type_name(value.dtype), from);
}

class ReductionWriter : private KernelWriter {
 public:
  ReductionWriter(const Program& program, const Plan& plan, const std::string& suffix)
      : KernelWriter(program, plan, suffix) {
    const auto& reductions = program.reductions();
    ordered_ = std::any_of(reductions.begin(), reductions.end(), [this](const auto& r) { return in_order(r); });
    if (ordered_) {
      combine_level_ = "combine_in_order";
      combine_tree_ = "combine_elements";
    }
  }

  ModuleSource make() {
    write_state();
    if (plan_.kind == Plan::Kind::rows)
      write_rows();
    else
      write_columns();
    if (plan_.split) write_merge();
    return finish();
  }

 private:
  // ---- States ----

  void write_state() {
    const auto bases = field_bases(program_);
    w_.open("struct State");
    for (size_t i = 0; i < plan_.states.size(); ++i) w_.line("{} f{};", type_name(plan_.states[i].dtype), i);
    w_.close("};");
    w_.open("QUARRY_FN State start()");
    w_.line("State s;");
    for_fields([&](size_t r, const std::vector<DType>& fields) {
      const ReductionInfo& row = info(program_.reductions()[r].reduction);
      for (size_t i = 0; i < fields.size(); ++i) w_.line("s.f{} = {};", bases[r] + i, start_text(row, i, fields[i]));
    });
    w_.line("return s;");
    w_.close();
    w_.open("QUARRY_FN State first(const Results& r)");
    w_.line("State s;");
    for_fields([&](size_t r, const std::vector<DType>& fields) { write_first(r, bases[r], fields); });
    w_.line("return s;");
    w_.close();
    write_combine("combine", StatesKnown::nothing);
    if (ordered_) {
      write_combine(combine_level_, StatesKnown::in_order);
      write_combine(combine_tree_, StatesKnown::in_order_all);
    }

    // Lane 0 of each group of W threads gets the group's state; all threads of the block take part.
    // States of several fields are combined by long code, which is not repeated for a thread's last few steps.
    const char* const unroll = plan_.states.size() > 1 && !plan_.once ? "#pragma unroll 1" : "#pragma unroll";
    w_.raw("template <int W>");
    w_.open("QUARRY_FN State across(State s)");
    w_.raw("constexpr int warp = W < 32 ? W : 32;");
    w_.raw(unroll);
    w_.open("for (int distance = warp / 2; distance > 0; distance /= 2)");
    write_shuffle();
    w_.close();
    w_.open("if constexpr (W > 32)");
    w_.raw("__shared__ State warps[kBlock / 32];");
    w_.raw("if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;");
    w_.raw("__syncthreads();");
    w_.open("if (threadIdx.x < 32)");
    w_.raw("s = warps[threadIdx.x % (kBlock / 32)];");
    w_.raw(unroll);
    w_.open("for (int distance = kBlock / 64; distance > 0; distance /= 2)");
    w_.raw("constexpr int warp = kBlock / 32;");
    write_shuffle();
    w_.close();
    w_.close();
    w_.close();
    w_.raw("return s;");
    w_.close();
  }

  // The fields of one element's state.
  void write_first(size_t r, size_t base, const std::vector<DType>& fields) {
    const ProgramReduction& reduction = program_.reductions()[r];
    const Program map = map_program(reduction.reduction, reduction.accumulate);
    const std::string position = fmt::format("r.m{}_1", r);
    std::string m = fmt::format("r.m{}_0", r);
    // The program has no cast from bool to bool: here it is one of a byte that may be more than 0 and 1.
    if (info(reduction.reduction).of_truth && reduction.accumulate == DType::bool_) m = fmt::format("fn::truth({})", m);
    for (size_t i = 0; i < fields.size(); ++i) {
      const ValueId id = map.outputs()[i];
      const Value& value = map.values()[static_cast<size_t>(id)];
      const bool element = value.kind == Value::Kind::input && value.slot == 0;
      const std::string text = leaf_text(map, id, m, position);
      if (element && info(reduction.reduction).dtype[i] == FieldDType::value) {
        w_.line("s.f{} = fn::convert<{}>::from({});", base + i, type_name(fields[i]), m);
      } else if (!text.empty()) {
        w_.line("s.f{} = {};", base + i, text);
      } else {
        w_.open("");
        write_values(w_, map, reachable(map, {id}), [&](const Value& leaf) {
          if (leaf.kind == Value::Kind::constant) return literal(map.constants()[static_cast<size_t>(leaf.slot)]);
          return leaf.slot == 0 ? m : position;
        });
        w_.line("s.f{} = v{};", base + i, id);
        w_.close();
      }
    }
  }

  void write_combine(const char* name, StatesKnown known) {
    const auto bases = field_bases(program_);
    w_.open(fmt::format("QUARRY_FN State {}(const State& a, const State& b)", name));
    w_.line("State s;");
    for_fields([&](size_t r, const std::vector<DType>& fields) {
      const ProgramReduction& reduction = program_.reductions()[r];
      const Program merge = combine_program(reduction.reduction, reduction.accumulate,
                                            in_order(reduction) ? known : StatesKnown::nothing);
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
  }

  // Whether a thread meets the reduction's positions in ascending order: they are those along the only reduced axis.
  bool in_order(const ProgramReduction& reduction) const {
    if (!info(reduction.reduction).has_position || std::popcount(plan_.reduced) != 1) return false;
    const Value& position = program_.values()[static_cast<size_t>(reduction.args[1])];
    if (position.kind != Value::Kind::index) return false;
    const int axis = plan_.axis_of[static_cast<size_t>(position.slot)];
    return axis >= 0 && plan_.is_reduced(axis);
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

  // ---- Loops ----

  // s[0] becomes the state of s[0] ... s[count - 1], as a balanced tree in element order.
  void write_tree(int count) {
    for (int half = 1; half < count; half *= 2)
      for (int i = 0; i + half < count; i += 2 * half)
        w_.line("s[{0}] = {2}(s[{0}], s[{1}]);", i, i + half, combine_tree_);
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
      write_load(i, fmt::format("p{}{}", i, offsets(plan_.inputs[i], in(i), reduced_axes, "k", "[u]")),
                 fmt::format("a{}[u]", i), chunk.full);
    }
    w_.close();
  }

  // `at` follows the reduced coordinates: "[u]" where every access has its own.
  std::string chunk_compute(const std::vector<int>& reduced_axes, const char* at = "[u]") const {
    return call_compute([this](size_t i) { return lane_of(i, fmt::format("a{}[u]", i), "v"); },
                        [&](int axis) {
                          const bool stepped =
                              std::find(reduced_axes.begin(), reduced_axes.end(), axis) != reduced_axes.end();
                          return fmt::format("{}{}{}", stepped ? "k" : "i", axis, stepped ? at : "");
                        },
                        "v");
  }

  void write_output_arrays() {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("{} o{}[V];", out_type(i), i);
  }

  void write_chunk_outputs(const std::vector<int>& reduced_axes, bool full, const char* at = "[u]") {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      write_store(i,
                  fmt::format("po{}{}", i, offsets(plan_.outputs[i], fmt::format("out{}", i), reduced_axes, "k", at)),
                  fmt::format("o{}", i), full);
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

  // Combines the `count` elements of one access after the state `into`.
  void write_access(const std::vector<int>& reduced_axes, const char* into, const char* at = "[u]") {
    const auto element = [&] {
      w_.line("const Results r = {};", chunk_compute(reduced_axes, at));
      for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("o{}[v] = r.o{};", i, i);
    };
    write_output_arrays();
    w_.open("if (count == V)");
    w_.raw("State s[V];");
    w_.raw("#pragma unroll");
    w_.open("for (int v = 0; v < V; ++v)");
    element();
    w_.raw("s[v] = first(r);");
    w_.close();
    write_tree(plan_.lanes);
    w_.line("{0} = {1}({0}, s[0]);", into, combine_level_);
    write_chunk_outputs(reduced_axes, true, at);
    w_.close();
    if (!plan_.whole) {
      w_.open("else");
      w_.raw("#pragma unroll");
      w_.open("for (int v = 0; v < V; ++v)");
      w_.open("if (v < count)");
      element();
      w_.line("{0} = {1}({0}, first(r));", into, combine_level_);
      w_.close();
      w_.close();
      write_chunk_outputs(reduced_axes, false, at);
      w_.close();
    }
  }

  // ---- Kernels ----

  // Short rows: one access of a thread is all that it reads of a row, so it reads several rows before it combines.
  void write_short_rows() {
    const auto kept = axes_where(false, true), reduced_axes = axes_where(true, true);
    const int lane_axis = plan_.lane_axis();
    open_kernel("quarry_run", "Params");
    write_parameters(plan_.slots);
    w_.line("constexpr int E = {}, groups = kBlock / G;", plan_.each);
    w_.raw("const int lane = threadIdx.x % G;");
    w_.raw("const int64_t first_m = static_cast<int64_t>(blockIdx.x) * (groups * E) + threadIdx.x / G;");
    w_.raw("const int count = lane < full_chunks ? V : lane < chunks ? static_cast<int>(tail) : 0;");
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (input_used_[i]) w_.line("{} a{}[E][V] = {{}};", in_type(i), i);
    w_.raw("Index inner = static_cast<Index>(lane);");
    write_split(reduced_axes, "inner");
    for (const int axis : reduced_axes)
      w_.line("[[maybe_unused]] const int64_t k{0} = static_cast<int64_t>(q{0}){1};", axis,
              axis == lane_axis ? " * V" : "");
    const auto open_results = [&] {
      w_.raw("#pragma unroll");
      w_.open("for (int u = 0; u < E; ++u)");
      w_.raw("const int64_t m = first_m + u * groups;");
      w_.raw("Index rest = m < results ? static_cast<Index>(m) : 0;");
      write_split(kept, "rest");
      for (const int axis : kept) w_.line("[[maybe_unused]] const int64_t i{0} = static_cast<int64_t>(q{0});", axis);
      write_bases(kept);
    };
    open_results();
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (!input_used_[i]) continue;
      w_.open("if (count > 0)");
      write_load(i, fmt::format("p{}{}", i, offsets(plan_.inputs[i], in(i), reduced_axes, "k")),
                 fmt::format("a{}[u]", i), false);
      w_.close();
    }
    w_.close();
    open_results();
    w_.raw("State of_thread = start();");
    w_.open("if (m < results)");
    write_access(reduced_axes, "of_thread", "");
    w_.close();
    w_.raw("const State s = across<G>(of_thread);");
    w_.open("if (lane == 0 && m < results)");
    write_result();
    w_.close();
    w_.close();
    w_.close();
  }

  void write_rows() {
    if (plan_.once) {
      write_short_rows();
      return;
    }
    const auto kept = axes_where(false, true), reduced_axes = axes_where(true, true);
    // One small state: the last wave of blocks is shortest where as many as can run at once do.
    constexpr int kMostBlocks = 8;
    open_kernel("quarry_run", "Params", plan_.split && plan_.states.size() == 1 ? kMostBlocks : 0);
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

    w_.raw("#pragma unroll 1");  // U accesses at a time are enough
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
    w_.line("level0 = {}(level0, s[0]);", combine_level_);
    write_cascade("");
    w_.close();

    w_.raw("#pragma unroll 1");
    w_.open("for (; c < end; c += G)");
    w_.raw("const int count = c < static_cast<Index>(full_chunks) ? V : static_cast<int>(tail);");
    const Chunk rest{1, false, "c"};
    write_chunk_loads(rest, reduced_axes, true);
    w_.raw("constexpr int u = 0;");
    write_access(reduced_axes, "level0");
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
    w_.raw(
        "[[maybe_unused]] const Index end = static_cast<Index>(begin + per_segment < rows ? begin + per_segment : "
        "rows);");
    w_.raw("Index row = static_cast<Index>(begin) + ty;");
    for (const bool unrolled : {true, false}) {
      if (plan_.once && !unrolled) continue;
      const int unroll = unrolled ? plan_.unroll : 1;
      if (plan_.once) {
        w_.open("");
      } else {
        w_.raw("#pragma unroll 1");
        w_.open(unrolled ? "for (; row + (U - 1) * down < end; row += U * down)" : "for (; row < end; row += down)");
      }
      const Chunk chunk{unroll, false, unrolled ? "row + u * down" : "row"};
      write_chunk_loads(chunk, reduced_axes, false);
      if (plan_.outputs.empty()) {
        w_.raw("#pragma unroll");
        w_.open("for (int v = 0; v < V; ++v)");
        w_.line("State s[{}];", unroll);
        w_.raw("#pragma unroll");
        w_.line("for (int u = 0; u < {}; ++u) s[u] = first({});", unroll, chunk_compute(reduced_axes));
        write_tree(unroll);
        w_.line("level0[v] = {}(level0[v], s[0]);", combine_level_);
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
        w_.line("level0[v] = {}(level0[v], s[0]);", combine_level_);
        w_.close();
      }
      write_cascade("[v]");
      w_.close();
    }
    w_.close();

    // Neighbouring results of a thread go out in one access.
    const bool wide_stores = !plan_.split && plan_.whole && plan_.lanes > 1 &&
                             std::all_of(plan_.states.begin(), plan_.states.end(),
                                         [](const PlanOperand& state) { return state.access == Access::vector; });
    if (wide_stores)
      for (size_t i = 0; i < plan_.states.size(); ++i) w_.line("{} all{}[V];", type_name(plan_.states[i].dtype), i);
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
    if (wide_stores) {
      for (size_t i = 0; i < plan_.states.size(); ++i) w_.line("all{0}[v] = s.f{0};", i);
      w_.close();
      w_.open("if (ty == 0 && count > 0)");
      for (size_t i = 0; i < plan_.states.size(); ++i)
        w_.line("store_vector(reinterpret_cast<char*>(st{0}){1}, all{0});", i,
                offsets(plan_.states[i], fmt::format("st{}", i), kept));
    } else {
      w_.open("if (ty == 0 && v < count)");
      write_lane_result(lane_axis);
      w_.close();
    }
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
    write_parameter_struct("MergeParams", plan_.merge_slots);
    open_kernel("quarry_merge", "MergeParams");
    write_parameters(plan_.merge_slots);
    w_.line("constexpr int M = {};", plan_.merge_group);
    w_.raw("const int lane = threadIdx.x % M;");
    w_.raw("const int64_t m = static_cast<int64_t>(blockIdx.x) * (kBlock / M) + threadIdx.x / M;");
    w_.raw("State s = start();");
    w_.open("if (m < results)");
    // Several loads under way: a block alone has nothing else to wait for them with.
    w_.line("constexpr int L = {};", plan_.states.size() > 1 ? 4 : 8);
    w_.open("for (int64_t segment = lane; segment < segments; segment += L * M)");
    w_.raw("State others[L];");
    w_.raw("#pragma unroll");
    w_.open("for (int l = 0; l < L; ++l)");
    w_.raw("if (segment + l * M >= segments) break;");
    for (size_t i = 0; i < plan_.states.size(); ++i)
      w_.line("others[l].f{} = reinterpret_cast<const {}*>(pt{})[m * segments + segment + l * M];", i,
              type_name(plan_.states[i].dtype), i);
    w_.close();
    w_.raw("#pragma unroll");
    w_.open("for (int l = 0; l < L; ++l)");
    w_.raw("if (segment + l * M < segments) s = combine(s, others[l]);");
    w_.close();
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

  // Within a thread, which meets elements in order: a level with the elements after it, elements with those after them.
  bool ordered_ = false;
  const char* combine_level_ = "combine";
  const char* combine_tree_ = "combine";
};

}  // namespace

ModuleSource reduction_source(const Program& program, const Plan& plan, const std::string& suffix) {
  return ReductionWriter(program, plan, suffix).make();
}

}  // namespace quarry::local::cuda
