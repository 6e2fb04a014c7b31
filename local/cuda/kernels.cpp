// Kernels around users' snippets. Elementwise: a thread takes one 16-byte access of the widest operand, or where inputs
// lie across the output, a block takes a square of the two axes and reads such inputs through shared memory.
// Reductions: along rows a group of threads takes a result, across columns a block takes a strip of results; each
// thread combines its terms in order, threads combine as a tree, and results with too few blocks are cut into segments,
// merged by a second kernel. All of it is a function of shape, strides and alignment; no atomics.
#include "quarry/local/cuda/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "quarry/local/cuda/embedded.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/kernel_text.h"

namespace quarry::local::cuda {
namespace {

constexpr int64_t kStateBytes = 64;     // most that a state may take (kernel_text.cpp asserts it)
constexpr int64_t kFilling = 2048;      // blocks that keep a large GPU busy
constexpr int64_t kMaxSegments = 1024;  // of one result
constexpr int kUnroll = 4;              // accesses in flight per thread and operand
constexpr int kStrip = 32;              // threads along the columns of a block
constexpr int kTile = 32;               // side of a square

// tiled: neighbours along the last but one kept axis are neighbours in memory.
enum class Load : char { vector = 'v', contiguous = 'c', broadcast = 'b', strided = 's', tiled = 't' };

struct KernelPlan {
  KernelNest nest;
  KernelWords words;
  std::vector<Load> loads;  // per parameter
  int lanes = 1;
  bool wide = false;   // 64-bit index arithmetic
  bool tiles = false;  // elementwise: a block takes a square
  int64_t groups = 0;  // of lanes: along the last kept axis times the others; rows: results
  int64_t segments = 1, per_segment = 0;
  int group = 1, merge_group = 1;  // threads per result
  int64_t grid_x = 0, merge_grid = 0;
  int w_groups = 0, w_segments = 0, w_per_segment = 0, w_states = 0;  // words

  KernelPlan(const KernelCode& code, const KernelLaunch& launch)
      : nest(make_nest(code, launch)), words(make_words(code, launch, nest)) {
    const bool along_kept = !code.reduces || nest.columns;
    choose_lanes(code, launch, along_kept);
    if (nest.crossed) choose_tiles(code);
    wide = nest.results() >= int64_t{1} << 31 || nest.terms() >= int64_t{1} << 31;
    const int64_t inner_groups = ceil_divide(nest.kept.back(), lanes);
    groups = along_kept ? nest.results() / nest.kept.back() * inner_groups : nest.results();
    if (tiles)
      grid_x = nest.results() / (nest.kept.back() * across()) * ceil_divide(nest.kept.back(), kTile) *
               ceil_divide(across(), kTile);
    else if (!code.reduces)
      grid_x = ceil_divide(groups, kBlockThreads);
    else if (nest.columns)
      cut(ceil_divide(groups, kStrip), /*least=*/64, /*step=*/1);
    else
      cut_rows();
    merge_group = nest.results() >= 16384 ? 1 : segments > 32 ? kBlockThreads : 32;
    merge_grid = ceil_divide(nest.results(), kBlockThreads / merge_group);
    w_groups = words.add(groups);
    w_segments = words.add(segments);
    w_per_segment = words.add(per_segment);
    w_states = words.add(0);
  }

  std::string key() const {
    std::string key = fmt::format("{}{}{}g{}m{}", lanes, wide ? "w" : "n", tiles ? "t" : "", group, merge_group);
    for (const Load load : loads) key += static_cast<char>(load);
    return key;
  }
  int64_t scratch_bytes() const { return segments == 1 ? 0 : segments * nest.results() * kStateBytes; }

 private:
  void choose_lanes(const KernelCode& code, const KernelLaunch& launch, bool along_kept) {
    const auto is_input_of_loop = [&](size_t a) {
      return code.parameters[a].kind == KernelParameter::Kind::element && (!code.reduces || !code.parameters[a].output);
    };
    int64_t widest = 0;
    for (size_t a = 0; a < code.parameters.size(); ++a)
      if (is_input_of_loop(a) && nest.access(code, a) == KernelAccess::contiguous)
        widest = std::max(widest, itemsize(code.parameters[a].dtype));
    const std::vector<int64_t>& extents = along_kept ? nest.kept : nest.reduced;
    lanes = widest == 0 ? 1 : static_cast<int>(std::max<int64_t>(16 / widest, 1));
    while (lanes > 1 && extents.size() > 1 && extents.back() % lanes != 0) lanes /= 2;
    for (size_t a = 0; a < code.parameters.size(); ++a) {
      Load load = Load::strided;
      if (is_input_of_loop(a)) {
        const KernelAccess access = nest.access(code, a);
        load = access == KernelAccess::broadcast    ? Load::broadcast
               : access == KernelAccess::contiguous ? Load::contiguous
                                                    : Load::strided;
        if (load == Load::contiguous && lanes > 1 && is_aligned(code, launch, a, along_kept)) load = Load::vector;
      }
      loads.push_back(load);
    }
  }

