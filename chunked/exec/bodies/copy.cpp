#include "quarry/chunked/exec/bodies/copy.h"

#include <fmt/format.h>

#include <algorithm>

#include "quarry/chunked/exec/bodies/operand.h"
#include "quarry/local/base/error.h"

namespace quarry::exec {

std::string CopyBody::name(int64_t index) const { return fmt::format("copy {}[{}]", label_, index); }

namespace {

local::Program copy_program(const CopyAtom& atom) {
  local::Program program;
  const local::ValueId value = program.input(atom.dtype, atom.swapped);
  program.output(atom.conjugate ? program.apply(local::Op::conjugate, {&value, 1}) : value);
  return program;
}

local::Launch copy_launch(const CopyAtom& atom, void* from, void* to) {
  local::Launch launch;
  launch.shape = atom.count;
  launch.inputs.push_back({static_cast<std::byte*>(from) + atom.access.offset, atom.source_strides});
  launch.outputs.push_back({static_cast<std::byte*>(to) + atom.offset, atom.strides});
  return launch;
}

}  // namespace

int64_t CopyBody::scratch_bytes(const std::vector<CopyAtom>& atoms, const local::Device& device) {
  int64_t bytes = 0;
  for (const CopyAtom& atom : atoms)
    bytes = std::max(bytes, run_scratch_bytes(device, copy_program(atom), copy_launch(atom, nullptr, nullptr)));
  return bytes;
}

void CopyBody::run(scheduler::TaskRun& run) {
  const std::vector<CopyAtom> atoms = atoms_(run.index);
  QUARRY_CHECK(atoms.size() == run.inputs.size());
  local::Engine& engine = local::engine(run.context.device);
  for (size_t i = 0; i < atoms.size(); ++i) {
    engine.run(copy_program(atoms[i]), copy_launch(atoms[i], run.inputs[i].data, run.outputs[0].data), run.context);
  }
}

}  // namespace quarry::exec
