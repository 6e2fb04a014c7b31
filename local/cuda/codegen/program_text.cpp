#include "quarry/local/cuda/codegen/program_text.h"

#include "quarry/local/base/error.h"

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

void write_values(TextWriter& w, const Program& program, const std::vector<bool>& needed,
                  const std::function<std::string(const Value&)>& leaf,
                  const std::function<std::string(size_t)>& given) {
  for (size_t id = 0; id < program.values().size(); ++id) {
    if (!needed[id]) continue;
    const Value& value = program.values()[id];
    const std::string other = given && value.kind == Value::Kind::op ? given(id) : "";
    if (!other.empty()) {
      w.line("const {} v{} = {};", type_name(value.dtype), id, other);
      continue;
    }
    if (value.kind != Value::Kind::op) {
      w.line("const {} v{} = {};", type_name(value.dtype), id, leaf(value));
      continue;
    }
    if (value.op == "cast"_op) {
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

}  // namespace quarry::local::cuda