  int64_t across() const { return nest.kept[nest.kept.size() - 2]; }
  // Where squares are filled well enough; other inputs are read as they lie.
  void choose_tiles(const KernelCode& code) {
    constexpr int64_t kLeastExtent = 8, kSharedBytes = 48 << 10;
    if (nest.kept.back() < kLeastExtent || across() < kLeastExtent) return;
    int64_t bytes = 0;
    for (size_t a = 0; a < code.parameters.size(); ++a) {
      if (code.parameters[a].kind != KernelParameter::Kind::element || code.parameters[a].output) continue;
      const int64_t size = itemsize(code.parameters[a].dtype), tile = kTile * (kTile + 1) * size;
      const std::vector<int64_t>& steps = nest.arguments[a].kept;
      const bool crossed = std::abs(steps[steps.size() - 2]) == size && std::abs(steps.back()) > size;
      if (!crossed || bytes + tile > kSharedBytes) continue;
      bytes += tile;
      loads[a] = Load::tiled;
      tiles = true;
    }
    if (!tiles) return;
    lanes = 1;
    for (Load& load : loads)
      if (load == Load::vector) load = Load::contiguous;
  }

  // Every access of `lanes` elements starts at a multiple of its own width.
  bool is_aligned(const KernelCode& code, const KernelLaunch& launch, size_t a, bool along_kept) const {
    const int64_t bytes = std::min<int64_t>(16, lanes * itemsize(code.parameters[a].dtype));
    if (reinterpret_cast<uintptr_t>(launch.arguments[a].data) % static_cast<uint64_t>(bytes) != 0) return false;
    const KernelNest::Steps& steps = nest.arguments[a];
    const auto fits = [bytes](const std::vector<int64_t>& list, bool but_last) {
      return std::all_of(list.begin(), list.end() - (but_last ? 1 : 0),
                         [&](int64_t step) { return step % bytes == 0; });
    };
    return fits(steps.kept, along_kept) && fits(steps.reduced, !along_kept);
  }

  // Segments of at least `least` terms, of a multiple of `step`.
  void cut(int64_t blocks, int64_t least, int64_t step) {
    grid_x = blocks;
    const int64_t terms = std::max<int64_t>(nest.terms(), 1);
    segments = std::clamp<int64_t>(kFilling / std::max<int64_t>(blocks, 1), 1,
                                   std::min(kMaxSegments, std::max<int64_t>(terms / least, 1)));
    per_segment = ceil_divide(ceil_divide(terms, segments), step) * step;
    segments = ceil_divide(terms, per_segment);
  }
  void cut_rows() {
    const auto wanted = static_cast<int64_t>(
        std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(ceil_divide(nest.terms(), lanes), 1))));
    group = wanted > 64 ? kBlockThreads : static_cast<int>(std::min<int64_t>(wanted, 32));
    cut(ceil_divide(nest.results(), kBlockThreads / group), int64_t{group} * lanes * 2 * kUnroll,
        int64_t{group} * lanes);
  }
};

class CudaLoopWriter {
 public:
  CudaLoopWriter(const KernelCode& code, const KernelPlan& plan)
      : code_(code), plan_(plan), writer_(code, plan.nest, plan.words) {}

  std::string key() const { return writer_.key() + plan_.key(); }

  ModuleSource source() const {
    ModuleSource made;
    made.options = code_.options;
    made.kernels = {"user_" + code_.name};
    made.text = code_.uses.complex ? "\n#define QUARRY_KERNEL_COMPLEX\n" : "\n";
    made.text += std::string(embedded_kernel_types) + "\n#line 1 \"quarry\"\n";
    made.text += writer_.declarations();
    made.text += fmt::format("struct Parameters {{ long long p[{}]; }};\ntypedef {} index_type;\n",
                             plan_.words.values.size(), plan_.wide ? "unsigned long long" : "unsigned int");
    if (!code_.reduces) {
      made.text += plan_.tiles ? tiled() : elementwise();
      return made;
    }
    made.kernels.push_back("merge_" + code_.name);
    made.text += reduction_support() + (plan_.nest.columns ? columns() : rows()) + merging();
    return made;
  }

