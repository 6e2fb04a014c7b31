// Loops around users' snippets. Elementwise kernels run over ranges of the space. Reductions cut the terms of each
// result into segments of a fixed length, reduce each in order - with several partial states along a row, one per
// result across columns - and merge the segments' states as a balanced tree: the order depends on the shape and the
// strides only.
#include "quarry/local/cpu/kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <unordered_map>

#include "quarry/local/cpu/arena.h"
#include "quarry/local/cpu/matrix.h"
#include "quarry/local/cpu/system_compiler.h"
#include "quarry/local/memory/scratch.h"
#include "quarry/local/program/embedded.h"
#include "quarry/local/program/kernel_text.h"

namespace quarry::local {
namespace cpu {
namespace {

constexpr int64_t kStateBytes = 64;         // most that a state may take (kernel_text.cpp asserts it)
constexpr int64_t kSegmentTerms = 8192;     // of one result, reduced in one go
constexpr int64_t kUnitElements = 1 << 16;  // of the space, in one call of a kernel

// ---- Source ----

class LoopWriter {
 public:
  LoopWriter(const KernelCode& code, const KernelNest& nest, const KernelWords& words)
      : code_(code), nest_(nest), words_(words), uses_(code.uses), writer_(code, nest, words) {}

  std::string key() const { return writer_.key(); }

  std::string source() const {
    std::string text = uses_.complex ? "#define QUARRY_KERNEL_COMPLEX\n" : "";
    text += "#include <bit>\n#include <cstdint>\n";
    text += embedded_half;
    if (uses_.complex)
      text += std::string("#define QUARRY_NO_SPECIAL_FUNCTIONS\n") + embedded_device_math + embedded_op_functions;
    text += std::string(embedded_kernel_types) + "\n#line 1 \"quarry\"\n" + writer_.declarations();
    return text + (code_.reduces ? reduction() : elementwise());
  }

 private:
  static constexpr const char* kExport = "extern \"C\" __attribute__((visibility(\"default\"))) ";

  bool is_element(size_t a) const { return code_.parameters[a].kind == KernelParameter::Kind::element; }

  // "c0 = ...": coordinates of position `from` in the extents at `first`.
  static std::string coordinates(const char* name, const char* from, int first, size_t ndim) {
    std::string text = fmt::format("long long {0}[{1}];\n{{ long long rest = {2};\n", name, ndim, from);
    for (size_t d = ndim; d-- > 1;)
      text += fmt::format("{0}[{1}] = rest % p[{2}]; rest /= p[{2}];\n", name, d, first + static_cast<int>(d));
    return text + fmt::format("{}[0] = rest; }}\n", name);
  }
  static std::string steps(const char* name, int first, size_t ndim) {
    std::string text;
    for (size_t d = 0; d < ndim; ++d) text += fmt::format(" + {}[{}] * p[{}]", name, d, first + static_cast<int>(d));
    return text;
  }
  std::string kept_steps(int first) const { return steps("c", first, nest_.kept.size()); }
  std::string reduced_steps(int first) const { return steps("m", first, nest_.reduced.size()); }

  // Addresses of the elements at the coordinates, and the position there.
  std::string addresses(bool reduced, bool inputs, bool outputs) const {
    std::string text;
    for (size_t a = 0; a < code_.parameters.size(); ++a) {
      const KernelParameter& parameter = code_.parameters[a];
      if (!is_element(a) || !(parameter.output ? outputs : inputs)) continue;
      const KernelWords::Argument& place = words_.arguments[a];
      text += fmt::format("{0}* const x_{1} = reinterpret_cast<{0}*>(p[{2}]{3}{4});\n", writer_.element_type(a), a,
                          place.pointer, kept_steps(place.kept), reduced ? reduced_steps(place.reduced) : "");
      if (nest_.access(code_, a) == KernelAccess::broadcast && !parameter.output)
        text += fmt::format("const auto b_{0} = *x_{0};\n", a);
    }
    if (inputs)
      text += uses_.index ? fmt::format("const long long i_ = 0{}{};\n", kept_steps(words_.index_kept),
                                        reduced ? reduced_steps(words_.index_reduced) : "")
                          : "constexpr long long i_ = 0;\n";
    return text;
  }

