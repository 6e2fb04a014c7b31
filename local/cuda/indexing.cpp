#include "quarry/local/cuda/indexing.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "quarry/local/base/error.h"
#include "quarry/local/cuda/codegen/codegen.h"
#include "quarry/local/cuda/embedded.h"
#include "quarry/local/cuda/launch.h"
#include "quarry/local/cuda/multiprocessors.h"
#include "quarry/local/cuda/plan.h"
#include "quarry/local/cuda/sorting/device.h"
#include "quarry/local/memory/scratch.h"

namespace quarry::local::cuda {
namespace {

constexpr int64_t kRecordBytes = kAllocationAlignment;
constexpr int64_t kSharedSumBytes = 32 << 10;                       // kSharedSumBytes in kernel/indexing.cuh
int64_t shared_sum_blocks() { return 6 * multiprocessor_count(); }  // that many are on a device at once

const char* mode_name(IndexMode mode) {
  switch (mode) {
    case IndexMode::raise:
      return "raise";
    case IndexMode::wrap:
      return "wrap";
    case IndexMode::clip:
      return "clip";
    case IndexMode::unchecked:
      return "unchecked";
  }
  return "";
}

const char* kind_name(ElementKernel::Kind kind) {
  switch (kind) {
    case ElementKernel::Kind::gather:
      return "gather";
    case ElementKernel::Kind::gather_lines:
      return "gather_lines";
    case ElementKernel::Kind::scatter:
      return "scatter";
    case ElementKernel::Kind::claim:
      return "claim";
    case ElementKernel::Kind::check:
      return "check";
    case ElementKernel::Kind::update:
      return "update";
    case ElementKernel::Kind::update_shared:
      return "update_shared";
    case ElementKernel::Kind::update_keys:
      return "update_keys";
    case ElementKernel::Kind::update_in_order:
      return "update_in_order";
  }
  return "";
}

const char* word_name(int width) {
  switch (width) {
    case 1:
      return "uint8_t";
    case 2:
      return "uint16_t";
    case 4:
      return "uint32_t";
    case 8:
      return "uint2";
    default:
      QUARRY_CHECK(width == 16);
      return "uint4";
  }
}

// ---- Operations on one element ----

// The last operation of an update, less the cast of its result.
const Value& operation_of(const Program& program) {
  const Value* value = &program.values()[static_cast<size_t>(program.outputs()[0])];
  while (value->kind == Value::Kind::op && value->op == "cast"_op)
    value = &program.values()[static_cast<size_t>(value->args[0])];
  return *value;
}

bool is_one_of(Op op, std::initializer_list<Op> ops) { return std::find(ops.begin(), ops.end(), op) != ops.end(); }

// Whether several operations on one element may come in any order. What the cast to the element's dtype makes of every
// result must not depend on the order either: integers wrap around and floats round, but an integer cuts off a float.
bool any_order(const Program& program) {
  const Value& operation = operation_of(program);
  const DType element = program.input_dtype(0);
  const bool extremes = is_one_of(operation.op, {"maximum"_op, "minimum"_op, "fmax"_op, "fmin"_op});
  if (is_one_of(operation.op, {"logical_or"_op, "logical_and"_op, "logical_xor"_op})) return true;
  if (!extremes && !is_one_of(operation.op, {"add"_op, "subtract"_op, "multiply"_op, "bitwise_and"_op, "bitwise_or"_op,
                                             "bitwise_xor"_op}))
    return false;
  if (operation.dtype == element || is_complex(element)) return true;
  if (is_float(element)) return !is_complex(operation.dtype);
  return is_integer(element) && is_integer(operation.dtype) && !extremes;
}

// The element's dtype, the operand's and the loop's are one: nothing but the operation happens.
bool plain_operation(const Program& program) {
  const Value& value = operation_of(program);
  const DType dtype = program.input_dtype(0);
  return program.inputs() == 2 && program.input_dtype(1) == dtype && value.loop == dtype &&
         program.values().size() == 3;
}

bool has_native_add(DType dtype) {
  switch (dtype) {
    case DType::int32:
    case DType::uint32:
    case DType::int64:
    case DType::uint64:
    case DType::float32:
    case DType::float64:
    case DType::complex64:
    case DType::complex128:
      return true;
    case DType::bool_:
    case DType::int8:
    case DType::int16:
    case DType::uint8:
    case DType::uint16:
    case DType::float16:
    case DType::bfloat16:
      return false;
  }
  return false;
}

bool adds_natively(const Program& program) {
  const Op op = operation_of(program).op;
  return (op == "add"_op || op == "subtract"_op) && plain_operation(program) && has_native_add(program.input_dtype(0));
}

// Whether updates are made by atomic instructions, in any order.
bool is_atomic(const Program& program) {
  if (program.inputs() != 2) return false;
  if (adds_natively(program)) return true;
  return any_order(program) && itemsize(program.input_dtype(0)) <= 8;
}

// distinct: no element is updated twice.
std::string update_source(const Program& program, bool distinct) {
  const char* const element = type_name(program.input_dtype(0));
  const bool unary = program.inputs() == 1;
  std::string text = "struct Update {\n" + make_function(program, "apply");
  const std::string value =
      unary ? "" : fmt::format(", *reinterpret_cast<const {}*>(value)", type_name(program.input_dtype(1)));
  text += fmt::format(
      "QUARRY_FN void plain(int64_t element, int64_t value) {{\n"
      "  auto* e = reinterpret_cast<{}*>(element);\n  *e = apply(*e{});\n}}\n",
      element, value);
  // A unary operation has a value that it does not read.
  text += fmt::format(
      "using Element = {0};\nusing Value = {1};\n"
      "QUARRY_FN Element step(Element element, {2}) {{ return apply(element{3}); }}\n",
      element, unary ? "char" : type_name(program.input_dtype(1)), unary ? "Value" : "Value value",
      unary ? "" : ", value");
  text += "QUARRY_FN void once(int64_t element, int64_t value) {\n";
  if (distinct) {
    text += "  plain(element, value);\n";
  } else if (adds_natively(program)) {
    const bool negative = operation_of(program).op == "subtract"_op;
    text += fmt::format("  add(reinterpret_cast<{0}*>(element), value);\n}}\n", element);
    text += fmt::format("QUARRY_FN void add({0}* element, int64_t value) {{\n", element);
    text += fmt::format("  const {0} v = *reinterpret_cast<const {0}*>(value);\n", element);
    text += fmt::format("  indexing::add_to(element, {});\n", negative ? "fn::negative(v)" : "v");
  } else if (is_atomic(program)) {
    text += fmt::format(
        "  const auto v = *reinterpret_cast<const {}*>(value);\n"
        "  indexing::exchange(reinterpret_cast<{}*>(element), [&](auto old) {{ return apply(old, v); }});\n",
        type_name(program.input_dtype(1)), element);
  }
  return text + "}\n};\n";
}

// ---- Launches ----

struct ElementLaunch {
  ElementKernel kernel;
  std::vector<int64_t> slots;
  int64_t points = 0;
};

// Strides of what tells points and elements apart, for winners.
struct WinnerStrides {
  Dims rank, key;                  // per axis
  std::vector<int64_t> index_key;  // per index
  int64_t points = 1, keys = 1;    // bounds of rank and key
};

WinnerStrides winner_strides(const IndexedElements& e) {
  WinnerStrides w{Dims::filled(e.shape.size(), 0), Dims::filled(e.shape.size(), 0), {}};
  for (int d = e.shape.size() - 1; d >= 0; --d) {
    const bool moves = std::any_of(e.indices.begin(), e.indices.end(),
                                   [&](const AxisIndex& index) { return index.positions.strides[d] != 0; });
    if (!moves) continue;
    w.rank[d] = w.points;
    w.points *= e.shape[d];
    if (e.array.strides[d] == 0) continue;
    w.key[d] = w.keys;
    w.keys *= e.shape[d];
  }
  for (const AxisIndex& index : e.indices) {
    w.index_key.push_back(w.keys);
    w.keys *= index.extent;
  }
  return w;
}

ElementLaunch make_launch(ElementKernel::Kind kind, const CompactElements& c, const WinnerStrides* winners) {
  const IndexedElements& e = c.elements;
  ElementLaunch launch;
  launch.points = element_count(e.shape);
  launch.kernel.kind = kind;
  launch.kernel.width = static_cast<int>(c.itemsize);
  launch.kernel.axes = e.shape.size();
  launch.kernel.indices = static_cast<int>(e.indices.size());
  launch.kernel.mode = e.mode;
  launch.kernel.wide = needs_wide(launch.points);
  std::vector<int64_t>& s = launch.slots;
  s = {launch.points, address(e.array.data), address(c.other.data), 0, 0, 0, 0, 0};
  for (int d = 0; d < e.shape.size(); ++d) {
    s.push_back(e.shape[d]);
    s.push_back(position_divider(e.shape[d], launch.kernel.wide));
    s.push_back(e.array.strides[d]);
    s.push_back(c.other.strides[d]);
    s.push_back(winners ? winners->rank[d] : 0);
    s.push_back(winners ? winners->key[d] : 0);
    for (const AxisIndex& index : e.indices) s.push_back(index.positions.strides[d]);
  }
  for (size_t k = 0; k < e.indices.size(); ++k) {
    const AxisIndex& index = e.indices[k];
    s.push_back(address(index.positions.data));
    s.push_back(index.extent);
    s.push_back(index.stride);
    s.push_back(winners ? winners->index_key[k] : 0);
  }
  return launch;
}

// How the points of an update in order are sorted by their elements.
struct UpdateOrder {
  int64_t points = 0;
  int64_t low = 0;                            // the least place of an element, bytes from the array's
  int shift = 0, bits = 0;                    // zeros that end all places; what is left of the greatest
  bool wide_key = false, wide_point = false;  // 64 bits, else 32

