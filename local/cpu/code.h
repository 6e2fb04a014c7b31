// A Program lowered to the loops of one instruction-set level: what the tile interpreter steps through.
#pragma once

#include <cstdint>
#include <vector>

#include "quarry/local/base/detail.h"
#include "quarry/local/cpu/loops.h"
#include "quarry/local/program/program.h"

namespace quarry::local::cpu {

struct CodeValue {
  enum class Kind : uint8_t { input, constant, index, result } kind;
  DType dtype;
  int slot = -1;            // input: operand; index: of Code::indexes; constant: position in Program::constants()
  bool swapped = false;     // input
  bool contiguous = false;  // needed without gaps between the rows of a tile
  int buffer = -1;          // scratch tile that holds it, unless it is read or written in place
};

struct Instruction {
  MapLoop loop;  // null: bring the input or index `out` into the tile
  int nargs;
  int args[3];
  int out;
};

// Integers that are linear in the position: step by step, what there is times the constant `scale` (-1: none) plus the
// index along the axis.
struct CodeIndex {
  struct Step {
    int axis;
    int scale = -1;  // position in Program::constants()
  };
  std::vector<Step> steps;
};

struct CodeReduction {
  int loop;     // number of the loop in Loops
  DType dtype;  // of the loop
  int value;
  int position = -1;  // a value; one that is an index is brought into the tile only where it is needed
  int fields;
  DType wide[3];   // of the fields while reducing
  DType state[3];  // of the fields as stored
  int count = -1;  // the field that holds the number of elements (mean, var, std)
  Reduction reduction;
};

struct Code {
  std::vector<CodeValue> values;
  std::vector<Instruction> instructions;
  std::vector<int> outputs;  // values
  std::vector<CodeReduction> reductions;
  std::vector<CodeIndex> indexes;
  std::vector<int> constant_values;      // values
  std::vector<int64_t> buffer_itemsize;  // per scratch tile
  bool one_loop = false;                 // over inputs alone, or an input and the first element of a constant
};

// Throws TypeError for a reduction that has no loop.
Code lower(const Program& program, const Loops& loops);

}  // namespace quarry::local::cpu