  // The elements at lane `lane` from those addresses.
  std::vector<std::string> elements(const std::string& lane) const {
    std::vector<std::string> list(code_.parameters.size());
    const bool kept = !code_.reduces || nest_.columns;
    for (size_t a = 0; a < list.size(); ++a) {
      if (!is_element(a)) continue;
      const KernelWords::Argument& place = words_.arguments[a];
      const int step = kept ? place.kept + static_cast<int>(nest_.kept.size()) - 1
                            : place.reduced + static_cast<int>(nest_.reduced.size()) - 1;
      switch (nest_.access(code_, a)) {
        case KernelAccess::contiguous:
          list[a] = fmt::format("x_{}[{}]", a, lane);
          break;
        case KernelAccess::broadcast:
          list[a] = fmt::format("{}_{}", code_.parameters[a].output ? "*x" : "b", a);
          break;
        case KernelAccess::strided:
          list[a] = fmt::format("*reinterpret_cast<{0}*>(reinterpret_cast<intptr_t>(x_{1}) + ({2}) * p[{3}])",
                                writer_.element_type(a), a, lane, step);
          break;
      }
    }
    return list;
  }
  std::string index(const std::string& lane) const {
    if (!uses_.index) return "0";
    const bool kept = !code_.reduces || nest_.columns;
    const int step = kept ? words_.index_kept + static_cast<int>(nest_.kept.size()) - 1
                          : words_.index_reduced + static_cast<int>(nest_.reduced.size()) - 1;
    return fmt::format("i_ + ({}) * p[{}]", lane, step);
  }
  int last_kept() const { return words_.kept + static_cast<int>(nest_.kept.size()) - 1; }
  int last_reduced() const { return words_.reduced + static_cast<int>(nest_.reduced.size()) - 1; }

  // quarry_run(p, begin, end): elements [begin, end) in the order of the nest.
  std::string elementwise() const {
    std::string text =
        fmt::format("{}void quarry_run(const long long* p, long long begin, long long end) {{\n", kExport);
    text += writer_.locals();
    text += "while (begin < end) {\n" + coordinates("c", "begin", words_.kept, nest_.kept.size());
    text += fmt::format("long long count = p[{}] - c[{}];\nif (count > end - begin) count = end - begin;\n",
                        last_kept(), nest_.kept.size() - 1);
    text += addresses(/*reduced=*/false, true, true);
    text += fmt::format("#pragma GCC ivdep\nfor (long long k = 0; k < count; ++k) {{ {} }}\nbegin += count;\n}}\n}}\n",
                        writer_.call_operation(elements("k"), index("k")));
    return text;
  }

  // fold(p, begin, end, from, to, states): states of results [begin, end) over terms [from, to).
  std::string fold() const {
    std::string text =
        "static void fold(const long long* p, long long begin, long long end, long long from, long long to, "
        "quarry_state* states) {\n" +
        writer_.locals();
    const std::string next = advance();
    if (nest_.columns) {
      text += "while (begin < end) {\n" + coordinates("c", "begin", words_.kept, nest_.kept.size());
      text += fmt::format("long long count = p[{}] - c[{}];\nif (count > end - begin) count = end - begin;\n",
                          last_kept(), nest_.kept.size() - 1);
      text += "for (long long k = 0; k < count; ++k) states[k] = start();\n";
      text += coordinates("m", "from", words_.reduced, nest_.reduced.size());
      text += "for (long long j = from; j < to; ++j) {\n" + addresses(/*reduced=*/true, true, false);
      text += fmt::format("#pragma GCC ivdep\nfor (long long k = 0; k < count; ++k) push(states[k], {});\n",
                          writer_.call_map(elements("k"), index("k")));
      text += fmt::format("m[{}] += 1;\n", nest_.reduced.size() - 1) + next;
      return text + "}\nstates += count;\nbegin += count;\n}\n}\n";
    }
    text += "for (; begin < end; ++begin, ++states) {\n" + coordinates("c", "begin", words_.kept, nest_.kept.size());
    text +=
        "constexpr int W = sizeof(quarry_state) <= 8 ? 16 : 4;\nquarry_state a[W];\n"
        "for (int w = 0; w < W; ++w) a[w] = start();\n";
    text += coordinates("m", "from", words_.reduced, nest_.reduced.size());
    text += fmt::format(
        "for (long long j = from; j < to;) {{\nlong long count = p[{}] - m[{}];\n"
        "if (count > to - j) count = to - j;\n",
        last_reduced(), nest_.reduced.size() - 1);
    text += addresses(/*reduced=*/true, true, false);
    text += fmt::format(
        "long long k = 0;\nfor (; k + W <= count; k += W) {{\n"
        "#pragma GCC unroll 16\n"
        "for (int w = 0; w < W; ++w) push(a[w], {});\n}}\n",
        writer_.call_map(elements("k + w"), index("k + w")));
    text += fmt::format("for (int w = 0; k < count; ++k, ++w) push(a[w], {});\n",
                        writer_.call_map(elements("k"), index("k")));
    text += fmt::format("j += count;\nm[{}] += count;\n", nest_.reduced.size() - 1) + next + "}\n";
    text +=
        "for (int h = W / 2; h > 0; h /= 2)\nfor (int w = 0; w < h; ++w) merge(a[w], a[w + h]);\nstates[0] = a[0];\n";
    return text + "}\n}\n";
  }