  // f.operator()<Key, Point>()
  template <class F>
  void with_types(F&& f) const {
    const auto with_key = [&]<class Key>() {
      return wide_point ? f.template operator()<Key, uint64_t>() : f.template operator()<Key, uint32_t>();
    };
    wide_key ? with_key.template operator()<uint64_t>() : with_key.template operator()<uint32_t>();
  }
};

UpdateOrder update_order(const CompactElements& c) {
  UpdateOrder order;
  uint64_t steps = 0;
  int64_t high = 0;
  const auto add = [&](int64_t extent, int64_t stride) {
    const int64_t last = std::max<int64_t>(extent - 1, 0) * stride;
    (last < 0 ? order.low : high) += last;
    steps |= static_cast<uint64_t>(stride);
  };
  for (int d = 0; d < c.elements.shape.size(); ++d) add(c.elements.shape[d], c.elements.array.strides[d]);
  for (const AxisIndex& index : c.elements.indices) add(index.extent, index.stride);
  order.points = element_count(c.elements.shape);
  order.shift = steps == 0 ? 0 : std::countr_zero(steps);
  order.bits = std::max<int>(1, std::bit_width(static_cast<uint64_t>(high - order.low) >> order.shift));
  order.wide_key = order.bits > 32;
  order.wide_point = order.points >= int64_t{1} << 32;
  return order;
}

// The memory of such a sort, one part after the other; twice the keys and the points, and CUB's.
struct UpdateOrderBytes {
  int64_t keys = 0, points = 0, sort = 0;
  int64_t all() const { return 2 * keys + 2 * points + sort; }
};
UpdateOrderBytes update_order_bytes(const UpdateOrder& order) {
  UpdateOrderBytes bytes;
  order.with_types([&]<class Key, class Point>() {
    bytes.keys = rounded_allocation(order.points * static_cast<int64_t>(sizeof(Key)));
    bytes.points = rounded_allocation(order.points * static_cast<int64_t>(sizeof(Point)));
    size_t sort = 0;
    Buffers<Key> keys{};
    Buffers<Point> points{};
    radix_sort_pairs<Key, Point>(nullptr, sort, keys, points, order.points, order.bits, nullptr);
    bytes.sort = rounded_allocation(static_cast<int64_t>(sort));
  });
  return bytes;
}

// Whether sums of updates are better gathered by blocks first: many to few elements. The target's positions are those
// of one index.
bool gathers_sums(const Program& program, const CompactElements& c) {
  constexpr int64_t kWorth = 32;                                  // updates of an element
  const int64_t fill = shared_sum_blocks() * kBlockThreads / 32;  // a warp's
  const IndexedElements& e = c.elements;
  if (!adds_natively(program) || e.indices.size() != 1) return false;
  if (std::any_of(e.array.strides.begin(), e.array.strides.end(), [](int64_t stride) { return stride != 0; }))
    return false;
  const int64_t extent = e.indices[0].extent;
  return extent * c.itemsize <= kSharedSumBytes && element_count(e.shape) >= kWorth * std::max(extent, fill);
}

// Whether blocks that take a line each find most of it in their cache: see gather_lines() in kernel/indexing.cuh.
constexpr int64_t kLineThreads = 512;  // four such blocks of a multiprocessor share its cache
bool gathers_lines(const CompactElements& c) {
  constexpr int64_t kSectorBytes = 32, kMostLineBytes = 56 << 10;
  const IndexedElements& e = c.elements;
  if (e.shape.size() != 2 || e.indices.size() != 1) return false;
  const AxisIndex& index = e.indices[0];
  return e.array.strides[1] == 0 && index.positions.strides[0] == 0 && index.positions.strides[1] != 0 &&
         std::abs(index.stride) < kSectorBytes && index.extent * std::abs(index.stride) <= kMostLineBytes &&
         e.shape[1] >= 2 * kLineThreads && e.shape[0] >= 4 * multiprocessor_count() && e.shape[0] < int64_t{1} << 31;
}

constexpr size_t kFirstAxisSlot = 8;
constexpr size_t kRecordSlot = 3, kWinnerSlot = 4, kKeySlot = 5, kFirstIndexSlot = 6, kHashSlot = 7;
constexpr size_t kOrderKeySlot = 4, kOrderPointSlot = 5, kLowSlot = 6, kShiftSlot = 7;  // of updates in order

void queue(ElementLaunch& launch, CudaStream& stream) {
  const Module& module = module_cache().get("indexing|" + launch.kernel.key(), stream.device().index,
                                            [&] { return launch.kernel.source(); });
  if (launch.kernel.kind == ElementKernel::Kind::gather_lines) {
    const int64_t lines = launch.slots[kFirstAxisSlot];
    launch_kernel(module.kernel(0), lines, 1, kLineThreads, launch.slots, stream);
    return;
  }
  int64_t blocks = ceil_divide(launch.points, kBlockThreads);
  if (launch.kernel.kind == ElementKernel::Kind::update_shared) blocks = std::min(blocks, shared_sum_blocks());
  launch_kernel(module.kernel(0), blocks, 1, kBlockThreads, launch.slots, stream);
}

// The positions of one index array alone, as elements to check.
CompactElements own_positions(const IndexedElements& elements, size_t k) {
  CompactElements c;
  c.elements.indices = {elements.indices[k]};
  c.elements.mode = IndexMode::raise;
  c.elements.shape = elements.shape;
  AxisIndex& index = c.elements.indices[0];
  for (int d = 0; d < elements.shape.size(); ++d)
    if (index.positions.strides[d] == 0) c.elements.shape[d] = 1;
  Dims* const strides[] = {&index.positions.strides};
  merge_axes(c.elements.shape, strides);
  c.elements.array.strides = c.other.strides = Dims::filled(c.elements.shape.size(), 0);
  return c;
}

// Throws for the bad position that a launch recorded, if any: `by_index` has one entry per index number.
void read_record(uint64_t value, const std::vector<const IndexedElements*>& by_index, CudaStream& stream) {
  if (value == ~uint64_t{0}) return;
  const auto number = static_cast<size_t>(value >> 58);
  auto point = static_cast<int64_t>(value & ((uint64_t{1} << 58) - 1));
  QUARRY_CHECK(number < by_index.size());
  const IndexedElements& e = *by_index[number];
  const AxisIndex& index = e.indices.size() == 1 ? e.indices[0] : e.indices[number];
  const char* place = static_cast<const char*>(index.positions.data);
  for (int d = e.shape.size() - 1; d >= 0; --d) {
    place += point % e.shape[d] * index.positions.strides[d];
    point /= e.shape[d];
  }
  throw_out_of_bounds(static_cast<int64_t>(stream.read_word(place)), index.axis, index.extent);
}

// Queues a check of every index array.
std::vector<CompactElements> check_positions(const IndexedElements& elements, char* record, CudaStream& stream) {
  std::vector<CompactElements> own;
  own.reserve(elements.indices.size());
  for (size_t k = 0; k < elements.indices.size(); ++k) {
    own.push_back(own_positions(elements, k));
    ElementLaunch launch = make_launch(ElementKernel::Kind::check, own.back(), nullptr);
    if (launch.points == 0) continue;
    launch.slots[kRecordSlot] = address(record);
    launch.slots[kFirstIndexSlot] = static_cast<int64_t>(k);
    queue(launch, stream);
  }
  return own;
}

void read_record(uint64_t value, const std::vector<CompactElements>& own, CudaStream& stream) {
  std::vector<const IndexedElements*> by_index;
  for (const CompactElements& one : own) by_index.push_back(&one.elements);
  read_record(value, by_index, stream);
}

// Whether each position serves many points, so that a check before costs little.
bool has_few_positions(const IndexedElements& elements) {
  constexpr int64_t kWorth = 64;
  int64_t positions = 0;
  for (size_t k = 0; k < elements.indices.size(); ++k)
    positions += element_count(own_positions(elements, k).elements.shape);
  return kWorth * positions <= element_count(elements.shape);
}

// Rows as the widest words that their addresses and steps allow; 16-byte elements that are aligned to 8 bytes as pairs.
void fit_width(CompactElements& c) {
  IndexedElements& e = c.elements;
  const auto fits = [&](int64_t bytes, int but) {
    uint64_t all = reinterpret_cast<uintptr_t>(e.array.data) | reinterpret_cast<uintptr_t>(c.other.data);
    for (int d = 0; d < e.shape.size(); ++d)
      if (d != but) all |= static_cast<uint64_t>(e.array.strides[d]) | static_cast<uint64_t>(c.other.strides[d]);
    for (const AxisIndex& index : e.indices) all |= static_cast<uint64_t>(index.stride);
    return all % static_cast<uint64_t>(bytes) == 0;
  };
  const auto split = [&](int64_t parts) {
    c.itemsize /= parts;
    e.shape.push_back(parts);
    e.array.strides.push_back(c.itemsize);
    c.other.strides.push_back(c.itemsize);
    for (AxisIndex& index : e.indices) index.positions.strides.push_back(0);
  };
  if (c.itemsize == 16 && !fits(16, -1)) split(2);
  const int last = e.shape.size() - 1;
  if (last < 0 || e.array.strides[last] != c.itemsize || c.other.strides[last] != c.itemsize) return;
  for (const AxisIndex& index : e.indices)
    if (index.positions.strides[last] != 0) return;
  while (c.itemsize < kVectorBytes && e.shape[last] % 2 == 0 && fits(c.itemsize * 2, last)) {
    c.itemsize *= 2;
    e.shape[last] /= 2;
  }
  e.array.strides[last] = c.other.strides[last] = c.itemsize;
  if (e.shape[last] != 1) return;
  e.shape.erase(last);
  e.array.strides.erase(last);
  c.other.strides.erase(last);
  for (AxisIndex& index : e.indices) index.positions.strides.erase(last);
}

// How the winners of repeated elements are kept. None where no element repeats or all values are one.
struct Winners {
  bool needed = false, hashed = false, wide = false;
  int64_t entries = 0;
  int64_t rank_bytes() const { return rounded_allocation(entries * (wide ? 8 : 4)); }
  int64_t key_bytes() const { return hashed ? rounded_allocation(entries * 8) : 0; }
  int64_t bytes() const { return needed ? rank_bytes() + key_bytes() : 0; }
};

Winners plan_winners(const CompactElements& c) {
  const IndexedElements& e = c.elements;
  if (e.distinct || e.indices.empty()) return {};
  bool same_values = true;
  for (int d = 0; d < e.shape.size(); ++d) {
    for (const AxisIndex& index : e.indices)
      if (index.positions.strides[d] != 0 && c.other.strides[d] != 0) same_values = false;
    // Points that move nothing in the array write the same element.
    if (e.array.strides[d] == 0 && c.other.strides[d] != 0) same_values = false;
  }
  if (same_values) return {};
  const WinnerStrides strides = winner_strides(e);
  Winners w;
  w.needed = true;
  w.wide = strides.points >= (int64_t{1} << 32) - 1;
  constexpr int64_t kSparse = 4;
  w.hashed = strides.keys / kSparse > strides.points;
  w.entries = w.hashed ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(strides.points) * 2)) : strides.keys;
  return w;
}

