// How a program runs over a layout: which kernel form, how many elements and threads, which parameters. Everything that
// changes a kernel's code is in Plan::key(); everything else is a parameter.
//
// The order in which a reduction combines elements depends on program, shape and strides, never on alignment, the
// number of multiprocessors or timing: accesses of unaligned operands are narrower, but every thread combines the same
// elements in the same order.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/cuda/layout.h"
#include "quarry/local/program/program.h"

namespace quarry::local::cuda {

inline constexpr int kBlockThreads = 256;  // kBlock in kernel/support.cuh
inline constexpr int kVectorBytes = 16;    // of the widest access
constexpr int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a thread reaches its `lanes` elements along the innermost axis.
enum class Access : char {
  vector = 'v',     // contiguous and aligned for wide accesses
  element = 'e',    // contiguous
  strided = 's',    // any other stride
  broadcast = 'b',  // stride 0
  tiled = 't',      // contiguous along Plan::tile_axis instead: through shared memory
};

struct PlanOperand {
  DType dtype;
  Access access = Access::strided;
  uint32_t moves = 0;  // bit d: the stride along axis d is not 0
  int like = -1;       // an earlier input of the same strides, whose parameters it shares
};

// Kernel parameters: a struct of 64-bit slots. Names are kept only where source is to be made.
class Slots {
 public:
  explicit Slots(bool naming) : naming_(naming) {}
  template <class... Args>
  void add(int64_t value, fmt::format_string<Args...> name, Args&&... args) {
    if (naming_) names_.push_back(fmt::format(name, std::forward<Args>(args)...));
    values_.push_back(value);
  }
  // Slots that differ between launches of one plan: `number` counts the program's constants (of two slots each), the
  // launch's axes or its operands of a kind, or the fields of the partial states.
  enum class Varying : uint8_t { constant, offset, input, output, state, partial };
  void add_constant(const Scalar& value, size_t number);
  void add_offset(int64_t offset, size_t axis);
  void add_pointer(void* data, Varying kind, size_t number);
  // The values of another launch, all but the partial states' addresses.
  void refresh(const Program& program, const Launch& launch);
  void set_partial(size_t number, const void* data);
  // Where launches of one program differ, in order of the slots: everything varying but the constants.
  std::vector<size_t> differing() const;
  // The values there.
  void differing_values(const Launch& launch, std::span<const void* const> partials, int64_t* to) const;
  const std::vector<int64_t>& values() const { return values_; }
  std::vector<int64_t>& values() { return values_; }
  const std::vector<std::string>& names() const { return names_; }
  size_t size() const { return values_.size(); }

 private:
  struct VaryingSlot {
    Varying kind;
    size_t number, slot;
  };
  static int64_t value_of(const VaryingSlot& varying, const Launch& launch);
  bool naming_;
  std::vector<VaryingSlot> varying_;
  std::vector<int64_t> values_;
  std::vector<std::string> names_;
};

// What a kernel takes of parameters on every GPU, and from CUDA 12.1 and Volta on.
inline constexpr size_t kLeastParameterBytes = 4096;
inline constexpr size_t kParameterBytes = 32764;

struct Plan {
  // map: a thread takes `lanes` elements. tile: a block takes `tile` x `tile` of the two axes that operands disagree
  // on. rows: the innermost axis is reduced, `group` threads per result. columns: the innermost axis is kept, `group`
  // threads along it and the others down the reduced axes.
  enum class Kind : char { map = 'm', tile = 't', rows = 'r', columns = 'c' };

  Kind kind = Kind::map;
  bool wide = false;     // 64-bit index arithmetic
  bool split = false;    // several blocks per result: partial states, merged by a second kernel
  bool cascade = false;  // three levels of partial sums per thread, against rounding error
  bool whole = false;    // the innermost axis is a multiple of `lanes`
  bool once = false;  // a thread has all it reads of a result at once: one access of a row, `unroll` rows of a column
  int lanes = 1;
  int unroll = 1;
  int group = 1;
  int each = 1;  // results per group of threads, where `once`
  int tile = 0;
  int merge_group = 1;
  int ndim = 0;
  uint32_t reduced = 0;  // bit d: axis d
  int tile_axis = -1;
  std::vector<PlanOperand> inputs, outputs, states;
  std::vector<int> axis_of;  // Layout::axis_of

  int64_t results = 1;   // of each reduction
  int64_t segments = 1;  // blocks per result
  int64_t grid_x = 0, grid_y = 1;
  int64_t merge_grid = 0;
  Slots slots{false};        // of the kernel; states' addresses are partial states' if split
  Slots merge_slots{false};  // of the second kernel

  // Where not 0: the kernels take up to so many launches that differ in addresses and offsets, one per blockIdx.z. What
  // differs is in rows of a table behind the slots.
  int several = 0;

  std::string key() const;
  // The largest `several` whose parameters a kernel can take that takes so many bytes of them; 0 or 1: none.
  int most_several(size_t parameter_bytes) const;
  // The parameters of a kernel of up to `several` launches: `of` is `slots` or `merge_slots`; per launch the addresses
  // of its partial states' fields, none where not split.
  std::vector<int64_t> several_values(const Slots& of, std::span<const Launch> launches,
                                      std::span<const std::vector<const void*>> partials) const;
  int lane_axis() const { return ndim - 1; }
  // Bytes of the partial states, each field's array aligned as an allocation.
  int64_t scratch_bytes() const;
  bool is_reduced(int axis) const { return (reduced >> axis & 1u) != 0; }
};

// `layout` has elements (no extent is 0), or is empty along reduced axes only. `naming` keeps parameter names.
Plan make_plan(const Program& program, const Layout& layout, bool naming);

// Whether a sampler's parameters depend on constants alone. The blocks of a map prepare such samplers, with tables,
// before they take elements; there are fewer blocks then, which take more elements each.
bool is_prepared(const Program& program, const Value& value);

// Which specialisations to leave out, for tests: they must give the same results.
struct PlanOverrides {
  bool force_wide = false;
};
Plan make_plan(const Program& program, const Layout& layout, bool naming, const PlanOverrides& overrides);

}  // namespace quarry::local::cuda