  // Carries of the coordinates `m`.
  std::string advance() const {
    std::string text;
    for (size_t d = nest_.reduced.size(); d-- > 1;)
      text += fmt::format("if (m[{0}] == p[{1}]) {{ m[{0}] = 0; m[{2}] += 1; }}\n", d,
                          words_.reduced + static_cast<int>(d), d - 1);
    return text;
  }

  std::string reduction() const {
    std::string text = fold();
    std::vector<std::string> outputs(code_.parameters.size());
    for (size_t a = 0; a < outputs.size(); ++a)
      if (is_element(a)) outputs[a] = fmt::format("*x_{}", a);
    text += "static void finish(const long long* p, long long r, const quarry_state& state) {\n" + writer_.locals() +
            coordinates("c", "r", words_.kept, nest_.kept.size()) + addresses(false, false, true) +
            writer_.call_post("state.value", outputs) + "\n}\n";
    text += fmt::format(R"({0}void quarry_run(const long long* p, long long begin, long long end, long long terms) {{
constexpr long long kTile = 128;
quarry_state states[kTile];
for (; begin < end; begin += kTile) {{
const long long stop = begin + kTile < end ? begin + kTile : end;
fold(p, begin, stop, 0, terms, states);
for (long long r = begin; r < stop; ++r) finish(p, r, states[r - begin]);
}}
}}
{0}void quarry_fold(const long long* p, long long begin, long long end, long long from, long long to, void* states) {{
fold(p, begin, end, from, to, static_cast<quarry_state*>(states) + begin);
}}
{0}void quarry_finish(const long long* p, long long begin, long long end, void* all, long long results, long long segments) {{
quarry_state* const states = static_cast<quarry_state*>(all);
for (long long r = begin; r < end; ++r) {{
for (long long step = 1; step < segments; step *= 2)
for (long long s = 0; s + step < segments; s += 2 * step) merge(states[s * results + r], states[(s + step) * results + r]);
finish(p, r, states[r]);
}}
}}
{0}long long quarry_state_bytes() {{ return sizeof(quarry_state); }}
)",
                        kExport);
    return text;
  }

  const KernelCode& code_;
  const KernelNest& nest_;
  const KernelWords& words_;
  const KernelUses& uses_;
  KernelWriter writer_;
};

// ---- Loaded kernels ----

using Words = const int64_t*;
struct Loaded {
  void (*run)(Words, int64_t begin, int64_t end) = nullptr;
  void (*reduce)(Words, int64_t begin, int64_t end, int64_t terms) = nullptr;
  void (*fold)(Words, int64_t begin, int64_t end, int64_t from, int64_t to, void* states) = nullptr;
  void (*finish)(Words, int64_t begin, int64_t end, void* states, int64_t results, int64_t segments) = nullptr;
  int64_t state_bytes = 0;
};

template <class Function>
void find(void* object, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(object, name));
  QUARRY_CHECK(function != nullptr);
}

Loaded load(const KernelCode& code, const std::string& source) {
  void* object = nullptr;
  try {
    object = compile_and_load(source, code.options);
  } catch (const Refused& refused) {
    refuse_kernel(code, refused.what());
  }
  Loaded loaded;
  if (!code.reduces) {
    find(object, "quarry_run", loaded.run);
    return loaded;
  }
  find(object, "quarry_run", loaded.reduce);
  find(object, "quarry_fold", loaded.fold);
  find(object, "quarry_finish", loaded.finish);
  int64_t (*state_bytes)() = nullptr;
  find(object, "quarry_state_bytes", state_bytes);
  loaded.state_bytes = state_bytes();
  return loaded;
}

// Kernels by key. The first call with a key compiles (others with that key wait), later ones look up.
const Loaded& loaded_kernel(const KernelCode& code, const LoopWriter& writer) {
  static std::mutex mutex;
  static auto* const kernels = new std::unordered_map<std::string, std::shared_future<Loaded>>();
  const std::string key = code.key + '\2' + writer.key();
  std::promise<Loaded> promise;
  std::shared_future<Loaded> found;
  {
    const std::lock_guard lock(mutex);
    const auto place = kernels->find(key);
    if (place != kernels->end())
      found = place->second;
    else
      kernels->emplace(key, promise.get_future().share());
  }
  if (!found.valid()) {
    try {
      promise.set_value(load(code, writer.source()));
    } catch (...) {
      promise.set_exception(std::current_exception());
      const std::lock_guard lock(mutex);
      kernels->erase(key);  // whoever waits gets this error; the next call tries again
      throw;
    }
    const std::lock_guard lock(mutex);
    found = kernels->at(key);
  }
  return found.get();  // lives as long as the map
}