// The points that differ in their positions: one of every other axis.
CompactElements claiming_points(const CompactElements& c, const WinnerStrides& strides) {
  CompactElements result = c;
  for (int d = 0; d < result.elements.shape.size(); ++d)
    if (strides.rank[d] == 0) result.elements.shape[d] = 1;
  return result;
}

class CudaIndexing final : public Indexing {
 public:
  int64_t gather_scratch_bytes(const IndexedElements& from, const Operand&, int64_t) override {
    return from.mode == IndexMode::raise ? kRecordBytes : 0;
  }
  void gather(const IndexedElements& from, const Operand& to, int64_t itemsize, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    const bool empty = element_count(from.shape) == 0;
    if (from.mode != IndexMode::raise || from.indices.empty()) {
      if (!empty) run(ElementKernel::Kind::gather, from, to, itemsize, nullptr, stream);
      return;
    }
    // The host's word saves small operations two steps on the device; many bad positions would be slow to get there.
    constexpr int64_t kFewPoints = 1 << 16;
    if (!empty && element_count(from.shape) <= kFewPoints) {
      uint64_t* const word = stream.host_word();
      *word = ~uint64_t{0};
      const CompactElements c =
          run(ElementKernel::Kind::gather, from, to, itemsize, reinterpret_cast<char*>(word), stream);
      stream.synchronize();
      return read_record(*word, std::vector<const IndexedElements*>(c.elements.indices.size(), &c.elements), stream);
    }
    const Scratch record(kRecordBytes, context);
    if (!empty && has_few_positions(from)) {
      // The host waits for a check of the positions, not for the elements, which are on their way then.
      refuse_in_capture("synchronize()", "the host cannot wait for work that is only recorded");
      uint64_t* const word = stream.host_word();
      *word = ~uint64_t{0};
      const std::vector<CompactElements> own = check_positions(from, reinterpret_cast<char*>(word), stream);
      CudaEvent checked(stream.device().index, CudaEvent::Timing::off);
      stream.record(checked);
      run(ElementKernel::Kind::gather, from, to, itemsize, record.at(0), stream);  // nobody reads this record
      checked.synchronize();
      return read_record(*word, own, stream);
    }
    stream.fill(record.data(), 0xff, 8);
    if (empty) {
      const std::vector<CompactElements> own = check_positions(from, record.at(0), stream);
      return read_record(stream.read_word(record.at(0)), own, stream);
    }
    const CompactElements c = run(ElementKernel::Kind::gather, from, to, itemsize, record.at(0), stream);
    read_record(stream.read_word(record.at(0)),
                std::vector<const IndexedElements*>(c.elements.indices.size(), &c.elements), stream);
  }

