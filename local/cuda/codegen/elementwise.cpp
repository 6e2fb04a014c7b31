// Elementwise programs: a thread takes neighbouring elements, or a block a tile of two axes.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/codegen/kernel_writer.h"

namespace quarry::local::cuda {
namespace {

class ElementwiseWriter : private KernelWriter {
 public:
  ElementwiseWriter(const Program& program, const Plan& plan, const std::string& suffix)
      : KernelWriter(program, plan, suffix) {}

  ModuleSource make() {
    if (plan_.kind == Plan::Kind::tile)
      write_tile();
    else
      write_map();
    return finish();
  }

 private:
  void write_map() {
    // Samplers are long chains of dependent operations: a multiprocessor needs many warps of them.
    constexpr int kBlocks = 4;
    open_kernel("quarry_run", "Params", prepared_.empty() ? 0 : kBlocks);
    write_parameters(plan_.slots);
    write_prepared();
    const bool unrolled = plan_.unroll > 1;
    const int lane = plan_.lane_axis();
    std::vector<int> axes;
    for (int d = 0; d < plan_.ndim; ++d) axes.push_back(d);
    // A term of its own: it is the same for operands that share strides.
    const auto offset = [&](const PlanOperand& operand, const std::string& name) {
      const std::string text = offsets(operand, name, axes);
      return text.empty() ? text : fmt::format(" + ({})", text.substr(3));
    };
    const auto write_position = [&](const char* thread) {
      w_.line("Index rest = {};", thread);
      write_split(axes, "rest");
      for (const int axis : axes)
        w_.line("[[maybe_unused]] const int64_t i{0} = static_cast<int64_t>(q{0}){1};", axis,
                axis == lane ? " * V" : "");
    };
    const auto write_count = [&] {
      w_.line("[[maybe_unused]] const int count = e{0} - i{0} < V ? static_cast<int>(e{0} - i{0}) : V;", lane);
    };
    const auto write_values = [&](const char* to) {
      w_.raw("#pragma unroll");
      w_.open("for (int v = 0; v < V; ++v)");
      w_.line("const Results r = {};", call_compute([this](size_t i) { return lane_of(i, fmt::format("a{}", i), "v"); },
                                                    [](int axis) { return fmt::format("i{}", axis); }, "v"));
      for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("o{}{}[v] = r.o{};", i, to, i);
      w_.close();
    };
    const auto write_stores = [&](const char* from) {
      for (size_t i = 0; i < plan_.outputs.size(); ++i)
        write_store(
            i, fmt::format("reinterpret_cast<char*>(out{}){}", i, offset(plan_.outputs[i], fmt::format("out{}", i))),
            fmt::format("o{}{}", i, from), false);
    };
    const auto declare_outputs = [&](const char* extents) {
      for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("{} o{}{};", out_type(i), i, extents);
    };
    w_.line("const Index first = static_cast<Index>(blockIdx.x) * (kBlock{}) + threadIdx.x;", unrolled ? " * U" : "");
    if (unrolled) {  // nothing is read: what no store takes is computed all the same, without a branch in between
      write_lane_draws([&] { write_position("first + u * kBlock"); });
      declare_outputs("[U][V]");
      for (const bool stores : {false, true}) {
        w_.raw("#pragma unroll");
        w_.open("for (int u = 0; u < U; ++u)");
        if (stores) w_.raw("if (first + u * kBlock >= static_cast<Index>(threads)) break;");
        write_position("first + u * kBlock");
        if (stores) write_count();
        stores ? write_stores("[u]") : write_values("[u]");
        w_.close();
      }
      w_.close();
      return;
    }
    if (prepared_.empty())
      w_.open("if (first < static_cast<Index>(threads))");
    else
      w_.open("for (Index next = first; next < static_cast<Index>(threads); next += gridDim.x * kBlock)");
    write_position(prepared_.empty() ? "first" : "next");
    write_count();
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (!input_used_[i]) continue;
      w_.line("{} a{}[V] = {{}};", in_type(i), i);
      write_load(i, fmt::format("reinterpret_cast<const char*>(in{}){}", i, offset(plan_.inputs[i], in(i))),
                 fmt::format("a{}", i), false);
    }
    write_lane_draws([] {});
    declare_outputs("[V]");
    write_values("");
    write_stores("");
    w_.close();
    w_.close();
  }