 private:
  const KernelNest& nest() const { return plan_.nest; }
  bool is_element(size_t a) const { return code_.parameters[a].kind == KernelParameter::Kind::element; }
  bool is_looped(size_t a) const { return is_element(a) && (!code_.reduces || !code_.parameters[a].output); }

  static std::string head(const std::string& name) {
    return fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}) {}(const Parameters parameters) {{\n"
        "const long long* const p = parameters.p;\n",
        kBlockThreads, name);
  }

  // Coordinates of `from` in extents; the last one counts groups of `lanes`.
  static std::string coordinates(const char* name, const std::string& from, int first, size_t ndim, int lanes) {
    std::string text = fmt::format("index_type {}[{}];\n{{\nindex_type rest = {};\n", name, ndim, from);
    for (size_t d = ndim; d-- > 1;) {
      const int place = first + static_cast<int>(d);
      const std::string extent = d + 1 == ndim && lanes > 1
                                     ? fmt::format("static_cast<index_type>(p[{}] / {})", place, lanes)
                                     : fmt::format("static_cast<index_type>(p[{}])", place);
      text += fmt::format("{0}[{1}] = rest % {2};\nrest /= {2};\n", name, d, extent);
    }
    text += fmt::format("{}[0] = rest;\n", name);
    if (lanes > 1) text += fmt::format("{}[{}] *= {};\n", name, ndim - 1, lanes);
    return text + "}\n";
  }
  static std::string steps(const char* name, int first, size_t ndim) {
    std::string text;
    for (size_t d = 0; d < ndim; ++d)
      text += fmt::format(" + static_cast<long long>({}[{}]) * p[{}]", name, d, first + static_cast<int>(d));
    return text;
  }
  std::string kept_steps(int first) const { return steps("c", first, nest().kept.size()); }
  std::string reduced_steps(int first) const { return steps("m", first, nest().reduced.size()); }
  int lane_step(size_t a) const {
    const KernelWords::Argument& place = plan_.words.arguments[a];
    return !code_.reduces || nest().columns ? place.kept + static_cast<int>(nest().kept.size()) - 1
                                            : place.reduced + static_cast<int>(nest().reduced.size()) - 1;
  }
  int last_kept() const { return plan_.words.kept + static_cast<int>(nest().kept.size()) - 1; }

  // Addresses at the kept coordinates `c`, and the position there.
  std::string bases(bool inputs, bool outputs) const {
    std::string text;
    for (size_t a = 0; a < code_.parameters.size(); ++a) {
      if (!is_element(a) || !(code_.parameters[a].output ? outputs : inputs)) continue;
      const KernelWords::Argument& place = plan_.words.arguments[a];
      text += fmt::format("const long long base_{} = p[{}]{};\n", a, place.pointer, kept_steps(place.kept));
    }
    if (inputs)
      text += code_.uses.index ? fmt::format("const long long i_base = 0{};\n", kept_steps(plan_.words.index_kept))
                               : "constexpr long long i_base = 0;\n";
    return text;
  }

  // The lane's step of the position.
  std::string index(const std::string& base, const std::string& lane) const {
    if (!code_.uses.index) return "0";
    const int step = !code_.reduces || nest().columns
                         ? plan_.words.index_kept + static_cast<int>(nest().kept.size()) - 1
                         : plan_.words.index_reduced + static_cast<int>(nest().reduced.size()) - 1;
    return fmt::format("{} + ({}) * p[{}]", base, lane, step);
  }

  // "T x_0[V]; ..." filled from `address` + parameter's offset; `suffix` tells several apart.
  std::string loads(const std::string& extra, const std::string& array) const {
    std::string text;
    for (size_t a = 0; a < code_.parameters.size(); ++a) {
      if (!is_looped(a)) continue;
      const char* type = kernel_type_name(code_.parameters[a].dtype);
      const std::string address = fmt::format("reinterpret_cast<const char*>(base_{0}{1})", a,
                                              extra.empty() ? "" : fmt::format(fmt::runtime(extra), a));
      const std::string to = fmt::format(fmt::runtime(array), a);
      switch (plan_.loads[a]) {
        case Load::vector:
          text += fmt::format("quarry::local::load_vector<{}, {}>({}, {});\n", type, plan_.lanes, address, to);
          break;
        case Load::contiguous:
        case Load::strided:
        case Load::tiled:  // none here
          text += fmt::format(
              "#pragma unroll\nfor (int k = 0; k < {}; ++k) {}[k] = *reinterpret_cast<const {}*>({} + k * p[{}]);\n",
              plan_.lanes, to, type, address, lane_step(a));
          break;
        case Load::broadcast:
          text += fmt::format(
              "{{\nconst {0} value = *reinterpret_cast<const {0}*>({1});\n"
              "#pragma unroll\nfor (int k = 0; k < {2}; ++k) {3}[k] = value;\n}}\n",
              type, address, plan_.lanes, to);
          break;
      }
    }
    return text;
  }

  std::vector<std::string> names(const std::string& form) const {
    std::vector<std::string> list(code_.parameters.size());
    for (size_t a = 0; a < list.size(); ++a)
      if (is_looped(a)) list[a] = fmt::format(fmt::runtime(form), a);
    return list;
  }

  // The element at lane k in memory.
  std::vector<std::string> in_memory(const std::string& extra) const {
    std::vector<std::string> list(code_.parameters.size());
    for (size_t a = 0; a < list.size(); ++a)
      if (is_looped(a))
        list[a] = fmt::format("*reinterpret_cast<{}*>(base_{}{} + k * p[{}])", writer_.element_type(a), a,
                              extra.empty() ? "" : fmt::format(fmt::runtime(extra), a), lane_step(a));
    return list;
  }

  std::string elementwise() const {
    std::string text = head("user_" + code_.name) + writer_.locals();
    text += fmt::format(
        "const index_type group = static_cast<index_type>(blockIdx.x) * {} + threadIdx.x;\n"
        "if (group >= p[{}]) return;\n",
        kBlockThreads, plan_.w_groups);
    text += coordinates("c", "group", plan_.words.kept, nest().kept.size(), plan_.lanes) + bases(true, true);
    text += fmt::format("const long long left = p[{}] - c[{}];\nif (left >= {}) {{\n", last_kept(),
                        nest().kept.size() - 1, plan_.lanes);
    for (size_t a = 0; a < code_.parameters.size(); ++a)
      if (is_element(a))
        text += fmt::format("{} x_{}[{}];\n", kernel_type_name(code_.parameters[a].dtype), a, plan_.lanes);
    text += loads("", "x_{}");
    text += fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k) {{ {} }}\n", plan_.lanes,
                        writer_.call_operation(names("x_{}[k]"), index("i_base", "k")));
    for (size_t a = 0; a < code_.parameters.size(); ++a) {
      if (!is_element(a) || !code_.parameters[a].output) continue;
      if (plan_.loads[a] == Load::vector)
        text += fmt::format("quarry::local::store_vector<{0}, {1}>(reinterpret_cast<char*>(base_{2}), x_{2});\n",
                            kernel_type_name(code_.parameters[a].dtype), plan_.lanes, a);
      else
        text += fmt::format(
            "#pragma unroll\nfor (int k = 0; k < {0}; ++k) *reinterpret_cast<{1}*>(base_{2} + k * p[{3}]) = "
            "x_{2}[k];\n",
            plan_.lanes, kernel_type_name(code_.parameters[a].dtype), a, lane_step(a));
    }
    return text + fmt::format("}} else {{\nfor (int k = 0; k < left; ++k) {{ {} }}\n}}\n}}\n",
                              writer_.call_operation(in_memory(""), index("i_base", "k")));
  }

  // Where the thread's first element of a square is, and the step to its next one: threads lie along the last axis, or
  // across it.
  std::string tile_walk(size_t a, bool across) const {
    const int step = plan_.words.arguments[a].kept + static_cast<int>(nest().kept.size()) - 2;
    return fmt::format("const long long at_{0} = base_{0} + tx * p[{1}] + ty * p[{2}], step_{0} = {3} * p[{2}];\n", a,
                       across ? step : step + 1, across ? step + 1 : step, kBlockThreads / kTile);
  }
  std::string tile_element(size_t a) const {
    return fmt::format("*reinterpret_cast<{}*>(at_{} + k * step_{})", writer_.element_type(a), a, a);
  }
  std::string tile_index() const {
    if (!code_.uses.index) return "0";
    const int step = plan_.words.index_kept + static_cast<int>(nest().kept.size()) - 2;
    return fmt::format("i_base + (ty + k * {}) * p[{}] + tx * p[{}]", kBlockThreads / kTile, step, step + 1);
  }
  // `body` for k = 0 ... where the thread's k-th element is inside of the array.
  static std::string for_each_row(const char* along, const char* down, const std::string& body) {
    return fmt::format(
        "#pragma unroll\nfor (int k = 0; k < {}; ++k) {{\nif (tx < {} && ty + k * {} < {}) {{\n{}}}\n}}\n",
        kTile * kTile / kBlockThreads, along, kBlockThreads / kTile, down, body);
  }

  // The odd row length of a square in shared memory keeps a warp's column in different banks.
  std::string tiled() const {
    constexpr int kRows = kBlockThreads / kTile;
    const size_t ndim = nest().kept.size();
    const int last = last_kept();
    std::string text = head("user_" + code_.name) + writer_.locals();
    text += fmt::format(
        "index_type rest = blockIdx.x, c[{0}];\nconst index_type wide = (p[{1}] + {2}) / {3}, high = (p[{4}] + {2}) / "
        "{3};\nc[{5}] = rest % wide * {3};\nrest /= wide;\nc[{6}] = rest % high * {3};\nrest /= high;\n",
        ndim, last, kTile - 1, kTile, last - 1, ndim - 1, ndim - 2);
    for (size_t d = ndim - 2; d-- > 0;) {
      const int place = plan_.words.kept + static_cast<int>(d);
      text += fmt::format(
          "c[{0}] = rest % static_cast<index_type>(p[{1}]);\nrest /= static_cast<index_type>(p[{1}]);\n", d, place);
    }
    text += bases(true, true);
    text += fmt::format(
        "const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};\n"
        "const int x_end = p[{1}] - c[{2}] < {0} ? static_cast<int>(p[{1}] - c[{2}]) : {0};\n"
        "const int y_end = p[{3}] - c[{4}] < {0} ? static_cast<int>(p[{3}] - c[{4}]) : {0};\n",
        kTile, last, ndim - 1, last - 1, ndim - 2);
    // All loads come before the first store, which might be of the same memory for all that the compiler knows.
    std::string across, direct, into, out_of, writes;
    for (size_t a = 0; a < code_.parameters.size(); ++a) {
      if (!is_element(a)) continue;
      const char* type = kernel_type_name(code_.parameters[a].dtype);
      const bool tiled = plan_.loads[a] == Load::tiled;
      text += fmt::format("{} x_{}[{}];\n", type, a, kTile / kRows) + tile_walk(a, tiled);
      (tiled ? across : direct) += fmt::format("x_{}[k] = {};\n", a, tile_element(a));
      if (code_.parameters[a].output) writes += fmt::format("{} = x_{}[k];\n", tile_element(a), a);
      if (!tiled) continue;
      text += fmt::format(
          "__shared__ __align__(16) unsigned char storage_{0}[{1} * {2} * sizeof({3})];\n"
          "{3}* const tile_{0} = reinterpret_cast<{3}*>(storage_{0});\n",
          a, kTile, kTile + 1, type);
      into += fmt::format("tile_{0}[(ty + k * {1}) * {2} + tx] = x_{0}[k];\n", a, kRows, kTile + 1);
      out_of += fmt::format("x_{0}[k] = tile_{0}[tx * {2} + ty + k * {1}];\n", a, kRows, kTile + 1);
    }
    text += for_each_row("y_end", "x_end", across) + for_each_row("x_end", "y_end", direct) +
            for_each_row("y_end", "x_end", into) + "__syncthreads();\n" + for_each_row("x_end", "y_end", out_of);
    return text +
           for_each_row("x_end", "y_end", writer_.call_operation(names("x_{}[k]"), tile_index()) + "\n" + writes) +
           "}\n";
  }

  static std::string reduction_support() {
    return R"(
__device__ inline quarry_state moved_down(const quarry_state& s, int distance, int width) {
  constexpr int count = (sizeof(quarry_state) + 3) / 4;
  unsigned int w[count] = {};
  memcpy(w, &s, sizeof(quarry_state));
#pragma unroll
  for (int k = 0; k < count; ++k) w[k] = __shfl_down_sync(0xffffffffu, w[k], distance, width);
  quarry_state other;
  memcpy(&other, w, sizeof(quarry_state));
  return other;
}
// Thread 0 of each group of W threads gets the group's state; all threads of the block take part.
template <int W>
__device__ inline void across(quarry_state& s) {
  constexpr int warp = W < 32 ? W : 32;
#pragma unroll
  for (int distance = warp / 2; distance > 0; distance /= 2) merge(s, moved_down(s, distance, warp));
  if constexpr (W > 32) {
    constexpr int warps = W / 32;
    __shared__ __align__(16) unsigned char storage[warps * sizeof(quarry_state)];
    if (threadIdx.x % 32 == 0) memcpy(storage + threadIdx.x / 32 * sizeof(quarry_state), &s, sizeof(quarry_state));
    __syncthreads();
    if (threadIdx.x < 32) {
      memcpy(&s, storage + threadIdx.x % warps * sizeof(quarry_state), sizeof(quarry_state));
#pragma unroll
      for (int distance = warps / 2; distance > 0; distance /= 2) merge(s, moved_down(s, distance, warps));
    }
  }
}
)";
  }

  // The result at the kept coordinates of `result`, or the segment's state of it.
  std::string deliver(const std::string& result, const std::string& state) const {
    return fmt::format(
        "if (p[{0}] > 1) reinterpret_cast<quarry_state*>(p[{1}])[static_cast<long long>(blockIdx.y) * ({2}) + {3}] = "
        "{4};\n"
        "else finish(p, {3}, {4});\n",
        plan_.w_segments, plan_.w_states, results(), result, state);
  }
  std::string results() const {
    std::string product = "1";
    for (size_t d = 0; d < nest().kept.size(); ++d)
      product += fmt::format(" * p[{}]", plan_.words.kept + static_cast<int>(d));
    return product;
  }

  std::string finish() const {
    std::vector<std::string> outputs(code_.parameters.size());
    for (size_t a = 0; a < outputs.size(); ++a)
      if (is_element(a) && code_.parameters[a].output)
        outputs[a] = fmt::format("*reinterpret_cast<{}*>(base_{})", kernel_type_name(code_.parameters[a].dtype), a);
    return "__device__ inline void finish(const long long* p, long long result, const quarry_state& s) {\n" +
           writer_.locals() +
           coordinates("c", "static_cast<index_type>(result)", plan_.words.kept, nest().kept.size(), 1) +
           bases(false, true) + writer_.call_post("s.value", outputs) + "\n}\n";
  }

  // Declares x_A[U][V].
  std::string arrays() const {
    std::string text;
    for (size_t a = 0; a < code_.parameters.size(); ++a)
      if (is_looped(a))
        text += fmt::format("{} x_{}[{}][{}];\n", kernel_type_name(code_.parameters[a].dtype), a, kUnroll, plan_.lanes);
    return text;
  }

  // Offsets of term j: "off_A" and i_.
  std::string offsets() const {
    std::string text = coordinates("m", "static_cast<index_type>(j_)", plan_.words.reduced, nest().reduced.size(), 1);
    for (size_t a = 0; a < code_.parameters.size(); ++a)
      if (is_looped(a))
        text += fmt::format("const long long off_{} = 0{};\n", a, reduced_steps(plan_.words.arguments[a].reduced));
    text += code_.uses.index ? fmt::format("const long long i_ = i_base{};\n", reduced_steps(plan_.words.index_reduced))
                             : "constexpr long long i_ = 0;\n";
    return text;
  }

  // Steps of kUnroll accesses each `step` terms apart, then single ones; `room` is what an access needs below `to`.
  std::string terms_loop(const std::string& first, const std::string& step, int room) const {
    std::string text = fmt::format("long long j = {};\nfor (; j + {} * ({}) + {} <= to; j += {} * ({})) {{\n", first,
                                   kUnroll - 1, step, room, kUnroll, step);
    text += arrays();
    if (code_.uses.index) text += fmt::format("long long i_of[{}];\n", kUnroll);
    text += fmt::format("#pragma unroll\nfor (int u = 0; u < {}; ++u) {{\nconst long long j_ = j + u * ({});\n",
                        kUnroll, step) +
            offsets() + (code_.uses.index ? "i_of[u] = i_;\n" : "") + loads(" + off_{}", "x_{}[u]") + "}\n";
    text += fmt::format(
        "#pragma unroll\nfor (int u = 0; u < {}; ++u)\n#pragma unroll\nfor (int k = 0; k < {}; ++k) "
        "push(s[k], {});\n}}\n",
        kUnroll, plan_.lanes, writer_.call_map(names("x_{}[u][k]"), index("i_of[u]", "k")));
    text += fmt::format("for (; j + {} <= to; j += {}) {{\nconst long long j_ = j;\n", room, step) + arrays() +
            "constexpr int u = 0;\n" + offsets() + loads(" + off_{}", "x_{}[u]");
    return text + fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k) push(s[k], {});\n}}\n", plan_.lanes,
                              writer_.call_map(names("x_{}[u][k]"), index("i_", "k")));
  }

  std::string rows() const {
    std::string text = finish() + head("user_" + code_.name) + writer_.locals();
    text += fmt::format(
        "const int lane = threadIdx.x % {0};\n"
        "const long long asked = static_cast<long long>(blockIdx.x) * {1} + threadIdx.x / {0};\n"
        "const bool valid = asked < p[{2}];\nconst long long result = valid ? asked : 0;\n"
        "const long long terms = {3};\n"
        "const long long from = static_cast<long long>(blockIdx.y) * p[{4}];\n"
        "long long to = from + p[{4}] < terms ? from + p[{4}] : terms;\nif (!valid) to = from;\n",
        plan_.group, kBlockThreads / plan_.group, plan_.w_groups, terms(), plan_.w_per_segment);
    text += coordinates("c", "static_cast<index_type>(result)", plan_.words.kept, nest().kept.size(), 1) +
            bases(true, false);
    text += fmt::format("quarry_state s[{0}];\n#pragma unroll\nfor (int k = 0; k < {0}; ++k) s[k] = start();\n",
                        plan_.lanes);
    text += terms_loop(fmt::format("from + lane * {}", plan_.lanes), fmt::format("{}", plan_.group * plan_.lanes),
                       plan_.lanes);
    if (plan_.lanes > 1)
      text += "if (j < to) {\nconst long long j_ = j;\n" + offsets() +
              fmt::format("for (int k = 0; k < to - j; ++k) push(s[0], {});\n}}\n",
                          writer_.call_map(in_memory(" + off_{}"), index("i_", "k")));
    text += fmt::format(
        "#pragma unroll\nfor (int h = {0} / 2; h > 0; h /= 2)\n#pragma unroll\nfor (int k = 0; k < h; ++k) merge(s[k], "
        "s[k + h]);\n"
        "across<{1}>(s[0]);\nif (lane == 0 && valid) {{\n",
        plan_.lanes, plan_.group);
    return text + deliver("result", "s[0]") + "}\n}\n";
  }

  std::string terms() const {
    std::string product = "1";
    for (size_t d = 0; d < nest().reduced.size(); ++d)
      product += fmt::format(" * p[{}]", plan_.words.reduced + static_cast<int>(d));
    return product;
  }

  std::string columns() const {
    constexpr int kRows = kBlockThreads / kStrip;
    std::string text = finish() + head("user_" + code_.name) + writer_.locals();
    text += fmt::format("__shared__ __align__(16) unsigned char storage[{} * sizeof(quarry_state)];\n", kBlockThreads);
    text += fmt::format(
        "const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};\n"
        "const long long asked = static_cast<long long>(blockIdx.x) * {0} + tx;\n"
        "const bool valid = asked < p[{1}];\nconst long long group = valid ? asked : 0;\n"
        "const long long terms = {2};\n"
        "const long long from = static_cast<long long>(blockIdx.y) * p[{3}];\n"
        "long long to = from + p[{3}] < terms ? from + p[{3}] : terms;\nif (!valid) to = from;\n",
        kStrip, plan_.w_groups, terms(), plan_.w_per_segment);
    text += coordinates("c", "static_cast<index_type>(group)", plan_.words.kept, nest().kept.size(), plan_.lanes) +
            bases(true, false);
    text += fmt::format("const long long left = p[{}] - c[{}];\n", last_kept(), nest().kept.size() - 1);
    text += fmt::format("quarry_state s[{0}];\n#pragma unroll\nfor (int k = 0; k < {0}; ++k) s[k] = start();\n",
                        plan_.lanes);
    // The first result of the group, in the order of the kept axes.
    text += "long long result = 0;\n";
    for (size_t d = 0; d < nest().kept.size(); ++d)
      text += fmt::format("result = result * p[{}] + c[{}];\n", plan_.words.kept + static_cast<int>(d), d);
    if (plan_.lanes > 1) text += fmt::format("if (left >= {}) {{\n", plan_.lanes);
    text += terms_loop("from + ty", std::to_string(kRows), 1);
    if (plan_.lanes > 1)
      text += "} else {\nfor (long long j = from + ty; j < to; j += " + std::to_string(kRows) +
              ") {\nconst long long j_ = j;\n" + offsets() +
              fmt::format("#pragma unroll\nfor (int k = 0; k < {}; ++k)\nif (k < left) push(s[k], {});\n}}\n}}\n",
                          plan_.lanes, writer_.call_map(in_memory(" + off_{}"), index("i_", "k")));
    text += fmt::format(R"(#pragma unroll
for (int k = 0; k < {0}; ++k) {{
memcpy(storage + threadIdx.x * sizeof(quarry_state), &s[k], sizeof(quarry_state));
__syncthreads();
if (ty == 0) {{
for (int row = 1; row < {1}; ++row) {{
quarry_state other;
memcpy(&other, storage + (row * {2} + tx) * sizeof(quarry_state), sizeof(quarry_state));
merge(s[k], other);
}}
if (valid && k < left) {{
)",
                        plan_.lanes, kRows, kStrip);
    return text + deliver("result + k", "s[k]") + "}\n}\n__syncthreads();\n}\n}\n";
  }

  std::string merging() const {
    std::string text = head("merge_" + code_.name);
    text += fmt::format(
        "const int lane = threadIdx.x % {0};\n"
        "const long long asked = static_cast<long long>(blockIdx.x) * {1} + threadIdx.x / {0};\n"
        "const long long results = {2};\nconst bool valid = asked < results;\n"
        "const quarry_state* const states = reinterpret_cast<const quarry_state*>(p[{3}]);\n"
        "quarry_state s = start();\n"
        "if (valid)\nfor (long long k = lane; k < p[{4}]; k += {0}) merge(s, states[k * results + asked]);\n"
        "across<{0}>(s);\nif (lane == 0 && valid) finish(p, asked, s);\n}}\n",
        plan_.merge_group, kBlockThreads / plan_.merge_group, results(), plan_.w_states, plan_.w_segments);
    return text;
  }

  const KernelCode& code_;
  const KernelPlan& plan_;
  KernelWriter writer_;
};

class CudaKernels final : public UserKernels {
 public:
  int64_t run_scratch_bytes(const KernelCode& code, const KernelLaunch& launch) override {
    return code.reduces ? KernelPlan(code, launch).scratch_bytes() : 0;
  }

  void run(const KernelCode& code, const KernelLaunch& launch, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    KernelPlan plan(code, launch);
    if (plan.nest.results() == 0) return;
    std::vector<int64_t>& words = plan.words.values;
    constexpr size_t kMostWords = kLeastParameterBytes / sizeof(int64_t);
    if (words.size() > kMostWords)
      throw InvalidArgument(fmt::format("kernel '{}' has {} parameters of too many dimensions: {} words of at most {}",
                                        code.name, code.parameters.size(), words.size(), kMostWords));
    const Module& module = loaded(code, plan, stream.device().index);
    if (plan.segments == 1) {
      launch_kernel(module.kernel(0), plan.grid_x, 1, kBlockThreads, words, stream);
      return;
    }
    const Scratch states(plan.scratch_bytes(), context);
    words[static_cast<size_t>(plan.w_states)] = static_cast<int64_t>(reinterpret_cast<intptr_t>(states.data()));
    launch_kernel(module.kernel(0), plan.grid_x, plan.segments, kBlockThreads, words, stream);
    launch_kernel(module.kernel(1), plan.merge_grid, 1, kBlockThreads, words, stream);
  }

  const RawCode& load(const RawSource& source, Device device) override { return load_raw(source, device); }

 private:
  static const Module& loaded(const KernelCode& code, const KernelPlan& plan, int device) {
    const CudaLoopWriter writer(code, plan);
    try {
      return module_cache().get("user\1" + code.key + '\2' + writer.key(), device, [&] { return writer.source(); });
    } catch (const SourceRefused& refused) {
      refuse_kernel(code, refused.log());
    }
  }
};

}  // namespace

ModuleSource make_kernel_source(const KernelCode& code, const KernelLaunch& launch) {
  const KernelPlan plan(code, launch);
  return CudaLoopWriter(code, plan).source();
}

UserKernels& cuda_kernels() {
  static CudaKernels instance;
  return instance;
}

}  // namespace quarry::local::cuda