  int64_t scatter_scratch_bytes(const IndexedElements& to, const Operand& from, int64_t itemsize) override {
    return (to.mode == IndexMode::raise ? kRecordBytes : 0) + plan_winners(compact(to, from, itemsize)).bytes();
  }
  void scatter(const IndexedElements& to, const Operand& from, int64_t itemsize, const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    const bool raise = to.mode == IndexMode::raise && !to.indices.empty(), empty = element_count(to.shape) == 0;
    std::optional<Scratch> record;
    std::vector<CompactElements> own;
    if (raise) {
      record.emplace(kRecordBytes, context);
      stream.fill(record->data(), 0xff, 8);
      own = check_positions(to, record->at(0), stream);
    }
    if (!empty) {
      CompactElements c = compact(to, from, itemsize);
      fit_width(c);
      const Winners winners = plan_winners(c);
      const WinnerStrides strides = winner_strides(c.elements);
      std::optional<Scratch> table;
      const auto prepare = [&](ElementLaunch& launch) {
        launch.slots[kRecordSlot] = raise ? address(record->data()) : 0;
        if (!winners.needed) return;
        launch.slots[kWinnerSlot] = address(table->at(0));
        launch.slots[kKeySlot] = winners.hashed ? address(table->at(winners.rank_bytes())) : 0;
        launch.slots[kHashSlot] = winners.entries - 1;
        launch.kernel.hashed = winners.hashed;
        launch.kernel.wide_rank = winners.wide;
      };
      if (winners.needed) {
        table.emplace(winners.bytes(), context);
        stream.fill(table->at(0), 0, winners.entries * (winners.wide ? 8 : 4));
        if (winners.hashed) stream.fill(table->at(winners.rank_bytes()), 0xff, winners.entries * 8);
        ElementLaunch claim = make_launch(ElementKernel::Kind::claim, claiming_points(c, strides), &strides);
        prepare(claim);
        queue(claim, stream);
      }
      ElementLaunch write = make_launch(ElementKernel::Kind::scatter, c, &strides);
      prepare(write);
      queue(write, stream);
    }
    if (raise) read_record(stream.read_word(record->at(0)), own, stream);
  }

