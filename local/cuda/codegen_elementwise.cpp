// Elementwise programs: a thread takes neighbouring elements, or a block a tile of two axes.
#include <fmt/format.h>

#include "local/base/error.h"
#include "local/cuda/kernel_writer.h"

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
        write_store(i,
                    fmt::format("reinterpret_cast<char*>(out{}){}", i,
                                offsets(plan_.outputs[i], fmt::format("out{}", i), axes)),
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
      write_load(i, fmt::format("reinterpret_cast<const char*>(in{}){}", i, offsets(plan_.inputs[i], in(i), axes)),
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
    w_.line("const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};", plan_.tile);
    const int rows = kBlockThreads / plan_.tile, steps = plan_.tile / rows;
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      if (!input_used_[i]) continue;
      w_.line("const char* const p{} = reinterpret_cast<const char*>(in{}){};", i, i,
              offsets(plan_.inputs[i], in(i), rest_axes));
      if (plan_.inputs[i].access != Access::tiled) continue;
      w_.line("__shared__ {} tile{}[{}][{}];", in_type(i), i, plan_.tile, plan_.tile + 1);
      w_.raw("#pragma unroll");
      w_.open(fmt::format("for (int k = 0; k < {}; ++k)", steps));
      w_.line("const int64_t i{} = first_x + ty + k * {}, i{} = first_y + tx;", lane, rows, other);
      w_.line("if (i{0} < e{0} && i{1} < e{1}) tile{2}[ty + k * {3}][tx] = load_one<{4}>(p{2}{5});", lane, other, i,
              rows, in_type(i), offsets(plan_.inputs[i], in(i), {other, lane}));
      w_.close();
    }
    w_.raw("__syncthreads();");
    w_.raw("#pragma unroll");
    w_.open(fmt::format("for (int k = 0; k < {}; ++k)", steps));
    w_.line("const int64_t i{} = first_x + tx, i{} = first_y + ty + k * {};", lane, other, rows);
    w_.line("if (i{0} >= e{0} || i{1} >= e{1}) continue;", lane, other);
    w_.line(
        "const Results r = {};",
        call_compute(
            [&](size_t i) {
              if (plan_.inputs[i].access == Access::tiled) return fmt::format("tile{}[tx][ty + k * {}]", i, rows);
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
};

}  // namespace

ModuleSource elementwise_source(const Program& program, const Plan& plan, const std::string& suffix) {
  return ElementwiseWriter(program, plan, suffix).make();
}

}  // namespace quarry::local::cuda