// ---- Launches ----

struct Prepared {
  KernelNest nest;
  KernelWords words;
  const Loaded* kernel = nullptr;

  Prepared(const KernelCode& code, const KernelLaunch& launch)
      : nest(make_nest(code, launch)), words(make_words(code, launch, nest)) {
    kernel = &loaded_kernel(code, LoopWriter(code, nest, words));
  }
};

int64_t segments_of(const KernelNest& nest) {
  return std::max<int64_t>((nest.terms() + kSegmentTerms - 1) / kSegmentTerms, 1);
}

// [begin, end) of [0, count) in parts of `grain`.
void for_ranges(int64_t count, int64_t grain, int threads, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t units = (count + grain - 1) / grain;
  for_each_unit(units, slots_for(units, threads),
                [&](int64_t unit, int) { body(unit * grain, std::min(count, (unit + 1) * grain)); });
}

// Tiles of the last two axes, so that what one operand fetches along the last but one stays in cache.
void run_tiles(const KernelNest& nest, int threads, const std::function<void(int64_t, int64_t)>& body) {
  constexpr int64_t kSide = 64;
  const int64_t width = nest.kept.back(), rows = nest.kept[nest.kept.size() - 2];
  const int64_t across = (width + kSide - 1) / kSide, down = (rows + kSide - 1) / kSide;
  const int64_t planes = nest.results() / (width * rows);
  for_each_unit(planes * down, slots_for(planes * down, threads), [&](int64_t unit, int) {
    const int64_t first = unit / down * rows + unit % down * kSide;
    const int64_t last = std::min(first + kSide, (unit / down + 1) * rows);
    for (int64_t tile = 0; tile < across; ++tile)
      for (int64_t row = first; row < last; ++row)
        body(row * width + tile * kSide, row * width + std::min(width, (tile + 1) * kSide));
  });
}

class CpuKernels final : public UserKernels {
 public:
  int64_t run_scratch_bytes(const KernelCode& code, const KernelLaunch& launch) override {
    if (!code.reduces) return 0;
    const KernelNest nest = make_nest(code, launch);
    const int64_t segments = segments_of(nest);
    return segments == 1 ? 0 : segments * nest.results() * kStateBytes;
  }

  void run(const KernelCode& code, const KernelLaunch& launch, const ExecContext& context) override {
    const Prepared prepared(code, launch);
    const KernelNest& nest = prepared.nest;
    const Loaded& kernel = *prepared.kernel;
    Words words = prepared.words.values.data();
    const int64_t results = nest.results();
    if (results == 0) return;
    if (!code.reduces && nest.crossed) {
      run_tiles(nest, context.threads, [&](int64_t begin, int64_t end) { kernel.run(words, begin, end); });
      return;
    }
    if (!code.reduces) {
      for_ranges(results, kUnitElements, context.threads,
                 [&](int64_t begin, int64_t end) { kernel.run(words, begin, end); });
      return;
    }
    const int64_t terms = nest.terms(), segments = segments_of(nest);
    const int64_t grain = std::max<int64_t>(kUnitElements / std::max<int64_t>(std::min(terms, kSegmentTerms), 1), 1);
    if (segments == 1) {
      for_ranges(results, grain, context.threads,
                 [&](int64_t begin, int64_t end) { kernel.reduce(words, begin, end, terms); });
      return;
    }
    const Scratch states(segments * results * kernel.state_bytes, context);
    const int64_t width = std::max<int64_t>(grain, nest.columns ? 128 : 1);
    const int64_t parts = (results + width - 1) / width;
    for_each_unit(parts * segments, slots_for(parts * segments, context.threads), [&](int64_t unit, int) {
      const int64_t segment = unit / parts, begin = unit % parts * width;
      kernel.fold(words, begin, std::min(results, begin + width), segment * kSegmentTerms,
                  std::min(terms, (segment + 1) * kSegmentTerms), states.at(segment * results * kernel.state_bytes));
    });
    for_ranges(results, 1024, context.threads,
               [&](int64_t begin, int64_t end) { kernel.finish(words, begin, end, states.data(), results, segments); });
  }

  const RawCode& load(const RawSource&, Device device) override {
    throw NotSupported(
        fmt::format("CUDA source runs on a GPU only, not on {}: move the arrays to one with to()", to_string(device)));
  }
};

}  // namespace
}  // namespace cpu

UserKernels& cpu_kernels() {
  static cpu::CpuKernels instance;
  return instance;
}

void prepare_cpu_kernel(const KernelCode& code, const KernelLaunch& launch) {
  const cpu::Prepared prepared(code, launch);
}

}  // namespace quarry::local