  int64_t update_scratch_bytes(const IndexedElements& to, const Program& program, const Operand& value) override {
    const int64_t record = to.mode == IndexMode::raise ? kRecordBytes : 0;
    if (to.distinct || is_atomic(program) || element_count(to.shape) == 0) return record;
    return record + update_order_bytes(update_order(compact_update(to, program, value))).all();
  }
  void update(const IndexedElements& to, const Program& program, const Operand& value,
              const ExecContext& context) override {
    CudaStream& stream = cuda_stream(context.stream);
    const bool raise = to.mode == IndexMode::raise && !to.indices.empty();
    std::optional<Scratch> record;
    std::vector<CompactElements> own;
    if (raise) {
      record.emplace(kRecordBytes, context);
      stream.fill(record->data(), 0xff, 8);
      own = check_positions(to, record->at(0), stream);
    }
    if (element_count(to.shape) > 0) {
      const CompactElements c = compact_update(to, program, value);
      const auto launch_of = [&](ElementKernel::Kind kind) {
        ElementLaunch launch = make_launch(kind, c, nullptr);
        launch.kernel.distinct = to.distinct;
        launch.kernel.program = &program;
        launch.slots[kRecordSlot] = raise ? address(record->data()) : 0;
        return launch;
      };
      if (!to.distinct && gathers_sums(program, c)) {
        ElementLaunch launch = launch_of(ElementKernel::Kind::update_shared);
        launch.slots.back() = 1;  // the stride of the key of the only index
        queue(launch, stream);
      } else if (to.distinct || is_atomic(program)) {
        ElementLaunch launch = launch_of(ElementKernel::Kind::update);
        queue(launch, stream);
      } else {
        update_in_order(launch_of(ElementKernel::Kind::update_keys), launch_of(ElementKernel::Kind::update_in_order),
                        update_order(c), stream, context);
      }
    }
    if (raise) read_record(stream.read_word(record->at(0)), own, stream);
  }