  // A block reads a square tile of each tiled operand along the operand's own contiguous axis and computes along
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
            plan_.tile, other, plan_.tile);
    // What of the tile is inside.
    for (const auto& [name, first, axis] : {std::tuple{"nx", "first_x", lane}, std::tuple{"ny", "first_y", other}})
      w_.line("const int {0} = e{2} - {1} < {3} ? static_cast<int>(e{2} - {1}) : {3};", name, first, axis, plan_.tile);
    w_.line("const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};", plan_.tile);
    const int rows = kBlockThreads / plan_.tile, steps = plan_.tile / rows;
    const auto open_steps = [&](int count, const std::string& inside) {
      w_.raw("#pragma unroll");
      w_.open(fmt::format("for (int k = 0; k < {}; ++k)", count));
      w_.open(fmt::format("if ({})", inside));
    };
    // A pointer that goes down the tile, `along` the axis of its rows: products of strides would be most of the work.
    const auto start = [&](const char* type, const std::string& pointer, const std::string& base,
                           const PlanOperand& operand, const std::string& name, int across, int along) {
      const std::string x = across == lane ? "first_x" : "first_y", y = along == lane ? "first_x" : "first_y";
      std::string text;
      if (operand.moves >> across & 1u) text += fmt::format(" + ({} + tx) * {}_{}", x, name, across);
      if (operand.moves >> along & 1u) text += fmt::format(" + ({} + ty) * {}_{}", y, name, along);
      w_.line("{}* {} = {}{};", type, pointer, base, text);
    };
    const auto advance = [&](const std::string& pointer, const PlanOperand& operand, const std::string& name,
                             int along) {
      if (operand.moves >> along & 1u) w_.line("{} += {} * {}_{};", pointer, rows, name, along);
    };

    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (!input_used_[i]) continue;
      const PlanOperand& input = plan_.inputs[i];
      const std::string base =
          fmt::format("reinterpret_cast<const char*>(in{}){}", i, offsets(input, in(i), rest_axes));
      const std::string pointer = fmt::format("p{}", i);
      if (input.access != Access::tiled) {
        start("const char", pointer, base, input, in(i), lane, other);
        continue;
      }
      start("const char", pointer, base, input, in(i), other, lane);
      w_.line("__shared__ {} tile{}[{}][{}];", in_type(i), i, plan_.tile, plan_.tile + 1);
      open_steps(steps, fmt::format("tx < ny && ty + k * {} < nx", rows));
      w_.line("tile{0}[ty + k * {1}][tx] = load_one<{2}>({3});", i, rows, in_type(i), pointer);
      w_.close();
      advance(pointer, input, in(i), lane);
      w_.close();
    }
    w_.raw("__syncthreads();");
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const std::string name = fmt::format("out{}", i);
      start("char", fmt::format("o{}", i),
            fmt::format("reinterpret_cast<char*>({}){}", name, offsets(plan_.outputs[i], name, rest_axes)),
            plan_.outputs[i], name, lane, other);
    }
    // Several rows of the operands that are read directly at a time: the loads of the next may not overtake the stores.
    std::vector<size_t> direct;
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (input_used_[i] && plan_.inputs[i].access != Access::tiled) direct.push_back(i);
    const int batch = std::min(steps, direct.size() <= 2 ? 8 : 4);
    w_.raw("#pragma unroll");
    w_.open(fmt::format("for (int from = 0; from < {}; from += {})", steps, batch));
    const std::string inside = fmt::format("tx < nx && ty + (from + k) * {} < ny", rows);
    if (!direct.empty()) {
      for (const size_t i : direct) w_.line("{} a{}[{}];", in_type(i), i, batch);
      open_steps(batch, inside);
      for (const size_t i : direct) w_.line("a{0}[k] = load_one<{1}>(p{0});", i, in_type(i));
      w_.close();
      for (const size_t i : direct) advance(fmt::format("p{}", i), plan_.inputs[i], in(i), other);
      w_.close();
    }
    open_steps(batch, inside);
    w_.line("[[maybe_unused]] const int64_t i{} = first_x + tx, i{} = first_y + ty + (from + k) * {};", lane, other,
            rows);
    w_.line("const Results r = {};", call_compute(
                                         [&](size_t i) {
                                           if (plan_.inputs[i].access != Access::tiled) return fmt::format("a{}[k]", i);
                                           return fmt::format("tile{}[tx][ty + (from + k) * {}]", i, rows);
                                         },
                                         [](int axis) { return fmt::format("i{}", axis); }, ""));
    for (size_t i = 0; i < plan_.outputs.size(); ++i) w_.line("store_one(o{}, r.o{});", i, i);
    w_.close();
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      advance(fmt::format("o{}", i), plan_.outputs[i], fmt::format("out{}", i), other);
    w_.close();
    w_.close();
    w_.close();
  }
};

}  // namespace

ModuleSource elementwise_source(const Program& program, const Plan& plan, const std::string& suffix) {
  return ElementwiseWriter(program, plan, suffix).make();
}

}  // namespace quarry::local::cuda