  int64_t count_scratch_bytes(const Mask&) override { return 0; }
  void count(const Mask& mask, int64_t* offsets, const ExecContext& context) override {
    count_mask(mask, offsets, context);
  }
  void positions(const Mask& mask, int64_t* to, int64_t step, int64_t axis_step, const ExecContext& context) override {
    mask_positions(mask, to, step, axis_step, context);
  }
  void select(const Mask& mask, const Operand& from, void* to, int64_t itemsize, const ExecContext& context) override {
    select_masked(mask, from, to, itemsize, context);
  }
  void expand(const Mask& mask, const void* from, int64_t step, int64_t period, const Operand& to, int64_t itemsize,
              const ExecContext& context) override {
    expand_masked(mask, from, step, period, to, itemsize, context);
  }
  void copy_where(const Mask& mask, const Operand& from, const Operand& to, int64_t itemsize,
                  const ExecContext& context) override {
    cuda::copy_where(mask, from, to, itemsize, context);
  }

 private:
  static CompactElements compact_update(const IndexedElements& to, const Program& program, const Operand& value) {
    const Operand other = program.inputs() == 1 ? Operand{to.array.data, Dims::filled(to.shape.size(), 0)} : value;
    return compact(to, other, itemsize(program.input_dtype(0)));
  }
  // O(n) work beside a radix sort by the bits of places in the array.
  static void update_in_order(ElementLaunch keys, ElementLaunch fold, const UpdateOrder& order, CudaStream& stream,
                              const ExecContext& context) {
    use_device(stream.device().index);
    const UpdateOrderBytes bytes = update_order_bytes(order);
    const Scratch scratch(bytes.all(), context);
    order.with_types([&]<class Key, class Point>() {
      Buffers<Key> places{reinterpret_cast<Key*>(scratch.at(0)), reinterpret_cast<Key*>(scratch.at(bytes.keys))};
      char* const behind = scratch.at(2 * bytes.keys);
      Buffers<Point> points{reinterpret_cast<Point*>(behind), reinterpret_cast<Point*>(behind + bytes.points)};
      const auto prepare = [&](ElementLaunch& launch) {
        launch.kernel.wide_key = order.wide_key;
        launch.kernel.wide_rank = order.wide_point;
        launch.slots[kOrderKeySlot] = address(places.current);
        launch.slots[kOrderPointSlot] = address(points.current);
        launch.slots[kLowSlot] = order.low;
        launch.slots[kShiftSlot] = order.shift;
      };
      prepare(keys);
      queue(keys, stream);
      auto sort = static_cast<size_t>(bytes.sort);
      radix_sort_pairs<Key, Point>(behind + 2 * bytes.points, sort, places, points, order.points, order.bits,
                                   stream.handle());
      prepare(fold);
      queue(fold, stream);
    });
  }
  static CompactElements run(ElementKernel::Kind kind, const IndexedElements& elements, const Operand& other,
                             int64_t itemsize, char* record, CudaStream& stream) {
    CompactElements c = compact(elements, other, itemsize);
    fit_width(c);
    if (kind == ElementKernel::Kind::gather && gathers_lines(c)) kind = ElementKernel::Kind::gather_lines;
    ElementLaunch launch = make_launch(kind, c, nullptr);
    launch.slots[kRecordSlot] = address(record);
    queue(launch, stream);
    return c;
  }
};

}  // namespace

int64_t position_divider(int64_t extent, bool wide) {
  if (wide) return extent;
  const auto d = static_cast<uint64_t>(std::max<int64_t>(extent, 1));
  const int shift = std::bit_width(d - 1);
  const uint64_t magic = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1;
  return static_cast<int64_t>(static_cast<uint64_t>(shift) << 32 | magic);
}

std::string ElementKernel::key() const {
  return fmt::format("{} {} {} {} {} {}{}{}{}{} {}", kind_name(kind), width, axes, indices, mode_name(mode),
                     wide ? 'w' : 'n', wide_rank ? 'w' : 'n', wide_key ? 'w' : 'n', hashed ? 'h' : 'd',
                     distinct ? 'd' : 'r', program ? program->key() : "");
}

ModuleSource ElementKernel::source() const {
  const char* const index = wide ? "uint64_t" : "uint32_t";
  const char* const rank = wide_rank ? "uint64_t" : "uint32_t";
  const char* const key = wide_key ? "uint64_t" : "uint32_t";
  const char* const table = hashed ? "true" : "false";
  std::string arguments;
  std::string before;
  switch (kind) {
    case Kind::gather:
      arguments = fmt::format("{}, {}, {}, {}, {}", word_name(width), index, axes, indices, mode_name(mode));
      break;
    case Kind::gather_lines:
      arguments = fmt::format("{}, {}", word_name(width), mode_name(mode));
      break;
    case Kind::scatter:
      arguments = fmt::format("{}, {}, {}, {}, {}, {}, {}", word_name(width), rank, table, index, axes, indices,
                              mode_name(mode));
      break;
    case Kind::claim:
      arguments = fmt::format("{}, {}, {}, {}, {}, {}", rank, table, index, axes, indices, mode_name(mode));
      break;
    case Kind::check:
      arguments = fmt::format("{}, {}", index, axes);
      break;
    case Kind::update:
      before = update_source(*program, distinct);
      arguments = fmt::format("Update, {}, {}, {}, {}", index, axes, indices, mode_name(mode));
      break;
    case Kind::update_keys:
      arguments = fmt::format("{}, {}, {}, {}, {}, {}", key, rank, index, axes, indices, mode_name(mode));
      break;
    case Kind::update_in_order:
      before = update_source(*program, distinct);
      arguments = fmt::format("Update, {}, {}, {}, {}, {}", key, rank, index, axes, indices);
      break;
    case Kind::update_shared:
      before = update_source(*program, distinct);
      arguments =
          fmt::format("Update, {}, {}, {}, {}", type_name(program->input_dtype(0)), index, axes, mode_name(mode));
      break;
  }
  const int count = 8 + axes * (6 + indices) + 4 * indices;  // ElementSlots in kernel/indexing.cuh
  return {fmt::format(
              "{}namespace quarry::local::indexing {{\n{}using Params = Slots<{}>;\n"
              "extern \"C\" __global__ void run_elements(const __grid_constant__ Params p) {{ {}<{}>(p.s); }}\n}}\n",
              embedded_indexing, before, count, kind_name(kind), arguments),
          {"run_elements"}};
}

Indexing& cuda_indexing() {
  static auto* const instance = new CudaIndexing();
  return *instance;
}

}  // namespace quarry::local::cuda
